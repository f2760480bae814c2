//! What happens to URLs when the pages of the crawl are used up, and only requisites are still fetched.

use std::time::Duration;

use super::super::super::{BudgetDecision, Lease};
use super::super::storage::{QueuedTask, Storage};
use super::LocalState;
use crate::stats::BodyBytes;

impl<S: Storage> LocalState<S> {
    /// Keeps a URL that was taken for a worker out of the queues. It stays pending.
    pub(super) fn park(&mut self, task: QueuedTask) {
        self.waiting.release(&task.url, &self.cooldowns, Duration::ZERO);
        self.parked.push_back(task);
    }

    /// Returns those URLs to the queues if the limit was raised.
    pub(super) fn unpark(&mut self) {
        if !self.budgets.pages_used_up() {
            for task in self.parked.drain(..) {
                self.waiting.give_back(task, &self.cooldowns);
            }
        }
    }

    /// Ends the lease of a URL that cannot become a page any more, so that the requisites of its host can be fetched.
    pub(super) fn budgets_used_up_for(&mut self, lease: &Lease, read: BodyBytes) -> BudgetDecision {
        if let Some(budget) = self.budgets.exhausted() {
            return BudgetDecision::Exhausted(budget);
        }
        if let Some(active) = self.end_lease(lease.task_id) {
            self.budgets.commit(&active.task.url, active.reservation, false, read);
            self.park(active.task);
        }
        BudgetDecision::LeaseLost
    }
}
