//! Sends one polite request: acquires the host's throttle permit, sends the request, releases the permit.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use url::Url;

use super::http::{
    BodyGrant, BodyPolicy, ByteBudget, ByteCounter, Download, Downloader, PinKinds, RequestProgress,
};
use super::network::{FailureSource, NetworkMonitor, is_network_failure};
use super::proxy_health::{ProxyFailureSource, ProxyHealth};
use super::request_gate::RequestGate;
use super::request_slots::{RequestSlot, RequestSlots};
use super::throttle::{CoolingDown, HostThrottle, ThrottlePermit};
use crate::backend::HostDelay;
use crate::config::MAX_RETRY_AFTER;
use crate::exchange::Exchange;
use crate::live_settings::Pause;
use crate::log;
use crate::media::AcceptedTypes;
use crate::origin::{Origin, throttle_key};
use crate::outcome::Outcome;
use crate::poll_once::{poll_once, with_call_before_wait};
use crate::proxy::ProxyServer;
use crate::seed_list::SeedIndex;
use crate::statistics::FailureKind;
use crate::statistics::recorder::{EndedRequest, Recorder};
use crate::stats::{BodyBytes, RequestCounter};
use crate::stop::StopHandle;
use crate::worker::liveness::LivenessGuard;

/// How often a server may reject a request unprocessed before the rejection becomes the result.
const MAX_UNPROCESSED: usize = 5;

/// Limits how much a request may read, and learns what the request used.
pub trait FetchBudget: ByteBudget {
    /// Called before the host's permit is acquired. Nothing is in flight then.
    fn before_permit(&self) -> impl Future<Output = ()> + Send;

    /// Called before the wait for the host's permit, which may take minutes, if there is one.
    fn before_wait(&self) {}

