//! Storage in memory: gone when the process is.

use std::time::Duration;

use super::super::{BackendError, HostDelay};
use super::BackendConfig;
use super::compressed_queue::CompressedUrlQueue;
use super::seen_urls::{SeenLookup, SeenUrls};
use super::segment_store::SegmentStore;
use super::storage::{Body, Commit, CompletedUrl, QueuedTask, SeenStatus, Storage};
use crate::domain::Domain;
use crate::modules::OutputWrite;
use crate::similarity::{Fingerprint, HashKey};
use crate::task::Depth;

/// Everything in memory.
pub struct MemoryStorage {
    key: HashKey,
    links: SeenUrls,
    overflow: CompressedUrlQueue,
    bodies: SegmentStore,
}

impl MemoryStorage {
    pub(super) fn new(settings: &BackendConfig, key: HashKey) -> MemoryStorage {
        MemoryStorage {
            key,
            links: SeenUrls::new(settings.ttl, settings.keep_depths),
            overflow: CompressedUrlQueue::default(),
            bodies: SegmentStore::default(),
        }
    }
}

#[cfg(test)]
impl MemoryStorage {
    pub(super) fn for_tests() -> MemoryStorage {
        let (links, overflow) = (SeenUrls::new(Duration::MAX, false), CompressedUrlQueue::default());
        MemoryStorage { key: HashKey::new(1), links, overflow, bodies: SegmentStore::default() }
    }
}

impl Storage for MemoryStorage {
    type Parked = CompressedUrlQueue;

    fn id(&self, url: &str) -> u64 {
        self.key.url_id(url)
    }

    fn mark_seen(&mut self, id: u64, depth: Depth, now: Duration) -> Result<SeenStatus, BackendError> {
        Ok(match self.links.mark_seen(id, depth, now) {
            SeenLookup::New => SeenStatus::New,
            SeenLookup::Shallower { outstanding: false } => SeenStatus::Shallower,
            // Its smaller depth is looked up when it is lent.
            SeenLookup::Shallower { outstanding: true } | SeenLookup::Seen => SeenStatus::Seen,
        })
    }

    fn admit(&mut self, id: u64, item: QueuedTask, _: Duration) {
        self.links.admitted(id);
        self.overflow.push(item);
    }

    fn take(&mut self, max: usize) -> Result<Vec<QueuedTask>, BackendError> {
        Ok(std::iter::from_fn(|| self.overflow.pop()).take(max).collect())
    }

    fn overflow(&self) -> usize {
        self.overflow.len()
    }

    fn depth(&self, item: &QueuedTask) -> Depth {
        let smallest = self.links.depth(self.id(&item.url));
        smallest.map_or(item.depth, |smallest| smallest.min(item.depth))
    }

    fn park(&mut self, line: &mut CompressedUrlQueue, item: QueuedTask) {
        line.push(item);
    }

    fn unpark(&mut self, line: &mut CompressedUrlQueue) -> Result<Option<QueuedTask>, BackendError> {
        Ok(line.pop())
    }

    fn complete(&mut self, id: u64, item: &QueuedTask, end: CompletedUrl, now: Duration) {
        self.links.completed(id, now);
        // Only what has links is visited again for them, should it be met nearer.
        if !item.is_revisit && !end.outcome.has_links() {
            self.links.forget_depth(id);
        }
    }

    fn seen_len(&self) -> usize {
        self.links.len()
    }

    fn store_page(&mut self, id: u64, _: &str, _: &Fingerprint, body: Option<Body>, _: Duration) {
        if let Some(body) = body {
            self.bodies.insert(id, &body);
        }
    }

    fn body(&self, id: u64) -> Result<Option<Body>, BackendError> {
        Ok(self.bodies.get(id))
    }

    fn remove_page(&mut self, id: u64) -> Result<(), BackendError> {
        self.bodies.remove(id);
        Ok(())
    }

    fn set_host_delay(&mut self, _: &str, _: HostDelay) -> Result<(), BackendError> {
        Ok(())
    }

    fn host_pages(&mut self, _: &str, _: u64) -> Result<(), BackendError> {
        Ok(())
    }

    fn linking_pages(&mut self, _: &Domain, _: u32) {}

    fn record(&mut self, _: u64, _: Vec<(usize, OutputWrite)>) {}

    fn record_outputs_written(&mut self, _: u64, _: Vec<u64>) {}

    fn fail(&mut self, _: &BackendError) {}

    fn commit(&mut self) -> Commit {
        Commit::Done
    }
}
