//! What an observer sees of a classic crawl: its counts in the form of the pipeline's, and its statistics.

use std::sync::Arc;
use std::time::Duration;

use super::ClassicCrawl;
use super::task_budget::TaskRequests;
use crate::backend::{Snapshot, WaitReason, WaitingHost};
use crate::crawl_view::{CrawlMonitor, CrawlPhase, CrawlView, Limits};
use crate::fetch::http::Download;
use crate::fetch::robots::waits::RobotsWaits;
use crate::origin::throttle_key;
use crate::outcome::Outcome;
use crate::page::declared_language;
use crate::statistics::recorder::{PageFacts, RequestFacts, UrlFacts};
use crate::statistics::{Recorder, Statistics};
use crate::stats::Stats;
use crate::task::Task;

/// The interval between two calls of the callback.
pub(super) const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// A callback for all that is known of the crawl.
pub(super) type ClassicStatusCallback = Arc<dyn Fn(&CrawlView) + Send + Sync>;

/// The statistics of a running crawl, and who wants to see them.
pub(super) struct ClassicStatus {
    monitor: CrawlMonitor,
    recorder: Recorder,
    robots_waits: RobotsWaits,
    callback: Option<ClassicStatusCallback>,
}

impl ClassicStatus {
    /// The status of a crawl that starts now.
    pub(super) fn new(crawl: &ClassicCrawl) -> ClassicStatus {
        let (max_depth, delay) = (Some(crawl.max_depth), crawl.config.delay);
        let limits = Limits { max_depth, delay, ..Limits::default() };
        let monitor = CrawlMonitor::new(Duration::ZERO, Statistics::default(), limits);
        let recorder = monitor.recorders.add();
        let (robots_waits, callback) = (crawl.robots_waits.clone(), crawl.on_status.clone());
        ClassicStatus { monitor, recorder, robots_waits, callback }
    }

    /// Where requests are recorded.
    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Records a URL that has its outcome.
    pub(super) fn record(
        &self,
        task: &Task,
        outcome: &Outcome,
        requests: &TaskRequests,
        page: Option<&PageFacts>,
    ) {
        if *outcome == Outcome::NotReached {
            return;
        }
        let (url, page) = (task.url.as_str(), page.filter(|_| *outcome == Outcome::Page));
        let (host, request) = (throttle_key(url), RequestFacts::from(&requests.last));
        let completed = UrlFacts { url, host, outcome, depth: task.depth, request, page };
        self.recorder.record_completion(&completed);
    }

    /// Adds the counts to the time series, and calls the callback.
    pub(super) fn report(&self, stats: &Stats) {
        let snapshot = snapshot(stats);
        self.monitor.recorders.sample(&snapshot, self.monitor.elapsed());
        if let Some(callback) = &self.callback {
            let mut view = self.monitor.view(snapshot);
            view.snapshot.waiting_hosts.extend(waiting_host(&view));
            self.robots_waits.add_to(&mut view.snapshot.waiting_hosts);
            callback(&view);
        }
    }

    /// Records that the crawl stops or has ended.
    pub(super) fn set_phase(&self, phase: CrawlPhase) {
        self.monitor.set_phase(phase);
    }

    /// The statistics so far.
    pub(super) fn statistics(&self) -> Arc<Statistics> {
        Arc::new(self.monitor.recorders.merged())
    }
}

/// What is recorded of a page. Its title is not read.
pub(super) fn page_facts(page: &Download) -> PageFacts {
    let header =
        || page.headers.get("content-language").map(|value| String::from_utf8_lossy(value.as_bytes()));
    let language = declared_language(page.media, page.content_type.as_deref(), header, &page.body);
    let (bytes, is_truncated) = (page.body.len() as u64, page.truncated);
    PageFacts { title: String::new(), language, bytes, is_truncated }
}

/// The host of the crawl, and the delay for which its URLs wait.
fn waiting_host(view: &CrawlView) -> Option<WaitingHost> {
    let (host, statistics) = view.statistics.hosts.top(1, |host| host.requests).pop()?;
    let (waiting, delay) = (view.snapshot.pending(), Duration::from_millis(statistics.delay_ms.into()));
    let holds_up = waiting > 0 && !delay.is_zero() && !matches!(view.phase, CrawlPhase::Ended(_));
    holds_up.then(|| WaitingHost { host: host.to_owned(), waiting, leased: 0, why: WaitReason::Delay(delay) })
}

/// The counts of a classic crawl.
fn snapshot(stats: &Stats) -> Snapshot {
    let (completed, links_rejected) = (stats.admitted - stats.pending(), &stats.links_rejected);
    let pending = usize::try_from(stats.pending()).unwrap_or(usize::MAX);
    Snapshot {
        admitted: stats.admitted,
        completed,
        outcomes: stats.outcomes.clone(),
        links_new: stats.links.saturating_sub(stats.links_seen + links_rejected.values().sum::<u64>()),
        links_seen: stats.links_seen,
        links_rejected: links_rejected.clone(),
        pages: stats.pages,
        bytes: stats.bytes,
        received: stats.received,
        requests: stats.requests,
        url_queue: pending,
        ..Snapshot::default()
    }
}
