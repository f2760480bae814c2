//! Domains passed on in the midst of random other moves.

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};
use crawler::internal::backend::{Backend, CompleteResult, DomainTransfer, Lease, TransferResult, WorkerId};
use testredis::Server;

use super::super::{block_on, route, settings};
use super::{FIRST, SECOND, admit, assert_adds_up, finish, handover, kept, lease};

/// The same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn whatever_is_passed_on_between_other_moves_everything_is_visited_once() {
    let server = Server::start();
    for (seed, partitions, queue_size) in [(1, 1, 1_600), (2, 16, 1_600), (3, 1, 50), (4, 16, 50), (5, 1, 7)]
    {
        server.ask::<()>("FLUSHALL");
        block_on(async {
            let place = RedisCrawl {
                partitions: Some(partitions),
                ..RedisCrawl::new(server.url().parse().unwrap(), "passing")
            };
            let settings = BackendConfig { queue_size, ..settings(3) };
            let backend = RedisBackend::open(place, settings).await.unwrap();
            let (mut random, mut admitted) = (Random(seed), 0);
            let mut in_hand: Vec<Vec<Lease>> = vec![Vec::new(); 3];
            let mut moved = 0;
            for _ in 0..150 {
                let worker = random.below(3);
                let (id, others) = (WorkerId(worker as u16), &mut in_hand[worker]);
                match random.below(10) {
                    0 | 1 => {
                        let urls = (0..random.below(60))
                            .map(|n| format!("http://h{}.test/{}", random.below(9), admitted + n))
                            .collect::<Vec<_>>();
                        admitted += urls.len();
                        admit(&backend, &[urls]).await;
                    }
                    2..5 => others.extend(lease(&backend, id, 1 + random.below(50)).await),
                    5 => {
                        others.clear();
                        backend.rejoin(id).await.unwrap();
                    }
                    6 | 7 => {
                        let some = others.drain(..others.len() / 2).collect::<Vec<_>>();
                        let ended = backend.complete(some.iter().map(kept).collect()).await.unwrap();
                        assert!(ended.iter().all(|ended| matches!(ended, CompleteResult::Applied { .. })));
                        route(&backend).await;
                    }
                    _ => {
                        let to = WorkerId(random.below(3) as u16);
                        let handovers: Vec<DomainTransfer> = (0..1 + random.below(9))
                            .map(|host| handover(&format!("h{host}.test"), to, others))
                            .collect();
                        let passed = backend.transfer_domains(id, handovers.clone()).await.unwrap();
                        for (handover, _) in handovers
                            .iter()
                            .zip(passed)
                            .filter(|(_, passed)| *passed == TransferResult::Moved)
                        {
                            moved += 1;
                            others.retain(|lease| !handover.leases.contains(lease));
                        }
                    }
                }
                assert_adds_up(&backend.snapshot().await.unwrap());
            }
            assert!(moved > 5, "{moved} domains were passed on");
            for leases in in_hand {
                let ended = backend.complete(leases.iter().map(kept).collect()).await.unwrap();
                assert!(ended.iter().all(|ended| matches!(ended, CompleteResult::Applied { .. })));
            }
            finish(&backend, &[FIRST, SECOND, WorkerId(2)]).await;
            assert_eq!(backend.snapshot().await.unwrap().pages, admitted as u64);
        });
    }
}
