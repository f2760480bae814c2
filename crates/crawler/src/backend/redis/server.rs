//! The frontier process of a distributed crawl: applies the messages of the workers to the frontier's state, leases URLs to
//! them, and replies when the changes are on Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::super::{
    Backend, BackendError, BudgetDecision, CompleteResult, ContentMatch, DomainTransfer, Lease, WorkerId,
};
use super::connection::Connection;
use super::keys::CrawlKeys;
use super::messages::{
    Answer, BorderPage, LeaseRef, Message, NewContent, Position, Reply, Request, Session, TransferredDomain,
    WorkerMessage, decode,
};
use super::storage::{RedisStorage, WorkerSession};
use super::stream::read_stream;
use crate::backend::local::LocalBackend;
use crate::backend::local::state::{BorderCase, LocalState, NewPage, StoreResult};
use crate::domain::Domain;
use crate::fetch::http::AddressKinds;
use crate::similarity::{ContentType, Fingerprint, Verdicts};
use crate::stats::BodyBytes;

/// How long the frontier waits for something to do.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// How many messages are read at a time.
const MAX_MESSAGES: usize = 64;

/// How many leases a worker gets at a time, so that the workers start the best URLs together.
const LEASE_BATCH: u64 = 32;

type State = LocalState<RedisStorage>;

/// The frontier's state, and the workers that use it.
pub(super) struct FrontierServer {
    pub(super) backend: Arc<LocalBackend<RedisStorage>>,
    keys: CrawlKeys,
    /// The crawl is about to end, so no URL is leased.
    is_ending: AtomicBool,
}

/// A request that is replied to when the budget allows it.
struct BudgetWaiter {
    worker: WorkerId,
    session: Session,
    request: u64,
    lease: Lease,
}

impl FrontierServer {
    pub(super) fn new(backend: Arc<LocalBackend<RedisStorage>>, keys: CrawlKeys) -> FrontierServer {
        FrontierServer { backend, keys, is_ending: AtomicBool::new(false) }
    }

    pub(super) fn set_leasing(&self, is_leasing: bool) {
        self.is_ending.store(!is_leasing, Ordering::Relaxed);
    }

    /// Whether URLs are leased. At the end of a budget there is no use in it.
    fn is_leasing(&self, state: &State) -> bool {
        !self.is_ending.load(Ordering::Relaxed) && state.budgets.exhausted().is_none()
    }

    /// Serves the workers until an error. `reading` is a connection for reads that wait.
    pub(super) async fn run(
        self: Arc<Self>,
        reading: Connection,
        applied: Position,
    ) -> Result<(), BackendError> {
        let (sender, mut messages) = mpsc::channel(1);
        let reader = read_messages(reading, self.keys.messages(), applied, sender);
        let serve = async {
            loop {
                let timer = self.lease()?;
                tokio::select! {
                    biased;
                    read = messages.recv() => match read {
                        Some(read) => self.apply(read).await?,
                        None => return Ok(()),
                    },
                    () = self.backend.leasable() => {}
                    () = sleep_until(timer) => {}
                }
            }
        };
        tokio::select! {
            served = serve => served,
            failed = reader => failed,
        }
    }

    /// Leases URLs to the workers that accept some. Returns when to try again.
    fn lease(&self) -> Result<Instant, BackendError> {
        let (next_timer, _) = self.backend.apply(|state| {
            state.run_timers();
            if self.is_leasing(state) {
                lease_to_all(state)?;
            }
            Ok(state.next_timer())
        })?;
        Ok(next_timer.unwrap_or_else(|| Instant::now() + MAX_WAIT))
    }

    /// Applies messages, and leases what they allow. Waits for the committer where a batch would become too large.
    async fn apply(self: &Arc<Self>, messages: Vec<(Position, Vec<u8>)>) -> Result<(), BackendError> {
        let mut messages = messages.into_iter();
        while !messages.as_slice().is_empty() {
            self.until_batch_has_room().await;
            let (waiters, _) = self.backend.apply(|state| {
                let mut waiters = Vec::new();
                while state.storage.batch.has_room()
                    && let Some((position, message)) = messages.next()
                {
                    apply_one(state, position, &message, &mut waiters)?;
                }
                if self.is_leasing(state) {
                    lease_to_all(state)?;
                }
                Ok(waiters)
            })?;
            for waiter in waiters {
                tokio::spawn(Arc::clone(self).wait_for_budget(waiter));
            }
        }
        Ok(())
    }

    async fn until_batch_has_room(&self) {
        let mut committed = self.backend.inspect(|state| state.storage.committed.subscribe());
        while !self.backend.inspect(|state| state.storage.batch.has_room()) {
            if committed.changed().await.is_err() {
                return;
            }
        }
    }

