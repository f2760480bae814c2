//! The way of URLs from the URL queue to the priority queues.

use std::sync::Arc;

use super::super::super::{BackendError, TaskId, UnprioritizedUrl};
use super::super::storage::{QueuedTask, Storage};
use super::LocalState;
use crate::domain::Domain;
use crate::origin::throttle_key;
use crate::prioritizer::{Candidate, Prioritizer, Priority, known_priority};

/// How many URLs an operation prioritizes besides, at most: others wait for the lock meanwhile.
const MAX_AT_ONCE: usize = 256;

impl<S: Storage> LocalState<S> {
    /// Lets the state ask this prioritizer for priorities that are known without waiting.
    pub(crate) fn set_prioritizer(&mut self, prioritizer: &Arc<dyn Prioritizer>) {
        self.prioritizer = Some(Arc::clone(prioritizer));
    }

    /// Whether URLs wait that the prioritizer may take.
    pub(super) fn can_prioritize(&self) -> bool {
        let has_urls =
            !self.url_queue.is_empty() || !self.reprioritizing.is_empty() || self.storage.overflow_len() > 0;
        has_urls && !self.waiting.is_full() && self.prioritizing.len() < self.config.queue_size
    }

    /// Puts the URLs at the front of the URL queue into the priority queues, up to the first one whose priority is not known, so that
    /// they need not wait for the loop that calls the prioritizer.
    pub(super) fn prioritize_known(&mut self) {
        if self.prioritizer.is_none() || !self.reprioritizing.is_empty() {
            return;
        }
        let mut last = None;
        for _ in 0..MAX_AT_ONCE {
            if self.waiting.is_full() {
                return;
            }
            let Some(task) = self.url_queue.pop_front() else { return };
            let Some((task, _)) = self.push_known(task, &mut last) else { continue };
            return self.url_queue.push_front(task);
        }
    }

    /// Takes up to `max` URLs whose priority is not known, and the others with them.
    pub(crate) fn take_unprioritized(&mut self, max: usize) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        // After a resume, all URLs are still in the storage.
        self.fill_url_queue()?;
        self.queue_due()?;
        let count = max.min(self.config.queue_size.saturating_sub(self.prioritizing.len()));
        let count = count.min(self.reprioritizing.len() + self.url_queue.len());
        let (mut unprioritized, mut last) = (Vec::new(), None);
        for _ in 0..count {
            if self.waiting.is_full() {
                break;
            }
            let Some(task) = self.reprioritizing.pop_front().or_else(|| self.url_queue.pop_front()) else {
                break;
            };
            if let Some((task, candidate)) = self.push_known(task, &mut last) {
                let Candidate { url, domain, depth, linking_pages, source_link } = candidate;
                let task_id = task.task_id;
                unprioritized.push(UnprioritizedUrl {
                    task_id,
                    url,
                    domain,
                    depth,
                    linking_pages,
                    source_link,
                });
                self.prioritizing.insert(task_id, task);
            }
        }
        self.fill_url_queue()?;
        Ok(unprioritized)
    }

    /// Puts a URL into its priority queue, or returns it if its priority is not known. `last` is the URL before it with its domain: the
    /// links of a page often lead to one host after another.
    fn push_known(
        &mut self,
        mut task: QueuedTask,
        last: &mut Option<(Arc<str>, Domain)>,
    ) -> Option<(QueuedTask, Candidate)> {
        let of_last = last.take().filter(|(url, _)| throttle_key(url) == throttle_key(&task.url));
        let domain = of_last.map_or_else(|| Domain::from_url_str(&task.url), |(_, domain)| domain);
        *last = Some((Arc::clone(&task.url), domain.clone()));
        let candidate = Candidate {
            url: Arc::clone(&task.url),
            depth: self.storage.depth(&task),
            linking_pages: self.popularity.linking_pages(&domain),
            source_link: task.source_link.clone(),
            domain: domain.clone(),
        };
        task.domain = Some(domain);
        let known =
            self.prioritizer.as_ref().and_then(|prioritizer| known_priority(&**prioritizer, &candidate));
        let Some(priority) = known else { return Some((task, candidate)) };
        self.push_prioritized(task, priority);
        None
    }

    fn push_prioritized(&mut self, mut task: QueuedTask, priority: Priority) {
        task.queue = self.config.priority_queues.of(priority) as u8;
        self.waiting.push(task, &self.cooldowns, &mut self.storage);
    }

    pub(crate) fn enqueue_prioritized(&mut self, prioritized: Vec<(TaskId, Priority)>) {
        for (task_id, priority) in prioritized {
            // A task that the prioritizer does not have was enqueued before.
            if let Some(task) = self.prioritizing.remove(&task_id) {
                self.push_prioritized(task, priority);
            }
        }
    }

    /// Takes back the URLs of a prioritizer that was stopped before it had decided about them.
    pub(crate) fn restart_prioritizer(&mut self) {
        let mut taken: Vec<QueuedTask> = self.prioritizing.drain().map(|(_, task)| task).collect();
        taken.sort_by_key(|task| task.task_id);
        self.reprioritizing.extend(taken);
    }

    /// Lets the prioritizer decide again about the URLs of these domains, as far as they still wait.
    pub(crate) fn reprioritize(&mut self, domains: &[Domain]) -> Result<usize, BackendError> {
        let mut tasks = self.waiting.take_domains(domains, &mut self.storage)?;
        tasks.sort_by_key(|task| task.task_id);
        for requisite in tasks.extract_if(.., |task| Self::is_requisite(&task.url)) {
            self.waiting.push(requisite, &self.cooldowns, &mut self.storage);
        }
        let count = tasks.len();
        self.reprioritizing.extend(tasks);
        Ok(count)
    }
}
