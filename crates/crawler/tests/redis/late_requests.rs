//! Requests that arrive twice, the first copy long after the second one got its reply. The late copy must
//! change nothing.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{Phase, RedisBackend, RedisCrawl};
use crawler::internal::backend::{
    Backend, BudgetDecision, CompleteResult, Completion, DiscoveredUrl, Lease, Outlinks, WorkerId,
};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::Priority;
use crawler::internal::stats::BodyBytes;
use testredis::{Proxy, Reply, Server};

use super::{block_on, config, route};

const WORKER: WorkerId = WorkerId(0);

async fn open(url: String, partitions: u16) -> RedisBackend {
    let crawl = RedisCrawl {
        partitions: Some(partitions),
        delay: Duration::from_millis(1),
        ..RedisCrawl::new(url.parse().unwrap(), "late")
    };
    RedisBackend::open(crawl, BackendConfig { queue_size: 1_600, ..config(1) }).await.unwrap()
}

fn discovered(url: String) -> DiscoveredUrl {
    DiscoveredUrl { url, depth: 1, redirects: 0 }
}

/// Admits `count` URLs, each of another host.
async fn admit(backend: &RedisBackend, name: &str, count: usize) {
    let urls = (0..count).map(|number| discovered(format!("http://{name}{number}.test/")));
    assert_eq!(backend.admit(urls.collect()).await.unwrap().new, count as u64);
}

async fn lease(backend: &RedisBackend) -> Vec<Lease> {
    backend.lease(WORKER, 1_000, Duration::ZERO).await.unwrap()
}

fn page(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::Page, bytes: BodyBytes::unencoded(3), ..Completion::new(lease) }
}

async fn complete(backend: &RedisBackend, leases: &[Lease]) {
    let results = backend.complete(leases.iter().map(page).collect()).await.unwrap();
    assert!(results.iter().all(|result| matches!(result, CompleteResult::Applied { .. })), "{results:?}");
}

/// Everything in Redis except stored replies.
fn contents(server: &Server) -> BTreeMap<String, Vec<Reply>> {
    let keys: Vec<String> = server.query("KEYS *");
    let keys = keys.into_iter().filter(|key| !key.contains(":answer:"));
    let content = |key: &str| match server.query::<String>(&format!("TYPE {key}")).as_str() {
        // The order of the fields does not matter.
        "hash" => {
            let Ok(Reply::Array(fields)) = server.try_query(&["HGETALL", key]) else { panic!("{key}") };
            let mut fields: Vec<Vec<Reply>> = fields.chunks(2).map(<[Reply]>::to_vec).collect();
            fields.sort_by_key(|field| format!("{field:?}"));
            fields.concat()
        }
        _ => vec![server.try_query(&["DUMP", key]).unwrap()],
    };
    keys.map(|key| (key.clone(), content(&key))).collect()
}

/// Delivers the held-back request to the server, and checks that it changes nothing.
fn deliver_late(proxy: &Proxy, server: &Server) {
    assert!(!proxy.is_armed(), "no request was held back");
    let before = contents(server);
    proxy.deliver_held_request();
    let after = contents(server);
    let changed: Vec<&String> =
        after.iter().filter(|(key, dump)| before.get(*key) != Some(dump)).map(|(key, _)| key).collect();
    assert!(changed.is_empty() && before.len() == after.len(), "{changed:?}");
}

