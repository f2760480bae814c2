//! `RedisStateReader`: the outcome and history of URLs, read without changing the crawl; and the memory that
//! this takes.

use std::time::{Duration, SystemTime};

use crawler::internal::backend::durable::{UrlHistory, UrlStatus};
use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl, RedisStateReader};
use crawler::internal::backend::{Backend, Completion, DiscoveredUrl, Lease, Outlinks, WorkerId};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::Priority;
use crawler::internal::similarity::{Fingerprint, Threshold};
use testredis::Server;

use super::{block_on, config};

const WORKER: WorkerId = WorkerId(0);

fn redis_crawl(server: &Server, partitions: u16) -> RedisCrawl {
    RedisCrawl { partitions: Some(partitions), ..RedisCrawl::new(server.url().parse().unwrap(), "inspect") }
}

fn unlimited() -> BackendConfig {
    BackendConfig { queue_size: 10_000, max_pages: u64::MAX, max_bytes: u64::MAX / 4, ..config(1) }
}

fn discovered(url: &str, depth: u32) -> DiscoveredUrl {
    DiscoveredUrl { url: url.into(), depth, redirects: 0 }
}

async fn lease(backend: &RedisBackend) -> Vec<Lease> {
    let urls = backend.take_unprioritized(1_000, Duration::ZERO).await.unwrap();
    backend
        .enqueue_prioritized(urls.iter().map(|url| (url.task_id, Priority::BEST)).collect())
        .await
        .unwrap();
    backend.route(vec![Priority::BEST; 1_000], Duration::ZERO).await.unwrap();
    backend.lease(WORKER, 1_000, Duration::ZERO).await.unwrap()
}

/// Completes a URL with this outcome.
async fn complete(backend: &RedisBackend, url: &str, outcome: Outcome, outlinks: Outlinks) {
    let leases = lease(backend).await;
    let lease = leases.iter().find(|lease| &*lease.url == url).expect("the URL is leased");
    if outcome == Outcome::Page && !lease.is_revisit {
        let fingerprint = Fingerprint::of_text(backend.hash_key(), None, url.as_bytes());
        backend.store_content(url, &fingerprint, url.as_bytes(), false).await.unwrap();
    }
    let completion = Completion { outcome, outlinks, ..Completion::new(lease) };
    backend.complete(vec![completion]).await.unwrap();
}

async fn why(stored: &RedisStateReader, url: &str) -> UrlHistory {
    stored.why(&url.parse().unwrap()).await.unwrap().unwrap_or_else(|| panic!("{url} is known"))
}

