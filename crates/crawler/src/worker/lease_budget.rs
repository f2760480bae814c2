//! Reserves what one lease may read from the crawl's budgets: for each request when it can be sent, and more for its
//! response while it is read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use url::Url;

use crate::backend::{Backend, BackendError, BudgetDecision, HostClaim, HostDelay, Lease, WorkerId};
use crate::domain::Domain;
use crate::exchange::{DroppedExchanges, Exchange};
use crate::fetch::http::{BodyGrant, BodyPolicy, ByteBudget, GrantFuture, Validators};
use crate::fetch::polite_client::FetchBudget;
use crate::origin::throttle_key;
use crate::outcome::Outcome;
use crate::sitemap;
use crate::sitemap::reader::SitemapReader;
use crate::stats::BodyBytes;
use crate::task_kind::{TaskKind, shown_url};
use crate::url_record::{LastRequest, RequestRecord};
use crate::worker::capacity::LeaseActivity;
use crate::worker::domain_claims::DomainClaim;
use crate::worker::exchanges::LeaseExchanges;
use crate::worker::versions::is_former_duplicate;
use crate::worker::{Permits, Worker, WorkerContext, record_failure};

/// How long a sitemap that waits for its host does not notice that the host's delay was changed.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// How much of a sitemap is received: more than its reader accepts, which then says that it is too large.
const MAX_SITEMAP_BYTES: usize = 2 * sitemap::reader::MAX_BYTES;

/// The budget of one lease.
pub(super) struct LeaseBudget<'a, R> {
    worker: &'a Worker<R>,
    lease: &'a Lease,
    permit: Mutex<Option<InFlightPermit>>,
    /// A request was sent, and its reservation was not returned.
    has_reserved: AtomicBool,
    /// Bytes read since the last reservation.
    bytes_read: Mutex<BodyBytes>,
    /// The last request.
    request: LastRequest,
    /// All requests whose responses have begun, if they are archived.
    exchanges: LeaseExchanges,
    activity: LeaseActivity,
    /// The domains that the URL's robots.txt redirects to.
    claimed: Mutex<Vec<DomainClaim>>,
    /// The worker that can fetch the URL instead of this one.
    other_worker: OnceLock<WorkerId>,
    /// The URL is not reached because its host gets no request for a while.
    is_postponed: AtomicBool,
    /// Reads the sitemap, if the URL is one.
    sitemap: Mutex<Option<SitemapReader>>,
    sitemap_permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// The permit of a body that is larger than a page, and the bytes granted so far.
    large_file: Mutex<Option<OwnedSemaphorePermit>>,
    granted: AtomicU64,
    /// A HEAD request did not show whether the URL can be fetched. A request that is repeated is a GET request.
    has_head_failed: AtomicBool,
}

/// The permit of a URL that is being fetched or completed.
pub(super) type InFlightPermit = OwnedSemaphorePermit;

impl<'a, R: Backend> LeaseBudget<'a, R> {
    pub(super) fn new(worker: &'a Worker<R>, lease: &'a Lease, activity: LeaseActivity) -> Self {
        LeaseBudget {
            worker,
            lease,
            permit: Mutex::default(),
            has_reserved: AtomicBool::new(false),
            bytes_read: Mutex::default(),
            request: LastRequest::default(),
            exchanges: LeaseExchanges::default(),
            activity,
            claimed: Mutex::default(),
            other_worker: OnceLock::new(),
            is_postponed: AtomicBool::new(false),
            sitemap: Mutex::default(),
            sitemap_permit: Mutex::default(),
            large_file: Mutex::default(),
            granted: AtomicU64::new(0),
            has_head_failed: AtomicBool::new(lease.attempts > 0),
        }
    }

    fn backend(&self) -> &'a R {
        &self.worker.context.backend
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

    /// The last request for the URL.
    pub(super) fn take_request(&self) -> RequestRecord {
        self.request.take()
    }

    /// The requests and responses that are archived.
    pub(super) fn take_exchanges(&self) -> Vec<Exchange> {
        self.exchanges.take()
    }

    /// The worker that can fetch the URL instead of this one, because it owns the host that the URL's robots.txt
    /// redirects to.
    pub(super) fn other_worker(&self) -> Option<WorkerId> {
        self.other_worker.get().copied()
    }

    /// Whether the lease ends so that the URL can wait for its host in the frontier, which holds up no other host.
    pub(super) fn is_postponed(&self) -> bool {
        self.is_postponed.load(Ordering::Relaxed)
    }

    /// The permits of a fetched URL, if a request was sent.
    pub(super) fn into_permits(self) -> Permits {
        let [in_flight, sitemap, large_file] = [self.permit, self.sitemap_permit, self.large_file]
            .map(|permit| permit.into_inner().unwrap_or_else(PoisonError::into_inner));
        Permits { _in_flight: in_flight, _sitemap: sitemap, _large_file: large_file, ..Permits::default() }
    }

    /// The reader of the sitemap at this URL, with what was received of it.
    pub(super) fn take_sitemap(&self, url: &Url) -> SitemapReader {
        self.sitemap().take().unwrap_or_else(|| SitemapReader::new(url))
    }

