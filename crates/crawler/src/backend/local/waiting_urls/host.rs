//! The waiting URLs of one host, by priority queue.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::super::super::BackendError;
use super::super::HostLimits;
use super::super::host_cooldowns::HostCooldowns;
use super::super::host_health::HostHealth;
use super::super::queue_set::QueueSet;
use super::super::storage::{QueuedTask, Storage};
use crate::domain::Domain;
use crate::error::StorageErrorKind;
use crate::task_kind::TaskKind;

/// The URLs of an unreachable host that are leased at a time. No requests are sent for them.
const UNREACHABLE_LEASES: usize = 64;

/// The URLs of a host that are leased at a time because they are blocked. No requests are sent for them.
const MAX_SKIPPED: usize = 512;

/// The URLs of a host.
pub(super) struct HostUrls<Q> {
    pub(super) domain: Domain,
    /// The waiting URLs by priority queue. None of the queues is empty.
    pub(super) queues: Vec<HostQueue<Q>>,
    /// URLs that were leased before, by the ID of their last lease. They are leased first, in the same order.
    returned: VecDeque<(u64, QueuedTask)>,
    pub(super) leased: usize,
    /// Those of the leased URLs for which no request is sent because they are blocked.
    pub(super) skipped: usize,
    /// No request is sent to it.
    pub(super) is_blocked: bool,
    pub(super) health: HostHealth,
    /// The delay between requests to it, as far as the workers have returned one.
    pub(super) delay: Duration,
    pub(super) has_timer: bool,
    /// The queues in which the host is in its domain's list.
    pub(super) listed: QueueSet,
}

/// The waiting URLs of one host and priority queue. The first one is not in the storage's queue: most hosts of a broad
/// crawl have no other.
pub(super) struct HostQueue<Q> {
    queue: u8,
    first: QueuedTask,
    rest: Q,
    rest_len: usize,
}

impl<Q: Default> HostUrls<Q> {
    pub(super) fn new(domain: Domain, is_blocked: bool) -> HostUrls<Q> {
        HostUrls {
            domain,
            queues: Vec::new(),
            returned: VecDeque::new(),
            leased: 0,
            skipped: 0,
            is_blocked,
            health: HostHealth::default(),
            delay: Duration::ZERO,
            has_timer: false,
            listed: QueueSet::default(),
        }
    }

    pub(super) fn has_urls(&self) -> bool {
        !self.queues.is_empty() || !self.returned.is_empty()
    }

    /// The URLs that were leased before and can be leased now: the first one, and requisites, which wait for no page.
    fn next_returned(&self) -> impl Iterator<Item = (usize, &QueuedTask)> {
        let is_next = |index, url: &str| index == 0 || TaskKind::from_task_url(url) == TaskKind::Requisite;
        self.returned
            .iter()
            .map(|(_, task)| task)
            .enumerate()
            .filter(move |(index, task)| is_next(*index, &task.url))
    }

    /// The queues of its URLs. Of the pages that were leased before, only the first one counts.
    pub(super) fn queues_with_urls(&self) -> QueueSet {
        let mut queues = QueueSet::default();
        let returned = self.next_returned().map(|(_, task)| task.queue);
        returned
            .chain(self.queues.iter().map(|host_queue| host_queue.queue))
            .for_each(|queue| queues.insert(queue));
        queues
    }

    /// When the next request may be sent to it, if that is not now.
    pub(super) fn cooldown_until(&self, name: &str, cooldowns: &HostCooldowns) -> Option<Instant> {
        match self.health.unreachable() {
            None => cooldowns.until(name).max(self.health.cooldown_until()),
            // No request is sent.
            Some(_) => None,
        }
    }

    /// Whether none of its URLs may be leased now. Those that are blocked do not hold up others.
    pub(super) fn is_full(&self, limits: &HostLimits) -> bool {
        let has_requests = || self.leased - self.skipped >= self.max_leases(limits);
        self.skipped >= MAX_SKIPPED || !self.is_blocked && has_requests()
    }

    /// How many of its URLs may be requested at a time. A host that failed is tried by one request.
    fn max_leases(&self, limits: &HostLimits) -> usize {
        match () {
            () if self.health.unreachable().is_some() => UNREACHABLE_LEASES,
            () if self.health.has_failed() => 1,
            () => limits.max_leases,
        }
    }

    pub(super) fn push(&mut self, task: QueuedTask, storage: &mut impl Storage<Parked = Q>) {
        match self.queues.iter_mut().find(|host_queue| host_queue.queue == task.queue) {
            Some(host_queue) => {
                storage.park(&mut host_queue.rest, task);
                host_queue.rest_len += 1;
            }
            None => self.queues.push(HostQueue {
                queue: task.queue,
                first: task,
                rest: Q::default(),
                rest_len: 0,
            }),
        }
    }

    /// Adds a URL that was leased before.
    pub(super) fn put_back(&mut self, task: QueuedTask, lease_id: u64) {
        let index = self.returned.partition_point(|(before, _)| *before < lease_id);
        self.returned.insert(index, (lease_id, task));
    }

    pub(super) fn take(
        &mut self,
        queue: u8,
        storage: &mut impl Storage<Parked = Q>,
    ) -> Result<Option<QueuedTask>, BackendError> {
        let returned = self.next_returned().find(|(_, task)| task.queue == queue).map(|(index, _)| index);
        if let Some((_, task)) = returned.and_then(|index| self.returned.remove(index)) {
            return Ok(Some(task));
        }
        let Some(index) = self.queues.iter().position(|host_queue| host_queue.queue == queue) else {
            return Ok(None);
        };
        let host_queue = &mut self.queues[index];
        if host_queue.rest_len == 0 {
            return Ok(Some(self.queues.swap_remove(index).first));
        }
        let mut next = storage.unpark(&mut host_queue.rest)?.ok_or_else(|| {
            let message = "cannot take the next URL of a host: a queue is shorter than its length";
            BackendError::state(StorageErrorKind::Damaged, message)
        })?;
        next.queue = queue;
        host_queue.rest_len -= 1;
        Ok(Some(std::mem::replace(&mut host_queue.first, next)))
    }

    /// Takes all URLs.
    pub(super) fn drain(
        &mut self,
        storage: &mut impl Storage<Parked = Q>,
    ) -> Result<Vec<QueuedTask>, BackendError> {
        let mut tasks = Vec::new();
        while let Some(task) = self.take_any(storage)? {
            tasks.push(task);
        }
        Ok(tasks)
    }

    /// Takes any URL.
    pub(super) fn take_any(
        &mut self,
        storage: &mut impl Storage<Parked = Q>,
    ) -> Result<Option<QueuedTask>, BackendError> {
        match self.queues_with_urls().next() {
            Some(queue) => self.take(queue, storage),
            None => Ok(None),
        }
    }

    /// How many of its URLs wait.
    pub(super) fn waiting(&self) -> usize {
        self.returned.len() + self.queues.iter().map(|host_queue| 1 + host_queue.rest_len).sum::<usize>()
    }

    /// Whether nothing refers to the host.
    pub(super) fn is_unused(&self) -> bool {
        self.queues.is_empty()
            && self.returned.is_empty()
            && self.leased == 0
            && !self.has_timer
            && self.listed.is_empty()
    }
}
