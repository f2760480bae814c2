//! What is remembered of visits, and the URLs that are due again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::super::{BackendError, Lease};
use super::super::storage::{QueuedTask, Storage, unix_millis};
use super::LocalState;
use crate::outcome::Outcome;
use crate::url_record::RequestRecord;
use crate::visit::{self, ResponseFacts, Visit, VisitRecord};

impl<S: Storage> LocalState<S> {
    /// What is remembered of a URL's visits after this one.
    pub(super) fn visits_after(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        response: ResponseFacts,
        request: &RequestRecord,
    ) -> VisitRecord {
        if !self.config.visits.are_kept {
            return VisitRecord::default();
        }
        let (number, requested) = (self.counters.visit(), request.requested);
        VisitRecord::after(Visit { number, outcome, response, requested }, lease.previous.as_deref())
    }

    /// When a URL is due again that is completed at this time, if URLs are visited again while the crawl runs.
    pub(super) fn due_again(
        &self,
        task: &QueuedTask,
        outcome: &Outcome,
        visits: &VisitRecord,
        at: u64,
    ) -> Option<u64> {
        let after = self.config.visits.revisit_after?;
        (!task.is_refetch && visit::is_scheduled(outcome)).then(|| visits.due_at(at, after))
    }

    /// Schedules a URL that is completed.
    pub(super) fn schedule(&mut self, id: u64, task: &QueuedTask, due: u64) {
        self.storage.schedule(id, task, due);
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
    }

    /// Stores when a page was last modified, by the ID of its URL. It may be due now.
    pub(super) fn set_lastmod(&mut self, id: u64, lastmod: u32) -> Result<(), BackendError> {
        self.storage.set_lastmod(id, lastmod);
        let settings = self.config.visits;
        // A time in the future is a mistake, and would make the URL due again and again.
        if settings.lastmod_makes_due && u64::from(lastmod) <= unix_millis() / 1000 {
            self.storage.make_due(id, lastmod, self.counters.visit(), settings)?;
            self.next_due = self.storage.next_due()?;
        }
        Ok(())
    }

    /// Queues URLs again that are due, as far as the URL queue has room.
    pub(super) fn queue_due(&mut self) -> Result<(), BackendError> {
        if self.storage.scheduled_len() == 0 {
            return Ok(());
        }
        let (now, room) = (unix_millis(), self.config.queue_size.saturating_sub(self.url_queue.len()));
        if self.next_due.is_none_or(|next| next <= now) && room > 0 {
            for task in self.storage.take_due(now, room)? {
                self.queue_again(task);
            }
            self.next_due = self.storage.next_due()?;
        }
        Ok(())
    }

    fn queue_again(&mut self, task: QueuedTask) {
        self.clock.start();
        self.counters.admitted += 1;
        self.budgets.admitted(&task.url);
        match Self::is_requisite(&task.url) {
            true => {
                self.requisites.len += 1;
                self.storage.park(&mut self.requisites.urls, task);
            }
            false => self.url_queue.push_back(task),
        }
    }

    /// When the next URL is due that is not due yet.
    pub(super) fn due_timer(&self) -> Option<Instant> {
        let wait = self.next_due?.checked_sub(unix_millis()).filter(|wait| *wait > 0)?;
        Instant::now().checked_add(Duration::from_millis(wait))
    }

    /// Number of URLs that are pending, or will be visited again while the crawl runs.
    pub(crate) fn unfinished(&self) -> u64 {
        self.counters.admitted - self.counters.completed + self.storage.scheduled_len()
    }

    /// The last visit of a task's URL, if it is visited again.
    pub(super) fn previous_visit(
        &self,
        task: &QueuedTask,
    ) -> Result<Option<Arc<crate::visit::PreviousVisit>>, BackendError> {
        Ok(if task.was_visited { self.storage.previous_visit(task)?.map(Arc::new) } else { None })
    }
}
