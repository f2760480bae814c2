//! A Redis that has lost its most recent writes, as after a power failure or a failover: the crawl continues
//! from the older state and crawls every page.

use std::collections::BTreeSet;
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{
    Backend, CompleteResult, Completion, DiscoveredUrl, Lease, Outlinks, WorkerId,
};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::Priority;
use crawler::internal::stats::BodyBytes;
use testredis::Server;

use super::{block_on, config};

const WORKER: WorkerId = WorkerId(0);

async fn open(server: &Server, partitions: u16) -> RedisBackend {
    let crawl = RedisCrawl {
        partitions: Some(partitions),
        delay: Duration::from_millis(1),
        ..RedisCrawl::new(server.url().parse().unwrap(), "lost")
    };
    RedisBackend::open(crawl, BackendConfig { queue_size: 1_600, ..config(1) }).await.unwrap()
}

fn discovered(url: String) -> DiscoveredUrl {
    DiscoveredUrl { url, depth: 1, redirects: 0 }
}

/// Each page below `/first/` links to two pages below `/second/`, which have no links.
fn completion(lease: &Lease) -> Completion {
    let number: usize = lease.url.rsplit('/').next().unwrap().parse().unwrap();
    let links = if lease.url.contains("/first/") { 2 } else { 0 };
    let outlinks = (0..links).map(|link| {
        let target = (number + link) % 40;
        format!("http://h{}.test/second/{target}", target % 7)
    });
    let (bytes, outlinks) = (BodyBytes::unencoded(1), Outlinks::new(outlinks, 1));
    Completion { outcome: Outcome::Page, bytes, outlinks, ..Completion::new(lease) }
}

async fn route_and_lease(backend: &RedisBackend) -> Vec<Lease> {
    let urls = backend.take_unprioritized(1_000, Duration::ZERO).await.unwrap();
    backend
        .enqueue_prioritized(urls.iter().map(|url| (url.task_id, Priority::BEST)).collect())
        .await
        .unwrap();
    backend.route(vec![Priority::BEST; 1_000], Duration::ZERO).await.unwrap();
    backend.lease(WORKER, 15, Duration::ZERO).await.unwrap()
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn lost_writes_are_repeated_and_every_page_is_crawled() {
    for partitions in [1, 16] {
        let server = Server::start();
        block_on(async {
            let backend = open(&server, partitions).await;
            let seeds = (0..40).map(|seed| discovered(format!("http://h{}.test/first/{seed}", seed % 7)));
            backend.admit(seeds.collect()).await.unwrap();
            let before = route_and_lease(&backend).await;
            assert_eq!(before.len(), 15);
            server.query::<()>("SAVE");
            // Redis acknowledges these operations, and then loses them.
            backend.complete(before.iter().map(completion).collect()).await.unwrap();
            let leases = route_and_lease(&backend).await;
            assert!(!leases.is_empty());
            server.restart();
            assert_eq!(backend.snapshot().await.unwrap().completed, 0, "everything since SAVE is lost");

            let results = backend.complete(leases.iter().map(completion).collect()).await.unwrap();
            assert!(results.iter().all(|result| *result == CompleteResult::StaleLease));
            let mut crawled = BTreeSet::new();
            for _ in 0..100 {
                let leases = route_and_lease(&backend).await;
                crawled.extend(leases.iter().map(|lease| lease.url.clone()));
                backend.complete(leases.iter().map(completion).collect()).await.unwrap();
                if backend.outstanding().await.unwrap() == 0 {
                    break;
                }
            }
            let snapshot = backend.snapshot().await.unwrap();
            assert_eq!((snapshot.outstanding(), snapshot.pages, crawled.len()), (0, 80, 80));
            assert_eq!(snapshot.outcomes["page"], 80);
            assert_eq!((snapshot.active_hosts, snapshot.parked), (0, 0));
        });
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn lost_lease_does_not_complete_a_lease_of_another_url() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server, 1).await;
        server.query::<()>("SAVE");
        backend.admit(vec![discovered("http://a.test/first/1".into())]).await.unwrap();
        let lost = route_and_lease(&backend).await;
        server.restart();
        let other = open(&server, 1).await;
        other.admit(vec![discovered("http://b.test/first/2".into())]).await.unwrap();
        let leases = route_and_lease(&other).await;
        assert_eq!(
            (leases[0].task_id, leases.len()),
            (lost[0].task_id, 1),
            "it has the task ID of the lost one"
        );
        let result = backend.complete(vec![completion(&lost[0])]).await.unwrap();
        assert_eq!(result, [CompleteResult::StaleLease]);
        let result = other.complete(vec![completion(&leases[0])]).await.unwrap();
        assert!(matches!(result[..], [CompleteResult::Applied { id: Some(1), .. }]));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn lost_partition_accepts_new_urls() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server, 4).await;
        let seeds = |name: &str| {
            (0..40).map(|seed| discovered(format!("http://{name}{seed}.test/second/1"))).collect()
        };
        backend.admit(seeds("a")).await.unwrap();
        let leases = route_and_lease(&backend).await;
        for key in server.query::<Vec<String>>("KEYS crawler:{lost:p2}:*") {
            server.query::<i64>(&format!("DEL {key}"));
        }
        backend.complete(leases.iter().map(completion).collect()).await.unwrap();
        assert_eq!(backend.admit(seeds("b")).await.unwrap().new, 40);
        let mut crawled = BTreeSet::new();
        for _ in 0..100 {
            let leases = route_and_lease(&backend).await;
            crawled.extend(leases.iter().map(|lease| lease.url.clone()));
            backend.complete(leases.iter().map(completion).collect()).await.unwrap();
            if backend.outstanding().await.unwrap() == 0 {
                break;
            }
        }
        assert_eq!(crawled.iter().filter(|url| url.contains("//b")).count(), 40);
        assert_eq!(backend.outstanding().await.unwrap(), 0);
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn cut_connection_loses_no_lease() {
    let server = Server::start();
    let proxy = testredis::Proxy::for_server(&server);
    block_on(async {
        let crawl = RedisCrawl {
            partitions: Some(4),
            delay: Duration::ZERO,
            ..RedisCrawl::new(proxy.url().parse().unwrap(), "cut")
        };
        let backend = RedisBackend::open(crawl, config(1)).await.unwrap();
        let seeds = (0..20).map(|seed| discovered(format!("http://h{seed}.test/second/{seed}")));
        backend.admit(seeds.collect()).await.unwrap();
        let mut leases = route_and_lease(&backend).await;
        proxy.close_connections();
        leases.extend(route_and_lease(&backend).await);
        let results = backend.complete(leases.iter().map(completion).collect()).await.unwrap();
        assert_eq!(results.len(), 20);
        assert!(results.iter().all(|result| matches!(result, CompleteResult::Applied { .. })));
    });
}
