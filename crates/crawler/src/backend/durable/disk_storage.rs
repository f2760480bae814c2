//! Storage on disk: reads from the last commit and from the batches on their way there, and writes to the next batch.

mod hosts;
mod seen_urls;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::super::{BackendError, TaskId};
use super::discovery;
use super::records::{BodyLocation, CompletedRow, HostRow, PageRow, SeenRow, TaskRow, writes_to_bytes};
use super::schedule::Schedule;
use super::seen_cache::{CacheLimits, SeenUrlCache};
use super::task_id_queue::TaskIdQueue;
use super::{Batch, View};
use crate::backend::local::state::NewPage;
use crate::backend::local::storage::{Body, Commit, CompletedUrl, QueuedTask, SeenStatus, Storage, TaskRef};
use crate::domain::Domain;
use crate::modules::output::{OutputPosition, OutputWrite};
use crate::outcome::Outcome;
use crate::similarity::{ContentType, Fingerprint, HashKey, VersionSimilarity};
use crate::stats::BodyBytes;
use crate::task::Depth;
use crate::task_kind::TaskKind;
use crate::url_record::Discovery;
use crate::visit::{PreviousVisit, VisitSettings};

/// Number of URLs to read at a time from the overflow on disk.
const READ_AHEAD: usize = 1024;

/// Storage on disk.
pub struct DiskStorage {
    pub(crate) view: View,
    /// The batch that collects changes.
    pub(crate) batch: Batch,
    /// The batch that is being written.
    pub(crate) committing: Option<Arc<Batch>>,
    pub(crate) committed: watch::Sender<Result<u64, BackendError>>,
    /// No more operations will come.
    pub(crate) closing: bool,
    /// An operation failed half-way. Nothing after the last commit counts.
    pub(crate) failed: bool,
    /// The HTTP requests and the body bytes that the last batch has recorded.
    pub(crate) committed_traffic: (u64, BodyBytes),
    pub(crate) seen_cache: SeenUrlCache,
    /// The segment for the bodies of the batch that collects changes.
    pub(crate) current_segment: u64,
    /// Number of stored bodies by segment. A segment without bodies is removed.
    bodies_per_segment: HashMap<u64, u32>,
    /// The seen set on disk is complete up to this task.
    pub(crate) seen_written_up_to: u64,
    pub(super) key: HashKey,
    keep_depths: bool,
    /// The delay of every host, which also holds after a crash.
    default_delay: Duration,
    seen_count: usize,
    /// The overflow of the URL queue: the URLs in `loaded`, then `on_disk` more from task `next_on_disk` on.
    loaded: VecDeque<QueuedTask>,
    next_on_disk: u64,
    on_disk: usize,
    /// Whether it is known when any page was last modified.
    has_lastmods: bool,
    /// The completed URLs that are due again, and when.
    pub(super) schedule: Schedule,
    /// Depths of pending URLs that were found again at a smaller depth.
    lowered_depths: HashMap<TaskId, Depth>,
}

impl DiskStorage {
    pub(crate) fn new(
        view: View,
        key: HashKey,
        keep_depths: bool,
        default_delay: Duration,
        cache_limits: CacheLimits,
    ) -> DiskStorage {
        DiskStorage {
            view,
            batch: Batch { number: 1, ..Batch::default() },
            committing: None,
            committed: watch::Sender::new(Ok(0)),
            closing: false,
            failed: false,
            committed_traffic: Default::default(),
            seen_cache: SeenUrlCache::new(cache_limits),
            current_segment: 0,
            bodies_per_segment: HashMap::new(),
            seen_written_up_to: 0,
            key,
            keep_depths,
            default_delay,
            seen_count: 0,
            loaded: VecDeque::new(),
            next_on_disk: 0,
            on_disk: 0,
            has_lastmods: false,
            schedule: Schedule::default(),
            lowered_depths: HashMap::new(),
        }
    }

