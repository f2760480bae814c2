//! How much memory a crawl takes on Redis, and how long it takes to take over a large one.

use std::time::{Duration, Instant};

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::{Backend, CompleteResult, WorkerId};
use crawler::internal::similarity::Fingerprint;
use testredis::Server;

use super::distributed_crawl::{Frontier, TestCrawl, discovered, lease, page, wait_until};
use super::{block_on, config};

const URLS: usize = 100_000;

/// The bytes that Redis takes per URL.
const MAX_PER_LINK: f64 = 40.0;
const MAX_PER_WAITING_URL: f64 = 200.0;

fn large(server: &Server, name: &'static str) -> TestCrawl {
    let config = BackendConfig {
        queue_size: 10_000,
        keep_content: false,
        max_pages: u64::MAX,
        max_bytes: u64::MAX / 4,
        ..config(0)
    };
    TestCrawl { config, ..TestCrawl::new(server, name) }
}

fn url(number: usize) -> String {
    format!("http://www.host{}.test/section{}/page-{number}.html", number % 1_000, number / 1_000 % 10)
}

/// The memory that Redis uses, without connection buffers, which vary.
fn memory(server: &Server) -> f64 {
    let number = |name| server.info(name).parse::<f64>().unwrap();
    let used = || number("used_memory") - number("mem_clients_normal");
    // Redis frees deleted keys in the background.
    let mut before = used();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = used();
        if number("lazyfree_pending_objects") == 0.0 && (now - before).abs() < 10_000.0 {
            return now;
        }
        before = now;
    }
}

/// Admits URLs, in the frontier itself.
async fn admit(frontier: &Frontier, numbers: std::ops::Range<usize>) {
    let numbers: Vec<usize> = numbers.collect();
    for numbers in numbers.chunks(1_000) {
        let urls = numbers.iter().map(|number| discovered(&url(*number), 1)).collect();
        frontier.process.backend().admit(urls).await.unwrap();
    }
}

