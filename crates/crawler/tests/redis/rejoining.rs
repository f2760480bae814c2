//! Who comes after a dead worker, in its place or in another's: hosts are left alone for as long as they are due, loans are
//! made anew, and nothing of before counts.

use std::collections::BTreeSet;
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{
    Backend, BudgetDecision, CompleteResult, Completion, DiscoveredUrl, HostDelay, Lease, WorkerId,
};
use crawler::internal::modules::OutputWrite;
use crawler::internal::outcome::Outcome;
use testredis::{Proxy, Server};

use super::{block_on, route, settings};

const FIRST: WorkerId = WorkerId(0);
const SECOND: WorkerId = WorkerId(1);
const DELAY: Duration = Duration::from_secs(2);
const LONG_DELAY: Duration = Duration::from_secs(30);

async fn open(url: String, partitions: u16, workers: u16) -> RedisBackend {
    let place = RedisCrawl {
        partitions: Some(partitions),
        delay: DELAY,
        ..RedisCrawl::new(url.parse().unwrap(), "rejoining")
    };
    RedisBackend::open(place, BackendConfig { queue_size: 1_600, ..settings(workers) }).await.unwrap()
}

async fn admit(backend: &RedisBackend, urls: impl IntoIterator<Item = String>) {
    let found = urls.into_iter().map(|url| DiscoveredUrl { url, depth: 0, redirects: 0 }).collect();
    backend.admit(found).await.unwrap();
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

fn kept(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::Page, ..Completion::new(lease) }
}

fn urls(leases: &[Lease]) -> BTreeSet<String> {
    leases.iter().map(|lease| lease.url.clone()).collect()
}

fn hosts(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|host| format!("http://h{host}.test/"))
}

