//! The seen set in memory. A URL stays in it until the crawl ends.

use std::collections::HashMap;

use hashbrown::HashTable;

use crate::task::Depth;

/// Number of hash tables. Small tables grow in small steps, without the long pause of doubling one large table.
const SHARDS: usize = 64;

/// What the seen set knows about a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeenLookup {
    /// The URL was not in the seen set.
    New,
    /// The URL was found again at a smaller depth than ever before.
    Shallower {
        /// The URL has not been completed.
        pending: bool,
    },
    /// The URL was found again.
    Seen,
}

/// The URLs that were found, by id.
pub(super) struct SeenUrls {
    shards: Vec<HashTable<u64>>,
    /// Tracked only if the crawl has a depth limit.
    depths: Option<HashMap<u64, SmallestDepth>>,
}

/// The smallest depth at which a URL was found.
#[derive(Debug, Clone, Copy)]
struct SmallestDepth {
    depth: Depth,
    /// The URL has not been completed.
    pending: bool,
}

impl SeenUrls {
    pub(super) fn new(keep_depths: bool) -> SeenUrls {
        SeenUrls {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            depths: keep_depths.then(HashMap::new),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }

    /// Looks a URL up and, if it is new, adds it as pending, in one step.
    pub(super) fn mark_seen(&mut self, id: u64, depth: Depth) -> SeenLookup {
        // An id is a hash: the table takes the bucket from its low bits and the tag from its high bits.
        let shard = &mut self.shards[(id >> 40) as usize % SHARDS];
        if shard.find(id, |other| *other == id).is_none() {
            shard.insert_unique(id, id, |id| *id);
            if let Some(depths) = &mut self.depths {
                depths.insert(id, SmallestDepth { depth, pending: true });
            }
            return SeenLookup::New;
        }
        match self.depths.as_mut().and_then(|depths| depths.get_mut(&id)) {
            Some(smallest) if depth < smallest.depth => {
                let pending = smallest.pending;
                *smallest = SmallestDepth { depth, pending: true };
                SeenLookup::Shallower { pending }
            }
            _ => SeenLookup::Seen,
        }
    }

    pub(super) fn tracks_depths(&self) -> bool {
        self.depths.is_some()
    }

    /// The smallest depth at which a URL was found, if depths are tracked.
    pub(super) fn depth(&self, id: u64) -> Option<Depth> {
        Some(self.depths.as_ref()?.get(&id)?.depth)
    }

    /// The smallest depth of a URL that has not been completed, if depths are tracked.
    pub(super) fn pending_depth(&self, id: u64) -> Option<Depth> {
        let smallest = self.depths.as_ref()?.get(&id)?;
        smallest.pending.then_some(smallest.depth)
    }

    /// Marks a URL as pending or completed.
    pub(super) fn set_pending(&mut self, id: u64, pending: bool) {
        if let Some(smallest) = self.depths.as_mut().and_then(|depths| depths.get_mut(&id)) {
            smallest.pending = pending;
        }
    }

    /// Stops tracking the depth of a URL, because it will not be fetched again.
    pub(super) fn forget_depth(&mut self, id: u64) {
        if let Some(depths) = &mut self.depths {
            depths.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_new_once() {
        for keep_depths in [false, true] {
            let mut seen = SeenUrls::new(keep_depths);
            // The second id differs in the highest bit only.
            for id in [1, 1 | 1 << 63] {
                assert_eq!(seen.mark_seen(id, 3), SeenLookup::New);
                assert_eq!(seen.mark_seen(id, 3), SeenLookup::Seen);
                seen.set_pending(id, false);
                assert_eq!(seen.mark_seen(id, 3), SeenLookup::Seen);
                seen.forget_depth(id);
                assert_eq!(seen.mark_seen(id, 0), SeenLookup::Seen, "its depth does not matter any more");
            }
            assert_eq!(seen.len(), 2);
        }
    }

    #[test]
    fn smallest_depth_is_tracked_if_depths_matter() {
        let mut seen = SeenUrls::new(true);
        assert_eq!(seen.mark_seen(1, 3), SeenLookup::New);
        assert_eq!(seen.mark_seen(1, 3), SeenLookup::Seen);
        assert_eq!(seen.mark_seen(1, 1), SeenLookup::Shallower { pending: true });
        assert_eq!(seen.mark_seen(1, 2), SeenLookup::Seen);
        seen.set_pending(1, false);
        assert_eq!(seen.mark_seen(1, 0), SeenLookup::Shallower { pending: false });
        assert_eq!(seen.mark_seen(1, 0), SeenLookup::Seen);
        assert_eq!(seen.depth(1), Some(0));
    }

    #[test]
    fn a_million_urls_take_less_than_24_bytes_each() {
        let mut seen = SeenUrls::new(false);
        let key = crate::similarity::HashKey::new(7);
        for number in 0..1_000_000u64 {
            assert_eq!(seen.mark_seen(key.url_id(&format!("http://host/{number}")), 0), SeenLookup::New);
        }
        let bytes: usize = seen.shards.iter().map(HashTable::allocation_size).sum();
        assert!(bytes < 24 * 1_000_000, "{bytes}");
    }
}