/// Completes URLs, which the frontier leases to itself.
async fn complete(frontier: &Frontier, count: usize) {
    let (backend, mut completed) = (frontier.process.backend(), 0);
    while completed < count {
        let max = 1_000.min(count - completed);
        let leases = backend.lease(WorkerId(0), max, Duration::from_millis(100)).await.unwrap();
        completed += leases.len();
        backend.complete(leases.iter().map(page).collect()).await.unwrap();
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn waiting_url_takes_at_most_200_bytes_and_a_seen_link_at_most_40() {
    let server = Server::start();
    block_on(async {
        let crawl = large(&server, "links");
        let frontier = crawl.take_over().await;
        let _worker = crawl.worker(0, 1).await;
        let empty = memory(&server);
        admit(&frontier, 0..URLS).await;
        let waiting = (memory(&server) - empty) / URLS as f64;
        complete(&frontier, URLS).await;
        frontier.process.flush().await.unwrap();
        let seen = (memory(&server) - empty) / URLS as f64;
        assert_eq!((frontier.pending().await, frontier.snapshot().await.seen_urls), (0, URLS));
        println!("{waiting:.1} bytes per waiting URL, {seen:.1} bytes per seen link");
        assert!(waiting <= MAX_PER_WAITING_URL, "{waiting} bytes per waiting URL");
        assert!(seen <= MAX_PER_LINK, "{seen} bytes per seen link");
        for gone in ["tasks", "leases", "depths"] {
            assert_eq!(
                server.query::<u32>(&format!("EXISTS crawler:{{links:frontier}}:{gone}")),
                0,
                "{gone}"
            );
        }
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn streams_are_trimmed_and_bodies_expire() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl { config: config(0), ..TestCrawl::new(&server, "trimmed") };
        let frontier = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        crawl.seed((0..200).map(url)).await;
        let body = "words of a page, again and again; ".repeat(1_000);
        for number in 0..20 {
            let leases = lease(&worker, 10).await;
            let text = format!("{number} {body}");
            let fingerprint = Fingerprint::of_text(worker.hash_key(), None, text.as_bytes());
            worker.store_content(&leases[0].url, &fingerprint, text.as_bytes(), false).await.unwrap();
            let results = worker.complete(leases.iter().map(page).collect()).await.unwrap();
            assert!(results.iter().all(|result| matches!(result, CompleteResult::Applied { .. })));
            assert_eq!(worker.load_content(&leases[0].url).await.unwrap(), Some(text.into_bytes()));
        }
        frontier.process.flush().await.unwrap();
        for stream in ["urls", "queue:0"] {
            let entries: u64 = server.query(&format!("XLEN crawler:{{trimmed:frontier}}:{stream}"));
            assert!(entries < 10, "{stream} has {entries} entries");
        }
        let bodies: Vec<String> = server.query("KEYS crawler:*:body:*");
        assert_eq!(bodies.len(), 20);
        for key in bodies {
            assert!(server.query::<i64>(&format!("TTL {key}")) > 3_500);
        }
        assert_eq!(frontier.snapshot().await.stored_pages, 20);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn bodies_are_compressed_after_the_first_32_mb_of_a_worker() {
    let server = Server::start();
    block_on(async {
        let crawl = TestCrawl { config: config(0), ..TestCrawl::new(&server, "bodies") };
        let _frontier = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        let body = "words of a page, again and again; ".repeat((8 << 20) / 34 + 1).into_bytes();
        for number in 0..5 {
            let text = format!("page {number}");
            let fingerprint = Fingerprint::of_text(worker.hash_key(), None, text.as_bytes());
            worker.store_content(&url(number), &fingerprint, &body, false).await.unwrap();
            assert_eq!(worker.load_content(&url(number)).await.unwrap().as_ref(), Some(&body));
        }
        let keys: Vec<String> = server.query("KEYS crawler:*:body:*");
        let bytes: Vec<usize> = keys.iter().map(|key| server.query(&format!("STRLEN {key}"))).collect();
        assert_eq!(bytes.iter().filter(|bytes| **bytes > body.len()).count(), 4, "{bytes:?}");
        assert_eq!(bytes.iter().filter(|bytes| **bytes < body.len() / 10).count(), 1, "{bytes:?}");
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn large_crawl_is_taken_over_soon() {
    let server = Server::start();
    block_on(async {
        let crawl = large(&server, "large");
        let frontier = crawl.take_over().await;
        let (waiting, seen) = (50_000, 125_000);
        let _worker = crawl.worker(0, 1).await;
        for first in (0..seen).step_by(25_000) {
            admit(&frontier, first..first + 25_000).await;
            complete(&frontier, 25_000).await;
        }
        admit(&frontier, seen..seen + waiting).await;
        frontier.process.flush().await.unwrap();
        drop(frontier);
        let start = Instant::now();
        let frontier = crawl.take_over().await;
        let elapsed = start.elapsed();
        println!("{waiting} waiting and {seen} completed URLs are taken over in {elapsed:.1?}");
        let snapshot = frontier.snapshot().await;
        assert_eq!((snapshot.pending(), snapshot.seen_urls), (waiting as u64, seen + waiting));
        assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn seeds_that_wait_for_a_frontier_are_admitted_in_small_steps() {
    let server = Server::start();
    block_on(async {
        let (crawl, seeds) = (large(&server, "many"), 60_000);
        let urls: Vec<_> = (0..seeds).map(|number| discovered(&url(number), 0)).collect();
        crawl.open().await.add_seeds(&urls, false).await.unwrap();
        server.query::<()>("CONFIG RESETSTAT");
        let frontier = crawl.take_over().await;
        wait_until("the seeds are admitted", async || {
            server.query::<usize>("HLEN crawler:{many:frontier}:tasks") == seeds
        })
        .await;
        assert_eq!(frontier.snapshot().await.admitted, seeds as u64);
        // Redis serves no other client while a transaction runs.
        let statistics: String = server.query("INFO commandstats");
        let transactions = statistics.split("cmdstat_exec:calls=").nth(1).unwrap();
        let transactions: usize = transactions.split(',').next().unwrap().parse().unwrap();
        assert!(transactions >= 5, "{seeds} seeds are written by {transactions} transactions");
    });
}
