//! Storage on disk: reads from the last commit and from what is on its way there, and writes into the next batch.

mod hosts;
mod seen_urls;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use self::seen_urls::ExpirySweep;
use super::super::{BackendError, HostDelay, TaskId};
use super::records::{BodyPlace, CompletedRow, PageRow, SeenRow, TaskRow, output_to_bytes};
use super::seen_cache::{CacheLimits, SeenUrlCache};
use super::task_id_queue::TaskIdQueue;
use super::{Batch, View};
use crate::backend::local::storage::{
    Body, Commit, CompletedUrl, Generation, QueuedTask, SeenStatus, Storage,
};
use crate::domain::Domain;
use crate::modules::OutputWrite;
use crate::similarity::{Fingerprint, HashKey};
use crate::task::Depth;

/// How many URLs are read at a time of those that wait on disk for the URL queue.
const READ_AHEAD: usize = 1024;

/// Storage on disk.
pub struct DiskStorage {
    pub(crate) view: View,
    /// What is being gathered.
    pub(crate) batch: Batch,
    /// What is being written.
    pub(crate) committing: Option<Arc<Batch>>,
    pub(crate) committed: watch::Sender<Result<u64, BackendError>>,
    /// Nothing more will come.
    pub(crate) closing: bool,
    /// A move could not be made whole; nothing that came after the last commit counts.
    pub(crate) failed: bool,
    /// The number of HTTP requests that the last batch has recorded.
    pub(crate) committed_requests: u64,
    pub(crate) seen: SeenUrlCache,
    /// Where the bodies of the batch being gathered go.
    pub(crate) segment: u64,
    /// How many stored bodies each segment has; one that has none is removed.
    segments: HashMap<u64, u32>,
    /// The links of URLs admitted later are not all in link storage on disk.
    pub(crate) links_up_to: u64,
    key: HashKey,
    keep_depths: bool,
    /// The pause every host gets, also after a death.
    delay: Duration,
    generation: Generation,
    sweep: ExpirySweep,
    known: usize,
    /// The URLs that wait for the URL queue: those at the front, then `waiting` ones on disk, from ticket `first` on.
    front: VecDeque<QueuedTask>,
    first: u64,
    waiting: usize,
    /// The depths of outstanding URLs that were met nearer.
    lowered: HashMap<TaskId, Depth>,
}

impl DiskStorage {
    pub(crate) fn new(
        view: View,
        key: HashKey,
        lifetime: Duration,
        keep_depths: bool,
        delay: Duration,
        room: CacheLimits,
    ) -> DiskStorage {
        DiskStorage {
            view,
            batch: Batch { number: 1, ..Batch::default() },
            committing: None,
            committed: watch::Sender::new(Ok(0)),
            closing: false,
            failed: false,
            committed_requests: 0,
            seen: SeenUrlCache::new(room),
            segment: 0,
            segments: HashMap::new(),
            links_up_to: 0,
            key,
            keep_depths,
            delay,
            generation: Generation::first(lifetime),
            sweep: ExpirySweep::default(),
            known: 0,
            front: VecDeque::new(),
            first: 0,
            waiting: 0,
            lowered: HashMap::new(),
        }
    }

    /// Goes on with what is there; links are in link storage up to a ticket.
    pub(crate) fn resume(&mut self, links_up_to: u64) -> Result<(), BackendError> {
        self.links_up_to = links_up_to;
        self.waiting = usize::try_from(self.view.tasks_len()?).unwrap_or(usize::MAX);
        self.known = usize::try_from(self.view.links_len()?).unwrap_or(usize::MAX);
        self.seen.is_complete = self.known == 0;
        self.recover_links(links_up_to)
    }

    /// Counts a stored body that an earlier process left.
    pub(crate) fn restore_body(&mut self, place: BodyPlace) -> Result<(), BackendError> {
        let next = place.segment.checked_add(1).ok_or_else(|| self.view.damaged())?;
        self.segment = self.segment.max(next);
        *self.segments.entry(place.segment).or_default() += 1;
        Ok(())
    }

