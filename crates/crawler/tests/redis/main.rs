//! Tests of distributed crawls on Redis. The tests in this file run whole crawls, and compare the result with the web's
//! pages and its log.

mod dead_workers;
mod distributed_crawl;
mod inspect;
mod lifecycle;
mod live_changes;
mod lost_writes;
mod members;
mod memory;
mod near_duplicates;
mod outages;
mod statistics;
mod takeovers;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crawler::StopHandle;
use crawler::internal::backend::local::{BackendConfig, HostLimits};
use crawler::internal::backend::redis::{DistributedCrawl, RedisCrawl, RemoteBackend};
use crawler::internal::backend::{Backend, DiscoveredUrl, Snapshot, WorkerId};
use crawler::internal::config::{FetchConfig, Oversize};
use crawler::internal::fetch::fetcher::Fetcher;
use crawler::internal::fetch::request_gate::RequestGate;
use crawler::internal::fetch::throttle::HostThrottle;
use crawler::internal::frontier;
use crawler::internal::modules::BuiltinModule;
use crawler::internal::modules::output::files::{OutputFiles, Start};
use crawler::internal::modules::page_pipeline::PagePipeline;
use crawler::internal::page::Page;
use crawler::internal::prioritizer::{DepthPopularity, PriorityQueues};
use crawler::internal::scope::Scope;
use crawler::internal::similarity::Threshold;
use crawler::internal::worker::{Worker, WorkerContext};
use testredis::Server;
use testweb::{Site, Web};
use tokio::runtime;
use url::Url;

