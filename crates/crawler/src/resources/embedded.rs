//! The queues and storages of a crawl in this process: everything in memory, behind one lock.

mod budgets;
mod contents;
mod domains;
mod link_storage;
mod rests;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use url::Url;

use self::budgets::Budgets;
use self::contents::{Contents, compress, decompress};
use self::domains::{Domains, Place};
use self::link_storage::{LinkStorage, Met};
use self::rests::Rests;
use super::{
    Admitted, Budget, Completed, Completion, Found, Grant, Incoming, Lease, Pacing, Remembered, Resources,
    Snapshot, Ticket, Trouble, WorkerId,
};
use crate::domain::Domain;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::prioritizer::{Popularity, Priority, Queues};
use crate::task::Depth;
use crate::worker::similarity::{Fingerprint, Key, Threshold};

/// What a crawl's resources are told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The most URLs the URL queue, each priority queue and each worker's queue hold.
    pub queue_size: usize,
    /// The priority queues.
    pub priority_queues: Queues,
    /// How many workers there are.
    pub workers: u16,
    /// How long link storage remembers a URL.
    pub ttl: Duration,
    /// How long a domain belongs to its worker after its last use.
    pub domain_ttl: Duration,
    /// Whether depths must be exact, because there is a limit to them.
    pub keep_depths: bool,
    /// How alike pages must be to count as one; `None` lets every page count.
    pub similarity: Option<Threshold>,
    /// Whether pages are stored, or only what recognises them.
    pub keep_content: bool,
    /// The most pages kept.
    pub max_pages: u64,
    /// The most body bytes read.
    pub max_bytes: u64,
    /// The most body bytes one request may read.
    pub max_page_bytes: u64,
    /// The most pages kept of one host.
    pub max_pages_per_host: u64,
}

/// A crawl's resources in memory.
pub struct Embedded {
    state: Mutex<State>,
    key: Key,
    keep_content: bool,
    /// Something may be ready for the prioritizer: a URL admitted, or room in the priority queues.
    prioritizer: Notify,
    /// Something may be ready for the router: a URL filed, or room in a worker's queue; or all is done.
    router: Notify,
    /// Something is ready for each worker.
    workers: Vec<Notify>,
}

/// An outstanding URL, wherever it waits.
#[derive(Debug)]
struct Item {
    ticket: Ticket,
    url: Box<str>,
    id: u64,
    depth: Depth,
    redirects: u8,
    again: bool,
    /// Known from the prioritizer on; the many that wait before it do without.
    domain: Option<Domain>,
}

impl Item {
    fn domain(&self) -> Domain {
        self.domain.clone().unwrap_or_else(|| Domain::of_text(&self.url))
    }
}

struct Loan {
    item: Item,
    worker: WorkerId,
    number: u64,
    reserved: Option<u64>,
}

struct State {
    settings: Settings,
    links: LinkStorage,
    /// The ids of all outstanding URLs, wherever they are.
    outstanding: HashSet<u64>,
    popularity: Popularity,
    next_ticket: u64,
    next_loan: u64,
    url_queue: VecDeque<Item>,
    overflow: VecDeque<Item>,
    prioritizing: HashMap<Ticket, Item>,
    priority_queues: Vec<VecDeque<Item>>,
    domains: Domains,
    /// A worker's queue; `None` while the worker is not there.
    worker_queues: Vec<Option<VecDeque<Item>>>,
    /// What dead workers had, to be routed anew.
    returned: VecDeque<Item>,
    loans: HashMap<Ticket, Loan>,
    contents: Contents,
    budgets: Budgets,
    rests: Rests,
    admitted: u64,
    completed: u64,
    revisits: u64,
    outcomes: BTreeMap<&'static str, u64>,
    links_new: u64,
    links_known: u64,
    links_refused: BTreeMap<&'static str, u64>,
    /// Workers whose queues got something since they were last called.
    called: HashSet<WorkerId>,
}

