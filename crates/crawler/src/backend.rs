//! The trait between the workers and the frontier: the operations that move a URL through the queues of a crawl.
//!
//! Every operation is atomic, batched and idempotent, so workers use a frontier in their own process and one in another
//! process in the same way. A URL that was admitted and not completed is *pending*, and in exactly one place:
//!
//! ```text
//! admit ─▶ URL queue ─ take_unprioritized ─▶ prioritizer ─ enqueue_prioritized ─▶ priority queues ─┐
//!   ▲      + overflow                                                                              │
//!   └── outlinks ◀── complete ◀── worker ◀── lease, when the URL's host is ready ◀─────────────────┘
//! ```

pub mod durable;
pub mod linking_pages;
pub mod local;
pub mod redis;
pub mod stored_url;
mod waiting_host;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::waiting_host::{MAX_WAITING_HOSTS, WaitReason, WaitingHost};

use crate::domain::Domain;
use crate::error::{Error, StorageError, StorageErrorKind};
use crate::fetch::http::AddressKinds;
use crate::live_settings::LiveLimits;
use crate::modules::output::{OutputPosition, OutputWrite};
use crate::outcome::Outcome;
use crate::prioritizer::{Prioritizer, Priority, ServiceStats, SourceLink};
use crate::scope::RejectReason;
use crate::similarity::{Fingerprint, HashKey};
use crate::stats::{BodyBytes, RequestCounter};
use crate::task::Depth;
use crate::task_kind::TaskKind;
use crate::url_list::UrlList;
use crate::url_record::{Discovery, RequestRecord, UrlRecord};
use crate::visit::{PreviousVisit, ResponseFacts};

/// Poll interval of a backend that cannot wake requests while others hold the rest of a budget.
const BUDGET_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How often a URL is requested. The second try comes after a pause, and only after a temporary failure.
const MAX_ATTEMPTS: u8 = 2;

/// A worker of a crawl. Workers are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerId(pub u16);

/// Identifies a pending URL, from its admission to its completion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId(pub u64);

/// A URL to admit, such as a seed: normalized, in scope and not a crawler trap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredUrl {
    /// The URL.
    pub url: String,
    /// Number of links from the nearest seed, along the path on which it was found.
    pub depth: Depth,
    /// Number of consecutive redirects that led to the URL.
    pub redirects: u8,
}

/// The URLs found on a page, or the target of a redirect: normalized, in scope and not crawler traps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlinks {
    /// The URLs, with repetitions.
    pub urls: UrlList,
    /// Number of links from the nearest seed, along the path through the page.
    pub depth: Depth,
    /// Number of consecutive redirects that led to the URLs.
    pub redirects: u8,
    /// The links of the URLs, in the same order. Empty if the prioritizer does not want them.
    pub source_links: Vec<SourceLink>,
    /// Number of further links, whose URLs are in the seen set at this or a smaller depth.
    pub seen: u64,
}

impl Outlinks {
    /// Links on a page, at this depth.
    pub fn new<U: AsRef<str>>(urls: impl IntoIterator<Item = U>, depth: Depth) -> Outlinks {
        Outlinks { urls: urls.into_iter().collect(), depth, ..Outlinks::default() }
    }
}

/// How many URLs of an [`admit`](Backend::admit) were new.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitCounts {
    /// New URLs, which are queued now.
    pub new: u64,
    /// URLs that were in the seen set already. They are not queued.
    pub seen: u64,
}

/// A URL that has no priority yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnprioritizedUrl {
    /// The task.
    pub task_id: TaskId,
    /// The URL.
    pub url: Arc<str>,
    /// The URL's registrable domain.
    pub domain: Domain,
    /// The smallest depth at which the URL was found so far.
    pub depth: Depth,
    /// Number of distinct pages seen so far that link to the domain.
    pub linking_pages: u32,
    /// The link through which the URL was admitted, if the prioritizer wants it. A backend of a distributed crawl,
    /// whose prioritizers do not want it, need not store it.
    pub source_link: Option<Arc<SourceLink>>,
}

