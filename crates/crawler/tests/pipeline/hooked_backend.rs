//! A backend that calls a hook before each operation, which can delay it or let it fail.

use std::future::Future;
use std::time::Duration;

use crawler::internal::backend::{
    AdmitCounts, Backend, BackendError, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch,
    DiscoveredUrl, HostClaim, HostDelay, Lease, Snapshot, TaskId, UnprioritizedUrl, WorkerId,
};
use crawler::internal::domain::Domain;
use crawler::internal::fetch::http::AddressKinds;
use crawler::internal::modules::output::OutputPosition;
use crawler::internal::prioritizer::Priority;
use crawler::internal::similarity::{Fingerprint, HashKey};
use crawler::internal::stats::{BodyBytes, RequestCounter};

/// Runs before each operation of a backend.
pub trait Hook: Send + Sync + 'static {
    /// Called with the operation's name.
    fn before(&self, operation: &'static str) -> impl Future<Output = Result<(), BackendError>> + Send;
}

/// A backend with a hook.
pub struct HookedBackend<B, H> {
    pub inner: B,
    pub hook: H,
}

/// Operations that only call the hook and the inner backend.
macro_rules! operations {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(async fn $name(&self, $($argument: $kind),*) -> Result<$result, BackendError> {
            self.hook.before(stringify!($name)).await?;
            self.inner.$name($($argument),*).await
        })*
    };
}

impl<B: Backend, H: Hook> Backend for HookedBackend<B, H> {
    operations! {
        admit(urls: Vec<DiscoveredUrl>) -> AdmitCounts;
        take_unprioritized(max: usize, wait: Duration) -> Vec<UnprioritizedUrl>;
        enqueue_prioritized(prioritized: Vec<(TaskId, Priority)>) -> ();
        reprioritize(domains: Vec<Domain>) -> usize;
        wait_until_finished(wait: Duration) -> ();
        lease(worker: WorkerId, max: usize, wait: Duration) -> Vec<Lease>;
        claim_host(worker: WorkerId, host: &str) -> HostClaim;
        load_robots(url: &str) -> Option<Vec<u8>>;
        store_robots(url: &str, file: &[u8]) -> ();
        reserve(lease: &Lease, read: BodyBytes) -> BudgetDecision;
        wait_for_budget(lease: &Lease) -> ();
        release(lease: &Lease, read: BodyBytes) -> ();
        complete(completions: Vec<Completion>) -> Vec<CompleteResult>;
        set_host_delay(host: &str, host_delay: HostDelay) -> ();
        pin_address_kinds(host: &str, kinds: AddressKinds) -> AddressKinds;
        record_outputs_written(written: OutputPosition, lengths: Vec<u64>) -> ();
        store_content(url: &str, fingerprint: &Fingerprint, body: &[u8], is_seed: bool) -> ContentMatch;
        load_content(url: &str) -> Option<Vec<u8>>;
        pending() -> u64;
        exhausted_budget() -> Option<Budget>;
        remove_worker(worker: WorkerId) -> ();
        snapshot() -> Snapshot;
    }

    fn hash_key(&self) -> HashKey {
        self.inner.hash_key()
    }

    fn request_counter(&self) -> RequestCounter {
        self.inner.request_counter()
    }
}
