//! Pages that are alike, found by processes that share a crawl: a page is dropped for one that is kept, and for no other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, ContentMatch};
use crawler::internal::similarity::{Fingerprint, HashKey, Threshold};
use testredis::{Mode, Proxy, Server};
use tokio::task::JoinSet;

use super::storage::told;
use super::{block_on, settings};

const PARTITIONS: [u16; 2] = [1, 16];
const WORDS: usize = 400;
/// So many words of [`WORDS`] further on a page is similar, and so many twice it is not.
const STEP: usize = 30;
/// How many scripts store a page at most, whatever others do meanwhile.
const MOST_SCRIPTS: usize = 9;

fn threshold() -> Threshold {
    Threshold::new(0.9).unwrap()
}

async fn open(url: String, partitions: u16) -> RedisBackend {
    let place = RedisCrawl {
        partitions: Some(partitions),
        delay: Duration::ZERO,
        ..RedisCrawl::new(url.parse().unwrap(), "likeness")
    };
    let settings = BackendConfig { similarity: Some(threshold()), keep_content: true, ..settings(1) };
    RedisBackend::open(place, settings).await.unwrap()
}

/// A page of a text that goes on, from one of its words.
fn body(text: usize, from: usize) -> String {
    (from..from + WORDS).map(|word| format!("t{text}w{word} ")).collect()
}

fn print(key: HashKey, body: &str) -> Fingerprint {
    Fingerprint::of_text(key, None, body.as_bytes())
}

/// Whether two pages share something they are found by, and are similar.
fn are_found_similar(one: &Fingerprint, two: &Fingerprint) -> (bool, bool) {
    let (one, two) = (one.sketch.as_ref().unwrap(), two.sketch.as_ref().unwrap());
    let mut bands = threshold().bands(one).zip(threshold().bands(two));
    (bands.any(|(one, two)| one == two), threshold().similar(one, two))
}

/// Three pages: the second is similar to the first and to the third, which are not similar to each other. What is found
/// similar depends on the crawl's secret, so the text is chosen by it.
fn chain(key: HashKey) -> [String; 3] {
    let chains = (0..).map(|text| [0, STEP, 2 * STEP].map(|from| body(text, from)));
    let is_chain = |bodies: &[String; 3]| {
        let [a, b, c] = bodies.each_ref().map(|body| print(key, body));
        let between = [are_found_similar(&a, &b), are_found_similar(&b, &c)];
        between == [(true, true); 2] && !are_found_similar(&a, &c).1
    };
    chains.into_iter().find(is_chain).unwrap()
}

async fn remember(backend: &RedisBackend, url: &str, body: &str) -> ContentMatch {
    backend.store_content(url, &print(backend.hash_key(), body), body.as_bytes()).await.unwrap()
}

fn similar(url: &str) -> ContentMatch {
    ContentMatch::NearDuplicate(url.to_owned())
}

