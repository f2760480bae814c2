//! What the queues of a crawl in one process stand on: link storage, the one place that has no bound, and whatever
//! outlives the process.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::super::{BackendError, HostDelay, TaskId};
use crate::domain::Domain;
use crate::modules::OutputWrite;
use crate::outcome::Outcome;
use crate::similarity::Fingerprint;
use crate::task::Depth;

/// A lifetime is measured in so many generations: what is forgotten is forgotten up to one too late.
pub(crate) const GENERATIONS: u32 = 16;

/// No generation is shorter: the number of the last one must not be reached within any crawl.
const SHORTEST_GENERATION: Duration = Duration::from_millis(1);

/// An outstanding URL, wherever it waits.
#[derive(Debug)]
pub(crate) struct QueuedTask {
    pub(crate) task_id: TaskId,
    /// The URL it was found on; a seed's own ticket.
    pub(crate) from: TaskId,
    pub(crate) url: Box<str>,
    pub(crate) depth: Depth,
    pub(crate) redirects: u8,
    pub(crate) is_revisit: bool,
    /// Known from the prioritizer on; the many that wait before it do without.
    pub(crate) domain: Option<Domain>,
}

impl QueuedTask {
    pub(crate) fn domain(&self) -> Domain {
        self.domain.clone().unwrap_or_else(|| Domain::from_url_str(&self.url))
    }
}

/// How a URL was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenStatus {
    /// For the first time, or after it was forgotten: it is to be admitted.
    New,
    /// After its completion, nearer to a seed than ever before: its links are to be followed anew, from nearer.
    Shallower,
    /// Again.
    Seen,
}

/// How a URL ended.
pub(crate) struct CompletedUrl<'a> {
    pub(crate) outcome: &'a Outcome,
    /// The smallest depth it was met at.
    pub(crate) depth: Depth,
    /// The number of a page that was kept.
    pub(crate) document: Option<u64>,
}

/// A page as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// As it was read, where compressing gains nothing: what is stored is never more than what was read.
    Plain(Box<[u8]>),
    /// Compressed.
    Compressed(Box<[u8]>),
}

impl Body {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Body::Plain(bytes) | Body::Compressed(bytes) => bytes,
        }
    }
}

/// Where the URLs and pages of a crawl are. Times are the crawl's own: since it began, pauses between its processes
/// left out.
pub(crate) trait Storage: Send + 'static {
    /// URLs that wait for their domain's share, in order.
    type Parked: Default + Send;

    /// What stands for a URL: 56 bits that nobody can foresee.
    fn id(&self, url: &str) -> u64;

    /// Meets a URL; one that is outstanding has its depth lowered if it was met nearer.
    fn mark_seen(&mut self, id: u64, depth: Depth, now: Duration) -> Result<SeenStatus, BackendError>;

    /// Puts a URL that was met as new, or as nearer, behind all that wait for the URL queue.
    fn admit(&mut self, id: u64, item: QueuedTask, now: Duration);

    /// Takes up to so many URLs for the URL queue, in the order of admission.
    fn take(&mut self, max: usize) -> Result<Vec<QueuedTask>, BackendError>;

    /// How many URLs wait for the URL queue.
    fn overflow(&self) -> usize;

    /// The smallest depth an outstanding URL was met at.
    fn depth(&self, item: &QueuedTask) -> Depth;

    /// Lets a URL wait in a line.
    fn park(&mut self, line: &mut Self::Parked, item: QueuedTask);

    /// Takes the first URL of a line.
    fn unpark(&mut self, line: &mut Self::Parked) -> Result<Option<QueuedTask>, BackendError>;

    /// A URL is completed, and known for a lifetime from now.
    fn complete(&mut self, id: u64, item: &QueuedTask, end: CompletedUrl, now: Duration);

    /// How many URLs are known.
    fn seen_len(&self) -> usize;

    /// Keeps a page, or of one that is not to be stored what recognises it.
    fn store_page(
        &mut self,
        id: u64,
        url: &str,
        fingerprint: &Fingerprint,
        body: Option<Body>,
        now: Duration,
    );

    /// A stored page.
    fn body(&self, id: u64) -> Result<Option<Body>, BackendError>;

    /// Forgets a page whose time has come.
    fn remove_page(&mut self, id: u64) -> Result<(), BackendError>;

    /// Notes when a host may be asked again.
    fn set_host_delay(&mut self, host: &str, host_delay: HostDelay) -> Result<(), BackendError>;

    /// Notes how many pages of a host were kept, where there is a limit to them.
    fn host_pages(&mut self, host: &str, pages: u64) -> Result<(), BackendError>;

    /// Notes how many pages link to a domain.
    fn linking_pages(&mut self, domain: &Domain, pages: u32);

    /// Records what a page adds to the outputs, until it is written.
    fn record(&mut self, document: u64, output: Vec<(usize, OutputWrite)>);

    /// The outputs are written up to this page, to these lengths.
    fn record_outputs_written(&mut self, last_document: u64, lengths: Vec<u64>);

    /// A move could not be made whole: nothing made since the last commit is to outlive the process.
    fn fail(&mut self, trouble: &BackendError);

    /// What to wait for before anybody is told of the moves made so far.
    fn commit(&mut self) -> Commit;
}

/// The moment when moves are safe.
#[derive(Debug)]
pub(crate) enum Commit {
    /// There is nothing to be kept safe from.
    Done,
    /// When so many commits have been made.
    After(u64, watch::Receiver<Result<u64, BackendError>>),
}

impl Commit {
    /// Returns when the moves are safe.
    pub(crate) async fn wait(self) -> Result<(), BackendError> {
        let Commit::After(number, mut committed) = self else { return Ok(()) };
        let reached = committed.wait_for(|made| made.as_ref().map_or(true, |made| *made >= number)).await;
        match reached {
            Ok(made) => made.clone().map(|_| ()),
            Err(_) => Err(BackendError("the crawl's state was closed".into())),
        }
    }
}

/// The time since the crawl began, pauses between its processes left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    before: Duration,
    since: Instant,
}

impl Clock {
    /// Goes on from what earlier processes took.
    pub(crate) fn resumed(before: Duration) -> Clock {
        Clock { before, since: Instant::now() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.before.saturating_add(self.since.elapsed())
    }
}

/// The lifetime's part in which something was last met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation {
    number: u32,
    time: Duration,
}

impl Generation {
    pub(crate) fn first(lifetime: Duration) -> Generation {
        Generation { number: 0, time: (lifetime / GENERATIONS).max(SHORTEST_GENERATION) }
    }

    pub(crate) fn number(self) -> u32 {
        self.number
    }

    /// The generation of a time.
    pub(crate) fn at(self, now: Duration) -> Generation {
        let number = u32::try_from(now.as_nanos() / self.time.as_nanos()).unwrap_or(u32::MAX);
        Generation { number, ..self }
    }

    /// Goes on to a time; tells how many generations later that is.
    pub(crate) fn advance(&mut self, now: Duration) -> u32 {
        let before = std::mem::replace(self, self.at(now));
        self.number.saturating_sub(before.number)
    }
}
