//! Random operations on a durable state that is closed, or crashes, and is opened again: no URL is lost, and no
//! completed URL is leased again.

mod bodies;
mod faults;
mod hosts;
mod recrawls;
mod requisites;
mod retries;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::{Backend, CompleteResult, Completion, DiscoveredUrl, Lease, Outlinks, WorkerId};
use super::disk_storage::DiskStorage;
use super::open::{CLOCK_INTERVAL, open_with};
use super::outputs::OpenOutputs;
use super::scope_change::ResumedScope;
use super::seen_cache::CacheLimits;
use super::{OpenState, RecordedSettings, STATE_FILE, StateOptions, StateReader, StateWriter, UrlStatus};
use crate::backend::local::storage::Clock;
use crate::backend::local::{BackendConfig, HostLimits, LocalBackend};
use crate::error::Error;
use crate::modules::output::Writes;
use crate::outcome::Outcome;
use crate::prioritizer::{Priority, PriorityQueues};
use crate::scope::Scope;
use crate::task::Depth;
use crate::url_record::UrlRecord;

/// How long pages are stored.
const TTL: Duration = Duration::from_secs(160);

/// A cache so small that rows are evicted and written all the time.
const SMALL_CACHE: CacheLimits = CacheLimits { half: 4, write_at: 6 };

fn options(queue_size: usize) -> StateOptions {
    let config = BackendConfig {
        visits: Default::default(),
        queue_size,
        priority_queues: PriorityQueues::new(3).unwrap(),
        workers: 1,
        ttl: TTL,
        domain_ttl: Duration::from_secs(300),
        keep_depths: true,
        keep_discovery: false,
        similarity: None,
        strip_query: Default::default(),
        keep_content: false,
        max_pages: u64::MAX,
        max_bytes: u64::MAX,
        max_page_bytes: 1_000,
        max_pages_per_host: u64::MAX,
        max_pages_per_site: u64::MAX,
        hosts: HostLimits::default(),
    };
    StateOptions {
        recrawl: None,
        clock_interval: CLOCK_INTERVAL,
        config,
        delay: Duration::ZERO,
        recorded_settings: RecordedSettings::default(),
        metadata: Vec::new(),
        retry_failed: false,
    }
}

/// Opens a state whose scope is the whole web.
fn open_anywhere(path: &Path, options: StateOptions, limits: CacheLimits) -> Result<OpenState, Error> {
    open_with_outputs(path, options, limits, TestOutputs { can_be_completed: true })
}

fn open_with_outputs(
    path: &Path,
    options: StateOptions,
    limits: CacheLimits,
    outputs: TestOutputs,
) -> Result<OpenState, Error> {
    let scope = Scope::anywhere();
    let scope = ResumedScope { scope: &scope, on_outcome: &|_, _| {} };
    open_with(path, options, &scope, |_| Ok(outputs), limits).map(|(opened, _)| opened)
}

/// Outputs to which nothing is written.
#[derive(Clone, Copy)]
struct TestOutputs {
    can_be_completed: bool,
}

impl OpenOutputs for TestOutputs {
    fn wants_urls(&self) -> bool {
        false
    }

    fn render_url(&self, _: &UrlRecord) -> Writes {
        Vec::new()
    }

    fn write(&self, _: u64, _: Option<u64>, _: Writes) -> Result<(), Error> {
        Ok(())
    }

    fn complete(&self) -> bool {
        self.can_be_completed
    }
}

/// A state that can be closed or crash, and is opened again.
struct TestState {
    directory: TempDir,
    crashes: usize,
    options: StateOptions,
    limits: CacheLimits,
    outputs: TestOutputs,
    open: Option<(LocalBackend<DiskStorage>, StateWriter)>,
}

impl TestState {
    fn new(queue_size: usize, limits: CacheLimits) -> TestState {
        TestState::with_options(options(queue_size), limits)
    }

    fn with_options(options: StateOptions, limits: CacheLimits) -> TestState {
        let (directory, outputs) = (tempfile::tempdir().unwrap(), TestOutputs { can_be_completed: true });
        let mut state = TestState { directory, crashes: 0, options, limits, outputs, open: None };
        state.open();
        state
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(self.crashes.to_string())
    }

