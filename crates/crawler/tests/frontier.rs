//! Random sequences of the moves of a URL: nothing is lost or comes twice, queues keep their bounds, a domain has one
//! owner, and every priority queue its chance.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crawler::internal::backend::local::{BackendConfig, LocalBackend};
use crawler::internal::backend::{
    AdmitCounts, Backend, CompleteResult, Completion, DiscoveredUrl, Lease, UnprioritizedUrl, WorkerId,
};
use crawler::internal::domain::Domain;
use crawler::internal::outcome::Outcome;
use crawler::internal::prioritizer::{Priority, PriorityQueues, Random, draw};
use proptest::prelude::*;
use proptest::sample::Index;

const NO_WAIT: Duration = Duration::ZERO;
const WORKERS: u16 = 3;

/// How many URLs of a domain a worker has at most, in its queue and on loan.
const DOMAIN_SHARE: usize = 64;

/// One move, of something chosen by an index.
#[derive(Debug, Clone)]
enum Step {
    /// URLs are met: pairs of a host and a page.
    Admit(Vec<(u8, u16)>),
    UnprioritizedUrl(usize),
    /// What is lent to the prioritizer is filed under these priorities, in turn.
    File(Vec<u8>),
    Route(Vec<u8>),
    Lease(u16, usize),
    /// Loans are completed with these children, kept or not.
    Complete(Vec<Index>, Vec<(u8, u16)>, bool),
    /// A loan that has ended is completed once more.
    CompleteAgain(Index),
    Leave(u16),
    /// Time passes, in minutes.
    Wait(u8),
}

fn urls(most: usize) -> impl Strategy<Value = Vec<(u8, u16)>> {
    prop::collection::vec((0..12u8, 0..200u16), 0..most)
}

fn step() -> impl Strategy<Value = Step> {
    let priorities = || prop::collection::vec(0..=100u8, 1..40);
    prop_oneof![
        3 => urls(60).prop_map(Step::Admit),
        4 => (0..50usize).prop_map(Step::UnprioritizedUrl),
        4 => priorities().prop_map(Step::File),
        5 => priorities().prop_map(Step::Route),
        4 => (0..WORKERS, 0..30usize).prop_map(|(worker, max)| Step::Lease(worker, max)),
        4 => (prop::collection::vec(any::<Index>(), 0..10), urls(20), any::<bool>())
            .prop_map(|(which, outlinks, kept)| Step::Complete(which, outlinks, kept)),
        1 => any::<Index>().prop_map(Step::CompleteAgain),
        1 => (0..WORKERS).prop_map(Step::Leave),
        1 => (1..4u8).prop_map(Step::Wait),
    ]
}

