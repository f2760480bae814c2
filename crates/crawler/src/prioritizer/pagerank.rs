//! Prioritizes by PageRank, from a service with the Open PageRank API.

mod cache;
mod circuit_breaker;
mod client;
mod response;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use url::Url;

use self::cache::Cache;
use self::circuit_breaker::CircuitBreaker;
use self::client::{PageRankClient, QueryFailure};
use super::{Candidate, Priorities, Prioritizer, Priority, Random};
use crate::config::FetchConfig;
use crate::domain::Domain;
use crate::error::Error;
use crate::task::Depth;

/// The default environment variable for the service's API key.
pub const KEY_VARIABLE: &str = "CRAWLER_PAGERANK_KEY";

/// The best rank. The worst is 0.
const MAX_RANK: u8 = 10;

/// The number of priorities per rank: eleven ranks fit between 0 and 100.
const PRIORITIES_PER_RANK: u32 = 9;

/// A rank from 0 to 10, 10 for the most important domains.
type Rank = u8;

/// The API key of the service. It is never printed, and sent only to the service.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key, without surrounding white space.
    pub fn new(key: &str) -> ApiKey {
        ApiKey(key.trim().to_owned())
    }

    /// The key in an environment variable. `None` if the variable is not set or empty.
    pub fn from_variable(name: &str) -> Option<ApiKey> {
        let key = ApiKey::new(&std::env::var(name).ok()?);
        (!key.0.is_empty()).then_some(key)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// The service, and how requests to it are timed, retried and cached.
#[derive(Debug, Clone)]
pub struct PageRankConfig {
    /// The service's URL, without `/api/v1.0/getPageRank`. It may have a private address.
    pub url: Url,
    /// The API key.
    pub key: Option<ApiKey>,
    /// The priority of URLs without a rank, because the service is unavailable or does not return one.
    pub fallback: Priority,
    /// Timeout of one request.
    pub timeout: Duration,
    /// The most requests for one batch.
    pub max_attempts: u32,
    /// The delay before the first retry. It doubles for each further one, and up to half of it is subtracted
    /// at random.
    pub retry_delay: Duration,
    /// After this many consecutive failures, no requests are sent …
    pub failures_to_open: u32,
    /// … for this time. Then one request tests whether the service is back.
    pub cooldown: Duration,
    /// How long ranks are cached.
    pub cache_ttl: Duration,
    /// The most domains whose ranks are cached.
    pub cache_size: usize,
}

impl PageRankConfig {
    /// Defaults that delay a crawl by at most ten seconds when the service fails.
    pub fn new(url: Url) -> PageRankConfig {
        PageRankConfig {
            url,
            key: None,
            fallback: Priority::MIDDLE,
            timeout: Duration::from_secs(3),
            max_attempts: 3,
            retry_delay: Duration::from_millis(250),
            failures_to_open: 3,
            cooldown: Duration::from_secs(30),
            // Services update their ranks a few times a year.
            cache_ttl: Duration::from_secs(24 * 60 * 60),
            // About 100 bytes each.
            cache_size: 100_000,
        }
    }
}

/// Counters of requests to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRankStats {
    /// Requests sent.
    pub requests: u64,
    /// Requests that failed.
    pub failures: u64,
    /// URLs with the fallback priority.
    pub fallbacks: u64,
    /// Whether requests are sent, rather than suspended after failures.
    pub is_available: bool,
    /// The cause of the last failure.
    pub last_failure: Option<String>,
}

/// Prioritizes by the rank of the domain: the better the rank, the better the priority.
///
/// A URL's priority is 9 × (10 − rank), plus its depth up to 8, so that depth decides between URLs of one
/// rank. A domain that the service does not know has rank 0. IP addresses and single-label names are never
/// sent to it. Ranks are cached. While the service is unavailable, URLs get the fallback priority.
pub struct PageRank {
    client: PageRankClient,
    settings: PageRankConfig,
    breaker: CircuitBreaker,
    cache: Mutex<Cache>,
    random: Mutex<Random>,
    requests: AtomicU64,
    failures: AtomicU64,
    fallbacks: AtomicU64,
    last_failure: Mutex<Option<String>>,
}

impl PageRank {
    /// A prioritizer with these settings, and the crawl's user agent, trusted certificates and DNS overrides.
    pub fn new(config: &FetchConfig, settings: PageRankConfig, random: Random) -> Result<PageRank, Error> {
        Ok(PageRank {
            client: PageRankClient::new(config, &settings)?,
            breaker: CircuitBreaker::new(settings.failures_to_open, settings.cooldown),
            cache: Mutex::new(Cache::new(settings.cache_size, settings.cache_ttl)),
            settings,
            random: Mutex::new(random),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            fallbacks: AtomicU64::new(0),
            last_failure: Mutex::default(),
        })
    }

    /// The counters so far.
    pub fn stats(&self) -> PageRankStats {
        PageRankStats {
            requests: self.requests.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            fallbacks: self.fallbacks.load(Ordering::Relaxed),
            is_available: !self.breaker.is_open(),
            last_failure: unpoisoned(&self.last_failure).clone(),
        }
    }

    async fn priorities(&self, candidates: &[Candidate]) -> Vec<Priority> {
        let (mut ranks, missing) = self.cached_ranks(candidates);
        for batch in client::batches(&missing) {
            let Some(response) = self.query(batch).await else { continue };
            let mut cache = unpoisoned(&self.cache);
            for domain in batch {
                // A domain that is not in the response is cached too, or each batch would query it again.
                let rank = response.get(domain.as_str()).copied();
                cache.insert(domain, rank);
                ranks.insert(domain, rank);
            }
        }
        candidates
            .iter()
            .map(|candidate| self.priority(ranks.get(&candidate.domain).copied().flatten(), candidate.depth))
            .collect()
    }

