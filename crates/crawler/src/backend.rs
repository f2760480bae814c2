//! The contract: the moves of a URL between the queues and storages of a crawl.
//!
//! Each move is atomic, batched, and harmless when repeated, so that the same loops run on queues in this process
//! and on queues far away. An outstanding URL is in exactly one place:
//!
//! ```text
//! admit ─▶ URL queue ─ incoming ─▶ prioritizer ─ file ─▶ priority queues ─ route ─▶ worker's queue ─ lease ─▶ worker
//!   ▲      (overflow)                                                    (waiting per domain)              │
//!   └───────────────────────────────────── outlinks ◀──────────────────────────────────── complete ◀───────┘
//! ```

pub mod durable;
pub mod local;
pub mod redis;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::Domain;
use crate::modules::OutputWrite;
use crate::outcome::Outcome;
use crate::prioritizer::Priority;
use crate::similarity::{Fingerprint, HashKey};
use crate::stats::RequestCounter;
use crate::task::Depth;

/// One of the workers of a crawl, numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u16);

/// Stands for one outstanding URL, from its admission to its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u64);

/// A URL that was met: normalised, in scope, no trap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredUrl {
    /// The URL.
    pub url: String,
    /// Hops from the nearest seed, by the way it was met.
    pub depth: Depth,
    /// How many redirects in a row led here.
    pub redirects: u8,
}

/// How many of the URLs of an [`admit`](Resources::admit) were new.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdmitCounts {
    /// New: queued now.
    pub new: u64,
    /// Known: not queued, but not forgotten for another lifetime.
    pub seen: u64,
}

/// A URL that waits for its priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnprioritizedUrl {
    /// Which.
    pub task_id: TaskId,
    /// Its domain.
    pub domain: Domain,
    /// Its smallest depth so far.
    pub depth: Depth,
    /// Distinct pages seen so far that link to its domain.
    pub linking_pages: u32,
}

/// A URL on loan to a worker. The loan ends when it is completed, or when the worker is found dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Which.
    pub task_id: TaskId,
    /// Numbers the loans of this URL: after a death there is a second one, and the first counts for nothing.
    pub lease_id: u64,
    /// The URL.
    pub url: String,
    /// Its smallest depth so far.
    pub depth: Depth,
    /// How many redirects in a row led here.
    pub redirects: u8,
    /// It was completed before, and is only visited for its links: it has been met nearer to a seed since.
    pub is_revisit: bool,
    /// How long its host must still be left alone, whoever asked it last.
    pub cooldown: Duration,
}

/// When a host may be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostDelay {
    /// The pause the host gets after every request.
    pub delay: Duration,
    /// How long it is to be left alone from now.
    pub cooldown: Duration,
}

/// A worker that has less to do than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferTarget {
    /// Which.
    pub id: WorkerId,
    /// How many URLs it has, in its queue and in hand.
    pub load: usize,
}

/// A domain that its owner passes on to another worker. Nothing of it is being asked for or completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainTransfer {
    /// Which.
    pub domain: Domain,
    /// To whom.
    pub to: WorkerId,
    /// All that its owner has of it in hand, in the order in which it was lent.
    pub leases: Vec<Lease>,
    /// Its hosts that must be left alone for a while.
    pub cooldowns: Vec<(String, HostDelay)>,
}

/// What came of passing on a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferResult {
    /// It is the other's, with all that was in hand.
    Moved,
    /// It is still its owner's, because more of it is on the way to the owner: it may be passed on with that.
    RetryLater,
    /// It stays its owner's.
    Declined,
}

/// Whether a request may be made within the budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetDecision {
    /// It may, and may read so many bytes.
    Granted(u64),
    /// Not now: what is left is reserved by requests in flight, and may come back.
    RetryLater,
    /// Not to this worker: the loan has ended.
    LeaseLost,
    /// Not any more for this host.
    HostExhausted,
    /// Not any more at all.
    Exhausted(Budget),
}

/// What a crawl may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Budget {
    /// Pages kept.
    Pages,
    /// Body bytes read.
    Bytes,
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Budget::Pages => "pages",
            Budget::Bytes => "bytes",
        })
    }
}

