//! The queues and storages of a crawl in this process, behind one lock, over a storage in memory or on disk.

pub(crate) mod budgets;
pub(crate) mod compressed_queue;
pub(crate) mod content_index;
pub(crate) mod counters;
mod host_cooldowns;
mod host_health;
pub(crate) mod memory_storage;
mod queue_set;
mod seen_urls;
mod segment_store;
pub(crate) mod state;
pub(crate) mod storage;
mod visited_urls;
mod waiting_urls;

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use self::budgets::{BudgetWait, BudgetWakeups};
pub(crate) use self::content_index::{body_to_store, compress, decompress};
use self::memory_storage::MemoryStorage;
use self::state::{BorderCase, LocalState, NewPage, StoreResult, Work};
use self::storage::{Body, Clock, Commit, Storage};
use super::{
    AdmitCounts, Backend, BackendError, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch,
    DiscoveredUrl, DomainTransfer, HostClaim, HostDelay, Lease, Snapshot, TaskId, TransferResult,
    UnprioritizedUrl, WorkerId,
};
use crate::domain::Domain;
use crate::fetch::http::AddressKinds;
use crate::live_settings::LiveLimits;
use crate::log::HostEvent;
use crate::modules::output::OutputPosition;
use crate::prioritizer::{Prioritizer, Priority, PriorityQueues};
use crate::similarity::{
    ExactComparison, Fingerprint, HashKey, PageBody, ShingleCache, Threshold, Verdicts, VersionSimilarity,
};
use crate::stats::{BodyBytes, RequestCounter};
use crate::strip_query::StripQuery;
use crate::url_record::UrlRecord;
use crate::visit::VisitSettings;

/// A TTL after which nothing expires. It is a hundred years, not `Duration::MAX`, because Redis adds it to the time.
pub const UNLIMITED_TTL: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How long a request waits to be woken before it tries to reserve again. The one that was woken may still wait for a
/// free slot of its worker.
const MAX_BUDGET_WAIT: Duration = Duration::from_millis(500);

/// Queue sizes, limits and lifetimes of a crawl.
#[derive(Debug, Clone)]
pub struct BackendConfig {
    /// Maximum number of URLs in the URL queue, in each priority queue and in each worker's queue.
    pub queue_size: usize,
    /// The priority queues.
    pub priority_queues: PriorityQueues,
    /// Number of workers at the start. More can join a crawl whose workers are in other processes.
    pub workers: u16,
    /// How long a page is stored; on Redis, also how long the rest of a crawl is kept after its end.
    pub ttl: Duration,
    /// How long a worker owns a domain after its last use.
    pub domain_ttl: Duration,
    /// Whether smallest depths are tracked, because the crawl has a depth limit.
    pub keep_depths: bool,
    /// Whether it is known how URLs were found, because a module or an output wants to know.
    pub keep_discovery: bool,
    /// Similarity from which a page is dropped as a near-duplicate. `None` turns duplicate detection off.
    pub similarity: Option<Threshold>,
    /// Query parameters that are removed from links, also where the links of pages are compared.
    pub strip_query: StripQuery,
    /// Whether page bodies are stored, or only their fingerprints.
    pub keep_content: bool,
    /// Maximum number of pages.
    pub max_pages: u64,
    /// Maximum number of body bytes read.
    pub max_bytes: u64,
    /// Maximum number of body bytes that one request may read.
    pub max_page_bytes: u64,
    /// Maximum number of pages per host.
    pub max_pages_per_host: u64,
    /// Maximum number of pages per site, which is all hosts of a registrable domain.
    pub max_pages_per_site: u64,
    /// What is remembered of visits, and whether URLs are visited again while the crawl runs.
    pub visits: VisitSettings,
    /// How a host may be used.
    pub hosts: HostLimits,
}

/// How many URLs of a host are leased, and when it is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLimits {
    /// The most URLs of a host that are leased at a time.
    pub max_leases: usize,
    /// After this many failures in a row to connect or to respond in time, the other URLs of a host are not requested.
    pub max_failures: u32,
    /// The minimum time between two leases of URLs of a site.
    pub site_delay: Duration,
    /// The minimum time between requests to a host. The hosts of a removed worker receive none for this time, unless the
    /// workers share a throttle.
    pub delay: Duration,
    /// Whether all workers are in one process, whose throttle they share. Otherwise a domain's hosts receive requests
    /// from the domain's owner only, and a new owner waits for the cooldowns that the previous one returned.
    pub workers_share_throttle: bool,
}

