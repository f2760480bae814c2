//! What one lease may read: reserved from the crawl's budgets when its request can be made, not before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::backend::{Backend, BudgetDecision, HostDelay, Lease};
use crate::fetch::http::BodyPolicy;
use crate::fetch::polite_client::FetchBudget;
use crate::outcome::Outcome;
use crate::stop::StopHandle;

/// The allowance of one lease.
pub(super) struct LeaseBudget<'a, R> {
    backend: &'a R,
    lease: &'a Lease,
    stop: &'a StopHandle,
    /// Where there is a place for each URL between its request and its completion.
    places: &'a Arc<Semaphore>,
    place: Mutex<Option<InFlightPermit>>,
    /// Bytes read since the last reservation.
    read: AtomicU64,
}

/// A place among the URLs that are being asked for, or have been and are not completed yet.
pub(super) type InFlightPermit = OwnedSemaphorePermit;

impl<'a, R: Backend> LeaseBudget<'a, R> {
    pub(super) fn new(
        backend: &'a R,
        lease: &'a Lease,
        stop: &'a StopHandle,
        places: &'a Arc<Semaphore>,
    ) -> Self {
        LeaseBudget { backend, lease, stop, places, place: Mutex::default(), read: AtomicU64::new(0) }
    }

    /// Bytes read since the last reservation.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The place it took, if anything was asked for.
    pub(super) fn place(self) -> Option<InFlightPermit> {
        self.place.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self) -> MutexGuard<'_, Option<InFlightPermit>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Backend> FetchBudget for LeaseBudget<'_, R> {
    async fn before_wait(&self) {
        // Between two tries; a host that wants minutes of rest must not keep from the others what they could use.
        let place = self.taken().take();
        if place.is_some() {
            // If the storage is gone, the next move will tell.
            let _ = self.backend.release(self.lease, self.read.swap(0, Ordering::Relaxed)).await;
        }
    }

    async fn body_policy(&self) -> Result<Option<BodyPolicy>, Outcome> {
        let place = Arc::clone(self.places).acquire_owned().await.ok();
        let read = self.read.swap(0, Ordering::Relaxed);
        match self.backend.reserve(self.lease, read).await {
            Ok(BudgetDecision::Granted(bytes)) => {
                *self.taken() = place;
                Ok(Some(BodyPolicy::Page(usize::try_from(bytes).unwrap_or(usize::MAX))))
            }
            Ok(BudgetDecision::RetryLater) => Ok(None),
            Ok(BudgetDecision::HostExhausted) => Err(Outcome::HostPageLimit),
            Ok(BudgetDecision::Exhausted(_)) => {
                self.stop.stop();
                Err(Outcome::NotReached)
            }
            // Somebody else has the URL now, or the storage is gone, which the next move will tell.
            Ok(BudgetDecision::LeaseLost) | Err(_) => Err(Outcome::NotReached),
        }
    }

    fn record_bytes(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    fn stopped_before_retry(&self, _: Outcome) -> Outcome {
        // It stays to be done: whoever goes on with the crawl tries again.
        Outcome::NotReached
    }

    async fn host_slowed(&self, host: &str, host_delay: HostDelay) {
        // If the storage is gone, the next move will tell.
        let _ = self.backend.set_host_delay(host, host_delay).await;
    }
}
