//! The storage under the frontier's state machine: the seen set, the unbounded overflow of the URL queue, stored pages,
//! and everything that survives the process.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::time::Instant;

use super::super::durable::records::HostRow;
use super::super::{BackendError, HostDelay, Lease, TaskId, WorkerId};
use super::budgets::BudgetReservation;
use super::state::NewPage;
use crate::domain::Domain;
use crate::error::StorageErrorKind;
use crate::fetch::http::AddressKinds;
use crate::modules::output::{OutputPosition, OutputWrite};
use crate::outcome::Outcome;
use crate::prioritizer::SourceLink;
use crate::similarity::{ContentType, Fingerprint};
use crate::task::Depth;
use crate::url_record::Discovery;
use crate::visit::{PreviousVisit, VisitRecord, VisitSettings};

/// A pending URL, in any queue.
#[derive(Debug)]
pub(crate) struct QueuedTask {
    pub(crate) task_id: TaskId,
    /// The task on whose page the URL was found. A seed has its own id.
    pub(crate) from: TaskId,
    pub(crate) url: Arc<str>,
    pub(crate) depth: Depth,
    pub(crate) redirects: u8,
    pub(crate) is_refetch: bool,
    /// Whether the URL was completed before, and is visited again.
    pub(crate) was_visited: bool,
    /// When it was admitted: Unix time in milliseconds; 0 if that is not known.
    pub(crate) queued_at: u64,
    /// The link through which it was admitted, if the prioritizer wants it.
    pub(crate) source_link: Option<Arc<SourceLink>>,
    /// How it was found, if that is kept here and it is no seed.
    pub(crate) discovery: Option<Arc<Discovery>>,
    /// Set from the prioritizer on. URLs in the overflow do not need it.
    pub(crate) domain: Option<Domain>,
    /// The priority queue, set from the prioritizer on, or the queue of requisites.
    pub(crate) queue: u8,
    /// How often the URL was requested in vain.
    pub(crate) attempts: u8,
}

/// A task whose URL is borrowed, on its way into a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskRef<'u> {
    pub(crate) task_id: TaskId,
    pub(crate) from: TaskId,
    pub(crate) url: &'u str,
    pub(crate) depth: Depth,
    pub(crate) redirects: u8,
    pub(crate) is_refetch: bool,
    pub(crate) was_visited: bool,
    pub(crate) queued_at: u64,
    pub(crate) source_link: Option<&'u SourceLink>,
    pub(crate) discovery: Option<&'u Arc<Discovery>>,
}

impl<'u> TaskRef<'u> {
    /// A task as that of a seed: at depth 0, found by no other task.
    pub(crate) fn new(task_id: TaskId, url: &'u str) -> TaskRef<'u> {
        TaskRef {
            task_id,
            from: task_id,
            url,
            depth: 0,
            redirects: 0,
            is_refetch: false,
            was_visited: false,
            queued_at: 0,
            source_link: None,
            discovery: None,
        }
    }

    pub(crate) fn to_task(self) -> QueuedTask {
        QueuedTask {
            task_id: self.task_id,
            from: self.from,
            url: self.url.into(),
            depth: self.depth,
            redirects: self.redirects,
            is_refetch: self.is_refetch,
            was_visited: self.was_visited,
            queued_at: self.queued_at,
            source_link: self.source_link.cloned().map(Arc::new),
            discovery: self.discovery.cloned(),
            domain: None,
            queue: 0,
            attempts: 0,
        }
    }
}

impl QueuedTask {
    pub(crate) fn borrowed(&self) -> TaskRef<'_> {
        TaskRef {
            task_id: self.task_id,
            from: self.from,
            url: &self.url,
            depth: self.depth,
            redirects: self.redirects,
            is_refetch: self.is_refetch,
            was_visited: self.was_visited,
            queued_at: self.queued_at,
            source_link: self.source_link.as_deref(),
            discovery: self.discovery.as_ref(),
        }
    }

    pub(crate) fn domain(&self) -> Domain {
        self.domain.clone().unwrap_or_else(|| Domain::from_url_str(&self.url))
    }
}

/// What the seen set knows about a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenStatus {
    /// The URL was not in the seen set. It must be admitted.
    New,
    /// The URL is completed and was found at a smaller depth than ever before. It must be fetched again for its links.
    Shallower,
    /// The URL was found again.
    Seen,
}

/// The result of a URL.
pub(crate) struct CompletedUrl<'a> {
    pub(crate) outcome: &'a Outcome,
    /// The smallest depth at which it was found.
    pub(crate) depth: Depth,
    /// The page number, if it was a page.
    pub(crate) page_number: Option<u64>,
    /// What is remembered of the visits of the URL.
    pub(crate) visits: VisitRecord,
    /// When it was completed: Unix time in milliseconds.
    pub(crate) at: u64,
}

/// A page body as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body<'b> {
    /// Uncompressed: the content is small so far, or compression gains nothing. A stored body is never larger than the original.
    Plain(Cow<'b, [u8]>),
    /// Compressed.
    Compressed(Box<[u8]>),
}

