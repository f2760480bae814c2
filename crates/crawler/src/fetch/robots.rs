//! Fetches robots.txt once per origin and day, caches its rules and obeys them.

pub mod rules;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;
use url::Url;

use self::rules::Rules;
use super::http::BodyPolicy;
use super::polite_client::{FetchBudget, PoliteClient};
use crate::backend::HostDelay;
use crate::config::{MAX_CRAWL_DELAY, PRODUCT_TOKEN};
use crate::domain::Domain;
use crate::html;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::stats::BodyBytes;

/// How long a robots.txt is used before it is fetched again.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How much of a robots.txt is read. RFC 9309 requires at least 500 KiB.
const MAX_BYTES: usize = 512 * 1024;

/// How many redirects of a robots.txt are followed. After more, RFC 9309 allows to treat it as missing.
const MAX_REDIRECTS: usize = 5;

/// How often a failing robots.txt is requested before it counts as unavailable.
const MAX_TRIES: usize = 3;

/// Capacity of the cache, in origins. At least the most recently used half of them stays. An evicted robots.txt is
/// fetched again when needed.
const MAX_CACHED: usize = 20_000;

/// Capacity of the cache, in bytes of parsed rules, not counting the last file of either generation: half a megabyte
/// of short rules takes some ten megabytes when parsed.
const MAX_CACHED_BYTES: usize = 16 * 1024 * 1024;

/// The robots.txt rules of recently used origins.
#[derive(Default)]
pub struct Robots {
    cache: Mutex<RobotsCache>,
}

/// Two generations of entries. When the young one is full it becomes the old one, and the old one is dropped.
#[derive(Default)]
struct RobotsCache {
    young: HashMap<Origin, Arc<CacheEntry>>,
    /// Bytes of the rules in the young generation.
    young_bytes: usize,
    old: HashMap<Origin, Arc<CacheEntry>>,
}

struct CacheEntry {
    created: Instant,
    /// Bytes of the rules; 0 until they are fetched.
    bytes: AtomicUsize,
    /// The rules, or the outcome of every URL of the origin if they could not be fetched. The first caller fetches
    /// them; the others wait for it.
    rules: OnceCell<Result<Rules, Outcome>>,
}

impl Robots {
    /// Checks whether robots.txt allows a URL. If it does not, or cannot be fetched, the error is the URL's outcome.
    pub async fn check(
        &self,
        url: &Url,
        client: &PoliteClient,
        budget: &impl FetchBudget,
    ) -> Result<(), Outcome> {
        let origin = Origin::from_url(url);
        let (entry, robots_budget) = (self.cache().entry(&origin), RobotsBudget(budget));
        let fetch = async {
            let rules = fetch_rules(&origin, client, &robots_budget).await;
            self.cache().set_bytes(&origin, &entry, rules.as_ref().map_or(0, cached_bytes));
            rules
        };
        match entry.rules.get_or_try_init(|| fetch).await? {
            Ok(rules) => {
                // On every check, because the throttle forgets a host that has been idle for long.
                apply_crawl_delay(&origin, rules, client, &robots_budget).await;
                if rules.allows(url) { Ok(()) } else { Err(Outcome::RobotsDisallowed) }
            }
            Err(outcome) => Err(outcome.clone()),
        }
    }

    fn cache(&self) -> MutexGuard<'_, RobotsCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RobotsCache {
    /// Returns the entry of an origin, new if there is none or it has expired, and moves it to the young generation.
    fn entry(&mut self, origin: &Origin) -> Arc<CacheEntry> {
        let is_fresh = |entry: &Arc<CacheEntry>| entry.created.elapsed() < LIFETIME;
        if let Some(entry) = self.young.get(origin) {
            if is_fresh(entry) {
                return Arc::clone(entry);
            }
            self.young_bytes -= self.young.remove(origin).map_or(0, |entry| entry.bytes());
        }
        let cached = self.old.remove(origin).filter(is_fresh);
        let entry = cached.unwrap_or_else(|| {
            Arc::new(CacheEntry {
                created: Instant::now(),
                bytes: AtomicUsize::new(0),
                rules: OnceCell::new(),
            })
        });
        self.insert(origin, &entry);
        entry
    }