/// The end of a loan.
#[derive(Debug, Clone)]
pub struct Completion {
    /// The loan.
    pub lease: Lease,
    /// How it ended. `Kept` counts against the page budget.
    pub outcome: Outcome,
    /// Body bytes read, decoded, since the last reservation.
    pub bytes: u64,
    /// The links to be admitted.
    pub outlinks: Vec<DiscoveredUrl>,
    /// The domains the page links to, each once.
    pub linked_domains: Vec<Domain>,
    /// How many of its links were refused before admission, by reason.
    pub rejected_links: BTreeMap<&'static str, u64>,
    /// What a kept page adds to each output, by the output's number: recorded until it is [written](Resources::wrote).
    pub writes: Vec<(usize, OutputWrite)>,
    /// When its host may be asked again, if it was asked.
    pub host_delay: Option<HostDelay>,
}

impl Completion {
    /// The end of a loan of which nothing is known yet.
    pub fn new(lease: &Lease) -> Completion {
        Completion {
            lease: lease.clone(),
            outcome: Outcome::NotReached,
            bytes: 0,
            outlinks: Vec::new(),
            linked_domains: Vec::new(),
            rejected_links: BTreeMap::new(),
            writes: Vec::new(),
            host_delay: None,
        }
    }
}

/// What a completion led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompleteResult {
    /// It counts. A kept page is document `id`: 1, 2, 3 … without holes.
    Applied {
        /// The number of a page that was kept.
        id: Option<u64>,
        /// How many of its children were new.
        new: u64,
        /// Which budget is spent by now, if one is.
        exhausted: Option<Budget>,
    },
    /// The loan had ended already: nothing was changed.
    StaleLease,
}

/// What content storage said of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentMatch {
    /// It is new, and stored now.
    New,
    /// It is exactly what this URL gave.
    Duplicate(String),
    /// It is much like what this URL gave.
    NearDuplicate(String),
}

/// Counts and lengths of a crawl, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// URLs admitted; only grows.
    pub admitted: u64,
    /// URLs completed; only grows.
    pub completed: u64,
    /// Of both, URLs that were visited again for their links only, because they were met nearer to a seed.
    pub revisits: u64,
    /// Completed URLs by the [label](Outcome::label) of their outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Links of kept pages that were new.
    pub links_new: u64,
    /// Links of kept pages that were known already.
    pub links_known: u64,
    /// Links of kept pages that were refused before admission, by reason.
    pub links_refused: BTreeMap<String, u64>,
    /// Pages kept.
    pub pages: u64,
    /// Body bytes read.
    pub bytes: u64,
    /// HTTP requests sent, by all processes. A process that is killed does not report its most recent ones.
    #[serde(default)]
    pub requests: u64,
    /// URLs in the URL queue, and in its overflow.
    pub url_queue: (usize, usize),
    /// URLs in each priority queue.
    pub priority_queues: Vec<usize>,
    /// URLs in each worker's queue, and on loan to it.
    pub workers: Vec<(usize, usize)>,
    /// URLs that wait for the share of their domain.
    pub waiting: usize,
    /// Domains that have an owner.
    pub owned_domains: usize,
    /// Hosts of which a worker has a URL on loan.
    pub active_hosts: usize,
    /// URLs in link storage.
    pub known: usize,
    /// Pages in content storage, and the bytes they take compressed.
    pub stored: (usize, u64),
}

impl Snapshot {
    /// URLs admitted and not completed.
    pub fn outstanding(&self) -> u64 {
        self.admitted - self.completed
    }
}

/// A storage that cannot do what it is asked; the crawl cannot go on without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendError(pub String);

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BackendError {}

/// A move's answer, as it becomes known.
pub trait BackendFuture<T>: Future<Output = Result<T, BackendError>> + Send {}

impl<T, F: Future<Output = Result<T, BackendError>> + Send> BackendFuture<T> for F {}

