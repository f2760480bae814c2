//! Fetches robots.txt once per origin and day, and obeys it. Failed requests are repeated, with growing pauses.

mod cache;
pub mod directives;
pub mod rules;
pub mod waits;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use url::Url;

use self::cache::{CacheEntry, RobotsCache};
use self::rules::Rules;
use self::waits::RobotsWaits;
use super::http::{BodyGrant, BodyPolicy, ByteBudget, Download};
use super::polite_client::{FetchBudget, PoliteClient};
use crate::backend::HostDelay;
use crate::config::{FetchConfig, MAX_CRAWL_DELAY};
use crate::domain::Domain;
use crate::exchange::Exchange;
use crate::html;
use crate::log;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::statistics::RobotsState;
use crate::stats::BodyBytes;

/// How much of a robots.txt is read. RFC 9309 requires at least 500 KiB.
const MAX_BYTES: usize = 512 * 1024;

/// The largest robots.txt that is stored for other processes, which have to fetch larger ones themselves. Nearly all are
/// smaller, and a hostile site cannot fill Redis with them.
const MAX_SHARED_BYTES: usize = 64 * 1024;

/// How many redirects of a robots.txt are followed. After more, RFC 9309 allows to treat it as missing.
const MAX_REDIRECTS: usize = 5;

/// How often a robots.txt is requested that a server fails to send, before no URL of the origin waits any longer. The
/// pauses between the requests double: with the first one of a second, they take four minutes.
const MAX_TRIES: u32 = 9;

/// The same for a host that cannot be reached: with pauses of half a minute.
const MAX_TRIES_UNREACHABLE: u32 = 6;

/// After how many failed tries a URL of a host that cannot be reached gets its outcome: as many as a page has. The other
/// URLs of the host wait for the next try.
const URL_TRIES_UNREACHABLE: u32 = 2;

/// A URL whose host gets no request for longer than this is not waited with, if its caller can fetch it later.
const MAX_SHORT_PAUSE: Duration = Duration::from_millis(250);

/// The robots.txt rules of recently used origins, for one crawler.
pub struct Robots {
    product_token: String,
    retry_pause: Duration,
    max_wait: Duration,
    waits: RobotsWaits,
    cache: Mutex<RobotsCache>,
}

/// Why a robots.txt could not be fetched.
struct RobotsFailure {
    /// The outcome of the URLs that need it.
    outcome: Outcome,
    retry: Retry,
}

/// Where another try may succeed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    Nowhere,
    Here,
    /// In the process that sends the requests to the host that robots.txt redirects to.
    Elsewhere,
}

impl Robots {
    /// No rules yet, for the crawler with this configuration.
    pub fn new(config: &FetchConfig) -> Robots {
        Robots {
            product_token: config.product_token().to_owned(),
            retry_pause: config.robots_retry_pause,
            max_wait: config.robots_max_wait,
            waits: RobotsWaits::default(),
            cache: Mutex::default(),
        }
    }

    /// Adds the sites whose URLs wait to these.
    pub fn with_waits(self, waits: RobotsWaits) -> Robots {
        Robots { waits, ..self }
    }

    /// Checks whether robots.txt allows a URL. If it does not, or cannot be fetched, the error is the URL's outcome.
    ///
    /// Waits while robots.txt is requested again, up to some minutes.
    pub async fn check(
        &self,
        url: &Url,
        client: &PoliteClient,
        budget: &impl FetchBudget,
    ) -> Result<(), Outcome> {
        let origin = Origin::from_url(url);
        let (entry, robots_budget) = (self.cache().entry(&origin), RobotsBudget(budget));
        let called = Instant::now();
        // Boxed: the future is large, and most calls need none.
        let fetch = || Box::pin(self.fetch_rules(&origin, &entry, called, client, &robots_budget));
        match entry.rules.get_or_try_init(fetch).await? {
            Ok(rules) => {
                // On every check, because the throttle forgets a host that has been idle for long.
                apply_crawl_delay(&origin, rules, client, &robots_budget).await;
                if rules.allows(url) { Ok(()) } else { Err(Outcome::RobotsDisallowed) }
            }
            Err(outcome) => Err(outcome.clone()),
        }
    }

