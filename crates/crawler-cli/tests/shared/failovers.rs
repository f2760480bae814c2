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

fn fails_over(more: &[&str]) {
    let sentinels = Sentinels::start(1);
    // A replica that never had anything has nothing to go on with.
    wait_for("the replica", || sentinels.servers[1].info("master_link_status") == "up");
    let address = format!("redis+sentinel://{}/{}", sentinels.addresses()[0], sentinels.name());
    let stage = at(address, 12, 40);
    let options = [&["--replicas", "1", "--dead-after", "3s"], more].concat();
    let controller = Running::start(stage.crawl(3, &options));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(60));
    // One that is being sent everything anew has nothing yet.
    wait_for("a replica that follows", || {
        let primary = sentinels.primary().port();
        let mut others = sentinels.servers.iter().filter(|server| server.port() != primary);
        others.all(|replica| {
            replica.info("master_link_status") == "up"
                && replica.cli::<i64>(&["EXISTS", "crawler:{crawl:crew}:crawl"]) == 1
        })
    });
    sentinels.fail_over();
    let (status, said) = controller.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("waiting for Redis at redis+sentinel://"), "{said}");
    assert!(said.contains("answers again after"), "{said}");
    stage.check();
}

/// They take their time, and depend on how soon Sentinel acts: `make chaos` runs them.
mod in_make_chaos {
    use super::fails_over;

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
    assert!(!said.contains("is dead") && !said.contains("started again"), "{said}");
    stage.check();
    let keys = || cluster.nodes.iter().map(|node| node.ask::<u64>("DBSIZE")).collect::<Vec<_>>();
    stage.say(&["purge"]);
    assert_eq!(keys(), [0, 0, 0]);
}
