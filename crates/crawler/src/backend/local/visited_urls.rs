//! The visits of URLs in memory, and the schedule of a crawl that visits URLs again.

use std::collections::{BTreeMap, HashMap};

use super::super::TaskId;
use super::storage::{CompletedUrl, QueuedTask, unix_millis};
use crate::backend::durable::records::TaskRow;
use crate::visit::{PreviousVisit, VisitRecord};

/// What is remembered of each URL, in few bytes: a crawl may know millions.
#[derive(Default)]
pub(super) struct VisitedUrls {
    /// By the ID of the URL.
    visits: HashMap<u64, LastVisit>,
    /// The encoded tasks, by the time at which they are due, as Unix time in milliseconds, and their IDs.
    schedule: BTreeMap<(u64, u64), Box<[u8]>>,
}

struct LastVisit {
    /// Unix time in milliseconds.
    at: u64,
    /// Its entry in the schedule, while it has one.
    due: (u64, u64),
    record: Box<[u8]>,
    outcome: Box<str>,
}

impl VisitedUrls {
    pub(super) fn complete(&mut self, id: u64, completed: &CompletedUrl) {
        let (record, outcome) = (completed.visits.to_bytes().into(), completed.outcome.to_string().into());
        self.visits.insert(id, LastVisit { at: completed.at, due: (0, 0), record, outcome });
    }

    pub(super) fn previous(&self, id: u64) -> Option<PreviousVisit> {
        let LastVisit { record, outcome, .. } = self.visits.get(&id)?;
        Some(PreviousVisit { record: VisitRecord::from_bytes(record)?, outcome: outcome.to_string() })
    }

    pub(super) fn schedule(&mut self, id: u64, task: &QueuedTask, due: u64) {
        let due = (due, task.task_id.0);
        if let Some(visit) = self.visits.get_mut(&id) {
            visit.due = due;
        }
        let row = TaskRow { was_visited: true, ..TaskRow::from_task(task.borrowed()) };
        self.schedule.insert(due, row.to_bytes().into());
    }

    pub(super) fn make_due(&mut self, id: u64, modified: u32) {
        let modified = u64::from(modified) * 1000;
        let Some(visit) = self.visits.get_mut(&id).filter(|visit| visit.at < modified) else { return };
        if let Some(task) = self.schedule.remove(&visit.due) {
            visit.due.0 = unix_millis();
            self.schedule.insert(visit.due, task);
        }
    }

    pub(super) fn take_due(&mut self, now: u64, max: usize) -> Vec<QueuedTask> {
        let mut tasks = Vec::new();
        while tasks.len() < max
            && let Some(entry) = self.schedule.first_entry().filter(|entry| entry.key().0 <= now)
        {
            let ((_, task_id), row) = entry.remove_entry();
            tasks.extend(TaskRow::from_bytes(&row).map(|row| row.into_task(TaskId(task_id))));
        }
        tasks
    }

    pub(super) fn next_due(&self) -> Option<u64> {
        self.schedule.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn scheduled_len(&self) -> u64 {
        self.schedule.len() as u64
    }
}
