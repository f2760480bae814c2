//! Tests of the worker pools with the model checker shuttle: the library's files, compiled with shuttle's locks, run
//! under many thousands of schedules. Shuttle reports deadlocks, such as after a lost wake-up. The tests check the rest.
#![allow(unreachable_pub, reason = "these items are public in the library")]

#[path = "../src/callbacks/pools.rs"]
mod pools;
#[path = "../src/callbacks/seen.rs"]
mod seen;
#[path = "../src/callbacks/workers.rs"]
mod workers;

/// Replaces the library's module: shuttle's locks, and deterministic hashes, so that a failing schedule can be replayed.
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

/// A page. Its name is a letter, and each of its bytes is a link.
type Page = &'static [u8];

/// A graph and the expected report of its crawl.
struct Case {
    pages: &'static [(u8, Page)],
    report: [u64; 3],
}

/// More links than the queue holds: to pages that link back, to a broken page, and to an empty one.
const WEB: Case = Case { pages: &[(b'a', b"bcabd"), (b'b', b"ace"), (b'c', b"")], report: [3, 2, 8] };
const CHAIN: Case = Case { pages: &[(b'a', b"b"), (b'b', b"c"), (b'c', b"")], report: [3, 0, 2] };
const BROKEN: Case = Case { pages: &[], report: [0, 1, 0] };
const PAIR: Case = Case { pages: &[(b'a', b"b")], report: [1, 1, 1] };

/// Shuttle's default stacks are too small for an unoptimized build.
fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config
}

fn every_byte(_page: &[u8], text: &[u8], found: &mut dyn FnMut(&[u8])) {
    text.chunks(1).for_each(found);
}

/// Runs one crawl like the library.
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

/// Pool sizes: the smallest, several workers of a kind, and more workers than work.
const POOLS: [(usize, usize, usize); 5] = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (2, 3, 2)];

/// Runs each pool size separately, so that the schedule printed by a failure replays it.
fn in_every_pool<S: Scheduler + 'static>(scheduler: impl Fn() -> S) {
    for case in [&WEB, &CHAIN, &BROKEN, &PAIR] {
        for (downloaders, parsers, queue) in POOLS {
            Runner::new(scheduler(), config()).run(move || crawl(case, downloaders, parsers, queue));
        }
    }
}

#[test]
fn crawl_completes_under_random_schedules() {
    in_every_pool(|| RandomScheduler::new(400));
}

#[test]
fn crawl_completes_under_schedules_with_few_preemptions() {
    in_every_pool(|| PctScheduler::new(3, 200));
}

#[test]
fn link_is_queued_only_when_there_is_room() {
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
            // Enough yields for a faulty parser to queue one link too many in some schedule.
            (0..8).for_each(|_| thread::yield_now());
            assert!(queued.load(SeqCst) <= taken + SIZE);
            assert!(pools.next_link().is_some());
        }
        parser.join().expect("the parser does not panic");
    };
    Runner::new(RandomScheduler::new(500), config()).run(full_queue);
}

#[test]
fn smallest_crawls_complete_under_every_schedule_up_to_a_bound() {
    for (case, downloaders, parsers) in [(&BROKEN, 1, 1), (&BROKEN, 2, 1), (&PAIR, 1, 1)] {
        let scheduler = DfsScheduler::new(Some(5_000), false);
        Runner::new(scheduler, config()).run(move || crawl(case, downloaders, parsers, 1));
    }
}

#[test]
fn stop_wakes_all_waiting_threads() {
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