impl Default for HostLimits {
    fn default() -> HostLimits {
        HostLimits {
            max_leases: 64,
            max_failures: 6,
            site_delay: Duration::ZERO,
            delay: Duration::ZERO,
            workers_share_throttle: true,
        }
    }
}

/// The backend of a crawl that runs in one process.
#[expect(private_bounds, reason = "the storage trait is internal")]
pub struct LocalBackend<S: Storage = MemoryStorage> {
    pub(crate) shared: Arc<SharedState<S>>,
    key: HashKey,
    workers_share_throttle: bool,
    keep_content: bool,
    similarity: Option<Threshold>,
    strip_query: StripQuery,
    /// How many bytes of bodies were stored.
    stored_bytes: AtomicU64,
    /// The shingles of stored pages that were compared exactly.
    shingles: ShingleCache,
    /// Wakes the prioritizer: a URL was admitted, or a priority queue has room.
    prioritizer: Notify,
    /// Wakes who waits for the end of the crawl.
    finished: Notify,
    /// Wakes each worker, by its number: there are URLs for it.
    workers: Mutex<Vec<Arc<Notify>>>,
    /// Wakes who leases for all workers: there are URLs for one of them.
    leasable: Notify,
    /// Wakes the first request that waits to be sent: a page and bytes are left.
    starting: Notify,
    /// Wakes all requests that wait for more bytes, or for a page of their host.
    waiting_for_turn: Notify,
}

/// The state that the operations share with the thread that commits it.
pub(crate) struct SharedState<S: Storage> {
    state: Mutex<LocalState<S>>,
    /// Wakes the committer: there may be something to commit.
    pub(crate) uncommitted: Condvar,
    /// Whether the committer waits to be woken. It says so while it has the lock of the state.
    pub(crate) committer_waits: AtomicBool,
}

impl<S: Storage> SharedState<S> {
    pub(crate) fn state(&self) -> MutexGuard<'_, LocalState<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an operation panicked half-way. Its changes must not be committed.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.is_poisoned()
    }
}

impl LocalBackend {
    /// An empty backend in memory.
    pub fn new(config: BackendConfig) -> LocalBackend {
        let key = HashKey::new(secret());
        let storage = MemoryStorage::new(&config, key);
        LocalBackend::from_state(LocalState::new(config, Clock::starting_at(Duration::ZERO), storage), key)
    }
}

