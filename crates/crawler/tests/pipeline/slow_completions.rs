//! A backend with slow completions, like one on disk or across a network, does not hold up hosts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crawler::StopHandle;
use crawler::internal::backend::local::{BackendConfig, LocalBackend};
use crawler::internal::backend::{
    AdmitCounts, Backend, BackendError, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch,
    DiscoveredUrl, HostDelay, Lease, Snapshot, TaskId, UnprioritizedUrl, WorkerId,
};
use crawler::internal::config::{DnsOverride, FetchConfig};
use crawler::internal::fetch::http::AddressKinds;
use crawler::internal::frontier;
use crawler::internal::prioritizer::{DepthPopularity, Priority, Random};
use crawler::internal::similarity::{Fingerprint, HashKey};
use crawler::internal::stats::{BodyBytes, RequestCounter};
use crawler::internal::worker::WorkerContext;
use testweb::{Request, Response, Site, Web};

use super::fixtures::{config, context, worker};

/// How long a completion takes.
const COMPLETION_TIME: Duration = Duration::from_millis(400);

/// A backend in memory with slow completions, which counts the pages in progress.
struct SlowBackend {
    inner: LocalBackend,
    web: Web,
    completed: AtomicUsize,
    max_in_progress: AtomicUsize,
    completing: AtomicUsize,
    max_completing: AtomicUsize,
}

impl Backend for SlowBackend {
    async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<CompleteResult>, BackendError> {
        let completing = self.completing.fetch_add(1, Ordering::Relaxed) + 1;
        self.max_completing.fetch_max(completing, Ordering::Relaxed);
        tokio::time::sleep(COMPLETION_TIME).await;
        self.completing.fetch_sub(1, Ordering::Relaxed);
        let in_progress = self.web.hits() - self.completed.load(Ordering::Relaxed);
        self.max_in_progress.fetch_max(in_progress, Ordering::Relaxed);
        self.completed.fetch_add(completions.len(), Ordering::Relaxed);
        self.inner.complete(completions).await
    }

    async fn admit(&self, urls: Vec<DiscoveredUrl>) -> Result<AdmitCounts, BackendError> {
        self.inner.admit(urls).await
    }

    async fn take_unprioritized(
        &self,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        self.inner.take_unprioritized(max, wait).await
    }

    async fn enqueue_prioritized(&self, prioritized: Vec<(TaskId, Priority)>) -> Result<(), BackendError> {
        self.inner.enqueue_prioritized(prioritized).await
    }

    async fn route(&self, draws: Vec<Priority>, wait: Duration) -> Result<usize, BackendError> {
        self.inner.route(draws, wait).await
    }

    async fn lease(&self, worker: WorkerId, max: usize, wait: Duration) -> Result<Vec<Lease>, BackendError> {
        self.inner.lease(worker, max, wait).await
    }

    async fn reserve(&self, lease: &Lease, read: BodyBytes) -> Result<BudgetDecision, BackendError> {
        self.inner.reserve(lease, read).await
    }

    async fn release(&self, lease: &Lease, read: BodyBytes) -> Result<(), BackendError> {
        self.inner.release(lease, read).await
    }

    async fn set_host_delay(&self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        self.inner.set_host_delay(host, host_delay).await
    }

    async fn pin_address_kinds(&self, host: &str, kinds: AddressKinds) -> Result<AddressKinds, BackendError> {
        self.inner.pin_address_kinds(host, kinds).await
    }

    async fn record_outputs_written(&self, last_id: u64, lengths: Vec<u64>) -> Result<(), BackendError> {
        self.inner.record_outputs_written(last_id, lengths).await
    }

    fn hash_key(&self) -> HashKey {
        self.inner.hash_key()
    }

    fn request_counter(&self) -> RequestCounter {
        self.inner.request_counter()
    }

    async fn store_content(
        &self,
        url: &str,
        fingerprint: &Fingerprint,
        body: &[u8],
        is_seed: bool,
    ) -> Result<ContentMatch, BackendError> {
        self.inner.store_content(url, fingerprint, body, is_seed).await
    }

    async fn load_content(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        self.inner.load_content(url).await
    }

    async fn outstanding(&self) -> Result<u64, BackendError> {
        self.inner.outstanding().await
    }

