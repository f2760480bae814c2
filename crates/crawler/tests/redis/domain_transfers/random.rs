//! Domain transfers between random other operations.

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, CompleteResult, DomainTransfer, Lease, TransferResult, WorkerId};
use testredis::Server;

use super::super::{block_on, config, route};
use super::{FIRST, SECOND, admit, assert_adds_up, finish, lease, page, transfer};

/// A random number generator with a fixed sequence per seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn every_url_is_crawled_once_with_random_transfers_and_operations() {
    let server = Server::start();
    for (seed, partitions, queue_size) in [(1, 1, 1_600), (2, 16, 1_600), (3, 1, 50), (4, 16, 50), (5, 1, 7)]
    {
        server.query::<()>("FLUSHALL");
        block_on(async {
            let crawl = RedisCrawl {
                partitions: Some(partitions),
                ..RedisCrawl::new(server.url().parse().unwrap(), "transfers")
            };
            let config = BackendConfig { queue_size, ..config(3) };
            let backend = RedisBackend::open(crawl, config).await.unwrap();
            let (mut random, mut admitted) = (Random(seed), 0);
            let mut leased: Vec<Vec<Lease>> = vec![Vec::new(); 3];
            let mut moved = 0;
            for _ in 0..150 {
                let worker = random.below(3);
                let (id, leases) = (WorkerId(worker as u16), &mut leased[worker]);
                match random.below(10) {
                    0 | 1 => {
                        let urls = (0..random.below(60))
                            .map(|n| format!("http://h{}.test/{}", random.below(9), admitted + n))
                            .collect::<Vec<_>>();
                        admitted += urls.len();
                        admit(&backend, &[urls]).await;
                    }
                    2..5 => leases.extend(lease(&backend, id, 1 + random.below(50)).await),
                    5 => {
                        leases.clear();
                        backend.rejoin(id).await.unwrap();
                    }
                    6 | 7 => {
                        let some = leases.drain(..leases.len() / 2).collect::<Vec<_>>();
                        let results = backend.complete(some.iter().map(page).collect()).await.unwrap();
                        assert!(
                            results.iter().all(|result| matches!(result, CompleteResult::Applied { .. }))
                        );
                        route(&backend).await;
                    }
                    _ => {
                        let to = WorkerId(random.below(3) as u16);
                        let transfers: Vec<DomainTransfer> = (0..1 + random.below(9))
                            .map(|host| transfer(&format!("h{host}.test"), to, leases))
                            .collect();
                        let results = backend.transfer_domains(id, transfers.clone()).await.unwrap();
                        for (transfer, _) in transfers
                            .iter()
                            .zip(results)
                            .filter(|(_, result)| *result == TransferResult::Moved)
                        {
                            moved += 1;
                            leases.retain(|lease| !transfer.leases.contains(lease));
                        }
                    }
                }
                assert_adds_up(&backend.snapshot().await.unwrap());
            }
            assert!(moved > 5, "{moved} domains were transferred");
            for leases in leased {
                let results = backend.complete(leases.iter().map(page).collect()).await.unwrap();
                assert!(results.iter().all(|result| matches!(result, CompleteResult::Applied { .. })));
            }
            finish(&backend, &[FIRST, SECOND, WorkerId(2)]).await;
            assert_eq!(backend.snapshot().await.unwrap().pages, admitted as u64);
        });
    }
}
