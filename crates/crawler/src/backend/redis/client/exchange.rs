//! What a worker and the frontier have sent each other: gives requests their numbers, and matches replies with them.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::super::{BackendError, BudgetDecision, Lease, TaskId, WorkerId};
use super::super::connection::Call;
use super::super::messages::{
    Encoded, FrontierMessage, LeaseRef, Message, Position, Reply, Request, Session, USUAL_BYTES,
    WorkerMessage, encode, encode_onto,
};
use super::sent_links::SentLinks;
use crate::stats::BodyBytes;

/// How many requests are sent in one message.
const MAX_REQUESTS: usize = 256;

/// How many bytes of requests are sent in one message, unless a single request is larger.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// How many bytes of page bodies wait to be stored, unless a single one is larger.
const MAX_BODY_BYTES: usize = 4 << 20;

/// What the worker has sent and received.
pub(super) struct MessageExchange {
    pub(super) session: Session,
    /// The number of the last message.
    pub(super) number: u64,
    /// The number of the last request.
    pub(super) last_request: u64,
    /// How many leases the worker has got and not completed, about.
    pub(super) open_leases: usize,
    /// The requests without a reply.
    pub(super) pending: BTreeMap<u64, Pending>,
    /// The first request that is to be sent. All later ones are, too.
    pub(super) first_unsent: u64,
    /// HTTP requests that the worker has sent in earlier sessions.
    pub(super) earlier_requests: u64,
    /// How many leases the worker accepts, counted from the start of the session.
    max_leases: u64,
    /// The number that the frontier knows.
    sent_max_leases: u64,
    /// Whether the next message is sent even if it has no requests.
    pub(super) is_message_due: bool,
    pub(super) leases_received: u64,
    pub(super) leases: VecDeque<Lease>,
    /// What the frontier has reserved for first requests.
    pub(super) reserved: HashMap<TaskId, (u64, BudgetDecision)>,
    pub(super) read: Position,
    pub(super) sent_links: SentLinks,
    /// Page bodies to store before the next message, which may complete their pages.
    pub(super) bodies: Vec<Call>,
    /// The bytes of page bodies that are not stored yet.
    pub(super) body_bytes: usize,
    pub(super) failure: Option<BackendError>,
    /// When the frontier last replied, or there was nothing to reply to.
    pub(super) last_reply: Instant,
}

pub(super) struct Pending {
    pub(super) request: Vec<u8>,
    pub(super) reply: oneshot::Sender<Vec<u8>>,
}

impl MessageExchange {
    pub(super) fn new(session: Session) -> MessageExchange {
        MessageExchange {
            session,
            number: 0,
            last_request: 0,
            open_leases: 0,
            pending: BTreeMap::new(),
            first_unsent: 1,
            earlier_requests: 0,
            max_leases: 0,
            sent_max_leases: 0,
            is_message_due: true,
            leases_received: 0,
            leases: VecDeque::new(),
            reserved: HashMap::new(),
            read: Position::default(),
            sent_links: SentLinks::default(),
            bodies: Vec::new(),
            body_bytes: 0,
            failure: None,
            last_reply: Instant::now(),
        }
    }

    /// The next message, if there is anything to send.
    pub(super) fn next_message(&mut self, worker: WorkerId, http_requests: u64) -> Option<Vec<u8>> {
        let unsent = self.pending.range(self.first_unsent..);
        let (mut requests, mut bytes, mut last) = (Vec::new(), 0, None);
        for (number, pending) in unsent {
            // Numbers are consecutive within a message. A gap is a request that has its reply.
            let is_next = last.is_none_or(|last| last + 1 == *number);
            if !is_next || requests.len() >= MAX_REQUESTS || bytes >= MAX_MESSAGE_BYTES {
                break;
            }
            bytes += pending.request.len();
            requests.push(Encoded((&pending.request[..]).into()));
            last = Some(*number);
        }
        if requests.is_empty() && !self.is_message_due {
            return None;
        }
        self.number += 1;
        let first_request = match last {
            Some(last) => last + 1 - requests.len() as u64,
            None => self.last_request + 1,
        };
        let message = Message::Worker(WorkerMessage {
            worker,
            session: self.session,
            number: self.number,
            read: self.read,
            leases_received: self.leases_received,
            max_leases: self.max_leases,
            http_requests: http_requests.saturating_sub(self.earlier_requests),
            first_request,
            requests,
        });
        let message = encode_onto(Vec::with_capacity(bytes + USUAL_BYTES), &message);
        if let Some(last) = last {
            self.first_unsent = last + 1;
        }
        (self.sent_max_leases, self.is_message_due) = (self.max_leases, false);
        Some(message)
    }

    /// Whether another page body may wait to be stored.
    pub(super) fn has_room_for_body(&self) -> bool {
        self.body_bytes < MAX_BODY_BYTES
    }

    /// The worker accepts this many more leases. The frontier learns it with the next request, or with a message of its own
    /// when it knows of less than half of them. Returns whether that message is due.
    pub(super) fn accept_leases(&mut self, more: usize) -> bool {
        let more = more as u64;
        self.max_leases = self.leases_received.saturating_add(more);
        let known = self.sent_max_leases.saturating_sub(self.leases_received);
        self.is_message_due |= known < more.div_ceil(2);
        self.is_message_due
    }

    /// Whether requests come one by one: the worker has no more than one URL.
    pub(super) fn has_single_requests(&self) -> bool {
        self.open_leases <= 1 && !self.is_unanswered()
    }

