//! The domain table: which worker owns which domain, and which URLs are parked because their domain is at its limit.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::super::{BackendError, WorkerId};
use super::storage::{QueuedTask, Storage};
use crate::domain::Domain;

/// Maximum number of URLs of one domain in a worker's queue and leased to it. Small, so that one slow host cannot fill
/// the queue.
pub(super) const DOMAIN_QUEUE_LIMIT: usize = 64;

/// Expired domains are removed when the table has this many entries.
const SWEEP_AT: usize = 10_000;

/// Where a URL goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteDecision {
    /// Into this worker's queue.
    Enqueue(WorkerId),
    /// Behind the parked URLs of its domain, outside of the queues.
    Park,
    /// Nowhere: the worker's queue is full.
    WorkerFull,
}

/// Owners and parked URLs by domain. `Parked` is the queue type of the storage.
pub(super) struct DomainTable<Parked> {
    ttl: Duration,
    domains: HashMap<Domain, DomainEntry<Parked>>,
    /// Domains that have parked URLs and are below their limit, by owner.
    refillable: HashMap<WorkerId, VecDeque<Domain>>,
    parked: usize,
    sweep_at: usize,
}

struct DomainEntry<Parked> {
    owner: WorkerId,
    last_used: Instant,
    /// Number of URLs in the owner's queue or leased to it.
    held: usize,
    queue: Parked,
    parked: usize,
    /// The domain is in its owner's list of refillable domains.
    is_refillable: bool,
}

impl<Parked: Default> DomainEntry<Parked> {
    fn new(owner: WorkerId) -> DomainEntry<Parked> {
        let (last_used, queue) = (Instant::now(), Parked::default());
        DomainEntry { owner, last_used, held: 0, queue, parked: 0, is_refillable: false }
    }
}

impl<Parked: Default> DomainTable<Parked> {
    pub(super) fn new(ttl: Duration) -> DomainTable<Parked> {
        DomainTable {
            ttl,
            domains: HashMap::new(),
            refillable: HashMap::new(),
            parked: 0,
            sweep_at: SWEEP_AT,
        }
    }

    pub(super) fn parked(&self) -> usize {
        self.parked
    }

    pub(super) fn owned(&self) -> usize {
        self.domains.values().filter(|entry| self.is_owned(entry)).count()
    }

    /// Ownership expires some time after the last use, but not while the owner has URLs of the domain.
    fn is_owned(&self, entry: &DomainEntry<Parked>) -> bool {
        entry.held > 0 || entry.parked > 0 || entry.last_used.elapsed() < self.ttl
    }

    /// Decides where the next URL of a domain goes. `lengths` are the queue lengths of the workers, `None` for a worker
    /// that is not running.
    pub(super) fn route(
        &self,
        domain: &Domain,
        mut lengths: impl Iterator<Item = Option<usize>> + Clone,
        queue_size: usize,
    ) -> RouteDecision {
        let owned = self.domains.get(domain).filter(|entry| self.is_owned(entry));
        let worker = match owned {
            // URLs stay in order: while some are parked, new ones are parked behind them.
            Some(entry) if entry.held >= DOMAIN_QUEUE_LIMIT || entry.parked > 0 => {
                return RouteDecision::Park;
            }
            Some(entry) => Some(entry.owner),
            None => shortest_queue(lengths.clone()),
        };
        match worker {
            Some(worker)
                if lengths.nth(usize::from(worker.0)).flatten().is_some_and(|length| length < queue_size) =>
            {
                RouteDecision::Enqueue(worker)
            }
            _ => RouteDecision::WorkerFull,
        }
    }

    /// Records that a URL of the domain went into the worker's queue.
    pub(super) fn assign(&mut self, domain: &Domain, worker: WorkerId) {
        let now = Instant::now();
        if let Some(entry) = self.domains.get_mut(domain) {
            (entry.owner, entry.last_used) = (worker, now);
            entry.held += 1;
            return;
        }
        if self.domains.len() >= self.sweep_at {
            self.remove_expired();
        }
        self.domains.insert(domain.clone(), DomainEntry { held: 1, ..DomainEntry::new(worker) });
    }

    /// Parks a URL, where [`DomainTable::route`] decided so.
    pub(super) fn park(
        &mut self,
        domain: &Domain,
        mut task: QueuedTask,
        storage: &mut impl Storage<Parked = Parked>,
    ) {
        let entry = match self.domains.get_mut(domain) {
            Some(entry) => entry,
            // The domain has no owner. Every crawl has worker 0, so the URL is not lost.
            None => self.domains.entry(domain.clone()).or_insert_with(|| DomainEntry::new(WorkerId(0))),
        };
        // The table knows the domain of all URLs in this queue.
        task.domain = None;
        storage.park(&mut entry.queue, task);
        entry.parked += 1;
        self.parked += 1;
        self.mark_refillable(domain);
    }

