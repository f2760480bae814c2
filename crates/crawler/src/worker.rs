//! The worker: leases URLs from its own queue, fetches them host by host, and processes each page.

mod capacity;
mod completion;
mod domain_claims;
mod exchanges;
mod host_queues;
mod lease_budget;
mod links;
pub mod live_scope;
pub mod liveness;
pub mod parsed_page;
mod probes;
mod recording;
mod requisites;
mod sitemaps;
mod transfers;
mod versions;

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, UNIX_EPOCH};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use url::Url;

use self::capacity::{Capacity, LeaseActivity};
use self::completion::Completed;
use self::domain_claims::DomainClaims;
use self::exchanges::MAX_WAITING_EXCHANGE_BYTES;
use self::host_queues::HostQueues;
use self::lease_budget::{InFlightPermit, LeaseBudget};
use self::live_scope::SeedUpdates;
use self::parsed_page::ParsedPage;
use self::transfers::PendingTransfers;
use crate::backend::{Backend, BackendError, Completion, ContentMatch, Lease, WorkerId};
use crate::config::Oversize;
use crate::domain::Domain;
use crate::exchange::Exchange;
use crate::fetch::fetcher::{FetchResult, Fetcher};
use crate::fetch::http::{Download, PinKinds};
use crate::fetch::redirect;
use crate::fetch::request_gate::RequestGate;
use crate::log;
use crate::modules::page_pipeline::PagePipeline;
use crate::origin::throttle_key;
use crate::outcome::Outcome;
use crate::page::Page;
use crate::poll_once::poll_once;
use crate::similarity::Threshold;
use crate::statistics::counts::Stage;
use crate::stop::StopHandle;
use crate::task::Depth;
use crate::task_kind::{TaskKind, shown_url};

/// How long a worker waits for new leases before it polls again.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How many leases a worker takes at a time, so that the workers start the best URLs together.
const LEASE_BATCH: usize = 32;

/// How many pages blocking modules process at a time: enough to wait for many, few enough to leave threads
/// for DNS lookups, which block as well.
const MAX_MODULE_CALLS: usize = 64;

/// How many bytes of page bodies a worker processes and completes at a time. Links, lines of outputs and rows of a state
/// can take twenty times the size of their page.
const MAX_BODY_BYTES: usize = 2 << 20;

/// How many sitemaps a worker reads and completes at a time. Each can take some tens of megabytes.
const MAX_SITEMAPS_IN_FLIGHT: usize = 2;

/// How many bodies that are larger than a page a worker has in memory at a time.
const MAX_LARGE_FILES: usize = 4;

/// What all workers of a crawl share.
pub struct WorkerContext<R> {
    /// The queues and storages of the crawl.
    pub backend: Arc<R>,
    /// The modules and outputs that process pages.
    pub pipeline: Arc<PagePipeline>,
    /// Which URLs belong to the crawl, and whether requests may start.
    pub gate: Arc<RequestGate>,
    /// Where a worker learns of seeds that were added to the crawl, if other processes add them.
    pub seed_updates: Option<Arc<SeedUpdates>>,
    /// Links on pages of this depth are not followed.
    pub max_depth: Depth,
    /// The largest page, unless less is left of the byte budget.
    pub max_page_bytes: usize,
    /// What happens to a larger page.
    pub oversize: Oversize,
    /// How pages are compared; `None` if they are not.
    pub similarity: Option<Threshold>,
    /// Whether links on duplicates and near-duplicates are followed.
    pub follow_duplicates: bool,
    /// Whether it is remembered which version of a page was fetched.
    pub keeps_visits: bool,
    /// Whether sitemaps are used that a robots.txt names.
    pub uses_sitemaps: bool,
    /// Whether the prioritizer wants to know the links through which URLs are found.
    pub wants_source_links: bool,
    /// The most leases a worker holds: the size of its queue.
    pub max_leases: usize,
    /// Stops the workers.
    pub stop: StopHandle,
}

