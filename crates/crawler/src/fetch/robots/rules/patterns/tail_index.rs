//! Finds the rules of one head whose tails may match a path, without trying them all.
//!
//! Each tail has a *key*: the four bytes of its literals that the fewest other tails have. A tail can match a path only if
//! its key is in the path.

use std::collections::HashMap;

use super::Tail;

/// With fewer rules of a head, trying them all is as fast.
const MIN_RULES: usize = 32;

type Key = [u8; 4];

/// The rules of one head, by the keys of their tails.
#[derive(Clone, Debug)]
pub(super) struct TailIndex {
    /// Sorted.
    by_key: Vec<(Key, u32)>,
    /// The rules whose tails have no literal of four bytes, in their order.
    without_key: Vec<u32>,
}

impl TailIndex {
    /// An index of these tails; `None` for few.
    pub(super) fn new<'t>(tails: impl ExactSizeIterator<Item = &'t Tail> + Clone) -> Option<Box<TailIndex>> {
        if tails.len() < MIN_RULES {
            return None;
        }
        let mut counts: HashMap<Key, u32> = HashMap::new();
        for key in tails.clone().flat_map(keys) {
            *counts.entry(key).or_default() += 1;
        }
        let mut index = TailIndex { by_key: Vec::new(), without_key: Vec::new() };
        for (rule, tail) in (0..).zip(tails) {
            match keys(tail).min_by_key(|key| counts[key]) {
                Some(key) => index.by_key.push((key, rule)),
                None => index.without_key.push(rule),
            }
        }
        index.by_key.sort_unstable();
        index.by_key.shrink_to_fit();
        index.without_key.shrink_to_fit();
        Some(Box::new(index))
    }

    /// The rules whose tails may match the remaining path, in their order: at least the first `count` of them.
    pub(super) fn candidates(&self, rest: &[u8], count: usize) -> Vec<u32> {
        let mut found: Vec<Key> = rest.windows(4).filter_map(|key| key.try_into().ok()).collect();
        found.sort_unstable();
        found.dedup();
        let mut rules: Vec<u32> = self.without_key.iter().take(count).copied().collect();
        for key in found {
            let start = self.by_key.partition_point(|(other, _)| *other < key);
            let same = self.by_key[start..].iter().take_while(|(other, _)| *other == key);
            rules.extend(same.take(count).map(|(_, rule)| rule));
        }
        rules.sort_unstable();
        rules
    }

    /// Memory used, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<TailIndex>()
            + self.by_key.capacity() * size_of::<(Key, u32)>()
            + self.without_key.capacity() * size_of::<u32>()
    }
}

/// Each four bytes of the literals of a tail.
fn keys(tail: &Tail) -> impl Iterator<Item = Key> {
    tail.literals_to_find().flat_map(|literal| literal.windows(4).filter_map(|key| key.try_into().ok()))
}