/// `b0.test` and `a0.test` are of two domains, `a0.test` and `www.a0.test` of one.
fn found((host, page): (u8, u16)) -> DiscoveredUrl {
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

/// What must be true of resources, as far as one can know it from outside.
struct Model {
    backend: LocalBackend,
    queue_size: usize,
    /// Everything that was ever admitted.
    met: BTreeSet<String>,
    completed: BTreeSet<String>,
    incoming: Vec<UnprioritizedUrl>,
    loans: Vec<(WorkerId, Lease)>,
    ended: Vec<Lease>,
}

impl Model {
    fn new(queue_size: usize, priority_queues: usize) -> Model {
        let settings = BackendConfig {
            queue_size,
            priority_queues: PriorityQueues::new(priority_queues).unwrap(),
            workers: WORKERS,
            // Longer than any sequence of moves takes.
            ttl: Duration::from_secs(24 * 3600),
            domain_ttl: Duration::from_secs(5 * 60),
            keep_depths: false,
            similarity: None,
            keep_content: false,
            max_pages: u64::MAX,
            max_bytes: u64::MAX,
            max_page_bytes: 1_000,
            max_pages_per_host: u64::MAX,
        };
        Model {
            backend: LocalBackend::new(settings),
            queue_size,
            met: BTreeSet::new(),
            completed: BTreeSet::new(),
            incoming: Vec::new(),
            loans: Vec::new(),
            ended: Vec::new(),
        }
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Admit(urls) => {
                let urls: Vec<DiscoveredUrl> = urls.into_iter().map(found).collect();
                let new = self.meet(&urls);
                let admitted = self.backend.admit(urls.clone()).await.unwrap();
                assert_eq!(admitted, AdmitCounts { new, seen: urls.len() as u64 - new });
            }
            Step::UnprioritizedUrl(max) => {
                let incoming = self.backend.take_unprioritized(max, NO_WAIT).await.unwrap();
                assert!(incoming.len() <= max);
                self.incoming.extend(incoming);
            }
            Step::File(numbers) => {
                let lent = self.incoming.drain(..).map(|incoming| incoming.task_id);
                let filed: Vec<_> = lent.zip(priorities(&numbers).into_iter().cycle()).collect();
                self.backend.enqueue_prioritized(filed.clone()).await.unwrap();
                // Harmless when repeated.
                self.backend.enqueue_prioritized(filed).await.unwrap();
            }
            Step::Route(numbers) => {
                let moved = self.backend.route(priorities(&numbers), NO_WAIT).await.unwrap();
                // What the dead left is routed as well, whatever was drawn.
                assert!(moved <= numbers.len() + self.met.len());
            }
            Step::Lease(worker, max) => self.lease(WorkerId(worker), max).await,
            Step::Complete(which, outlinks, kept) => {
                for index in which {
                    if !self.loans.is_empty() {
                        let (_, lease) = self.loans.swap_remove(index.index(self.loans.len()));
                        self.complete(lease, &outlinks, kept).await;
                    }
                }
            }
            Step::CompleteAgain(index) => {
                if !self.ended.is_empty() {
                    let lease = &self.ended[index.index(self.ended.len())];
                    let outlinks = vec![found((99, 0))];
                    let is_revisit =
                        Completion { outcome: Outcome::Page, outlinks, ..Completion::new(lease) };
                    assert_eq!(
                        self.backend.complete(vec![is_revisit]).await.unwrap(),
                        [CompleteResult::StaleLease]
                    );
                }
            }
            Step::Leave(worker) => {
                self.backend.remove_worker(WorkerId(worker)).await.unwrap();
                let (lost, kept) = self.loans.drain(..).partition(|(holder, _)| *holder == WorkerId(worker));
                self.loans = kept;
                let lost: Vec<(WorkerId, Lease)> = lost;
                self.ended.extend(lost.into_iter().map(|(_, lease)| lease));
            }
            Step::Wait(minutes) => tokio::time::advance(Duration::from_secs(60 * u64::from(minutes))).await,
        }
        self.check().await;
    }

    /// How many of these are new.
    fn meet(&mut self, urls: &[DiscoveredUrl]) -> u64 {
        urls.iter().filter(|found| self.met.insert(found.url.clone())).count() as u64
    }

    async fn lease(&mut self, worker: WorkerId, max: usize) {
        for lease in self.backend.lease(worker, max, NO_WAIT).await.unwrap() {
            assert!(self.met.contains(&lease.url), "{} was never admitted", lease.url);
            assert!(!self.completed.contains(&lease.url), "{} comes after its completion", lease.url);
            let twice = self.loans.iter().any(|(_, other)| other.url == lease.url);
            assert!(!twice, "{} is on loan twice", lease.url);
            self.loans.push((worker, lease));
        }
    }

    async fn complete(&mut self, lease: Lease, outlinks: &[(u8, u16)], kept: bool) {
        let outlinks: Vec<DiscoveredUrl> = outlinks.iter().copied().map(found).collect();
        let expected = self.meet(&outlinks);
        let outcome = if kept { Outcome::Page } else { Outcome::RobotsDisallowed };
        let done = Completion { outcome, outlinks, ..Completion::new(&lease) };
        match self.backend.complete(vec![done]).await.unwrap()[0] {
            CompleteResult::Applied { id, new, .. } => assert_eq!((id.is_some(), new), (kept, expected)),
            CompleteResult::StaleLease => panic!("the loan of {} had not ended", lease.url),
        }
        assert!(self.completed.insert(lease.url.clone()), "{} is completed twice", lease.url);
        self.ended.push(lease);
    }

    /// Bounds, owners, and that everything is somewhere.
    async fn check(&self) {
        let snapshot = self.backend.snapshot().await.unwrap();
        assert_eq!(
            (snapshot.admitted, snapshot.completed),
            (self.met.len() as u64, self.completed.len() as u64)
        );
        let queued: Vec<usize> = snapshot.workers.iter().map(|(queued, _)| *queued).collect();
        let lengths = snapshot.priority_queues.iter().chain(&queued).chain([&snapshot.url_queue.0]);
        assert!(lengths.clone().all(|length| *length <= self.queue_size), "{snapshot:?}");
        let on_loan: usize = snapshot.workers.iter().map(|(_, on_loan)| on_loan).sum();
        assert_eq!(on_loan, self.loans.len());
        let somewhere = lengths.sum::<usize>()
            + snapshot.url_queue.1
            + self.incoming.len()
            + snapshot.waiting
            + self.loans.len();
        assert_eq!(somewhere as u64, snapshot.outstanding(), "{snapshot:?}");
        let mut owners: HashMap<Domain, (WorkerId, usize)> = HashMap::new();
        for (worker, lease) in &self.loans {
            let (owner, held) = owners.entry(Domain::from_url_str(&lease.url)).or_insert((*worker, 0));
            assert_eq!(owner, worker, "two have URLs of {}", Domain::from_url_str(&lease.url));
            *held += 1;
            assert!(*held <= DOMAIN_SHARE);
        }
    }

    /// Brings everything to its end, with one move of each kind after the other.
    async fn finish(mut self) {
        for round in 0..100_000 {
            self.take(Step::UnprioritizedUrl(100)).await;
            self.take(Step::File(vec![round as u8 % 101])).await;
            self.take(Step::Route(vec![50; 100])).await;
            for worker in 0..WORKERS {
                self.take(Step::Lease(worker, 100)).await;
            }
            for (_, lease) in std::mem::take(&mut self.loans) {
                self.complete(lease, &[], true).await;
            }
            if self.backend.outstanding().await.unwrap() == 0 {
                assert_eq!(self.completed, self.met, "nothing is lost");
                return;
            }
        }
        panic!("it does not come to an end: {:?}", self.backend.snapshot().await);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn whatever_happens_to_urls_none_is_lost_none_comes_twice_and_bounds_hold(
        steps in prop::collection::vec(step(), 1..60),
        queue_size in prop_oneof![Just(1usize), 2..6usize, Just(50)],
        priority_queues in 1..12usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut model = Model::new(queue_size, priority_queues);
            for step in steps {
                model.take(step).await;
            }
            model.finish().await;
        });
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    /// As long as every queue has something and workers take what they are given, each queue is served.
    #[test]
    fn every_priority_queue_keeps_its_chance_and_better_ones_the_better(seed: u64, count in 2..12usize) {
        const ROUNDS: usize = 6_000;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let served = runtime.block_on(served_by_queue(seed, count, ROUNDS));
        prop_assert_eq!(served.values().sum::<usize>(), ROUNDS);
        let served: Vec<usize> = (0..count).map(|queue| served.get(&queue).copied().unwrap_or(0)).collect();
        prop_assert!(served.iter().all(|times| *times > 0), "{served:?}");
        prop_assert!(served[0] > served[count - 1], "{served:?}");
    }
}

