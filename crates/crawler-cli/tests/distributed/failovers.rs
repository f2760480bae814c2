//! Redis with several servers, one of which fails during a crawl: a primary that a replica replaces, and a node of a
//! cluster.
//!
//! Replication is asynchronous, so a failover can lose the most recent writes. The crawler counts a page only once a
//! replica has its links. So no page is missed, and lost work is done again.

use std::thread::sleep;
use std::time::{Duration, Instant};

use testredis::{Cluster, Fsync, Sentinels, Server};

use super::fixture::Fixture;
use super::messages::{CRAWL_LOST, DECLARED_DEAD, REDIS_REPLIES_AGAIN, RESTARTED, WAITING_FOR_REDIS};
use super::process::{HANG_TIMEOUT, Process, wait_for};

/// A server that runs no script for this long has no clients: each process sends a heartbeat several times a second.
const IDLE_TIME: Duration = Duration::from_secs(2);

/// A web and the binary, with Redis at this address.
fn fixture_at(redis_url: String, hosts: usize, pages: usize) -> Fixture {
    Fixture { redis_url, ..Fixture::slow(hosts, pages) }
}

/// A primary, a replica in sync with it, a Sentinel, and a web.
fn fixture_with_sentinel() -> (Sentinels, Fixture) {
    let sentinels = Sentinels::start(1);
    // A replica that was never in sync cannot be promoted.
    wait_for("the replica", || sentinels.servers[1].info("master_link_status") == "up");
    let redis_url = format!("redis+sentinel://{}/{}", sentinels.addresses()[0], sentinels.name());
    (sentinels, fixture_at(redis_url, 12, 30))
}

