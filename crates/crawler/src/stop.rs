//! Stops a crawl early, gracefully or immediately.

use std::sync::Arc;

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
}

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
        StopHandle { level: Arc::new(watch::Sender::new(StopLevel::Running)) }
    }
}

impl StopHandle {
    /// Returns a handle for one crawl.
    pub fn new() -> StopHandle {
        StopHandle::default()
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
    pub fn is_stop_requested(&self) -> bool {
        *self.level.borrow() >= StopLevel::Graceful
    }

    /// Returns as soon as a stop is requested.
    pub(crate) async fn stop_requested(&self) {
        self.reaches(StopLevel::Graceful).await;
    }

    /// Returns as soon as an immediate stop is requested.
    pub(crate) async fn aborted(&self) {
        self.reaches(StopLevel::Immediate).await;
    }

    async fn reaches(&self, wanted: StopLevel) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.level.subscribe().wait_for(|level| *level >= wanted).await;
    }
}
