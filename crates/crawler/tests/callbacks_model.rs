//! The pools under a model checker: the very files of the library, built on shuttle's locks instead of the
//! system's, run through many thousands of schedules. Shuttle fails a schedule that deadlocks, as one would
//! whose wake-up is lost or whose end is missed; the rest is asserted here.
#![allow(unreachable_pub, reason = "the library's files are public there, not here")]

#[path = "../src/callbacks/pools.rs"]
mod pools;
#[path = "../src/callbacks/seen.rs"]
mod seen;
#[path = "../src/callbacks/workers.rs"]
mod workers;

/// In place of the library's own: shuttle's locks, and hashes that are the same in every run, so that a
/// schedule that fails can be replayed.
mod sync {
    pub(crate) use shuttle::sync::atomic::AtomicBool;
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    use std::hash::{BuildHasher, DefaultHasher};

    pub(crate) struct RandomState;

    impl RandomState {
        pub(crate) fn new() -> Self {
            RandomState
        }
    }

    impl BuildHasher for RandomState {
        type Hasher = DefaultHasher;

        fn build_hasher(&self) -> DefaultHasher {
            DefaultHasher::new()
        }
    }
}

use pools::Pools;
use seen::SeenLinks;
use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::{Config, Runner, thread};
use std::sync::Arc;
use workers::CallbackReport;

/// The pages are single letters, and each byte of a page is a link.
type Page = &'static [u8];

/// A graph, and what its crawl must come to.
struct Case {
    pages: &'static [(u8, Page)],
    report: [u64; 3],
}

/// Links beyond the queue, to pages that link back, to one that is broken, and to one that is empty.
const WEB: Case = Case { pages: &[(b'a', b"bcabd"), (b'b', b"ace"), (b'c', b"")], report: [3, 2, 8] };
const CHAIN: Case = Case { pages: &[(b'a', b"b"), (b'b', b"c"), (b'c', b"")], report: [3, 0, 2] };
const BROKEN: Case = Case { pages: &[], report: [0, 1, 0] };
const PAIR: Case = Case { pages: &[(b'a', b"b")], report: [1, 1, 1] };

/// Shuttle's own stacks are too small for what an unoptimised build keeps on them.
fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config
}

fn every_byte(_page: &[u8], text: &[u8], found: &mut dyn FnMut(&[u8])) {
    text.chunks(1).for_each(found);
}

/// One crawl, as the library assembles it.
fn crawl(case: &Case, downloaders: usize, parsers: usize, queue: usize) {
    let (pools, seen, fetches) = (Pools::new(queue), SeenLinks::new(), AtomicUsize::new(0));
    let fetch = |link: &[u8]| {
        fetches.fetch_add(1, SeqCst);
        case.pages.iter().find(|(name, _)| [*name] == *link).map(|(_, page)| *page)
    };
    let reports: Vec<CallbackReport> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..downloaders {
            threads.push(scope.spawn(|| workers::download(&pools, fetch)));
        }
        for _ in 0..parsers {
            threads.push(scope.spawn(|| workers::parse(&pools, &seen, every_byte, |_, _, _| ())));
        }
        assert!(seen.insert(b"a"));
        pools.start((*b"a").into());
        threads.into_iter().map(|thread| thread.join().expect("no worker panics")).collect()
    });
    let report: CallbackReport = reports.into_iter().sum();
    assert_eq!([report.pages, report.broken, report.edges], case.report);
    assert_eq!(fetches.into_inner() as u64, case.report[0] + case.report[1]);
}

/// The pools worth a look: the smallest, those where workers of a kind compete, and those with more than
/// there is to do.
const POOLS: [(usize, usize, usize); 5] = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (2, 3, 2)];

/// A run of its own for each pool, so that the schedule that a failing one prints replays it.
fn in_every_pool<S: Scheduler + 'static>(scheduler: impl Fn() -> S) {
    for case in [&WEB, &CHAIN, &BROKEN, &PAIR] {
        for (downloaders, parsers, queue) in POOLS {
            Runner::new(scheduler(), config()).run(move || crawl(case, downloaders, parsers, queue));
        }
    }
}

#[test]
fn random_schedules_end_with_everything_done() {
    in_every_pool(|| RandomScheduler::new(400));
}

#[test]
fn schedules_with_few_but_awkward_preemptions_end_with_everything_done() {
    in_every_pool(|| PctScheduler::new(3, 200));
}

#[test]
fn a_link_enters_the_queue_only_when_there_is_room() {
    const SIZE: usize = 2;
    let full_queue = || {
        let (pools, queued) = (Arc::new(Pools::<Page>::new(SIZE)), Arc::new(AtomicUsize::new(0)));
        let parser = thread::spawn({
            let (pools, queued) = (pools.clone(), queued.clone());
            move || {
                for name in *b"abcd" {
                    pools.queue([name].into());
                    queued.fetch_add(1, SeqCst);
                }
            }
        });
        for taken in 0..4 {
            // As many turns as the parser needs to queue one too many, in some schedule.
            (0..8).for_each(|_| thread::yield_now());
            assert!(queued.load(SeqCst) <= taken + SIZE);
            assert!(pools.next_link().is_some());
        }
        parser.join().expect("the parser does not panic");
    };
    Runner::new(RandomScheduler::new(500), config()).run(full_queue);
}

#[test]
fn every_schedule_of_the_smallest_crawls_up_to_a_bound_ends() {
    for (case, downloaders, parsers) in [(&BROKEN, 1, 1), (&BROKEN, 2, 1), (&PAIR, 1, 1)] {
        let scheduler = DfsScheduler::new(Some(5_000), false);
        Runner::new(scheduler, config()).run(move || crawl(case, downloaders, parsers, 1));
    }
}

#[test]
fn stopping_wakes_everybody_whatever_they_wait_for() {
    let stopped_crawl = || {
        let (pools, seen) = (Pools::<Page>::new(1), SeenLinks::new());
        thread::scope(|scope| {
            scope.spawn(|| workers::download(&pools, |_| Some(b"bcdefghijk".as_slice())));
            scope.spawn(|| workers::parse(&pools, &seen, every_byte, |_, _, _| ()));
            scope.spawn(|| workers::parse(&pools, &seen, every_byte, |_, _, _| ()));
            assert!(seen.insert(b"a"));
            pools.start((*b"a").into());
            pools.stop();
        });
    };
    Runner::new(RandomScheduler::new(2_000), config()).run(stopped_crawl);
}
