//! Reads the completed URLs of a state, some at a time.

use std::time::{Duration, UNIX_EPOCH};

use super::super::stored_url::StoredUrl;
use super::super::{BackendError, TaskId};
use super::discovery;
use super::file_reader::FileReader;
use super::records::CompletedRow;
use crate::backend::local::storage::TaskRef;
use crate::task_kind::shown_url;

/// An answer is complete when it has this size, in bytes.
const MAX_ANSWER_BYTES: usize = 4 << 20;

impl FileReader {
    /// Completed URLs from this task on, and the next task to read.
    pub(super) fn urls(&self, first: u64) -> Result<(Vec<StoredUrl>, Option<u64>), BackendError> {
        let (mut urls, mut size) = (Vec::new(), 0);
        let next = self.read_completed(first, |task_id, row| {
            let url = self.stored_url(TaskId(task_id), row)?;
            size += url.size();
            urls.push(url);
            Ok(size >= MAX_ANSWER_BYTES)
        })?;
        Ok((urls, next))
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
