//! The backend of a worker of a distributed crawl: sends its operations to the frontier process, and waits for the replies.
//!
//! What is sent at one moment is one message. After each new connection to Redis, everything that has no reply is sent
//! again, because Redis may have lost it.

mod bodies;
mod exchange;
mod sent_links;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub(super) use self::bodies::{load_bodies, load_body};
use self::exchange::{Exchange, Pending};
use self::sent_links::SentLinks;
use super::super::{
    AdmitCounts, Backend, BackendError, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch,
    DiscoveredUrl, DomainTransfer, HostClaim, HostDelay, Lease, Snapshot, TaskId, TransferResult,
    UnprioritizedUrl, WorkerId,
};
use super::connection::{Call, Connection};
use super::control::{Shared as CrawlShared, load_snapshot};
use super::home::AbortOnDrop;
use super::keys::CrawlKeys;
use super::messages::{
    Answer, CompletedLease, FrontierMessage, LeaseRef, NewContent, Position, Request, Session,
    TransferredDomain, decode, encode,
};
use super::stream::read_stream;
use crate::backend::local::{BackendConfig, compress, secret};
use crate::error::StorageErrorKind;
use crate::fetch::http::AddressKinds;
use crate::modules::output::OutputPosition;
use crate::prioritizer::Priority;
use crate::similarity::{ExactComparison, Fingerprint, HashKey, PageBody, ShingleCache};
use crate::stats::{BodyBytes, RequestCounter};

/// After this time without a message of the frontier, the worker sends one. If Redis has lost earlier ones, the frontier
/// notices it from the numbers.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// How long requests wait for others, so that they share a message.
const GATHERING: Duration = Duration::from_millis(2);

/// How many messages are read at a time.
const MAX_MESSAGES: usize = 100;

/// How long a request waits for the frontier to say that the budget allows it.
const MAX_BUDGET_WAIT: Duration = Duration::from_millis(700);

/// How long a robots.txt of another domain is stored.
const ROBOTS_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The backend of one worker.
pub struct RemoteBackend {
    shared: Arc<Shared>,
    config: BackendConfig,
    key: HashKey,
    /// The shingles of stored pages that were compared exactly.
    shingles: ShingleCache,
    /// The task that sends and receives messages.
    _exchange: AbortOnDrop<()>,
}

struct Shared {
    exchange: Mutex<Exchange>,
    sent_links: Mutex<SentLinks>,
    /// Wakes the sender.
    to_send: Notify,
    /// Wakes the tasks that wait for leases.
    leased: Notify,
    connection: Connection,
    keys: CrawlKeys,
    worker: WorkerId,
    requests: RequestCounter,
}

impl RemoteBackend {
    /// Joins a crawl as the worker of this number, since a time by Redis's clock.
    pub(super) fn join(crawl: &CrawlShared, worker: WorkerId, joined_at: u64) -> RemoteBackend {
        let session = Session { joined_at, restarts: 0, random: secret() as u64 };
        let connection = crawl.connection.clone();
        let shared = Arc::new(Shared {
            exchange: Mutex::new(Exchange::new(session)),
            sent_links: Mutex::default(),
            to_send: Notify::new(),
            leased: Notify::new(),
            connection: connection.clone(),
            keys: crawl.keys.clone(),
            worker,
            requests: RequestCounter::default(),
        });
        let exchanging = Arc::clone(&shared);
        let exchange = connection.spawn(async move {
            let failed = tokio::select! {
                failed = exchanging.send() => failed,
                failed = exchanging.receive() => failed,
            };
            exchanging.fail(failed);
        });
        let (config, shingles) = (crawl.settings.clone(), ShingleCache::default());
        RemoteBackend { shared, config, key: crawl.key, shingles, _exchange: AbortOnDrop(exchange) }
    }

