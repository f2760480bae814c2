//! The queues between the download and parse threads, and the detection of the end. Only this file blocks and wakes
//! threads.
//!
//! One lock protects everything, and no callback runs under it. There is one condition variable for each thing that a
//! thread can wait for. The link queue is bounded. The page queue is not: if both were bounded, parsers that wait for
//! room in the link queue and downloaders that wait for room in the page queue would deadlock.

use super::sync::{AtomicBool, Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

/// A link, as bytes.
pub(crate) type LinkBytes = Box<[u8]>;

/// The link queue and the page queue of one crawl.
pub(crate) struct Pools<P> {
    state: Mutex<PoolState<P>>,
    conditions: [Condvar; WaitFor::ALL.len()],
    /// Outside the lock, because a parser reads it before each edge.
    stopped: AtomicBool,
}

struct PoolState<P> {
    links: VecDeque<LinkBytes>,
    work_queue_size: usize,
    pages: VecDeque<(LinkBytes, P)>,
    /// Links that are queued or being fetched, and pages that are queued or being parsed.
    pending: usize,
    finished: bool,
    waiters: [Waiters; WaitFor::ALL.len()],
}

/// What a thread can wait for.
#[derive(Clone, Copy)]
enum WaitFor {
    /// A link to fetch.
    Link,
    /// A page to parse.
    Page,
    /// Room in the link queue.
    Room,
}

/// The threads that wait on one condition variable.
#[derive(Clone, Copy, Default)]
struct Waiters {
    waiting: usize,
    /// One of them was notified and has not taken the lock yet.
    notified: bool,
}

impl WaitFor {
    const ALL: [WaitFor; 3] = [WaitFor::Link, WaitFor::Page, WaitFor::Room];
}

impl<P> Pools<P> {
    /// Empty queues. Threads wait until [`start`](Self::start) or [`stop`](Self::stop).
    pub(crate) fn new(work_queue_size: usize) -> Self {
        Pools {
            state: Mutex::new(PoolState {
                links: VecDeque::new(),
                work_queue_size,
                pages: VecDeque::new(),
                pending: 0,
                finished: false,
                waiters: Default::default(),
            }),
            conditions: Default::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Queues the start link.
    pub(crate) fn start(&self, link: LinkBytes) {
        self.queue(link);
    }

    /// Queues a new link, waiting for room, unless the crawl has ended by then.
    pub(crate) fn queue(&self, link: LinkBytes) {
        let mut state = self.lock_when(WaitFor::Room);
        if !state.finished {
            state.pending += 1;
            state.links.push_back(link);
        }
        self.unlock(state);
    }

    /// Waits for the next link to fetch; `None` when the crawl has ended.
    pub(crate) fn next_link(&self) -> Option<LinkBytes> {
        let mut state = self.lock_when(WaitFor::Link);
        let link = if state.finished { None } else { state.links.pop_front() };
        self.unlock(state);
        link
    }

    /// Queues a fetched page for the parsers. Never waits.
    pub(crate) fn deliver(&self, link: LinkBytes, page: P) {
        let mut state = self.lock();
        state.pages.push_back((link, page));
        self.unlock(state);
    }

    /// Waits for the next page to parse; `None` when the crawl has ended.
    pub(crate) fn next_page(&self) -> Option<(LinkBytes, P)> {
        let mut state = self.lock_when(WaitFor::Page);
        let page = if state.finished { None } else { state.pages.pop_front() };
        self.unlock(state);
        page
    }

    /// Completes a link: it is broken, or its page is parsed and all its new links are queued.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.pending -= 1;
        // A page stays pending until its new links are, so the count is zero only at the end.
        state.finished |= state.pending == 0;
        self.unlock(state);
    }

    /// Ends the crawl early. Queued links and pages are dropped.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        let mut state = self.lock();
        state.finished = true;
        self.unlock(state);
    }

    /// Whether the crawl was ended early. Then no callback may start.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    /// A guard that ends the crawl when its thread panics, so that no other thread waits for it forever.
    pub(crate) fn stop_on_panic(&self) -> impl Drop {
        StopOnPanic(self)
    }

    fn lock(&self) -> MutexGuard<'_, PoolState<P>> {
        self.state.lock().expect("nothing under this lock panics")
    }

    /// Takes the lock once what the caller waits for is there, or the crawl has ended.
    fn lock_when(&self, until: WaitFor) -> MutexGuard<'_, PoolState<P>> {
        let mut state = self.lock();
        while !state.is_ready(until) {
            state.waiters[until as usize].waiting += 1;
            state = self.conditions[until as usize].wait(state).expect("nothing under this lock panics");
            let waiters = &mut state.waiters[until as usize];
            waiters.waiting -= 1;
            waiters.notified = false;
        }
        state
    }

    /// Releases the lock and notifies the threads that can continue.
    ///
    /// It notifies one thread for each condition. That thread notifies the next when it releases the lock, if there is
    /// still a reason. So whenever there is something to do, a thread is awake or notified; and a burst of links costs one
    /// wake-up instead of one for each link.
    fn unlock(&self, mut state: MutexGuard<'_, PoolState<P>>) {
        let notify =
            WaitFor::ALL.map(|until| state.is_ready(until) && state.waiters[until as usize].should_notify());
        drop(state);
        for (condition, notify) in self.conditions.iter().zip(notify) {
            if notify {
                condition.notify_one();
            }
        }
    }
}

impl<P> PoolState<P> {
    fn is_ready(&self, until: WaitFor) -> bool {
        self.finished
            || match until {
                WaitFor::Link => !self.links.is_empty(),
                WaitFor::Page => !self.pages.is_empty(),
                WaitFor::Room => self.links.len() < self.work_queue_size,
            }
    }
}

impl Waiters {
    /// Whether the caller must notify one of them.
    fn should_notify(&mut self) -> bool {
        let notify = self.waiting > 0 && !self.notified;
        self.notified |= notify;
        notify
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