impl Embedded {
    /// Empty resources.
    pub fn new(settings: Settings) -> Embedded {
        let workers = usize::from(settings.workers);
        let keep_content = settings.keep_content;
        let state = State {
            links: LinkStorage::new(settings.ttl, settings.keep_depths),
            outstanding: HashSet::new(),
            popularity: Popularity::new(),
            next_ticket: 1,
            next_loan: 1,
            url_queue: VecDeque::new(),
            overflow: VecDeque::new(),
            prioritizing: HashMap::new(),
            priority_queues: (0..settings.priority_queues.count()).map(|_| VecDeque::new()).collect(),
            domains: Domains::new(settings.domain_ttl),
            worker_queues: (0..workers).map(|_| Some(VecDeque::new())).collect(),
            returned: VecDeque::new(),
            loans: HashMap::new(),
            contents: Contents::new(settings.similarity, settings.keep_content, settings.ttl),
            budgets: Budgets::new(&settings),
            rests: Rests::default(),
            admitted: 0,
            completed: 0,
            revisits: 0,
            outcomes: BTreeMap::new(),
            links_new: 0,
            links_known: 0,
            links_refused: BTreeMap::new(),
            called: HashSet::new(),
            settings,
        };
        Embedded {
            state: Mutex::new(state),
            key: Key::new(secret()),
            keep_content,
            prioritizer: Notify::new(),
            router: Notify::new(),
            workers: (0..workers).map(|_| Notify::new()).collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, workers: impl IntoIterator<Item = WorkerId>) {
        for WorkerId(worker) in workers {
            self.workers[usize::from(worker)].notify_one();
        }
    }
}

impl Resources for Embedded {
    async fn admit(&self, found: Vec<Found>) -> Result<Admitted, Trouble> {
        let admitted = self.state().admit(found);
        self.prioritizer.notify_one();
        Ok(admitted)
    }

    async fn incoming(&self, max: usize, wait: Duration) -> Result<Vec<Incoming>, Trouble> {
        let incoming = self.state().incoming(max);
        if !incoming.is_empty() || wait.is_zero() {
            return Ok(incoming);
        }
        // Whoever was called and found nothing is called again by the next change.
        let _ = timeout(wait, self.prioritizer.notified()).await;
        Ok(self.state().incoming(max))
    }

    async fn file(&self, filed: Vec<(Ticket, Priority)>) -> Result<(), Trouble> {
        self.state().file(filed);
        self.router.notify_one();
        Ok(())
    }

    async fn route(&self, draws: Vec<Priority>, wait: Duration) -> Result<usize, Trouble> {
        let mut routed = self.state().route(&draws);
        if routed.moved == 0 && !wait.is_zero() {
            let _ = timeout(wait, self.router.notified()).await;
            routed = self.state().route(&draws);
        }
        if routed.moved > 0 {
            self.prioritizer.notify_one();
        }
        self.call(routed.to);
        Ok(routed.moved)
    }

    async fn lease(&self, worker: WorkerId, max: usize, wait: Duration) -> Result<Vec<Lease>, Trouble> {
        let mut leases = self.state().lease(worker, max);
        if leases.is_empty() && !wait.is_zero() {
            let _ = timeout(wait, self.workers[usize::from(worker.0)].notified()).await;
            leases = self.state().lease(worker, max);
        }
        if !leases.is_empty() {
            self.router.notify_one();
        }
        Ok(leases)
    }

