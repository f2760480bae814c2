//! Every link met in one crawl, each exactly once; only this file knows how they are found again.

use super::sync::{Mutex, RandomState};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::BuildHasher;

/// How many locks the set is spread over, so that parsers seldom meet at one. A power of two.
const SHARDS: usize = 64;

/// The links met so far. It never shrinks.
pub(crate) struct SeenLinks {
    /// Keyed at random, so that no page can choose links that collide.
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

/// Links packed close together: looking one up is a matter of memory that is not in the cache, and little else.
#[derive(Default)]
struct Shard {
    /// Where in the text each link begins.
    places: HashTable<usize>,
    /// The links, each after its length.
    text: Vec<u8>,
}

impl SeenLinks {
    pub(crate) fn new() -> Self {
        SeenLinks { hasher: RandomState::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Remembers a link. Returns whether it is new: to exactly one caller, however many ask at once.
    pub(crate) fn insert(&self, link: &[u8]) -> bool {
        let hash = self.hasher.hash_one(link);
        // The table within a shard goes by the other bits of the hash.
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        let Shard { places, text } = &mut *shard.lock().expect("nothing under this lock panics");
        let is_this = |&place: &usize| link_at(text, place) == link;
        let hash_of = |&place: &usize| self.hasher.hash_one(link_at(text, place));
        match places.entry(hash, is_this, hash_of) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(text.len());
                text.extend_from_slice(&link.len().to_ne_bytes());
                text.extend_from_slice(link);
                true
            }
        }
    }
}

/// The link that begins at this place of a shard's text.
fn link_at(text: &[u8], place: usize) -> &[u8] {
    let (length, rest) = text[place..].split_first_chunk().expect("a length comes before each link");
    &rest[..usize::from_ne_bytes(*length)]
}
