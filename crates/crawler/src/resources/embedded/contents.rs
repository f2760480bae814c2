//! Content storage in memory: the pages kept lately, compressed, and the index that tells whether one is like them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::super::{Remembered, Trouble};
use crate::worker::similarity::{Fingerprint, Index, Match, Threshold};

/// The fastest level that still halves a page: storing must not cost more than fetching.
const COMPRESSION_LEVEL: i32 = -5;

pub(super) struct Contents {
    /// `None` where likeness does not matter.
    index: Option<Index>,
    /// Keep the pages, not only what recognises them.
    keep_bodies: bool,
    ttl: Duration,
    began: Instant,
    pages: HashMap<u64, Stored>,
    /// In the order of storing, which is the order of expiry.
    order: VecDeque<(Instant, u64)>,
    bytes: u64,
}

struct Stored {
    url: Box<str>,
    stored: Instant,
    body: Box<[u8]>,
}

impl Contents {
    pub(super) fn new(similarity: Option<Threshold>, keep_bodies: bool, ttl: Duration) -> Contents {
        Contents {
            index: similarity.map(|threshold| Index::new(threshold, ttl)),
            keep_bodies,
            ttl,
            began: Instant::now(),
            pages: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) fn stored(&self) -> (usize, u64) {
        (self.pages.len(), self.bytes)
    }

    /// Stores a page unless it is like another. The body comes compressed, so that nobody waits for that.
    pub(super) fn remember(
        &mut self,
        id: u64,
        url: &str,
        fingerprint: &Fingerprint,
        body: Box<[u8]>,
    ) -> Remembered {
        let now = Instant::now();
        self.forget(now);
        let age = now - self.began;
        if let Some(index) = &mut self.index {
            let like = index.find(fingerprint, id, age);
            let named = |id: u64| self.pages.get(&id).map_or(String::new(), |page| page.url.to_string());
            match like {
                Some(Match::Same(other)) => return Remembered::Same(named(other)),
                Some(Match::Similar(other)) => return Remembered::Similar(named(other)),
                None => {}
            }
            // Delivered again after a death: it is in the index already.
            if !self.pages.contains_key(&id) {
                index.insert(fingerprint, id, age);
            }
        }
        self.bytes += body.len() as u64;
        self.order.push_back((now, id));
        if let Some(before) = self.pages.insert(id, Stored { url: url.into(), stored: now, body }) {
            self.bytes -= before.body.len() as u64;
        }
        Remembered::New
    }

    pub(super) fn body(&self, id: u64) -> Option<Box<[u8]>> {
        let page = self.pages.get(&id).filter(|page| self.keep_bodies && page.stored.elapsed() < self.ttl)?;
        Some(page.body.clone())
    }

    fn forget(&mut self, now: Instant) {
        while let Some((stored, id)) = self.order.front().copied()
            && now - stored >= self.ttl
        {
            self.order.pop_front();
            // Stored again since: then a later entry of the order is its own.
            if self.pages.get(&id).is_some_and(|page| page.stored == stored)
                && let Some(page) = self.pages.remove(&id)
            {
                self.bytes -= page.body.len() as u64;
            }
        }
        if let Some(index) = &mut self.index {
            index.remove_expired(now - self.began);
        }
    }
}

/// A page as it is stored.
pub(super) fn compress(body: &[u8]) -> Result<Box<[u8]>, Trouble> {
    let compressed = zstd::bulk::compress(body, COMPRESSION_LEVEL);
    compressed.map(Vec::into_boxed_slice).map_err(|error| Trouble(format!("cannot compress a page: {error}")))
}

/// A page as it was.
pub(super) fn decompress(stored: &[u8]) -> Result<Vec<u8>, Trouble> {
    zstd::stream::decode_all(stored).map_err(|error| Trouble(format!("a stored page is damaged: {error}")))
}
