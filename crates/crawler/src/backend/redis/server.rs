//! Applies the messages of the workers to the frontier's state, and leases URLs to the workers.

use super::super::{BudgetDecision, CompleteResult, Completion, DomainTransfer, Lease, WorkerId};
use super::Result;
use super::messages::{
    LeaseRef, Message, NewContent, Position, Reply, Request, Session, WorkerMessage, decode, encode,
};
use super::storage::{RedisStorage, WorkerSession};
use crate::backend::ContentMatch;
use crate::backend::local::state::{LocalState, NewPage, StoreResult};
use crate::similarity::Fingerprint;
use crate::stats::BodyBytes;

/// How many leases a worker gets at a time, so that the workers start the best URLs together.
const LEASE_BATCH: u64 = 32;

/// The encoded result of a request that has none.
pub(super) const DONE: Vec<u8> = Vec::new();

pub(super) type FrontierState = LocalState<RedisStorage>;

/// A request that is replied to when the budget allows it.
pub(super) struct BudgetWaiter {
    pub(super) worker: WorkerId,
    pub(super) session: Session,
    pub(super) request: u64,
    pub(super) lease: Lease,
}

/// Applies a message. Adds the requests that wait for the budget to `waiters`.
pub(super) fn apply(
    state: &mut FrontierState,
    position: Position,
    message: &[u8],
    waiters: &mut Vec<BudgetWaiter>,
) -> Result<()> {
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
    state: &mut FrontierState,
    message: WorkerMessage,
    waiters: &mut Vec<BudgetWaiter>,
) -> Result<()> {
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
        let Some(request) = decode::<Request>(&request.0).filter(|_| number == last_request + 1) else {
            break;
        };
        if let Some(session) = state.storage.sessions.get_mut(&worker) {
            session.last_request = number;
        }
        match request {
            Request::WaitForBudget(lease) => match lease_of(state, lease) {
                Some(lease) => {
                    waiters.push(BudgetWaiter { worker, session, request: number, lease });
                    return_reservations(state);
                }
                None => state.storage.batch.reply(worker, session, Reply::To(number, DONE)),
            },
            request => {
                let result = apply_request(state, worker, request)?;
                state.storage.batch.reply(worker, session, Reply::To(number, result));
            }
        }
    }
    Ok(())
}

/// Asks all workers to return what is reserved for requests that cannot be sent yet: another request waits for the budget.
fn return_reservations(state: &mut FrontierState) {
    let RedisStorage { sessions, batch, .. } = &mut state.storage;
    for (worker, session) in sessions {
        if std::mem::take(&mut session.has_reservations) {
            batch.reply(*worker, session.session, Reply::ReturnReservations);
        }
    }
}

/// Updates the session of a worker with its latest message.
fn update_session(state: &mut FrontierState, message: &WorkerMessage) {
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

pub(super) fn end_session(state: &mut FrontierState, worker: WorkerId) {
    state.remove_worker(worker);
    state.storage.sessions.remove(&worker);
    state.storage.batch.replies.remove(&worker);
    state.storage.batch.read.remove(&worker);
    state.storage.batch.ended_sessions.push(worker);
}

/// The lease that a worker refers to, if it has not ended.
fn lease_of(state: &FrontierState, LeaseRef { task_id, lease_id, depth }: LeaseRef) -> Option<Lease> {
    state.active_lease(task_id, lease_id).map(|lease| Lease { depth, ..lease })
}

/// Applies a request, and returns its encoded result.
fn apply_request(state: &mut FrontierState, worker: WorkerId, request: Request) -> Result<Vec<u8>> {
    Ok(match request {
        Request::Sync | Request::WaitForBudget(_) => DONE,
        Request::Admit(urls) => encode(&state.admit(&urls)?),
        Request::Reserve(lease, read) => encode(&match lease_of(state, lease) {
            Some(lease) => state.reserve(&lease, read),
            None => BudgetDecision::LeaseLost,
        }),
        Request::Release(lease, read) => {
            lease_of(state, lease).into_iter().for_each(|lease| state.release(&lease, read));
            DONE
        }
        Request::StoreContent(content) => encode(&store_content(state, &content)?),
        Request::Complete(lease, completion) => encode(&match lease_of(state, lease) {
            Some(lease) => state.complete(Completion { lease, ..*completion })?,
            None => CompleteResult::StaleLease,
        }),
        Request::SetHostDelay(host, host_delay) => {
            state.set_host_delay(&host, host_delay)?;
            DONE
        }
        Request::PinAddressKinds(host, kinds) => encode(&state.pin_address_kinds(&host, kinds)?),
        Request::ClaimHost(host) => encode(&state.claim_host(worker, &host)),
        Request::TransferDomain(transfer) => {
            let leases = transfer.leases.iter().filter_map(|lease| lease_of(state, lease.into())).collect();
            encode(&state.transfer_domain(worker, &DomainTransfer { leases, ..transfer })?)
        }
        Request::Leave => {
            // The reply stays in its stream.
            state.remove_worker(worker);
            state.storage.sessions.remove(&worker);
            DONE
        }
    })
}

fn store_content(state: &mut FrontierState, content: &NewContent) -> Result<StoreResult> {
    let NewContent { url, fingerprint, body_bytes, is_seed, verdicts } = content;
    // A worker of the same version sends no damaged fingerprint.
    let Some(fingerprint) = Fingerprint::from_bytes(fingerprint) else {
        return Ok(StoreResult::Done(ContentMatch::New));
    };
    let (body_bytes, is_seed) = (*body_bytes, *is_seed);
    let page = NewPage { url, fingerprint: &fingerprint, body_bytes, body: None, is_seed, similarity: None };
    state.store_content(&page, verdicts)
}

/// Leases URLs to all workers that accept some, in turns.
pub(super) fn lease_to_all(state: &mut FrontierState) -> Result<()> {
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
fn lease_to(state: &mut FrontierState, worker: WorkerId, max: usize) -> Result<usize> {
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
        session.has_reservations |= matches!(reserved, BudgetDecision::Granted(_));
        let (session, number) = (session.session, session.leases_sent);
        state.storage.batch.reply(worker, session, Reply::Lease(number, lease, reserved));
    }
    Ok(count)
}
