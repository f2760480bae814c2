//! Moves that arrive twice, the first copy long after the second was answered: nobody hears what it is answered, and it must
//! change nothing.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{Phase, RedisBackend, RedisCrawl};
use crawler::internal::backend::{
    Backend, BudgetDecision, CompleteResult, Completion, DiscoveredUrl, Lease, WorkerId,
};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::Priority;
use testredis::{Proxy, Reply, Server};

use super::{block_on, route, settings};

const WORKER: WorkerId = WorkerId(0);

async fn open(url: String, partitions: u16) -> RedisBackend {
    let place = RedisCrawl {
        partitions: Some(partitions),
        delay: Duration::from_millis(1),
        ..RedisCrawl::new(url.parse().unwrap(), "late")
    };
    RedisBackend::open(place, BackendConfig { queue_size: 1_600, ..settings(1) }).await.unwrap()
}

fn found(url: String) -> DiscoveredUrl {
    DiscoveredUrl { url, depth: 1, redirects: 0 }
}

/// So many URLs of so many hosts.
async fn admit(backend: &RedisBackend, name: &str, count: usize) {
    let urls = (0..count).map(|number| found(format!("http://{name}{number}.test/")));
    assert_eq!(backend.admit(urls.collect()).await.unwrap().new, count as u64);
}

async fn lease(backend: &RedisBackend) -> Vec<Lease> {
    backend.lease(WORKER, 1_000, Duration::ZERO).await.unwrap()
}

fn kept(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::Page, bytes: 3, ..Completion::new(lease) }
}

async fn complete(backend: &RedisBackend, leases: &[Lease]) {
    let completed = backend.complete(leases.iter().map(kept).collect()).await.unwrap();
    assert!(
        completed.iter().all(|completed| matches!(completed, CompleteResult::Applied { .. })),
        "{completed:?}"
    );
}

/// Everything that the server has, but what it remembers to have answered.
fn contents(server: &Server) -> BTreeMap<String, Vec<Reply>> {
    let keys: Vec<String> = server.ask("KEYS *");
    let keys = keys.into_iter().filter(|key| !key.contains(":answer:"));
    let content = |key: &str| match server.ask::<String>(&format!("TYPE {key}")).as_str() {
        // In whatever order.
        "hash" => {
            let Ok(Reply::Many(fields)) = server.try_ask(&["HGETALL", key]) else { panic!("{key}") };
            let mut fields: Vec<Vec<Reply>> = fields.chunks(2).map(<[Reply]>::to_vec).collect();
            fields.sort_by_key(|field| format!("{field:?}"));
            fields.concat()
        }
        _ => vec![server.try_ask(&["DUMP", key]).unwrap()],
    };
    keys.map(|key| (key.clone(), content(&key))).collect()
}

/// What was kept comes to the server now, and changes nothing.
fn comes_late(proxy: &Proxy, server: &Server) {
    assert!(!proxy.is_armed(), "nothing was asked");
    let before = contents(server);
    proxy.deliver();
    let after = contents(server);
    let changed: Vec<&String> =
        after.iter().filter(|(key, dump)| before.get(*key) != Some(dump)).map(|(key, _)| key).collect();
    assert!(changed.is_empty() && before.len() == after.len(), "{changed:?}");
}

