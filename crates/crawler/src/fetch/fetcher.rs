//! One visit: robots.txt allows it, the host's turn has come, the page is downloaded, once more if need be.

use std::sync::Arc;
use std::time::Duration;

use super::http::{Download, Downloader};
use super::polite_client::{FetchBudget, PoliteClient};
use super::robots::Robots;
use super::throttle::HostThrottle;
use crate::config::FetchConfig;
use crate::error::Error;
use crate::outcome::Outcome;
use crate::stats::RequestCounter;
use crate::stop::StopHandle;
use crate::worker::liveness::LivenessGuard;
use url::Url;

/// A moment for what failed to recover, also where the delay between requests is shorter.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Visits URLs: paces, obeys robots.txt, downloads.
pub struct Fetcher {
    config: Arc<FetchConfig>,
    robots: Robots,
    ask: PoliteClient,
}

/// Where a visit led.
#[derive(Debug)]
pub enum FetchResult {
    /// To a page.
    Page(Download),
    /// On to somewhere else: the Location header as it came.
    Redirect(String),
}

impl Fetcher {
    /// A visitor for a crawl from these seeds, which may carry credentials for their own origins. All visitors of a
    /// crawl share its pace: a robots.txt may lead one of them to a host that another one asks.
    pub fn new(
        config: FetchConfig,
        seeds: &[Url],
        pace: Arc<HostThrottle>,
        stop: StopHandle,
    ) -> Result<Fetcher, Error> {
        let config = Arc::new(config);
        let downloader = Downloader::new(Arc::clone(&config), seeds)?;
        let ask = PoliteClient::new(pace, config.concurrency, downloader, stop);
        Ok(Fetcher { config, robots: Robots::default(), ask })
    }

    /// The same, asking only while it has leave to.
    pub fn with_liveness(self, license: LivenessGuard) -> Fetcher {
        Fetcher { ask: self.ask.with_liveness(license), ..self }
    }

    /// Counts the requests it sends in this counter.
    pub fn with_request_counter(self, requests: RequestCounter) -> Fetcher {
        Fetcher { ask: self.ask.with_request_counter(requests), ..self }
    }

    /// The settings it goes by.
    pub fn config(&self) -> &FetchConfig {
        &self.config
    }

    /// When each host may be asked.
    pub fn throttle(&self) -> &HostThrottle {
        &self.ask.pace
    }

    /// Visits one URL; an error is the outcome of a URL that gave no page.
    pub async fn fetch(&self, url: &Url, budget: &impl FetchBudget) -> Result<FetchResult, Outcome> {
        if self.config.obey_robots {
            self.robots.check(url, &self.ask, budget).await?;
        }
        let download = self.download(url, budget).await?;
        match download.redirect {
            Some(location) => Ok(FetchResult::Redirect(location)),
            None => Ok(FetchResult::Page(download)),
        }
    }

    /// Asks for a page, and once more if the first failure looks like a passing one.
    async fn download(&self, url: &Url, budget: &impl FetchBudget) -> Result<Download, Outcome> {
        let failure = match self.try_download(url, budget).await {
            Err(failure) if failure.is_transient() => failure,
            answer => return answer,
        };
        // A connection that the server had closed meanwhile says nothing about the server: no need to wait for it.
        let stale = failure == Outcome::StaleConnection;
        if failure.asks_for_too_long() {
            return Err(failure);
        }
        if !(stale || self.ask.pause(RETRY_PAUSE).await) {
            return Err(budget.stopped_before_retry(failure));
        }
        match self.try_download(url, budget).await {
            // The crawl ended before the second try.
            Err(Outcome::NotReached) => Err(budget.stopped_before_retry(failure)),
            answer => answer,
        }
    }

    async fn try_download(&self, url: &Url, budget: &impl FetchBudget) -> Result<Download, Outcome> {
        let download = self.ask.send(url, budget).await?;
        match download.status {
            204 | 205 => {
                Err(Outcome::UnsupportedMedia { what: format!("HTTP {}, no content", download.status) })
            }
            200..=299 => Ok(download),
            _ if download.redirect.is_some() => Ok(download),
            301 | 302 | 303 | 307 | 308 => {
                Err(Outcome::InvalidResponse { cause: "a redirect without a Location".into() })
            }
            code => Err(Outcome::HttpStatus { code, retry_after: download.retry_after }),
        }
    }
}
