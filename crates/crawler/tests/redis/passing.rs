//! Domains that are passed on from one worker to another: each whole and in its order or not at all, and nothing is lost or
//! counted twice, whoever dies and whatever is asked for again.

mod random;

use std::collections::BTreeMap;
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{JoinResult, RedisBackend, RedisCrawl, Role};
use crawler::internal::backend::{
    Backend, BudgetDecision, CompleteResult, Completion, DiscoveredUrl, DomainTransfer, HostDelay, Lease,
    Snapshot, TransferResult, TransferTarget, WorkerId,
};
use crawler::internal::domain::Domain;
use crawler::internal::outcome::Outcome;
use testredis::{Proxy, Server};

use super::{block_on, route, settings};

const FIRST: WorkerId = WorkerId(0);
const SECOND: WorkerId = WorkerId(1);

async fn open(url: String, partitions: u16, workers: u16) -> RedisBackend {
    let place = RedisCrawl {
        partitions: Some(partitions),
        delay: Duration::from_millis(1),
        ..RedisCrawl::new(url.parse().unwrap(), "passing")
    };
    RedisBackend::open(place, BackendConfig { queue_size: 1_600, ..settings(workers) }).await.unwrap()
}

fn pages(host: &str, count: usize) -> Vec<String> {
    (0..count).map(|page| format!("http://{host}/{page}")).collect()
}

/// All of these are the first worker's.
async fn admit(backend: &RedisBackend, urls: &[Vec<String>]) {
    let found = urls.concat().into_iter().map(|url| DiscoveredUrl { url, depth: 0, redirects: 0 }).collect();
    backend.admit(found).await.unwrap();
    route(backend).await;
}

async fn lease(backend: &RedisBackend, worker: WorkerId, max: usize) -> Vec<Lease> {
    backend.lease(worker, max, Duration::ZERO).await.unwrap()
}

/// Makes a worker known: something can be sent to it then.
async fn appear(backend: &RedisBackend, worker: WorkerId) {
    assert!(lease(backend, worker, 1).await.is_empty());
}

fn kept(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::Page, bytes: 1, ..Completion::new(lease) }
}

/// All that is in hand of a domain, for another worker.
fn handover(domain: &str, to: WorkerId, in_hand: &[Lease]) -> DomainTransfer {
    let domain = Domain::from_url_str(&format!("http://{domain}/"));
    let leases = in_hand.iter().filter(|lease| Domain::from_url_str(&lease.url) == domain).cloned().collect();
    DomainTransfer { domain, to, leases, cooldowns: Vec::new() }
}

async fn pass(backend: &RedisBackend, handovers: Vec<DomainTransfer>) -> Vec<TransferResult> {
    backend.transfer_domains(FIRST, handovers).await.unwrap()
}

/// Every outstanding URL is in one place.
fn assert_adds_up(snapshot: &Snapshot) {
    let workers: usize = snapshot.workers.iter().map(|(queued, on_loan)| queued + on_loan).sum();
    let filed: usize = snapshot.priority_queues.iter().sum();
    let there = snapshot.url_queue.0 + snapshot.url_queue.1 + filed + workers + snapshot.parked;
    assert_eq!(there as u64, snapshot.outstanding(), "{snapshot:?}");
}

