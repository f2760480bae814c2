//! Who owns a domain. Only the owner sends requests to the domain's hosts.
//!
//! If each worker has a throttle of its own, domains move from workers that have many to workers that wait for URLs. A
//! domain changes its owner when none of its URLs is leased: the completions have returned its cooldowns.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::super::super::WorkerId;
use super::super::queue_set::QueueSet;
use super::super::storage::QueuedTask;
use super::domain_entry::DomainEntry;
use super::workers::WorkerEntry;
use super::{Timer, WaitingUrls};
use crate::domain::Domain;
use crate::log::HostEvent;

/// How long the leases of a domain that moves may take to end. No URL of the domain is leased meanwhile.
const MAX_MOVE_TIME: Duration = Duration::from_secs(5);

/// How long no domains move after one could not.
const REBALANCE_PAUSE: Duration = Duration::from_secs(30);

/// The minimum time between two searches for domains to move: each looks at all domains.
const REBALANCE_INTERVAL: Duration = Duration::from_secs(1);

/// The most domains that one search moves.
const MAX_MOVES: usize = 1_000;

impl<Q: Default> WaitingUrls<Q> {
    /// Adds a worker, unless it is there.
    pub(in super::super) fn add_worker(&mut self, worker: WorkerId) {
        self.workers.add(worker);
    }

    pub(in super::super) fn has_worker(&self, worker: WorkerId) -> bool {
        self.workers.get(worker).is_some()
    }

    /// Gives a domain to the least loaded of the workers that want URLs, and returns it.
    pub(super) fn give_owner(&mut self, domain: &Domain, worker: WorkerId) -> WorkerId {
        let candidates = self.workers.iter().filter(|(id, entry)| entry.wants_urls || *id == worker);
        let owner = candidates.map(|(id, entry)| (entry.domains, id)).min().map_or(worker, |(_, id)| id);
        self.change_owner(domain, owner);
        owner
    }

    fn change_owner(&mut self, domain: &Domain, to: WorkerId) {
        let Some(entry) = self.domains.get_mut(domain) else { return };
        let from = entry.owner.replace(to);
        entry.moving_to = None;
        if entry.is_active() {
            self.workers.count_domain(from, -1);
            self.workers.count_domain(Some(to), 1);
        }
        // The list of domains without an owner is every worker's list.
        let Some(from) = from else { return };
        self.workers.unlist(from, domain, std::mem::take(&mut entry.listed));
        self.add_event(HostEvent::Moved { domain: domain.clone(), from, to });
        self.list_domain(domain, Instant::now());
    }

    /// Takes a domain away from its owner, who has not used it for long.
    pub(super) fn remove_owner(&mut self, domain: &Domain) {
        if let Some(entry) = self.domains.get_mut(domain)
            && let Some(from) = entry.owner.take()
        {
            self.workers.unlist(from, domain, std::mem::take(&mut entry.listed));
            self.list_domain(domain, Instant::now());
        }
    }

    /// Makes a worker the owner of a domain, for requests that belong to no URL of the domain. Returns when they are
    /// allowed, or the worker that owns the domain. In both cases the domain stays with its owner: other domains are about to be
    /// transferred there.
    pub(in super::super) fn claim(&mut self, worker: WorkerId, domain: &Domain) -> Result<Instant, WorkerId> {
        if !self.domains.contains_key(domain) {
            self.add_domain(domain.clone());
        }
        let now = Instant::now();
        let Some(entry) = self.domains.get_mut(domain) else { return Ok(now) };
        let other = entry.owner.filter(|owner| *owner != worker && entry.is_owned(self.domain_ttl));
        entry.claimed = Some(now);
        if other.is_none() {
            entry.last_used = now;
        }
        let (next, owner, is_moving) = (entry.next_lease(), entry.owner, entry.moving_to.take().is_some());
        match owner == Some(worker) || other.is_some() {
            false => self.change_owner(domain, worker),
            true if is_moving => self.list_domain(domain, now),
            true => {}
        }
        other.map_or(Ok(next), Err)
    }

