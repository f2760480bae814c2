//! The seen set on disk: which URLs were found, and at which smallest depth.

use std::collections::BTreeMap;

use super::super::super::{BackendError, TaskId};
use super::super::records::{CompletedRow, SeenRow, TaskRow};
use super::DiskStorage;
use crate::backend::local::storage::SeenStatus;
use crate::task::Depth;

impl DiskStorage {
    /// Finds the URLs that the previous process had not yet written to the seen set, from the rows of their tasks.
    pub(super) fn recover_seen(&mut self, written_up_to: u64) -> Result<(), BackendError> {
        let first = written_up_to.checked_add(1).ok_or_else(|| self.view.damaged())?;
        let mut unwritten: BTreeMap<u64, (String, Depth)> = BTreeMap::new();
        for (task_id, row) in self.view.tasks_from(first, usize::MAX)? {
            let row = TaskRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?;
            unwritten.insert(task_id, (row.url, row.depth));
        }
        for (task_id, row) in self.view.completed_from(first, usize::MAX)? {
            let row = CompletedRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?;
            unwritten.insert(task_id, (row.url, row.depth));
        }
        for (task_id, (url, depth)) in unwritten {
            let id = self.key.url_id(&url);
            if self.find_seen(id)?.is_none() {
                self.seen_count += 1;
            }
            self.seen_cache.update(id, SeenRow { task_id: TaskId(task_id), depth });
        }
        Ok(())
    }

    /// Looks a URL up, and updates its depth.
    pub(super) fn mark_url_seen(&mut self, id: u64, depth: Depth) -> Result<SeenStatus, BackendError> {
        let Some(mut row) = self.find_seen(id)? else {
            self.seen_count += 1;
            return Ok(SeenStatus::New);
        };
        if !self.keep_depths || depth >= row.depth {
            return Ok(SeenStatus::Seen);
        }
        row.depth = depth;
        self.seen_cache.update(id, row);
        // A URL that is visited again is pending, and has the row of its last visit.
        if self.task(row.task_id)?.is_some() {
            self.lower_depth(row.task_id, depth)?;
            return Ok(SeenStatus::Seen);
        }
        match self.completed(row.task_id)? {
            Some(completed) if depth < completed.depth && completed.has_links() => {
                return Ok(SeenStatus::Shallower);
            }
            _ => {}
        }
        Ok(SeenStatus::Seen)
    }

    /// The row of a URL in the seen set.
    pub(crate) fn find_seen(&mut self, id: u64) -> Result<Option<SeenRow>, BackendError> {
        if let Some(row) = self.seen_cache.get(id) {
            return Ok(Some(row));
        }
        if self.seen_cache.is_complete {
            return Ok(None);
        }
        let row = match self.committing.as_deref().and_then(|batch| batch.seen.get(id)) {
            Some(row) => Some(row),
            None => match self.view.seen(id)? {
                Some(row) => Some(SeenRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?),
                None => None,
            },
        };
        if let Some(row) = row {
            self.seen_cache.insert(id, row);
        }
        Ok(row)
    }

    /// Lowers the depth of a pending URL, in the same batch as the operation that found it.
    fn lower_depth(&mut self, task_id: TaskId, depth: Depth) -> Result<(), BackendError> {
        let Some(mut row) = self.task(task_id)? else { return Ok(()) };
        if depth < row.depth {
            row.depth = depth;
            self.batch.tasks.insert(task_id.0, Some(row.to_bytes()));
            self.lowered_depths.insert(task_id, depth);
        }
        Ok(())
    }
}