/// Everything that is left is visited by these, in the order in which each gets it.
async fn finish(backend: &RedisBackend, workers: &[WorkerId]) -> BTreeMap<WorkerId, Vec<String>> {
    let mut visited: BTreeMap<WorkerId, Vec<String>> = BTreeMap::new();
    for _ in 0..1_000 {
        route(backend).await;
        for worker in workers {
            let leases = lease(backend, *worker, 1_000).await;
            let ended = backend.complete(leases.iter().map(kept).collect()).await.unwrap();
            assert!(ended.iter().all(|ended| matches!(ended, CompleteResult::Applied { .. })));
            visited.entry(*worker).or_default().extend(leases.into_iter().map(|lease| lease.url));
        }
        let snapshot = backend.snapshot().await.unwrap();
        assert_adds_up(&snapshot);
        if snapshot.outstanding() == 0 {
            assert_eq!((snapshot.parked, snapshot.active_hosts), (0, 0));
            assert_eq!(snapshot.outcomes["kept"], snapshot.admitted);
            return visited;
        }
    }
    panic!("it does not end: {:?}", backend.snapshot().await);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_domain_is_passed_on_whole_and_in_its_order() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let backend = open(server.url(), partitions, 1).await;
            // Of each, 64 are in the worker's queue and the others wait.
            admit(&backend, &[pages("a.test", 100), pages("b.test", 100)]).await;
            let in_hand = lease(&backend, FIRST, 40).await;
            appear(&backend, SECOND).await;
            let passed = pass(&backend, vec![handover("a.test", SECOND, &in_hand)]).await;
            assert_eq!(passed, [TransferResult::Moved]);
            let snapshot = backend.snapshot().await.unwrap();
            assert_adds_up(&snapshot);
            assert_eq!(snapshot.parked, 72);
            let (queued, on_loan) = snapshot.workers[0];
            assert_eq!((queued + on_loan, snapshot.workers[1]), (64, (64, 0)));
            // The loans have ended, and nobody else's.
            for lease in &in_hand {
                let is_passed = lease.url.contains("a.test");
                let grant = backend.reserve(lease, 0).await.unwrap();
                assert_eq!(grant == BudgetDecision::LeaseLost, is_passed, "{grant:?} {lease:?}");
            }
            let ended = backend.complete(in_hand.iter().map(kept).collect()).await.unwrap();
            for (lease, ended) in in_hand.iter().zip(ended) {
                assert_eq!(ended == CompleteResult::StaleLease, lease.url.contains("a.test"), "{lease:?}");
            }
            // What comes of it now comes to its new owner, after the rest.
            admit(&backend, &[vec!["http://a.test/100".into()]]).await;
            let visited = finish(&backend, &[FIRST, SECOND]).await;
            assert_eq!(visited[&SECOND], pages("a.test", 101));
            assert!(visited[&FIRST].iter().all(|url| url.contains("b.test")));
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn what_waits_far_behind_in_a_long_queue_is_passed_on_too() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 1, 1).await;
        let hosts: Vec<Vec<String>> = (0..24).map(|host| pages(&format!("h{host}.test"), 64)).collect();
        admit(&backend, &hosts).await;
        let in_hand = lease(&backend, FIRST, 1).await;
        appear(&backend, SECOND).await;
        let handovers = ["h0.test", "h22.test", "h23.test"].map(|host| handover(host, SECOND, &in_hand));
        assert_eq!(pass(&backend, handovers.into()).await, [TransferResult::Moved; 3]);
        let snapshot = backend.snapshot().await.unwrap();
        assert_adds_up(&snapshot);
        assert_eq!((snapshot.workers[0], snapshot.workers[1]), ((21 * 64, 0), (3 * 64, 0)));
        finish(&backend, &[FIRST, SECOND]).await;
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_domain_of_which_something_is_in_flight_stays_as_it_is() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let backend = open(server.url(), partitions, 1).await;
            admit(&backend, &[pages("a.test", 10), pages("b.test", 90)]).await;
            let in_hand = lease(&backend, FIRST, 50).await;
            appear(&backend, SECOND).await;
            let mut all_but_one = handover("a.test", SECOND, &in_hand);
            let in_flight = all_but_one.leases.remove(0);
            let before = backend.snapshot().await.unwrap();
            assert_eq!(pass(&backend, vec![all_but_one.clone()]).await, [TransferResult::RetryLater]);
            assert_eq!(backend.snapshot().await.unwrap(), before);
            // When it has ended, the rest goes; a domain of which nothing is left goes, too.
            backend.complete(vec![kept(&in_flight)]).await.unwrap();
            assert_eq!(pass(&backend, vec![all_but_one]).await, [TransferResult::Moved]);
            let others = lease(&backend, SECOND, 100).await;
            assert_eq!(others.len(), 9);
            backend.complete(others.iter().map(kept).collect()).await.unwrap();
            let nothing = handover("a.test", FIRST, &[]);
            assert_eq!(
                backend.transfer_domains(SECOND, vec![nothing]).await.unwrap(),
                [TransferResult::Moved]
            );
            admit(&backend, &[vec!["http://a.test/more".into()]]).await;
            let rest = in_hand.iter().filter(|lease| lease.url.contains("b.test"));
            backend.complete(rest.map(kept).collect()).await.unwrap();
            let visited = finish(&backend, &[FIRST, SECOND]).await;
            assert!(visited[&FIRST].contains(&"http://a.test/more".to_owned()));
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn what_is_passed_on_twice_or_with_its_answer_lost_is_passed_on_once() {
    for partitions in [1, 16] {
        let server = Server::start();
        let proxy = Proxy::before(&server);
        block_on(async {
            let backend = open(proxy.url(), partitions, 1).await;
            admit(&backend, &[pages("a.test", 80), pages("b.test", 80)]).await;
            let in_hand = lease(&backend, FIRST, 128).await;
            appear(&backend, SECOND).await;
            let handovers = vec![handover("a.test", SECOND, &in_hand)];
            proxy.swallow_next_answer();
            let passing = backend.transfer_domains(FIRST, handovers.clone());
            let cut = async {
                while proxy.is_armed() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                proxy.cut();
            };
            let (passed, ()) = tokio::join!(passing, cut);
            assert_eq!(passed.unwrap(), [TransferResult::Moved]);
            let after = backend.snapshot().await.unwrap();
            assert_adds_up(&after);
            assert_eq!(after.workers[1], (64, 0));
            // As if it came late: it is nobody's to pass on any more.
            assert_eq!(pass(&backend, handovers).await, [TransferResult::Declined]);
            assert_eq!(backend.snapshot().await.unwrap(), after);
            let rest = in_hand.iter().filter(|lease| lease.url.contains("b.test"));
            backend.complete(rest.map(kept).collect()).await.unwrap();
            let visited = finish(&backend, &[FIRST, SECOND]).await;
            assert_eq!(visited[&SECOND], pages("a.test", 80));
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn nothing_is_passed_on_to_nobody_or_by_one_who_has_lost_its_place() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let first = open(server.url(), partitions, 0).await;
            first.enter(FIRST, 1).await.unwrap();
            appear(&first, FIRST).await;
            admit(&first, &[pages("a.test", 10), pages("b.test", 10)]).await;
            let in_hand = lease(&first, FIRST, 20).await;
            assert_eq!(in_hand.len(), 20);
            let handovers = vec![handover("a.test", SECOND, &in_hand)];
            let before = first.snapshot().await.unwrap();
            assert_eq!(
                pass(&first, handovers.clone()).await,
                [TransferResult::Declined],
                "there is no second worker"
            );
            assert_eq!(first.snapshot().await.unwrap(), before);

            let second = open(server.url(), partitions, 0).await;
            second.enter(SECOND, 1).await.unwrap();
            appear(&second, SECOND).await;
            second.remove_worker(SECOND).await.unwrap();
            assert_eq!(
                pass(&first, handovers.clone()).await,
                [TransferResult::Declined],
                "there is none any more"
            );
            second.enter(SECOND, 2).await.unwrap();
            appear(&second, SECOND).await;
            // Another has the first worker's place by now.
            let other = open(server.url(), partitions, 0).await;
            other.rejoin(FIRST).await.unwrap();
            other.enter(FIRST, 2).await.unwrap();
            assert_eq!(pass(&first, handovers.clone()).await, [TransferResult::Declined]);
            let is_revisit = lease(&other, FIRST, 20).await;
            assert_eq!(is_revisit.len(), 20);
            assert_eq!(
                pass(&other, handovers).await,
                [TransferResult::RetryLater],
                "loans of before are not those of now"
            );
            assert_eq!(
                pass(&other, vec![handover("a.test", SECOND, &is_revisit)]).await,
                [TransferResult::Moved]
            );
            assert_eq!(lease(&second, SECOND, 20).await.len(), 10);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn whoever_dies_after_it_neither_gets_back_nor_loses_what_was_passed_on() {
    for (partitions, dies_for_good) in [(1, false), (1, true), (16, false), (16, true)] {
        let server = Server::start();
        block_on(async {
            let backend = open(server.url(), partitions, 1).await;
            admit(&backend, &[pages("a.test", 80), pages("b.test", 20)]).await;
            let in_hand = lease(&backend, FIRST, 30).await;
            appear(&backend, SECOND).await;
            let passed = pass(&backend, vec![handover("a.test", SECOND, &in_hand)]).await;
            assert_eq!(passed, [TransferResult::Moved]);
            for worker in [FIRST, SECOND] {
                assert!(worker == FIRST || !lease(&backend, worker, 5).await.is_empty());
                if dies_for_good {
                    backend.remove_worker(worker).await.unwrap();
                    assert!(lease(&backend, worker, 0).await.is_empty());
                } else {
                    backend.rejoin(worker).await.unwrap();
                }
                assert_adds_up(&backend.snapshot().await.unwrap());
            }
            let visited = finish(&backend, &[FIRST, SECOND]).await;
            let mut all: Vec<String> = visited.values().flatten().cloned().collect();
            all.sort();
            all.dedup();
            assert_eq!((all.len(), visited.values().flatten().count()), (100, 100));
            if !dies_for_good {
                assert!(visited[&FIRST].iter().all(|url| url.contains("b.test")));
            }
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn neither_a_cut_connection_nor_a_redis_that_lost_it_brings_anything_back_twice() {
    for (partitions, is_lost) in [(1, false), (1, true), (16, false), (16, true)] {
        let server = Server::start();
        let proxy = Proxy::before(&server);
        block_on(async {
            let first = open(proxy.url(), partitions, 1).await;
            admit(&first, &[pages("a.test", 70), pages("b.test", 20)]).await;
            let in_hand = lease(&first, FIRST, 90).await;
            appear(&first, SECOND).await;
            server.ask::<()>("SAVE");
            let passed = pass(&first, vec![handover("a.test", SECOND, &in_hand)]).await;
            assert_eq!(passed, [TransferResult::Moved]);
            if is_lost {
                server.restart();
            }
            proxy.cut();
            // The first notices that the connection is another one.
            let mut is_revisit = lease(&first, FIRST, 90).await;
            is_revisit.extend(lease(&first, FIRST, 90).await);
            assert_eq!(
                is_revisit.len(),
                if is_lost { 64 } else { 0 },
                "it has what was not passed on after all"
            );
            let all = in_hand.iter().filter(|lease| lease.url.contains("b.test")).chain(&is_revisit);
            let ended = first.complete(all.map(kept).collect()).await.unwrap();
            assert!(ended.iter().all(|ended| matches!(ended, CompleteResult::Applied { .. })));
            finish(&first, &[FIRST, SECOND]).await;
            assert_eq!(first.snapshot().await.unwrap().pages, 90);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn hosts_are_left_alone_by_their_new_owner_for_as_long_as_their_old_one_would_have() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 16, 1).await;
        admit(&backend, &[pages("a.test", 3), pages("www.a.test", 3), pages("b.test", 3)]).await;
        let in_hand = lease(&backend, FIRST, 9).await;
        appear(&backend, SECOND).await;
        let asked = in_hand.iter().find(|lease| lease.url.contains("//a.test")).unwrap();
        let rests =
            |seconds| HostDelay { delay: Duration::from_millis(1), cooldown: Duration::from_secs(seconds) };
        let done = Completion { host_delay: Some(rests(20)), ..kept(asked) };
        backend.complete(vec![done]).await.unwrap();
        // This one was asked for its robots.txt only, on the way to the other.
        let mut handover = handover("a.test", SECOND, &in_hand);
        handover.leases.retain(|lease| lease != asked);
        handover.cooldowns = vec![("www.a.test".into(), rests(40))];
        assert_eq!(pass(&backend, vec![handover]).await, [TransferResult::Moved]);
        let leases = lease(&backend, SECOND, 9).await;
        assert_eq!(leases.len(), 5);
        for lease in leases {
            let due = Duration::from_secs(if lease.url.contains("www") { 40 } else { 20 });
            assert!(lease.cooldown <= due && lease.cooldown + Duration::from_secs(2) > due, "{lease:?}");
        }
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_member_learns_once_to_whom_it_is_to_pass_on_something() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 1, 0).await;
        let role = Role::Worker(FIRST);
        assert!(matches!(backend.join(Some(role), "a", "here", None).await.unwrap(), JoinResult::New(..)));
        let beat = async || backend.beat(role, "a", Duration::ZERO, Some(7)).await.unwrap();
        assert_eq!(beat().await.takers, []);
        let member = backend.crew().await.unwrap().0.remove(0);
        assert_eq!(member.domains, Some(7));
        let takers =
            vec![TransferTarget { id: SECOND, load: 0 }, TransferTarget { id: WorkerId(9), load: 30 }];
        backend.relieve(&member, &takers).await.unwrap();
        assert_eq!(beat().await.takers, takers);
        assert_eq!(beat().await.takers, []);
        // It is for nobody who comes after it.
        backend.relieve(&member, &takers).await.unwrap();
        let silent = backend.crew().await.unwrap().0.remove(0);
        assert!(matches!(
            backend.join(Some(role), "b", "here", Some(&silent)).await.unwrap(),
            JoinResult::Again(..)
        ));
        backend.relieve(&silent, &takers).await.unwrap();
        assert_eq!(backend.beat(role, "b", Duration::ZERO, None).await.unwrap().takers, []);
    });
}
