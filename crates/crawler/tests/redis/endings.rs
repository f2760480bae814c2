//! The end of a crawl on Redis: what is left of it, for how long, how it goes on, and how it is removed.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{
    Backend, BackendError, Budget, Completion, DiscoveredUrl, HostDelay, Lease, WorkerId,
};
use crawler::internal::outcome::Outcome;
use crawler::internal::similarity::{Fingerprint, Threshold};
use testredis::{Cluster, Server};

use super::{block_on, route, settings};

const FIRST: WorkerId = WorkerId(0);
const TTL: Duration = Duration::from_millis(1_200);

fn place(server: &Server, crawl: &str) -> RedisCrawl {
    RedisCrawl {
        partitions: Some(3),
        delay: Duration::from_millis(10),
        ..RedisCrawl::new(server.url().parse().unwrap(), crawl)
    }
}

/// Everything lives for a moment, and everything that can be kept is.
fn short() -> BackendConfig {
    BackendConfig {
        queue_size: 3_000,
        ttl: TTL,
        domain_ttl: Duration::from_millis(500),
        similarity: Threshold::new(0.9),
        max_pages_per_host: 1_000,
        keep_depths: true,
        ..settings(2)
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
    let found = (0..count).map(|number| DiscoveredUrl {
        url: format!("http://h{}.test/{name}/{number}", number % 20),
        depth: 1,
        redirects: 0,
    });
    assert_eq!(backend.admit(found.collect()).await.unwrap().new, count as u64);
}

/// Awaits futures at the same time.
async fn join_all<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        pending.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if pending.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Visits up to so many pages as a worker would, and leaves traces of every kind.
async fn visit(backend: &RedisBackend, most: usize) -> usize {
    let mut visited = 0;
    while visited < most {
        route(backend).await;
        let mut leases = lease(backend).await;
        if leases.is_empty() {
            break;
        }
        leases.truncate(most - visited);
        let store = |lease: &Lease| {
            let lease = lease.clone();
            async move {
                backend.reserve(&lease, 0).await.unwrap();
                let text: String = (0..100).map(|word| format!("{} {word} ", lease.url)).collect();
                let fingerprint = Fingerprint::of_text(backend.hash_key(), None, text.as_bytes());
                backend.store_content(&lease.url, &fingerprint, text.as_bytes()).await.unwrap();
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
                bytes: 100,
                ..Completion::new(lease)
            });
        }
        visited += backend.complete(completions).await.unwrap().len();
    }
    visited
}

/// Takes back what is still on loan.
async fn rejoin(backend: &RedisBackend) {
    for worker in [FIRST, WorkerId(1)] {
        backend.rejoin(worker).await.unwrap();
    }
}

fn keys(server: &Server, crawl: &str) -> BTreeSet<String> {
    server.ask::<Vec<String>>(&format!("KEYS crawler:{{{crawl}:*")).into_iter().collect()
}

/// What a key is called within its part.
fn name(key: &str) -> &str {
    key.split("}:").nth(1).unwrap().split(':').next().unwrap()
}