    fn open(&mut self) {
        let _ = fs::create_dir(self.path());
        let (start, in_use) = (Instant::now(), super::lock::in_use(&self.path()));
        let opened = loop {
            match open_with_outputs(&self.path(), self.options.clone(), self.limits, self.outputs) {
                Ok(opened) => break opened,
                // A process that another test starts inherits the lock until it executes its own program.
                Err(error)
                    if start.elapsed() < Duration::from_secs(10)
                        && error.to_string() == in_use.to_string() =>
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        };
        let OpenState { backend, writer, .. } = opened;
        self.open = Some((backend, writer));
    }

    fn backend(&self) -> &LocalBackend<DiskStorage> {
        &self.open.as_ref().unwrap().0
    }

    /// Closes the state and opens it again.
    fn reopen(&mut self) {
        let (backend, writer) = self.open.take().unwrap();
        drop(backend);
        writer.close().unwrap();
        self.open();
    }

    /// Continues from what a crash at this moment leaves. All operations have been committed.
    fn crash(&mut self) {
        let crashed = self.path().join(STATE_FILE);
        self.crashes += 1;
        fs::create_dir(self.path()).unwrap();
        let mut left = fs::read(&crashed).unwrap();
        // A commit that is under way, such as one of expired pages, must not be copied in parts.
        loop {
            let again = fs::read(&crashed).unwrap();
            if again == left {
                break;
            }
            left = again;
        }
        fs::write(self.path().join(STATE_FILE), left).unwrap();
        self.open();
    }

    fn now(&self) -> Duration {
        self.backend().shared.state().clock.now()
    }

    /// Advances the active crawl time.
    fn advance(&self, time: Duration) {
        let mut state = self.backend().shared.state();
        state.clock = Clock::starting_at(state.clock.now() + time);
    }

    /// Leases everything that can be leased.
    async fn leases(&self) -> Vec<Lease> {
        let (backend, mut leases) = (self.backend(), Vec::new());
        loop {
            let unprioritized = backend.take_unprioritized(2, Duration::ZERO).await.unwrap();
            let count = unprioritized.len();
            let prioritized = unprioritized.into_iter().map(|url| (url.task_id, Priority::WORST));
            backend.enqueue_prioritized(prioritized.collect()).await.unwrap();
            let leased = backend.lease(WorkerId(0), 3, Duration::ZERO).await.unwrap();
            if count + leased.len() == 0 {
                return leases;
            }
            leases.extend(leased);
        }
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Admit(usize, Depth),
    /// Leases everything, and completes some of it.
    Work(usize),
    /// Completes one URL with an outlink.
    Complete(usize, usize, Depth),
    Advance(u64),
    Reopen,
    Crash,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..30usize, 0..4u32).prop_map(|(url, depth)| Operation::Admit(url, depth)),
        3 => (0..6usize).prop_map(Operation::Work),
        6 => (0..6usize, 0..30usize, 0..4u32).prop_map(|(lease, url, depth)| Operation::Complete(lease, url, depth)),
        2 => (1..200u64).prop_map(Operation::Advance),
        1 => Just(Operation::Reopen),
        2 => Just(Operation::Crash),
    ]
}

/// The expected state of a URL that was found.
#[derive(Debug, Clone, Copy)]
struct ModelUrl {
    pending: bool,
    depth: Depth,
}

#[derive(Debug, Default)]
struct Model {
    urls: BTreeMap<usize, ModelUrl>,
    leased: Vec<Lease>,
    refetches: u64,
}

/// The URLs of the tests belong to this many hosts, in turns.
const HOSTS: usize = 4;

fn url(number: usize) -> String {
    format!("http://h{}.test/{number}", number % HOSTS)
}

fn number_of(url: &str) -> usize {
    url.rsplit('/').next().unwrap().parse().unwrap()
}

impl Model {
    /// Records that a URL was found, and checks whether the backend was right to count it as new or not.
    fn mark_seen(&mut self, number: usize, depth: Depth, was_new: bool) {
        let Some(model_url) = self.urls.get_mut(&number) else {
            assert!(was_new, "{number} is new");
            self.urls.insert(number, ModelUrl { pending: true, depth });
            return;
        };
        assert!(!was_new, "{number} was found before");
        if depth < model_url.depth {
            self.refetches += u64::from(!model_url.pending);
            *model_url = ModelUrl { pending: true, depth };
        }
    }

    fn lease(&mut self, leases: Vec<Lease>) {
        for lease in leases {
            let model_url = &self.urls[&number_of(&lease.url)];
            assert!(model_url.pending, "{} is completed", lease.url);
            assert_eq!(lease.depth, model_url.depth, "{}", lease.url);
            assert!(self.leased.iter().all(|other| other.url != lease.url), "{} is leased twice", lease.url);
            self.leased.push(lease);
        }
    }
}

async fn apply(state: &mut TestState, model: &mut Model, operation: Operation) {
    match operation {
        Operation::Admit(number, depth) => {
            let discovered = DiscoveredUrl { url: url(number), depth, redirects: 0 };
            let admitted = state.backend().admit(vec![discovered]).await.unwrap();
            model.mark_seen(number, depth, admitted.new == 1);
        }
        Operation::Work(count) => {
            model.lease(state.leases().await);
            for _ in 0..count.min(model.leased.len()) {
                complete(state, model, 0, None).await;
            }
        }
        Operation::Complete(lease, number, depth) => {
            model.lease(state.leases().await);
            if !model.leased.is_empty() {
                complete(state, model, lease % model.leased.len(), Some((number, depth))).await;
            }
        }
        Operation::Advance(seconds) => state.advance(Duration::from_secs(seconds)),
        Operation::Reopen => {
            state.reopen();
            model.leased.clear();
        }
        Operation::Crash => {
            state.crash();
            model.leased.clear();
        }
    }
}