    fn is_unanswered(&self) -> bool {
        self.pending.first_key_value().is_some_and(|(number, _)| *number < self.first_unsent)
    }

    /// Whether the next message is better sent later: the frontier has not replied to all requests that were sent, or there are only page
    /// bodies, whose pages are about to complete.
    pub(super) fn is_gathering(&self) -> bool {
        let has_message = self.is_message_due || self.pending.range(self.first_unsent..).next().is_some();
        self.failure.is_none() && (self.is_unanswered() || !has_message)
    }

    /// Whether an operation waits for a reply.
    pub(super) fn is_waiting(&self) -> bool {
        self.pending.values().any(|pending| !pending.reply.is_closed())
    }

    /// Sends everything again that has no reply.
    pub(super) fn send_again(&mut self) {
        self.first_unsent = 1;
        self.is_message_due = true;
    }

    /// Starts a new session: the leases of the old one have ended, and its requests get new numbers.
    pub(super) fn restart(&mut self, http_requests: u64) {
        let session = Session { restarts: self.session.restarts + 1, ..self.session };
        let pending = std::mem::take(&mut self.pending);
        let failure = self.failure.take();
        let (read, earlier_requests) = (self.read, http_requests);
        let (bodies, body_bytes) = (std::mem::take(&mut self.bodies), self.body_bytes);
        *self = MessageExchange {
            failure,
            read,
            earlier_requests,
            bodies,
            body_bytes,
            ..MessageExchange::new(session)
        };
        for pending in pending.into_values() {
            self.last_request += 1;
            self.pending.insert(self.last_request, pending);
        }
    }

    /// Adds a request, and returns how its result arrives.
    pub(super) fn start(&mut self, request: &Request) -> oneshot::Receiver<Vec<u8>> {
        let (reply, replied) = oneshot::channel();
        if !self.is_waiting() {
            self.last_reply = Instant::now();
        }
        self.last_request += 1;
        self.pending.insert(self.last_request, Pending { request: encode(request), reply });
        replied
    }

    /// Returns what is reserved for requests that are not sent yet. They reserve again before they are sent.
    fn return_reservations(&mut self) {
        for (task_id, (lease_id, _)) in std::mem::take(&mut self.reserved) {
            let lease = LeaseRef { task_id, lease_id, depth: 0 };
            // The result says nothing.
            drop(self.start(&Request::Release(lease, BodyBytes::default())));
            self.is_message_due = true;
        }
    }

    pub(super) fn apply(&mut self, message: FrontierMessage, http_requests: u64) {
        // No task waits any more for those that an earlier frontier did not reply to.
        let first_unsent = self.first_unsent;
        self.pending.retain(|number, pending| *number >= first_unsent || !pending.reply.is_closed());
        for reply in message.replies {
            if message.session != self.session {
                return;
            }
            match reply {
                Reply::To(number, result) => {
                    self.last_reply = Instant::now();
                    if let Some(pending) = self.pending.remove(&number) {
                        // The caller may have stopped waiting.
                        let _ = pending.reply.send(result);
                    }
                }
                Reply::Lease(number, lease, reserved) => {
                    // One that was read before.
                    if number != self.leases_received + 1 {
                        continue;
                    }
                    self.leases_received = number;
                    self.open_leases += 1;
                    if matches!(reserved, BudgetDecision::Granted(_)) {
                        self.reserved.insert(lease.task_id, (lease.lease_id, reserved));
                    }
                    self.leases.push_back(lease);
                }
                Reply::ReturnReservations => self.return_reservations(),
                Reply::Restart => self.restart(http_requests),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_wait_for_others_only_while_earlier_ones_have_no_reply() {
        let session = Session { joined_at: 1, restarts: 0, random: 0 };
        let mut exchange = MessageExchange::new(session);
        drop(exchange.next_message(WorkerId(0), 0));
        let _first = exchange.start(&Request::Sync);
        assert!(!exchange.is_gathering(), "the first one is sent at once");
        drop(exchange.next_message(WorkerId(0), 0));
        let (_second, _third) = (exchange.start(&Request::Sync), exchange.start(&Request::Sync));
        assert!(exchange.is_gathering() && !exchange.has_single_requests());
        let replies = vec![Reply::To(1, Vec::new())];
        exchange.apply(FrontierMessage { session, replies }, 0);
        assert!(!exchange.is_gathering() && exchange.has_single_requests());
        drop(exchange.next_message(WorkerId(0), 0));
        let replies = vec![Reply::To(2, Vec::new()), Reply::To(3, Vec::new())];
        exchange.apply(FrontierMessage { session, replies }, 0);
        exchange.open_leases = 2;
        assert!(!exchange.has_single_requests(), "more than one may come");
        assert!(exchange.is_gathering(), "a page body alone waits for the completion of its page");
    }

    #[tokio::test]
    async fn limit_of_leases_has_a_message_of_its_own_only_if_the_frontier_knows_of_less_than_half() {
        let session = Session { joined_at: 1, restarts: 0, random: 0 };
        let mut exchange = MessageExchange::new(session);
        exchange.accept_leases(10);
        assert!(exchange.next_message(WorkerId(0), 0).is_some(), "the first message starts the session");
        for received in 1..=5 {
            exchange.leases_received = received;
            assert!(!exchange.accept_leases(10), "{received} received");
            assert!(exchange.next_message(WorkerId(0), 0).is_none());
        }
        exchange.leases_received = 6;
        assert!(exchange.accept_leases(10));
        assert!(exchange.next_message(WorkerId(0), 0).is_some());
        assert!(!exchange.accept_leases(10));
    }
}
