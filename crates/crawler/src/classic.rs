//! The classic mode: saves all pages of one site within a number of links, level by level, as numbered files.

mod levels;
mod status;
mod task_budget;
mod url_rows;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use url::Url;

use self::levels::{Levels, LinkStatus};
use self::status::{ClassicStatus, ClassicStatusCallback, STATUS_INTERVAL, page_facts};
use self::task_budget::{TaskBudget, TaskRequests};
use self::url_rows::{ArchiveOutput, UrlCallback, UrlRows};
use crate::config::{FetchConfig, fetch_setters};
use crate::crawl_view::{CrawlPhase, CrawlView};
use crate::error::{Error, StorageError};
use crate::event::{Event, Observer, OutcomeObserver};
use crate::fetch::fetcher::{FetchResult, Fetcher};
use crate::fetch::http::Download;
use crate::fetch::proxy_health::ProxyHealth;
use crate::fetch::redirect;
use crate::fetch::robots::directives::RobotsDirectives;
use crate::fetch::robots::waits::RobotsWaits;
use crate::fetch::throttle::HostThrottle;
use crate::html::parts::PageParts;
use crate::html::start_tag::RequisiteKind;
use crate::html::{self, BadLink, LinkKind, PageHandler, normal_form};
use crate::log;
use crate::media::{AcceptedTypes, Media};
use crate::modules::OutputSpec;
use crate::modules::page_pipeline::OutcomeCallback;
use crate::modules::pages::PageFiles;
use crate::origin::without_credentials;
use crate::outcome::Outcome;
use crate::pipeline::CrawlEnd;
use crate::pipeline::local_run::{block_on, check_outside_runtime};
use crate::scope::{RejectReason, Scope};
use crate::statistics::Statistics;
use crate::statistics::counts::Stage;
use crate::stats::{RequestCounter, Stats};
use crate::stop::StopHandle;
use crate::strip_query::StripQuery;
use crate::task::{Admission, Depth, Task};
use crate::task_kind::TaskKind;
use crate::url_record::{Discovery, UrlRecord};

/// The default maximum size of a page. Pages are saved whole, so this only protects the memory.
const MAX_PAGE_BYTES: usize = 50_000_000;

/// A crawl of one site into a directory of numbered files: configure it, then run it.
///
/// ```no_run
/// # async fn example() -> Result<(), crawler::Error> {
/// use crawler::{ClassicCrawl, OutcomeGroup};
///
/// let report = ClassicCrawl::new("https://example.org/", "pages", 2)?.run().await?;
/// println!("{} pages saved, {} URLs failed", report.stats.pages, report.stats.in_group(OutcomeGroup::Failed));
/// # Ok(())
/// # }
/// ```
///
/// Page N is the file `N` in the directory: the URL on the first line, the depth on the second, then the decoded body.
/// By default the crawl stays on the seed's origin, obeys robots.txt, and waits one second between requests.
#[must_use = "a crawl does nothing until it runs"]
#[derive(Clone)]
pub struct ClassicCrawl {
    seed: Url,
    /// The seed with the credentials it was given with. Only the HTTP client may see them.
    seed_with_credentials: Url,
    directory: PathBuf,
    scope: Scope,
    max_depth: u32,
    config: FetchConfig,
    overwrite: bool,
    /// The file for the rows of all URLs.
    urls: Option<PathBuf>,
    on_url: Option<UrlCallback>,
    archive: Option<ArchiveOutput>,
    requests: RequestCounter,
    robots_waits: RobotsWaits,
    proxy_health: ProxyHealth,
    on_outcome: OutcomeCallback,
    on_status: Option<ClassicStatusCallback>,
    stop: StopHandle,
}

