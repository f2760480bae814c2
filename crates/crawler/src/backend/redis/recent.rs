//! The URLs that this process told Redis of lately: whoever meets them again need not tell it again. Most links of a
//! page are on the other pages of its site too.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::task::Depth;

/// How many are remembered, in sets of a few: a URL has its place in one of them, and takes that of the oldest.
const SETS: usize = 1 << 14;
const WAYS: usize = 4;

/// A URL that Redis knows.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    id: u64,
    /// The smallest depth that was told.
    depth: Depth,
    /// When, in milliseconds, plus one: nothing was told at 0.
    at: u64,
}

impl Told {
    fn is(&self, id: u64) -> bool {
        self.at > 0 && self.id == id
    }
}

/// The URLs told lately. It never grows.
pub(super) struct Recent {
    /// None before the first is told: many who come to Redis tell it nothing.
    sets: Mutex<Vec<[Told; WAYS]>>,
    keep_depths: bool,
}

impl Recent {
    pub(super) fn new(keep_depths: bool) -> Recent {
        Recent { sets: Mutex::default(), keep_depths }
    }

    fn sets(&self) -> MutexGuard<'_, Vec<[Told; WAYS]>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps those that have to be told: Redis may not know them, or not from so near. Answers how many it left out.
    pub(super) fn untold<T>(&self, found: &mut Vec<T>, of: impl Fn(&T) -> (u64, Depth)) -> u64 {
        let (sets, before) = (self.sets(), found.len());
        found.retain(|found| {
            let (id, depth) = of(found);
            let Some(set) = sets.get(id as usize % SETS) else { return true };
            let known = |told: &Told| told.is(id) && (!self.keep_depths || told.depth <= depth);
            !set.iter().any(known)
        });
        (before - found.len()) as u64
    }

    /// Redis has acknowledged these, which were told not before `at`.
    pub(super) fn told(&self, at: u64, told: impl IntoIterator<Item = (u64, Depth)>) {
        let mut sets = self.sets();
        if sets.is_empty() {
            *sets = vec![[Told::default(); WAYS]; SETS];
        }
        for (id, mut depth) in told {
            let set = &mut sets[id as usize % SETS];
            let there = set.iter().position(|told| told.is(id));
            let oldest = || (0..WAYS).min_by_key(|way| set[*way].at);
            let Some(way) = there.or_else(oldest) else { continue };
            if there.is_some() {
                depth = depth.min(set[way].depth);
            }
            set[way] = Told { id, depth, at: at + 1 };
        }
    }

    /// Redis may have lost what it was told.
    pub(super) fn clear(&self) {
        *self.sets() = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn untold(recent: &Recent, found: &[(u64, Depth)]) -> Vec<(u64, Depth)> {
        let mut found = found.to_vec();
        recent.untold(&mut found, |found| *found);
        found
    }

    #[test]
    fn what_was_told_is_not_told_again() {
        let recent = Recent::new(false);
        assert_eq!(untold(&recent, &[(7, 1)]), [(7, 1)]);
        recent.told(0, [(7, 1)]);
        assert_eq!(untold(&recent, &[(7, 0), (8, 0)]), [(8, 0)], "whatever its depth");
        recent.clear();
        assert_eq!(untold(&recent, &[(7, 1)]), [(7, 1)]);
    }

    #[test]
    fn what_is_met_nearer_is_told_where_depths_matter() {
        let recent = Recent::new(true);
        recent.told(0, [(7, 3)]);
        assert_eq!(untold(&recent, &[(7, 4), (7, 3), (7, 2)]), [(7, 2)]);
        recent.told(1, [(7, 2)]);
        recent.told(2, [(7, 5)]);
        assert_eq!(untold(&recent, &[(7, 2), (7, 1)]), [(7, 1)], "the smallest counts");
    }

    #[test]
    fn the_oldest_make_room_and_nothing_grows() {
        let recent = Recent::new(false);
        let same_set = |number: u64| number * SETS as u64 + 5;
        for number in 0..100 {
            recent.told(number, [(same_set(number), 0)]);
        }
        let all: Vec<(u64, Depth)> = (0..100).map(|number| (same_set(number), 0)).collect();
        assert_eq!(untold(&recent, &all), all[..100 - WAYS]);
        assert_eq!(recent.sets().len(), SETS);
    }
}