/// A URL leased to a worker. The lease ends when the worker completes it, or when the worker is declared dead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The task.
    pub task_id: TaskId,
    /// Distinguishes this lease from earlier leases of the same URL. Completing an earlier one has no effect.
    pub lease_id: u64,
    /// The URL.
    pub url: Arc<str>,
    /// The smallest depth at which the URL was found so far.
    pub depth: Depth,
    /// Number of consecutive redirects that led to the URL.
    pub redirects: u8,
    /// The URL was completed before and is fetched only for its links: it was found again at a smaller depth.
    pub is_refetch: bool,
    /// The last visit of the URL, if it is visited again.
    pub previous: Option<Arc<PreviousVisit>>,
    /// How long to wait before the next request to the URL's host, whichever worker sent the previous one.
    pub cooldown: Duration,
    /// Why no request is sent for the URL, if none is.
    pub no_request: Option<NoRequest>,
    /// When the page was last modified, by a sitemap: Unix time in seconds.
    pub lastmod: Option<u32>,
    /// How often the URL was requested in vain.
    pub attempts: u8,
    /// When the URL was admitted: Unix time in milliseconds; 0 if that is not known.
    pub queued_at: u64,
    /// How the URL was found, if that is kept and it is no seed. It is always kept of tasks that are no pages.
    pub discovery: Option<Arc<Discovery>>,
}

/// Why a URL is completed without a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoRequest {
    /// Its host is unreachable: the cause.
    Unreachable(Arc<str>),
    /// It was blocked while the crawl ran.
    Blocked,
}

impl NoRequest {
    /// The outcome of the URL.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            NoRequest::Unreachable(cause) => Outcome::HostUnreachable { cause: cause.to_string() },
            NoRequest::Blocked => Outcome::Rejected { why: RejectReason::Blocked },
        }
    }
}

impl Lease {
    /// Whether the URL is a seed, or the target of a seed's redirects.
    pub fn is_seed(&self) -> bool {
        self.depth == 0 && self.kind() == TaskKind::Page
    }

    /// What the URL is fetched for.
    pub fn kind(&self) -> TaskKind {
        TaskKind::from_task_url(&self.url)
    }

    /// The URL that led to this one, if that is kept: the last redirect, or the page, stylesheet or sitemap that names it.
    pub(crate) fn found_by(&self) -> Option<&str> {
        let Discovery { found_on, redirects } = self.discovery.as_deref()?;
        redirects.last().or(found_on.as_ref()).map(String::as_str)
    }

    /// Whether the URL is requested again after this outcome, because the failure is temporary.
    pub fn is_retried(&self, outcome: &Outcome) -> bool {
        self.attempts + 1 < MAX_ATTEMPTS && outcome.is_retryable() && !outcome.exceeds_max_retry_after()
    }
}

/// When the next request to a host is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostDelay {
    /// The delay between requests to the host.
    pub delay: Duration,
    /// How long to wait, from now, before the next request.
    pub cooldown: Duration,
}

/// A domain that its owner hands over to another worker. The owner has no requests or completions of it in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainTransfer {
    /// The domain.
    pub domain: Domain,
    /// The new owner.
    pub to: WorkerId,
    /// All leases that the old owner has of the domain, in the order in which they were leased.
    pub leases: Vec<Lease>,
    /// The hosts of the domain whose cooldown has not passed, and the domain itself under its site key.
    pub cooldowns: Vec<(String, HostDelay)>,
}

/// The result of a domain transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferResult {
    /// The domain belongs to the new owner, with all leases.
    Moved,
    /// The domain still belongs to its old owner, because more of its URLs are on the way there. Try again with those.
    RetryLater,
    /// The domain stays with its old owner.
    Declined,
}

/// Whether a worker may send requests to a host of which it has no URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostClaim {
    /// It may, after this time: it owns the host's domain now.
    Granted {
        /// How long to wait before the next request to the host.
        cooldown: Duration,
    },
    /// Only this worker may, which owns the host's domain.
    OwnedBy(WorkerId),
    /// The worker's own leases have ended.
    LeaseLost,
}

/// Whether the budgets allow a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BudgetDecision {
    /// The request may be sent and may read this many body bytes, or its response this many more: at most as many may be
    /// received, and decoded.
    Granted(u64),
    /// Not now: requests in flight have reserved what is left, and may return it.
    RetryLater,
    /// The lease has ended.
    LeaseLost,
    /// The host's page limit is reached.
    HostExhausted,
    /// The site's page limit is reached.
    SiteExhausted,
    /// A budget of the crawl is exhausted.
    Exhausted(Budget),
}