fn outcome_of(history: &UrlHistory) -> &str {
    match &history.status {
        UrlStatus::Completed { outcome, at, .. } => {
            let ago = SystemTime::now().duration_since(*at).unwrap();
            assert!(ago < Duration::from_secs(60), "it ended {ago:?} ago");
            outcome
        }
        UrlStatus::Pending => "waiting",
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn history_has_outcome_depth_and_path_of_a_url() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let config = BackendConfig { keep_depths: true, similarity: Threshold::new(0.9), ..unlimited() };
            let backend = RedisBackend::open(redis_crawl(&server, partitions), config).await.unwrap();
            backend.admit(vec![discovered("http://a.test/", 0)]).await.unwrap();
            let outlinks = Outlinks::new(["http://b.test/moved"], 1);
            complete(&backend, "http://a.test/", Outcome::Page, outlinks).await;
            let to = "http://c.test/".to_owned();
            let target = Outlinks { redirects: 1, ..Outlinks::new([&to], 1) };
            complete(&backend, "http://b.test/moved", Outcome::Redirect { to }, target).await;
            let outlinks = Outlinks::new(["http://c.test/gone"], 2);
            complete(&backend, "http://c.test/", Outcome::Page, outlinks).await;
            let stored = RedisStateReader::open(redis_crawl(&server, 0)).await.unwrap();
            let waiting = why(&stored, "http://c.test/gone").await;
            assert_eq!((waiting.status, waiting.depth), (UrlStatus::Pending, 2));

            let missing = Outcome::HttpStatus { code: 404, retry_after: None };
            complete(&backend, "http://c.test/gone", missing, Outlinks::default()).await;
            let gone = why(&stored, "http://user:word@c.test/gone#here").await;
            assert_eq!((gone.url.as_str(), outcome_of(&gone)), ("http://c.test/gone", "HTTP 404"));
            assert_eq!((gone.depth, gone.by_redirect), (2, false));
            // No page is stored for a redirect. The path continues beyond it.
            let path = ["http://c.test/", "a URL that is not stored any more", "http://a.test/"];
            assert_eq!(gone.found_on, path);
            let target = why(&stored, "http://c.test/").await;
            assert_eq!((outcome_of(&target), target.by_redirect, target.depth), ("page", true, 1));
            assert_eq!(outcome_of(&why(&stored, "http://b.test/moved").await), "redirect");
            let seed = why(&stored, "http://a.test/").await;
            assert_eq!((outcome_of(&seed), seed.depth, seed.found_on.len()), ("page", 0, 0));
            if partitions == 1 {
                assert!(
                    matches!(seed.status, UrlStatus::Completed { page_number: Some(1), .. }),
                    "{:?}",
                    seed.status
                );
            }
            assert_eq!(stored.why(&"http://a.test/never".parse().unwrap()).await.unwrap(), None);
            let page = stored.content(&"http://c.test/".parse().unwrap()).await.unwrap();
            assert_eq!(page.as_deref(), Some(&b"http://c.test/"[..]));
            assert_eq!(stored.snapshot().await.unwrap().completed, 4);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn url_found_at_a_lower_depth_has_the_shorter_path_and_its_first_outcome() {
    let server = Server::start();
    block_on(async {
        let config = BackendConfig { keep_depths: true, ..unlimited() };
        let backend = RedisBackend::open(redis_crawl(&server, 1), config).await.unwrap();
        let stored = RedisStateReader::open(redis_crawl(&server, 1)).await.unwrap();
        backend
            .admit(vec![discovered("http://a.test/", 0), discovered("http://far.test/", 5)])
            .await
            .unwrap();
        let links = |depth| Outlinks::new(["http://page.test/", "http://none.test/"], depth);
        let leases = lease(&backend).await;
        let far = leases.iter().find(|lease| &*lease.url == "http://far.test/").unwrap();
        let page = Completion { outcome: Outcome::Page, outlinks: links(6), ..Completion::new(far) };
        backend.complete(vec![page]).await.unwrap();
        for lease in lease(&backend).await {
            let outcome = match &*lease.url {
                "http://page.test/" => Outcome::Page,
                _ => Outcome::RobotsDisallowed,
            };
            backend.complete(vec![Completion { outcome, ..Completion::new(&lease) }]).await.unwrap();
        }
        let near = leases.iter().find(|lease| &*lease.url == "http://a.test/").unwrap();
        let outlinks = links(1);
        let fingerprint = Fingerprint::of_text(backend.hash_key(), None, b"a");
        backend.store_content("http://a.test/", &fingerprint, b"a", false).await.unwrap();
        backend
            .complete(vec![Completion { outcome: Outcome::Page, outlinks, ..Completion::new(near) }])
            .await
            .unwrap();

        let none = why(&stored, "http://none.test/").await;
        assert_eq!((outcome_of(&none), none.depth), ("robots.txt", 1));
        assert_eq!(none.found_on, ["http://a.test/"]);
        // The pending revisit does not change the outcome.
        for _ in 0..2 {
            let page = why(&stored, "http://page.test/").await;
            assert_eq!((outcome_of(&page), page.depth), ("page", 1));
            assert!(
                matches!(page.status, UrlStatus::Completed { page_number: Some(2), .. }),
                "{:?}",
                page.status
            );
            assert_eq!(page.found_on, ["http://a.test/"]);
            for lease in lease(&backend).await {
                assert!(lease.is_revisit);
                let outcome = Outcome::HttpStatus { code: 500, retry_after: None };
                backend.complete(vec![Completion { outcome, ..Completion::new(&lease) }]).await.unwrap();
            }
        }
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn reading_changes_nothing_and_a_missing_crawl_is_an_error() {
    let server = Server::start();
    block_on(async {
        let message = format!("{:#}", RedisStateReader::open(redis_crawl(&server, 1)).await.err().unwrap());
        assert!(
            message.starts_with("there is no crawl 'inspect' on Redis at redis://127.0.0.1"),
            "{message}"
        );
        assert_eq!(server.query::<u64>("DBSIZE"), 0);
        let config = BackendConfig { similarity: Threshold::new(0.87), ..unlimited() };
        let backend = RedisBackend::open(redis_crawl(&server, 3), config.clone()).await.unwrap();
        backend.close().await.unwrap();
        let before: Vec<String> = server.query("KEYS *");
        let stored = RedisStateReader::open(redis_crawl(&server, 1)).await.unwrap();
        let stored_config = BackendConfig { workers: config.workers, ..stored.settings().clone() };
        assert_eq!(format!("{stored_config:?}"), format!("{config:?}"));
        stored.snapshot().await.unwrap();
        assert_eq!(stored.why(&"http://a.test/".parse().unwrap()).await.unwrap(), None);
        assert_eq!(server.query::<Vec<String>>("KEYS *").len(), before.len());
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn url_found_at_a_lower_depth_by_a_page_completed_with_it_leaves_no_record() {
    let server = Server::start();
    block_on(async {
        let config = BackendConfig { keep_depths: true, ..unlimited() };
        let backend = RedisBackend::open(redis_crawl(&server, 1), config).await.unwrap();
        backend.admit(vec![discovered("http://a.test/", 0), discovered("http://b.test/", 5)]).await.unwrap();
        let mut leases = lease(&backend).await;
        leases.sort_by(|one, other| one.url.cmp(&other.url));
        let outlinks = Outlinks::new(["http://b.test/", "http://new.test/"], 1);
        let page = Completion { outcome: Outcome::Page, outlinks, ..Completion::new(&leases[0]) };
        let disallowed = Completion { outcome: Outcome::RobotsDisallowed, ..Completion::new(&leases[1]) };
        backend.complete(vec![page, disallowed]).await.unwrap();
        assert_eq!(
            server.query::<u64>("HLEN crawler:{inspect:p0}:outstanding"),
            1,
            "only the new URL is outstanding"
        );
        let stored = RedisStateReader::open(redis_crawl(&server, 1)).await.unwrap();
        let why = why(&stored, "http://b.test/").await;
        assert_eq!((outcome_of(&why), why.depth), ("robots.txt", 1));
    });
}

const LINKS: usize = 100_000;

/// The memory that Redis uses, without connection buffers, which vary.
fn memory(server: &Server) -> usize {
    let number = |name| server.info(name).parse::<usize>().unwrap();
    let used = || number("used_memory") - number("mem_clients_normal");
    // Redis frees deleted keys in the background.
    let mut before = used();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = used();
        if number("lazyfree_pending_objects") == 0 && now.abs_diff(before) < 1_000 {
            return now;
        }
        before = now;
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn seen_link_takes_at_most_60_bytes_with_its_history() {
    let server = Server::start();
    block_on(async {
        let config = BackendConfig { keep_content: false, keep_depths: true, ..unlimited() };
        let backend = RedisBackend::open(redis_crawl(&server, 1), config).await.unwrap();
        let empty = memory(&server);
        backend.admit(vec![discovered("http://a.test/", 0)]).await.unwrap();
        let mut next = 0;
        loop {
            let leases = lease(&backend).await;
            if leases.is_empty() {
                break;
            }
            let completions = leases.iter().map(|lease| {
                let numbers = (next + 1..LINKS).take(2);
                let urls = numbers.map(|number| format!("http://h{}.test/{number}", number % 1_000));
                let outlinks = Outlinks::new(urls, next as u32 % 300 + 1);
                next += outlinks.urls.len();
                Completion { outcome: Outcome::Page, outlinks, ..Completion::new(lease) }
            });
            backend.complete(completions.collect()).await.unwrap();
        }
        let snapshot = backend.snapshot().await.unwrap();
        assert_eq!((snapshot.completed, snapshot.seen_urls), (LINKS as u64, LINKS));
        let shards: Vec<String> = server.query("KEYS *:links:*");
        let mut bytes = 0;
        for shard in &shards {
            bytes += server.query::<usize>(&format!("MEMORY USAGE {shard} SAMPLES 0"));
            assert_eq!(server.query::<String>(&format!("OBJECT ENCODING {shard}")), "listpack", "{shard}");
        }
        backend.close().await.unwrap();
        let used = memory(&server) - empty;
        let (of_shards, of_all) = (bytes as f64 / LINKS as f64, used as f64 / LINKS as f64);
        println!("{of_shards:.1} bytes of Redis per seen link, {of_all:.1} with everything else");
        assert!(
            of_shards <= 60.0 && of_all <= 60.0,
            "{of_shards} bytes per link, {of_all} with everything else"
        );
    });
}
