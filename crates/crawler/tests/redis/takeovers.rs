//! Workers that take over from a dead worker, under its number or another: host delays still apply, its URLs
//! are leased again, and its old leases are stale.

use std::collections::BTreeSet;
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{
    Backend, BudgetDecision, CompleteResult, Completion, DiscoveredUrl, HostDelay, Lease, WorkerId,
};
use crawler::internal::modules::OutputWrite;
use crawler::internal::outcome::Outcome;
use crawler::internal::stats::BodyBytes;
use testredis::{Proxy, Server};

use super::{block_on, config, route};

const FIRST: WorkerId = WorkerId(0);
const SECOND: WorkerId = WorkerId(1);
const DELAY: Duration = Duration::from_secs(2);
const LONG_DELAY: Duration = Duration::from_secs(30);

async fn open(url: String, partitions: u16, workers: u16) -> RedisBackend {
    let crawl = RedisCrawl {
        partitions: Some(partitions),
        delay: DELAY,
        ..RedisCrawl::new(url.parse().unwrap(), "takeovers")
    };
    RedisBackend::open(crawl, BackendConfig { queue_size: 1_600, ..config(workers) }).await.unwrap()
}

async fn admit(backend: &RedisBackend, urls: impl IntoIterator<Item = String>) {
    let urls = urls.into_iter().map(|url| DiscoveredUrl { url, depth: 0, redirects: 0 }).collect();
    backend.admit(urls).await.unwrap();
    route(backend).await;
}

async fn lease(backend: &RedisBackend, worker: WorkerId) -> Vec<Lease> {
    let mut leases = Vec::new();
    loop {
        let more = backend.lease(worker, 1_000, Duration::ZERO).await.unwrap();
        if more.is_empty() {
            return leases;
        }
        leases.extend(more);
    }
}

fn page(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::Page, ..Completion::new(lease) }
}

fn urls(leases: &[Lease]) -> BTreeSet<String> {
    leases.iter().map(|lease| lease.url.to_string()).collect()
}

fn hosts(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|host| format!("http://h{host}.test/"))
}

