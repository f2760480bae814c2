//! The seen set of a callback crawl.

use super::sync::{Mutex, RandomState};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::BuildHasher;

/// The number of shards, each with its own lock, so that parsers rarely contend. A power of two.
const SHARDS: usize = 64;

/// The links seen so far. It never shrinks.
pub(crate) struct SeenLinks {
    /// Randomly keyed, so that no page can craft collisions.
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

/// Links packed into one buffer. The cost of a lookup is mostly cache misses.
#[derive(Default)]
struct Shard {
    /// The offset of each link in the buffer.
    offsets: HashTable<usize>,
    /// The links, each preceded by its length.
    buffer: Vec<u8>,
}

impl SeenLinks {
    pub(crate) fn new() -> Self {
        SeenLinks { hasher: RandomState::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Adds a link. Returns `true` to exactly one caller for each link, with any number of concurrent callers.
    pub(crate) fn insert(&self, link: &[u8]) -> bool {
        let hash = self.hasher.hash_one(link);
        // The table within a shard uses the other bits of the hash.
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        let Shard { offsets, buffer } = &mut *shard.lock().expect("nothing under this lock panics");
        let is_this = |&offset: &usize| link_at(buffer, offset) == link;
        let hash_of = |&offset: &usize| self.hasher.hash_one(link_at(buffer, offset));
        match offsets.entry(hash, is_this, hash_of) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(buffer.len());
                buffer.extend_from_slice(&link.len().to_ne_bytes());
                buffer.extend_from_slice(link);
                true
            }
        }
    }
}

/// The link at an offset of a shard's buffer.
fn link_at(buffer: &[u8], offset: usize) -> &[u8] {
    let (length, rest) = buffer[offset..].split_first_chunk().expect("a length comes before each link");
    &rest[..usize::from_ne_bytes(*length)]
}
