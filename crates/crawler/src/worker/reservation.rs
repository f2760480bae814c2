//! What one lease may read: reserved from the crawl's budgets when its request can be made, not before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ask::Allowance;
use super::download::Want;
use crate::outcome::Outcome;
use crate::resources::{Grant, Lease, Pacing, Resources};
use crate::stop::Stop;

/// How long to wait for what others have reserved; they are in flight, and come back within their timeouts.
const PAUSE: Duration = Duration::from_millis(20);

/// The allowance of one lease.
pub(super) struct Reservation<'a, R> {
    resources: &'a R,
    lease: &'a Lease,
    stop: &'a Stop,
    /// Where there is a place for each URL between its first request and its completion.
    places: &'a Arc<Semaphore>,
    place: Mutex<Option<Place>>,
    /// Bytes read since the last reservation.
    read: AtomicU64,
}

/// A place among the URLs that have been asked for and are not completed yet.
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
    async fn want(&self) -> Result<Want, Outcome> {
        if self.taken().is_none() {
            let place = Arc::clone(self.places).acquire_owned().await.ok();
            *self.taken() = place;
        }
        loop {
            let read = self.read.swap(0, Ordering::Relaxed);
            match self.resources.reserve(self.lease, read).await {
                Ok(Grant::Bytes(bytes)) => {
                    return Ok(Want::Page(usize::try_from(bytes).unwrap_or(usize::MAX)));
                }
                Ok(Grant::NotNow) => tokio::time::sleep(PAUSE).await,
                Ok(Grant::HostSpent) => return Err(Outcome::HostSpent),
                Ok(Grant::Spent(_)) => {
                    self.stop.stop();
                    return Err(Outcome::NotReached);
                }
                // Somebody else has the URL now, or the storage is gone, which the next move will tell.
                Ok(Grant::Lost) | Err(_) => return Err(Outcome::NotReached),
            }
        }
    }

    fn used(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    async fn slowed(&self, host: &str, pacing: Pacing) {
        // If the storage is gone, the next move will tell.
        let _ = self.resources.pace(host, pacing).await;
    }
}
