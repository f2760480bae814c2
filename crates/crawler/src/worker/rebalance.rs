//! Carries a worker's load to its heartbeats, and transfer requests from their replies to the worker.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::backend::TransferTarget;

/// Shared by a worker and the task that sends its heartbeats.
#[derive(Debug, Default)]
pub struct RebalanceRequests {
    domains: AtomicUsize,
    targets: Mutex<Vec<TransferTarget>>,
    /// Whether `targets` is not empty. The worker checks this for each page, without locking.
    has_targets: AtomicBool,
}

impl RebalanceRequests {
    /// The number of domains of which the worker has leases.
    pub fn domains(&self) -> usize {
        self.domains.load(Ordering::Relaxed)
    }

    pub(super) fn set_domains(&self, domains: usize) {
        self.domains.store(domains, Ordering::Relaxed);
    }

    /// Asks the worker to transfer some of its domains to these workers.
    pub fn request_transfer(&self, targets: Vec<TransferTarget>) {
        let mut current = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_targets.store(!targets.is_empty(), Ordering::Relaxed);
        *current = targets;
    }

    /// Takes the targets of the last transfer request, if it was not taken before.
    pub(super) fn transfer_targets(&self) -> Vec<TransferTarget> {
        if !self.has_targets.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_targets.store(false, Ordering::Relaxed);
        std::mem::take(&mut *targets)
    }
}