/// A limit of the whole crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Budget {
    /// Number of pages.
    Pages,
    /// Number of body bytes, received or decoded, whichever is more.
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

/// The result of a lease. A message has no more of it than the frontier needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Completion {
    /// The lease.
    #[serde(skip)]
    pub lease: Lease,
    /// The outcome of the URL. [`Outcome::Page`] counts against the page budget.
    pub outcome: Outcome,
    /// Body bytes read since the last reservation.
    pub bytes: BodyBytes,
    /// Whether the page is only the start of a larger one.
    pub truncated: bool,
    /// The links to admit.
    pub outlinks: Outlinks,
    /// The sitemaps to admit: their task URLs.
    pub sitemaps: Outlinks,
    /// The requisites to admit: their task URLs.
    pub requisites: Outlinks,
    /// When pages were last modified, by a sitemap: the IDs of their URLs, and Unix times in seconds.
    pub lastmods: Vec<(u64, u32)>,
    /// The domains the page links to, without duplicates.
    pub linked_domains: Vec<Domain>,
    /// Number of links rejected before admission, by reason.
    pub rejected_links: BTreeMap<Cow<'static, str>, u64>,
    /// What the URL adds to each output, by the output's index. The backend stores it until the outputs are
    /// [written](Backend::record_outputs_written).
    #[serde(skip)]
    pub writes: Vec<(usize, OutputWrite)>,
    /// The last request for the URL. It stays in the worker.
    #[serde(skip)]
    pub request: RequestRecord,
    /// What its response says about the version of the page, in a crawl in one process.
    #[serde(skip)]
    pub response: ResponseFacts,
    /// When the next request to the host is allowed, if a request was sent.
    pub host_delay: Option<HostDelay>,
    /// How long to wait, from now, before the next request to the URL's site.
    pub site_cooldown: Duration,
}

impl Completion {
    /// A completion with the outcome [`Outcome::NotReached`] and nothing else.
    pub fn new(lease: &Lease) -> Completion {
        Completion {
            lease: lease.clone(),
            outcome: Outcome::NotReached,
            bytes: BodyBytes::default(),
            truncated: false,
            outlinks: Outlinks::default(),
            sitemaps: Outlinks::default(),
            requisites: Outlinks::default(),
            lastmods: Vec::new(),
            linked_domains: Vec::new(),
            rejected_links: BTreeMap::new(),
            writes: Vec::new(),
            request: RequestRecord::default(),
            response: ResponseFacts::default(),
            host_delay: None,
            site_cooldown: Duration::ZERO,
        }
    }
}

/// The result of [`complete`](Backend::complete).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompleteResult {
    /// The completion is applied. Pages are numbered 1, 2, 3 … without gaps.
    Applied {
        /// The number of the page, if the outcome was a page.
        id: Option<u64>,
        /// The number of its writes, if it has any. They are numbered 1, 2, 3 … without gaps, in the order in which the outputs
        /// get them.
        sequence: Option<u64>,
        /// Number of outlinks that were new.
        new: u64,
        /// The budget that is exhausted now, if any.
        exhausted: Option<Budget>,
    },
    /// The lease ended, and the URL waits to be requested again: its failure is temporary, its page is one too many, or it was not
    /// reached because its host gets no request for a while.
    Requeued {
        /// The number of the writes of a try that failed, if it has any.
        sequence: Option<u64>,
    },
    /// The lease had ended before. Nothing was changed.
    StaleLease,
}

/// What the content store found out about a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContentMatch {
    /// The page is new, and stored now.
    New,
    /// The page is identical to the page at this URL.
    Duplicate(String),
    /// The page is a near-duplicate of the page at this URL.
    NearDuplicate(String),
}

/// What a worker has to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerLoad {
    /// Its domains that have URLs.
    pub domains: usize,
    /// URLs leased to it.
    pub leased: usize,
}

