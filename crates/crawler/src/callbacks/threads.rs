//! Starts the threads of a crawl and joins them.

use super::pools::Pools;
use super::seen::SeenLinks;
use super::workers::{self, CallbackReport, FindLinks};
use super::{CallbackCrawl, StartError};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, Builder, JoinHandle, ScopedJoinHandle};
use std::{io, iter};

/// The stack size of a thread: the usual one of a C program, because callbacks run on it.
const STACK_BYTES: usize = 8 << 20;

/// What the threads of a crawl share.
pub(super) struct Job<P, F, E> {
    pub(super) pools: Pools<P>,
    pub(super) seen: SeenLinks,
    pub(super) scan: FindLinks,
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
            self.run_threads(crawl, start, spawn, ScopedJoinHandle::join)
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
        job.run_threads(crawl, start, spawn, JoinHandle::join)
    }

    /// Starts the threads, queues the start link, and joins the threads. If one panicked, this panics too, after it has
    /// joined the last one.
    fn run_threads<H>(
        &self,
        crawl: &CallbackCrawl,
        start: &[u8],
        spawn: impl Fn(Builder, ThreadRole) -> io::Result<H>,
        join: impl Fn(H) -> thread::Result<CallbackReport>,
    ) -> Result<CallbackReport, StartError> {
        let downloaders = iter::repeat_n(ThreadRole::Download, crawl.download_workers);
        let roles = downloaders.chain(iter::repeat_n(ThreadRole::Parse, crawl.parse_workers));
        let mut threads = Vec::new();
        let started = roles.into_iter().try_for_each(|role| {
            threads.push(spawn(Builder::new().name(role.name().to_owned()).stack_size(STACK_BYTES), role)?);
            Ok(())
        });
        let started = started.map_err(|source| StartError::Threads {
            wanted: crawl.download_workers.saturating_add(crawl.parse_workers),
            started: threads.len(),
            source,
        });
        // The threads have nothing to do before this, so a crawl that lacks a thread has made no callback.
        match &started {
            Ok(()) => {
                self.seen.insert(start);
                self.pools.start(start.into());
            }
            Err(_) => self.pools.stop(),
        }
        let results: Vec<_> = threads.into_iter().map(join).collect();
        let reports = results.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)));
        let report = reports.sum();
        started.map(|()| report)
    }

    fn work(&self, role: ThreadRole) -> CallbackReport {
        match role {
            ThreadRole::Download => workers::download(&self.pools, &self.fetch),
            ThreadRole::Parse => workers::parse(&self.pools, &self.seen, self.scan, &self.edge),
        }
    }
}

impl ThreadRole {
    /// The name of the thread in a debugger.
    fn name(self) -> &'static str {
        match self {
            ThreadRole::Download => "crawl download",
            ThreadRole::Parse => "crawl parse",
        }
    }
}
