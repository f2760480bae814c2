//! A domain that has waiting URLs, or an owner: who owns it, and which of its hosts are ready for a request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::super::WorkerId;
use super::super::queue_set::QueueSet;

/// A domain with fewer waiting URLs is not moved to another worker: that costs another request for robots.txt, and new
/// connections.
const MIN_MOVED_URLS: usize = 8;

/// What a lease has changed: when the next URL of its domain can be leased.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Turn {
    pub(super) previous: Instant,
    pub(super) next: Instant,
}

/// How a lease ended, as far as the delay between requests to its domain depends on it.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct EndedLease {
    /// No request was sent for the URL because it is blocked.
    pub(in super::super) was_blocked: bool,
    /// What the lease has delayed in vain, if no request was sent for another reason.
    pub(in super::super) unused_turn: Option<Turn>,
    /// How long no request to the site may start, by the throttle of its worker.
    pub(in super::super) site_cooldown: Duration,
}

/// A domain.
pub(super) struct DomainEntry {
    pub(super) owner: Option<WorkerId>,
    /// The worker that owns it when its last lease has ended. None of its URLs is leased until then.
    pub(super) moving_to: Option<WorkerId>,
    pub(super) last_used: Instant,
    /// When a worker last wanted to send requests that belong to no URL of the domain. The owner is allowed to.
    pub(super) claimed: Option<Instant>,
    pub(super) waiting: usize,
    pub(super) leased: usize,
    /// Those of the leased URLs for which no request is sent because they are blocked.
    pub(super) skipped: usize,
    /// No URL is leased before: until then, a request may come too early.
    pub(super) next: Instant,
    /// The same, because of the last lease: unless it ends without a request, one is sent for it.
    pub(super) after_last_lease: Instant,
    pub(super) has_timer: bool,
    /// Hosts that are ready for a request, by the queue of the URLs that they have.
    pub(super) ready: Vec<(u8, VecDeque<Arc<str>>)>,
    /// The queues in which the domain is in its owner's list.
    pub(super) listed: QueueSet,
}

impl DomainEntry {
    pub(super) fn new(now: Instant) -> DomainEntry {
        DomainEntry {
            owner: None,
            moving_to: None,
            last_used: now,
            claimed: None,
            waiting: 0,
            leased: 0,
            skipped: 0,
            next: now,
            after_last_lease: now,
            has_timer: false,
            ready: Vec::new(),
            listed: QueueSet::default(),
        }
    }

    /// When the next URL can be leased: the delay between requests to the domain.
    pub(super) fn next_lease(&self) -> Instant {
        self.next.max(self.after_last_lease)
    }

    /// Takes back that a lease has delayed the next one: no request was sent for it. Later leases keep their delay.
    pub(super) fn return_turn(&mut self, turn: Turn) {
        if self.after_last_lease == turn.next {
            self.after_last_lease = turn.previous;
        }
    }

    /// Whether as many of its URLs are leased to be requested as may be.
    pub(super) fn is_full(&self, max_leases: usize) -> bool {
        self.leased - self.skipped >= max_leases
    }

    pub(super) fn is_active(&self) -> bool {
        self.waiting + self.leased > 0
    }

    /// Ownership expires some time after the last use, but not while the owner has URLs of the domain.
    pub(super) fn is_owned(&self, ttl: Duration) -> bool {
        self.owner.is_some() && (self.is_active() || self.last_used.elapsed() < ttl)
    }

    /// Whether the owner may still send requests that belong to no URL of the domain.
    pub(super) fn is_claimed(&self, ttl: Duration) -> bool {
        self.claimed.is_some_and(|claimed| claimed.elapsed() < ttl)
    }

    /// Whether the domain can move to another worker, and has URLs for it.
    pub(super) fn is_movable(&self, ttl: Duration) -> bool {
        self.waiting >= MIN_MOVED_URLS && self.moving_to.is_none() && !self.is_claimed(ttl)
    }

    /// The worker that an active domain moves from, and the one that it moves to.
    pub(super) fn pending_move(&self) -> Option<(WorkerId, WorkerId)> {
        self.owner.zip(self.moving_to).filter(|_| self.is_active())
    }

    pub(super) fn ready(&mut self, queue: u8) -> &mut VecDeque<Arc<str>> {
        let index = match self.ready.iter().position(|(number, _)| *number == queue) {
            Some(index) => index,
            None => {
                self.ready.push((queue, VecDeque::new()));
                self.ready.len() - 1
            }
        };
        &mut self.ready[index].1
    }

    pub(super) fn has_ready(&self, queue: u8) -> bool {
        self.ready.iter().any(|(number, hosts)| *number == queue && !hosts.is_empty())
    }
}
