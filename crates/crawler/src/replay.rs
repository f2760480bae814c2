//! Replays web archives: runs modules and outputs on the pages of WARC and WACZ files, as a crawl does on those of the network.
//!
//! Records become pages as responses do in a crawl ([`url_of_record`]), and the same [`PagePipeline`] processes them. The pages have an
//! order that depends on the archives alone ([`batches`]), so that the outputs do, too. Threads parse pages, run modules and render in
//! parallel; in between they decide in that order which URLs are used ([`turns`], [`decisions`]).

mod batches;
mod decisions;
mod report;
mod run;
mod turns;
pub(crate) mod url_of_record;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub use self::report::{ReplayCounts, ReplayReport};
use crate::config::{FetchConfig, Oversize};
use crate::error::Error;
use crate::modules::output::files::{OutputFiles, Start};
use crate::modules::page_pipeline::{OutcomeCallback, PagePipeline};
use crate::modules::{BuiltinModule, OutputSpec, registry};
use crate::scope::Scope;
use crate::similarity::Threshold;
use crate::stop::StopHandle;
pub use crate::warc::archives::STDIN;

/// A replay: configure it, then [run](Replay::run) it.
pub struct Replay {
    /// WARC and WACZ files; `-` is standard input.
    pub archives: Vec<PathBuf>,
    /// The limits and types of pages.
    pub config: FetchConfig,
    /// Which URLs are used.
    pub scope: Scope,
    /// How pages are compared; `None` if they are not.
    pub similarity: Option<Threshold>,
    /// The most pages.
    pub max_pages: u64,
    /// How many threads process pages.
    pub threads: usize,
    /// Whether files at the targets of outputs are replaced.
    pub overwrite: bool,
    /// Stops the replay.
    pub stop: StopHandle,
    /// Receives the events.
    pub callbacks: Callbacks,
    modules: Vec<Box<dyn BuiltinModule>>,
    outputs: Vec<OutputSpec>,
}

/// Called with the counts, the bytes of all archives if they are known, and the time.
type ReplayProgressCallback = Box<dyn Fn(&ReplayCounts, Option<u64>, Duration) + Send + Sync>;

/// Functions that are called during a replay.
pub struct Callbacks {
    /// With the outcome of each URL.
    pub on_outcome: OutcomeCallback,
    /// With the counts, the bytes of all archives if they are known, and the time, once per second.
    pub on_progress: ReplayProgressCallback,
    /// With a message about each damaged record, and each archive that cannot be read.
    pub on_damage: Box<dyn Fn(&str) + Send + Sync>,
    /// With messages about what does not stop the replay.
    pub on_notice: Box<dyn Fn(&str) + Send + Sync>,
}

impl Default for Callbacks {
    fn default() -> Callbacks {
        Callbacks {
            on_outcome: Arc::new(|_, _| {}),
            on_progress: Box::new(|_, _, _| {}),
            on_damage: Box::new(|_| {}),
            on_notice: Box::new(|_| {}),
        }
    }
}

impl Replay {
    /// A replay of archives with the defaults of a crawl, and without a limit of pages.
    pub fn new(archives: Vec<PathBuf>) -> Replay {
        Replay {
            archives,
            config: FetchConfig { oversize: Oversize::Truncate, ..FetchConfig::default() },
            scope: Scope::anywhere(),
            similarity: Threshold::new(0.9),
            max_pages: u64::MAX,
            threads: thread::available_parallelism().map_or(1, |cores| cores.get()),
            overwrite: false,
            stop: StopHandle::new(),
            callbacks: Callbacks::default(),
            modules: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Adds a built-in module or output by its specification.
    pub fn module_from_spec(mut self, spec: &str) -> Result<Replay, Error> {
        match registry::parse(spec).map_err(Error::Module)? {
            registry::RegisteredModule::Module(module) => self.modules.push(module),
            registry::RegisteredModule::Output(output) => self.outputs.push(output),
        }
        Ok(self)
    }

    /// Opens the output files.
    fn open_outputs(&mut self) -> Result<PagePipeline, Error> {
        let start = if self.overwrite { Start::Overwrite } else { Start::Fresh };
        let files = OutputFiles::open(&self.outputs, start).map_err(Error::Output)?;
        let (modules, outputs) = (std::mem::take(&mut self.modules), std::mem::take(&mut self.outputs));
        Ok(PagePipeline::new(modules, outputs, files, Arc::clone(&self.callbacks.on_outcome)))
    }
}