/// The report of a classic crawl.
#[derive(Debug)]
#[non_exhaustive]
pub struct ClassicReport {
    /// The counts.
    pub stats: Stats,
    /// The outcome of the seed, after its redirects.
    pub seed: Outcome,
    /// Whether the crawl was stopped before its end.
    pub stopped: bool,
    /// Statistics of requests and URLs.
    pub(crate) statistics: Arc<Statistics>,
    /// Why rows of URLs are missing, if some are.
    pub(crate) urls_failure: Option<String>,
    /// The summary of the archive, if there is one.
    pub(crate) archive: Option<String>,
}

impl ClassicCrawl {
    /// A crawl from a seed, an absolute http or https URL, into an existing directory, to a depth.
    pub fn new(seed: &str, directory: impl Into<PathBuf>, max_depth: u32) -> Result<ClassicCrawl, Error> {
        // The seed is not repeated in messages: it may contain a password.
        let invalid = |cause: &str| {
            Error::InvalidSetting(format!("the seed is {cause}; use an absolute http or https URL"))
        };
        let mut seed = Url::parse(seed).map_err(|error| invalid(&format!("not a URL ({error})")))?;
        if !matches!(seed.scheme(), "http" | "https") {
            return Err(invalid(&format!("a {} URL", seed.scheme())));
        }
        normal_form::normalize(&mut seed).map_err(|bad| invalid(&bad.to_string()))?;
        let (seed, seed_with_credentials) = (without_credentials(&seed), seed);
        let config = FetchConfig { max_page_bytes: MAX_PAGE_BYTES, ..FetchConfig::default() };
        let scope = Scope::origin(&seed);
        let (directory, stop) = (directory.into(), StopHandle::new());
        Ok(ClassicCrawl {
            seed,
            seed_with_credentials,
            directory,
            scope,
            max_depth,
            config,
            overwrite: false,
            urls: None,
            on_url: None,
            archive: None,
            requests: RequestCounter::default(),
            robots_waits: RobotsWaits::default(),
            proxy_health: ProxyHealth::default(),
            on_outcome: Arc::new(|_, _| {}),
            on_status: None,
            stop,
        })
    }

    fetch_setters!();

    /// Sets the maximum number of requests in flight; 1 by default. With 1, the delay runs from the end of a response to
    /// the next request; with more, from request to request.
    pub fn concurrency(mut self, requests: usize) -> ClassicCrawl {
        (self.config.concurrency, self.config.max_per_host) = (requests, requests);
        self
    }

    /// Sets the maximum size of a page in bytes, of what is received and of what it decodes to; 50 MB by default. A
    /// larger page is skipped. Each request in flight may take this much memory.
    pub fn max_page_bytes(mut self, bytes: usize) -> ClassicCrawl {
        self.config.max_page_bytes = bytes;
        self
    }

    /// Stays below this URL prefix instead of the seed's origin.
    pub fn internal_prefix(mut self, prefix: &Url) -> Result<ClassicCrawl, Error> {
        self.scope = Scope::prefix(prefix);
        if !self.scope.contains(self.seed.as_str()) {
            return Err(Error::SeedOutOfScope { seed: self.seed.into(), scope: self.scope.describe() });
        }
        Ok(self)
    }

    /// Sets whether pages of an earlier crawl in the directory are removed first; false by default.
    pub fn overwrite(mut self, overwrite: bool) -> ClassicCrawl {
        self.overwrite = overwrite;
        self
    }

    /// Calls a function with the outcome of each URL. The crawl waits for it.
    pub fn on_outcome(mut self, callback: impl Fn(&str, &Outcome) + Send + Sync + 'static) -> ClassicCrawl {
        self.on_outcome = Arc::new(callback);
        self
    }

    /// Sets the handle that stops this crawl early.
    pub fn stop_handle(mut self, stop: StopHandle) -> ClassicCrawl {
        self.stop = stop;
        self
    }

    /// Runs the crawl to its end.
    ///
    /// The crawl proceeds by levels: it fetches pages of depth d + 1 after all pages of depth d. So the depth of a page is
    /// always the smallest possible, with any number of requests in flight.
    pub async fn run(self) -> Result<ClassicReport, Error> {
        let observer = OutcomeObserver(Arc::clone(&self.on_outcome));
        self.run_observed(&observer).await
    }