#[expect(private_bounds, reason = "the storage trait is internal")]
impl<S: Storage> LocalBackend<S> {
    /// A backend over a state.
    pub(crate) fn from_state(state: LocalState<S>, key: HashKey) -> LocalBackend<S> {
        LocalBackend {
            key,
            workers_share_throttle: state.config.hosts.workers_share_throttle,
            keep_content: state.config.keep_content,
            similarity: state.config.similarity,
            strip_query: state.config.strip_query.clone(),
            stored_bytes: AtomicU64::new(state.content.pages_and_bytes().1),
            shingles: ShingleCache::default(),
            prioritizer: Notify::new(),
            finished: Notify::new(),
            workers: Mutex::default(),
            leasable: Notify::new(),
            starting: Notify::new(),
            waiting_for_turn: Notify::new(),
            shared: Arc::new(SharedState {
                state: Mutex::new(state),
                uncommitted: Condvar::new(),
                committer_waits: AtomicBool::new(false),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, LocalState<S>> {
        self.shared.state()
    }

    /// Runs an operation that must be applied completely. If it fails, nothing it changed is committed.
    fn atomically<T>(
        &self,
        operation: impl FnOnce(&mut LocalState<S>) -> Result<T, BackendError>,
    ) -> Result<(T, Commit), BackendError> {
        let mut state = self.state();
        match operation(&mut state) {
            Ok(result) => Ok((result, state.storage.commit())),
            Err(error) => {
                state.storage.fail(&error);
                Err(error)
            }
        }
    }

    /// Runs operations that must be applied completely, and wakes those who have work after it. If one fails, nothing that
    /// they changed is committed.
    pub(crate) fn apply<T>(
        &self,
        operations: impl FnOnce(&mut LocalState<S>) -> Result<T, BackendError>,
    ) -> Result<(T, Commit), BackendError> {
        let ((result, work, wakeups), commit) = self.atomically(|state| {
            let result = operations(state)?;
            Ok((result, state.work(), state.budgets.wakeups()))
        })?;
        self.wake(work);
        self.wake_requests(wakeups);
        Ok((result, commit))
    }

    /// Looks at the state, or changes what is not to be committed.
    pub(crate) fn inspect<T>(&self, look: impl FnOnce(&mut LocalState<S>) -> T) -> T {
        look(&mut self.state())
    }

    /// Waits until there may be URLs for a worker that wants some.
    pub(crate) async fn leasable(&self) {
        self.leasable.notified().await;
    }

    /// Wakes only those who have work: an unneeded wake-up costs as much as a request.
    fn wake(&self, Work { prioritizer, is_finished, workers, events }: Work) {
        events.iter().for_each(HostEvent::log);
        if prioritizer {
            self.prioritizer.notify_one();
        }
        if is_finished {
            self.finished.notify_one();
        }
        if !workers.is_empty() {
            self.leasable.notify_one();
        }
        for worker in workers {
            self.notify(worker).notify_one();
        }
    }

    /// Wakes a worker, which may have joined later.
    fn notify(&self, WorkerId(worker): WorkerId) -> Arc<Notify> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let index = usize::from(worker);
        if index >= workers.len() {
            workers.resize_with(index + 1, Arc::default);
        }
        Arc::clone(&workers[index])
    }

    /// Leases URLs, and returns when to try again if there are none.
    fn try_lease(&self, worker: WorkerId, max: usize) -> Result<(Vec<Lease>, Option<Instant>), BackendError> {
        let (leases, work, next_timer) = {
            let mut state = self.state();
            let leases = state.lease(worker, max)?;
            (leases, state.work(), state.next_timer())
        };
        self.wake(work);
        Ok((leases, next_timer))
    }

    /// Takes URLs whose priority is not known, and wakes those who have work. If there are none, the prioritizer is among them as long as
    /// others wait.
    fn try_take_unprioritized(&self, max: usize) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        let (urls, work) = {
            let mut state = self.state();
            let urls = state.take_unprioritized(max)?;
            (urls, state.work())
        };
        self.wake(work);
        Ok(urls)
    }

    /// Runs an operation on the budgets, and wakes the requests that may reserve after it.
    fn with_budgets<T>(&self, operation: impl FnOnce(&mut LocalState<S>) -> T) -> T {
        let mut state = self.state();
        let result = operation(&mut state);
        let wakeups = state.budgets.wakeups();
        drop(state);
        self.wake_requests(wakeups);
        result
    }

    /// A request that is woken and starts wakes the next one, as long as there is room.
    fn wake_requests(&self, BudgetWakeups { start, turn }: BudgetWakeups) {
        if start {
            self.starting.notify_one();
        }
        if turn {
            self.waiting_for_turn.notify_waiters();
        }
    }

    /// Waits until a lease may reserve.
    async fn until_reservable(&self, lease: &Lease) {
        loop {
            let mut turn = pin!(self.waiting_for_turn.notified());
            turn.as_mut().enable();
            let wait = self.state().budget_wait(lease);
            match wait {
                None => return,
                Some(BudgetWait::Start) => return self.starting.notified().await,
                Some(BudgetWait::Turn) => turn.await,
            }
        }
    }

    /// A body as it is stored.
    fn to_store<'b>(&self, body: &'b [u8]) -> Body<'b> {
        body_to_store(body, self.stored_bytes.load(Ordering::Relaxed), S::MAX_PLAIN_BYTES)
    }

    /// How similar a page is to its earlier version, if that is stored.
    fn similarity_to_version(
        &self,
        comparison: &ExactComparison,
        url: &str,
        fingerprint: &Fingerprint,
    ) -> Result<Option<VersionSimilarity>, BackendError> {
        let earlier = self.state().earlier_version(url, fingerprint)?;
        let Some((content_type, body)) = earlier else { return Ok(None) };
        let body = decompress(body).map_err(BackendError::State)?;
        Ok(comparison.similarity_to_version(&PageBody { url, content_type, body: &body }))
    }

