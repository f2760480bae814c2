//! Redis of several servers: a cluster, whose parts may move, and a primary that another takes the place of.

use std::time::Duration;

use redis::Value;
use testredis::{Builder, Cluster, Fsync, Sentinels, Server};
use tokio::time::{Instant, sleep};

use super::super::{Connection, Kind, RedisConnectOptions};
use super::{Told, call, open};
use crate::backend::redis::scripts;

/// Keys all over the cluster.
const KEYS: usize = 60;

async fn write(connection: &Connection, round: usize) {
    let sets = (0..KEYS).map(|number| call(&format!("SET {{{number}}}:key {round}:{number}")));
    assert_eq!(connection.all(sets.collect()).await.unwrap(), vec![Value::Okay; KEYS]);
    let gets = (0..KEYS).map(|number| call(&format!("GET {{{number}}}:key")));
    let values: Vec<String> = connection.each(gets.collect()).await.unwrap();
    for (number, value) in values.iter().enumerate() {
        assert_eq!(*value, format!("{round}:{number}"));
    }
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn a_cluster_is_recognised_and_all_of_its_nodes_are_asked_at_the_same_time() {
    let cluster = Cluster::start();
    let connection = open(&cluster.url()).await;
    assert_eq!(connection.server().await.unwrap().kind, Kind::Cluster);
    let before = connection.traffic().0;
    write(&connection, 1).await;
    assert_eq!(connection.traffic().0 - before, 2 * 3, "one batch for each node");
    assert!(cluster.nodes.iter().all(|node| node.ask::<u64>("DBSIZE") > 5), "the keys are spread");
    // One that was not told of the scripts, or forgot them, is.
    cluster.nodes[1].ask::<String>("SCRIPT FLUSH");
    let looks = (0..KEYS).map(|number| {
        let mut look = connection.script(&scripts::STORED, &format!("{{{number}}}:"), format!("{number}"), 0);
        look.arg(1_000);
        look
    });
    assert_eq!(connection.all(looks.collect()).await.unwrap().len(), KEYS);
    let seeds: Vec<String> = cluster.nodes.iter().map(|node| node.address().to_string()).collect();
    // The first seed need not be there.
    cluster.nodes[0].pause();
    let seeds = format!("redis://{}/", seeds.join(",")).parse().unwrap();
    let manner = RedisConnectOptions { patience: Duration::from_secs(20), ..Told::default().manner() };
    let several = Connection::open(&seeds, manner);
    let comes_back = async {
        sleep(Duration::from_millis(2_500)).await;
        cluster.nodes[0].go_on();
    };
    let (several, ()) = tokio::join!(several, comes_back);
    write(&several.unwrap(), 2).await;
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn a_slot_that_moves_is_waited_for_and_found_where_it_went() {
    let cluster = Cluster::start();
    let connection = open(&cluster.url()).await;
    let slot: u64 = cluster.nodes[0].ask("CLUSTER KEYSLOT {7}:key");
    let ids: Vec<String> = cluster.nodes.iter().map(|node| node.ask("CLUSTER MYID")).collect();
    let from = cluster.nodes.iter().position(|node| node.try_ask(&["GET", "{7}:key"]).is_ok_and(is_nothing));
    let from = from.expect("one of them has it");
    let to = (from + 1) % 3;
    let set = |node: usize, how: &str, other: usize| {
        cluster.nodes[node].ask::<String>(&format!("CLUSTER SETSLOT {slot} {how} {}", ids[other]))
    };
    set(to, "IMPORTING", from);
    set(from, "MIGRATING", to);
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { connection.one::<String>(call("SET {7}:key value")).await }
    });
    sleep(Duration::from_millis(500)).await;
    assert!(!writing.is_finished(), "nothing is asked of a slot on its way");
    set(to, "NODE", to);
    (0..3).filter(|node| *node != to).for_each(|node| drop(set(node, "NODE", to)));
    assert_eq!(writing.await.unwrap().unwrap(), "OK");
    assert_eq!(cluster.nodes[to].ask::<String>("GET {7}:key"), "value");
}

