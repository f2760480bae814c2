//! Redis with several servers: a cluster whose slots move, and a primary that a replica replaces.

use std::time::Duration;

use redis::Value;
use testredis::{Builder, Cluster, Fsync, Sentinels, Server};
use tokio::time::{Instant, sleep};

use super::super::{Call, Confirmation, RedisConnectOptions, RedisConnection};
use super::{Notices, call, open, wait_until_waiting};
use crate::backend::redis::scripts;

/// How many keys are spread over the cluster.
const KEYS: usize = 60;

async fn write(connection: &RedisConnection, round: usize) {
    let sets = (0..KEYS).map(|number| call(&format!("SET {{{number}}}:key {round}:{number}")));
    assert_eq!(connection.all::<Value>(sets.collect()).await.unwrap(), vec![Value::Okay; KEYS]);
    let gets = (0..KEYS).map(|number| call(&format!("GET {{{number}}}:key")));
    let values: Vec<String> = connection.all(gets.collect()).await.unwrap();
    for (number, value) in values.iter().enumerate() {
        assert_eq!(*value, format!("{round}:{number}"));
    }
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn cluster_is_recognised_and_all_its_nodes_are_queried_concurrently() {
    let cluster = Cluster::start();
    let connection = open(&cluster.url()).await;
    assert_eq!(connection.servers().len(), 3);
    write(&connection, 1).await;
    assert!(cluster.nodes.iter().all(|node| node.query::<u64>("DBSIZE") > 5), "the keys are spread");
    // A node without the scripts gets them.
    cluster.nodes[1].query::<String>("SCRIPT FLUSH");
    let calls = (0..KEYS).map(|number| Call::script(&scripts::LIST_MEMBERS, &format!("{{{number}}}:")));
    assert_eq!(connection.all::<Value>(calls.collect()).await.unwrap().len(), KEYS);
    let seeds: Vec<String> = cluster.nodes.iter().map(|node| node.address().to_string()).collect();
    // The first seed may be down.
    cluster.nodes[0].pause();
    let seeds = format!("redis://{}/", seeds.join(",")).parse().unwrap();
    let options =
        RedisConnectOptions { connect_timeout: Duration::from_secs(20), ..Notices::default().options() };
    let several = RedisConnection::open(&seeds, options);
    let resume = async {
        sleep(Duration::from_millis(2_500)).await;
        cluster.nodes[0].resume();
    };
    let (several, ()) = tokio::join!(several, resume);
    write(&several.unwrap(), 2).await;
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn commands_wait_for_a_slot_that_moves_and_follow_it() {
    let cluster = Cluster::start();
    let connection = open(&cluster.url()).await;
    let slot: u64 = cluster.nodes[0].query("CLUSTER KEYSLOT {7}:key");
    let ids: Vec<String> = cluster.nodes.iter().map(|node| node.query("CLUSTER MYID")).collect();
    let from = cluster.nodes.iter().position(|node| node.try_query(&["GET", "{7}:key"]).is_ok_and(is_nil));
    let from = from.expect("one of them has the slot");
    let to = (from + 1) % 3;
    let set = |node: usize, how: &str, other: usize| {
        cluster.nodes[node].query::<String>(&format!("CLUSTER SETSLOT {slot} {how} {}", ids[other]))
    };
    set(to, "IMPORTING", from);
    set(from, "MIGRATING", to);
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { connection.one::<String>(call("SET {7}:key value")).await }
    });
    wait_until_waiting(&connection).await;
    assert!(!writing.is_finished(), "no command is sent to a slot that moves");
    set(to, "NODE", to);
    (0..3).filter(|node| *node != to).for_each(|node| drop(set(node, "NODE", to)));
    assert_eq!(writing.await.unwrap().unwrap(), "OK");
    assert_eq!(cluster.nodes[to].query::<String>("GET {7}:key"), "value");
}

fn is_nil(reply: testredis::Reply) -> bool {
    reply == testredis::Reply::Null
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn commands_wait_for_a_node_that_is_down() {
    let cluster = Cluster::start_with(Server::builder().append_only(Fsync::EverySecond));
    let connection = open(&cluster.url()).await;
    write(&connection, 1).await;
    cluster.nodes[2].kill();
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { write(&connection, 2).await }
    });
    wait_until_waiting(&connection).await;
    assert!(!writing.is_finished());
    cluster.nodes[2].restart();
    writing.await.unwrap();
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn connection_follows_a_replica_that_replaces_its_primary() {
    let cluster = Cluster::start_with(quick_to_replicate());
    let replica = quick_to_replicate().cluster().start();
    let primary = &cluster.nodes[0];
    let id: String = primary.query("CLUSTER MYID");
    let bus: Vec<String> = primary.query("CONFIG GET cluster-port");
    replica.query::<String>(&format!("CLUSTER MEET 127.0.0.1 {} {}", primary.port(), bus[1]));
    until("it is a replica", || {
        replica.try_query(&["CLUSTER", "REPLICATE", &id]).is_ok_and(|reply| reply == ok())
    })
    .await;
    until("the replica has everything", || replica.info("master_link_status") == "up").await;
    // A replica that does not know the slots of its primary cannot replace it.
    let knows_all = |node: &Server| {
        let known: String = node.query("CLUSTER INFO");
        ["cluster_state:ok", "cluster_slots_assigned:16384", "cluster_known_nodes:4"]
            .iter()
            .all(|line| known.lines().any(|said| said == *line))
    };
    until("all know each other", || cluster.nodes.iter().chain([&replica]).all(knows_all)).await;
    let connection = open(&cluster.url()).await;
    write(&connection, 1).await;
    // Both run; only their roles change.
    replica.query::<String>("CLUSTER FAILOVER TAKEOVER");
    until("the primary is a replica", || primary.info("role") == "slave").await;
    write(&connection, 2).await;
    // The new primary fails, and the old one replaces it.
    until("the old primary has everything", || primary.info("master_link_status") == "up").await;
    replica.kill();
    primary.query::<String>("CLUSTER FAILOVER TAKEOVER");
    write(&connection, 3).await;
}