/// The number of requests before the one that leases URLs.
fn requests_before_lease(partitions: u16) -> usize {
    usize::from(partitions > 1)
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn late_lease_request_leases_nothing() {
    for partitions in [1, 16] {
        let server = Server::start();
        let proxy = Proxy::for_server(&server);
        block_on(async {
            let backend = open(proxy.url(), partitions).await;
            assert!(lease(&backend).await.is_empty());
            admit(&backend, "a", 20).await;
            route(&backend).await;
            proxy.hold_request_after(requests_before_lease(partitions));
            let leases = lease(&backend).await;
            assert!(!leases.is_empty());
            deliver_late(&proxy, &server);
            // The same after all of them are completed and there are other URLs to lease. On a new
            // connection, the backend first checks that no lease was lost.
            let mut all = leases;
            admit(&backend, "b", 20).await;
            route(&backend).await;
            proxy.hold_request_after(1 + requests_before_lease(partitions));
            while all.len() < 40 {
                all.extend(lease(&backend).await);
            }
            complete(&backend, &all).await;
            admit(&backend, "c", 20).await;
            route(&backend).await;
            deliver_late(&proxy, &server);
            let mut others = Vec::new();
            while others.len() < 20 {
                others.extend(lease(&backend).await);
            }
            complete(&backend, &others).await;
            assert_eq!(backend.outstanding().await.unwrap(), 0);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn late_request_of_the_prioritizer_takes_no_urls() {
    for partitions in [1, 16] {
        let server = Server::start();
        let proxy = Proxy::for_server(&server);
        block_on(async {
            let backend = open(proxy.url(), partitions).await;
            assert!(backend.take_unprioritized(100, Duration::ZERO).await.unwrap().is_empty());
            admit(&backend, "a", 20).await;
            proxy.hold_request_after(requests_before_lease(partitions));
            let urls = backend.take_unprioritized(100, Duration::ZERO).await.unwrap();
            assert_eq!(urls.len(), 20);
            deliver_late_after_enqueue(
                &backend,
                &proxy,
                &server,
                urls.iter().map(|url| url.task_id).collect(),
            )
            .await;
            let urls = backend.take_unprioritized(100, Duration::ZERO).await.unwrap();
            assert_eq!(urls.len(), 20, "the URLs admitted since, each once");
        });
    }
}

/// Delivers the late request after the URLs are enqueued and more are admitted.
async fn deliver_late_after_enqueue(
    backend: &RedisBackend,
    proxy: &Proxy,
    server: &Server,
    task_ids: Vec<crawler::internal::backend::TaskId>,
) {
    backend
        .enqueue_prioritized(task_ids.into_iter().map(|task_id| (task_id, Priority::BEST)).collect())
        .await
        .unwrap();
    admit(backend, "b", 20).await;
    deliver_late(proxy, server);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn late_reservation_reserves_nothing() {
    for partitions in [1, 16] {
        let server = Server::start();
        let proxy = Proxy::for_server(&server);
        block_on(async {
            let backend = open(proxy.url(), partitions).await;
            admit(&backend, "a", 2).await;
            route(&backend).await;
            let mut leases = Vec::new();
            while leases.len() < 2 {
                leases.extend(lease(&backend).await);
            }
            for (read, lease) in [0, 5].map(BodyBytes::unencoded).into_iter().zip(&leases) {
                proxy.hold_request_after(0);
                assert!(matches!(
                    backend.reserve(lease, read).await.unwrap(),
                    BudgetDecision::Granted(500_000)
                ));
                if read != BodyBytes::default() {
                    deliver_late(&proxy, &server);
                    proxy.hold_request_after(0);
                    assert!(matches!(
                        backend.reserve(lease, read).await.unwrap(),
                        BudgetDecision::Granted(500_000)
                    ));
                }
                complete(&backend, std::slice::from_ref(lease)).await;
                deliver_late(&proxy, &server);
            }
            let budget = if partitions == 1 { "p0" } else { "budget" };
            let used: Vec<i64> = server.query(&format!(
                "HMGET crawler:{{late:{budget}}}:used bytes pages bytes_reserved pages_reserved"
            ));
            assert_eq!(used, [2 * 3 + 2 * 5, 2, 0, 0]);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn late_completion_is_not_counted() {
    // With one partition, a completion is one request. With several, it is two: the outcome, and the end of
    // the lease.
    for (partitions, skip) in [(1, 0), (16, 0), (16, 1)] {
        let server = Server::start();
        let proxy = Proxy::for_server(&server);
        block_on(async {
            let backend = open(proxy.url(), partitions).await;
            admit(&backend, "a", 30).await;
            route(&backend).await;
            let mut leases = Vec::new();
            while leases.len() < 30 {
                leases.extend(lease(&backend).await);
            }
            proxy.hold_request_after(skip);
            complete(&backend, &leases[..10]).await;
            deliver_late(&proxy, &server);
            proxy.hold_request_after(skip);
            complete(&backend, &leases[10..20]).await;
            // A later completion lets Redis drop what it stored about earlier ones.
            complete(&backend, &leases[20..]).await;
            deliver_late(&proxy, &server);
            let snapshot = backend.snapshot().await.unwrap();
            assert_eq!((snapshot.pages, snapshot.bytes, snapshot.outcomes["page"]), (30, 90, 30));
            assert_eq!(snapshot.outstanding(), 0);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn late_close_does_not_archive_a_reopened_crawl() {
    for partitions in [1, 16] {
        let server = Server::start();
        let proxy = Proxy::for_server(&server);
        block_on(async {
            let (closing, other) =
                (open(proxy.url(), partitions).await, open(server.url(), partitions).await);
            let first = other.set_seeding(b"note").await.unwrap();
            other.unarchive(&first).await.unwrap();
            admit(&other, "a", 20).await;
            other.set_running(first.run).await.unwrap();
            other.set_ended(first.run, "stopped").await.unwrap();
            // The request that closes the crawl comes after one that marks it closed and two that count what
            // is left.
            proxy.hold_request_after(3);
            assert!(closing.archive(first.run).await.unwrap().is_archived);
            let second = other.set_seeding(b"").await.unwrap();
            other.unarchive(&second).await.unwrap();
            admit(&other, "b", 20).await;
            assert_eq!(other.set_running(second.run).await.unwrap().phase, Phase::Running);
            deliver_late(&proxy, &server);
            for key in server.query::<Vec<String>>("KEYS *").iter().filter(|key| !key.contains(":answer:")) {
                assert_eq!(server.query::<i64>(&format!("TTL {key}")), -1, "{key} does not expire");
            }
            route(&other).await;
            let mut leases = Vec::new();
            while leases.len() < 40 {
                leases.extend(lease(&other).await);
            }
            complete(&other, &leases).await;
        });
    }
}

/// The partition of a domain.
fn partition(domain: &str) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    domain.bytes().fold(0xCBF2_9CE4_8422_2325, hash) % 16
}

/// The links of a page: five to domains of other partitions and, if `has_own`, one to its own domain.
fn outlinks(has_own: bool) -> Outlinks {
    let own = has_own.then(|| "http://a0.test/own".to_owned());
    let hosts = (0..).map(|number| format!("linked{number}.test"));
    let elsewhere = hosts.filter(|host| partition(host) != partition("a0.test")).take(5);
    Outlinks::new(elsewhere.map(|host| format!("http://{host}/")).chain(own), 1)
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn worker_that_dies_between_commit_and_end_of_a_lease_loses_no_links_and_counts_no_page_twice() {
    for (has_own, rejoins) in [(false, false), (false, true), (true, false), (true, true)] {
        let server = Server::start();
        let proxy = Proxy::for_server(&server);
        block_on(async {
            let dying = open(proxy.url(), 16).await;
            admit(&dying, "a", 1).await;
            route(&dying).await;
            let leases = lease(&dying).await;
            assert!(matches!(
                dying.reserve(&leases[0], BodyBytes::default()).await.unwrap(),
                BudgetDecision::Granted(_)
            ));
            // The outcome and the links to other partitions are written first. Then the budget is committed,
            // and the lease ends.
            proxy.forward_only_first_command_after(1);
            let parent = Completion { outlinks: outlinks(has_own), ..page(&leases[0]) };
            let completion = tokio::time::timeout(Duration::from_millis(300), dying.complete(vec![parent]));
            assert!(completion.await.is_err(), "the reply to the commit is lost");
            assert!(!proxy.is_armed());
            drop((dying, proxy));
            while server.query::<i64>("HLEN crawler:{late:budget}:settled") == 0 {
                thread::sleep(Duration::from_millis(1));
            }

            let after = open(server.url(), 16).await;
            assert_eq!(after.snapshot().await.unwrap().completed, 0, "the lease has not ended");
            match rejoins {
                true => after.rejoin(WORKER).await.unwrap(),
                false => after.remove_worker(WORKER).await.unwrap(),
            }
            let mut crawled = Vec::new();
            while after.outstanding().await.unwrap() > 0 {
                route(&after).await;
                let leases = lease(&after).await;
                for lease in &leases {
                    let completion = match &*lease.url {
                        "http://a0.test/" => Completion { outlinks: outlinks(has_own), ..page(lease) },
                        _ => page(lease),
                    };
                    assert!(matches!(
                        after.complete(vec![completion]).await.unwrap()[..],
                        [CompleteResult::Applied { .. }]
                    ));
                }
                crawled.extend(leases.into_iter().map(|lease| lease.url.to_string()));
            }
            let pages = 6 + u64::from(has_own);
            let snapshot = after.snapshot().await.unwrap();
            assert_eq!(
                (snapshot.pages, snapshot.admitted, snapshot.completed),
                (pages, pages, pages),
                "{crawled:?}"
            );
            assert_eq!(snapshot.outcomes, BTreeMap::from([("page".to_owned(), pages)]));
            // A page with links to its own domain is fetched again, because only its worker knew them. It is
            // counted once.
            assert_eq!(crawled.iter().any(|url| url == "http://a0.test/"), has_own, "{crawled:?}");
            let reserved: Vec<i64> =
                server.query("HMGET crawler:{late:budget}:used bytes_reserved pages_reserved");
            assert_eq!(reserved, [0, 0]);
        });
    }
}
