//! The domain table: who owns which domain, and what waits for its share of the owner's queue.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::super::{BackendError, WorkerId};
use super::storage::{QueuedTask, Storage};
use crate::domain::Domain;

/// How many URLs of one domain a worker's queue and hands hold: a handful, so that one slow host never fills them.
pub(super) const DOMAIN_SHARE: usize = 64;

/// So many lapsed domains are forgotten at a time.
const SWEEP_AT: usize = 10_000;

/// Where a URL goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteDecision {
    /// Into this worker's queue.
    Enqueue(WorkerId),
    /// Behind its domain's others, outside of the queues.
    Park,
    /// Nowhere: the worker's queue is full.
    WorkerFull,
}

/// `Parked` is how a storage lets URLs wait.
pub(super) struct DomainTable<Parked> {
    ttl: Duration,
    domains: HashMap<Domain, DomainEntry<Parked>>,
    /// Domains with something waiting and some of their share free, by owner.
    hungry: HashMap<WorkerId, VecDeque<Domain>>,
    waiting: usize,
    sweep_at: usize,
}

struct DomainEntry<Parked> {
    owner: WorkerId,
    last_used: Instant,
    /// In the owner's queue or on loan to it.
    held: usize,
    line: Parked,
    waiting: usize,
    /// Stands in its owner's list of hungry domains.
    is_hungry: bool,
}

impl<Parked: Default> DomainEntry<Parked> {
    fn of(owner: WorkerId) -> DomainEntry<Parked> {
        let (last_used, line) = (Instant::now(), Parked::default());
        DomainEntry { owner, last_used, held: 0, line, waiting: 0, is_hungry: false }
    }
}

