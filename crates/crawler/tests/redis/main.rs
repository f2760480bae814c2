//! Whole crawls on Redis: workers and frontier on one Redis, held against the truth about the web and its own log.

mod crew;
mod deaths;
mod endings;
mod forgetful;
mod late;
mod likeness;
mod looking;
mod outages;
mod passing;
mod rejoining;
mod storage;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crawler::StopHandle;
use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, Budget, DiscoveredUrl, Snapshot, WorkerId};
use crawler::internal::config::{DnsOverride, FetchConfig};
use crawler::internal::fetch::fetcher::Fetcher;
use crawler::internal::fetch::throttle::HostThrottle;
use crawler::internal::frontier;
use crawler::internal::modules::Module;
use crawler::internal::modules::output::files::{OutputFiles, Start};
use crawler::internal::modules::page_pipeline::PagePipeline;
use crawler::internal::page::Page;
use crawler::internal::prioritizer::{DepthPopularity, Priority, PriorityQueues, Random};
use crawler::internal::scope::Scope;
use crawler::internal::similarity::Threshold;
use crawler::internal::worker::{Worker, WorkerContext};
use testredis::Server;
use testweb::{Site, Web};
use tokio::runtime;
use url::Url;

fn settings(workers: u16) -> BackendConfig {
    BackendConfig {
        queue_size: 100,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers,
        ttl: Duration::from_secs(3600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        similarity: None,
        keep_content: true,
        max_pages: 10_000,
        max_bytes: 50_000_000,
        max_page_bytes: 500_000,
        max_pages_per_host: u64::MAX,
    }
}

/// A crawl of hosts that are all on loopback, without robots.txt.
#[derive(Clone)]
struct Crawl {
    redis: String,
    name: &'static str,
    partitions: u16,
    settings: BackendConfig,
    delay: Duration,
    seed: Url,
}

/// The URLs of the pages that were kept.
type Kept = Arc<Mutex<Vec<String>>>;

impl Crawl {
    fn of(web: &Web, redis: &Server, name: &'static str, workers: u16) -> Crawl {
        let seed = web.url_of("h0.test", "/").parse().unwrap();
        let settings = settings(workers);
        Crawl { redis: redis.url(), name, partitions: 16, settings, delay: Duration::ZERO, seed }
    }

    fn open(&self) -> RedisBackend {
        let place = RedisCrawl {
            partitions: Some(self.partitions),
            delay: self.delay,
            ..RedisCrawl::new(self.redis.clone().parse().unwrap(), self.name)
        };
        block_on(RedisBackend::open(place, self.settings.clone())).unwrap()
    }

    /// Crawls to the end; each worker, and the frontier, with a thread and a connection of its own.
    fn run(&self) -> (Vec<String>, Snapshot) {
        let (kept, stop) = (Kept::default(), StopHandle::new());
        let backend = self.open();
        block_on(backend.admit(vec![DiscoveredUrl { url: self.seed.to_string(), depth: 0, redirects: 0 }]))
            .unwrap();
        thread::scope(|scope| {
            for id in 0..self.settings.workers {
                let (kept, stop) = (&kept, &stop);
                scope.spawn(move || {
                    let worked = block_on(self.worker(id, kept, stop).run());
                    // Whoever fails ends the crawl, rather than to let the others wait for it.
                    stop.stop();
                    worked.unwrap();
                });
            }
            let over = block_on(frontier::run(&backend, &DepthPopularity, Random::seeded(7), &stop));
            stop.stop();
            over.unwrap();
        });
        let snapshot = block_on(backend.snapshot()).unwrap();
        (Arc::into_inner(kept).unwrap().into_inner().unwrap(), snapshot)
    }

    fn worker(&self, id: u16, kept: &Kept, stop: &StopHandle) -> Arc<Worker<RedisBackend>> {
        let kept = Arc::clone(kept);
        let keep: Box<dyn Module> =
            Box::new(move |page: &Page| kept.lock().unwrap().push(page.url.to_string()));
        let files = OutputFiles::open(&[], Start::Fresh).unwrap();
        let hosts: Vec<Url> = (0..20).map(|n| format!("http://h{n}.test/").parse().unwrap()).collect();
        let orders = Arc::new(WorkerContext {
            backend: Arc::new(self.open()),
            installed: Arc::new(PagePipeline::new(vec![keep], Vec::new(), files, Box::new(|_, _| {}))),
            scope: Scope::domains(&hosts),
            max_depth: 1_000,
            max_page_bytes: 500_000,
            compare: self.settings.similarity.is_some(),
            in_hand: 100,
            stop: stop.clone(),
        });
        let config = FetchConfig {
            dns_overrides: vec![DnsOverride { host: "*".into(), address: [127, 0, 0, 1].into() }],
            allow_private: true,
            obey_robots: false,
            delay: self.delay,
            ..FetchConfig::default()
        };
        let pace = Arc::new(HostThrottle::new(self.delay, config.max_per_host));
        let fetcher = Fetcher::new(config, std::slice::from_ref(&self.seed), pace, stop.clone()).unwrap();
        Arc::new(Worker::new(WorkerId(id), fetcher, orders))
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn truth(web: &Web) -> BTreeSet<String> {
    web.truth_from(&web.url_of("h0.test", "/"), 1_000).into_keys().collect()
}

fn assert_is_whole(kept: Vec<String>, snapshot: &Snapshot, web: &Web) {
    let pages = kept.len();
    let kept: BTreeSet<String> = kept.into_iter().collect();
    assert_eq!(kept.len(), pages, "no page twice");
    assert_eq!(kept, truth(web));
    assert_eq!((snapshot.pages, snapshot.outstanding()), (pages as u64, 0));
    assert_eq!(snapshot.outcomes.values().sum::<u64>(), snapshot.completed);
    assert_eq!(snapshot.stored_pages, pages);
    let (queued, on_loan): (Vec<_>, Vec<_>) = snapshot.workers.iter().copied().unzip();
    assert_eq!(queued.iter().chain(&on_loan).chain(&snapshot.priority_queues).sum::<usize>(), 0);
    assert_eq!((snapshot.url_queue, snapshot.parked, snapshot.active_hosts), ((0, 0), 0, 0));
    assert_eq!(snapshot.seen_urls, snapshot.completed as usize);
}

fn assert_asked_once(web: &Web) {
    let asked: Vec<_> = web.log().iter().map(|hit| (hit.host.clone(), hit.path.clone())).collect();
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len(), "each URL is asked for once");
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn every_page_of_many_hosts_is_reached_with_any_number_of_workers_and_partitions() {
    for (workers, partitions) in [(1, 1), (4, 1), (4, 16)] {
        let (web, redis) = (Web::builder().seeded_hosts(7, 20, 12).start(), Server::start());
        let crawl = Crawl { partitions, ..Crawl::of(&web, &redis, "whole", workers) };
        let (kept, snapshot) = crawl.run();
        assert_is_whole(kept, &snapshot, &web);
        assert_asked_once(&web);
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn no_host_is_asked_by_two_or_faster_than_allowed() {
    let (web, redis) = (Web::builder().seeded_hosts(3, 20, 6).start(), Server::start());
    let delay = Duration::from_millis(40);
    let (kept, snapshot) = Crawl { delay, ..Crawl::of(&web, &redis, "polite", 4) }.run();
    assert_is_whole(kept, &snapshot, &web);
    let log = web.log();
    assert!(log.smallest_gap().unwrap() >= delay, "{:?}", log.smallest_gap());
    for host in (0..20).map(|n| format!("h{n}.test")) {
        assert!(log.of_host(&host).most_at_once() <= 1, "{host}");
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn two_crawls_side_by_side_in_one_redis_do_not_meet() {
    let webs = [7, 8].map(|seed| Web::builder().seeded_hosts(seed, 20, 8).start());
    let redis = Server::start();
    thread::scope(|scope| {
        for (name, web) in ["one", "other"].into_iter().zip(&webs) {
            let crawl = Crawl::of(web, &redis, name, 2);
            scope.spawn(move || {
                let (kept, snapshot) = crawl.run();
                assert_is_whole(kept, &snapshot, web);
                assert_asked_once(web);
            });
        }
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_page_like_another_is_dropped_and_the_others_are_stored() {
    let site = Site::seeded(9, 30).with_print_views();
    let (web, redis) = (Web::builder().host("h0.test", site).start(), Server::start());
    let mut crawl = Crawl::of(&web, &redis, "alike", 2);
    crawl.settings.similarity = Threshold::new(0.9);
    let (kept, snapshot) = crawl.run();
    let dropped = snapshot.outcomes.get("near duplicate").copied().unwrap_or(0);
    assert!(dropped > 10, "{:?}", snapshot.outcomes);
    assert_eq!(snapshot.stored_pages, kept.len());
    let truth = web.truth_from(&web.url_of("h0.test", "/"), 1_000);
    let backend = crawl.open();
    for url in &kept {
        let stored = block_on(backend.load_content(url)).unwrap();
        assert_eq!(stored.as_ref(), Some(&truth[url].1), "{url}");
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn tiny_queues_lose_nothing() {
    let (web, redis) = (Web::builder().seeded_hosts(5, 20, 6).start(), Server::start());
    let mut crawl = Crawl::of(&web, &redis, "tiny", 3);
    crawl.settings.queue_size = 1;
    let (kept, snapshot) = crawl.run();
    assert_is_whole(kept, &snapshot, &web);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn budgets_are_hit_exactly_across_partitions() {
    let (web, redis) = (Web::builder().seeded_hosts(11, 20, 20).start(), Server::start());
    let mut crawl = Crawl::of(&web, &redis, "budget", 4);
    crawl.settings.max_pages = 57;
    let (kept, snapshot) = crawl.run();
    assert_eq!((kept.len(), snapshot.pages), (57, 57));
    assert_eq!(block_on(crawl.open().exhausted_budget()).unwrap(), Some(Budget::Pages));
}

/// Files and routes all that there is.
async fn route(backend: &RedisBackend) {
    loop {
        let incoming = backend.take_unprioritized(1_000, Duration::ZERO).await.unwrap();
        backend
            .enqueue_prioritized(incoming.iter().map(|one| (one.task_id, Priority::BEST)).collect())
            .await
            .unwrap();
        let moved = backend.route(vec![Priority::BEST; 1_000], Duration::ZERO).await.unwrap();
        if incoming.is_empty() && moved == 0 {
            return;
        }
    }
}
