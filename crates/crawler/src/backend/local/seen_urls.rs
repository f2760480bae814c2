//! The seen set in memory. A URL stays in it for a TTL after it was last found, and always while it is outstanding.

use std::collections::HashMap;
use std::time::Duration;

use hashbrown::HashTable;

use super::storage::{GENERATIONS, Generation};
use crate::task::Depth;

/// Number of hash tables. Small tables grow in small steps, without the long pause of doubling one large table.
const SHARDS: usize = 64;

/// The low byte of an entry holds the generation in which the URL was last found, the other bits its id: 8 bytes per
/// URL.
const AGE_BITS: u32 = 8;

/// Value of the low byte of a URL that is outstanding.
const OUTSTANDING: u64 = 0xFF;

/// What the seen set knows about a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeenLookup {
    /// The URL was not in the seen set, or had expired.
    New,
    /// The URL was found again at a smaller depth than ever before.
    Shallower {
        /// The URL has not been completed.
        outstanding: bool,
    },
    /// The URL was found again.
    Seen,
}

/// The URLs that were found, by id.
pub(super) struct SeenUrls {
    shards: Vec<HashTable<u64>>,
    /// Smallest depths, tracked only if the crawl has a depth limit.
    depths: Option<HashMap<u64, Depth>>,
    generation: Generation,
}

impl SeenUrls {
    pub(super) fn new(ttl: Duration, keep_depths: bool) -> SeenUrls {
        SeenUrls {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            depths: keep_depths.then(HashMap::new),
            generation: Generation::first(ttl),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }

    /// Looks a URL up and, if it is new, adds it as outstanding, in one step.
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
                    self.set_age(id, OUTSTANDING);
                }
                SeenLookup::Shallower { outstanding }
            }
            _ => SeenLookup::Seen,
        }
    }

    pub(super) fn tracks_depths(&self) -> bool {
        self.depths.is_some()
    }

    /// The smallest depth at which a URL was found, if depths are tracked.
    pub(super) fn depth(&self, id: u64) -> Option<Depth> {
        self.depths.as_ref()?.get(&id).copied()
    }

    /// Starts the TTL of a completed URL.
    pub(super) fn mark_completed(&mut self, id: u64, now: Duration) {
        self.advance(now);
        self.set_age(id, age(self.generation));
    }

    /// Stops tracking the depth of a URL, because it will not be revisited.
    pub(super) fn forget_depth(&mut self, id: u64) {
        if let Some(depths) = &mut self.depths {
            depths.remove(&id);
        }
    }

    /// Marks a URL as outstanding again.
    pub(super) fn mark_outstanding(&mut self, id: u64) {
        self.set_age(id, OUTSTANDING);
    }

    fn set_age(&mut self, id: u64, age: u64) {
        if let Some(entry) = self.shard(id).find_mut(hash(id), |entry| entry >> AGE_BITS == id) {
            *entry = id << AGE_BITS | age;
        }
    }

    /// Advances the clock, and removes what has expired.
    fn advance(&mut self, now: Duration) {
        let passed = self.generation.advance(now);
        if passed > 0 {
            self.expire(passed);
        }
    }

    /// Removes URLs that were last found a TTL ago and are not outstanding, after `passed` generations.
    fn expire(&mut self, passed: u32) {
        let now = age(self.generation);
        // After a long pause the numbers may have wrapped around: everything has expired, however recent its number
        // looks.
        let all_expired = passed > GENERATIONS;
        for shard in &mut self.shards {
            shard.retain(|entry| match *entry & 0xFF {
                OUTSTANDING => true,
                age => !all_expired && (now + OUTSTANDING - age) % OUTSTANDING <= u64::from(GENERATIONS),
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

/// The generation number as stored in an entry. Numbers wrap around long after entries with the same number expired.
fn age(generation: Generation) -> u64 {
    u64::from(generation.number()) % OUTSTANDING
}

/// The table takes the bucket from the low bits and the tag from the high bits. An id has 56 bits, so fill the high
/// ones.
fn hash(id: u64) -> u64 {
    id | (id >> 48) << 57
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn url_expires_one_hour_after_it_was_last_found() {
        let mut seen = SeenUrls::new(HOUR, false);
        let mut now = Duration::ZERO;
        assert_eq!(seen.mark_seen(1, 0, now), SeenLookup::New);
        seen.mark_completed(1, now);
        for _ in 0..5 {
            now += HOUR * 9 / 10;
            assert_eq!(seen.mark_seen(1, 0, now), SeenLookup::Seen, "the TTL starts again each time");
        }
        now += HOUR * 12 / 10;
        assert_eq!(seen.mark_seen(2, 0, now), SeenLookup::New);
        assert_eq!(seen.len(), 1);
        assert_eq!(seen.mark_seen(1, 0, now), SeenLookup::New);
    }

    #[test]
    fn url_expires_after_a_pause_of_any_length() {
        for sixteenths in 18..800 {
            let mut seen = SeenUrls::new(HOUR, false);
            seen.mark_seen(1, 0, Duration::ZERO);
            seen.mark_completed(1, Duration::ZERO);
            seen.mark_seen(2, 0, Duration::ZERO);
            let now = HOUR / 16 * sixteenths;
            assert_eq!(seen.mark_seen(1, 0, now), SeenLookup::New, "{sixteenths}");
            assert_eq!(seen.mark_seen(2, 0, now), SeenLookup::Seen, "{sixteenths}: it is outstanding");
        }
    }

    #[test]
    fn outstanding_url_never_expires() {
        let mut seen = SeenUrls::new(HOUR, true);
        seen.mark_seen(1, 3, Duration::ZERO);
        for half_hours in 0..600 {
            seen.mark_seen(2, 0, HOUR / 2 * half_hours);
        }
        assert_eq!(seen.mark_seen(1, 3, HOUR * 300), SeenLookup::Seen);
        assert_eq!(seen.depth(1), Some(3));
    }

    #[test]
    fn smallest_depth_is_tracked_if_depths_matter() {
        let mut seen = SeenUrls::new(HOUR, true);
        let now = Duration::ZERO;
        assert_eq!(seen.mark_seen(1, 3, now), SeenLookup::New);
        assert_eq!(seen.mark_seen(1, 3, now), SeenLookup::Seen);
        assert_eq!(seen.mark_seen(1, 1, now), SeenLookup::Shallower { outstanding: true });
        assert_eq!(seen.mark_seen(1, 2, now), SeenLookup::Seen);
        seen.mark_completed(1, now);
        assert_eq!(seen.mark_seen(1, 0, now), SeenLookup::Shallower { outstanding: false });
        assert_eq!(seen.mark_seen(1, 0, now), SeenLookup::Seen);
        assert_eq!(seen.depth(1), Some(0));
        seen.mark_completed(1, now);
        seen.mark_seen(2, 0, 2 * HOUR);
        assert_eq!(seen.depth(1), None);
    }

    #[test]
    fn a_million_urls_take_less_than_24_bytes_each() {
        let mut seen = SeenUrls::new(HOUR, false);
        let key = crate::similarity::HashKey::new(7);
        for number in 0..1_000_000u64 {
            let id = (key.hash(format!("http://host/{number}").as_bytes()) >> 72) as u64;
            assert_eq!(seen.mark_seen(id, 0, Duration::ZERO), SeenLookup::New);
        }
        let bytes: usize = seen.shards.iter().map(HashTable::allocation_size).sum();
        assert!(bytes < 24 * 1_000_000, "{bytes}");
    }
}
