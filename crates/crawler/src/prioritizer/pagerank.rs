//! Priorities from a PageRank service over HTTP, in the form of the Open PageRank API.

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

/// The environment variable that holds the service's key, unless another is named.
pub const KEY_VARIABLE: &str = "CRAWLER_PAGERANK_KEY";

/// The best rank there is; the worst is 0.
const MAX_RANK: u8 = 10;

/// How many priorities one rank spans: eleven of them fit between 0 and 100.
const PRIORITIES_PER_RANK: u32 = 9;

/// A rank from 0 to 10, 10 for the most important domains.
type Rank = u8;

/// The key to the service. It is shown to nobody, and sent nowhere but to the service.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key as it was given.
    pub fn new(key: &str) -> ApiKey {
        ApiKey(key.trim().to_owned())
    }

    /// The key in an environment variable; `None` if there is none or it is empty.
    pub fn from_variable(name: &str) -> Option<ApiKey> {
        let key = ApiKey::new(&std::env::var(name).ok()?);
        (!key.0.is_empty()).then_some(key)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Which service is asked, and how patiently.
#[derive(Debug, Clone)]
pub struct PageRankConfig {
    /// Where the service is: what stands before `/api/v1.0/getPageRank`. It may be at any address, a private one
    /// included.
    pub url: Url,
    /// What proves that we may ask.
    pub key: Option<ApiKey>,
    /// What URLs get while the service cannot be asked, and those whose domain it says nothing about.
    pub fallback: Priority,
    /// The longest time for one request.
    pub timeout: Duration,
    /// How often a batch is asked for until it is given up.
    pub tries: u32,
    /// The pause before the second try; it doubles for each one more, and up to half of it is left out at random.
    pub pause: Duration,
    /// After so many failures in a row the service is left alone …
    pub failures: u32,
    /// … for so long; then one request finds out whether it is back.
    pub rest: Duration,
    /// How long an answer holds.
    pub lifetime: Duration,
    /// The most domains whose answers are remembered.
    pub remembered: usize,
}

impl PageRankConfig {
    /// A patience that holds up a crawl for at most ten seconds when the service fails.
    pub fn new(url: Url) -> PageRankConfig {
        PageRankConfig {
            url,
            key: None,
            fallback: Priority::MIDDLE,
            timeout: Duration::from_secs(3),
            tries: 3,
            pause: Duration::from_millis(250),
            failures: 3,
            rest: Duration::from_secs(30),
            // Services compute their ranks anew a few times a year.
            lifetime: Duration::from_secs(24 * 60 * 60),
            // About 100 bytes each.
            remembered: 100_000,
        }
    }
}

/// How the service has done so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRankStats {
    /// How many requests were made.
    pub requests: u64,
    /// How many of them failed.
    pub failures: u64,
    /// How many URLs got the fallback priority.
    pub fallbacks: u64,
    /// Whether it is being asked, rather than left alone after failures.
    pub asked: bool,
    /// What went wrong last.
    pub last_failure: Option<String>,
}

/// Asks a PageRank service: the better a domain's rank, the lower the number.
///
/// A URL's priority is 9 × (10 − rank), plus its depth up to 8, so that depth decides between URLs of one rank. A
/// domain that the service does not know has rank 0. Addresses and names of a single label are never told to it.
/// Its answers are remembered; while it cannot be asked, URLs get the fallback priority.
pub struct PageRank {
    service: PageRankClient,
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
    /// A prioritizer that asks by these settings; user agent, roots and name answers are those of the crawl.
    pub fn new(config: &FetchConfig, settings: PageRankConfig, random: Random) -> Result<PageRank, Error> {
        Ok(PageRank {
            service: PageRankClient::new(config, &settings)?,
            breaker: CircuitBreaker::new(settings.failures, settings.rest),
            cache: Mutex::new(Cache::new(settings.remembered, settings.lifetime)),
            settings,
            random: Mutex::new(random),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            fallbacks: AtomicU64::new(0),
            last_failure: Mutex::default(),
        })
    }

    /// How the service has done so far, for progress and summary.
    pub fn health(&self) -> PageRankStats {
        PageRankStats {
            requests: self.requests.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            fallbacks: self.fallbacks.load(Ordering::Relaxed),
            asked: !self.breaker.is_open(),
            last_failure: unpoisoned(&self.last_failure).clone(),
        }
    }

