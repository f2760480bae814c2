//! The frontier's state machine: applies each operation to the queues of a crawl in one process, over any storage.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::{
    AdmitCounts, BackendError, BudgetDecision, CompleteResult, Completion, ContentMatch, DiscoveredUrl,
    HostDelay, Lease, Outlinks, Snapshot, TaskId, UnprioritizedUrl, WorkerId,
};
use super::BackendConfig;
use super::budgets::{BudgetReservation, BudgetWait, Budgets};
use super::content_index::{ContentIndex, IndexLookup};
use super::counters::CrawlCounters;
use super::domain_table::{DomainTable, RouteDecision};
use super::host_cooldowns::HostCooldowns;
use super::storage::{Body, Clock, CompletedUrl, QueuedTask, SeenStatus, Storage, TaskRef};
use crate::domain::Domain;
use crate::fetch::http::AddressKinds;
use crate::origin::throttle_key;
use crate::outcome::Outcome;
use crate::prioritizer::{Popularity, Priority};
use crate::similarity::{ContentType, Fingerprint, Undecided, Verdicts};
use crate::stats::BodyBytes;
use crate::task::Depth;

pub(crate) struct LocalState<S: Storage> {
    pub(crate) config: BackendConfig,
    pub(crate) clock: Clock,
    pub(crate) storage: S,
    pub(crate) counters: CrawlCounters,
    pub(crate) popularity: Popularity,
    pub(crate) content: ContentIndex,
    pub(crate) budgets: Budgets,
    pub(crate) cooldowns: HostCooldowns,
    /// The kinds of address that the seeds' hosts had at first.
    pub(crate) address_kinds: HashMap<String, AddressKinds>,
    next_lease_id: u64,
    url_queue: VecDeque<QueuedTask>,
    prioritizing: HashMap<TaskId, QueuedTask>,
    priority_queues: Vec<VecDeque<QueuedTask>>,
    domains: DomainTable<S::Parked>,
    /// The workers' queues; `None` for a worker that was removed.
    worker_queues: Vec<Option<VecDeque<QueuedTask>>>,
    /// URLs of dead workers, to be routed again.
    requeued: VecDeque<QueuedTask>,
    leases: HashMap<TaskId, ActiveLease>,
    /// Workers whose queues got URLs since they were last woken.
    pub(super) workers_to_wake: Vec<WorkerId>,
}

struct ActiveLease {
    task: QueuedTask,
    worker: WorkerId,
    lease_id: u64,
    reservation: Option<BudgetReservation>,
}

/// A URL to add to the queues. A seed was not found on a page.
struct NewTask<'u> {
    url: &'u str,
    depth: Depth,
    redirects: u8,
    from: Option<TaskId>,
    is_revisit: bool,
}

/// A page to store.
pub(super) struct NewPage<'a> {
    pub(super) url: &'a str,
    pub(super) fingerprint: &'a Fingerprint,
    /// `None` if bodies are not stored.
    pub(super) body: Option<&'a Body>,
    /// A seed is stored whatever it is a duplicate of.
    pub(super) is_seed: bool,
}

/// The result of storing a page.
pub(super) enum StoreResult {
    Done(ContentMatch),
    /// The page must be compared with these pages first.
    Undecided(Vec<BorderCase>),
}

/// A stored page whose similarity to a new page is too close to the threshold for an estimate.
pub(super) struct BorderCase {
    pub(super) page: Undecided,
    pub(super) url: String,
    /// `None` if the body is not stored.
    pub(super) body: Option<(ContentType, Body)>,
}

/// Which frontier loops have work.
pub(super) struct FrontierWork {
    pub(super) prioritizer: bool,
    pub(super) router: bool,
}

/// The result of routing.
pub(super) struct RouteResult {
    pub(super) moved: usize,
    pub(super) to: HashSet<WorkerId>,
}

