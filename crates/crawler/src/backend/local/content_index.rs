//! The index of stored pages: when each expires, and which pages are duplicates. The bodies are in the storage.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use super::super::ContentMatch;
use super::segment_store::SegmentStore;
use super::storage::Body;
use crate::error::{StorageError, StorageErrorKind};
use crate::keyed_map::KeyedMap;
use crate::similarity::{ContentType, Fingerprint, Index, Lookup, Match, Threshold, Undecided, Verdicts};

/// LZ4 expands a byte to at most this many. A stored page that claims to be larger is damaged.
const MAX_EXPANSION: usize = 255;

/// Old entries are removed from the order of expiry when it has twice as many as there are pages, and at least this many.
const MIN_ORDER: usize = 1024;

pub(crate) struct ContentIndex {
    /// `None` if duplicate detection is off.
    index: Option<Index>,
    ttl: Duration,
    pages: KeyedMap<u64, StoredPage>,
    /// The URLs of the pages.
    urls: SegmentStore,
    /// In the order in which pages were stored, which is the order in which they expire.
    order: VecDeque<(Duration, u64)>,
    bytes: u64,
    /// Pages that an earlier process stored, until all of them are restored.
    restoring: Vec<(Duration, u64, Fingerprint)>,
}

struct StoredPage {
    stored_at: Duration,
    bytes: u64,
    content_type: ContentType,
    /// The body and link targets, to recognise another version.
    exact: u128,
    /// Its number in the index.
    number: u32,
}

/// What the index knows about a page.
pub(crate) enum IndexLookup {
    /// It has no duplicate or near-duplicate.
    New,
    /// It has one.
    Match(ContentMatch),
    /// These pages must be compared with it exactly first.
    Undecided(Vec<Undecided>),
}

impl ContentIndex {
    pub(crate) fn new(similarity: Option<Threshold>, ttl: Duration) -> ContentIndex {
        ContentIndex {
            index: similarity.map(|threshold| Index::new(threshold, ttl)),
            ttl,
            pages: KeyedMap::default(),
            urls: SegmentStore::default(),
            order: VecDeque::new(),
            bytes: 0,
            restoring: Vec::new(),
        }
    }

    /// Restores a page that an earlier process stored. Pages can be restored in any order.
    pub(crate) fn restore(
        &mut self,
        id: u64,
        url: &str,
        fingerprint: Fingerprint,
        bytes: u64,
        stored_at: Duration,
    ) {
        self.bytes += bytes;
        let (content_type, exact) = (fingerprint.content_type, fingerprint.exact);
        self.pages.insert(id, StoredPage { stored_at, bytes, content_type, exact, number: 0 });
        self.urls.insert_text(id, url);
        self.restoring.push((stored_at, id, fingerprint));
    }

    /// Ends the restore: puts the pages into the order in which they expire, up to `max` of them at a time. Returns whether there
    /// are more.
    pub(crate) fn finish_restore(&mut self, max: usize) -> bool {
        if self.order.is_empty() {
            // The last one is first.
            self.restoring.sort_unstable_by_key(|(stored_at, id, _)| Reverse((*stored_at, *id)));
        }
        let first = self.restoring.len().saturating_sub(max);
        for (stored_at, id, fingerprint) in self.restoring.drain(first..).rev() {
            self.order.push_back((stored_at, id));
            if let (Some(index), Some(page)) = (&mut self.index, self.pages.get_mut(&id)) {
                page.number = index.insert(&fingerprint, id, stored_at);
            }
        }
        let has_more = !self.restoring.is_empty();
        if !has_more {
            // It was as large as all pages together.
            self.restoring = Vec::new();
        }
        has_more
    }

    /// Number of stored pages, and the bytes they take.
    pub(crate) fn pages_and_bytes(&self) -> (usize, u64) {
        (self.pages.len(), self.bytes)
    }

    /// Finds the page from another URL that this one duplicates. Border cases are decided by the verdicts, or by the
    /// estimates if there are none.
    pub(crate) fn find(
        &self,
        id: u64,
        fingerprint: &Fingerprint,
        now: Duration,
        verdicts: Option<&Verdicts>,
    ) -> IndexLookup {
        let Some(index) = &self.index else { return IndexLookup::New };
        match index.find(fingerprint, id, now, verdicts) {
            Lookup::New => IndexLookup::New,
            Lookup::Undecided(pages) => IndexLookup::Undecided(pages),
            Lookup::Match(Match::Duplicate(other)) => {
                IndexLookup::Match(ContentMatch::Duplicate(self.url(other).to_owned()))
            }
            Lookup::Match(Match::NearDuplicate(other)) => {
                IndexLookup::Match(ContentMatch::NearDuplicate(self.url(other).to_owned()))
            }
        }
    }

    /// The URL of a stored page.
    pub(super) fn url(&self, id: u64) -> &str {
        self.urls.text(id).unwrap_or_default()
    }

