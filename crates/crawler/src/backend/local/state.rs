//! The frontier's state machine: applies each operation to the queues of a crawl, over any storage.

mod content;
mod limits;
mod pending;
mod prioritization;
mod requisites;
mod visits;
mod workers;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use self::content::{BorderCase, NewPage, StoreResult};
use self::requisites::RequisiteQueue;
use super::super::{
    AdmitCounts, BackendError, BudgetDecision, CompleteResult, Completion, DiscoveredUrl, HostDelay, Lease,
    NoRequest, Outlinks, Snapshot, TaskId, WaitReason, WaitingHost, WorkerId, WorkerLoad,
};
use super::BackendConfig;
use super::budgets::{BudgetReservation, BudgetWait, Budgets};
use super::content_index::ContentIndex;
use super::counters::CrawlCounters;
use super::host_cooldowns::HostCooldowns;
use super::storage::{Clock, CompletedUrl, QueuedTask, SeenStatus, Storage, TaskRef, unix_millis};
use super::waiting_urls::{EndedLease, NextUrl, Turn, WaitingUrls};
use crate::domain::Domain;
use crate::fetch::http::AddressKinds;
use crate::keyed_map::KeyedMap;
use crate::log::HostEvent;
use crate::modules::OutputWrite;
use crate::origin::throttle_key;
use crate::outcome::Outcome;
use crate::prioritizer::{Popularity, Prioritizer, Random, SourceLink};
use crate::sitemap;
use crate::stats::BodyBytes;
use crate::task::Depth;
use crate::task_kind::{TaskKind, shown_url};
use crate::url_record::Discovery;

/// The most unreachable hosts that are named in a snapshot.
const MAX_UNREACHABLE_NAMED: usize = 100;

/// The most failed sitemaps that are named in a snapshot.
const MAX_FAILED_SITEMAPS_NAMED: usize = 100;

pub(crate) struct LocalState<S: Storage> {
    pub(crate) config: BackendConfig,
    pub(crate) clock: Clock,
    pub(crate) storage: S,
    pub(crate) counters: CrawlCounters,
    pub(crate) popularity: Popularity,
    pub(crate) content: ContentIndex,
    pub(crate) budgets: Budgets,
    pub(crate) cooldowns: HostCooldowns,
    /// The kinds of address that the seeds' hosts had at first.
    pub(crate) address_kinds: HashMap<String, AddressKinds>,
    next_lease_id: u64,
    url_queue: VecDeque<QueuedTask>,
    /// The prioritizer, if it may be asked while the state is locked.
    prioritizer: Option<Arc<dyn Prioritizer>>,
    prioritizing: KeyedMap<TaskId, QueuedTask>,
    /// URLs that had a priority and get another one.
    reprioritizing: VecDeque<QueuedTask>,
    pub(crate) requisites: RequisiteQueue<S::Parked>,
    waiting: WaitingUrls<S::Parked>,
    leases: KeyedMap<TaskId, ActiveLease>,
    /// Number of leases by worker.
    leased: Vec<usize>,
    /// The hosts that are unreachable, and why. Not all of them if there are many.
    unreachable_hosts: BTreeMap<String, String>,
    /// The sitemaps that failed since the process started, and why. Not all of them if there are many.
    failed_sitemaps: BTreeMap<String, String>,
    /// When the next completed URL is due again, as Unix time in milliseconds, if that is known.
    next_due: Option<u64>,
}

struct ActiveLease {
    task: QueuedTask,
    worker: WorkerId,
    lease_id: u64,
    /// No request is sent for the URL, because it is blocked.
    is_blocked: bool,
    /// How long the lease delays the next one of its site, if a request is sent.
    turn: Option<Turn>,
    reservation: Option<BudgetReservation>,
}

impl ActiveLease {
    /// How the lease ended, if a request was sent for it, or may have been.
    fn ended(&self, site_cooldown: Duration) -> EndedLease {
        EndedLease { was_blocked: self.is_blocked, unused_turn: None, site_cooldown }
    }
}

/// A URL to add to the queues. A seed was not found on a page.
struct NewTask<'u> {
    url: &'u str,
    depth: Depth,
    redirects: u8,
    from: Option<TaskId>,
    is_refetch: bool,
    queued_at: u64,
    source_link: Option<&'u SourceLink>,
    discovery: Option<&'u Arc<Discovery>>,
}

