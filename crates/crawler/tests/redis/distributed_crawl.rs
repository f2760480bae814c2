//! A distributed crawl whose processes a test runs step by step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawler::internal::backend::local::{BackendConfig, HostLimits};
use crawler::internal::backend::redis::{
    DistributedCrawl, FrontierEnd, FrontierProcess, RedisCrawl, RemoteBackend,
};
use crawler::internal::backend::{
    Backend, BackendError, CompleteResult, Completion, DiscoveredUrl, Lease, Outlinks, Snapshot, WorkerId,
};
use crawler::internal::outcome::{Outcome, OutcomeInternals as _};
use crawler::internal::prioritizer::Priority;
use crawler::internal::stats::BodyBytes;
use testredis::Server;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::config;

pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A crawl at an address.
#[derive(Clone)]
pub struct TestCrawl {
    pub redis: String,
    pub name: &'static str,
    pub config: BackendConfig,
    pub delay: Duration,
}

impl TestCrawl {
    pub fn new(server: &Server, name: &'static str) -> TestCrawl {
        TestCrawl { redis: server.url(), name, config: config(0), delay: Duration::ZERO }
    }

    pub fn place(&self) -> RedisCrawl {
        RedisCrawl { delay: self.delay, ..RedisCrawl::new(self.redis.parse().unwrap(), self.name) }
    }

    pub async fn open(&self) -> DistributedCrawl {
        let hosts = HostLimits { delay: self.delay, ..self.config.hosts.clone() };
        DistributedCrawl::open(self.place(), BackendConfig { hosts, ..self.config.clone() }).await.unwrap()
    }

    pub async fn take_over(&self) -> Frontier {
        Frontier::start(self.open().await).await.unwrap()
    }

    /// A worker process, which the frontier knows.
    pub async fn worker(&self, number: u16, joined_at: u64) -> RemoteBackend {
        let worker = self.open().await.join_as_worker(WorkerId(number), joined_at);
        worker.lease(WorkerId(number), 0, Duration::ZERO).await.unwrap();
        worker
    }

    /// Hands seeds to the frontier, which must admit them.
    pub async fn seed(&self, seeds: impl IntoIterator<Item = String>) {
        let seeds: Vec<DiscoveredUrl> = seeds.into_iter().map(|url| discovered(&url, 0)).collect();
        let counts =
            self.open().await.add_seeds(&seeds, true).await.unwrap().expect("a frontier admits them");
        assert_eq!(counts.new, seeds.len() as u64);
    }
}

/// A frontier process, which serves the workers and gives all URLs the same priority.
pub struct Frontier {
    pub process: Arc<FrontierProcess>,
    running: JoinHandle<Result<FrontierEnd, BackendError>>,
    prioritizing: JoinHandle<()>,
    _control: DistributedCrawl,
}

impl Frontier {
    pub async fn start(control: DistributedCrawl) -> Result<Frontier, BackendError> {
        let process = control.take_over().await?;
        let (served, backend) = (Arc::clone(&process), Arc::clone(process.backend()));
        let running = tokio::spawn(async move { served.run().await });
        let prioritizing = tokio::spawn(async move {
            loop {
                let urls = backend.take_unprioritized(1_000, Duration::from_secs(1)).await.unwrap();
                let urls = urls.iter().map(|url| (url.task_id, Priority::new(50).unwrap())).collect();
                backend.enqueue_prioritized(urls).await.unwrap();
            }
        });
        Ok(Frontier { process, running, prioritizing, _control: control })
    }

    pub async fn snapshot(&self) -> Snapshot {
        self.process.backend().snapshot().await.unwrap()
    }

    pub async fn pending(&self) -> u64 {
        self.process.backend().pending().await.unwrap()
    }

    /// Waits until the frontier can write nothing more, and returns why.
    pub async fn end(&mut self) -> FrontierEnd {
        let ended = timeout(TIMEOUT, &mut self.running).await.expect("timeout: the frontier still runs");
        ended.unwrap().unwrap()
    }

    /// Whether the frontier can write nothing more.
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }
}

/// A drop is a kill: nothing is written any more.
impl Drop for Frontier {
    fn drop(&mut self) {
        self.running.abort();
        self.prioritizing.abort();
    }
}

