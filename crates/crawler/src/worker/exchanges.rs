//! The requests and responses of one lease that outputs archive, until its completion.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::exchange::{DroppedExchanges, Exchange, Truncation};

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
    /// dropped; if that does not suffice, they are. Returns what was dropped.
    pub(super) fn wait(&self, memory: &Arc<Semaphore>) -> DroppedExchanges {
        let mut collected = self.collected();
        let mut dropped = DroppedExchanges::default();
        collected.permit = None;
        if collected.exchanges.is_empty() || collected.reserve(memory) {
            return dropped;
        }
        for exchange in collected.exchanges.iter_mut().filter(|exchange| !exchange.payload.is_empty()) {
            exchange.payload.clear();
            exchange.truncated = Some(Truncation::Unspecified);
            dropped.bodies += 1;
        }
        if !collected.reserve(memory) {
            dropped = DroppedExchanges { exchanges: collected.exchanges.len() as u64, bodies: 0 };
            collected.exchanges.clear();
        }
        dropped
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::exchange::Protocol;

    fn exchange(head: usize, payload: usize) -> Exchange {
        Exchange {
            url: "http://a.test/robots.txt".into(),
            requested: SystemTime::now(),
            address: None,
            protocol: Protocol::Http1,
            request_head: Vec::new(),
            status: 503,
            response_head: vec![0; head],
            payload: vec![0; payload].into(),
            truncated: None,
            previous_visit: None,
        }
    }

    #[test]
    fn exchanges_of_leases_that_wait_take_bounded_memory() {
        let memory = Arc::new(Semaphore::new(100));
        let leases: Vec<LeaseExchanges> = (0..4).map(|_| LeaseExchanges::default()).collect();
        for (number, lease) in leases.iter().enumerate() {
            lease.add(exchange(10, 60));
            let bodies = u64::from(number > 0);
            assert_eq!(lease.wait(&memory), DroppedExchanges { bodies, exchanges: 0 });
        }
        assert_eq!(memory.available_permits(), 0);
        let kept: Vec<Vec<(usize, Option<Truncation>)>> = leases
            .iter()
            .map(|lease| lease.take().iter().map(|kept| (kept.bytes(), kept.truncated)).collect())
            .collect();
        let without_payload = vec![(10, Some(Truncation::Unspecified))];
        assert_eq!(
            kept,
            [vec![(70, None)], without_payload.clone(), without_payload.clone(), without_payload]
        );
        assert_eq!(memory.available_permits(), 100, "they do not wait any more");
        let lease = LeaseExchanges::default();
        lease.add(exchange(101, 0));
        assert_eq!(lease.wait(&memory), DroppedExchanges { bodies: 0, exchanges: 1 });
        assert!(lease.take().is_empty(), "it takes too much memory");
    }
}