/// Counts and queue lengths of a crawl at one point in time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// URLs admitted. Never decreases.
    pub admitted: u64,
    /// URLs completed. Decreases only when a resumed crawl queues failed URLs again.
    pub completed: u64,
    /// Of `admitted` and `completed`, fetches of a page again, only for its links, because it was found at a smaller
    /// depth.
    pub refetches: u64,
    /// Completed URLs by the [label](Outcome::label) of their outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Links of pages that were new.
    pub links_new: u64,
    /// Links of pages that were in the seen set already.
    pub links_seen: u64,
    /// Links of pages that were rejected before admission, by reason.
    pub links_rejected: BTreeMap<String, u64>,
    /// Pages.
    pub pages: u64,
    /// Body bytes after decoding.
    pub bytes: u64,
    /// Body bytes as received.
    #[serde(default)]
    pub received: u64,
    /// HTTP requests sent, by all processes. A process that is killed does not report its most recent ones.
    #[serde(default)]
    pub requests: u64,
    /// URLs in the URL queue, without its overflow.
    pub url_queue: usize,
    /// URLs in the overflow of the URL queue, and requisites, which need no priority.
    pub overflow: usize,
    /// URLs in each priority queue.
    pub priority_queues: Vec<usize>,
    /// The load of each worker, by the number of the worker.
    pub workers: Vec<WorkerLoad>,
    /// Domains that have an owner.
    pub owned_domains: usize,
    /// Hosts of which URLs wait with a priority, or are leased to a worker.
    pub active_hosts: usize,
    /// The hosts of which the most URLs wait, and why.
    #[serde(default)]
    pub(crate) waiting_hosts: Vec<WaitingHost>,
    /// For how many seconds the network of this process has been down; `None` if it is up.
    #[serde(default)]
    pub network_down: Option<u64>,
    /// Hosts that failed so often that their URLs were not requested any more, and why; the first hundred of them.
    #[serde(default)]
    pub unreachable_hosts: BTreeMap<String, String>,
    /// Pages of which only the start was read.
    #[serde(default)]
    pub truncated: u64,
    /// URLs that sitemaps list.
    #[serde(default)]
    pub sitemap_urls: u64,
    /// Sitemaps that could not be fetched, or not be read to their end, and why; the first hundred of them.
    #[serde(default)]
    pub failed_sitemaps: BTreeMap<String, String>,
    /// URLs in the seen set.
    pub seen_urls: usize,
    /// Pages in the content store.
    pub stored_pages: usize,
    /// Bytes the stored pages take, compressed.
    pub stored_bytes: u64,
    /// The number of the visit whose counts these are: how often the known URLs are visited. 0 in a crawl that has no state.
    #[serde(default)]
    pub(crate) visit: u32,
    /// Completed URLs that will be visited again while the crawl runs.
    #[serde(default)]
    pub(crate) scheduled: u64,
    /// When the next of them is due: Unix time in milliseconds.
    #[serde(default)]
    pub(crate) next_due: Option<u64>,
    /// The counters of the prioritizer's service, if it uses one.
    #[serde(default)]
    pub(crate) prioritizer_service: Option<ServiceStats>,
}

impl Snapshot {
    /// URLs admitted and not completed.
    pub fn pending(&self) -> u64 {
        self.admitted - self.completed
    }
}

/// The parts of a snapshot that only the command and tests need.
pub trait SnapshotInternals {
    /// The hosts of which the most URLs wait, and why.
    fn waiting_hosts(&self) -> &[WaitingHost];

    /// Why the URLs of a host wait, if it is one of the listed hosts.
    fn why_waiting(&self, host: &str) -> Option<WaitReason>;

    /// The same, to change them for a display.
    fn waiting_hosts_mut(&mut self) -> &mut Vec<WaitingHost>;

    /// The number of the visit whose counts these are.
    fn visit(&self) -> u32;

    /// Completed URLs that will be visited again while the crawl runs.
    fn scheduled(&self) -> u64;

    /// When the next of them is due: Unix time in milliseconds.
    fn next_due(&self) -> Option<u64>;

    /// The counters of the prioritizer's service, if it uses one.
    fn prioritizer_service(&self) -> Option<&ServiceStats>;
}

#[doc(hidden)]
impl SnapshotInternals for Snapshot {
    fn waiting_hosts(&self) -> &[WaitingHost] {
        &self.waiting_hosts
    }

    fn why_waiting(&self, host: &str) -> Option<WaitReason> {
        let listed = self.waiting_hosts.iter().find(|waiting| waiting.host == host);
        listed.map(|waiting| waiting.why.clone())
    }

    fn waiting_hosts_mut(&mut self) -> &mut Vec<WaitingHost> {
        &mut self.waiting_hosts
    }

