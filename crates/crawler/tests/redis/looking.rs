//! What can be told of the URLs of a crawl on Redis, by whom nobody sees, and what that costs.

use std::time::{Duration, SystemTime};

use crawler::internal::backend::durable::{UrlHistory, UrlStatus};
use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl, RedisStateReader};
use crawler::internal::backend::{Backend, BackendError, Completion, DiscoveredUrl, Lease, WorkerId};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::Priority;
use crawler::internal::similarity::{Fingerprint, Threshold};
use testredis::Server;

use super::{block_on, settings};

const WORKER: WorkerId = WorkerId(0);

fn place(server: &Server, partitions: u16) -> RedisCrawl {
    RedisCrawl { partitions: Some(partitions), ..RedisCrawl::new(server.url().parse().unwrap(), "seen") }
}

fn wide() -> BackendConfig {
    BackendConfig { queue_size: 10_000, max_pages: u64::MAX, max_bytes: u64::MAX / 4, ..settings(1) }
}

fn found(url: &str, depth: u32) -> DiscoveredUrl {
    DiscoveredUrl { url: url.into(), depth, redirects: 0 }
}

async fn lease(backend: &RedisBackend) -> Vec<Lease> {
    let incoming = backend.take_unprioritized(1_000, Duration::ZERO).await.unwrap();
    backend
        .enqueue_prioritized(incoming.iter().map(|one| (one.task_id, Priority::BEST)).collect())
        .await
        .unwrap();
    backend.route(vec![Priority::BEST; 1_000], Duration::ZERO).await.unwrap();
    backend.lease(WORKER, 1_000, Duration::ZERO).await.unwrap()
}

/// Visits the one URL that there is.
async fn visit(backend: &RedisBackend, url: &str, outcome: Outcome, outlinks: Vec<DiscoveredUrl>) {
    let leases = lease(backend).await;
    let lease = leases.iter().find(|lease| lease.url == url).expect("it is on loan");
    if outcome == Outcome::Page && !lease.is_revisit {
        let fingerprint = Fingerprint::of_text(backend.hash_key(), None, url.as_bytes());
        backend.store_content(url, &fingerprint, url.as_bytes()).await.unwrap();
    }
    let completion = Completion { outcome, outlinks, ..Completion::new(lease) };
    backend.complete(vec![completion]).await.unwrap();
}

async fn why(stored: &RedisStateReader, url: &str) -> UrlHistory {
    stored.why(&url.parse().unwrap()).await.unwrap().unwrap_or_else(|| panic!("{url} is known"))
}

