//! Sends one polite request: acquires the host's throttle permit, sends the request, releases the permit.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use url::Url;

use super::http::{BodyGrant, BodyPolicy, ByteBudget, ByteCounter, Download, Downloader, PinKinds};
use super::throttle::HostThrottle;
use crate::backend::HostDelay;
use crate::config::MAX_RETRY_AFTER;
use crate::origin::throttle_key;
use crate::outcome::Outcome;
use crate::stats::{BodyBytes, RequestCounter};
use crate::stop::StopHandle;
use crate::worker::liveness::LivenessGuard;

/// How often a server may reject a request unprocessed before the rejection becomes the result.
const MAX_UNPROCESSED: usize = 5;

/// Limits how much a request may read, and learns what the request used.
pub trait FetchBudget: ByteBudget {
    /// Called before the wait for the host's permit, which may take minutes. Nothing is in flight during the wait.
    fn before_wait(&self) -> impl Future<Output = ()> + Send;

    /// What the request may read: `None` if nothing now but perhaps later, an outcome if nothing at all.
    fn grant(&self) -> impl Future<Output = Result<Option<BodyGrant>, Outcome>> + Send;

    /// Waits until the budget may grant a request what it did not grant before.
    fn wait_for_grant(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Records the body bytes read and not counted yet.
    fn record_bytes(&self, bytes: BodyBytes);

    /// The outcome of a URL whose first try failed, when the crawl stops before the retry.
    fn stopped_before_retry(&self, first: Outcome) -> Outcome {
        first
    }

    /// Called when a host requires a longer delay than the configured one. The client sends the host no further request
    /// before this returns, so that the delay can be stored where it outlives this process.
    fn host_slowed(&self, host: &str, host_delay: HostDelay) -> impl Future<Output = ()> + Send;

    /// Whether the crawl has used up a limit, so that even a request that does not count against it is in vain.
    fn is_exhausted(&self) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }

    /// Claims a host of another domain than the URL's, and returns the host's remaining cooldown. `None` if another
    /// process sends the requests to the host's domain: the URL is to be fetched there.
    fn claim_host(&self, _host: &str) -> impl Future<Output = Option<Duration>> + Send {
        std::future::ready(Some(Duration::ZERO))
    }

    /// A file that a process has stored with [`store_robots`](FetchBudget::store_robots) on the last day.
    fn load_robots(&self, _url: &str) -> impl Future<Output = Option<Vec<u8>>> + Send {
        std::future::ready(None)
    }

    /// Stores a robots.txt for other processes, under the URL that robots.txt of another domain redirected to.
    fn store_robots(&self, _url: &str, _file: &[u8]) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

impl ByteBudget for BodyPolicy {}

/// A fixed policy for every request, without accounting.
impl FetchBudget for BodyPolicy {
    async fn before_wait(&self) {}

    async fn grant(&self) -> Result<Option<BodyGrant>, Outcome> {
        Ok(Some(BodyGrant::unlimited(*self)))
    }

    fn record_bytes(&self, _: BodyBytes) {}