    async fn reserve(&self, lease: &Lease, read: u64) -> Result<Grant, Trouble> {
        Ok(self.state().reserve(lease, read))
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<Completed>, Trouble> {
        let (completed, called) = {
            let mut state = self.state();
            let completed = completions.into_iter().map(|completion| state.complete(completion)).collect();
            (completed, std::mem::take(&mut state.called))
        };
        self.prioritizer.notify_one();
        self.router.notify_one();
        self.call(called);
        Ok(completed)
    }

    async fn pace(&self, host: &str, pacing: Pacing) -> Result<(), Trouble> {
        self.state().rests.note(host.to_owned(), pacing);
        Ok(())
    }

    async fn wrote(&self, _last_id: u64, _lengths: Vec<u64>) -> Result<(), Trouble> {
        Ok(())
    }

    fn key(&self) -> Key {
        self.key
    }

    async fn remember(
        &self,
        url: &str,
        fingerprint: &Fingerprint,
        body: &[u8],
    ) -> Result<Remembered, Trouble> {
        let stored = if self.keep_content { compress(body)? } else { Box::default() };
        let mut state = self.state();
        let id = state.links.id(url);
        Ok(state.contents.remember(id, url, fingerprint, stored))
    }

    async fn content(&self, url: &str) -> Result<Option<Vec<u8>>, Trouble> {
        let stored = {
            let state = self.state();
            state.contents.body(state.links.id(url))
        };
        stored.map(|body| decompress(&body)).transpose()
    }

    async fn outstanding(&self) -> Result<u64, Trouble> {
        let state = self.state();
        Ok(state.admitted - state.completed)
    }

    async fn spent(&self) -> Result<Option<Budget>, Trouble> {
        Ok(self.state().budgets.spent())
    }

    async fn leave(&self, worker: WorkerId) -> Result<(), Trouble> {
        self.state().leave(worker);
        self.router.notify_one();
        Ok(())
    }

    async fn snapshot(&self) -> Result<Snapshot, Trouble> {
        Ok(self.state().snapshot())
    }
}

impl State {
    fn admit(&mut self, found: Vec<Found>) -> Admitted {
        if self.links.is_due() {
            self.links.forget(&self.outstanding);
        }
        let mut admitted = Admitted::default();
        for found in found {
            let id = self.links.id(&found.url);
            match self.links.meet(id, found.depth) {
                Met::Known => admitted.known += 1,
                Met::New => {
                    admitted.new += 1;
                    self.enqueue(id, found, false);
                }
                Met::Nearer => {
                    admitted.known += 1;
                    // While it is outstanding, the smaller depth is looked up when it is lent. Once it has been
                    // completed, its links have to be followed anew, from nearer.
                    if !self.outstanding.contains(&id) {
                        self.revisits += 1;
                        self.enqueue(id, found, true);
                    }
                }
            }
        }
        self.fill_url_queue();
        admitted
    }

    fn enqueue(&mut self, id: u64, found: Found, again: bool) {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.admitted += 1;
        self.outstanding.insert(id);
        let (url, depth, redirects) = (found.url.into_boxed_str(), found.depth, found.redirects);
        // Always at the end of what waits already, so that the order is kept.
        self.overflow.push_back(Item { ticket, url, id, depth, redirects, again, domain: None });
    }

    fn fill_url_queue(&mut self) {
        let room = self.settings.queue_size.saturating_sub(self.url_queue.len());
        let fits = room.min(self.overflow.len());
        self.url_queue.extend(self.overflow.drain(..fits));
        if self.overflow.is_empty() {
            self.overflow.shrink_to(self.settings.queue_size);
        }
    }

    fn incoming(&mut self, max: usize) -> Vec<Incoming> {
        // No more than fit into one priority queue, should they all have the same priority.
        let fullest = self.priority_queues.iter().map(VecDeque::len).max().unwrap_or(0);
        let room = self.settings.queue_size.saturating_sub(fullest + self.prioritizing.len());
        let count = max.min(room).min(self.url_queue.len());
        let taken: Vec<Item> = self.url_queue.drain(..count).collect();
        self.fill_url_queue();
        let lent = taken.into_iter().map(|mut item| {
            let domain = Domain::of_text(&item.url);
            item.domain = Some(domain.clone());
            let linking_pages = self.popularity.linking_pages(&domain);
            let incoming =
                Incoming { ticket: item.ticket, domain, depth: self.depth_of(&item), linking_pages };
            (incoming, item)
        });
        let (incoming, items): (Vec<_>, Vec<_>) = lent.unzip();
        self.prioritizing.extend(items.into_iter().map(|item| (item.ticket, item)));
        incoming
    }

