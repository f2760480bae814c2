//! How much memory a crawl takes in Redis, and for how long.

use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, Completion, ContentMatch, DiscoveredUrl, WorkerId};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::Priority;
use crawler::internal::similarity::{Fingerprint, Threshold};
use std::sync::Arc;
use std::time::Duration;
use testredis::Server;
use tokio::task::JoinSet;

use super::{block_on, config};

const LINKS: usize = 10_000;

/// Admits and completes many URLs of many domains.
async fn complete_many(backend: &RedisBackend) {
    for batch in 0..LINKS / 1000 {
        let urls = (0..1000).map(|number| DiscoveredUrl {
            url: format!("http://h{number}.test/{batch}"),
            depth: 1,
            redirects: 0,
        });
        assert_eq!(backend.admit(urls.collect()).await.unwrap().new, 1000);
        let mut completed = 0;
        while completed < 1000 {
            let urls = backend.take_unprioritized(1000, Duration::ZERO).await.unwrap();
            backend
                .enqueue_prioritized(urls.iter().map(|url| (url.task_id, Priority::BEST)).collect())
                .await
                .unwrap();
            backend.route(vec![Priority::BEST; 1000], Duration::ZERO).await.unwrap();
            let leases = backend.lease(WorkerId(0), 1000, Duration::ZERO).await.unwrap();
            let completions =
                leases.iter().map(|lease| Completion { outcome: Outcome::Page, ..Completion::new(lease) });
            completed += backend.complete(completions.collect()).await.unwrap().len();
        }
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn seen_url_takes_less_than_50_bytes() {
    for keep_depths in [false, true] {
        let redis = Server::start();
        let config = crawler::internal::backend::local::BackendConfig {
            queue_size: 10_000,
            keep_depths,
            max_pages: u64::MAX,
            ..config(1)
        };
        let crawl = RedisCrawl {
            partitions: Some(4),
            delay: Duration::ZERO,
            ..RedisCrawl::new(redis.url().parse().unwrap(), "links")
        };
        let backend = block_on(RedisBackend::open(crawl, config)).unwrap();
        block_on(complete_many(&backend));
        assert_eq!(block_on(backend.snapshot()).unwrap().seen_urls, LINKS);
        let shards: Vec<String> = redis.query("KEYS *}:links:*");
        let bytes: usize =
            shards.iter().map(|shard| redis.query::<usize>(&format!("MEMORY USAGE {shard}"))).sum();
        assert!(bytes < 50 * LINKS, "{} bytes per URL", bytes / LINKS);
        for shard in shards {
            let encoding: String = redis.query(&format!("OBJECT ENCODING {shard}"));
            assert_eq!(encoding, "listpack", "{shard}");
            assert_eq!(redis.query::<i64>(&format!("TTL {shard}")), -1, "{shard} does not expire");
        }
    }
}

/// A number of Redis's INFO reply.
pub(super) fn info_number(redis: &Server, section: &str, name: &str) -> usize {
    let information: String = redis.query(&format!("INFO {section}"));
    let line = information.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn queued_url_takes_less_than_400_bytes() {
    let redis = Server::start();
    let crawl = RedisCrawl {
        partitions: Some(1),
        delay: Duration::ZERO,
        ..RedisCrawl::new(redis.url().parse().unwrap(), "queued")
    };
    let backend = block_on(RedisBackend::open(crawl, config(1))).unwrap();
    let before = info_number(&redis, "memory", "used_memory:");
    for batch in 0..LINKS / 1000 {
        let urls = (0..1000).map(|number| DiscoveredUrl {
            url: format!("http://www.host{number}.test/section/of/many/page-{batch}.html"),
            depth: 1,
            redirects: 0,
        });
        assert_eq!(block_on(backend.admit(urls.collect())).unwrap().new, 1000);
    }
    let bytes = (info_number(&redis, "memory", "used_memory:") - before) / LINKS;
    assert!(bytes < 400, "{bytes} bytes per URL");
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn recently_admitted_links_are_not_sent_again() {
    let redis = Server::start();
    let crawl = RedisCrawl {
        partitions: Some(1),
        delay: Duration::ZERO,
        ..RedisCrawl::new(redis.url().parse().unwrap(), "recent")
    };
    let open = || block_on(RedisBackend::open(crawl.clone(), config(1))).unwrap();
    let (backend, other) = (open(), open());
    let links = |depth| {
        let links =
            (0..100).map(|number| DiscoveredUrl { url: format!("http://h/{number}"), depth, redirects: 0 });
        links.collect::<Vec<_>>()
    };
    let scripts = || info_number(&redis, "commandstats", "cmdstat_evalsha:calls=");
    let before = scripts();
    assert_eq!(block_on(backend.admit(links(3))).unwrap().new, 100);
    for depth in [3, 7, 1] {
        let admitted = block_on(backend.admit(links(depth))).unwrap();
        assert_eq!((admitted.new, admitted.seen), (0, 100));
    }
    assert_eq!(scripts() - before, 1, "depths are not stored");
    assert_eq!(block_on(other.admit(links(3))).unwrap().seen, 100, "another process sends them itself");
    backend.advance(Duration::from_secs(10 * 3600));
    assert_eq!(block_on(backend.admit(links(3))).unwrap().seen, 100);
    assert_eq!(scripts() - before, 2, "they do not expire");
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn only_the_seen_set_remains_of_completed_urls() {
    let redis = Server::start();
    let crawl = RedisCrawl {
        partitions: Some(1),
        delay: Duration::ZERO,
        ..RedisCrawl::new(redis.url().parse().unwrap(), "clean")
    };
    let config = crawler::internal::backend::local::BackendConfig {
        queue_size: 10_000,
        max_pages: u64::MAX,
        ..config(1)
    };
    let backend = block_on(RedisBackend::open(crawl, config)).unwrap();
    block_on(complete_many(&backend));
    let left: Vec<String> = redis.query("KEYS *:tasks");
    assert_eq!(left, Vec::<String>::new());
    for gone in ["outstanding", "loans", "overflow", "prioritizing", "returned", "active"] {
        assert_eq!(redis.query::<u32>(&format!("EXISTS crawler:{{clean:p0}}:{gone}")), 0, "{gone}");
    }
    let replies: Vec<String> = redis.query("KEYS *:answer:*");
    assert!(replies.len() < 2_000, "{} replies are stored", replies.len());
    for gone in ["endings", "settled", "reservations"] {
        assert_eq!(redis.query::<u32>(&format!("EXISTS crawler:{{clean:p0}}:{gone}")), 0, "{gone}");
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn one_of_several_near_duplicates_stored_concurrently_is_new() {
    let redis = Server::start();
    let crawl = RedisCrawl {
        partitions: Some(1),
        delay: Duration::ZERO,
        ..RedisCrawl::new(redis.url().parse().unwrap(), "concurrent")
    };
    let config = crawler::internal::backend::local::BackendConfig {
        similarity: Threshold::new(0.9),
        keep_content: true,
        ..config(1)
    };
    // Three pages for each text: two are identical, one has one more word.
    let body = |page: usize| {
        let words = (0..400).map(|word| format!("w{} ", (page / 3 * 7919 + word * word * 31) % 100_003));
        words.chain((page % 3 == 2).then(|| "more".to_owned())).collect::<String>()
    };
    block_on(async {
        let backend = Arc::new(RedisBackend::open(crawl, config).await.unwrap());
        let mut tasks = JoinSet::new();
        for page in 0..60 {
            let (backend, body) = (Arc::clone(&backend), body(page));
            tasks.spawn(async move {
                let fingerprint = Fingerprint::of_text(backend.hash_key(), None, body.as_bytes());
                let url = format!("http://h/{page}");
                backend.store_content(&url, &fingerprint, body.as_bytes(), false).await.unwrap()
            });
        }
        let results = tasks.join_all().await;
        assert_eq!(results.iter().filter(|page| **page == ContentMatch::New).count(), 20);
        assert!(results.iter().any(|page| matches!(page, ContentMatch::Duplicate(_))));
        assert!(results.iter().any(|page| matches!(page, ContentMatch::NearDuplicate(_))));
    });
    assert_eq!(redis.query::<Vec<String>>("KEYS *}:page:*").len(), 20);
    assert_eq!(redis.query::<Vec<String>>("KEYS *}:body:*").len(), 20);
    let scripts = info_number(&redis, "commandstats", "cmdstat_evalsha:calls=");
    assert!(scripts < 60 + 40, "requests are batched: {scripts} scripts, 40 of which remove pages");
}
