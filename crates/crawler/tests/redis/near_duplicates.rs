//! Near-duplicate pages found by several processes: a page is dropped only as a near-duplicate of a stored
//! page.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, ContentMatch};
use crawler::internal::similarity::{Fingerprint, HashKey, Threshold};
use testredis::{Mode, Proxy, Server};
use tokio::task::JoinSet;

use super::memory::info_number;
use super::{block_on, config};

const PARTITIONS: [u16; 2] = [1, 16];
const WORDS: usize = 400;
/// Pages that start this many words apart are similar; pages that start twice as many words apart are not.
const STEP: usize = 30;
/// How many sections of one text are pages.
const PER_TEXT: usize = 12;
/// The most scripts that storing a page takes, whatever other processes do.
const MAX_SCRIPTS: usize = 9;

fn threshold() -> Threshold {
    Threshold::new(0.9).unwrap()
}

async fn open(url: String, partitions: u16) -> RedisBackend {
    let crawl = RedisCrawl {
        partitions: Some(partitions),
        delay: Duration::ZERO,
        ..RedisCrawl::new(url.parse().unwrap(), "similar")
    };
    let config = BackendConfig { similarity: Some(threshold()), keep_content: true, ..config(1) };
    RedisBackend::open(crawl, config).await.unwrap()
}

/// A page with a section of a long text, from word `from` on.
fn body(text: usize, from: usize) -> String {
    (from..from + WORDS).map(|word| format!("t{text}w{word} ")).collect()
}

fn fingerprint(key: HashKey, body: &str) -> Fingerprint {
    Fingerprint::of_text(key, None, body.as_bytes())
}

/// Whether two pages share an index band.
fn share_a_band(one: &Fingerprint, two: &Fingerprint) -> bool {
    let (one, two) = (one.sketch.as_ref().unwrap(), two.sketch.as_ref().unwrap());
    threshold().bands(one).zip(threshold().bands(two)).any(|(one, two)| one == two)
}

/// Whether two pages with sections of the same text are similar.
fn are_similar(from: usize, other: usize) -> bool {
    from.abs_diff(other) <= STEP
}

/// Three pages: the second is similar to the first and to the third, which are not similar to each other. Whether pages
/// share a band depends on the crawl's hash key, so the function searches for a text that fits.
fn chain(key: HashKey) -> [String; 3] {
    let chains = (0..).map(|text| [0, STEP, 2 * STEP].map(|from| body(text, from)));
    let is_chain = |bodies: &[String; 3]| {
        let [a, b, c] = bodies.each_ref().map(|body| fingerprint(key, body));
        share_a_band(&a, &b) && share_a_band(&b, &c)
    };
    chains.into_iter().find(is_chain).unwrap()
}

async fn store(backend: &RedisBackend, url: &str, body: &str) -> ContentMatch {
    let fingerprint = fingerprint(backend.hash_key(), body);
    backend.store_content(url, &fingerprint, body.as_bytes(), false).await.unwrap()
}

fn near_duplicate(url: &str) -> ContentMatch {
    ContentMatch::NearDuplicate(url.to_owned())
}

