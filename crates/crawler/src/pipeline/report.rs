//! The report of a finished crawl.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::backend::{Budget, Snapshot};
use crate::error::StorageError;
use crate::modules::page_pipeline::ModuleFailures;
use crate::outcome::Outcome;
use crate::statistics::Statistics;

/// The report of a crawl.
#[derive(Debug)]
#[non_exhaustive]
pub struct CrawlReport {
    /// Counts and queue lengths at the end.
    pub snapshot: Snapshot,
    /// The seeds, without credentials, each with its outcome, or with the outcome of the URL that its redirects lead to.
    /// A resumed crawl has only the seeds that this process fetched.
    pub seeds: Vec<(Url, Outcome)>,
    /// Why the crawl ended.
    pub end: CrawlEnd,
    /// How long the crawl took, including earlier runs of a resumed crawl.
    pub elapsed: Duration,
    /// Whether an earlier process started the crawl.
    pub resumed: ResumeStatus,
    /// Failures of modules and outputs.
    pub module_failures: ModuleFailures,
    /// The summaries of the modules.
    pub module_summaries: Vec<String>,
    /// Why the outputs are incomplete, if they are.
    pub output_failure: Option<StorageError>,
    /// Why a module could process no more pages. The pages that it did not process are pending, except those that it was
    /// processing when the crawl ended.
    pub module_failure: Option<String>,
    /// The number of URLs, and of anchors in pages, to which links are broken, if an output checks links.
    pub broken_links: Option<u64>,
    /// How many failed URLs a resumed crawl has queued again.
    pub(crate) retried: u64,
    /// Statistics of requests and URLs.
    pub(crate) statistics: Arc<Statistics>,
    /// The traffic with Redis of a distributed crawl.
    pub(crate) redis_traffic: Option<Traffic>,
}

/// The parts of the report that only the command and tests need.
pub trait CrawlReportInternals {
    /// How many failed URLs a resumed crawl has queued again.
    fn retried(&self) -> u64;

    /// Statistics of requests and URLs.
    fn statistics(&self) -> &Arc<Statistics>;

    /// The traffic with Redis of a distributed crawl.
    fn redis_traffic(&self) -> Option<Traffic>;
}

#[doc(hidden)]
impl CrawlReportInternals for CrawlReport {
    fn retried(&self) -> u64 {
        self.retried
    }

    fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    fn redis_traffic(&self) -> Option<Traffic> {
        self.redis_traffic
    }
}

/// The traffic with Redis of all processes that lived to the end of the crawl.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// How often a process waited for Redis. Commands that are sent together count once.
    pub round_trips: u64,
    /// The number of commands.
    pub commands: u64,
}

/// Whether an earlier process had started a durable crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeStatus {
    /// The crawl is new.
    New,
    /// The crawl continued.
    Resumed,
    /// The crawl was already finished: nothing was left to do.
    AlreadyFinished,
}

/// Why a crawl ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrawlEnd {
    /// All URLs have an outcome.
    Finished,
    /// A limit was reached.
    LimitReached(Budget),
    /// The time limit was reached.
    TimeLimit,
    /// The crawl received a request to stop.
    Stopped,
    /// An output could not be written. A durable crawl can be resumed, and then writes what is missing.
    OutputFailed,
    /// A module can process no more pages. A durable crawl can be resumed, and then processes those that are missing.
    ModuleFailed,
    /// No module and no output wants more pages: the reader of standard output has closed it.
    OutputClosed,
}

impl fmt::Display for CrawlEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CrawlEnd::Finished => f.write_str("all URLs are done"),
            CrawlEnd::LimitReached(limit) => write!(f, "the limit of {limit} is reached"),
            CrawlEnd::TimeLimit => f.write_str("the time limit is reached"),
            CrawlEnd::Stopped => f.write_str("the crawl was stopped"),
            CrawlEnd::OutputFailed => f.write_str("an output could not be written"),
            CrawlEnd::ModuleFailed => f.write_str("a module could not process all pages"),
            CrawlEnd::OutputClosed => f.write_str("the reader closed standard output"),
        }
    }
}
