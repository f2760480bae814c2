//! Every link met in one crawl, each exactly once; only this file knows how they are found again.

use super::pools::Link;
use super::sync::{Mutex, RandomState};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::BuildHasher;

/// How many locks the set is spread over, so that parsers seldom meet at one. A power of two.
const SHARDS: usize = 64;

/// The links met so far. It never shrinks.
pub(crate) struct Seen {
    /// Keyed at random, so that no page can choose links that collide.
    hasher: RandomState,
    shards: [Mutex<HashTable<(u64, Link)>>; SHARDS],
}

impl Seen {
    pub(crate) fn new() -> Self {
        Seen { hasher: RandomState::new(), shards: std::array::from_fn(|_| Mutex::new(HashTable::new())) }
    }

    /// Remembers a link. Returns it if it is new: to exactly one caller, however many ask at once.
    pub(crate) fn insert(&self, link: &[u8]) -> Option<Link> {
        let hash = self.hasher.hash_one(link);
        // The table within a shard goes by the other bits of the hash.
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        let mut links = shard.lock().expect("nothing under this lock panics");
        let known = |(other_hash, other): &(u64, Link)| *other_hash == hash && **other == *link;
        match links.entry(hash, known, |(hash, _)| *hash) {
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => {
                let link = Link::from(link);
                place.insert((hash, link.clone()));
                Some(link)
            }
        }
    }
}
