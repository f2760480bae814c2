//! Random sequences of backend operations: no URL is lost or leased twice, queues stay within their limits, a domain
//! has one owner, and every priority queue is served.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crawler::internal::backend::local::{BackendConfig, HostLimits, LocalBackend};
use crawler::internal::backend::{
    AdmitCounts, Backend, CompleteResult, Completion, DiscoveredUrl, Lease, Outlinks, UnprioritizedUrl,
    WorkerId,
};
use crawler::internal::domain::{Domain, DomainInternals as _};
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::{Priority, PriorityQueues};
use proptest::prelude::*;
use proptest::sample::Index;

const NO_WAIT: Duration = Duration::ZERO;
const WORKERS: u16 = 3;

/// Maximum number of URLs of a host that are leased at a time.
const MAX_LEASES: usize = 7;

/// An operation on something chosen by an index.
#[derive(Debug, Clone)]
enum Operation {
    /// Admits URLs: pairs of a host and a page.
    Admit(Vec<(u8, u16)>),
    TakeUnprioritized(usize),
    /// Enqueues what the prioritizer took, with these priorities in rotation.
    EnqueuePrioritized(Vec<u8>),
    /// Lets the prioritizer take the waiting URLs of a host's domain again.
    Reprioritize(u8),
    Lease(u16, usize),
    /// Completes leases with these outlinks, as a page or not.
    Complete(Vec<Index>, Vec<(u8, u16)>, bool),
    /// Completes a lease that has ended.
    CompleteAgain(Index),
    RemoveWorker(u16),
    /// Advances the clock by minutes.
    Advance(u8),
}

fn urls(max: usize) -> impl Strategy<Value = Vec<(u8, u16)>> {
    prop::collection::vec((0..12u8, 0..200u16), 0..max)
}

fn operation() -> impl Strategy<Value = Operation> {
    let priorities = || prop::collection::vec(0..=100u8, 1..40);
    prop_oneof![
        3 => urls(60).prop_map(Operation::Admit),
        4 => (0..50usize).prop_map(Operation::TakeUnprioritized),
        4 => priorities().prop_map(Operation::EnqueuePrioritized),
        1 => (0..12u8).prop_map(Operation::Reprioritize),
        4 => (0..WORKERS, 0..30usize).prop_map(|(worker, max)| Operation::Lease(worker, max)),
        4 => (prop::collection::vec(any::<Index>(), 0..10), urls(20), any::<bool>())
            .prop_map(|(indices, outlinks, is_page)| Operation::Complete(indices, outlinks, is_page)),
        1 => any::<Index>().prop_map(Operation::CompleteAgain),
        1 => (0..WORKERS).prop_map(Operation::RemoveWorker),
        1 => (1..4u8).prop_map(Operation::Advance),
    ]
}

/// `b0.test` and `a0.test` are two domains, `a0.test` and `www.a0.test` one.
fn discovered((host, page): (u8, u16)) -> DiscoveredUrl {
    let host = match host {
        0..4 => format!("a{host}.test"),
        4..8 => format!("www.a{}.test", host - 4),
        _ => format!("b{host}.test"),
    };
    DiscoveredUrl { url: format!("http://{host}/{page}"), depth: 1, redirects: 0 }
}

fn priorities(numbers: &[u8]) -> Vec<Priority> {
    numbers.iter().map(|number| Priority::new(*number).unwrap()).collect()
}

/// What must hold for a backend, as far as a caller can see.
struct Model {
    backend: LocalBackend,
    queue_size: usize,
    /// Every URL that was ever admitted.
    admitted_urls: BTreeSet<String>,
    completed: BTreeSet<String>,
    unprioritized: Vec<UnprioritizedUrl>,
    leases: Vec<(WorkerId, Lease)>,
    ended_leases: Vec<Lease>,
}

