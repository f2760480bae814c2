//! The way to end a crawl early: nothing new is begun, and what is in flight is finished, or not even that.

use std::sync::Arc;

use tokio::sync::watch;

/// A handle that ends a crawl; clones share it.
#[derive(Debug, Clone)]
pub struct StopHandle {
    asked: Arc<watch::Sender<StopLevel>>,
}

/// How soon a crawl is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StopLevel {
    /// When it is done.
    Running,
    /// When what is in flight is done.
    Graceful,
    /// Now.
    Immediate,
}

impl Default for StopHandle {
    fn default() -> StopHandle {
        StopHandle { asked: Arc::new(watch::Sender::new(StopLevel::Running)) }
    }
}

impl StopHandle {
    /// A handle nobody has used yet.
    pub fn new() -> StopHandle {
        StopHandle::default()
    }

    /// Asks the crawl to end when what is in flight is finished.
    pub fn stop(&self) {
        self.ask(StopLevel::Graceful);
    }

    /// Asks the crawl to end at once: what is in flight is given up, and stays to be done.
    pub fn abort(&self) {
        self.ask(StopLevel::Immediate);
    }

    fn ask(&self, wanted: StopLevel) {
        self.asked.send_modify(|asked| *asked = wanted.max(*asked));
    }

    /// Whether somebody has asked.
    pub fn is_stop_requested(&self) -> bool {
        *self.asked.borrow() >= StopLevel::Graceful
    }

    /// Returns as soon as somebody asks.
    pub async fn stop_requested(&self) {
        self.reaches(StopLevel::Graceful).await;
    }

    /// Returns as soon as somebody asks for the end at once.
    pub async fn aborted(&self) {
        self.reaches(StopLevel::Immediate).await;
    }

    async fn reaches(&self, wanted: StopLevel) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.asked.subscribe().wait_for(|asked| *asked >= wanted).await;
    }
}
