//! A distributed crawl in one process, as one backend: a frontier and the workers, which meet on Redis only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawler::internal::backend::local::BackendConfig;
use crawler::internal::backend::redis::{DistributedCrawl, FrontierProcess, RedisCrawl, RemoteBackend};
use crawler::internal::backend::{
    AdmitCounts, Backend, BackendError, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch,
    DiscoveredUrl, DomainTransfer, HostDelay, Lease, Snapshot, TaskId, TransferResult, UnprioritizedUrl,
    WorkerId,
};
use crawler::internal::fetch::http::AddressKinds;
use crawler::internal::modules::output::OutputPosition;
use crawler::internal::prioritizer::Priority;
use crawler::internal::similarity::{Fingerprint, HashKey};
use crawler::internal::stats::{BodyBytes, RequestCounter};
use testredis::Server;

pub struct DistributedBackend {
    server: Server,
    frontier: Arc<FrontierProcess>,
    workers: Vec<RemoteBackend>,
    /// Which worker has each lease.
    holders: Mutex<HashMap<(TaskId, u64), usize>>,
}

impl DistributedBackend {
    pub async fn start(server: Server, config: BackendConfig) -> DistributedBackend {
        let place = RedisCrawl::new(server.url().parse().unwrap(), "conformance");
        let control = DistributedCrawl::open(place, config.clone()).await.unwrap();
        let frontier = control.take_over().await.unwrap();
        let running = Arc::clone(&frontier);
        tokio::spawn(async move { running.run().await });
        let mut workers = Vec::new();
        for worker in 0..config.workers {
            let worker = control.join_as_worker(WorkerId(worker), 1);
            // The frontier knows the worker from its first message on.
            worker.lease(WorkerId(0), 0, Duration::ZERO).await.unwrap();
            workers.push(worker);
        }
        DistributedBackend { server, frontier, workers, holders: Mutex::default() }
    }

    /// Advances the clock of the frontier, and the TTLs on Redis.
    pub async fn advance(&self, time: Duration) {
        for key in self.server.query::<Vec<String>>("KEYS crawler:*:body:*") {
            let left: i64 = self.server.query(&format!("PTTL {key}"));
            self.server.query::<i64>(&format!("PEXPIRE {key} {}", left - time.as_millis() as i64));
        }
        let advance = async move {
            tokio::time::pause();
            tokio::time::advance(time).await;
            tokio::time::resume();
            Ok(())
        };
        self.frontier.run_on_its_thread(advance).await.unwrap();
    }

    fn holder(&self, lease: &Lease) -> &RemoteBackend {
        let holders = self.holders.lock().unwrap();
        &self.workers[holders.get(&(lease.task_id, lease.lease_id)).copied().unwrap_or(0)]
    }
}

impl Backend for DistributedBackend {
    async fn admit(&self, urls: Vec<DiscoveredUrl>) -> Result<AdmitCounts, BackendError> {
        self.workers[0].admit(urls).await
    }

    async fn take_unprioritized(
        &self,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        let backend = Arc::clone(self.frontier.backend());
        self.frontier.run_on_its_thread(async move { backend.take_unprioritized(max, wait).await }).await
    }

    async fn enqueue_prioritized(&self, prioritized: Vec<(TaskId, Priority)>) -> Result<(), BackendError> {
        let backend = Arc::clone(self.frontier.backend());
        self.frontier.run_on_its_thread(async move { backend.enqueue_prioritized(prioritized).await }).await
    }

    async fn lease(&self, worker: WorkerId, max: usize, wait: Duration) -> Result<Vec<Lease>, BackendError> {
        let index = usize::from(worker.0);
        let leases = self.workers[index].lease(worker, max, wait).await?;
        let mut holders = self.holders.lock().unwrap();
        holders.extend(leases.iter().map(|lease| ((lease.task_id, lease.lease_id), index)));
        Ok(leases)
    }

    async fn transfer_domains(
        &self,
        from: WorkerId,
        transfers: Vec<DomainTransfer>,
    ) -> Result<Vec<TransferResult>, BackendError> {
        self.workers[usize::from(from.0)].transfer_domains(from, transfers).await
    }

    async fn reserve(&self, lease: &Lease, read: BodyBytes) -> Result<BudgetDecision, BackendError> {
        self.holder(lease).reserve(lease, read).await
    }

    async fn wait_for_budget(&self, lease: &Lease) -> Result<(), BackendError> {
        self.holder(lease).wait_for_budget(lease).await
    }

    async fn release(&self, lease: &Lease, read: BodyBytes) -> Result<(), BackendError> {
        self.holder(lease).release(lease, read).await
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<CompleteResult>, BackendError> {
        let mut results = Vec::new();
        for completion in completions {
            let holder = self.holder(&completion.lease);
            results.extend(holder.complete(vec![completion]).await?);
        }
        Ok(results)
    }

    async fn set_host_delay(&self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        self.workers[0].set_host_delay(host, host_delay).await
    }

    async fn pin_address_kinds(&self, host: &str, kinds: AddressKinds) -> Result<AddressKinds, BackendError> {
        self.workers[0].pin_address_kinds(host, kinds).await
    }

    async fn record_outputs_written(&self, _: OutputPosition, _: Vec<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn hash_key(&self) -> HashKey {
        self.workers[0].hash_key()
    }

    fn request_counter(&self) -> RequestCounter {
        self.workers[0].request_counter()
    }

    async fn store_content(
        &self,
        url: &str,
        fingerprint: &Fingerprint,
        body: &[u8],
        is_seed: bool,
    ) -> Result<ContentMatch, BackendError> {
        self.workers[0].store_content(url, fingerprint, body, is_seed).await
    }

    async fn load_content(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        self.workers[0].load_content(url).await
    }

    async fn pending(&self) -> Result<u64, BackendError> {
        self.frontier.backend().pending().await
    }

    async fn exhausted_budget(&self) -> Result<Option<Budget>, BackendError> {
        self.frontier.backend().exhausted_budget().await
    }

    async fn remove_worker(&self, worker: WorkerId) -> Result<(), BackendError> {
        let frontier = Arc::clone(&self.frontier);
        self.frontier.run_on_its_thread(async move { frontier.remove_worker(worker) }).await
    }

    async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        let backend = Arc::clone(self.frontier.backend());
        self.frontier.run_on_its_thread(async move { backend.snapshot().await }).await
    }
}
