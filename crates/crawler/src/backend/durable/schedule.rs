//! The schedule on disk: when URLs that were completed are due again. The next ones are in memory, too.

use std::collections::BTreeSet;

use super::super::{BackendError, TaskId};
use super::disk_storage::DiskStorage;
use super::records::CompletedRow;
use super::retry::pending;
use super::{Batch, Tables, View};
use crate::backend::local::storage::QueuedTask;
use crate::visit::{RevisitAfter, VisitSettings};

/// The most entries in memory.
const MAX_LOADED: usize = 4096;

/// Number of completed URLs to schedule in one commit, when a state is opened.
const ROWS_PER_COMMIT: usize = 4096;

/// The name of the value that records by which rule the URLs of a state are scheduled.
const RULE: &str = "revisit_after";

/// Its value while the URLs are not scheduled by any rule, or not all of them.
const NO_RULE: &[u8] = b"none";

/// When a URL is due that a sitemap makes due at once: before all others. It has one entry, however many sitemaps name it.
const AT_ONCE: u64 = 0;

/// When a URL is due, as Unix time in milliseconds, and its task.
pub(crate) type DueUrl = (u64, u64);

/// The first entries of the schedule, and how many there are.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// No entry that is not in here is less than one that is.
    first: BTreeSet<DueUrl>,
    length: u64,
}

impl Schedule {
    /// A schedule of this many entries on disk.
    pub(crate) fn of_length(length: u64) -> Schedule {
        Schedule { first: BTreeSet::new(), length }
    }

    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    fn insert(&mut self, due: DueUrl) {
        let is_complete = self.first.len() as u64 == self.length;
        self.length += 1;
        if is_complete || self.first.last().is_some_and(|last| due < *last) {
            self.first.insert(due);
            if self.first.len() > MAX_LOADED {
                self.first.pop_last();
            }
        }
    }

    fn remove(&mut self, due: DueUrl) {
        self.first.remove(&due);
        self.length = self.length.saturating_sub(1);
    }
}

impl DiskStorage {
    /// The first entry of the schedule.
    pub(crate) fn first_due(&mut self) -> Result<Option<DueUrl>, BackendError> {
        if self.schedule.first.is_empty() && self.schedule.length > 0 {
            self.load_schedule()?;
        }
        Ok(self.schedule.first.first().copied())
    }

    /// Loads the first entries. Those that the batches remove may be the first ones of the last commit.
    fn load_schedule(&mut self) -> Result<(), BackendError> {
        let batches = || self.committing.as_deref().into_iter().chain([&self.batch]);
        let max = MAX_LOADED + batches().map(|batch| batch.due.len()).sum::<usize>();
        let stored = self.view.due(max)?;
        let last = stored.last().copied().filter(|_| stored.len() == max);
        let mut first: BTreeSet<DueUrl> = stored.into_iter().collect();
        for batch in batches() {
            for (due, is_added) in &batch.due {
                match is_added {
                    true => first.insert(*due),
                    false => first.remove(due),
                };
            }
        }
        if let Some(last) = last {
            first.retain(|due| *due <= last);
        }
        while first.len() > MAX_LOADED {
            first.pop_last();
        }
        if first.is_empty() {
            return Err(self.view.wrong_counts());
        }
        self.schedule.first = first;
        Ok(())
    }

    fn is_scheduled(&self, due: DueUrl) -> Result<bool, BackendError> {
        let in_batch = |batch: &Batch| batch.due.get(&due).copied();
        match in_batch(&self.batch).or_else(|| self.committing.as_deref().and_then(in_batch)) {
            Some(is_added) => Ok(is_added),
            None => self.view.is_due(due),
        }
    }

    /// Schedules a completed URL.
    pub(crate) fn add_due(&mut self, due: DueUrl) {
        self.batch.due.insert(due, true);
        self.schedule.insert(due);
    }

    fn remove_due(&mut self, due: DueUrl) {
        self.batch.due.insert(due, false);
        self.schedule.remove(due);
    }

    /// Queues up to `max` URLs again that are due now.
    pub(crate) fn queue_due(&mut self, now: u64, max: usize) -> Result<Vec<QueuedTask>, BackendError> {
        let mut tasks = Vec::new();
        while tasks.len() < max {
            match self.queue_first_due(now) {
                Ok(Some(task)) => tasks.extend(task),
                Ok(None) => break,
                Err(error) if tasks.is_empty() => return Err(error),
                // The caller counts what is queued; the next call fails.
                Err(_) => break,
            }
        }
        Ok(tasks)
    }

