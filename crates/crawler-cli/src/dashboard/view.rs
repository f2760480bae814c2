//! What the dashboard and the metrics show: a crawl at one point in time, wherever it runs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crawler::internal::backend::Snapshot;
use crawler::internal::backend::redis::{Member, Standby};
use crawler::internal::crawl_view::{CrawlPhase, CrawlView, Limits};
use crawler::internal::distributed::remote::RedisHealth;
use crawler::internal::statistics::Sample;

use crate::live::disk_space::DiskSpace;
use crate::summary::Counts;

/// The time over which rates are measured: long enough to be steady, short enough to be current.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// How a crawl runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Pipeline,
    Classic,
    Redis,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Pipeline => "pipeline",
            Mode::Classic => "classic",
            Mode::Redis => "redis",
        }
    }
}

/// A crawl at one point in time.
#[derive(Debug, Clone)]
pub struct View {
    /// What is crawled: the seed, the state directory or the name in Redis.
    pub name: String,
    pub mode: Mode,
    /// Whether it is what one worker of a distributed crawl sees: its own requests.
    pub is_worker: bool,
    /// Whether there is no crawl yet, or no longer: the process waits for one.
    pub is_waiting: bool,
    pub crawl: CrawlView,
    /// Which processes a distributed crawl lacks that is not over, in a sentence.
    pub missing_processes: Option<&'static str>,
    /// Whether actions can change the crawl.
    pub can_act: bool,
    /// Whether another run can continue the crawl: it is in a state directory or in Redis.
    pub can_resume: bool,
    /// The processes of a distributed crawl, and whether each is alive.
    pub members: Vec<(Member, bool)>,
    /// The processes that wait for the role of a member.
    pub standbys: Vec<Standby>,
    pub redis: Option<RedisHealth>,
    /// Whether Redis replies; `None` without Redis.
    pub redis_up: Option<bool>,
    /// Hosts and patterns that were blocked while the crawl runs.
    pub blocked: Vec<String>,
    /// The bytes that are left on the fullest file system to which the process writes.
    pub disk_free: Option<u64>,
    /// What the user should know, in sentences.
    pub warnings: Vec<String>,
}

impl View {
    /// A crawl that has not reported anything yet.
    pub fn starting(name: &str, mode: Mode) -> View {
        View {
            name: name.into(),
            mode,
            is_worker: false,
            is_waiting: false,
            crawl: CrawlView {
                snapshot: Snapshot::default(),
                statistics: Arc::default(),
                elapsed: Duration::ZERO,
                limits: Limits::default(),
                phase: CrawlPhase::Running,
            },
            missing_processes: None,
            can_act: false,
            can_resume: mode == Mode::Redis,
            members: Vec::new(),
            standbys: Vec::new(),
            redis: None,
            redis_up: None,
            blocked: Vec::new(),
            disk_free: None,
            warnings: Vec::new(),
        }
    }

    /// Adds how much room is left where the crawl writes. One that has ended needs none.
    pub fn add_disk_space(&mut self, disk_space: &DiskSpace) {
        if !matches!(self.crawl.phase, CrawlPhase::Ended(_)) {
            self.disk_free = disk_space.free();
            self.warnings.extend(disk_space.warnings());
        }
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.crawl.snapshot
    }

    /// The counts. URLs without an outcome are pending also after the end, as in `crawler status DIR`: a resumed crawl fetches
    /// them.
    pub fn counts(&self) -> Counts {
        Counts::of_running(&self.crawl.snapshot)
    }

    fn progress(&self) -> Progress {
        let counts = self.counts();
        let (pages, requests) = (self.snapshot().pages, self.snapshot().requests);
        Progress([pages, requests, counts.bytes, counts.failed()].map(|count| count as f64))
    }
}

/// Pages, requests, bytes and failures so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Progress([f64; 4]);

/// Pages, requests, bytes and failures per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Rates {
    pub pages: f64,
    pub requests: f64,
    pub bytes: f64,
    pub failures: f64,
}

impl Rates {
    fn new(before: Progress, now: Progress, time: Duration) -> Rates {
        let seconds = time.as_secs_f64().max(0.001);
        let per_second = |index: usize| {
            let rate = (now.0[index] - before.0[index]).max(0.0) / seconds;
            (rate * 100.0).round() / 100.0
        };
        Rates { pages: per_second(0), requests: per_second(1), bytes: per_second(2), failures: per_second(3) }
    }
}

