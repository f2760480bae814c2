//! What one lease may read: reserved from the crawl's budgets when its request can be made, not before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ask::Allowance;
use super::download::Want;
use crate::outcome::Outcome;
use crate::resources::{Grant, Lease, Resources};
use crate::stop::Stop;

/// How long to wait for what others have reserved; they are in flight, and come back within their timeouts.
const PAUSE: Duration = Duration::from_millis(20);

/// The allowance of one lease.
pub(super) struct Reservation<'a, R> {
    resources: &'a R,
    lease: &'a Lease,
    stop: &'a Stop,
    /// Bytes read since the last reservation.
    read: AtomicU64,
}

impl<'a, R: Resources> Reservation<'a, R> {
    pub(super) fn new(resources: &'a R, lease: &'a Lease, stop: &'a Stop) -> Self {
        Reservation { resources, lease, stop, read: AtomicU64::new(0) }
    }

    /// Bytes read since the last reservation.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl<R: Resources> Allowance for Reservation<'_, R> {
    async fn want(&self) -> Result<Want, Outcome> {
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
}
