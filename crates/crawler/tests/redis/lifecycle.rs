//! The end of a crawl: what Redis keeps of it and for how long, how it is resumed, and how it is purged.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, Budget, Completion, DiscoveredUrl, HostDelay, Lease, WorkerId};
use crawler::internal::outcome::Outcome;
use crawler::internal::similarity::{Fingerprint, Threshold};
use crawler::internal::stats::BodyBytes;
use testredis::{Cluster, Server};

use super::{block_on, config, route};

const FIRST: WorkerId = WorkerId(0);
const TTL: Duration = Duration::from_millis(1_200);

fn redis_crawl(server: &Server, crawl: &str) -> RedisCrawl {
    RedisCrawl {
        partitions: Some(3),
        delay: Duration::from_millis(10),
        ..RedisCrawl::new(server.url().parse().unwrap(), crawl)
    }
}

/// Short TTLs, and everything is stored that can be.
fn short_lived() -> BackendConfig {
    BackendConfig {
        queue_size: 3_000,
        ttl: TTL,
        domain_ttl: Duration::from_millis(500),
        similarity: Threshold::new(0.9),
        max_pages_per_host: 1_000,
        max_pages_per_site: u64::MAX,
        keep_depths: true,
        ..config(2)
    }
}

async fn lease(backend: &RedisBackend) -> Vec<Lease> {
    let mut leases = Vec::new();
    for worker in [FIRST, WorkerId(1)] {
        leases.extend(backend.lease(worker, 1_000, Duration::ZERO).await.unwrap());
    }
    leases
}

async fn admit(backend: &RedisBackend, name: &str, count: usize) {
    let urls = (0..count).map(|number| DiscoveredUrl {
        url: format!("http://h{}.test/{name}/{number}", number % 20),
        depth: 1,
        redirects: 0,
    });
    assert_eq!(backend.admit(urls.collect()).await.unwrap().new, count as u64);
}

/// Awaits futures concurrently.
async fn join_all<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        pending.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if pending.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Crawls up to `max` pages as a worker would, with data of every kind.
async fn crawl_pages(backend: &RedisBackend, max: usize) -> usize {
    let mut crawled = 0;
    while crawled < max {
        route(backend).await;
        let mut leases = lease(backend).await;
        if leases.is_empty() {
            break;
        }
        leases.truncate(max - crawled);
        let store = |lease: &Lease| {
            let lease = lease.clone();
            async move {
                backend.reserve(&lease, BodyBytes::default()).await.unwrap();
                let text: String = (0..100).map(|word| format!("{} {word} ", lease.url)).collect();
                let fingerprint = Fingerprint::of_text(backend.hash_key(), None, text.as_bytes());
                backend.store_content(&lease.url, &fingerprint, text.as_bytes(), false).await.unwrap();
            }
        };
        for leases in leases.chunks(100) {
            join_all(leases.iter().map(store)).await;
        }
        let mut completions = Vec::new();
        for lease in &leases {
            let delay = Duration::from_millis(20);
            let host_delay = Some(HostDelay { delay, cooldown: delay });
            let linked = vec![crawler::internal::domain::Domain::from_url_str(&lease.url)];
            let outcome = Outcome::Page;
            completions.push(Completion {
                outcome,
                host_delay,
                linked_domains: linked,
                bytes: BodyBytes::unencoded(100),
                ..Completion::new(lease)
            });
        }
        crawled += backend.complete(completions).await.unwrap().len();
    }
    crawled
}

/// Requeues the URLs that are still leased.
async fn rejoin(backend: &RedisBackend) {
    for worker in [FIRST, WorkerId(1)] {
        backend.rejoin(worker).await.unwrap();
    }
}

fn keys(server: &Server, crawl: &str) -> BTreeSet<String> {
    server.query::<Vec<String>>(&format!("KEYS crawler:{{{crawl}:*")).into_iter().collect()
}

/// The name of a key within its partition.
fn name(key: &str) -> &str {
    key.split("}:").nth(1).unwrap().split(':').next().unwrap()
}

