//! The queues and storages of a crawl in this process, behind one lock: in memory, or over another storage.

mod budgets;
mod compressed_queue;
mod content_index;
pub(crate) mod counters;
mod domain_table;
mod host_cooldowns;
mod memory_storage;
mod seen_urls;
mod segment_store;
pub(crate) mod state;
pub(crate) mod storage;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use self::content_index::compress;
pub(crate) use self::content_index::decompress;
use self::memory_storage::MemoryStorage;
use self::state::{FrontierWaits, LocalState};
use self::storage::{Clock, Commit, Storage};
use super::{
    AdmitCounts, Backend, BackendError, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch,
    DiscoveredUrl, HostDelay, Lease, Snapshot, TaskId, UnprioritizedUrl, WorkerId,
};
use crate::prioritizer::{Priority, PriorityQueues};
use crate::similarity::{Fingerprint, HashKey, Threshold};
use crate::stats::RequestCounter;

/// What a crawl's resources are told.
#[derive(Debug, Clone)]
pub struct BackendConfig {
    /// The most URLs the URL queue, each priority queue and each worker's queue hold.
    pub queue_size: usize,
    /// The priority queues.
    pub priority_queues: PriorityQueues,
    /// How many workers there are.
    pub workers: u16,
    /// How long link storage remembers a URL.
    pub ttl: Duration,
    /// How long a domain belongs to its worker after its last use.
    pub domain_ttl: Duration,
    /// Whether depths must be exact, because there is a limit to them.
    pub keep_depths: bool,
    /// How alike pages must be to count as one; `None` lets every page count.
    pub similarity: Option<Threshold>,
    /// Whether pages are stored, or only what recognises them.
    pub keep_content: bool,
    /// The most pages kept.
    pub max_pages: u64,
    /// The most body bytes read.
    pub max_bytes: u64,
    /// The most body bytes one request may read.
    pub max_page_bytes: u64,
    /// The most pages kept of one host.
    pub max_pages_per_host: u64,
}

/// A crawl's resources in this process.
#[expect(private_bounds, reason = "what a storage has to be able to do is our own affair")]
pub struct LocalBackend<S: Storage = MemoryStorage> {
    pub(crate) shared: Arc<SharedState<S>>,
    key: HashKey,
    keep_content: bool,
    /// Something may be ready for the prioritizer: a URL admitted, or room in the priority queues.
    prioritizer: Notify,
    /// Something may be ready for the router: a URL filed, or room in a worker's queue; or all is done.
    router: Notify,
    /// Something is ready for each worker.
    workers: Vec<Notify>,
}

/// What the moves share with whoever keeps them safe.
pub(crate) struct SharedState<S: Storage> {
    state: Mutex<LocalState<S>>,
    /// There may be something to commit.
    pub(crate) uncommitted: Condvar,
}

impl<S: Storage> SharedState<S> {
    pub(crate) fn state(&self) -> MutexGuard<'_, LocalState<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a move panicked half-way: what it left must not outlive the process.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.is_poisoned()
    }
}

impl LocalBackend {
    /// Empty resources in memory.
    pub fn new(settings: BackendConfig) -> LocalBackend {
        let key = HashKey::new(secret());
        let storage = MemoryStorage::new(&settings, key);
        LocalBackend::over(LocalState::new(settings, Clock::resumed(Duration::ZERO), storage), key)
    }
}

#[expect(private_bounds, reason = "as above")]
impl<S: Storage> LocalBackend<S> {
    /// Resources over a storage.
    pub(crate) fn over(state: LocalState<S>, key: HashKey) -> LocalBackend<S> {
        LocalBackend {
            key,
            keep_content: state.settings.keep_content,
            prioritizer: Notify::new(),
            router: Notify::new(),
            workers: (0..state.settings.workers).map(|_| Notify::new()).collect(),
            shared: Arc::new(SharedState { state: Mutex::new(state), uncommitted: Condvar::new() }),
        }
    }

    fn state(&self) -> MutexGuard<'_, LocalState<S>> {
        self.shared.state()
    }

    /// Makes a move that must be whole: if it cannot be, nothing that it began becomes safe.
    fn whole<T>(
        &self,
        make: impl FnOnce(&mut LocalState<S>) -> Result<T, BackendError>,
    ) -> Result<(T, Commit), BackendError> {
        let mut state = self.state();
        match make(&mut state) {
            Ok(made) => Ok((made, state.storage.commit())),
            Err(trouble) => {
                state.storage.fail(&trouble);
                Err(trouble)
            }
        }
    }

    fn call(&self, workers: impl IntoIterator<Item = WorkerId>) {
        for WorkerId(worker) in workers {
            self.workers[usize::from(worker)].notify_one();
        }
    }

    /// Calls those of the frontier who have something to do: waking a thread for nothing costs as much as a request.
    fn wake(&self, FrontierWaits { prioritizer, router }: FrontierWaits) {
        if prioritizer {
            self.prioritizer.notify_one();
        }
        if router {
            self.router.notify_one();
        }
    }

    /// Waits until a move that was made is safe.
    async fn safe(&self, commit: Commit) -> Result<(), BackendError> {
        self.shared.uncommitted.notify_one();
        commit.wait().await
    }
}