    /// Records that a URL of the domain was completed.
    pub(super) fn release(&mut self, domain: &Domain) {
        if let Some(entry) = self.domains.get_mut(domain) {
            entry.held = entry.held.saturating_sub(1);
            entry.last_used = Instant::now();
            self.mark_refillable(domain);
        }
    }

    fn mark_refillable(&mut self, domain: &Domain) {
        if let Some(entry) = self.domains.get_mut(domain)
            && !entry.is_refillable
            && entry.parked > 0
            && entry.held < DOMAIN_QUEUE_LIMIT
        {
            entry.is_refillable = true;
            self.refillable.entry(entry.owner).or_default().push_back(domain.clone());
        }
    }

    /// Fills a worker's queue up to its size with parked URLs, round-robin over the worker's domains.
    pub(super) fn refill(
        &mut self,
        worker: WorkerId,
        queue: &mut VecDeque<QueuedTask>,
        queue_size: usize,
        storage: &mut impl Storage<Parked = Parked>,
    ) -> Result<(), BackendError> {
        while queue.len() < queue_size {
            let Some(domain) = self.refillable.get_mut(&worker).and_then(VecDeque::pop_front) else { break };
            let Some(entry) = self.domains.get_mut(&domain) else { continue };
            entry.is_refillable = false;
            if let Some(mut task) = storage.unpark(&mut entry.queue)? {
                entry.held += 1;
                entry.parked -= 1;
                self.parked -= 1;
                task.domain = Some(domain.clone());
                queue.push_back(task);
            }
            self.mark_refillable(&domain);
        }
        Ok(())
    }

    /// Releases the domains of a dead worker, and returns their parked URLs.
    pub(super) fn release_worker(
        &mut self,
        worker: WorkerId,
        storage: &mut impl Storage<Parked = Parked>,
    ) -> Result<Vec<QueuedTask>, BackendError> {
        self.refillable.remove(&worker);
        let freed = self.domains.extract_if(|_, entry| entry.owner == worker);
        let mut parked = Vec::new();
        for (_, mut entry) in freed {
            while let Some(task) = storage.unpark(&mut entry.queue)? {
                parked.push(task);
            }
        }
        self.parked -= parked.len();
        Ok(parked)
    }

    fn remove_expired(&mut self) {
        let ttl = self.ttl;
        self.domains.retain(|_, entry| entry.held > 0 || entry.parked > 0 || entry.last_used.elapsed() < ttl);
        self.sweep_at = SWEEP_AT.max(2 * self.domains.len());
    }
}

/// The running worker with the shortest queue.
fn shortest_queue(lengths: impl Iterator<Item = Option<usize>>) -> Option<WorkerId> {
    let running = lengths.enumerate().filter_map(|(index, length)| Some((length?, index)));
    running.min().and_then(|(_, index)| u16::try_from(index).ok()).map(WorkerId)
}

#[cfg(test)]
mod tests {
    use super::super::super::TaskId;
    use super::super::compressed_queue::CompressedUrlQueue;
    use super::super::memory_storage::MemoryStorage;
    use super::*;

    #[test]
    fn parked_url_is_refilled_even_if_its_domain_had_no_owner() {
        let mut storage = MemoryStorage::for_tests();
        let mut domains: DomainTable<CompressedUrlQueue> = DomainTable::new(Duration::ZERO);
        let domain = Domain::named("a.test");
        let (task_id, url) = (TaskId(1), "http://a.test/".into());
        let task = QueuedTask {
            task_id,
            from: task_id,
            url,
            depth: 0,
            redirects: 0,
            is_revisit: false,
            source_link: None,
            domain: None,
        };
        domains.park(&domain, task, &mut storage);
        assert_eq!((domains.parked(), domains.owned()), (1, 1));
        assert_eq!(
            domains.route(&domain, [Some(0)].into_iter(), 10),
            RouteDecision::Park,
            "URLs stay in order"
        );
        let mut tasks = VecDeque::new();
        domains.refill(WorkerId(0), &mut tasks, 10, &mut storage).unwrap();
        assert_eq!(tasks.iter().map(|task| task.task_id).collect::<Vec<_>>(), [task_id]);
        assert_eq!(domains.parked(), 0);
    }
}
