//! Redis of several servers, one of which goes away in the middle of a crawl: a primary whose replica takes its place, and
//! a cluster that waits for its part.
//!
//! What a failover loses is what the replica did not have yet, as asynchronous replication promises no more. A page counts
//! only when a replica had its links: so no page that links lead to is missed, and what was lost is done again.

use std::thread::sleep;
use std::time::Duration;

use testredis::{Cluster, Fsync, Sentinels, Server};

use super::stage::{Running, Stage, wait_for};

/// A web and the binary, with Redis at this address.
fn at(address: String, hosts: usize, pages: usize) -> Stage {
    Stage { address, ..Stage::new(hosts, pages) }
}

/// A primary, a replica that has all of it, a Sentinel, and a web.
fn watched_over() -> (Sentinels, Stage) {
    let sentinels = Sentinels::start(1);
    // A replica that never had anything has nothing to go on with.
    wait_for("the replica", || sentinels.servers[1].info("master_link_status") == "up");
    let address = format!("redis+sentinel://{}/{}", sentinels.addresses()[0], sentinels.name());
    (sentinels, at(address, 12, 40))
}

/// The crawl goes on, whatever happens to the primary in the middle of it.
fn goes_on_when(happens: impl FnOnce(&Sentinels), more: &[&str]) -> String {
    let (sentinels, stage) = watched_over();
    let options = [&["--replicas", "1", "--dead-after", "3s"], more].concat();
    let controller = Running::start(stage.crawl(3, &options));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(60));
    // On a busy machine it may have been replaced already: then the other must have got everything again first.
    wait_for("a replica that follows", || {
        let primary = sentinels.primary().port();
        let mut others = sentinels.servers.iter().filter(|server| server.port() != primary);
        others.all(|replica| {
            replica.info("role") == "slave"
                && replica.info("master_link_status") == "up"
                && replica.cli::<i64>(&["EXISTS", "crawler:{crawl:crew}:crawl"]) == 1
        })
    });
    happens(&sentinels);
    let (status, said) = controller.end();
    assert_eq!(status, Some(0), "{said}");
    stage.check();
    said
}

fn fails_over(more: &[&str]) {
    let said = goes_on_when(Sentinels::fail_over, more);
    assert!(said.contains("waiting for Redis at redis+sentinel://"), "{said}");
    assert!(said.contains("answers again after"), "{said}");
}

#[test]
#[ignore = "needs redis-server"]
fn a_replica_takes_the_place_of_its_primary_and_every_page_is_visited() {
    fails_over(&[]);
}

#[test]
#[ignore = "needs redis-server"]
fn the_same_where_a_replica_has_to_confirm_the_links_to_other_parts_of_the_crawl() {
    fails_over(&["--partitions", "5"]);
}

#[test]
#[ignore = "needs redis-server"]
fn a_primary_that_was_replaced_and_goes_on_answering_is_left_at_once() {
    goes_on_when(Sentinels::replace, &[]);
}

#[test]
#[ignore = "needs redis-server"]
fn a_primary_that_was_taken_for_dead_and_comes_back_is_left_at_once() {
    let stands_still = |sentinels: &Sentinels| {
        let before = sentinels.primary();
        before.pause();
        wait_for("another primary", || sentinels.primary().port() != before.port());
        before.go_on();
    };
    goes_on_when(stands_still, &[]);
}

#[test]
#[ignore = "needs redis-server"]
fn a_primary_that_was_killed_and_comes_back_is_not_asked_any_more() {
    let dies_for_a_while = |sentinels: &Sentinels| {
        let before = sentinels.primary();
        sentinels.fail_over();
        before.restart();
    };
    goes_on_when(dies_for_a_while, &[]);
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_that_was_begun_on_a_primary_just_replaced_is_lost_and_that_is_told() {
    let (sentinels, stage) = watched_over();
    sentinels.replace();
    let (status, said) = Running::start(stage.crawl(3, &["--dead-after", "2s"])).end();
    match status {
        // Whoever came a moment later came to the new one.
        Some(0) => stage.check(),
        status => {
            assert_eq!(status, Some(1), "{said}");
            assert!(said.contains("has lost the crawl 'crawl'"), "{said}");
        }
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_cluster_is_crawled_on_and_a_node_that_goes_away_is_waited_for() {
    let cluster = Cluster::of(Server::builder().append_only(Fsync::EverySecond));
    let stage = at(cluster.url(), 12, 20);
    let controller = Running::start(stage.crawl(3, &["--dead-after", "3s"]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(60));
    cluster.nodes[1].kill();
    sleep(Duration::from_secs(2));
    cluster.nodes[1].restart();
    let (status, said) = controller.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("waiting for Redis at redis://") && said.contains("answers again after"), "{said}");
    assert!(!said.contains("declared dead") && !said.contains("started again"), "{said}");
    stage.check();
    let keys = || cluster.nodes.iter().map(|node| node.ask::<u64>("DBSIZE")).collect::<Vec<_>>();
    stage.say(&["purge"]);
    assert_eq!(keys(), [0, 0, 0]);
}

/// A crawl over a cluster goes on, whatever happens to one of its primaries in the middle of it.
fn goes_on_in_a_cluster_when(happens: impl FnOnce(&Cluster)) {
    let cluster = Cluster::with_replicas(Server::builder().append_only(Fsync::EverySecond));
    let stage = at(cluster.url_of_all(), 12, 40);
    let controller = Running::start(stage.crawl(3, &["--replicas", "1", "--dead-after", "3s"]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(60));
    happens(&cluster);
    let (status, said) = controller.end();
    assert_eq!(status, Some(0), "{said}");
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn a_replica_in_a_cluster_takes_the_place_of_its_primary_and_every_page_is_visited() {
    goes_on_in_a_cluster_when(|cluster| cluster.fail_over(1));
}

/// They take their time: `make chaos` runs them.
mod in_make_chaos {
    use super::{goes_on_in_a_cluster_when, wait_for};

    #[test]
    #[ignore = "needs redis-server"]
    fn whichever_primary_of_a_cluster_it_is() {
        for number in [0, 2] {
            goes_on_in_a_cluster_when(|cluster| cluster.fail_over(number));
        }
    }

    #[test]
    #[ignore = "needs redis-server"]
    fn one_after_the_other_and_back_again() {
        goes_on_in_a_cluster_when(|cluster| {
            for number in 0..3 {
                cluster.fail_over(number);
                cluster.nodes[number].restart();
                let node = &cluster.nodes[number];
                let follows = || node.info("role") == "slave" && node.info("master_link_status") == "up";
                wait_for("the old primary follows the new one", follows);
            }
        });
    }

    #[test]
    #[ignore = "needs redis-server"]
    fn a_primary_of_a_cluster_that_was_taken_for_dead_and_comes_back_is_left() {
        for number in 0..3 {
            goes_on_in_a_cluster_when(|cluster| {
                cluster.nodes[number].pause();
                cluster.wait_until_replaced(number);
                cluster.nodes[number].go_on();
            });
        }
    }
}
