//! The end of a crawl: what Redis keeps of it and for how long, how it is resumed, and how it is purged.

use std::collections::BTreeSet;
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{DistributedCrawl, RemoteBackend};
use crawler::internal::backend::{Backend, Budget, Completion, HostDelay, WorkerId};
use crawler::internal::domain::{Domain, DomainInternals as _};
use crawler::internal::similarity::{Fingerprint, Threshold};
use testredis::{Cluster, Server};

use super::distributed_crawl::{Frontier, TestCrawl, lease, page, wait_until};
use super::near_duplicates::body;
use super::{block_on, config};

const HOUR: Duration = Duration::from_secs(3600);

/// A crawl that stores everything that can be stored.
fn test_crawl(server: &Server, name: &'static str) -> TestCrawl {
    let config = BackendConfig {
        ttl: 2 * HOUR,
        similarity: Threshold::new(0.9),
        max_pages_per_host: 1_000,
        keep_depths: true,
        ..config(0)
    };
    TestCrawl { config, ..TestCrawl::new(server, name) }
}

fn urls(name: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("http://h{}.test/{name}/{number}", number % 20))
}

/// Crawls this many pages.
async fn crawl_pages(worker: &RemoteBackend, count: usize) {
    let leases = lease(worker, count).await;
    let mut completions = Vec::new();
    for lease in &leases {
        let (start, number) = lease.url.rsplit_once('/').unwrap();
        let text = body(number.parse::<usize>().unwrap() + 1_000 * usize::from(start.ends_with('b')), 0);
        let fingerprint = Fingerprint::of_text(worker.hash_key(), None, text.as_bytes());
        worker.store_content(&lease.url, &fingerprint, text.as_bytes(), false).await.unwrap();
        let delay = Duration::from_millis(1);
        completions.push(Completion {
            host_delay: Some(HostDelay { delay, cooldown: Duration::ZERO }),
            linked_domains: vec![Domain::from_url_str(&lease.url)],
            ..page(lease)
        });
    }
    worker.complete(completions).await.unwrap();
}

/// A crawl whose run has ended, as its frontier archives it.
async fn run(
    crawl: &TestCrawl,
    urls: impl Iterator<Item = String>,
    pages: usize,
) -> (DistributedCrawl, Frontier) {
    let control = crawl.open().await;
    let state = control.set_seeding(b"settings").await.unwrap();
    control.unarchive(&state).await.unwrap();
    let frontier = crawl.take_over().await;
    crawl.seed(urls).await;
    control.set_running(state.run).await.unwrap();
    let worker = crawl.worker(0, state.run).await;
    for _ in 0..pages / 20 {
        crawl_pages(&worker, 20).await;
    }
    worker.leave().await.unwrap();
    frontier.process.flush().await.unwrap();
    control.set_ended(state.run, "done").await.unwrap();
    control.store_result(state.run, "report").await.unwrap();
    assert!(control.archive(state.run).await.unwrap().is_archived);
    (control, frontier)
}

fn keys(server: &Server, crawl: &str) -> BTreeSet<String> {
    server.query::<Vec<String>>(&format!("KEYS crawler:{{{crawl}:*")).into_iter().collect()
}

