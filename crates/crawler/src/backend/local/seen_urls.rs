//! Link storage in memory: which URLs were met, for a lifetime after each was last met, and always while outstanding.

use std::collections::HashMap;
use std::time::Duration;

use hashbrown::HashTable;

use super::storage::{GENERATIONS, Generation};
use crate::task::Depth;

/// A table of this many parts grows by small steps: no doubling of the whole, no long pause.
const SHARDS: usize = 64;

/// When a URL was last met takes the low byte of an entry, what stands for it the rest: 8 bytes a URL in all.
const AGE_BITS: u32 = 8;

/// In the place of a generation: the URL is outstanding.
const OUTSTANDING: u64 = 0xFF;

/// How a URL was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeenLookup {
    /// For the first time, or after it was forgotten.
    New,
    /// Again, nearer to a seed than ever before.
    Shallower {
        /// It has not been completed.
        outstanding: bool,
    },
    /// Again.
    Seen,
}

/// The URLs met lately, each by its id.
pub(super) struct SeenUrls {
    shards: Vec<HashTable<u64>>,
    /// Smallest depths, kept only where a depth limit makes them matter.
    depths: Option<HashMap<u64, Depth>>,
    generation: Generation,
}

impl SeenUrls {
    pub(super) fn new(lifetime: Duration, keep_depths: bool) -> SeenUrls {
        SeenUrls {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            depths: keep_depths.then(HashMap::new),
            generation: Generation::first(lifetime),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }

    /// Meets a URL, which is outstanding from now on if it is new: one question, one step.
    pub(super) fn mark_seen(&mut self, id: u64, depth: Depth, now: Duration) -> SeenLookup {
        self.advance(now);
        let age = age(self.generation);
        let found = match self.shard(id).find_mut(hash(id), |entry| entry >> AGE_BITS == id) {
            Some(entry) if *entry & 0xFF == OUTSTANDING => Some(true),
            Some(entry) => {
                *entry = id << AGE_BITS | age;
                Some(false)
            }
            None => {
                let entry = id << AGE_BITS | OUTSTANDING;
                self.shard(id).insert_unique(hash(id), entry, |entry| hash(entry >> AGE_BITS));
                None
            }
        };
        let (Some(depths), Some(outstanding)) = (&mut self.depths, found) else {
            if let Some(depths) = &mut self.depths {
                depths.insert(id, depth);
            }
            return if found.is_some() { SeenLookup::Seen } else { SeenLookup::New };
        };
        match depths.get_mut(&id) {
            Some(smallest) if depth < *smallest => {
                *smallest = depth;
                if !outstanding {
                    self.set(id, OUTSTANDING);
                }
                SeenLookup::Shallower { outstanding }
            }
            _ => SeenLookup::Seen,
        }
    }

    /// The smallest depth a URL was met at, if depths are kept.
    pub(super) fn depth(&self, id: u64) -> Option<Depth> {
        self.depths.as_ref()?.get(&id).copied()
    }

    /// Begins the lifetime of a completed URL anew.
    pub(super) fn completed(&mut self, id: u64, now: Duration) {
        self.advance(now);
        self.set(id, age(self.generation));
    }

    /// From how near a URL is met does not matter any more.
    pub(super) fn forget_depth(&mut self, id: u64) {
        if let Some(depths) = &mut self.depths {
            depths.remove(&id);
        }
    }

    /// A URL is outstanding again.
    pub(super) fn admitted(&mut self, id: u64) {
        self.set(id, OUTSTANDING);
    }

    fn set(&mut self, id: u64, age: u64) {
        if let Some(entry) = self.shard(id).find_mut(hash(id), |entry| entry >> AGE_BITS == id) {
            *entry = id << AGE_BITS | age;
        }
    }

    /// Goes on to a time.
    fn advance(&mut self, now: Duration) {
        let passed = self.generation.advance(now);
        if passed > 0 {
            self.expire(passed);
        }
    }

    /// Forgets what was last met a lifetime ago and is not outstanding, now that so many generations have passed.
    fn expire(&mut self, passed: u32) {
        let now = age(self.generation);
        // After a long silence numbers may have come round: whatever was met is over, however young it looks.
        let all_are_over = passed > GENERATIONS;
        for shard in &mut self.shards {
            shard.retain(|entry| match *entry & 0xFF {
                OUTSTANDING => true,
                met => !all_are_over && (now + OUTSTANDING - met) % OUTSTANDING <= u64::from(GENERATIONS),
            });
            if shard.len() * 4 < shard.capacity() {
                shard.shrink_to_fit(|entry| hash(entry >> AGE_BITS));
            }
        }
        if let Some(mut depths) = self.depths.take() {
            depths
                .retain(|id, _| self.shard(*id).find(hash(*id), |entry| entry >> AGE_BITS == *id).is_some());
            self.depths = Some(depths);
        }
    }

    fn shard(&mut self, id: u64) -> &mut HashTable<u64> {
        let index = (id >> 40) as usize % SHARDS;
        &mut self.shards[index]
    }
}

/// A generation as it stands in an entry: they come round long after what bears their number was forgotten.
fn age(generation: Generation) -> u64 {
    u64::from(generation.number()) % OUTSTANDING
}

/// The table takes an entry's place from the low bits and its tag from the high ones, which an id does not have.
fn hash(id: u64) -> u64 {
    id | (id >> 48) << 57
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_url_is_forgotten_an_hour_after_it_was_last_met() {
        let mut links = SeenUrls::new(HOUR, false);
        let mut now = Duration::ZERO;
        assert_eq!(links.mark_seen(1, 0, now), SeenLookup::New);
        links.completed(1, now);
        for _ in 0..5 {
            now += HOUR * 9 / 10;
            assert_eq!(links.mark_seen(1, 0, now), SeenLookup::Seen, "each meeting begins the hour anew");
        }
        now += HOUR * 12 / 10;
        assert_eq!(links.mark_seen(2, 0, now), SeenLookup::New);
        assert_eq!(links.len(), 1);
        assert_eq!(links.mark_seen(1, 0, now), SeenLookup::New);
    }

    #[test]
    fn a_url_is_forgotten_after_a_silence_of_any_length() {
        for sixteenths in 18..800 {
            let mut links = SeenUrls::new(HOUR, false);
            links.mark_seen(1, 0, Duration::ZERO);
            links.completed(1, Duration::ZERO);
            links.mark_seen(2, 0, Duration::ZERO);
            let now = HOUR / 16 * sixteenths;
            assert_eq!(links.mark_seen(1, 0, now), SeenLookup::New, "{sixteenths}");
            assert_eq!(links.mark_seen(2, 0, now), SeenLookup::Seen, "{sixteenths}: it is outstanding");
        }
    }

    #[test]
    fn an_outstanding_url_is_never_forgotten() {
        let mut links = SeenUrls::new(HOUR, true);
        links.mark_seen(1, 3, Duration::ZERO);
        for half_hours in 0..600 {
            links.mark_seen(2, 0, HOUR / 2 * half_hours);
        }
        assert_eq!(links.mark_seen(1, 3, HOUR * 300), SeenLookup::Seen);
        assert_eq!(links.depth(1), Some(3));
    }

    #[test]
    fn the_smallest_depth_is_kept_where_depths_matter() {
        let mut links = SeenUrls::new(HOUR, true);
        let now = Duration::ZERO;
        assert_eq!(links.mark_seen(1, 3, now), SeenLookup::New);
        assert_eq!(links.mark_seen(1, 3, now), SeenLookup::Seen);
        assert_eq!(links.mark_seen(1, 1, now), SeenLookup::Shallower { outstanding: true });
        assert_eq!(links.mark_seen(1, 2, now), SeenLookup::Seen);
        links.completed(1, now);
        assert_eq!(links.mark_seen(1, 0, now), SeenLookup::Shallower { outstanding: false });
        assert_eq!(links.mark_seen(1, 0, now), SeenLookup::Seen);
        assert_eq!(links.depth(1), Some(0));
        links.completed(1, now);
        links.mark_seen(2, 0, 2 * HOUR);
        assert_eq!(links.depth(1), None);
    }

    #[test]
    fn a_million_urls_take_less_than_24_bytes_each() {
        let mut links = SeenUrls::new(HOUR, false);
        let key = crate::similarity::HashKey::new(7);
        for number in 0..1_000_000u64 {
            let id = (key.hash(format!("http://host/{number}").as_bytes()) >> 72) as u64;
            assert_eq!(links.mark_seen(id, 0, Duration::ZERO), SeenLookup::New);
        }
        let bytes: usize = links.shards.iter().map(HashTable::allocation_size).sum();
        assert!(bytes < 24 * 1_000_000, "{bytes}");
    }
}
