//! The pipeline: configures a crawl of many hosts, opens its state and outputs, and runs it in this process.

mod derived_settings;
mod durable_outputs;
mod durable_run;
mod internals;
pub(crate) mod live_control;
pub(crate) mod local_run;
mod page_stream;
mod report;
mod resume_settings;
mod retried_rows;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use url::Url;

pub use self::internals::CrawlerInternals;
use self::local_run::LocalRun;
pub(crate) use self::local_run::block_on;
pub use self::page_stream::PageStream;
pub use self::report::{CrawlEnd, CrawlReport, CrawlReportInternals, ResumeStatus, Traffic};

use crate::backend::durable::Recrawl;
use crate::backend::local::{BackendConfig, HostLimits, LocalBackend, UNLIMITED_TTL};
use crate::backend::{Snapshot, WorkerId};
use crate::config::{FetchConfig, Oversize, fetch_setters};
use crate::crawl_view::{CrawlMonitor, CrawlView};
use crate::error::Error;
use crate::fetch::proxy_health::ProxyHealth;
use crate::fetch::robots::waits::RobotsWaits;
use crate::html::{self, normal_form};
use crate::live_settings::CrawlControl;
use crate::log;
use crate::modules::output::files::{OutputFiles, Start};
use crate::modules::output::parts::{CrawlIdentity, Parts};
use crate::modules::page_pipeline::{OutcomeCallback, PagePipeline};
use crate::modules::{BuiltinModule, Module, Output, OutputSpec, Target, registry};
use crate::outcome::Outcome;
use crate::prioritizer::{DepthPopularity, PageRank, Prioritizer, PriorityQueues};
use crate::request_settings::Politeness;
use crate::scope::Scope;
use crate::seed_list::SeedUrls;
use crate::similarity::Threshold;
use crate::statistics::Statistics;
use crate::stop::StopHandle;
use crate::strip_query::StripQuery;
use crate::visit::VisitSettings;

/// The default number of requests in flight of each worker.
const CONCURRENCY: usize = 64;

/// How many requests may wait for silent hosts, for each request that may be in flight.
pub const SILENT_PER_REQUEST: usize = 16;

/// A callback for the state of the crawl, about once per second.
pub(crate) type ProgressCallback = Box<dyn Fn(&Snapshot) + Send + Sync>;

/// A callback for all that is known of the crawl, about once per second.
pub(crate) type StatusCallback = Box<dyn Fn(&CrawlView) + Send + Sync>;

/// A callback for messages about what does not stop the crawl.
pub(crate) type NoticeCallback = Box<dyn Fn(&str) + Send + Sync>;

/// A crawl of many hosts: configure it, then run it.
///
/// ```no_run
/// use crawler::{Crawler, Page};
///
/// # async fn example() -> Result<(), crawler::Error> {
/// let report = Crawler::new("https://example.org/")?
///     .max_depth(3)
///     .max_pages(500)
///     .module(|page: &Page| println!("{} {}", page.url, page.title))
///     .module_from_spec("jsonl=pages.jsonl")?
///     .run()
///     .await?;
/// println!("{} pages in {:?}", report.snapshot.pages, report.elapsed);
/// # Ok(())
/// # }
/// ```
///
/// By default a crawl obeys robots.txt, waits one second between requests to a host, stops after 10,000 pages or 50 MB,
/// and keeps everything in memory. It runs on its own threads, one per worker.
///
/// A number or time that must not be 0, such as a limit, fails with [`Error::InvalidSetting`] when the crawl is run.
#[must_use = "a crawl does nothing until it runs"]
pub struct Crawler {
    pub(crate) seeds: Vec<Url>,
    /// Further seeds, which are read when the crawl starts.
    pub(crate) seed_list: Option<SeedUrls>,
    pub(crate) seed_list_name: String,
    pub(crate) config: FetchConfig,
    /// The delay of sites, if it is not the default part of the delay of hosts.
    pub(crate) site_delay: Option<Duration>,
    pub(crate) scope: Scope,
    /// Sitemaps that the user names.
    pub(crate) sitemaps: Vec<Url>,
    pub(crate) max_depth: Option<u32>,
    pub(crate) max_time: Option<Duration>,
    pub(crate) follow_duplicates: bool,
    pub(crate) settings: BackendConfig,
    pub(crate) prioritizer: Arc<dyn Prioritizer>,
    /// Whether the prioritizer is the library's: the backend may ask it while its queues are locked.
    pub(crate) has_builtin_prioritizer: bool,
    /// The prioritizer, if it is this one: snapshots have its counters.
    pub(crate) pagerank: Option<Arc<PageRank>>,
    pub(crate) modules: Vec<Box<dyn BuiltinModule>>,
    pub(crate) outputs: Vec<OutputSpec>,
    /// Names of modules and specifications of outputs, in the order in which they were added.
    pub(crate) module_specs: Vec<String>,
    pub(crate) overwrite: bool,
    pub(crate) state_dir: Option<PathBuf>,
    /// What the program that started a durable crawl stores in its state.
    pub(crate) metadata: Vec<u8>,
    /// Whether a durable crawl queues URLs again that failed temporarily.
    pub(crate) retry_failed: bool,
    /// Whether a durable crawl visits the known URLs again, and which of them.
    pub(crate) recrawl: Option<Recrawl>,
    pub(crate) on_outcome: OutcomeCallback,
    pub(crate) on_progress: ProgressCallback,
    pub(crate) on_status: Option<StatusCallback>,
    pub(crate) on_notice: NoticeCallback,
    pub(crate) robots_waits: RobotsWaits,
    pub(crate) proxy_health: ProxyHealth,
    pub(crate) stop: StopHandle,
    pub(crate) control: CrawlControl,
}

