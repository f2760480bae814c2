//! The report of a replay.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::StorageError;
use crate::modules::page_pipeline::ModuleFailures;
use crate::pipeline::CrawlEnd;

/// The counts of a replay, running or ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// The URLs by the label of their outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Decoded bytes of pages and files.
    pub bytes: u64,
    /// All records that were read, also those that were left out.
    pub records: u64,
    /// The records that were left out, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Damaged records.
    pub damaged: u64,
    /// Archives that could not be read to their end.
    pub failed_archives: u64,
    /// Bytes read from the archives.
    pub archive_bytes: u64,
}

impl ReplayCounts {
    /// The pages.
    pub fn pages(&self) -> u64 {
        self.outcomes.get("page").copied().unwrap_or(0)
    }

    /// Adds the counts of a part of the records.
    pub(super) fn add(&mut self, part: &ReplayCounts) {
        for (sum, part) in [(&mut self.outcomes, &part.outcomes), (&mut self.left_out, &part.left_out)] {
            for (name, count) in part {
                *sum.entry(name.clone()).or_default() += count;
            }
        }
        self.bytes += part.bytes;
        self.records += part.records;
        self.damaged += part.damaged;
        self.failed_archives += part.failed_archives;
    }
}

/// The report of a replay.
#[derive(Debug)]
pub struct ReplayReport {
    /// Why it ended.
    pub end: CrawlEnd,
    /// What it read.
    pub counts: ReplayCounts,
    /// The number of archives; those in a WACZ file one by one.
    pub archives: usize,
    /// How long it took.
    pub elapsed: Duration,
    /// Failures of modules and outputs.
    pub module_failures: ModuleFailures,
    /// The summaries of the modules.
    pub module_summaries: Vec<String>,
    /// Why the outputs are incomplete, if they are.
    pub output_failure: Option<StorageError>,
    /// Why a module could process no more pages.
    pub module_failure: Option<String>,
}
