//! Indexes the fingerprints of pages for a limited time and finds duplicates and near-duplicates of a new page, and the
//! border cases that must be compared exactly.
//!
//! Pages are numbered in the order in which they are stored, which is also the order in which they expire. There is one
//! hash table for the exact hash and one for each band. A table maps each key to the newest page with it, and each page
//! links to the previous page with the same key. So a look-up follows a chain from the newest page back. A page that has
//! changed, or is gone, stays in its chains until the others are moved together.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Fingerprint;
use super::comparison::{Decision, Undecided, Verdicts};
use super::hash::fold;
use super::minhash::Bits;
use super::threshold::Threshold;

/// Maximum number of pages compared under one key, the newest first. Thousands of half similar pages of a site may
/// share a key, and must not slow the look-up down.
pub const MAX_CANDIDATES: usize = 16;

/// The pages are moved together when this many are forgotten, and at least this part of all. So a look-up passes few of them, and a
/// page that changes again and again takes no more memory than one that does not.
const MIN_FORGOTTEN: usize = 64;
const FORGOTTEN_PART: usize = 4;

/// The result of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// There is no duplicate or near-duplicate.
    New,
    /// There is one.
    Match(Match),
    /// None is certain, but these pages must be compared exactly first, the most similar first.
    Undecided(Vec<Undecided>),
}

/// A page that was found. URLs are given by ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The page of this URL has the same content.
    Duplicate(u64),
    /// The page of this URL is similar.
    NearDuplicate(u64),
}

/// The pages stored within the TTL.
#[derive(Debug)]
pub struct Index {
    threshold: Threshold,
    ttl: Duration,
    /// By number, the oldest first. A page has no allocations of its own: small long-lived allocations among
    /// short-lived ones would fragment the memory.
    pages: VecDeque<IndexedPage>,
    /// For each page one link per table.
    links: VecDeque<ChainLink>,
    /// The number of the oldest page. Numbers wrap around.
    oldest: u32,
    /// How many of the pages are forgotten.
    forgotten: usize,
    /// The tables: the number of the newest page by key. The first table is for the exact hash, the others for the
    /// bands.
    newest: Box<[HashTable<u32>]>,
}

#[derive(Debug)]
struct IndexedPage {
    url: u64,
    expires: Duration,
    exact: u128,
    bits: Option<Bits>,
    /// The page has changed or is gone.
    is_forgotten: bool,
}

/// The entry of a page in the chain of a table and key.
#[derive(Clone, Copy, Debug)]
struct ChainLink {
    key: u32,
    /// The number of the previous page with the same key; the page's own number, or that of a removed page, if there is
    /// none.
    previous: u32,
}

impl Index {
    /// An empty index. Pages expire `ttl` after they were stored.
    pub fn new(threshold: Threshold, ttl: Duration) -> Self {
        let newest = (0..=threshold.band_count()).map(|_| HashTable::new()).collect();
        let (pages, links) = (VecDeque::new(), VecDeque::new());
        Index { threshold, ttl, pages, links, oldest: 0, forgotten: 0, newest }
    }

    /// Number of pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether there are no pages.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Stores the fingerprint of the page of `url`, and returns the number of the page. `now` is the time since any fixed moment.
    pub fn insert(&mut self, fingerprint: &Fingerprint, url: u64, now: Duration) -> u32 {
        let bits = fingerprint.sketch.as_deref().filter(|_| !self.threshold.is_exact());
        let page = IndexedPage {
            url,
            expires: now.saturating_add(self.ttl),
            exact: fingerprint.exact,
            bits: bits.map(|sketch| sketch.bits),
            is_forgotten: false,
        };
        self.push(page, self.keys(fingerprint))
    }

    fn push(&mut self, page: IndexedPage, keys: impl Iterator<Item = u32>) -> u32 {
        let number = self.oldest.wrapping_add(self.pages.len() as u32);
        let tables = self.newest.len();
        // A page without a sketch is in the first table only; its other links are never used.
        let unlinked = ChainLink { key: 0, previous: number };
        self.links.extend(std::iter::repeat_n(unlinked, tables));
        let first = self.pages.len() * tables;
        for (table, key) in keys.enumerate() {
            let links = &self.links;
            let key_of =
                |&number: &u32| links[number.wrapping_sub(self.oldest) as usize * tables + table].key;
            let has_key = |number: &u32| key_of(number) == key;
            let previous =
                match self.newest[table].entry(spread(key), has_key, |number| spread(key_of(number))) {
                    Entry::Occupied(mut newest) => std::mem::replace(newest.get_mut(), number),
                    Entry::Vacant(entry) => {
                        entry.insert(number);
                        // No previous page: a chain ends where numbers do not decrease.
                        number
                    }
                };
            self.links[first + table] = ChainLink { key, previous };
        }
        self.pages.push_back(page);
        number
    }

    /// Finds the page of this number no more. Its memory is returned by [`compact`](Index::compact).
    pub fn forget(&mut self, number: u32) {
        let page = self.pages.get_mut(number.wrapping_sub(self.oldest) as usize);
        if let Some(page) = page.filter(|page| !page.is_forgotten) {
            page.is_forgotten = true;
            self.forgotten += 1;
        }
    }

    /// Whether enough pages are forgotten to move the others together.
    pub fn is_sparse(&self) -> bool {
        self.forgotten > MIN_FORGOTTEN.max(self.pages.len() / FORGOTTEN_PART)
    }