impl<S: Storage> LocalState<S> {
    /// Empty queues, over a storage that may contain URLs.
    pub(crate) fn new(config: BackendConfig, clock: Clock, storage: S) -> LocalState<S> {
        LocalState {
            clock,
            storage,
            counters: CrawlCounters::default(),
            popularity: Popularity::new(),
            content: ContentIndex::new(config.similarity, config.ttl),
            budgets: Budgets::new(&config),
            cooldowns: HostCooldowns::default(),
            address_kinds: HashMap::new(),
            next_lease_id: 1,
            url_queue: VecDeque::new(),
            prioritizing: HashMap::new(),
            priority_queues: (0..config.priority_queues.count()).map(|_| VecDeque::new()).collect(),
            domains: DomainTable::new(config.domain_ttl),
            worker_queues: (0..config.workers).map(|_| Some(VecDeque::new())).collect(),
            requeued: VecDeque::new(),
            leases: HashMap::new(),
            workers_to_wake: Vec::new(),
            config,
        }
    }

    /// Admits seeds.
    pub(super) fn admit(&mut self, found: &[DiscoveredUrl]) -> Result<AdmitCounts, BackendError> {
        let now = self.clock.now();
        let mut admitted = AdmitCounts::default();
        for DiscoveredUrl { url, depth, redirects } in found {
            self.admit_url(url, *depth, *redirects, None, now, &mut admitted)?;
        }
        self.fill_url_queue()?;
        Ok(admitted)
    }

    /// Admits the outlinks of the page `from`.
    fn admit_outlinks(&mut self, outlinks: &Outlinks, from: TaskId) -> Result<AdmitCounts, BackendError> {
        let now = self.clock.now();
        let mut admitted = AdmitCounts::default();
        for url in outlinks.urls.iter() {
            self.admit_url(url, outlinks.depth, outlinks.redirects, Some(from), now, &mut admitted)?;
        }
        self.fill_url_queue()?;
        Ok(admitted)
    }

    fn admit_url(
        &mut self,
        url: &str,
        depth: Depth,
        redirects: u8,
        from: Option<TaskId>,
        now: Duration,
        admitted: &mut AdmitCounts,
    ) -> Result<(), BackendError> {
        let id = self.storage.id(url);
        let status = self.storage.mark_seen(id, depth, now)?;
        match status {
            SeenStatus::New => admitted.new += 1,
            SeenStatus::Seen | SeenStatus::Shallower => admitted.seen += 1,
        }
        if status != SeenStatus::Seen {
            let is_revisit = status == SeenStatus::Shallower;
            self.enqueue(id, NewTask { url, depth, redirects, from, is_revisit }, now);
        }
        Ok(())
    }

    fn enqueue(&mut self, id: u64, task: NewTask, now: Duration) {
        self.counters.last_task_id += 1;
        self.counters.admitted += 1;
        self.counters.revisits += u64::from(task.is_revisit);
        let task_id = TaskId(self.counters.last_task_id);
        let NewTask { url, depth, redirects, from, is_revisit } = task;
        let from = from.unwrap_or(task_id);
        // Always behind the URLs that wait already, so that the order stays the order of admission.
        self.storage.admit(id, TaskRef { task_id, from, url, depth, redirects, is_revisit }, now);
    }

    fn fill_url_queue(&mut self) -> Result<(), BackendError> {
        let room = self.config.queue_size.saturating_sub(self.url_queue.len());
        if room > 0 && self.storage.overflow_len() > 0 {
            self.url_queue.extend(self.storage.take_overflow(room)?);
        }
        Ok(())
    }

