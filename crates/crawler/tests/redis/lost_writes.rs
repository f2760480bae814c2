//! A Redis that has lost its most recent writes, as after a power failure or a failover: the frontier notices, takes over
//! again, and the workers continue from the older state. Every page is crawled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crawler::internal::backend::redis::{FrontierEnd, RemoteBackend};
use crawler::internal::backend::{Backend, BudgetDecision, CompleteResult, WorkerId};
use crawler::internal::stats::BodyBytes;
use testredis::Server;
use tokio::time::{sleep, timeout};

use super::block_on;
use super::distributed_crawl::{Frontier, TestCrawl, Tree, hosts, lease, page, wait_until};

const FIRST: WorkerId = WorkerId(0);

/// Restarts Redis with what it had at the last SAVE. The frontier knows that its last changes were written: otherwise it
/// writes them again, and nothing is lost.
async fn restart(server: &Server, frontier: &Frontier) {
    frontier.process.flush().await.unwrap();
    server.restart();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn frontier_notices_lost_writes_and_workers_start_afresh() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl::new(&server, "lost");
        let mut frontier = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        crawl.seed(hosts(20)).await;
        let leases = lease(&worker, 10).await;
        worker.request_counter().add(7);
        worker.complete(leases[..5].iter().map(page).collect()).await.unwrap();
        frontier.process.flush().await.unwrap();
        server.query::<()>("SAVE");
        // Redis confirms these changes, and then loses them.
        worker.complete(leases[5..].iter().map(page).collect()).await.unwrap();
        let lost = lease(&worker, 5).await;
        restart(&server, &frontier).await;
        assert_eq!(frontier.end().await, FrontierEnd::DataLost);

        let next = crawl.take_over().await;
        assert_eq!(next.snapshot().await.pages, 5);
        let results = worker.complete(lost.iter().map(page).collect()).await.unwrap();
        assert_eq!(results, vec![CompleteResult::StaleLease; 5], "its leases have ended");
        let again = lease(&worker, 15).await;
        let results = worker.complete(again.iter().map(page).collect()).await.unwrap();
        assert!(matches!(results[0], CompleteResult::Applied { id: Some(6), .. }), "{results:?}");
        let snapshot = next.snapshot().await;
        assert_eq!((snapshot.pages, snapshot.pending(), snapshot.requests), (20, 0, 7));
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn leases_that_redis_has_lost_are_leased_again() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl::new(&server, "lost");
        let mut frontier = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        crawl.seed(hosts(20)).await;
        frontier.process.flush().await.unwrap();
        server.query::<()>("SAVE");
        // The worker only waits for leases, and requests nothing.
        let lost = lease(&worker, 10).await;
        restart(&server, &frontier).await;
        // Its limit, which it sends again, is the only change.
        assert_eq!(frontier.end().await, FrontierEnd::DataLost);
        let next = crawl.take_over().await;
        let leases = lease(&worker, 20).await;
        worker.complete(leases.iter().map(page).collect()).await.unwrap();
        let late = worker.complete(vec![page(&lost[0])]).await.unwrap();
        assert_eq!(late, [CompleteResult::StaleLease]);
        assert_eq!(next.pending().await, 0);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_that_waits_for_the_budget_notices_lost_writes() {
    let server = Server::start();
    block_on(async {
        let mut crawl = TestCrawl::new(&server, "lost");
        crawl.config.max_pages = 1;
        let mut frontier = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        crawl.seed(hosts(3)).await;
        let leases = lease(&worker, 3).await;
        let granted = worker.reserve(&leases[0], BodyBytes::default()).await.unwrap();
        assert!(matches!(granted, BudgetDecision::Granted(_)), "{granted:?}");
        frontier.process.flush().await.unwrap();
        server.query::<()>("SAVE");
        // This request has no reply while later ones have theirs.
        let waits = async || {
            let wait = timeout(Duration::from_millis(100), worker.wait_for_budget(&leases[1]));
            wait.await.is_err()
        };
        // The first wait ends at once: the budget has changed since the lease.
        wait_until("the page is reserved and the worker waits", waits).await;
        for _ in 0..3 {
            worker
                .set_host_delay(
                    "h1.test",
                    crawler::internal::backend::HostDelay {
                        delay: Duration::from_millis(1),
                        cooldown: Duration::ZERO,
                    },
                )
                .await
                .unwrap();
        }
        restart(&server, &frontier).await;
        assert_eq!(frontier.end().await, FrontierEnd::DataLost);
        let next = crawl.take_over().await;
        let admitted = timeout(Duration::from_secs(5), worker.admit(Vec::new())).await;
        admitted.expect("the frontier replies").unwrap();
        drop(next);
    });
}

async fn work(worker: &RemoteBackend, tree: Tree, is_finished: &AtomicBool) {
    while !is_finished.load(Ordering::Relaxed) {
        let leases = worker.lease(FIRST, 8, Duration::from_millis(20)).await.unwrap();
        for lease in &leases {
            worker.reserve(lease, BodyBytes::default()).await.unwrap();
        }
        let completions = leases.iter().map(|lease| tree.completion(lease)).collect();
        // After the last kill of Redis, a worker may wait for a reply to a message that was applied before.
        worker.complete(completions).await.unwrap();
        sleep(Duration::from_millis(3)).await;
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn every_page_is_crawled_though_redis_loses_writes_again_and_again() {
    let server = Server::start();
    let (tree, is_finished, losses) = (Tree(800), AtomicBool::new(false), AtomicBool::new(true));
    let crawl = TestCrawl::new(&server, "losses");
    let (crawl, is_finished, losses) = (&crawl, &is_finished, &losses);
    let serve = async || {
        let mut seeded = false;
        loop {
            let mut frontier = crawl.take_over().await;
            if !seeded {
                crawl.seed([tree.url(0)]).await;
                seeded = true;
            }
            wait_until("the crawl ends", async || {
                let is_over = frontier.pending().await == 0 && !losses.load(Ordering::Relaxed);
                frontier.has_ended() || is_over && frontier.process.is_drained().await.unwrap()
            })
            .await;
            if !frontier.has_ended() {
                is_finished.store(true, Ordering::Relaxed);
                // The workers get their last replies.
                sleep(Duration::from_millis(100)).await;
                tree.assert_crawled(&frontier.snapshot().await);
                return;
            }
            // Redis may have lost the take-over itself: then it looks as if another frontier had taken over.
            frontier.end().await;
        }
    };
    let lose = async || {
        wait_until("pages are crawled", async || {
            server.query::<u64>("LLEN crawler:{losses:frontier}:completed") > 3
        })
        .await;
        for _ in 0..4 {
            server.query::<()>("SAVE");
            sleep(Duration::from_millis(120)).await;
            server.restart();
            sleep(Duration::from_millis(250)).await;
        }
        losses.store(false, Ordering::Relaxed);
    };
    let workers = async |number: u16| {
        let worker = crawl.open().await.join_as_worker(WorkerId(number), 1);
        let working = timeout(super::distributed_crawl::TIMEOUT, work(&worker, tree, is_finished));
        working.await.expect("timeout: a worker hangs");
    };
    block_on(async {
        tokio::join!(serve(), lose(), workers(0), workers(1));
    });
}