    /// Runs the crawl to its end, without a runtime. Inside an async runtime it fails with [`Error::InsideRuntime`]: use
    /// [`run`](ClassicCrawl::run) there.
    pub fn run_blocking(self) -> Result<ClassicReport, Error> {
        check_outside_runtime()?;
        block_on(self.run())?
    }

    async fn run_observed<O: Observer + ?Sized>(self, observer: &O) -> Result<ClassicReport, Error> {
        self.config.check()?;
        let (pages, urls) = self.open_outputs().map_err(Error::Output)?;
        let config = match &urls {
            Some(urls) => urls.fetch_config(&self.config),
            None => FetchConfig { archive: None, ..self.config.clone() },
        };
        let (throttle, status) =
            (Arc::new(HostThrottle::from_config(&self.config)), ClassicStatus::new(&self));
        let strip_query = self.config.strip_query.clone();
        let seed = strip_query.strip(self.seed.as_str()).into_owned();
        let seeds = [self.seed_with_credentials];
        let requests = self.requests;
        let product_token = self.config.requests.obey_robots.then(|| self.config.product_token().to_owned());
        let (accepted, save) = (self.config.accepted_types()?, self.config.requests.save.clone());
        let fetcher = Fetcher::new(config, &seeds, throttle, self.stop.clone())?;
        let proxy_health = self.proxy_health;
        let fetcher = fetcher.with_request_counter(requests.clone()).with_robots_waits(self.robots_waits);
        let fetcher =
            fetcher.with_proxy_health(proxy_health.clone()).with_recorder(status.recorder().clone());
        let mut scope = self.scope;
        scope.strip_query(&strip_query);
        let mut crawl = RunningCrawl {
            scope,
            strip_query,
            max_depth: self.max_depth,
            pages,
            observer,
            levels: Levels::default(),
            stats: Stats::default(),
            requests,
            seed: Outcome::NotReached,
            product_token,
            accepted,
            save,
            urls,
            status,
        };
        let (stop, started) = (self.stop, Instant::now());
        // The user chose the seed, so it is not checked for traps.
        let admission = crawl.admission(|| None);
        let _ = crawl.levels.mark_seen(&seed, 0, 0, admission.as_ref(), || Ok(()));
        crawl.stats.admitted = 1;
        log::crawl_started("classic", 1, 1);
        let fetched = crawl.fetch_all(&Arc::new(fetcher), &proxy_health, &stop).await;
        if let Err(error) = fetched {
            log::crawl_failed(&error);
            crawl.stats.requests = crawl.requests.total();
            crawl.status.set_phase(CrawlPhase::Ended(format!("{error:#}")));
            crawl.status.report(&crawl.stats);
            crawl.urls.map(UrlRows::finish);
            return Err(error);
        }
        crawl.stats.requests = crawl.requests.total();
        crawl.stats.elapsed = started.elapsed();
        let (urls_failure, archive) = crawl.urls.map(UrlRows::finish).unwrap_or_default();
        let stopped = stop.is_stop_requested();
        log::classic_crawl_ended(&crawl.stats, stopped);
        let end = if stopped { CrawlEnd::Stopped } else { CrawlEnd::Finished };
        crawl.status.set_phase(CrawlPhase::Ended(end.to_string()));
        crawl.status.report(&crawl.stats);
        let statistics = crawl.status.statistics();
        Ok(ClassicReport { stats: crawl.stats, seed: crawl.seed, stopped, statistics, urls_failure, archive })
    }

