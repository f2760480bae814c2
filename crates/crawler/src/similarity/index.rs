//! Remembers the fingerprints of pages for a while and finds the ones that a new page resembles.
//!
//! Pages stand in the order in which they were stored, which is also the order in which they expire. For every
//! band, and for the exact hash, a table knows the newest page under each key, and each page the one before it
//! under the same key: so a look-up goes from the newest page back, as far as it likes, and nothing has to be
//! taken out of the middle.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Fingerprint;
use super::hash::fold;
use super::minhash::Bits;
use super::threshold::Threshold;

/// How many pages are looked at under one key, the newest first: a site whose pages are half alike puts
/// thousands under a key, and the look-up must not take longer for it.
pub const MOST_CANDIDATES: usize = 16;

/// What a page resembles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The page from this URL has exactly the same content.
    Same(u64),
    /// The page from this URL is similar.
    Similar(u64),
}

/// The pages stored within the last while.
#[derive(Debug)]
pub struct Index {
    threshold: Threshold,
    time_to_live: Duration,
    /// By number, the oldest first. All there is of a page is in here and in `places`, and nothing of it by itself:
    /// small things that live for an hour among those that live for a moment leave the memory full of holes.
    pages: VecDeque<StateReader>,
    /// Where each page stands in the tables, as many places for each as there are tables.
    places: VecDeque<Place>,
    /// The number of the oldest page. Numbers wrap around.
    oldest: u32,
    /// One for the exact hash, then one for each band.
    newest: Box<[HashTable<u32>]>,
}

#[derive(Debug)]
struct StateReader {
    url: u64,
    expires: Duration,
    exact: u128,
    bits: Option<Bits>,
}

/// Where a page stands in a table.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: u32,
    /// The number of the page before it under the same key; its own, or that of a page now forgotten, where
    /// there is none.
    before: u32,
}

impl Index {
    /// An index that forgets a page when so much time has passed since it was stored.
    pub fn new(threshold: Threshold, time_to_live: Duration) -> Self {
        let newest = (0..=threshold.band_count()).map(|_| HashTable::new()).collect();
        Index { threshold, time_to_live, pages: VecDeque::new(), places: VecDeque::new(), oldest: 0, newest }
    }

    /// How many pages there are.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Stores the fingerprint of the page that came from `url`. `now` is the time since any moment that stays
    /// the same.
    pub fn insert(&mut self, fingerprint: &Fingerprint, url: u64, now: Duration) {
        let number = self.oldest.wrapping_add(self.pages.len() as u32);
        let tables = self.newest.len();
        // One without a sketch stands in the first table alone; in the others it is never looked for.
        let nowhere = Place { key: 0, before: number };
        self.places.extend(std::iter::repeat_n(nowhere, tables));
        let first = self.pages.len() * tables;
        for (table, key) in self.keys(fingerprint).enumerate() {
            let places = &self.places;
            let key_of =
                |&number: &u32| places[number.wrapping_sub(self.oldest) as usize * tables + table].key;
            let same = |number: &u32| key_of(number) == key;
            let before = match self.newest[table].entry(spread(key), same, |number| spread(key_of(number))) {
                Entry::Occupied(mut newest) => std::mem::replace(newest.get_mut(), number),
                Entry::Vacant(place) => {
                    place.insert(number);
                    // There is none before it: the chain ends where numbers do not go down.
                    number
                }
            };
            self.places[first + table] = Place { key, before };
        }
        let bits = fingerprint.sketch.as_deref().filter(|_| !self.threshold.is_exact());
        self.pages.push_back(StateReader {
            url,
            expires: now.saturating_add(self.time_to_live),
            exact: fingerprint.exact,
            bits: bits.map(|sketch| sketch.bits),
        });
    }

