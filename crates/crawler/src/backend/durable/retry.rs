//! Queues the URLs again that failed temporarily.

use std::collections::HashSet;

use super::super::BackendError;
use super::open::read_checkpoint;
use super::records::{CompletedRow, SeenRow, TaskRow};
use super::{Batch, Tables, View};
use crate::backend::local::storage::unix_millis;
use crate::similarity::HashKey;
use crate::visit::VisitRecord;

/// Number of completed URLs to read, and to queue again in one commit.
const ROWS_PER_COMMIT: usize = 4096;

/// Turns completed URLs that failed temporarily into pending ones, under their own task ids, and returns how many there
/// were. Each commit moves the rows together with the counts, so that a crash leaves every URL either failed or pending.
pub(super) fn retry_failed(tables: &Tables, key: HashKey) -> Result<u64, BackendError> {
    let (mut first, mut retried) = (0, 0);
    while let Some((next, count)) = retry_some(tables, key, first, ROWS_PER_COMMIT)? {
        (first, retried) = (next, retried + count);
    }
    if is_begun(&tables.view()?)? {
        let mut batch = Batch { number: 1, ..Batch::default() };
        set_begun(&mut batch, false);
        tables.write(&batch)?;
    }
    Ok(retried)
}

/// Whether a process has recorded that failed URLs are to be queued again, and none has finished it.
pub(super) fn is_begun(view: &View) -> Result<bool, BackendError> {
    Ok(view.meta("retrying")?.is_some_and(|begun| begun == [1]))
}

pub(super) fn set_begun(batch: &mut Batch, is_begun: bool) {
    batch.meta.insert("retrying", vec![u8::from(is_begun)]);
}

/// The IDs of the URLs that failed temporarily.
pub(super) fn failed_urls(tables: &Tables, key: HashKey) -> Result<HashSet<u64>, BackendError> {
    let (view, mut first, mut failed) = (tables.view()?, 0, HashSet::new());
    loop {
        let rows = view.completed_from(first, ROWS_PER_COMMIT)?;
        let Some((last, _)) = rows.last() else { return Ok(failed) };
        first = last.checked_add(1).ok_or_else(|| view.damaged())?;
        for (_, row) in rows {
            let row = CompletedRow::from_bytes(&row).ok_or_else(|| view.damaged())?;
            // A refetch has no row in the outputs.
            if row.is_temporary && !row.is_refetch {
                failed.insert(key.url_id(&row.url));
            }
        }
    }
}

/// Does this for some completed URLs, from a task id on, in one commit. Returns the task id after them, and how many of them
/// are pending now; `None` if there are no more.
pub(super) fn retry_some(
    tables: &Tables,
    key: HashKey,
    first: u64,
    max: usize,
) -> Result<Option<(u64, u64)>, BackendError> {
    let view = tables.view()?;
    let rows = view.completed_from(first, max)?;
    let Some((last, _)) = rows.last() else { return Ok(None) };
    let next = last.checked_add(1).ok_or_else(|| view.damaged())?;
    let mut checkpoint = read_checkpoint(&view)?;
    let mut batch = Batch { number: 1, ..Batch::default() };
    for (task_id, row) in rows {
        let row = CompletedRow::from_bytes(&row).ok_or_else(|| view.damaged())?;
        // A URL that is visited again keeps the row of its last visit, and may be queued already.
        if row.is_temporary && view.task(task_id)?.is_none() {
            checkpoint.uncount(&row.url, &row.outcome, row.is_refetch).ok_or_else(|| view.wrong_counts())?;
            let was_visited = row.visits != VisitRecord::default();
            if !was_visited {
                batch.completed.insert(task_id, None);
            }
            let task = TaskRow { was_visited, ..pending(row, &view, key)? };
            batch.tasks.insert(task_id, Some(task.to_bytes()));
        }
    }
    let retried = batch.tasks.len() as u64;
    if retried > 0 {
        batch.meta.insert("checkpoint", checkpoint.to_bytes());
        tables.write(&batch)?;
    }
    Ok(Some((next, retried)))
}

/// The row of a completed URL that is pending again, with the smallest depth at which it was found.
pub(super) fn pending(row: CompletedRow, view: &View, key: HashKey) -> Result<TaskRow, BackendError> {
    let seen = view.seen(key.url_id(&row.url))?.and_then(|seen| SeenRow::from_bytes(&seen));
    let depth = seen.map_or(row.depth, |seen| seen.depth.min(row.depth));
    let CompletedRow { from, redirects, is_refetch, url, .. } = row;
    let (queued_at, source_link, discovery) = (unix_millis(), None, None);
    let was_visited = true;
    Ok(TaskRow { from, depth, redirects, is_refetch, was_visited, queued_at, source_link, discovery, url })
}
