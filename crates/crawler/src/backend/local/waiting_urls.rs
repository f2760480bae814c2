//! The URLs that have a priority and wait for a worker, and the decision which of them a worker gets next.
//!
//! A URL waits in the queue of its host and priority until its host can be asked. A priority queue is the list of the
//! domains that have such URLs: a draw chooses the queue, the domains of a queue take turns, and so do the hosts of a
//! domain. So a URL is bound to a worker as late as possible, and a host that cannot be asked holds up no other.

mod domain_entry;
mod host;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::domain_entry::DomainEntry;
use self::host::Host;
use super::super::{BackendError, WorkerId};
use super::HostLimits;
use super::host_cooldowns::HostCooldowns;
use super::host_health::HostHealth;
use super::queue_set::QueueSet;
use super::storage::{QueuedTask, Storage};
use crate::domain::Domain;
use crate::origin::throttle_key;
use crate::prioritizer::{PriorityQueues, Random, draw};

/// While URLs of so many hosts wait, no further URLs get a priority: each host takes some hundred bytes of memory.
const MAX_HOSTS: usize = 100_000;

/// Entries that are no longer needed are removed when there are this many, and again when there are twice as many as
/// remained.
const SWEEP_AT: usize = 10_000;

/// A URL is leased this long before its host's cooldown ends, so that the worker has it in time.
const LEASE_AHEAD: Duration = Duration::from_millis(5);

/// If sites have a delay, at most so many URLs of a site are leased. Most requests take less than so many delays.
const MAX_SITE_LEASES: usize = 64;

/// `Q` is the storage's queue of URLs.
pub(super) struct WaitingUrls<Q> {
    limits: HostLimits,
    /// How long a worker owns a domain after its last use.
    domain_ttl: Duration,
    queues: PriorityQueues,
    random: Random,
    hosts: HashMap<Arc<str>, Host<Q>>,
    domains: HashMap<Domain, DomainEntry>,
    /// Domains without an owner that have a URL to lease.
    unowned: ReadyDomains,
    /// The workers by number; `None` for one that was removed.
    workers: Vec<Option<WorkerEntry>>,
    /// Hosts and domains that can be asked again at a time.
    timers: BinaryHeap<Reverse<(Instant, Timer)>>,
    /// The number of waiting URLs by priority queue.
    lengths: Vec<usize>,
    /// Hosts with waiting URLs.
    waiting_hosts: usize,
    sweep_hosts_at: usize,
    sweep_domains_at: usize,
    /// Whether the next URL is taken from a domain that has an owner, if there is one.
    prefers_owned: bool,
    /// Workers that wait for a URL, and for which there is one.
    to_wake: Vec<WorkerId>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Host(Arc<str>),
    Domain(Domain),
}

/// Domains with a URL to lease, by priority queue, in the order of their turns.
struct ReadyDomains(Vec<VecDeque<Domain>>);

struct WorkerEntry {
    ready: ReadyDomains,
    /// The worker asked for more URLs than there were.
    wants_urls: bool,
    /// The number of its domains that have waiting or leased URLs.
    domains: usize,
}

/// A URL on its way to a worker.
pub(super) struct NextUrl {
    pub(super) task: QueuedTask,
    /// Why the host is unreachable, if it is.
    pub(super) unreachable: Option<Arc<str>>,
}

impl ReadyDomains {
    fn new(queues: PriorityQueues) -> ReadyDomains {
        ReadyDomains((0..queues.count()).map(|_| VecDeque::new()).collect())
    }

    fn has(&self, queue: usize) -> bool {
        !self.0[queue].is_empty()
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(VecDeque::is_empty)
    }
}

impl<Q: Default> WaitingUrls<Q> {
    pub(super) fn new(
        limits: HostLimits,
        domain_ttl: Duration,
        queues: PriorityQueues,
        workers: u16,
        random: Random,
    ) -> WaitingUrls<Q> {
        let worker = || WorkerEntry { ready: ReadyDomains::new(queues), wants_urls: true, domains: 0 };
        WaitingUrls {
            limits,
            domain_ttl,
            queues,
            random,
            hosts: HashMap::new(),
            domains: HashMap::new(),
            unowned: ReadyDomains::new(queues),
            workers: (0..workers).map(|_| Some(worker())).collect(),
            timers: BinaryHeap::new(),
            lengths: vec![0; queues.count()],
            waiting_hosts: 0,
            sweep_hosts_at: SWEEP_AT,
            sweep_domains_at: SWEEP_AT,
            prefers_owned: false,
            to_wake: Vec::new(),
        }
    }

