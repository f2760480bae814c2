//! What an observer sees of a classic crawl: its counts in the form of the pipeline's, and its statistics.

use std::sync::Arc;
use std::time::Duration;

use super::ClassicCrawl;
use super::task_budget::TaskRequests;
use crate::backend::Snapshot;
use crate::crawl_view::{CrawlMonitor, CrawlPhase, CrawlView, Limits};
use crate::fetch::http::Download;
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
    callback: Option<ClassicStatusCallback>,
}

impl ClassicStatus {
    /// The status of a crawl that starts now.
    pub(super) fn new(crawl: &ClassicCrawl) -> ClassicStatus {
        let (max_depth, delay) = (Some(crawl.max_depth), crawl.config.delay);
        let limits = Limits { max_depth, delay, ..Limits::default() };
        let monitor = CrawlMonitor::new(Duration::ZERO, Statistics::default(), limits);
        let recorder = monitor.recorders.add();
        ClassicStatus { monitor, recorder, callback: crawl.on_status.clone() }
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
            callback(&self.monitor.view(snapshot));
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
