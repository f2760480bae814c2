//! What a crawl takes of Redis's memory, and for how long.

use crawler::outcome::Outcome;
use crawler::prioritizer::Priority;
use crawler::resources::redis::{Place, RedisResources};
use crawler::resources::{Completion, Found, Resources, WorkerId};
use std::time::Duration;
use testredis::Server;

use super::{block_on, settings};

const LINKS: usize = 10_000;

/// Admits and completes many URLs of many domains.
async fn complete_many(resources: &RedisResources) {
    for batch in 0..LINKS / 1000 {
        let found = (0..1000).map(|number| Found {
            url: format!("http://h{number}.test/{batch}"),
            depth: 1,
            redirects: 0,
        });
        assert_eq!(resources.admit(found.collect()).await.unwrap().new, 1000);
        let mut completed = 0;
        while completed < 1000 {
            let incoming = resources.incoming(1000, Duration::ZERO).await.unwrap();
            resources.file(incoming.iter().map(|one| (one.ticket, Priority::BEST)).collect()).await.unwrap();
            resources.route(vec![Priority::BEST; 1000], Duration::ZERO).await.unwrap();
            let leases = resources.lease(WorkerId(0), 1000, Duration::ZERO).await.unwrap();
            let ends =
                leases.iter().map(|lease| Completion { outcome: Outcome::Kept, ..Completion::of(lease) });
            completed += resources.complete(ends.collect()).await.unwrap().len();
        }
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_known_url_takes_less_than_60_bytes() {
    for keep_depths in [false, true] {
        let redis = Server::start();
        let settings = crawler::resources::embedded::Settings {
            queue_size: 10_000,
            keep_depths,
            max_pages: u64::MAX,
            ..settings(1)
        };
        let place = Place { url: redis.url(), crawl: "links".into(), partitions: 4, delay: Duration::ZERO };
        let resources = block_on(RedisResources::open(place, settings)).unwrap();
        block_on(complete_many(&resources));
        assert_eq!(block_on(resources.snapshot()).unwrap().known, LINKS);
        let shards: Vec<String> = redis.ask("KEYS *}:links:*");
        let bytes: usize =
            shards.iter().map(|shard| redis.ask::<usize>(&format!("MEMORY USAGE {shard}"))).sum();
        assert!(bytes < 60 * LINKS, "{} bytes a URL", bytes / LINKS);
        for shard in shards {
            let encoding: String = redis.ask(&format!("OBJECT ENCODING {shard}"));
            assert_eq!(encoding, "listpack", "{shard}");
            let seconds: i64 = redis.ask(&format!("TTL {shard}"));
            assert!((3600..=3600 + 3 * 300).contains(&seconds), "{shard} lives {seconds} s");
        }
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn nothing_is_left_of_completed_urls_but_that_they_are_known() {
    let redis = Server::start();
    let place = Place { url: redis.url(), crawl: "clean".into(), partitions: 1, delay: Duration::ZERO };
    let settings =
        crawler::resources::embedded::Settings { queue_size: 10_000, max_pages: u64::MAX, ..settings(1) };
    let resources = block_on(RedisResources::open(place, settings)).unwrap();
    block_on(complete_many(&resources));
    let left: Vec<String> = redis.ask("KEYS *:tasks");
    assert_eq!(left, Vec::<String>::new());
    for gone in ["outstanding", "loans", "overflow", "prioritizing", "returned", "active"] {
        assert_eq!(redis.ask::<u32>(&format!("EXISTS crawler:{{clean:p0}}:{gone}")), 0, "{gone}");
    }
    let answers: Vec<String> = redis.ask("KEYS *:answer:*");
    assert!(answers.len() < 2_000, "{} answers are remembered", answers.len());
    for gone in ["endings", "settled", "reservations"] {
        assert_eq!(redis.ask::<u32>(&format!("EXISTS crawler:{{clean:p0}}:{gone}")), 0, "{gone}");
    }
}
