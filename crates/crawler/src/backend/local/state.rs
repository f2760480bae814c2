//! The moves of a URL, made under one lock: the queues of a crawl in one process, over any storage.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use super::super::{
    AdmitCounts, BackendError, BudgetDecision, CompleteResult, Completion, ContentMatch, DiscoveredUrl,
    HostDelay, Lease, Snapshot, TaskId, UnprioritizedUrl, WorkerId,
};
use super::BackendConfig;
use super::budgets::{BudgetReservation, Budgets};
use super::content_index::ContentIndex;
use super::counters::CrawlCounters;
use super::domain_table::{DomainTable, RouteDecision};
use super::host_cooldowns::HostCooldowns;
use super::storage::{Body, Clock, CompletedUrl, QueuedTask, SeenStatus, Storage};
use crate::domain::Domain;
use crate::origin::throttle_key;
use crate::outcome::Outcome;
use crate::prioritizer::{Popularity, Priority};
use crate::similarity::Fingerprint;

pub(crate) struct LocalState<S: Storage> {
    pub(crate) settings: BackendConfig,
    pub(crate) clock: Clock,
    pub(crate) storage: S,
    pub(crate) counts: CrawlCounters,
    pub(crate) popularity: Popularity,
    pub(crate) contents: ContentIndex,
    pub(crate) budgets: Budgets,
    pub(crate) rests: HostCooldowns,
    next_loan: u64,
    url_queue: VecDeque<QueuedTask>,
    prioritizing: HashMap<TaskId, QueuedTask>,
    priority_queues: Vec<VecDeque<QueuedTask>>,
    domains: DomainTable<S::Parked>,
    /// A worker's queue; `None` while the worker is not there.
    worker_queues: Vec<Option<VecDeque<QueuedTask>>>,
    /// What dead workers had, to be routed anew.
    returned: VecDeque<QueuedTask>,
    loans: HashMap<TaskId, ActiveLease>,
    /// Workers whose queues got something since they were last called.
    pub(super) called: HashSet<WorkerId>,
}

struct ActiveLease {
    item: QueuedTask,
    worker: WorkerId,
    number: u64,
    reserved: Option<BudgetReservation>,
}

/// Who of the frontier may have something to do.
pub(super) struct FrontierWaits {
    pub(super) prioritizer: bool,
    pub(super) router: bool,
}

/// What a routing led to.
pub(super) struct RouteResult {
    pub(super) moved: usize,
    pub(super) to: HashSet<WorkerId>,
}

impl<S: Storage> LocalState<S> {
    /// Nothing in the queues, over a storage that may have something.
    pub(crate) fn new(settings: BackendConfig, clock: Clock, storage: S) -> LocalState<S> {
        LocalState {
            clock,
            storage,
            counts: CrawlCounters::default(),
            popularity: Popularity::new(),
            contents: ContentIndex::new(settings.similarity, settings.ttl),
            budgets: Budgets::new(&settings),
            rests: HostCooldowns::default(),
            next_loan: 1,
            url_queue: VecDeque::new(),
            prioritizing: HashMap::new(),
            priority_queues: (0..settings.priority_queues.count()).map(|_| VecDeque::new()).collect(),
            domains: DomainTable::new(settings.domain_ttl),
            worker_queues: (0..settings.workers).map(|_| Some(VecDeque::new())).collect(),
            returned: VecDeque::new(),
            loans: HashMap::new(),
            called: HashSet::new(),
            settings,
        }
    }

    /// Admits what was found on the URL of a ticket, or seeds.
    pub(super) fn admit(
        &mut self,
        found: Vec<DiscoveredUrl>,
        from: Option<TaskId>,
    ) -> Result<AdmitCounts, BackendError> {
        let now = self.clock.now();
        let mut admitted = AdmitCounts::default();
        for found in found {
            let id = self.storage.id(&found.url);
            match self.storage.mark_seen(id, found.depth, now)? {
                SeenStatus::Seen => admitted.seen += 1,
                SeenStatus::New => {
                    admitted.new += 1;
                    self.enqueue(id, found, from, false, now);
                }
                SeenStatus::Shallower => {
                    admitted.seen += 1;
                    self.counts.revisits += 1;
                    self.enqueue(id, found, from, true, now);
                }
            }
        }
        self.fill_url_queue()?;
        Ok(admitted)
    }