    /// Queues the first URL of the schedule again if it is due now, and not pending. Returns `None` if none is due.
    fn queue_first_due(&mut self, now: u64) -> Result<Option<Option<QueuedTask>>, BackendError> {
        let Some(due) = self.first_due()?.filter(|(at, _)| *at <= now) else { return Ok(None) };
        let task_id = TaskId(due.1);
        let row = self.completed(task_id)?.filter(|row| !row.is_refetch);
        let is_pending = self.task(task_id)?.is_some();
        let task = row.filter(|_| !is_pending).map(|row| pending(row, &self.view, self.key)).transpose()?;
        // Nothing fails from here on.
        self.remove_due(due);
        Ok(Some(task.map(|task| {
            self.batch.tasks.insert(task_id.0, Some(task.to_bytes()));
            task.into_task(task_id)
        })))
    }

    /// Makes a URL due at once, if it is completed, and was last visited before it was modified and in another visit of the crawl
    /// than this one. If URLs are scheduled by a rule, its entry is replaced.
    pub(crate) fn make_due(
        &mut self,
        id: u64,
        modified: u32,
        visit: u32,
        settings: VisitSettings,
    ) -> Result<(), BackendError> {
        let Some(task_id) = self.find_seen(id)?.map(|seen| seen.task_id) else { return Ok(()) };
        let Some(row) = self.completed(task_id)?.filter(|row| row.completed_at < u64::from(modified) * 1000)
        else {
            return Ok(());
        };
        if self.task(task_id)?.is_some() {
            return Ok(());
        }
        match settings.revisit_after {
            Some(after) if self.is_scheduled((due_at(&row, after), task_id.0))? => {
                self.remove_due((due_at(&row, after), task_id.0));
            }
            Some(_) => return Ok(()),
            None if row.visits.visit == visit || self.is_scheduled((AT_ONCE, task_id.0))? => return Ok(()),
            None => {}
        }
        self.add_due((AT_ONCE, task_id.0));
        Ok(())
    }
}

fn due_at(row: &CompletedRow, after: RevisitAfter) -> u64 {
    row.visits.due_at(row.completed_at, after)
}

/// Removes all entries of the schedule. By which rule the URLs were scheduled is forgotten with them, so that the next process
/// schedules all of them, also if this one is killed before it has.
pub(super) fn clear(batch: &mut Batch) {
    batch.clears_due = true;
    batch.meta.insert(RULE, NO_RULE.to_vec());
}

/// Whether the URLs are scheduled by a rule: the last process visited them again when they were due.
pub(super) fn has_rule(view: &View) -> Result<bool, BackendError> {
    Ok(view.meta(RULE)?.is_some_and(|rule| !rule.is_empty() && rule != NO_RULE))
}

/// Schedules the completed URLs of a state that is opened, by the rule of the crawl. Nothing is to be done if they are scheduled by
/// this rule, or if there is none and there was none.
pub(super) fn apply_rule(tables: &Tables, rule: Option<RevisitAfter>) -> Result<(), BackendError> {
    let view = tables.view()?;
    // A time can always be written as JSON.
    let text = rule.and_then(|rule| serde_json::to_vec(&rule).ok()).unwrap_or_default();
    if view.meta(RULE)?.unwrap_or_default() == text {
        return Ok(());
    }
    drop(view);
    let mut batch = Batch { number: 1, ..Batch::default() };
    clear(&mut batch);
    tables.write(&batch)?;
    if let Some(rule) = rule {
        let mut first = 0;
        while let Some(next) = schedule_some(tables, rule, first)? {
            first = next;
        }
    }
    let mut batch = Batch { number: 1, ..Batch::default() };
    batch.meta.insert(RULE, text);
    tables.write(&batch)
}

/// Schedules some completed URLs, from a task on. Returns the task after them.
fn schedule_some(tables: &Tables, rule: RevisitAfter, first: u64) -> Result<Option<u64>, BackendError> {
    let view: View = tables.view()?;
    let rows = view.completed_from(first, ROWS_PER_COMMIT)?;
    let Some((last, _)) = rows.last() else { return Ok(None) };
    let next = last.checked_add(1).ok_or_else(|| view.damaged())?;
    let mut batch = Batch { number: 1, ..Batch::default() };
    for (task_id, row) in rows {
        let row = CompletedRow::from_bytes(&row).ok_or_else(|| view.damaged())?;
        if !row.is_refetch && view.task(task_id)?.is_none() {
            batch.due.insert((due_at(&row, rule), task_id), true);
        }
    }
    tables.write(&batch)?;
    Ok(Some(next))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_entries_are_known(changes in proptest::collection::vec((any::<bool>(), 0..50u64), 1..200)) {
            let (mut schedule, mut model) = (Schedule::default(), BTreeSet::new());
            for (number, (is_added, at)) in changes.into_iter().enumerate() {
                if is_added {
                    schedule.insert((at, number as u64));
                    model.insert((at, number as u64));
                } else if let Some(first) = model.pop_first() {
                    prop_assert_eq!(schedule.first.first(), Some(&first));
                    schedule.remove(first);
                }
                prop_assert_eq!(schedule.len(), model.len() as u64);
            }
        }
    }
}
