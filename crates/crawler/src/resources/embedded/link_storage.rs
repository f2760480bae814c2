//! Link storage in memory: which URLs were met, for a lifetime after each was last met.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use hashbrown::HashTable;
use tokio::time::Instant;

use crate::task::Depth;

/// The lifetime is measured in so many generations: what is forgotten is forgotten up to one too late.
const GENERATIONS: u32 = 16;

/// A table of this many parts grows by small steps: no doubling of the whole, no long pause.
const SHARDS: usize = 64;

/// A generation takes the low byte of an entry, the hash the rest: 8 bytes a URL in all.
const GENERATION_BITS: u32 = 8;

/// How a URL was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// For the first time, or after it was forgotten.
    New,
    /// Again, nearer to a seed than ever before.
    Nearer,
    /// Again.
    Known,
}

/// The URLs met lately. A keyed hash stands for each, so that no page can make two collide.
pub(super) struct LinkStorage {
    shards: Vec<HashTable<u64>>,
    key: RandomState,
    /// Smallest depths, kept only where a depth limit makes them matter.
    depths: Option<HashMap<u64, Depth>>,
    generation_time: Duration,
    generation: u8,
    generation_ends: Instant,
}

impl LinkStorage {
    pub(super) fn new(lifetime: Duration, keep_depths: bool) -> LinkStorage {
        let generation_time = (lifetime / GENERATIONS).max(Duration::from_nanos(1));
        LinkStorage {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            key: RandomState::new(),
            depths: keep_depths.then(HashMap::new),
            generation_time,
            generation: 0,
            generation_ends: Instant::now() + generation_time,
        }
    }

    /// What stands for a URL here.
    pub(super) fn id(&self, url: &str) -> u64 {
        self.key.hash_one(url) >> GENERATION_BITS
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }

    /// Meets a URL: one question, one step.
    pub(super) fn meet(&mut self, id: u64, depth: Depth) -> Met {
        let generation = u64::from(self.generation);
        let fresh = id << GENERATION_BITS | generation;
        let met = match self.shard(id).find_mut(hash(id), |entry| entry >> GENERATION_BITS == id) {
            Some(entry) => {
                *entry = fresh;
                Met::Known
            }
            None => {
                self.shard(id).insert_unique(hash(id), fresh, |entry| hash(entry >> GENERATION_BITS));
                Met::New
            }
        };
        match (&mut self.depths, met) {
            (None, met) => met,
            (Some(depths), Met::New) => {
                depths.insert(id, depth);
                Met::New
            }
            (Some(depths), _) => match depths.get_mut(&id) {
                Some(smallest) if depth < *smallest => {
                    *smallest = depth;
                    Met::Nearer
                }
                _ => Met::Known,
            },
        }
    }

    /// The smallest depth a URL was met at, if depths are kept.
    pub(super) fn depth(&self, id: u64) -> Option<Depth> {
        self.depths.as_ref()?.get(&id).copied()
    }

    /// Begins the lifetime of a completed URL anew.
    pub(super) fn touch(&mut self, id: u64) {
        let generation = u64::from(self.generation);
        if let Some(entry) = self.shard(id).find_mut(hash(id), |entry| entry >> GENERATION_BITS == id) {
            *entry = id << GENERATION_BITS | generation;
        }
    }

    /// Whether it is time to forget.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.generation_ends
    }

    /// Forgets what was last met a lifetime ago and is not outstanding.
    pub(super) fn forget(&mut self, outstanding: &HashSet<u64>) {
        let passed = self.generation_ends.elapsed().as_nanos() / self.generation_time.as_nanos() + 1;
        let steps = u32::try_from(passed).unwrap_or(u32::MAX).min(u32::from(u8::MAX) - GENERATIONS - 1);
        let now = self.generation.wrapping_add(steps as u8);
        for shard in &mut self.shards {
            shard.retain(|entry| {
                let age = now.wrapping_sub((*entry & 0xFF) as u8);
                u32::from(age) <= GENERATIONS || outstanding.contains(&(*entry >> GENERATION_BITS))
            });
            // An outstanding one counts as just met: the byte must not come round to look young or old by itself.
            for entry in shard.iter_mut() {
                if u32::from(now.wrapping_sub((*entry & 0xFF) as u8)) > GENERATIONS {
                    *entry = *entry & !0xFF | u64::from(now);
                }
            }
            if shard.len() * 4 < shard.capacity() {
                shard.shrink_to_fit(|entry| hash(entry >> GENERATION_BITS));
            }
        }
        if let Some(mut depths) = self.depths.take() {
            depths.retain(|id, _| {
                self.shard(*id).find(hash(*id), |entry| entry >> GENERATION_BITS == *id).is_some()
            });
            self.depths = Some(depths);
        }
        self.generation = now;
        self.generation_ends = Instant::now() + self.generation_time;
    }

    fn shard(&mut self, id: u64) -> &mut HashTable<u64> {
        let index = (id >> 40) as usize % SHARDS;
        &mut self.shards[index]
    }
}

/// The table takes an entry's place from the low bits and its tag from the high ones, which an id does not have.
fn hash(id: u64) -> u64 {
    id | (id >> 48) << 57
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn a_url_is_forgotten_an_hour_after_it_was_last_met() {
        let mut links = LinkStorage::new(HOUR, false);
        let id = links.id("http://a/");
        assert_eq!(links.meet(id, 0), Met::New);
        for _ in 0..5 {
            tokio::time::advance(HOUR * 9 / 10).await;
            links.forget(&HashSet::new());
            assert_eq!(links.meet(id, 0), Met::Known, "each meeting begins the hour anew");
        }
        tokio::time::advance(HOUR * 12 / 10).await;
        assert!(links.is_due());
        links.forget(&HashSet::new());
        assert_eq!(links.len(), 0);
        assert_eq!(links.meet(id, 0), Met::New);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outstanding_url_is_never_forgotten() {
        let mut links = LinkStorage::new(HOUR, true);
        let id = links.id("http://a/");
        links.meet(id, 3);
        for _ in 0..600 {
            tokio::time::advance(HOUR / 2).await;
            links.forget(&HashSet::from([id]));
        }
        assert_eq!(links.meet(id, 3), Met::Known);
        assert_eq!(links.depth(id), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn the_smallest_depth_is_kept_where_depths_matter() {
        let mut links = LinkStorage::new(HOUR, true);
        let id = links.id("http://a/");
        assert_eq!(links.meet(id, 3), Met::New);
        assert_eq!(links.meet(id, 3), Met::Known);
        assert_eq!(links.meet(id, 1), Met::Nearer);
        assert_eq!(links.meet(id, 2), Met::Known);
        assert_eq!(links.depth(id), Some(1));
        tokio::time::advance(2 * HOUR).await;
        links.forget(&HashSet::new());
        assert_eq!(links.depth(id), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_million_urls_take_less_than_24_bytes_each() {
        let mut links = LinkStorage::new(HOUR, false);
        for number in 0..1_000_000u64 {
            let id = links.id(&format!("http://host/{number}"));
            assert_eq!(links.meet(id, 0), Met::New);
        }
        let bytes: usize = links.shards.iter().map(HashTable::allocation_size).sum();
        assert!(bytes < 24 * 1_000_000, "{bytes}");
    }
}
