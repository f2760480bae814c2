//! The URLs that are not completed when a crawl ends.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::super::BackendError;
use super::super::storage::{QueuedTask, Storage};
use super::LocalState;
use crate::outcome::Outcome;
use crate::url_record::UrlRecord;

/// How many URLs are taken out of the overflow at a time, at the end of a crawl.
const DRAINED_AT_A_TIME: usize = 1024;

impl<S: Storage> LocalState<S> {
    /// Takes all URLs that are not completed out of the queues.
    pub(crate) fn drain_pending(
        &mut self,
        each: &mut dyn FnMut(UrlRecord<'static>),
    ) -> Result<(), BackendError> {
        let mut queued: VecDeque<QueuedTask> = std::mem::take(&mut self.url_queue);
        queued.extend(self.leases.drain().map(|(_, active)| active.task));
        queued.extend(self.prioritizing.drain().map(|(_, task)| task));
        queued.extend(self.reprioritizing.drain(..));
        queued.extend(self.storage.take_overflow(DRAINED_AT_A_TIME)?);
        let keeps_discovery = self.config.keep_discovery;
        while !queued.is_empty() {
            for task in queued.drain(..) {
                if let Some(record) = unreached(&self.storage, &task, keeps_discovery)? {
                    each(record);
                }
            }
            queued.extend(self.storage.take_overflow(DRAINED_AT_A_TIME)?);
        }
        while let Some(task) = self.storage.unpark(&mut self.requisites.urls)? {
            if let Some(record) = unreached(&self.storage, &task, keeps_discovery)? {
                each(record);
            }
        }
        self.requisites.len = 0;
        self.waiting.drain(&mut self.storage, |storage, task| {
            if let Some(record) = unreached(storage, &task, keeps_discovery)? {
                each(record);
            }
            Ok(())
        })
    }
}

/// The record of a URL that is not completed. A refetch has none, because its URL has an outcome.
fn unreached(
    storage: &impl Storage,
    task: &QueuedTask,
    keeps_discovery: bool,
) -> Result<Option<UrlRecord<'static>>, BackendError> {
    if task.is_refetch {
        return Ok(None);
    }
    let discovery = if keeps_discovery { storage.discovery(task)? } else { None };
    let (url, depth) = (Arc::clone(&task.url), storage.depth(task));
    let pending = UrlRecord::new(url, Outcome::NotReached, depth, discovery, task.queued_at);
    Ok(Some(UrlRecord { retries: task.attempts, ..pending }))
}