/// One worker.
pub struct Worker<R> {
    id: WorkerId,
    fetcher: Fetcher,
    context: Arc<WorkerContext<R>>,
    /// Permits for URLs between their first request and their completion: twice the number of concurrent
    /// requests, so that as many completions can be in progress. This bounds how many pages are fetched again
    /// after a kill.
    in_flight: Arc<Semaphore>,
    /// Permits for the bytes of pages between their download and their completion.
    body_bytes: Arc<Semaphore>,
    module_calls: Semaphore,
    /// Permits for sitemaps between their request and their completion.
    sitemaps: Arc<Semaphore>,
    /// Permits for bodies that are larger than a page, until their completion.
    large_files: Arc<Semaphore>,
    /// Permits for the bytes of exchanges of leases that wait for their next request.
    waiting_exchanges: Arc<Semaphore>,
    capacity: Arc<Capacity>,
    claims: Arc<DomainClaims>,
    /// The first error of the backend during a fetch.
    failure: Arc<OnceLock<BackendError>>,
}

/// A lease after its fetch: the next lease of its host can start, its completion is still to come.
struct FetchedLease {
    host: Arc<str>,
    /// `None` if the crawl stopped first. The URL stays pending then. If its outcome is that it was not reached, it is returned.
    completion: Option<Completion>,
    /// The page, for the modules and outputs.
    page: Option<Page>,
    /// The requests and responses, if an output archives them.
    exchanges: Vec<Exchange>,
    permits: Permits,
    /// The lease, if only another worker can fetch its URL.
    transfer: Option<(Lease, WorkerId)>,
}

impl FetchedLease {
    /// A lease for which no request was sent.
    fn without_request(host: Arc<str>, completion: Completion) -> FetchedLease {
        FetchedLease { completion: Some(completion), ..FetchedLease::not_reached(host) }
    }

    /// A lease that is not completed.
    fn not_reached(host: Arc<str>) -> FetchedLease {
        let (exchanges, permits) = (Vec::new(), Permits::default());
        FetchedLease { host, completion: None, page: None, exchanges, permits, transfer: None }
    }
}

/// What a lease holds until its completion.
#[derive(Default)]
struct Permits {
    _in_flight: Option<InFlightPermit>,
    _body_bytes: Option<OwnedSemaphorePermit>,
    _sitemap: Option<OwnedSemaphorePermit>,
    _large_file: Option<OwnedSemaphorePermit>,
}

impl<R: Backend> Worker<R> {
    /// A worker with its own fetcher. No other worker sends requests to its hosts.
    pub fn new(id: WorkerId, fetcher: Fetcher, context: Arc<WorkerContext<R>>) -> Worker<R> {
        let failure: Arc<OnceLock<BackendError>> = Arc::default();
        let fetcher = fetcher
            .with_pin(pin_kinds(Arc::clone(&context), Arc::clone(&failure)))
            .with_gate(Arc::clone(&context.gate));
        let permits = fetcher.config().concurrency.clamp(1, Semaphore::MAX_PERMITS / 2) * 2;
        let (in_flight, module_calls) = (Arc::new(Semaphore::new(permits)), Semaphore::new(MAX_MODULE_CALLS));
        Worker {
            id,
            fetcher,
            context,
            in_flight,
            body_bytes: Arc::new(Semaphore::new(MAX_BODY_BYTES)),
            module_calls,
            sitemaps: Arc::new(Semaphore::new(MAX_SITEMAPS_IN_FLIGHT)),
            large_files: Arc::new(Semaphore::new(MAX_LARGE_FILES)),
            waiting_exchanges: Arc::new(Semaphore::new(MAX_WAITING_EXCHANGE_BYTES)),
            capacity: Arc::default(),
            claims: Arc::default(),
            failure,
        }
    }