async fn complete(state: &TestState, model: &mut Model, index: usize, outlink: Option<(usize, Depth)>) {
    let lease = model.leased.remove(index);
    let number = number_of(&lease.url);
    let mut completion = Completion::new(&lease);
    completion.outcome = Outcome::Page;
    if let Some((number, depth)) = outlink {
        completion.outlinks = Outlinks::new([url(number)], depth);
    }
    let completed = state.backend().complete(vec![completion]).await.unwrap();
    let [CompleteResult::Applied { id, new, .. }] = completed[..] else { panic!("{completed:?}") };
    assert_eq!(id.is_some(), !lease.is_refetch);
    if let Some((outlink, depth)) = outlink {
        // Outlinks are admitted before the page is completed.
        model.mark_seen(outlink, depth, new == 1);
    }
    let model_url = model.urls.get_mut(&number).unwrap();
    // A URL found at a smaller depth while it was leased is fetched again for its links.
    model_url.pending = model_url.depth < lease.depth;
    model.refetches += u64::from(model_url.pending);
}

proptest! {
    // Each operation waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 16 } else { 200 }))]

    #[test]
    fn no_url_is_lost_or_completed_twice_across_restarts_and_crashes(
        operations in proptest::collection::vec(operation(), 1..60),
        queue_size in 1..5usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let (mut state, mut model) = (TestState::new(queue_size, SMALL_CACHE), Model::default());
            for operation in operations {
                apply(&mut state, &mut model, operation).await;
                let snapshot = state.backend().snapshot().await.unwrap();
                let pending = model.urls.values().filter(|model_url| model_url.pending).count();
                assert_eq!(snapshot.pending() as usize, pending);
                assert_eq!(snapshot.refetches, model.refetches);
            }
            apply(&mut state, &mut model, Operation::Crash).await;
            while state.backend().pending().await.unwrap() > 0 {
                let before = model.leased.len();
                model.lease(state.leases().await);
                assert!(model.leased.len() > before, "pending URLs are leased");
                while !model.leased.is_empty() {
                    complete(&state, &mut model, 0, None).await;
                }
            }
            assert!(model.urls.values().all(|model_url| !model_url.pending));
        });
    }
}

fn discovered(numbers: std::ops::Range<usize>) -> Vec<DiscoveredUrl> {
    numbers.map(|number| DiscoveredUrl { url: url(number), depth: 1, redirects: 0 }).collect()
}

/// The completion of a URL that gets no request.
fn disallowed(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::RobotsDisallowed, ..Completion::new(lease) }
}

#[tokio::test]
async fn overflow_on_disk_stays_in_order_across_restarts_and_crashes() {
    let mut state = TestState::new(7, SMALL_CACHE);
    let (mut delivered, count) = (Vec::new(), 5_000);
    state.backend().admit(discovered(0..3_000)).await.unwrap();
    for round in 0..5 {
        // Admit while others are taken: from a batch, or from the disk.
        let (first, last) = (3_000 + round * 400, 3_400 + round * 400);
        state.backend().admit(discovered(first..last)).await.unwrap();
        for _ in 0..20 {
            let backend = state.backend();
            let unprioritized = backend.take_unprioritized(7, Duration::ZERO).await.unwrap();
            let prioritized = unprioritized.into_iter().map(|url| (url.task_id, Priority::WORST));
            backend.enqueue_prioritized(prioritized.collect()).await.unwrap();
            let leases = backend.lease(WorkerId(0), 7, Duration::ZERO).await.unwrap();
            delivered.extend(leases.iter().map(|lease| number_of(&lease.url)));
            backend.complete(leases.iter().map(disallowed).collect()).await.unwrap();
        }
        if round % 2 == 0 { state.crash() } else { state.reopen() }
    }
    for lease in state.leases().await {
        delivered.push(number_of(&lease.url));
        state.backend().complete(vec![disallowed(&lease)]).await.unwrap();
    }
    delivered.extend(state.leases().await.iter().map(|lease| number_of(&lease.url)));
    assert_eq!(delivered.len(), delivered.iter().collect::<BTreeSet<_>>().len());
    assert!(delivered.len() >= 500 && delivered.iter().all(|number| *number < count));
    for host in 0..HOSTS {
        let of_host = delivered[..500].iter().filter(|number| **number % HOSTS == host);
        assert!(of_host.is_sorted(), "in the order of admission");
    }
}

#[tokio::test]
async fn page_that_is_fetched_again_keeps_its_page_number() {
    let (mut state, mut model) = (TestState::new(7, SMALL_CACHE), Model::default());
    for depth in [3, 1] {
        apply(&mut state, &mut model, Operation::Admit(0, depth)).await;
        apply(&mut state, &mut model, Operation::Work(1)).await;
    }
    assert_eq!(model.refetches, 1);
    state.reopen();
    state.open = None;
    let history =
        StateReader::open(&state.path()).unwrap().history(&url(0).parse().unwrap()).unwrap().unwrap();
    assert_eq!(history.depth, 1);
    assert!(
        matches!(history.status, UrlStatus::Completed { page_number: Some(1), .. }),
        "{:?}",
        history.status
    );
}
