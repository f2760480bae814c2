//! Remembers what a service said about domains, so many at most and for so long at most.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Rank;
use crate::domain::Domain;

/// Answers in two generations: when the young one has taken in half of what may be remembered, it becomes the old
/// one, and the old one is forgotten. What is asked for stays young.
#[derive(Debug)]
pub struct Cache {
    half: usize,
    lifetime: Duration,
    young: Generation,
    old: Generation,
}

type Generation = HashMap<Domain, Entry>;

#[derive(Debug, Clone, Copy)]
struct Entry {
    since: Instant,
    /// `None` where the service said nothing.
    rank: Option<Rank>,
}

impl Cache {
    /// An empty one, for so many domains.
    pub fn new(domains: usize, lifetime: Duration) -> Cache {
        Cache { half: (domains / 2).max(1), lifetime, young: HashMap::new(), old: HashMap::new() }
    }

    /// What was said about a domain, if that is known and not too old.
    pub fn get(&mut self, domain: &Domain) -> Option<Option<Rank>> {
        if let Some((domain, entry)) = self.old.remove_entry(domain) {
            self.put(domain, entry);
        }
        let entry = self.young.get(domain)?;
        (entry.since.elapsed() < self.lifetime).then_some(entry.rank)
    }

    /// Remembers what was said just now.
    pub fn insert(&mut self, domain: &Domain, rank: Option<Rank>) {
        // Else it would come back from there in place of this one.
        self.old.remove(domain);
        self.put(domain.clone(), Entry { since: Instant::now(), rank });
    }

    fn put(&mut self, domain: Domain, entry: Entry) {
        if self.young.len() >= self.half && !self.young.contains_key(&domain) {
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

    const LIFETIME: Duration = Duration::from_secs(60);

    fn domain(number: usize) -> Domain {
        Domain::from_url(&Url::parse(&format!("http://d{number}.test/")).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_for_its_lifetime_and_a_new_one_takes_its_place() {
        let mut cache = Cache::new(10, LIFETIME);
        cache.insert(&domain(1), Some(4));
        cache.insert(&domain(2), None);
        advance(LIFETIME - Duration::from_millis(1)).await;
        assert_eq!(cache.get(&domain(1)), Some(Some(4)));
        assert_eq!(cache.get(&domain(2)), Some(None));
        assert_eq!(cache.get(&domain(3)), None);
        cache.insert(&domain(2), Some(9));
        advance(Duration::from_millis(1)).await;
        assert_eq!(cache.get(&domain(1)), None, "looking it up has not made it younger");
        assert_eq!(cache.get(&domain(2)), Some(Some(9)));
    }

    #[tokio::test(start_paused = true)]
    async fn it_never_holds_more_than_it_may_and_keeps_what_is_asked_for() {
        let mut cache = Cache::new(10, LIFETIME);
        cache.insert(&domain(0), Some(7));
        for number in 1..1000 {
            cache.insert(&domain(number), None);
            assert_eq!(cache.get(&domain(0)), Some(Some(7)));
            assert_eq!(cache.get(&domain(number)), Some(None));
            assert!(cache.young.len() + cache.old.len() <= 10);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_answer_is_not_overruled_by_the_one_of_the_old_generation() {
        let mut cache = Cache::new(4, LIFETIME);
        cache.insert(&domain(1), Some(1));
        cache.insert(&domain(2), None);
        cache.insert(&domain(3), None);
        assert!(cache.old.contains_key(&domain(1)));
        cache.insert(&domain(1), Some(9));
        assert_eq!(cache.get(&domain(1)), Some(Some(9)));
    }
}