impl Crawler {
    /// A crawl from one seed: an absolute http or https URL.
    pub fn new(seed: &str) -> Result<Crawler, Error> {
        let seed = Url::parse(seed)
            .map_err(|error| Error::InvalidSetting(format!("seed {seed:?} is not a URL: {error}")))?;
        Crawler::from_seeds([seed])
    }

    /// A crawl from several seeds.
    pub fn from_seeds(seeds: impl IntoIterator<Item = Url>) -> Result<Crawler, Error> {
        let seeds: Vec<Url> = seeds.into_iter().collect();
        match seeds.is_empty() {
            true => Err(Error::InvalidSetting("a crawl needs at least one seed".into())),
            false => Crawler::build(seeds),
        }
    }

    /// A crawl from a list of seeds, of any length: http and https URLs without credentials. The list is read when the crawl
    /// starts, to its end and before the first request; an error in it fails the crawl. A crawl with a
    /// [state](Crawler::state_dir) reads it once: a resumed crawl has its seeds.
    ///
    /// The seeds take some tens of bytes each. They extend the [scope](Crawler::scope), each by its host, domain or URL prefix,
    /// whichever the scope consists of.
    ///
    /// ```no_run
    /// use std::io::{BufRead, BufReader};
    ///
    /// use crawler::{Crawler, Error, Scope};
    ///
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let lines = BufReader::new(std::fs::File::open("seeds.txt")?).lines();
    /// let unreadable = |error: &dyn std::fmt::Display| Error::InvalidSetting(format!("cannot read seeds.txt: {error}"));
    /// let urls = lines.map(move |line| {
    ///     let line = line.map_err(|error| unreadable(&error))?;
    ///     line.parse().map_err(|error| unreadable(&error))
    /// });
    /// let report = Crawler::from_seed_list(urls)?.scope(Scope::hosts(&[])).run_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_seed_list(
        urls: impl IntoIterator<Item = Result<Url, Error>, IntoIter: Send + 'static>,
    ) -> Result<Crawler, Error> {
        Ok(Crawler::build(Vec::new())?.with_seed_list(String::new(), urls))
    }

    fn build(mut seeds: Vec<Url>) -> Result<Crawler, Error> {
        if let Some(other) = seeds.iter().find(|seed| !matches!(seed.scheme(), "http" | "https")) {
            let scheme = other.scheme();
            return Err(Error::InvalidSetting(format!(
                "a seed has the scheme '{scheme}'; use http and https URLs"
            )));
        }
        for seed in &mut seeds {
            normal_form::normalize(seed)
                .map_err(|bad| Error::InvalidSetting(format!("a seed is {bad}; use http and https URLs")))?;
        }
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
        let config = FetchConfig {
            concurrency: CONCURRENCY,
            max_silent: usize::MAX,
            oversize: Oversize::Truncate,
            ..FetchConfig::default()
        };
        let settings = BackendConfig {
            queue_size: 10_000,
            priority_queues: PriorityQueues::new(10).expect("10 is a valid number of queues"),
            workers: u16::try_from(cores).unwrap_or(u16::MAX),
            ttl: UNLIMITED_TTL,
            domain_ttl: Duration::from_secs(5 * 60),
            keep_depths: false,
            keep_discovery: false,
            similarity: Threshold::new(0.9),
            strip_query: StripQuery::default(),
            keep_content: true,
            max_pages: 10_000,
            max_bytes: 50_000_000,
            max_page_bytes: config.max_page_bytes as u64,
            max_pages_per_host: u64::MAX,
            max_pages_per_site: u64::MAX,
            visits: VisitSettings::default(),
            hosts: HostLimits::default(),
        };
        let crawler = Crawler {
            seeds,
            seed_list: None,
            seed_list_name: String::new(),
            config,
            site_delay: None,
            scope: Scope::anywhere(),
            sitemaps: Vec::new(),
            max_depth: None,
            max_time: None,
            follow_duplicates: false,
            settings,
            prioritizer: Arc::new(DepthPopularity),
            has_builtin_prioritizer: true,
            pagerank: None,
            modules: Vec::new(),
            outputs: Vec::new(),
            module_specs: Vec::new(),
            overwrite: false,
            state_dir: None,
            metadata: Vec::new(),
            retry_failed: false,
            recrawl: None,
            on_outcome: Arc::new(|_, _| {}),
            on_progress: Box::new(|_| {}),
            on_status: None,
            on_notice: Box::new(|_| {}),
            robots_waits: RobotsWaits::default(),
            proxy_health: ProxyHealth::default(),
            stop: StopHandle::new(),
            control: CrawlControl::new(),
        };
        Ok(crawler.politeness(Politeness::default()))
    }

    fetch_setters!();

    /// Sets the maximum number of requests in flight of each worker; 64 by default.
    pub fn concurrency(mut self, requests: usize) -> Crawler {
        self.config.concurrency = requests;
        self
    }

    /// Sets the maximum size of a page in bytes, of what is received and of what it decodes to; 500 KB by default.
    pub fn max_page_bytes(mut self, bytes: usize) -> Crawler {
        self.config.max_page_bytes = bytes;
        self
    }

    /// Sets what happens to a page larger than [`max_page_bytes`](Crawler::max_page_bytes). By default it is truncated:
    /// [`Page::truncated`](crate::Page::truncated) is set, and its links are followed.
    ///
    /// ```
    /// use crawler::{Crawler, Oversize};
    ///
    /// let crawler = Crawler::new("https://example.org/")?.max_page_bytes(100_000).oversize(Oversize::Drop);
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn oversize(mut self, oversize: Oversize) -> Crawler {
        self.config.oversize = oversize;
        self
    }

    /// Sets the delays and limits for each host, site and address, beyond the [`delay`](Crawler::delay).
    pub fn politeness(mut self, politeness: Politeness) -> Crawler {
        let Politeness {
            concurrency_per_host,
            adaptive_delay,
            site_delay,
            address_delay,
            max_pages_per_host,
            max_pages_per_site,
            max_host_failures,
            network_timeout,
        } = politeness;
        self.config.max_per_host = concurrency_per_host;
        self.config.adaptive_delay = adaptive_delay;
        self.site_delay = site_delay;
        self.config.address_delay = address_delay;
        self.settings.max_pages_per_host = max_pages_per_host;
        self.settings.max_pages_per_site = max_pages_per_site;
        self.settings.hosts.max_failures = max_host_failures;
        self.config.network_timeout = network_timeout;
        self
    }

    /// Sets the scope; the whole web by default.
    ///
    /// ```no_run
    /// use crawler::{Crawler, Scope};
    ///
    /// let seed = "https://www.example.org/docs/".parse().expect("a URL");
    /// let scope = Scope::domains(std::slice::from_ref(&seed)).with_filters(&[], &[r"\.php$"])?;
    /// let crawler = Crawler::from_seeds([seed])?.scope(scope);
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn scope(mut self, scope: Scope) -> Crawler {
        self.scope = scope;
        self
    }

    /// Adds a sitemap, sitemap index or feed: an absolute http or https URL on any host. The URLs that it lists are followed as
    /// links of a seed are, at depth 1, if they are in [scope](Crawler::scope).
    ///
    /// ```no_run
    /// use crawler::{Crawler, Scope};
    ///
    /// let seed = "https://www.example.org/".parse().expect("a URL");
    /// let scope = Scope::hosts(std::slice::from_ref(&seed));
    /// let crawler = Crawler::from_seeds([seed])?.scope(scope).sitemap("https://www.example.org/news.xml")?;
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn sitemap(mut self, url: &str) -> Result<Crawler, Error> {
        let url = html::normalize(url).map_err(|bad| {
            Error::InvalidSetting(format!("sitemap {url:?} is {bad}; use an absolute http or https URL"))
        })?;
        self.sitemaps.push(url);
        Ok(self)
    }

    /// Sets the maximum number of links between a seed and a page; unlimited by default.
    pub fn max_depth(mut self, depth: u32) -> Crawler {
        self.max_depth = Some(depth);
        self
    }

    /// Stops the crawl after this many pages; 10,000 by default.
    pub fn max_pages(mut self, pages: u64) -> Crawler {
        self.settings.max_pages = pages;
        self
    }

    /// Stops the crawl after this many bytes of bodies, received or decoded, whichever is more; 50 MB by default.
    pub fn max_bytes(mut self, bytes: u64) -> Crawler {
        self.settings.max_bytes = bytes;
        self
    }

    /// Stops the crawl after this time; unlimited by default. The time of earlier runs of a resumed crawl counts.
    pub fn max_time(mut self, time: Duration) -> Crawler {
        self.max_time = Some(time);
        self
    }

    /// Sets the number of workers, each a thread that owns some of the domains; the number of cores by default.
    pub fn workers(mut self, workers: u16) -> Crawler {
        self.settings.workers = workers;
        self
    }

    /// Sets the similarity (Dice coefficient of the texts, from 0 to 1) from which a page is skipped as a near-duplicate;
    /// 0.9 by default. With `None` or 1, only identical pages are skipped, with 0 none. Seeds are never skipped.
    ///
    /// ```
    /// let crawler = crawler::Crawler::new("https://example.org/")?.near_duplicates(Some(0.8))?.follow_duplicates(true);
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn near_duplicates(mut self, similarity: Option<f64>) -> Result<Crawler, Error> {
        let invalid = |value| Error::InvalidSetting(format!("similarity {value} is not from 0 to 1"));
        self.settings.similarity = match similarity.unwrap_or(1.0) {
            0.0 => None,
            value => Some(Threshold::new(value).ok_or_else(|| invalid(value))?),
        };
        Ok(self)
    }

    /// Sets whether links on duplicates and near-duplicates are followed; false by default.
    pub fn follow_duplicates(mut self, follow: bool) -> Crawler {
        self.follow_duplicates = follow;
        self
    }

    /// Sets whether the bodies of pages are stored, compressed; true by default. They are needed to decide exactly
    /// whether two pages are near-duplicates, and to read the pages of a durable crawl from its state. Without them, only
    /// fingerprints are stored.
    pub fn store_content(mut self, store: bool) -> Crawler {
        self.settings.keep_content = store;
        self
    }

    /// Sets how priorities are computed; from depth and popularity by default.
    pub fn prioritizer(mut self, prioritizer: impl Prioritizer + 'static) -> Crawler {
        self.prioritizer = Arc::new(prioritizer);
        self.has_builtin_prioritizer = false;
        self.pagerank = None;
        self
    }

    /// Adds a module, which processes each page: a closure, or any [`Module`].
    pub fn module(mut self, module: impl Module + 'static) -> Crawler {
        self.module_specs.push(module.name().to_owned());
        self.modules.push(Box::new(module));
        self
    }

    /// Adds a built-in module or output by its specification, such as `jsonl=pages.jsonl`, `pages=DIR`, `edges=FILE`,
    /// `words=20` or `exec=COMMAND`.
    pub fn module_from_spec(mut self, spec: &str) -> Result<Crawler, Error> {
        match registry::parse(spec).map_err(Error::Module)? {
            registry::RegisteredModule::Module(module) => self.modules.push(module),
            registry::RegisteredModule::Output(output) => self.outputs.push(output),
        }
        self.module_specs.push(spec.to_owned());
        Ok(self)
    }

    /// Adds an output, which writes each page exactly once: to one file, or to a directory with a file for each page.
    pub fn output(mut self, output: impl Output + 'static, target: Target) -> Crawler {
        self.module_specs.push(format!("{}={target}", output.name()));
        self.outputs.push(OutputSpec { output: Box::new(output), target });
        self
    }

    /// Sets whether files of earlier crawls at the targets of outputs are replaced; false by default.
    pub fn overwrite(mut self, overwrite: bool) -> Crawler {
        self.overwrite = overwrite;
        self
    }

    /// Stores the state of the crawl in this directory, so that the same crawl with the same directory resumes after a
    /// limit, a signal, a crash or a power failure. Without it, everything is in memory.
    ///
    /// A resumed crawl may have other settings, except for `max_depth`, `near_duplicates` and `strip_query`. They apply to
    /// all pending URLs. Seeds, modules and outputs may be added and removed: a seed that is new is crawled, also if the
    /// crawl had finished, and an output that is new starts with the next page.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), crawler::Error> {
    /// use crawler::Crawler;
    ///
    /// let crawl = || Crawler::new("https://example.org/")?.state_dir("state").module_from_spec("jsonl=pages.jsonl");
    /// let report = crawl()?.run().await?; // after kill -9, run again: each page is in the file once
    /// println!("{} pages, {:?}", report.snapshot.pages, report.resumed);
    /// # Ok(())
    /// # }
    /// ```
    pub fn state_dir(mut self, directory: impl Into<PathBuf>) -> Crawler {
        self.state_dir = Some(directory.into());
        self
    }

    /// Sets whether a crawl that is resumed fetches URLs again that failed temporarily; see
    /// [`Outcome::is_temporary`]. False by default. It also resumes a crawl that has finished.
    pub fn retry_failed(mut self, retry: bool) -> Crawler {
        self.retry_failed = retry;
        self
    }

    /// Calls a function with the outcome of each URL.
    ///
    /// ```no_run
    /// # let crawler = crawler::Crawler::new("https://example.org/")?;
    /// use crawler::Outcome;
    ///
    /// let crawler = crawler.on_outcome(|url, outcome| {
    ///     if let Outcome::HttpStatus { code: 404, .. } = outcome {
    ///         println!("{url} is gone");
    ///     }
    /// });
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn on_outcome(mut self, callback: impl Fn(&str, &Outcome) + Send + Sync + 'static) -> Crawler {
        self.on_outcome = Arc::new(callback);
        self
    }

    /// Calls a function with the state of the crawl: at its start, and then once per second.
    ///
    /// ```no_run
    /// # let crawler = crawler::Crawler::new("https://example.org/")?;
    /// let crawler = crawler.on_progress(|now| {
    ///     eprintln!("{} pages, {} URLs pending, {} hosts", now.pages, now.pending(), now.active_hosts);
    /// });
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn on_progress(mut self, callback: impl Fn(&Snapshot) + Send + Sync + 'static) -> Crawler {
        self.on_progress = Box::new(callback);
        self
    }

    /// Sets the handle that stops this crawl early. Each crawl needs its own, because the end of a crawl also triggers it.
    pub fn stop_handle(mut self, stop: StopHandle) -> Crawler {
        self.stop = stop;
        self
    }

    /// Runs the crawl to its end. Dropping the future stops the crawl gracefully.
    ///
    /// A crawl that had to stop because an output or a module failed returns `Ok` too, with the counts so far: its
    /// [`end`](CrawlReport::end) is [`OutputFailed`](CrawlEnd::OutputFailed) or [`ModuleFailed`](CrawlEnd::ModuleFailed), the report
    /// has the cause, and the outputs are incomplete. `Err` means that the crawl could not start, or that its state or Redis failed.
    pub async fn run(self) -> Result<CrawlReport, Error> {
        let _stop_when_dropped = local_run::StopWhenDropped(self.stop.clone());
        match self.spawn()?.await {
            Ok(Ok(report)) => report,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => unreachable!("the thread sends its result, also when it panics"),
        }
    }

    /// Runs the crawl to its end, without a runtime, with the same result as [`run`](Crawler::run): also `Ok` if an output failed.
    /// Inside an async runtime it fails with [`Error::InsideRuntime`]: use `run` there.
    pub fn run_blocking(self) -> Result<CrawlReport, Error> {
        local_run::check_outside_runtime()?;
        self.check_settings()?;
        self.run_to_end()
    }

    /// Runs the crawl and streams its pages.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), crawler::Error> {
    /// let mut pages = crawler::Crawler::new("https://example.org/")?.max_pages(100).pages()?;
    /// while let Some(page) = pages.next().await {
    ///     println!("{} {}", page.url, page.title);
    /// }
    /// println!("{}", pages.report().await?.end);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The crawl waits when the consumer is slow, and stops when the stream is dropped.
    pub fn pages(self) -> Result<PageStream, Error> {
        PageStream::start(self)
    }

    /// Runs the crawl on a thread of its own and sends its result, or its panic.
    fn spawn(self) -> Result<oneshot::Receiver<thread::Result<Result<CrawlReport, Error>>>, Error> {
        self.check_settings()?;
        let (sender, receiver) = oneshot::channel();
        let run = move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_to_end()));
            // The receiver is gone if the future or stream was dropped.
            let _ = sender.send(result);
        };
        let thread = thread::Builder::new().name("crawl".into()).spawn(run);
        thread.map_err(|source| Error::System { action: "start a thread", source })?;
        Ok(receiver)
    }

    fn run_to_end(mut self) -> Result<CrawlReport, Error> {
        self.derive_settings();
        let report = match self.state_dir.take() {
            None => self.run_in_memory(),
            Some(directory) => self.run_durably(&directory),
        };
        match &report {
            Ok(CrawlReport { end, snapshot, elapsed, .. }) => log::crawl_ended(end, snapshot, *elapsed),
            Err(error) => log::crawl_failed(error),
        }
        report
    }

    fn run_in_memory(mut self) -> Result<CrawlReport, Error> {
        let pages = self.open_outputs(self.fresh_start())?;
        let backend = Arc::new(LocalBackend::new(self.settings.clone()));
        let monitor = CrawlMonitor::new(Duration::ZERO, Statistics::default(), self.limits())
            .with_control(self.control.clone());
        let (monitor, last_snapshot) = (Arc::new(monitor), Mutex::default());
        LocalRun { backend, pages, monitor, retried: 0, state: None, last_snapshot }.run(self)
    }

    fn fresh_start(&self) -> Start<'static> {
        if self.overwrite { Start::Overwrite } else { Start::Fresh }
    }

    /// Checks that the workers of a distributed crawl that does not exist yet can write their part files.
    pub(crate) fn check_part_files(&self, workers: u16, crawl: &str) -> Result<(), Error> {
        let identity = CrawlIdentity { name: crawl.to_owned(), id: "new".into() };
        (0..workers)
            .try_for_each(|worker| Parts::check_unused(&self.outputs, worker, &identity, self.overwrite))
            .map_err(Error::Output)
    }

    /// Opens the part files of one worker of a distributed crawl.
    pub(crate) fn open_part_files(
        &mut self,
        worker: WorkerId,
        crawl: &CrawlIdentity,
    ) -> Result<Arc<PagePipeline>, Error> {
        let parts = Parts::open(&self.outputs, worker.0, crawl, self.overwrite).map_err(Error::Output)?;
        let (modules, outputs, on_outcome) = self.take_modules();
        Ok(Arc::new(PagePipeline::with_parts(modules, outputs, parts, on_outcome)?))
    }

    /// Opens the output files.
    fn open_outputs(&mut self, start: Start) -> Result<Arc<PagePipeline>, Error> {
        let files = OutputFiles::open(&self.outputs, start).map_err(Error::Output)?;
        let (modules, outputs, on_outcome) = self.take_modules();
        Ok(Arc::new(PagePipeline::new(modules, outputs, files, on_outcome)))
    }

    fn take_modules(&mut self) -> (Vec<Box<dyn BuiltinModule>>, Vec<OutputSpec>, OutcomeCallback) {
        let on_outcome = Arc::clone(&self.on_outcome);
        (std::mem::take(&mut self.modules), std::mem::take(&mut self.outputs), on_outcome)
    }
}

impl std::fmt::Debug for Crawler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Crawler { config, scope, max_depth, settings, module_specs, state_dir, .. } = self;
        // Seeds may contain passwords.
        f.debug_struct("Crawler")
            .field("scope", scope)
            .field("max_depth", max_depth)
            .field("config", config)
            .field("settings", settings)
            .field("modules", module_specs)
            .field("state_dir", state_dir)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_no_stored_page_expires() {
        assert_eq!(Crawler::new("http://a.test/").unwrap().settings.ttl, UNLIMITED_TTL);
    }
}