    fn depth_of(&self, item: &Item) -> Depth {
        self.links.depth(item.id).map_or(item.depth, |smallest| smallest.min(item.depth))
    }

    fn file(&mut self, filed: Vec<(Ticket, Priority)>) {
        for (ticket, priority) in filed {
            // One that is not on loan was filed before.
            if let Some(item) = self.prioritizing.remove(&ticket) {
                let queue = self.settings.priority_queues.of(priority);
                self.priority_queues[queue].push_back(item);
            }
        }
    }

    fn route(&mut self, draws: &[Priority]) -> Routed {
        let mut routed = Routed { moved: 0, to: HashSet::new() };
        // What a dead worker left goes first, to be where it would be by now.
        while let Some(item) = self.returned.pop_front() {
            if let Err(item) = self.place(item, &mut routed) {
                self.returned.push_front(item);
                break;
            }
        }
        let mut held_back = vec![false; self.priority_queues.len()];
        for draw in draws {
            loop {
                let has_tasks = |queue: usize| !held_back[queue] && !self.priority_queues[queue].is_empty();
                let Some(queue) = self.settings.priority_queues.first_from(*draw, has_tasks) else {
                    return routed;
                };
                let Some(item) = self.priority_queues[queue].pop_front() else { return routed };
                match self.place(item, &mut routed) {
                    Ok(()) => break,
                    Err(item) => {
                        self.priority_queues[queue].push_front(item);
                        held_back[queue] = true;
                    }
                }
            }
        }
        routed
    }

    /// Puts a URL where the domain table says; gives it back if there is no room.
    fn place(&mut self, item: Item, routed: &mut Routed) -> Result<(), Item> {
        let domain = item.domain();
        let lengths: Vec<Option<usize>> =
            self.worker_queues.iter().map(|queue| queue.as_ref().map(VecDeque::len)).collect();
        match self.domains.place(&domain, &lengths, self.settings.queue_size) {
            Place::Queue(worker) => {
                self.domains.hold(&domain, worker);
                self.worker_queue(worker).push_back(item);
                routed.to.insert(worker);
            }
            Place::Wait => self.domains.wait(&domain, item),
            Place::NoRoom => return Err(item),
        }
        routed.moved += 1;
        Ok(())
    }

    fn worker_queue(&mut self, worker: WorkerId) -> &mut VecDeque<Item> {
        self.worker_queues[usize::from(worker.0)].get_or_insert_default()
    }

    fn lease(&mut self, worker: WorkerId, max: usize) -> Vec<Lease> {
        let queue = self.worker_queue(worker);
        let count = max.min(queue.len());
        let items: Vec<Item> = queue.drain(..count).collect();
        let mut leases = Vec::with_capacity(count);
        for item in items {
            let loan = self.next_loan;
            self.next_loan += 1;
            leases.push(Lease {
                ticket: item.ticket,
                loan,
                url: item.url.to_string(),
                depth: self.depth_of(&item),
                redirects: item.redirects,
                again: item.again,
                rest: self.rests.of(&item.url),
            });
            self.loans.insert(item.ticket, Loan { item, worker, number: loan, reserved: None });
        }
        self.feed(worker);
        leases
    }

    /// Brings what waits for its domain's share into a worker's queue, as far as there is room.
    fn feed(&mut self, worker: WorkerId) {
        let room = self.settings.queue_size.saturating_sub(self.worker_queue(worker).len());
        let fed = self.domains.feed(worker, room);
        self.worker_queue(worker).extend(fed);
    }

    fn reserve(&mut self, lease: &Lease, read: u64) -> Grant {
        let Some(loan) = self.loans.get_mut(&lease.ticket).filter(|loan| loan.number == lease.loan) else {
            return Grant::Lost;
        };
        self.budgets.settle(&lease.url, loan.reserved.take(), false, read);
        let grant = self.budgets.reserve(&lease.url);
        if let Grant::Bytes(bytes) = grant {
            loan.reserved = Some(bytes);
        }
        grant
    }

