//! The worker: leases URLs from its own queue, visits them host by host, and does with each page what is to be done.

mod host_queues;
mod lease_budget;
pub mod liveness;
pub mod parsed_page;
pub mod rebalance;
mod transfers;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use url::Url;

use self::host_queues::HostQueues;
use self::lease_budget::{InFlightPermit, LeaseBudget};
use self::parsed_page::ParsedPage;
use self::rebalance::RebalanceRequests;
use self::transfers::PendingTransfers;
use crate::backend::{
    Backend, BackendError, BudgetDecision, CompleteResult, Completion, ContentMatch, DiscoveredUrl, Lease,
    WorkerId,
};
use crate::config::MAX_REDIRECTS;
use crate::domain::Domain;
use crate::fetch::fetcher::{FetchResult, Fetcher};
use crate::fetch::http::Download;
use crate::html;
use crate::modules::page_pipeline::PagePipeline;
use crate::origin::throttle_key;
use crate::outcome::Outcome;
use crate::page::Page;
use crate::scope::{RejectReason, Scope};
use crate::stop::StopHandle;
use crate::task::Depth;

/// How long a worker waits for leases before it looks again by itself.
const WAIT: Duration = Duration::from_millis(500);

/// How many leases are taken at a time.
const BATCH: usize = 256;

/// How many pages modules that block see at a time: enough to wait for many, few enough to leave threads for the
/// look-up of names, which blocks as well.
const MODULE_CALLS: usize = 64;

/// How long the end of a crawl waits for modules to be done with their pages.
const MODULE_PATIENCE: Duration = Duration::from_secs(2);

/// What every worker of a crawl goes by.
pub struct WorkerContext<R> {
    /// Where the URLs are.
    pub backend: Arc<R>,
    /// What is done with pages.
    pub installed: Arc<PagePipeline>,
    /// Where the crawl stays.
    pub scope: Scope,
    /// How deep it goes.
    pub max_depth: Depth,
    /// The largest page where the budget does not matter.
    pub max_page_bytes: usize,
    /// Whether pages that are like others are dropped.
    pub compare: bool,
    /// The most leases a worker has in hand: as many as its queue holds.
    pub in_hand: usize,
    /// Ends it.
    pub stop: StopHandle,
}

/// One worker.
pub struct Worker<R> {
    id: WorkerId,
    fetcher: Fetcher,
    context: Arc<WorkerContext<R>>,
    /// Places for URLs between their request and their completion: as many as may be in flight, and as many
    /// again whose completion is under way. What a kill makes repeat is bounded by that.
    places: Arc<Semaphore>,
    module_calls: Semaphore,
    burden: Arc<RebalanceRequests>,
}

/// A lease that was served: its host is free, its completion is still to come.
struct FetchedLease {
    host: String,
    /// `None` where the crawl ended first; the URL stays outstanding then.
    done: Option<Completion>,
    place: Option<InFlightPermit>,
}

impl<R: Backend> Worker<R> {
    /// A worker with a visitor of its own: nobody else asks the hosts it asks.
    pub fn new(id: WorkerId, fetcher: Fetcher, context: Arc<WorkerContext<R>>) -> Worker<R> {
        let places = fetcher.config().concurrency.clamp(1, Semaphore::MAX_PERMITS / 2) * 2;
        let (places, module_calls) = (Arc::new(Semaphore::new(places)), Semaphore::new(MODULE_CALLS));
        Worker { id, fetcher, context, places, module_calls, burden: Arc::default() }
    }

    /// How much it has in hand, and who shall take a part of it.
    pub fn rebalance_requests(&self) -> &Arc<RebalanceRequests> {
        &self.burden
    }