    async fn priorities(&self, candidates: &[Candidate]) -> Vec<Priority> {
        let (mut ranks, unknown) = self.remembered(candidates);
        for batch in client::batches(&unknown) {
            let Some(answer) = self.ask(batch).await else { continue };
            let mut cache = unpoisoned(&self.cache);
            for domain in batch {
                // A domain that the answer leaves out is remembered too, or each batch would ask for it again.
                let rank = answer.get(domain.as_str()).copied();
                cache.insert(domain, rank);
                ranks.insert(domain, rank);
            }
        }
        candidates
            .iter()
            .map(|it| self.priority(ranks.get(&it.domain).copied().flatten(), it.depth))
            .collect()
    }

    /// What is remembered about the candidates' domains, and those that must be asked for.
    fn remembered<'a>(
        &self,
        candidates: &'a [Candidate],
    ) -> (HashMap<&'a Domain, Option<Rank>>, Vec<&'a Domain>) {
        let mut cache = unpoisoned(&self.cache);
        let (mut ranks, mut unknown) = (HashMap::new(), Vec::new());
        let mut met = HashSet::new();
        for domain in candidates.iter().map(|candidate| &candidate.domain) {
            if !domain.is_dotted_name() || !met.insert(domain) {
                continue;
            }
            match cache.get(domain) {
                Some(rank) => drop(ranks.insert(domain, rank)),
                None => unknown.push(domain),
            }
        }
        (ranks, unknown)
    }

    /// Asks for the ranks of one batch, patiently but not for ever. `None` if there is no answer.
    async fn ask(&self, batch: &[&Domain]) -> Option<HashMap<String, Rank>> {
        for earlier in 0..self.settings.tries {
            if earlier > 0 {
                let pause = back_off(self.settings.pause, earlier, &mut unpoisoned(&self.random));
                tokio::time::sleep(pause).await;
            }
            if !self.breaker.permits() {
                return None;
            }
            self.requests.fetch_add(1, Ordering::Relaxed);
            let failure = match self.service.ranks(batch).await {
                Ok(ranks) => {
                    self.breaker.succeeded();
                    return Some(ranks);
                }
                Err(failure) => failure,
            };
            let may_pass = failure.may_pass;
            self.note(failure);
            if !may_pass {
                return None;
            }
        }
        None
    }

    fn note(&self, failure: QueryFailure) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        match failure.leave_alone {
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

/// The pause after so many tries: it doubles, and between half and all of it is waited, so that the processes of a
/// crawl that met the same outage do not come back in step.
fn back_off(first: Duration, tries: u32, random: &mut Random) -> Duration {
    const PARTS: u32 = 1000;
    // More than ten doublings are no longer a pause but an outage.
    let whole = first.saturating_mul(1 << (tries - 1).min(10));
    whole / 2 + whole / 2 / PARTS * random.below(PARTS + 1)
}

/// Nothing in here panics while holding a lock, and what is behind them stays usable if something ever did.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_and_differ_within_their_upper_half() {
        let mut random = Random::seeded(3);
        for (tries, whole) in [(1, 1), (2, 2), (3, 4), (11, 1024), (12, 1024), (u32::MAX, 1024)] {
            let pauses: Vec<Duration> = (0..100).map(|_| back_off(SECOND, tries, &mut random)).collect();
            let allowed = whole * SECOND / 2..=whole * SECOND;
            assert!(pauses.iter().all(|pause| allowed.contains(pause)), "{tries}: {pauses:?}");
            let different: HashSet<_> = pauses.iter().collect();
            assert!(different.len() > 50);
        }
        back_off(Duration::MAX, 5, &mut random);
    }

    #[test]
    fn the_key_shows_itself_to_nobody() {
        let mut settings = PageRankConfig::new(Url::parse("http://127.0.0.1/").unwrap());
        settings.key = Some(ApiKey::new("hush\n"));
        assert!(!format!("{settings:?} {settings:#?}").contains("hush"));
        assert_eq!(settings.key.unwrap().0, "hush");
    }

    #[test]
    fn a_key_that_is_not_set_is_none() {
        assert!(ApiKey::from_variable("CRAWLER_A_VARIABLE_THAT_NOBODY_SETS").is_none());
        assert!(ApiKey::from_variable("PATH").is_some());
    }

    #[test]
    fn a_better_rank_always_goes_first_and_depth_decides_between_equals() {
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
