//! The requests and responses of one lease that outputs archive, until its completion.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::exchange::{Exchange, Truncation};

/// How many bytes of exchanges the leases of a worker have that wait for their next request, such as the one after a failed
/// robots.txt. Any number of leases can wait.
pub(super) const MAX_WAITING_EXCHANGE_BYTES: usize = 16 << 20;

/// The exchanges of a lease, in the order of the requests.
#[derive(Default)]
pub(super) struct LeaseExchanges(Mutex<Collected>);

#[derive(Default)]
struct Collected {
    exchanges: Vec<Exchange>,
    /// While the lease waits.
    permit: Option<OwnedSemaphorePermit>,
}

impl LeaseExchanges {
    pub(super) fn add(&self, exchange: Exchange) {
        self.collected().exchanges.push(exchange);
    }

    pub(super) fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut *self.collected()).exchanges
    }

    /// Called when the lease starts to wait. If the exchanges take more memory than is left for leases that wait, their payloads are
    /// dropped; if that does not suffice, they are.
    pub(super) fn wait(&self, memory: &Arc<Semaphore>) {
        let mut collected = self.collected();
        collected.permit = None;
        if collected.exchanges.is_empty() || collected.reserve(memory) {
            return;
        }
        for exchange in collected.exchanges.iter_mut().filter(|exchange| !exchange.payload.is_empty()) {
            exchange.payload.clear();
            exchange.truncated = Some(Truncation::Unspecified);
        }
        if !collected.reserve(memory) {
            collected.exchanges.clear();
        }
    }

    fn collected(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collected {
    fn reserve(&mut self, memory: &Arc<Semaphore>) -> bool {
        let bytes: usize = self.exchanges.iter().map(Exchange::bytes).sum();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.permit = Arc::clone(memory).try_acquire_many_owned(bytes).ok();
        self.permit.is_some()
    }
}