    /// The cached ranks of the candidates' domains, and the domains that must be queried.
    fn cached_ranks<'a>(
        &self,
        candidates: &'a [Candidate],
    ) -> (HashMap<&'a Domain, Option<Rank>>, Vec<&'a Domain>) {
        let mut cache = unpoisoned(&self.cache);
        let (mut ranks, mut missing) = (HashMap::new(), Vec::new());
        let mut seen = HashSet::new();
        for domain in candidates.iter().map(|candidate| &candidate.domain) {
            if !domain.is_dotted_name() || !seen.insert(domain) {
                continue;
            }
            match cache.get(domain) {
                Some(rank) => drop(ranks.insert(domain, rank)),
                None => missing.push(domain),
            }
        }
        (ranks, missing)
    }

    /// Requests the ranks of one batch, with retries. `None` if all attempts fail or the circuit breaker is
    /// open.
    async fn query(&self, batch: &[&Domain]) -> Option<HashMap<String, Rank>> {
        for retry in 0..self.settings.max_attempts {
            if retry > 0 {
                let delay = retry_delay(self.settings.retry_delay, retry, &mut unpoisoned(&self.random));
                tokio::time::sleep(delay).await;
            }
            if !self.breaker.permits() {
                return None;
            }
            self.requests.fetch_add(1, Ordering::Relaxed);
            let failure = match self.client.ranks(batch).await {
                Ok(ranks) => {
                    self.breaker.succeeded();
                    return Some(ranks);
                }
                Err(failure) => failure,
            };
            let is_transient = failure.is_transient;
            self.record_failure(failure);
            if !is_transient {
                return None;
            }
        }
        None
    }

    fn record_failure(&self, failure: QueryFailure) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        match failure.retry_after {
            Some(time) => self.breaker.open_for(time),
            None => self.breaker.failed(),
        }
        *unpoisoned(&self.last_failure) = Some(failure.cause);
    }

    fn priority(&self, rank: Option<Rank>, depth: Depth) -> Priority {
        let Some(rank) = rank else {
            self.fallbacks.fetch_add(1, Ordering::Relaxed);
            return self.settings.fallback;
        };
        let below_best = u32::from(MAX_RANK.saturating_sub(rank));
        Priority::at_most_worst(below_best * PRIORITIES_PER_RANK + depth.min(PRIORITIES_PER_RANK - 1))
    }
}

impl Prioritizer for PageRank {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        Box::pin(self.priorities(candidates))
    }

    fn name(&self) -> String {
        crate::origin::without_credentials(&self.settings.url).to_string()
    }
}

/// The delay before a retry: exponential backoff with jitter. The delay doubles with each retry, and a random
/// part of up to half of it is subtracted, so that clients do not retry in step after an outage.
fn retry_delay(first: Duration, retry: u32, random: &mut Random) -> Duration {
    const PARTS: u32 = 1000;
    const MAX_DOUBLINGS: u32 = 10;
    let longest = first.saturating_mul(1 << (retry - 1).min(MAX_DOUBLINGS));
    longest / 2 + longest / 2 / PARTS * random.below(PARTS + 1)
}

/// Locks a mutex. No code in this file panics while it holds a lock, and the data would stay usable if it
/// did.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn retry_delay_doubles_and_has_jitter_of_up_to_half() {
        let mut random = Random::seeded(3);
        for (retry, longest) in [(1, 1), (2, 2), (3, 4), (11, 1024), (12, 1024), (u32::MAX, 1024)] {
            let delays: Vec<Duration> = (0..100).map(|_| retry_delay(SECOND, retry, &mut random)).collect();
            let allowed = longest * SECOND / 2..=longest * SECOND;
            assert!(delays.iter().all(|delay| allowed.contains(delay)), "{retry}: {delays:?}");
            let different: HashSet<_> = delays.iter().collect();
            assert!(different.len() > 50);
        }
        retry_delay(Duration::MAX, 5, &mut random);
    }

    #[test]
    fn key_is_not_in_the_debug_output() {
        let mut settings = PageRankConfig::new(Url::parse("http://127.0.0.1/").unwrap());
        settings.key = Some(ApiKey::new("hush\n"));
        assert!(!format!("{settings:?} {settings:#?}").contains("hush"));
        assert_eq!(settings.key.unwrap().0, "hush");
    }

    #[test]
    fn unset_key_variable_is_none() {
        assert!(ApiKey::from_variable("CRAWLER_TEST_UNSET_VARIABLE").is_none());
        assert!(ApiKey::from_variable("PATH").is_some());
    }

    #[test]
    fn better_rank_always_goes_first_and_depth_breaks_ties() {
        let settings = PageRankConfig::new(Url::parse("http://127.0.0.1/").unwrap());
        let pagerank = PageRank::new(&FetchConfig::default(), settings, Random::seeded(0)).unwrap();
        let number = |rank, depth| pagerank.priority(Some(rank), depth).number();
        assert_eq!((number(10, 0), number(0, u32::MAX)), (0, 98));
        for rank in 1..=MAX_RANK {
            assert!(number(rank, u32::MAX) < number(rank - 1, 0));
            assert!(number(rank, 1) < number(rank, 2) && number(rank, 8) == number(rank, 9));
        }
    }
}
