//! Counters of a crawl: admitted URLs and their outcomes, links, requests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outcome::{Outcome, OutcomeGroup, group_of_label};
use crate::scope::RejectReason;

/// Counts the HTTP requests that were sent: pages, redirects, retries and robots.txt. Clones share one counter.
///
/// A request counts once it is handed to a connection. A request that fails earlier (DNS, connect, TLS) was not sent. The
/// total equals the number of lines in the servers' access logs, except for requests that a server did not read because it
/// was closing the connection at that moment.
#[derive(Debug, Clone, Default)]
pub struct RequestCounter(Arc<RequestCounts>);

#[derive(Debug, Default)]
struct RequestCounts {
    total: AtomicU64,
    /// How many of the total were returned by [`RequestCounter::take_unreported`].
    reported: AtomicU64,
}

impl RequestCounter {
    /// Counts one request.
    pub fn record(&self) {
        self.0.total.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts requests that another process has sent.
    pub fn add(&self, requests: u64) {
        self.0.total.fetch_add(requests, Ordering::Relaxed);
    }

    /// Takes back one request that was not sent after all.
    pub fn retract(&self) {
        self.0.total.fetch_sub(1, Ordering::Relaxed);
    }

    /// Starts from the count of earlier processes.
    pub fn restore(&self, requests: u64) {
        self.0.total.store(requests, Ordering::Relaxed);
    }

    /// All requests so far.
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }

    /// The requests since the last call, for a backend that sums over processes.
    pub fn take_unreported(&self) -> u64 {
        let total = self.total();
        // Concurrent callers: each request is returned to one of them.
        total.saturating_sub(self.0.reported.fetch_max(total, Ordering::Relaxed))
    }
}

/// Bytes of response bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyBytes {
    /// After content decoding. Bodies that were discarded are not decoded.
    pub decoded: u64,
    /// As received.
    pub received: u64,
}

impl BodyBytes {
    /// A body without content encoding.
    pub fn unencoded(bytes: u64) -> BodyBytes {
        BodyBytes { decoded: bytes, received: bytes }
    }

    /// What counts against a limit on bytes, which applies to both.
    pub fn counted(self) -> u64 {
        self.decoded.max(self.received)
    }
}

impl AddAssign for BodyBytes {
    fn add_assign(&mut self, more: BodyBytes) {
        self.decoded += more.decoded;
        self.received += more.received;
    }
}

/// The counts of a crawl, while it runs and at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Admitted URLs. When the crawl has ended, this is the sum of `outcomes`.
    pub admitted: u64,
    /// Admitted URLs by the label of their outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Pages saved.
    pub pages: u64,
    /// Bytes of the saved pages.
    pub bytes: u64,
    /// Body bytes received, of all responses to page requests.
    pub received: u64,
    /// Links found on pages.
    pub links: u64,
    /// Links to URLs that had been seen before.
    pub links_seen: u64,
    /// Links that were rejected before admission, by reason.
    pub links_rejected: BTreeMap<String, u64>,
    /// HTTP requests sent.
    pub requests: u64,
    /// How long the crawl took.
    pub elapsed: Duration,
}

impl Stats {
    /// Counts the outcome of an admitted URL.
    pub(crate) fn record_outcome(&mut self, outcome: &Outcome) {
        self.pages += u64::from(matches!(outcome, Outcome::Page));
        add_one(&mut self.outcomes, outcome.label());
    }

    /// Counts a link that is not followed.
    pub(crate) fn record_rejected_link(&mut self, why: RejectReason) {
        add_one(&mut self.links_rejected, why.label().into());
    }

    /// URLs whose outcome has the same label.
    pub(crate) fn count(&self, outcome: &Outcome) -> u64 {
        self.outcomes.get(&*outcome.label()).copied().unwrap_or(0)
    }

    /// URLs whose outcome is in this group.
    pub fn in_group(&self, group: OutcomeGroup) -> u64 {
        let in_group = self.outcomes.iter().filter(|(label, _)| group_of_label(label) == group);
        in_group.map(|(_, count)| count).sum()
    }

    /// Admitted URLs without an outcome yet.
    pub fn pending(&self) -> u64 {
        self.admitted - self.outcomes.values().sum::<u64>()
    }
}

/// What only the command needs.
pub trait StatsInternals {
    /// URLs that could not be saved.
    fn not_written(&self) -> u64;
}

#[doc(hidden)]
impl StatsInternals for Stats {
    fn not_written(&self) -> u64 {
        self.count(&Outcome::WriteFailed { cause: String::new() })
    }
}

/// Counts one more under this label, which is copied only the first time.
fn add_one(counts: &mut BTreeMap<String, u64>, label: Cow<'static, str>) {
    match counts.get_mut(&*label) {
        Some(count) => *count += 1,
        None => drop(counts.insert(label.into_owned(), 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreported_requests_are_returned_once() {
        let counter = RequestCounter::default();
        let shared = counter.clone();
        (0..3).for_each(|_| shared.record());
        assert_eq!((counter.total(), counter.take_unreported(), counter.take_unreported()), (3, 3, 0));
        shared.record();
        assert_eq!((counter.total(), counter.take_unreported()), (4, 1));
    }
}