/// Who has something to do after an operation.
pub(crate) struct Work {
    /// URLs wait for the prioritizer.
    pub(crate) prioritizer: bool,
    /// No URL is pending.
    pub(crate) is_finished: bool,
    /// Workers that wait for URLs, and for which there are some now.
    pub(crate) workers: Vec<WorkerId>,
    /// What is to be logged.
    pub(crate) events: Vec<HostEvent>,
}

impl<S: Storage> LocalState<S> {
    /// Empty queues, over a storage that may contain URLs.
    pub(crate) fn new(config: BackendConfig, clock: Clock, storage: S) -> LocalState<S> {
        LocalState {
            clock,
            storage,
            counters: CrawlCounters::default(),
            popularity: Popularity::new(),
            content: ContentIndex::new(config.similarity, config.ttl),
            budgets: Budgets::new(&config),
            cooldowns: HostCooldowns::default(),
            address_kinds: HashMap::new(),
            next_lease_id: 1,
            url_queue: VecDeque::new(),
            prioritizer: None,
            prioritizing: KeyedMap::default(),
            reprioritizing: VecDeque::new(),
            requisites: RequisiteQueue::default(),
            waiting: WaitingUrls::new(
                config.hosts.clone(),
                config.domain_ttl,
                config.priority_queues,
                config.workers,
                Random::from_system(),
            ),
            leases: KeyedMap::default(),
            leased: vec![0; usize::from(config.workers)],
            unreachable_hosts: BTreeMap::new(),
            failed_sitemaps: BTreeMap::new(),
            next_due: None,
            config,
        }
    }

    /// Admits seeds.
    pub(crate) fn admit(&mut self, found: &[DiscoveredUrl]) -> Result<AdmitCounts, BackendError> {
        let (mut admitted, queued_at) = (AdmitCounts::default(), unix_millis());
        for &DiscoveredUrl { ref url, depth, redirects } in found {
            let (from, source_link, discovery) = (None, None, None);
            let is_refetch = false;
            let seed = NewTask { url, depth, redirects, from, is_refetch, queued_at, source_link, discovery };
            self.admit_url(seed, &mut admitted)?;
        }
        self.fill_url_queue()?;
        Ok(admitted)
    }

    /// Admits the outlinks of the page `from`.
    fn admit_outlinks(&mut self, outlinks: &Outlinks, from: TaskId) -> Result<AdmitCounts, BackendError> {
        let &Outlinks { ref urls, depth, redirects, ref source_links, seen } = outlinks;
        if urls.is_empty() {
            self.fill_url_queue()?;
            return Ok(AdmitCounts { new: 0, seen });
        }
        let (mut admitted, queued_at) = (AdmitCounts { new: 0, seen }, unix_millis());
        let discovery = self.discovery_of(outlinks, from);
        for (index, url) in urls.iter().enumerate() {
            let (from, source_link, discovery) = (Some(from), source_links.get(index), discovery.as_ref());
            let is_refetch = false;
            let outlink =
                NewTask { url, depth, redirects, from, is_refetch, queued_at, source_link, discovery };
            self.admit_url(outlink, &mut admitted)?;
        }
        self.fill_url_queue()?;
        Ok(admitted)
    }

    /// How the outlinks of a leased task are found, if that is kept.
    fn discovery_of(&self, outlinks: &Outlinks, from: TaskId) -> Option<Arc<Discovery>> {
        let first = outlinks.urls.iter().next().filter(|url| self.keeps_discovery(url))?;
        let task = &self.leases.get(&from)?.task;
        Some(Arc::new(match outlinks.redirects {
            0 => Discovery::on(&task.url, TaskKind::from_task_url(first)),
            _ => Discovery::redirected(task.discovery.as_deref(), &task.url),
        }))
    }

    /// Whether it is kept how a URL was found. The scope decides by it whether a task that is no page is fetched.
    fn keeps_discovery(&self, task_url: &str) -> bool {
        self.config.keep_discovery || TaskKind::from_task_url(task_url) != TaskKind::Page
    }

