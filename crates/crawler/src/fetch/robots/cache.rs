//! Caches the robots.txt of recently used origins, within limits of number, bytes and age.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::rules::Rules;
use super::waits::WaitingSite;
use crate::origin::Origin;
use crate::outcome::Outcome;

/// How long a robots.txt is used before it is fetched again.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a failure is remembered. Longer than any pause between two tries, and short enough that a long crawl notices
/// when the server has recovered.
const FAILURE_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Capacity of the cache, in origins. At least the most recently used half of them stays. An evicted robots.txt is
/// fetched again when needed.
const MAX_CACHED: usize = 20_000;

/// Capacity of the cache, in bytes of parsed rules, not counting the last file of either generation: half a megabyte
/// of short rules takes some ten megabytes when parsed.
const MAX_CACHED_BYTES: usize = 16 * 1024 * 1024;

/// Two generations of entries. When the young one is full it becomes the old one, and the old one is dropped.
#[derive(Default)]
pub(super) struct RobotsCache {
    young: HashMap<Origin, Arc<CacheEntry>>,
    /// Bytes of the rules in the young generation.
    young_bytes: usize,
    old: HashMap<Origin, Arc<CacheEntry>>,
}

pub(super) struct CacheEntry {
    created: Instant,
    /// Bytes of the rules; 0 until they are fetched.
    bytes: AtomicUsize,
    /// The rules, or the outcome of every URL of the origin if they could not be fetched. The first caller fetches
    /// them; the others wait for it.
    pub(super) rules: OnceCell<Result<Rules, Outcome>>,
    failures: Mutex<Option<Failures>>,
    /// Names the origin in progress displays while its URLs wait outside this process's requests.
    waiting: Mutex<Option<WaitingSite>>,
    /// The crawl has the sitemaps that the file names.
    pub(super) has_admitted_sitemaps: AtomicBool,
    /// The host that robots.txt redirects to and that only another process may send requests to, and when that was found
    /// out.
    elsewhere: Mutex<Option<(String, Instant)>>,
}

/// The failed tries to fetch a robots.txt.
#[derive(Clone)]
pub(super) struct Failures {
    tries: u32,
    /// When the first try failed.
    pub(super) first: Instant,
    /// When the last try failed.
    last: Instant,
    /// The outcome of the last try.
    pub(super) outcome: Outcome,
}

impl RobotsCache {
    /// Returns the entry of an origin, new if there is none or it has expired, and moves it to the young generation.
    pub(super) fn entry(&mut self, origin: &Origin) -> Arc<CacheEntry> {
        if let Some(entry) = self.young.get(origin) {
            if entry.is_fresh() {
                return Arc::clone(entry);
            }
            self.young_bytes -= self.young.remove(origin).map_or(0, |entry| entry.bytes());
        }
        let cached = self.old.remove(origin).filter(|entry| entry.is_fresh());
        let entry = cached.unwrap_or_else(|| Arc::new(CacheEntry::new()));
        self.insert(origin, &entry);
        entry
    }

    /// Sets the size of an entry's rules, unless the entry has been evicted.
    pub(super) fn set_bytes(&mut self, origin: &Origin, entry: &Arc<CacheEntry>, bytes: usize) {
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
    fn new() -> CacheEntry {
        CacheEntry {
            created: Instant::now(),
            bytes: AtomicUsize::new(0),
            rules: OnceCell::new(),
            failures: Mutex::default(),
            waiting: Mutex::default(),
            has_admitted_sitemaps: AtomicBool::new(false),
            elsewhere: Mutex::new(None),
        }
    }

    fn is_fresh(&self) -> bool {
        let last_failure = self.lock_failures().as_ref().map(|failures| failures.last);
        match (self.rules.get(), last_failure) {
            (None | Some(Err(_)), Some(last)) => last.elapsed() < FAILURE_LIFETIME,
            _ => self.created.elapsed() < LIFETIME,
        }
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Records a failed try, and returns how many there were.
    pub(super) fn record_failure(&self, outcome: &Outcome) -> u32 {
        let (mut failures, now) = (self.lock_failures(), Instant::now());
        let (tries, first) = failures.as_ref().map_or((1, now), |before| (before.tries + 1, before.first));
        *failures = Some(Failures { tries, first, last: now, outcome: outcome.clone() });
        tries
    }

    /// The failed tries so far; `None` if there were none.
    pub(super) fn failures(&self) -> Option<Failures> {
        self.lock_failures().clone()
    }

    /// Keeps what names the origin in progress displays, until the next try.
    pub(super) fn keep_waiting(&self, waiting: Option<WaitingSite>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = waiting;
    }

    /// Takes what was kept since the last try.
    pub(super) fn take_waiting(&self) -> Option<WaitingSite> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The host that robots.txt redirects to, if another process had to fetch it when this was last tried.
    pub(super) fn elsewhere(&self) -> Option<(String, Instant)> {
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_elsewhere(&self, host: String) {
        let found = Some((host, Instant::now()));
        *self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    fn lock_failures(&self) -> MutexGuard<'_, Option<Failures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[tokio::test(start_paused = true)]
    async fn rules_are_cached_for_a_day_and_failures_for_minutes() {
        let minute = Duration::from_secs(60);
        for (rules, lifetime) in [
            (Some(Ok(Rules::allow_all())), LIFETIME),
            (Some(Err(Outcome::RobotsDisallowed)), 10 * minute),
            (None, 10 * minute),
        ] {
            let mut cache = RobotsCache::default();
            let entry = cache.entry(&origin(0));
            let failure = Outcome::RobotsUnavailable { cause: "HTTP 503".into() };
            assert_eq!((entry.record_failure(&failure), entry.record_failure(&failure)), (1, 2));
            if let Some(rules) = rules {
                entry.rules.set(rules).unwrap();
            }
            tokio::time::advance(lifetime - minute).await;
            assert!(Arc::ptr_eq(&cache.entry(&origin(0)), &entry));
            tokio::time::advance(minute).await;
            assert_eq!(cache.entry(&origin(0)).record_failure(&failure), 1, "it is a new entry");
        }
    }
}
