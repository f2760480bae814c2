//! Looks up ranks: caches them, sends the domains of concurrent lookups in common requests, and remembers the
//! domains whose lookup failed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::cache::Cache;
use super::circuit_breaker::CircuitBreaker;
use super::client::{self, PageRankClient, QueryFailure};
use super::{PageRankConfig, Rank, unpoisoned};
use crate::config::FetchConfig;
use crate::domain::Domain;
use crate::error::Error;
use crate::prioritizer::{Random, ServiceStats};

/// Requests at a time. With a response time of 2 s, they look up 400 domains per second.
const MAX_REQUESTS: usize = 8;

/// The most domains to look up again after an outage, about 100 bytes each. The URLs of further ones keep
/// their fallback priority.
const MAX_UNRANKED: usize = 100_000;

/// The ranks of domains. Its requests run as tasks of the runtime of their callers.
pub struct RankService {
    client: PageRankClient,
    settings: PageRankConfig,
    breaker: CircuitBreaker,
    cache: Mutex<Cache>,
    queue: Mutex<LookupQueue>,
    unranked: Mutex<UnrankedDomains>,
    random: Mutex<Random>,
    requests: AtomicU64,
    failures: AtomicU64,
    pub fallbacks: AtomicU64,
    last_failure: Mutex<Option<String>>,
}

/// The lookups in progress.
#[derive(Default)]
struct LookupQueue {
    /// The domains that wait for a request, in order.
    waiting: VecDeque<Domain>,
    /// The callers of each domain that waits or is in a request.
    callers: HashMap<Domain, Vec<oneshot::Sender<Option<Rank>>>>,
    /// Requests in flight.
    requests: usize,
}

/// The domains whose lookup failed.
struct UnrankedDomains {
    domains: HashSet<Domain>,
    /// When they may be looked up again.
    retry_at: Instant,
}

/// A lookup: `Some(None)` if the service has no rank, `None` if the lookup failed.
pub enum RankLookup {
    Cached(Option<Rank>),
    Pending(oneshot::Receiver<Option<Rank>>),
}

impl RankLookup {
    pub async fn rank(self) -> Option<Option<Rank>> {
        match self {
            RankLookup::Cached(rank) => Some(rank),
            RankLookup::Pending(rank) => rank.await.ok(),
        }
    }
}

impl RankService {
    pub fn new(config: &FetchConfig, settings: PageRankConfig, random: Random) -> Result<RankService, Error> {
        Ok(RankService {
            client: PageRankClient::new(config, &settings)?,
            breaker: CircuitBreaker::new(settings.failures_to_open, settings.cooldown),
            cache: Mutex::new(Cache::new(settings.cache_size, settings.cache_ttl)),
            queue: Mutex::default(),
            unranked: Mutex::new(UnrankedDomains { domains: HashSet::new(), retry_at: Instant::now() }),
            settings,
            random: Mutex::new(random),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            fallbacks: AtomicU64::new(0),
            last_failure: Mutex::default(),
        })
    }

    pub fn settings(&self) -> &PageRankConfig {
        &self.settings
    }

    pub fn stats(&self) -> ServiceStats {
        ServiceStats {
            requests: self.requests.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            fallbacks: self.fallbacks.load(Ordering::Relaxed),
            is_available: !self.breaker.is_open(),
            last_failure: unpoisoned(&self.last_failure).clone(),
        }
    }

    /// The cached rank of a domain: `Some(None)` if the service has none.
    pub fn cached(&self, domain: &Domain) -> Option<Option<Rank>> {
        unpoisoned(&self.cache).get(domain)
    }

