//! The shingles of pages that were compared exactly. Pages of a site are often compared with the same few pages, and reading
//! a page again costs more than all else that is done with it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::comparison::ShingleSet;

/// How many shingles are kept, of all pages together. They take some 10 bytes each.
const MAX_SHINGLES: usize = 500_000;

/// The shingles of the last pages, by the IDs of their URLs.
#[derive(Default)]
pub struct ShingleCache(Mutex<CachedPages>);

#[derive(Default)]
struct CachedPages {
    pages: HashMap<u64, Arc<ShingleSet>>,
    /// In the order in which they were added.
    order: VecDeque<u64>,
    shingles: usize,
}

impl ShingleCache {
    /// The shingles of a page, if they are here.
    pub fn get(&self, page: u64) -> Option<Arc<ShingleSet>> {
        self.pages().pages.get(&page).cloned()
    }

    /// A page was stored: adds its shingles if they are known, and removes those of an earlier page at its URL.
    pub fn update(&self, page: u64, shingles: Option<ShingleSet>) {
        match shingles {
            Some(shingles) => self.add(page, Arc::new(shingles)),
            None => {
                let mut cache = self.pages();
                let removed = cache.pages.remove(&page);
                cache.shingles -= removed.map_or(0, |removed| removed.len());
            }
        }
    }

    /// Adds the shingles of a page. The oldest ones are removed if there are too many.
    pub fn add(&self, page: u64, shingles: Arc<ShingleSet>) {
        let mut cache = self.pages();
        let count = shingles.len();
        match cache.pages.insert(page, shingles) {
            // A page that was fetched again has its place already.
            Some(before) => cache.shingles = cache.shingles - before.len() + count,
            None => {
                cache.shingles += count;
                cache.order.push_back(page);
            }
        }
        while cache.shingles > MAX_SHINGLES
            && let Some(oldest) = cache.order.pop_front()
        {
            let removed = cache.pages.remove(&oldest);
            cache.shingles -= removed.map_or(0, |removed| removed.len());
        }
    }

    fn pages(&self) -> MutexGuard<'_, CachedPages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::shingles::ShingleSink;
    use super::*;

    fn shingles(count: u64) -> Arc<ShingleSet> {
        let mut shingles = ShingleSet::default();
        (0..count).for_each(|shingle| shingles.add(shingle.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        Arc::new(shingles)
    }

    #[test]
    fn oldest_pages_are_removed_when_there_are_too_many_shingles() {
        let cache = ShingleCache::default();
        (0..10).for_each(|page| cache.add(page, shingles(100_000)));
        let kept: Vec<u64> = (0..10).filter(|page| cache.get(*page).is_some()).collect();
        assert_eq!(kept, [5, 6, 7, 8, 9]);
        cache.add(9, shingles(10));
        cache.add(10, shingles(99_990));
        assert!(cache.get(5).is_some(), "a page that shrinks makes room");
        assert_eq!(cache.get(9).unwrap().len(), 10);
    }
}