    /// Opens the directory for the pages and the file for the rows of URLs. If one cannot be used, the other is not changed.
    fn open_outputs(&self) -> Result<(PageFiles, Option<UrlRows>), StorageError> {
        PageFiles::open_with(&self.directory, self.overwrite, |pages| {
            let (path, callback) = (self.urls.as_deref(), self.on_url.clone());
            let mut archive = self.archive.as_ref().map(|archive| archive());
            if let Some(archive) = &mut archive {
                archive.output.set_fetch_config(&self.config);
            }
            if path.is_none() && callback.is_none() && archive.is_none() {
                return Ok(None);
            }
            let archive_path = archive.as_ref().map(|spec| spec.target.path());
            path.into_iter().chain(archive_path).try_for_each(|path| pages.ensure_not_page(path))?;
            UrlRows::open(path, self.overwrite, callback, archive).map(Some)
        })
    }
}

impl std::fmt::Debug for ClassicCrawl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ClassicCrawl { seed, directory, scope, max_depth, config, overwrite, .. } = self;
        f.debug_struct("ClassicCrawl")
            .field("seed", &seed.as_str())
            .field("directory", directory)
            .field("scope", scope)
            .field("max_depth", max_depth)
            .field("config", config)
            .field("overwrite", overwrite)
            .finish_non_exhaustive()
    }
}

/// The parts of the report that only the command needs.
pub trait ClassicReportInternals {
    /// Statistics of requests and URLs.
    fn statistics(&self) -> &Arc<Statistics>;

    /// Why rows of URLs are missing, if some are.
    fn urls_failure(&self) -> Option<&str>;

    /// The summary of the archive, if there is one.
    fn archive(&self) -> Option<&str>;
}

#[doc(hidden)]
impl ClassicReportInternals for ClassicReport {
    fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    fn urls_failure(&self) -> Option<&str> {
        self.urls_failure.as_deref()
    }

    fn archive(&self) -> Option<&str> {
        self.archive.as_deref()
    }
}

/// What only the command needs.
pub trait ClassicInternals {
    /// Changes how pages are fetched.
    fn configure(self, change: impl FnOnce(&mut FetchConfig)) -> Self;

    /// Writes a row for every URL to this file: CSV if its name ends with `.csv`, otherwise JSON lines; `-` is standard output.
    fn urls(self, path: impl Into<PathBuf>) -> Self;