/// The queues and storages of a crawl.
pub trait Backend: Send + Sync + 'static {
    /// The one way in: each URL that is new to link storage is remembered and queued in one step. One that is
    /// known has its depth lowered if it was met nearer.
    fn admit(&self, found: Vec<DiscoveredUrl>) -> impl BackendFuture<AdmitCounts>;

    /// Lends the prioritizer up to `max` URLs, in the order of admission; waits up to `wait` for the first.
    fn take_unprioritized(&self, max: usize, wait: Duration) -> impl BackendFuture<Vec<UnprioritizedUrl>>;

    /// Files lent URLs under their priorities.
    fn enqueue_prioritized(&self, filed: Vec<(TaskId, Priority)>) -> impl BackendFuture<()>;

    /// For each priority drawn, moves one URL from the queue responsible, or the next one that is not empty and
    /// not held back, to the worker that owns its domain: the one that did, or the one with the shortest queue.
    /// Returns how many were moved: fewer than drawn when all is empty or full; waits up to `wait` for the first.
    fn route(&self, draws: Vec<Priority>, wait: Duration) -> impl BackendFuture<usize>;

    /// Lends a worker up to `max` URLs from its own queue; waits up to `wait` for the first.
    fn lease(&self, worker: WorkerId, max: usize, wait: Duration) -> impl BackendFuture<Vec<Lease>>;

    /// Passes domains on to other workers, each whole or not at all: the loans in hand end, and all that waits for its owner
    /// waits for the other one, in its order. Where all workers are there from the beginning, each keeps what it has.
    fn transfer_domains(
        &self,
        _from: WorkerId,
        handovers: Vec<DomainTransfer>,
    ) -> impl BackendFuture<Vec<TransferResult>> {
        std::future::ready(Ok(vec![TransferResult::Declined; handovers.len()]))
    }

    /// Reserves one page and as many body bytes as a page may have, or as are left, for a request. What earlier
    /// requests of the same loan `read` is counted, and their reservation is given back.
    fn reserve(&self, lease: &Lease, read: u64) -> impl BackendFuture<BudgetDecision>;

    /// Gives back what a loan has reserved, and counts what its requests `read`: it is not asked for for a while.
    fn release(&self, lease: &Lease, read: u64) -> impl BackendFuture<()>;

    /// Ends loans: admits the children, then counts, and gives back what was reserved and not used. Once.
    fn complete(&self, completions: Vec<Completion>) -> impl BackendFuture<Vec<CompleteResult>>;

    /// Notes when a host may be asked again, whoever asks it and whatever dies meanwhile: for what cannot wait for a
    /// completion.
    fn set_host_delay(&self, host: &str, host_delay: HostDelay) -> impl BackendFuture<()>;

    /// The outputs are written up to page `last_id`, to these lengths: what was recorded for them can be forgotten.
    fn record_outputs_written(&self, last_id: u64, lengths: Vec<u64>) -> impl BackendFuture<()>;

    /// What fingerprints are made with: the same for everybody who works on this crawl.
    fn hash_key(&self) -> HashKey;

    /// The counter of the HTTP requests that this process sends for the crawl. [`Snapshot::requests`] includes them.
    fn request_counter(&self) -> RequestCounter;

    /// Stores a page's content, unless a page from another URL is the same or similar. A page delivered again is
    /// not its own duplicate.
    fn store_content(
        &self,
        url: &str,
        fingerprint: &Fingerprint,
        body: &[u8],
    ) -> impl BackendFuture<ContentMatch>;

    /// A stored page, while it is stored.
    fn load_content(&self, url: &str) -> impl BackendFuture<Option<Vec<u8>>>;

    /// URLs admitted and not completed: the crawl is over when there is none.
    fn outstanding(&self) -> impl BackendFuture<u64>;

    /// Which budget is spent, if one is.
    fn exhausted_budget(&self) -> impl BackendFuture<Option<Budget>>;

    /// A worker that is no more: its loans return, its queue is routed anew, its domains are free.
    fn remove_worker(&self, worker: WorkerId) -> impl BackendFuture<()>;

    /// How things stand.
    fn snapshot(&self) -> impl BackendFuture<Snapshot>;
}
