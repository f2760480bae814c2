//! Workers and frontiers that die at any moment, also during an operation: no URL is lost, and no page is
//! counted twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crawler::StopHandle;
use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{
    Backend, BudgetDecision, Completion, DiscoveredUrl, Lease, Outlinks, WorkerId,
};
use crawler::internal::frontier;
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::{DepthPopularity, Random};
use crawler::internal::stats::BodyBytes;
use testredis::Server;
use tokio::time::timeout;

use super::{block_on, config};

const WORKERS: u16 = 3;
const PAGES: usize = 1_500;

/// Page n links to the pages 2n + 1 and 2n + 2, which are on other hosts, and to the first page.
fn page(number: usize) -> DiscoveredUrl {
    DiscoveredUrl { url: format!("http://h{}.test/{number}", number % 37), depth: 1, redirects: 0 }
}

fn outlinks(url: &str) -> Outlinks {
    let number: usize = url.rsplit('/').next().unwrap().parse().unwrap();
    let linked = [2 * number + 1, 2 * number + 2, 0].into_iter().filter(|page| *page < PAGES);
    Outlinks::new(linked.map(|number| page(number).url), 1)
}

fn completion(lease: &Lease) -> Completion {
    Completion {
        outcome: Outcome::Page,
        bytes: BodyBytes::unencoded(7),
        outlinks: outlinks(&lease.url),
        ..Completion::new(lease)
    }
}

struct TestCrawl {
    redis: Server,
    partitions: u16,
    is_finished: AtomicBool,
    deaths: AtomicUsize,
}

impl TestCrawl {
    async fn open(&self) -> RedisBackend {
        let crawl = RedisCrawl {
            partitions: Some(self.partitions),
            delay: Duration::ZERO,
            ..RedisCrawl::new(self.redis.url().parse().unwrap(), "deaths")
        };
        let config = BackendConfig { queue_size: 64, keep_content: false, ..config(WORKERS) };
        RedisBackend::open(crawl, config).await.unwrap()
    }

    /// Runs a worker that dies after a random time, in the middle of an operation, again and again.
    async fn run_workers(&self, worker: WorkerId) {
        let mut random = Random::seeded(u64::from(worker.0));
        let frontier = self.open().await;
        while !self.is_finished.load(Ordering::Relaxed) {
            let backend = self.open().await;
            let lifetime = Duration::from_micros(20_000 + random.below(100_000) as u64);
            if timeout(lifetime, work_forever(&backend, worker)).await.is_err() {
                // This closes its connection. Replies to its requests are lost.
                drop(backend);
                self.deaths.fetch_add(1, Ordering::Relaxed);
                // Its URLs are reassigned to others, or to the worker that takes over.
                match random.below(2) {
                    0 => frontier.remove_worker(worker).await.unwrap(),
                    _ => frontier.rejoin(worker).await.unwrap(),
                }
            }
        }
    }

    /// Runs frontiers that die after a random time, one after another.
    async fn run_frontiers(&self) {
        let mut random = Random::seeded(99);
        while !self.is_finished.load(Ordering::Relaxed) {
            let (backend, stop) = (self.open().await, StopHandle::new());
            let lifetime = Duration::from_millis(50 + random.below(300) as u64);
            let run = frontier::run(&backend, &DepthPopularity, Random::seeded(5), &stop);
            if timeout(lifetime, run).await.is_ok_and(|finished| finished.unwrap()) {
                self.is_finished.store(true, Ordering::Relaxed);
            }
        }
    }
}

async fn work_forever(backend: &RedisBackend, worker: WorkerId) {
    loop {
        let leases = backend.lease(worker, 8, Duration::from_millis(20)).await.unwrap();
        for lease in &leases {
            assert!(matches!(
                backend.reserve(lease, BodyBytes::default()).await.unwrap(),
                BudgetDecision::Granted(_) | BudgetDecision::LeaseLost
            ));
        }
        backend.complete(leases.iter().map(completion).collect()).await.unwrap();
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn each_page_is_counted_once_whenever_processes_die() {
    for partitions in [1, 8] {
        crawl_with_deaths(partitions);
    }
}

fn crawl_with_deaths(partitions: u16) {
    let (redis, is_finished, deaths) = (Server::start(), AtomicBool::new(false), AtomicUsize::new(0));
    let crawl = TestCrawl { redis, partitions, is_finished, deaths };
    block_on(async { crawl.open().await.admit(vec![page(0)]).await.unwrap() });
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let crawl = &crawl;
            scope.spawn(move || block_on(crawl.run_workers(WorkerId(worker))));
        }
        scope.spawn(|| block_on(crawl.run_frontiers()));
    });
    let snapshot = block_on(async { crawl.open().await.snapshot().await.unwrap() });
    let pages = PAGES as u64;
    assert_eq!((snapshot.admitted, snapshot.completed, snapshot.pages), (pages, pages, pages));
    assert_eq!(snapshot.outcomes, BTreeMap::from([("page".to_owned(), pages)]));
    assert!(crawl.deaths.load(Ordering::Relaxed) > 20, "{:?} deaths", crawl.deaths);

    for field in ["pages_reserved", "bytes_reserved"] {
        let partition = if partitions == 1 { "p0" } else { "budget" };
        let reserved: i64 = crawl.redis.query(&format!("HGET crawler:{{deaths:{partition}}}:used {field}"));
        assert_eq!(reserved, 0, "{field}: all reservations are released");
    }
}
