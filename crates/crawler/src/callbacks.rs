//! The callback mode: your function fetches, your other function receives every edge of the link graph.
//!
//! Two pools of plain threads, without an async runtime: download threads call the fetch function, parse threads extract
//! links and call the edge function.

mod link_rule;
mod pools;
mod seen;
mod threads;
mod workers;

/// The primitives of the pools. The model checker's test replaces them with its own.
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
use workers::FindLinks;

/// Crawls everything that can be reached from `start_url`, with the given numbers of threads and the `link:` rule
/// ([`LinkRule::Words`]). [`CallbackCrawl`] has more options, and the guarantees.
///
/// ```
/// use std::collections::HashMap;
///
/// let pages = HashMap::from([("home", "link:news link:about"), ("news", "see link:home"), ("about", "")]);
/// let report = crawler::crawl("home", 2, 2, 10, |link| pages.get(link), |from, to| println!("{from} -> {to}"))?;
/// assert_eq!((report.pages, report.broken, report.edges), (3, 0, 3));
/// # Ok::<(), crawler::StartError>(())
/// ```
pub fn crawl<P>(
    start_url: &str,
    download_workers: usize,
    parse_workers: usize,
    work_queue_size: usize,
    fetch_fn: impl Fn(&str) -> Option<P> + Sync,
    edge_fn: impl Fn(&str, &str) + Sync,
) -> Result<CallbackReport, StartError>
where
    P: AsRef<str> + Send,
{
    CallbackCrawl::default()
        .download_workers(download_workers)
        .parse_workers(parse_workers)
        .work_queue_size(work_queue_size)
        .run_str(start_url, fetch_fn, edge_fn)
}

/// A crawl with your own fetch function: configure it, then run it.
///
/// ```
/// use crawler::{CallbackCrawl, LinkRule};
///
/// let crawl = CallbackCrawl::default().download_workers(8).parse_workers(2).links(LinkRule::Html);
/// let fetch = |url: &str| (url == "http://a.test/").then_some("<a href=/b>b</a>");
/// let report = crawl.run_str("http://a.test/", fetch, |from, to| println!("{from} -> {to}"))?;
/// assert_eq!((report.pages, report.broken, report.edges), (1, 1, 1));
/// # Ok::<(), crawler::StartError>(())
/// ```
///
/// Guarantees of [`run`](Self::run):
///
/// - It starts exactly the configured number of threads, and all can be in their callback at the same time. No lock is
///   held during a callback: it may block, wait for another callback, or run a crawl of its own.
/// - Each distinct link is fetched at most once, including the start.
/// - `edge` is called for every occurrence of a link, in document order. An edge is reported before its target is queued.
/// - At most `work_queue_size` links wait to be fetched. While the queue is full, parse threads wait. Pages that wait to
///   be parsed are not bounded: if they were, the two pools could deadlock.
/// - It returns when nothing is left to do and all threads are joined. No callback comes afterwards.
/// - If a callback panics, no other starts after it has unwound, running ones finish, all threads are joined, and the
///   panic continues in the caller. A callback that waits for the one that panicked waits forever.
/// - If the system refuses a thread, the result is [`StartError::Threads`]. Running out of memory aborts the process, as
///   elsewhere in Rust.
#[must_use = "a crawl does nothing until it is run"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackCrawl {
    download_workers: usize,
    parse_workers: usize,
    work_queue_size: usize,
    links: LinkRule,
}

/// Why a crawl could not start. No callback was called.
///
/// `{}` leaves the system's error out, which is the source; `{:#}` prints it too.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// A pool or the queue has size zero.
    #[non_exhaustive]
    Zero {
        /// The name of the setting.
        what: &'static str,
    },
    /// The system refused a thread. Those that had started are joined.
    #[non_exhaustive]
    Threads {
        /// The number of threads that were wanted.
        wanted: usize,
        /// The number of threads that had started.
        started: usize,
        /// The system's error.
        source: io::Error,
    },
}

impl CallbackCrawl {
    /// Sets the number of threads that call `fetch`.
    pub fn download_workers(self, download_workers: usize) -> Self {
        CallbackCrawl { download_workers, ..self }
    }

    /// Sets the number of threads that parse pages and call `edge`.
    pub fn parse_workers(self, parse_workers: usize) -> Self {
        CallbackCrawl { parse_workers, ..self }
    }

    /// Sets the maximum number of links that wait to be fetched.
    pub fn work_queue_size(self, work_queue_size: usize) -> Self {
        CallbackCrawl { work_queue_size, ..self }
    }

    /// Sets what counts as a link.
    pub fn links(self, links: LinkRule) -> Self {
        CallbackCrawl { links, ..self }
    }

    /// Crawls everything that can be reached from `start`.
    ///
    /// `fetch` returns the page behind a link, or `None` for a broken link. `edge` receives every link of every page: the
    /// page's own link, then the link found on it.
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

    /// Like [`run`](Self::run), for pages and links that are text. The encoding that an HTML page declares is ignored.
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
            str::from_utf8(link).expect("links are URLs, or parts of text between ASCII white space")
        }
        let fetch = |link: &[u8]| fetch(text(link)).map(TextPage);
        let edge = |_: &TextPage<P>, from: &[u8], to: &[u8]| edge(text(from), text(to));
        let start = self.links.start(start.as_bytes());
        self.job(self.links.in_text(), fetch, edge)?.run_borrowed(self, &start)
    }

    fn job<P, F, E>(&self, scan: FindLinks, fetch: F, edge: E) -> Result<Job<P, F, E>, StartError> {
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

/// What only the C library needs.
pub trait CallbackInternals {
    /// Like [`run`](CallbackCrawl::run), for callbacks that borrow nothing; `edge` receives the page as well. For the C library.
    ///
    /// It allocates nothing on the calling thread that outlives it. The scoped threads of `run` leave the standard
    /// library's thread handle there, which leak checkers of C programs report.
    fn run_static<P>(
        &self,
        start: &[u8],
        fetch: impl Fn(&[u8]) -> Option<P> + Send + Sync + 'static,
        edge: impl Fn(&P, &[u8], &[u8]) + Send + Sync + 'static,
    ) -> Result<CallbackReport, StartError>
    where
        P: AsRef<[u8]> + Send + 'static;
}

#[doc(hidden)]
impl CallbackInternals for CallbackCrawl {
    fn run_static<P>(
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
}

impl Default for CallbackCrawl {
    /// One download thread, one parse thread, a queue of 1,000 links, and the `link:` rule.
    fn default() -> Self {
        CallbackCrawl {
            download_workers: 1,
            parse_workers: 1,
            work_queue_size: 1_000,
            links: LinkRule::Words,
        }
    }
}

/// A text page as bytes.
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
                write!(out, "cannot start thread {} of {wanted}", started + 1)?;
                if out.alternate() {
                    write!(out, ": {source}")?;
                }
                out.write_str("; use fewer workers")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_error_names_a_remedy() {
        let error = StartError::Threads { wanted: 64, started: 40, source: io::ErrorKind::WouldBlock.into() };
        assert_eq!(error.to_string(), "cannot start thread 41 of 64; use fewer workers");
        assert_eq!(
            format!("{error:#}"),
            "cannot start thread 41 of 64: operation would block; use fewer workers"
        );
    }
}