    fn complete(&mut self, completion: Completion) -> Completed {
        let Completion { lease, outcome, bytes, children, linked, refused, output: _, pacing } = completion;
        if self.loans.get(&lease.ticket).is_none_or(|loan| loan.number != lease.loan) {
            return Completed::Refused;
        }
        // Children go in before the parent completes, so "outstanding" reaches zero only at the end.
        let Admitted { new, known } = self.admit(children);
        self.popularity.count_page(&linked);
        let Some(Loan { item, worker, reserved, .. }) = self.loans.remove(&lease.ticket) else {
            return Completed::Refused;
        };
        self.links.touch(item.id);
        self.outstanding.remove(&item.id);
        self.completed += 1;
        let kept = outcome == Outcome::Kept && !item.again;
        if !item.again {
            *self.outcomes.entry(outcome.label()).or_default() += 1;
            self.links_new += new;
            self.links_known += known;
            for (reason, count) in refused {
                *self.links_refused.entry(reason).or_default() += count;
            }
        }
        if let Some(pacing) = pacing {
            self.rests.note(paced_host(&item.url), pacing);
        }
        let id = self.budgets.settle(&item.url, reserved, kept, bytes);
        self.domains.release(&item.domain());
        self.feed(worker);
        self.called.insert(worker);
        Completed::Done { id, new }
    }

    fn leave(&mut self, worker: WorkerId) {
        let lost: Vec<Ticket> =
            self.loans.iter().filter(|(_, loan)| loan.worker == worker).map(|(ticket, _)| *ticket).collect();
        let mut returned: Vec<Item> = Vec::new();
        for ticket in lost {
            if let Some(loan) = self.loans.remove(&ticket) {
                self.budgets.give_back(&loan.item.url, loan.reserved);
                returned.push(loan.item);
            }
        }
        returned.extend(self.worker_queues[usize::from(worker.0)].take().unwrap_or_default());
        returned.extend(self.domains.free(worker));
        returned.sort_by_key(|item| item.ticket);
        self.returned.extend(returned);
    }

    fn snapshot(&self) -> Snapshot {
        let on_loan =
            |worker: usize| self.loans.values().filter(|loan| usize::from(loan.worker.0) == worker).count();
        let workers = self.worker_queues.iter().enumerate();
        Snapshot {
            admitted: self.admitted,
            completed: self.completed,
            revisits: self.revisits,
            outcomes: self.outcomes.clone(),
            links_new: self.links_new,
            links_known: self.links_known,
            links_refused: self.links_refused.clone(),
            pages: self.budgets.pages(),
            bytes: self.budgets.bytes(),
            url_queue: (self.url_queue.len(), self.overflow.len()),
            priority_queues: self.priority_queues.iter().map(VecDeque::len).collect(),
            workers: workers
                .map(|(index, queue)| (queue.as_ref().map_or(0, VecDeque::len), on_loan(index)))
                .collect(),
            waiting: self.domains.waiting() + self.returned.len(),
            owned_domains: self.domains.owned(),
            active_hosts: self
                .loans
                .values()
                .map(|loan| host_of(&loan.item.url))
                .collect::<HashSet<_>>()
                .len(),
            known: self.links.len(),
            stored: self.contents.stored(),
        }
    }
}

/// What a routing led to.
struct Routed {
    moved: usize,
    to: HashSet<WorkerId>,
}

/// Host and port of a normalised URL, as it writes them.
fn host_of(url: &str) -> &str {
    url.split('/').nth(2).unwrap_or("")
}

/// The host of a URL as the unit of pacing.
fn paced_host(url: &str) -> String {
    Url::parse(url).map(|url| Origin::of(&url).paced_host()).unwrap_or_default()
}

/// A secret nobody can guess, from the system's own source of them.
fn secret() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(0u8));
    half() << 64 | half()
}
