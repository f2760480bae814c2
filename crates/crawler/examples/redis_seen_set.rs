//! Measures the memory that queued and completed URLs take in Redis. The Redis server must be empty.
//!
//! `cargo run --release --example redis_seen_set -- redis://127.0.0.1:PORT/ URLS`

use std::time::Duration;

use crawler::internal::backend::local::{BackendConfig, HostLimits};
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, Completion, DiscoveredUrl, WorkerId};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::{Priority, PriorityQueues};

/// URLs per operation.
const BATCH: usize = 1_000;

fn url(number: usize) -> String {
    format!("http://www.host{}.test/section{}/page-{number}.html", number % 500, number / 500 % 10)
}

fn memory(server: &mut redis::Connection) -> f64 {
    let information: String = redis::cmd("INFO").arg("memory").query(server).unwrap();
    let line = information.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.unwrap_or("0").trim().parse().unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().expect("the URL of an empty Redis");
    let urls: usize = arguments.next().expect("the number of URLs").parse().unwrap();
    let config = BackendConfig {
        queue_size: 10_000,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers: 1,
        ttl: Duration::from_secs(3600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        similarity: None,
        strip_query: Default::default(),
        keep_content: false,
        max_pages: u64::MAX,
        max_bytes: u64::MAX,
        max_page_bytes: 500_000,
        max_pages_per_host: u64::MAX,
        max_pages_per_site: u64::MAX,
        hosts: HostLimits::default(),
    };
    let mut server = redis::Client::open(address.as_str()).unwrap().get_connection().unwrap();
    let crawl = RedisCrawl::new(address.parse().unwrap(), "seen");
    let backend = RedisBackend::open(crawl, config).await.unwrap();
    let before = memory(&mut server);
    for first in (0..urls).step_by(BATCH) {
        let discovered = (first..urls.min(first + BATCH)).map(|number| DiscoveredUrl {
            url: url(number),
            depth: 1,
            redirects: 0,
        });
        backend.admit(discovered.collect()).await.unwrap();
    }
    println!("{:8.1} bytes per queued URL", (memory(&mut server) - before) / urls as f64);
    let mut completed = 0;
    while completed < urls {
        let unprioritized = backend.take_unprioritized(BATCH, Duration::ZERO).await.unwrap();
        backend
            .enqueue_prioritized(unprioritized.iter().map(|url| (url.task_id, Priority::MIDDLE)).collect())
            .await
            .unwrap();
        backend.route(vec![Priority::MIDDLE; BATCH], Duration::ZERO).await.unwrap();
        let leases = backend.lease(WorkerId(0), BATCH, Duration::ZERO).await.unwrap();
        completed += leases.len();
        let not_found = Outcome::HttpStatus { code: 404, retry_after: None };
        let completions =
            leases.iter().map(|lease| Completion { outcome: not_found.clone(), ..Completion::new(lease) });
        backend.complete(completions.collect()).await.unwrap();
    }
    println!("{:8.1} bytes per seen URL that is completed", (memory(&mut server) - before) / urls as f64);
}
