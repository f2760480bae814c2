//! Estimates from the counts of the last minutes how fast a crawl is, and how long it will take.

use std::collections::VecDeque;
use std::time::Duration;

use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::crawl_view::{CrawlView, Limits};

use crate::values::{MAX_COUNT, MAX_LARGE_SIZE};

/// The time over which the shown page rate is measured: long enough to be steady, short enough to be current.
const RATE_WINDOW: f64 = 10.0;

/// The time over which the rates of an estimate are measured.
const ESTIMATE_WINDOW: f64 = 60.0;

/// No rate is shown that was measured over less time.
const MIN_RATE_WINDOW: f64 = 0.9;

/// No estimate is made from less time, or from fewer pages or URLs.
const MIN_WINDOW: f64 = 5.0;
const MIN_COUNT: u64 = 5;

/// A crawl that finds as many URLs as it completes is expected to use up a budget only if the pending URLs suffice for
/// this part of it. The first pages of a small site have many new links, too.
const MIN_PENDING_PART: f64 = 0.25;

/// Longer estimates say nothing.
const MAX_REMAINING: f64 = 100.0 * 86_400.0;

/// The counts of a crawl at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Seconds of the crawl.
    pub at: f64,
    pub pages: u64,
    pub bytes: u64,
    pub pending: u64,
    /// URLs that are completed will be visited again.
    pub revisits: bool,
}

/// The limits of a crawl; `None` where it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budgets {
    pub pages: Option<u64>,
    pub bytes: Option<u64>,
    pub time: Option<Duration>,
}

/// How long a crawl will take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remaining {
    /// An estimate.
    About(Duration),
    /// Nothing allows an estimate, and a time limit ends the crawl then.
    AtMost(Duration),
}

impl From<&Limits> for Budgets {
    /// The largest numbers that can be given stand for no limit.
    fn from(limits: &Limits) -> Budgets {
        Budgets {
            pages: Some(limits.max_pages).filter(|pages| *pages < MAX_COUNT),
            bytes: Some(limits.max_bytes).filter(|bytes| *bytes < MAX_LARGE_SIZE),
            time: limits.max_time,
        }
    }
}

impl Sample {
    /// The counts of a crawl now. The byte budget counts received or decoded bytes, whichever are more.
    fn from_view(view: &CrawlView) -> Sample {
        let snapshot = &view.snapshot;
        Sample {
            at: view.elapsed.as_secs_f64(),
            pages: snapshot.pages,
            bytes: snapshot.bytes.max(snapshot.received),
            pending: snapshot.pending(),
            revisits: snapshot.scheduled() > 0,
        }
    }
}

/// The samples of the last minutes, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct History(VecDeque<Sample>);

impl History {
    /// The history of a crawl that another process runs, or that was not observed until now.
    pub fn from_view(view: &CrawlView) -> History {
        let mut history = History::default();
        let now = Sample::from_view(view);
        // The stored samples have decoded bytes only.
        let growth = now.bytes as f64 / (view.snapshot.bytes as f64).max(1.0);
        for old in view.statistics.series.samples() {
            let (at, bytes) = (f64::from(old.at_seconds), (old.bytes as f64 * growth) as u64);
            history.add(Sample { at, pages: old.pages, bytes, pending: old.pending, revisits: now.revisits });
        }
        history.observe(view);
        history
    }

    /// Adds the counts of a crawl now.
    pub fn observe(&mut self, view: &CrawlView) {
        self.add(Sample::from_view(view));
    }

    /// Adds the newest sample, and forgets those that are too old.
    pub fn add(&mut self, sample: Sample) {
        // A crawl that was restarted has less time than before.
        self.0.retain(|old| old.at < sample.at);
        self.0.push_back(sample);
        while self.0.len() > 2 && self.0[1].at + ESTIMATE_WINDOW <= sample.at {
            self.0.pop_front();
        }
    }

    /// Pages per second over the last seconds; `None` if there is too little time to measure.
    pub fn page_rate(&self) -> Option<f64> {
        let (since, now) = self.span(RATE_WINDOW)?;
        (now.at - since.at >= MIN_RATE_WINDOW)
            .then(|| now.pages.saturating_sub(since.pages) as f64 / (now.at - since.at))
    }