impl Body<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Body::Plain(bytes) => bytes,
            Body::Compressed(bytes) => bytes,
        }
    }
}

/// Stores the URLs and pages of a crawl. Times are active crawl time: since the crawl started, without the time between
/// its processes.
pub(crate) trait Storage: Send + 'static {
    /// The first bodies, up to this many bytes, are stored as they are, and only further ones compressed.
    const MAX_PLAIN_BYTES: u64 = 0;

    /// A queue of parked URLs.
    type Parked: Default + Send;

    /// The id of a URL: 64 bits of a keyed hash, which a page cannot predict.
    fn id(&self, url: &str) -> u64;

    /// Adds a URL to the seen set or looks it up. Lowers the depth of a pending URL that was found at a smaller
    /// depth.
    fn mark_seen(&mut self, id: u64, depth: Depth) -> Result<SeenStatus, BackendError>;

    /// Puts a URL that [`mark_seen`](Storage::mark_seen) returned as new or shallower at the end of a queue of parked URLs, or of
    /// the overflow.
    fn admit(&mut self, id: u64, task: TaskRef, queue: Option<&mut Self::Parked>);

    /// Takes up to `max` URLs from the overflow, in the order of admission.
    fn take_overflow(&mut self, max: usize) -> Result<Vec<QueuedTask>, BackendError>;

    /// Number of URLs in the overflow.
    fn overflow_len(&self) -> usize;

    /// The smallest depth at which a pending URL was found.
    fn depth(&self, task: &QueuedTask) -> Depth;

    /// Adds a URL to a queue of parked URLs.
    fn park(&mut self, queue: &mut Self::Parked, task: QueuedTask);

    /// Takes the first URL of a queue of parked URLs.
    fn unpark(&mut self, queue: &mut Self::Parked) -> Result<Option<QueuedTask>, BackendError>;

    /// Stores that a URL is leased to a worker. Only for a storage whose leases survive the process, like the next two.
    fn lease(&mut self, _task: &QueuedTask, _lease: &Lease, _worker: WorkerId) {}

    /// Stores what a lease has reserved.
    fn set_reservation(&mut self, _task_id: TaskId, _reservation: Option<&BudgetReservation>) {}

    /// Stores that a lease has ended: its URL is completed, or waits again.
    fn end_lease(&mut self, _task_id: TaskId) {}

    /// Stores the result of a URL.
    fn complete(&mut self, id: u64, task: &QueuedTask, completed: CompletedUrl);

    /// Stores when a page was last modified, by the ID of its URL.
    fn set_lastmod(&mut self, id: u64, lastmod: u32);

    /// When the page of a task was last modified, if a sitemap says so.
    fn lastmod(&self, task: &QueuedTask) -> Result<Option<u32>, BackendError>;

    /// How the URL of a task was found. `None` for a seed, and if it is not known.
    fn discovery(&self, task: &QueuedTask) -> Result<Option<Arc<Discovery>>, BackendError>;

    /// The last visit of a task's URL that is visited again. Only for a storage that remembers visits.
    fn previous_visit(&self, _task: &QueuedTask) -> Result<Option<PreviousVisit>, BackendError> {
        Ok(None)
    }

    /// Schedules a URL that is completed now: it is due at this Unix time in milliseconds. Only for a storage that remembers visits, like
    /// the next four.
    fn schedule(&mut self, _id: u64, _task: &QueuedTask, _due: u64) {}

    /// Makes a URL due at once that was modified at this Unix time in seconds, if it is completed, was last visited before, and
    /// unless it was visited in this visit of a crawl that visits each URL once.
    fn make_due(
        &mut self,
        _id: u64,
        _modified: u32,
        _visit: u32,
        _settings: VisitSettings,
    ) -> Result<(), BackendError> {
        Ok(())
    }

    /// Takes up to `max` URLs that are due out of the schedule. They are pending now.
    fn take_due(&mut self, _now: u64, _max: usize) -> Result<Vec<QueuedTask>, BackendError> {
        Ok(Vec::new())
    }

    /// When the next URL is due.
    fn next_due(&mut self) -> Result<Option<u64>, BackendError> {
        Ok(None)
    }

    /// Number of URLs in the schedule.
    fn scheduled_len(&self) -> u64 {
        0
    }

    /// Number of URLs in the seen set.
    fn seen_len(&self) -> usize;

    /// Stores a page, or only its fingerprint if there is no body, in place of an earlier version if there is one. A body of which
    /// only the size is given is stored by the worker.
    fn store_page(
        &mut self,
        id: u64,
        page: &NewPage,
        has_earlier: bool,
        now: Duration,
    ) -> Result<(), BackendError>;

    /// Whether a URL that was visited is pending, so that it is not known whether its page is still there.
    fn is_to_be_visited_again(&mut self, _id: u64) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Whether the page of a URL was a duplicate at its last visit, and had a body with this hash.
    fn is_unchanged_duplicate(&mut self, _id: u64, _hash: u64) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// The stored page of a URL, if that is an earlier version than the one with this fingerprint, and it is stored how similar the
    /// two are.
    fn earlier_version(
        &self,
        _id: u64,
        _fingerprint: &Fingerprint,
    ) -> Result<Option<(ContentType, Body<'static>)>, BackendError> {
        Ok(None)
    }

    /// Returns a stored page.
    fn body(&self, id: u64) -> Result<Option<Body<'static>>, BackendError>;

    /// Removes a page that has expired or is gone.
    fn remove_page(&mut self, id: u64) -> Result<(), BackendError>;

    /// Changes what is stored about a host, with the delay that every host has at least, also after a crash. Only for a storage that
    /// survives the process, like the next operations without a result.
    fn change_host(
        &mut self,
        _host: &str,
        _change: impl FnOnce(&mut HostRow, Duration),
    ) -> Result<(), BackendError> {
        Ok(())
    }

    /// Stores when the next request to a host is allowed.
    fn set_host_delay(&mut self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        self.change_host(host, |row, default_delay| row.set_delay(host_delay, default_delay, unix_millis()))
    }

    /// Stores the number of pages of a host, if it is limited.
    fn set_group_pages(&mut self, host: &str, pages: u64) -> Result<(), BackendError> {
        self.change_host(host, |row, _| row.pages = pages)
    }

    /// Stores the kinds of address that a seed's host had at first.
    fn set_address_kinds(&mut self, host: &str, kinds: AddressKinds) -> Result<(), BackendError> {
        self.change_host(host, |row, _| row.address_kinds = kinds.bits())
    }

    /// Stores the number of pages that link to a domain.
    fn set_linking_pages(&mut self, _domain: &Domain, _pages: u32) {}

    /// Stores what a URL adds to the outputs, until it is written: under its number, and with that of its page if it is one.
    fn record_writes(&mut self, _sequence: u64, _page: Option<u64>, _writes: Vec<(usize, OutputWrite)>) {}

    /// Records that the outputs are written up to this position and have these lengths.
    fn record_outputs_written(&mut self, _written: OutputPosition, _lengths: Vec<u64>) {}

    /// An operation failed half-way: nothing since the last commit may become durable.
    fn fail(&mut self, error: &BackendError);

    /// What to wait for before the operations applied so far are durable.
    fn commit(&mut self) -> Commit;
}

