//! The backend of a worker of a distributed crawl: sends its operations to the frontier process, and waits for the replies.
//!
//! What is sent at one moment is one message. After each new connection to Redis, everything that has no reply is sent
//! again, because Redis may have lost it.

mod bodies;
mod exchange;
mod sent_links;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use self::exchange::MessageExchange;
use super::super::{
    AdmitCounts, Backend, BackendError, Budget, BudgetDecision, CompleteResult, Completion, ContentMatch,
    DiscoveredUrl, DomainTransfer, HostClaim, HostDelay, Lease, Snapshot, TaskId, TransferResult,
    UnprioritizedUrl, WorkerId,
};
use super::Result;
use super::connection::Call;
use super::control::OpenedCrawl;
use super::data::CrawlData;
use super::home::AbortOnDrop;
use super::messages::{FrontierMessage, LeaseRef, NewContent, Position, Request, Session, decode};
use crate::backend::local::state::StoreResult;
use crate::backend::local::{BackendConfig, secret};
use crate::error::StorageErrorKind;
use crate::fetch::http::AddressKinds;
use crate::modules::output::OutputPosition;
use crate::prioritizer::Priority;
use crate::similarity::{ExactComparison, Fingerprint, HashKey, PageBody, ShingleCache, Verdicts};
use crate::stats::{BodyBytes, RequestCounter};

/// After this time without a message of the frontier, the worker sends one. If Redis has lost earlier ones, the frontier
/// notices it from the numbers.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// How long requests wait for others, so that they share a message: at least, unless requests come one by one, as from a chain of pages …
const GATHERING: Duration = Duration::from_millis(2);

/// … and at most, while the frontier has not replied to all before them.
const MAX_GATHERING: Duration = Duration::from_millis(5);

/// How many messages are read at a time.
const MAX_MESSAGES: usize = 100;

/// How long a request waits for the frontier to say that the budget allows it.
const MAX_BUDGET_WAIT: Duration = Duration::from_millis(700);

/// How long a robots.txt of another domain is stored.
const ROBOTS_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The backend of one worker.
pub struct RemoteBackend {
    shared: Arc<ClientShared>,
    config: BackendConfig,
    key: HashKey,
    /// The shingles of stored pages that were compared exactly.
    shingles: ShingleCache,
    /// The bytes of the page bodies that this worker has stored.
    stored_bytes: AtomicU64,
    /// The task that sends and receives messages.
    _exchange: AbortOnDrop<()>,
}

struct ClientShared {
    exchange: Mutex<MessageExchange>,
    /// Wakes the sender.
    to_send: Notify,
    /// Wakes the sender, which gathers requests: a message of the frontier has arrived.
    replied: Notify,
    /// Wakes the tasks that wait until fewer page bodies wait.
    bodies_stored: Notify,
    /// Wakes the tasks that wait for leases.
    leased: Notify,
    data: CrawlData,
    worker: WorkerId,
    requests: RequestCounter,
}

impl RemoteBackend {
    /// Joins a crawl as the worker of this number, since a time by Redis's clock.
    pub(super) fn join(crawl: &OpenedCrawl, worker: WorkerId, joined_at: u64) -> RemoteBackend {
        let session = Session { joined_at, restarts: 0, random: secret() as u64 };
        let shared = Arc::new(ClientShared {
            exchange: Mutex::new(MessageExchange::new(session)),
            to_send: Notify::new(),
            replied: Notify::new(),
            bodies_stored: Notify::new(),
            leased: Notify::new(),
            data: crawl.data.clone(),
            worker,
            requests: RequestCounter::default(),
        });
        let exchanging = Arc::clone(&shared);
        let exchange = crawl.data.connection.spawn(async move {
            let Err(failed) = tokio::select! {
                failed = exchanging.send() => failed,
                failed = exchanging.receive() => failed,
            };
            exchanging.fail(failed);
        });
        let (config, shingles) = (crawl.settings.clone(), ShingleCache::default());
        RemoteBackend {
            shared,
            config,
            key: crawl.key,
            shingles,
            stored_bytes: AtomicU64::new(0),
            _exchange: AbortOnDrop(exchange),
        }
    }

