//! Assembles a crawl of the pipeline in one process: the resources, the frontier, the workers.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime;
use url::Url;

use crate::config::Config;
use crate::error::Error;
use crate::frontier;
use crate::installed::{Counts, Installed, Teller};
use crate::modules::files::{OutputFiles, Start};
use crate::modules::{Module, OutputSpec, registry};
use crate::origin::without_credentials;
use crate::outcome::Outcome;
use crate::prioritizer::{FromCrawl, Prioritize, Queues, Random};
use crate::resources::embedded::{Embedded, Settings};
use crate::resources::{Budget, Found, Resources, Snapshot, Trouble, WorkerId};
use crate::scope::Scope;
use crate::stop::Stop;
use crate::task::Depth;
use crate::worker::similarity::Threshold;
use crate::worker::visit::Visitor;
use crate::worker::{Orders, Worker};

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
    seeds: Vec<Url>,
    config: Config,
    scope: Scope,
    max_depth: Option<Depth>,
    max_time: Option<Duration>,
    settings: Settings,
    prioritize: Box<dyn Prioritize>,
    modules: Vec<Box<dyn Module>>,
    outputs: Vec<OutputSpec>,
    overwrite: bool,
    teller: Teller,
    stop: Stop,
}

/// How a crawl ended.
#[derive(Debug)]
pub struct Report {
    /// Counts and lengths at the end.
    pub snapshot: Snapshot,
    /// What modules led to.
    pub counts: Counts,
    /// What the modules have to say.
    pub summaries: Vec<String>,
    /// Why it ended.
    pub end: End,
    /// Why the outputs are not whole, if they are not.
    pub output_failure: Option<String>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Why a crawl ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nothing was left to do.
    Done,
    /// A budget was spent.
    Spent(Budget),
    /// The time was up.
    TimeUp,
    /// Somebody asked.
    Stopped,
}

impl Crawler {
    /// A crawl from one seed: an absolute http or https URL.
    pub fn new(seed: &str) -> Result<Crawler, Error> {
        let seed = Url::parse(seed).map_err(|error| Error::Setting(format!("seed {seed:?}: {error}")))?;
        Crawler::from_seeds(vec![seed])
    }