/// The point at which operations are durable.
#[derive(Debug)]
pub(crate) enum Commit {
    /// Now: the storage is not durable.
    Done,
    /// When the batch of this number is committed.
    After(u64, watch::Receiver<Result<u64, BackendError>>),
}

impl Commit {
    /// When the batch of this number is committed, or the one before it if this one is empty: an operation that changed nothing
    /// depends on earlier changes.
    pub(crate) fn of_batch(
        number: u64,
        is_empty: bool,
        committed: &watch::Sender<Result<u64, BackendError>>,
    ) -> Commit {
        Commit::After(if is_empty { number - 1 } else { number }, committed.subscribe())
    }

    /// Gives all tasks that wait for a commit this error, unless there was one before.
    pub(crate) fn fail_all(committed: &watch::Sender<Result<u64, BackendError>>, error: &BackendError) {
        committed.send_modify(|result| {
            if result.is_ok() {
                *result = Err(error.clone());
            }
        });
    }

    /// Returns when the operations are durable.
    pub(crate) async fn wait(self) -> Result<(), BackendError> {
        let Commit::After(number, mut committed) = self else { return Ok(()) };
        let reached = committed
            .wait_for(|committed_batches| {
                committed_batches.as_ref().map_or(true, |committed_batches| *committed_batches >= number)
            })
            .await;
        match reached {
            Ok(committed_batches) => committed_batches.clone().map(|_| ()),
            Err(_) => {
                let message = "cannot commit: the state of the crawl was closed";
                Err(BackendError::state(StorageErrorKind::Internal, message))
            }
        }
    }
}

/// Active crawl time: since the crawl started, without the time between its processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    earlier: Duration,
    /// When this process continued the crawl; `None` if the crawl is finished or paused.
    since: Option<Instant>,
    is_paused: bool,
}

impl Clock {
    /// A clock that continues from the active time of earlier processes.
    pub(crate) fn starting_at(earlier: Duration) -> Clock {
        Clock { earlier, since: Some(Instant::now()), is_paused: false }
    }

    /// The clock of a finished crawl, which stands still.
    pub(crate) fn stopped_at(earlier: Duration) -> Clock {
        Clock { earlier, since: None, is_paused: false }
    }

    /// Starts the clock of a finished crawl that continues.
    pub(crate) fn start(&mut self) {
        if !self.is_paused {
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Stops the clock, or lets it continue.
    pub(crate) fn set_paused(&mut self, is_paused: bool) {
        if is_paused == self.is_paused {
            return;
        }
        *self = match is_paused {
            true => Clock { is_paused, ..Clock::stopped_at(self.now()) },
            false => Clock::starting_at(self.now()),
        };
    }

    /// Whether the crawl is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(crate) fn now(&self) -> Duration {
        self.earlier.saturating_add(self.since.map_or(Duration::ZERO, |since| since.elapsed()))
    }
}

/// Wall-clock time, which is comparable between processes.
pub(crate) fn unix_millis() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