    /// Continues from what is on disk. The seen set there is complete up to a task.
    pub(crate) fn resume(&mut self, seen_written_up_to: u64) -> Result<(), BackendError> {
        self.seen_written_up_to = seen_written_up_to;
        self.on_disk = usize::try_from(self.view.tasks_len()?).unwrap_or(usize::MAX);
        self.seen_count = usize::try_from(self.view.seen_len()?).unwrap_or(usize::MAX);
        self.seen_cache.is_complete = self.seen_count == 0;
        self.has_lastmods = self.view.lastmods_len()? > 0;
        self.schedule = Schedule::of_length(self.view.due_len()?);
        self.recover_seen(seen_written_up_to)
    }

    /// Counts a body that an earlier process stored.
    pub(crate) fn restore_body(&mut self, location: BodyLocation) -> Result<(), BackendError> {
        let next = location.segment.checked_add(1).ok_or_else(|| self.view.damaged())?;
        self.current_segment = self.current_segment.max(next);
        *self.bodies_per_segment.entry(location.segment).or_default() += 1;
        Ok(())
    }

    /// The row of a pending URL.
    pub(crate) fn task(&self, task_id: TaskId) -> Result<Option<TaskRow>, BackendError> {
        let in_batch = |batch: &Batch| batch.tasks.get(&task_id.0).cloned();
        let row = match in_batch(&self.batch).or_else(|| self.committing.as_deref().and_then(in_batch)) {
            Some(row) => row,
            None => self.view.task(task_id.0)?,
        };
        let Some(row) = row else { return Ok(None) };
        TaskRow::from_bytes(&row).map(Some).ok_or_else(|| self.view.damaged())
    }

    /// The row of a completed URL.
    pub(crate) fn completed(&self, task_id: TaskId) -> Result<Option<CompletedRow>, BackendError> {
        let in_batch = |batch: &Batch| batch.completed.get(&task_id.0).cloned();
        let row = match in_batch(&self.batch).or_else(|| self.committing.as_deref().and_then(in_batch)) {
            Some(row) => row,
            None => self.view.completed(task_id.0)?,
        };
        let Some(row) = row else { return Ok(None) };
        CompletedRow::from_bytes(&row).map(Some).ok_or_else(|| self.view.damaged())
    }

    /// The URL of a task, and the task on whose page it was found.
    pub(crate) fn url_and_source(&self, task_id: TaskId) -> Result<Option<(String, TaskId)>, BackendError> {
        if let Some(row) = self.completed(task_id)? {
            return Ok(Some((row.url, row.from)));
        }
        Ok(self.task(task_id)?.map(|row| (row.url, row.from)))
    }

    /// Loads the next URLs of the overflow, if there are some among the next rows. Reads up to `READ_AHEAD` from the last commit and
    /// from each batch, then keeps the first of all.
    fn load_overflow(&mut self) -> Result<(), BackendError> {
        let rows = self.view.tasks_from(self.next_on_disk, READ_AHEAD)?.into_iter();
        let mut rows: BTreeMap<u64, Option<Vec<u8>>> = rows.map(|(key, row)| (key, Some(row))).collect();
        for batch in self.committing.as_deref().into_iter().chain([&self.batch]) {
            let newer = batch.tasks.range(self.next_on_disk..).take(READ_AHEAD);
            rows.extend(newer.map(|(key, row)| (*key, row.clone())));
        }
        // `on_disk` URLs are left, so there must be some.
        let wrong_counts = || self.view.wrong_counts();
        if rows.is_empty() {
            return Err(wrong_counts());
        }
        let before = self.loaded.len();
        for (task_id, row) in rows.into_iter().take(READ_AHEAD) {
            self.next_on_disk = task_id.checked_add(1).ok_or_else(wrong_counts)?;
            let Some(row) = row else { continue };
            let row = TaskRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?;
            if TaskKind::from_task_url(&row.url) != TaskKind::Requisite {
                self.loaded.push_back(row.into_task(TaskId(task_id)));
            }
        }
        self.on_disk = self.on_disk.saturating_sub(self.loaded.len() - before);
        Ok(())
    }