    /// Looks up domains, which must not be repeated.
    pub fn look_up<'d>(self: &Arc<Self>, domains: impl Iterator<Item = &'d Domain>) -> Vec<RankLookup> {
        let lookups = domains.map(|domain| match self.cached(domain) {
            Some(rank) => RankLookup::Cached(rank),
            None => {
                let (caller, rank) = oneshot::channel();
                unpoisoned(&self.queue).add(domain).push(caller);
                RankLookup::Pending(rank)
            }
        });
        let lookups = lookups.collect();
        self.start_requests();
        lookups
    }

    /// Takes the domains whose lookup failed, if the service is back. They stay untaken for a cooldown after
    /// the first failure, so that a request that always fails is not repeated without end. If no request has
    /// tested whether the service is back, this starts one.
    pub fn take_unranked(self: &Arc<Self>) -> Vec<Domain> {
        let mut unranked = unpoisoned(&self.unranked);
        if unranked.domains.is_empty() || Instant::now() < unranked.retry_at {
            return Vec::new();
        }
        if !self.breaker.is_open() {
            return std::mem::take(&mut unranked.domains).into_iter().collect();
        }
        if self.breaker.is_trial_due() {
            let mut queue = unpoisoned(&self.queue);
            for domain in unranked.domains.iter().take(client::MAX_BATCH) {
                queue.add(domain);
            }
            drop((unranked, queue));
            self.start_requests();
        }
        Vec::new()
    }

    /// Starts requests for the domains that wait, as many as are allowed.
    fn start_requests(self: &Arc<Self>) {
        let mut queue = unpoisoned(&self.queue);
        while queue.requests < MAX_REQUESTS && !queue.waiting.is_empty() {
            let length = client::batch_length(queue.waiting.iter());
            let batch = queue.waiting.drain(..length).collect();
            queue.requests += 1;
            tokio::spawn(RankRequest { service: Arc::clone(self), batch }.run());
        }
    }

    /// Requests the ranks of one batch, with retries. `None` if all attempts fail or the circuit breaker is
    /// open.
    async fn query(&self, batch: &[Domain]) -> Option<HashMap<String, Rank>> {
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
            let is_retryable = failure.is_retryable;
            self.record_failure(failure);
            if !is_retryable {
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
}

impl LookupQueue {
    /// Adds a domain, unless it is being looked up. Returns its callers.
    fn add(&mut self, domain: &Domain) -> &mut Vec<oneshot::Sender<Option<Rank>>> {
        if !self.callers.contains_key(domain) {
            self.waiting.push_back(domain.clone());
        }
        self.callers.entry(domain.clone()).or_default()
    }
}

/// A request, with its retries. When it is dropped, the lookups of its domains that have no result fail.
struct RankRequest {
    service: Arc<RankService>,
    batch: Vec<Domain>,
}

impl RankRequest {
    async fn run(self) {
        if let Some(response) = self.service.query(&self.batch).await {
            let (mut cache, mut queue) = (unpoisoned(&self.service.cache), unpoisoned(&self.service.queue));
            for domain in &self.batch {
                // A domain that is not in the response is cached too, or each batch would query it again.
                let rank = response.get(domain.as_str()).copied();
                cache.insert(domain, rank);
                for caller in queue.callers.remove(domain).unwrap_or_default() {
                    // A caller that no longer waits needs no rank.
                    let _ = caller.send(rank);
                }
            }
        }
        let service = Arc::clone(&self.service);
        drop(self);
        service.start_requests();
    }
}

impl Drop for RankRequest {
    fn drop(&mut self) {
        let mut queue = unpoisoned(&self.service.queue);
        queue.requests -= 1;
        self.batch.retain(|domain| queue.callers.remove(domain).is_some());
        drop(queue);
        let mut unranked = unpoisoned(&self.service.unranked);
        for domain in self.batch.drain(..) {
            unranked.add(domain, self.service.settings.cooldown);
        }
    }
}

impl UnrankedDomains {
    fn add(&mut self, domain: Domain, cooldown: Duration) {
        if self.domains.is_empty() {
            self.retry_at = Instant::now() + cooldown;
        }
        if self.domains.len() < MAX_UNRANKED {
            self.domains.insert(domain);
        }
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
    fn number_of_domains_to_look_up_again_is_bounded() {
        let mut unranked = UnrankedDomains { domains: HashSet::new(), retry_at: Instant::now() };
        for number in 0..MAX_UNRANKED + 100 {
            unranked.add(Domain::named(&format!("d{number}.test")), SECOND);
        }
        assert_eq!(unranked.domains.len(), MAX_UNRANKED);
    }
}