    fn visit(&self) -> u32 {
        self.visit
    }

    fn scheduled(&self) -> u64 {
        self.scheduled
    }

    fn next_due(&self) -> Option<u64> {
        self.next_due
    }

    fn prioritizer_service(&self) -> Option<&ServiceStats> {
        self.prioritizer_service.as_ref()
    }
}

/// A failure of the queues or storages. The crawl cannot continue.
#[derive(Debug, Clone)]
pub enum BackendError {
    /// A failure of a crawl in this process.
    State(StorageError),
    /// A failure of a distributed crawl.
    Redis(StorageError),
}

impl BackendError {
    /// A failure of a crawl in this process, with a complete message.
    pub fn state(kind: StorageErrorKind, message: impl Into<String>) -> BackendError {
        BackendError::State(StorageError::new(kind, message))
    }

    /// A failure of a distributed crawl, with a complete message.
    pub(crate) fn redis(kind: StorageErrorKind, message: impl Into<String>) -> BackendError {
        BackendError::Redis(StorageError::new(kind, message))
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (BackendError::State(error) | BackendError::Redis(error)) = self;
        error.fmt(f)
    }
}

impl std::error::Error for BackendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let (BackendError::State(error) | BackendError::Redis(error)) = self;
        error.source()
    }
}

impl From<BackendError> for Error {
    fn from(error: BackendError) -> Error {
        match error {
            BackendError::State(error) => Error::State(error),
            BackendError::Redis(error) => Error::Redis(error),
        }
    }
}

/// The future that an operation of a [`Backend`] returns.
pub trait BackendFuture<T>: Future<Output = Result<T, BackendError>> + Send {}

impl<T, F: Future<Output = Result<T, BackendError>> + Send> BackendFuture<T> for F {}