    /// Works until the crawl stops. Requests in flight finish.
    ///
    /// Leases are queued per host. Each host has up to `max_per_host` fetches at a time, and hosts take
    /// turns, so the delay, timeout or outage of a host does not hold up other hosts. A host's next fetch can
    /// start while its last page is being completed.
    pub async fn run(self: Arc<Self>) -> Result<(), BackendError> {
        let WorkerContext { backend, stop, max_leases, .. } = &*self.context;
        let mut hosts = HostQueues::new(self.fetcher.config().max_per_host);
        // The futures have several kilobytes, and are boxed because a `JoinSet` moves what it spawns a dozen times.
        let (mut fetches, mut completions) = (JoinSet::new(), JoinSet::new());
        let mut transfers = PendingTransfers::new(Arc::clone(&self.claims));
        // Leases without a request that are being completed.
        let mut skipped = 0;
        let mut stop_requested = pin!(stop.stop_requested());
        loop {
            let leased = hosts.waiting() + fetches.len() + completions.len() + skipped;
            let room = max_leases.saturating_sub(leased).min(self.room(hosts.waiting()));
            tokio::select! {
                biased;
                () = &mut stop_requested => break,
                Some(completed) = completions.join_next() => match joined(completed)? {
                    Completed::Fetched(host) => hosts.completed(&host),
                    Completed::Skipped(count) => skipped -= count,
                },
                Some(fetched) = fetches.join_next() => {
                    let mut fetched: FetchedLease = joined(fetched)?;
                    let host = Arc::clone(&fetched.host);
                    if let Some((lease, to)) = fetched.transfer.take() {
                        log::lease_returned(self.id, &lease.url);
                        hosts.put_back(&host, lease);
                        transfers.start_required(&mut hosts, Domain::from_throttle_key(&host), to);
                    } else {
                        hosts.fetched(&host);
                        let mut completing = Box::pin(Arc::clone(&self).complete(fetched));
                        // Mostly nothing has to be waited for, and a task costs more than that.
                        match poll_once(completing.as_mut()).await {
                            Some(completed) => {
                                completed?;
                                hosts.completed(&host);
                            }
                            None => drop(completions.spawn(completing)),
                        }
                    }
                }
                results = transfers.next(), if transfers.is_active() => {
                    transfers.apply_results(results?, &mut hosts);
                    transfers.send_idle_domains(self.id, backend, &hosts, self.fetcher.throttle());
                }
                () = self.capacity.freed(), if room == 0 => {}
                leases = backend.lease(self.id, room.min(LEASE_BATCH), POLL_INTERVAL), if room > 0 => {
                    let mut without_request = Vec::new();
                    for lease in leases? {
                        log::leased(self.id, &lease);
                        if lease.no_request.is_some() {
                            without_request.push(lease);
                            continue;
                        }
                        let url = Arc::clone(&lease.url);
                        let host = throttle_key(&url);
                        self.fetcher.throttle().cool_down(host, lease.cooldown);
                        hosts.add(host, lease);
                    }
                    if !without_request.is_empty() {
                        skipped += without_request.len();
                        let completed = Arc::clone(&self).complete_without_request(without_request);
                        completions.spawn(Box::pin(completed));
                    }
                }
            }
            while let Some((host, lease)) = hosts.next() {
                let activity = self.capacity.start();
                fetches.spawn(Box::pin(Arc::clone(&self).process_lease(host, lease, activity)));
            }
        }
        while let Some(fetched) = fetches.join_next().await {
            completions.spawn(Box::pin(Arc::clone(&self).complete(joined(fetched)?)));
        }
        while let Some(completed) = completions.join_next().await {
            joined(completed)?;
        }
        Ok(())
    }

    /// How many more leases the worker can work on soon: it has some more than requests can be in flight.
    fn room(&self, waiting: usize) -> usize {
        let concurrency = self.fetcher.config().concurrency;
        (concurrency + concurrency / 4 + 1).saturating_sub(self.capacity.active() + waiting)
    }