/// How often each priority queue was served in so many draws, of which none finds a queue empty.
async fn served_by_queue(seed: u64, count: usize, rounds: usize) -> BTreeMap<usize, usize> {
    let model = Model::new(rounds, count);
    let (backend, queues) = (&model.backend, PriorityQueues::new(count).unwrap());
    let mut random = Random::seeded(seed);
    let mut served = BTreeMap::new();
    let mut next = 0;
    // Some in stock for each queue, and one more of the kind that was taken.
    for queue in (0..count).flat_map(|queue| [queue; 3]) {
        file_one(backend, queues, queue, &mut next).await;
    }
    for _ in 0..rounds {
        assert_eq!(backend.route(vec![draw(&mut random)], NO_WAIT).await.unwrap(), 1);
        for worker in 0..WORKERS {
            for lease in backend.lease(WorkerId(worker), 1, NO_WAIT).await.unwrap() {
                let queue: usize = lease.url["http://q".len()..].split('x').next().unwrap().parse().unwrap();
                *served.entry(queue).or_default() += 1;
                let done = Completion { outcome: Outcome::RobotsDisallowed, ..Completion::new(&lease) };
                backend.complete(vec![done]).await.unwrap();
                file_one(backend, queues, queue, &mut next).await;
            }
        }
    }
    served
}

/// Puts a URL of a domain of its own into a priority queue.
async fn file_one(backend: &LocalBackend, queues: PriorityQueues, queue: usize, next: &mut usize) {
    *next += 1;
    let url = format!("http://q{queue}x{next}.test/");
    backend.admit(vec![DiscoveredUrl { url, depth: 1, redirects: 0 }]).await.unwrap();
    let incoming = backend.take_unprioritized(1, NO_WAIT).await.unwrap();
    let priority = Priority::new(*queues.ranges()[queue].start()).unwrap();
    backend.enqueue_prioritized(vec![(incoming[0].task_id, priority)]).await.unwrap();
}