fn ended(why: &UrlHistory) -> &str {
    match &why.fate {
        UrlStatus::Ended { outcome, at, .. } => {
            let ago = SystemTime::now().duration_since(*at).unwrap();
            assert!(ago < Duration::from_secs(60), "it ended {ago:?} ago");
            outcome
        }
        UrlStatus::Waiting => "waiting",
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn what_became_of_a_url_and_how_it_was_found_is_told() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let settings = BackendConfig { keep_depths: true, similarity: Threshold::new(0.9), ..wide() };
            let backend = RedisBackend::open(place(&server, partitions), settings).await.unwrap();
            backend.admit(vec![found("http://a.test/", 0)]).await.unwrap();
            let outlinks = vec![found("http://b.test/moved", 1)];
            visit(&backend, "http://a.test/", Outcome::Page, outlinks).await;
            let to = "http://c.test/".to_owned();
            let target = DiscoveredUrl { url: to.clone(), depth: 1, redirects: 1 };
            visit(&backend, "http://b.test/moved", Outcome::Redirect { to }, vec![target]).await;
            let outlinks = vec![found("http://c.test/gone", 2)];
            visit(&backend, "http://c.test/", Outcome::Page, outlinks).await;
            let stored = RedisStateReader::open(place(&server, 0)).await.unwrap();
            let waiting = why(&stored, "http://c.test/gone").await;
            assert_eq!((waiting.fate, waiting.depth), (UrlStatus::Waiting, 2));

            let missing = Outcome::HttpStatus { code: 404, retry_after: None };
            visit(&backend, "http://c.test/gone", missing, Vec::new()).await;
            let gone = why(&stored, "http://user:word@c.test/gone#here").await;
            assert_eq!((gone.url.as_str(), ended(&gone)), ("http://c.test/gone", "HTTP status 404"));
            assert_eq!((gone.depth, gone.by_redirect), (2, false));
            // Of what redirects no page is stored; the way goes on beyond it.
            let way = ["http://c.test/", "a URL that is not stored any more", "http://a.test/"];
            assert_eq!(gone.found_on, way);
            let target = why(&stored, "http://c.test/").await;
            assert_eq!((ended(&target), target.by_redirect, target.depth), ("kept", true, 1));
            assert_eq!(ended(&why(&stored, "http://b.test/moved").await), "redirected");
            let seed = why(&stored, "http://a.test/").await;
            assert_eq!((ended(&seed), seed.depth, seed.found_on.len()), ("kept", 0, 0));
            if partitions == 1 {
                assert!(matches!(seed.fate, UrlStatus::Ended { document: Some(1), .. }), "{:?}", seed.fate);
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
fn a_url_met_nearer_is_told_of_by_its_nearer_way_and_ended_as_it_did() {
    let server = Server::start();
    block_on(async {
        let settings = BackendConfig { keep_depths: true, ..wide() };
        let backend = RedisBackend::open(place(&server, 1), settings).await.unwrap();
        let stored = RedisStateReader::open(place(&server, 1)).await.unwrap();
        backend.admit(vec![found("http://a.test/", 0), found("http://far.test/", 5)]).await.unwrap();
        let links = || vec![found("http://page.test/", 6), found("http://none.test/", 6)];
        let leases = lease(&backend).await;
        let far = leases.iter().find(|lease| lease.url == "http://far.test/").unwrap();
        let kept = Completion { outcome: Outcome::Page, outlinks: links(), ..Completion::new(far) };
        backend.complete(vec![kept]).await.unwrap();
        for lease in lease(&backend).await {
            let outcome = match lease.url.as_str() {
                "http://page.test/" => Outcome::Page,
                _ => Outcome::RobotsDisallowed,
            };
            backend.complete(vec![Completion { outcome, ..Completion::new(&lease) }]).await.unwrap();
        }
        let near = leases.iter().find(|lease| lease.url == "http://a.test/").unwrap();
        let outlinks = links().into_iter().map(|link| DiscoveredUrl { depth: 1, ..link }).collect();
        let fingerprint = Fingerprint::of_text(backend.hash_key(), None, b"a");
        backend.store_content("http://a.test/", &fingerprint, b"a").await.unwrap();
        backend
            .complete(vec![Completion { outcome: Outcome::Page, outlinks, ..Completion::new(near) }])
            .await
            .unwrap();

        let none = why(&stored, "http://none.test/").await;
        assert_eq!((ended(&none), none.depth), ("disallowed by robots.txt", 1));
        assert_eq!(none.found_on, ["http://a.test/"]);
        // It waits to be visited again, which changes nothing of what it is.
        for _ in 0..2 {
            let page = why(&stored, "http://page.test/").await;
            assert_eq!((ended(&page), page.depth), ("kept", 1));
            assert!(matches!(page.fate, UrlStatus::Ended { document: Some(2), .. }), "{:?}", page.fate);
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
fn who_looks_leaves_no_trace_and_is_told_if_there_is_nothing_to_see() {
    let server = Server::start();
    block_on(async {
        let BackendError(message) = RedisStateReader::open(place(&server, 1)).await.err().unwrap();
        assert!(message.starts_with("there is no crawl \"seen\" on Redis at redis://127.0.0.1"), "{message}");
        assert_eq!(server.ask::<u64>("DBSIZE"), 0);
        let settings = BackendConfig { similarity: Threshold::new(0.87), ..wide() };
        let backend = RedisBackend::open(place(&server, 3), settings.clone()).await.unwrap();
        backend.close().await.unwrap();
        let before: Vec<String> = server.ask("KEYS *");
        let stored = RedisStateReader::open(place(&server, 1)).await.unwrap();
        let known = BackendConfig { workers: settings.workers, ..stored.settings().clone() };
        assert_eq!(format!("{known:?}"), format!("{settings:?}"));
        stored.snapshot().await.unwrap();
        assert_eq!(stored.why(&"http://a.test/".parse().unwrap()).await.unwrap(), None);
        assert_eq!(server.ask::<Vec<String>>("KEYS *").len(), before.len());
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_url_met_nearer_by_what_is_completed_with_it_leaves_nothing_behind() {
    let server = Server::start();
    block_on(async {
        let settings = BackendConfig { keep_depths: true, ..wide() };
        let backend = RedisBackend::open(place(&server, 1), settings).await.unwrap();
        backend.admit(vec![found("http://a.test/", 0), found("http://b.test/", 5)]).await.unwrap();
        let mut leases = lease(&backend).await;
        leases.sort_by(|one, other| one.url.cmp(&other.url));
        let outlinks = vec![found("http://b.test/", 1), found("http://new.test/", 1)];
        let kept = Completion { outcome: Outcome::Page, outlinks, ..Completion::new(&leases[0]) };
        let refused = Completion { outcome: Outcome::RobotsDisallowed, ..Completion::new(&leases[1]) };
        backend.complete(vec![kept, refused]).await.unwrap();
        assert_eq!(server.ask::<u64>("HLEN crawler:{seen:p0}:outstanding"), 1, "only the new one is left");
        let stored = RedisStateReader::open(place(&server, 1)).await.unwrap();
        let why = why(&stored, "http://b.test/").await;
        assert_eq!((ended(&why), why.depth), ("disallowed by robots.txt", 1));
    });
}

const LINKS: usize = 100_000;

/// What Redis has taken, but for the buffers of connections, which come and go.
fn memory(server: &Server) -> usize {
    let number = |name| server.info(name).parse::<usize>().unwrap();
    let used = || number("used_memory") - number("mem_clients_normal");
    // What it was told to forget is freed in the background.
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
fn a_seen_link_takes_no_more_than_60_bytes_with_all_that_is_told_of_it() {
    let server = Server::start();
    block_on(async {
        let settings = BackendConfig { keep_content: false, keep_depths: true, ..wide() };
        let backend = RedisBackend::open(place(&server, 1), settings).await.unwrap();
        let empty = memory(&server);
        backend.admit(vec![found("http://a.test/", 0)]).await.unwrap();
        let mut next = 0;
        loop {
            let leases = lease(&backend).await;
            if leases.is_empty() {
                break;
            }
            let completions = leases.iter().map(|lease| {
                let outlinks = (next + 1..LINKS).take(2).map(|number| {
                    found(&format!("http://h{}.test/{number}", number % 1_000), number as u32 % 300 + 1)
                });
                let outlinks: Vec<DiscoveredUrl> = outlinks.collect();
                next += outlinks.len();
                Completion { outcome: Outcome::Page, outlinks, ..Completion::new(lease) }
            });
            backend.complete(completions.collect()).await.unwrap();
        }
        let snapshot = backend.snapshot().await.unwrap();
        assert_eq!((snapshot.completed, snapshot.known), (LINKS as u64, LINKS));
        let shards: Vec<String> = server.ask("KEYS *:links:*");
        let mut bytes = 0;
        for shard in &shards {
            bytes += server.ask::<usize>(&format!("MEMORY USAGE {shard} SAMPLES 0"));
            assert_eq!(server.ask::<String>(&format!("OBJECT ENCODING {shard}")), "listpack", "{shard}");
        }
        backend.close().await.unwrap();
        let used = memory(&server) - empty;
        let (of_shards, of_all) = (bytes as f64 / LINKS as f64, used as f64 / LINKS as f64);
        println!(
            "{of_shards:.1} bytes of Redis for a seen link, {of_all:.1} with everything else that is left"
        );
        assert!(of_shards <= 60.0 && of_all <= 60.0, "{of_shards} bytes a link, {of_all} with all else");
    });
}
