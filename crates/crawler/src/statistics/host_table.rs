//! The hosts of a crawl with the most requests, and what their requests were like.

use crate::keyed_map::KeyedMap;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// The most hosts that are kept. The least requested give way.
pub const MAX_HOSTS: usize = 1_000;

/// How many more there may be before some are removed, so that they are not searched for each new host.
const SURPLUS: usize = MAX_HOSTS / 4;

/// The longest name of a host in bytes: a DNS name with a port.
pub const MAX_HOST_BYTES: usize = 253 + 6;

/// The longest text of a failure, in bytes.
pub const MAX_FAILURE_BYTES: usize = 200;

/// A host of which this many requests failed in a row keeps failing.
const KEEPS_FAILING: u32 = 5;

/// What is known of a host's robots.txt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RobotsState {
    /// It was not requested yet.
    #[default]
    Unknown,
    /// It exists, and its rules are obeyed.
    Rules,
    /// There is none: the status is 4xx, and everything is allowed.
    Missing,
    /// It could not be fetched, so nothing is allowed.
    Unavailable,
    /// The crawl does not fetch it.
    Ignored,
    /// It could not be fetched yet: it is requested again, and the URLs of the host wait.
    Failing,
}

/// What the requests to a host were like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostStatistics {
    /// Requests that were sent.
    pub requests: u64,
    /// Pages.
    pub pages: u64,
    /// Body bytes after decoding.
    pub bytes: u64,
    /// Requests that failed, or whose status was 429 or 5xx.
    pub failures: u64,
    /// How many of the last requests failed in a row.
    pub consecutive_failures: u32,
    /// The last failure, in at most [`MAX_FAILURE_BYTES`].
    pub last_failure: Option<Arc<str>>,
    /// The sum of the times from a request to the end of its response, in milliseconds.
    pub latency_total_ms: u64,
    /// The longest of these times.
    pub latency_max_ms: u32,
    /// The shortest time between the end of a response and the start of the next request, as measured by one process; from start to
    /// start if several requests may be in flight.
    pub smallest_gap_ms: Option<u32>,
    /// Requests that started before the delay had passed that was in force then.
    pub early_requests: u64,
    /// The delay between requests.
    pub delay_ms: u32,
    /// What is known of its robots.txt.
    pub robots: RobotsState,
    /// The Crawl-delay of its robots.txt.
    pub crawl_delay_ms: Option<u32>,
    /// When the last request ended.
    pub last_request_at: Option<SystemTime>,
    /// Whether a request did not fail: an earlier row of failures ended with it.
    pub(super) has_succeeded: bool,
    /// Since when its robots.txt is known as it is.
    pub(super) robots_at: Option<SystemTime>,
}

impl HostStatistics {
    /// Whether the last `KEEPS_FAILING` requests failed.
    pub fn keeps_failing(&self) -> bool {
        self.consecutive_failures >= KEEPS_FAILING
    }

    /// The mean time from a request to the end of its response, in milliseconds.
    pub fn mean_latency_ms(&self) -> Option<u64> {
        self.latency_total_ms.checked_div(self.requests)
    }

    fn merge(&mut self, other: &HostStatistics) {
        let (earlier, later) = if self.order() < other.order() { (&*self, other) } else { (other, &*self) };
        // A part that did not request robots.txt knows nothing of it, also if it is the later one.
        let robots_part = if self.robots_order() < other.robots_order() { other } else { &*self };
        let row_before = if later.has_succeeded { 0 } else { earlier.consecutive_failures };
        *self = HostStatistics {
            requests: self.requests + other.requests,
            pages: self.pages + other.pages,
            bytes: self.bytes + other.bytes,
            failures: self.failures + other.failures,
            consecutive_failures: row_before.saturating_add(later.consecutive_failures),
            last_failure: later.last_failure.as_ref().or(earlier.last_failure.as_ref()).cloned(),
            latency_total_ms: self.latency_total_ms + other.latency_total_ms,
            latency_max_ms: self.latency_max_ms.max(other.latency_max_ms),
            smallest_gap_ms: smaller(self.smallest_gap_ms, other.smallest_gap_ms),
            early_requests: self.early_requests + other.early_requests,
            delay_ms: later.delay_ms,
            robots: robots_part.robots,
            crawl_delay_ms: robots_part.crawl_delay_ms,
            last_request_at: later.last_request_at,
            has_succeeded: self.has_succeeded || other.has_succeeded,
            robots_at: robots_part.robots_at,
        };
    }

    /// What is known of the present is taken from the part that is greater in this order: the later one.
    fn order(&self) -> impl Ord + '_ {
        (self.last_request_at, self.delay_ms, self.consecutive_failures, &self.last_failure)
    }

    fn robots_order(&self) -> impl Ord {
        (self.robots_at, self.robots, self.crawl_delay_ms)
    }
}

fn smaller(own: Option<u32>, other: Option<u32>) -> Option<u32> {
    [own, other].into_iter().flatten().min()
}

/// The hosts with the most requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTable {
    hosts: KeyedMap<Arc<str>, HostStatistics>,
}

impl HostTable {
    /// The hosts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &HostStatistics)> {
        self.hosts.iter().map(|(host, statistics)| (&**host, statistics))
    }

    /// One host.
    pub fn get(&self, host: &str) -> Option<&HostStatistics> {
        self.hosts.get(host)
    }

    /// The number of hosts that are kept.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Whether there is no host.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The hosts with the largest values of a measure, the largest first.
    pub fn top<K: Ord>(
        &self,
        count: usize,
        measure: impl Fn(&HostStatistics) -> K,
    ) -> Vec<(&str, &HostStatistics)> {
        let mut hosts: Vec<_> = self.iter().collect();
        hosts.sort_by(|(a_name, a), (b_name, b)| measure(b).cmp(&measure(a)).then(a_name.cmp(b_name)));
        hosts.truncate(count);
        hosts
    }

    /// Changes the statistics of a host. A host that is new starts with these.
    pub(crate) fn change(
        &mut self,
        host: &str,
        new: impl FnOnce() -> HostStatistics,
        change: impl FnOnce(&mut HostStatistics),
    ) {
        let host = super::shortened(host, MAX_HOST_BYTES);
        if let Some(known) = self.hosts.get_mut(host) {
            return change(known);
        }
        let mut new = new();
        change(&mut new);
        self.hosts.insert(host.into(), new);
        self.limit(MAX_HOSTS + SURPLUS);
    }

    pub(super) fn merge(&mut self, other: &HostTable) {
        for (host, statistics) in &other.hosts {
            match self.hosts.get_mut(host) {
                Some(known) => known.merge(statistics),
                None => drop(self.hosts.insert(Arc::clone(host), statistics.clone())),
            }
        }
        self.limit(MAX_HOSTS);
    }

    /// Removes the least requested hosts, and of those the ones that have waited longest, if there are more than `max`.
    fn limit(&mut self, max: usize) {
        if self.hosts.len() <= max {
            return;
        }
        let surplus = self.hosts.len() - MAX_HOSTS;
        let mut order: Vec<_> = self
            .hosts
            .iter()
            .map(|(host, statistics)| (statistics.requests, statistics.last_request_at, Arc::clone(host)))
            .collect();
        order.select_nth_unstable(surplus - 1);
        for (_, _, host) in &order[..surplus] {
            self.hosts.remove(host);
        }
    }
}