    /// Runs a future on the thread of the connection, where operations of the backend are cheaper.
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.shared.data.connection.spawn(future)
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
    pub async fn leave(&self) -> Result<()> {
        self.ask(Request::Leave).await
    }

    async fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T> {
        self.shared.result(self.shared.start(&request)?).await
    }
}

impl ClientShared {
    fn exchange(&self) -> MutexGuard<'_, MessageExchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, or the error after which nothing is sent any more.
    fn working(&self) -> Result<MutexGuard<'_, MessageExchange>> {
        let exchange = self.exchange();
        exchange.failure.clone().map_or(Ok(exchange), Err)
    }

    /// The result of a request.
    async fn result<T: DeserializeOwned>(&self, reply: oneshot::Receiver<Vec<u8>>) -> Result<T> {
        let Ok(result) = reply.await else { return Err(self.failure()) };
        decode(&result).ok_or_else(|| {
            let message =
                "cannot use a reply of the frontier; run the same version of crawler in all processes";
            BackendError::redis(StorageErrorKind::Unsupported, message)
        })
    }

    /// Gives a request its number, and lets it be sent.
    fn start(&self, request: &Request) -> Result<oneshot::Receiver<Vec<u8>>> {
        let replied = self.working()?.start(request);
        self.to_send.notify_one();
        Ok(replied)
    }

    fn fail(&self, error: BackendError) {
        let mut exchange = self.exchange();
        exchange.failure.get_or_insert(error);
        exchange.pending.clear();
        exchange.bodies.clear();
        drop(exchange);
        self.leased.notify_waiters();
        self.bodies_stored.notify_waiters();
        self.to_send.notify_one();
    }

    fn failure(&self) -> BackendError {
        let closed = || BackendError::redis(StorageErrorKind::Io, "the connection to Redis was closed");
        self.exchange().failure.clone().unwrap_or_else(closed)
    }

    /// Sends messages until an error.
    async fn send(&self) -> Result<Infallible> {
        loop {
            self.to_send.notified().await;
            let _ = timeout(MAX_GATHERING, self.gather()).await;
            while let Some((calls, body_bytes)) = self.next_calls()? {
                self.data.connection.in_order(calls).await?;
                self.working()?.body_bytes -= body_bytes;
                self.bodies_stored.notify_waiters();
            }
        }
    }

    /// Waits while further requests can share the message without a delay for the first ones, which wait for the frontier anyway.
    async fn gather(&self) {
        // Operations that can start now do.
        yield_now().await;
        if !self.exchange().has_single_requests() {
            sleep(GATHERING).await;
        }
        loop {
            let mut replied = pin!(self.replied.notified());
            replied.as_mut().enable();
            if !self.exchange().is_gathering() {
                return;
            }
            tokio::select! {
                () = replied => {}
                () = self.to_send.notified() => {}
            }
        }
    }

    /// The commands that store page bodies, then the one that sends the next message. Their pages complete no earlier.
    fn next_calls(&self) -> Result<Option<(Vec<Call>, usize)>> {
        let http_requests = self.requests.total();
        let mut exchange = self.working()?;
        let body_bytes = exchange.body_bytes;
        let mut calls = std::mem::take(&mut exchange.bodies);
        if let Some(message) = exchange.next_message(self.worker, http_requests) {
            calls.push(self.data.call("XADD", "urls").arg(("*", "m", message)));
        }
        Ok((!calls.is_empty()).then_some((calls, body_bytes)))
    }

    /// Receives messages until an error.
    async fn receive(&self) -> Result<Infallible> {
        let (reading, stream) = (self.data.with_another_connection(), self.data.keys.replies(self.worker));
        let (mut position, mut before) = (Position::default(), self.data.connection.connections());
        let mut last_message = Instant::now();
        loop {
            let read = reading.read_stream(&stream, position, MAX_MESSAGES).await?;
            let mut exchange = self.working()?;
            if !read.is_empty() {
                last_message = Instant::now();
            } else if last_message.elapsed() >= MAX_SILENCE {
                // What the worker sent last may be lost.
                (exchange.is_message_due, last_message) = (true, Instant::now());
            }
            for (at, message) in read {
                if let Some(message) = decode::<FrontierMessage>(&message) {
                    exchange.apply(message, self.requests.total());
                }
                position = at;
            }
            exchange.read = exchange.read.max(position);
            let now = self.data.connection.connections();
            if std::mem::replace(&mut before, now) != now {
                // Redis may have lost what was sent and received last.
                exchange.send_again();
                (position, exchange.read) = (Position::default(), Position::default());
            }
            if exchange.is_message_due {
                self.to_send.notify_one();
            }
            drop(exchange);
            self.replied.notify_waiters();
            self.leased.notify_waiters();
        }
    }

    /// Takes leases that have arrived.
    fn take_leases(&self, max: usize) -> Result<Vec<Lease>> {
        let mut exchange = self.working()?;
        let count = max.min(exchange.leases.len());
        Ok(exchange.leases.drain(..count).collect())
    }
}