    /// An outstanding URL.
    pub(crate) fn task(&self, task_id: TaskId) -> Result<Option<TaskRow>, BackendError> {
        let gathered = |batch: &Batch| batch.tasks.get(&task_id.0).cloned();
        let row = match gathered(&self.batch).or_else(|| self.committing.as_deref().and_then(gathered)) {
            Some(row) => row,
            None => self.view.task(task_id.0)?,
        };
        let Some(row) = row else { return Ok(None) };
        TaskRow::from_bytes(&row).map(Some).ok_or_else(|| self.view.damaged())
    }

    /// The end of a completed URL.
    pub(crate) fn ended(&self, task_id: TaskId) -> Result<Option<CompletedRow>, BackendError> {
        let gathered = |batch: &Batch| batch.ends.get(&task_id.0).cloned();
        let row = match gathered(&self.batch).or_else(|| self.committing.as_deref().and_then(gathered)) {
            Some(row) => Some(row),
            None => self.view.end(task_id.0)?,
        };
        let Some(row) = row else { return Ok(None) };
        CompletedRow::from_bytes(&row).map(Some).ok_or_else(|| self.view.damaged())
    }

    /// Reads the next URLs that wait on disk for the URL queue: of each place where they may be as many as are wanted,
    /// of which the first are the first of all.
    fn read_ahead(&mut self) -> Result<(), BackendError> {
        let rows = self.view.tasks_from(self.first, READ_AHEAD)?.into_iter();
        let mut rows: BTreeMap<u64, Option<Vec<u8>>> = rows.map(|(key, row)| (key, Some(row))).collect();
        for batch in self.committing.as_deref().into_iter().chain([&self.batch]) {
            let newer = batch.tasks.range(self.first..).take(READ_AHEAD);
            rows.extend(newer.map(|(key, row)| (*key, row.clone())));
        }
        // So many wait, and they must be somewhere.
        let damaged = || self.view.miscounted();
        let before = self.front.len();
        for (task_id, row) in rows.into_iter().take(READ_AHEAD) {
            self.first = task_id.checked_add(1).ok_or_else(damaged)?;
            let Some(row) = row else { continue };
            let row = TaskRow::from_bytes(&row).ok_or_else(|| self.view.damaged())?;
            self.front.push_back(row.item(TaskId(task_id)));
        }
        match self.front.len() - before {
            0 => Err(damaged()),
            read => {
                self.waiting = self.waiting.saturating_sub(read);
                Ok(())
            }
        }
    }

