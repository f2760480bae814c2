//! The loans that this process has: Redis may have lost what it did last, and then they tell what is nobody's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::Lease;

/// Loans, from when they are made to when they are known to have ended.
#[derive(Default)]
pub(super) struct InHand {
    /// Ticket to loan.
    loans: Mutex<HashMap<u64, u64>>,
    doubts: AtomicU64,
}

impl InHand {
    pub(super) fn take_up(&self, leases: &[Lease]) {
        self.loans().extend(leases.iter().map(|lease| (lease.task_id.0, lease.lease_id)));
    }

    pub(super) fn put_down<'a>(&self, leases: impl IntoIterator<Item = &'a Lease>) {
        leases.into_iter().for_each(|lease| self.forget(lease.task_id.0, lease.lease_id));
    }

    /// A loan was found lost. If Redis has it after all, nobody would end it: so it is made sure that it has not.
    pub(super) fn lose(&self, task_id: u64, lease_id: u64) {
        self.forget(task_id, lease_id);
        self.doubt();
    }

    fn forget(&self, task_id: u64, lease_id: u64) {
        let mut loans = self.loans();
        // It may have been lent again since.
        if loans.get(&task_id) == Some(&lease_id) {
            loans.remove(&task_id);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.loans().len()
    }

    /// Tickets and loans.
    pub(super) fn all(&self) -> Vec<(u64, u64)> {
        self.loans().iter().map(|(task_id, lease_id)| (*task_id, *lease_id)).collect()
    }

    /// Redis seems to have lost something.
    pub(super) fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that was so.
    pub(super) fn doubts(&self) -> u64 {
        self.doubts.load(Ordering::Relaxed)
    }

    fn loans(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.loans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
