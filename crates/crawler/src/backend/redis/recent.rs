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
    /// No URL where it is 0.
    id: u64,
    /// The smallest depth that was told.
    depth: Depth,
    /// When, in milliseconds, plus one: nothing was told at 0.
    at: u64,
}

/// The URLs told lately. It never grows.
pub(super) struct Recent {
    /// None before the first is told: many who come to Redis tell it nothing.
    sets: Mutex<Vec<[Told; WAYS]>>,
    /// For how many milliseconds a URL need not be told again.
    lifetime: u64,
    keep_depths: bool,
}

impl Recent {
    /// Link storage knows a URL for that much longer than it promises (see links.lua).
    pub(super) fn new(link_lifetime: u64, keep_depths: bool) -> Recent {
        Recent { sets: Mutex::default(), lifetime: link_lifetime / 12, keep_depths }
    }

    fn sets(&self) -> MutexGuard<'_, Vec<[Told; WAYS]>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps those that have to be told: Redis may not know them, or not from so near. Answers how many it left out.
    pub(super) fn untold<T>(&self, now: u64, found: &mut Vec<T>, of: impl Fn(&T) -> (u64, Depth)) -> u64 {
        let (sets, before) = (self.sets(), found.len());
        found.retain(|found| {
            let (id, depth) = of(found);
            let Some(set) = sets.get(id as usize % SETS) else { return true };
            let known = |told: &Told| {
                told.id == id && self.is_recent(told, now) && (!self.keep_depths || told.depth <= depth)
            };
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
            let there = set.iter().position(|told| told.id == id);
            let oldest = || (0..WAYS).min_by_key(|way| set[*way].at);
            let Some(way) = there.or_else(oldest) else { continue };
            if there.is_some() && self.is_recent(&set[way], at) {
                depth = depth.min(set[way].depth);
            }
            set[way] = Told { id, depth, at: at + 1 };
        }
    }

    /// Redis may have lost what it was told.
    pub(super) fn clear(&self) {
        *self.sets() = Vec::new();
    }

    fn is_recent(&self, told: &Told, now: u64) -> bool {
        told.at > 0 && now + 1 < told.at + self.lifetime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn untold(recent: &Recent, now: u64, found: &[(u64, Depth)]) -> Vec<(u64, Depth)> {
        let mut found = found.to_vec();
        recent.untold(now, &mut found, |found| *found);
        found
    }

    #[test]
    fn what_was_told_is_not_told_again_for_a_twelfth_of_its_lifetime() {
        let recent = Recent::new(HOUR, false);
        assert_eq!(untold(&recent, 0, &[(7, 1)]), [(7, 1)]);
        recent.told(0, [(7, 1)]);
        assert_eq!(untold(&recent, HOUR / 12 - 1, &[(7, 0), (8, 0)]), [(8, 0)], "whatever its depth");
        assert_eq!(untold(&recent, HOUR / 12, &[(7, 1)]), [(7, 1)]);
    }

    #[test]
    fn what_is_met_nearer_is_told_where_depths_matter() {
        let recent = Recent::new(HOUR, true);
        recent.told(0, [(7, 3)]);
        assert_eq!(untold(&recent, 1, &[(7, 4), (7, 3), (7, 2)]), [(7, 2)]);
        recent.told(1, [(7, 2)]);
        recent.told(2, [(7, 5)]);
        assert_eq!(untold(&recent, 3, &[(7, 2), (7, 1)]), [(7, 1)], "the smallest counts");
        recent.told(HOUR, [(7, 5)]);
        assert_eq!(untold(&recent, HOUR, &[(7, 4)]), [(7, 4)], "what it was before may have been forgotten");
    }

    #[test]
    fn the_oldest_make_room_and_nothing_grows() {
        let recent = Recent::new(HOUR, false);
        let same_set = |number: u64| number * SETS as u64 + 5;
        for number in 0..100 {
            recent.told(number, [(same_set(number), 0)]);
        }
        let all: Vec<(u64, Depth)> = (0..100).map(|number| (same_set(number), 0)).collect();
        assert_eq!(untold(&recent, 100, &all), all[..100 - WAYS]);
        assert_eq!(recent.sets().len(), SETS);
    }
}
