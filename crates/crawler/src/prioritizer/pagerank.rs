//! Prioritizes by PageRank, from a service with the Open PageRank API.

mod cache;
mod circuit_breaker;
mod client;
mod rank_service;
mod response;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use url::Url;

use self::rank_service::RankService;
use super::{Candidate, Priorities, Prioritizer, Priority, Random, ServiceStats};
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
    /// Defaults that delay new domains by at most ten seconds when the service fails.
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

/// Prioritizes by the rank of the domain: the better the rank, the better the priority.
///
/// A URL's priority is 9 × (10 − rank), plus its depth up to 8, so that depth decides between URLs of one
/// rank. A domain that the service does not know has rank 0. IP addresses and single-label names are never
/// sent to it. Ranks are cached. While the service is unavailable, URLs get the fallback priority. When it is
/// back, those that still wait are prioritized again.
pub struct PageRank {
    service: Arc<RankService>,
}

impl PageRank {
    /// A prioritizer with these settings, and the crawl's user agent, trusted certificates and DNS overrides.
    pub fn new(config: &FetchConfig, settings: PageRankConfig, random: Random) -> Result<PageRank, Error> {
        Ok(PageRank { service: Arc::new(RankService::new(config, settings, random)?) })
    }

    /// The counters so far.
    pub fn stats(&self) -> ServiceStats {
        self.service.stats()
    }

    async fn priorities(&self, candidates: &[Candidate]) -> Vec<Priority> {
        let mut seen = HashSet::new();
        let mut domains: Vec<&Domain> = candidates.iter().map(|candidate| &candidate.domain).collect();
        domains.retain(|domain| domain.is_dotted_name() && seen.insert(*domain));
        let lookups = self.service.look_up(domains.iter().copied());
        let mut ranks = HashMap::new();
        for (domain, lookup) in domains.into_iter().zip(lookups) {
            ranks.insert(domain, lookup.rank().await.flatten());
        }
        candidates
            .iter()
            .map(|candidate| self.priority(ranks.get(&candidate.domain).copied().flatten(), candidate.depth))
            .collect()
    }

    fn priority(&self, rank: Option<Rank>, depth: Depth) -> Priority {
        let Some(rank) = rank else {
            self.service.fallbacks.fetch_add(1, Ordering::Relaxed);
            return self.service.settings().fallback;
        };
        let below_best = u32::from(MAX_RANK.saturating_sub(rank));
        Priority::at_most_worst(below_best * PRIORITIES_PER_RANK + depth.min(PRIORITIES_PER_RANK - 1))
    }
}

impl Prioritizer for PageRank {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        Box::pin(self.priorities(candidates))
    }

    fn known_priority(&self, candidate: &Candidate) -> Option<Priority> {
        let Candidate { domain, depth, .. } = candidate;
        let rank = if domain.is_dotted_name() { self.service.cached(domain)? } else { None };
        Some(self.priority(rank, *depth))
    }

    fn take_revised_domains(&self) -> Vec<Domain> {
        self.service.take_unranked()
    }
}

/// Locks a mutex. No code of this module panics while it holds a lock, and the data would stay usable if it
/// did.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

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