/// Whether a cooldown is the expected one, less up to a second that has passed.
fn is_about(cooldown: Duration, expected: Duration) -> bool {
    cooldown <= expected && cooldown + Duration::from_secs(1) > expected
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn delay_of_a_host_applies_after_the_death_of_its_worker() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 4, 2).await;
        admit(&backend, ["http://slow.test/", "http://quick.test/", "http://busy.test/"].map(Into::into))
            .await;
        // One host has a longer delay, another a long cooldown.
        let slow = HostDelay { delay: LONG_DELAY, cooldown: Duration::from_millis(1) };
        backend.set_host_delay("slow.test", slow).await.unwrap();
        let busy = HostDelay { delay: DELAY, cooldown: 2 * LONG_DELAY };
        backend.set_host_delay("busy.test", busy).await.unwrap();
        let mut leased = lease(&backend, FIRST).await;
        leased.extend(lease(&backend, SECOND).await);
        assert_eq!(leased.len(), 3);
        backend.remove_worker(FIRST).await.unwrap();
        backend.remove_worker(SECOND).await.unwrap();
        assert!(lease(&backend, FIRST).await.is_empty(), "this registers the worker again, without URLs yet");
        route(&backend).await;
        for lease in lease(&backend, FIRST).await {
            let expected = match &*lease.url {
                "http://slow.test/" => LONG_DELAY,
                "http://busy.test/" => 2 * LONG_DELAY,
                _ => DELAY,
            };
            assert!(
                is_about(lease.cooldown, expected),
                "{} has a cooldown of {:?}",
                lease.url,
                lease.cooldown
            );
        }
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn delay_from_a_completion_applies_after_a_restart() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 1, 1).await;
        admit(&backend, ["http://slow.test/1", "http://slow.test/2"].map(Into::into)).await;
        let leases = lease(&backend, FIRST).await;
        let host_delay = Some(HostDelay { delay: LONG_DELAY, cooldown: Duration::ZERO });
        backend.complete(vec![Completion { host_delay, ..page(&leases[0]) }]).await.unwrap();
        backend.rejoin(FIRST).await.unwrap();
        let new_leases = lease(&backend, FIRST).await;
        assert_eq!(new_leases.len(), 1);
        assert!(is_about(new_leases[0].cooldown, LONG_DELAY), "{:?}", new_leases[0].cooldown);
        // Delays expire after some hours.
        backend.complete(vec![page(&new_leases[0])]).await.unwrap();
        backend.advance(Duration::from_secs(3 * 3600));
        backend.set_host_delay("other.test", HostDelay { delay: LONG_DELAY, cooldown: DELAY }).await.unwrap();
        let hosts: Vec<String> = server.query("HKEYS crawler:{takeovers:p0}:delays");
        assert_eq!(hosts, ["other.test"]);
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn restarted_worker_has_its_leased_urls_queue_and_domains_back() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let backend = open(server.url(), partitions, 2).await;
            admit(&backend, hosts(60)).await;
            let taken = backend.lease(FIRST, 10, Duration::ZERO).await.unwrap();
            assert_eq!(taken.len(), 10);
            for lease in &taken {
                assert!(matches!(
                    backend.reserve(lease, BodyBytes::default()).await.unwrap(),
                    BudgetDecision::Granted(_)
                ));
            }
            let own_queue = |snapshot: crawler::internal::backend::Snapshot| snapshot.workers[0];
            let (queued, leased) = own_queue(backend.snapshot().await.unwrap());
            assert_eq!(leased, 10);

            let after = open(server.url(), partitions, 2).await;
            after.rejoin(FIRST).await.unwrap();
            assert_eq!(own_queue(after.snapshot().await.unwrap()), (queued + 10, 0));
            let results = backend.complete(taken.iter().map(page).collect()).await.unwrap();
            assert_eq!(results, vec![CompleteResult::StaleLease; 10], "the old leases are stale");
            assert_eq!(
                backend.reserve(&taken[0], BodyBytes::default()).await.unwrap(),
                BudgetDecision::LeaseLost
            );

            let new_leases = lease(&after, FIRST).await;
            assert_eq!(new_leases.len(), queued + 10);
            assert!(urls(&new_leases).is_superset(&urls(&taken)));
            let same = new_leases.iter().find(|lease| lease.task_id == taken[0].task_id).unwrap();
            assert!(same.lease_id > taken[0].lease_id);
            // New URLs of its domains are routed to it.
            admit(&after, new_leases.iter().map(|lease| format!("{}next", lease.url))).await;
            let next: BTreeSet<String> =
                new_leases.iter().map(|lease| format!("{}next", lease.url)).collect();
            let more = lease(&after, FIRST).await;
            assert_eq!(urls(&more), next);
            let others = lease(&after, SECOND).await;
            let all: Vec<Completion> = [new_leases, more, others].concat().iter().map(page).collect();
            let results = after.complete(all).await.unwrap();
            assert!(results.iter().all(|result| matches!(result, CompleteResult::Applied { .. })));
            let snapshot = after.snapshot().await.unwrap();
            assert_eq!((snapshot.outstanding(), snapshot.active_hosts), (0, 0));
            let budget = if partitions == 1 { "p0" } else { "budget" };
            let reserved: i64 =
                server.query(&format!("HGET crawler:{{takeovers:{budget}}}:used bytes_reserved"));
            assert_eq!(reserved, 0);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn lease_completed_twice_in_one_batch_is_counted_once() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let backend = open(server.url(), partitions, 1).await;
            admit(&backend, hosts(1)).await;
            let leases = lease(&backend, FIRST).await;
            let results = backend.complete(vec![page(&leases[0]), page(&leases[0])]).await.unwrap();
            assert!(matches!(results[0], CompleteResult::Applied { id: Some(1), .. }));
            let snapshot = backend.snapshot().await.unwrap();
            assert_eq!((snapshot.pages, snapshot.completed, snapshot.outcomes["page"]), (1, 1, 1));
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn worker_that_never_ran_can_rejoin() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 4, 0).await;
        backend.rejoin(WorkerId(7)).await.unwrap();
        backend.rejoin(WorkerId(7)).await.unwrap();
        backend.claim_worker(WorkerId(7), 1).await.unwrap();
        admit(&backend, hosts(5)).await;
        assert_eq!(lease(&backend, WorkerId(7)).await.len(), 5);
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn only_the_last_process_to_claim_a_worker_gets_its_urls() {
    let server = Server::start();
    block_on(async {
        let (first, second) = (open(server.url(), 4, 0).await, open(server.url(), 4, 0).await);
        first.rejoin(FIRST).await.unwrap();
        first.claim_worker(FIRST, 1).await.unwrap();
        admit(&first, hosts(5)).await;
        second.rejoin(FIRST).await.unwrap();
        second.claim_worker(FIRST, 2).await.unwrap();
        // A late claim of a process that joined earlier has no effect.
        first.claim_worker(FIRST, 1).await.unwrap();
        assert_eq!(lease(&first, FIRST).await.len(), 0);
        assert_eq!(lease(&second, FIRST).await.len(), 5);
        // A lease request of a worker that has left does not register it again.
        second.remove_worker(FIRST).await.unwrap();
        assert_eq!(lease(&second, FIRST).await.len(), 0);
        assert!(second.snapshot().await.unwrap().workers.is_empty());
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn page_is_counted_once_if_its_worker_dies_during_the_completion() {
    let server = Server::start();
    let proxy = Proxy::for_server(&server);
    block_on(async {
        let dying = open(proxy.url(), 1, 1).await;
        admit(&dying, hosts(1)).await;
        let leases = lease(&dying, FIRST).await;
        let writes = vec![(0, OutputWrite::Append(b"once".to_vec()))];
        // The worker dies at some moment of the completion. At any moment, the page is counted once.
        let complete = dying.complete(vec![Completion { writes, ..page(&leases[0]) }]);
        let _ = tokio::time::timeout(Duration::from_micros(700), complete).await;
        proxy.close_connections();
        drop((dying, proxy));

        let after = open(server.url(), 1, 1).await;
        after.rejoin(FIRST).await.unwrap();
        for lease in lease(&after, FIRST).await {
            after.complete(vec![page(&lease)]).await.unwrap();
        }
        let snapshot = after.snapshot().await.unwrap();
        assert_eq!((snapshot.pages, snapshot.outcomes["page"], snapshot.outstanding()), (1, 1, 0));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn worker_with_many_urls_is_removed_in_steps_without_losing_any() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 1, 1).await;
        // Most of the URLs are parked.
        let many =
            (0..3).flat_map(|host| (0..1_200).map(move |page| format!("http://big{host}.test/{page}")));
        admit(&backend, many.chain(hosts(1_500))).await;
        let taken = backend.lease(FIRST, 1_100, Duration::ZERO).await.unwrap();
        assert!(taken.len() > 500);
        let before = backend.snapshot().await.unwrap();
        assert!(before.parked > 3_000, "{}", before.parked);
        backend.remove_worker(FIRST).await.unwrap();
        let after = backend.snapshot().await.unwrap();
        assert_eq!((after.owned_domains, after.active_hosts), (0, 0));
        assert_eq!(backend.complete(vec![page(&taken[0])]).await.unwrap(), [CompleteResult::StaleLease]);

        let mut seen = BTreeSet::new();
        while seen.len() < 5_100 {
            let leases = lease(&backend, SECOND).await;
            seen.extend(urls(&leases));
            backend.complete(leases.iter().map(page).collect()).await.unwrap();
            route(&backend).await;
        }
        let snapshot = backend.snapshot().await.unwrap();
        assert_eq!((snapshot.outstanding(), snapshot.parked), (0, 0));
    });
}
