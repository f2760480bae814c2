//! Storage in memory: gone when the process is.

use std::time::Duration;

use super::super::{Pacing, Trouble};
use super::Settings;
use super::compressed_queue::Line;
use super::seen_urls::{Found, LinkStorage};
use super::segment_store::Bodies;
use super::storage::{Body, Commit, End, Item, Met, Storage};
use crate::domain::Domain;
use crate::modules::Addition;
use crate::similarity::{Fingerprint, Key};
use crate::task::Depth;

/// Everything in memory.
pub struct Memory {
    key: Key,
    links: LinkStorage,
    overflow: Line,
    bodies: Bodies,
}

impl Memory {
    pub(super) fn new(settings: &Settings, key: Key) -> Memory {
        Memory {
            key,
            links: LinkStorage::new(settings.ttl, settings.keep_depths),
            overflow: Line::default(),
            bodies: Bodies::default(),
        }
    }
}

#[cfg(test)]
impl Memory {
    pub(super) fn for_tests() -> Memory {
        let (links, overflow) = (LinkStorage::new(Duration::MAX, false), Line::default());
        Memory { key: Key::new(1), links, overflow, bodies: Bodies::default() }
    }
}

impl Storage for Memory {
    type Line = Line;

    fn id(&self, url: &str) -> u64 {
        self.key.url_id(url)
    }

    fn meet(&mut self, id: u64, depth: Depth, now: Duration) -> Result<Met, Trouble> {
        Ok(match self.links.meet(id, depth, now) {
            Found::New => Met::New,
            Found::Nearer { outstanding: false } => Met::Nearer,
            // Its smaller depth is looked up when it is lent.
            Found::Nearer { outstanding: true } | Found::Known => Met::Known,
        })
    }

    fn admit(&mut self, id: u64, item: Item, _: Duration) {
        self.links.admitted(id);
        self.overflow.push(item);
    }

    fn take(&mut self, max: usize) -> Result<Vec<Item>, Trouble> {
        Ok(std::iter::from_fn(|| self.overflow.pop()).take(max).collect())
    }

    fn overflow(&self) -> usize {
        self.overflow.len()
    }

    fn depth(&self, item: &Item) -> Depth {
        let smallest = self.links.depth(self.id(&item.url));
        smallest.map_or(item.depth, |smallest| smallest.min(item.depth))
    }

    fn park(&mut self, line: &mut Line, item: Item) {
        line.push(item);
    }

    fn unpark(&mut self, line: &mut Line) -> Result<Option<Item>, Trouble> {
        Ok(line.pop())
    }

    fn end(&mut self, id: u64, item: &Item, end: End, now: Duration) {
        self.links.completed(id, now);
        // Only what has links is visited again for them, should it be met nearer.
        if !item.again && !end.outcome.has_links() {
            self.links.forget_depth(id);
        }
    }

    fn known(&self) -> usize {
        self.links.len()
    }

    fn keep(&mut self, id: u64, _: &str, _: &Fingerprint, body: Option<Body>, _: Duration) {
        if let Some(body) = body {
            self.bodies.insert(id, &body);
        }
    }

    fn body(&self, id: u64) -> Result<Option<Body>, Trouble> {
        Ok(self.bodies.get(id))
    }

    fn discard(&mut self, id: u64) -> Result<(), Trouble> {
        self.bodies.remove(id);
        Ok(())
    }

    fn pace(&mut self, _: &str, _: Pacing) -> Result<(), Trouble> {
        Ok(())
    }

    fn host_pages(&mut self, _: &str, _: u64) -> Result<(), Trouble> {
        Ok(())
    }

    fn linking_pages(&mut self, _: &Domain, _: u32) {}

    fn record(&mut self, _: u64, _: Vec<(usize, Addition)>) {}

    fn wrote(&mut self, _: u64, _: Vec<u64>) {}

    fn fail(&mut self, _: &Trouble) {}

    fn commit(&mut self) -> Commit {
        Commit::Done
    }
}