fn is_nothing(reply: testredis::Reply) -> bool {
    reply == testredis::Reply::Nothing
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn a_node_that_is_gone_is_waited_for_while_the_others_are_asked() {
    let cluster = Cluster::of(Server::builder().append_only(Fsync::EverySecond));
    let connection = open(&cluster.url()).await;
    write(&connection, 1).await;
    cluster.nodes[2].kill();
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { write(&connection, 2).await }
    });
    sleep(Duration::from_millis(500)).await;
    assert!(!writing.is_finished());
    cluster.nodes[2].restart();
    writing.await.unwrap();
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn a_replica_that_takes_the_place_of_its_primary_is_found() {
    let cluster = Cluster::of(quick_to_replicate());
    let replica = quick_to_replicate().cluster().start();
    let primary = &cluster.nodes[0];
    let id: String = primary.ask("CLUSTER MYID");
    let bus: Vec<String> = primary.ask("CONFIG GET cluster-port");
    replica.ask::<String>(&format!("CLUSTER MEET 127.0.0.1 {} {}", primary.port(), bus[1]));
    until("it is a replica", || {
        replica.try_ask(&["CLUSTER", "REPLICATE", &id]).is_ok_and(|reply| reply == ok())
    })
    .await;
    until("the replica has everything", || replica.info("master_link_status") == "up").await;
    // Who does not know what its primary has cannot take it over.
    let knows_all = |node: &Server| {
        let known: String = node.ask("CLUSTER INFO");
        ["cluster_state:ok", "cluster_slots_assigned:16384", "cluster_known_nodes:4"]
            .iter()
            .all(|line| known.lines().any(|said| said == *line))
    };
    until("all know each other", || cluster.nodes.iter().chain([&replica]).all(knows_all)).await;
    let connection = open(&cluster.url()).await;
    write(&connection, 1).await;
    // Both are there, and only who is the primary changes.
    replica.ask::<String>("CLUSTER FAILOVER TAKEOVER");
    until("the primary is a replica", || primary.info("role") == "slave").await;
    write(&connection, 2).await;
    // The new primary is gone, and the old one takes its place again.
    until("the old primary has everything", || primary.info("master_link_status") == "up").await;
    replica.kill();
    primary.ask::<String>("CLUSTER FAILOVER TAKEOVER");
    write(&connection, 3).await;
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain until {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Otherwise a primary waits some seconds for more replicas to come.
fn quick_to_replicate() -> Builder {
    Server::builder().setting("repl-diskless-sync-delay", "0")
}

fn ok() -> testredis::Reply {
    testredis::Reply::Bytes("OK".into())
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn the_primary_is_found_by_sentinel_before_and_after_a_failover() {
    let sentinels = Sentinels::start(1);
    let told = Told::default();
    // The first Sentinel of the address need not be there.
    let url = format!("redis+sentinel://127.0.0.1:1,{}/{}", sentinels.addresses()[0], sentinels.name());
    let connection = Connection::open(&url.parse().unwrap(), told.manner()).await.unwrap();
    assert_eq!(connection.server().await.unwrap().kind, Kind::Sentinel);
    connection.all_confirmed(vec![call("SET key value")], 1, Duration::from_secs(5)).await.unwrap();
    let before = sentinels.primary().port();
    sentinels.primary().kill();
    let asked = vec![call("GET key"), call("SET other value")];
    let answers: Vec<String> = connection.each(asked).await.unwrap();
    assert_eq!(answers, ["value", "OK"], "what a replica confirmed is not lost with the primary");
    assert_ne!(sentinels.primary().port(), before);
    told.wait_for("Redis at redis+sentinel://127.0.0.1:1,127.0.0.1:").await;
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn a_primary_that_was_replaced_is_left_also_if_it_goes_on_answering() {
    let sentinels = Sentinels::start(1);
    let url = format!("redis+sentinel://{}/{}", sentinels.addresses()[0], sentinels.name());
    let connection = open(&url).await;
    let before = sentinels.primary();
    sentinels.replace();
    until("the other is named", || sentinels.primary().port() != before.port()).await;
    let named = Instant::now();
    while sentinels
        .primary()
        .try_ask(&["EXISTS", "key"])
        .is_ok_and(|reply| reply != testredis::Reply::Number(1))
    {
        connection.all(vec![call("SET key value")]).await.unwrap();
        assert!(named.elapsed() < Duration::from_secs(5), "it is still asked");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn what_a_primary_answers_after_it_was_replaced_is_not_believed() {
    let sentinels = Sentinels::start(1);
    let url = format!("redis+sentinel://{}/{}", sentinels.addresses()[0], sentinels.name());
    let connection = open(&url).await;
    connection.all(vec![call("SET key before")]).await.unwrap();
    let before = sentinels.primary();
    before.pause();
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { connection.one::<String>(call("SET key after")).await }
    });
    until("the other is named", || sentinels.primary().port() != before.port()).await;
    // Long enough for the connection to hear of it, and too short for it to give up waiting for the answer.
    sleep(Duration::from_millis(1_300)).await;
    before.go_on();
    assert_eq!(writing.await.unwrap().unwrap(), "OK");
    assert_eq!(sentinels.primary().ask::<String>("GET key"), "after");
}

#[tokio::test]
#[ignore = "needs redis-server; make test installs it"]
async fn too_few_replicas_are_told_of_and_not_waited_for() {
    let primary = quick_to_replicate().start();
    let replica = Server::builder().replica_of(&primary).start();
    until("the replica has everything", || replica.info("master_link_status") == "up").await;
    let told = Told::default();
    let connection = Connection::open(&primary.url().parse().unwrap(), told.manner()).await.unwrap();
    let set = || vec![call("SET key value"), call("GET key")];
    for replicas in [0, 1] {
        let answers = connection.all_confirmed(set(), replicas, Duration::from_secs(5)).await.unwrap();
        assert_eq!(answers.len(), 2);
    }
    assert!(told.all().is_empty(), "{:?}", told.all());
    for _ in 0..2 {
        connection.all_confirmed(set(), 2, Duration::from_millis(50)).await.unwrap();
    }
    assert_eq!(told.all().len(), 1, "it is told once: {:?}", told.all());
    assert!(told.all()[0].starts_with("1 of 2 replicas of Redis at redis://"), "{:?}", told.all());
    // Who wants no confirmation does not wait for that of others.
    let confirming = connection.all_confirmed(set(), 2, Duration::from_secs(3));
    let (begun, plain) = (Instant::now(), async {
        sleep(Duration::from_millis(50)).await;
        connection.all(set()).await.unwrap();
        Instant::now()
    });
    let (_, answered) = tokio::join!(confirming, plain);
    assert!(answered - begun < Duration::from_secs(1));
}