    /// A page from another URL that is the same, or else one that is similar. The same time is spent however
    /// many pages there are.
    pub fn find(&self, fingerprint: &Fingerprint, not_from: u64, now: Duration) -> Option<Match> {
        let other = |page: &&StateReader| page.url != not_from && page.expires > now;
        let mut keys = self.keys(fingerprint).enumerate();
        let (table, key) = keys.next()?;
        if let Some(same) = self.under(table, key).filter(other).find(|page| page.exact == fingerprint.exact)
        {
            return Some(Match::Same(same.url));
        }
        let sketch = fingerprint.sketch.as_deref()?;
        let similar = |page: &&StateReader| {
            page.bits.as_ref().is_some_and(|bits| self.threshold.within(bits, &sketch.bits))
        };
        let mut candidates = keys.flat_map(|(table, key)| self.under(table, key).filter(other));
        candidates.find(similar).map(|page| Match::Similar(page.url))
    }

    /// The pages from other URLs that [`find`](Index::find) looks at, each once.
    pub fn candidates(&self, fingerprint: &Fingerprint, not_from: u64, now: Duration) -> Vec<u64> {
        let keys = self.keys(fingerprint).enumerate();
        let under = keys.flat_map(|(table, key)| self.under(table, key));
        let mut urls: Vec<u64> = under.filter(|page| page.expires > now).map(|page| page.url).collect();
        urls.sort_unstable();
        urls.dedup();
        urls.retain(|url| *url != not_from);
        urls
    }

    /// Forgets the pages whose time has come.
    pub fn remove_expired(&mut self, now: Duration) {
        while self.oldest_expires().is_some_and(|expires| expires <= now) {
            self.remove_oldest();
        }
    }

    /// When the oldest page expires.
    pub fn oldest_expires(&self) -> Option<Duration> {
        self.pages.front().map(|page| page.expires)
    }

    /// Forgets the oldest page, and tells the URL it came from.
    pub fn remove_oldest(&mut self) -> Option<u64> {
        let page = self.pages.pop_front()?;
        let places = self.places.drain(..self.newest.len());
        for (newest, place) in self.newest.iter_mut().zip(places) {
            // Where it is the newest of its key, all others of the key are gone before it.
            if let Ok(newest) = newest.find_entry(spread(place.key), |&number| number == self.oldest) {
                newest.remove();
            }
        }
        self.oldest = self.oldest.wrapping_add(1);
        Some(page.url)
    }

    /// The keys of a fingerprint, the n-th for the n-th table.
    fn keys(&self, fingerprint: &Fingerprint) -> impl Iterator<Item = u32> + use<> {
        let bands = fingerprint.sketch.as_deref().map(|sketch| self.threshold.bands(sketch));
        std::iter::once(fingerprint.exact as u32).chain(bands.into_iter().flatten().map(|key| key as u32))
    }

    /// The pages under a key of a table, the newest first, and not more than a look-up may look at.
    fn under(&self, table: usize, key: u32) -> impl Iterator<Item = &StateReader> {
        let place = |number: u32| {
            let page = self.pages.get(number.wrapping_sub(self.oldest) as usize)?;
            Some((number, page))
        };
        let standing = move |number: u32| {
            self.places[number.wrapping_sub(self.oldest) as usize * self.newest.len() + table]
        };
        let is_this = |&number: &u32| place(number).is_some_and(|(number, _)| standing(number).key == key);
        let newest = self.newest[table].find(spread(key), is_this).copied();
        std::iter::successors(newest.and_then(place), move |(number, _)| {
            let before = standing(*number).before;
            // Numbers only go down along a key.
            place(before).filter(|_| before.wrapping_sub(self.oldest) < number.wrapping_sub(self.oldest))
        })
        .map(|(_, page)| page)
        .take(MOST_CANDIDATES)
    }
}

/// The tables want 64 bits, as random as the key's.
fn spread(key: u32) -> u64 {
    fold(u64::from(key) ^ 0x5851_F42D_4C95_7F2D, 0xC6BC_2796_92B5_CC83)
}

#[cfg(test)]
mod tests;