    /// Counts a URL as leased that an earlier process leased to a worker.
    pub(in super::super) fn restore_lease(&mut self, task: &QueuedTask, worker: WorkerId) {
        self.workers.add(worker);
        let name = self.host_of(task);
        let Some(host) = self.hosts.get_mut(&name) else { return };
        host.leased += 1;
        let domain = host.domain.clone();
        if self.domains.get(&domain).is_some_and(|entry| entry.owner != Some(worker)) {
            self.change_owner(&domain, worker);
        }
        let Some(entry) = self.domains.get_mut(&domain) else { return };
        if !entry.is_active() {
            self.workers.count_domain(entry.owner, 1);
        }
        entry.leased += 1;
        entry.last_used = Instant::now();
    }

    /// When domains are to be moved between workers, if they are.
    pub(super) fn rebalance_at(&self) -> Option<Instant> {
        if self.limits.workers_share_throttle || !self.unowned.is_empty() {
            return None;
        }
        let fewest = self.idle_workers().map(|(_, worker)| worker.domains).min()?;
        let most = self.workers.iter().map(|(_, worker)| worker.domains).max()?;
        // Where domains come and go in large numbers, a small difference passes.
        (most >= fewest + 2 + fewest / 8).then_some(self.next_rebalance)
    }

    /// The workers that wait for URLs.
    fn idle_workers(&self) -> impl Iterator<Item = (WorkerId, &WorkerEntry)> {
        self.workers.iter().filter(|(_, worker)| worker.wants_urls && worker.ready.is_empty())
    }

    /// Moves domains to workers that wait for URLs, until no worker has two more than they. Those of which no URL is
    /// leased are moved first.
    pub(super) fn rebalance(&mut self, now: Instant) {
        self.next_rebalance = now + REBALANCE_INTERVAL;
        let mut counts: HashMap<WorkerId, usize> =
            self.workers.iter().map(|(id, worker)| (id, worker.domains)).collect();
        for (from, to) in self.domains.values().filter_map(DomainEntry::pending_move) {
            let count = counts.entry(from).or_default();
            *count = count.saturating_sub(1);
            *counts.entry(to).or_default() += 1;
        }
        let mut idle: BTreeSet<(usize, WorkerId)> =
            self.idle_workers().map(|(id, _)| (counts[&id], id)).collect();
        let mut moves: Vec<(Domain, WorkerId)> = Vec::new();
        for has_leases in [false, true] {
            for (domain, entry) in &self.domains {
                let (Some(from), Some(&(fewest, to))) = (entry.owner, idle.first()) else { continue };
                let is_movable = (entry.leased > 0) == has_leases && entry.is_movable(self.domain_ttl);
                let count = counts.get(&from).copied().unwrap_or(0);
                if !is_movable || count < fewest + 2 || moves.len() >= MAX_MOVES {
                    continue;
                }
                for (id, before, after) in [(to, fewest, fewest + 1), (from, count, count - 1)] {
                    counts.insert(id, after);
                    if idle.remove(&(before, id)) {
                        idle.insert((after, id));
                    }
                }
                moves.push((domain.clone(), to));
            }
        }
        if moves.is_empty() {
            return;
        }
        self.unlist(moves.iter().map(|(domain, _)| domain).collect());
        for (domain, to) in moves {
            self.move_domain(&domain, to);
        }
    }

    /// Takes domains out of their owners' lists, all in one pass.
    fn unlist(&mut self, domains: HashSet<&Domain>) {
        for domain in &domains {
            if let Some(entry) = self.domains.get_mut(*domain) {
                entry.listed = QueueSet::default();
            }
        }
        for list in self.workers.iter_mut().flat_map(|worker| &mut worker.ready.0) {
            list.retain(|domain| !domains.contains(domain));
        }
    }

