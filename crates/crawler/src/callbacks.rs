//! The callback face: you bring a function that fetches, and learn every edge of the link graph.
//!
//! Two pools of plain threads, no runtime: *downloaders* call your fetch function, *parsers* find the links
//! of the pages and call your edge function. Nothing here knows the rest of the crawler, except where HTML
//! links are found.
//!
//! ```
//! use crawler::internal::callbacks::CallbackCrawl;
//! use std::collections::HashMap;
//!
//! let pages = HashMap::from([("home", "link:news link:about"), ("news", "see link:home"), ("about", "")]);
//! let report = CallbackCrawl::new()
//!     .download_workers(2)
//!     .parse_workers(2)
//!     .work_queue_size(10)
//!     .run_str("home", |link| pages.get(link), |from, to| println!("{from} -> {to}"))?;
//! assert_eq!((report.pages, report.broken, report.edges), (3, 0, 3));
//! # Ok::<(), crawler::internal::callbacks::StartError>(())
//! ```

mod link_rule;
mod pools;
mod seen;
mod threads;
mod workers;

/// What the pools are built on. The model checker's test builds the same files on its own.
mod sync {
    pub(super) use std::hash::RandomState;
    pub(super) use std::sync::atomic::AtomicBool;
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}

pub use link_rule::LinkRule;
pub use workers::CallbackReport;

use pools::Pools;
use seen::SeenLinks;
use std::{fmt, io};
use threads::Job;
use workers::Scanner;

/// How to crawl: how large the pools and the queue are, and what counts as a link.
///
/// What [`run`](Self::run) promises:
///
/// - Exactly as many threads as asked for, all able to be inside their callback at the same time. No lock is
///   held during a callback: it may block, be slow, wait for another callback, or start a crawl of its own.
/// - Each distinct link is fetched at most once, the start included.
/// - `edge` is called for every occurrence of a link, in the order of its page: an edge is announced, then
///   its target is queued if it is new, then the next edge comes.
/// - No more than `work_queue_size` links wait to be fetched; while the queue is full, parsers wait. Pages
///   that wait to be parsed are not bounded: if downloaders waited for room too, both pools could wait
///   for each other for ever.
/// - It returns when nothing is left to do, all its threads joined. No callback comes afterwards.
/// - If a callback panics, no other begins once it has unwound, those that are running finish, all threads
///   are joined, and the panic goes on in the caller. So a callback that waits for something that only the
///   one that panicked would have done waits for ever, and the crawl with it.
/// - If the system refuses a thread, the answer is [`StartError::Threads`]. Running out of memory is another
///   matter: it aborts the process, as elsewhere in Rust, also where a thread that the system has granted
///   finds no memory to set itself up with.
#[must_use = "a crawl does nothing until it is run"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackCrawl {
    download_workers: usize,
    parse_workers: usize,
    work_queue_size: usize,
    links: LinkRule,
}

/// Why there was no crawl. No callback has been made.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// A pool or the queue has the size zero.
    Zero {
        /// Which of them: the name of the method that sets it.
        what: &'static str,
    },
    /// The system gave fewer threads than asked for. Those it gave have been joined.
    Threads {
        /// How many were asked for.
        wanted: usize,
        /// How many there were.
        started: usize,
        /// What the system said to the next.
        source: io::Error,
    },
}

impl CallbackCrawl {
    /// One downloader, one parser, a queue of 1,000 links, and the `link:` rule.
    pub fn new() -> Self {
        CallbackCrawl {
            download_workers: 1,
            parse_workers: 1,
            work_queue_size: 1_000,
            links: LinkRule::Words,
        }
    }

    /// How many threads call `fetch`.
    pub fn download_workers(self, download_workers: usize) -> Self {
        CallbackCrawl { download_workers, ..self }
    }

    /// How many threads parse pages and call `edge`.
    pub fn parse_workers(self, parse_workers: usize) -> Self {
        CallbackCrawl { parse_workers, ..self }
    }