    /// Calls a function with every URL that has its outcome.
    fn on_url(self, callback: impl Fn(&UrlRecord) + Send + Sync + 'static) -> Self;

    /// Writes the requests and responses of each URL to this output, when the URL has its outcome. It is made anew for each run.
    fn archive(self, output: impl Fn() -> OutputSpec + Send + Sync + 'static) -> Self;

    /// Counts the requests in this counter when they are sent. The counts that observers get are as of the last outcome.
    fn request_counter(self, requests: RequestCounter) -> Self;

    /// Calls a function with all that is known of the crawl: at its start, once per second, and at its end.
    fn on_status(self, callback: impl Fn(&CrawlView) + Send + Sync + 'static) -> Self;

    /// Adds the site to these while its URLs wait for robots.txt.
    fn robots_waits(self, waits: RobotsWaits) -> Self;

    /// Keeps the health of the proxies here.
    fn proxy_health(self, health: ProxyHealth) -> Self;

    /// Runs the crawl to its end, and reports its events.
    fn run_with_observer<O: Observer + ?Sized>(
        self,
        observer: &O,
    ) -> impl Future<Output = Result<ClassicReport, Error>>;
}

#[doc(hidden)]
impl ClassicInternals for ClassicCrawl {
    fn configure(mut self, change: impl FnOnce(&mut FetchConfig)) -> ClassicCrawl {
        change(&mut self.config);
        self
    }

    fn urls(mut self, path: impl Into<PathBuf>) -> ClassicCrawl {
        self.urls = Some(path.into());
        self
    }

    fn on_url(mut self, callback: impl Fn(&UrlRecord) + Send + Sync + 'static) -> ClassicCrawl {
        self.on_url = Some(Arc::new(callback));
        self
    }

    fn archive(mut self, output: impl Fn() -> OutputSpec + Send + Sync + 'static) -> ClassicCrawl {
        self.archive = Some(Arc::new(output));
        self
    }

    fn request_counter(mut self, requests: RequestCounter) -> ClassicCrawl {
        self.requests = requests;
        self
    }

    fn on_status(mut self, callback: impl Fn(&CrawlView) + Send + Sync + 'static) -> ClassicCrawl {
        self.on_status = Some(match self.on_status.take() {
            None => Arc::new(callback),
            Some(earlier) => Arc::new(move |view: &CrawlView| {
                earlier(view);
                callback(view);
            }),
        });
        self
    }

    fn robots_waits(mut self, waits: RobotsWaits) -> ClassicCrawl {
        self.robots_waits = waits;
        self
    }

    fn proxy_health(mut self, health: ProxyHealth) -> ClassicCrawl {
        self.proxy_health = health;
        self
    }

    async fn run_with_observer<O: Observer + ?Sized>(self, observer: &O) -> Result<ClassicReport, Error> {
        self.run_observed(observer).await
    }
}

/// A running crawl.
struct RunningCrawl<'a, O: ?Sized> {
    scope: Scope,
    strip_query: StripQuery,
    max_depth: Depth,
    pages: PageFiles,
    observer: &'a O,
    levels: Levels,
    stats: Stats,
    requests: RequestCounter,
    seed: Outcome,
    /// The name that robots directives are addressed to; `None` if they are not obeyed.
    product_token: Option<String>,
    accepted: AcceptedTypes,
    /// The pages that are saved.
    save: Scope,
    /// The rows of all URLs, if they are wanted.
    urls: Option<UrlRows>,
    status: ClassicStatus,
}

impl<O: Observer + ?Sized> RunningCrawl<'_, O> {
    /// Adds a URL to its level if it is in scope and new, or lowers its depth.
    fn admit(
        &mut self,
        url: &str,
        depth: Depth,
        redirects: u8,
        admission: Option<&Arc<Admission>>,
    ) -> Result<LinkStatus, RejectReason> {
        // Most links were seen before, and were checked then.
        let status = self.levels.mark_seen(url, depth, redirects, admission, || self.scope.check(url))?;
        if status == LinkStatus::New {
            self.stats.admitted += 1;
        }
        Ok(status)
    }

    /// Fetches all URLs, level by level, until none is left or the crawl is stopped. Then every URL has its outcome.
    async fn fetch_all(
        &mut self,
        fetcher: &Arc<Fetcher>,
        proxy_health: &ProxyHealth,
        stop: &StopHandle,
    ) -> Result<(), Error> {
        let (policy, received) = (TaskBudget::policy(fetcher.config()), Arc::new(AtomicU64::new(0)));
        let (mut fetches, mut proxy_failure) = (JoinSet::new(), None);
        let mut seconds = tokio::time::interval(STATUS_INTERVAL);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while fetches.len() < fetcher.config().concurrency
                && !stop.is_stop_requested()
                && let Some(task) = self.levels.next()
            {
                self.observer.on_fetch_start(task.url.as_str(), task.depth);
                let budget =
                    TaskBudget::new(policy, Arc::clone(&received), fetcher.config().archive.is_some());
                let fetcher = Arc::clone(fetcher);
                fetches.spawn(async move {
                    let result = fetcher.fetch(&task.url, &budget).await;
                    (task, result, budget.into_requests())
                });
            }
            let joined = tokio::select! {
                biased;
                _ = seconds.tick() => {
                    if stop.is_stop_requested() {
                        self.status.set_phase(CrawlPhase::Stopping);
                    }
                    self.stats.requests = self.requests.total();
                    self.status.report(&self.stats);
                    continue;
                }
                joined = fetches.join_next() => joined,
                cause = proxy_health.given_up(), if proxy_failure.is_none() => {
                    proxy_failure = Some(cause);
                    stop.abort();
                    continue;
                }
            };
            match joined {
                Some(Ok((task, result, requests))) => {
                    self.stats.received = received.load(Ordering::Relaxed);
                    self.complete(&task, result, requests);
                }
                Some(Err(failed)) => std::panic::resume_unwind(failed.into_panic()),
                None if !stop.is_stop_requested() && self.levels.descend() => {}
                None => break,
            }
        }
        self.complete_not_reached();
        proxy_failure.map_or(Ok(()), |cause| Err(Error::Proxy(cause)))
    }

