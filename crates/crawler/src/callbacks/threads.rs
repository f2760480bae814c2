//! Starts the threads of a crawl and joins them, so that none outlives it.

use super::pools::Pools;
use super::seen::SeenLinks;
use super::workers::{self, CallbackReport, Scanner};
use super::{CallbackCrawl, StartError};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, Builder, JoinHandle, ScopedJoinHandle};
use std::{io, iter};

/// The stack of a worker: what a C program's threads ordinarily have, since callbacks run on it.
const STACK_BYTES: usize = 8 << 20;

/// One crawl: what its threads share.
pub(super) struct Job<P, F, E> {
    pub(super) pools: Pools<P>,
    pub(super) seen: SeenLinks,
    pub(super) scan: Scanner,
    pub(super) fetch: F,
    pub(super) edge: E,
}

/// The pool that a thread belongs to.
#[derive(Clone, Copy)]
enum ThreadRole {
    Download,
    Parse,
}

impl<P, F, E> Job<P, F, E>
where
    P: AsRef<[u8]> + Send,
    F: Fn(&[u8]) -> Option<P> + Sync,
    E: Fn(&P, &[u8], &[u8]) + Sync,
{
    /// Runs the crawl on threads that borrow it.
    pub(super) fn run_borrowed(
        &self,
        crawl: &CallbackCrawl,
        start: &[u8],
    ) -> Result<CallbackReport, StartError> {
        thread::scope(|scope| {
            let spawn = |builder: Builder, role| builder.spawn_scoped(scope, move || self.work(role));
            self.conduct(crawl, start, spawn, ScopedJoinHandle::join)
        })
    }

    /// Runs the crawl on threads that own it together.
    pub(super) fn run_shared(self, crawl: &CallbackCrawl, start: &[u8]) -> Result<CallbackReport, StartError>
    where
        Self: Send + Sync + 'static,
    {
        let job = Arc::new(self);
        let spawn = |builder: Builder, role| {
            let job = job.clone();
            builder.spawn(move || job.work(role))
        };
        job.conduct(crawl, start, spawn, JoinHandle::join)
    }

    /// Starts the threads, gives them the start link, and waits for them. If one panicked, so does this,
    /// after the last has ended.
    fn conduct<H>(
        &self,
        crawl: &CallbackCrawl,
        start: &[u8],
        spawn: impl Fn(Builder, ThreadRole) -> io::Result<H>,
        join: impl Fn(H) -> thread::Result<CallbackReport>,
    ) -> Result<CallbackReport, StartError> {
        let downloaders = iter::repeat_n(ThreadRole::Download, crawl.download_workers);
        let roles = downloaders.chain(iter::repeat_n(ThreadRole::Parse, crawl.parse_workers));
        let mut threads = Vec::new();
        let complete = roles.into_iter().try_for_each(|role| {
            threads.push(spawn(Builder::new().name(role.name().to_owned()).stack_size(STACK_BYTES), role)?);
            Ok(())
        });
        let complete = complete.map_err(|source| StartError::Threads {
            wanted: crawl.download_workers.saturating_add(crawl.parse_workers),
            started: threads.len(),
            source,
        });
        // Only now is there anything to do: a crawl that lacks a thread has not made a single callback.
        match &complete {
            Ok(()) => {
                self.seen.insert(start);
                self.pools.begin(start.into());
            }
            Err(_) => self.pools.stop(),
        }
        let ends: Vec<_> = threads.into_iter().map(join).collect();
        let reports = ends.into_iter().map(|end| end.unwrap_or_else(|panic| resume_unwind(panic)));
        let report = reports.sum();
        complete.map(|()| report)
    }

    fn work(&self, role: ThreadRole) -> CallbackReport {
        match role {
            ThreadRole::Download => workers::download(&self.pools, &self.fetch),
            ThreadRole::Parse => workers::parse(&self.pools, &self.seen, self.scan, &self.edge),
        }
    }
}

impl ThreadRole {
    /// What the thread is called in a debugger.
    fn name(self) -> &'static str {
        match self {
            ThreadRole::Download => "crawl download",
            ThreadRole::Parse => "crawl parse",
        }
    }
}