    /// Moves a domain to the only worker that can fetch from it. It stays there like a claimed domain.
    pub(in super::super) fn transfer_domain(&mut self, domain: &Domain, to: WorkerId) {
        self.move_domain(domain, to);
        if let Some(entry) = self.domains.get_mut(domain) {
            entry.claimed = Some(Instant::now());
        }
    }

    /// Moves a domain to a worker, at once or when the last of its leases has ended.
    fn move_domain(&mut self, domain: &Domain, to: WorkerId) {
        if let Some(entry) = self.domains.get_mut(domain) {
            entry.moving_to = Some(to);
            if entry.leased > 0 {
                let at = Instant::now() + MAX_MOVE_TIME;
                self.timers.push(Reverse((at, Timer::Move(domain.clone()))));
            }
            self.finish_move(domain);
        }
    }

    /// Leaves a domain with its owner if its leases have not ended in time: one slow host must not hold up the others.
    pub(super) fn cancel_move(&mut self, domain: &Domain, now: Instant) {
        if let Some(entry) = self.domains.get_mut(domain)
            && entry.moving_to.take().is_some()
        {
            entry.claimed = Some(now);
            // Other domains of the owner may have slow hosts as well.
            self.next_rebalance = now + REBALANCE_PAUSE;
            self.list_domain(domain, now);
        }
    }

    /// Gives a domain to the worker that it moves to, if none of its URLs is leased.
    pub(super) fn finish_move(&mut self, domain: &Domain) {
        if let Some(entry) = self.domains.get(domain)
            && let Some(to) = entry.moving_to
            && entry.leased == 0
        {
            self.change_owner(domain, to);
        }
    }

    /// The owner of a domain, and the number of its URLs that are leased.
    pub(in super::super) fn owner_and_leases(&self, domain: &Domain) -> Option<(WorkerId, usize)> {
        let entry = self.domains.get(domain)?;
        Some((entry.owner?, entry.leased))
    }

    /// Leases no URL of a domain for this time.
    pub(in super::super) fn cool_down_domain(&mut self, domain: &Domain, time: Duration) {
        if let Some(entry) = self.domains.get_mut(domain) {
            entry.next = entry.next.max(Instant::now() + time);
        }
    }

    /// Leases no URL of the domains that a worker has used for this time: it may have just sent a request.
    pub(in super::super) fn cool_down_domains_of(&mut self, worker: WorkerId, time: Duration) {
        let (now, ttl) = (Instant::now(), self.domain_ttl);
        for entry in self.domains.values_mut().filter(|entry| entry.owner == Some(worker)) {
            if entry.leased > 0 || entry.last_used + time > now || entry.is_claimed(ttl) {
                entry.next = entry.next.max(now + time);
            }
        }
    }

    /// Removes a worker that has no leases. Its domains have no owner any more, and none moves to it.
    pub(in super::super) fn remove_worker(&mut self, worker: WorkerId) {
        self.workers.remove(worker);
        self.to_wake.retain(|other| *other != worker);
        let mut changed = Vec::new();
        for (domain, entry) in &mut self.domains {
            let (is_owner, is_target) = (entry.owner == Some(worker), entry.moving_to == Some(worker));
            if is_owner {
                (entry.owner, entry.listed) = (None, QueueSet::default());
            }
            if is_owner || is_target {
                entry.moving_to = None;
                changed.push(domain.clone());
            }
        }
        for domain in changed {
            self.list_domain(&domain, Instant::now());
        }
    }

    /// Remembers the delay between requests to a host while URLs of it are waiting or leased.
    pub(in super::super) fn set_delay(&mut self, host: &str, delay: Duration) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.delay = delay;
        }
    }

    /// The delay between requests to a host, as far as it is remembered.
    pub(in super::super) fn delay(&self, host: &str) -> Duration {
        self.hosts.get(host).map_or(Duration::ZERO, |host| host.delay)
    }
}