    /// Runs a future on the thread of the connection, where operations of the backend are cheaper.
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.shared.connection.spawn(future)
    }

    /// For how long the frontier has not replied; `None` if it owes no reply.
    pub fn unanswered_for(&self) -> Option<Duration> {
        let exchange = self.shared.exchange();
        exchange.is_waiting().then(|| exchange.last_reply.elapsed())
    }

    /// Gives up all operations, and sends nothing more. The leases stay until the frontier finds that the worker is gone.
    pub fn close(&self) {
        let message = "cannot complete the URLs in flight: no frontier replies";
        self.shared.fail(BackendError::redis(StorageErrorKind::Io, message));
    }

    /// Returns all leases to the frontier.
    pub async fn leave(&self) -> Result<(), BackendError> {
        self.ask(Request::Leave).await.map(drop)
    }

    async fn ask(&self, request: Request) -> Result<Answer, BackendError> {
        let replied = self.shared.start(&request)?;
        match replied.await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.shared.failure()),
        }
    }
}

impl Shared {
    fn exchange(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent_links(&self) -> MutexGuard<'_, SentLinks> {
        self.sent_links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a request its number, and lets it be sent.
    fn start(&self, request: &Request) -> Result<oneshot::Receiver<Answer>, BackendError> {
        let request = encode(request);
        let mut exchange = self.exchange();
        if let Some(failure) = &exchange.failure {
            return Err(failure.clone());
        }
        let (reply, replied) = oneshot::channel();
        if !exchange.is_waiting() {
            exchange.last_reply = Instant::now();
        }
        exchange.last_request += 1;
        let number = exchange.last_request;
        exchange.pending.insert(number, Pending { request, reply });
        drop(exchange);
        self.to_send.notify_one();
        Ok(replied)
    }

    fn fail(&self, error: BackendError) {
        let mut exchange = self.exchange();
        exchange.failure.get_or_insert(error);
        exchange.pending.clear();
        drop(exchange);
        self.leased.notify_waiters();
        self.to_send.notify_one();
    }

    fn failure(&self) -> BackendError {
        let closed = || BackendError::redis(StorageErrorKind::Io, "the connection to Redis was closed");
        self.exchange().failure.clone().unwrap_or_else(closed)
    }

    /// Sends messages until an error.
    async fn send(&self) -> BackendError {
        loop {
            self.to_send.notified().await;
            sleep(GATHERING).await;
            if let Some(failure) = self.exchange().failure.clone() {
                return failure;
            }
            while let Some(message) = {
                let http_requests = self.requests.total();
                self.exchange().next_message(self.worker, http_requests)
            } {
                let add = Call::new("XADD", self.keys.messages()).arg("*").arg("m").arg(message);
                if let Err(error) = self.connection.one::<Value>(add).await {
                    return error;
                }
            }
        }
    }

    /// Receives messages until an error.
    async fn receive(&self) -> BackendError {
        let (reading, stream) = (self.connection.beside(), self.keys.replies(self.worker));
        let (mut position, mut before) = (Position::default(), self.connection.connections());
        let mut last_message = Instant::now();
        loop {
            let read = match read_stream(&reading, &stream, position, MAX_MESSAGES).await {
                Ok(read) => read,
                Err(error) => return error,
            };
            let mut exchange = self.exchange();
            if let Some(failure) = exchange.failure.clone() {
                return failure;
            }
            if !read.is_empty() || last_message.elapsed() >= MAX_SILENCE {
                // What the worker sent last may be lost.
                if read.is_empty() {
                    exchange.is_message_due = true;
                    self.to_send.notify_one();
                }
                last_message = Instant::now();
            }
            for (at, message) in read {
                if let Some(message) = decode::<FrontierMessage>(&message) {
                    let session = exchange.session;
                    exchange.apply(message, self.requests.total());
                    if exchange.session != session {
                        self.sent_links().clear();
                        self.to_send.notify_one();
                    }
                }
                position = at;
            }
            exchange.read = exchange.read.max(position);
            let now = self.connection.connections();
            if std::mem::replace(&mut before, now) != now {
                // Redis may have lost what was sent and received last.
                exchange.send_again();
                (position, exchange.read) = (Position::default(), Position::default());
                self.to_send.notify_one();
            }
            drop(exchange);
            self.leased.notify_waiters();
        }
    }

    /// Takes leases that have arrived.
    fn take_leases(&self, max: usize) -> Result<Vec<Lease>, BackendError> {
        let mut exchange = self.exchange();
        if let Some(failure) = &exchange.failure {
            return Err(failure.clone());
        }
        let count = max.min(exchange.leases.len());
        Ok(exchange.leases.drain(..count).collect())
    }
}

/// The value of an answer of the expected kind.
macro_rules! answer {
    ($answer:expr, Answer::$kind:ident) => {
        match $answer {
            Answer::$kind(value) => Ok(value),
            answer => Err(unexpected(&answer)),
        }
    };
}

/// The reply does not fit the request.
fn unexpected(answer: &Answer) -> BackendError {
    let message = format!(
        "cannot use a reply of the frontier, which does not fit the request: {answer:?}; run the same version of crawler in \
         all processes"
    );
    BackendError::redis(StorageErrorKind::Unsupported, message)
}

impl Backend for RemoteBackend {
    async fn admit(&self, urls: Vec<DiscoveredUrl>) -> Result<AdmitCounts, BackendError> {
        answer!(self.ask(Request::Admit(urls)).await?, Answer::Admitted)
    }