    /// Fetches a lease's URL and processes the response, up to but without the modules and the completion.
    async fn process_lease(
        self: Arc<Self>,
        host: Arc<str>,
        lease: Lease,
        activity: LeaseActivity,
    ) -> Result<FetchedLease, BackendError> {
        let budget = LeaseBudget::new(&self, &lease, activity);
        let (kind, mut completion) = (lease.kind(), Completion::new(&lease));
        let (mut page, mut body_bytes) = (None, None);
        if !self.knows_seed(&lease) && !self.learn_seeds().await {
            return Ok(FetchedLease::not_reached(host));
        }
        if let Err(why) = self.check_scope(&lease) {
            completion.outcome = Outcome::Rejected { why };
            return Ok(FetchedLease::without_request(host, completion));
        }
        let fetched = self.fetch(&lease, &budget).await;
        completion.request = budget.take_request();
        let exchanges = budget.take_exchanges();
        // An archive refers to the body of an earlier visit by the time of its request.
        if let Some(last) = exchanges.iter().rfind(|exchange| exchange.url == shown_url(&lease.url)) {
            completion.request.requested = Some(last.requested);
        }
        let archived: usize = exchanges.iter().map(Exchange::bytes).sum();
        if let Ok((_, FetchResult::Redirect(location))) = &fetched {
            completion.request.redirect_fragment = redirect::fragment(location).map(str::to_owned);
        }
        let url = fetched.as_ref().ok().map(|(url, _)| url);
        self.collect_robots_sitemaps(url, &lease, &mut completion);
        completion.outcome = match fetched {
            Err(outcome) => outcome,
            Ok((_, FetchResult::NotModified(validators))) => {
                completion.response.validators = validators;
                Outcome::Unchanged
            }
            Ok((url, FetchResult::Redirect(location))) if kind == TaskKind::Sitemap => {
                self.redirect_sitemap(&url, &lease, &location, &mut completion.sitemaps)
            }
            Ok((url, FetchResult::Page(download))) if kind == TaskKind::Sitemap => {
                let contents = budget.take_sitemap(&url).finish(!download.truncated);
                let outcome = self.process_sitemap(&lease, contents, &mut completion);
                // One that could not be read to its end is read again.
                if matches!(outcome, Outcome::Sitemap { .. }) {
                    completion.response.validators = self.validators(&download.headers);
                }
                outcome
            }
            Ok((url, FetchResult::Redirect(location))) if kind == TaskKind::Requisite => {
                self.redirect_requisite(&url, &lease, &location, &mut completion.requisites)
            }
            Ok((url, FetchResult::Page(download))) if kind == TaskKind::Requisite => {
                body_bytes = self.reserve_body_bytes(download.body.len() + archived).await;
                self.process_requisite(url, &lease, download, &mut completion)
            }
            Ok((url, result)) if kind == TaskKind::Probe => {
                self.probed(&url, &lease, result, &mut completion.outlinks)
            }
            Ok((url, FetchResult::Redirect(location))) => {
                self.redirect(&url, &lease, &location, &mut completion.outlinks)
            }
            Ok((url, FetchResult::Page(download))) => {
                body_bytes = self.reserve_body_bytes(download.body.len() + archived).await;
                let started = Instant::now();
                let (outcome, new_page) = self.process_page(url, &lease, download, &mut completion).await?;
                self.fetcher.recorder().record_stage(Stage::Process, started.elapsed());
                page = new_page;
                outcome
            }
        };
        if completion.outcome == Outcome::NotReached {
            budget.release().await;
        }
        if let Some(error) = self.failure.get() {
            return Err(error.clone());
        }
        if completion.outcome == Outcome::NotReached && budget.is_postponed() {
            completion.host_delay = self.fetcher.throttle().host_delay(&host);
            completion.site_cooldown = self.fetcher.throttle().site_cooldown_of(&host);
            return Ok(FetchedLease { exchanges, ..FetchedLease::without_request(host, completion) });
        }
        if completion.outcome == Outcome::NotReached {
            self.context.pipeline.add_unreached_exchanges(shown_url(&lease.url), &exchanges);
            let transfer = budget.other_worker().map(|other| (lease.clone(), other));
            return Ok(FetchedLease { transfer, ..FetchedLease::not_reached(host) });
        }
        if body_bytes.is_none() && archived > 0 {
            body_bytes = self.reserve_body_bytes(archived).await;
        }
        completion.bytes = budget.bytes_read();
        completion.host_delay = self.fetcher.throttle().host_delay(&host);
        completion.site_cooldown = self.fetcher.throttle().site_cooldown_of(&host);
        let permits = Permits { _body_bytes: body_bytes, ..budget.into_permits() };
        Ok(FetchedLease { host, completion: Some(completion), page, exchanges, permits, transfer: None })
    }

    /// Waits until a page of this size can be processed.
    async fn reserve_body_bytes(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = bytes.min(MAX_BODY_BYTES) as u32;
        // The semaphore is never closed.
        Arc::clone(&self.body_bytes).acquire_many_owned(bytes).await.ok()
    }