impl<S: Storage> Backend for LocalBackend<S> {
    async fn admit(&self, found: Vec<DiscoveredUrl>) -> Result<AdmitCounts, BackendError> {
        let (admitted, commit) = self.whole(|state| state.admit(found, None))?;
        self.prioritizer.notify_one();
        self.safe(commit).await?;
        Ok(admitted)
    }

    async fn take_unprioritized(
        &self,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        let incoming = self.state().take_unprioritized(max)?;
        if !incoming.is_empty() || wait.is_zero() {
            return Ok(incoming);
        }
        // Whoever was called and found nothing is called again by the next change.
        let _ = timeout(wait, self.prioritizer.notified()).await;
        self.state().take_unprioritized(max)
    }

    async fn enqueue_prioritized(&self, filed: Vec<(TaskId, Priority)>) -> Result<(), BackendError> {
        self.state().enqueue_prioritized(filed);
        self.router.notify_one();
        Ok(())
    }

    async fn route(&self, draws: Vec<Priority>, wait: Duration) -> Result<usize, BackendError> {
        let mut routed = self.state().route(&draws);
        if routed.moved == 0 && !wait.is_zero() {
            let _ = timeout(wait, self.router.notified()).await;
            routed = self.state().route(&draws);
        }
        if routed.moved > 0 {
            self.prioritizer.notify_one();
        }
        self.call(routed.to);
        Ok(routed.moved)
    }

    async fn lease(&self, worker: WorkerId, max: usize, wait: Duration) -> Result<Vec<Lease>, BackendError> {
        let mut leases = self.state().lease(worker, max)?;
        if leases.is_empty() && !wait.is_zero() {
            let _ = timeout(wait, self.workers[usize::from(worker.0)].notified()).await;
            leases = self.state().lease(worker, max)?;
        }
        if !leases.is_empty() {
            let waiting = self.state().frontier_waits();
            self.wake(waiting);
        }
        Ok(leases)
    }

    async fn reserve(&self, lease: &Lease, read: u64) -> Result<BudgetDecision, BackendError> {
        Ok(self.state().reserve(lease, read))
    }

    async fn release(&self, lease: &Lease, read: u64) -> Result<(), BackendError> {
        self.state().release(lease, read);
        Ok(())
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<CompleteResult>, BackendError> {
        let ((completed, called, waiting), commit) = self.whole(|state| {
            let completed: Result<Vec<CompleteResult>, BackendError> =
                completions.into_iter().map(|completion| state.complete(completion)).collect();
            Ok((completed?, std::mem::take(&mut state.called), state.frontier_waits()))
        })?;
        self.wake(waiting);
        self.call(called);
        self.safe(commit).await?;
        Ok(completed)
    }

    async fn set_host_delay(&self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        let ((), commit) = self.whole(|state| state.set_host_delay(host, host_delay))?;
        self.safe(commit).await
    }

    async fn record_outputs_written(&self, last_id: u64, lengths: Vec<u64>) -> Result<(), BackendError> {
        let commit = {
            let mut state = self.state();
            state.storage.record_outputs_written(last_id, lengths);
            state.storage.commit()
        };
        self.safe(commit).await
    }

    fn hash_key(&self) -> HashKey {
        self.key
    }

    fn request_counter(&self) -> RequestCounter {
        self.state().counts.requests.clone()
    }

    async fn store_content(
        &self,
        url: &str,
        fingerprint: &Fingerprint,
        body: &[u8],
    ) -> Result<ContentMatch, BackendError> {
        let stored = if self.keep_content { Some(compress(body)) } else { None };
        self.state().store_content(url, fingerprint, stored)
    }

    async fn load_content(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let stored = self.state().load_content(url)?;
        stored.map(decompress).transpose()
    }

    async fn outstanding(&self) -> Result<u64, BackendError> {
        let state = self.state();
        Ok(state.counts.admitted - state.counts.completed)
    }

    async fn exhausted_budget(&self) -> Result<Option<Budget>, BackendError> {
        Ok(self.state().budgets.exhausted())
    }

    async fn remove_worker(&self, worker: WorkerId) -> Result<(), BackendError> {
        self.state().remove_worker(worker)?;
        self.router.notify_one();
        Ok(())
    }

    async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        Ok(self.state().snapshot())
    }
}

/// A secret nobody can guess, from the system's own source of them.
pub(crate) fn secret() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(0u8));
    half() << 64 | half()
}