    /// Compares a page with border cases, up to the first near-duplicate.
    fn compare(
        &self,
        comparison: &ExactComparison,
        pages: Vec<BorderCase>,
        verdicts: &mut Verdicts,
    ) -> Result<(), BackendError> {
        for border_case in pages {
            let id = border_case.page.url;
            let compared = border_case.compare(comparison, self.similarity, &self.shingles);
            let is_near_duplicate = compared.map_err(BackendError::State)?;
            verdicts.add(id, is_near_duplicate);
            if is_near_duplicate {
                break;
            }
        }
        Ok(())
    }

    /// Waits until an operation is committed.
    async fn wait_committed(&self, commit: Commit) -> Result<(), BackendError> {
        // A notification is a system call, and mostly the committer is writing.
        if self.shared.committer_waits.swap(false, Ordering::Relaxed) {
            self.shared.uncommitted.notify_one();
        }
        commit.wait().await
    }
}

impl<S: Storage> Backend for LocalBackend<S> {
    async fn admit(&self, urls: Vec<DiscoveredUrl>) -> Result<AdmitCounts, BackendError> {
        let (admitted, commit) = self.apply(|state| state.admit(&urls))?;
        self.wait_committed(commit).await?;
        Ok(admitted)
    }

    async fn take_unprioritized(
        &self,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        let urls = self.try_take_unprioritized(max)?;
        if !urls.is_empty() || wait.is_zero() {
            return Ok(urls);
        }
        // A waiter that was woken and found nothing is woken again by the next change.
        let _ = timeout(wait, self.prioritizer.notified()).await;
        self.try_take_unprioritized(max)
    }

    async fn enqueue_prioritized(&self, prioritized: Vec<(TaskId, Priority)>) -> Result<(), BackendError> {
        let work = {
            let mut state = self.state();
            state.enqueue_prioritized(prioritized);
            state.work()
        };
        self.wake(work);
        Ok(())
    }

    fn set_prioritizer(&self, prioritizer: &Arc<dyn Prioritizer>) {
        self.state().set_prioritizer(prioritizer);
    }

    async fn reprioritize(&self, domains: Vec<Domain>) -> Result<usize, BackendError> {
        let (count, work) = {
            let mut state = self.state();
            (state.reprioritize(&domains)?, state.work())
        };
        self.wake(work);
        Ok(count)
    }

    async fn wait_until_finished(&self, wait: Duration) -> Result<(), BackendError> {
        let _ = timeout(wait, self.finished.notified()).await;
        Ok(())
    }

    async fn lease(&self, worker: WorkerId, max: usize, wait: Duration) -> Result<Vec<Lease>, BackendError> {
        let deadline = Instant::now() + wait;
        loop {
            let (leases, next_timer) = self.try_lease(worker, max)?;
            let now = Instant::now();
            if !leases.is_empty() || now >= deadline {
                return Ok(leases);
            }
            let until = next_timer.map_or(deadline, |timer| timer.min(deadline));
            let _ = timeout_at(until, self.notify(worker).notified()).await;
        }
    }

    async fn reserve(&self, lease: &Lease, read: BodyBytes) -> Result<BudgetDecision, BackendError> {
        Ok(self.with_budgets(|state| state.reserve(lease, read)))
    }

    async fn wait_for_budget(&self, lease: &Lease) -> Result<(), BackendError> {
        let mut waiting = BudgetRequest { backend: self, lease, is_done: false };
        let _ = timeout(MAX_BUDGET_WAIT, self.until_reservable(lease)).await;
        waiting.is_done = true;
        Ok(())
    }

