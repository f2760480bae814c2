//! Stops a crawl early, gracefully or immediately.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Stops a crawl early. Clones stop the same crawl.
///
/// ```no_run
/// # async fn example() -> Result<(), crawler::Error> {
/// use crawler::{Crawler, StopHandle};
///
/// let stop = StopHandle::new();
/// let crawler = Crawler::new("https://example.org/")?.stop_handle(stop.clone());
/// tokio::spawn(async move {
///     tokio::time::sleep(std::time::Duration::from_secs(60)).await;
///     stop.stop();
/// });
/// println!("{}", crawler.run().await?.end);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct StopHandle {
    level: Arc<watch::Sender<StopLevel>>,
    in_flight: Arc<AtomicU64>,
}

/// A request in flight, until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestInFlight(Arc<AtomicU64>);

/// How a crawl is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StopLevel {
    /// Not at all.
    Running,
    /// When the requests in flight have finished.
    Graceful,
    /// Now.
    Immediate,
}

impl Default for StopHandle {
    fn default() -> StopHandle {
        let level = Arc::new(watch::Sender::new(StopLevel::Running));
        StopHandle { level, in_flight: Arc::default() }
    }
}

impl StopHandle {
    /// Returns a handle for one crawl.
    pub fn new() -> StopHandle {
        StopHandle::default()
    }

    /// A handle of its own for a part of the crawl, whose requests in flight count for both.
    pub(crate) fn of_part(&self) -> StopHandle {
        StopHandle { in_flight: Arc::clone(&self.in_flight), ..StopHandle::new() }
    }

    /// Stops the crawl gracefully: no request starts any more, and the requests in flight finish.
    pub fn stop(&self) {
        self.raise_to(StopLevel::Graceful);
    }

    /// Stops the crawl immediately: requests in flight are aborted. Their URLs stay pending.
    pub fn abort(&self) {
        self.raise_to(StopLevel::Immediate);
    }

    fn raise_to(&self, wanted: StopLevel) {
        self.level.send_modify(|level| *level = wanted.max(*level));
    }

    /// Whether a stop was requested, or the crawl has stopped.
    pub(crate) fn is_stop_requested(&self) -> bool {
        *self.level.borrow() >= StopLevel::Graceful
    }

    /// Counts a request as in flight.
    pub(crate) fn request_started(&self) -> RequestInFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestInFlight(Arc::clone(&self.in_flight))
    }

    /// Returns as soon as a stop is requested.
    pub(crate) async fn stop_requested(&self) {
        self.reaches(|| StopLevel::Graceful).await;
    }

    /// Returns as soon as a request ends early: when a stop is requested before it has started, or an immediate stop.
    pub(crate) async fn ends_request(&self, has_started: impl Fn() -> bool) {
        let wanted = || if has_started() { StopLevel::Immediate } else { StopLevel::Graceful };
        self.reaches(wanted).await;
    }

    async fn reaches(&self, wanted: impl Fn() -> StopLevel) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.level.subscribe().wait_for(|level| *level >= wanted()).await;
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
/// What only the command needs.
pub trait StopHandleInternals {
    /// Whether a stop was requested, or the crawl has stopped.
    fn is_stop_requested(&self) -> bool;

    /// The requests in flight now, which finish before a graceful stop.
    fn requests_in_flight(&self) -> u64;
}

#[doc(hidden)]
impl StopHandleInternals for StopHandle {
    fn is_stop_requested(&self) -> bool {
        StopHandle::is_stop_requested(self)
    }

    fn requests_in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }
}
