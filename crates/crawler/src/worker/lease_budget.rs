//! What one lease may read: reserved from the crawl's budgets when its request can be made, not before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::backend::{Grant, Lease, Pacing, Resources};
use crate::fetch::http::Want;
use crate::fetch::polite_client::Allowance;
use crate::outcome::Outcome;
use crate::stop::Stop;

/// The allowance of one lease.
pub(super) struct Reservation<'a, R> {
    resources: &'a R,
    lease: &'a Lease,
    stop: &'a Stop,
    /// Where there is a place for each URL between its request and its completion.
    places: &'a Arc<Semaphore>,
    place: Mutex<Option<Place>>,
    /// Bytes read since the last reservation.
    read: AtomicU64,
}

/// A place among the URLs that are being asked for, or have been and are not completed yet.
pub(super) type Place = OwnedSemaphorePermit;

impl<'a, R: Resources> Reservation<'a, R> {
    pub(super) fn new(
        resources: &'a R,
        lease: &'a Lease,
        stop: &'a Stop,
        places: &'a Arc<Semaphore>,
    ) -> Self {
        Reservation { resources, lease, stop, places, place: Mutex::default(), read: AtomicU64::new(0) }
    }

    /// Bytes read since the last reservation.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The place it took, if anything was asked for.
    pub(super) fn place(self) -> Option<Place> {
        self.place.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Resources> Allowance for Reservation<'_, R> {
    async fn waits(&self) {
        // Between two tries; a host that wants minutes of rest must not keep from the others what they could use.
        let place = self.taken().take();
        if place.is_some() {
            // If the storage is gone, the next move will tell.
            let _ = self.resources.release(self.lease, self.read.swap(0, Ordering::Relaxed)).await;
        }
    }

    async fn want(&self) -> Result<Option<Want>, Outcome> {
        let place = Arc::clone(self.places).acquire_owned().await.ok();
        let read = self.read.swap(0, Ordering::Relaxed);
        match self.resources.reserve(self.lease, read).await {
            Ok(Grant::Bytes(bytes)) => {
                *self.taken() = place;
                Ok(Some(Want::Page(usize::try_from(bytes).unwrap_or(usize::MAX))))
            }
            Ok(Grant::NotNow) => Ok(None),
            Ok(Grant::HostSpent) => Err(Outcome::HostSpent),
            Ok(Grant::Spent(_)) => {
                self.stop.stop();
                Err(Outcome::NotReached)
            }
            // Somebody else has the URL now, or the storage is gone, which the next move will tell.
            Ok(Grant::Lost) | Err(_) => Err(Outcome::NotReached),
        }
    }

    fn used(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    fn unfinished(&self, _: Outcome) -> Outcome {
        // It stays to be done: whoever goes on with the crawl tries again.
        Outcome::NotReached
    }

    async fn slowed(&self, host: &str, pacing: Pacing) {
        // If the storage is gone, the next move will tell.
        let _ = self.resources.pace(host, pacing).await;
    }
}