    /// A crawl from several seeds. It slows down with hosts whose answers slow down ([`Config::adapt`]).
    pub fn from_seeds(seeds: Vec<Url>) -> Result<Crawler, Error> {
        if seeds.is_empty() {
            return Err(Error::Setting("a crawl needs a seed".into()));
        }
        if let Some(other) = seeds.iter().find(|seed| !matches!(seed.scheme(), "http" | "https")) {
            let scheme = other.scheme();
            return Err(Error::Setting(format!("a seed's scheme is '{scheme}'; give http or https URLs")));
        }
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
        let config = Config { concurrency: 64, adapt: true, ..Config::default() };
        let settings = Settings {
            queue_size: 10_000,
            priority_queues: Queues::new(10).expect("ten is a number of queues"),
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
            prioritize: Box::new(FromCrawl),
            modules: Vec::new(),
            outputs: Vec::new(),
            overwrite: false,
            teller: Box::new(|_, _| {}),
            stop: Stop::new(),
        })
    }

    /// How pages are fetched.
    pub fn config(mut self, config: Config) -> Crawler {
        self.config = config;
        self
    }

    /// Changes how pages are fetched.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Crawler {
        change(&mut self.config);
        self
    }

    /// Changes queues, storages and budgets.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Crawler {
        change(&mut self.settings);
        self
    }

    /// Where the crawl stays; anywhere by default.
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
        self.settings(|settings| settings.max_pages = pages)
    }

    /// The most body bytes it reads; 50 MB by default.
    pub fn max_bytes(self, bytes: u64) -> Crawler {
        self.settings(|settings| settings.max_bytes = bytes)
    }

    /// How long it may take; as long as it needs by default.
    pub fn max_time(mut self, time: Duration) -> Crawler {
        self.max_time = Some(time);
        self
    }

    /// How many workers share the hosts; as many as there are cores by default.
    pub fn workers(self, workers: u16) -> Crawler {
        self.settings(|settings| settings.workers = workers.max(1))
    }

    /// How priorities are computed; from the crawl itself by default.
    pub fn prioritize(mut self, prioritize: impl Prioritize + 'static) -> Crawler {
        self.prioritize = Box::new(prioritize);
        self
    }

    /// Does something with each kept page: a closure, or anything that is a [`Module`].
    pub fn module(mut self, module: impl Module + 'static) -> Crawler {
        self.modules.push(Box::new(module));
        self
    }

    /// Installs a delivered module by its name and arguments, like `jsonl=pages.jsonl`.
    pub fn named_module(mut self, spec: &str) -> Result<Crawler, Error> {
        match registry::parse(spec).map_err(Error::Setting)? {
            registry::Installed::Module(module) => self.modules.push(module),
            registry::Installed::Output(output) => self.outputs.push(output),
        }
        Ok(self)
    }

    /// Removes what earlier crawls left in the files of outputs.
    pub fn overwrite(mut self, overwrite: bool) -> Crawler {
        self.overwrite = overwrite;
        self
    }

    /// Hears how each URL ended.
    pub fn tell(mut self, teller: impl Fn(&str, &Outcome) + Send + Sync + 'static) -> Crawler {
        self.teller = Box::new(teller);
        self
    }

    /// What ends the crawl early: keep a clone.
    pub fn stop(mut self, stop: Stop) -> Crawler {
        self.stop = stop;
        self
    }

    /// Crawls to the end.
    pub fn run(self) -> Result<Report, Error> {
        self.run_watched(|_| {})
    }

    /// Crawls to the end, and shows how things stand once a second.
    pub fn run_watched(mut self, watch: impl Fn(&Snapshot)) -> Result<Report, Error> {
        let begun = Instant::now();
        self.settings.keep_depths = self.max_depth.is_some();
        self.settings.max_page_bytes = self.config.max_page_bytes as u64;
        let start = if self.overwrite { Start::Overwrite } else { Start::Fresh };
        let files = OutputFiles::open(&self.outputs, start)?;
        let installed = Arc::new(Installed::new(self.modules, self.outputs, files, self.teller));
        let resources = Arc::new(Embedded::new(self.settings.clone()));
        let workers = self.settings.workers;
        let orders = Arc::new(Orders {
            resources: Arc::clone(&resources),
            installed: Arc::clone(&installed),
            scope: self.scope.refusing_private(&self.config, &self.seeds),
            max_depth: self.max_depth.unwrap_or(Depth::MAX),
            max_page_bytes: self.config.max_page_bytes,
            compare: self.settings.similarity.is_some_and(|threshold| !threshold.is_exact()),
            in_hand: self.settings.queue_size,
            stop: self.stop.clone(),
        });
        let mut crew = Vec::new();
        for id in 0..workers {
            let visitor = Visitor::new(self.config.clone(), &self.seeds, self.stop.clone())?;
            crew.push(Arc::new(Worker::new(WorkerId(id), visitor, Arc::clone(&orders))));
        }
        let seeds = self.seeds.iter().map(|seed| {
            let mut url = without_credentials(seed);
            url.set_fragment(None);
            Found { url: url.into(), depth: 0, redirects: 0 }
        });
        let supervision = Supervision {
            resources: &resources,
            prioritize: &*self.prioritize,
            stop: &self.stop,
            max_time: self.max_time,
            seeds: seeds.collect(),
        };
        let end = thread::scope(|scope| {
            let crew = crew.into_iter().map(|worker| {
                let stop = self.stop.clone();
                scope.spawn(move || work(worker, stop))
            });
            let crew: Vec<_> = crew.collect();
            let end = supervision.run(&watch);
            // Whatever ended the crawl, the workers finish what is in flight.
            self.stop.stop();
            let mut trouble = None;
            for worker in crew {
                match worker.join() {
                    Ok(worked) => trouble = trouble.or(worked.err()),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            match trouble {
                Some(trouble) => Err(trouble),
                None => end,
            }
        });
        let end = end.map_err(|trouble| Error::Setting(trouble.to_string()))?;
        let (counts, summaries) = installed.finish();
        let snapshot =
            block_on(resources.snapshot())?.map_err(|trouble| Error::Setting(trouble.to_string()))?;
        let output_failure = installed.output_failure();
        Ok(Report { end, snapshot, counts, summaries, output_failure, elapsed: begun.elapsed() })
    }
}

/// A worker on a thread of its own, with a runtime of its own: its connections stay where they are used. However it
/// ends, the others are told: a crawl that lost a worker would wait for ever for what that one held.
fn work<R: Resources>(worker: Arc<Worker<R>>, stop: Stop) -> Result<(), Trouble> {
    let _stop = StopWhenDropped(stop);
    block_on(worker.run()).map_err(|error| Trouble(error.to_string()))?
}

struct StopWhenDropped(Stop);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn block_on<F: Future>(future: F) -> Result<F::Output, Error> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Setting(format!("cannot start a runtime: {error}")))?;
    let output = runtime.block_on(future);
    // A name look-up may still be running on a thread of its own; nobody waits for it.
    runtime.shutdown_background();
    Ok(output)
}

/// What the calling thread does while the workers work.
struct Supervision<'a> {
    resources: &'a Arc<Embedded>,
    prioritize: &'a dyn Prioritize,
    stop: &'a Stop,
    max_time: Option<Duration>,
    seeds: Vec<Found>,
}

impl Supervision<'_> {
    fn run(self, watch: &impl Fn(&Snapshot)) -> Result<End, Trouble> {
        block_on(self.supervise(watch)).map_err(|error| Trouble(error.to_string()))?
    }

    async fn supervise(self, watch: &impl Fn(&Snapshot)) -> Result<End, Trouble> {
        let resources = &**self.resources;
        resources.admit(self.seeds).await?;
        let time_up = async {
            match self.max_time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        let watching = async {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                match resources.snapshot().await {
                    Ok(snapshot) => watch(&snapshot),
                    Err(trouble) => return trouble,
                }
            }
        };
        let over = tokio::select! {
            biased;
            over = frontier::run(resources, self.prioritize, Random::from_system(), self.stop) => over?,
            () = time_up => return Ok(End::TimeUp),
            trouble = watching => return Err(trouble),
        };
        match resources.spent().await? {
            _ if over => Ok(End::Done),
            Some(budget) => Ok(End::Spent(budget)),
            None => Ok(End::Stopped),
        }
    }
}