    async fn wait_for_budget(self: Arc<Self>, waiter: BudgetWaiter) {
        let BudgetWaiter { worker, session, request, lease } = waiter;
        // If the storage fails, so does the next batch, and with it the frontier.
        let _ = self.backend.wait_for_budget(&lease).await;
        let _ = self.backend.apply(|state| {
            if state.storage.sessions.get(&worker).is_some_and(|current| current.session == session) {
                state.storage.batch.reply(worker, session, Reply::To(request, Answer::Done));
            }
            Ok(())
        });
    }

    /// Ends the session of a worker that is dead, and requeues its URLs.
    pub(super) fn remove_worker(&self, worker: WorkerId) -> Result<(), BackendError> {
        self.backend.apply(|state| {
            end_session(state, worker);
            Ok(())
        })?;
        Ok(())
    }
}

/// Reads the workers' messages from a position on, until an error.
async fn read_messages(
    connection: Connection,
    stream: String,
    mut position: Position,
    messages: mpsc::Sender<Vec<(Position, Vec<u8>)>>,
) -> Result<(), BackendError> {
    loop {
        let read = read_stream(&connection, &stream, position, MAX_MESSAGES).await?;
        let Some((last, _)) = read.last() else { continue };
        position = *last;
        if messages.send(read).await.is_err() {
            return Ok(());
        }
    }
}

fn apply_one(
    state: &mut State,
    position: Position,
    message: &[u8],
    waiters: &mut Vec<BudgetWaiter>,
) -> Result<(), BackendError> {
    match decode::<Message>(message) {
        Some(Message::Seeds(reply, seeds)) => {
            let counts = state.admit(&seeds)?;
            state.storage.batch.admitted_seeds.push((reply, counts));
        }
        Some(Message::Worker(message)) => apply_message(state, message, waiters)?,
        // A process of another version. It gets no reply.
        None => {}
    }
    state.storage.batch.applied = Some(position);
    state.storage.applied = position;
    Ok(())
}

fn apply_message(
    state: &mut State,
    message: WorkerMessage,
    waiters: &mut Vec<BudgetWaiter>,
) -> Result<(), BackendError> {
    let WorkerMessage { worker, session, .. } = message;
    let current = state.storage.sessions.get(&worker);
    match current {
        // An earlier process, whose leases have ended.
        Some(current) if session < current.session => return Ok(()),
        Some(current) if session == current.session && current.covers(&message) => {}
        // The frontier wrote more about this session than Redis has now.
        _ if !WorkerSession::new(session).covers(&message) => {
            end_session(state, worker);
            state.storage.batch.reply(worker, session, Reply::Restart);
            return Ok(());
        }
        current => {
            if current.is_some() {
                end_session(state, worker);
            }
            state.add_worker(worker);
            state.storage.sessions.insert(worker, WorkerSession::new(session));
        }
    }
    update_session(state, &message);
    if state.storage.sessions.get(&worker).is_some_and(|session| session.room() == 0) {
        state.accept_no_urls(worker);
    }
    for (number, request) in (message.first_request..).zip(&message.requests) {
        let last_request = state.storage.sessions.get(&worker).map_or(0, |session| session.last_request);
        if number <= last_request {
            continue;
        }
        let Some(request) = decode::<Request>(request).filter(|_| number == last_request + 1) else { break };
        if let Some(session) = state.storage.sessions.get_mut(&worker) {
            session.last_request = number;
        }
        match request {
            Request::WaitForBudget(lease) => match lease_of(state, lease) {
                Some(lease) => waiters.push(BudgetWaiter { worker, session, request: number, lease }),
                None => state.storage.batch.reply(worker, session, Reply::To(number, Answer::Done)),
            },
            request => {
                let answer = apply_request(state, worker, request)?;
                state.storage.batch.reply(worker, session, Reply::To(number, answer));
            }
        }
    }
    Ok(())
}

/// Updates the session of a worker with its latest message.
fn update_session(state: &mut State, message: &WorkerMessage) {
    let Some(session) = state.storage.sessions.get_mut(&message.worker) else { return };
    if message.number <= session.number {
        return;
    }
    session.number = message.number;
    session.max_leases = message.max_leases;
    let sent = message.http_requests.saturating_sub(session.http_requests);
    session.http_requests = message.http_requests;
    state.counters.requests.add(sent);
    if message.read > session.read {
        session.read = message.read;
        state.storage.batch.read.insert(message.worker, message.read);
    }
}

fn end_session(state: &mut State, worker: WorkerId) {
    state.remove_worker(worker);
    state.storage.sessions.remove(&worker);
    state.storage.batch.replies.remove(&worker);
    state.storage.batch.read.remove(&worker);
    state.storage.batch.ended_sessions.push(worker);
}