    /// Works until told to stop; what is in flight then is finished.
    ///
    /// Leases wait per host, as many of a host as may be are served at any time, and whichever host may be asked next
    /// is asked next: no host's delay, timeout or outage holds up another. A host is free for its next lease while
    /// the completion of its last is under way.
    pub async fn run(self: Arc<Self>) -> Result<(), BackendError> {
        let WorkerContext { backend, stop, in_hand, .. } = &*self.context;
        let mut hosts = HostQueues::new(self.fetcher.config().max_per_host);
        let (mut visits, mut endings) = (JoinSet::new(), JoinSet::new());
        let mut passing = PendingTransfers::new();
        loop {
            let room = in_hand.saturating_sub(hosts.waiting() + visits.len() + endings.len());
            tokio::select! {
                biased;
                () = stop.stop_requested() => break,
                Some(ended) = endings.join_next() => {
                    let host: String = joined(ended)?;
                    hosts.ended(&host);
                }
                Some(served) = visits.join_next() => {
                    let FetchedLease { host, done, place } = joined(served)?;
                    hosts.served(&host);
                    endings.spawn(Arc::clone(&self).complete(host, done, place));
                }
                passed = passing.next(), if passing.is_under_way() => {
                    passing.passed(passed?, &mut hosts);
                    passing.go_on(self.id, backend, &hosts, self.fetcher.throttle());
                }
                leases = backend.lease(self.id, room.min(BATCH), WAIT), if room > 0 => {
                    for lease in leases? {
                        let host = throttle_key(&lease.url).to_owned();
                        self.fetcher.throttle().cool_down(&host, lease.cooldown);
                        hosts.add(host, lease);
                    }
                }
            }
            passing.begin(&mut hosts, &self.burden.transfer_targets());
            self.burden.set_domains(hosts.domains());
            while let Some((host, lease)) = hosts.next() {
                visits.spawn(Arc::clone(&self).process_lease(host, lease));
            }
        }
        while let Some(served) = visits.join_next().await {
            let FetchedLease { host, done, place } = joined(served)?;
            endings.spawn(Arc::clone(&self).complete(host, done, place));
        }
        while let Some(ended) = endings.join_next().await {
            joined(ended)?;
        }
        Ok(())
    }

    /// A lease's life from its visit to the moment when all about its page is known.
    async fn process_lease(
        self: Arc<Self>,
        host: String,
        lease: Lease,
    ) -> Result<FetchedLease, BackendError> {
        let context = &*self.context;
        let budget = LeaseBudget::new(&*context.backend, &lease, &context.stop, &self.places);
        let mut done = Completion::new(&lease);
        done.outcome = match self.fetch(&lease, &budget).await {
            Err(outcome) => outcome,
            Ok((url, FetchResult::Redirect(location))) => {
                self.redirect(&url, &lease, &location, &mut done.outlinks)
            }
            Ok((url, FetchResult::Page(download))) => {
                self.process_page(url, &lease, download, &mut done).await?
            }
        };
        if done.outcome == Outcome::NotReached {
            return Ok(FetchedLease { host, done: None, place: None });
        }
        if let Outcome::TooLarge { limit } = done.outcome
            && limit < context.max_page_bytes
        {
            // It would have fit, had more been left: that is the end of the budget, and not of the URL.
            if let BudgetDecision::Exhausted(_) = context.backend.reserve(&lease, limit as u64).await? {
                context.stop.stop();
                return Ok(FetchedLease { host, done: None, place: budget.place() });
            }
        }
        done.bytes = budget.read();
        done.host_delay = self.fetcher.throttle().host_delay(&host);
        Ok(FetchedLease { host, done: Some(done), place: budget.place() })
    }

    async fn fetch(&self, lease: &Lease, budget: &LeaseBudget<'_, R>) -> Result<(Url, FetchResult), Outcome> {
        let url =
            Url::parse(&lease.url).map_err(|error| Outcome::InvalidResponse { cause: error.to_string() })?;
        let visit = self.fetcher.fetch(&url, budget).await?;
        Ok((url, visit))
    }

    /// Content, modules, links: what is done with a page that was downloaded.
    async fn process_page(
        &self,
        url: Url,
        lease: &Lease,
        download: Download,
        done: &mut Completion,
    ) -> Result<Outcome, BackendError> {
        let context = &*self.context;
        let content = ParsedPage::of(context.backend.hash_key(), url, lease.depth, download, context.compare);
        // What is visited again for its links was kept before.
        let remembered = match lease.is_revisit {
            true => ContentMatch::New,
            false => {
                context.backend.store_content(&lease.url, &content.fingerprint, &content.page.body).await?
            }
        };
        match remembered {
            ContentMatch::New => {}
            ContentMatch::Duplicate(of) => return Ok(Outcome::Duplicate { of }),
            ContentMatch::NearDuplicate(of) => return Ok(Outcome::NearDuplicate { of }),
        }
        if lease.depth < context.max_depth {
            (done.outlinks, done.rejected_links) = self.outlinks(&content, lease.depth + 1);
            done.linked_domains = linked_domains(&content.page.links);
        }
        if !lease.is_revisit {
            let Some(page) = self.run_modules(content.page).await else { return Ok(Outcome::NotReached) };
            done.writes = context.installed.render(&page);
        }
        Ok(Outcome::Page)
    }