    async fn release(&self, lease: &Lease, read: BodyBytes) -> Result<(), BackendError> {
        self.with_budgets(|state| state.release(lease, read));
        Ok(())
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<CompleteResult>, BackendError> {
        let (completed, commit) = self
            .apply(|state| completions.into_iter().map(|completion| state.complete(completion)).collect())?;
        self.wait_committed(commit).await?;
        Ok(completed)
    }

    async fn transfer_domains(
        &self,
        from: WorkerId,
        transfers: Vec<DomainTransfer>,
    ) -> Result<Vec<TransferResult>, BackendError> {
        if self.workers_share_throttle {
            return Ok(vec![TransferResult::Declined; transfers.len()]);
        }
        let ((results, work), commit) = self.atomically(|state| {
            let results: Result<Vec<TransferResult>, BackendError> =
                transfers.iter().map(|transfer| state.transfer_domain(from, transfer)).collect();
            Ok((results?, state.work()))
        })?;
        self.wake(work);
        self.wait_committed(commit).await?;
        Ok(results)
    }

    async fn claim_host(&self, worker: WorkerId, host: &str) -> Result<HostClaim, BackendError> {
        if self.workers_share_throttle {
            return Ok(HostClaim::Granted { cooldown: Duration::ZERO });
        }
        Ok(self.state().claim_host(worker, host))
    }

    async fn set_host_delay(&self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        let ((), commit) = self.atomically(|state| state.set_host_delay(host, host_delay))?;
        self.wait_committed(commit).await
    }

    async fn pin_address_kinds(&self, host: &str, kinds: AddressKinds) -> Result<AddressKinds, BackendError> {
        let (pinned, commit) = self.atomically(|state| state.pin_address_kinds(host, kinds))?;
        self.wait_committed(commit).await?;
        Ok(pinned)
    }

    fn drain_pending(&self, each: &mut dyn FnMut(UrlRecord<'static>)) -> Result<(), BackendError> {
        self.state().drain_pending(each)
    }

    async fn record_outputs_written(
        &self,
        written: OutputPosition,
        lengths: Vec<u64>,
    ) -> Result<(), BackendError> {
        let commit = {
            let mut state = self.state();
            state.storage.record_outputs_written(written, lengths);
            state.storage.commit()
        };
        self.wait_committed(commit).await
    }

    fn hash_key(&self) -> HashKey {
        self.key
    }

    fn request_counter(&self) -> RequestCounter {
        self.state().counters.requests.clone()
    }

    async fn store_content(
        &self,
        url: &str,
        fingerprint: &Fingerprint,
        body: &[u8],
        is_seed: bool,
    ) -> Result<ContentMatch, BackendError> {
        let stored_body = (self.keep_content && fingerprint.stores_body()).then(|| self.to_store(body));
        let body_bytes = stored_body.as_ref().map(|body| body.bytes().len() as u64);
        let body = PageBody { url, content_type: fingerprint.content_type, body };
        let comparison = ExactComparison::new(self.key, &self.strip_query, body);
        let similarity = self.similarity_to_version(&comparison, url, fingerprint)?;
        let page = NewPage { url, fingerprint, body_bytes, body: stored_body.as_ref(), is_seed, similarity };
        let mut verdicts = Verdicts::default();
        loop {
            // The lock is released before the comparison, and the next look-up finds what was stored meanwhile.
            let result = self.state().store_content(&page, &verdicts)?;
            match result {
                StoreResult::Done(content_match) => {
                    if content_match == ContentMatch::New {
                        self.stored_bytes.fetch_add(body_bytes.unwrap_or(0), Ordering::Relaxed);
                        self.shingles.update(self.key.url_id(url), comparison.into_shingles());
                    }
                    return Ok(content_match);
                }
                StoreResult::Undecided(pages) => self.compare(&comparison, pages, &mut verdicts)?,
            }
        }
    }

    async fn load_content(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let body = self.state().load_content(url)?;
        body.map(decompress).transpose().map_err(BackendError::State)
    }

    async fn pending(&self) -> Result<u64, BackendError> {
        Ok(self.state().unfinished())
    }

    async fn exhausted_budget(&self) -> Result<Option<Budget>, BackendError> {
        Ok(self.state().budgets.exhausted())
    }

    fn set_limits(&self, limits: &LiveLimits) {
        let work = self.with_budgets(|state| {
            state.set_limits(limits);
            state.work()
        });
        self.wake(work);
    }

    async fn remove_worker(&self, worker: WorkerId) -> Result<(), BackendError> {
        let work = self.with_budgets(|state| {
            state.remove_worker(worker);
            state.work()
        });
        self.wake(work);
        Ok(())
    }

    async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        Ok(self.state().snapshot())
    }
}

/// A request that waits for the budget. If it gives up, it must not hold up those behind it.
struct BudgetRequest<'a, S: Storage> {
    backend: &'a LocalBackend<S>,
    lease: &'a Lease,
    is_done: bool,
}

impl<S: Storage> Drop for BudgetRequest<'_, S> {
    fn drop(&mut self) {
        if !self.is_done {
            self.backend.with_budgets(|state| state.budgets.stop_growing(self.lease));
        }
    }
}

/// A random number that cannot be guessed, from the operating system.
pub(crate) fn secret() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(0u8));
    half() << 64 | half()
}
