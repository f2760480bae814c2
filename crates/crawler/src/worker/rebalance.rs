//! How much a worker has in hand, for those who ask; and who shall take a part of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::backend::TransferTarget;

/// What a worker and whoever speaks for it tell each other.
#[derive(Debug, Default)]
pub struct RebalanceRequests {
    domains: AtomicUsize,
    takers: Mutex<Vec<TransferTarget>>,
    /// Whether there are any: asked for each page.
    is_asked: AtomicBool,
}

impl RebalanceRequests {
    /// Of how many domains the worker has URLs in hand.
    pub fn domains(&self) -> usize {
        self.domains.load(Ordering::Relaxed)
    }

    pub(super) fn set_domains(&self, domains: usize) {
        self.domains.store(domains, Ordering::Relaxed);
    }

    /// Asks the worker to pass on a part of what it has to these.
    pub fn request_transfer(&self, takers: Vec<TransferTarget>) {
        let mut all = self.takers.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_asked.store(!takers.is_empty(), Ordering::Relaxed);
        *all = takers;
    }

    /// To whom the worker is asked to pass on something, once.
    pub(super) fn transfer_targets(&self) -> Vec<TransferTarget> {
        if !self.is_asked.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut all = self.takers.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_asked.store(false, Ordering::Relaxed);
        std::mem::take(&mut *all)
    }
}