    /// How long the crawl will take, if the last minute allows an estimate: until the first budget is used up, or until no
    /// URL is pending. A time limit ends it at the latest, and is no estimate of its own: a small crawl ends long before.
    pub fn remaining(&self, budgets: &Budgets) -> Option<Remaining> {
        let now = self.0.back()?;
        let until_limit = budgets.time.map(|time| time.as_secs_f64() - now.at);
        let estimates = [self.until_used_up(budgets), self.until_none_is_pending()];
        let estimate = estimates.into_iter().flatten().min_by(f64::total_cmp);
        let time =
            |seconds: f64| (seconds < MAX_REMAINING).then(|| Duration::from_secs_f64(seconds.max(0.0)));
        match (estimate, until_limit) {
            (Some(estimate), limit) => {
                time(limit.map_or(estimate, |limit| limit.min(estimate))).map(Remaining::About)
            }
            (None, Some(limit)) => time(limit).map(Remaining::AtMost),
            (None, None) => None,
        }
    }

    /// The time until the pages or the bytes are used up; `None` if the pending URLs may not suffice for that.
    fn until_used_up(&self, budgets: &Budgets) -> Option<f64> {
        let (since, now) = self.long_span()?;
        let seconds = now.at - since.at;
        let pages = now.pages.saturating_sub(since.pages);
        let bytes = now.bytes.saturating_sub(since.bytes);
        if pages < MIN_COUNT {
            return None;
        }
        let left = |budget: Option<u64>, used: u64, recently: u64| {
            let left = budget?.saturating_sub(used) as f64;
            (recently > 0).then(|| left / recently as f64 * seconds)
        };
        let by_pages = left(budgets.pages, now.pages, pages);
        let by_bytes = left(budgets.bytes, now.bytes, bytes);
        let until = by_pages.into_iter().chain(by_bytes).min_by(f64::total_cmp)?;
        // What the pending URLs suffice for, if one page comes of each.
        let pending_time = now.pending as f64 / pages as f64 * seconds;
        let is_growing = now.pending >= since.pending;
        let needed = if is_growing { MIN_PENDING_PART * until } else { until };
        (pending_time >= needed).then_some(until)
    }

    /// The time until no URL is pending, if they have become fewer in both halves of the time, and none comes back.
    fn until_none_is_pending(&self) -> Option<f64> {
        let (since, now) = self.long_span()?;
        let middle = self.at_or_before((since.at + now.at) / 2.0)?;
        let is_shrinking = since.pending > middle.pending && middle.pending > now.pending;
        let fewer = since.pending.saturating_sub(now.pending);
        (is_shrinking && !now.revisits && fewer >= MIN_COUNT.min(now.pending))
            .then(|| now.pending as f64 / fewer as f64 * (now.at - since.at))
    }

    /// The first and the last sample of an estimate, if they are far enough apart.
    fn long_span(&self) -> Option<(Sample, Sample)> {
        self.span(ESTIMATE_WINDOW).filter(|(since, now)| now.at - since.at >= MIN_WINDOW)
    }

    /// The last sample, and the one that is at least this many seconds older; the oldest if none is.
    fn span(&self, seconds: f64) -> Option<(Sample, Sample)> {
        let now = *self.0.back()?;
        Some((self.at_or_before(now.at - seconds).or(self.0.front().copied())?, now))
    }