    /// The number of waiting URLs by priority queue.
    pub(super) fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Whether no further URLs should get a priority for now.
    pub(super) fn is_full(&self) -> bool {
        self.waiting_hosts >= MAX_HOSTS
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

    /// When the next host or domain can be asked again.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
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
    pub(super) fn give_back(&mut self, task: QueuedTask, cooldowns: &HostCooldowns) {
        let name = self.add(&task);
        if let Some(host) = self.hosts.get_mut(&name) {
            host.returned.push_front(task);
        }
        self.offer(&name, cooldowns);
    }

    /// Counts a URL as waiting, and returns its host.
    fn add(&mut self, task: &QueuedTask) -> Arc<str> {
        self.lengths[usize::from(task.queue)] += 1;
        let key = throttle_key(&task.url);
        let name = match self.hosts.get_key_value(key) {
            Some((name, host)) => {
                self.waiting_hosts += usize::from(!host.has_urls());
                Arc::clone(name)
            }
            None => {
                if self.hosts.len() >= self.sweep_hosts_at {
                    self.sweep_hosts();
                }
                let (name, domain): (Arc<str>, _) = (key.into(), task.domain());
                self.hosts.insert(Arc::clone(&name), Host::new(domain));
                self.waiting_hosts += 1;
                name
            }
        };
        let domain = &self.hosts[&name].domain;
        let (now, ttl) = (Instant::now(), self.domain_ttl);
        if !self.domains.contains_key(domain) {
            let domain = domain.clone();
            if self.domains.len() >= self.sweep_domains_at {
                self.sweep_domains();
            }
            self.domains.insert(domain, DomainEntry::new(now));
        }
        let domain = &self.hosts[&name].domain;
        if let Some(entry) = self.domains.get_mut(domain) {
            if !entry.is_active() {
                if !entry.is_owned(ttl) {
                    entry.owner = None;
                }
                count_domain(&mut self.workers, entry.owner, 1);
            }
            entry.waiting += 1;
        }
        name
    }

    /// Makes the URLs of a host leasable, now or when its cooldown ends, unless enough are leased.
    fn offer(&mut self, name: &Arc<str>, cooldowns: &HostCooldowns) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        if host.leased >= host.max_leases(&self.limits) || !host.has_urls() {
            return;
        }
        let now = Instant::now();
        if let Some(until) = host.rests_until(name, cooldowns).filter(|until| *until > now + LEASE_AHEAD) {
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
        let max_leases = self.max_site_leases();
        let Some(entry) = self.domains.get_mut(domain) else { return };
        // It is listed again when one of its leases ends.
        if entry.leased >= max_leases {
            return;
        }
        if entry.next > now + LEASE_AHEAD {
            if !entry.has_timer {
                entry.has_timer = true;
                let at = entry.next - LEASE_AHEAD;
                self.add_timer(at, Timer::Domain(domain.clone()), domain);
            }
            return;
        }
        let lists = match entry.owner.and_then(|WorkerId(id)| self.workers[usize::from(id)].as_mut()) {
            Some(worker) => &mut worker.ready,
            None => &mut self.unowned,
        };
        let mut is_listed = false;
        for (queue, hosts) in &entry.ready {
            if !hosts.is_empty() && !entry.listed.contains(*queue) {
                entry.listed.insert(*queue);
                lists.0[usize::from(*queue)].push_back(domain.clone());
                is_listed = true;
            }
        }
        if is_listed {
            let owner = entry.owner;
            self.wake(owner);
        }
    }

    fn max_site_leases(&self) -> usize {
        if self.limits.site_delay.is_zero() { usize::MAX } else { MAX_SITE_LEASES }
    }

    /// Adds a timer for URLs of a domain. Workers that wait for the first timer have to wait for this one, if it is earlier.
    fn add_timer(&mut self, at: Instant, timer: Timer, domain: &Domain) {
        if self.next_timer().is_none_or(|next| at < next) {
            let owner = self.domains.get(domain).and_then(|entry| entry.owner);
            self.wake(owner);
        }
        self.timers.push(Reverse((at, timer)));
    }

    /// Marks the workers that wait for a URL of this owner, or of none.
    fn wake(&mut self, owner: Option<WorkerId>) {
        for (id, worker) in self.workers.iter_mut().enumerate() {
            let id = WorkerId(u16::try_from(id).unwrap_or(u16::MAX));
            if let Some(worker) = worker
                && worker.wants_urls
                && owner.is_none_or(|owner| owner == id)
                && !self.to_wake.contains(&id)
            {
                self.to_wake.push(id);
            }
        }
    }

    /// Offers hosts and domains whose time has come.
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
            }
        }
    }

    /// Records whether a worker got as many URLs as it asked for.
    pub(super) fn set_wants_urls(&mut self, worker: WorkerId, wants_urls: bool) {
        self.worker(worker).wants_urls = wants_urls;
    }

    /// Adds a worker that was removed before.
    fn worker(&mut self, WorkerId(id): WorkerId) -> &mut WorkerEntry {
        let queues = self.queues;
        self.workers[usize::from(id)].get_or_insert_with(|| WorkerEntry {
            ready: ReadyDomains::new(queues),
            wants_urls: true,
            domains: 0,
        })
    }

    /// Takes the next URL for a worker: draws a priority queue, then the next domain and host in it.
    pub(super) fn take(
        &mut self,
        worker: WorkerId,
        cooldowns: &HostCooldowns,
        storage: &mut impl Storage<Parked = Q>,
    ) -> Result<Option<NextUrl>, BackendError> {
        loop {
            if self.worker(worker).ready.is_empty() && self.unowned.is_empty() {
                return Ok(None);
            }
            let drawn = draw(&mut self.random);
            let owned = self.workers[usize::from(worker.0)].as_ref().map(|worker| &worker.ready);
            let has_urls =
                |queue: usize| owned.is_some_and(|owned| owned.has(queue)) || self.unowned.has(queue);
            let Some(queue) = self.queues.first_from(drawn, has_urls) else { return Ok(None) };
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
        let owned = self.worker(worker).ready.0[queue].pop_front();
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
        let Some(entry) = self.domains.get_mut(domain) else { return Ok(None) };
        entry.listed.remove(queue);
        // It was leased from, in another queue.
        if entry.next > now + LEASE_AHEAD || entry.leased >= max_leases {
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
            if host.leased >= host.max_leases(&self.limits) {
                continue;
            }
            if host.rests_until(&name, cooldowns).is_some_and(|until| until > now + LEASE_AHEAD) {
                self.offer(&name, cooldowns);
                continue;
            }
            let Some(task) = host.take(queue, storage)? else { continue };
            host.leased += 1;
            let has_more =
                host.queues_with_urls().contains(queue) && host.leased < host.max_leases(&self.limits);
            self.waiting_hosts -= usize::from(!host.has_urls());
            let unreachable = host.health.unreachable().cloned();
            let Some(entry) = self.domains.get_mut(domain) else { return Ok(None) };
            if has_more {
                host.listed.insert(queue);
                entry.ready(queue).push_back(Arc::clone(&name));
            }
            entry.waiting -= 1;
            entry.leased += 1;
            entry.last_used = now;
            if unreachable.is_none() {
                entry.next = now + self.limits.site_delay;
            }
            self.lengths[usize::from(queue)] -= 1;
            if entry.has_ready(queue) {
                self.list_domain(domain, now);
            }
            return Ok(Some(NextUrl { task, unreachable }));
        }
        Ok(None)
    }

    /// Gives a domain to the least loaded of the workers that want URLs, and returns it.
    fn give_owner(&mut self, domain: &Domain, worker: WorkerId) -> WorkerId {
        let candidates = self.workers.iter().enumerate().filter_map(|(id, entry)| {
            let (id, entry) = (WorkerId(id as u16), entry.as_ref()?);
            (entry.wants_urls || id == worker).then_some((entry.domains, id))
        });
        let owner = candidates.min().map_or(worker, |(_, id)| id);
        if let Some(entry) = self.domains.get_mut(domain) {
            entry.owner = Some(owner);
            if entry.is_active() {
                count_domain(&mut self.workers, Some(owner), 1);
            }
        }
        owner
    }

    /// Records that a lease of a URL of this host ended. The URL may be [given back](WaitingUrls::give_back) before.
    pub(super) fn release(&mut self, url: &str, cooldowns: &HostCooldowns) {
        let Some((name, _)) = self.hosts.get_key_value(throttle_key(url)) else { return };
        let name = Arc::clone(name);
        let max_leases = self.max_site_leases();
        let Some(host) = self.hosts.get_mut(&name) else { return };
        host.leased = host.leased.saturating_sub(1);
        let mut full_site = None;
        if let Some(entry) = self.domains.get_mut(&host.domain) {
            if entry.leased == max_leases {
                full_site = Some(host.domain.clone());
            }
            entry.leased = entry.leased.saturating_sub(1);
            entry.last_used = Instant::now();
            if !entry.is_active() {
                count_domain(&mut self.workers, entry.owner, -1);
            }
        }
        match host.has_urls() {
            true => self.offer(&name, cooldowns),
            false => self.remove_if_unused(&name),
        }
        if let Some(site) = full_site {
            self.list_domain(&site, Instant::now());
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
        let ttl = self.domain_ttl;
        self.domains.retain(|_, entry| {
            entry.is_active()
                || entry.last_used.elapsed() < ttl
                || entry.has_timer
                || entry.ready.iter().any(|(_, hosts)| !hosts.is_empty())
        });
        self.sweep_domains_at = SWEEP_AT.max(2 * self.domains.len());
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
                    count_domain(&mut self.workers, entry.owner, -1);
                }
            }
        }
        Ok(tasks)
    }

    /// Removes a dead worker. Its domains have no owner any more.
    pub(super) fn remove_worker(&mut self, worker: WorkerId) {
        self.workers[usize::from(worker.0)] = None;
        let mut listed = Vec::new();
        for (domain, entry) in &mut self.domains {
            if entry.owner == Some(worker) {
                (entry.owner, entry.listed) = (None, QueueSet::default());
                listed.push(domain.clone());
            }
        }
        for domain in listed {
            self.list_domain(&domain, Instant::now());
        }
    }
}

/// Counts an active domain of a worker.
fn count_domain(workers: &mut [Option<WorkerEntry>], owner: Option<WorkerId>, change: isize) {
    if let Some(worker) = owner.and_then(|WorkerId(id)| workers.get_mut(usize::from(id))?.as_mut()) {
        worker.domains = worker.domains.saturating_add_signed(change);
    }
}
