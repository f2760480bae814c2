//! Storage in memory. It is lost when the process exits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::BackendError;
use super::BackendConfig;
use super::compressed_queue::CompressedUrlQueue;
use super::seen_urls::{SeenLookup, SeenUrls};
use super::segment_store::SegmentStore;
use super::state::NewPage;
use super::storage::{Body, Commit, CompletedUrl, QueuedTask, SeenStatus, Storage, TaskRef};
use super::visited_urls::VisitedUrls;
use crate::similarity::HashKey;
use crate::task::Depth;
use crate::url_record::Discovery;
use crate::visit::{PreviousVisit, VisitSettings};

/// Storage in memory.
pub struct MemoryStorage {
    key: HashKey,
    seen: SeenUrls,
    overflow: CompressedUrlQueue,
    bodies: SegmentStore,
    /// When pages were last modified, by the IDs of their URLs.
    lastmods: HashMap<u64, u32>,
    /// The visits of URLs, and when they are due again. Empty unless URLs are visited again.
    visits: VisitedUrls,
    keeps_visits: bool,
}

impl MemoryStorage {
    pub(crate) fn new(config: &BackendConfig, key: HashKey) -> MemoryStorage {
        MemoryStorage {
            key,
            seen: SeenUrls::new(config.keep_depths),
            overflow: CompressedUrlQueue::keeping_memory(),
            bodies: SegmentStore::default(),
            lastmods: HashMap::new(),
            visits: VisitedUrls::default(),
            keeps_visits: config.visits.are_kept,
        }
    }

    /// The smallest depth of a URL that has not been completed, if depths are tracked.
    pub(crate) fn pending_depth(&self, id: u64) -> Option<Depth> {
        self.seen.pending_depth(id)
    }

    /// Restores a completed URL of an earlier process.
    pub(crate) fn restore_completed(&mut self, id: u64, depth: Depth, has_links: bool) {
        self.seen.mark_seen(id, depth);
        self.seen.set_pending(id, false);
        if !has_links {
            self.seen.forget_depth(id);
        }
    }

    /// Restores a pending URL of an earlier process: in the seen set, and perhaps in the overflow.
    pub(crate) fn restore_pending(&mut self, task: TaskRef, smallest: Depth, in_overflow: bool) {
        let id = self.id(task.url);
        self.seen.mark_seen(id, smallest);
        self.seen.set_pending(id, true);
        if in_overflow {
            self.overflow.push(task);
        }
    }
}

/// The operations of a storage that are those of its field `memory`, a storage in memory.
macro_rules! operations_in_memory {
    () => {
        type Parked = $crate::backend::local::compressed_queue::CompressedUrlQueue;

        fn id(&self, url: &str) -> u64 {
            self.memory.id(url)
        }

        fn take_overflow(&mut self, max: usize) -> Result<Vec<QueuedTask>, BackendError> {
            self.memory.take_overflow(max)
        }

        fn overflow_len(&self) -> usize {
            self.memory.overflow_len()
        }

        fn depth(&self, task: &QueuedTask) -> Depth {
            self.memory.depth(task)
        }

        fn park(&mut self, queue: &mut Self::Parked, task: QueuedTask) {
            self.memory.park(queue, task);
        }

        fn unpark(&mut self, queue: &mut Self::Parked) -> Result<Option<QueuedTask>, BackendError> {
            self.memory.unpark(queue)
        }

        fn lastmod(&self, task: &QueuedTask) -> Result<Option<u32>, BackendError> {
            self.memory.lastmod(task)
        }

        fn discovery(&self, task: &QueuedTask) -> Result<Option<Arc<Discovery>>, BackendError> {
            self.memory.discovery(task)
        }

        fn seen_len(&self) -> usize {
            self.memory.seen_len()
        }
    };
}
pub(crate) use operations_in_memory;

impl Storage for MemoryStorage {
    // To compress a page takes a fifth of the time of a whole page, which is not worth this little memory.
    const MAX_PLAIN_BYTES: u64 = 32 << 20;

    type Parked = CompressedUrlQueue;

    fn id(&self, url: &str) -> u64 {
        self.key.url_id(url)
    }

