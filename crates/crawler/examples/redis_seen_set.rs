//! Measures the memory that pending and completed URLs take on Redis, and how long a frontier takes to take over a crawl
//! with as many of both. The Redis server must be empty.
//!
//! `cargo run --release --example redis_seen_set -- redis://127.0.0.1:PORT/ URLS`

use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::internal::backend::local::{BackendConfig, HostLimits};
use crawler::internal::backend::redis::{DistributedCrawl, FrontierProcess, RedisCrawl};
use crawler::internal::backend::{Backend, Completion, DiscoveredUrl, WorkerId};
use crawler::internal::outcome::{Outcome, OutcomeInternals as _};
use crawler::internal::prioritizer::{Priority, PriorityQueues};
use tokio::task::JoinHandle;

/// URLs per operation.
const BATCH: usize = 1_000;

const WORKER: WorkerId = WorkerId(0);

fn url(number: usize) -> String {
    format!("http://www.host{}.test/section{}/page-{number}.html", number % 500, number / 500 % 10)
}

fn memory(server: &mut redis::Connection) -> f64 {
    let information: String = redis::cmd("INFO").arg("memory").query(server).unwrap();
    let line = information.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.unwrap_or("0").trim().parse().unwrap()
}

fn config() -> BackendConfig {
    BackendConfig {
        visits: Default::default(),
        queue_size: 10_000,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers: 0,
        ttl: Duration::from_secs(3600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        keep_discovery: false,
        similarity: None,
        strip_query: Default::default(),
        keep_content: false,
        max_pages: u64::MAX,
        max_bytes: u64::MAX,
        max_page_bytes: 500_000,
        max_pages_per_host: u64::MAX,
        max_pages_per_site: u64::MAX,
        hosts: HostLimits::default(),
    }
}

async fn take_over(control: &DistributedCrawl) -> (Arc<FrontierProcess>, JoinHandle<()>) {
    let process = control.take_over().await.unwrap();
    let running = Arc::clone(&process);
    let running = tokio::spawn(async move { drop(running.run().await) });
    (process, running)
}

async fn admit(process: &FrontierProcess, numbers: std::ops::Range<usize>) {
    for first in numbers.clone().step_by(BATCH) {
        let urls = (first..numbers.end.min(first + BATCH)).map(|number| DiscoveredUrl {
            url: url(number),
            depth: 1,
            redirects: 0,
        });
        process.backend().admit(urls.collect()).await.unwrap();
    }
}

async fn complete(process: &FrontierProcess, count: usize, outcome: Outcome) {
    let (backend, mut completed) = (process.backend(), 0);
    while completed < count {
        let unprioritized = backend.take_unprioritized(BATCH, Duration::ZERO).await.unwrap();
        let prioritized = unprioritized.iter().map(|url| (url.task_id, Priority::WORST)).collect();
        backend.enqueue_prioritized(prioritized).await.unwrap();
        let leases = backend.lease(WORKER, BATCH, Duration::ZERO).await.unwrap();
        completed += leases.len();
        let completion = |lease| Completion { outcome: outcome.clone(), ..Completion::new(lease) };
        backend.complete(leases.iter().map(completion).collect()).await.unwrap();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().expect("the URL of an empty Redis");
    let urls: usize = arguments.next().expect("the number of URLs").parse().unwrap();
    let mut server = redis::Client::open(address.as_str()).unwrap().get_connection().unwrap();
    let place = RedisCrawl::new(address.parse().unwrap(), "seen");
    let control = DistributedCrawl::open(place, config()).await.unwrap();
    let (process, running) = take_over(&control).await;
    // The frontier leases to workers that it knows.
    let worker = control.join_as_worker(WORKER, 1);
    worker.lease(WORKER, 0, Duration::ZERO).await.unwrap();
    let before = memory(&mut server);
    admit(&process, 0..urls).await;
    println!("{:8.1} bytes per pending URL", (memory(&mut server) - before) / urls as f64);
    complete(&process, urls, Outcome::Page).await;
    let seen = memory(&mut server);
    println!("{:8.1} bytes per seen URL that is completed", (seen - before) / urls as f64);
    admit(&process, urls..2 * urls).await;
    complete(&process, urls, Outcome::http_status(404)).await;
    println!(
        "{:8.1} bytes per failed URL, whose text reports list",
        (memory(&mut server) - seen) / urls as f64
    );
    admit(&process, 2 * urls..3 * urls).await;
    process.flush().await.unwrap();
    let start = Instant::now();
    let (next, _) = take_over(&control).await;
    let elapsed = start.elapsed();
    running.await.unwrap();
    let snapshot = next.backend().snapshot().await.unwrap();
    println!(
        "{:8.2} s to take over {} pending and {} completed URLs",
        elapsed.as_secs_f64(),
        snapshot.pending(),
        2 * urls
    );
}
