//! The URLs that have a priority and wait for a worker, and the router: the decision which of them a worker gets next.
//!
//! A URL waits in the queue of its host and priority until its host is ready for a request. A priority queue is the list of the
//! domains that have such URLs: a draw chooses the queue, the domains of a queue take turns, and so do the hosts of a
//! domain. So a URL is bound to a worker as late as possible, and a host that is not ready delays no other.
//!
//! Requisites have no priority. They have a queue of their own, after the priority queues. So have the hosts that are blocked.

mod blocked;
mod domain_entry;
mod host;
mod most_waiting;
mod ownership;
mod workers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::domain_entry::DomainEntry;
pub(super) use self::domain_entry::{EndedLease, Turn};
use self::host::HostUrls;
use self::most_waiting::FoundHosts;
use self::workers::{ReadyDomains, Workers};
use super::super::{BackendError, NoRequest, WorkerId};
use super::HostLimits;
use super::host_cooldowns::HostCooldowns;
use super::host_health::HostHealth;
use super::storage::{QueuedTask, Storage};
use crate::domain::Domain;
use crate::keyed_map::KeyedMap;
use crate::log::HostEvent;
use crate::origin::throttle_key;
use crate::prioritizer::{PriorityQueues, Random, draw};
use crate::scope::Blocked;
use crate::task_kind::shown_url;

/// While URLs of this many hosts wait, no further URLs get a priority: each host takes some hundred bytes of memory.
const MAX_HOSTS: usize = 100_000;

/// Entries that are no longer needed are removed when there are this many, and again when there are twice as many as
/// remained.
const SWEEP_AT: usize = 10_000;

/// A URL is leased this long before its host's cooldown ends, so that the worker has it in time.
const LEASE_AHEAD: Duration = Duration::from_millis(5);

/// If sites have a delay, at most this many URLs of a site are leased. Most requests take less than this many delays.
const MAX_SITE_LEASES: usize = 64;

/// At most this many events are logged at a time.
const MAX_EVENTS: usize = 1_000;

/// `Q` is the storage's queue of URLs.
pub(super) struct WaitingUrls<Q> {
    limits: HostLimits,
    /// What was blocked while the crawl ran.
    blocked: Option<Arc<Blocked>>,
    /// How long a worker owns a domain after its last use.
    domain_ttl: Duration,
    queues: PriorityQueues,
    random: Random,
    hosts: KeyedMap<Arc<str>, HostUrls<Q>>,
    domains: KeyedMap<Domain, DomainEntry>,
    /// Domains without an owner that have a URL to lease.
    unowned: ReadyDomains,
    workers: Workers,
    /// Hosts and domains by the time at which they are ready again.
    timers: BinaryHeap<Reverse<(Instant, Timer)>>,
    /// The number of waiting URLs by priority queue, and of requisites.
    lengths: Vec<usize>,
    /// Hosts with waiting URLs.
    waiting_hosts: usize,
    sweep_hosts_at: usize,
    sweep_domains_at: usize,
    /// Whether the next URL is taken from a domain that has an owner, if there is one.
    prefers_owned: bool,
    /// Workers that wait for a URL, and for which there is one.
    to_wake: Vec<WorkerId>,
    /// Not before, domains are moved between workers.
    next_rebalance: Instant,
    /// The hosts of which the most URLs wait.
    found: FoundHosts,
    /// What is to be logged.
    events: Vec<HostEvent>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Host(Arc<str>),
    Domain(Domain),
    /// A domain does not move any more, if it still has leases.
    Move(Domain),
}

/// A URL on its way to a worker.
pub(super) struct NextUrl {
    pub(super) task: QueuedTask,
    /// The remaining cooldown of the domain, if workers do not share a throttle.
    pub(super) site_cooldown: Duration,
    /// Why no request is sent for it, if none is.
    pub(super) no_request: Option<NoRequest>,
    /// How long the lease delays the next one of its site, if a request is sent.
    pub(super) turn: Option<Turn>,
}

