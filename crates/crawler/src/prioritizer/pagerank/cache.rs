//! Caches ranks of domains, with a maximum size and a time to live.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Rank;
use crate::domain::Domain;

/// A cache of two generations, an approximation of LRU. When the young generation holds half of the maximum,
/// it replaces the old one, whose entries are dropped. A lookup moves an entry to the young generation.
#[derive(Debug)]
pub struct Cache {
    max_generation: usize,
    ttl: Duration,
    young: Generation,
    old: Generation,
}

type Generation = HashMap<Domain, CachedRank>;

#[derive(Debug, Clone, Copy)]
struct CachedRank {
    inserted: Instant,
    /// `None` if the response had no rank for the domain.
    rank: Option<Rank>,
}

impl Cache {
    /// An empty cache for at most `max_domains` domains.
    pub fn new(max_domains: usize, ttl: Duration) -> Cache {
        Cache { max_generation: (max_domains / 2).max(1), ttl, young: HashMap::new(), old: HashMap::new() }
    }

    /// The cached rank of a domain. The outer `None` means that it is not cached or expired.
    pub fn get(&mut self, domain: &Domain) -> Option<Option<Rank>> {
        if let Some((domain, entry)) = self.old.remove_entry(domain) {
            self.put(domain, entry);
        }
        let entry = self.young.get(domain)?;
        (entry.inserted.elapsed() < self.ttl).then_some(entry.rank)
    }

    /// Caches a rank, or that the service has none.
    pub fn insert(&mut self, domain: &Domain, rank: Option<Rank>) {
        // Otherwise `get` would replace the new entry by the old one.
        self.old.remove(domain);
        self.put(domain.clone(), CachedRank { inserted: Instant::now(), rank });
    }

    fn put(&mut self, domain: Domain, entry: CachedRank) {
        if self.young.len() >= self.max_generation && !self.young.contains_key(&domain) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(domain, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;
    use url::Url;

    const TTL: Duration = Duration::from_secs(60);

    fn domain(number: usize) -> Domain {
        Domain::from_url(&Url::parse(&format!("http://d{number}.test/")).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn entry_expires_after_its_ttl_and_a_new_one_replaces_it() {
        let mut cache = Cache::new(10, TTL);
        cache.insert(&domain(1), Some(4));
        cache.insert(&domain(2), None);
        advance(TTL - Duration::from_millis(1)).await;
        assert_eq!(cache.get(&domain(1)), Some(Some(4)));
        assert_eq!(cache.get(&domain(2)), Some(None));
        assert_eq!(cache.get(&domain(3)), None);
        cache.insert(&domain(2), Some(9));
        advance(Duration::from_millis(1)).await;
        assert_eq!(cache.get(&domain(1)), None, "a lookup does not extend the TTL");
        assert_eq!(cache.get(&domain(2)), Some(Some(9)));
    }

    #[tokio::test(start_paused = true)]
    async fn size_is_bounded_and_entries_in_use_are_kept() {
        let mut cache = Cache::new(10, TTL);
        cache.insert(&domain(0), Some(7));
        for number in 1..1000 {
            cache.insert(&domain(number), None);
            assert_eq!(cache.get(&domain(0)), Some(Some(7)));
            assert_eq!(cache.get(&domain(number)), Some(None));
            assert!(cache.young.len() + cache.old.len() <= 10);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn new_entry_wins_over_one_of_the_old_generation() {
        let mut cache = Cache::new(4, TTL);
        cache.insert(&domain(1), Some(1));
        cache.insert(&domain(2), None);
        cache.insert(&domain(3), None);
        assert!(cache.old.contains_key(&domain(1)));
        cache.insert(&domain(1), Some(9));
        assert_eq!(cache.get(&domain(1)), Some(Some(9)));
    }
}
