//! Assembles a crawl of the pipeline in one process: what it is told, its resources, its outputs, its crew.

pub(crate) mod local_run;
mod report;
mod resume_settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use url::Url;

use self::local_run::LocalRun;
pub(crate) use self::local_run::block_on;
pub use self::report::{CrawlEnd, CrawlReport, ResumeStatus, Traffic};

use crate::backend::durable::{self, OpenState, PriorState, StateOptions};
use crate::backend::local::{BackendConfig, LocalBackend};
use crate::backend::{Snapshot, WorkerId};
use crate::config::FetchConfig;
use crate::error::Error;
use crate::modules::output::files::{OutputFiles, Start};
use crate::modules::output::parts::{CrawlIdentity, Parts};
use crate::modules::page_pipeline::{OutcomeCallback, PagePipeline};
use crate::modules::{Module, OutputSpec, registry};
use crate::outcome::Outcome;
use crate::prioritizer::{DepthPopularity, Prioritizer, PriorityQueues};
use crate::scope::Scope;
use crate::similarity::Threshold;
use crate::stop::StopHandle;
use crate::task::Depth;

/// A crawl to be. It reads like speech:
///
/// ```no_run
/// use crawler::{Crawler, page::Page};
///
/// let report = Crawler::new("https://example.org/")?
///     .max_depth(3)
///     .max_pages(500)
///     .module(|page: &Page| println!("{} {}", page.url, page.title))
///     .run()?;
/// println!("{} pages", report.snapshot.pages);
/// # Ok::<(), crawler::Error>(())
/// ```
pub struct Crawler {
    pub(crate) seeds: Vec<Url>,
    pub(crate) config: FetchConfig,
    pub(crate) scope: Scope,
    pub(crate) max_depth: Option<Depth>,
    pub(crate) max_time: Option<Duration>,
    pub(crate) settings: BackendConfig,
    pub(crate) prioritize: Box<dyn Prioritizer>,
    pub(crate) modules: Vec<Box<dyn Module>>,
    pub(crate) outputs: Vec<OutputSpec>,
    /// Modules and outputs as they were given, in their order.
    pub(crate) given: Vec<String>,
    pub(crate) overwrite: bool,
    pub(crate) state: Option<PathBuf>,
    pub(crate) note: Vec<u8>,
    pub(crate) teller: OutcomeCallback,
    pub(crate) stop: StopHandle,
}

impl Crawler {
    /// A crawl from one seed: an absolute http or https URL.
    pub fn new(seed: &str) -> Result<Crawler, Error> {
        let seed =
            Url::parse(seed).map_err(|error| Error::InvalidSetting(format!("seed {seed:?}: {error}")))?;
        Crawler::from_seeds(vec![seed])
    }

    /// A crawl from several seeds. It slows down with hosts whose answers slow down ([`FetchConfig::adapt`]).
    pub fn from_seeds(seeds: Vec<Url>) -> Result<Crawler, Error> {
        if seeds.is_empty() {
            return Err(Error::InvalidSetting("a crawl needs a seed".into()));
        }
        if let Some(other) = seeds.iter().find(|seed| !matches!(seed.scheme(), "http" | "https")) {
            let scheme = other.scheme();
            return Err(Error::InvalidSetting(format!(
                "a seed's scheme is '{scheme}'; give http or https URLs"
            )));
        }
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
        let config = FetchConfig { concurrency: 64, adaptive_delay: true, ..FetchConfig::default() };
        let settings = BackendConfig {
            queue_size: 10_000,
            priority_queues: PriorityQueues::new(10).expect("ten is a number of queues"),
            workers: u16::try_from(cores).unwrap_or(u16::MAX),
            ttl: Duration::from_secs(60 * 60),
            domain_ttl: Duration::from_secs(5 * 60),
            keep_depths: false,
            similarity: Threshold::new(0.9),
            keep_content: true,
            max_pages: 10_000,
            max_bytes: 50_000_000,
            max_page_bytes: config.max_page_bytes as u64,
            max_pages_per_host: u64::MAX,
        };
        Ok(Crawler {
            seeds,
            config,
            scope: Scope::anywhere(),
            max_depth: None,
            max_time: None,
            settings,
            prioritize: Box::new(DepthPopularity),
            modules: Vec::new(),
            outputs: Vec::new(),
            given: Vec::new(),
            overwrite: false,
            state: None,
            note: Vec::new(),
            teller: Box::new(|_, _| {}),
            stop: StopHandle::new(),
        })
    }