fn is_result(key: &str) -> bool {
    ["counts", "outcomes", "refused", "used", "settings"].contains(&name(key))
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn nothing_is_left_of_a_finished_crawl_after_a_while_but_its_result() {
    let server = Server::start();
    // Long enough for a busy machine to look at what is left before it expires.
    let (ttl, domain_ttl) = (Duration::from_secs(5), Duration::from_secs(4));
    let settings = BackendConfig { ttl, domain_ttl, ..short() };
    let backend = block_on(RedisBackend::open(place(&server, "over"), settings.clone())).unwrap();
    block_on(async {
        admit(&backend, "a", 200).await;
        assert_eq!(visit(&backend, usize::MAX).await, 200);
        assert_eq!(backend.close().await.unwrap(), 0);
        // Workers that have not heard of it yet still ask.
        assert!(lease(&backend).await.is_empty());
        let other = RedisBackend::open(place(&server, "over"), settings).await.unwrap();
        assert!(lease(&other).await.is_empty());
    });
    let left = keys(&server, "over");
    let names: BTreeSet<&str> = left.iter().map(|key| name(key)).collect();
    for gone in ["urls", "queue", "lengths", "tasks", "outstanding", "active", "settled", "reservations"] {
        assert!(!names.contains(gone), "{gone}");
    }
    for stays in ["links", "page", "domains", "popularity", "stored", "rests"] {
        assert!(names.contains(stays), "{stays} stays for a while: {names:?}");
    }
    for key in &left {
        let expires: i64 = server.ask(&format!("PTTL {key}"));
        match name(key) {
            _ if is_result(key) => assert_eq!(expires, -1, "{key}"),
            "domains" | "lapses" => {
                assert!((-2..=domain_ttl.as_millis() as i64).contains(&expires), "{key} lives {expires} ms")
            }
            // Whose worker may still rest, and answers on their way.
            "rests" | "delays" | "delays_end" | "answer" => {
                assert!(expires <= 3_600_000 && expires != -1, "{key}")
            }
            _ => assert!(expires <= 2 * ttl.as_millis() as i64 && expires != -1, "{key} lives {expires} ms"),
        }
    }
    let begun = Instant::now();
    loop {
        let after = keys(&server, "over");
        let short_lived = ["rests", "delays", "delays_end", "answer"];
        let rest: Vec<_> =
            after.iter().filter(|key| !is_result(key) && !short_lived.contains(&name(key))).collect();
        if rest.is_empty() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{rest:?}");
        sleep(Duration::from_millis(100));
    }
    let snapshot = block_on(backend.snapshot()).unwrap();
    assert_eq!((snapshot.admitted, snapshot.completed, snapshot.pages), (200, 200, 200));
    assert_eq!(snapshot.outcomes["kept"], 200);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_finished_crawl_can_go_on_with_more_urls_and_still_knows_those_of_before() {
    let server = Server::start();
    let lasting = BackendConfig { ttl: Duration::from_secs(3_600), ..short() };
    block_on(async {
        let backend = RedisBackend::open(place(&server, "more"), lasting.clone()).await.unwrap();
        admit(&backend, "a", 100).await;
        visit(&backend, usize::MAX).await;
        backend.close().await.unwrap();

        let is_revisit = RedisBackend::open(place(&server, "more"), lasting).await.unwrap();
        is_revisit.reopen().await.unwrap();
        is_revisit.reopen().await.unwrap();
        let known = DiscoveredUrl { url: "http://h0.test/a/0".into(), depth: 1, redirects: 0 };
        assert_eq!(is_revisit.admit(vec![known]).await.unwrap().seen, 1);
        admit(&is_revisit, "b", 100).await;
        assert_eq!(visit(&is_revisit, usize::MAX).await, 100);
        let snapshot = is_revisit.snapshot().await.unwrap();
        assert_eq!((snapshot.pages, snapshot.outstanding()), (200, 0));
        for key in keys(&server, "more").iter().filter(|key| ["popularity", "domains"].contains(&name(key))) {
            assert_eq!(server.ask::<i64>(&format!("TTL {key}")), -1, "{key} stays while the crawl goes on");
        }
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_crawl_that_was_stopped_is_kept_for_an_hour_and_goes_on_where_it_was() {
    let server = Server::start();
    block_on(async {
        let begun = BackendConfig { max_pages: 150, ..short() };
        let backend = RedisBackend::open(place(&server, "stopped"), begun.clone()).await.unwrap();
        // Some wait for their domain's share, some are on loan, some are in a worker's queue.
        admit(&backend, "a", 2_000).await;
        assert_eq!(visit(&backend, 150).await, 150);
        assert_eq!(backend.exhausted_budget().await.unwrap(), Some(Budget::Pages));
        let before = backend.snapshot().await.unwrap();
        assert!(before.waiting > 100, "{before:?}");
        assert_eq!(backend.close().await.unwrap(), 1_850);
        for key in keys(&server, "stopped") {
            let seconds: i64 = server.ask(&format!("TTL {key}"));
            match name(&key) {
                _ if is_result(&key) => assert_eq!(seconds, -1, "{key}"),
                "links" | "page" | "body" | "exact" | "bands" | "stored" => {
                    assert!(seconds != -1 && seconds <= 3, "{key} lives {seconds} s");
                }
                "answer" => assert!(seconds != -1),
                _ => assert!((3_590..=4_200).contains(&seconds), "{key} lives {seconds} s"),
            }
        }

        let raised = BackendConfig { max_pages: 10_000, ..begun };
        let is_revisit = RedisBackend::open(place(&server, "stopped"), raised).await.unwrap();
        is_revisit.reopen().await.unwrap();
        rejoin(&is_revisit).await;
        assert_eq!(is_revisit.snapshot().await.unwrap().outstanding(), 1_850);
        assert_eq!(visit(&is_revisit, usize::MAX).await, 1_850);
        let snapshot = is_revisit.snapshot().await.unwrap();
        assert_eq!((snapshot.pages, snapshot.outstanding(), snapshot.waiting), (2_000, 0, 0));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn what_a_stopped_crawl_had_left_and_has_expired_was_not_reached_and_the_crawl_goes_on_without() {
    let server = Server::start();
    block_on(async {
        let backend = RedisBackend::open(place(&server, "late"), short()).await.unwrap();
        admit(&backend, "a", 2_000).await;
        visit(&backend, 100).await;
        backend.close().await.unwrap();
        for key in keys(&server, "late") {
            let own = ["links", "page", "body", "exact", "bands", "answer", "waiting"].contains(&name(&key));
            if !own && !is_result(&key) {
                server.ask::<()>(&format!("PEXPIRE {key} 1"));
            }
        }
        sleep(Duration::from_millis(10));
        let is_revisit = RedisBackend::open(place(&server, "late"), short()).await.unwrap();
        is_revisit.reopen().await.unwrap();
        let snapshot = is_revisit.snapshot().await.unwrap();
        assert_eq!((snapshot.outstanding(), snapshot.waiting), (0, 0));
        assert_eq!(snapshot.outcomes["not reached before the end"], 1_900);
        admit(&is_revisit, "b", 2_000).await;
        assert_eq!(visit(&is_revisit, usize::MAX).await, 2_000);
        let snapshot = is_revisit.snapshot().await.unwrap();
        assert_eq!((snapshot.outstanding(), snapshot.completed), (0, snapshot.outcomes.values().sum()));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn purging_a_crawl_removes_all_of_it_and_nothing_of_another() {
    let server = Server::start();
    block_on(async {
        let mut open = Vec::new();
        for crawl in ["news", "news2", "ne"] {
            let lasting = BackendConfig { ttl: Duration::from_secs(3_600), ..short() };
            let backend = RedisBackend::open(place(&server, crawl), lasting).await.unwrap();
            admit(&backend, "a", 2_000).await;
            visit(&backend, 300).await;
            server.ask::<()>(&format!("SET crawler:{{{crawl}:crew}}:state 1"));
            open.push(backend);
        }
        server.ask::<()>("SET crawler 1");
        let expected = keys(&server, "news").len();
        let others = [keys(&server, "news2"), keys(&server, "ne")];
        let purged = RedisBackend::purge(&place(&server, "news")).await.unwrap();
        assert!((1..=expected as u64).contains(&purged), "{purged} of {expected}");
        assert_eq!(keys(&server, "news"), BTreeSet::new());
        assert_eq!([keys(&server, "news2"), keys(&server, "ne")], others);
        rejoin(&open[1]).await;
        assert_eq!(visit(&open[1], usize::MAX).await, 1_700);
        assert_eq!(RedisBackend::purge(&place(&server, "news")).await.unwrap(), 0);
        let BackendError(message) = RedisBackend::purge(&place(&server, "*")).await.unwrap_err();
        assert!(message.contains("cannot be the name of a crawl"), "{message}");
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_purge_among_very_many_keys_lets_others_through() {
    let server = Server::start();
    let fill = "for i = 1, 200000 do redis.call('SET', (i % 2 == 0 and 'other:' or 'crawler:{big:p0}:answer:') .. i, 1) end";
    server.cli::<()>(&["EVAL", fill, "0"]);
    server.ask::<()>("CONFIG RESETSTAT");
    std::thread::scope(|scope| {
        let purge = scope.spawn(|| block_on(RedisBackend::purge(&place(&server, "big"))).unwrap());
        // One long command would let one of them through at most, on any machine.
        let mut others = 0;
        while !purge.is_finished() {
            server.ask::<()>("PING");
            others += 1;
        }
        assert_eq!(purge.join().unwrap(), 100_000);
        assert!(others > 10, "only {others} commands of others got through");
    });
    assert_eq!(server.ask::<u64>("DBSIZE"), 100_000);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn budgets_may_be_raised_by_who_opens_a_crawl_again_and_nothing_else_may_change() {
    let server = Server::start();
    block_on(async {
        let begun = BackendConfig { max_pages: 100, max_bytes: 1 << 20, ..settings(1) };
        let open = async |settings| match RedisBackend::open(place(&server, "terms"), settings).await {
            Ok(_) => String::new(),
            Err(BackendError(message)) => message,
        };
        assert_eq!(open(begun.clone()).await, "");
        let raised = BackendConfig { max_pages: 200, max_pages_per_host: u64::MAX, ..begun.clone() };
        // Who is refused changes nothing.
        let other = open(BackendConfig { ttl: Duration::from_secs(1), ..raised.clone() }).await;
        assert!(other.contains("was begun with another setting"), "{other}");
        let mixed = open(BackendConfig { max_bytes: 1, ..raised.clone() }).await;
        assert!(mixed.contains("--max-bytes is 1048576") && mixed.contains("raised, not lowered"), "{mixed}");
        assert_eq!(open(begun.clone()).await, "");
        assert_eq!(open(raised.clone()).await, "");
        let lowered = open(begun).await;
        assert!(lowered.contains("--max-pages is 200 in the crawl \"terms\""), "{lowered}");
        assert!(lowered.contains("and 100 here; it may be raised, not lowered"), "{lowered}");
        assert_eq!(open(BackendConfig { max_pages: u64::MAX, ..raised.clone() }).await, "");
        assert!(open(raised).await.contains("--max-pages is without a limit"));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn on_a_cluster_a_crawl_is_closed_reopened_and_purged_on_all_nodes() {
    let cluster = Cluster::start();
    let place = RedisCrawl { partitions: Some(16), ..place(&cluster.nodes[0], "wide") };
    let all = || cluster.nodes.iter().map(|node| keys(node, "wide").len()).collect::<Vec<_>>();
    block_on(async {
        let backend = RedisBackend::open(place.clone(), short()).await.unwrap();
        admit(&backend, "a", 1_500).await;
        assert_eq!(visit(&backend, 100).await, 100);
        assert!(all().iter().all(|keys| *keys > 10), "{:?}", all());
        assert_eq!(backend.close().await.unwrap(), 1_400);
        for node in &cluster.nodes {
            for key in keys(node, "wide").iter().filter(|key| !is_result(key)) {
                assert_ne!(node.ask::<i64>(&format!("TTL {key}")), -1, "{key}");
            }
        }
        backend.reopen().await.unwrap();
        rejoin(&backend).await;
        assert_eq!(visit(&backend, usize::MAX).await, 1_400);
        assert_eq!(backend.close().await.unwrap(), 0);
        assert!(RedisBackend::purge(&place).await.unwrap() > 100);
        assert_eq!(all(), [0, 0, 0]);
    });
}