    /// Moves the `count` requisites that an earlier process left from the overflow to a queue.
    pub(crate) fn move_requisites(
        &mut self,
        count: usize,
        queue: &mut TaskIdQueue,
    ) -> Result<(), BackendError> {
        let (mut moved, mut first) = (0, 0);
        while moved < count {
            let rows = self.view.tasks_from(first, READ_AHEAD)?;
            let next = rows.last().and_then(|(last, _)| last.checked_add(1));
            first = next.ok_or_else(|| self.view.wrong_counts())?;
            for (task_id, row) in rows {
                let row = TaskRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?;
                if TaskKind::from_task_url(&row.url) == TaskKind::Requisite {
                    queue.push(TaskId(task_id));
                    moved += 1;
                }
            }
        }
        self.on_disk = self.on_disk.saturating_sub(moved);
        Ok(())
    }

    /// When the page of a URL was last modified, if a sitemap says so.
    pub(crate) fn lastmod_of(&self, id: u64) -> Result<Option<u32>, BackendError> {
        let in_batch = |batch: &Batch| batch.lastmods.get(&id).copied();
        match in_batch(&self.batch).or_else(|| self.committing.as_deref().and_then(in_batch)) {
            Some(lastmod) => Ok(Some(lastmod)),
            None => self.view.lastmod(id),
        }
    }

    /// Removes the segment of a page's body, if no other page has its body there.
    fn release_body(&mut self, page: Option<&PageRow>) {
        let Some(BodyLocation { segment, .. }) = page.and_then(|page| page.body) else { return };
        if let Some(bodies) = self.bodies_per_segment.get_mut(&segment) {
            *bodies -= 1;
            if *bodies == 0 {
                self.bodies_per_segment.remove(&segment);
                self.batch.bodies.insert(segment, None);
            }
        }
    }

    /// The row of a stored page.
    pub(crate) fn page(&self, id: u64) -> Result<Option<PageRow>, BackendError> {
        let in_batch = |batch: &Batch| batch.pages.get(&id).cloned();
        let row = match in_batch(&self.batch).or_else(|| self.committing.as_deref().and_then(in_batch)) {
            Some(row) => row,
            None => self.view.page(id)?,
        };
        let Some(row) = row else { return Ok(None) };
        PageRow::from_bytes(&row).map(Some).ok_or_else(|| self.view.damaged())
    }
}

impl Storage for DiskStorage {
    type Parked = TaskIdQueue;

    fn id(&self, url: &str) -> u64 {
        self.key.url_id(url)
    }

    fn mark_seen(&mut self, id: u64, depth: Depth) -> Result<SeenStatus, BackendError> {
        self.mark_url_seen(id, depth)
    }

    fn admit(&mut self, id: u64, task: TaskRef, queue: Option<&mut TaskIdQueue>) {
        // It can be looked up.
        let task = TaskRef { discovery: None, ..task };
        let TaskRef { task_id, depth, .. } = task;
        self.batch.tasks.insert(task_id.0, Some(TaskRow::bytes_of(&task)));
        self.seen_cache.update(id, SeenRow { task_id, depth });
        match queue {
            Some(queue) => queue.push(task_id),
            None if self.on_disk == 0 && self.loaded.len() < READ_AHEAD => {
                self.next_on_disk = task_id.0 + 1;
                self.loaded.push_back(task.to_task());
            }
            None => self.on_disk += 1,
        }
    }

    fn take_overflow(&mut self, max: usize) -> Result<Vec<QueuedTask>, BackendError> {
        let mut tasks = Vec::new();
        while tasks.len() < max {
            while self.loaded.is_empty() && self.on_disk > 0 {
                self.load_overflow()?;
            }
            let Some(task) = self.loaded.pop_front() else { break };
            tasks.push(task);
        }
        Ok(tasks)
    }

    fn overflow_len(&self) -> usize {
        self.loaded.len() + self.on_disk
    }

