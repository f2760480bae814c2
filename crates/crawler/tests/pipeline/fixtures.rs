//! Builds workers and their context, for tests that run them without a `Crawler`.

use std::sync::Arc;
use std::time::Duration;

use crawler::StopHandle;
use crawler::internal::backend::local::{BackendConfig, HostLimits};
use crawler::internal::backend::{Backend, WorkerId};
use crawler::internal::config::{FetchConfig, Oversize};
use crawler::internal::fetch::fetcher::Fetcher;
use crawler::internal::fetch::request_gate::RequestGate;
use crawler::internal::fetch::throttle::HostThrottle;
use crawler::internal::modules::output::files::{OutputFiles, Start};
use crawler::internal::modules::page_pipeline::PagePipeline;
use crawler::internal::prioritizer::PriorityQueues;
use crawler::internal::scope::Scope;
use crawler::internal::worker::{Worker, WorkerContext};
use url::Url;

/// A backend configuration for two workers.
pub fn config() -> BackendConfig {
    BackendConfig {
        visits: Default::default(),
        queue_size: 100,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers: 2,
        ttl: Duration::from_secs(3600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        keep_discovery: false,
        similarity: None,
        strip_query: Default::default(),
        keep_content: false,
        max_pages: 1_000,
        max_bytes: 10_000_000,
        max_page_bytes: 10_000,
        max_pages_per_host: u64::MAX,
        max_pages_per_site: u64::MAX,
        hosts: HostLimits::default(),
    }
}

/// The context of workers without modules.
pub fn context<R: Backend>(backend: &Arc<R>, stop: &StopHandle) -> Arc<WorkerContext<R>> {
    let files = OutputFiles::open(&[], Start::Fresh).unwrap();
    Arc::new(WorkerContext {
        keeps_visits: false,
        backend: Arc::clone(backend),
        pipeline: Arc::new(PagePipeline::new(Vec::new(), Vec::new(), files, Arc::new(|_, _| {}))),
        gate: Arc::new(RequestGate::new(Scope::anywhere(), Arc::default())),
        seed_updates: None,
        max_depth: 3,
        max_page_bytes: 10_000,
        oversize: Oversize::Drop,
        similarity: None,
        follow_duplicates: false,
        uses_sitemaps: false,
        wants_source_links: false,
        max_leases: 100,
        stop: stop.clone(),
    })
}

/// A worker with its own throttle, as if it were alone in its process.
pub fn worker<R: Backend>(
    id: u16,
    seeds: &[Url],
    config: FetchConfig,
    context: &Arc<WorkerContext<R>>,
) -> Arc<Worker<R>> {
    let throttle = Arc::new(HostThrottle::from_config(&config));
    let fetcher = Fetcher::new(config, seeds, throttle, context.stop.clone()).unwrap();
    Arc::new(Worker::new(WorkerId(id), fetcher, Arc::clone(context)))
}