/// How many questions it takes to lend something, before the one that lends it.
fn looks_first(partitions: u16) -> usize {
    usize::from(partitions > 1)
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_lease_that_comes_late_lends_nothing() {
    for partitions in [1, 16] {
        let server = Server::start();
        let proxy = Proxy::before(&server);
        block_on(async {
            let backend = open(proxy.url(), partitions).await;
            assert!(lease(&backend).await.is_empty());
            admit(&backend, "a", 20).await;
            route(&backend).await;
            proxy.keep_question_after(looks_first(partitions));
            let leases = lease(&backend).await;
            assert!(!leases.is_empty());
            comes_late(&proxy, &server);
            // Nor when all of them are completed, and there are others that it could lend. After a new connection it is made
            // sure first that nothing was lost.
            let mut all = leases;
            admit(&backend, "b", 20).await;
            route(&backend).await;
            proxy.keep_question_after(1 + looks_first(partitions));
            while all.len() < 40 {
                all.extend(lease(&backend).await);
            }
            complete(&backend, &all).await;
            admit(&backend, "c", 20).await;
            route(&backend).await;
            comes_late(&proxy, &server);
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
fn what_the_prioritizer_asks_for_and_comes_late_is_not_lent_to_nobody() {
    for partitions in [1, 16] {
        let server = Server::start();
        let proxy = Proxy::before(&server);
        block_on(async {
            let backend = open(proxy.url(), partitions).await;
            assert!(backend.take_unprioritized(100, Duration::ZERO).await.unwrap().is_empty());
            admit(&backend, "a", 20).await;
            proxy.keep_question_after(looks_first(partitions));
            let incoming = backend.take_unprioritized(100, Duration::ZERO).await.unwrap();
            assert_eq!(incoming.len(), 20);
            comes_late_after(&backend, &proxy, &server, incoming.iter().map(|one| one.task_id).collect())
                .await;
            let incoming = backend.take_unprioritized(100, Duration::ZERO).await.unwrap();
            assert_eq!(incoming.len(), 20, "those that came since, each once");
        });
    }
}

/// The late copy comes when all that was lent is filed, and more has come.
async fn comes_late_after(
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
    comes_late(proxy, server);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_reservation_that_comes_late_reserves_nothing() {
    for partitions in [1, 16] {
        let server = Server::start();
        let proxy = Proxy::before(&server);
        block_on(async {
            let backend = open(proxy.url(), partitions).await;
            admit(&backend, "a", 2).await;
            route(&backend).await;
            let mut leases = Vec::new();
            while leases.len() < 2 {
                leases.extend(lease(&backend).await);
            }
            for (read, lease) in [0, 5].into_iter().zip(&leases) {
                proxy.keep_question_after(0);
                assert!(matches!(
                    backend.reserve(lease, read).await.unwrap(),
                    BudgetDecision::Granted(500_000)
                ));
                if read > 0 {
                    comes_late(&proxy, &server);
                    proxy.keep_question_after(0);
                    assert!(matches!(
                        backend.reserve(lease, read).await.unwrap(),
                        BudgetDecision::Granted(500_000)
                    ));
                }
                complete(&backend, std::slice::from_ref(lease)).await;
                comes_late(&proxy, &server);
            }
            let budget = if partitions == 1 { "p0" } else { "budget" };
            let used: Vec<i64> = server.ask(&format!(
                "HMGET crawler:{{late:{budget}}}:used bytes pages bytes_reserved pages_reserved"
            ));
            assert_eq!(used, [2 * 3 + 2 * 5, 2, 0, 0]);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_completion_that_comes_late_counts_nothing() {
    // With one partition it is one question, with several it is two: how the loan ends, and that it does.
    for (partitions, before) in [(1, 0), (16, 0), (16, 1)] {
        let server = Server::start();
        let proxy = Proxy::before(&server);
        block_on(async {
            let backend = open(proxy.url(), partitions).await;
            admit(&backend, "a", 30).await;
            route(&backend).await;
            let mut leases = Vec::new();
            while leases.len() < 30 {
                leases.extend(lease(&backend).await);
            }
            proxy.keep_question_after(before);
            complete(&backend, &leases[..10]).await;
            comes_late(&proxy, &server);
            proxy.keep_question_after(before);
            complete(&backend, &leases[10..20]).await;
            // What is completed since tells that nobody need remember what was settled before.
            complete(&backend, &leases[20..]).await;
            comes_late(&proxy, &server);
            let snapshot = backend.snapshot().await.unwrap();
            assert_eq!((snapshot.pages, snapshot.bytes, snapshot.outcomes["page"]), (30, 90, 30));
            assert_eq!(snapshot.outstanding(), 0);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_close_that_comes_late_does_not_put_away_what_was_opened_again() {
    for partitions in [1, 16] {
        let server = Server::start();
        let proxy = Proxy::before(&server);
        block_on(async {
            let (closing, other) =
                (open(proxy.url(), partitions).await, open(server.url(), partitions).await);
            let first = other.set_opening(b"note").await.unwrap();
            other.take_out(&first).await.unwrap();
            admit(&other, "a", 20).await;
            other.set_running(first.opening).await.unwrap();
            other.set_over(first.opening, "stopped").await.unwrap();
            // It is noted that it is closed, and looked twice how much is left: then comes what closes it.
            proxy.keep_question_after(3);
            assert!(closing.put_away(first.opening).await.unwrap().is_closed);
            let second = other.set_opening(b"").await.unwrap();
            other.take_out(&second).await.unwrap();
            admit(&other, "b", 20).await;
            assert_eq!(other.set_running(second.opening).await.unwrap().phase, Phase::Running);
            comes_late(&proxy, &server);
            for key in server.ask::<Vec<String>>("KEYS *").iter().filter(|key| !key.contains(":answer:")) {
                assert_eq!(server.ask::<i64>(&format!("TTL {key}")), -1, "{key} is there to stay");
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

/// The partition that a domain belongs to.
fn partition(domain: &str) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    domain.bytes().fold(0xCBF2_9CE4_8422_2325, hash) % 16
}

/// Children of a page: one of its own domain, where that is asked for, and five elsewhere.
fn outlinks(has_own: bool) -> Vec<DiscoveredUrl> {
    let own = has_own.then(|| found("http://a0.test/own".into()));
    let hosts = (0..).map(|number| format!("child{number}.test"));
    let elsewhere = hosts.filter(|host| partition(host) != partition("a0.test")).take(5);
    elsewhere.map(|host| found(format!("http://{host}/"))).chain(own).collect()
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_worker_that_dies_when_a_page_is_settled_and_not_ended_loses_no_children_and_counts_nothing_twice() {
    for (has_own, rejoins) in [(false, false), (false, true), (true, false), (true, true)] {
        let server = Server::start();
        let proxy = Proxy::before(&server);
        block_on(async {
            let dying = open(proxy.url(), 16).await;
            admit(&dying, "a", 1).await;
            route(&dying).await;
            let leases = lease(&dying).await;
            assert!(matches!(dying.reserve(&leases[0], 0).await.unwrap(), BudgetDecision::Granted(_)));
            // First how it ends, and the children elsewhere; then it is settled, and it ends.
            proxy.pass_only_the_first_command_after(1);
            let page = Completion { outlinks: outlinks(has_own), ..kept(&leases[0]) };
            let ends = tokio::time::timeout(Duration::from_millis(300), dying.complete(vec![page.clone()]));
            assert!(ends.await.is_err(), "it does not hear that it was settled");
            assert!(!proxy.is_armed());
            drop((dying, proxy));
            while server.ask::<i64>("HLEN crawler:{late:budget}:settled") == 0 {
                thread::sleep(Duration::from_millis(1));
            }

            let after = open(server.url(), 16).await;
            assert_eq!(after.snapshot().await.unwrap().completed, 0, "it has not ended");
            match rejoins {
                true => after.rejoin(WORKER).await.unwrap(),
                false => after.remove_worker(WORKER).await.unwrap(),
            }
            let mut visited = Vec::new();
            while after.outstanding().await.unwrap() > 0 {
                route(&after).await;
                let leases = lease(&after).await;
                for lease in &leases {
                    let completion = match lease.url.as_str() {
                        "http://a0.test/" => Completion { outlinks: outlinks(has_own), ..kept(lease) },
                        _ => kept(lease),
                    };
                    assert!(matches!(
                        after.complete(vec![completion]).await.unwrap()[..],
                        [CompleteResult::Applied { .. }]
                    ));
                }
                visited.extend(leases.into_iter().map(|lease| lease.url));
            }
            let pages = 6 + u64::from(has_own);
            let snapshot = after.snapshot().await.unwrap();
            assert_eq!(
                (snapshot.pages, snapshot.admitted, snapshot.completed),
                (pages, pages, pages),
                "{visited:?}"
            );
            assert_eq!(snapshot.outcomes, BTreeMap::from([("page".to_owned(), pages)]));
            // Where the end needs what only its worker knew, the page is visited again, and counts as the one it is.
            assert_eq!(visited.iter().any(|url| url == "http://a0.test/"), has_own, "{visited:?}");
            let reserved: Vec<i64> =
                server.ask("HMGET crawler:{late:budget}:used bytes_reserved pages_reserved");
            assert_eq!(reserved, [0, 0]);
        });
    }
}
