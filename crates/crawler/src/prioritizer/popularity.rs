//! Counts, for each domain, the distinct pages that link to it.

use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;

use crate::domain::Domain;
use crate::keyed_map::KeyedState;

/// The most domains that are counted: a hash table of 2²¹ slots, which takes 36 MB, at its maximum load. The
/// domains found first are those near the seeds. Those found after the table is full have few pages that link
/// to them.
const MAX_DOMAINS: usize = (1 << 21) / 8 * 7;

/// The number of pages that link to each domain, in 16 bytes per domain.
#[derive(Debug)]
pub struct Popularity {
    max_domains: usize,
    /// Randomly keyed, so that a page cannot choose domains that collide.
    hasher: KeyedState,
    pages: Mutex<HashTable<(u64, u32)>>,
}

impl Popularity {
    /// An empty count.
    pub fn new() -> Popularity {
        Popularity::with_max_domains(MAX_DOMAINS)
    }

    /// Counts at most `max_domains` domains. Those found later stay at 0.
    fn with_max_domains(max_domains: usize) -> Popularity {
        Popularity { max_domains, hasher: KeyedState::default(), pages: Mutex::default() }
    }

    /// Counts a page that links to these domains, which must not be repeated. Call it once per page.
    pub fn count_page<'a>(&self, links_to: impl IntoIterator<Item = &'a Domain>) {
        let mut pages = self.pages();
        for domain in links_to {
            let hash = self.hasher.hash_one(domain);
            let is_full = pages.len() >= self.max_domains;
            match pages.find_mut(hash, |(domain, _)| *domain == hash) {
                Some((_, count)) => *count = count.saturating_add(1),
                None if is_full => {}
                None => {
                    pages.insert_unique(hash, (hash, 1), |(domain, _)| *domain);
                }
            }
        }
    }

    /// Restores the count of a domain from an earlier process.
    pub(crate) fn resume(&self, domain: &Domain, pages: u32) {
        let hash = self.hasher.hash_one(domain);
        let mut counted = self.pages();
        if counted.len() < self.max_domains && counted.find(hash, |(other, _)| *other == hash).is_none() {
            counted.insert_unique(hash, (hash, pages), |(domain, _)| *domain);
        }
    }

    /// The number of counted pages that link to the domain.
    pub fn linking_pages(&self, domain: &Domain) -> u32 {
        let hash = self.hasher.hash_one(domain);
        self.pages().find(hash, |(domain, _)| *domain == hash).map_or(0, |(_, count)| *count)
    }

    fn pages(&self) -> MutexGuard<'_, HashTable<(u64, u32)>> {
        // A panic while the lock is held cannot leave a wrong count.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Popularity {
    fn default() -> Popularity {
        Popularity::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};
    use url::Url;

    fn domain(name: u8) -> Domain {
        Domain::from_url(&Url::parse(&format!("http://d{name}.test/")).unwrap())
    }

    #[test]
    fn page_counts_once_per_domain() {
        let popularity = Popularity::new();
        popularity.count_page([&domain(1), &domain(2)]);
        popularity.count_page([&domain(1)]);
        popularity.count_page([]);
        let counted = [1, 2, 3].map(|name| popularity.linking_pages(&domain(name)));
        assert_eq!(counted, [2, 1, 0]);
    }

    #[test]
    fn full_table_still_counts_the_domains_it_has() {
        let popularity = Popularity::with_max_domains(2);
        for _ in 0..3 {
            for name in 0..5 {
                popularity.count_page([&domain(name)]);
            }
        }
        let counted = [0, 1, 2, 3, 4].map(|name| popularity.linking_pages(&domain(name)));
        assert_eq!(counted, [3, 3, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn counts_match_a_map_of_sets(pages in proptest::collection::vec(proptest::collection::vec(0..30u8, 0..20), 0..40)) {
            let popularity = Popularity::new();
            let mut expected: HashMap<u8, u32> = HashMap::new();
            for page in &pages {
                let page: HashSet<&u8> = page.iter().collect();
                let domains: Vec<Domain> = page.iter().map(|name| domain(**name)).collect();
                popularity.count_page(&domains);
                for name in page {
                    *expected.entry(*name).or_default() += 1;
                }
            }
            for name in 0..30 {
                prop_assert_eq!(popularity.linking_pages(&domain(name)), expected.get(&name).copied().unwrap_or(0));
            }
        }
    }
}
