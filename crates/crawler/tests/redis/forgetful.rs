//! A Redis that has lost what it did last, as after a loss of power or a failover: the crawl goes on from what it still
//! knows, and reaches everything.

use std::collections::BTreeSet;
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, CompleteResult, Completion, DiscoveredUrl, Lease, WorkerId};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::Priority;
use testredis::Server;

use super::{block_on, settings};

const WORKER: WorkerId = WorkerId(0);

async fn open(server: &Server, partitions: u16) -> RedisBackend {
    let place = RedisCrawl {
        partitions: Some(partitions),
        delay: Duration::from_millis(1),
        ..RedisCrawl::new(server.url().parse().unwrap(), "forgetful")
    };
    RedisBackend::open(place, BackendConfig { queue_size: 1_600, ..settings(1) }).await.unwrap()
}

fn found(url: String) -> DiscoveredUrl {
    DiscoveredUrl { url, depth: 1, redirects: 0 }
}

/// Every page of the first kind links to two of the second kind, and they to nothing.
fn completion(lease: &Lease) -> Completion {
    let number: usize = lease.url.rsplit('/').next().unwrap().parse().unwrap();
    let links = if lease.url.contains("/first/") { 2 } else { 0 };
    let outlinks = (0..links).map(|link| {
        let child = (number + link) % 40;
        found(format!("http://h{}.test/second/{child}", child % 7))
    });
    Completion { outcome: Outcome::Page, bytes: 1, outlinks: outlinks.collect(), ..Completion::new(lease) }
}

async fn move_on(backend: &RedisBackend) -> Vec<Lease> {
    let incoming = backend.take_unprioritized(1_000, Duration::ZERO).await.unwrap();
    backend
        .enqueue_prioritized(incoming.iter().map(|one| (one.task_id, Priority::BEST)).collect())
        .await
        .unwrap();
    backend.route(vec![Priority::BEST; 1_000], Duration::ZERO).await.unwrap();
    backend.lease(WORKER, 15, Duration::ZERO).await.unwrap()
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn what_redis_lost_is_done_again_and_everything_is_reached() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let backend = open(&server, partitions).await;
            let seeds = (0..40).map(|seed| found(format!("http://h{}.test/first/{seed}", seed % 7)));
            backend.admit(seeds.collect()).await.unwrap();
            let before = move_on(&backend).await;
            assert_eq!(before.len(), 15);
            server.ask::<()>("SAVE");
            // All of this is acknowledged, and then lost.
            backend.complete(before.iter().map(completion).collect()).await.unwrap();
            let in_hand = move_on(&backend).await;
            assert!(!in_hand.is_empty());
            server.restart();
            assert_eq!(backend.snapshot().await.unwrap().completed, 0, "it has lost everything since");

            let refused = backend.complete(in_hand.iter().map(completion).collect()).await.unwrap();
            assert!(refused.iter().all(|ended| *ended == CompleteResult::StaleLease));
            let mut visited = BTreeSet::new();
            for _ in 0..100 {
                let leases = move_on(&backend).await;
                visited.extend(leases.iter().map(|lease| lease.url.clone()));
                backend.complete(leases.iter().map(completion).collect()).await.unwrap();
                if backend.outstanding().await.unwrap() == 0 {
                    break;
                }
            }
            let snapshot = backend.snapshot().await.unwrap();
            assert_eq!((snapshot.outstanding(), snapshot.pages, visited.len()), (0, 80, 80));
            assert_eq!(snapshot.outcomes["kept"], 80);
            assert_eq!((snapshot.active_hosts, snapshot.parked), (0, 0));
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_loan_that_redis_has_lost_does_not_end_that_of_another_url() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server, 1).await;
        server.ask::<()>("SAVE");
        backend.admit(vec![found("http://a.test/first/1".into())]).await.unwrap();
        let lost = move_on(&backend).await;
        server.restart();
        let other = open(&server, 1).await;
        other.admit(vec![found("http://b.test/first/2".into())]).await.unwrap();
        let leases = move_on(&other).await;
        assert_eq!(
            (leases[0].task_id, leases.len()),
            (lost[0].task_id, 1),
            "it has the ticket of the one that was lost"
        );
        let ended = backend.complete(vec![completion(&lost[0])]).await.unwrap();
        assert_eq!(ended, [CompleteResult::StaleLease]);
        let ended = other.complete(vec![completion(&leases[0])]).await.unwrap();
        assert!(matches!(ended[..], [CompleteResult::Applied { id: Some(1), .. }]));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_part_that_redis_has_lost_altogether_goes_on_with_what_comes() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server, 4).await;
        let seeds =
            |name: &str| (0..40).map(|seed| found(format!("http://{name}{seed}.test/second/1"))).collect();
        backend.admit(seeds("a")).await.unwrap();
        let in_hand = move_on(&backend).await;
        for key in server.ask::<Vec<String>>("KEYS crawler:{forgetful:p2}:*") {
            server.ask::<i64>(&format!("DEL {key}"));
        }
        backend.complete(in_hand.iter().map(completion).collect()).await.unwrap();
        assert_eq!(backend.admit(seeds("b")).await.unwrap().new, 40);
        let mut visited = BTreeSet::new();
        for _ in 0..100 {
            let leases = move_on(&backend).await;
            visited.extend(leases.iter().map(|lease| lease.url.clone()));
            backend.complete(leases.iter().map(completion).collect()).await.unwrap();
            if backend.outstanding().await.unwrap() == 0 {
                break;
            }
        }
        assert_eq!(visited.iter().filter(|url| url.contains("//b")).count(), 40);
        assert_eq!(backend.outstanding().await.unwrap(), 0);
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_connection_that_was_only_cut_costs_no_loan() {
    let server = Server::start();
    let proxy = testredis::Proxy::before(&server);
    block_on(async {
        let place = RedisCrawl {
            partitions: Some(4),
            delay: Duration::ZERO,
            ..RedisCrawl::new(proxy.url().parse().unwrap(), "cut")
        };
        let backend = RedisBackend::open(place, settings(1)).await.unwrap();
        let seeds = (0..20).map(|seed| found(format!("http://h{seed}.test/second/{seed}")));
        backend.admit(seeds.collect()).await.unwrap();
        let mut leases = move_on(&backend).await;
        proxy.cut();
        leases.extend(move_on(&backend).await);
        let completed = backend.complete(leases.iter().map(completion).collect()).await.unwrap();
        assert_eq!(completed.len(), 20);
        assert!(completed.iter().all(|ended| matches!(ended, CompleteResult::Applied { .. })));
    });
}
