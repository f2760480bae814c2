//! What an observer of a crawl sees: its counts, statistics and limits, and whether it runs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::backend::Snapshot;
use crate::live_settings::{CrawlControl, LiveSettings};
use crate::statistics::{Recorders, Statistics};

/// A crawl at one point in time.
#[derive(Debug, Clone)]
pub struct CrawlView {
    /// Counts and queue lengths.
    pub snapshot: Snapshot,
    /// What its requests and URLs were like.
    pub statistics: Arc<Statistics>,
    /// The active crawl time, with that of earlier processes.
    pub elapsed: Duration,
    /// Its limits.
    pub limits: Limits,
    /// Whether it runs.
    pub phase: CrawlPhase,
}

/// The limits of a crawl, as they are now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The most pages.
    pub max_pages: u64,
    /// The most bytes of bodies.
    pub max_bytes: u64,
    /// The longest active crawl time.
    pub max_time: Option<Duration>,
    /// The most links between a seed and a page.
    pub max_depth: Option<u32>,
    /// The delay between requests to a host.
    pub delay: Duration,
}

impl Default for Limits {
    /// No limits.
    fn default() -> Limits {
        Limits {
            max_pages: u64::MAX,
            max_bytes: u64::MAX,
            max_time: None,
            max_depth: None,
            delay: Duration::ZERO,
        }
    }
}

/// Whether a crawl runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CrawlPhase {
    /// It runs.
    #[default]
    Running,
    /// It starts no requests until it is resumed.
    Paused,
    /// It finishes the requests in flight.
    Stopping,
    /// It has ended, or no process runs it, for this reason.
    Ended(String),
}

impl fmt::Display for CrawlPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CrawlPhase::Running => "running",
            CrawlPhase::Paused => "paused",
            CrawlPhase::Stopping => "stopping",
            CrawlPhase::Ended(end) => return write!(f, "ended: {end}"),
        })
    }
}

/// What the process that runs a crawl knows of it beyond the snapshot.
#[derive(Debug)]
pub(crate) struct CrawlMonitor {
    /// The statistics.
    pub(crate) recorders: Recorders,
    /// The active crawl time of earlier processes.
    before: Duration,
    started: Instant,
    limits: Limits,
    /// What changed since it started.
    control: CrawlControl,
    phase: Mutex<CrawlPhase>,
}

impl CrawlMonitor {
    /// A crawl that starts now, after this active crawl time and these statistics of earlier processes.
    pub(crate) fn new(before: Duration, statistics: Statistics, limits: Limits) -> CrawlMonitor {
        CrawlMonitor {
            recorders: Recorders::continuing(statistics),
            before,
            started: Instant::now(),
            limits,
            control: CrawlControl::default(),
            phase: Mutex::default(),
        }
    }

    /// The crawl may be changed while it runs.
    pub(crate) fn with_control(self, control: CrawlControl) -> CrawlMonitor {
        CrawlMonitor { control, ..self }
    }

    /// The active crawl time, with that of earlier processes. Pauses do not count.
    pub(crate) fn elapsed(&self) -> Duration {
        self.before + self.started.elapsed().saturating_sub(self.control.pause().total())
    }

    /// The active crawl time of earlier processes.
    pub(crate) fn elapsed_before(&self) -> Duration {
        self.before
    }

    /// The limits as they are now.
    pub(crate) fn limits(&self) -> Limits {
        self.control.settings().limits(&self.limits)
    }

    /// What was changed while the crawl runs.
    pub(crate) fn live_settings(&self) -> LiveSettings {
        self.control.settings()
    }

    /// Whether the crawl runs.
    pub(crate) fn phase(&self) -> CrawlPhase {
        match unpoisoned(&self.phase).clone() {
            CrawlPhase::Running if self.control.pause().is_paused() => CrawlPhase::Paused,
            phase => phase,
        }
    }

    /// Changes whether the crawl runs. A crawl that has ended stays so.
    pub(crate) fn set_phase(&self, phase: CrawlPhase) {
        let mut now = unpoisoned(&self.phase);
        if !matches!(*now, CrawlPhase::Ended(_)) {
            *now = phase;
        }
    }

    /// What an observer sees.
    pub(crate) fn view(&self, snapshot: Snapshot) -> CrawlView {
        CrawlView {
            snapshot,
            statistics: Arc::new(self.recorders.merged()),
            elapsed: self.elapsed(),
            limits: self.limits(),
            phase: self.phase(),
        }
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
