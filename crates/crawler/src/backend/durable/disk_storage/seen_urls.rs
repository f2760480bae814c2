//! The seen set on disk: which URLs were found, and at which smallest depth.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::super::{BackendError, TaskId};
use super::super::records::{CompletedRow, SeenRow, TaskRow};
use super::DiskStorage;
use crate::backend::local::storage::{GENERATIONS, SeenStatus};
use crate::task::Depth;

/// Number of rows to check for expiry at a time. All operations wait meanwhile.
const SWEEP_BATCH: usize = 1024;

/// Number of possible URL ids.
const ID_SPACE: u64 = 1 << 56;

/// Walks through the seen set once per TTL, in small steps.
#[derive(Debug, Default)]
pub(super) struct ExpirySweep {
    /// The next id to check.
    next: u64,
    /// Number of ids that are due to be checked.
    due: u64,
}

impl ExpirySweep {
    /// Adds the share of the given number of generations to what is due.
    fn advance(&mut self, generations: u32) {
        let more = ID_SPACE / u64::from(GENERATIONS) * u64::from(generations.min(GENERATIONS));
        self.due = (self.due + more).min(ID_SPACE);
    }

    /// The ids to check next, if any are due.
    fn ids(&self) -> Option<RangeInclusive<u64>> {
        let last = (self.next + self.due).min(ID_SPACE).checked_sub(1)?;
        (self.due > 0).then_some(self.next..=last)
    }

    /// Records that all ids up to `last` were checked.
    fn mark_swept(&mut self, last: u64) {
        self.due -= last + 1 - self.next;
        self.next = (last + 1) % ID_SPACE;
    }
}

impl DiskStorage {
    /// Finds the URLs that the previous process had not yet written to the seen set, from the rows of their tasks.
    pub(super) fn recover_seen(&mut self, written_up_to: u64) -> Result<(), BackendError> {
        let first = written_up_to.checked_add(1).ok_or_else(|| self.view.damaged())?;
        let mut unwritten: BTreeMap<u64, (String, Depth, u32)> = BTreeMap::new();
        for (task_id, row) in self.view.tasks_from(first, usize::MAX)? {
            let row = TaskRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?;
            unwritten.insert(task_id, (row.url, row.depth, row.generation));
        }
        for (task_id, row) in self.view.completed_from(first, usize::MAX)? {
            let row = CompletedRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?;
            unwritten.insert(task_id, (row.url, row.depth, row.generation));
        }
        for (task_id, (url, depth, generation)) in unwritten {
            let id = self.key.url_id(&url);
            if self.find_seen(id)?.is_none() {
                self.seen_count += 1;
            }
            self.seen_cache.update(id, SeenRow { task_id: TaskId(task_id), depth, generation });
        }
        Ok(())
    }

    /// Looks a URL up, and updates its generation and depth.
    pub(super) fn mark_url_seen(
        &mut self,
        id: u64,
        depth: Depth,
        now: Duration,
    ) -> Result<SeenStatus, BackendError> {
        let passed = self.generation.advance(now);
        self.sweep.advance(passed);
        let generation = self.generation.number();
        let Some(mut row) = self.find_seen(id)? else {
            self.seen_count += 1;
            return Ok(SeenStatus::New);
        };
        if self.is_expired(row)? {
            return Ok(SeenStatus::New);
        }
        let is_shallower = self.keep_depths && depth < row.depth;
        if row.generation == generation && !is_shallower {
            return Ok(SeenStatus::Seen);
        }
        row.generation = generation;
        let mut status = SeenStatus::Seen;
        if is_shallower {
            row.depth = depth;
            match self.completed(row.task_id)? {
                Some(completed) if depth < completed.depth && completed.has_links() => {
                    status = SeenStatus::Shallower
                }
                Some(_) => {}
                None => self.lower_depth(row.task_id, depth)?,
            }
        }
        self.seen_cache.update(id, row);
        Ok(status)
    }

    /// The row of a URL in the seen set.
    pub(crate) fn find_seen(&mut self, id: u64) -> Result<Option<SeenRow>, BackendError> {
        if let Some(row) = self.seen_cache.get(id) {
            return Ok(Some(row));
        }
        if self.seen_cache.is_complete || self.batch.expired.contains(&id) {
            return Ok(None);
        }
        let row = match self.committing.as_deref() {
            Some(batch) if batch.seen.get(id).is_some() => batch.seen.get(id),
            Some(batch) if batch.expired.contains(&id) => None,
            _ => match self.view.seen(id)? {
                Some(row) => Some(SeenRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?),
                None => None,
            },
        };
        if let Some(row) = row {
            self.seen_cache.insert(id, row);
        }
        Ok(row)
    }

    /// Lowers the depth of an outstanding URL, in the same batch as the operation that found it.
    fn lower_depth(&mut self, task_id: TaskId, depth: Depth) -> Result<(), BackendError> {
        let Some(mut row) = self.task(task_id)? else { return Ok(()) };
        if depth < row.depth {
            row.depth = depth;
            self.batch.tasks.insert(task_id.0, Some(row.to_bytes()));
            self.lowered_depths.insert(task_id, depth);
        }
        Ok(())
    }

    /// Whether a URL has expired: it is completed, and a TTL has passed since its completion and since it was last
    /// found.
    fn is_expired(&self, row: SeenRow) -> Result<bool, BackendError> {
        let is_old = |generation: u32| self.generation.number().saturating_sub(generation) > GENERATIONS;
        if !is_old(row.generation) {
            return Ok(false);
        }
        Ok(self.completed(row.task_id)?.is_some_and(|completed| is_old(completed.generation)))
    }

    /// Whether a sweep is in progress.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweep.due > 0
    }

    /// Checks the next rows of the seen set and removes those that have expired. May be called only while no batch is
    /// being written: every row is then on disk, or in the cache as changed.
    pub(crate) fn sweep(&mut self) -> Result<(), BackendError> {
        let Some(ids) = self.sweep.ids() else { return Ok(()) };
        let last = *ids.end();
        let rows = self.view.seen_in(ids, SWEEP_BATCH)?;
        self.sweep.mark_swept(match rows.last() {
            Some((last_read, _)) if rows.len() == SWEEP_BATCH => *last_read,
            _ => last,
        });
        for (id, row) in rows {
            // The cache is newer than the disk. Use `peek`, so that the sweep does not evict rows that are in use.
            let row = match self.seen_cache.peek(id) {
                Some(row) => row,
                None => SeenRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?,
            };
            if self.is_expired(row)? && self.batch.expired.insert(id) {
                self.seen_cache.remove(id);
                self.seen_count = self.seen_count.saturating_sub(1);
            }
        }
        Ok(())
    }
}