    pub(super) fn take_unprioritized(&mut self, max: usize) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        // After a resume, all URLs are still in the storage.
        self.fill_url_queue()?;
        // No more than fit into one priority queue, in case all get the same priority.
        let fullest = self.priority_queues.iter().map(VecDeque::len).max().unwrap_or(0);
        let room = self.config.queue_size.saturating_sub(fullest + self.prioritizing.len());
        let count = max.min(room).min(self.url_queue.len());
        let taken: Vec<QueuedTask> = self.url_queue.drain(..count).collect();
        self.fill_url_queue()?;
        let mut unprioritized = Vec::with_capacity(count);
        for mut task in taken {
            let domain = Domain::from_url_str(&task.url);
            task.domain = Some(domain.clone());
            let linking_pages = self.popularity.linking_pages(&domain);
            let depth = self.storage.depth(&task);
            unprioritized.push(UnprioritizedUrl { task_id: task.task_id, domain, depth, linking_pages });
            self.prioritizing.insert(task.task_id, task);
        }
        Ok(unprioritized)
    }

    pub(super) fn enqueue_prioritized(&mut self, prioritized: Vec<(TaskId, Priority)>) {
        for (task_id, priority) in prioritized {
            // A task that the prioritizer does not have was enqueued before.
            if let Some(task) = self.prioritizing.remove(&task_id) {
                let queue = self.config.priority_queues.of(priority);
                self.priority_queues[queue].push_back(task);
            }
        }
    }

    pub(super) fn route(&mut self, draws: &[Priority]) -> RouteResult {
        let mut routed = RouteResult { moved: 0, to: HashSet::new() };
        // Route the URLs of dead workers first: they were routed before.
        while let Some(task) = self.requeued.pop_front() {
            if let Err(task) = self.route_task(task, &mut routed) {
                self.requeued.push_front(task);
                break;
            }
        }
        let mut is_blocked = vec![false; self.priority_queues.len()];
        for draw in draws {
            loop {
                let has_tasks = |queue: usize| !is_blocked[queue] && !self.priority_queues[queue].is_empty();
                let Some(queue) = self.config.priority_queues.first_from(*draw, has_tasks) else {
                    return routed;
                };
                let Some(task) = self.priority_queues[queue].pop_front() else { return routed };
                match self.route_task(task, &mut routed) {
                    Ok(()) => break,
                    Err(task) => {
                        self.priority_queues[queue].push_front(task);
                        is_blocked[queue] = true;
                    }
                }
            }
        }
        routed
    }

    /// Puts a URL where the domain table decides. Returns it if there is no room.
    fn route_task(&mut self, task: QueuedTask, routed: &mut RouteResult) -> Result<(), QueuedTask> {
        let domain = task.domain();
        let lengths = self.worker_queues.iter().map(|queue| queue.as_ref().map(VecDeque::len));
        match self.domains.route(&domain, lengths, self.config.queue_size) {
            RouteDecision::Enqueue(worker) => {
                self.domains.assign(&domain, worker);
                self.worker_queue(worker).push_back(task);
                routed.to.insert(worker);
            }
            RouteDecision::Park => self.domains.park(&domain, task, &mut self.storage),
            RouteDecision::WorkerFull => return Err(task),
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
        let tasks: Vec<QueuedTask> = queue.drain(..count).collect();
        let mut leases = Vec::with_capacity(count);
        for task in tasks {
            let lease_id = self.next_lease_id;
            self.next_lease_id += 1;
            leases.push(Lease {
                task_id: task.task_id,
                lease_id,
                url: Arc::clone(&task.url),
                depth: self.storage.depth(&task),
                redirects: task.redirects,
                is_revisit: task.is_revisit,
                cooldown: self.cooldowns.remaining(&task.url),
            });
            self.leases.insert(task.task_id, ActiveLease { task, worker, lease_id, reservation: None });
        }
        self.refill_queue(worker)?;
        Ok(leases)
    }

    /// Moves parked URLs into a worker's queue, as far as there is room.
    fn refill_queue(&mut self, worker: WorkerId) -> Result<(), BackendError> {
        let queue = self.worker_queues[usize::from(worker.0)].get_or_insert_default();
        self.domains.refill(worker, queue, self.config.queue_size, &mut self.storage)
    }

    pub(super) fn reserve(&mut self, lease: &Lease, read: BodyBytes) -> BudgetDecision {
        let active = self.leases.get_mut(&lease.task_id).filter(|active| active.lease_id == lease.lease_id);
        match active {
            Some(active) => self.budgets.reserve(lease, &mut active.reservation, read),
            None => BudgetDecision::LeaseLost,
        }
    }

    /// What a lease has to wait for before it reserves; `None` if it need not wait.
    pub(super) fn budget_wait(&self, lease: &Lease) -> Option<BudgetWait> {
        let active = self.leases.get(&lease.task_id).filter(|active| active.lease_id == lease.lease_id)?;
        self.budgets.wait(lease, active.reservation.as_ref())
    }

    pub(super) fn release(&mut self, lease: &Lease, read: BodyBytes) {
        if let Some(active) = self.leases.get_mut(&lease.task_id)
            && active.lease_id == lease.lease_id
        {
            self.budgets.commit(&lease.url, active.reservation.take(), false, read);
        }
    }

    pub(super) fn complete(&mut self, completion: Completion) -> Result<CompleteResult, BackendError> {
        let Completion {
            lease,
            outcome,
            bytes,
            outlinks,
            linked_domains,
            rejected_links,
            writes,
            host_delay,
        } = completion;
        if self.leases.get(&lease.task_id).is_none_or(|active| active.lease_id != lease.lease_id) {
            return Ok(CompleteResult::StaleLease);
        }
        // Outlinks are admitted before the page is completed, so `outstanding` reaches zero only at the end of the
        // crawl.
        let AdmitCounts { new, seen } = self.admit_outlinks(&outlinks, lease.task_id)?;
        let Some(ActiveLease { task, worker, reservation, .. }) = self.leases.remove(&lease.task_id) else {
            return Ok(CompleteResult::StaleLease);
        };
        self.counters.completed += 1;
        // A revisit finds the same links again, but links that are new now were not counted before.
        self.counters.links_new += new;
        if !task.is_revisit {
            self.counters.count_outcome(&outcome);
            self.counters.links_seen += seen;
            self.counters.count_rejected(rejected_links);
            self.popularity.count_page(&linked_domains);
            for domain in &linked_domains {
                self.storage.set_linking_pages(domain, self.popularity.linking_pages(domain));
            }
        }
        let is_page = outcome == Outcome::Page && !task.is_revisit;
        let page_number = self.budgets.commit(&task.url, reservation, is_page, bytes);
        if let Some(page_number) = page_number {
            self.storage.record_writes(page_number, writes);
            if let Some((host, pages)) = self.budgets.pages_of_host(&task.url) {
                self.storage.set_host_pages(&host, pages)?;
            }
        }
        if let Some(host_delay) = host_delay {
            self.set_host_delay(throttle_key(&task.url), host_delay)?;
        }
        let (id, now, depth) = (self.storage.id(&task.url), self.clock.now(), self.storage.depth(&task));
        self.storage.complete(id, &task, CompletedUrl { outcome: &outcome, depth, page_number }, now);
        // Found at a smaller depth while it was leased: its links were admitted with too large a depth.
        if depth < lease.depth && outcome.has_links() {
            let (url, redirects, from) = (&*task.url, task.redirects, Some(task.from));
            self.enqueue(id, NewTask { url, depth, redirects, from, is_revisit: true }, now);
            self.fill_url_queue()?;
        }
        self.domains.release(&task.domain());
        self.refill_queue(worker)?;
        if !self.workers_to_wake.contains(&worker) {
            self.workers_to_wake.push(worker);
        }
        Ok(CompleteResult::Applied { id: page_number, new, exhausted: self.budgets.exhausted() })
    }

    pub(super) fn set_host_delay(&mut self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        self.cooldowns.set(host.to_owned(), host_delay);
        self.storage.set_host_delay(host, host_delay)
    }

    pub(super) fn pin_address_kinds(
        &mut self,
        host: &str,
        kinds: AddressKinds,
    ) -> Result<AddressKinds, BackendError> {
        if let Some(pinned) = self.address_kinds.get(host) {
            return Ok(*pinned);
        }
        self.address_kinds.insert(host.to_owned(), kinds);
        self.storage.set_address_kinds(host, kinds)?;
        Ok(kinds)
    }

    /// Stores a page, unless it is a duplicate. The caller has compressed the body, and compares border cases, so that
    /// no operation waits for that.
    pub(super) fn store_content(
        &mut self,
        page: &NewPage,
        verdicts: &Verdicts,
    ) -> Result<StoreResult, BackendError> {
        let NewPage { url, fingerprint, body, is_seed } = *page;
        let now = self.clock.now();
        for expired in self.content.expire(now) {
            self.storage.remove_page(expired)?;
        }
        let id = self.storage.id(url);
        if !is_seed {
            // Without bodies, nothing can be compared exactly.
            match self.content.find(id, fingerprint, now, body.and(Some(verdicts))) {
                IndexLookup::New => {}
                IndexLookup::Match(duplicate) => return Ok(StoreResult::Done(duplicate)),
                IndexLookup::Undecided(pages) => {
                    let pages = pages.into_iter().map(|page| self.border_case(page));
                    return Ok(StoreResult::Undecided(pages.collect::<Result<_, _>>()?));
                }
            }
        }
        // Delivered again after a crash: replace the stored page.
        if self.content.contains(id, now) {
            self.storage.remove_page(id)?;
        }
        // If pages are neither compared nor stored there is nothing to add.
        if self.config.similarity.is_some() || body.is_some() {
            let bytes = body.map_or(0, |body| body.bytes().len() as u64);
            self.content.add(id, url, fingerprint, bytes, now);
            self.storage.store_page(id, url, fingerprint, body, now);
        }
        Ok(StoreResult::Done(ContentMatch::New))
    }

    fn border_case(&self, page: Undecided) -> Result<BorderCase, BackendError> {
        let content_type = self.content.content_type(page.url);
        let body = content_type.and_then(|content_type| {
            let body = self.storage.body(page.url).transpose()?;
            Some(body.map(|body| (content_type, body)))
        });
        Ok(BorderCase { page, url: self.content.url(page.url).to_owned(), body: body.transpose()? })
    }

    pub(super) fn load_content(&self, url: &str) -> Result<Option<Body>, BackendError> {
        let id = self.storage.id(url);
        if self.content.contains(id, self.clock.now()) { self.storage.body(id) } else { Ok(None) }
    }

    pub(super) fn remove_worker(&mut self, worker: WorkerId) -> Result<(), BackendError> {
        let lost: Vec<TaskId> = self
            .leases
            .iter()
            .filter(|(_, active)| active.worker == worker)
            .map(|(task_id, _)| *task_id)
            .collect();
        let mut requeued: Vec<QueuedTask> = Vec::new();
        for task_id in lost {
            if let Some(active) = self.leases.remove(&task_id) {
                self.budgets.release(&active.task.url, active.reservation);
                requeued.push(active.task);
            }
        }
        requeued.extend(self.worker_queues[usize::from(worker.0)].take().unwrap_or_default());
        requeued.extend(self.domains.release_worker(worker, &mut self.storage)?);
        requeued.sort_by_key(|task| task.task_id);
        self.requeued.extend(requeued);
        Ok(())
    }

    /// Which frontier loops have work.
    pub(super) fn frontier_work(&self) -> FrontierWork {
        let is_finished = self.counters.admitted == self.counters.completed;
        let has_prioritized = self.priority_queues.iter().any(|queue| !queue.is_empty());
        FrontierWork {
            prioritizer: !self.url_queue.is_empty(),
            router: is_finished || has_prioritized || !self.requeued.is_empty(),
        }
    }

    /// The HTTP requests sent, and the body bytes counted.
    pub(crate) fn traffic(&self) -> (u64, BodyBytes) {
        (self.counters.requests.total(), self.budgets.bytes())
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut leased = vec![0; self.worker_queues.len()];
        self.leases.values().for_each(|active| leased[usize::from(active.worker.0)] += 1);
        let workers = self.worker_queues.iter().zip(leased);
        let (stored_pages, stored_bytes) = self.content.pages_and_bytes();
        Snapshot {
            admitted: self.counters.admitted,
            completed: self.counters.completed,
            revisits: self.counters.revisits,
            outcomes: self.counters.outcomes.clone(),
            links_new: self.counters.links_new,
            links_seen: self.counters.links_seen,
            links_rejected: self.counters.links_rejected.clone(),
            requests: self.counters.requests.total(),
            pages: self.budgets.pages(),
            bytes: self.budgets.bytes().decoded,
            received: self.budgets.bytes().received,
            url_queue: (self.url_queue.len(), self.storage.overflow_len()),
            priority_queues: self.priority_queues.iter().map(VecDeque::len).collect(),
            workers: workers
                .map(|(queue, leased)| (queue.as_ref().map_or(0, VecDeque::len), leased))
                .collect(),
            parked: self.domains.parked() + self.requeued.len(),
            owned_domains: self.domains.owned(),
            active_hosts: self
                .leases
                .values()
                .map(|active| throttle_key(&active.task.url))
                .collect::<HashSet<_>>()
                .len(),
            seen_urls: self.storage.seen_len(),
            stored_pages,
            stored_bytes,
        }
    }
}