    /// What recognises a page.
    fn page(&self, id: u64) -> Result<Option<PageRow>, BackendError> {
        let gathered = |batch: &Batch| batch.pages.get(&id).cloned();
        let row = match gathered(&self.batch).or_else(|| self.committing.as_deref().and_then(gathered)) {
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

    fn mark_seen(&mut self, id: u64, depth: Depth, now: Duration) -> Result<SeenStatus, BackendError> {
        self.meet_link(id, depth, now)
    }

    fn admit(&mut self, id: u64, item: QueuedTask, now: Duration) {
        let generation = self.generation.at(now).number();
        let QueuedTask { task_id, depth, .. } = item;
        self.batch.tasks.insert(task_id.0, Some(TaskRow::of(&item, generation).to_bytes()));
        self.seen.change(id, SeenRow { task_id, depth, generation });
        if self.waiting == 0 && self.front.len() < READ_AHEAD {
            self.first = task_id.0 + 1;
            self.front.push_back(item);
        } else {
            self.waiting += 1;
        }
    }

    fn take(&mut self, max: usize) -> Result<Vec<QueuedTask>, BackendError> {
        let mut taken = Vec::new();
        while taken.len() < max {
            if self.front.is_empty() && self.waiting > 0 {
                self.read_ahead()?;
            }
            let Some(item) = self.front.pop_front() else { break };
            taken.push(item);
        }
        Ok(taken)
    }

    fn overflow(&self) -> usize {
        self.front.len() + self.waiting
    }

    fn depth(&self, item: &QueuedTask) -> Depth {
        self.lowered.get(&item.task_id).map_or(item.depth, |lowered| item.depth.min(*lowered))
    }

    fn park(&mut self, line: &mut TaskIdQueue, item: QueuedTask) {
        line.push(item.task_id);
    }

    fn unpark(&mut self, line: &mut TaskIdQueue) -> Result<Option<QueuedTask>, BackendError> {
        let Some(task_id) = line.pop() else { return Ok(None) };
        let row = self.task(task_id)?.ok_or_else(|| self.view.damaged())?;
        Ok(Some(row.item(task_id)))
    }

    fn complete(&mut self, _: u64, item: &QueuedTask, end: CompletedUrl, now: Duration) {
        let generation = self.generation.at(now).number();
        let row = CompletedRow::of(item, &end, generation, milliseconds_since_1970() / 1000);
        self.batch.tasks.insert(item.task_id.0, None);
        self.batch.ends.insert(item.task_id.0, row.to_bytes());
        self.lowered.remove(&item.task_id);
    }

    fn seen_len(&self) -> usize {
        self.known
    }

    fn store_page(
        &mut self,
        id: u64,
        url: &str,
        fingerprint: &Fingerprint,
        body: Option<Body>,
        now: Duration,
    ) {
        let body = body.map(|body| {
            let segment = self.batch.bodies.entry(self.segment).or_default().get_or_insert_default();
            let place = BodyPlace {
                segment: self.segment,
                offset: segment.len() as u32,
                length: body.bytes().len() as u32,
                is_compressed: matches!(body, Body::Compressed(_)),
            };
            segment.extend(body.bytes());
            *self.segments.entry(self.segment).or_default() += 1;
            place
        });
        let stored = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let page = PageRow { stored, body, url: url.to_owned(), fingerprint: fingerprint.clone() };
        self.batch.pages.insert(id, Some(page.to_bytes()));
    }

    fn body(&self, id: u64) -> Result<Option<Body>, BackendError> {
        let Some(place) = self.page(id)?.and_then(|page| page.body) else { return Ok(None) };
        let gathered = |batch: &Batch| place.of(batch.bodies.get(&place.segment)?.as_ref()?);
        let body = match gathered(&self.batch).or_else(|| self.committing.as_deref().and_then(gathered)) {
            Some(body) => Some(body),
            None => self.view.bodies(place.segment)?.and_then(|segment| place.of(&segment)),
        };
        body.map(Some).ok_or_else(|| self.view.damaged())
    }

    fn remove_page(&mut self, id: u64) -> Result<(), BackendError> {
        let place = self.page(id)?.and_then(|page| page.body);
        self.batch.pages.insert(id, None);
        if let Some(BodyPlace { segment, .. }) = place
            && let Some(bodies) = self.segments.get_mut(&segment)
        {
            *bodies -= 1;
            if *bodies == 0 {
                self.segments.remove(&segment);
                self.batch.bodies.insert(segment, None);
            }
        }
        Ok(())
    }

    fn set_host_delay(&mut self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        self.pace_host(host, host_delay)
    }

    fn host_pages(&mut self, host: &str, pages: u64) -> Result<(), BackendError> {
        self.change_host(host, |row| row.pages = pages)
    }

    fn linking_pages(&mut self, domain: &Domain, pages: u32) {
        self.batch.domains.insert(domain.as_str().to_owned(), pages);
    }

    fn record(&mut self, document: u64, output: Vec<(usize, OutputWrite)>) {
        if !output.is_empty() {
            self.batch.output.insert(document, output_to_bytes(&output));
        }
    }

    fn record_outputs_written(&mut self, last_document: u64, lengths: Vec<u64>) {
        let written = serde_json::to_vec(&(last_document, lengths)).unwrap_or_default();
        self.batch.meta.insert("written", written);
        self.batch.written = Some(last_document);
    }

    fn fail(&mut self, trouble: &BackendError) {
        // What was made half must not become safe: without it, the last commit is whole.
        self.batch = Batch { number: self.batch.number, ..Batch::default() };
        self.failed = true;
        self.committed.send_modify(|made| {
            if made.is_ok() {
                *made = Err(trouble.clone());
            }
        });
    }

    fn commit(&mut self) -> Commit {
        // A move that changed nothing relies on what others changed: that may still be on its way.
        let last = if self.batch.is_empty() { self.batch.number - 1 } else { self.batch.number };
        Commit::After(last, self.committed.subscribe())
    }
}

/// The time by the world's clock: what another process goes by.
pub(crate) fn milliseconds_since_1970() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
