//! The counters of a crawl.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::outcome::Outcome;
use crate::stats::RequestCounter;

/// Counters that never decrease.
#[derive(Debug, Clone, Default)]
pub(crate) struct CrawlCounters {
    /// Task ids are consecutive, so this is also the number of admissions.
    pub(crate) last_task_id: u64,
    pub(crate) admitted: u64,
    pub(crate) completed: u64,
    pub(crate) refetches: u64,
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) links_new: u64,
    pub(crate) links_seen: u64,
    pub(crate) links_rejected: BTreeMap<String, u64>,
    pub(crate) sitemap_urls: u64,
    /// Pages of which only the start was read.
    pub(crate) truncated: u64,
    /// Requisites that were admitted from stylesheets.
    pub(crate) stylesheet_requisites: u64,
    /// The visits before this one, and the pages that they had.
    pub(crate) earlier_visits: u32,
    pub(crate) earlier_pages: u64,
    /// The active crawl time when this one began.
    pub(crate) earlier_time: Duration,
    /// How many URLs had writes to the outputs.
    pub(crate) output_writes: u64,
    /// HTTP requests sent, counted by the fetchers.
    pub(crate) requests: RequestCounter,
}

impl CrawlCounters {
    /// The number of the visit. The first one has the number 1.
    pub(crate) fn visit(&self) -> u32 {
        self.earlier_visits.saturating_add(1)
    }

    /// Counts a completed URL.
    pub(crate) fn count_outcome(&mut self, outcome: &Outcome) {
        add(&mut self.outcomes, &outcome.label(), 1);
        if let Outcome::Sitemap { urls } = outcome {
            self.sitemap_urls += urls;
        }
    }

    /// Counts pending URLs that were lost because the crawl was not resumed in time.
    pub(crate) fn count_expired(&mut self, urls: u64) {
        self.completed += urls;
        add(&mut self.outcomes, &Outcome::NotReached.label(), urls);
    }

    /// Counts rejected links, by reason.
    pub(crate) fn count_rejected(&mut self, rejected: BTreeMap<Cow<'static, str>, u64>) {
        for (reason, links) in rejected {
            add(&mut self.links_rejected, &reason, links);
        }
    }
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str, more: u64) {
    match counts.get_mut(name) {
        Some(count) => *count += more,
        None => drop(counts.insert(name.to_owned(), more)),
    }
}