    /// How a URL is admitted now, if every URL gets a row.
    fn admission(&self, discovery: impl FnOnce() -> Option<Discovery>) -> Option<Arc<Admission>> {
        let urls = self.urls.as_ref().filter(|urls| urls.wants_urls());
        urls.map(|_| Admission::now(discovery()))
    }

    /// Processes the result of a fetch and records the outcome.
    fn complete(&mut self, task: &Task, result: Result<FetchResult, Outcome>, requests: TaskRequests) {
        let mut facts = None;
        let outcome = match result {
            Ok(FetchResult::Page(page)) => {
                let started = Instant::now();
                let outcome = self.save(task, &page);
                self.status.recorder().record_stage(Stage::Process, started.elapsed());
                facts = Some(page_facts(&page));
                outcome
            }
            Ok(FetchResult::Redirect(location)) => self.redirect(task, &location),
            // No request is conditional.
            Ok(FetchResult::NotModified(_)) => Outcome::HttpStatus { code: 304, retry_after: None },
            Err(outcome) => outcome,
        };
        self.status.record(task, &outcome, &requests, facts.as_ref());
        self.record(task, outcome, requests);
    }

    fn record(&mut self, task: &Task, outcome: Outcome, requests: TaskRequests) {
        let (url, depth) = (task.url.as_str(), task.depth);
        self.stats.record_outcome(&outcome);
        log::url_completed(url, depth, &outcome);
        self.stats.requests = self.requests.total();
        if outcome != Outcome::Page {
            self.observer.on_event(Event::Ended { outcome: &outcome }, depth, url);
        }
        self.observer.on_progress(&self.stats, url);
        if let Some(urls) = &self.urls {
            urls.add(task, &outcome, requests);
        }
        if depth == 0 {
            self.seed = outcome;
        }
    }

    fn save(&mut self, task: &Task, page: &Download) -> Outcome {
        let (url, depth) = (task.url.as_str(), task.depth);
        self.observer.on_event(Event::Fetched { bytes: page.body.len() }, depth, url);
        let saved = self.save.check_filters(url).map(|()| self.pages.save(url, depth, &page.body));
        let outcome = match saved {
            Err(_) => Outcome::NotSaved,
            Ok(Ok(id)) => {
                self.stats.bytes += page.body.len() as u64;
                self.observer.on_event(Event::Saved { id }, depth, url);
                Outcome::Page
            }
            // Its links are followed nevertheless: a full disk must not hide the rest of the site.
            Ok(Err(error)) => Outcome::WriteFailed { cause: error.to_string() },
        };
        if page.media == Media::Html && depth < self.max_depth {
            self.follow_links(task, page);
        }
        outcome
    }

    fn follow_links(&mut self, task: &Task, page: &Download) {
        self.observer.on_event(Event::Scanning, task.depth, task.url.as_str());
        let product_token = self.product_token.clone();
        let product_token = product_token.as_deref();
        let robots =
            product_token.map_or_else(RobotsDirectives::default, |token| page.robots_directives(token));
        let read = if self.accepted.is_empty() { html::read_links } else { html::read };
        let admission = self.admission(|| Some(Discovery::on(task.url.as_str(), TaskKind::Page)));
        let mut follower = LinkFollower { crawl: self, task, product_token, robots, admission };
        read(&task.url, page.content_type.as_deref(), &page.body, &mut follower);
    }