    /// The sitemaps that the robots.txt of a URL's origin names, if it was fetched and they are not admitted yet.
    pub fn sitemaps(&self, url: &Url) -> Vec<String> {
        let entry = self.cache().entry(&Origin::from_url(url));
        match entry.rules.get() {
            Some(Ok(rules)) if !entry.has_admitted_sitemaps.load(Ordering::Relaxed) => {
                rules.sitemaps().to_vec()
            }
            _ => Vec::new(),
        }
    }

    /// Records that the crawl has the sitemaps of a URL's origin.
    pub fn set_sitemaps_admitted(&self, url: &Url) {
        let entry = self.cache().entry(&Origin::from_url(url));
        entry.has_admitted_sitemaps.store(true, Ordering::Relaxed);
    }

    fn cache(&self) -> MutexGuard<'_, RobotsCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches an origin's rules. The inner error is the outcome of every URL of the origin. The outer error is the outcome
    /// of one URL, or means that it is not fetched here: the next URL tries again.
    async fn fetch_rules(
        &self,
        origin: &Origin,
        entry: &Arc<CacheEntry>,
        called: Instant,
        client: &PoliteClient,
        budget: &impl FetchBudget,
    ) -> Result<Result<Rules, Outcome>, Outcome> {
        // While this URL waited, another one found out that only another process can fetch robots.txt. It is not requested
        // again for this URL, which would delay the transfer of the domain.
        if let Some((host, found)) = entry.elsewhere()
            && found > called
            && budget.claim_host(&host).await.is_none()
        {
            return Err(Outcome::NotReached);
        }
        let (mut url_tries, mut waiting) = (0, entry.take_waiting());
        loop {
            if let Some(time) = self.postponed_for(origin, entry, client, budget) {
                if let Some(waiting) = &waiting {
                    waiting.postpone(time);
                }
                entry.keep_waiting(waiting);
                return Err(Outcome::NotReached);
            }
            let tried = self.try_fetch_rules(origin, entry, client, budget);
            let tried = match entry.failures() {
                None => tried.await,
                Some(failures) => tokio::select! {
                    biased;
                    () = client.pauses().sleep(failures.first, self.max_wait) => {
                        return Ok(Err(self.give_up(origin, entry, failures.outcome, client)));
                    }
                    tried = tried => tried,
                },
            };
            let RobotsFailure { outcome, retry } = match tried {
                Err(failure) => failure,
                Ok((rules, state)) => {
                    log::robots_fetched(origin, rules.bytes());
                    client.recorder().record_robots(&origin.throttle_key(), state, rules.crawl_delay());
                    self.cache().set_bytes(origin, entry, rules.bytes());
                    return Ok(Ok(rules));
                }
            };
            if matches!(outcome, Outcome::NotReached | Outcome::Rejected { .. }) {
                return Err(outcome);
            }
            let is_unreachable = is_unreachable(&outcome);
            if is_unreachable && retry != Retry::Nowhere && budget.retries_later() {
                return Err(outcome);
            }
            url_tries += 1;
            let tries = entry.record_failure(&outcome);
            let max_tries = if is_unreachable { MAX_TRIES_UNREACHABLE } else { MAX_TRIES };
            if retry == Retry::Nowhere || tries >= max_tries {
                return Ok(Err(self.give_up(origin, entry, outcome, client)));
            }
            log::robots_failed(origin, &outcome, tries);
            client.recorder().record_robots_wait(&origin.throttle_key());
            drop(waiting.take());
            waiting = Some(self.waits.add(origin, &outcome));
            // The server has not failed if another process has to continue.
            let failures = if retry == Retry::Elsewhere { 1 } else { tries };
            self.cool_down(origin, failures, client, budget).await;
            if retry == Retry::Elsewhere {
                return Err(Outcome::NotReached);
            }
            if is_unreachable && url_tries >= URL_TRIES_UNREACHABLE {
                return Err(outcome);
            }
        }
    }

    /// For how long a URL is returned to its caller, until the pause after a failure is over. Otherwise the URLs of hosts whose
    /// robots.txt fails would hold all leases of a worker, and it could fetch from no other host.
    fn postponed_for(
        &self,
        origin: &Origin,
        entry: &CacheEntry,
        client: &PoliteClient,
        budget: &impl FetchBudget,
    ) -> Option<Duration> {
        let failures = entry.failures()?;
        let cooldown = client.throttle.host_delay(&origin.throttle_key())?.cooldown;
        let is_postponed =
            cooldown > MAX_SHORT_PAUSE && failures.first.elapsed() < self.max_wait && budget.postpone();
        is_postponed.then_some(cooldown)
    }