    fn previous_visit(&self, task: &QueuedTask) -> Result<Option<PreviousVisit>, BackendError> {
        if !task.was_visited {
            return Ok(None);
        }
        let last = self.completed(task.task_id)?.ok_or_else(|| self.view.damaged())?;
        Ok(Some(PreviousVisit { record: last.visits, outcome: last.outcome }))
    }

    fn depth(&self, task: &QueuedTask) -> Depth {
        self.lowered_depths.get(&task.task_id).map_or(task.depth, |lowered| task.depth.min(*lowered))
    }

    fn park(&mut self, queue: &mut TaskIdQueue, task: QueuedTask) {
        queue.push(task.task_id);
    }

    fn unpark(&mut self, queue: &mut TaskIdQueue) -> Result<Option<QueuedTask>, BackendError> {
        let Some(task_id) = queue.pop() else { return Ok(None) };
        let row = self.task(task_id)?.ok_or_else(|| self.view.damaged())?;
        Ok(Some(row.into_task(task_id)))
    }

    fn complete(&mut self, _: u64, task: &QueuedTask, completed: CompletedUrl) {
        let is_unchanged = *completed.outcome == Outcome::Unchanged;
        let mut row = CompletedRow::new(task, completed);
        if is_unchanged && let Ok(Some(last)) = self.completed(task.task_id) {
            row.page_number = last.page_number;
        }
        self.batch.tasks.insert(task.task_id.0, None);
        self.batch.completed.insert(task.task_id.0, Some(row.to_bytes()));
        self.lowered_depths.remove(&task.task_id);
    }

    fn schedule(&mut self, _: u64, task: &QueuedTask, due: u64) {
        self.add_due((due, task.task_id.0));
    }

    fn make_due(
        &mut self,
        id: u64,
        modified: u32,
        visit: u32,
        settings: VisitSettings,
    ) -> Result<(), BackendError> {
        DiskStorage::make_due(self, id, modified, visit, settings)
    }

    fn take_due(&mut self, now: u64, max: usize) -> Result<Vec<QueuedTask>, BackendError> {
        self.queue_due(now, max)
    }

    fn next_due(&mut self) -> Result<Option<u64>, BackendError> {
        Ok(self.first_due()?.map(|(at, _)| at))
    }

    fn scheduled_len(&self) -> u64 {
        self.schedule.len()
    }

    fn set_lastmod(&mut self, id: u64, lastmod: u32) {
        self.has_lastmods = true;
        self.batch.lastmods.insert(id, lastmod);
    }

    fn lastmod(&self, task: &QueuedTask) -> Result<Option<u32>, BackendError> {
        if self.has_lastmods { self.lastmod_of(self.id(&task.url)) } else { Ok(None) }
    }

    fn discovery(&self, task: &QueuedTask) -> Result<Option<Arc<Discovery>>, BackendError> {
        discovery::look_up(task.borrowed(), |task_id| self.url_and_source(task_id))
    }

    fn seen_len(&self) -> usize {
        self.seen_count
    }

    fn store_page(
        &mut self,
        id: u64,
        page: &NewPage,
        has_earlier: bool,
        now: Duration,
    ) -> Result<(), BackendError> {
        let NewPage { url, fingerprint, body, .. } = *page;
        let before = if has_earlier { self.page(id)? } else { None };
        self.release_body(before.as_ref());
        let body = body.map(|body| {
            let segment = self.batch.bodies.entry(self.current_segment).or_default().get_or_insert_default();
            let location = BodyLocation {
                segment: self.current_segment,
                offset: segment.len() as u32,
                length: body.bytes().len() as u32,
                is_compressed: matches!(body, Body::Compressed(_)),
            };
            segment.extend(body.bytes());
            *self.bodies_per_segment.entry(self.current_segment).or_default() += 1;
            location
        });
        let stored_at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let similarity = page
            .similarity
            .or_else(|| similarity(&before?, fingerprint))
            .map(|VersionSimilarity(percent)| percent);
        let (url, fingerprint) = (url.to_owned(), fingerprint.clone());
        let page = PageRow { stored_at, body, similarity, url, fingerprint };
        self.batch.pages.insert(id, Some(page.to_bytes()));
        Ok(())
    }