    /// Where it starts.
    pub fn seeds(&self) -> &[Url] {
        &self.seeds
    }

    /// How pages are fetched, altogether. Mind that [`FetchConfig::default`] has one request in flight, and does not adapt.
    pub fn config(mut self, config: FetchConfig) -> Crawler {
        self.config = config;
        self
    }

    /// Changes how pages are fetched.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # let crawler = crawler::Crawler::new("https://example.org/")?;
    /// let crawler = crawler.configure(|config| {
    ///     config.delay = Duration::from_secs(2);
    ///     config.timeout = Duration::from_secs(5);
    ///     config.user_agent = "study/1.0 (+https://example.org/study)".into();
    /// });
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut FetchConfig)) -> Crawler {
        change(&mut self.config);
        self
    }

    /// Changes queues, storages and budgets.
    ///
    /// ```no_run
    /// # let crawler = crawler::Crawler::new("https://example.org/")?;
    /// use crawler::internal::similarity::Threshold;
    ///
    /// let crawler = crawler.settings(|settings| {
    ///     settings.similarity = Threshold::new(0.95);
    ///     settings.max_pages_per_host = 100;
    ///     settings.keep_content = false;
    /// });
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn configure_backend(mut self, change: impl FnOnce(&mut BackendConfig)) -> Crawler {
        change(&mut self.settings);
        self
    }

    /// Where the crawl stays; anywhere by default.
    ///
    /// ```no_run
    /// # use crawler::Crawler;
    /// use crawler::internal::scope::Scope;
    ///
    /// let seed = "https://www.example.org/docs/".parse().expect("a URL");
    /// let scope = Scope::domains(std::slice::from_ref(&seed)).filtered(&[], &[r"\.php$".into()])?;
    /// let crawler = Crawler::from_seeds(vec![seed])?.scope(scope);
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn scope(mut self, scope: Scope) -> Crawler {
        self.scope = scope;
        self
    }

    /// How many hops from the seeds it goes; as many as its budgets allow by default.
    pub fn max_depth(mut self, depth: Depth) -> Crawler {
        self.max_depth = Some(depth);
        self
    }

    /// The most pages it keeps; 10,000 by default.
    pub fn max_pages(self, pages: u64) -> Crawler {
        self.configure_backend(|settings| settings.max_pages = pages)
    }

    /// The most body bytes it reads; 50 MB by default.
    pub fn max_bytes(self, bytes: u64) -> Crawler {
        self.configure_backend(|settings| settings.max_bytes = bytes)
    }

    /// How long it may take; as long as it needs by default.
    pub fn max_time(mut self, time: Duration) -> Crawler {
        self.max_time = Some(time);
        self
    }

    /// How many workers share the hosts; as many as there are cores by default.
    pub fn workers(self, workers: u16) -> Crawler {
        self.configure_backend(|settings| settings.workers = workers.max(1))
    }

    /// How priorities are computed; from the crawl itself by default.
    ///
    /// ```no_run
    /// # let crawler = crawler::Crawler::new("https://example.org/")?;
    /// use crawler::internal::config::FetchConfig;
    /// use crawler::internal::prioritizer::{PageRank, Random, pagerank};
    ///
    /// let service = pagerank::BackendConfig::new("https://ranks.example/".parse().expect("a URL"));
    /// let crawler = crawler.prioritize(PageRank::new(&FetchConfig::default(), service, Random::from_system())?);
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn prioritize(mut self, prioritize: impl Prioritizer + 'static) -> Crawler {
        self.prioritize = Box::new(prioritize);
        self
    }

    /// Does something with each kept page: a closure, or anything that is a [`Module`].
    ///
    /// ```no_run
    /// # let crawler = crawler::Crawler::new("https://example.org/")?;
    /// use crawler::internal::page::Page;
    ///
    /// let crawler = crawler.module(|page: &Page| println!("{} has {} links", page.url, page.links.len()));
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn module(mut self, module: impl Module + 'static) -> Crawler {
        self.given.push(module.name().to_owned());
        self.modules.push(Box::new(module));
        self
    }

    /// Installs a delivered module by its name and arguments, like `jsonl=pages.jsonl`.
    pub fn module_from_spec(mut self, spec: &str) -> Result<Crawler, Error> {
        match registry::parse(spec).map_err(Error::InvalidSetting)? {
            registry::RegisteredModule::Module(module) => self.modules.push(module),
            registry::RegisteredModule::Output(output) => self.outputs.push(output),
        }
        self.given.push(spec.to_owned());
        Ok(self)
    }

    /// Removes what earlier crawls left in the files of outputs.
    pub fn overwrite(mut self, overwrite: bool) -> Crawler {
        self.overwrite = overwrite;
        self
    }

    /// Keeps the crawl's state in this directory: after any end of the process, the same crawl with the same directory
    /// goes on where it was. Without it, everything is in memory.
    ///
    /// ```no_run
    /// # use crawler::{Crawler, StateReader};
    /// # use std::path::Path;
    /// let crawl = || Crawler::new("https://example.org/")?.max_pages(500).state("state").named_module("jsonl=pages.jsonl");
    /// let report = crawl()?.run()?; // … killed, and run again: the same pages, each once in the file
    /// println!("{} pages, {:?}", report.snapshot.pages, report.resumed);
    ///
    /// let mut stored = StateReader::open(Path::new("state"))?;
    /// println!("{:?}", stored.why(&"https://example.org/about".parse().expect("a URL"))?);
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn state_dir(mut self, directory: impl Into<PathBuf>) -> Crawler {
        self.state = Some(directory.into());
        self
    }

    /// Notes something in the state for whoever resumes: see
    /// [`StateReader::note`](crate::backend::durable::Stored::note).
    pub fn metadata(mut self, note: impl Into<Vec<u8>>) -> Crawler {
        self.note = note.into();
        self
    }

    /// Hears how each URL ended.
    ///
    /// ```no_run
    /// # let crawler = crawler::Crawler::new("https://example.org/")?;
    /// use crawler::Outcome;
    ///
    /// let crawler = crawler.tell(|url, outcome| {
    ///     if let Outcome::HttpStatus { code: 404, .. } = outcome {
    ///         println!("{url} is gone");
    ///     }
    /// });
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn on_outcome(mut self, teller: impl Fn(&str, &Outcome) + Send + Sync + 'static) -> Crawler {
        self.teller = Box::new(teller);
        self
    }

    /// What ends the crawl early: keep a clone. What is in flight is finished. Every end of the crawl pulls it too, so
    /// each crawl needs one of its own.
    ///
    /// ```no_run
    /// # let crawler = crawler::Crawler::new("https://example.org/")?;
    /// let stop = crawler::StopHandle::new();
    /// let crawler = crawler.stop(stop.clone());
    /// std::thread::spawn(move || {
    ///     std::thread::sleep(std::time::Duration::from_secs(60));
    ///     stop.stop();
    /// });
    /// println!("{}", crawler.run()?.end);
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn stop_handle(mut self, stop: StopHandle) -> Crawler {
        self.stop = stop;
        self
    }

    /// Crawls to the end.
    pub fn run(self) -> Result<CrawlReport, Error> {
        self.run_with_progress(|_| {})
    }

    /// Crawls to the end, and shows how things stand: at the beginning, where a resumed crawl has URLs admitted before,
    /// and then once a second.
    ///
    /// ```no_run
    /// # let crawler = crawler::Crawler::new("https://example.org/")?;
    /// let report = crawler.run_watched(|now| {
    ///     eprintln!("{} pages, {} URLs waiting, {} hosts", now.pages, now.outstanding(), now.active_hosts);
    /// })?;
    /// for (kind, urls) in &report.snapshot.outcomes {
    ///     println!("{urls} {kind}");
    /// }
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn run_with_progress(mut self, watch: impl Fn(&Snapshot)) -> Result<CrawlReport, Error> {
        self.settle();
        match self.state.take() {
            None => self.run_in_memory(&watch),
            Some(directory) => self.run_durably(&directory, &watch),
        }
    }

    /// Settles what follows from what was told.
    pub(crate) fn settle(&mut self) {
        self.settings.keep_depths = self.max_depth.is_some();
        self.settings.max_page_bytes = self.config.max_page_bytes as u64;
    }

    fn run_in_memory(mut self, watch: &dyn Fn(&Snapshot)) -> Result<CrawlReport, Error> {
        let installed = self.install(self.fresh_start())?;
        let backend = Arc::new(LocalBackend::new(self.settings.clone()));
        let crew = LocalRun { backend, installed, elapsed: Duration::ZERO, syncs: false };
        crew.crawl(self, watch)
    }

    /// Opens the state, puts the outputs where its last commit has them, and goes on.
    fn run_durably(mut self, directory: &Path, watch: &dyn Fn(&Snapshot)) -> Result<CrawlReport, Error> {
        let begin = StateOptions {
            settings: self.settings.clone(),
            delay: self.config.delay,
            terms: self.terms(),
            note: std::mem::take(&mut self.note),
        };
        let OpenState { backend, keeper, before } = durable::open(directory, begin)?;
        let elapsed = match before {
            PriorState::Nothing => Duration::ZERO,
            PriorState::Begun { elapsed } => elapsed,
        };
        let (written, outputs) = (keeper.outputs_written()?, self.outputs.len());
        let installed = match &written {
            Some((last_id, committed)) => self.install(Start::Resumed { committed, last_id: *last_id })?,
            None => match self.install(self.fresh_start()) {
                Ok(installed) => {
                    keeper.claim_outputs(outputs)?;
                    installed
                }
                Err(error) => {
                    // Nothing was begun: whoever mends what is in the way begins afresh.
                    if before == PriorState::Nothing {
                        keeper.discard();
                    }
                    return Err(error);
                }
            },
        };
        keeper.replay(written.map_or(0, |(last_id, _)| last_id), |id, additions| {
            installed.write(id, additions);
            installed.output_failure().map_or(Ok(()), |failure| Err(Error::InvalidSetting(failure)))
        })?;
        let crew = LocalRun { backend: Arc::new(backend), installed, elapsed, syncs: true };
        let report = crew.crawl(self, watch);
        match (report, keeper.close()) {
            (Ok(_), Err(error)) => Err(error),
            (report, _) => report,
        }
    }

    fn fresh_start(&self) -> Start<'static> {
        if self.overwrite { Start::Overwrite } else { Start::Fresh }
    }

    /// Opens a worker's parts of the outputs.
    pub(crate) fn install_parts(
        &mut self,
        worker: WorkerId,
        crawl: &CrawlIdentity,
    ) -> Result<Arc<PagePipeline>, Error> {
        let parts = Parts::open(&self.outputs, worker.0, crawl, self.overwrite)?;
        let (modules, outputs) = (std::mem::take(&mut self.modules), std::mem::take(&mut self.outputs));
        let teller = std::mem::replace(&mut self.teller, Box::new(|_, _| {}));
        Ok(Arc::new(PagePipeline::with_parts(modules, outputs, parts, teller)?))
    }

    /// Opens the files of the outputs.
    fn install(&mut self, start: Start) -> Result<Arc<PagePipeline>, Error> {
        let files = OutputFiles::open(&self.outputs, start)?;
        let (modules, outputs) = (std::mem::take(&mut self.modules), std::mem::take(&mut self.outputs));
        let teller = std::mem::replace(&mut self.teller, Box::new(|_, _| {}));
        Ok(Arc::new(PagePipeline::new(modules, outputs, files, teller)))
    }
}
