//! Fetches one URL: checks robots.txt, waits for the host's throttle, downloads, and retries once after a temporary
//! failure.

use std::sync::Arc;
use std::time::Duration;

use super::http::{Download, Downloader, NOT_MODIFIED, PinKinds, Validators};
use super::network::NetworkMonitor;
use super::polite_client::{FetchBudget, PoliteClient};
use super::proxy_health::ProxyHealth;
use super::request_gate::RequestGate;
use super::robots::Robots;
use super::robots::waits::RobotsWaits;
use super::throttle::HostThrottle;
use crate::config::FetchConfig;
use crate::error::Error;
use crate::log;
use crate::media::AcceptedTypes;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::seed_list::SeedIndex;
use crate::statistics::Recorder;
use crate::stats::RequestCounter;
use crate::stop::StopHandle;
use crate::worker::liveness::LivenessGuard;
use url::Url;

/// Minimum wait before a retry, also where the delay between requests is shorter: gives the server time to recover.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Fetches URLs while obeying robots.txt and the hosts' delays.
pub struct Fetcher {
    config: Arc<FetchConfig>,
    robots: Robots,
    client: PoliteClient,
}

/// The result of a fetch that did not fail.
#[derive(Debug)]
pub enum FetchResult {
    /// A page.
    Page(Download),
    /// A redirect, with the Location header as received.
    Redirect(String),
    /// The page has not changed since the response whose validators the request had. The validators of this one.
    NotModified(Validators),
}

impl Fetcher {
    /// A fetcher for a crawl of these seeds. Credentials in a seed are sent to that seed's origin only. All fetchers of
    /// a crawl share one throttle, because a robots.txt may redirect one of them to a host that another one crawls.
    pub fn new(
        config: FetchConfig,
        seeds: &[Url],
        throttle: Arc<HostThrottle>,
        stop: StopHandle,
    ) -> Result<Fetcher, Error> {
        config.check_robots_token()?;
        let (robots, config) = (Robots::new(&config), Arc::new(config));
        let downloader = Downloader::new(Arc::clone(&config), seeds)?;
        let client = PoliteClient::new(throttle, (config.concurrency, config.max_silent), downloader, stop);
        Ok(Fetcher { config, robots, client })
    }

    /// Starts requests only as this gate allows.
    pub fn with_gate(self, gate: Arc<RequestGate>) -> Fetcher {
        Fetcher { client: self.client.with_gate(gate), ..self }
    }

    /// Changes the listed seeds.
    pub(crate) fn set_seed_index(&self, index: Option<Arc<SeedIndex>>) {
        self.client.set_seed_index(index);
    }

    /// Whether the origin of a URL is that of a seed.
    pub(crate) fn is_seed_origin(&self, url: &Url) -> bool {
        self.client.is_seed_origin(&Origin::from_url(url))
    }

    /// Sends requests only while the guard counts this worker as alive.
    pub fn with_liveness(self, liveness: LivenessGuard) -> Fetcher {
        Fetcher { client: self.client.with_liveness(liveness), ..self }
    }

    /// Shares the kinds of address that the seeds' hosts have with other processes of the crawl.
    pub fn with_pin(self, pin: PinKinds) -> Fetcher {
        Fetcher { client: self.client.with_pin(pin), ..self }
    }

    /// Waits while the network is down.
    pub fn with_network(self, network: Arc<NetworkMonitor>) -> Fetcher {
        Fetcher { client: self.client.with_network(network), ..self }
    }

    /// Shares the health of proxies with other fetchers.
    pub fn with_proxy_health(self, proxy_health: ProxyHealth) -> Fetcher {
        Fetcher { client: self.client.with_proxy_health(proxy_health), ..self }
    }

    /// Counts the requests it sends in this counter.
    pub fn with_request_counter(self, requests: RequestCounter) -> Fetcher {
        Fetcher { client: self.client.with_request_counter(requests), ..self }
    }

    /// Records statistics of its requests here.
    pub fn with_recorder(self, recorder: Recorder) -> Fetcher {
        if !self.config.requests.obey_robots {
            recorder.set_ignores_robots();
        }
        Fetcher { client: self.client.with_recorder(recorder), ..self }
    }

    /// Where statistics are recorded.
    pub(crate) fn recorder(&self) -> &Recorder {
        self.client.recorder()
    }