/// Measures rates over the last seconds of active crawl time, as the display on a terminal does.
#[derive(Debug, Default)]
pub struct RateMeter {
    /// The active crawl time and the counts, the oldest first.
    seen: VecDeque<(Duration, Progress)>,
}

impl RateMeter {
    /// The rates, as of this view. Those of an ended crawl are of the whole crawl.
    pub fn measure(&mut self, view: &View) -> Rates {
        let (now, progress) = (view.crawl.elapsed, view.progress());
        match view.crawl.phase {
            CrawlPhase::Ended(_) => return Rates::new(Progress::default(), progress, now),
            CrawlPhase::Paused => return Rates::default(),
            CrawlPhase::Running | CrawlPhase::Stopping => {}
        }
        // A crawl that was restarted has less time than before.
        self.seen.retain(|(at, _)| *at < now);
        let is_gap = self.seen.back().is_none_or(|(last, _)| *last + RATE_WINDOW < now);
        if is_gap && let Some(stored) = stored_progress(view) {
            self.seen = [stored].into();
        }
        self.seen.push_back((now, progress));
        while self.seen.len() > 2 && self.seen[1].0 + RATE_WINDOW <= now {
            self.seen.pop_front();
        }
        let (since, before) = self.seen[0];
        match now - since {
            Duration::ZERO => Rates::default(),
            time => Rates::new(before, progress, time),
        }
    }
}

/// The counts some seconds ago, as the crawl has stored them; at the start of a crawl, none.
fn stored_progress(view: &View) -> Option<(Duration, Progress)> {
    let (now, samples) = (view.crawl.elapsed, view.crawl.statistics.series.samples());
    let time_of = |sample: &Sample| Duration::from_secs(sample.at_seconds.into());
    // The times of samples have no fractions. The last one is of this view, or a little older.
    let fraction = now.saturating_sub(time_of(samples.last()?)).min(Duration::from_secs(1));
    let is_old = |sample: &&Sample| time_of(sample) + fraction + RATE_WINDOW <= now;
    let Some(sample) = samples.iter().rev().find(is_old) else {
        let is_young = now < 2 * RATE_WINDOW;
        return is_young.then_some((Duration::ZERO, Progress::default()));
    };
    let counts = [sample.pages, sample.requests, sample.bytes, sample.failures];
    Some((time_of(sample) + fraction, Progress(counts.map(|count| count as f64))))
}

#[cfg(test)]
mod tests {
    use crawler::internal::statistics::Statistics;

    use super::*;

    /// A crawl after this time, with ten pages a second.
    fn view(seconds: u32, pages: u64) -> View {
        let (mut view, mut statistics) = (View::starting("test", Mode::Pipeline), Statistics::default());
        for at_seconds in 0..seconds {
            let mut sample = Sample::default();
            (sample.at_seconds, sample.pages) = (at_seconds, u64::from(at_seconds) * 10 + 9);
            statistics.series.push(sample);
        }
        view.crawl.statistics = Arc::new(statistics);
        view.crawl.elapsed = Duration::from_secs(seconds.into());
        view.crawl.snapshot.pages = pages;
        view
    }

    #[test]
    fn rates_are_those_of_the_last_seconds_and_known_at_first_sight() {
        let mut meter = RateMeter::default();
        assert_eq!(meter.measure(&view(60, 599)).pages, 10.0, "from the stored history");
        for second in 1..=30 {
            let rates = meter.measure(&view(60 + second, 599));
            assert_eq!(rates.pages > 0.0, second < 10, "after {second} s");
            assert_eq!(meter.measure(&view(60 + second, 599)), rates, "asked twice");
        }
        let mut ended = view(100, 500);
        ended.crawl.phase = CrawlPhase::Ended("finished".into());
        assert_eq!(meter.measure(&ended).pages, 5.0, "of the whole crawl");
        let mut paused = view(60, 599);
        paused.crawl.phase = CrawlPhase::Paused;
        assert_eq!(RateMeter::default().measure(&paused).pages, 0.0);
    }

    #[test]
    fn single_look_shows_the_rates_of_young_and_of_old_crawls() {
        for seconds in [2, 5, 11, 100, 10_000, 300_000] {
            let mut view = view(seconds, u64::from(seconds) * 10 - 1);
            view.crawl.elapsed -= Duration::from_millis(50);
            let pages = RateMeter::default().measure(&view).pages;
            assert!((9.5..=10.5).contains(&pages), "after {seconds} s: {pages}");
        }
    }
}
