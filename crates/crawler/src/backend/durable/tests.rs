//! Random moves on a durable state that is closed, or dies, and is opened again in between: nothing is lost, and nothing
//! is delivered that is done.

mod bodies;
mod faults;
mod hosts;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::{Backend, CompleteResult, Completion, DiscoveredUrl, Lease, WorkerId};
use super::disk_storage::DiskStorage;
use super::open::open_with;
use super::seen_cache::CacheLimits;
use super::{FILE, OpenState, RecordedSettings, StateOptions, StateReader, StateWriter, UrlStatus};
use crate::backend::local::storage::Clock;
use crate::backend::local::{BackendConfig, LocalBackend};
use crate::outcome::Outcome;
use crate::prioritizer::{Priority, PriorityQueues};
use crate::task::Depth;

/// How long URLs are known.
const LIFETIME: Duration = Duration::from_secs(160);

/// So little room that every way a link may go is gone.
const ROOM: CacheLimits = CacheLimits { half: 4, write_at: 6 };

fn begin(queue_size: usize) -> StateOptions {
    let settings = BackendConfig {
        queue_size,
        priority_queues: PriorityQueues::new(3).unwrap(),
        workers: 1,
        ttl: LIFETIME,
        domain_ttl: Duration::from_secs(300),
        keep_depths: true,
        similarity: None,
        keep_content: false,
        max_pages: u64::MAX,
        max_bytes: u64::MAX,
        max_page_bytes: 1_000,
        max_pages_per_host: u64::MAX,
    };
    StateOptions { settings, delay: Duration::ZERO, terms: RecordedSettings::default(), note: Vec::new() }
}

/// A state that can end and be opened again.
struct Life {
    directory: TempDir,
    deaths: usize,
    begin: StateOptions,
    room: CacheLimits,
    open: Option<(LocalBackend<DiskStorage>, StateWriter)>,
}

impl Life {
    fn new(queue_size: usize, room: CacheLimits) -> Life {
        Life::of(begin(queue_size), room)
    }

    fn of(begin: StateOptions, room: CacheLimits) -> Life {
        let mut life = Life { directory: tempfile::tempdir().unwrap(), deaths: 0, begin, room, open: None };
        life.open();
        life
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(self.deaths.to_string())
    }

