//! What the two pools of workers share: the links that wait, the pages that wait, and when the crawl is over.
//! Only this file sleeps and wakes.
//!
//! Everything stands under one lock that no callback ever runs under, with one condition for each thing a
//! worker can wait for. The links queue is bounded. The pages are not: if both were, parsers waiting for room
//! among the links and downloaders waiting for room among the pages would wait for each other for ever.

use super::sync::{AtomicBool, Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

/// A link on its way from the page where it was found to the end of its own page.
pub(crate) type Link = Box<[u8]>;

/// The links and the pages of one crawl on their way between the pools.
pub(crate) struct Pools<P> {
    state: Mutex<PoolState<P>>,
    conditions: [Condvar; WaitFor::ALL.len()],
    /// Beside the lock, because a parser asks before each edge.
    stopped: AtomicBool,
}

struct PoolState<P> {
    links: VecDeque<Link>,
    work_queue_size: usize,
    pages: VecDeque<(Link, P)>,
    /// Links queued or being fetched, and pages waiting or being parsed.
    outstanding: usize,
    over: bool,
    sleepers: [Sleepers; WaitFor::ALL.len()],
}

/// What a worker may have to wait for.
#[derive(Clone, Copy)]
enum WaitFor {
    /// A link to fetch.
    Link,
    /// A page to parse.
    Page,
    /// Room in the links queue.
    Room,
}

/// The workers asleep on one condition.
#[derive(Clone, Copy, Default)]
struct Sleepers {
    asleep: usize,
    /// One of them has been called and is on its way.
    called: bool,
}

impl WaitFor {
    const ALL: [WaitFor; 3] = [WaitFor::Link, WaitFor::Page, WaitFor::Room];
}

impl<P> Pools<P> {
    /// Pools with nothing to do yet: workers sleep until [`begin`](Self::begin) or [`stop`](Self::stop).
    pub(crate) fn new(work_queue_size: usize) -> Self {
        Pools {
            state: Mutex::new(PoolState {
                links: VecDeque::new(),
                work_queue_size,
                pages: VecDeque::new(),
                outstanding: 0,
                over: false,
                sleepers: Default::default(),
            }),
            conditions: Default::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Queues the first link.
    pub(crate) fn begin(&self, start: Link) {
        self.queue(start);
    }

    /// Queues a new link as soon as there is room for it, unless the crawl is over by then.
    pub(crate) fn queue(&self, link: Link) {
        let mut state = self.when(WaitFor::Room);
        if !state.over {
            state.outstanding += 1;
            state.links.push_back(link);
        }
        self.leave(state);
    }

    /// The next link to fetch, as soon as there is one; none when the crawl is over.
    pub(crate) fn next_link(&self) -> Option<Link> {
        let mut state = self.when(WaitFor::Link);
        let link = if state.over { None } else { state.links.pop_front() };
        self.leave(state);
        link
    }

    /// Hands a fetched page over to the parsers. Never waits.
    pub(crate) fn deliver(&self, link: Link, page: P) {
        let mut state = self.lock();
        state.pages.push_back((link, page));
        self.leave(state);
    }

    /// The next page to parse, as soon as there is one; none when the crawl is over.
    pub(crate) fn next_page(&self) -> Option<(Link, P)> {
        let mut state = self.when(WaitFor::Page);
        let page = if state.over { None } else { state.pages.pop_front() };
        self.leave(state);
        page
    }

    /// Says that a link is done with: broken, or its page parsed and every new link of it queued.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.outstanding -= 1;
        // A page is outstanding until its links are: so this is zero at the end, and never before.
        state.over |= state.outstanding == 0;
        self.leave(state);
    }

    /// Ends the crawl before its time. Links and pages still waiting are dropped with the pools.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        let mut state = self.lock();
        state.over = true;
        self.leave(state);
    }

    /// Whether the crawl was ended before its time: then no callback may begin.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    /// While a worker holds this, its panic ends the crawl, so that nobody waits for it for ever.
    pub(crate) fn stop_on_panic(&self) -> impl Drop {
        StopOnPanic(self)
    }

    fn lock(&self) -> MutexGuard<'_, PoolState<P>> {
        self.state.lock().expect("nothing under this lock panics")
    }

    /// Enters the lock once there is what the caller waits for, or the crawl is over.
    fn when(&self, until: WaitFor) -> MutexGuard<'_, PoolState<P>> {
        let mut state = self.lock();
        while !state.holds(until) {
            state.sleepers[until as usize].asleep += 1;
            state = self.conditions[until as usize].wait(state).expect("nothing under this lock panics");
            let sleepers = &mut state.sleepers[until as usize];
            sleepers.asleep -= 1;
            sleepers.called = false;
        }
        state
    }

    /// Leaves the lock and calls whoever can go on now.
    ///
    /// One sleeper at a time for each condition: the called one calls the next on leaving the lock itself, if
    /// there is still reason to. So whenever there is something to wake up for, someone is awake or on the
    /// way; and a burst of links costs one wake-up, not one for each link.
    fn leave(&self, mut state: MutexGuard<'_, PoolState<P>>) {
        let calls = WaitFor::ALL.map(|until| state.holds(until) && state.sleepers[until as usize].call());
        drop(state);
        for (condition, call) in self.conditions.iter().zip(calls) {
            if call {
                condition.notify_one();
            }
        }
    }
}

impl<P> PoolState<P> {
    fn holds(&self, until: WaitFor) -> bool {
        self.over
            || match until {
                WaitFor::Link => !self.links.is_empty(),
                WaitFor::Page => !self.pages.is_empty(),
                WaitFor::Room => self.links.len() < self.work_queue_size,
            }
    }
}

impl Sleepers {
    /// Whether the caller must wake one of them.
    fn call(&mut self) -> bool {
        let call = self.asleep > 0 && !self.called;
        self.called |= call;
        call
    }
}

struct StopOnPanic<'a, P>(&'a Pools<P>);

impl<P> Drop for StopOnPanic<'_, P> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}