    /// How many links may wait to be fetched.
    pub fn work_queue_size(self, work_queue_size: usize) -> Self {
        CallbackCrawl { work_queue_size, ..self }
    }

    /// What counts as a link.
    pub fn links(self, links: LinkRule) -> Self {
        CallbackCrawl { links, ..self }
    }

    /// Crawls everything that can be reached from `start`.
    ///
    /// `fetch` gives the page behind a link, or `None` if there is none: a broken link, after which the crawl
    /// goes on. `edge` hears of every link on every page: the page's own link, then the link found there.
    pub fn run<P>(
        &self,
        start: &[u8],
        fetch: impl Fn(&[u8]) -> Option<P> + Sync,
        edge: impl Fn(&[u8], &[u8]) + Sync,
    ) -> Result<CallbackReport, StartError>
    where
        P: AsRef<[u8]> + Send,
    {
        let edge = |_: &P, from: &[u8], to: &[u8]| edge(from, to);
        self.job(self.links.in_bytes(), fetch, edge)?.run_borrowed(self, &self.links.start(start))
    }

    /// As [`run`](Self::run), for callbacks that borrow nothing; and `edge` gets the page as well.
    ///
    /// It leaves nothing behind on the calling thread, whereas the scoped threads that `run` is built on
    /// leave the standard library's handle to the caller there, once: little, but enough to be noticed by who
    /// looks for leaks from C.
    pub fn run_static<P>(
        &self,
        start: &[u8],
        fetch: impl Fn(&[u8]) -> Option<P> + Send + Sync + 'static,
        edge: impl Fn(&P, &[u8], &[u8]) + Send + Sync + 'static,
    ) -> Result<CallbackReport, StartError>
    where
        P: AsRef<[u8]> + Send + 'static,
    {
        self.job(self.links.in_bytes(), fetch, edge)?.run_shared(self, &self.links.start(start))
    }

    /// As [`run`](Self::run), for pages and links that are text. It is text already, so what an HTML page
    /// says about its encoding means nothing.
    pub fn run_str<P>(
        &self,
        start: &str,
        fetch: impl Fn(&str) -> Option<P> + Sync,
        edge: impl Fn(&str, &str) + Sync,
    ) -> Result<CallbackReport, StartError>
    where
        P: AsRef<str> + Send,
    {
        fn text(link: &[u8]) -> &str {
            str::from_utf8(link).expect("links are URLs, or cut out of text at white space, which is ASCII")
        }
        let fetch = |link: &[u8]| fetch(text(link)).map(TextPage);
        let edge = |_: &TextPage<P>, from: &[u8], to: &[u8]| edge(text(from), text(to));
        let start = self.links.start(start.as_bytes());
        self.job(self.links.in_text(), fetch, edge)?.run_borrowed(self, &start)
    }

    fn job<P, F, E>(&self, scan: Scanner, fetch: F, edge: E) -> Result<Job<P, F, E>, StartError> {
        let sizes = [
            ("download_workers", self.download_workers),
            ("parse_workers", self.parse_workers),
            ("work_queue_size", self.work_queue_size),
        ];
        if let Some((what, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(StartError::Zero { what });
        }
        Ok(Job { pools: Pools::new(self.work_queue_size), seen: SeenLinks::new(), scan, fetch, edge })
    }
}

impl Default for CallbackCrawl {
    fn default() -> Self {
        CallbackCrawl::new()
    }
}

/// A page that is text, seen as bytes.
struct TextPage<P>(P);

impl<P: AsRef<str>> AsRef<[u8]> for TextPage<P> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().as_bytes()
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Zero { what } => write!(out, "{what} is 0; it must be at least 1"),
            StartError::Threads { wanted, started, source } => {
                write!(out, "cannot start thread {} of {wanted}: {source}; use fewer workers", started + 1)
            }
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Zero { .. } => None,
            StartError::Threads { source, .. } => Some(source),
        }
    }
}