impl Backend for RemoteBackend {
    async fn admit(&self, urls: Vec<DiscoveredUrl>) -> Result<AdmitCounts> {
        self.ask(Request::Admit(urls)).await
    }

    // The frontier process prioritizes.
    async fn take_unprioritized(&self, _: usize, wait: Duration) -> Result<Vec<UnprioritizedUrl>> {
        sleep(wait).await;
        Ok(Vec::new())
    }

    async fn enqueue_prioritized(&self, _: Vec<(TaskId, Priority)>) -> Result<()> {
        Ok(())
    }

    async fn lease(&self, _: WorkerId, max: usize, wait: Duration) -> Result<Vec<Lease>> {
        let deadline = Instant::now() + wait;
        loop {
            let mut leased = pin!(self.shared.leased.notified());
            leased.as_mut().enable();
            let leases = self.shared.take_leases(max)?;
            if !leases.is_empty() {
                return Ok(leases);
            }
            if self.shared.exchange().accept_leases(max) {
                self.shared.to_send.notify_one();
            }
            if wait.is_zero() {
                self.ask::<()>(Request::Sync).await?;
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
    ) -> Result<Vec<TransferResult>> {
        let mut results = Vec::with_capacity(transfers.len());
        for transfer in transfers {
            results.push(self.ask(Request::TransferDomain(transfer)).await?);
        }
        Ok(results)
    }

    async fn claim_host(&self, _: WorkerId, host: &str) -> Result<HostClaim> {
        self.ask(Request::ClaimHost(host.to_owned())).await
    }

    async fn load_robots(&self, url: &str) -> Result<Option<Vec<u8>>> {
        self.shared.data.connection.one(Call::new("GET", self.shared.data.keys.robots(url))).await
    }

    async fn store_robots(&self, url: &str, file: &[u8]) -> Result<()> {
        let set = Call::new("SET", self.shared.data.keys.robots(url));
        self.shared.data.connection.one(set.arg((file, "EX", ROBOTS_TTL.as_secs()))).await
    }

    async fn reserve(&self, lease: &Lease, read: BodyBytes) -> Result<BudgetDecision> {
        let reserved = self.shared.exchange().reserved.remove(&lease.task_id);
        if let Some((lease_id, decision)) = reserved
            && lease_id == lease.lease_id
            && read == BodyBytes::default()
        {
            return Ok(decision);
        }
        self.ask(Request::Reserve(lease.into(), read)).await
    }

    async fn wait_for_budget(&self, lease: &Lease) -> Result<()> {
        // A frontier that takes over does not know which requests wait.
        let replied = self.shared.start(&Request::WaitForBudget(LeaseRef::from(lease)))?;
        let _ = timeout(MAX_BUDGET_WAIT, replied).await;
        Ok(())
    }

    async fn release(&self, lease: &Lease, read: BodyBytes) -> Result<()> {
        self.ask(Request::Release(lease.into(), read)).await
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<CompleteResult>> {
        let mut replies = Vec::with_capacity(completions.len());
        let session = self.shared.exchange().session;
        for mut completion in completions {
            let (depth, sent) = (completion.outlinks.depth, {
                let mut exchange = self.shared.exchange();
                exchange.reserved.remove(&completion.lease.task_id);
                exchange.open_leases = exchange.open_leases.saturating_sub(1);
                exchange.sent_links.filter(&mut completion.outlinks, self.key)
            });
            let request = Request::Complete(LeaseRef::from(&completion.lease), Box::new(completion));
            replies.push((self.shared.start(&request)?, sent, depth));
        }
        let mut results = Vec::with_capacity(replies.len());
        for (reply, sent, depth) in replies {
            let result = self.shared.result(reply).await?;
            let mut exchange = self.shared.exchange();
            // In a new session, Redis may have lost the links after the reply.
            if matches!(result, CompleteResult::Applied { .. }) && exchange.session == session {
                exchange.sent_links.add(sent, depth);
            }
            results.push(result);
        }
        Ok(results)
    }

    async fn set_host_delay(&self, host: &str, host_delay: HostDelay) -> Result<()> {
        self.ask(Request::SetHostDelay(host.to_owned(), host_delay)).await
    }

    async fn pin_address_kinds(&self, host: &str, kinds: AddressKinds) -> Result<AddressKinds> {
        self.ask(Request::PinAddressKinds(host.to_owned(), kinds)).await
    }

    // The outputs are part files, which are not recorded.
    async fn record_outputs_written(&self, _: OutputPosition, _: Vec<u64>) -> Result<()> {
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
    ) -> Result<ContentMatch> {
        let stored_body =
            (self.config.keep_content && fingerprint.stores_body()).then(|| self.to_store(body));
        let page = PageBody { url, content_type: fingerprint.content_type, body };
        let comparison = ExactComparison::new(self.key, &self.config.strip_query, page);
        let mut verdicts = Verdicts::default();
        loop {
            let request = Request::StoreContent(NewContent {
                url: url.to_owned(),
                fingerprint: fingerprint.to_bytes(),
                body_bytes: stored_body.as_ref().map(|body| body.bytes().len() as u64),
                is_seed,
                verdicts: verdicts.clone(),
            });
            match self.ask(request).await? {
                StoreResult::Done(content_match) => {
                    let id = self.key.url_id(url);
                    if content_match == ContentMatch::New {
                        self.shingles.update(id, comparison.into_shingles());
                        if let Some(body) = &stored_body {
                            self.store_body(id, body).await?;
                        }
                    }
                    return Ok(content_match);
                }
                StoreResult::Undecided(pages) => self.compare(&comparison, pages, &mut verdicts).await?,
            }
        }
    }

    async fn load_content(&self, url: &str) -> Result<Option<Vec<u8>>> {
        // It may wait to be stored.
        self.ask::<()>(Request::Sync).await?;
        self.shared.data.body(self.key.url_id(url)).await
    }

    async fn pending(&self) -> Result<u64> {
        Ok(self.snapshot().await?.pending())
    }

    // The frontier process ends the crawl.
    async fn exhausted_budget(&self) -> Result<Option<Budget>> {
        Ok(None)
    }

    async fn remove_worker(&self, _: WorkerId) -> Result<()> {
        self.leave().await
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        self.shared.data.snapshot().await
    }
}