    /// Sets the size of an entry's rules, unless the entry has been evicted.
    fn set_bytes(&mut self, origin: &Origin, entry: &Arc<CacheEntry>, bytes: usize) {
        let is_entry =
            |cached: Option<&Arc<CacheEntry>>| cached.is_some_and(|cached| Arc::ptr_eq(cached, entry));
        if is_entry(self.young.get(origin)) {
            self.young.remove(origin);
        } else if is_entry(self.old.get(origin)) {
            self.old.remove(origin);
        } else {
            return;
        }
        entry.bytes.store(bytes, Ordering::Relaxed);
        self.insert(origin, entry);
    }

    /// Inserts an entry into the young generation. If that is full, it becomes the old one first.
    fn insert(&mut self, origin: &Origin, entry: &Arc<CacheEntry>) {
        let bytes = self.young_bytes + entry.bytes();
        if self.young.len() >= MAX_CACHED / 2 || bytes > MAX_CACHED_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += entry.bytes();
        self.young.insert(origin.clone(), Arc::clone(entry));
    }
}

impl CacheEntry {
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn cached_bytes(rules: &Result<Rules, Outcome>) -> usize {
    match rules {
        Ok(rules) => rules.bytes(),
        Err(outcome) => outcome.to_string().len(),
    }
}

/// The budget of a robots.txt request. Its bytes do not count against the crawl's limit, because robots.txt has a
/// limit of its own. A longer delay is passed on to the budget of the URL that is checked.
struct RobotsBudget<'a, B>(&'a B);

impl<B: FetchBudget> FetchBudget for RobotsBudget<'_, B> {
    async fn before_wait(&self) {}

    async fn body_policy(&self) -> Result<Option<BodyPolicy>, Outcome> {
        Ok(Some(BodyPolicy::Prefix(MAX_BYTES)))
    }

    fn record_bytes(&self, _: BodyBytes) {}

    async fn host_slowed(&self, host: &str, host_delay: HostDelay) {
        self.0.host_slowed(host, host_delay).await;
    }
}

/// Fetches an origin's rules, with retries. The inner error is the outcome of every URL of the origin. The outer error
/// means that the crawl is stopping; nothing is cached then.
async fn fetch_rules(
    origin: &Origin,
    client: &PoliteClient,
    budget: &impl FetchBudget,
) -> Result<Result<Rules, Outcome>, Outcome> {
    let mut tries = 0;
    loop {
        tries += 1;
        match try_fetch_rules(origin, client, budget).await {
            Ok(rules) => {
                apply_crawl_delay(origin, &rules, client, budget).await;
                return Ok(Ok(rules));
            }
            Err(Outcome::NotReached) => return Err(Outcome::NotReached),
            Err(failure) if tries == MAX_TRIES || failure.exceeds_max_retry_after() => {
                return Ok(Err(url_outcome(failure)));
            }
            Err(_) => {}
        }
    }
}