    /// Stops waiting for a robots.txt. Returns the outcome of all URLs of the origin.
    fn give_up(
        &self,
        origin: &Origin,
        entry: &Arc<CacheEntry>,
        outcome: Outcome,
        client: &PoliteClient,
    ) -> Outcome {
        log::robots_unavailable(origin, &outcome);
        client.recorder().record_robots(&origin.throttle_key(), RobotsState::Unavailable, None);
        self.cache().set_bytes(origin, entry, outcome.to_string().len());
        outcome
    }

    /// Sends the host no request for a while, which is longer after each failure. The pause outlives this process.
    async fn cool_down(
        &self,
        origin: &Origin,
        failures: u32,
        client: &PoliteClient,
        budget: &impl FetchBudget,
    ) {
        let host = origin.throttle_key();
        client.throttle.cool_down(&host, self.retry_pause * 2_u32.pow(failures - 1));
        if let Some(host_delay) = client.throttle.host_delay(&host) {
            budget.host_slowed(&host, host_delay).await;
        }
    }

    /// Requests an origin's rules once, following redirects. Also returns whether there is a robots.txt.
    async fn try_fetch_rules(
        &self,
        origin: &Origin,
        entry: &CacheEntry,
        client: &PoliteClient,
        budget: &impl FetchBudget,
    ) -> Result<(Rules, RobotsState), RobotsFailure> {
        let root = Url::parse(&origin.to_string())
            .map_err(|error| RobotsFailure::from(Outcome::InvalidResponse { cause: error.to_string() }))?;
        let own_domain = Domain::from_url(&root);
        let mut url = html::resolve(&root, "/robots.txt").unwrap_or(root);
        let (mut elsewhere, mut visited) = (Vec::new(), Vec::new());
        for redirects in 0..=MAX_REDIRECTS {
            let is_elsewhere = Domain::from_url(&url) != own_domain;
            if is_elsewhere {
                if let Some(file) = budget.load_robots(url.as_str()).await {
                    return Ok((self.parse(&file, false), RobotsState::Rules));
                }
                elsewhere.push(url.to_string());
                claim_host(&url, entry, client, budget).await?;
            }
            let response = request(&url, client, budget).await;
            if is_elsewhere {
                let host = Origin::from_url(&url).throttle_key();
                if let Some(host_delay) = client.throttle.host_delay(&host) {
                    budget.host_slowed(&host, host_delay).await;
                }
            }
            let response = response.map_err(|outcome| match redirects {
                // The origin's own host is blocked: that is the outcome of the URL.
                0 if matches!(outcome, Outcome::Rejected { .. }) => {
                    RobotsFailure { outcome, retry: Retry::Nowhere }
                }
                0 => RobotsFailure::from(outcome),
                // The redirect's target cannot be reached, but the origin itself can.
                _ => RobotsFailure::from(outcome).unavailable(),
            })?;
            match (response.status, response.redirect) {
                (_, Some(location)) => {
                    let target = html::resolve(&url, &location).map_err(|bad_link| {
                        RobotsFailure::permanent(format!("its redirect cannot be followed: {bad_link}"))
                    })?;
                    // The server has a file there, or means to have one.
                    visited.push(url);
                    if visited.contains(&target) {
                        return Err(RobotsFailure::permanent("it redirects to itself".into()));
                    }
                    url = target;
                }
                // 429 means an overloaded server, not a missing file, although it is a 4xx status.
                (code @ 500.., None)
                    if response.retry_after.is_none()
                        && let Some(proxy) = client.forwarding_proxy(&Origin::from_url(&url)) =>
                {
                    // A proxy replies so for a host that it cannot reach, or that does not exist.
                    let cause = format!("HTTP {code} (through the proxy {proxy})");
                    return Err(Outcome::ConnectionFailed { cause }.into());
                }
                (code @ (429 | 500..), None) => {
                    return Err(Outcome::HttpStatus { code, retry_after: response.retry_after }.into());
                }
                (200..=299 | 400..=499, None) => {
                    // A missing file allows everything, as an empty one does: the body of an error is not read.
                    if response.body.len() <= MAX_SHARED_BYTES && !response.truncated {
                        for url in &elsewhere {
                            budget.store_robots(url, &response.body).await;
                        }
                    }
                    let state = if response.status < 300 { RobotsState::Rules } else { RobotsState::Missing };
                    return Ok((self.parse(&response.body, response.truncated), state));
                }
                (code, None) => return Err(RobotsFailure::permanent(format!("HTTP {code}"))),
            }
        }
        if elsewhere.is_empty() {
            // RFC 9309 allows it. Another site may have rules that were not reached.
            return Ok((Rules::allow_all(), RobotsState::Missing));
        }
        Err(RobotsFailure::permanent(format!("more than {MAX_REDIRECTS} redirects")))
    }