    fn admit_url(&mut self, task: NewTask, admitted: &mut AdmitCounts) -> Result<(), BackendError> {
        let id = self.storage.id(task.url);
        let status = self.storage.mark_seen(id, task.depth)?;
        match status {
            SeenStatus::New => admitted.new += 1,
            SeenStatus::Seen | SeenStatus::Shallower => admitted.seen += 1,
        }
        if status != SeenStatus::Seen {
            self.enqueue(id, NewTask { is_refetch: status == SeenStatus::Shallower, ..task });
        }
        Ok(())
    }

    fn enqueue(&mut self, id: u64, task: NewTask) {
        self.clock.start();
        self.counters.last_task_id += 1;
        self.counters.admitted += 1;
        self.counters.refetches += u64::from(task.is_refetch);
        let task_id = TaskId(self.counters.last_task_id);
        let NewTask { url, depth, redirects, from, is_refetch, queued_at, source_link, discovery } = task;
        let from = from.unwrap_or(task_id);
        let task = TaskRef::new(task_id, url);
        let task = TaskRef { from, depth, redirects, is_refetch, queued_at, source_link, discovery, ..task };
        self.budgets.admitted(url);
        // Always behind the URLs that wait already, so that the order stays the order of admission.
        let requisites = Self::is_requisite(url).then(|| {
            self.requisites.len += 1;
            &mut self.requisites.urls
        });
        self.storage.admit(id, task, requisites);
    }

    fn fill_url_queue(&mut self) -> Result<(), BackendError> {
        self.offer_requisites()?;
        let room = self.config.queue_size.saturating_sub(self.url_queue.len());
        if room > 0 && self.storage.overflow_len() > 0 {
            self.url_queue.extend(self.storage.take_overflow(room)?);
        }
        Ok(())
    }

    pub(crate) fn lease(&mut self, worker: WorkerId, max: usize) -> Result<Vec<Lease>, BackendError> {
        self.queue_due()?;
        self.run_timers();
        self.offer_requisites()?;
        self.prioritize_known();
        let requisites_only = self.budgets.pages_exhausted();
        let mut leases = Vec::new();
        while leases.len() < max {
            let next = self.waiting.take(worker, requisites_only, &self.cooldowns, &mut self.storage)?;
            let Some(NextUrl { task, site_cooldown, no_request, turn }) = next else { break };
            let is_blocked = no_request == Some(NoRequest::Blocked);
            let lease_id = self.next_lease_id;
            self.next_lease_id += 1;
            let lease = Lease {
                task_id: task.task_id,
                lease_id,
                url: Arc::clone(&task.url),
                depth: self.storage.depth(&task),
                redirects: task.redirects,
                is_refetch: task.is_refetch,
                previous: self.previous_visit(&task)?,
                cooldown: self.cooldowns.remaining(&task.url).max(site_cooldown),
                no_request,
                lastmod: self.storage.lastmod(&task)?,
                attempts: task.attempts,
                queued_at: task.queued_at,
                discovery: match self.keeps_discovery(&task.url) {
                    true => self.storage.discovery(&task)?,
                    false => None,
                },
            };
            self.storage.lease(&task, &lease, worker);
            leases.push(lease);
            *self.leased_to(worker) += 1;
            let active = ActiveLease { task, worker, lease_id, is_blocked, turn, reservation: None };
            self.leases.insert(active.task.task_id, active);
        }
        self.waiting.set_wants_urls(worker, leases.len() < max);
        Ok(leases)
    }

    /// Makes the URLs available whose cooldown has passed. [`work`](LocalState::work) returns the workers that get them.
    pub(crate) fn run_timers(&mut self) {
        self.waiting.run_timers(&self.cooldowns);
    }

