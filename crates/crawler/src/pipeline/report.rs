//! What a crawl of the pipeline tells at its end.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::{Budget, Snapshot};
use crate::modules::page_pipeline::ModuleFailures;

/// How a crawl ended.
#[derive(Debug)]
pub struct CrawlReport {
    /// Counts and lengths at the end.
    pub snapshot: Snapshot,
    /// What modules led to.
    pub counts: ModuleFailures,
    /// What the modules have to say.
    pub summaries: Vec<String>,
    /// Why it ended.
    pub end: CrawlEnd,
    /// Why the outputs are not whole, if they are not.
    pub output_failure: Option<String>,
    /// How long it took, all its processes together.
    pub elapsed: Duration,
    /// Whether an earlier process had begun it.
    pub resumed: ResumeStatus,
    /// What went to Redis and back, where processes share the crawl over it.
    pub traffic: Option<Traffic>,
}

/// What went to Redis and back, of all processes that lived to the end of the crawl.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// How often somebody waited for Redis: what is asked together is waited for once.
    pub round_trips: u64,
    /// How many commands that were.
    pub commands: u64,
}

/// Whether a crawl had been begun by an earlier process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeStatus {
    /// It had not.
    No,
    /// It had, and went on.
    Yes,
    /// It had, and was finished: nothing was left to do.
    Finished,
}

/// Why a crawl ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrawlEnd {
    /// Nothing was left to do.
    Done,
    /// A budget was spent.
    Spent(Budget),
    /// The time was up.
    TimeUp,
    /// Somebody asked.
    Stopped,
    /// An output could not be written; what is missing in it is not lost where the crawl's state is durable.
    OutputFailed,
}

impl fmt::Display for CrawlEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CrawlEnd::Done => f.write_str("nothing was left to do"),
            CrawlEnd::Spent(budget) => write!(f, "the budget of {budget} is spent"),
            CrawlEnd::TimeUp => f.write_str("the time was up"),
            CrawlEnd::Stopped => f.write_str("it was stopped"),
            CrawlEnd::OutputFailed => f.write_str("an output could not be written"),
        }
    }
}
