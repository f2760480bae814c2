//! Looks up how a URL was found: the rows of the tasks that led to it have the URLs.

use std::sync::Arc;

use super::super::{BackendError, TaskId};
use super::View;
use super::records::{CompletedRow, TaskRow};
use crate::backend::local::storage::TaskRef;
use crate::task_kind::{TaskKind, shown_url};
use crate::url_record::Discovery;

impl View {
    /// The URL of a task, and the task on whose page it was found.
    pub(super) fn url_and_source(&self, task_id: TaskId) -> Result<Option<(String, TaskId)>, BackendError> {
        if let Some(row) = self.completed(task_id.0)? {
            let row = CompletedRow::from_bytes(&row).ok_or_else(|| self.damaged())?;
            return Ok(Some((row.url, row.from)));
        }
        let Some(row) = self.task(task_id.0)? else { return Ok(None) };
        let row = TaskRow::from_bytes(&row).ok_or_else(|| self.damaged())?;
        Ok(Some((row.url, row.from)))
    }
}

/// How the URL of a task was found. `url_and_source` returns the URL of a task, and the task on whose page it was found.
pub(super) fn look_up(
    task: TaskRef,
    url_and_source: impl Fn(TaskId) -> Result<Option<(String, TaskId)>, BackendError>,
) -> Result<Option<Arc<Discovery>>, BackendError> {
    let (mut task_id, mut from, mut redirects) = (task.task_id, task.from, Vec::new());
    // A seed was found on itself.
    while from != task_id {
        let Some((url, source)) = url_and_source(from)? else { break };
        if redirects.len() == usize::from(task.redirects) {
            redirects.reverse();
            let Discovery { found_on, .. } = Discovery::on(&url, TaskKind::from_task_url(task.url));
            return Ok(Some(Arc::new(Discovery { found_on, redirects })));
        }
        redirects.push(shown_url(&url).to_owned());
        (task_id, from) = (from, source);
    }
    redirects.reverse();
    Ok((!redirects.is_empty()).then(|| Arc::new(Discovery { found_on: None, redirects })))
}