    /// When URLs become available for a worker without an operation, and the [timers](LocalState::run_timers) are to be
    /// run.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.waiting.next_timer().into_iter().chain(self.due_timer()).min()
    }

    pub(crate) fn reserve(&mut self, lease: &Lease, read: BodyBytes) -> BudgetDecision {
        let active = self.leases.get_mut(&lease.task_id).filter(|active| active.lease_id == lease.lease_id);
        match active {
            Some(_)
                if lease.kind() == TaskKind::Page && !lease.is_refetch && self.budgets.pages_exhausted() =>
            {
                self.reserve_no_page(lease, read)
            }
            Some(active) => {
                let before = active.reservation;
                let decision = self.budgets.reserve(lease, &mut active.reservation, read);
                if active.reservation != before {
                    self.storage.set_reservation(lease.task_id, active.reservation.as_ref());
                }
                decision
            }
            None => BudgetDecision::LeaseLost,
        }
    }

    /// A lease, if it has not ended. Its depth is that of the URL now.
    pub(crate) fn active_lease(&self, task_id: TaskId, lease_id: u64) -> Option<Lease> {
        let active = self.leases.get(&task_id).filter(|active| active.lease_id == lease_id)?;
        let QueuedTask { ref url, redirects, is_refetch, attempts, queued_at, .. } = active.task;
        Some(Lease {
            task_id,
            lease_id,
            url: Arc::clone(url),
            depth: self.storage.depth(&active.task),
            redirects,
            is_refetch,
            previous: None,
            cooldown: Duration::ZERO,
            no_request: None,
            lastmod: None,
            attempts,
            queued_at,
            discovery: None,
        })
    }

    /// What a lease has to wait for before it reserves; `None` if it need not wait.
    pub(crate) fn budget_wait(&self, lease: &Lease) -> Option<BudgetWait> {
        let active = self.leases.get(&lease.task_id).filter(|active| active.lease_id == lease.lease_id)?;
        self.budgets.wait(lease, active.reservation.as_ref())
    }

    pub(crate) fn release(&mut self, lease: &Lease, read: BodyBytes) {
        if let Some(active) = self.leases.get_mut(&lease.task_id)
            && active.lease_id == lease.lease_id
        {
            let reservation = active.reservation.take();
            if reservation.is_some() {
                self.storage.set_reservation(lease.task_id, None);
            }
            self.budgets.commit(&lease.url, reservation, false, read);
        }
    }

    pub(crate) fn complete(&mut self, completion: Completion) -> Result<CompleteResult, BackendError> {
        let Completion {
            lease,
            outcome,
            bytes,
            truncated,
            outlinks,
            sitemaps,
            requisites,
            lastmods,
            linked_domains,
            rejected_links,
            writes,
            host_delay,
            site_cooldown,
            request,
            response,
        } = completion;
        if self.leases.get(&lease.task_id).is_none_or(|active| active.lease_id != lease.lease_id) {
            return Ok(CompleteResult::StaleLease);
        }
        if let Some(host_delay) = host_delay {
            self.set_host_delay(throttle_key(&lease.url), host_delay)?;
        }
        if outcome == Outcome::NotReached {
            self.requeue_url(&lease, bytes, site_cooldown);
            return Ok(CompleteResult::Requeued { sequence: self.record_writes(None, writes) });
        }
        self.judge_host(&lease.url, &outcome);
        if outcome == Outcome::Page && !lease.is_refetch && self.budgets.pages_exhausted() {
            self.requeue_url(&lease, bytes, site_cooldown);
            return Ok(CompleteResult::Requeued { sequence: None });
        }
        if lease.is_retried(&outcome) {
            self.retry(&lease, bytes, site_cooldown);
            return Ok(CompleteResult::Requeued { sequence: self.record_writes(None, writes) });
        }
        // Outlinks are admitted before the page is completed, so `pending` reaches zero only at the end of the
        // crawl.
        let is_without_request = outcome.is_without_request();
        let outcome = sitemap::outcome(&lease.url, outcome);
        let AdmitCounts { new, seen } = self.admit_outlinks(&outlinks, lease.task_id)?;
        self.admit_outlinks(&sitemaps, lease.task_id)?;
        self.admit_requisites(requisites, lease.task_id)?;
        for (id, lastmod) in lastmods {
            self.set_lastmod(id, lastmod)?;
        }
        let Some(active) = self.end_lease(lease.task_id) else { return Ok(CompleteResult::StaleLease) };
        let unused_turn = active.turn.filter(|_| is_without_request);
        let ended = EndedLease { unused_turn, ..active.ended(site_cooldown) };
        let ActiveLease { task, reservation, .. } = active;
        self.counters.completed += 1;
        self.budgets.completed(&lease.url);
        // A refetch finds the same links again, but links that are new now were not counted before.
        self.counters.links_new += new;
        if !task.is_refetch {
            self.counters.count_outcome(&outcome);
            self.counters.truncated += u64::from(truncated && outcome == Outcome::Page);
            self.record_failed_sitemap(&lease.url, &outcome);
            self.counters.links_seen += seen;
            self.counters.count_rejected(rejected_links);
            // The pages that link to a domain are counted once.
            if !task.was_visited {
                self.count_links(&linked_domains);
            }
        }
        let is_page = outcome == Outcome::Page && !task.is_refetch;
        let page_number = self.budgets.commit(&task.url, reservation, is_page, bytes);
        let page_number = page_number.map(|number| self.counters.earlier_pages + number);
        let sequence = self.record_writes(page_number, writes);
        if page_number.is_some() {
            for (key, pages) in self.budgets.pages_of_groups(&task.url) {
                self.storage.set_group_pages(&key, pages)?;
            }
        }
        let (id, depth) = (self.storage.id(&task.url), self.storage.depth(&task));
        let visits = self.visits_after(&lease, &outcome, response, &request);
        // One that is a duplicate now has another body than the stored one.
        let is_replaced = task.was_visited && outcome.is_duplicate();
        if (visits.is_gone() || is_replaced) && !task.is_refetch {
            self.remove_content(id)?;
        }
        let at = unix_millis();
        let due = self.due_again(&task, &outcome, &visits, at);
        self.storage.complete(id, &task, CompletedUrl { outcome: &outcome, depth, page_number, visits, at });
        due.into_iter().for_each(|due| self.schedule(id, &task, due));
        // Found at a smaller depth while it was leased: its links were admitted with too large a depth.
        if depth < lease.depth && outcome.has_links() {
            let (redirects, from, queued_at) = (task.redirects, Some(task.from), unix_millis());
            let (source_link, discovery) = (task.source_link.as_deref(), task.discovery.as_ref());
            let (url, is_refetch) = (&*task.url, true);
            let again =
                NewTask { url, depth, redirects, from, is_refetch, queued_at, source_link, discovery };
            self.enqueue(id, again);
            self.fill_url_queue()?;
        }
        self.waiting.release(&task.url, ended, &self.cooldowns);
        Ok(CompleteResult::Applied { id: page_number, sequence, new, exhausted: self.budgets.exhausted() })
    }

    /// Counts a page that links to these domains.
    fn count_links(&mut self, domains: &[Domain]) {
        self.popularity.count_page(domains);
        for domain in domains {
            self.storage.set_linking_pages(domain, self.popularity.linking_pages(domain));
        }
    }

    /// Stores what a URL adds to the outputs, under the next number.
    fn record_writes(&mut self, page: Option<u64>, writes: Vec<(usize, OutputWrite)>) -> Option<u64> {
        if writes.is_empty() {
            return None;
        }
        self.counters.output_writes += 1;
        self.storage.record_writes(self.counters.output_writes, page, writes);
        Some(self.counters.output_writes)
    }

    fn end_lease(&mut self, task_id: TaskId) -> Option<ActiveLease> {
        let active = self.leases.remove(&task_id)?;
        *self.leased_to(active.worker) -= 1;
        self.storage.end_lease(task_id);
        Some(active)
    }

    /// Learns from the outcome of a URL whether its host can be reached.
    fn judge_host(&mut self, url: &str, outcome: &Outcome) {
        let Some(health) = self.waiting.health(url) else { return };
        if outcome.is_response() {
            health.responded();
            self.unreachable_hosts.remove(throttle_key(url));
        } else if outcome.is_host_failure() {
            let cause = outcome.to_string();
            let is_given_up = health.failed(&cause, &self.config.hosts);
            let host = throttle_key(url).to_owned();
            self.waiting.add_event(HostEvent::Failed { host, cause: cause.clone(), is_given_up });
            if is_given_up && self.unreachable_hosts.len() < MAX_UNREACHABLE_NAMED {
                self.unreachable_hosts.insert(throttle_key(url).to_owned(), cause);
            }
        }
    }

    fn record_failed_sitemap(&mut self, url: &str, outcome: &Outcome) {
        if let Outcome::SitemapFailed { cause, .. } = outcome
            && self.failed_sitemaps.len() < MAX_FAILED_SITEMAPS_NAMED
        {
            self.failed_sitemaps.insert(shown_url(url).to_owned(), cause.clone());
        }
    }

    /// Ends a lease, and lets the URL wait for its host's next turn.
    fn retry(&mut self, lease: &Lease, bytes: BodyBytes, site_cooldown: Duration) {
        let Some(mut active) = self.end_lease(lease.task_id) else { return };
        self.budgets.commit(&lease.url, active.reservation, false, bytes);
        active.task.attempts += 1;
        if let Some(health) = self.waiting.health(&lease.url) {
            health.pause();
        }
        self.requeue_ended(active, site_cooldown);
    }

    /// Lets the URL of a lease that has ended wait in front of the other URLs of its host.
    fn requeue_ended(&mut self, active: ActiveLease, site_cooldown: Duration) {
        let (ended, url) = (active.ended(site_cooldown), Arc::clone(&active.task.url));
        self.waiting.requeue(active.task, active.lease_id, &self.cooldowns);
        self.waiting.release(&url, ended, &self.cooldowns);
    }

    pub(crate) fn set_host_delay(&mut self, host: &str, host_delay: HostDelay) -> Result<(), BackendError> {
        self.restore_host_delay(host, host_delay);
        self.storage.set_host_delay(host, host_delay)
    }

    pub(crate) fn pin_address_kinds(
        &mut self,
        host: &str,
        kinds: AddressKinds,
    ) -> Result<AddressKinds, BackendError> {
        if let Some(pinned) = self.address_kinds.get(host) {
            return Ok(*pinned);
        }
        self.address_kinds.insert(host.to_owned(), kinds);
        self.storage.set_address_kinds(host, kinds)?;
        Ok(kinds)
    }

    /// Who has something to do now.
    pub(crate) fn work(&mut self) -> Work {
        self.prioritize_known();
        Work {
            prioritizer: self.can_prioritize(),
            is_finished: self.unfinished() == 0,
            workers: self.waiting.take_workers_to_wake(),
            events: self.waiting.take_events(),
        }
    }

    /// The HTTP requests sent, and the body bytes counted.
    pub(crate) fn traffic(&self) -> (u64, BodyBytes) {
        (self.counters.requests.total(), self.budgets.bytes())
    }

    /// The hosts of which the most URLs wait, and why they wait.
    fn waiting_hosts(&mut self) -> Vec<WaitingHost> {
        let mut hosts = self.waiting.most_waiting(&self.cooldowns);
        if self.clock.is_paused() {
            hosts.iter_mut().for_each(|host| host.why = WaitReason::Paused);
        }
        hosts
    }

    /// Why the pending URLs of a host wait, if that is known.
    pub(crate) fn wait_reason(&self, host: &str) -> Option<WaitReason> {
        match self.clock.is_paused() {
            true => Some(WaitReason::Paused),
            false => self.waiting.reason_of(host, &self.cooldowns),
        }
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        let (stored_pages, stored_bytes) = self.content.pages_and_bytes();
        let waiting_hosts = self.waiting_hosts();
        Snapshot {
            admitted: self.counters.admitted,
            completed: self.counters.completed,
            refetches: self.counters.refetches,
            outcomes: self.counters.outcomes.clone(),
            links_new: self.counters.links_new,
            links_seen: self.counters.links_seen,
            links_rejected: self.counters.links_rejected.clone(),
            requests: self.counters.requests.total(),
            pages: self.budgets.pages(),
            bytes: self.budgets.bytes().decoded,
            received: self.budgets.bytes().received,
            url_queue: self.url_queue.len() + self.reprioritizing.len(),
            overflow: self.storage.overflow_len() + self.requisites.len + self.waiting.requisites(),
            priority_queues: self.waiting.lengths().to_vec(),
            workers: (0..=u16::MAX)
                .zip(&self.leased)
                .map(|(id, leased)| WorkerLoad {
                    domains: self.waiting.domains_of(WorkerId(id)),
                    leased: *leased,
                })
                .collect(),
            owned_domains: self.waiting.owned_domains(),
            unreachable_hosts: self.unreachable_hosts.clone(),
            waiting_hosts,
            network_down: None,
            active_hosts: self.waiting.active_hosts(),
            sitemap_urls: self.counters.sitemap_urls,
            truncated: self.counters.truncated,
            failed_sitemaps: self.failed_sitemaps.clone(),
            seen_urls: self.storage.seen_len(),
            stored_pages,
            stored_bytes,
            visit: if self.config.visits.are_kept { self.counters.visit() } else { 0 },
            scheduled: self.storage.scheduled_len(),
            next_due: self.next_due,
            prioritizer_service: None,
        }
    }
}

#[cfg(test)]
mod tests;
