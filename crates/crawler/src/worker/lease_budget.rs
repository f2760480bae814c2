//! Reserves the bytes that one lease may read from the crawl's budgets, not before its request can be sent.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::backend::{Backend, BudgetDecision, HostClaim, HostDelay, Lease, WorkerId};
use crate::config::Oversize;
use crate::domain::Domain;
use crate::fetch::http::BodyPolicy;
use crate::fetch::polite_client::FetchBudget;
use crate::origin::throttle_key;
use crate::outcome::Outcome;
use crate::stats::BodyBytes;
use crate::stop::StopHandle;
use crate::worker::Worker;
use crate::worker::capacity::LeaseActivity;
use crate::worker::domain_claims::{DomainClaim, DomainClaims};

/// The budget of one lease.
pub(super) struct LeaseBudget<'a, R> {
    backend: &'a R,
    worker: WorkerId,
    lease: &'a Lease,
    stop: &'a StopHandle,
    /// Permits for URLs between their first request and their completion.
    in_flight: &'a Arc<Semaphore>,
    permit: Mutex<Option<InFlightPermit>>,
    /// The maximum size of a page, and what happens to a larger one.
    page_limit: (usize, Oversize),
    /// Bytes read since the last reservation.
    bytes_read: Mutex<BodyBytes>,
    activity: LeaseActivity,
    claims: &'a Arc<DomainClaims>,
    /// The domains that the URL's robots.txt redirects to.
    claimed: Mutex<Vec<DomainClaim>>,
    /// The worker that can fetch the URL instead of this one.
    other_worker: OnceLock<WorkerId>,
}

/// The permit of a URL that is being fetched or completed.
pub(super) type InFlightPermit = OwnedSemaphorePermit;

impl<'a, R: Backend> LeaseBudget<'a, R> {
    pub(super) fn new(worker: &'a Worker<R>, lease: &'a Lease, activity: LeaseActivity) -> Self {
        let context = &*worker.context;
        LeaseBudget {
            backend: &*context.backend,
            worker: worker.id,
            lease,
            stop: &context.stop,
            in_flight: &worker.in_flight,
            permit: Mutex::default(),
            page_limit: (context.max_page_bytes, context.oversize),
            bytes_read: Mutex::default(),
            activity,
            claims: &worker.claims,
            claimed: Mutex::default(),
            other_worker: OnceLock::new(),
        }
    }

    /// The domain of the URL.
    fn domain(&self) -> Domain {
        Domain::from_throttle_key(throttle_key(&self.lease.url))
    }

    /// Bytes read since the last reservation.
    pub(super) fn bytes_read(&self) -> BodyBytes {
        *self.counter()
    }

    fn counter(&self) -> MutexGuard<'_, BodyBytes> {
        self.bytes_read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the bytes read since the last reservation, to report them.
    fn take_bytes_read(&self) -> BodyBytes {
        std::mem::take(&mut *self.counter())
    }

    /// The worker that can fetch the URL instead of this one, because it owns the host that the URL's robots.txt
    /// redirects to.
    pub(super) fn other_worker(&self) -> Option<WorkerId> {
        self.other_worker.get().copied()
    }

    /// The permit, if a request was sent.
    pub(super) fn into_permit(self) -> Option<InFlightPermit> {
        self.permit.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(&self) -> MutexGuard<'_, Option<InFlightPermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Backend> FetchBudget for LeaseBudget<'_, R> {
    async fn before_wait(&self) {
        self.activity.set_active(false);
        // This is the wait before a retry. A host with a cooldown of minutes must not hold a permit and a
        // part of the budget that other hosts could use.
        let permit = self.permit().take();
        if permit.is_some() {
            // If the backend fails, its next operation reports the error.
            let _ = self.backend.release(self.lease, self.take_bytes_read()).await;
        }
    }

    fn after_wait(&self) {
        self.activity.set_active(true);
    }

    fn set_silent(&self, is_silent: bool) {
        self.activity.set_active(!is_silent);
        if is_silent {
            // Another URL can be fetched meanwhile.
            drop(self.permit().take());
        }
    }

    fn retries_later(&self) -> bool {
        self.backend.schedules_hosts()
    }

    async fn body_policy(&self) -> Result<Option<BodyPolicy>, Outcome> {
        // A repeated call has a permit already. Waiting for a second one could block all requests.
        let held = self.permit().take();
        let permit = match held {
            Some(permit) => Some(permit),
            None => Arc::clone(self.in_flight).acquire_owned().await.ok(),
        };
        match self.backend.reserve(self.lease, self.take_bytes_read()).await {
            Ok(BudgetDecision::Granted(bytes)) => {
                *self.permit() = permit;
                let limit = usize::try_from(bytes).unwrap_or(usize::MAX);
                let (page_limit, oversize) = self.page_limit;
                // A page is not truncated because the byte budget ends within it.
                let oversize = if limit < page_limit { Oversize::Drop } else { oversize };
                Ok(Some(BodyPolicy::Page { limit, oversize }))
            }
            Ok(BudgetDecision::RetryLater) => Ok(None),
            Ok(BudgetDecision::HostExhausted) => Err(Outcome::HostPageLimit),
            Ok(BudgetDecision::Exhausted(_)) => {
                self.stop.stop();
                Err(Outcome::NotReached)
            }
            // Another worker has the URL now, or the backend failed; its next operation reports the error.
            Ok(BudgetDecision::LeaseLost) | Err(_) => Err(Outcome::NotReached),
        }
    }

    fn record_bytes(&self, bytes: BodyBytes) {
        *self.counter() += bytes;
    }

    fn stopped_before_retry(&self, _: Outcome) -> Outcome {
        // The URL stays outstanding. A resumed crawl tries it again.
        Outcome::NotReached
    }

    async fn host_slowed(&self, host: &str, host_delay: HostDelay) {
        // If the backend fails, its next operation reports the error.
        let _ = self.backend.set_host_delay(host, host_delay).await;
    }

    async fn is_exhausted(&self) -> bool {
        // If the backend fails, its next operation reports the error.
        let is_exhausted = matches!(self.backend.exhausted_budget().await, Ok(Some(_)));
        if is_exhausted {
            self.stop.stop();
        }
        is_exhausted
    }

    async fn claim_host(&self, host: &str) -> Option<Duration> {
        let claimed = match self.claims.claim(Domain::from_throttle_key(host)) {
            Ok(claim) => {
                self.backend.claim_host(self.worker, host).await.map(|claimed| (claimed, Some(claim)))
            }
            Err(new_owner) => Ok((HostClaim::OwnedBy(new_owner), None)),
        };
        match claimed {
            Ok((HostClaim::Granted { cooldown }, claim)) => {
                self.claims.tie(self.domain());
                self.claimed.lock().unwrap_or_else(PoisonError::into_inner).extend(claim);
                Some(cooldown)
            }
            Ok((HostClaim::OwnedBy(other), _)) => {
                self.other_worker.get_or_init(|| other);
                None
            }
            // If the backend fails, its next operation reports the error.
            Ok((HostClaim::LeaseLost, _)) | Err(_) => None,
        }
    }

    async fn load_robots(&self, url: &str) -> Option<Vec<u8>> {
        // If the backend fails, its next operation reports the error.
        self.backend.load_robots(url).await.ok().flatten()
    }

    async fn store_robots(&self, url: &str, file: &[u8]) {
        self.claims.untie(&self.domain());
        // If the backend fails, its next operation reports the error.
        let _ = self.backend.store_robots(url, file).await;
    }
}