    fn is_to_be_visited_again(&mut self, id: u64) -> Result<bool, BackendError> {
        let Some(seen) = self.find_seen(id)? else { return Ok(false) };
        Ok(self.task(seen.task_id)?.is_some_and(|task| task.was_visited))
    }

    fn is_unchanged_duplicate(&mut self, id: u64, hash: u64) -> Result<bool, BackendError> {
        let Some(seen) = self.find_seen(id)? else { return Ok(false) };
        let Some(last) = self.completed(seen.task_id)? else { return Ok(false) };
        let last = PreviousVisit { record: last.visits, outcome: last.outcome };
        Ok(last.was_duplicate() && last.record.is_same_body(hash))
    }

    fn earlier_version(
        &self,
        id: u64,
        fingerprint: &Fingerprint,
    ) -> Result<Option<(ContentType, Body<'static>)>, BackendError> {
        let Some(PageRow { fingerprint: before, .. }) = self.page(id)? else { return Ok(None) };
        // 0 stands for no hash.
        if before.exact == fingerprint.exact && before.exact != 0 {
            return Ok(None);
        }
        Ok(self.body(id)?.map(|body| (before.content_type, body)))
    }

    fn body(&self, id: u64) -> Result<Option<Body<'static>>, BackendError> {
        let Some(location) = self.page(id)?.and_then(|page| page.body) else { return Ok(None) };
        let in_batch = |batch: &Batch| location.read(batch.bodies.get(&location.segment)?.as_ref()?);
        let body = match in_batch(&self.batch).or_else(|| self.committing.as_deref().and_then(in_batch)) {
            Some(body) => Some(body),
            None => self.view.bodies(location.segment)?.and_then(|segment| location.read(&segment)),
        };
        body.map(Some).ok_or_else(|| self.view.damaged())
    }

    fn remove_page(&mut self, id: u64) -> Result<(), BackendError> {
        let page = self.page(id)?;
        self.release_body(page.as_ref());
        self.batch.pages.insert(id, None);
        Ok(())
    }

    fn change_host(
        &mut self,
        host: &str,
        change: impl FnOnce(&mut HostRow, Duration),
    ) -> Result<(), BackendError> {
        self.change_host_row(host, change)
    }

    fn set_linking_pages(&mut self, domain: &Domain, pages: u32) {
        self.batch.domains.insert(domain.as_str().to_owned(), pages);
    }

    fn record_writes(&mut self, sequence: u64, page: Option<u64>, writes: Vec<(usize, OutputWrite)>) {
        self.batch.output.insert(sequence, writes_to_bytes(page, &writes));
    }

    fn record_outputs_written(&mut self, written: OutputPosition, lengths: Vec<u64>) {
        self.batch.set_outputs_written(written, &lengths);
    }

    fn fail(&mut self, error: &BackendError) {
        // Drop the half-applied operation: the last commit is consistent without it.
        self.batch = Batch { number: self.batch.number, ..Batch::default() };
        self.failed = true;
        Commit::fail_all(&self.committed, error);
    }

    fn commit(&mut self) -> Commit {
        Commit::of_batch(self.batch.number, self.batch.is_empty(), &self.committed)
    }
}

/// How similar a page is to its version before, whose body is not stored. One that is delivered again after a crash is as similar as
/// it was found to be then.
fn similarity(before: &PageRow, now: &Fingerprint) -> Option<VersionSimilarity> {
    if before.fingerprint.exact == now.exact {
        return before.similarity.map(VersionSimilarity);
    }
    let (before, now) = (before.fingerprint.sketch.as_deref()?, now.sketch.as_deref()?);
    Some(VersionSimilarity::new(before.similarity(now)))
}