    fn follow_link(
        &mut self,
        task: &Task,
        admission: Option<&Arc<Admission>>,
        is_nofollow: bool,
        target: Result<&str, BadLink>,
    ) {
        self.stats.links += 1;
        let target = target.map(|url| self.strip_query.strip(url));
        let (url, admitted) = match &target {
            Ok(url) if is_nofollow => (&**url, Err(RejectReason::Nofollow)),
            Ok(url) => (&**url, self.admit(url, task.depth + 1, 0, admission)),
            Err(bad) => ("", Err(RejectReason::InvalidLink(*bad))),
        };
        match admitted {
            Ok(LinkStatus::New) => {}
            Ok(LinkStatus::Shallower | LinkStatus::Seen) => self.stats.links_seen += 1,
            Err(reason) => self.stats.record_rejected_link(reason),
        }
        // A page can have any number of excess links. They are only counted.
        if self.observer.wants_links() && target != Err(BadLink::TooMany) {
            self.report_link(task, url, admitted);
        }
    }

    fn report_link(&self, task: &Task, url: &str, admitted: Result<LinkStatus, RejectReason>) {
        let depth = task.depth + 1;
        if let Err(RejectReason::InvalidLink(reason)) = admitted {
            return self.observer.on_event(Event::BadLink { reason }, depth, task.url.as_str());
        }
        self.observer.on_event(Event::Found, depth, url);
        let event = match admitted {
            Ok(LinkStatus::New) => Event::Added,
            Ok(LinkStatus::Shallower | LinkStatus::Seen) => Event::Duplicate,
            Err(reason) => Event::Ignored { reason },
        };
        self.observer.on_event(event, depth, url);
    }

    /// The target has the depth of the URL that redirected to it.
    fn redirect(&mut self, task: &Task, location: &str) -> Outcome {
        let strip_query = self.strip_query.clone();
        let found = || {
            let from = task.admission.as_ref().and_then(|admission| admission.discovery.as_deref());
            Some(Discovery::redirected(from, task.url.as_str()))
        };
        let admission = self.admission(found);
        redirect::follow(&task.url, task.redirects, location, &strip_query, |target, redirects| {
            self.admit(target, task.depth, redirects, admission.as_ref()).map(drop)
        })
    }

    /// Gives an outcome to the URLs that a stopped crawl did not reach.
    fn complete_not_reached(&mut self) {
        loop {
            while let Some(task) = self.levels.next() {
                self.record(&task, Outcome::NotReached, TaskRequests::default());
            }
            if !self.levels.descend() {
                break;
            }
        }
    }
}

/// Follows the links of one page.
struct LinkFollower<'a, 'o, O: ?Sized> {
    crawl: &'a mut RunningCrawl<'o, O>,
    task: &'a Task,
    product_token: Option<&'a str>,
    robots: RobotsDirectives,
    /// How its links are admitted.
    admission: Option<Arc<Admission>>,
}

impl<O: Observer + ?Sized> PageHandler for LinkFollower<'_, '_, O> {
    fn text(&mut self, _: &[u8]) {}

    fn robots_meta(&mut self, name: &str, content: &str) {
        if let Some(product_token) = self.product_token {
            self.robots.add_meta(name, content, product_token);
        }
    }

    fn wanted_parts(&self) -> PageParts {
        PageParts { requisites: !self.crawl.accepted.is_empty(), ..PageParts::default() }
    }

    fn requisite(&mut self, kind: RequisiteKind, target: Result<&str, BadLink>) {
        if self.crawl.accepted.may_be(kind) && target != Err(BadLink::Scheme) {
            self.crawl.follow_link(self.task, self.admission.as_ref(), self.robots.nofollow, target);
        }
    }

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        let is_nofollow = self.robots.nofollow || kind.is_nofollow() && self.product_token.is_some();
        self.crawl.follow_link(self.task, self.admission.as_ref(), is_nofollow, target);
    }
}
