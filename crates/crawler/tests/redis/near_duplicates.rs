//! Near-duplicate pages found by several workers: a page is dropped only as a near-duplicate of a stored page.

use std::collections::BTreeMap;
use std::sync::Arc;

use crawler::internal::backend::redis::RemoteBackend;
use crawler::internal::backend::{Backend, ContentMatch};
use crawler::internal::similarity::{Fingerprint, HashKey, Threshold};
use testredis::{Mode, Proxy, Server};
use tokio::task::JoinSet;

use super::block_on;
use super::distributed_crawl::{TestCrawl, wait_until};

const WORDS: usize = 400;
/// Pages that start this many words apart are similar; pages that start twice as many words apart are not.
const STEP: usize = 30;
/// How many sections of one text are pages.
const PER_TEXT: usize = 12;

fn threshold() -> Threshold {
    Threshold::new(0.9).unwrap()
}

fn test_crawl(server: &Server) -> TestCrawl {
    let mut crawl = TestCrawl::new(server, "similar");
    crawl.config.similarity = Some(threshold());
    crawl
}

/// A page with a section of a long text, from word `from` on.
pub fn body(text: usize, from: usize) -> String {
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

async fn store(backend: &RemoteBackend, url: &str, body: &str) -> ContentMatch {
    let fingerprint = fingerprint(backend.hash_key(), body);
    backend.store_content(url, &fingerprint, body.as_bytes(), false).await.unwrap()
}

fn near_duplicate(url: &str) -> ContentMatch {
    ContentMatch::NearDuplicate(url.to_owned())
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn page_is_dropped_for_one_that_another_worker_stored() {
    let redis = Server::start();
    block_on(async {
        let crawl = test_crawl(&redis);
        let frontier = crawl.take_over().await;
        let (one, two) = (crawl.worker(0, 1).await, crawl.worker(1, 1).await);
        let [a, b, c] = chain(one.hash_key());
        assert_eq!(store(&one, "http://b/", &b).await, ContentMatch::New);
        assert_eq!(store(&two, "http://a/", &a).await, near_duplicate("http://b/"));
        assert_eq!(store(&two, "http://c/", &c).await, near_duplicate("http://b/"));
        assert_eq!(store(&two, "http://d/", &b).await, ContentMatch::Duplicate("http://b/".into()));
        assert_eq!(store(&two, "http://b/", &b).await, ContentMatch::New, "stored again, by another worker");
        assert_eq!(two.load_content("http://b/").await.unwrap().as_deref(), Some(b.as_bytes()));
        assert_eq!(frontier.snapshot().await.stored_pages, 1);
    });
    assert_eq!(redis.query::<Vec<String>>("KEYS *}:body:*").len(), 1);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn slow_worker_holds_up_no_other_and_its_page_is_decided_by_what_is_stored() {
    let redis = Server::start();
    let proxy = Proxy::for_server(&redis);
    block_on(async {
        let crawl = test_crawl(&redis);
        let frontier = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        let slow = Arc::new(TestCrawl { redis: proxy.url(), ..crawl }.worker(1, 1).await);
        let [a, b, c] = chain(worker.hash_key());
        assert_eq!(store(&worker, "http://a/", &a).await, ContentMatch::New);
        proxy.set_mode(Mode::Hold);
        let (process, body) = (Arc::clone(&slow), b.clone());
        let second = tokio::spawn(async move { store(&process, "http://b/", &body).await });
        // The requests with which it waits for replies are smaller.
        let bytes = fingerprint(worker.hash_key(), &b).to_bytes().len();
        wait_until("the page is held", async || proxy.held_bytes() >= bytes).await;
        assert_eq!(store(&worker, "http://c/", &c).await, ContentMatch::New);
        assert!(!second.is_finished());
        proxy.set_mode(Mode::Pass);
        assert!(matches!(second.await.unwrap(), ContentMatch::NearDuplicate(_)));
        assert_eq!(worker.load_content("http://b/").await.unwrap(), None);
        assert_eq!(frontier.snapshot().await.stored_pages, 2);
    });
}

/// Stores pages concurrently, from several workers.
async fn store_concurrently(workers: &[Arc<RemoteBackend>], bodies: &[String]) -> Vec<ContentMatch> {
    let mut tasks = JoinSet::new();
    for (number, body) in bodies.iter().cloned().enumerate() {
        let worker = Arc::clone(&workers[number % workers.len()]);
        tasks.spawn(async move { (number, store(&worker, &format!("http://{number}/"), &body).await) });
    }
    let results: BTreeMap<usize, ContentMatch> = tasks.join_all().await.into_iter().collect();
    results.into_values().collect()
}

async fn workers(crawl: &TestCrawl) -> Vec<Arc<RemoteBackend>> {
    let mut workers = Vec::new();
    for number in 0..4 {
        workers.push(Arc::new(crawl.worker(number, 1).await));
    }
    workers
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn each_page_is_stored_or_similar_to_a_stored_one_and_no_two_stored_pages_are_similar() {
    let redis = Server::start();
    block_on(async {
        let crawl = test_crawl(&redis);
        let frontier = crawl.take_over().await;
        let workers = workers(&crawl).await;
        // For each text a chain of pages, each similar to its neighbours.
        let bodies: Vec<String> =
            (0..300).map(|number| body(number / PER_TEXT, number % PER_TEXT * STEP)).collect();
        let fingerprints: Vec<Fingerprint> =
            bodies.iter().map(|body| fingerprint(workers[0].hash_key(), body)).collect();
        let results = store_concurrently(&workers, &bodies).await;
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
        assert_eq!(frontier.snapshot().await.stored_pages, stored.len());
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn half_similar_pages_are_all_stored_when_several_workers_store_them_concurrently() {
    let redis = Server::start();
    block_on(async {
        let crawl = test_crawl(&redis);
        let frontier = crawl.take_over().await;
        let workers = workers(&crawl).await;
        let common = body(0, 0);
        let bodies: Vec<String> = (1..=200).map(|text| common.clone() + &body(text, 0)).collect();
        let results = store_concurrently(&workers, &bodies).await;
        assert_eq!(results.iter().filter(|page| **page == ContentMatch::New).count(), 200);
        assert_eq!(frontier.snapshot().await.stored_pages, 200);
    });
}