fn scripts(redis: &Server) -> usize {
    info_number(redis, "commandstats", "cmdstat_evalsha:calls=")
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn page_is_not_dropped_for_one_that_is_about_to_be_dropped_nor_held_up_by_it() {
    for partitions in PARTITIONS {
        let redis = Server::start();
        let proxy = Proxy::for_server(&redis);
        block_on(async {
            let backend = open(redis.url(), partitions).await;
            let slow = Arc::new(open(proxy.url(), partitions).await);
            let [a, b, c] = chain(backend.hash_key());
            assert_eq!(store(&backend, "http://a/", &a).await, ContentMatch::New);
            // The process that stores the second page gets its replies late, as if it had died.
            let before = scripts(&redis);
            proxy.set_mode(Mode::Delay(Duration::from_secs(2)));
            let (process, body) = (Arc::clone(&slow), b.clone());
            let second = tokio::spawn(async move { store(&process, "http://b/", &body).await });
            while scripts(&redis) == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let start = Instant::now();
            assert_eq!(store(&backend, "http://c/", &c).await, ContentMatch::New);
            let same = store(&backend, "http://d/", &b).await;
            assert!(
                matches!(same, ContentMatch::NearDuplicate(_)),
                "not a duplicate of a page that is not stored: {same:?}"
            );
            assert!(!second.is_finished(), "{:?} passed", start.elapsed());
            proxy.set_mode(Mode::Pass);
            assert!(matches!(second.await.unwrap(), ContentMatch::NearDuplicate(_)));
            assert_eq!(backend.load_content("http://b/").await.unwrap(), None);
            assert_eq!(backend.snapshot().await.unwrap().stored_pages, 2, "{partitions} partitions");
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn page_is_dropped_for_one_that_another_process_stored() {
    for partitions in PARTITIONS {
        let redis = Server::start();
        block_on(async {
            let (one, two) = (open(redis.url(), partitions).await, open(redis.url(), partitions).await);
            let [a, b, c] = chain(one.hash_key());
            assert_eq!(store(&one, "http://b/", &b).await, ContentMatch::New);
            assert_eq!(store(&two, "http://a/", &a).await, near_duplicate("http://b/"));
            assert_eq!(store(&two, "http://c/", &c).await, near_duplicate("http://b/"));
            assert_eq!(store(&two, "http://d/", &b).await, ContentMatch::Duplicate("http://b/".into()));
            assert_eq!(
                store(&two, "http://b/", &b).await,
                ContentMatch::New,
                "stored again, by another process"
            );
            assert_eq!(two.load_content("http://b/").await.unwrap().as_deref(), Some(b.as_bytes()));
            assert_eq!(one.snapshot().await.unwrap().stored_pages, 1);
        });
        assert_eq!(redis.query::<Vec<String>>("KEYS *}:body:*").len(), 1);
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn near_duplicate_of_a_page_of_the_same_process_costs_no_redis_request() {
    let redis = Server::start();
    block_on(async {
        let backend = open(redis.url(), 1).await;
        // So similar that their bodies need not be compared.
        let [a, b] = [0, 3].map(|from| body(0, from));
        assert_eq!(store(&backend, "http://a/", &a).await, ContentMatch::New);
        let before = scripts(&redis);
        assert_eq!(store(&backend, "http://b/", &b).await, near_duplicate("http://a/"));
        assert_eq!(store(&backend, "http://c/", &a).await, ContentMatch::Duplicate("http://a/".into()));
        assert_eq!(scripts(&redis), before);
        backend.advance(Duration::from_secs(3601));
        assert_eq!(store(&backend, "http://b/", &b).await, ContentMatch::New, "after its TTL");
    });
}

/// Stores pages concurrently, from several processes.
async fn store_concurrently(processes: &[Arc<RedisBackend>], bodies: &[String]) -> Vec<ContentMatch> {
    let mut tasks = JoinSet::new();
    for (number, body) in bodies.iter().cloned().enumerate() {
        let backend = Arc::clone(&processes[number % processes.len()]);
        tasks.spawn(async move { (number, store(&backend, &format!("http://{number}/"), &body).await) });
    }
    let results: BTreeMap<usize, ContentMatch> = tasks.join_all().await.into_iter().collect();
    results.into_values().collect()
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn each_page_is_stored_or_similar_to_a_stored_one_and_no_two_stored_pages_are_similar() {
    for partitions in PARTITIONS {
        let redis = Server::start();
        block_on(async {
            let mut processes = Vec::new();
            for _ in 0..4 {
                processes.push(Arc::new(open(redis.url(), partitions).await));
            }
            // For each text a chain of pages, each similar to its neighbours.
            let bodies: Vec<String> =
                (0..300).map(|number| body(number / PER_TEXT, number % PER_TEXT * STEP)).collect();
            let fingerprints: Vec<Fingerprint> =
                bodies.iter().map(|body| fingerprint(processes[0].hash_key(), body)).collect();
            let results = store_concurrently(&processes, &bodies).await;
            let is_stored = |number: usize| results[number] == ContentMatch::New;
            for (number, result) in results.iter().enumerate() {
                if let ContentMatch::Duplicate(url) | ContentMatch::NearDuplicate(url) = result {
                    let other = url["http://".len()..].trim_end_matches('/').parse::<usize>().unwrap();
                    assert!(is_stored(other), "{number} is dropped for {other}, which is dropped as well");
                    assert_eq!(number / PER_TEXT, other / PER_TEXT);
                    assert!(are_similar(number * STEP, other * STEP), "{number}, {other}");
                }
            }
            let stored: Vec<usize> = (0..bodies.len()).filter(|number| is_stored(*number)).collect();
            for (index, one) in stored.iter().enumerate() {
                for two in &stored[..index] {
                    let are_similar = one / PER_TEXT == two / PER_TEXT && are_similar(one * STEP, two * STEP);
                    let share_a_band = share_a_band(&fingerprints[*one], &fingerprints[*two]);
                    assert!(!are_similar || !share_a_band, "{one}, {two}");
                }
            }
            assert!((75..200).contains(&stored.len()), "{} are stored", stored.len());
            assert_eq!(processes[0].snapshot().await.unwrap().stored_pages, stored.len());
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn half_similar_pages_are_all_stored_when_several_processes_store_them_concurrently() {
    for partitions in PARTITIONS {
        let redis = Server::start();
        block_on(async {
            let mut processes = Vec::new();
            for _ in 0..4 {
                processes.push(Arc::new(open(redis.url(), partitions).await));
            }
            let common = body(0, 0);
            let bodies: Vec<String> = (1..=200).map(|text| common.clone() + &body(text, 0)).collect();
            let before = scripts(&redis);
            let results = store_concurrently(&processes, &bodies).await;
            assert_eq!(results.iter().filter(|page| **page == ContentMatch::New).count(), 200);
            let scripts = scripts(&redis) - before;
            assert!(scripts <= 200 * MAX_SCRIPTS, "no process retries forever: {scripts} scripts");
            assert_eq!(processes[0].snapshot().await.unwrap().stored_pages, 200);
        });
    }
}
