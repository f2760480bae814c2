//! Transfers of domains between workers: a domain moves with all its URLs in order, or not at all. No URL is
//! lost or counted twice, whichever worker dies and whichever request is repeated.

mod random;

use std::collections::BTreeMap;
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{JoinResult, RedisBackend, RedisCrawl, Role};
use crawler::internal::backend::{
    Backend, BudgetDecision, CompleteResult, Completion, DiscoveredUrl, DomainTransfer, HostClaim, HostDelay,
    Lease, Snapshot, TransferResult, TransferTarget, WorkerId,
};
use crawler::internal::domain::Domain;
use crawler::internal::outcome::Outcome;
use crawler::internal::stats::BodyBytes;
use testredis::{Proxy, Server};

use super::{block_on, config, route};

const FIRST: WorkerId = WorkerId(0);
const SECOND: WorkerId = WorkerId(1);

async fn open(url: String, partitions: u16, workers: u16) -> RedisBackend {
    let crawl = RedisCrawl {
        partitions: Some(partitions),
        delay: Duration::from_millis(1),
        ..RedisCrawl::new(url.parse().unwrap(), "transfers")
    };
    RedisBackend::open(crawl, BackendConfig { queue_size: 1_600, ..config(workers) }).await.unwrap()
}

fn pages(host: &str, count: usize) -> Vec<String> {
    (0..count).map(|page| format!("http://{host}/{page}")).collect()
}

/// Admits URLs and routes them, to the first worker if it is the only one.
async fn admit(backend: &RedisBackend, urls: &[Vec<String>]) {
    let urls = urls.concat().into_iter().map(|url| DiscoveredUrl { url, depth: 0, redirects: 0 }).collect();
    backend.admit(urls).await.unwrap();
    route(backend).await;
}

async fn lease(backend: &RedisBackend, worker: WorkerId, max: usize) -> Vec<Lease> {
    backend.lease(worker, max, Duration::ZERO).await.unwrap()
}

/// Registers a worker, so that URLs can be routed to it.
async fn register(backend: &RedisBackend, worker: WorkerId) {
    assert!(lease(backend, worker, 1).await.is_empty());
}

fn page(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::Page, bytes: BodyBytes::unencoded(1), ..Completion::new(lease) }
}

/// A transfer of a domain with all its leases.
fn transfer(domain: &str, to: WorkerId, leases: &[Lease]) -> DomainTransfer {
    let domain = Domain::from_url_str(&format!("http://{domain}/"));
    let leases = leases.iter().filter(|lease| Domain::from_url_str(&lease.url) == domain).cloned().collect();
    DomainTransfer { domain, to, leases, cooldowns: Vec::new() }
}

async fn send(backend: &RedisBackend, transfers: Vec<DomainTransfer>) -> Vec<TransferResult> {
    backend.transfer_domains(FIRST, transfers).await.unwrap()
}

/// Checks that every outstanding URL is in exactly one queue or lease.
fn assert_adds_up(snapshot: &Snapshot) {
    let workers: usize = snapshot.workers.iter().map(|(queued, leased)| queued + leased).sum();
    let prioritized: usize = snapshot.priority_queues.iter().sum();
    let total = snapshot.url_queue.0 + snapshot.url_queue.1 + prioritized + workers + snapshot.parked;
    assert_eq!(total as u64, snapshot.outstanding(), "{snapshot:?}");
}