    async fn fetch(&self, lease: &Lease, budget: &LeaseBudget<'_, R>) -> Result<(Url, FetchResult), Outcome> {
        let url = Url::parse(shown_url(&lease.url))
            .map_err(|error| Outcome::InvalidResponse { cause: error.to_string() })?;
        let result = match lease.kind() {
            TaskKind::Probe => self.fetcher.probe(&url, budget).await?,
            _ => self.fetcher.fetch(&url, budget).await?,
        };
        Ok((url, result))
    }

    /// Compares a downloaded page with the stored ones and collects its links. Returns it if the modules are to get it.
    async fn process_page(
        &self,
        url: Url,
        lease: &Lease,
        download: Download,
        completion: &mut Completion,
    ) -> Result<(Outcome, Option<Page>), BackendError> {
        let context = &*self.context;
        completion.truncated = download.truncated;
        let (config, key) = (self.fetcher.config(), context.backend.hash_key());
        let mut wanted = context.pipeline.wants();
        wanted.link_details |= context.wants_source_links;
        wanted.requisites |= !self.fetcher.accepted().is_empty();
        let mut parsed = ParsedPage::new(key, url, lease.depth, download, context.similarity, wanted, config);
        parsed.page.lastmod = lease.lastmod.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds.into()));
        parsed.page.set_origin(lease.discovery.as_deref(), &completion.request);
        let is_saved = config.requests.save.check_filters(parsed.page.url.as_str()).is_ok();
        if !self.is_new_version(lease, parsed.fingerprint.exact, &mut parsed.page, completion) {
            return Ok((Outcome::Unchanged, None));
        }
        // A refetch only collects links: the page was stored by the first fetch. A page that is not saved must not make a duplicate
        // of one that is.
        let content_match = match lease.is_refetch || !is_saved {
            true => ContentMatch::New,
            false => {
                let (fingerprint, body) = (&parsed.fingerprint, &parsed.page.body);
                context.backend.store_content(&lease.url, fingerprint, body, lease.is_seed()).await?
            }
        };
        let links_followed = context.follow_duplicates;
        let dropped = match content_match {
            ContentMatch::New => None,
            ContentMatch::Duplicate(of) => Some(Outcome::Duplicate { of, links_followed }),
            ContentMatch::NearDuplicate(of) => Some(Outcome::NearDuplicate { of, links_followed }),
        };
        let is_followed = lease.depth < context.max_depth;
        let is_used = dropped.is_none() || links_followed;
        if is_used && (is_followed || self.checks_links()) {
            self.collect_links(&mut parsed, is_followed, completion);
            self.collect_requisite_probes(&mut parsed, completion);
        }
        if is_followed && is_used {
            self.collect_accepted(&parsed, completion);
        }
        if let Some(dropped) = dropped {
            return Ok((dropped, None));
        }
        if !is_saved {
            return Ok((Outcome::NotSaved, None));
        }
        self.collect_requisites(&parsed.page.url, &parsed.page.requisites, completion);
        Ok((Outcome::Page, (!lease.is_refetch).then_some(parsed.page)))
    }
}

/// Stores the kinds of address that a seed's host has in the backend. `None` if that fails, which stops the crawl.
fn pin_kinds<R: Backend>(context: Arc<WorkerContext<R>>, failure: Arc<OnceLock<BackendError>>) -> PinKinds {
    Arc::new(move |host, kinds| {
        let (context, failure) = (Arc::clone(&context), Arc::clone(&failure));
        Box::pin(async move {
            let pinned = context.backend.pin_address_kinds(&host, kinds).await;
            pinned.map_err(|error| record_failure(&failure, error, &context.stop)).ok()
        })
    })
}

/// Records an error of the backend, with which the worker returns, and stops the crawl so that nothing waits longer.
fn record_failure(failure: &OnceLock<BackendError>, error: BackendError, stop: &StopHandle) {
    failure.get_or_init(|| error);
    stop.stop();
}

/// The result of a task. A panic is passed on: continuing without the task's page would lose the page
/// silently.
fn joined<T>(result: Result<Result<T, BackendError>, tokio::task::JoinError>) -> Result<T, BackendError> {
    match result {
        Ok(result) => result,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
