//! One polite request: waits for the host's turn, asks, gives the turn back.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use url::Url;

use super::http::{BodyPolicy, ByteCounter, Download, Downloader};
use super::throttle::HostThrottle;
use crate::backend::HostDelay;
use crate::config::MAX_RETRY_AFTER;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::stats::RequestCounter;
use crate::stop::StopHandle;
use crate::worker::liveness::LivenessGuard;

/// How often a server may decline to look at a request before that counts as its answer.
const MAX_NOT_TAKEN: usize = 5;

/// How long to wait for what others have reserved; most are in flight, and come back within their timeouts.
const NOT_NOW: Duration = Duration::from_millis(20);

/// Says how much a request may read, at the moment it can be made, and learns what came of it.
pub trait FetchBudget: Sync {
    /// The host's turn is being waited for, maybe for minutes: nothing is in flight meanwhile.
    fn before_wait(&self) -> impl Future<Output = ()> + Send;

    /// What may be read; `None` if nothing now, but maybe soon; an outcome if nothing at all.
    fn body_policy(&self) -> impl Future<Output = Result<Option<BodyPolicy>, Outcome>> + Send;

    /// So many body bytes were read.
    fn record_bytes(&self, bytes: u64);

    /// What a URL ends with whose first try failed, when the crawl ends before the second.
    fn stopped_before_retry(&self, first: Outcome) -> Outcome {
        first
    }

    /// The host wants more time than others get. Nothing more is asked of it before this returns, so that it can be
    /// noted where it outlives this process.
    fn host_slowed(&self, host: &str, host_delay: HostDelay) -> impl Future<Output = ()> + Send;
}

/// The same for everybody.
impl FetchBudget for BodyPolicy {
    async fn before_wait(&self) {}

    async fn body_policy(&self) -> Result<Option<BodyPolicy>, Outcome> {
        Ok(Some(*self))
    }

    fn record_bytes(&self, _: u64) {}

    async fn host_slowed(&self, _: &str, _: HostDelay) {}
}

/// The one way to a server, for pages and robots.txt alike.
pub struct PoliteClient {
    /// When each host may be asked.
    pub pace: Arc<HostThrottle>,
    /// Requests in flight: taken in the host's turn, so that one who waits for a host keeps nobody else waiting.
    slots: Semaphore,
    downloader: Downloader,
    license: LivenessGuard,
    stop: StopHandle,
}

impl PoliteClient {
    /// Asks at this pace, with so many requests in flight, until told to stop.
    pub fn new(
        pace: Arc<HostThrottle>,
        in_flight: usize,
        downloader: Downloader,
        stop: StopHandle,
    ) -> PoliteClient {
        let slots = Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS));
        PoliteClient { pace, slots, downloader, license: LivenessGuard::unlimited(), stop }
    }

    /// The same, only while it has leave to.
    pub fn with_liveness(self, license: LivenessGuard) -> PoliteClient {
        PoliteClient { license, ..self }
    }

    /// Counts the requests it sends in this counter.
    pub fn with_request_counter(self, requests: RequestCounter) -> PoliteClient {
        PoliteClient { downloader: self.downloader.with_request_counter(requests), ..self }
    }

    /// Whether others ask other hosts meanwhile, with a pace of their own.
    pub fn has_liveness(&self) -> bool {
        self.license.is_limited()
    }

    /// Asks once. A request that the server did not even look at does not count, and is made again in a turn of
    /// its own.
    pub async fn send(&self, url: &Url, budget: &impl FetchBudget) -> Result<Download, Outcome> {
        for _ in 1..MAX_NOT_TAKEN {
            match self.send_throttled(url, budget).await {
                Err(Outcome::RequestNotProcessed) => {}
                answer => return answer,
            }
        }
        self.send_throttled(url, budget).await
    }

    async fn send_throttled(&self, url: &Url, budget: &impl FetchBudget) -> Result<Download, Outcome> {
        let host = Origin::from_url(url).throttle_key();
        budget.before_wait().await;
        let ready = async {
            let turn = self.pace.acquire(&host).await;
            loop {
                let slot = self.slots.acquire().await.expect("the semaphore is never closed");
                match budget.body_policy().await {
                    // Whoever has what is missing may need the slot to bring it back.
                    Ok(None) => drop(slot),
                    // Its storage may have been out of reach for longer than this worker counts as alive.
                    Ok(Some(_)) if !self.license.is_current() => {
                        drop(slot);
                        self.license.renewed().await;
                        continue;
                    }
                    Ok(Some(want)) => break (turn, slot, Ok(want)),
                    Err(outcome) => break (turn, slot, Err(outcome)),
                }
                tokio::time::sleep(NOT_NOW).await;
            }
        };
        let (turn, _slot, want) = tokio::select! {
            biased;
            () = self.stop.stop_requested() => return Err(Outcome::NotReached),
            ready = ready => ready,
        };
        let meter = ByteCounter::default();
        let (want, asked) = (want?, Instant::now());
        // A request's own state is large, and most who are in here wait for their host's turn: they do without.
        let answer = tokio::select! {
            biased;
            answer = Box::pin(self.downloader.get(url, want, &meter)) => answer,
            () = self.stop.aborted() => Err(Outcome::NotReached),
            // Others are about to take over; if they do not, it is asked again.
            () = self.license.expired() => Err(Outcome::RequestNotProcessed),
        };
        turn.took(asked.elapsed());
        budget.record_bytes(meter.bytes());
        if let Ok(Download { status: 429 | 503, retry_after: Some(time), .. }) = answer {
            turn.rest(time.min(MAX_RETRY_AFTER));
            if let Some(host_delay) = self.pace.host_delay(&host) {
                budget.host_slowed(&host, host_delay).await;
            }
        }
        answer
    }

    /// Waits, unless told to stop meanwhile; tells whether the time has passed.
    pub async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.stop.stop_requested() => false,
            () = tokio::time::sleep(time) => true,
        }
    }
}