impl<Q: Default> WaitingUrls<Q> {
    pub(super) fn new(
        limits: HostLimits,
        domain_ttl: Duration,
        queues: PriorityQueues,
        workers: u16,
        random: Random,
    ) -> WaitingUrls<Q> {
        WaitingUrls {
            limits,
            blocked: None,
            domain_ttl,
            queues,
            random,
            hosts: KeyedMap::default(),
            domains: KeyedMap::default(),
            unowned: ReadyDomains::new(queues),
            workers: Workers::new(queues, workers),
            timers: BinaryHeap::new(),
            lengths: vec![0; queues.count() + 1],
            waiting_hosts: 0,
            sweep_hosts_at: SWEEP_AT,
            sweep_domains_at: SWEEP_AT,
            prefers_owned: false,
            to_wake: Vec::new(),
            next_rebalance: Instant::now(),
            found: FoundHosts::default(),
            events: Vec::new(),
        }
    }

    /// The number of waiting URLs by priority queue.
    pub(super) fn lengths(&self) -> &[usize] {
        &self.lengths[..self.queues.count()]
    }

    /// The number of waiting requisites.
    pub(super) fn requisites(&self) -> usize {
        self.lengths[self.queues.count()]
    }

    /// Whether no further URLs should get a priority for now.
    pub(super) fn is_full(&self) -> bool {
        self.waiting_hosts >= MAX_HOSTS
    }

    /// The number of a worker's domains that have waiting or leased URLs.
    pub(super) fn domains_of(&self, worker: WorkerId) -> usize {
        self.workers.get(worker).map_or(0, |worker| worker.domains)
    }

    /// The number of domains that have an owner.
    pub(super) fn owned_domains(&self) -> usize {
        self.domains.values().filter(|entry| entry.is_owned(self.domain_ttl)).count()
    }

    /// The number of hosts with waiting or leased URLs.
    pub(super) fn active_hosts(&self) -> usize {
        self.hosts.values().filter(|host| host.has_urls() || host.leased > 0).count()
    }

    /// The workers that wait for a URL, and for which there is one since the last call.
    pub(super) fn take_workers_to_wake(&mut self) -> Vec<WorkerId> {
        std::mem::take(&mut self.to_wake)
    }