fn config(workers: u16) -> BackendConfig {
    BackendConfig {
        visits: Default::default(),
        queue_size: 100,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers,
        ttl: Duration::from_secs(3600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        keep_discovery: false,
        similarity: None,
        strip_query: Default::default(),
        keep_content: true,
        max_pages: 10_000,
        max_bytes: 50_000_000,
        max_page_bytes: 500_000,
        max_pages_per_host: u64::MAX,
        max_pages_per_site: u64::MAX,
        hosts: HostLimits::default(),
    }
}

/// A crawl whose hosts all resolve to loopback, without robots.txt.
#[derive(Clone)]
struct Crawl {
    redis: String,
    name: &'static str,
    config: BackendConfig,
    delay: Duration,
    seed: Url,
}

/// The URLs of the pages that the modules got.
type PageUrls = Arc<Mutex<Vec<String>>>;

impl Crawl {
    fn new(web: &Web, redis: &Server, name: &'static str, workers: u16) -> Crawl {
        let seed = web.url_of("h0.test", "/").parse().unwrap();
        Crawl { redis: redis.url(), name, config: config(workers), delay: Duration::ZERO, seed }
    }

    fn open(&self) -> DistributedCrawl {
        let place =
            RedisCrawl { delay: self.delay, ..RedisCrawl::new(self.redis.parse().unwrap(), self.name) };
        let hosts = HostLimits { delay: self.delay, ..self.config.hosts.clone() };
        block_on(DistributedCrawl::open(place, BackendConfig { hosts, ..self.config.clone() })).unwrap()
    }

    /// Crawls to the end. Each worker and the frontier have their own thread and connections.
    fn run(&self) -> (Vec<String>, Snapshot) {
        let (urls, stop, control) = (PageUrls::default(), StopHandle::new(), self.open());
        let process = block_on(control.take_over()).unwrap();
        let seed = DiscoveredUrl { url: self.seed.to_string(), depth: 0, redirects: 0 };
        block_on(control.add_seeds(&[seed], false)).unwrap();
        thread::scope(|scope| {
            for id in 0..self.config.workers {
                let (urls, stop) = (&urls, &stop);
                scope.spawn(move || {
                    let control = self.open();
                    let backend = Arc::new(control.join_as_worker(WorkerId(id), 1));
                    let worked = block_on(self.worker(id, backend, urls, stop).run());
                    // A worker that fails ends the crawl, so that the others do not wait for its URLs.
                    stop.stop();
                    worked.unwrap();
                });
            }
            block_on(async {
                tokio::select! {
                    ended = process.run() => panic!("{ended:?}"),
                    () = async {
                        while !process.is_drained().await.unwrap() {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                        let backend = process.backend();
                        frontier::run(&**backend, &DepthPopularity, &stop).await.unwrap();
                        process.flush().await.unwrap();
                    } => {}
                }
            });
            stop.stop();
        });
        let snapshot = block_on(process.backend().snapshot()).unwrap();
        (Arc::into_inner(urls).unwrap().into_inner().unwrap(), snapshot)
    }

    fn worker(
        &self,
        id: u16,
        backend: Arc<RemoteBackend>,
        urls: &PageUrls,
        stop: &StopHandle,
    ) -> Arc<Worker<RemoteBackend>> {
        let urls = Arc::clone(urls);
        let collector: Box<dyn BuiltinModule> =
            Box::new(move |page: &Page| urls.lock().unwrap().push(page.url.to_string()));
        let files = OutputFiles::open(&[], Start::Fresh).unwrap();
        let hosts: Vec<Url> = (0..20).map(|n| format!("http://h{n}.test/").parse().unwrap()).collect();
        let context = Arc::new(WorkerContext {
            keeps_visits: false,
            backend,
            pipeline: Arc::new(PagePipeline::new(vec![collector], Vec::new(), files, Arc::new(|_, _| {}))),
            gate: Arc::new(RequestGate::new(Scope::domains(&hosts), Arc::default())),
            seed_updates: None,
            max_depth: 1_000,
            max_page_bytes: 500_000,
            oversize: Oversize::Drop,
            similarity: self.config.similarity,
            follow_duplicates: false,
            uses_sitemaps: false,
            wants_source_links: false,
            max_leases: 100,
            stop: stop.clone(),
        });
        let mut config = FetchConfig { delay: self.delay, ..FetchConfig::default() };
        config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
        config.requests.allow_private = true;
        config.requests.obey_robots = false;
        let throttle = Arc::new(HostThrottle::new(self.delay, config.max_per_host));
        let fetcher = Fetcher::new(config, std::slice::from_ref(&self.seed), throttle, stop.clone()).unwrap();
        Arc::new(Worker::new(WorkerId(id), fetcher, context))
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn expected_urls(web: &Web) -> BTreeSet<String> {
    web.truth_from(&web.url_of("h0.test", "/"), 1_000).into_keys().collect()
}

fn assert_complete(urls: Vec<String>, snapshot: &Snapshot, web: &Web) {
    let pages = urls.len();
    let urls: BTreeSet<String> = urls.into_iter().collect();
    assert_eq!(urls.len(), pages, "no page twice");
    assert_eq!(urls, expected_urls(web));
    assert_eq!((snapshot.pages, snapshot.pending()), (pages as u64, 0));
    assert_eq!(snapshot.outcomes.values().sum::<u64>(), snapshot.completed);
    assert_eq!(snapshot.stored_pages, pages);
    assert!(snapshot.workers.iter().all(|worker| (worker.domains, worker.leased) == (0, 0)), "{snapshot:?}");
    assert_eq!(snapshot.priority_queues.iter().sum::<usize>(), 0);
    assert_eq!((snapshot.url_queue, snapshot.overflow, snapshot.active_hosts), (0, 0, 0));
    assert_eq!(snapshot.seen_urls, snapshot.completed as usize);
}

fn assert_requested_once(web: &Web) {
    let requests: Vec<_> = web.log().iter().map(|hit| (hit.host.clone(), hit.path.clone())).collect();
    let distinct = requests.iter().collect::<BTreeSet<_>>().len();
    assert_eq!(distinct, requests.len(), "each URL is requested once");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn every_page_is_crawled_with_any_number_of_workers() {
    for workers in [1, 4] {
        let (web, redis) = (Web::builder().seeded_hosts(7, 20, 12).start(), Server::start());
        let crawl = Crawl::new(&web, &redis, "whole", workers);
        let (urls, snapshot) = crawl.run();
        assert_complete(urls, &snapshot, &web);
        assert_requested_once(&web);
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn host_gets_one_request_at_a_time_and_no_faster_than_the_delay() {
    let (web, redis) = (Web::builder().seeded_hosts(3, 20, 6).start(), Server::start());
    let delay = Duration::from_millis(40);
    let (urls, snapshot) = Crawl { delay, ..Crawl::new(&web, &redis, "polite", 4) }.run();
    assert_complete(urls, &snapshot, &web);
    let log = web.log();
    assert!(log.smallest_gap().unwrap() >= delay, "{:?}", log.smallest_gap());
    for host in (0..20).map(|n| format!("h{n}.test")) {
        assert!(log.for_host(&host).max_concurrent() <= 1, "{host}");
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn concurrent_crawls_on_one_redis_are_independent() {
    let webs = [7, 8].map(|seed| Web::builder().seeded_hosts(seed, 20, 8).start());
    let redis = Server::start();
    thread::scope(|scope| {
        for (name, web) in ["one", "other"].into_iter().zip(&webs) {
            let crawl = Crawl::new(web, &redis, name, 2);
            scope.spawn(move || {
                let (urls, snapshot) = crawl.run();
                assert_complete(urls, &snapshot, web);
                assert_requested_once(web);
            });
        }
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn near_duplicate_pages_are_dropped_and_the_others_are_stored() {
    let site = Site::seeded(9, 30).with_print_views();
    let (web, redis) = (Web::builder().host("h0.test", site).start(), Server::start());
    let mut crawl = Crawl::new(&web, &redis, "similar", 2);
    crawl.config.similarity = Threshold::new(0.9);
    let (urls, snapshot) = crawl.run();
    let dropped = snapshot.outcomes.get("near-duplicate").copied().unwrap_or(0);
    assert!(dropped > 10, "{:?}", snapshot.outcomes);
    assert_eq!(snapshot.stored_pages, urls.len());
    let expected = web.truth_from(&web.url_of("h0.test", "/"), 1_000);
    let place = RedisCrawl::new(redis.url().parse().unwrap(), "similar");
    let stored = block_on(DistributedCrawl::attach(place)).unwrap();
    for url in &urls {
        let stored = block_on(stored.content(&url.parse().unwrap())).unwrap();
        assert_eq!(stored.as_ref(), Some(&expected[url].1), "{url}");
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn no_url_is_lost_with_queues_of_size_one() {
    let (web, redis) = (Web::builder().seeded_hosts(5, 20, 6).start(), Server::start());
    let mut crawl = Crawl::new(&web, &redis, "tiny", 3);
    crawl.config.queue_size = 1;
    let (urls, snapshot) = crawl.run();
    assert_complete(urls, &snapshot, &web);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn budgets_are_used_up_exactly_by_several_workers() {
    let (web, redis) = (Web::builder().seeded_hosts(11, 20, 20).start(), Server::start());
    let mut crawl = Crawl::new(&web, &redis, "budget", 4);
    crawl.config.max_pages = 57;
    let (urls, snapshot) = crawl.run();
    assert_eq!((urls.len(), snapshot.pages), (57, 57));
}