impl Model {
    /// One worker is there from the start. The others join when they lease.
    fn new(queue_size: usize, priority_queues: usize, workers_share_throttle: bool) -> Model {
        let workers = 1;
        let config = BackendConfig {
            visits: Default::default(),
            queue_size,
            priority_queues: PriorityQueues::new(priority_queues).unwrap(),
            workers,
            // Longer than any sequence of operations takes.
            ttl: Duration::from_secs(24 * 3600),
            domain_ttl: Duration::from_secs(5 * 60),
            keep_depths: false,
            keep_discovery: false,
            similarity: None,
            strip_query: Default::default(),
            keep_content: false,
            max_pages: u64::MAX,
            max_bytes: u64::MAX,
            max_page_bytes: 1_000,
            max_pages_per_host: u64::MAX,
            max_pages_per_site: u64::MAX,
            hosts: HostLimits { max_leases: MAX_LEASES, workers_share_throttle, ..HostLimits::default() },
        };
        Model {
            backend: LocalBackend::new(config),
            queue_size,
            admitted_urls: BTreeSet::new(),
            completed: BTreeSet::new(),
            unprioritized: Vec::new(),
            leases: Vec::new(),
            ended_leases: Vec::new(),
        }
    }

    async fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Admit(urls) => {
                let urls: Vec<DiscoveredUrl> = urls.into_iter().map(discovered).collect();
                let new = self.mark_seen(&urls);
                let admitted = self.backend.admit(urls.clone()).await.unwrap();
                assert_eq!(admitted, AdmitCounts { new, seen: urls.len() as u64 - new });
            }
            Operation::TakeUnprioritized(max) => {
                let unprioritized = self.backend.take_unprioritized(max, NO_WAIT).await.unwrap();
                assert!(unprioritized.len() <= max);
                self.unprioritized.extend(unprioritized);
            }
            Operation::EnqueuePrioritized(numbers) => {
                let task_ids = self.unprioritized.drain(..).map(|url| url.task_id);
                let prioritized: Vec<_> = task_ids.zip(priorities(&numbers).into_iter().cycle()).collect();
                self.backend.enqueue_prioritized(prioritized.clone()).await.unwrap();
                // The operation is idempotent.
                self.backend.enqueue_prioritized(prioritized).await.unwrap();
            }
            Operation::Reprioritize(host) => {
                let domain = Domain::from_url_str(&discovered((host, 0)).url);
                let waiting = self.backend.reprioritize(vec![domain]).await.unwrap();
                assert!(waiting <= self.admitted_urls.len());
            }
            Operation::Lease(worker, max) => self.lease(WorkerId(worker), max).await,
            Operation::Complete(indices, outlinks, is_page) => {
                for index in indices {
                    if !self.leases.is_empty() {
                        let (_, lease) = self.leases.swap_remove(index.index(self.leases.len()));
                        self.complete(lease, &outlinks, is_page).await;
                    }
                }
            }
            Operation::CompleteAgain(index) => {
                if !self.ended_leases.is_empty() {
                    let lease = &self.ended_leases[index.index(self.ended_leases.len())];
                    let outlinks = Outlinks::new([discovered((99, 0)).url], 1);
                    let stale = Completion { outcome: Outcome::Page, outlinks, ..Completion::new(lease) };
                    assert_eq!(
                        self.backend.complete(vec![stale]).await.unwrap(),
                        [CompleteResult::StaleLease]
                    );
                }
            }
            Operation::RemoveWorker(worker) => {
                self.backend.remove_worker(WorkerId(worker)).await.unwrap();
                let (lost, remaining) =
                    self.leases.drain(..).partition(|(holder, _)| *holder == WorkerId(worker));
                self.leases = remaining;
                let lost: Vec<(WorkerId, Lease)> = lost;
                self.ended_leases.extend(lost.into_iter().map(|(_, lease)| lease));
            }
            Operation::Advance(minutes) => {
                tokio::time::advance(Duration::from_secs(60 * u64::from(minutes))).await
            }
        }
        self.check().await;
    }

    /// Number of these URLs that are new.
    fn mark_seen(&mut self, urls: &[DiscoveredUrl]) -> u64 {
        urls.iter().filter(|discovered| self.admitted_urls.insert(discovered.url.clone())).count() as u64
    }

    async fn lease(&mut self, worker: WorkerId, max: usize) {
        for lease in self.backend.lease(worker, max, NO_WAIT).await.unwrap() {
            assert!(self.admitted_urls.contains(&*lease.url), "{} was never admitted", lease.url);
            assert!(!self.completed.contains(&*lease.url), "{} was leased after its completion", lease.url);
            let is_leased = self.leases.iter().any(|(_, other)| other.url == lease.url);
            assert!(!is_leased, "{} is leased twice", lease.url);
            self.leases.push((worker, lease));
        }
    }

    async fn complete(&mut self, lease: Lease, outlinks: &[(u8, u16)], is_page: bool) {
        let outlinks: Vec<DiscoveredUrl> = outlinks.iter().copied().map(discovered).collect();
        let expected = self.mark_seen(&outlinks);
        let outcome = if is_page { Outcome::Page } else { Outcome::RobotsDisallowed };
        let outlinks = Outlinks::new(outlinks.iter().map(|outlink| &outlink.url), 1);
        let done = Completion { outcome, outlinks, ..Completion::new(&lease) };
        match self.backend.complete(vec![done]).await.unwrap()[0] {
            CompleteResult::Applied { id, new, .. } => assert_eq!((id.is_some(), new), (is_page, expected)),
            CompleteResult::Requeued { .. } => panic!("{} is to be fetched again", lease.url),
            CompleteResult::StaleLease => panic!("the lease of {} had not ended", lease.url),
        }
        assert!(self.completed.insert(lease.url.to_string()), "{} is completed twice", lease.url);
        self.ended_leases.push(lease);
    }

    /// Checks limits and owners, and that every pending URL is in one place.
    async fn check(&self) {
        let snapshot = self.backend.snapshot().await.unwrap();
        assert_eq!(
            (snapshot.admitted, snapshot.completed),
            (self.admitted_urls.len() as u64, self.completed.len() as u64)
        );
        assert!(self.unprioritized.len() <= self.queue_size, "{snapshot:?}");
        let leased: usize = snapshot.workers.iter().map(|worker| worker.leased).sum();
        assert_eq!(leased, self.leases.len());
        let located = snapshot.priority_queues.iter().sum::<usize>()
            + snapshot.url_queue
            + snapshot.overflow
            + self.unprioritized.len()
            + self.leases.len();
        assert_eq!(located as u64, snapshot.pending(), "{snapshot:?}");
        let (mut owners, mut hosts): (HashMap<Domain, WorkerId>, HashMap<String, usize>) = Default::default();
        for (worker, lease) in &self.leases {
            let owner = owners.entry(Domain::from_url_str(&lease.url)).or_insert(*worker);
            assert_eq!(owner, worker, "two workers have URLs of {}", Domain::from_url_str(&lease.url));
            let leased = hosts.entry(lease.url.split('/').nth(2).unwrap().to_owned()).or_default();
            *leased += 1;
            assert!(*leased <= MAX_LEASES);
        }
    }

    /// Runs the crawl to its end, with one operation of each kind after the other.
    async fn finish(mut self) {
        for round in 0..10_000 {
            self.apply(Operation::TakeUnprioritized(100)).await;
            self.apply(Operation::EnqueuePrioritized(vec![round as u8 % 101])).await;
            for worker in 0..WORKERS {
                self.apply(Operation::Lease(worker, 100)).await;
            }
            for (_, lease) in std::mem::take(&mut self.leases) {
                self.complete(lease, &[], true).await;
            }
            if self.backend.pending().await.unwrap() == 0 {
                assert_eq!(self.completed, self.admitted_urls, "no URL is lost");
                return;
            }
        }
        panic!("the crawl does not finish: {:?}", self.backend.snapshot().await);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_url_is_lost_or_leased_twice_and_limits_hold(
        operations in prop::collection::vec(operation(), 1..60),
        queue_size in prop_oneof![Just(1usize), 2..6usize, Just(50)],
        priority_queues in 1..12usize,
        workers_share_throttle: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut model = Model::new(queue_size, priority_queues, workers_share_throttle);
            for operation in operations {
                model.apply(operation).await;
            }
            model.finish().await;
        });
    }

}