    fn open(&mut self) {
        let _ = fs::create_dir(self.path());
        let (begun, in_use) = (Instant::now(), super::lock::in_use(&self.path()));
        let opened = loop {
            match open_with(&self.path(), self.begin.clone(), self.room) {
                Ok(opened) => break opened,
                // A process that another test is just starting inherits the lock, until it runs its own program.
                Err(error) if begun.elapsed() < Duration::from_secs(10) && error.to_string() == in_use.0 => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        };
        let OpenState { backend, keeper, .. } = opened;
        self.open = Some((backend, keeper));
    }

    fn backend(&self) -> &LocalBackend<DiskStorage> {
        &self.open.as_ref().unwrap().0
    }

    fn close(&mut self) {
        let (backend, keeper) = self.open.take().unwrap();
        drop(backend);
        keeper.close().unwrap();
        self.open();
    }

    /// Goes on with what a death at this moment would leave: everything that was made has been waited for.
    fn die(&mut self) {
        let before = self.path().join(FILE);
        self.deaths += 1;
        fs::create_dir(self.path()).unwrap();
        fs::copy(before, self.path().join(FILE)).unwrap();
        self.open();
    }

    fn now(&self) -> Duration {
        self.backend().shared.state().clock.now()
    }

    /// The crawl's own clock goes on.
    fn wait(&self, time: Duration) {
        let mut state = self.backend().shared.state();
        state.clock = Clock::resumed(state.clock.now() + time);
    }

    /// Everything that can be leased.
    async fn leases(&self) -> Vec<Lease> {
        let (backend, mut leases) = (self.backend(), Vec::new());
        loop {
            let incoming = backend.take_unprioritized(2, Duration::ZERO).await.unwrap();
            let count = incoming.len();
            let filed = incoming.into_iter().map(|incoming| (incoming.task_id, Priority::WORST));
            backend.enqueue_prioritized(filed.collect()).await.unwrap();
            let routed = backend.route(vec![Priority::WORST; 4], Duration::ZERO).await.unwrap();
            let leased = backend.lease(WorkerId(0), 3, Duration::ZERO).await.unwrap();
            if count + routed + leased.len() == 0 {
                return leases;
            }
            leases.extend(leased);
        }
    }
}

#[derive(Debug, Clone)]
enum BackendFuture {
    Admit(usize, Depth),
    /// Leases all there is, and completes some of it.
    Work(usize),
    /// Completes one with a child.
    Complete(usize, usize, Depth),
    Wait(u64),
    Close,
    Die,
}

fn a_move() -> impl Strategy<Value = BackendFuture> {
    prop_oneof![
        8 => (0..30usize, 0..4u32).prop_map(|(url, depth)| BackendFuture::Admit(url, depth)),
        3 => (0..6usize).prop_map(BackendFuture::Work),
        6 => (0..6usize, 0..30usize, 0..4u32).prop_map(|(lease, url, depth)| BackendFuture::Complete(lease, url, depth)),
        2 => (1..200u64).prop_map(BackendFuture::Wait),
        1 => Just(BackendFuture::Close),
        2 => Just(BackendFuture::Die),
    ]
}

/// What is known of a URL that was met.
#[derive(Debug, Clone, Copy)]
struct SeenStatus {
    outstanding: bool,
    depth: Depth,
    /// When it was last met or completed, for certain and at the latest: a death may forget that it was met again.
    since: (Duration, Duration),
}

#[derive(Debug, Default)]
struct Model {
    urls: BTreeMap<usize, SeenStatus>,
    held: Vec<Lease>,
    revisits: u64,
}

fn url(number: usize) -> String {
    format!("http://h{}.test/{number}", number % 4)
}

fn number_of(url: &str) -> usize {
    url.rsplit('/').next().unwrap().parse().unwrap()
}

impl Model {
    /// A URL is met; it counted as new or not.
    fn meet(&mut self, number: usize, depth: Depth, was_new: bool, now: Duration) {
        let Some(met) = self.urls.get_mut(&number) else {
            assert!(was_new, "{number} is new");
            self.urls.insert(number, SeenStatus { outstanding: true, depth, since: (now, now) });
            return;
        };
        if met.outstanding {
            assert!(!was_new, "{number} is outstanding, and not to be forgotten");
            met.depth = met.depth.min(depth);
            return;
        }
        assert!(!was_new || now >= met.since.0 + LIFETIME, "{number} is forgotten too soon");
        assert!(was_new || now < met.since.1 + LIFETIME * 19 / 16, "{number} is forgotten too late");
        if was_new {
            *met = SeenStatus { outstanding: true, depth, since: (now, now) };
            return;
        }
        met.since.1 = now;
        if depth < met.depth {
            (met.outstanding, met.depth) = (true, depth);
            self.revisits += 1;
        }
    }

    fn lease(&mut self, leases: Vec<Lease>) {
        for lease in leases {
            let met = &self.urls[&number_of(&lease.url)];
            assert!(met.outstanding, "{} is done", lease.url);
            assert_eq!(lease.depth, met.depth, "{}", lease.url);
            assert!(self.held.iter().all(|other| other.url != lease.url), "{} is lent twice", lease.url);
            self.held.push(lease);
        }
    }
}

async fn make(life: &mut Life, model: &mut Model, step: BackendFuture) {
    match step {
        BackendFuture::Admit(number, depth) => {
            let found = DiscoveredUrl { url: url(number), depth, redirects: 0 };
            let admitted = life.backend().admit(vec![found]).await.unwrap();
            model.meet(number, depth, admitted.new == 1, life.now());
        }
        BackendFuture::Work(count) => {
            model.lease(life.leases().await);
            for _ in 0..count.min(model.held.len()) {
                complete(life, model, 0, None).await;
            }
        }
        BackendFuture::Complete(lease, number, depth) => {
            model.lease(life.leases().await);
            if !model.held.is_empty() {
                complete(life, model, lease % model.held.len(), Some((number, depth))).await;
            }
        }
        BackendFuture::Wait(seconds) => life.wait(Duration::from_secs(seconds)),
        BackendFuture::Close => {
            life.close();
            model.held.clear();
        }
        BackendFuture::Die => {
            life.die();
            model.held.clear();
        }
    }
}

async fn complete(life: &Life, model: &mut Model, index: usize, child: Option<(usize, Depth)>) {
    let lease = model.held.remove(index);
    let number = number_of(&lease.url);
    let mut completion = Completion::new(&lease);
    completion.outcome = Outcome::Page;
    let found = child.map(|(number, depth)| DiscoveredUrl { url: url(number), depth, redirects: 0 });
    completion.outlinks.extend(found);
    let completed = life.backend().complete(vec![completion]).await.unwrap();
    let [CompleteResult::Applied { id, new, .. }] = completed[..] else { panic!("{completed:?}") };
    assert_eq!(id.is_some(), !lease.is_revisit);
    if let Some((child, depth)) = child {
        // It is admitted before its parent is completed.
        model.meet(child, depth, new == 1, life.now());
    }
    let met = model.urls.get_mut(&number).unwrap();
    // Met nearer while it was lent, it is visited again for its links.
    (met.outstanding, met.since) = (met.depth < lease.depth, (life.now(), life.now()));
    model.revisits += u64::from(met.outstanding);
}

proptest! {
    // Each move waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 16 } else { 200 }))]

    #[test]
    fn nothing_is_lost_and_nothing_done_twice_across_ends_of_any_kind(
        moves in proptest::collection::vec(a_move(), 1..60),
        queue_size in 1..5usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let (mut life, mut model) = (Life::new(queue_size, ROOM), Model::default());
            for step in moves {
                make(&mut life, &mut model, step).await;
                let snapshot = life.backend().snapshot().await.unwrap();
                let outstanding = model.urls.values().filter(|met| met.outstanding).count();
                assert_eq!(snapshot.outstanding() as usize, outstanding);
                assert_eq!(snapshot.revisits, model.revisits);
            }
            make(&mut life, &mut model, BackendFuture::Die).await;
            while life.backend().outstanding().await.unwrap() > 0 {
                let before = model.held.len();
                model.lease(life.leases().await);
                assert!(model.held.len() > before, "what is outstanding is delivered");
                while !model.held.is_empty() {
                    complete(&life, &mut model, 0, None).await;
                }
            }
            assert!(model.urls.values().all(|met| !met.outstanding));
        });
    }
}