    /// Waits until the caller can read the response, before the wait for the host's permit.
    fn wait_for_turn(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Called after the wait for the host's permit.
    fn after_wait(&self) {}

    /// Called when the request has received nothing for a while, and when it receives something again.
    fn set_silent(&self, _is_silent: bool) {}

    /// Whether the caller fetches a URL again after a temporary failure. Otherwise the fetcher does so.
    fn retries_later(&self) -> bool {
        false
    }

    /// Called after a request that was sent again after a temporary failure.
    fn retried(&self) {}

    /// Whether the request is for a robots.txt.
    fn is_robots_txt(&self) -> bool {
        false
    }

    /// Called when a HEAD request did not show whether a URL can be fetched: the next request is a GET request.
    fn head_failed(&self) {}

    /// What the request may read: `None` if nothing now but perhaps later, an outcome if nothing at all.
    fn grant(&self) -> impl Future<Output = Result<Option<BodyGrant>, Outcome>> + Send;

    /// Waits until the budget may grant a request what it did not grant before.
    fn wait_for_grant(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Records the body bytes read and not counted yet.
    fn record_bytes(&self, bytes: BodyBytes);

    /// Called when a request starts to connect, and when it is written.
    fn request_started(&self) {}

    /// Called when a request has ended, with all body bytes that it read.
    fn request_done(&self, _bytes: BodyBytes) {}

    /// Whether the requests and their responses are archived.
    fn archives(&self) -> bool {
        false
    }

    /// Takes a request whose response has begun, and the response, when they are archived and the request has ended.
    fn archive(&self, _exchange: Exchange) {}

    /// The outcome of a URL whose first try failed, when the crawl stops before the retry.
    fn stopped_before_retry(&self, first: Outcome) -> Outcome {
        first
    }

    /// Called when a host requires a longer delay than the configured one. The client sends the host no further request
    /// before this returns, so that the delay can be stored where it outlives this process.
    fn host_slowed(&self, host: &str, host_delay: HostDelay) -> impl Future<Output = ()> + Send;

    /// Called when the URL's host gets no request for a while, which [`host_slowed`](FetchBudget::host_slowed) was told. Whether
    /// the caller fetches the URL again afterwards: then it is not reached now.
    fn postpone(&self) -> bool {
        false
    }

    /// Whether the crawl has exhausted a limit, so that even a request that does not count against it is in vain.
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
    async fn before_permit(&self) {}

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
    slots: RequestSlots,
    downloader: Downloader,
    gate: Arc<RequestGate>,
    liveness: LivenessGuard,
    network: Option<Arc<NetworkMonitor>>,
    proxy_health: ProxyHealth,
    /// How long requests wait for a proxy.
    max_proxy_wait: Duration,
    recorder: Recorder,
    stop: StopHandle,
}

/// When one try of a request was made.
#[derive(Default)]
struct RequestTimes {
    /// When it had its permit and started to connect.
    connecting: OnceLock<Instant>,
    /// When it was written.
    started: OnceLock<Instant>,
}

impl PoliteClient {
    /// A client with at most `in_flight` concurrent requests, and `silent` more that receive nothing, until `stop` stops
    /// it.
    pub fn new(
        throttle: Arc<HostThrottle>,
        (in_flight, silent): (usize, usize),
        downloader: Downloader,
        stop: StopHandle,
    ) -> PoliteClient {
        let slots = RequestSlots::new(in_flight, silent);
        let (gate, liveness, network) = (Arc::default(), LivenessGuard::unlimited(), None);
        let (proxy_health, max_proxy_wait) = (ProxyHealth::default(), downloader.config().network_timeout);
        PoliteClient {
            throttle,
            slots,
            downloader,
            gate,
            liveness,
            network,
            proxy_health,
            max_proxy_wait,
            recorder: Recorder::default(),
            stop,
        }
    }

    /// Records statistics of its requests here.
    pub fn with_recorder(self, recorder: Recorder) -> PoliteClient {
        PoliteClient { downloader: self.downloader.with_recorder(recorder.clone()), recorder, ..self }
    }

    /// Where statistics of its requests are recorded.
    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Starts requests only as this gate allows.
    pub fn with_gate(self, gate: Arc<RequestGate>) -> PoliteClient {
        PoliteClient { gate, ..self }
    }

    /// The pauses of the crawl.
    pub(super) fn pauses(&self) -> &Pause {
        self.gate.pause()
    }

    /// Changes the listed seeds: their origins may have non-public addresses, and get the headers of seeds.
    pub(super) fn set_seed_index(&self, index: Option<Arc<SeedIndex>>) {
        self.downloader.set_seed_index(index);
    }

    /// Whether an origin is that of a seed.
    pub(super) fn is_seed_origin(&self, origin: &Origin) -> bool {
        self.downloader.is_seed_origin(origin)
    }

    /// Shares the health of proxies with other clients.
    pub fn with_proxy_health(self, proxy_health: ProxyHealth) -> PoliteClient {
        PoliteClient { proxy_health, ..self }
    }

    /// Waits while the network is down.
    pub fn with_network(self, network: Arc<NetworkMonitor>) -> PoliteClient {
        PoliteClient { network: Some(network), ..self }
    }

    /// Sends requests only while the guard counts this worker as alive.
    pub fn with_liveness(self, liveness: LivenessGuard) -> PoliteClient {
        PoliteClient { liveness, ..self }
    }

    /// Shares the kinds of address that the seeds' hosts have with other processes of the crawl.
    pub fn with_pin(self, pin: PinKinds) -> PoliteClient {
        PoliteClient { downloader: self.downloader.with_pin(pin), ..self }
    }

    /// The media types that are kept in addition to HTML and text.
    pub(super) fn accepted(&self) -> &AcceptedTypes {
        self.downloader.accepted()
    }

    /// Counts the requests it sends in this counter.
    pub fn with_request_counter(self, requests: RequestCounter) -> PoliteClient {
        PoliteClient { downloader: self.downloader.with_request_counter(requests), ..self }
    }

    /// The proxy that forwards the requests to an origin, if one does.
    pub(super) fn forwarding_proxy(&self, origin: &Origin) -> Option<&ProxyServer> {
        self.downloader.proxy_for(origin).map(Arc::as_ref).filter(|proxy| proxy.forwards(origin))
    }

    /// Sends one request. A request that the server rejects unprocessed does not count; it is sent again with a new
    /// permit. So is a request that could not start with its permit, and one that failed with the network or a proxy.
    pub async fn send(&self, url: &Url, budget: &impl FetchBudget) -> Result<Download, Outcome> {
        let (origin, mut rejected, mut first_try) = (Origin::from_url(url), 0, None);
        loop {
            let times = RequestTimes::default();
            let result = self.send_throttled(url, &origin, budget, &times).await;
            first_try = first_try.or(times.connecting.get().copied());
            if self.has_proxy_failed(&origin, &result, first_try).await? {
                continue;
            }
            let result = match self.has_network_failed(&origin, &result).await? {
                true => Err(Outcome::RequestNotProcessed),
                false => result,
            };
            rejected += usize::from(times.started.get().is_some());
            if !matches!(result, Err(Outcome::RequestNotProcessed)) || rejected == MAX_UNPROCESSED {
                return result;
            }
        }
    }

    /// Whether a request failed because the network was down. Returns when the network is up again or given up.
    async fn has_network_failed(
        &self,
        origin: &Origin,
        result: &Result<Download, Outcome>,
    ) -> Result<bool, Outcome> {
        let Some(network) = &self.network else { return Ok(false) };
        match result {
            Ok(_) => network.responded(origin),
            Err(outcome) if outcome.is_response() => network.responded(origin),
            Err(failure) if is_network_failure(failure) => {
                // Boxed: the future is large, and most requests need none.
                let failed = Box::pin(network.failed(origin, &self.downloader));
                let source = self.unless_stopped(failed).await?;
                return Ok(source == FailureSource::Network);
            }
            Err(_) => {}
        }
        Ok(false)
    }

    /// Whether a request failed because the proxy did. Returns when it can be sent again.
    async fn has_proxy_failed(
        &self,
        origin: &Origin,
        result: &Result<Download, Outcome>,
        first_try: Option<Instant>,
    ) -> Result<bool, Outcome> {
        let Some(proxy) = self.downloader.proxy_for(origin) else { return Ok(false) };
        let (health, proxy) = (&self.proxy_health, proxy.to_string());
        match (result, first_try) {
            (Err(Outcome::ProxyFailed { cause, is_temporary: true }), Some(first_try)) => {
                let failed = health.failed(&proxy, cause, first_try, self.max_proxy_wait);
                return Ok(self.unless_stopped(failed).await? == ProxyFailureSource::Proxy);
            }
            (Ok(_), _) => health.responded(&proxy),
            (Err(outcome), _) if has_proxy_responded(outcome) => health.responded(&proxy),
            _ => {}
        }
        Ok(false)
    }

    /// Waits while nothing is in flight. An error if the crawl stops meanwhile.
    async fn unless_stopped<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Outcome> {
        tokio::select! {
            biased;
            () = self.stop.stop_requested() => Err(Outcome::NotReached),
            result = waiting => Ok(result),
        }
    }

    /// Waits for all that a request to a host needs: its permit, a slot and the budget. `page` is the URL unless it is a robots.txt.
    async fn acquire(
        &self,
        host: &str,
        page: Option<&str>,
        budget: &impl FetchBudget,
    ) -> Result<(ThrottlePermit, RequestSlot<'_>, BodyGrant), Outcome> {
        budget.before_permit().await;
        let ready = async {
            let permit = async {
                self.gate.pause().resumed().await;
                if let Some(network) = &self.network {
                    network.up().await;
                }
                self.proxy_health.ready().await;
                budget.wait_for_turn().await;
                self.throttle.acquire(host).await
            };
            let permit = with_call_before_wait(permit, || budget.before_wait()).await;
            budget.after_wait();
            loop {
                let slot = self.slots.acquire().await;
                match budget.grant().await {
                    // Requests that hold the budget may need this slot to finish and return it.
                    Ok(None) => drop(slot),
                    // The backend may have been unreachable for longer than the liveness timeout.
                    Ok(Some(_)) if !self.liveness.is_current() => {
                        drop(slot);
                        self.liveness.renewed().await;
                        continue;
                    }
                    Ok(Some(_)) if let Err(outcome) = self.gate.check(host) => {
                        break (permit, slot, Err(outcome));
                    }
                    Ok(Some(grant)) => break (permit, slot, Ok(grant)),
                    Err(outcome) => break (permit, slot, Err(outcome)),
                }
                budget.wait_for_grant().await;
            }
        };
        if self.stop.is_stop_requested() {
            return Err(Outcome::NotReached);
        }
        self.gate.check_blocked(host, page)?;
        let mut ready = pin!(ready);
        // A host is mostly ready at once, and then nothing else need be listened to.
        let at_once = poll_once(ready.as_mut()).await;
        let (permit, slot, grant) = match at_once {
            Some(ready) => ready,
            None => tokio::select! {
                biased;
                () = self.stop.stop_requested() => return Err(Outcome::NotReached),
                // No request is sent, so it need not wait, however long the host's cooldown is.
                outcome = self.gate.blocked(host, page) => return Err(outcome),
                ready = ready => ready,
            },
        };
        Ok((permit, slot, grant?))
    }

    /// Sends one request with one permit, and sets its times. Until it starts, a cooldown of the host returns
    /// the permit, the slot and the budget, which other hosts can use.
    async fn send_throttled(
        &self,
        url: &Url,
        origin: &Origin,
        budget: &impl FetchBudget,
        times: &RequestTimes,
    ) -> Result<Download, Outcome> {
        let host = throttle_key(url.as_str());
        // A URL that is blocked by a pattern does not block the robots.txt of its host.
        let page = (!budget.is_robots_txt()).then_some(url.as_str());
        let (permit, mut slot, grant) = self.acquire(host, page, budget).await?;
        let acquired = *times.connecting.get_or_init(Instant::now);
        budget.request_started();
        let _in_flight = self.recorder.start_request();
        let byte_counter = ByteCounter::new(grant.bytes, budget);
        let byte_counter = match budget.is_robots_txt() {
            true => byte_counter,
            false => byte_counter.recording_type(&self.recorder),
        };
        let byte_counter = match self.downloader.config().archive.is_some() && budget.archives() {
            true => byte_counter.recording_exchange(),
            false => byte_counter,
        };
        // Those that a stop waits for; the recorder also counts requests that connect.
        let started = OnceLock::new();
        let start = async |address| {
            let start = permit.start(address).await.map_err(|CoolingDown| Outcome::RequestNotProcessed)?;
            self.gate.check(host)?;
            let _ = times.started.set(start);
            log::request_sent(url);
            let _ = started.set(self.stop.request_started());
            budget.request_started();
            Ok(())
        };
        // Boxed: the future of a request is large, and most callers of this function wait for a permit without one.
        let result = tokio::select! {
            biased;
            result = Box::pin(self.downloader.get(url, origin, start, grant.policy, &byte_counter)) => result,
            // A request that has not started need not start, however long its host's cooldown is.
            () = self.stop.ends_request(|| times.started.get().is_some()) => Err(Outcome::NotReached),
            // Other workers are about to take over the host. If they do not, the request is sent again.
            () = self.liveness.expired() => Err(Outcome::RequestNotProcessed),
            () = slot.watch(|| byte_counter.received(), |is_silent| budget.set_silent(is_silent)) => {
                Err(Outcome::NotReached)
            }
        };
        let elapsed = times.started.get().unwrap_or(&acquired).elapsed();
        log::request_ended(url, &result, byte_counter.received(), (times.started.get().is_some(), elapsed));
        let elapsed = elapsed.saturating_sub(byte_counter.waited());
        permit.record_response_time(elapsed);
        self.record(host, &permit, elapsed, &byte_counter, result.as_ref().err());
        budget.record_bytes(byte_counter.uncounted());
        budget.request_done(byte_counter.read());
        if let Some(exchange) = byte_counter.take_exchange(result.as_ref().err()) {
            budget.archive(exchange);
        }
        if let Ok(Download { status: 429 | 503, retry_after: Some(time), .. }) = result {
            permit.cool_down(time.min(MAX_RETRY_AFTER));
            if let Some(host_delay) = self.throttle.host_delay(host) {
                budget.host_slowed(host, host_delay).await;
            }
        }
        result
    }

    /// Records a request that has ended after this time, unless it came to nothing for a reason that is not its host's.
    fn record(
        &self,
        host: &str,
        permit: &ThrottlePermit,
        elapsed: Duration,
        byte_counter: &ByteCounter<'_>,
        failure: Option<&Outcome>,
    ) {
        let RequestProgress { is_sent, response } = byte_counter.progress();
        let failure = failure.filter(|failure| FailureKind::from_outcome(failure).is_some());
        if !is_sent && failure.is_none() {
            return;
        }
        let download = response.map(|(began, _)| began.elapsed().saturating_sub(byte_counter.waited()));
        self.recorder.record_request(&EndedRequest {
            host,
            is_sent,
            status: response.map(|(_, status)| status),
            failure,
            first_byte: download.map(|download| elapsed.saturating_sub(download)),
            download,
            latency: elapsed,
            bytes: byte_counter.read().decoded,
            gap: permit.gap(),
            delay: permit.delay(),
        });
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

/// Whether a failure shows that the proxy works: it has connected to the host, or said that it cannot.
fn has_proxy_responded(outcome: &Outcome) -> bool {
    outcome.is_response() || matches!(outcome, Outcome::TlsFailed { .. } | Outcome::ProxyFailed { .. })
}