/// A domain was listed for a worker that owned it, then its URLs were taken out to get other priorities, and return after the
/// ownership has expired. The worker that owned it is gone by then.
#[tokio::test(start_paused = true)]
async fn url_that_returns_to_a_domain_whose_owner_expired_and_left_is_leased() {
    let mut model = Model::new(1, 1, false);
    let before = [Operation::Admit(vec![(0, 0)]), Operation::TakeUnprioritized(1)];
    let prioritize = || Operation::EnqueuePrioritized(vec![0]);
    // Worker 1 asks for one URL, so the domain is given to worker 0, which has asked for none.
    let taken_out = [prioritize(), Operation::Advance(2), Operation::Reprioritize(0), Operation::Lease(1, 1)];
    let returns = [Operation::TakeUnprioritized(1), Operation::Advance(3), prioritize()];
    for operation in before.into_iter().chain(taken_out).chain(returns) {
        model.apply(operation).await;
    }
    model.apply(Operation::RemoveWorker(0)).await;
    model.finish().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    /// While every queue has URLs and no worker is full, each queue is served.
    #[test]
    fn every_priority_queue_is_served_and_better_ones_more_often(count in 2..12usize) {
        const ROUNDS: usize = 6_000;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let served = runtime.block_on(served_by_queue(count, ROUNDS));
        prop_assert_eq!(served.values().sum::<usize>(), ROUNDS);
        let served: Vec<usize> = (0..count).map(|queue| served.get(&queue).copied().unwrap_or(0)).collect();
        prop_assert!(served.iter().all(|times| *times > 0), "{served:?}");
        prop_assert!(served[0] > served[count - 1], "{served:?}");
    }
}

