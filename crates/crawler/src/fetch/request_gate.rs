//! Decides whether a request may start now: not while the crawl is paused, and not to a host that is blocked.

use std::sync::{Arc, PoisonError, RwLock};

use crate::live_settings::Pause;
use crate::outcome::Outcome;
use crate::scope::{RejectReason, Scope};

/// What all requests of a process are checked against. It may change while they run.
#[derive(Debug)]
pub struct RequestGate {
    pause: Arc<Pause>,
    scope: RwLock<Arc<Scope>>,
}

impl RequestGate {
    /// The gate of a crawl in this scope.
    pub fn new(scope: Scope, pause: Arc<Pause>) -> RequestGate {
        RequestGate { pause, scope: RwLock::new(Arc::new(scope)) }
    }

    /// Which URLs belong to the crawl now.
    pub fn scope(&self) -> Arc<Scope> {
        Arc::clone(&self.scope.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes which URLs belong to the crawl.
    pub(crate) fn set_scope(&self, scope: Scope) {
        *self.scope.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(scope);
    }

    /// The pauses of the crawl.
    pub(super) fn pause(&self) -> &Pause {
        &self.pause
    }

    /// Checks that a request to a host, by its throttle key, may start now. If the crawl is paused, it has to wait again.
    pub(super) fn check(&self, host: &str) -> Result<(), Outcome> {
        match self.pause.is_paused() {
            true => Err(Outcome::RequestNotProcessed),
            false if self.scope().blocks_host(host) => Err(Outcome::Rejected { why: RejectReason::Excluded }),
            false => Ok(()),
        }
    }
}

impl Default for RequestGate {
    /// The gate of a crawl of the whole web.
    fn default() -> RequestGate {
        RequestGate::new(Scope::anywhere(), Arc::default())
    }
}