    /// Adds an event to those that are logged after the lock of the state is released.
    pub(super) fn add_event(&mut self, event: HostEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(event);
        }
    }

    /// The events since the last call.
    pub(super) fn take_events(&mut self) -> Vec<HostEvent> {
        std::mem::take(&mut self.events)
    }

    /// When the next host or domain is ready again.
    fn first_timer(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    #[cfg(test)]
    pub(super) fn timers(&self) -> usize {
        self.timers.len()
    }

    /// When the [timers](WaitingUrls::run_timers) are to be run.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.first_timer().into_iter().chain(self.rebalance_at()).min()
    }

    /// Adds a URL that got its priority.
    pub(super) fn push(
        &mut self,
        task: QueuedTask,
        cooldowns: &HostCooldowns,
        storage: &mut impl Storage<Parked = Q>,
    ) {
        let (name, queue) = (self.add(&task), task.queue);
        let Some(host) = self.hosts.get_mut(&name) else { return };
        host.push(task, storage);
        // Only the first URL of a queue changes what can be leased.
        if !host.listed.contains(queue) {
            self.offer(&name, cooldowns);
        }
    }

    /// Adds a URL whose lease ended without a result. It is leased before the other URLs of its host.
    pub(super) fn requeue(&mut self, task: QueuedTask, lease_id: u64, cooldowns: &HostCooldowns) {
        let name = self.add(&task);
        if let Some(host) = self.hosts.get_mut(&name) {
            host.put_back(task, lease_id);
        }
        self.offer(&name, cooldowns);
    }

    /// Counts a URL as waiting, and returns its host.
    fn add(&mut self, task: &QueuedTask) -> Arc<str> {
        self.lengths[usize::from(task.queue)] += 1;
        let name = self.host_of(task);
        let (ttl, host) = (self.domain_ttl, &self.hosts[&name]);
        self.waiting_hosts += usize::from(!host.has_urls());
        let Some(entry) = self.domains.get_mut(&host.domain) else { return name };
        let (was_active, was_owned) = (entry.is_active(), entry.is_owned(ttl));
        entry.waiting += 1;
        match was_active {
            true => {}
            false if was_owned => self.workers.count_domain(entry.owner, 1),
            false => {
                let domain = host.domain.clone();
                self.remove_owner(&domain);
            }
        }
        name
    }

    /// The host of a URL. It has an entry from now on, and so has its domain.
    fn host_of(&mut self, task: &QueuedTask) -> Arc<str> {
        let key = throttle_key(&task.url);
        let name = match self.hosts.get_key_value(key) {
            Some((name, _)) => Arc::clone(name),
            None => {
                if self.hosts.len() >= self.sweep_hosts_at {
                    self.sweep_hosts();
                }
                let (name, domain): (Arc<str>, _) = (key.into(), task.domain());
                let is_blocked = self.is_host_blocked(key);
                self.hosts.insert(Arc::clone(&name), HostUrls::new(domain, is_blocked));
                name
            }
        };
        let domain = &self.hosts[&name].domain;
        if !self.domains.contains_key(domain) {
            let domain = domain.clone();
            self.add_domain(domain);
        }
        name
    }

    fn add_domain(&mut self, domain: Domain) {
        if self.domains.len() >= self.sweep_domains_at {
            self.sweep_domains();
        }
        self.domains.insert(domain, DomainEntry::new(Instant::now()));
    }

    /// Makes the URLs of a host leasable, now or when its cooldown ends, unless enough are leased.
    fn offer(&mut self, name: &Arc<str>, cooldowns: &HostCooldowns) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        if host.is_full(&self.limits) || !host.has_urls() {
            return;
        }
        if host.is_blocked {
            return self.offer_blocked(name);
        }
        let now = Instant::now();
        if let Some(until) = host.cooldown_until(name, cooldowns).filter(|until| *until > now + LEASE_AHEAD) {
            if !host.has_timer {
                host.has_timer = true;
                let domain = host.domain.clone();
                self.add_timer(until - LEASE_AHEAD, Timer::Host(Arc::clone(name)), &domain);
            }
            return;
        }
        let Some(entry) = self.domains.get_mut(&host.domain) else { return };
        for queue in host.queues_with_urls().without(host.listed) {
            host.listed.insert(queue);
            entry.ready(queue).push_back(Arc::clone(name));
        }
        let domain = host.domain.clone();
        self.list_domain(&domain, now);
    }

    /// Puts a domain into its owner's lists, for the queues in which its hosts have URLs to lease.
    fn list_domain(&mut self, domain: &Domain, now: Instant) {
        let (max_leases, blocked) = (self.max_site_leases(), self.blocked_queue());
        let Some(entry) = self.domains.get_mut(domain) else { return };
        if entry.moving_to.is_some() {
            return;
        }
        // It is listed again when one of its leases ends.
        let is_full = entry.is_full(max_leases);
        let cooldown_until = Some(entry.next_lease()).filter(|next| *next > now + LEASE_AHEAD);
        let timer = cooldown_until.filter(|_| !is_full && !std::mem::replace(&mut entry.has_timer, true));
        // A blocked host gets no request, so its URLs do not wait for the site's delay.
        let can_list = |queue: u8| queue == blocked || !is_full && cooldown_until.is_none();
        let lists = match entry.owner.and_then(|owner| self.workers.get_mut(owner)) {
            Some(worker) => &mut worker.ready,
            None => &mut self.unowned,
        };
        let mut is_listed = false;
        for (queue, hosts) in &entry.ready {
            if !hosts.is_empty() && !entry.listed.contains(*queue) && can_list(*queue) {
                entry.listed.insert(*queue);
                lists.0[usize::from(*queue)].push_back(domain.clone());
                is_listed = true;
            }
        }
        if is_listed {
            let owner = entry.owner;
            self.wake(owner);
        }
        if let Some(until) = timer {
            self.add_timer(until - LEASE_AHEAD, Timer::Domain(domain.clone()), domain);
        }
    }

    fn max_site_leases(&self) -> usize {
        if self.limits.site_delay.is_zero() { usize::MAX } else { MAX_SITE_LEASES }
    }

    /// Adds a timer for URLs of a domain. Workers that wait for the first timer have to wait for this one, if it is earlier.
    fn add_timer(&mut self, at: Instant, timer: Timer, domain: &Domain) {
        if self.first_timer().is_none_or(|next| at < next) {
            let owner = self.domains.get(domain).and_then(|entry| entry.owner);
            self.wake(owner);
        }
        self.timers.push(Reverse((at, timer)));
    }

    /// Marks the workers that wait for a URL of this owner, or of none.
    fn wake(&mut self, owner: Option<WorkerId>) {
        for (id, worker) in self.workers.iter() {
            if worker.wants_urls && owner.is_none_or(|owner| owner == id) && !self.to_wake.contains(&id) {
                self.to_wake.push(id);
            }
        }
    }

    /// Offers hosts and domains whose time has come, and moves domains between workers.
    pub(super) fn run_timers(&mut self, cooldowns: &HostCooldowns) {
        let now = Instant::now();
        while let Some(Reverse((at, _))) = self.timers.peek()
            && *at <= now
            && let Some(Reverse((_, timer))) = self.timers.pop()
        {
            match timer {
                Timer::Host(name) => {
                    if let Some(host) = self.hosts.get_mut(&name) {
                        host.has_timer = false;
                        self.offer(&name, cooldowns);
                    }
                }
                Timer::Domain(domain) => {
                    if let Some(entry) = self.domains.get_mut(&domain) {
                        entry.has_timer = false;
                        self.list_domain(&domain, now);
                    }
                }
                Timer::Move(domain) => self.cancel_move(&domain, now),
            }
        }
        if self.rebalance_at().is_some_and(|at| at <= now) {
            self.rebalance(now);
        }
    }

    /// Changes the delays of hosts and sites, and offers all that waited for the delays before: also the domains with too many
    /// leases, which have no timer.
    pub(super) fn set_delays(&mut self, delay: Duration, site_delay: Duration, cooldowns: &HostCooldowns) {
        let now = Instant::now();
        (self.limits.delay, self.limits.site_delay) = (delay, site_delay);
        // The others are set again.
        self.timers.retain(|Reverse((_, timer))| matches!(timer, Timer::Move(_)));
        let mut waiting = Vec::new();
        for (domain, entry) in &mut self.domains {
            entry.next = entry.next.min(now + site_delay);
            entry.after_last_lease = entry.after_last_lease.min(now + site_delay);
            entry.has_timer = false;
            if entry.ready.iter().any(|(_, hosts)| !hosts.is_empty()) {
                waiting.push(domain.clone());
            }
        }
        for domain in waiting {
            self.list_domain(&domain, now);
        }
        let waits = |(name, host): (&Arc<str>, &mut HostUrls<Q>)| {
            std::mem::take(&mut host.has_timer).then(|| Arc::clone(name))
        };
        for name in self.hosts.iter_mut().filter_map(waits).collect::<Vec<_>>() {
            self.offer(&name, cooldowns);
        }
    }

    /// Records whether a worker got as many URLs as it requested.
    pub(super) fn set_wants_urls(&mut self, worker: WorkerId, wants_urls: bool) {
        self.workers.add(worker).wants_urls = wants_urls;
    }

    /// Takes the next URL for a worker: chooses the queue of blocked hosts or that of requisites, or draws a priority queue, then
    /// takes the next domain and host in it.
    pub(super) fn take(
        &mut self,
        worker: WorkerId,
        requisites_only: bool,
        cooldowns: &HostCooldowns,
        storage: &mut impl Storage<Parked = Q>,
    ) -> Result<Option<NextUrl>, BackendError> {
        loop {
            if self.workers.add(worker).ready.is_empty() && self.unowned.is_empty() {
                return Ok(None);
            }
            let drawn = draw(&mut self.random);
            // Neither pages nor requisites nor blocked hosts hold up the others.
            let prefers_requisites = requisites_only || self.random.below(2) == 0;
            let (requisites, blocked) = (self.queues.count(), usize::from(self.blocked_queue()));
            let owned = self.workers.get(worker).map(|worker| &worker.ready);
            let has_urls =
                |queue: usize| owned.is_some_and(|owned| owned.has(queue)) || self.unowned.has(queue);
            let queue = match () {
                () if has_urls(blocked) && self.random.below(2) == 0 => Some(blocked),
                () if prefers_requisites && has_urls(requisites) => Some(requisites),
                () if requisites_only => has_urls(blocked).then_some(blocked),
                () => {
                    let others = [requisites, blocked].into_iter().find(|queue| has_urls(*queue));
                    self.queues.first_from(drawn, has_urls).or(others)
                }
            };
            let Some(queue) = queue else { return Ok(None) };
            let Some(domain) = self.next_domain(worker, queue) else { return Ok(None) };
            if let Some(next) = self.take_of_domain(worker, &domain, queue as u8, cooldowns, storage)? {
                return Ok(Some(next));
            }
        }
    }

    /// Takes the next domain of a queue out of the worker's list or that of domains without an owner, in turns.
    fn next_domain(&mut self, worker: WorkerId, queue: usize) -> Option<Domain> {
        self.prefers_owned = !self.prefers_owned;
        let prefers_owned = self.prefers_owned;
        if !prefers_owned && let Some(domain) = self.unowned.0[queue].pop_front() {
            return Some(domain);
        }
        let owned = self.workers.add(worker).ready.0[queue].pop_front();
        owned.or_else(|| self.unowned.0[queue].pop_front())
    }

    /// Takes the next URL of a domain and queue. `None` if there is none, or another worker gets it.
    fn take_of_domain(
        &mut self,
        worker: WorkerId,
        domain: &Domain,
        queue: u8,
        cooldowns: &HostCooldowns,
        storage: &mut impl Storage<Parked = Q>,
    ) -> Result<Option<NextUrl>, BackendError> {
        let (now, max_leases) = (Instant::now(), self.max_site_leases());
        let takes_blocked = queue == self.blocked_queue();
        let Some(entry) = self.domains.get_mut(domain) else { return Ok(None) };
        entry.listed.remove(queue);
        // It was leased from, in another queue.
        let must_wait = entry.next_lease() > now + LEASE_AHEAD || entry.is_full(max_leases);
        if must_wait && !takes_blocked || entry.moving_to.is_some() {
            self.list_domain(domain, now);
            return Ok(None);
        }
        let owner = match entry.owner {
            Some(owner) => owner,
            None => self.give_owner(domain, worker),
        };
        if owner != worker {
            self.list_domain(domain, now);
            return Ok(None);
        }
        while let Some(name) = self.domains.get_mut(domain).and_then(|entry| entry.ready(queue).pop_front()) {
            let Some(host) = self.hosts.get_mut(&name) else { continue };
            host.listed.remove(queue);
            // It is offered again when one of its leases ends.
            if host.is_full(&self.limits) {
                continue;
            }
            // It was blocked since it was listed.
            if host.is_blocked != takes_blocked {
                self.offer(&name, cooldowns);
                continue;
            }
            // With an earlier time than that of `offer`, the host could be put back into the list again and again.
            let limit = Instant::now() + LEASE_AHEAD;
            if !takes_blocked && host.cooldown_until(&name, cooldowns).is_some_and(|until| until > limit) {
                self.offer(&name, cooldowns);
                continue;
            }
            let task = if takes_blocked { host.take_any(storage)? } else { host.take(queue, storage)? };
            let Some(task) = task else { continue };
            let is_blocked = self.blocked.as_ref().is_some_and(|all| all.contains(shown_url(&task.url)));
            let unreachable = || host.health.unreachable().cloned().map(NoRequest::Unreachable);
            let no_request = if is_blocked { Some(NoRequest::Blocked) } else { unreachable() };
            host.leased += 1;
            host.skipped += usize::from(is_blocked);
            let has_urls =
                if takes_blocked { host.has_urls() } else { host.queues_with_urls().contains(queue) };
            let has_more = has_urls && !host.is_full(&self.limits);
            self.waiting_hosts -= usize::from(!host.has_urls());
            let Some(entry) = self.domains.get_mut(domain) else { return Ok(None) };
            if has_more {
                host.listed.insert(queue);
                entry.ready(queue).push_back(Arc::clone(&name));
            }
            entry.waiting -= 1;
            entry.leased += 1;
            entry.skipped += usize::from(is_blocked);
            entry.last_used = now;
            let site_cooldown = match self.limits.workers_share_throttle {
                true => Duration::ZERO,
                false => entry.next_lease().saturating_duration_since(now),
            };
            let turn = no_request.is_none().then(|| {
                let next = now + self.limits.site_delay;
                Turn { previous: std::mem::replace(&mut entry.after_last_lease, next), next }
            });
            self.lengths[usize::from(task.queue)] -= 1;
            if entry.has_ready(queue) {
                self.list_domain(domain, now);
            }
            return Ok(Some(NextUrl { task, site_cooldown, no_request, turn }));
        }
        Ok(None)
    }

    /// Records that a lease of a URL of this host ended. The URL may be [requeued](WaitingUrls::requeue) before.
    pub(super) fn release(
        &mut self,
        url: &str,
        EndedLease { was_blocked, unused_turn, site_cooldown }: EndedLease,
        cooldowns: &HostCooldowns,
    ) {
        let Some((name, _)) = self.hosts.get_key_value(throttle_key(url)) else { return };
        let name = Arc::clone(name);
        let max_leases = self.max_site_leases();
        let Some(host) = self.hosts.get_mut(&name) else { return };
        host.leased = host.leased.saturating_sub(1);
        host.skipped -= usize::from(was_blocked);
        let (mut leasable_site, mut moving_site, now) = (None, None, Instant::now());
        if let Some(entry) = self.domains.get_mut(&host.domain) {
            if entry.is_full(max_leases) || unused_turn.is_some() {
                leasable_site = Some(host.domain.clone());
            }
            unused_turn.into_iter().for_each(|turn| entry.return_turn(turn));
            if entry.moving_to.is_some() {
                moving_site = Some(host.domain.clone());
            }
            entry.leased = entry.leased.saturating_sub(1);
            entry.skipped -= usize::from(was_blocked);
            entry.last_used = now;
            // Workers with a common throttle wait for it. So the next URL of the site can be leased before, but not all of them.
            if !self.limits.workers_share_throttle || unused_turn.is_some() {
                entry.next = entry.next.max(now + site_cooldown);
            }
            if !entry.is_active() {
                self.workers.count_domain(entry.owner, -1);
            }
        }
        match host.has_urls() {
            true => self.offer(&name, cooldowns),
            false => self.remove_if_unused(&name),
        }
        if let Some(site) = leasable_site {
            self.list_domain(&site, now);
        }
        if let Some(site) = moving_site {
            self.finish_move(&site);
        }
    }

    /// The health of a URL's host, if URLs of the host are waiting or leased.
    pub(super) fn health(&mut self, url: &str) -> Option<&mut HostHealth> {
        self.hosts.get_mut(throttle_key(url)).map(|host| &mut host.health)
    }

    fn remove_if_unused(&mut self, name: &str) {
        if self.hosts.get(name).is_some_and(|host| host.is_unused() && !host.health.is_remembered()) {
            self.hosts.remove(name);
        }
    }

    fn sweep_hosts(&mut self) {
        self.hosts.retain(|_, host| !host.is_unused() || host.health.is_recent());
        self.sweep_hosts_at = SWEEP_AT.max(2 * self.hosts.len());
    }

    fn sweep_domains(&mut self) {
        let (ttl, now) = (self.domain_ttl, Instant::now());
        self.domains.retain(|_, entry| {
            entry.is_active()
                || entry.last_used.elapsed() < ttl
                || entry.next_lease() > now
                || entry.has_timer
                || entry.ready.iter().any(|(_, hosts)| !hosts.is_empty())
        });
        self.sweep_domains_at = SWEEP_AT.max(2 * self.domains.len());
    }

    /// Takes all waiting URLs out, at the end of a crawl.
    pub(super) fn drain<S: Storage<Parked = Q>>(
        &mut self,
        storage: &mut S,
        mut each: impl FnMut(&S, QueuedTask) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        for (_, mut host) in self.hosts.drain() {
            while let Some(task) = host.take_any(storage)? {
                each(storage, task)?;
            }
        }
        Ok(())
    }

    /// Takes the waiting URLs of these domains out, so that they can get other priorities.
    pub(super) fn take_domains(
        &mut self,
        domains: &[Domain],
        storage: &mut impl Storage<Parked = Q>,
    ) -> Result<Vec<QueuedTask>, BackendError> {
        let mut tasks = Vec::new();
        let has_waiting = |domain: &&Domain| self.domains.get(domain).is_some_and(|entry| entry.waiting > 0);
        let wanted: std::collections::HashSet<&Domain> = domains.iter().filter(has_waiting).collect();
        if wanted.is_empty() {
            return Ok(tasks);
        }
        for host in self.hosts.values_mut().filter(|host| wanted.contains(&host.domain)) {
            self.waiting_hosts -= usize::from(host.has_urls());
            tasks.extend(host.drain(storage)?);
        }
        for task in &tasks {
            self.lengths[usize::from(task.queue)] -= 1;
        }
        for domain in wanted {
            if let Some(entry) = self.domains.get_mut(domain) {
                entry.waiting = 0;
                if !entry.is_active() {
                    self.workers.count_domain(entry.owner, -1);
                }
            }
        }
        Ok(tasks)
    }
}