fn found(numbers: std::ops::Range<usize>) -> Vec<DiscoveredUrl> {
    numbers.map(|number| DiscoveredUrl { url: url(number), depth: 1, redirects: 0 }).collect()
}

#[tokio::test]
async fn thousands_wait_in_storage_and_come_back_in_order_across_ends() {
    let mut life = Life::new(7, ROOM);
    let (mut delivered, count) = (Vec::new(), 5_000);
    life.backend().admit(found(0..3_000)).await.unwrap();
    for round in 0..5 {
        // Some come while others are taken out, on their way to the disk or there.
        let (first, last) = (3_000 + round * 400, 3_400 + round * 400);
        life.backend().admit(found(first..last)).await.unwrap();
        for _ in 0..20 {
            let backend = life.backend();
            let incoming = backend.take_unprioritized(7, Duration::ZERO).await.unwrap();
            let filed = incoming.into_iter().map(|incoming| (incoming.task_id, Priority::WORST));
            backend.enqueue_prioritized(filed.collect()).await.unwrap();
            backend.route(vec![Priority::WORST; 7], Duration::ZERO).await.unwrap();
            let leases = backend.lease(WorkerId(0), 7, Duration::ZERO).await.unwrap();
            delivered.extend(leases.iter().map(|lease| number_of(&lease.url)));
            backend.complete(leases.iter().map(Completion::new).collect()).await.unwrap();
        }
        if round % 2 == 0 { life.die() } else { life.close() }
    }
    for lease in life.leases().await {
        delivered.push(number_of(&lease.url));
        life.backend().complete(vec![Completion::new(&lease)]).await.unwrap();
    }
    delivered.extend(life.leases().await.iter().map(|lease| number_of(&lease.url)));
    assert_eq!(delivered.len(), delivered.iter().collect::<BTreeSet<_>>().len());
    assert!(delivered.len() >= 500 && delivered.iter().all(|number| *number < count));
    assert!(delivered[..500].is_sorted(), "in the order of admission");
}

#[tokio::test]
async fn a_page_visited_again_for_its_links_is_still_the_one_that_was_kept() {
    let (mut life, mut model) = (Life::new(7, ROOM), Model::default());
    for depth in [3, 1] {
        make(&mut life, &mut model, BackendFuture::Admit(0, depth)).await;
        make(&mut life, &mut model, BackendFuture::Work(1)).await;
    }
    assert_eq!(model.revisits, 1);
    life.close();
    life.open = None;
    let why = StateReader::open(&life.path()).unwrap().history(&url(0).parse().unwrap()).unwrap().unwrap();
    assert_eq!(why.depth, 1);
    assert!(matches!(why.fate, UrlStatus::Ended { document: Some(1), .. }), "{:?}", why.fate);
}