    /// Moves the pages together, and returns the URLs and new numbers of all.
    pub fn compact(&mut self) -> Vec<(u64, u32)> {
        let tables = self.newest.len();
        let (pages, links) = (std::mem::take(&mut self.pages), std::mem::take(&mut self.links));
        self.newest.iter_mut().for_each(HashTable::clear);
        (self.oldest, self.forgotten) = (0, 0);
        let mut numbers = Vec::with_capacity(pages.len());
        for (index, page) in pages.into_iter().enumerate().filter(|(_, page)| !page.is_forgotten) {
            // A page without a sketch is in the first table only.
            let used = if page.bits.is_some() { tables } else { 1 };
            let keys: Vec<u32> = (0..used).map(|table| links[index * tables + table].key).collect();
            let url = page.url;
            numbers.push((url, self.push(page, keys.into_iter())));
        }
        numbers
    }

    /// Finds a duplicate, or else a near-duplicate, with another URL than `not_from`. The time does not depend on the
    /// number of pages.
    ///
    /// Border cases are decided by the [`verdicts`](Verdicts::decide).
    pub fn find(
        &self,
        fingerprint: &Fingerprint,
        not_from: u64,
        now: Duration,
        verdicts: Option<&Verdicts>,
    ) -> Lookup {
        let is_other = |page: &&IndexedPage| page.url != not_from && page.expires > now;
        let mut keys = self.keys(fingerprint).enumerate();
        let same = keys.next().and_then(|(table, key)| {
            let mut candidates = self.pages_with_key(table, key).filter(is_other);
            candidates.find(|page| page.exact == fingerprint.exact)
        });
        if let Some(duplicate) = same {
            return Lookup::Match(Match::Duplicate(duplicate.url));
        }
        let Some(sketch) = fingerprint.sketch.as_deref() else { return Lookup::New };
        let mut undecided = Vec::new();
        for page in keys.flat_map(|(table, key)| self.pages_with_key(table, key)).filter(is_other) {
            let Some(bits) = &page.bits else { continue };
            let estimate = self.threshold.estimate_bits(bits, &sketch.bits);
            match Verdicts::decide(verdicts, page.url, estimate) {
                Decision::Similar => return Lookup::Match(Match::NearDuplicate(page.url)),
                Decision::Different => {}
                Decision::Undecided(page) => undecided.push(page),
            }
        }
        match verdicts.map(|verdicts| verdicts.select(undecided)) {
            Some(pages) if !pages.is_empty() => Lookup::Undecided(pages),
            _ => Lookup::New,
        }
    }

    /// The URLs that [`find`](Index::find) compares the fingerprint with, without duplicates.
    pub fn candidates(&self, fingerprint: &Fingerprint, not_from: u64, now: Duration) -> Vec<u64> {
        let keys = self.keys(fingerprint).enumerate();
        let pages = keys.flat_map(|(table, key)| self.pages_with_key(table, key));
        let mut urls: Vec<u64> = pages.filter(|page| page.expires > now).map(|page| page.url).collect();
        urls.sort_unstable();
        urls.dedup();
        urls.retain(|url| *url != not_from);
        urls
    }

    /// Removes expired pages.
    pub fn remove_expired(&mut self, now: Duration) {
        while self.oldest_expires().is_some_and(|expires| expires <= now) {
            self.remove_oldest();
        }
    }

    /// When the oldest page expires.
    pub fn oldest_expires(&self) -> Option<Duration> {
        self.pages.front().map(|page| page.expires)
    }

    /// Removes the oldest page and returns its URL.
    pub fn remove_oldest(&mut self) -> Option<u64> {
        let page = self.pages.pop_front()?;
        self.forgotten -= usize::from(page.is_forgotten);
        let links = self.links.drain(..self.newest.len());
        for (newest, link) in self.newest.iter_mut().zip(links) {
            // If it is the newest page with its key, it is also the last one.
            if let Ok(newest) = newest.find_entry(spread(link.key), |&number| number == self.oldest) {
                newest.remove();
            }
        }
        self.oldest = self.oldest.wrapping_add(1);
        Some(page.url)
    }

    /// The keys of a fingerprint, one for each table.
    fn keys(&self, fingerprint: &Fingerprint) -> impl Iterator<Item = u32> + use<> {
        let bands = fingerprint.sketch.as_deref().map(|sketch| self.threshold.bands(sketch));
        std::iter::once(fingerprint.exact as u32).chain(bands.into_iter().flatten().map(|key| key as u32))
    }

    /// The pages with a key in a table, the newest first, at most `MAX_CANDIDATES`.
    fn pages_with_key(&self, table: usize, key: u32) -> impl Iterator<Item = &IndexedPage> {
        let page_at = |number: u32| {
            let page = self.pages.get(number.wrapping_sub(self.oldest) as usize)?;
            Some((number, page))
        };
        let link_of = move |number: u32| {
            self.links[number.wrapping_sub(self.oldest) as usize * self.newest.len() + table]
        };
        let has_key = |&number: &u32| page_at(number).is_some_and(|(number, _)| link_of(number).key == key);
        let newest = self.newest[table].find(spread(key), has_key).copied();
        std::iter::successors(newest.and_then(page_at), move |(number, _)| {
            let previous = link_of(*number).previous;
            // Numbers decrease along a chain.
            page_at(previous)
                .filter(|_| previous.wrapping_sub(self.oldest) < number.wrapping_sub(self.oldest))
        })
        .map(|(_, page)| page)
        .filter(|page| !page.is_forgotten)
        .take(MAX_CANDIDATES)
    }
}

/// Spreads a key over the 64 bits that the tables need.
fn spread(key: u32) -> u64 {
    fold(u64::from(key) ^ 0x5851_F42D_4C95_7F2D, 0xC6BC_2796_92B5_CC83)
}

#[cfg(test)]
mod tests;