    fn at_or_before(&self, at: f64) -> Option<Sample> {
        self.0.iter().rev().find(|sample| sample.at <= at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The history of a crawl whose counts after each second are these.
    fn history(seconds: u32, sample: impl Fn(f64) -> Sample) -> History {
        let mut history = History::default();
        for second in 0..=seconds {
            history.add(Sample { at: second.into(), ..sample(second.into()) });
        }
        history
    }

    /// The seconds of an estimate.
    fn seconds(remaining: Option<Remaining>) -> Option<u64> {
        match remaining? {
            Remaining::About(time) => Some(time.as_secs_f64().round() as u64),
            Remaining::AtMost(_) => None,
        }
    }

    const PAGES: Budgets = Budgets { pages: Some(10_000), bytes: None, time: None };

    /// Forty pages per second of 1,000 bytes, with many pending URLs.
    fn steady(second: f64) -> Sample {
        let pages = (40.0 * second) as u64;
        Sample { pages, bytes: 1_000 * pages, pending: 3_000 + 2 * pages, ..Sample::default() }
    }

    #[test]
    fn first_budget_that_is_used_up_ends_a_crawl() {
        let history = history(30, steady);
        assert_eq!(history.page_rate(), Some(40.0));
        assert_eq!(seconds(history.remaining(&PAGES)), Some(220));
        let bytes = Budgets { bytes: Some(2_000_000), ..PAGES };
        assert_eq!(seconds(history.remaining(&bytes)), Some(20));
        let time = Budgets { time: Some(Duration::from_secs(40)), ..bytes };
        assert_eq!(seconds(history.remaining(&time)), Some(10));
        assert_eq!(history.remaining(&Budgets::default()), None, "it may never end");
        let used_up = Budgets { pages: Some(1_000), ..PAGES };
        assert_eq!(seconds(history.remaining(&used_up)), Some(0));
    }

    #[test]
    fn time_limit_caps_an_estimate_and_is_none_of_its_own() {
        let hour = Budgets { time: Some(Duration::from_secs(3_600)), ..Budgets::default() };
        let left = |seconds| Some(Remaining::AtMost(Duration::from_secs(seconds)));
        assert_eq!(history(30, steady).remaining(&hour), left(3_570), "no URL limit, and ever more URLs");
        assert_eq!(history(2, steady).remaining(&Budgets { time: hour.time, ..PAGES }), left(3_598));
        assert_eq!(history(3_700, steady).remaining(&hour), left(0), "its requests finish");
        let both = Budgets { time: hour.time, ..PAGES };
        assert_eq!(seconds(history(30, steady).remaining(&both)), Some(220), "the pages are used up before");
    }

    #[test]
    fn little_time_and_few_pages_allow_no_estimate() {
        assert_eq!(history(4, steady).remaining(&PAGES), None);
        let slow = |second: f64| Sample { pages: second as u64 / 20, pending: 50_000, ..Sample::default() };
        assert_eq!(history(60, slow).remaining(&PAGES), None);
        assert_eq!(History::default().remaining(&PAGES), None);
        assert_eq!(History::default().page_rate(), None);
    }

    #[test]
    fn small_site_is_not_expected_to_use_up_the_budget() {
        // It finds more URLs than it fetches, but has few of them.
        let growing = |second: f64| Sample {
            pages: (10.0 * second) as u64,
            pending: 50 + 5 * second as u64,
            ..Sample::default()
        };
        assert_eq!(history(20, growing).remaining(&PAGES), None);
    }

    #[test]
    fn crawl_without_new_urls_ends_with_the_pending_ones() {
        let shrinking = |second: f64| Sample {
            pages: 500 + (10.0 * second) as u64,
            pending: 1_000 - 10 * second as u64,
            ..Sample::default()
        };
        assert_eq!(seconds(history(20, shrinking).remaining(&PAGES)), Some(80));
        assert_eq!(seconds(history(20, shrinking).remaining(&Budgets::default())), Some(80));
        // A budget that is used up before counts.
        let small = Budgets { pages: Some(800), ..Budgets::default() };
        assert_eq!(seconds(history(20, shrinking).remaining(&small)), Some(10));
        // URLs that come back are pending again.
        let revisited = |second: f64| Sample { revisits: true, ..shrinking(second) };
        assert_eq!(history(20, revisited).remaining(&Budgets::default()), None);
    }

    #[test]
    fn pending_urls_that_grow_again_allow_no_estimate() {
        let wave = |second: f64| Sample {
            pages: (10.0 * second) as u64,
            pending: 100 + (second as u64 % 10),
            ..Sample::default()
        };
        for second in 6..30 {
            assert_eq!(history(second, wave).remaining(&PAGES), None, "{second}");
        }
    }

    #[test]
    fn stalled_crawl_has_no_estimate_and_a_rate_of_zero() {
        let stalled =
            |second: f64| Sample { pages: 40 * (second as u64).min(20), pending: 9_000, ..Sample::default() };
        let history = history(100, stalled);
        assert_eq!((history.page_rate(), history.remaining(&PAGES)), (Some(0.0), None));
        assert!(history.0.len() <= 62, "{}", history.0.len());
    }

    #[test]
    fn estimate_of_a_site_approaches_its_end() {
        // A site of 2,000 pages: each page has links to others, of which ever fewer are new.
        let mut found = 20.0;
        let mut history = History::default();
        let mut errors = Vec::new();
        for second in 0..=100_u32 {
            let pages = 20.0 * f64::from(second);
            found += (2_000.0 - found) * 0.05;
            let pending = (found - pages).max(0.0) as u64;
            history.add(Sample { at: second.into(), pages: pages as u64, pending, ..Sample::default() });
            if let Some(Remaining::About(estimate)) = history.remaining(&PAGES) {
                errors.push(estimate.as_secs_f64() / (100.0 - f64::from(second)).max(1.0));
            }
        }
        assert!(errors.len() > 20, "{errors:?}");
        let late = &errors[errors.len() - 15..errors.len() - 3];
        assert!(late.iter().all(|error| (0.3..3.5).contains(error)), "{errors:?}");
    }
}