    fn enqueue(
        &mut self,
        id: u64,
        found: DiscoveredUrl,
        from: Option<TaskId>,
        is_revisit: bool,
        now: Duration,
    ) {
        self.counts.last_ticket += 1;
        self.counts.admitted += 1;
        let task_id = TaskId(self.counts.last_ticket);
        let DiscoveredUrl { url, depth, redirects } = found;
        let url = url.into_boxed_str();
        let item = QueuedTask {
            task_id,
            from: from.unwrap_or(task_id),
            url,
            depth,
            redirects,
            is_revisit,
            domain: None,
        };
        // Always at the end of what waits already, so that the order is kept.
        self.storage.admit(id, item, now);
    }

    fn fill_url_queue(&mut self) -> Result<(), BackendError> {
        let room = self.settings.queue_size.saturating_sub(self.url_queue.len());
        if room > 0 && self.storage.overflow() > 0 {
            self.url_queue.extend(self.storage.take(room)?);
        }
        Ok(())
    }

    pub(super) fn take_unprioritized(&mut self, max: usize) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        // What an earlier process left waits in storage alone.
        self.fill_url_queue()?;
        // No more than fit into one priority queue, should they all have the same priority.
        let fullest = self.priority_queues.iter().map(VecDeque::len).max().unwrap_or(0);
        let room = self.settings.queue_size.saturating_sub(fullest + self.prioritizing.len());
        let count = max.min(room).min(self.url_queue.len());
        let taken: Vec<QueuedTask> = self.url_queue.drain(..count).collect();
        self.fill_url_queue()?;
        let mut incoming = Vec::with_capacity(count);
        for mut item in taken {
            let domain = Domain::from_url_str(&item.url);
            item.domain = Some(domain.clone());
            let linking_pages = self.popularity.linking_pages(&domain);
            let depth = self.storage.depth(&item);
            incoming.push(UnprioritizedUrl { task_id: item.task_id, domain, depth, linking_pages });
            self.prioritizing.insert(item.task_id, item);
        }
        Ok(incoming)
    }

    pub(super) fn enqueue_prioritized(&mut self, filed: Vec<(TaskId, Priority)>) {
        for (task_id, priority) in filed {
            // One that is not on loan was filed before.
            if let Some(item) = self.prioritizing.remove(&task_id) {
                let queue = self.settings.priority_queues.of(priority);
                self.priority_queues[queue].push_back(item);
            }
        }
    }

    pub(super) fn route(&mut self, draws: &[Priority]) -> RouteResult {
        let mut routed = RouteResult { moved: 0, to: HashSet::new() };
        // What a dead worker left goes first, to be where it would be by now.
        while let Some(item) = self.returned.pop_front() {
            if let Err(item) = self.place(item, &mut routed) {
                self.returned.push_front(item);
                break;
            }
        }
        let mut held_back = vec![false; self.priority_queues.len()];
        for draw in draws {
            loop {
                let has_tasks = |queue: usize| !held_back[queue] && !self.priority_queues[queue].is_empty();
                let Some(queue) = self.settings.priority_queues.first_from(*draw, has_tasks) else {
                    return routed;
                };
                let Some(item) = self.priority_queues[queue].pop_front() else { return routed };
                match self.place(item, &mut routed) {
                    Ok(()) => break,
                    Err(item) => {
                        self.priority_queues[queue].push_front(item);
                        held_back[queue] = true;
                    }
                }
            }
        }
        routed
    }

    /// Puts a URL where the domain table says; gives it back if there is no room.
    fn place(&mut self, item: QueuedTask, routed: &mut RouteResult) -> Result<(), QueuedTask> {
        let domain = item.domain();
        let lengths: Vec<Option<usize>> =
            self.worker_queues.iter().map(|queue| queue.as_ref().map(VecDeque::len)).collect();
        match self.domains.route(&domain, &lengths, self.settings.queue_size) {
            RouteDecision::Enqueue(worker) => {
                self.domains.assign(&domain, worker);
                self.worker_queue(worker).push_back(item);
                routed.to.insert(worker);
            }
            RouteDecision::Park => self.domains.park(&domain, item, &mut self.storage),
            RouteDecision::WorkerFull => return Err(item),
        }
        routed.moved += 1;
        Ok(())
    }

    fn worker_queue(&mut self, worker: WorkerId) -> &mut VecDeque<QueuedTask> {
        self.worker_queues[usize::from(worker.0)].get_or_insert_default()
    }

    pub(super) fn lease(&mut self, worker: WorkerId, max: usize) -> Result<Vec<Lease>, BackendError> {
        let queue = self.worker_queue(worker);
        let count = max.min(queue.len());
        let items: Vec<QueuedTask> = queue.drain(..count).collect();
        let mut leases = Vec::with_capacity(count);
        for item in items {
            let lease_id = self.next_loan;
            self.next_loan += 1;
            leases.push(Lease {
                task_id: item.task_id,
                lease_id,
                url: item.url.to_string(),
                depth: self.storage.depth(&item),
                redirects: item.redirects,
                is_revisit: item.is_revisit,
                cooldown: self.rests.of(&item.url),
            });
            self.loans.insert(item.task_id, ActiveLease { item, worker, number: lease_id, reserved: None });
        }
        self.feed(worker)?;
        Ok(leases)
    }

    /// Brings what waits for its domain's share into a worker's queue, as far as there is room.
    fn feed(&mut self, worker: WorkerId) -> Result<(), BackendError> {
        let room = self.settings.queue_size.saturating_sub(self.worker_queue(worker).len());
        let fed = self.domains.refill(worker, room, &mut self.storage)?;
        self.worker_queue(worker).extend(fed);
        Ok(())
    }

    pub(super) fn reserve(&mut self, lease: &Lease, read: u64) -> BudgetDecision {
        let Some(lease_id) =
            self.loans.get_mut(&lease.task_id).filter(|lease_id| lease_id.number == lease.lease_id)
        else {
            return BudgetDecision::LeaseLost;
        };
        self.budgets.commit(&lease.url, lease_id.reserved.take(), false, read);
        match self.budgets.reserve(&lease.url, !lease_id.item.is_revisit) {
            Ok(reserved) => {
                lease_id.reserved = Some(reserved);
                BudgetDecision::Granted(reserved.bytes())
            }
            Err(refusal) => refusal,
        }
    }

    pub(super) fn release(&mut self, lease: &Lease, read: u64) {
        if let Some(lease_id) = self.loans.get_mut(&lease.task_id)
            && lease_id.number == lease.lease_id
        {
            self.budgets.commit(&lease.url, lease_id.reserved.take(), false, read);
        }
    }

    pub(super) fn complete(&mut self, completion: Completion) -> Result<CompleteResult, BackendError> {
        let Completion {
            lease,
            outcome,
            bytes,
            outlinks,
            linked_domains: linked,
            rejected_links: refused,
            writes: output,
            host_delay,
        } = completion;
        if self.loans.get(&lease.task_id).is_none_or(|lease_id| lease_id.number != lease.lease_id) {
            return Ok(CompleteResult::StaleLease);
        }
        // Children go in before the parent completes, so "outstanding" reaches zero only at the end.
        let AdmitCounts { new, seen: known } = self.admit(outlinks, Some(lease.task_id))?;
        let Some(ActiveLease { item, worker, reserved, .. }) = self.loans.remove(&lease.task_id) else {
            return Ok(CompleteResult::StaleLease);
        };
        self.counts.completed += 1;
        // A revisit finds the same links again; but those that are new now were not counted before.
        self.counts.links_new += new;
        if !item.is_revisit {
            self.counts.ended(&outcome);
            self.counts.links_known += known;
            self.counts.refused(refused);
            self.popularity.count_page(&linked);
            for domain in &linked {
                self.storage.linking_pages(domain, self.popularity.linking_pages(domain));
            }
        }
        let kept = outcome == Outcome::Page && !item.is_revisit;
        let document = self.budgets.commit(&item.url, reserved, kept, bytes);
        if let Some(document) = document {
            self.storage.record(document, output);
            if let Some((host, pages)) = self.budgets.pages_of_host(&item.url) {
                self.storage.host_pages(&host, pages)?;
            }
        }
        if let Some(host_delay) = host_delay {
            self.set_host_delay(throttle_key(&item.url), host_delay)?;
        }
        let (id, now, depth) = (self.storage.id(&item.url), self.clock.now(), self.storage.depth(&item));
        self.storage.complete(id, &item, CompletedUrl { outcome: &outcome, depth, document }, now);
        // Met nearer while it was on loan: its links were taken for deeper than they are.
        if depth < lease.depth && outcome.has_links() {
            let found = DiscoveredUrl { url: item.url.to_string(), depth, redirects: item.redirects };
            self.counts.revisits += 1;
            self.enqueue(id, found, Some(item.from), true, now);
            self.fill_url_queue()?;
        }
        self.domains.release(&item.domain());
        self.feed(worker)?;
        self.called.insert(worker);
        Ok(CompleteResult::Applied { id: document, new, exhausted: self.budgets.exhausted() })
    }

    pub(super) fn set_host_delay(&mut self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        self.rests.set(host.to_owned(), host_delay);
        self.storage.set_host_delay(host, host_delay)
    }

    /// Stores a page, unless it is like another. It comes compressed, so that nobody waits for that.
    pub(super) fn store_content(
        &mut self,
        url: &str,
        fingerprint: &Fingerprint,
        body: Option<Body>,
    ) -> Result<ContentMatch, BackendError> {
        let now = self.clock.now();
        for expired in self.contents.expire(now) {
            self.storage.remove_page(expired)?;
        }
        let id = self.storage.id(url);
        if let Some(like) = self.contents.like(id, fingerprint, now) {
            return Ok(like);
        }
        // Delivered again after a death: it takes the place of what it was.
        if self.contents.holds(id, now) {
            self.storage.remove_page(id)?;
        }
        // Where pages are neither compared nor stored there is nothing to remember.
        if self.settings.similarity.is_some() || body.is_some() {
            let bytes = body.as_ref().map_or(0, |body| body.bytes().len() as u64);
            self.contents.add(id, url, fingerprint, bytes, now);
            self.storage.store_page(id, url, fingerprint, body, now);
        }
        Ok(ContentMatch::New)
    }

    pub(super) fn load_content(&self, url: &str) -> Result<Option<Body>, BackendError> {
        let id = self.storage.id(url);
        if self.contents.holds(id, self.clock.now()) { self.storage.body(id) } else { Ok(None) }
    }

    pub(super) fn remove_worker(&mut self, worker: WorkerId) -> Result<(), BackendError> {
        let lost: Vec<TaskId> = self
            .loans
            .iter()
            .filter(|(_, lease_id)| lease_id.worker == worker)
            .map(|(task_id, _)| *task_id)
            .collect();
        let mut returned: Vec<QueuedTask> = Vec::new();
        for task_id in lost {
            if let Some(lease_id) = self.loans.remove(&task_id) {
                self.budgets.release(&lease_id.item.url, lease_id.reserved);
                returned.push(lease_id.item);
            }
        }
        returned.extend(self.worker_queues[usize::from(worker.0)].take().unwrap_or_default());
        returned.extend(self.domains.release_worker(worker, &mut self.storage)?);
        returned.sort_by_key(|item| item.task_id);
        self.returned.extend(returned);
        Ok(())
    }

    /// Who of the frontier may have something to do.
    pub(super) fn frontier_waits(&self) -> FrontierWaits {
        let is_over = self.counts.admitted == self.counts.completed;
        let filed = self.priority_queues.iter().any(|queue| !queue.is_empty());
        FrontierWaits {
            prioritizer: !self.url_queue.is_empty(),
            router: is_over || filed || !self.returned.is_empty(),
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut on_loan = vec![0; self.worker_queues.len()];
        self.loans.values().for_each(|lease_id| on_loan[usize::from(lease_id.worker.0)] += 1);
        let workers = self.worker_queues.iter().zip(on_loan);
        Snapshot {
            admitted: self.counts.admitted,
            completed: self.counts.completed,
            revisits: self.counts.revisits,
            outcomes: self.counts.outcomes.clone(),
            links_new: self.counts.links_new,
            links_known: self.counts.links_known,
            links_refused: self.counts.links_refused.clone(),
            requests: self.counts.requests.total(),
            pages: self.budgets.pages(),
            bytes: self.budgets.bytes(),
            url_queue: (self.url_queue.len(), self.storage.overflow()),
            priority_queues: self.priority_queues.iter().map(VecDeque::len).collect(),
            workers: workers
                .map(|(queue, on_loan)| (queue.as_ref().map_or(0, VecDeque::len), on_loan))
                .collect(),
            waiting: self.domains.waiting() + self.returned.len(),
            owned_domains: self.domains.owned(),
            active_hosts: self
                .loans
                .values()
                .map(|lease_id| throttle_key(&lease_id.item.url))
                .collect::<HashSet<_>>()
                .len(),
            known: self.storage.seen_len(),
            stored: self.contents.stored(),
        }
    }
}