/// How often each priority queue is served in `rounds` draws, while no queue is empty.
async fn served_by_queue(count: usize, rounds: usize) -> BTreeMap<usize, usize> {
    // All domains must go to the one worker that asks.
    let model = Model::new(rounds, count, true);
    let (backend, queues) = (&model.backend, PriorityQueues::new(count).unwrap());
    let mut served = BTreeMap::new();
    let mut next = 0;
    // Start with three URLs per queue, and replace each one that is taken.
    for queue in (0..count).flat_map(|queue| [queue; 3]) {
        enqueue_one(backend, queues, queue, &mut next).await;
    }
    for _ in 0..rounds {
        let lease = backend.lease(WorkerId(0), 1, NO_WAIT).await.unwrap().remove(0);
        let queue: usize = lease.url["http://q".len()..].split('x').next().unwrap().parse().unwrap();
        *served.entry(queue).or_default() += 1;
        let done = Completion { outcome: Outcome::RobotsDisallowed, ..Completion::new(&lease) };
        backend.complete(vec![done]).await.unwrap();
        enqueue_one(backend, queues, queue, &mut next).await;
    }
    served
}

/// Puts a URL of a new domain into a priority queue.
async fn enqueue_one(backend: &LocalBackend, queues: PriorityQueues, queue: usize, next: &mut usize) {
    *next += 1;
    let url = format!("http://q{queue}x{next}.test/");
    backend.admit(vec![DiscoveredUrl { url, depth: 1, redirects: 0 }]).await.unwrap();
    let unprioritized = backend.take_unprioritized(1, NO_WAIT).await.unwrap();
    let priority = Priority::new(*queues.ranges()[queue].start()).unwrap();
    backend.enqueue_prioritized(vec![(unprioritized[0].task_id, priority)]).await.unwrap();
}
