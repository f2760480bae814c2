//! What the requests and the completed URLs of a crawl were like: counts, histograms, hosts and a time series, all bounded.
//!
//! [`Snapshot`](crate::Snapshot) has the exact counts. Statistics are recorded by the workers ([`recorder`]), merged by the process
//! that supervises them, and stored every few seconds: a process that is killed loses the last seconds of them, up to half a minute
//! in a distributed crawl.

pub mod counts;
pub(crate) mod encoding;
pub mod histogram;
pub mod host_table;
pub mod recorder;
pub mod time_series;

use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub use self::counts::{FailureCounts, FailureKind, RobotsStatistics, Stages};
pub use self::histogram::{Histogram, Unit};
pub use self::host_table::{HostStatistics, HostTable, RobotsState};
pub use self::recorder::{Recorder, Recorders};
pub use self::time_series::{Sample, TimeSeries};

/// How many names a count by name has, in addition to [`OTHER`].
pub const MAX_NAMES: usize = 50;

/// The name that counts what has no name of its own.
pub const OTHER: &str = "other";

/// The longest name of a media type or language, in bytes.
pub const MAX_NAME_BYTES: usize = 100;

/// How many depths are distinguished. The last one also counts the deeper pages.
pub const MAX_DEPTHS: usize = 100;

/// How many of the last completed URLs are kept.
pub const MAX_LATEST: usize = 50;

/// The longest URL and title of a [`LatestUrl`], in bytes.
const MAX_LATEST_BYTES: usize = 500;

/// What the requests and the completed URLs of a crawl were like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Statistics {
    /// Responses by their HTTP status, those to requests for robots.txt included.
    pub statuses: BTreeMap<u16, u64>,
    /// robots.txt files, and what they disallow.
    pub robots_txt: RobotsStatistics,
    /// Successful responses by their media type, without robots.txt. At most [`MAX_NAMES`] types; [`OTHER`] counts the rest.
    pub content_types: BTreeMap<String, u64>,
    /// Pages by their language, as a primary subtag such as `en`. At most [`MAX_NAMES`] languages; [`OTHER`] counts the rest.
    pub languages: BTreeMap<String, u64>,
    /// Pages by their depth. The last of [`MAX_DEPTHS`] counts the deeper ones, too.
    pub depths: Vec<u64>,
    /// Sizes of pages after decoding.
    pub page_bytes: Histogram,
    /// How long the stages of requests and pages took.
    pub stages: Stages,
    /// Requests that failed, by the kind of the failure.
    pub failures: FailureCounts,
    /// Requests that failed and are to be sent again, because the failure is temporary.
    pub retries: u64,
    /// Pages of which only the start was read, because they were too large.
    pub truncated: u64,
    /// Failures of modules and outputs: of pages, and at the end of the crawl.
    pub module_failures: u64,
    /// Commits of the state.
    pub commits: u64,
    /// How often a process waited for Redis.
    pub redis_round_trips: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// The hosts with the most requests.
    pub hosts: HostTable,
    /// The counts of the crawl over time.
    pub series: TimeSeries,
    /// The last completed URLs, the newest at the end. A state does not store them.
    pub latest: VecDeque<LatestUrl>,
    /// When the crawl was started for the first time.
    pub started_at: Option<SystemTime>,
}

/// A URL that was completed recently.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LatestUrl {
    /// When it was completed.
    pub at: SystemTime,
    /// The URL, shortened if it is very long.
    pub url: String,
    /// Its outcome as text: the label of [`Outcome`](crate::Outcome).
    pub outcome: String,
    /// The status of the last response.
    pub status: Option<u16>,
    /// The decoded bytes of the last response.
    pub bytes: u64,
    /// How long its last request took, in milliseconds.
    pub ms: u32,
    /// Number of links from the nearest seed.
    pub depth: u32,
    /// The title, if it is a page.
    pub title: Option<String>,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            statuses: BTreeMap::new(),
            robots_txt: RobotsStatistics::default(),
            content_types: BTreeMap::new(),
            languages: BTreeMap::new(),
            depths: Vec::new(),
            page_bytes: Histogram::new(Unit::Bytes),
            stages: Stages::default(),
            failures: FailureCounts::default(),
            retries: 0,
            truncated: 0,
            module_failures: 0,
            commits: 0,
            redis_round_trips: 0,
            in_flight: 0,
            hosts: HostTable::default(),
            series: TimeSeries::default(),
            latest: VecDeque::new(),
            started_at: None,
        }
    }
}

impl Statistics {
    /// Adds the statistics of another worker or process.
    pub fn merge(&mut self, other: &Statistics) {
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        self.robots_txt.merge(&other.robots_txt);
        merge_names(&mut self.content_types, &other.content_types);
        merge_names(&mut self.languages, &other.languages);
        for (depth, pages) in other.depths.iter().enumerate() {
            add_at(&mut self.depths, depth, *pages);
        }
        self.page_bytes.merge(&other.page_bytes);
        self.stages.merge(&other.stages);
        self.failures.merge(&other.failures);
        self.retries += other.retries;
        self.truncated += other.truncated;
        self.module_failures += other.module_failures;
        self.commits += other.commits;
        self.redis_round_trips += other.redis_round_trips;
        self.in_flight += other.in_flight;
        self.hosts.merge(&other.hosts);
        self.series.merge(&other.series);
        self.merge_latest(&other.latest);
        self.started_at = [self.started_at, other.started_at].into_iter().flatten().min();
    }

    /// Responses with a status of this class: 2 for 200 to 299.
    pub fn status_class(&self, class: u16) -> u64 {
        self.statuses.range(class * 100..(class + 1) * 100).map(|(_, count)| count).sum()
    }

    fn merge_latest(&mut self, other: &VecDeque<LatestUrl>) {
        if other.is_empty() {
            return;
        }
        let latest = self.latest.make_contiguous();
        latest.sort();
        self.latest.extend(other.iter().cloned());
        self.latest.make_contiguous().sort();
        let surplus = self.latest.len().saturating_sub(MAX_LATEST);
        self.latest.drain(..surplus);
    }
}

/// Adds a count by name. A name that is new takes the place of the rarest one if there are too many, so that common names stay
/// whatever a server sends.
pub(crate) fn count_name(counts: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    if let Some(known) = counts.get_mut(name) {
        *known += count;
        return;
    }
    let named = counts.iter().filter(|(name, _)| *name != OTHER);
    if counts.len() - usize::from(counts.contains_key(OTHER)) >= MAX_NAMES
        && name != OTHER
        && let Some((rarest, fewest)) = named.min_by_key(|(_, count)| **count)
    {
        let (rarest, fewest) = (rarest.clone(), *fewest);
        if fewest > count {
            *counts.entry(OTHER.into()).or_default() += count;
            return;
        }
        counts.remove(&rarest);
        *counts.entry(OTHER.into()).or_default() += fewest;
    }
    counts.insert(name.to_owned(), count);
}

fn merge_names(counts: &mut BTreeMap<String, u64>, other: &BTreeMap<String, u64>) {
    for (name, count) in other {
        count_name(counts, name, *count);
    }
}

/// Adds to the count of a depth, or of the last one.
fn add_at(depths: &mut Vec<u64>, depth: usize, pages: u64) {
    let depth = depth.min(MAX_DEPTHS - 1);
    if depths.len() <= depth {
        depths.resize(depth + 1, 0);
    }
    depths[depth] += pages;
}

/// The start of a text, of at most this many bytes.
pub(crate) fn shortened(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests;
