//! The requisites of a crawl: they wait in a queue of their own, need no priority, and are also fetched when the pages are exhausted.

use std::time::Duration;

use super::super::super::{AdmitCounts, BackendError, BudgetDecision, Lease, Outlinks, TaskId};
use super::super::storage::{QueuedTask, Storage};
use super::LocalState;
use crate::html::BadLink;
use crate::scope::RejectReason;
use crate::stats::BodyBytes;
use crate::task_kind::{REQUISITE_DEPTH, TaskKind};

/// At most this many requisites wait in the queues of their hosts: each host takes some hundred bytes of memory.
const MAX_WAITING: usize = 10_000;

/// At most this many requisites are admitted from stylesheets, for each page of the crawl. A tree of stylesheets that import others
/// has no end otherwise.
const MAX_OF_STYLESHEETS: u64 = 1_000;

/// The requisites that wait behind those in the queues of their hosts.
#[derive(Default)]
pub(crate) struct RequisiteQueue<Q> {
    pub(crate) urls: Q,
    pub(crate) len: usize,
}

impl<S: Storage> LocalState<S> {
    /// Whether a URL goes to the queue of requisites.
    pub(super) fn is_requisite(url: &str) -> bool {
        TaskKind::from_task_url(url) == TaskKind::Requisite
    }

    /// The number of the queue of requisites.
    pub(super) fn requisite_queue(&self) -> u8 {
        self.config.priority_queues.count() as u8
    }

    /// Admits the requisites of a page or of a stylesheet.
    pub(super) fn admit_requisites(
        &mut self,
        mut requisites: Outlinks,
        from: TaskId,
    ) -> Result<(), BackendError> {
        let is_of_stylesheet = requisites.depth > REQUISITE_DEPTH;
        if is_of_stylesheet {
            let max = MAX_OF_STYLESHEETS.saturating_mul(self.budgets.pages() + 1);
            let room = max.saturating_sub(self.counters.stylesheet_requisites);
            let found = requisites.urls.len();
            requisites.urls.retain(|index, _| (index as u64) < room);
            let refused = (found - requisites.urls.len()) as u64;
            if refused > 0 {
                let why = RejectReason::InvalidLink(BadLink::TooMany);
                self.counters.count_rejected([(why.label().into(), refused)].into());
            }
        }
        let AdmitCounts { new, .. } = self.admit_outlinks(&requisites, from)?;
        self.counters.stylesheet_requisites += if is_of_stylesheet { new } else { 0 };
        Ok(())
    }

    /// Lets requisites wait in the queues of their hosts, as long as there is room.
    pub(super) fn offer_requisites(&mut self) -> Result<(), BackendError> {
        while self.requisites.len > 0 && self.waiting.requisites() < MAX_WAITING {
            let Some(mut task) = self.storage.unpark(&mut self.requisites.urls)? else { break };
            self.requisites.len -= 1;
            task.queue = self.requisite_queue();
            self.waiting.push(task, &self.cooldowns, &mut self.storage);
        }
        Ok(())
    }

    /// Restores a requisite that an earlier process has not completed, and that is not leased.
    pub(crate) fn restore_requisite(&mut self, task: QueuedTask) {
        self.budgets.admitted(&task.url);
        self.storage.park(&mut self.requisites.urls, task);
        self.requisites.len += 1;
    }

    /// Ends the lease of a URL that cannot become a page any more, so that the requisites of its host can be fetched.
    pub(super) fn reserve_no_page(&mut self, lease: &Lease, read: BodyBytes) -> BudgetDecision {
        if let Some(budget) = self.budgets.exhausted() {
            return BudgetDecision::Exhausted(budget);
        }
        if let Some(active) = self.end_lease(lease.task_id) {
            self.budgets.commit(&lease.url, active.reservation, false, read);
            self.requeue_ended(active, Duration::ZERO);
        }
        BudgetDecision::LeaseLost
    }
}