/// The outcome of a URL whose robots.txt could not be fetched: the failure itself if the host cannot be reached, as
/// the page could not be fetched either; otherwise that robots.txt is unavailable.
fn url_outcome(failure: Outcome) -> Outcome {
    match failure {
        Outcome::DnsFailed { .. }
        | Outcome::BlockedAddress { .. }
        | Outcome::ConnectionFailed { .. }
        | Outcome::TlsFailed { .. }
        | Outcome::Timeout { .. }
        | Outcome::RobotsUnavailable { .. } => failure,
        failure => Outcome::RobotsUnavailable { cause: failure.to_string() },
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

/// Fetches an origin's rules once, following redirects.
async fn try_fetch_rules(
    origin: &Origin,
    client: &PoliteClient,
    budget: &impl FetchBudget,
) -> Result<Rules, Outcome> {
    let root = Url::parse(&origin.to_string())
        .map_err(|error| Outcome::InvalidResponse { cause: error.to_string() })?;
    let mut url = html::resolve(&root, "/robots.txt").unwrap_or(root);
    for redirects in 0..=MAX_REDIRECTS {
        let response = client.send(&url, budget).await.map_err(|failure| match failure {
            Outcome::NotReached => Outcome::NotReached,
            // The redirect's target cannot be reached, but the origin itself can.
            failure if redirects > 0 => Outcome::RobotsUnavailable { cause: failure.to_string() },
            failure => failure,
        })?;
        match (response.status, response.redirect) {
            (_, Some(location)) => match html::resolve(&url, &location) {
                // Another worker may own the other domain.
                Ok(target)
                    if client.has_liveness() && Domain::from_url(&target) != Domain::from_url(&url) =>
                {
                    break;
                }
                Ok(target) => url = target,
                Err(_) => break,
            },
            (200..=299, None) => return Ok(Rules::parse(complete_lines(&response.body), PRODUCT_TOKEN)),
            // 429 means an overloaded server, not a missing file, although it is a 4xx status.
            (status @ (429 | 500..), None) => {
                return Err(Outcome::HttpStatus { code: status, retry_after: response.retry_after });
            }
            _ => break,
        }
    }
    Ok(Rules::allow_all())
}

/// Drops the last line of a body at the size limit, because it may be truncated.
fn complete_lines(body: &[u8]) -> &[u8] {
    if body.len() < MAX_BYTES {
        return body;
    }
    let end = body.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(0);
    &body[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::http::Downloader;
    use crate::fetch::throttle::HostThrottle;
    use crate::stop::StopHandle;

    #[test]
    fn line_truncated_by_the_size_limit_is_ignored() {
        assert_eq!(complete_lines(b"Disallow: /a"), b"Disallow: /a");
        let mut long = vec![b'#'; MAX_BYTES - 13];
        long.extend_from_slice(b"\nDisallow: /a");
        assert_eq!(complete_lines(&long).last(), Some(&b'#'));
    }

    fn origin(number: usize) -> Origin {
        Origin { https: false, host: format!("h{number}.test"), port: 80 }
    }

    /// Bytes of all cached rules.
    fn bytes_in(cache: &RobotsCache) -> usize {
        cache.young.values().chain(cache.old.values()).map(|entry| entry.bytes()).sum()
    }

    #[test]
    fn cache_is_limited_in_bytes_and_keeps_the_most_recently_used_origins() {
        let mut cache = RobotsCache::default();
        let bytes = MAX_CACHED_BYTES / 100;
        for number in 0..1_000 {
            let entry = cache.entry(&origin(number));
            cache.set_bytes(&origin(number), &entry, bytes);
            assert!(bytes_in(&cache) <= MAX_CACHED_BYTES);
        }
        assert!(cache.young.len() + cache.old.len() > 50);
        assert_eq!(cache.entry(&origin(999)).bytes(), bytes);
        assert_eq!(cache.entry(&origin(0)).bytes(), 0, "it was evicted");
    }

    #[tokio::test(start_paused = true)]
    async fn crawl_delay_is_applied_again_after_the_throttle_forgot_the_host() {
        let robots = Robots::default();
        let rules = Rules::parse(b"User-agent: *\nCrawl-delay: 20\nDisallow: /no", PRODUCT_TOKEN);
        robots.cache().entry(&origin(0)).rules.set(Ok(rules)).unwrap();
        for path in ["/yes", "/no"] {
            let throttle = Arc::new(HostThrottle::new(Duration::from_secs(1), 1));
            let downloader = Downloader::new(Arc::default(), &[]).unwrap();
            let client = PoliteClient::new(Arc::clone(&throttle), 1, downloader, StopHandle::new());
            let url = Url::parse(&format!("http://h0.test{path}")).unwrap();
            let checked = robots.check(&url, &client, &BodyPolicy::page(1)).await;
            assert_eq!(checked.is_ok(), path == "/yes");
            let host_delay = throttle.host_delay("h0.test").expect("the host has a delay again");
            assert_eq!(host_delay.delay, Duration::from_secs(20));
        }
    }

    #[test]
    fn cache_is_limited_in_origins() {
        let mut cache = RobotsCache::default();
        for number in 0..3 * MAX_CACHED {
            let entry = cache.entry(&origin(number));
            cache.set_bytes(&origin(number), &entry, 1);
        }
        let count = cache.young.len() + cache.old.len();
        assert!((MAX_CACHED / 2..=MAX_CACHED).contains(&count), "{count}");
    }

    #[test]
    fn rules_of_an_evicted_origin_are_not_cached() {
        let mut cache = RobotsCache::default();
        let slow = cache.entry(&origin(0));
        for number in 1..=MAX_CACHED {
            cache.entry(&origin(number));
        }
        cache.set_bytes(&origin(0), &slow, 1_000);
        assert_eq!((bytes_in(&cache), cache.young_bytes), (0, 0));
    }
}