/// The name of a key, without that of the crawl.
fn name(key: &str) -> &str {
    key.split("}:").nth(1).unwrap()
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn everything_but_the_result_of_a_crawl_expires_after_its_end() {
    let server = Server::start();
    block_on(async {
        let crawl = test_crawl(&server, "over");
        let (control, _frontier) = run(&crawl, urls("a", 60), 40).await;
        let kept = ["checkpoint", "status", "settings", "crawl", "result"];
        for key in keys(&server, "over") {
            let milliseconds: i64 = server.query(&format!("PTTL {key}"));
            match kept.contains(&name(&key)) {
                true => assert_eq!(milliseconds, -1, "{key}"),
                false => {
                    assert!((1..=2 * 3_600_000).contains(&milliseconds), "{key} lives {milliseconds} ms")
                }
            }
        }
        let names: BTreeSet<String> = keys(&server, "over").iter().map(|key| name(key).to_owned()).collect();
        for key in
            ["tasks", "completed", "pages", "hosts", "domains", "epoch", "batch", "applied", "sessions"]
        {
            assert!(names.contains(key), "{key} is kept until then: {names:?}");
        }
        assert_eq!(control.result().await.unwrap().as_deref(), Some("report"));
        wait_until("the counts are written", async || control.snapshot().await.unwrap().pages == 40).await;
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn ended_crawl_is_resumed_with_its_seen_set_and_does_not_expire_then() {
    let server = Server::start();
    block_on(async {
        let crawl = test_crawl(&server, "more");
        drop(run(&crawl, urls("a", 60), 40).await);
        let state = crawl.open().await.set_seeding(b"").await.unwrap();
        crawl.open().await.unarchive(&state).await.unwrap();
        let frontier = crawl.take_over().await;
        let worker = crawl.worker(0, 9).await;
        assert_eq!(frontier.pending().await, 20);
        let seen = urls("a", 60).map(|url| super::distributed_crawl::discovered(&url, 0)).collect();
        assert_eq!(worker.admit(seen).await.unwrap().seen, 60);
        crawl.seed(urls("b", 20)).await;
        crawl_pages(&worker, 40).await;
        let snapshot = frontier.snapshot().await;
        assert_eq!((snapshot.pages, snapshot.pending(), snapshot.stored_pages), (80, 0, 80));
        for key in
            keys(&server, "more").iter().filter(|key| !key.contains(":body:") && !key.contains(":seeds:"))
        {
            assert_eq!(server.query::<i64>(&format!("TTL {key}")), -1, "{key} does not expire while it runs");
        }
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn urls_of_a_crawl_that_is_resumed_too_late_count_as_not_reached() {
    let server = Server::start();
    block_on(async {
        let crawl = test_crawl(&server, "late");
        let (control, frontier) = run(&crawl, urls("a", 60), 40).await;
        drop((control, frontier));
        for key in keys(&server, "late") {
            if server.query::<i64>(&format!("TTL {key}")) != -1 {
                server.query::<i64>(&format!("DEL {key}"));
            }
        }
        let frontier = crawl.take_over().await;
        let snapshot = frontier.snapshot().await;
        assert_eq!((snapshot.pending(), snapshot.pages, snapshot.seen_urls), (0, 40, 0));
        assert_eq!(snapshot.outcomes["not reached"], 20);
        let worker = crawl.worker(0, 9).await;
        crawl.seed(urls("a", 20)).await;
        crawl_pages(&worker, 20).await;
        let snapshot = frontier.snapshot().await;
        assert_eq!((snapshot.pages, snapshot.pending()), (60, 0));
        assert_eq!(snapshot.completed, snapshot.outcomes.values().sum::<u64>());
        drop(frontier);
        assert_eq!(crawl.take_over().await.snapshot().await.completed, snapshot.completed);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_stopped_by_a_budget_continues_with_a_larger_one() {
    let server = Server::start();
    block_on(async {
        let mut crawl = test_crawl(&server, "raised");
        crawl.config.max_pages = 40;
        let (control, frontier) = run(&crawl, urls("a", 60), 40).await;
        let exhausted = frontier.process.backend().exhausted_budget().await.unwrap();
        assert_eq!(exhausted, Some(Budget::Pages));
        drop((control, frontier));
        crawl.config.max_pages = 100;
        let frontier = crawl.take_over().await;
        assert_eq!(frontier.process.backend().exhausted_budget().await.unwrap(), None);
        crawl_pages(&crawl.worker(0, 9).await, 20).await;
        assert_eq!(frontier.snapshot().await.pages, 60);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn purge_removes_all_keys_of_a_crawl_and_no_others() {
    let server = Server::start();
    block_on(async {
        for name in ["news", "news2", "ne"] {
            drop(run(&test_crawl(&server, name), urls("a", 60), 40).await);
        }
        server.query::<()>("SET crawler 1");
        let expected = keys(&server, "news").len() as u64;
        let others = [keys(&server, "news2"), keys(&server, "ne")];
        let place = test_crawl(&server, "news").place();
        assert_eq!(DistributedCrawl::purge(&place).await.unwrap(), expected);
        assert_eq!(keys(&server, "news"), BTreeSet::new());
        assert_eq!([keys(&server, "news2"), keys(&server, "ne")], others);
        assert_eq!(DistributedCrawl::purge(&place).await.unwrap(), 0);
        let all = TestCrawl { name: "*", ..test_crawl(&server, "news") };
        let message = format!("{:#}", DistributedCrawl::purge(&all.place()).await.unwrap_err());
        assert!(message.contains("cannot be the name of a crawl"), "{message}");
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn frontier_of_a_purged_crawl_writes_nothing_more() {
    let server = Server::start();
    block_on(async {
        let crawl = test_crawl(&server, "purged");
        let mut frontier = crawl.take_over().await;
        let worker = crawl.worker(0, 1).await;
        crawl.seed(urls("a", 20)).await;
        crawl_pages(&worker, 20).await;
        drop(worker);
        DistributedCrawl::purge(&crawl.place()).await.unwrap();
        frontier.process.remove_worker(WorkerId(0)).unwrap();
        frontier.end().await;
        assert_eq!(keys(&server, "purged"), BTreeSet::new());
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn purge_among_many_keys_does_not_block_other_clients() {
    let server = Server::start();
    let fill = "for i = 1, 200000 do redis.call('SET', (i % 2 == 0 and 'other:' or 'crawler:{big:c0}:body:') .. i, 1) end";
    server.query_args::<()>(&["EVAL", fill, "0"]);
    let place = test_crawl(&server, "big").place();
    std::thread::scope(|scope| {
        let purge = scope.spawn(|| block_on(DistributedCrawl::purge(&place)).unwrap());
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
#[ignore = "needs redis-server: run by make test"]
fn process_may_raise_budgets_and_change_no_other_setting() {
    let server = Server::start();
    block_on(async {
        let original = BackendConfig { max_pages: 100, max_bytes: 1 << 20, ..config(0) };
        let place = TestCrawl::new(&server, "terms").place();
        let open = async |config| match DistributedCrawl::open(place.clone(), config).await {
            Ok(_) => String::new(),
            Err(error) => format!("{error:#}"),
        };
        assert_eq!(open(original.clone()).await, "");
        let raised = BackendConfig { max_pages: 200, max_pages_per_host: u64::MAX, ..original.clone() };
        // A rejected process changes nothing.
        let other = open(BackendConfig { ttl: Duration::from_secs(1), ..raised.clone() }).await;
        assert!(other.contains("setting: ttl is 1h there and 1s here"), "{other}");
        let mixed = open(BackendConfig { max_bytes: 1, ..raised.clone() }).await;
        assert!(
            mixed.contains("setting: max-bytes is 1,048,576 there and 1 here")
                && mixed.contains("raised, not lowered"),
            "{mixed}"
        );
        assert_eq!(open(original.clone()).await, "");
        assert_eq!(open(raised.clone()).await, "");
        let lowered = open(original).await;
        assert!(lowered.contains("the crawl 'terms' on Redis at "), "{lowered}");
        assert!(
            lowered.contains("setting: max-pages is 200 there and 100 here; it can be raised, not lowered"),
            "{lowered}"
        );
        assert_eq!(open(BackendConfig { max_pages: u64::MAX, ..raised.clone() }).await, "");
        let unlimited = open(raised).await;
        assert!(unlimited.contains("setting: max-pages is unlimited there and 200 here"), "{unlimited}");
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_on_a_cluster_is_archived_resumed_and_purged_on_all_nodes() {
    let cluster = Cluster::start();
    let crawl = test_crawl(&cluster.nodes[0], "wide");
    let all = || cluster.nodes.iter().map(|node| keys(node, "wide").len()).collect::<Vec<_>>();
    block_on(async {
        drop(run(&crawl, urls("a", 60), 40).await);
        assert!(all().iter().all(|keys| *keys > 0), "{:?}", all());
        let frontier = crawl.take_over().await;
        crawl_pages(&crawl.worker(0, 9).await, 20).await;
        assert_eq!(frontier.snapshot().await.pages, 60);
        drop(frontier);
        assert!(DistributedCrawl::purge(&crawl.place()).await.unwrap() > 60);
        assert_eq!(all(), [0, 0, 0]);
    });
}