    async fn exhausted_budget(&self) -> Result<Option<Budget>, BackendError> {
        self.inner.exhausted_budget().await
    }

    async fn remove_worker(&self, worker: WorkerId) -> Result<(), BackendError> {
        self.inner.remove_worker(worker).await
    }

    async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        self.inner.snapshot().await
    }
}

/// Crawls these URLs, given as host and path, with one worker. Returns how long that took.
fn crawl(urls: Vec<(String, String)>, concurrency: usize) -> (Arc<SlowBackend>, Duration) {
    crawl_of_large_pages(urls, concurrency, 0)
}

/// The same, with pages of more than this many bytes.
fn crawl_of_large_pages(
    urls: Vec<(String, String)>,
    concurrency: usize,
    page_bytes: usize,
) -> (Arc<SlowBackend>, Duration) {
    let page = move |request: &Request| {
        Response::page(format!("{}{}{}", request.authority, request.path, "x".repeat(page_bytes)))
    };
    let web = Web::builder().site(Site::new().fallback(page)).start();
    let urls: Vec<String> = urls.iter().map(|(host, path)| web.url_of(host, path)).collect();
    let fetch_config = FetchConfig {
        dns_overrides: vec![DnsOverride { host: "*".into(), address: [127, 0, 0, 1].into() }],
        allow_private: true,
        obey_robots: false,
        delay: Duration::ZERO,
        concurrency,
        ..FetchConfig::default()
    };
    let max_page_bytes = 10_000 + page_bytes;
    let config = BackendConfig { max_page_bytes: max_page_bytes as u64, max_bytes: 1 << 30, ..config() };
    let backend = Arc::new(SlowBackend {
        inner: LocalBackend::new(config),
        web,
        completed: AtomicUsize::new(0),
        max_in_progress: AtomicUsize::new(0),
        completing: AtomicUsize::new(0),
        max_completing: AtomicUsize::new(0),
    });
    let stop = StopHandle::new();
    let context = Arc::into_inner(context(&backend, &stop)).unwrap();
    let context = Arc::new(WorkerContext { max_page_bytes, ..context });
    let worker = worker(0, &urls[0].parse().unwrap(), fetch_config, &context);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = Instant::now();
    runtime.block_on(async {
        let found = urls.into_iter().map(|url| DiscoveredUrl { url, depth: 0, redirects: 0 }).collect();
        // The second worker does not run, so no URL must be routed to it.
        backend.remove_worker(WorkerId(1)).await.unwrap();
        backend.admit(found).await.unwrap();
        let working = tokio::spawn(worker.run());
        assert!(frontier::run(&*backend, &DepthPopularity, Random::seeded(1), &stop).await.unwrap());
        stop.stop();
        working.await.unwrap().unwrap();
    });
    (backend, start.elapsed())
}

#[test]
fn next_fetch_of_a_host_starts_while_its_last_page_is_being_completed() {
    let (backend, took) = crawl((0..20).map(|n| ("one.test".into(), format!("/{n}"))).collect(), 16);
    assert_eq!(backend.completed.load(Ordering::Relaxed), 20);
    assert!(took < 10 * COMPLETION_TIME, "{took:?}; one after the other would take twenty completions");
    assert_eq!(backend.web.log().max_concurrent(), 1);
}

#[test]
fn pages_in_progress_are_at_most_twice_the_concurrency() {
    let (backend, _) = crawl((0..60).map(|n| (format!("h{n}.test"), "/".into())).collect(), 4);
    assert_eq!(backend.completed.load(Ordering::Relaxed), 60);
    let max = backend.max_in_progress.load(Ordering::Relaxed);
    assert!((4..=8).contains(&max), "{max}");
}

#[test]
fn bytes_of_pages_that_are_being_completed_are_limited() {
    let urls = (0..16).map(|n| (format!("h{n}.test"), "/".into())).collect();
    let (backend, _) = crawl_of_large_pages(urls, 16, 400_000);
    assert_eq!(backend.completed.load(Ordering::Relaxed), 16);
    // Two megabytes.
    let max = backend.max_completing.load(Ordering::Relaxed);
    assert!((2..=5).contains(&max), "{max}");
}