    fn mark_seen(&mut self, id: u64, depth: Depth) -> Result<SeenStatus, BackendError> {
        Ok(match self.seen.mark_seen(id, depth) {
            SeenLookup::New => SeenStatus::New,
            SeenLookup::Shallower { pending: false } => SeenStatus::Shallower,
            // The smaller depth is looked up when the URL is leased.
            SeenLookup::Shallower { pending: true } | SeenLookup::Seen => SeenStatus::Seen,
        })
    }

    fn admit(&mut self, id: u64, task: TaskRef, queue: Option<&mut CompressedUrlQueue>) {
        self.seen.set_pending(id, true);
        queue.unwrap_or(&mut self.overflow).push(task);
    }

    fn take_overflow(&mut self, max: usize) -> Result<Vec<QueuedTask>, BackendError> {
        let mut taken = Vec::with_capacity(max.min(self.overflow.len()));
        taken.extend(std::iter::from_fn(|| self.overflow.pop()).take(max));
        Ok(taken)
    }

    fn overflow_len(&self) -> usize {
        self.overflow.len()
    }

    fn depth(&self, task: &QueuedTask) -> Depth {
        if !self.seen.tracks_depths() {
            return task.depth;
        }
        let smallest = self.seen.depth(self.id(&task.url));
        smallest.map_or(task.depth, |smallest| smallest.min(task.depth))
    }

    fn park(&mut self, queue: &mut CompressedUrlQueue, task: QueuedTask) {
        queue.push(task.borrowed());
    }

    fn unpark(&mut self, queue: &mut CompressedUrlQueue) -> Result<Option<QueuedTask>, BackendError> {
        Ok(queue.pop())
    }

    fn complete(&mut self, id: u64, task: &QueuedTask, completed: CompletedUrl) {
        self.seen.set_pending(id, false);
        if self.keeps_visits && !task.is_refetch {
            self.visits.complete(id, &completed);
        }
        // Only URLs with links are fetched again when they are found at a smaller depth.
        if !task.is_refetch && !completed.outcome.has_links() {
            self.seen.forget_depth(id);
        }
    }

    fn previous_visit(&self, task: &QueuedTask) -> Result<Option<PreviousVisit>, BackendError> {
        Ok(if task.was_visited { self.visits.previous(self.id(&task.url)) } else { None })
    }

    fn schedule(&mut self, id: u64, task: &QueuedTask, due: u64) {
        self.visits.schedule(id, task, due);
    }

    fn make_due(&mut self, id: u64, modified: u32, _: u32, _: VisitSettings) -> Result<(), BackendError> {
        self.visits.make_due(id, modified);
        Ok(())
    }

    fn take_due(&mut self, now: u64, max: usize) -> Result<Vec<QueuedTask>, BackendError> {
        let tasks = self.visits.take_due(now, max);
        tasks.iter().for_each(|task| self.seen.set_pending(self.key.url_id(&task.url), true));
        Ok(tasks)
    }

    fn next_due(&mut self) -> Result<Option<u64>, BackendError> {
        Ok(self.visits.next_due())
    }

    fn scheduled_len(&self) -> u64 {
        self.visits.scheduled_len()
    }

    fn set_lastmod(&mut self, id: u64, lastmod: u32) {
        self.lastmods.insert(id, lastmod);
    }

    fn lastmod(&self, task: &QueuedTask) -> Result<Option<u32>, BackendError> {
        // Most crawls have none, and need not hash the URL.
        Ok(if self.lastmods.is_empty() { None } else { self.lastmods.get(&self.id(&task.url)).copied() })
    }

    fn discovery(&self, task: &QueuedTask) -> Result<Option<Arc<Discovery>>, BackendError> {
        Ok(task.discovery.clone())
    }

    fn seen_len(&self) -> usize {
        self.seen.len()
    }

    fn store_page(&mut self, id: u64, page: &NewPage, _: bool, _: Duration) -> Result<(), BackendError> {
        match page.body {
            Some(body) => self.bodies.insert(id, body),
            None => self.bodies.remove(id),
        }
        Ok(())
    }

    fn body(&self, id: u64) -> Result<Option<Body<'static>>, BackendError> {
        Ok(self.bodies.get(id))
    }

    fn remove_page(&mut self, id: u64) -> Result<(), BackendError> {
        self.bodies.remove(id);
        Ok(())
    }

    fn fail(&mut self, _: &BackendError) {}

    fn commit(&mut self) -> Commit {
        Commit::Done
    }
}
