//! What a crawl counts.

use std::collections::BTreeMap;

use crate::outcome::Outcome;
use crate::stats::RequestCounter;

/// What only grows.
#[derive(Debug, Clone, Default)]
pub(crate) struct CrawlCounters {
    /// As many as there were admissions.
    pub(crate) last_ticket: u64,
    pub(crate) admitted: u64,
    pub(crate) completed: u64,
    pub(crate) revisits: u64,
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) links_new: u64,
    pub(crate) links_known: u64,
    pub(crate) links_refused: BTreeMap<String, u64>,
    /// HTTP requests sent, counted by the fetchers.
    pub(crate) requests: RequestCounter,
}

impl CrawlCounters {
    /// Counts the end of a URL.
    pub(crate) fn ended(&mut self, outcome: &Outcome) {
        add(&mut self.outcomes, &outcome.label(), 1);
    }

    /// Counts links that are not followed, by reason.
    pub(crate) fn refused(&mut self, refused: BTreeMap<&'static str, u64>) {
        for (reason, links) in refused {
            add(&mut self.links_refused, reason, links);
        }
    }
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str, more: u64) {
    match counts.get_mut(name) {
        Some(count) => *count += more,
        None => drop(counts.insert(name.to_owned(), more)),
    }
}