    async fn host_slowed(&self, _: &str, _: HostDelay) {}
}

/// The only path to a server, for pages and robots.txt.
pub struct PoliteClient {
    /// When each host may receive the next request.
    pub throttle: Arc<HostThrottle>,
    /// Limits requests in flight. A slot is taken only after the host's permit, so that a request waiting for its host
    /// blocks no other host.
    slots: Semaphore,
    downloader: Downloader,
    liveness: LivenessGuard,
    stop: StopHandle,
}

impl PoliteClient {
    /// A client with at most `in_flight` concurrent requests, until `stop` stops it.
    pub fn new(
        throttle: Arc<HostThrottle>,
        in_flight: usize,
        downloader: Downloader,
        stop: StopHandle,
    ) -> PoliteClient {
        let slots = Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS));
        PoliteClient { throttle, slots, downloader, liveness: LivenessGuard::unlimited(), stop }
    }

    /// Sends requests only while the guard counts this worker as alive.
    pub fn with_liveness(self, liveness: LivenessGuard) -> PoliteClient {
        PoliteClient { liveness, ..self }
    }

    /// Shares the kinds of address that the seeds' hosts have with other processes of the crawl.
    pub fn with_pin(self, pin: PinKinds) -> PoliteClient {
        PoliteClient { downloader: self.downloader.with_pin(pin), ..self }
    }

    /// Counts the requests it sends in this counter.
    pub fn with_request_counter(self, requests: RequestCounter) -> PoliteClient {
        PoliteClient { downloader: self.downloader.with_request_counter(requests), ..self }
    }

    /// Sends one request. A request that the server rejects unprocessed does not count; it is sent again with a new
    /// permit.
    pub async fn send(&self, url: &Url, budget: &impl FetchBudget) -> Result<Download, Outcome> {
        for _ in 1..MAX_UNPROCESSED {
            match self.send_throttled(url, budget).await {
                Err(Outcome::RequestNotProcessed) => {}
                result => return result,
            }
        }
        self.send_throttled(url, budget).await
    }

    /// Completes when the crawl stops before a request has started. It then need not start, however long its host's cooldown
    /// is.
    async fn stopped_before_start(&self, started: &OnceLock<Instant>) {
        self.stop.stop_requested().await;
        if started.get().is_some() {
            std::future::pending::<()>().await;
        }
    }

    async fn send_throttled(&self, url: &Url, budget: &impl FetchBudget) -> Result<Download, Outcome> {
        let host = throttle_key(url.as_str());
        budget.before_wait().await;
        let ready = async {
            let permit = self.throttle.acquire(host).await;
            loop {
                let slot = self.slots.acquire().await.expect("the semaphore is never closed");
                match budget.grant().await {
                    // Requests that hold the budget may need this slot to finish and return it.
                    Ok(None) => drop(slot),
                    // The backend may have been unreachable for longer than the liveness timeout.
                    Ok(Some(_)) if !self.liveness.is_current() => {
                        drop(slot);
                        self.liveness.renewed().await;
                        continue;
                    }
                    Ok(Some(grant)) => break (permit, slot, Ok(grant)),
                    Err(outcome) => break (permit, slot, Err(outcome)),
                }
                budget.wait_for_grant().await;
            }
        };
        let (permit, _slot, grant) = tokio::select! {
            biased;
            () = self.stop.stop_requested() => return Err(Outcome::NotReached),
            ready = ready => ready,
        };
        let (grant, acquired, started) = (grant?, Instant::now(), OnceLock::new());
        let byte_counter = ByteCounter::new(grant.bytes, budget);
        let start = async {
            let _ = started.set(permit.start().await);
        };
        // Boxed: the future of a request is large, and most callers of this function wait for a permit without one.
        let result = tokio::select! {
            biased;
            result = Box::pin(self.downloader.get(url, start, grant.policy, &byte_counter)) => result,
            () = self.stop.aborted() => Err(Outcome::NotReached),
            () = self.stopped_before_start(&started) => Err(Outcome::NotReached),
            // Other workers are about to take over the host. If they do not, the request is sent again.
            () = self.liveness.expired() => Err(Outcome::RequestNotProcessed),
        };
        let elapsed = started.get().unwrap_or(&acquired).elapsed();
        permit.record_response_time(elapsed.saturating_sub(byte_counter.waited()));
        budget.record_bytes(byte_counter.uncounted());
        if let Ok(Download { status: 429 | 503, retry_after: Some(time), .. }) = result {
            permit.cool_down(time.min(MAX_RETRY_AFTER));
            if let Some(host_delay) = self.throttle.host_delay(host) {
                budget.host_slowed(host, host_delay).await;
            }
        }
        result
    }

    /// Waits for this time. Returns false if the crawl was stopped before it passed.
    pub async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.stop.stop_requested() => false,
            () = tokio::time::sleep(time) => true,
        }
    }
}