/// Within a moment of so long.
fn is_about(rest: Duration, due: Duration) -> bool {
    rest <= due && rest + Duration::from_secs(1) > due
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_host_that_a_dead_worker_may_have_been_asking_is_left_alone_for_its_own_delay() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 4, 2).await;
        admit(&backend, ["http://slow.test/", "http://quick.test/", "http://busy.test/"].map(Into::into))
            .await;
        // It is known of one that it wants more time, and of another that it wants none for long.
        let slow = HostDelay { delay: LONG_DELAY, cooldown: Duration::from_millis(1) };
        backend.set_host_delay("slow.test", slow).await.unwrap();
        let busy = HostDelay { delay: DELAY, cooldown: 2 * LONG_DELAY };
        backend.set_host_delay("busy.test", busy).await.unwrap();
        let mut on_loan = lease(&backend, FIRST).await;
        on_loan.extend(lease(&backend, SECOND).await);
        assert_eq!(on_loan.len(), 3);
        backend.remove_worker(FIRST).await.unwrap();
        backend.remove_worker(SECOND).await.unwrap();
        assert!(lease(&backend, FIRST).await.is_empty(), "it is there again, with nothing yet");
        route(&backend).await;
        for lease in lease(&backend, FIRST).await {
            let due = match lease.url.as_str() {
                "http://slow.test/" => LONG_DELAY,
                "http://busy.test/" => 2 * LONG_DELAY,
                _ => DELAY,
            };
            assert!(is_about(lease.cooldown, due), "{} rests {:?}", lease.url, lease.cooldown);
        }
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn what_was_learnt_of_a_hosts_delay_by_a_completion_is_known_after_a_restart() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 1, 1).await;
        admit(&backend, ["http://slow.test/1", "http://slow.test/2"].map(Into::into)).await;
        let leases = lease(&backend, FIRST).await;
        let host_delay = Some(HostDelay { delay: LONG_DELAY, cooldown: Duration::ZERO });
        backend.complete(vec![Completion { host_delay, ..kept(&leases[0]) }]).await.unwrap();
        backend.rejoin(FIRST).await.unwrap();
        let is_revisit = lease(&backend, FIRST).await;
        assert_eq!(is_revisit.len(), 1);
        assert!(is_about(is_revisit[0].cooldown, LONG_DELAY), "{:?}", is_revisit[0].cooldown);
        // After hours nobody needs to know it any more.
        backend.complete(vec![kept(&is_revisit[0])]).await.unwrap();
        backend.advance(Duration::from_secs(3 * 3600));
        backend.set_host_delay("other.test", HostDelay { delay: LONG_DELAY, cooldown: DELAY }).await.unwrap();
        let known: Vec<String> = server.ask("HKEYS crawler:{rejoining:p0}:delays");
        assert_eq!(known, ["other.test"]);
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_restarted_worker_has_its_loans_its_queue_and_its_domains_as_before() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let backend = open(server.url(), partitions, 2).await;
            admit(&backend, hosts(60)).await;
            let taken = backend.lease(FIRST, 10, Duration::ZERO).await.unwrap();
            assert_eq!(taken.len(), 10);
            for lease in &taken {
                assert!(matches!(backend.reserve(lease, 0).await.unwrap(), BudgetDecision::Granted(_)));
            }
            let mine = |snapshot: crawler::internal::backend::Snapshot| snapshot.workers[0];
            let (queued, on_loan) = mine(backend.snapshot().await.unwrap());
            assert_eq!(on_loan, 10);

            let after = open(server.url(), partitions, 2).await;
            after.rejoin(FIRST).await.unwrap();
            assert_eq!(mine(after.snapshot().await.unwrap()), (queued + 10, 0));
            let ended = backend.complete(taken.iter().map(kept).collect()).await.unwrap();
            assert_eq!(ended, vec![CompleteResult::StaleLease; 10], "what was on loan before is refused");
            assert_eq!(backend.reserve(&taken[0], 0).await.unwrap(), BudgetDecision::LeaseLost);

            let is_revisit = lease(&after, FIRST).await;
            assert_eq!(is_revisit.len(), queued + 10);
            assert!(urls(&is_revisit).is_superset(&urls(&taken)));
            let same = is_revisit.iter().find(|lease| lease.task_id == taken[0].task_id).unwrap();
            assert!(same.lease_id > taken[0].lease_id);
            // What comes of its domains comes to it.
            admit(&after, is_revisit.iter().map(|lease| format!("{}next", lease.url))).await;
            let next: BTreeSet<String> =
                is_revisit.iter().map(|lease| format!("{}next", lease.url)).collect();
            let more = lease(&after, FIRST).await;
            assert_eq!(urls(&more), next);
            let others = lease(&after, SECOND).await;
            let all: Vec<Completion> = [is_revisit, more, others].concat().iter().map(kept).collect();
            let completed = after.complete(all).await.unwrap();
            assert!(completed.iter().all(|completed| matches!(completed, CompleteResult::Applied { .. })));
            let snapshot = after.snapshot().await.unwrap();
            assert_eq!((snapshot.outstanding(), snapshot.active_hosts), (0, 0));
            let budget = if partitions == 1 { "p0" } else { "budget" };
            let reserved: i64 =
                server.ask(&format!("HGET crawler:{{rejoining:{budget}}}:used bytes_reserved"));
            assert_eq!(reserved, 0);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_loan_that_is_completed_twice_at_once_is_completed_once() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let backend = open(server.url(), partitions, 1).await;
            admit(&backend, hosts(1)).await;
            let leases = lease(&backend, FIRST).await;
            let completed = backend.complete(vec![kept(&leases[0]), kept(&leases[0])]).await.unwrap();
            assert!(matches!(completed[0], CompleteResult::Applied { id: Some(1), .. }));
            let snapshot = backend.snapshot().await.unwrap();
            assert_eq!((snapshot.pages, snapshot.completed, snapshot.outcomes["kept"]), (1, 1, 1));
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_worker_that_was_never_there_can_rejoin() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 4, 0).await;
        backend.rejoin(WorkerId(7)).await.unwrap();
        backend.rejoin(WorkerId(7)).await.unwrap();
        backend.enter(WorkerId(7), 1).await.unwrap();
        admit(&backend, hosts(5)).await;
        assert_eq!(lease(&backend, WorkerId(7)).await.len(), 5);
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn of_processes_that_take_themselves_for_one_worker_the_one_that_entered_last_is_lent_its_urls() {
    let server = Server::start();
    block_on(async {
        let (first, second) = (open(server.url(), 4, 0).await, open(server.url(), 4, 0).await);
        first.rejoin(FIRST).await.unwrap();
        first.enter(FIRST, 1).await.unwrap();
        admit(&first, hosts(5)).await;
        second.rejoin(FIRST).await.unwrap();
        second.enter(FIRST, 2).await.unwrap();
        // One that joined before, and says so late, is not heard.
        first.enter(FIRST, 1).await.unwrap();
        assert_eq!(lease(&first, FIRST).await.len(), 0);
        assert_eq!(lease(&second, FIRST).await.len(), 5);
        // One that has left, and asks once more, leaves nothing behind that anything could be sent to.
        second.remove_worker(FIRST).await.unwrap();
        assert_eq!(lease(&second, FIRST).await.len(), 0);
        assert!(second.snapshot().await.unwrap().workers.is_empty());
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_page_that_was_settled_before_its_worker_died_counts_once_when_that_rejoins() {
    let server = Server::start();
    let proxy = Proxy::before(&server);
    block_on(async {
        let dying = open(proxy.url(), 1, 1).await;
        admit(&dying, hosts(1)).await;
        let leases = lease(&dying, FIRST).await;
        let output = vec![(0, OutputWrite::Append(b"once".to_vec()))];
        // It dies at some moment of its completion; whichever it is, the page counts once.
        let complete = dying.complete(vec![Completion { writes: output, ..kept(&leases[0]) }]);
        let _ = tokio::time::timeout(Duration::from_micros(700), complete).await;
        proxy.cut();
        drop((dying, proxy));

        let after = open(server.url(), 1, 1).await;
        after.rejoin(FIRST).await.unwrap();
        for lease in lease(&after, FIRST).await {
            after.complete(vec![kept(&lease)]).await.unwrap();
        }
        let snapshot = after.snapshot().await.unwrap();
        assert_eq!((snapshot.pages, snapshot.outcomes["kept"], snapshot.outstanding()), (1, 1, 0));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_worker_with_very_much_leaves_in_steps_and_loses_nothing() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 1, 1).await;
        // Most of them wait for their domain's share.
        let many =
            (0..3).flat_map(|host| (0..1_200).map(move |page| format!("http://big{host}.test/{page}")));
        admit(&backend, many.chain(hosts(1_500))).await;
        let taken = backend.lease(FIRST, 1_100, Duration::ZERO).await.unwrap();
        assert!(taken.len() > 500);
        let before = backend.snapshot().await.unwrap();
        assert!(before.parked > 3_000, "{}", before.parked);
        backend.remove_worker(FIRST).await.unwrap();
        let left = backend.snapshot().await.unwrap();
        assert_eq!((left.owned_domains, left.active_hosts), (0, 0));
        assert_eq!(backend.complete(vec![kept(&taken[0])]).await.unwrap(), [CompleteResult::StaleLease]);

        let mut seen = BTreeSet::new();
        while seen.len() < 5_100 {
            let leases = lease(&backend, SECOND).await;
            seen.extend(urls(&leases));
            backend.complete(leases.iter().map(kept).collect()).await.unwrap();
            route(&backend).await;
        }
        let snapshot = backend.snapshot().await.unwrap();
        assert_eq!((snapshot.outstanding(), snapshot.parked), (0, 0));
    });
}
