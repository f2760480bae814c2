//! Which pages content storage has, for how long, and which are like each other. The pages themselves are in storage.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::super::{BackendError, ContentMatch};
use super::segment_store::SegmentStore;
use super::storage::Body;
use crate::similarity::{Fingerprint, Index, Match, Threshold};

/// LZ4 makes no more than this of a byte: a stored page that claims to be larger is damaged.
const MAX_EXPANSION: usize = 255;

pub(crate) struct ContentIndex {
    /// `None` where likeness does not matter.
    index: Option<Index>,
    ttl: Duration,
    pages: HashMap<u64, StoredPage>,
    /// The URLs of the pages.
    names: SegmentStore,
    /// In the order of storing, which is the order of expiry.
    order: VecDeque<(Duration, u64)>,
    bytes: u64,
    /// What an earlier process stored, until all of it is here.
    restoring: Vec<(Duration, u64, Fingerprint)>,
}

struct StoredPage {
    stored: Duration,
    bytes: u64,
}

impl ContentIndex {
    pub(crate) fn new(similarity: Option<Threshold>, ttl: Duration) -> ContentIndex {
        ContentIndex {
            index: similarity.map(|threshold| Index::new(threshold, ttl)),
            ttl,
            pages: HashMap::new(),
            names: SegmentStore::default(),
            order: VecDeque::new(),
            bytes: 0,
            restoring: Vec::new(),
        }
    }

    /// Takes back a page that an earlier process stored, in any order.
    pub(crate) fn restore(
        &mut self,
        id: u64,
        url: &str,
        fingerprint: Fingerprint,
        bytes: u64,
        stored: Duration,
    ) {
        self.bytes += bytes;
        self.pages.insert(id, StoredPage { stored, bytes });
        self.names.insert_text(id, url);
        self.restoring.push((stored, id, fingerprint));
    }

    /// All is taken back: what was stored first expires first.
    pub(crate) fn restored(&mut self) {
        let mut restored = std::mem::take(&mut self.restoring);
        restored.sort_by_key(|(stored, id, _)| (*stored, *id));
        for (stored, id, fingerprint) in restored {
            self.order.push_back((stored, id));
            if let Some(index) = &mut self.index {
                index.insert(&fingerprint, id, stored);
            }
        }
    }

    /// How many pages there are, and the bytes they take.
    pub(crate) fn stored(&self) -> (usize, u64) {
        (self.pages.len(), self.bytes)
    }

    /// The page from another URL that this one is like, if there is one.
    pub(crate) fn like(&self, id: u64, fingerprint: &Fingerprint, now: Duration) -> Option<ContentMatch> {
        let named = |id: u64| self.names.text(id).unwrap_or_default().to_owned();
        match self.index.as_ref()?.find(fingerprint, id, now)? {
            Match::Same(other) => Some(ContentMatch::Duplicate(named(other))),
            Match::Similar(other) => Some(ContentMatch::NearDuplicate(named(other))),
        }
    }

    /// Adds a page that takes so many bytes.
    pub(crate) fn add(&mut self, id: u64, url: &str, fingerprint: &Fingerprint, bytes: u64, now: Duration) {
        // Delivered again after a death: it is in the index already.
        if let Some(index) = &mut self.index
            && !self.pages.contains_key(&id)
        {
            index.insert(fingerprint, id, now);
        }
        self.bytes += bytes;
        self.order.push_back((now, id));
        self.names.insert_text(id, url);
        if let Some(before) = self.pages.insert(id, StoredPage { stored: now, bytes }) {
            self.bytes -= before.bytes;
        }
    }

    /// Whether a page is there.
    pub(crate) fn holds(&self, id: u64, now: Duration) -> bool {
        self.pages.get(&id).is_some_and(|page| now < page.stored.saturating_add(self.ttl))
    }

    /// Forgets the pages whose time has come, and tells which.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<u64> {
        let mut expired = Vec::new();
        while let Some((stored, id)) = self.order.front().copied()
            && now >= stored.saturating_add(self.ttl)
        {
            self.order.pop_front();
            // Stored again since: then a later entry of the order is its own.
            if self.pages.get(&id).is_some_and(|page| page.stored == stored)
                && let Some(page) = self.pages.remove(&id)
            {
                self.bytes -= page.bytes;
                self.names.remove(id);
                expired.push(id);
            }
        }
        if let Some(index) = &mut self.index {
            index.remove_expired(now);
        }
        expired
    }
}

/// A page as it is stored.
pub(super) fn compress(body: &[u8]) -> Body {
    // Up to twice as fast as a fresh zstd at the levels that store as little (`bench/content.py`).
    match lz4_flex::compress_prepend_size(body) {
        compressed if compressed.len() < body.len() => Body::Compressed(compressed.into()),
        _ => Body::Plain(body.into()),
    }
}

/// A page as it was.
pub(crate) fn decompress(stored: Body) -> Result<Vec<u8>, BackendError> {
    match stored {
        Body::Plain(bytes) => Ok(bytes.into()),
        Body::Compressed(bytes) => {
            let damaged =
                |what: &dyn std::fmt::Display| BackendError(format!("a stored page is damaged: {what}"));
            let (length, _) = lz4_flex::block::uncompressed_size(&bytes).map_err(|error| damaged(&error))?;
            if length / MAX_EXPANSION > bytes.len() {
                return Err(damaged(&"its length is impossible"));
            }
            lz4_flex::decompress_size_prepended(&bytes).map_err(|error| damaged(&error))
        }
    }
}