async fn until(what: &str, is_true: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// By default, a primary waits some seconds for more replicas.
fn quick_to_replicate() -> Builder {
    Server::builder().setting("repl-diskless-sync-delay", "0")
}

fn ok() -> testredis::Reply {
    testredis::Reply::Bytes("OK".into())
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn sentinel_names_the_primary_before_and_after_a_failover() {
    let sentinels = Sentinels::start(1);
    let notices = Notices::default();
    // The first Sentinel of the address may be down.
    let url = format!("redis+sentinel://127.0.0.1:1,{}/{}", sentinels.addresses()[0], sentinels.name());
    let connection = RedisConnection::open(&url.parse().unwrap(), notices.options()).await.unwrap();
    assert_eq!(connection.servers()[0].port, sentinels.primary().port());
    let confirmation = Confirmation { replicas: 1, timeout: Duration::from_secs(5) };
    connection.confirmed::<()>(call("SET key value"), confirmation).await.unwrap();
    let before = sentinels.primary().port();
    sentinels.primary().kill();
    let commands = vec![call("GET key"), call("SET other value")];
    let replies: Vec<String> = connection.all(commands).await.unwrap();
    assert_eq!(replies, ["value", "OK"], "writes that a replica confirmed survive the primary");
    assert_ne!(sentinels.primary().port(), before);
    notices.wait_for("Redis at redis+sentinel://127.0.0.1:1,127.0.0.1:").await;
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn replaced_primary_that_still_replies_is_not_used() {
    let sentinels = Sentinels::start(1);
    let url = format!("redis+sentinel://{}/{}", sentinels.addresses()[0], sentinels.name());
    let connection = open(&url).await;
    let before = sentinels.primary();
    sentinels.manual_failover();
    until("the Sentinel names the other", || sentinels.primary().port() != before.port()).await;
    let start = Instant::now();
    while sentinels
        .primary()
        .try_query(&["EXISTS", "key"])
        .is_ok_and(|reply| reply != testredis::Reply::Number(1))
    {
        connection.one::<()>(call("SET key value")).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(60), "it is still used");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn replies_of_a_replaced_primary_are_discarded() {
    let sentinels = Sentinels::start(1);
    let url = format!("redis+sentinel://{}/{}", sentinels.addresses()[0], sentinels.name());
    let connection = open(&url).await;
    connection.one::<()>(call("SET key before")).await.unwrap();
    let before = sentinels.primary();
    before.pause();
    sentinels.manual_failover();
    // The connection does not know of the new primary yet.
    let sent = Instant::now();
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { connection.one::<String>(call("SET key after")).await }
    });
    let new_port = sentinels.servers.iter().map(Server::port).find(|port| *port != before.port()).unwrap();
    let knows = |port: u16| connection.servers().iter().any(|known| known.port == port);
    assert!(knows(before.port()));
    until("the connection knows the new primary", || knows(new_port)).await;
    before.resume();
    assert_eq!(writing.await.unwrap().unwrap(), "OK");
    // After five seconds it would have given up waiting for the old primary, whatever that replies.
    assert!(sent.elapsed() < Duration::from_secs(5), "the machine is too slow for this test");
    assert_eq!(sentinels.primary().query::<String>("GET key"), "after");
}

#[tokio::test]
#[ignore = "needs redis-server: run by make test"]
async fn missing_replicas_are_reported_and_not_waited_for() {
    let primary = quick_to_replicate().start();
    let replica = Server::builder().replica_of(&primary).start();
    until("the replica has everything", || replica.info("master_link_status") == "up").await;
    let notices = Notices::default();
    let connection = RedisConnection::open(&primary.url().parse().unwrap(), notices.options()).await.unwrap();
    let set = async |connection: &RedisConnection, replicas, timeout| {
        let confirmation = Confirmation { replicas, timeout };
        connection.confirmed::<()>(call("SET key value"), confirmation).await.unwrap();
    };
    for replicas in [0, 1] {
        set(&connection, replicas, Duration::from_secs(5)).await;
    }
    assert!(notices.all().is_empty(), "{:?}", notices.all());
    for _ in 0..2 {
        set(&connection, 2, Duration::from_millis(50)).await;
    }
    assert_eq!(notices.all().len(), 1, "it is reported once: {:?}", notices.all());
    assert!(notices.all()[0].starts_with("1 of 2 replicas of Redis at redis://"), "{:?}", notices.all());
    // Commands do not wait for the confirmation of one that was sent on another connection.
    let confirming = async {
        set(&connection.another(), 2, Duration::from_secs(100)).await;
        Instant::now()
    };
    let plain = async {
        sleep(Duration::from_millis(50)).await;
        connection.one::<()>(call("SET key value")).await.unwrap();
        Instant::now()
    };
    let (confirmed, replied) = tokio::join!(confirming, plain);
    assert!(replied < confirmed);
}
