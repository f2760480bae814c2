//! Workers that die, at any moment: their URLs are leased to others, and what they send late changes nothing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crawler::internal::backend::redis::RemoteBackend;
use crawler::internal::backend::{
    Backend, BudgetDecision, CompleteResult, Completion, HostDelay, Lease, WorkerId,
};
use crawler::internal::prioritizer::Random;
use crawler::internal::stats::BodyBytes;
use testredis::Server;
use tokio::time::{sleep, timeout};

use super::block_on;
use super::distributed_crawl::{TestCrawl, Tree, assert_nothing_to_lease, hosts, lease, page, wait_until};

const FIRST: WorkerId = WorkerId(0);

fn urls(leases: &[Lease]) -> BTreeSet<&str> {
    leases.iter().map(|lease| &*lease.url).collect()
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn urls_of_a_dead_worker_are_leased_again_and_its_late_operations_have_no_effect() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl::new(&server, "dead");
        let frontier = crawl.take_over().await;
        let (dead, other) = (crawl.worker(0, 1).await, crawl.worker(1, 1).await);
        crawl.seed(hosts(20)).await;
        let lost = lease(&dead, 20).await;
        for lease in &lost {
            let granted = dead.reserve(lease, BodyBytes::default()).await.unwrap();
            assert!(matches!(granted, BudgetDecision::Granted(_)));
        }
        frontier.process.remove_worker(FIRST).unwrap();
        let leases = lease(&other, 20).await;
        assert_eq!(urls(&leases), urls(&lost));
        let late = dead.complete(lost.iter().map(page).collect()).await.unwrap();
        assert_eq!(late, vec![CompleteResult::StaleLease; 20]);
        let late = dead.reserve(&lost[0], BodyBytes::default()).await.unwrap();
        assert_eq!(late, BudgetDecision::LeaseLost);
        assert_eq!(frontier.snapshot().await.pages, 0);
        let results = other.complete(leases.iter().map(page).collect()).await.unwrap();
        assert!(results.iter().all(|result| matches!(result, CompleteResult::Applied { .. })));
        let snapshot = frontier.snapshot().await;
        assert_eq!((snapshot.pages, snapshot.pending(), snapshot.active_hosts), (20, 0, 0));
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn process_whose_number_another_one_has_gets_nothing_and_changes_nothing() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl::new(&server, "replaced");
        let frontier = crawl.take_over().await;
        let before = crawl.worker(0, 1).await;
        crawl.seed(hosts(10)).await;
        let lost = lease(&before, 5).await;
        // It joined later, under the same number.
        let after = crawl.worker(0, 2).await;
        let leases = lease(&after, 10).await;
        assert!(urls(&leases).is_superset(&urls(&lost)));
        assert!(leases.iter().all(|new| lost.iter().all(|old| new.lease_id > old.lease_id)));
        let late =
            timeout(Duration::from_millis(300), before.complete(lost.iter().map(page).collect())).await;
        assert!(late.is_err(), "the frontier does not reply to it: {late:?}");
        assert_nothing_to_lease(&before).await;
        assert_eq!(frontier.snapshot().await.pages, 0);
        after.complete(leases.iter().map(page).collect()).await.unwrap();
        assert_eq!(frontier.snapshot().await.pages, 10);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn delay_of_a_host_applies_after_its_worker_was_killed() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl { delay: Duration::from_millis(400), ..TestCrawl::new(&server, "delays") };
        let frontier = crawl.take_over().await;
        let (dead, other) = (crawl.worker(0, 1).await, crawl.worker(1, 1).await);
        crawl.seed(["http://slow.test/".into(), "http://quick.test/".into()]).await;
        let slow = HostDelay { delay: Duration::from_secs(30), cooldown: Duration::ZERO };
        lease(&dead, 2).await;
        dead.set_host_delay("slow.test", slow).await.unwrap();
        frontier.process.remove_worker(FIRST).unwrap();
        // Another worker gets a host after its delay, or has to wait for the rest of it.
        let removed = tokio::time::Instant::now();
        let leases = lease(&other, 1).await;
        assert_eq!(&*leases[0].url, "http://quick.test/");
        let since = removed.elapsed() + leases[0].cooldown;
        assert!(since >= Duration::from_millis(390), "{since:?}");
        assert_nothing_to_lease(&other).await;
    });
}

/// A worker that reserves and completes URLs.
async fn work(worker: &RemoteBackend, tree: Tree) {
    loop {
        let leases = worker.lease(FIRST, 8, Duration::from_millis(20)).await.unwrap();
        let mut completions: Vec<Completion> = Vec::new();
        for lease in &leases {
            worker.reserve(lease, BodyBytes::default()).await.unwrap();
            completions.push(tree.completion(lease));
        }
        worker.complete(completions).await.unwrap();
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn each_page_is_counted_once_whenever_workers_and_frontiers_die() {
    let server = Server::start();
    let (tree, is_finished) = (Tree(1_500), AtomicBool::new(false));
    let mut crawl = TestCrawl::new(&server, "crashes");
    crawl.config.queue_size = 64;
    let (crawl, is_finished) = (&crawl, &is_finished);
    // Processes of the same worker die and are replaced, in the middle of an operation.
    let workers = async |number: u16| {
        let (mut random, mut crashes) = (Random::seeded(number.into()), 0);
        while !is_finished.load(Ordering::Relaxed) {
            crashes += 1;
            let worker = crawl.open().await.join_as_worker(WorkerId(number), crashes);
            let lifetime = Duration::from_micros(20_000 + u64::from(random.below(100_000)));
            let _ = timeout(lifetime, work(&worker, tree)).await;
        }
        crashes
    };
    let frontiers = async || {
        let mut random = Random::seeded(99);
        for crashes in 0.. {
            let frontier = crawl.take_over().await;
            if crashes == 0 {
                crawl.seed([tree.url(0)]).await;
            }
            let lifetime = Duration::from_millis(50 + u64::from(random.below(200)));
            let finished = wait_until("all URLs are completed", async || {
                frontier.pending().await == 0 && frontier.process.is_drained().await.unwrap()
            });
            if timeout(lifetime, finished).await.is_ok() {
                is_finished.store(true, Ordering::Relaxed);
                tree.assert_crawled(&frontier.snapshot().await);
                let pages = frontier.snapshot().await.pages;
                assert_eq!(server.query::<u64>("HLEN crawler:{crashes:frontier}:leases"), 0);
                // Workers that still run wait for their replies.
                sleep(Duration::from_millis(150)).await;
                assert_eq!(frontier.snapshot().await.pages, pages);
                return crashes;
            }
        }
        0
    };
    block_on(async {
        let (one, two, three, frontiers) = tokio::join!(workers(0), workers(1), workers(2), frontiers());
        let crashes = one + two + three + frontiers;
        assert!(crashes > 20, "{crashes} crashes");
    });
}