    // The frontier process prioritizes.
    async fn take_unprioritized(
        &self,
        _: usize,
        wait: Duration,
    ) -> Result<Vec<UnprioritizedUrl>, BackendError> {
        sleep(wait).await;
        Ok(Vec::new())
    }

    async fn enqueue_prioritized(&self, _: Vec<(TaskId, Priority)>) -> Result<(), BackendError> {
        Ok(())
    }

    async fn lease(&self, _: WorkerId, max: usize, wait: Duration) -> Result<Vec<Lease>, BackendError> {
        let deadline = Instant::now() + wait;
        loop {
            let mut leased = std::pin::pin!(self.shared.leased.notified());
            leased.as_mut().enable();
            let leases = self.shared.take_leases(max)?;
            if !leases.is_empty() {
                return Ok(leases);
            }
            if self.shared.exchange().accept_leases(max) {
                self.shared.to_send.notify_one();
            }
            if wait.is_zero() {
                self.ask(Request::Sync).await?;
                return self.shared.take_leases(max);
            }
            if timeout_at(deadline, leased).await.is_err() {
                return Ok(Vec::new());
            }
        }
    }

    async fn transfer_domains(
        &self,
        _: WorkerId,
        transfers: Vec<DomainTransfer>,
    ) -> Result<Vec<TransferResult>, BackendError> {
        let mut results = Vec::with_capacity(transfers.len());
        for DomainTransfer { domain, to, leases, cooldowns } in transfers {
            let (domain, leases) = (domain.as_str().to_owned(), leases.iter().map(LeaseRef::from).collect());
            let transfer = TransferredDomain { domain, to, leases, cooldowns };
            let request = Request::TransferDomain(transfer);
            results.push(answer!(self.ask(request).await?, Answer::Transferred)?);
        }
        Ok(results)
    }

    async fn claim_host(&self, _: WorkerId, host: &str) -> Result<HostClaim, BackendError> {
        answer!(self.ask(Request::ClaimHost(host.to_owned())).await?, Answer::Claim)
    }

    async fn load_robots(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        self.shared.connection.one(Call::new("GET", self.shared.keys.robots(url))).await
    }

    async fn store_robots(&self, url: &str, file: &[u8]) -> Result<(), BackendError> {
        let set = Call::new("SET", self.shared.keys.robots(url)).arg(file);
        self.shared.connection.one(set.arg("EX").arg(ROBOTS_TTL.as_secs())).await
    }

    async fn reserve(&self, lease: &Lease, read: BodyBytes) -> Result<BudgetDecision, BackendError> {
        let reserved = self.shared.exchange().reserved.remove(&lease.task_id);
        if let Some((lease_id, decision)) = reserved
            && lease_id == lease.lease_id
            && read == BodyBytes::default()
        {
            return Ok(decision);
        }
        answer!(self.ask(Request::Reserve(lease.into(), read)).await?, Answer::Budget)
    }

    async fn wait_for_budget(&self, lease: &Lease) -> Result<(), BackendError> {
        // A frontier that takes over does not know which requests wait.
        let replied = self.shared.start(&Request::WaitForBudget(LeaseRef::from(lease)))?;
        let _ = timeout(MAX_BUDGET_WAIT, replied).await;
        Ok(())
    }