/// Lets these workers complete all URLs. Returns the URLs of each, in the order of their leases.
async fn finish(backend: &RedisBackend, workers: &[WorkerId]) -> BTreeMap<WorkerId, Vec<String>> {
    let mut crawled: BTreeMap<WorkerId, Vec<String>> = BTreeMap::new();
    for _ in 0..1_000 {
        route(backend).await;
        for worker in workers {
            let leases = lease(backend, *worker, 1_000).await;
            let results = backend.complete(leases.iter().map(page).collect()).await.unwrap();
            assert!(results.iter().all(|result| matches!(result, CompleteResult::Applied { .. })));
            crawled.entry(*worker).or_default().extend(leases.into_iter().map(|lease| lease.url.to_string()));
        }
        let snapshot = backend.snapshot().await.unwrap();
        assert_adds_up(&snapshot);
        if snapshot.outstanding() == 0 {
            assert_eq!((snapshot.parked, snapshot.active_hosts), (0, 0));
            assert_eq!(snapshot.outcomes["page"], snapshot.admitted);
            return crawled;
        }
    }
    panic!("the crawl does not end: {:?}", backend.snapshot().await);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn domain_is_transferred_with_all_its_urls_in_order() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let backend = open(server.url(), partitions, 1).await;
            // Of each domain, 64 URLs are in the worker's queue and the others are parked.
            admit(&backend, &[pages("a.test", 100), pages("b.test", 100)]).await;
            let held = lease(&backend, FIRST, 40).await;
            register(&backend, SECOND).await;
            let results = send(&backend, vec![transfer("a.test", SECOND, &held)]).await;
            assert_eq!(results, [TransferResult::Moved]);
            let snapshot = backend.snapshot().await.unwrap();
            assert_adds_up(&snapshot);
            assert_eq!(snapshot.parked, 72);
            let (queued, leased) = snapshot.workers[0];
            assert_eq!((queued + leased, snapshot.workers[1]), (64, (64, 0)));
            // Only the leases of the transferred domain have ended.
            for lease in &held {
                let is_transferred = lease.url.contains("a.test");
                let decision = backend.reserve(lease, BodyBytes::default()).await.unwrap();
                assert_eq!(decision == BudgetDecision::LeaseLost, is_transferred, "{decision:?} {lease:?}");
            }
            let results = backend.complete(held.iter().map(page).collect()).await.unwrap();
            for (lease, result) in held.iter().zip(results) {
                assert_eq!(result == CompleteResult::StaleLease, lease.url.contains("a.test"), "{lease:?}");
            }
            // A new URL of the domain goes to its new owner, after the others.
            admit(&backend, &[vec!["http://a.test/100".into()]]).await;
            let crawled = finish(&backend, &[FIRST, SECOND]).await;
            assert_eq!(crawled[&SECOND], pages("a.test", 101));
            assert!(crawled[&FIRST].iter().all(|url| url.contains("b.test")));
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn urls_at_the_end_of_a_long_queue_are_transferred_too() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 1, 1).await;
        let hosts: Vec<Vec<String>> = (0..24).map(|host| pages(&format!("h{host}.test"), 64)).collect();
        admit(&backend, &hosts).await;
        let held = lease(&backend, FIRST, 1).await;
        register(&backend, SECOND).await;
        let transfers = ["h0.test", "h22.test", "h23.test"].map(|host| transfer(host, SECOND, &held));
        assert_eq!(send(&backend, transfers.into()).await, [TransferResult::Moved; 3]);
        let snapshot = backend.snapshot().await.unwrap();
        assert_adds_up(&snapshot);
        assert_eq!((snapshot.workers[0], snapshot.workers[1]), ((21 * 64, 0), (3 * 64, 0)));
        finish(&backend, &[FIRST, SECOND]).await;
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn domain_with_a_request_in_flight_is_not_transferred() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let backend = open(server.url(), partitions, 1).await;
            admit(&backend, &[pages("a.test", 10), pages("b.test", 90)]).await;
            let held = lease(&backend, FIRST, 50).await;
            register(&backend, SECOND).await;
            let mut all_but_one = transfer("a.test", SECOND, &held);
            let in_flight = all_but_one.leases.remove(0);
            let before = backend.snapshot().await.unwrap();
            assert_eq!(send(&backend, vec![all_but_one.clone()]).await, [TransferResult::RetryLater]);
            assert_eq!(backend.snapshot().await.unwrap(), before);
            // Once it is completed, the domain is transferred. A domain without URLs is transferred as well.
            backend.complete(vec![page(&in_flight)]).await.unwrap();
            assert_eq!(send(&backend, vec![all_but_one]).await, [TransferResult::Moved]);
            let others = lease(&backend, SECOND, 100).await;
            assert_eq!(others.len(), 9);
            backend.complete(others.iter().map(page).collect()).await.unwrap();
            let empty = transfer("a.test", FIRST, &[]);
            assert_eq!(backend.transfer_domains(SECOND, vec![empty]).await.unwrap(), [TransferResult::Moved]);
            admit(&backend, &[vec!["http://a.test/more".into()]]).await;
            let others = held.iter().filter(|lease| lease.url.contains("b.test"));
            backend.complete(others.map(page).collect()).await.unwrap();
            let crawled = finish(&backend, &[FIRST, SECOND]).await;
            assert!(crawled[&FIRST].contains(&"http://a.test/more".to_owned()));
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn repeated_transfer_or_one_with_a_lost_reply_is_applied_once() {
    for partitions in [1, 16] {
        let server = Server::start();
        let proxy = Proxy::for_server(&server);
        block_on(async {
            let backend = open(proxy.url(), partitions, 1).await;
            admit(&backend, &[pages("a.test", 80), pages("b.test", 80)]).await;
            let held = lease(&backend, FIRST, 128).await;
            register(&backend, SECOND).await;
            let transfers = vec![transfer("a.test", SECOND, &held)];
            proxy.drop_next_reply();
            let transferring = backend.transfer_domains(FIRST, transfers.clone());
            let cut = async {
                while proxy.is_armed() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                proxy.close_connections();
            };
            let (results, ()) = tokio::join!(transferring, cut);
            assert_eq!(results.unwrap(), [TransferResult::Moved]);
            let after = backend.snapshot().await.unwrap();
            assert_adds_up(&after);
            assert_eq!(after.workers[1], (64, 0));
            // A late copy of the request: the first worker no longer owns the domain.
            assert_eq!(send(&backend, transfers).await, [TransferResult::Declined]);
            assert_eq!(backend.snapshot().await.unwrap(), after);
            let others = held.iter().filter(|lease| lease.url.contains("b.test"));
            backend.complete(others.map(page).collect()).await.unwrap();
            let crawled = finish(&backend, &[FIRST, SECOND]).await;
            assert_eq!(crawled[&SECOND], pages("a.test", 80));
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn transfer_to_a_missing_worker_or_from_a_replaced_one_is_declined() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let first = open(server.url(), partitions, 0).await;
            first.claim_worker(FIRST, 1).await.unwrap();
            register(&first, FIRST).await;
            admit(&first, &[pages("a.test", 10), pages("b.test", 10)]).await;
            let held = lease(&first, FIRST, 20).await;
            assert_eq!(held.len(), 20);
            let transfers = vec![transfer("a.test", SECOND, &held)];
            let before = first.snapshot().await.unwrap();
            assert_eq!(
                send(&first, transfers.clone()).await,
                [TransferResult::Declined],
                "the second worker does not exist"
            );
            assert_eq!(first.snapshot().await.unwrap(), before);

            let second = open(server.url(), partitions, 0).await;
            second.claim_worker(SECOND, 1).await.unwrap();
            register(&second, SECOND).await;
            second.remove_worker(SECOND).await.unwrap();
            assert_eq!(
                send(&first, transfers.clone()).await,
                [TransferResult::Declined],
                "the second worker has left"
            );
            second.claim_worker(SECOND, 2).await.unwrap();
            register(&second, SECOND).await;
            // Another process takes over the first worker.
            let other = open(server.url(), partitions, 0).await;
            other.rejoin(FIRST).await.unwrap();
            other.claim_worker(FIRST, 2).await.unwrap();
            assert_eq!(send(&first, transfers.clone()).await, [TransferResult::Declined]);
            let new_leases = lease(&other, FIRST, 20).await;
            assert_eq!(new_leases.len(), 20);
            assert_eq!(
                send(&other, transfers).await,
                [TransferResult::RetryLater],
                "the leases are outdated"
            );
            assert_eq!(
                send(&other, vec![transfer("a.test", SECOND, &new_leases)]).await,
                [TransferResult::Moved]
            );
            assert_eq!(lease(&second, SECOND, 20).await.len(), 10);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn death_of_either_worker_after_a_transfer_neither_undoes_it_nor_loses_urls() {
    for (partitions, is_removed) in [(1, false), (1, true), (16, false), (16, true)] {
        let server = Server::start();
        block_on(async {
            let backend = open(server.url(), partitions, 1).await;
            admit(&backend, &[pages("a.test", 80), pages("b.test", 20)]).await;
            let held = lease(&backend, FIRST, 30).await;
            register(&backend, SECOND).await;
            let results = send(&backend, vec![transfer("a.test", SECOND, &held)]).await;
            assert_eq!(results, [TransferResult::Moved]);
            for worker in [FIRST, SECOND] {
                assert!(worker == FIRST || !lease(&backend, worker, 5).await.is_empty());
                if is_removed {
                    backend.remove_worker(worker).await.unwrap();
                    assert!(lease(&backend, worker, 0).await.is_empty());
                } else {
                    backend.rejoin(worker).await.unwrap();
                }
                assert_adds_up(&backend.snapshot().await.unwrap());
            }
            let crawled = finish(&backend, &[FIRST, SECOND]).await;
            let mut all: Vec<String> = crawled.values().flatten().cloned().collect();
            all.sort();
            all.dedup();
            assert_eq!((all.len(), crawled.values().flatten().count()), (100, 100));
            if !is_removed {
                assert!(crawled[&FIRST].iter().all(|url| url.contains("b.test")));
            }
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn cut_connection_or_lost_transfer_duplicates_no_urls() {
    for (partitions, is_lost) in [(1, false), (1, true), (16, false), (16, true)] {
        let server = Server::start();
        let proxy = Proxy::for_server(&server);
        block_on(async {
            let first = open(proxy.url(), partitions, 1).await;
            admit(&first, &[pages("a.test", 70), pages("b.test", 20)]).await;
            let held = lease(&first, FIRST, 90).await;
            register(&first, SECOND).await;
            server.query::<()>("SAVE");
            let results = send(&first, vec![transfer("a.test", SECOND, &held)]).await;
            assert_eq!(results, [TransferResult::Moved]);
            if is_lost {
                server.restart();
            }
            proxy.close_connections();
            // The backend notices the new connection, and checks its leases.
            let mut new_leases = lease(&first, FIRST, 90).await;
            new_leases.extend(lease(&first, FIRST, 90).await);
            assert_eq!(
                new_leases.len(),
                if is_lost { 64 } else { 0 },
                "the first worker has the URLs again if the transfer was lost"
            );
            let all = held.iter().filter(|lease| lease.url.contains("b.test")).chain(&new_leases);
            let results = first.complete(all.map(page).collect()).await.unwrap();
            assert!(results.iter().all(|result| matches!(result, CompleteResult::Applied { .. })));
            finish(&first, &[FIRST, SECOND]).await;
            assert_eq!(first.snapshot().await.unwrap().pages, 90);
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn new_owner_waits_out_the_cooldowns_of_a_transferred_domain() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 16, 1).await;
        let hosts = ["a.test", "www.a.test", "m.a.test", "b.test"];
        admit(&backend, &hosts.map(|host| pages(host, 3))).await;
        let held = lease(&backend, FIRST, 12).await;
        register(&backend, SECOND).await;
        let completed = held.iter().find(|lease| lease.url.contains("//a.test")).unwrap();
        let host_delay =
            |seconds| HostDelay { delay: Duration::from_millis(1), cooldown: Duration::from_secs(seconds) };
        let completion = Completion { host_delay: Some(host_delay(20)), ..page(completed) };
        backend.complete(vec![completion]).await.unwrap();
        // Of this host, only robots.txt was fetched, because of a redirect.
        let mut transfer = transfer("a.test", SECOND, &held);
        transfer.leases.retain(|lease| lease != completed);
        transfer.cooldowns = vec![("www.a.test".into(), host_delay(40)), ("*.a.test".into(), host_delay(10))];
        assert_eq!(send(&backend, vec![transfer]).await, [TransferResult::Moved]);
        let leases = lease(&backend, SECOND, 12).await;
        assert_eq!(leases.len(), 8);
        for lease in leases {
            let due = Duration::from_secs(match () {
                () if lease.url.contains("//www.") => 40,
                () if lease.url.contains("//m.") => 10,
                () => 20,
            });
            assert!(lease.cooldown <= due && lease.cooldown + Duration::from_secs(2) > due, "{lease:?}");
        }
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn transfer_request_is_delivered_once_with_a_heartbeat_reply() {
    let server = Server::start();
    block_on(async {
        let backend = open(server.url(), 1, 0).await;
        let role = Role::Worker(FIRST);
        assert!(matches!(backend.join(Some(role), "a", "here", None).await.unwrap(), JoinResult::New(..)));
        let heartbeat = async || backend.heartbeat(role, "a", Duration::ZERO, Some(7)).await.unwrap();
        assert_eq!(heartbeat().await.transfer_targets, []);
        let member = backend.members().await.unwrap().0.remove(0);
        assert_eq!(member.domains, Some(7));
        let targets =
            vec![TransferTarget { id: SECOND, load: 0 }, TransferTarget { id: WorkerId(9), load: 30 }];
        backend.request_transfer(&member, &targets).await.unwrap();
        assert_eq!(heartbeat().await.transfer_targets, targets);
        assert_eq!(heartbeat().await.transfer_targets, []);
        // A process that takes over does not get the request.
        backend.request_transfer(&member, &targets).await.unwrap();
        let dead = backend.members().await.unwrap().0.remove(0);
        assert!(matches!(
            backend.join(Some(role), "b", "here", Some(&dead)).await.unwrap(),
            JoinResult::TookOver(..)
        ));
        backend.request_transfer(&dead, &targets).await.unwrap();
        assert_eq!(backend.heartbeat(role, "b", Duration::ZERO, None).await.unwrap().transfer_targets, []);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn host_is_claimed_by_one_worker_with_its_cooldown() {
    block_on(async {
        for partitions in [1, 4] {
            let server = Server::start();
            let backend = open(server.url(), partitions, 2).await;
            register(&backend, FIRST).await;
            admit(&backend, &[pages("a.test", 1)]).await;
            assert_eq!(lease(&backend, FIRST, 9).await.len(), 1);
            let claim = async |worker, host| backend.claim_host(worker, host).await.unwrap();
            assert_eq!(claim(SECOND, "www.a.test").await, HostClaim::OwnedBy(FIRST));
            let cooldown = Duration::from_secs(60);
            backend.set_host_delay("b.test", HostDelay { delay: cooldown, cooldown }).await.unwrap();
            for _ in 0..2 {
                let HostClaim::Granted { cooldown: rest } = claim(SECOND, "b.test").await else { panic!() };
                assert!(rest <= cooldown && rest > cooldown / 2, "{rest:?}");
            }
            assert_eq!(claim(FIRST, "b.test").await, HostClaim::OwnedBy(SECOND));
            assert_eq!(claim(SECOND, "www.b.test").await, HostClaim::Granted { cooldown: Duration::ZERO });
            let robots = "http://b.test/robots.txt";
            assert_eq!(backend.load_robots(robots).await.unwrap(), None);
            backend.store_robots(robots, b"User-agent: *").await.unwrap();
            assert_eq!(backend.load_robots(robots).await.unwrap().as_deref(), Some(&b"User-agent: *"[..]));
            register(&backend, SECOND).await;
            admit(&backend, &[pages("b.test", 1)]).await;
            assert_eq!(
                lease(&backend, SECOND, 9).await.len(),
                1,
                "its URLs go to the worker that claimed it"
            );
        }
    });
}