    fn parse(&self, body: &[u8], is_truncated: bool) -> Rules {
        let text = rules::decoded(body);
        Rules::parse(if is_truncated { complete_lines(&text) } else { &text }, &self.product_token)
    }
}

impl RobotsFailure {
    /// A failure of a host that can be reached, and that another try would meet again.
    fn permanent(cause: String) -> RobotsFailure {
        RobotsFailure { outcome: Outcome::RobotsUnavailable { cause }, retry: Retry::Nowhere }
    }

    /// The same failure as that of a robots.txt whose host can be reached.
    fn unavailable(self) -> RobotsFailure {
        let outcome = match self.outcome {
            outcome @ (Outcome::NotReached | Outcome::RobotsUnavailable { .. }) => outcome,
            outcome => Outcome::RobotsUnavailable { cause: outcome.to_string() },
        };
        RobotsFailure { outcome, ..self }
    }
}

impl From<Outcome> for RobotsFailure {
    /// The outcome of a URL whose robots.txt could not be fetched: the failure itself if the host cannot be reached, as
    /// the page could not be fetched either; otherwise that robots.txt is unavailable.
    fn from(outcome: Outcome) -> RobotsFailure {
        // Every status that is a failure of a robots.txt may change, also those that are final for a page.
        let is_failed_status = matches!(outcome, Outcome::HttpStatus { .. });
        let is_retryable = (outcome.is_retryable() || is_failed_status) && !outcome.exceeds_max_retry_after();
        let failure =
            RobotsFailure { outcome, retry: if is_retryable { Retry::Here } else { Retry::Nowhere } };
        if is_unreachable(&failure.outcome) { failure } else { failure.unavailable() }
    }
}

/// Whether an outcome means that the host cannot be reached, for a page as little as for a robots.txt.
fn is_unreachable(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::DnsFailed { .. }
            | Outcome::BlockedAddress { .. }
            | Outcome::ConnectionFailed { .. }
            | Outcome::StaleConnection
            | Outcome::RequestNotProcessed
            | Outcome::ProxyFailed { .. }
            | Outcome::TlsFailed { .. }
            | Outcome::Timeout { .. }
    )
}

/// Requests a robots.txt. One that redirects and sets a cookie is requested once more, as a page is: the redirect may lead to the
/// same URL, for clients that send the cookie.
async fn request(url: &Url, client: &PoliteClient, budget: &impl FetchBudget) -> Result<Download, Outcome> {
    let response = client.send(url, budget).await?;
    match response.redirect.is_some() && response.has_new_cookies {
        true => client.send(url, budget).await,
        false => Ok(response),
    }
}

/// Makes sure that no other process sends requests to the host of a URL, and waits out the host's cooldown.
async fn claim_host(
    url: &Url,
    entry: &CacheEntry,
    client: &PoliteClient,
    budget: &impl FetchBudget,
) -> Result<(), RobotsFailure> {
    let host = Origin::from_url(url).throttle_key();
    match budget.claim_host(&host).await {
        Some(cooldown) => {
            client.throttle.cool_down(&host, cooldown);
            Ok(())
        }
        None => {
            let cause = format!("it redirects to {host}, which another worker crawls");
            entry.set_elsewhere(host);
            Err(RobotsFailure { outcome: Outcome::RobotsUnavailable { cause }, retry: Retry::Elsewhere })
        }
    }
}

/// The budget of a robots.txt request. Its bytes do not count against the crawl's limit, because robots.txt has a
/// limit of its own. A longer delay is passed on to the budget of the URL that is checked.
struct RobotsBudget<'a, B>(&'a B);

impl<B: FetchBudget> ByteBudget for RobotsBudget<'_, B> {}