fn is_result(key: &str) -> bool {
    ["counts", "outcomes", "refused", "used", "settings"].contains(&name(key))
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn only_the_result_of_a_finished_crawl_remains_after_the_ttl() {
    let server = Server::start();
    // Long enough to look at the keys before they expire, on a busy machine too.
    let (ttl, domain_ttl) = (Duration::from_secs(5), Duration::from_secs(4));
    let config = BackendConfig { ttl, domain_ttl, ..short_lived() };
    let backend = block_on(RedisBackend::open(redis_crawl(&server, "over"), config.clone())).unwrap();
    block_on(async {
        admit(&backend, "a", 200).await;
        assert_eq!(crawl_pages(&backend, usize::MAX).await, 200);
        assert_eq!(backend.close().await.unwrap(), 0);
        // Workers that do not know of the end yet still request leases.
        assert!(lease(&backend).await.is_empty());
        let other = RedisBackend::open(redis_crawl(&server, "over"), config).await.unwrap();
        assert!(lease(&other).await.is_empty());
    });
    let left = keys(&server, "over");
    let names: BTreeSet<&str> = left.iter().map(|key| name(key)).collect();
    for gone in ["urls", "queue", "lengths", "tasks", "outstanding", "active", "settled", "reservations"] {
        assert!(!names.contains(gone), "{gone}");
    }
    for stays in ["links", "page", "domains", "popularity", "stored", "rests"] {
        assert!(names.contains(stays), "{stays} is kept until its TTL: {names:?}");
    }
    for key in &left {
        let expires: i64 = server.query(&format!("PTTL {key}"));
        match name(key) {
            _ if is_result(key) => assert_eq!(expires, -1, "{key}"),
            "domains" | "lapses" => {
                assert!((-2..=domain_ttl.as_millis() as i64).contains(&expires), "{key} lives {expires} ms")
            }
            // Cooldowns may be longer than the TTL, and replies are stored for retries.
            "rests" | "delays" | "delays_end" | "answer" => {
                assert!(expires <= 3_600_000 && expires != -1, "{key}")
            }
            _ => assert!(expires <= 2 * ttl.as_millis() as i64 && expires != -1, "{key} lives {expires} ms"),
        }
    }
    let start = Instant::now();
    loop {
        let after = keys(&server, "over");
        let exempt = ["rests", "delays", "delays_end", "answer"];
        let remaining: Vec<_> =
            after.iter().filter(|key| !is_result(key) && !exempt.contains(&name(key))).collect();
        if remaining.is_empty() {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{remaining:?}");
        sleep(Duration::from_millis(100));
    }
    let snapshot = block_on(backend.snapshot()).unwrap();
    assert_eq!((snapshot.admitted, snapshot.completed, snapshot.pages), (200, 200, 200));
    assert_eq!(snapshot.outcomes["page"], 200);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn finished_crawl_can_be_resumed_with_more_urls_and_its_seen_set() {
    let server = Server::start();
    let long_lived = BackendConfig { ttl: Duration::from_secs(3_600), ..short_lived() };
    block_on(async {
        let backend = RedisBackend::open(redis_crawl(&server, "more"), long_lived.clone()).await.unwrap();
        admit(&backend, "a", 100).await;
        crawl_pages(&backend, usize::MAX).await;
        backend.close().await.unwrap();

        let resumed = RedisBackend::open(redis_crawl(&server, "more"), long_lived).await.unwrap();
        resumed.reopen().await.unwrap();
        resumed.reopen().await.unwrap();
        let seen = DiscoveredUrl { url: "http://h0.test/a/0".into(), depth: 1, redirects: 0 };
        assert_eq!(resumed.admit(vec![seen]).await.unwrap().seen, 1);
        admit(&resumed, "b", 100).await;
        assert_eq!(crawl_pages(&resumed, usize::MAX).await, 100);
        let snapshot = resumed.snapshot().await.unwrap();
        assert_eq!((snapshot.pages, snapshot.outstanding()), (200, 0));
        for key in
            keys(&server, "more").iter().filter(|key| ["links", "popularity", "domains"].contains(&name(key)))
        {
            assert_eq!(
                server.query::<i64>(&format!("TTL {key}")),
                -1,
                "{key} does not expire while the crawl runs"
            );
        }
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn stopped_crawl_is_kept_for_an_hour_and_can_be_resumed() {
    let server = Server::start();
    block_on(async {
        let original = BackendConfig { max_pages: 150, ..short_lived() };
        let backend = RedisBackend::open(redis_crawl(&server, "stopped"), original.clone()).await.unwrap();
        // Some URLs are parked, some leased, some in a worker's queue.
        admit(&backend, "a", 2_000).await;
        assert_eq!(crawl_pages(&backend, 150).await, 150);
        assert_eq!(backend.exhausted_budget().await.unwrap(), Some(Budget::Pages));
        let before = backend.snapshot().await.unwrap();
        assert!(before.parked > 100, "{before:?}");
        assert_eq!(backend.close().await.unwrap(), 1_850);
        for key in keys(&server, "stopped") {
            let seconds: i64 = server.query(&format!("TTL {key}"));
            match name(&key) {
                _ if is_result(&key) => assert_eq!(seconds, -1, "{key}"),
                "page" | "body" | "exact" | "bands" | "stored" => {
                    assert!(seconds != -1 && seconds <= 3, "{key} lives {seconds} s");
                }
                "answer" => assert!(seconds != -1),
                _ => assert!((3_590..=4_200).contains(&seconds), "{key} lives {seconds} s"),
            }
        }

        let raised = BackendConfig { max_pages: 10_000, ..original };
        let resumed = RedisBackend::open(redis_crawl(&server, "stopped"), raised).await.unwrap();
        resumed.reopen().await.unwrap();
        rejoin(&resumed).await;
        assert_eq!(resumed.snapshot().await.unwrap().outstanding(), 1_850);
        assert_eq!(crawl_pages(&resumed, usize::MAX).await, 1_850);
        let snapshot = resumed.snapshot().await.unwrap();
        assert_eq!((snapshot.pages, snapshot.outstanding(), snapshot.parked), (2_000, 0, 0));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn expired_urls_of_a_stopped_crawl_count_as_not_reached_when_it_is_resumed() {
    let server = Server::start();
    block_on(async {
        let backend = RedisBackend::open(redis_crawl(&server, "late"), short_lived()).await.unwrap();
        admit(&backend, "a", 2_000).await;
        crawl_pages(&backend, 100).await;
        backend.close().await.unwrap();
        for key in keys(&server, "late") {
            let own = ["links", "page", "body", "exact", "bands", "answer", "waiting"].contains(&name(&key));
            if !own && !is_result(&key) {
                server.query::<()>(&format!("PEXPIRE {key} 1"));
            }
        }
        sleep(Duration::from_millis(10));
        let resumed = RedisBackend::open(redis_crawl(&server, "late"), short_lived()).await.unwrap();
        resumed.reopen().await.unwrap();
        let snapshot = resumed.snapshot().await.unwrap();
        assert_eq!((snapshot.outstanding(), snapshot.parked), (0, 0));
        assert_eq!(snapshot.outcomes["not reached"], 1_900);
        admit(&resumed, "b", 2_000).await;
        assert_eq!(crawl_pages(&resumed, usize::MAX).await, 2_000);
        let snapshot = resumed.snapshot().await.unwrap();
        assert_eq!((snapshot.outstanding(), snapshot.completed), (0, snapshot.outcomes.values().sum()));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn purge_removes_all_keys_of_a_crawl_and_no_others() {
    let server = Server::start();
    block_on(async {
        let mut open = Vec::new();
        for crawl in ["news", "news2", "ne"] {
            let long_lived = BackendConfig { ttl: Duration::from_secs(3_600), ..short_lived() };
            let backend = RedisBackend::open(redis_crawl(&server, crawl), long_lived).await.unwrap();
            admit(&backend, "a", 2_000).await;
            crawl_pages(&backend, 300).await;
            server.query::<()>(&format!("SET crawler:{{{crawl}:crew}}:state 1"));
            open.push(backend);
        }
        server.query::<()>("SET crawler 1");
        let expected = keys(&server, "news").len();
        let others = [keys(&server, "news2"), keys(&server, "ne")];
        let purged = RedisBackend::purge(&redis_crawl(&server, "news")).await.unwrap();
        assert!((1..=expected as u64).contains(&purged), "{purged} of {expected}");
        assert_eq!(keys(&server, "news"), BTreeSet::new());
        assert_eq!([keys(&server, "news2"), keys(&server, "ne")], others);
        rejoin(&open[1]).await;
        assert_eq!(crawl_pages(&open[1], usize::MAX).await, 1_700);
        assert_eq!(RedisBackend::purge(&redis_crawl(&server, "news")).await.unwrap(), 0);
        let message = format!("{:#}", RedisBackend::purge(&redis_crawl(&server, "*")).await.unwrap_err());
        assert!(message.contains("cannot be the name of a crawl"), "{message}");
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn purge_among_many_keys_does_not_block_other_clients() {
    let server = Server::start();
    let fill = "for i = 1, 200000 do redis.call('SET', (i % 2 == 0 and 'other:' or 'crawler:{big:p0}:answer:') .. i, 1) end";
    server.query_args::<()>(&["EVAL", fill, "0"]);
    server.query::<()>("CONFIG RESETSTAT");
    std::thread::scope(|scope| {
        let purge = scope.spawn(|| block_on(RedisBackend::purge(&redis_crawl(&server, "big"))).unwrap());
        // A purge in one command would let at most one of them through, on any machine.
        let mut pings = 0;
        while !purge.is_finished() {
            server.query::<()>("PING");
            pings += 1;
        }
        assert_eq!(purge.join().unwrap(), 100_000);
        assert!(pings > 10, "only {pings} commands of other clients got through");
    });
    assert_eq!(server.query::<u64>("DBSIZE"), 100_000);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn reopened_crawl_may_raise_budgets_and_change_no_other_setting() {
    let server = Server::start();
    block_on(async {
        let original = BackendConfig { max_pages: 100, max_bytes: 1 << 20, ..config(1) };
        let open = async |config| match RedisBackend::open(redis_crawl(&server, "terms"), config).await {
            Ok(_) => String::new(),
            Err(error) => format!("{error:#}"),
        };
        assert_eq!(open(original.clone()).await, "");
        let raised = BackendConfig { max_pages: 200, max_pages_per_host: u64::MAX, ..original.clone() };
        // A rejected process changes nothing.
        let other = open(BackendConfig { ttl: Duration::from_secs(1), ..raised.clone() }).await;
        assert!(other.contains("was started with another setting"), "{other}");
        let mixed = open(BackendConfig { max_bytes: 1, ..raised.clone() }).await;
        assert!(mixed.contains("--max-bytes is 1048576") && mixed.contains("raised, not lowered"), "{mixed}");
        assert_eq!(open(original.clone()).await, "");
        assert_eq!(open(raised.clone()).await, "");
        let lowered = open(original).await;
        assert!(lowered.contains("--max-pages is 200 in the crawl 'terms'"), "{lowered}");
        assert!(lowered.contains("and 100 here; it can be raised, not lowered"), "{lowered}");
        assert_eq!(open(BackendConfig { max_pages: u64::MAX, ..raised.clone() }).await, "");
        let unlimited = open(raised).await;
        assert!(unlimited.contains("--max-pages is unlimited"), "{unlimited}");
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn crawl_on_a_cluster_is_closed_reopened_and_purged_on_all_nodes() {
    let cluster = Cluster::start();
    let crawl = RedisCrawl { partitions: Some(16), ..redis_crawl(&cluster.nodes[0], "wide") };
    let all = || cluster.nodes.iter().map(|node| keys(node, "wide").len()).collect::<Vec<_>>();
    block_on(async {
        let backend = RedisBackend::open(crawl.clone(), short_lived()).await.unwrap();
        admit(&backend, "a", 1_500).await;
        assert_eq!(crawl_pages(&backend, 100).await, 100);
        assert!(all().iter().all(|keys| *keys > 10), "{:?}", all());
        assert_eq!(backend.close().await.unwrap(), 1_400);
        for node in &cluster.nodes {
            for key in keys(node, "wide").iter().filter(|key| !is_result(key)) {
                assert_ne!(node.query::<i64>(&format!("TTL {key}")), -1, "{key}");
            }
        }
        backend.reopen().await.unwrap();
        rejoin(&backend).await;
        assert_eq!(crawl_pages(&backend, usize::MAX).await, 1_400);
        assert_eq!(backend.close().await.unwrap(), 0);
        assert!(RedisBackend::purge(&crawl).await.unwrap() > 100);
        assert_eq!(all(), [0, 0, 0]);
    });
}