/// How many scripts a server has run for its clients. A replica applies the writes of its primary, not the scripts.
fn scripts_run(server: &Server) -> u64 {
    let stats: String = server.query("INFO commandstats");
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// How often a server was asked to wait for its replicas.
fn waits_for_replicas(server: &Server) -> u64 {
    let stats: String = server.query("INFO commandstats");
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// Waits until a server runs no more scripts. Returns how many it has run.
fn wait_until_unused(server: &Server) -> u64 {
    let start = Instant::now();
    loop {
        let before = scripts_run(server);
        sleep(IDLE_TIME);
        if scripts_run(server) == before {
            return before;
        }
        assert!(start.elapsed() < HANG_TIMEOUT, "port {} is still in use", server.port());
    }
}

/// Runs a crawl during which something happens to the primary, and asserts that it is complete and that it does not use
/// the old primary any more. Returns the output.
fn crawl_survives(fail: impl FnOnce(&Sentinels), more: &[&str]) -> String {
    let (sentinels, fixture) = fixture_with_sentinel();
    let options = [&["--replicas", "1", "--dead-after", "3s"], more].concat();
    let mut controller = fixture.start_crawl(3, &options);
    // On a busy machine the Sentinel may have replaced the primary already: then wait until the other is in sync.
    wait_for("a replica in sync", || {
        let primary = sentinels.primary().port();
        let mut others = sentinels.servers.iter().filter(|server| server.port() != primary);
        others.all(|replica| {
            replica.info("role") == "slave"
                && replica.info("master_link_status") == "up"
                && replica.query_args::<i64>(&["EXISTS", "crawler:{crawl:members}:crawl"]) == 1
        })
    });
    let old_primary = sentinels.primary();
    fail(&sentinels);
    let unused = old_primary.pid().map(|_| wait_until_unused(old_primary));
    assert!(controller.is_running(), "the crawl ended before the failover: {}", controller.output());
    let output = controller.wait_for_success();
    if let Some(before) = unused {
        assert_eq!(scripts_run(old_primary), before, "the old primary was used again");
    }
    fixture.check();
    output
}

fn crawl_survives_failover(more: &[&str]) {
    let output = crawl_survives(Sentinels::fail_over, more);
    assert!(output.contains(&format!("{WAITING_FOR_REDIS}redis+sentinel://")), "{output}");
    assert!(output.contains(REDIS_REPLIES_AGAIN), "{output}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_is_complete_after_a_replica_replaces_its_primary() {
    crawl_survives_failover(&[]);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn changes_by_a_command_wait_for_a_replica() {
    let (sentinels, fixture) = fixture_with_sentinel();
    fixture.submit(&fixture.seed(), &[]);
    for command in ["pause", "unpause", "stop"] {
        let before = waits_for_replicas(sentinels.primary());
        fixture.run(&[command, "--redis", &fixture.redis_url]);
        assert!(waits_for_replicas(sentinels.primary()) > before, "a failover could undo {command}");
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn replaced_primary_that_still_replies_is_not_used() {
    crawl_survives(Sentinels::manual_failover, &[]);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn replaced_primary_that_hung_and_replies_again_is_not_used() {
    let hang = |sentinels: &Sentinels| {
        let old_primary = sentinels.primary();
        old_primary.pause();
        wait_for("another primary", || sentinels.primary().port() != old_primary.port());
        old_primary.resume();
    };
    crawl_survives(hang, &[]);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn replaced_primary_that_restarts_is_not_used() {
    let restart = |sentinels: &Sentinels| {
        let old_primary = sentinels.primary();
        sentinels.fail_over();
        old_primary.restart();
    };
    crawl_survives(restart, &[]);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_that_the_new_primary_never_had_is_given_up() {
    let (sentinels, fixture) = fixture_with_sentinel();
    let [primary, replica] = &sentinels.servers;
    // The replica loses its connection and needs all data again, which the primary does not send for an hour: it keeps the
    // data from before the crawl.
    primary.query::<()>("CONFIG SET repl-diskless-sync-delay 3600");
    primary.query::<()>("CONFIG SET repl-backlog-size 16384");
    replica.pause();
    primary.query::<()>("CLIENT KILL TYPE replica");
    primary.query_args::<()>(&["SET", "filler", &"x".repeat(1 << 20)]);
    replica.resume();
    let controller = fixture.start_crawl(2, &["--dead-after", "3s"]);
    assert_eq!(replica.query_args::<i64>(&["EXISTS", "crawler:{crawl:members}:crawl"]), 0);
    sentinels.fail_over();
    let (status, output) = controller.wait();
    assert_eq!(status, Some(1), "{output}");
    assert!(output.contains(CRAWL_LOST), "{output}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_on_a_cluster_waits_for_a_node_that_is_down() {
    let cluster = Cluster::start_with(Server::builder().append_only(Fsync::EverySecond));
    let fixture = fixture_at(cluster.url(), 12, 20);
    let mut controller = fixture.start_crawl(3, &["--dead-after", "3s"]);
    cluster.nodes[1].kill();
    controller.wait_for_output("a notice", |output| output.contains(&format!("{WAITING_FOR_REDIS}redis://")));
    cluster.nodes[1].restart();
    let output = controller.wait_for_success();
    assert!(output.contains(REDIS_REPLIES_AGAIN), "{output}");
    assert!(!output.contains(DECLARED_DEAD) && !output.contains(RESTARTED), "{output}");
    fixture.check();
    let keys = || cluster.nodes.iter().map(|node| node.query::<u64>("DBSIZE")).collect::<Vec<_>>();
    fixture.run(&["purge"]);
    assert_eq!(keys(), [0, 0, 0]);
}

/// Runs a crawl on a cluster during which something happens to one of its primaries, and asserts that it is complete.
fn crawl_on_cluster_survives(fail: impl FnOnce(&Cluster)) {
    let cluster = Cluster::with_replicas(Server::builder().append_only(Fsync::EverySecond));
    let fixture = fixture_at(cluster.url_of_all_nodes(), 12, 30);
    let mut controller: Process = fixture.start_crawl(3, &["--replicas", "1", "--dead-after", "3s"]);
    fail(&cluster);
    assert!(controller.is_running(), "the crawl ended before the failover: {}", controller.output());
    controller.wait_for_success();
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_on_a_cluster_is_complete_after_a_replica_replaces_its_primary() {
    crawl_on_cluster_survives(|cluster| cluster.fail_over(1));
}

/// Too slow for `make test`: `make chaos` runs them.
mod in_make_chaos {
    use super::{crawl_on_cluster_survives, wait_for};

    #[test]
    #[ignore = "needs redis-server: run by make chaos"]
    fn crawl_is_complete_after_any_primary_of_a_cluster_fails() {
        for number in [0, 2] {
            crawl_on_cluster_survives(|cluster| cluster.fail_over(number));
        }
    }

    #[test]
    #[ignore = "needs redis-server: run by make chaos"]
    fn crawl_is_complete_after_all_primaries_of_a_cluster_fail_one_after_another() {
        crawl_on_cluster_survives(|cluster| {
            for number in 0..3 {
                cluster.fail_over(number);
                cluster.nodes[number].restart();
                let node = &cluster.nodes[number];
                let follows = || node.info("role") == "slave" && node.info("master_link_status") == "up";
                wait_for("the old primary to follow the new one", follows);
            }
        });
    }

    #[test]
    #[ignore = "needs redis-server: run by make chaos"]
    fn replaced_primary_of_a_cluster_that_hung_and_replies_again_is_not_used() {
        for number in 0..3 {
            crawl_on_cluster_survives(|cluster| {
                cluster.nodes[number].pause();
                cluster.wait_for_failover(number);
                cluster.nodes[number].resume();
            });
        }
    }
}
