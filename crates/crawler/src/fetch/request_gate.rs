//! Decides whether a request may start now: not while the crawl is paused, and not to a host that is blocked.

use std::sync::Arc;

use tokio::sync::watch;

use crate::live_settings::Pause;
use crate::outcome::Outcome;
use crate::scope::{RejectReason, Scope};

/// What all requests of a process are checked against. It may change while they run.
#[derive(Debug)]
pub struct RequestGate {
    pause: Arc<Pause>,
    scope: watch::Sender<Arc<Scope>>,
}

impl RequestGate {
    /// The gate of a crawl in this scope.
    pub fn new(scope: Scope, pause: Arc<Pause>) -> RequestGate {
        RequestGate { pause, scope: watch::Sender::new(Arc::new(scope)) }
    }

    /// Which URLs belong to the crawl now.
    pub fn scope(&self) -> Arc<Scope> {
        Arc::clone(&self.scope.borrow())
    }

    /// Changes which URLs belong to the crawl.
    pub(crate) fn set_scope(&self, scope: Scope) {
        self.scope.send_replace(Arc::new(scope));
    }

    /// The pauses of the crawl.
    pub(super) fn pause(&self) -> &Pause {
        &self.pause
    }

    /// Checks that a request to a host, by its throttle key, may start now. If the crawl is paused, it has to wait again.
    pub(super) fn check(&self, host: &str) -> Result<(), Outcome> {
        match self.pause.is_paused() {
            true => Err(Outcome::RequestNotProcessed),
            false if self.scope().blocks_host(host) => Err(Outcome::Rejected { why: RejectReason::Blocked }),
            false => Ok(()),
        }
    }

    /// Waits until a host, by its throttle key, or a URL is blocked, and returns the outcome of a request that has not started.
    pub(super) async fn blocked(&self, host: &str, url: Option<&str>) -> Outcome {
        // The sender is part of the gate, so this waits for nothing else.
        let _ = self.scope.subscribe().wait_for(|scope| is_blocked(scope, host, url)).await;
        Outcome::Rejected { why: RejectReason::Blocked }
    }

    /// The same outcome if the host or the URL is blocked now.
    pub(super) fn check_blocked(&self, host: &str, url: Option<&str>) -> Result<(), Outcome> {
        match is_blocked(&self.scope.borrow(), host, url) {
            true => Err(Outcome::Rejected { why: RejectReason::Blocked }),
            false => Ok(()),
        }
    }
}

fn is_blocked(scope: &Scope, host: &str, url: Option<&str>) -> bool {
    scope.blocks_host(host) || url.is_some_and(|url| scope.check_blocked(url).is_err())
}

impl Default for RequestGate {
    /// The gate of a crawl of the whole web.
    fn default() -> RequestGate {
        RequestGate::new(Scope::anywhere(), Arc::default())
    }
}