/// The queues and storages of a crawl.
pub trait Backend: Send + Sync + 'static {
    /// Admits URLs. Each URL that is not in the seen set is added to it and queued, in one step. A URL that is in the
    /// seen set has its depth lowered if it was found at a smaller depth. Every URL of a crawl enters through this
    /// operation.
    fn admit(&self, urls: Vec<DiscoveredUrl>) -> impl BackendFuture<AdmitCounts>;

    /// Hands up to `max` URLs to the prioritizer, in the order of admission. Waits up to `wait` for the first one. URLs whose priorities
    /// the backend knows are queued instead.
    fn take_unprioritized(&self, max: usize, wait: Duration) -> impl BackendFuture<Vec<UnprioritizedUrl>>;

    /// Puts URLs that the prioritizer took into the priority queues.
    fn enqueue_prioritized(&self, prioritized: Vec<(TaskId, Priority)>) -> impl BackendFuture<()>;

    /// Lets the backend ask this prioritizer itself for priorities that are known without waiting. It does so while its queues
    /// are locked, so it must be a prioritizer that uses nothing of the crawl.
    fn set_prioritizer(&self, _prioritizer: &Arc<dyn Prioritizer>) {}

    /// Hands all URLs of these domains that wait with a priority to the prioritizer again. Returns how many there were.
    fn reprioritize(&self, _domains: Vec<Domain>) -> impl BackendFuture<usize> {
        std::future::ready(Ok(0))
    }

    /// Waits until no URL is pending, or for a short time.
    fn wait_until_finished(&self, wait: Duration) -> impl BackendFuture<()> {
        async move {
            tokio::time::sleep(wait).await;
            Ok(())
        }
    }

    /// Leases up to `max` URLs to a worker: draws a priority queue for each, takes the next domain in it that the worker owns or
    /// no worker, and of it a host that is ready. Waits up to `wait` for the first one.
    fn lease(&self, worker: WorkerId, max: usize, wait: Duration) -> impl BackendFuture<Vec<Lease>>;

    /// Transfers domains to other workers, each as a unit or not at all. The leases end, and all URLs that wait for the
    /// old owner wait for the new one, in the same order. A backend whose workers share a throttle declines.
    fn transfer_domains(
        &self,
        _from: WorkerId,
        transfers: Vec<DomainTransfer>,
    ) -> impl BackendFuture<Vec<TransferResult>> {
        std::future::ready(Ok(vec![TransferResult::Declined; transfers.len()]))
    }

    /// Makes a worker the owner of a host's domain, unless another worker owns it. In a backend whose workers share one
    /// process they share a throttle too, so each may send requests to every host.
    fn claim_host(&self, _worker: WorkerId, _host: &str) -> impl BackendFuture<HostClaim> {
        std::future::ready(Ok(HostClaim::Granted { cooldown: Duration::ZERO }))
    }

    /// A robots.txt that a process has stored on the last day.
    fn load_robots(&self, _url: &str) -> impl BackendFuture<Option<Vec<u8>>> {
        std::future::ready(Ok(None))
    }

    /// Stores a robots.txt for other processes. A backend whose workers share one process need not.
    fn store_robots(&self, _url: &str, _file: &[u8]) -> impl BackendFuture<()> {
        std::future::ready(Ok(()))
    }

    /// Reserves one page and some body bytes for a request before it is sent, or more bytes for a response that has read
    /// all it was granted. Counts the bytes that the lease has `read` since its last reservation, and returns the bytes of
    /// that one.
    fn reserve(&self, lease: &Lease, read: BodyBytes) -> impl BackendFuture<BudgetDecision>;

    /// Waits until a reservation that was refused with [`BudgetDecision::RetryLater`] may be granted, or for a short time.
    fn wait_for_budget(&self, _lease: &Lease) -> impl BackendFuture<()> {
        async {
            tokio::time::sleep(BUDGET_POLL_INTERVAL).await;
            Ok(())
        }
    }

    /// Returns what a lease has reserved, and counts the bytes that it has `read` since. The worker pauses the fetch.
    fn release(&self, lease: &Lease, read: BodyBytes) -> impl BackendFuture<()>;

    /// Ends leases. Admits the outlinks first, then counts the outcome and returns the unused part of the reservation.
    /// A lease can be completed once.
    fn complete(&self, completions: Vec<Completion>) -> impl BackendFuture<Vec<CompleteResult>>;

    /// Stores when the next request to a host is allowed. It holds for every worker, also after a crash. For delays
    /// that cannot wait for a completion.
    fn set_host_delay(&self, host: &str, host_delay: HostDelay) -> impl BackendFuture<()>;

    /// Stores the kinds of address that a seed's host has, unless some are stored already, and returns the stored ones.
    /// They hold for every worker, also after a crash.
    fn pin_address_kinds(&self, host: &str, kinds: AddressKinds) -> impl BackendFuture<AddressKinds>;

    /// Records that the outputs are written up to this position and have these lengths. The backend can drop what it
    /// stored for them.
    fn record_outputs_written(&self, written: OutputPosition, lengths: Vec<u64>) -> impl BackendFuture<()>;

    /// Takes the URLs that are not completed out of the queues, at the end of a crawl in one process.
    fn drain_pending(&self, _each: &mut dyn FnMut(UrlRecord<'static>)) -> Result<(), BackendError> {
        Ok(())
    }

    /// The key of all fingerprints of this crawl. It is the same for all processes.
    fn hash_key(&self) -> HashKey;

    /// The counter of the HTTP requests that this process sends for the crawl. [`Snapshot::requests`] includes them.
    fn request_counter(&self) -> RequestCounter;

    /// Stores a page, unless it is a duplicate or near-duplicate of a page from another URL. A page that is delivered
    /// twice is not a duplicate of itself. A seed is always stored.
    fn store_content(
        &self,
        url: &str,
        fingerprint: &Fingerprint,
        body: &[u8],
        is_seed: bool,
    ) -> impl BackendFuture<ContentMatch>;

    /// Returns a page while it is stored.
    fn load_content(&self, url: &str) -> impl BackendFuture<Option<Vec<u8>>>;

    /// URLs admitted and not completed, or to be visited again while the crawl runs. The crawl is finished when there are none.
    fn pending(&self) -> impl BackendFuture<u64>;

    /// The budget that is exhausted, if any.
    fn exhausted_budget(&self) -> impl BackendFuture<Option<Budget>>;

    /// Changes limits of the running crawl. In a worker of a distributed crawl nothing happens: its frontier has them.
    fn set_limits(&self, _limits: &LiveLimits) {}

    /// Removes a dead worker: requeues its leased and queued URLs and releases its domains.
    fn remove_worker(&self, worker: WorkerId) -> impl BackendFuture<()>;

    /// Counts and queue lengths for display.
    fn snapshot(&self) -> impl BackendFuture<Snapshot>;
}