pub fn discovered(url: &str, depth: u32) -> DiscoveredUrl {
    DiscoveredUrl { url: url.to_owned(), depth, redirects: 0 }
}

/// The URLs of `count` hosts.
pub fn hosts(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|host| format!("http://h{host}.test/"))
}

pub fn page(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::Page, bytes: BodyBytes::unencoded(7), ..Completion::new(lease) }
}

/// Leases exactly this many URLs.
pub async fn lease(worker: &RemoteBackend, count: usize) -> Vec<Lease> {
    let (mut leases, start) = (Vec::new(), Instant::now());
    while leases.len() < count {
        let left = count - leases.len();
        leases.extend(worker.lease(WorkerId(0), left, Duration::from_millis(100)).await.unwrap());
        assert!(start.elapsed() < TIMEOUT, "timeout: {} of {count} URLs are leased", leases.len());
    }
    leases
}

/// No URL is leased to the worker.
pub async fn assert_nothing_to_lease(worker: &RemoteBackend) {
    let leases = worker.lease(WorkerId(0), 100, Duration::from_millis(100)).await.unwrap();
    assert!(leases.is_empty(), "{leases:?}");
}

/// Waits for a condition.
pub async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < TIMEOUT, "timeout: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// The pages of a web without end: page n links to the pages 2n + 1 and 2n + 2, which are on other hosts, and to the
/// first page.
#[derive(Debug, Clone, Copy)]
pub struct Tree(pub usize);

impl Tree {
    pub fn url(self, number: usize) -> String {
        format!("http://h{}.test/{number}", number % 37)
    }

    pub fn number(self, url: &str) -> usize {
        url.rsplit('/').next().unwrap().parse().unwrap()
    }

    /// Every eighth URL is not found, but links are followed from there as well.
    pub fn completion(self, lease: &Lease) -> Completion {
        let number = self.number(&lease.url);
        let linked = [2 * number + 1, 2 * number + 2, 0].into_iter().filter(|page| *page < self.0);
        let outcome = match number % 8 {
            7 => Outcome::http_status(404),
            _ => Outcome::Page,
        };
        let outlinks = Outlinks::new(linked.map(|number| self.url(number)), 1);
        Completion { outcome, outlinks, ..page(lease) }
    }

    /// What a crawl in one process counts.
    pub fn assert_crawled(self, snapshot: &Snapshot) {
        let (urls, missing) = (self.0 as u64, (0..self.0).filter(|number| number % 8 == 7).count() as u64);
        let outcomes =
            BTreeMap::from([("page".to_owned(), urls - missing), ("HTTP 404".to_owned(), missing)]);
        assert_eq!((snapshot.admitted, snapshot.completed, snapshot.pages), (urls, urls, urls - missing));
        assert_eq!(snapshot.outcomes, outcomes);
        assert_eq!((snapshot.links_new, snapshot.links_seen), (urls - 1, urls));
        assert_eq!((snapshot.bytes, snapshot.received), (7 * urls, 7 * urls));
        assert_eq!(snapshot.seen_urls, self.0);
        assert_eq!(snapshot.active_hosts, 0);
        assert!(snapshot.workers.iter().all(|worker| worker.leased == 0), "{:?}", snapshot.workers);
    }
}

/// The replies to the completions of the workers: the page numbers by URL.
#[derive(Default)]
pub struct Ledger(Mutex<BTreeMap<String, Option<u64>>>);

impl Ledger {
    /// Records a result. A URL is completed once.
    pub fn record(&self, lease: &Lease, result: CompleteResult) {
        match result {
            CompleteResult::Applied { id, .. } => {
                let before = self.0.lock().unwrap().insert(lease.url.to_string(), id);
                assert_eq!(before, None, "{} is completed twice", lease.url);
            }
            CompleteResult::StaleLease => {}
            CompleteResult::Requeued { .. } => panic!("{} is requeued", lease.url),
        }
    }

    /// Every URL is completed, and pages are numbered without gaps.
    pub fn assert_complete(&self, tree: Tree) {
        let completed = self.0.lock().unwrap();
        assert_eq!(completed.len(), tree.0);
        let mut numbers: Vec<u64> = completed.values().copied().flatten().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    }
}
