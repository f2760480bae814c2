//! The parts of a crawl, for tests that put them together themselves.

use std::sync::Arc;
use std::time::Duration;

use crawler::Stop;
use crawler::backend::local::Settings;
use crawler::backend::{Resources, WorkerId};
use crawler::config::Config;
use crawler::fetch::fetcher::Visitor;
use crawler::fetch::throttle::Pace;
use crawler::modules::page_pipeline::Installed;
use crawler::modules::output::files::{OutputFiles, Start};
use crawler::prioritizer::Queues;
use crawler::scope::Scope;
use crawler::worker::{Orders, Worker};
use url::Url;

/// Resources for two workers.
pub fn settings() -> Settings {
    Settings {
        queue_size: 100,
        priority_queues: Queues::new(10).unwrap(),
        workers: 2,
        ttl: Duration::from_secs(3600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        similarity: None,
        keep_content: false,
        max_pages: 1_000,
        max_bytes: 10_000_000,
        max_page_bytes: 10_000,
        max_pages_per_host: u64::MAX,
    }
}

/// What the workers go by, without modules.
pub fn orders<R: Resources>(resources: &Arc<R>, stop: &Stop) -> Arc<Orders<R>> {
    let files = OutputFiles::open(&[], Start::Fresh).unwrap();
    Arc::new(Orders {
        resources: Arc::clone(resources),
        installed: Arc::new(Installed::new(Vec::new(), Vec::new(), files, Box::new(|_, _| {}))),
        scope: Scope::anywhere(),
        max_depth: 3,
        max_page_bytes: 10_000,
        compare: false,
        in_hand: 100,
        stop: stop.clone(),
    })
}

/// One of the workers, as if it were alone in its process.
pub fn worker<R: Resources>(id: u16, seed: &Url, config: Config, orders: &Arc<Orders<R>>) -> Arc<Worker<R>> {
    let pace = Arc::new(Pace::of(&config));
    let visitor = Visitor::new(config, std::slice::from_ref(seed), pace, orders.stop.clone()).unwrap();
    Arc::new(Worker::new(WorkerId(id), visitor, Arc::clone(orders)))
}