    fn sitemap(&self) -> MutexGuard<'_, Option<SitemapReader>> {
        self.sitemap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sitemap_permit(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.sitemap_permit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(&self) -> MutexGuard<'_, Option<InFlightPermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reservation and the permit, if a request was sent.
    pub(super) async fn release(&self) {
        drop(self.permit().take());
        drop(self.sitemap_permit().take());
        drop(self.large_file.lock().unwrap_or_else(PoisonError::into_inner).take());
        if self.has_reserved.swap(false, Ordering::Relaxed) {
            let _ = self.checked(self.backend().release(self.lease, self.take_bytes_read()).await);
        }
    }

    /// Counts the bytes `read` and reserves. `None` if other requests have reserved what is left, and may return it.
    async fn reserve(&self, read: BodyBytes) -> Result<Option<u64>, Outcome> {
        match self.checked(self.backend().reserve(self.lease, read).await)? {
            BudgetDecision::Granted(bytes) => Ok(Some(bytes)),
            BudgetDecision::RetryLater => Ok(None),
            BudgetDecision::HostExhausted => Err(Outcome::HostPageLimit),
            BudgetDecision::SiteExhausted => Err(Outcome::SitePageLimit),
            BudgetDecision::Exhausted(_) => {
                self.worker.context.stop.stop();
                Err(Outcome::NotReached)
            }
            // Another worker has the URL now.
            BudgetDecision::LeaseLost => Err(Outcome::NotReached),
        }
    }

    async fn reserve_more(&self, mut read: BodyBytes) -> Result<u64, Outcome> {
        if self.granted.load(Ordering::Relaxed) >= self.worker.context.max_page_bytes as u64 {
            read = self.admit_large_file(read).await?;
        }
        loop {
            if let Some(bytes) = self.reserve(std::mem::take(&mut read)).await? {
                self.granted.fetch_add(bytes, Ordering::Relaxed);
                return Ok(bytes);
            }
            self.wait_for_grant().await;
        }
    }

    /// Waits until a body that is larger than a page may be in memory. Meanwhile, what the lease has reserved is returned, so that
    /// the bodies that it waits for can be read. Returns the bytes that are not counted yet.
    async fn admit_large_file(&self, read: BodyBytes) -> Result<BodyBytes, Outcome> {
        let lock = || self.large_file.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lease.kind() == TaskKind::Sitemap || lock().is_some() {
            return Ok(read);
        }
        let permits = Arc::clone(&self.worker.large_files);
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            *lock() = Some(permit);
            return Ok(read);
        }
        self.checked(self.backend().release(self.lease, read).await)?;
        // The semaphore is never closed.
        *lock() = permits.acquire_owned().await.ok();
        Ok(BodyBytes::default())
    }

    /// Records an error of the backend. The URL is not reached then.
    fn checked<T>(&self, result: Result<T, BackendError>) -> Result<T, Outcome> {
        result.map_err(|error| {
            record_failure(&self.worker.failure, error, &self.worker.context.stop);
            Outcome::NotReached
        })
    }
}

impl<R: Backend> ByteBudget for LeaseBudget<'_, R> {
    fn grant_more(&self, read: BodyBytes) -> GrantFuture<'_> {
        Box::pin(self.reserve_more(read))
    }

    fn response_started(&self, status: u16, content_type: Option<&str>) {
        let content_type = content_type.filter(|_| self.worker.context.pipeline.wants_urls());
        self.request.response_started(status, content_type);
    }

    fn validators(&self) -> Option<&Validators> {
        let previous = self.lease.previous.as_deref().filter(|_| self.lease.kind() != TaskKind::Probe)?;
        // A 304 of what no archive has would be a hole in the archive.
        let may_be_unchanged =
            self.worker.is_archived(&previous.record) && !is_former_duplicate(self.lease, previous);
        Some(&previous.record.validators).filter(|validators| may_be_unchanged && !validators.is_empty())
    }

    fn receive(&self, bytes: &[u8]) -> bool {
        self.sitemap().as_mut().is_some_and(|sitemap| sitemap.push(bytes))
    }

    fn received_bytes(&self) -> usize {
        self.sitemap().as_ref().map_or(0, SitemapReader::bytes)
    }
}