impl<Parked: Default> DomainTable<Parked> {
    pub(super) fn new(ttl: Duration) -> DomainTable<Parked> {
        DomainTable { ttl, domains: HashMap::new(), hungry: HashMap::new(), waiting: 0, sweep_at: SWEEP_AT }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn owned(&self) -> usize {
        self.domains.values().filter(|state| self.is_owned(state)).count()
    }

    /// Ownership lapses a while after the last use, and not while the owner holds anything of the domain.
    fn is_owned(&self, state: &DomainEntry<Parked>) -> bool {
        state.held > 0 || state.waiting > 0 || state.last_used.elapsed() < self.ttl
    }

    /// Decides where the next URL of a domain goes, given the lengths of the queues of the workers that are there.
    pub(super) fn route(
        &self,
        domain: &Domain,
        lengths: &[Option<usize>],
        queue_size: usize,
    ) -> RouteDecision {
        let owned = self.domains.get(domain).filter(|state| self.is_owned(state));
        let worker = match owned {
            // While anything waits, what comes joins its end.
            Some(state) if state.held >= DOMAIN_SHARE || state.waiting > 0 => return RouteDecision::Park,
            Some(state) => Some(state.owner),
            None => shortest(lengths),
        };
        match worker {
            Some(worker) if lengths[usize::from(worker.0)].is_some_and(|length| length < queue_size) => {
                RouteDecision::Enqueue(worker)
            }
            _ => RouteDecision::WorkerFull,
        }
    }

    /// A URL of the domain went into the worker's queue.
    pub(super) fn assign(&mut self, domain: &Domain, worker: WorkerId) {
        let now = Instant::now();
        if let Some(state) = self.domains.get_mut(domain) {
            (state.owner, state.last_used) = (worker, now);
            state.held += 1;
            return;
        }
        if self.domains.len() >= self.sweep_at {
            self.sweep();
        }
        self.domains.insert(domain.clone(), DomainEntry { held: 1, ..DomainEntry::of(worker) });
    }

    /// Lets a URL wait for its domain's share, where [`DomainTable::place`] said so.
    pub(super) fn park(
        &mut self,
        domain: &Domain,
        mut item: QueuedTask,
        storage: &mut impl Storage<Parked = Parked>,
    ) {
        let state = match self.domains.get_mut(domain) {
            Some(state) => state,
            // Nobody's: whoever told it to wait, it is not lost. Every crawl has a first worker.
            None => self.domains.entry(domain.clone()).or_insert_with(|| DomainEntry::of(WorkerId(0))),
        };
        // The line knows it, for all that wait in it.
        item.domain = None;
        storage.park(&mut state.line, item);
        state.waiting += 1;
        self.waiting += 1;
        self.mark_refillable(domain);
    }

    /// A URL of the domain was completed.
    pub(super) fn release(&mut self, domain: &Domain) {
        if let Some(state) = self.domains.get_mut(domain) {
            state.held = state.held.saturating_sub(1);
            state.last_used = Instant::now();
            self.mark_refillable(domain);
        }
    }

    fn mark_refillable(&mut self, domain: &Domain) {
        if let Some(state) = self.domains.get_mut(domain)
            && !state.is_hungry
            && state.waiting > 0
            && state.held < DOMAIN_SHARE
        {
            state.is_hungry = true;
            self.hungry.entry(state.owner).or_default().push_back(domain.clone());
        }
    }

    /// Takes up to `room` waiting URLs for a worker's queue, from its domains in turn.
    pub(super) fn refill(
        &mut self,
        worker: WorkerId,
        room: usize,
        storage: &mut impl Storage<Parked = Parked>,
    ) -> Result<Vec<QueuedTask>, BackendError> {
        let mut fed = Vec::new();
        while fed.len() < room {
            let Some(domain) = self.hungry.get_mut(&worker).and_then(VecDeque::pop_front) else { break };
            let Some(state) = self.domains.get_mut(&domain) else { continue };
            state.is_hungry = false;
            if let Some(mut item) = storage.unpark(&mut state.line)? {
                state.held += 1;
                state.waiting -= 1;
                self.waiting -= 1;
                item.domain = Some(domain.clone());
                fed.push(item);
            }
            self.mark_refillable(&domain);
        }
        Ok(fed)
    }

    /// Frees the domains of a worker that is no more; what waited for them is given back.
    pub(super) fn release_worker(
        &mut self,
        worker: WorkerId,
        storage: &mut impl Storage<Parked = Parked>,
    ) -> Result<Vec<QueuedTask>, BackendError> {
        self.hungry.remove(&worker);
        let freed = self.domains.extract_if(|_, state| state.owner == worker);
        let mut waiting = Vec::new();
        for (_, mut state) in freed {
            while let Some(item) = storage.unpark(&mut state.line)? {
                waiting.push(item);
            }
        }
        self.waiting -= waiting.len();
        Ok(waiting)
    }

    fn sweep(&mut self) {
        let ttl = self.ttl;
        self.domains
            .retain(|_, state| state.held > 0 || state.waiting > 0 || state.last_used.elapsed() < ttl);
        self.sweep_at = SWEEP_AT.max(2 * self.domains.len());
    }
}

/// The worker with the fewest messages.
fn shortest(lengths: &[Option<usize>]) -> Option<WorkerId> {
    let there = lengths.iter().enumerate().filter_map(|(index, length)| Some(((*length)?, index)));
    there.min().and_then(|(_, index)| u16::try_from(index).ok()).map(WorkerId)
}

#[cfg(test)]
mod tests {
    use super::super::super::TaskId;
    use super::super::compressed_queue::CompressedUrlQueue;
    use super::super::memory_storage::MemoryStorage;
    use super::*;

    #[test]
    fn a_url_that_is_to_wait_is_fed_to_somebody_whether_its_domain_is_known_or_not() {
        let mut storage = MemoryStorage::for_tests();
        let mut domains: DomainTable<CompressedUrlQueue> = DomainTable::new(Duration::ZERO);
        let domain = Domain::named("a.test");
        let (task_id, url) = (TaskId(1), "http://a.test/".into());
        let item = QueuedTask {
            task_id,
            from: task_id,
            url,
            depth: 0,
            redirects: 0,
            is_revisit: false,
            domain: None,
        };
        domains.park(&domain, item, &mut storage);
        assert_eq!((domains.waiting(), domains.owned()), (1, 1));
        assert_eq!(domains.route(&domain, &[Some(0)], 10), RouteDecision::Park, "what comes joins its end");
        let fed = domains.refill(WorkerId(0), 10, &mut storage).unwrap();
        assert_eq!(fed.iter().map(|item| item.task_id).collect::<Vec<_>>(), [task_id]);
        assert_eq!(domains.waiting(), 0);
    }
}