impl<B: FetchBudget> FetchBudget for RobotsBudget<'_, B> {
    async fn before_permit(&self) {
        self.0.before_permit().await;
    }

    fn before_wait(&self) {
        self.0.before_wait();
    }

    fn after_wait(&self) {
        self.0.after_wait();
    }

    fn set_silent(&self, is_silent: bool) {
        self.0.set_silent(is_silent);
    }

    fn retries_later(&self) -> bool {
        self.0.retries_later()
    }

    fn is_robots_txt(&self) -> bool {
        true
    }

    fn postpone(&self) -> bool {
        self.0.postpone()
    }

    fn archives(&self) -> bool {
        self.0.archives()
    }

    fn archive(&self, exchange: Exchange) {
        self.0.archive(exchange);
    }

    async fn grant(&self) -> Result<Option<BodyGrant>, Outcome> {
        match self.0.is_exhausted().await {
            true => Err(Outcome::NotReached),
            false => Ok(Some(BodyGrant::unlimited(BodyPolicy::Prefix(MAX_BYTES)))),
        }
    }

    fn record_bytes(&self, _: BodyBytes) {}

    async fn host_slowed(&self, host: &str, host_delay: HostDelay) {
        self.0.host_slowed(host, host_delay).await;
    }

    async fn claim_host(&self, host: &str) -> Option<Duration> {
        self.0.claim_host(host).await
    }

    async fn load_robots(&self, url: &str) -> Option<Vec<u8>> {
        self.0.load_robots(url).await
    }

    async fn store_robots(&self, url: &str, file: &[u8]) {
        self.0.store_robots(url, file).await;
    }
}

/// Slows the host's throttle down to the Crawl-delay of the rules.
async fn apply_crawl_delay(origin: &Origin, rules: &Rules, client: &PoliteClient, budget: &impl FetchBudget) {
    let Some(delay) = rules.crawl_delay() else { return };
    let host = origin.throttle_key();
    if client.throttle.slow_down(&host, delay.min(MAX_CRAWL_DELAY))
        && let Some(host_delay) = client.throttle.host_delay(&host)
    {
        budget.host_slowed(&host, host_delay).await;
    }
}

/// Drops the last line of a truncated file, because it may be truncated too.
fn complete_lines(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::http::Downloader;
    use crate::fetch::throttle::HostThrottle;
    use crate::stop::StopHandle;

    fn robots() -> Robots {
        Robots::new(&FetchConfig::default())
    }

    #[test]
    fn line_truncated_by_the_size_limit_is_ignored() {
        let is_allowed = |file: &[u8]| {
            robots().parse(file, file.len() >= MAX_BYTES).allows(&Url::parse("http://h.test/a").unwrap())
        };
        let file = |length: usize| {
            let (start, end) = (b"User-agent: *\n", b"\nDisallow: /a");
            [start, &vec![b'#'; length - start.len() - end.len()][..], end].concat()
        };
        assert!(is_allowed(&file(MAX_BYTES)));
        assert!(!is_allowed(&file(MAX_BYTES - 1)));
        let wide: Vec<u8> = [&b"\n\nUser-agent: *\nDisallow: /a\n"[..], &vec![b'#'; MAX_BYTES]].concat();
        let wide: Vec<u8> = wide.iter().flat_map(|byte| [0, *byte]).take(MAX_BYTES).collect();
        assert!(!is_allowed(&wide));
    }

    #[tokio::test(start_paused = true)]
    async fn crawl_delay_is_applied_again_after_the_throttle_forgot_the_host() {
        let robots = robots();
        let rules = Rules::parse(b"User-agent: *\nCrawl-delay: 20\nDisallow: /no", "crawler");
        let origin = Origin { https: false, host: "h0.test".into(), port: 80 };
        robots.cache().entry(&origin).rules.set(Ok(rules)).unwrap();
        for path in ["/yes", "/no"] {
            let throttle = Arc::new(HostThrottle::new(Duration::from_secs(1), 1));
            let downloader = Downloader::new(Arc::default(), &[]).unwrap();
            let client = PoliteClient::new(Arc::clone(&throttle), (1, 0), downloader, StopHandle::new());
            let url = Url::parse(&format!("http://h0.test{path}")).unwrap();
            let checked = robots.check(&url, &client, &BodyPolicy::page(1)).await;
            assert_eq!(checked.is_ok(), path == "/yes");
            let host_delay = throttle.host_delay("h0.test").expect("the host has a delay again");
            assert_eq!(host_delay.delay, Duration::from_secs(20));
        }
    }
}