fn scripts(redis: &Server) -> usize {
    told(redis, "commandstats", "cmdstat_evalsha:calls=")
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_page_is_not_dropped_for_one_that_is_about_to_be_dropped_nor_held_up_by_it() {
    for partitions in PARTITIONS {
        let redis = Server::start();
        let proxy = Proxy::before(&redis);
        block_on(async {
            let backend = open(redis.url(), partitions).await;
            let slow = Arc::new(open(proxy.url(), partitions).await);
            let [a, b, c] = chain(backend.hash_key());
            assert_eq!(remember(&backend, "http://a/", &a).await, ContentMatch::New);
            // Its worker learns of the first page when Redis has long answered, and could as well be dead.
            let before = scripts(&redis);
            proxy.set(Mode::Delay(Duration::from_secs(2)));
            let (slow_one, b_too) = (Arc::clone(&slow), b.clone());
            let second = tokio::spawn(async move { remember(&slow_one, "http://b/", &b_too).await });
            while scripts(&redis) == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let asked = Instant::now();
            assert_eq!(remember(&backend, "http://c/", &c).await, ContentMatch::New);
            let same = remember(&backend, "http://d/", &b).await;
            assert!(
                matches!(same, ContentMatch::NearDuplicate(_)),
                "not the same as one that is not kept: {same:?}"
            );
            assert!(!second.is_finished(), "{:?} passed", asked.elapsed());
            proxy.set(Mode::Pass);
            assert!(matches!(second.await.unwrap(), ContentMatch::NearDuplicate(_)));
            assert_eq!(backend.load_content("http://b/").await.unwrap(), None);
            assert_eq!(backend.snapshot().await.unwrap().stored.0, 2, "{partitions} partitions");
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_page_is_dropped_for_one_that_another_process_keeps() {
    for partitions in PARTITIONS {
        let redis = Server::start();
        block_on(async {
            let (one, two) = (open(redis.url(), partitions).await, open(redis.url(), partitions).await);
            let [a, b, c] = chain(one.hash_key());
            assert_eq!(remember(&one, "http://b/", &b).await, ContentMatch::New);
            assert_eq!(remember(&two, "http://a/", &a).await, similar("http://b/"));
            assert_eq!(remember(&two, "http://c/", &c).await, similar("http://b/"));
            assert_eq!(remember(&two, "http://d/", &b).await, ContentMatch::Duplicate("http://b/".into()));
            assert_eq!(
                remember(&two, "http://b/", &b).await,
                ContentMatch::New,
                "delivered again, to another"
            );
            assert_eq!(two.load_content("http://b/").await.unwrap().as_deref(), Some(b.as_bytes()));
            assert_eq!(one.snapshot().await.unwrap().stored.0, 1);
        });
        assert_eq!(redis.ask::<Vec<String>>("KEYS *}:body:*").len(), 1);
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_page_like_one_that_its_own_process_keeps_costs_redis_nothing() {
    let redis = Server::start();
    block_on(async {
        let backend = open(redis.url(), 1).await;
        let [a, b, _] = chain(backend.hash_key());
        assert_eq!(remember(&backend, "http://a/", &a).await, ContentMatch::New);
        let before = scripts(&redis);
        assert_eq!(remember(&backend, "http://b/", &b).await, similar("http://a/"));
        assert_eq!(remember(&backend, "http://c/", &a).await, ContentMatch::Duplicate("http://a/".into()));
        assert_eq!(scripts(&redis), before);
        backend.advance(Duration::from_secs(3601));
        assert_eq!(remember(&backend, "http://b/", &b).await, ContentMatch::New, "after its hour");
    });
}

/// Remembers pages at the same time, by several processes.
async fn remember_at_once(processes: &[Arc<RedisBackend>], bodies: &[String]) -> Vec<ContentMatch> {
    let mut visits = JoinSet::new();
    for (number, body) in bodies.iter().cloned().enumerate() {
        let backend = Arc::clone(&processes[number % processes.len()]);
        visits.spawn(async move { (number, remember(&backend, &format!("http://{number}/"), &body).await) });
    }
    let remembered: BTreeMap<usize, ContentMatch> = visits.join_all().await.into_iter().collect();
    remembered.into_values().collect()
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn whoever_comes_when_each_page_is_kept_or_like_one_that_is_and_no_two_that_are_kept_are_alike() {
    for partitions in PARTITIONS {
        let redis = Server::start();
        block_on(async {
            let mut processes = Vec::new();
            for _ in 0..4 {
                processes.push(Arc::new(open(redis.url(), partitions).await));
            }
            // Of each text a chain of pages, of which each is similar to those beside it.
            let bodies: Vec<String> = (0..300).map(|number| body(number / 12, number % 12 * STEP)).collect();
            let prints: Vec<Fingerprint> =
                bodies.iter().map(|body| print(processes[0].hash_key(), body)).collect();
            let remembered = remember_at_once(&processes, &bodies).await;
            let is_kept = |number: usize| remembered[number] == ContentMatch::New;
            for (number, remembered) in remembered.iter().enumerate() {
                if let ContentMatch::Duplicate(url) | ContentMatch::NearDuplicate(url) = remembered {
                    let other = url["http://".len()..].trim_end_matches('/').parse::<usize>().unwrap();
                    assert!(is_kept(other), "{number} is dropped for {other}, which is dropped too");
                    assert!(are_found_similar(&prints[number], &prints[other]).1);
                }
            }
            let kept: Vec<usize> = (0..bodies.len()).filter(|number| is_kept(*number)).collect();
            for (place, one) in kept.iter().enumerate() {
                for two in &kept[..place] {
                    assert_ne!(are_found_similar(&prints[*one], &prints[*two]), (true, true), "{one}, {two}");
                }
            }
            assert!((75..200).contains(&kept.len()), "{} are kept", kept.len());
            assert_eq!(processes[0].snapshot().await.unwrap().stored.0, kept.len());
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn pages_that_are_half_alike_are_all_kept_though_several_processes_store_them_at_once() {
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
            let remembered = remember_at_once(&processes, &bodies).await;
            assert_eq!(remembered.iter().filter(|page| **page == ContentMatch::New).count(), 200);
            let scripts = scripts(&redis) - before;
            assert!(scripts <= 200 * MOST_SCRIPTS, "nobody is overtaken for ever: {scripts} scripts");
            assert_eq!(processes[0].snapshot().await.unwrap().stored.0, 200);
        });
    }
}