/// The lease that a worker refers to, if it has not ended.
fn lease_of(state: &State, LeaseRef { task_id, lease_id, depth }: LeaseRef) -> Option<Lease> {
    state.active_lease(task_id, lease_id).map(|lease| Lease { depth, ..lease })
}

fn apply_request(state: &mut State, worker: WorkerId, request: Request) -> Result<Answer, BackendError> {
    Ok(match request {
        Request::Sync | Request::WaitForBudget(_) => Answer::Done,
        Request::Admit(urls) => Answer::Admitted(state.admit(&urls)?),
        Request::Reserve(lease, read) => Answer::Budget(match lease_of(state, lease) {
            Some(lease) => state.reserve(&lease, read),
            None => BudgetDecision::LeaseLost,
        }),
        Request::Release(lease, read) => {
            if let Some(lease) = lease_of(state, lease) {
                state.release(&lease, read);
            }
            Answer::Done
        }
        Request::StoreContent(content) => store_content(state, content)?,
        Request::Complete(completed) => Answer::Completed(match lease_of(state, completed.lease) {
            Some(lease) => state.complete(completed.into_completion(lease))?,
            None => CompleteResult::StaleLease,
        }),
        Request::SetHostDelay(host, host_delay) => {
            state.set_host_delay(&host, host_delay)?;
            Answer::Done
        }
        Request::PinAddressKinds(host, kinds) => {
            Answer::AddressKinds(state.pin_address_kinds(&host, AddressKinds::from_bits(kinds))?.bits())
        }
        Request::ClaimHost(host) => Answer::Claim(state.claim_host(worker, &host)),
        Request::TransferDomain(TransferredDomain { domain, to, leases, cooldowns }) => {
            let leases = leases.into_iter().filter_map(|lease| lease_of(state, lease)).collect();
            let transfer = DomainTransfer { domain: Domain::named(&domain), to, leases, cooldowns };
            Answer::Transferred(state.transfer_domain(worker, &transfer)?)
        }
        Request::Leave => {
            // The reply stays in its stream.
            state.remove_worker(worker);
            state.storage.sessions.remove(&worker);
            Answer::Done
        }
    })
}

fn store_content(state: &mut State, content: NewContent) -> Result<Answer, BackendError> {
    let NewContent { url, fingerprint, body_bytes, is_seed, verdicts: compared } = content;
    // A worker of the same version sends no damaged fingerprint.
    let Some(fingerprint) = Fingerprint::from_bytes(&fingerprint) else {
        return Ok(Answer::Content(ContentMatch::New));
    };
    let mut verdicts = Verdicts::default();
    compared.into_iter().for_each(|(id, is_near_duplicate)| verdicts.add(id, is_near_duplicate));
    let page = NewPage { url: &url, fingerprint: &fingerprint, body_bytes, body: None, is_seed };
    Ok(match state.store_content(&page, &verdicts)? {
        StoreResult::Done(content_match) => Answer::Content(content_match),
        StoreResult::Undecided(pages) => {
            let border_page = |page: BorderCase| BorderPage {
                id: page.page.url,
                url: page.url,
                content_type: page.content_type.map_or_else(Vec::new, ContentType::to_bytes),
                is_similar: page.page.is_similar,
            };
            Answer::Undecided(pages.into_iter().map(border_page).collect())
        }
    })
}

/// Leases URLs to all workers that accept some, in turns.
fn lease_to_all(state: &mut State) -> Result<(), BackendError> {
    loop {
        let sessions = state.storage.sessions.iter().map(|(worker, session)| (*worker, session.room()));
        let accepting: Vec<(WorkerId, u64)> = sessions.filter(|(_, room)| *room > 0).collect();
        let mut leased = 0;
        for (worker, room) in accepting {
            leased += lease_to(state, worker, room.min(LEASE_BATCH) as usize)?;
        }
        if leased == 0 {
            return Ok(());
        }
    }
}

/// Leases up to `max` URLs to a worker, and returns how many.
fn lease_to(state: &mut State, worker: WorkerId, max: usize) -> Result<usize, BackendError> {
    let leases = state.lease(worker, max)?;
    let count = leases.len();
    for lease in leases {
        // The first request of a lease need not ask the frontier, unless little is left of a budget.
        let reserved = match lease.no_request.is_none() && state.budgets.is_ample() {
            true => state.reserve(&lease, BodyBytes::default()),
            false => BudgetDecision::RetryLater,
        };
        let Some(session) = state.storage.sessions.get_mut(&worker) else { continue };
        session.leases_sent += 1;
        let (session, number) = (session.session, session.leases_sent);
        state.storage.batch.reply(worker, session, Reply::Lease(number, lease, reserved));
    }
    Ok(count)
}
