//! What URLs take of the memory of a Redis of its own, while they wait and when they are done:
//! `redis_links redis://127.0.0.1:PORT/ LINKS`.

use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, Completion, DiscoveredUrl, WorkerId};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::{Priority, PriorityQueues};

/// URLs are admitted and moved on so many at a time.
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
    let address = arguments.next().expect("the address of a Redis of its own");
    let links: usize = arguments.next().expect("a number of links").parse().unwrap();
    let settings = BackendConfig {
        queue_size: 10_000,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers: 1,
        ttl: Duration::from_secs(3600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        similarity: None,
        keep_content: false,
        max_pages: u64::MAX,
        max_bytes: u64::MAX,
        max_page_bytes: 500_000,
        max_pages_per_host: u64::MAX,
    };
    let mut server = redis::Client::open(address.as_str()).unwrap().get_connection().unwrap();
    let place = RedisCrawl::new(address.parse().unwrap(), "links");
    let backend = RedisBackend::open(place, settings).await.unwrap();
    let before = memory(&mut server);
    for first in (0..links).step_by(BATCH) {
        let found = (first..links.min(first + BATCH)).map(|number| DiscoveredUrl {
            url: url(number),
            depth: 1,
            redirects: 0,
        });
        backend.admit(found.collect()).await.unwrap();
    }
    println!("{:8.1} bytes per URL that waits", (memory(&mut server) - before) / links as f64);
    let mut done = 0;
    while done < links {
        let incoming = backend.take_unprioritized(BATCH, Duration::ZERO).await.unwrap();
        backend
            .enqueue_prioritized(incoming.iter().map(|one| (one.task_id, Priority::MIDDLE)).collect())
            .await
            .unwrap();
        backend.route(vec![Priority::MIDDLE; BATCH], Duration::ZERO).await.unwrap();
        let leases = backend.lease(WorkerId(0), BATCH, Duration::ZERO).await.unwrap();
        done += leases.len();
        let gone = Outcome::HttpStatus { code: 404, retry_after: None };
        let ends = leases.iter().map(|lease| Completion { outcome: gone.clone(), ..Completion::new(lease) });
        backend.complete(ends.collect()).await.unwrap();
    }
    println!(
        "{:8.1} bytes per link that was seen and is done",
        (memory(&mut server) - before) / links as f64
    );
}
