//! The way to end a crawl early: what is in flight is finished, nothing new is begun.

use std::sync::Arc;

use tokio::sync::watch;

/// A handle that ends a crawl; clones share it.
#[derive(Debug, Clone)]
pub struct Stop {
    asked: Arc<watch::Sender<bool>>,
}

impl Default for Stop {
    fn default() -> Stop {
        Stop { asked: Arc::new(watch::Sender::new(false)) }
    }
}

impl Stop {
    /// A handle nobody has used yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks the crawl to end.
    pub fn stop(&self) {
        self.asked.send_replace(true);
    }

    /// Whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Returns as soon as somebody asks.
    pub async fn asked(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
    }
}
