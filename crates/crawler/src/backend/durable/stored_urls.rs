//! Reads the completed URLs of a state, some at a time.

use std::time::{Duration, Instant, UNIX_EPOCH};

use super::super::stored_url::StoredUrl;
use super::super::{BackendError, TaskId};
use super::discovery;
use super::file_reader::{FileReader, MAX_SEARCH_TIME};
use super::records::CompletedRow;
use crate::backend::local::storage::TaskRef;
use crate::task_kind::shown_url;

/// Number of rows to read at a time.
const ROWS_PER_READ: usize = 256;

/// An answer is complete when it has this size, in bytes.
const MAX_ANSWER_BYTES: usize = 4 << 20;

impl FileReader {
    /// Completed URLs from this task on, and the ID of the next task to read. A URL that was fetched again for its links has the
    /// outcome of the first time, which is the one that counts.
    pub(super) fn urls(&self, mut first: u64) -> Result<(Vec<StoredUrl>, Option<u64>), BackendError> {
        let (view, started, mut size) = (&self.storage.view, Instant::now(), 0);
        let mut urls = Vec::new();
        loop {
            let rows = view.completed_from(first, ROWS_PER_READ)?;
            let Some((last, _)) = rows.last() else { return Ok((urls, None)) };
            let next = last.checked_add(1);
            for (task_id, row) in rows {
                let row = CompletedRow::from_bytes(&row).ok_or_else(|| view.damaged())?;
                if !row.is_revisit {
                    let url = self.stored_url(TaskId(task_id), row)?;
                    size += url.size();
                    urls.push(url);
                }
            }
            match next {
                Some(next) if started.elapsed() < MAX_SEARCH_TIME && size < MAX_ANSWER_BYTES => first = next,
                next => return Ok((urls, next)),
            }
        }
    }

    fn stored_url(&self, task_id: TaskId, row: CompletedRow) -> Result<StoredUrl, BackendError> {
        let at = UNIX_EPOCH.checked_add(Duration::from_millis(row.completed_at));
        let CompletedRow { from, depth, redirects, url, outcome, .. } = row;
        let mut stored = StoredUrl {
            link_id: self.storage.key.url_id(shown_url(&url)),
            outcome,
            depth,
            at: at.ok_or_else(|| self.storage.view.damaged())?,
            found_on: None,
            task_url: Some(url),
        };
        if let Some(url) = stored.task_url.as_deref().filter(|_| stored.has_failed()) {
            let task = TaskRef { from, depth, redirects, ..TaskRef::new(task_id, url) };
            let found = discovery::look_up(task, |task_id| self.storage.url_and_source(task_id))?;
            stored.found_on = found.and_then(|found| found.found_on.clone());
        }
        Ok(stored)
    }
}
