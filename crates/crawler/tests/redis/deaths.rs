//! Workers and frontiers that die at any moment, also in the middle of a move: nothing is lost, and nothing counts twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crawler::StopHandle;
use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, BudgetDecision, Completion, DiscoveredUrl, Lease, WorkerId};
use crawler::internal::frontier;
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::{DepthPopularity, Random};
use testredis::Server;
use tokio::time::timeout;

use super::{block_on, settings};

const WORKERS: u16 = 3;
const PAGES: usize = 1_500;

/// Page n links to the pages 2n + 1 and 2n + 2, which are elsewhere, and to the first.
fn page(number: usize) -> DiscoveredUrl {
    DiscoveredUrl { url: format!("http://h{}.test/{number}", number % 37), depth: 1, redirects: 0 }
}

fn outlinks(url: &str) -> Vec<DiscoveredUrl> {
    let number: usize = url.rsplit('/').next().unwrap().parse().unwrap();
    [2 * number + 1, 2 * number + 2, 0].into_iter().filter(|child| *child < PAGES).map(page).collect()
}

fn completion(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::Page, bytes: 7, outlinks: outlinks(&lease.url), ..Completion::new(lease) }
}

struct World {
    redis: Server,
    partitions: u16,
    over: AtomicBool,
    deaths: AtomicUsize,
}

impl World {
    async fn open(&self) -> RedisBackend {
        let place = RedisCrawl {
            partitions: Some(self.partitions),
            delay: Duration::ZERO,
            ..RedisCrawl::new(self.redis.url().parse().unwrap(), "deaths")
        };
        let settings = BackendConfig { queue_size: 64, keep_content: false, ..settings(WORKERS) };
        RedisBackend::open(place, settings).await.unwrap()
    }

    /// A worker that lives for a while and dies with whatever it was doing; then that is noticed, and another begins.
    async fn work(&self, worker: WorkerId) {
        let mut random = Random::seeded(u64::from(worker.0));
        let overseer = self.open().await;
        while !self.over.load(Ordering::Relaxed) {
            let backend = self.open().await;
            let life = Duration::from_micros(20_000 + random.below(100_000) as u64);
            if timeout(life, visit_for_ever(&backend, worker)).await.is_err() {
                // Its connection is closed with it, and nobody hears the answers to what it sent.
                drop(backend);
                self.deaths.fetch_add(1, Ordering::Relaxed);
                // Others take what it had, or who comes in its place does.
                match random.below(2) {
                    0 => overseer.remove_worker(worker).await.unwrap(),
                    _ => overseer.rejoin(worker).await.unwrap(),
                }
            }
        }
    }

    /// Frontiers, one after another.
    async fn route(&self) {
        let mut random = Random::seeded(99);
        while !self.over.load(Ordering::Relaxed) {
            let (backend, stop) = (self.open().await, StopHandle::new());
            let life = Duration::from_millis(50 + random.below(300) as u64);
            let run = frontier::run(&backend, &DepthPopularity, Random::seeded(5), &stop);
            if timeout(life, run).await.is_ok_and(|over| over.unwrap()) {
                self.over.store(true, Ordering::Relaxed);
            }
        }
    }
}

async fn visit_for_ever(backend: &RedisBackend, worker: WorkerId) {
    loop {
        let leases = backend.lease(worker, 8, Duration::from_millis(20)).await.unwrap();
        for lease in &leases {
            assert!(matches!(
                backend.reserve(lease, 0).await.unwrap(),
                BudgetDecision::Granted(_) | BudgetDecision::LeaseLost
            ));
        }
        backend.complete(leases.iter().map(completion).collect()).await.unwrap();
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn whoever_dies_when_each_page_counts_once() {
    for partitions in [1, 8] {
        live_and_die(partitions);
    }
}

fn live_and_die(partitions: u16) {
    let (redis, over, deaths) = (Server::start(), AtomicBool::new(false), AtomicUsize::new(0));
    let world = World { redis, partitions, over, deaths };
    block_on(async { world.open().await.admit(vec![page(0)]).await.unwrap() });
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let world = &world;
            scope.spawn(move || block_on(world.work(WorkerId(worker))));
        }
        scope.spawn(|| block_on(world.route()));
    });
    let snapshot = block_on(async { world.open().await.snapshot().await.unwrap() });
    let pages = PAGES as u64;
    assert_eq!((snapshot.admitted, snapshot.completed, snapshot.pages), (pages, pages, pages));
    assert_eq!(snapshot.outcomes, BTreeMap::from([("page".to_owned(), pages)]));
    assert!(world.deaths.load(Ordering::Relaxed) > 20, "{:?} deaths", world.deaths);

    for kept in ["pages_reserved", "bytes_reserved"] {
        let place = if partitions == 1 { "p0" } else { "budget" };
        let reserved: i64 = world.redis.ask(&format!("HGET crawler:{{deaths:{place}}}:used {kept}"));
        assert_eq!(reserved, 0, "{kept}: everything reserved was given back");
    }
}