impl<R: Backend> FetchBudget for LeaseBudget<'_, R> {
    async fn before_permit(&self) {
        // This may be the wait before a retry. A host with a cooldown of minutes must not hold a permit and a
        // part of the budget that other hosts could use.
        self.release().await;
        let dropped = self.exchanges.wait(&self.worker.waiting_exchanges);
        if dropped != DroppedExchanges::default() {
            self.worker.context.pipeline.exchanges_dropped(shown_url(&self.lease.url), dropped);
        }
    }

    fn before_wait(&self) {
        self.activity.set_active(false);
    }

    async fn wait_for_turn(&self) {
        if self.lease.kind() != TaskKind::Sitemap {
            return;
        }
        // A host with a cooldown of minutes must not hold up the sitemaps of others.
        let (throttle, host) = (self.worker.fetcher.throttle(), throttle_key(&self.lease.url));
        while let Some(HostDelay { cooldown, .. }) = throttle.host_delay(host)
            && !cooldown.is_zero()
        {
            tokio::time::sleep(cooldown.min(MAX_SLEEP)).await;
        }
        // The semaphore is never closed.
        let permit = Arc::clone(&self.worker.sitemaps).acquire_owned().await.ok();
        *self.sitemap_permit() = permit;
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
        true
    }

    fn postpone(&self) -> bool {
        self.is_postponed.store(true, Ordering::Relaxed);
        true
    }

    fn head_failed(&self) {
        self.has_head_failed.store(true, Ordering::Relaxed);
    }

    async fn grant(&self) -> Result<Option<BodyGrant>, Outcome> {
        // It may have been blocked since it was leased.
        let blocked = self.worker.scope().check_blocked(shown_url(&self.lease.url));
        blocked.map_err(|why| Outcome::Rejected { why })?;
        // A repeated call has a permit already. Waiting for a second one could block all requests.
        let held = self.permit().take();
        let permit = match held {
            Some(permit) => Some(permit),
            None => Arc::clone(&self.worker.in_flight).acquire_owned().await.ok(),
        };
        let Some(bytes) = self.reserve(self.take_bytes_read()).await? else { return Ok(None) };
        *self.permit() = permit;
        self.has_reserved.store(true, Ordering::Relaxed);
        if self.lease.kind() == TaskKind::Sitemap {
            // A repeated request reads the sitemap from its start.
            *self.sitemap() = Url::parse(shown_url(&self.lease.url)).ok().map(|url| SitemapReader::new(&url));
            return Ok(Some(BodyGrant { policy: BodyPolicy::Stream(MAX_SITEMAP_BYTES), bytes }));
        }
        self.granted.store(bytes, Ordering::Relaxed);
        let WorkerContext { max_page_bytes: limit, oversize, .. } = *self.worker.context;
        let file_limit = self.worker.fetcher.config().requests.max_file_bytes;
        let policy = match self.lease.kind() {
            TaskKind::Requisite => BodyPolicy::File(file_limit),
            TaskKind::Probe if self.has_head_failed.load(Ordering::Relaxed) => BodyPolicy::Discard,
            TaskKind::Probe => BodyPolicy::Head,
            _ => {
                let archives_files = self.worker.context.pipeline.keeps_requisites();
                BodyPolicy::Page { limit, oversize, file_limit, archives_files }
            }
        };
        Ok(Some(BodyGrant { policy, bytes }))
    }

    async fn wait_for_grant(&self) {
        let _ = self.checked(self.backend().wait_for_budget(self.lease).await);
    }

    fn record_bytes(&self, bytes: BodyBytes) {
        *self.counter() += bytes;
    }

    fn request_started(&self) {
        self.request.started();
    }

    fn request_done(&self, bytes: BodyBytes) {
        self.request.done(bytes);
    }

    fn archives(&self) -> bool {
        self.worker.context.pipeline.wants_exchanges()
    }

    fn archive(&self, mut exchange: Exchange) {
        if self.validators().is_some() && exchange.url == shown_url(&self.lease.url) {
            exchange.previous_visit =
                self.lease.previous.as_deref().and_then(|previous| previous.record.fetched());
        }
        self.exchanges.add(exchange);
    }

    fn stopped_before_retry(&self, _: Outcome) -> Outcome {
        // The URL stays pending. A resumed crawl tries it again.
        Outcome::NotReached
    }

    async fn host_slowed(&self, host: &str, host_delay: HostDelay) {
        let _ = self.checked(self.backend().set_host_delay(host, host_delay).await);
    }

    async fn is_exhausted(&self) -> bool {
        match self.checked(self.backend().exhausted_budget().await) {
            Ok(None) => false,
            Ok(Some(_)) => {
                self.worker.context.stop.stop();
                true
            }
            Err(_) => true,
        }
    }

    async fn claim_host(&self, host: &str) -> Option<Duration> {
        let (claimed, claim) = match self.worker.claims.claim(Domain::from_throttle_key(host)) {
            Ok(claim) => {
                (self.checked(self.backend().claim_host(self.worker.id, host).await).ok()?, Some(claim))
            }
            Err(new_owner) => (HostClaim::OwnedBy(new_owner), None),
        };
        match claimed {
            HostClaim::Granted { cooldown } => {
                // Only this worker can fetch the robots.txt of the URL's domain, so it keeps the domain.
                let own_host = throttle_key(&self.lease.url);
                self.checked(self.backend().claim_host(self.worker.id, own_host).await).ok()?;
                self.claimed.lock().unwrap_or_else(PoisonError::into_inner).extend(claim);
                Some(cooldown)
            }
            HostClaim::OwnedBy(other) => {
                self.other_worker.get_or_init(|| other);
                None
            }
            HostClaim::LeaseLost => None,
        }
    }

    async fn load_robots(&self, url: &str) -> Option<Vec<u8>> {
        self.checked(self.backend().load_robots(url).await).ok().flatten()
    }

    async fn store_robots(&self, url: &str, file: &[u8]) {
        let _ = self.checked(self.backend().store_robots(url, file).await);
    }
}
