//! The workers that take URLs, and the domains that have a URL for each.

use std::collections::VecDeque;

use super::super::super::WorkerId;
use super::super::queue_set::QueueSet;
use crate::domain::Domain;
use crate::prioritizer::PriorityQueues;

/// Domains with a URL to lease, by priority queue, then those with a requisite, then those with a
/// blocked host. Each list is in the order of their turns.
pub(super) struct ReadyDomains(pub(super) Vec<VecDeque<Domain>>);

pub(super) struct WorkerEntry {
    pub(super) ready: ReadyDomains,
    /// The worker requested more URLs than there were.
    pub(super) wants_urls: bool,
    /// The number of its domains that have waiting or leased URLs.
    pub(super) domains: usize,
}

/// The workers by number. They join and leave at any time.
pub(super) struct Workers {
    queues: PriorityQueues,
    /// `None` for one that was removed, or has not joined.
    entries: Vec<Option<WorkerEntry>>,
}

impl ReadyDomains {
    pub(super) fn new(queues: PriorityQueues) -> ReadyDomains {
        ReadyDomains((0..queues.count() + 2).map(|_| VecDeque::new()).collect())
    }

    pub(super) fn has(&self, queue: usize) -> bool {
        !self.0[queue].is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(VecDeque::is_empty)
    }
}

impl Workers {
    /// Workers with the numbers below `count`.
    pub(super) fn new(queues: PriorityQueues, count: u16) -> Workers {
        let mut workers = Workers { queues, entries: Vec::new() };
        for id in 0..count {
            workers.add(WorkerId(id));
        }
        workers
    }

    /// The worker. It is added if it is missing.
    pub(super) fn add(&mut self, WorkerId(id): WorkerId) -> &mut WorkerEntry {
        let (index, queues) = (usize::from(id), self.queues);
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index].get_or_insert_with(|| WorkerEntry {
            ready: ReadyDomains::new(queues),
            wants_urls: true,
            domains: 0,
        })
    }

    pub(super) fn remove(&mut self, WorkerId(id): WorkerId) {
        if let Some(entry) = self.entries.get_mut(usize::from(id)) {
            *entry = None;
        }
    }

    pub(super) fn get(&self, WorkerId(id): WorkerId) -> Option<&WorkerEntry> {
        self.entries.get(usize::from(id))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, WorkerId(id): WorkerId) -> Option<&mut WorkerEntry> {
        self.entries.get_mut(usize::from(id))?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (WorkerId, &WorkerEntry)> {
        let numbered = (0..=u16::MAX).map(WorkerId).zip(&self.entries);
        numbered.filter_map(|(id, entry)| Some((id, entry.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut WorkerEntry> {
        self.entries.iter_mut().flatten()
    }

    /// Takes a domain out of these lists of a worker.
    pub(super) fn unlist(&mut self, worker: WorkerId, domain: &Domain, queues: QueueSet) {
        if let Some(worker) = self.get_mut(worker) {
            for queue in queues {
                worker.ready.0[usize::from(queue)].retain(|other| other != domain);
            }
        }
    }

    /// Counts an active domain of a worker.
    pub(super) fn count_domain(&mut self, owner: Option<WorkerId>, change: isize) {
        if let Some(worker) = owner.and_then(|owner| self.get_mut(owner)) {
            worker.domains = worker.domains.saturating_add_signed(change);
        }
    }
}