    /// How the body of a stored page is read.
    pub(super) fn content_type(&self, id: u64) -> Option<ContentType> {
        self.pages.get(&id).map(|page| page.content_type)
    }

    /// Adds a page whose body takes `bytes`, or its next version.
    pub(crate) fn add(&mut self, id: u64, url: &str, fingerprint: &Fingerprint, bytes: u64, now: Duration) {
        let (content_type, exact) = (fingerprint.content_type, fingerprint.exact);
        let before = self.pages.get(&id).map(|page| (page.exact, page.number, page.bytes));
        let mut number = 0;
        if let Some(index) = &mut self.index {
            number = match before {
                // A page that was delivered again after a crash is in the index already.
                Some((before, number, _)) if before == exact => number,
                before => {
                    // No page is a duplicate of an earlier version.
                    before.into_iter().for_each(|(_, number, _)| index.forget(number));
                    index.insert(fingerprint, id, now)
                }
            };
        }
        if before.is_none() {
            self.urls.insert_text(id, url);
        }
        self.bytes = self.bytes + bytes - before.map_or(0, |(_, _, bytes)| bytes);
        self.order.push_back((now, id));
        self.pages.insert(id, StoredPage { stored_at: now, bytes, content_type, exact, number });
        self.compact();
    }

    /// Removes a page that is gone. Returns whether it was stored.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let Some(page) = self.pages.remove(&id) else { return false };
        if let Some(index) = &mut self.index {
            index.forget(page.number);
        }
        self.bytes -= page.bytes;
        self.urls.remove(id);
        self.compact();
        true
    }

    /// Returns the memory of versions that were replaced, and of pages that are gone.
    fn compact(&mut self) {
        if let Some(index) = self.index.as_mut().filter(|index| index.is_sparse()) {
            for (id, number) in index.compact() {
                if let Some(page) = self.pages.get_mut(&id) {
                    page.number = number;
                }
            }
        }
        if self.order.len() > MIN_ORDER.max(2 * self.pages.len()) {
            let pages = &self.pages;
            self.order
                .retain(|(stored_at, id)| pages.get(id).is_some_and(|page| page.stored_at == *stored_at));
        }
    }

    /// Whether a page is stored.
    pub(crate) fn is_stored(&self, id: u64) -> bool {
        self.pages.contains_key(&id)
    }

    /// Whether a page is stored and has not expired.
    pub(crate) fn contains(&self, id: u64, now: Duration) -> bool {
        self.pages.get(&id).is_some_and(|page| now < page.stored_at.saturating_add(self.ttl))
    }

    /// Removes the pages that have expired, and returns their ids.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<u64> {
        let mut expired = Vec::new();
        while let Some((stored_at, id)) = self.order.front().copied()
            && now >= stored_at.saturating_add(self.ttl)
        {
            self.order.pop_front();
            // If the page was stored again, a later entry of `order` is the one that expires it.
            if self.pages.get(&id).is_some_and(|page| page.stored_at == stored_at)
                && let Some(page) = self.pages.remove(&id)
            {
                self.bytes -= page.bytes;
                self.urls.remove(id);
                expired.push(id);
            }
        }
        if let Some(index) = &mut self.index {
            index.remove_expired(now);
        }
        expired
    }
}

/// A page as it is stored after `stored_bytes` of others. The first `max_plain` bytes are not compressed, to save time.
pub(crate) fn body_to_store(body: &[u8], stored_bytes: u64, max_plain: u64) -> Body<'_> {
    if stored_bytes < max_plain { Body::Plain(body.into()) } else { compress(body) }
}

/// Compresses a page for storage.
pub(crate) fn compress(body: &[u8]) -> Body<'_> {
    // Up to twice as fast as zstd at the levels with the same ratio (`bench/content.py`).
    match lz4_flex::compress_prepend_size(body) {
        compressed if compressed.len() < body.len() => Body::Compressed(compressed.into()),
        _ => Body::Plain(body.into()),
    }
}

/// Returns the body of a stored page.
pub(crate) fn decompress(body: Body) -> Result<Vec<u8>, StorageError> {
    match body {
        Body::Plain(bytes) => Ok(bytes.into_owned()),
        Body::Compressed(bytes) => {
            let damaged = |cause: &dyn std::fmt::Display| {
                let message = format!("cannot read a stored page: it is damaged: {cause}");
                StorageError::new(StorageErrorKind::Damaged, message)
            };
            let (length, _) = lz4_flex::block::uncompressed_size(&bytes).map_err(|error| damaged(&error))?;
            if length / MAX_EXPANSION > bytes.len() {
                return Err(damaged(&"its length is impossible"));
            }
            lz4_flex::decompress_size_prepended(&bytes).map_err(|error| damaged(&error))
        }
    }
}