    /// Shows a page to the modules; where one of them may block, on a thread where that holds up nothing else. Nothing
    /// comes back if the crawl ends and a module will not: the page stays to be done.
    async fn run_modules(&self, page: Page) -> Option<Page> {
        let WorkerContext { installed, stop, .. } = &*self.context;
        let installed = Arc::clone(installed);
        if !installed.is_blocking() {
            installed.run_modules(&page);
            return Some(page);
        }
        let seen = async {
            let _call = self.module_calls.acquire().await;
            let seen = tokio::task::spawn_blocking(move || {
                installed.run_modules(&page);
                page
            });
            seen.await
        };
        let out_of_patience = async {
            stop.stop_requested().await;
            tokio::time::sleep(MODULE_PATIENCE).await;
        };
        tokio::select! {
            biased;
            seen = seen => match seen {
                Ok(page) => Some(page),
                Err(failed) => std::panic::resume_unwind(failed.into_panic()),
            },
            () = out_of_patience => None,
        }
    }

    /// The end of a lease's life, whose host it tells. Its place is given up after that.
    async fn complete(
        self: Arc<Self>,
        host: String,
        done: Option<Completion>,
        _place: Option<InFlightPermit>,
    ) -> Result<String, BackendError> {
        let Some(done) = done else { return Ok(host) };
        let WorkerContext { installed, backend, stop, .. } = &*self.context;
        // One that is visited again for its links has been told of before.
        if !done.lease.is_revisit {
            installed.report_outcome(&done.outcome, &done.lease);
        }
        // It stays to be done, by whoever can write it.
        if !installed.write_parts(&done) {
            stop.stop();
            return Ok(host);
        }
        let output = done.writes.clone();
        let completed = backend.complete(vec![done]).await?;
        if let Some(CompleteResult::Applied { id: Some(id), exhausted: spent, .. }) = completed.first() {
            // Nobody needs to wait for a host's turn to learn that there is nothing left to ask it for.
            if spent.is_some() {
                stop.stop();
            }
            // What an output does not take is not lost where the state is durable; to go on would be to no purpose.
            if !installed.write(*id, output) {
                stop.stop();
            }
        }
        Ok(host)
    }

    /// The links to be admitted, and how many are not, by reason.
    fn outlinks(
        &self,
        content: &ParsedPage,
        depth: Depth,
    ) -> (Vec<DiscoveredUrl>, BTreeMap<&'static str, u64>) {
        let mut refused = BTreeMap::new();
        let mut refuse = |why: RejectReason| *refused.entry(why.label()).or_default() += 1;
        let mut outlinks = Vec::with_capacity(content.page.links.len());
        for url in &content.page.links {
            match self.context.scope.check(url) {
                Ok(()) => outlinks.push(DiscoveredUrl { url: url.clone(), depth, redirects: 0 }),
                Err(why) => refuse(why),
            }
        }
        for bad in &content.bad_links {
            refuse(RejectReason::InvalidLink(*bad));
        }
        (outlinks, refused)
    }

    /// A redirect's target is checked like a link, and has the depth of the link that led to it.
    fn redirect(
        &self,
        url: &Url,
        lease: &Lease,
        location: &str,
        outlinks: &mut Vec<DiscoveredUrl>,
    ) -> Outcome {
        if lease.redirects >= MAX_REDIRECTS {
            return Outcome::TooManyRedirects;
        }
        let to = match html::resolve(url, location) {
            Ok(to) => String::from(to),
            Err(bad) => {
                return Outcome::RedirectRejected { to: String::new(), why: RejectReason::InvalidLink(bad) };
            }
        };
        match self.context.scope.check(&to) {
            Ok(()) => {
                let (depth, redirects) = (lease.depth, lease.redirects + 1);
                outlinks.push(DiscoveredUrl { url: to.clone(), depth, redirects });
                Outcome::Redirect { to }
            }
            Err(why) => Outcome::RedirectRejected { to, why },
        }
    }
}

/// The domains that a page links to, each once. Most links of a page share a host with the one before.
fn linked_domains(links: &[String]) -> Vec<Domain> {
    let (mut hosts, mut last) = (HashSet::new(), "");
    for link in links {
        let host = throttle_key(link);
        if host != last {
            hosts.insert(host);
            last = host;
        }
    }
    let mut domains: Vec<Domain> = hosts.into_iter().map(Domain::from_throttle_key).collect();
    domains.sort();
    domains.dedup();
    domains
}

/// A task that panicked takes the crawl with it: going on without its page would lose it silently.
fn joined<T>(served: Result<Result<T, BackendError>, tokio::task::JoinError>) -> Result<T, BackendError> {
    match served {
        Ok(served) => served,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