    /// Adds the sites whose URLs wait for a robots.txt to these.
    pub fn with_robots_waits(self, waits: RobotsWaits) -> Fetcher {
        Fetcher { robots: self.robots.with_waits(waits), ..self }
    }

    /// The fetcher's configuration.
    pub fn config(&self) -> &FetchConfig {
        &self.config
    }

    /// The media types that are kept in addition to HTML and text.
    pub(crate) fn accepted(&self) -> &AcceptedTypes {
        self.client.accepted()
    }

    /// The throttle shared by all fetchers of the crawl.
    pub fn throttle(&self) -> &HostThrottle {
        &self.client.throttle
    }

    /// The robots.txt files of the crawl.
    pub fn robots(&self) -> &Robots {
        &self.robots
    }

    /// Fetches one URL. An error is the final outcome of the URL.
    pub async fn fetch(&self, url: &Url, budget: &impl FetchBudget) -> Result<FetchResult, Outcome> {
        self.check_robots(url, budget).await?;
        self.fetch_allowed(url, budget).await
    }

    /// Finds out whether a URL can be fetched: with a HEAD request, and if that fails with a GET request, since servers refuse
    /// HEAD requests, and reply to them otherwise than to GET requests. The budget chooses the method.
    pub async fn probe(&self, url: &Url, budget: &impl FetchBudget) -> Result<FetchResult, Outcome> {
        self.check_robots(url, budget).await?;
        match self.fetch_allowed(url, budget).await {
            Err(outcome) if may_differ_for_get(&outcome) => {
                budget.head_failed();
                self.fetch_allowed(url, budget).await
            }
            result => result,
        }
    }

    async fn check_robots(&self, url: &Url, budget: &impl FetchBudget) -> Result<(), Outcome> {
        match self.config.requests.obey_robots {
            true => self.robots.check(url, &self.client, budget).await,
            false => Ok(()),
        }
    }

    async fn fetch_allowed(&self, url: &Url, budget: &impl FetchBudget) -> Result<FetchResult, Outcome> {
        let mut download = self.download(url, budget).await?;
        if download.redirect.is_some() && download.has_new_cookies {
            // Sites that need cookies set them with a redirect, often to the same URL.
            download = self.download(url, budget).await?;
        }
        if download.status == NOT_MODIFIED {
            return Ok(FetchResult::NotModified(Validators::from_headers(&download.headers)));
        }
        match download.redirect {
            Some(location) => Ok(FetchResult::Redirect(location)),
            None => Ok(FetchResult::Page(download)),
        }
    }

    /// Requests a page, and retries once if the first failure is temporary.
    async fn download(&self, url: &Url, budget: &impl FetchBudget) -> Result<Download, Outcome> {
        let failure = match self.try_download(url, budget).await {
            Err(failure) if failure.is_retryable() => failure,
            result => return result,
        };
        // A stale keep-alive connection says nothing about the server's health, so the retry needs no pause.
        let stale = failure == Outcome::StaleConnection;
        if failure.exceeds_max_retry_after() || budget.retries_later() && !stale {
            return Err(failure);
        }
        if !(stale || self.client.pause(RETRY_PAUSE).await) {
            return Err(budget.stopped_before_retry(failure));
        }
        log::retrying(url, &failure);
        match self.try_download(url, budget).await {
            // The crawl stopped before the retry.
            Err(Outcome::NotReached) => Err(budget.stopped_before_retry(failure)),
            result => {
                if !stale {
                    self.recorder().record_retry();
                    budget.retried();
                }
                result
            }
        }
    }

    async fn try_download(&self, url: &Url, budget: &impl FetchBudget) -> Result<Download, Outcome> {
        let download = self.client.send(url, budget).await?;
        if download.status == NOT_MODIFIED && budget.validators().is_some() {
            return Ok(download);
        }
        download.check_status().map(|()| download)
    }
}

/// Whether a GET request may succeed where a HEAD request failed like this. An overloaded server gets no second request at once.
fn may_differ_for_get(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::HttpStatus { code, .. } => !matches!(code, 429 | 503),
        outcome => matches!(outcome, Outcome::InvalidResponse { .. }),
    }
}

#[cfg(test)]
mod tests;