    async fn release(&self, lease: &Lease, read: BodyBytes) -> Result<(), BackendError> {
        self.ask(Request::Release(lease.into(), read)).await.map(drop)
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<CompleteResult>, BackendError> {
        let mut replies = Vec::with_capacity(completions.len());
        let session = self.shared.exchange().session;
        for mut completion in completions {
            self.shared.exchange().reserved.remove(&completion.lease.task_id);
            let depth = completion.outlinks.depth;
            let (outlinks, sent) = self.shared.sent_links().filter(completion.outlinks, self.key);
            completion.outlinks = outlinks;
            let request = Request::Complete(Box::new(CompletedLease::new(completion)));
            replies.push((self.shared.start(&request)?, sent, depth));
        }
        let mut results = Vec::with_capacity(replies.len());
        for (reply, sent, depth) in replies {
            let result = match reply.await {
                Ok(Answer::Completed(result)) => result,
                Ok(answer) => return Err(unexpected(&answer)),
                Err(_) => return Err(self.shared.failure()),
            };
            let exchange = self.shared.exchange();
            // In a new session, Redis may have lost the links after the reply.
            if matches!(result, CompleteResult::Applied { .. }) && exchange.session == session {
                self.shared.sent_links().add(sent, depth);
            }
            results.push(result);
        }
        Ok(results)
    }

    async fn set_host_delay(&self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        self.ask(Request::SetHostDelay(host.to_owned(), host_delay)).await.map(drop)
    }

    async fn pin_address_kinds(&self, host: &str, kinds: AddressKinds) -> Result<AddressKinds, BackendError> {
        let kinds = answer!(
            self.ask(Request::PinAddressKinds(host.to_owned(), kinds.bits())).await?,
            Answer::AddressKinds
        );
        kinds.map(AddressKinds::from_bits)
    }

    // The outputs are part files, which are not recorded.
    async fn record_outputs_written(&self, _: OutputPosition, _: Vec<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn hash_key(&self) -> HashKey {
        self.key
    }

    fn request_counter(&self) -> RequestCounter {
        self.shared.requests.clone()
    }

    async fn store_content(
        &self,
        url: &str,
        fingerprint: &Fingerprint,
        body: &[u8],
        is_seed: bool,
    ) -> Result<ContentMatch, BackendError> {
        let stored_body = (self.config.keep_content && fingerprint.stores_body()).then(|| compress(body));
        let page = PageBody { url, content_type: fingerprint.content_type, body };
        let comparison = ExactComparison::new(self.key, &self.config.strip_query, page);
        let mut verdicts = Vec::new();
        loop {
            let request = Request::StoreContent(NewContent {
                url: url.to_owned(),
                fingerprint: fingerprint.to_bytes(),
                body_bytes: stored_body.as_ref().map(|body| body.bytes().len() as u64),
                is_seed,
                verdicts: verdicts.clone(),
            });
            match self.ask(request).await? {
                Answer::Content(ContentMatch::New) => {
                    let id = self.key.url_id(url);
                    self.shingles.update(id, comparison.into_shingles());
                    if let Some(body) = &stored_body {
                        self.store_body(id, body).await?;
                    }
                    return Ok(ContentMatch::New);
                }
                Answer::Content(content_match) => return Ok(content_match),
                Answer::Undecided(pages) => self.compare(&comparison, pages, &mut verdicts).await?,
                answer => return Err(unexpected(&answer)),
            }
        }
    }

    async fn load_content(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        self.body(self.key.url_id(url)).await
    }

    async fn outstanding(&self) -> Result<u64, BackendError> {
        Ok(self.snapshot().await?.outstanding())
    }

    // The frontier process ends the crawl.
    async fn exhausted_budget(&self) -> Result<Option<Budget>, BackendError> {
        Ok(None)
    }

    async fn remove_worker(&self, _: WorkerId) -> Result<(), BackendError> {
        self.leave().await
    }

    async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        load_snapshot(&self.shared.connection, &self.shared.keys).await
    }
}
