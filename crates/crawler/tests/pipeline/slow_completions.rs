//! A backend with slow completions, like one on disk or across a network, does not hold up hosts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crawler::StopHandle;
use crawler::internal::backend::local::{BackendConfig, LocalBackend};
use crawler::internal::backend::{Backend, BackendError, DiscoveredUrl, WorkerId};
use crawler::internal::config::FetchConfig;
use crawler::internal::frontier;
use crawler::internal::prioritizer::DepthPopularity;
use crawler::internal::worker::WorkerContext;
use testweb::{Request, Response, Site, Web};

use super::fixtures::{config, context, worker};
use super::hooked_backend::{Hook, HookedBackend};

/// How long a completion takes.
const COMPLETION_TIME: Duration = Duration::from_millis(400);

/// Delays completions, each of one page, and counts the pages in progress.
struct SlowCompletions {
    web: Web,
    completed: AtomicUsize,
    max_in_progress: AtomicUsize,
    completing: AtomicUsize,
    max_completing: AtomicUsize,
}

impl Hook for SlowCompletions {
    async fn before(&self, operation: &'static str) -> Result<(), BackendError> {
        if operation == "complete" {
            let completing = self.completing.fetch_add(1, Ordering::Relaxed) + 1;
            self.max_completing.fetch_max(completing, Ordering::Relaxed);
            tokio::time::sleep(COMPLETION_TIME).await;
            self.completing.fetch_sub(1, Ordering::Relaxed);
            let in_progress = self.web.hits() - self.completed.load(Ordering::Relaxed);
            self.max_in_progress.fetch_max(in_progress, Ordering::Relaxed);
            self.completed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

type SlowBackend = HookedBackend<LocalBackend, SlowCompletions>;

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
    let mut fetch_config = FetchConfig { delay: Duration::ZERO, concurrency, ..FetchConfig::default() };
    fetch_config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
    fetch_config.requests.allow_private = true;
    fetch_config.requests.obey_robots = false;
    let max_page_bytes = 10_000 + page_bytes;
    let config = BackendConfig { max_page_bytes: max_page_bytes as u64, max_bytes: 1 << 30, ..config() };
    let hook = SlowCompletions {
        web,
        completed: AtomicUsize::new(0),
        max_in_progress: AtomicUsize::new(0),
        completing: AtomicUsize::new(0),
        max_completing: AtomicUsize::new(0),
    };
    let backend = Arc::new(SlowBackend { inner: LocalBackend::new(config), hook });
    let stop = StopHandle::new();
    let context = Arc::into_inner(context(&backend, &stop)).unwrap();
    let context = Arc::new(WorkerContext { max_page_bytes, ..context });
    let worker = worker(0, &[urls[0].parse().unwrap()], fetch_config, &context);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = Instant::now();
    runtime.block_on(async {
        let found = urls.into_iter().map(|url| DiscoveredUrl { url, depth: 0, redirects: 0 }).collect();
        // The second worker does not run, so no URL must be routed to it.
        backend.remove_worker(WorkerId(1)).await.unwrap();
        backend.admit(found).await.unwrap();
        let working = tokio::spawn(worker.run());
        assert!(frontier::run(&*backend, &DepthPopularity, &stop).await.unwrap());
        stop.stop();
        working.await.unwrap().unwrap();
    });
    (backend, start.elapsed())
}

#[test]
fn next_fetch_of_a_host_starts_while_its_last_page_is_being_completed() {
    let (backend, took) = crawl((0..20).map(|n| ("one.test".into(), format!("/{n}"))).collect(), 16);
    assert_eq!(backend.hook.completed.load(Ordering::Relaxed), 20);
    assert!(took < 10 * COMPLETION_TIME, "{took:?}; one after the other would take twenty completions");
    assert_eq!(backend.hook.web.log().max_concurrent(), 1);
}

#[test]
fn pages_in_progress_are_at_most_twice_the_concurrency() {
    let (backend, _) = crawl((0..60).map(|n| (format!("h{n}.test"), "/".into())).collect(), 4);
    assert_eq!(backend.hook.completed.load(Ordering::Relaxed), 60);
    let max = backend.hook.max_in_progress.load(Ordering::Relaxed);
    assert!((4..=8).contains(&max), "{max}");
}

#[test]
fn bytes_of_pages_that_are_being_completed_are_limited() {
    let urls = (0..16).map(|n| (format!("h{n}.test"), "/".into())).collect();
    let (backend, _) = crawl_of_large_pages(urls, 16, 400_000);
    assert_eq!(backend.hook.completed.load(Ordering::Relaxed), 16);
    // Two megabytes.
    let max = backend.hook.max_completing.load(Ordering::Relaxed);
    assert!((2..=5).contains(&max), "{max}");
}
