//! Records statistics while a crawl runs: one recorder for each thread that fetches, so that no lock is contended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::counts::{FailureKind, Stage};
use super::host_table::{HostStatistics, MAX_FAILURE_BYTES, RobotsState};
use super::time_series::{Sample, TimeSeries};
use super::{
    LatestUrl, MAX_LATEST, MAX_LATEST_BYTES, MAX_NAME_BYTES, OTHER, Statistics, add_at, count_name, shortened,
};
use crate::backend::Snapshot;
use crate::fetch::throttle::RequestGap;
use crate::outcome::{Outcome, OutcomeGroup, group_of_label};
use crate::page::Page;
use crate::url_record::RequestRecord;

/// Records what one thread does. Clones share the record.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<ThreadRecord>);

#[derive(Debug, Default)]
struct ThreadRecord {
    statistics: Mutex<Statistics>,
    in_flight: AtomicU64,
    ignores_robots: AtomicBool,
}

/// A request that has ended.
#[derive(Debug)]
pub struct EndedRequest<'a> {
    /// Its host.
    pub host: &'a str,
    /// Whether it was sent.
    pub is_sent: bool,
    /// The status, if a response began.
    pub status: Option<u16>,
    /// Its failure, if it failed.
    pub failure: Option<&'a Outcome>,
    /// From its start to the head of the response.
    pub first_byte: Option<Duration>,
    /// From the head of the response to its end.
    pub download: Option<Duration>,
    /// From its start to its end.
    pub latency: Duration,
    /// Decoded bytes of the body.
    pub bytes: u64,
    /// How long before it the last request to the host was.
    pub gap: RequestGap,
    /// The host's delay.
    pub delay: Duration,
}

/// A URL that was completed.
#[derive(Debug)]
pub struct UrlFacts<'a> {
    /// The URL.
    pub url: &'a str,
    /// Its host.
    pub host: &'a str,
    /// Its outcome.
    pub outcome: &'a Outcome,
    /// Number of links from the nearest seed.
    pub depth: u32,
    /// Its last request.
    pub request: RequestFacts,
    /// What is known of it, if it is a page.
    pub page: Option<&'a PageFacts>,
}

/// What statistics need of the last request for a URL.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestFacts {
    /// The status, if a response began.
    pub status: Option<u16>,
    /// Decoded bytes of the body.
    pub bytes: u64,
    /// How long it took.
    pub latency: Duration,
}

impl From<&RequestRecord> for RequestFacts {
    fn from(request: &RequestRecord) -> RequestFacts {
        let latency = request.requested.zip(request.done).and_then(|(from, to)| to.duration_since(from).ok());
        RequestFacts {
            status: request.status,
            bytes: request.bytes.decoded,
            latency: latency.unwrap_or_default(),
        }
    }
}

/// What statistics need of a page.
#[derive(Debug, Clone, Default)]
pub struct PageFacts {
    /// Its title.
    pub title: String,
    /// Its language tag.
    pub language: Option<String>,
    /// Its size after decoding.
    pub bytes: u64,
    /// Whether only its start was read.
    pub is_truncated: bool,
}

impl PageFacts {
    /// The facts of a page that is not used any more.
    pub(crate) fn from_page(page: Page) -> PageFacts {
        PageFacts {
            language: page.language(),
            bytes: page.body.len() as u64,
            is_truncated: page.truncated,
            title: page.title,
        }
    }
}

impl Recorder {
    fn statistics(&self) -> MutexGuard<'_, Statistics> {
        self.0.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The crawl does not fetch robots.txt.
    pub fn set_ignores_robots(&self) {
        self.0.ignores_robots.store(true, Ordering::Relaxed);
    }

    /// Counts a request as in flight, until the guard is dropped.
    pub fn start_request(&self) -> InFlight {
        self.0.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(&self.0))
    }

    /// Records the time that a stage took.
    pub fn record_stage(&self, stage: Stage, time: Duration) {
        self.statistics().stages.record(stage, time);
    }

    /// Records a commit of the state.
    pub fn record_commit(&self, time: Duration) {
        let mut statistics = self.statistics();
        statistics.commits += 1;
        statistics.stages.record(Stage::Commit, time);
    }

    /// Records a round trip to Redis.
    pub fn record_redis_round_trip(&self, time: Duration) {
        let mut statistics = self.statistics();
        statistics.redis_round_trips += 1;
        statistics.stages.record(Stage::Redis, time);
    }

    /// Records the media type of a successful response that is no robots.txt.
    pub fn record_content_type(&self, content_type: Option<&str>) {
        // A longer type has no name of its own.
        let value = shortened(content_type.unwrap_or_default(), 2 * MAX_NAME_BYTES);
        let end = value.bytes().position(|byte| byte == b';').unwrap_or(value.len());
        let essence = value[..end].trim_ascii();
        let mut statistics = self.statistics();
        with_lower_case(essence, |essence| count_name(&mut statistics.content_types, essence, 1));
    }

    /// Records a request that has ended.
    pub fn record_request(&self, request: &EndedRequest) {
        let mut guard = self.statistics();
        let statistics = &mut *guard;
        if let Some(status) = request.status {
            *statistics.statuses.entry(status).or_default() += 1;
        }
        if let Some(time) = request.first_byte {
            statistics.stages.first_byte.record(time);
        }
        if let Some(time) = request.download {
            statistics.stages.download.record(time);
        }
        let kind = request.failure.and_then(FailureKind::from_outcome);
        if let Some(kind) = kind {
            statistics.failures.record(kind);
        }
        let is_failed = kind.is_some() || matches!(request.status, Some(429 | 500..));
        statistics.hosts.change(
            request.host,
            || self.new_host(),
            |host| add_request(host, request, is_failed),
        );
    }

    /// Records that a URL is requested again.
    pub fn record_retry(&self) {
        self.statistics().retries += 1;
    }

    /// Records what is known of a host's robots.txt.
    pub fn record_robots(&self, host: &str, state: RobotsState, crawl_delay: Option<Duration>) {
        let mut guard = self.statistics();
        let statistics = &mut *guard;
        match state {
            RobotsState::Rules => statistics.robots_txt.fetched += 1,
            RobotsState::Missing => statistics.robots_txt.missing += 1,
            RobotsState::Unavailable => statistics.robots_txt.unavailable += 1,
            RobotsState::Unknown | RobotsState::Ignored | RobotsState::Failing => {}
        }
        let now = SystemTime::now();
        let change = |host: &mut HostStatistics| {
            (host.robots, host.crawl_delay_ms) = (state, crawl_delay.map(milliseconds));
            host.robots_at = Some(now);
        };
        statistics.hosts.change(host, || self.new_host(), change);
    }

    /// Records that a host's robots.txt could not be fetched yet. It is not counted before it is given up.
    pub fn record_robots_wait(&self, host: &str) {
        let now = SystemTime::now();
        let change = |host: &mut HostStatistics| {
            (host.robots, host.robots_at) = (RobotsState::Failing, Some(now));
        };
        self.statistics().hosts.change(host, || self.new_host(), change);
    }

    /// Records a URL that was completed.
    pub fn record_completion(&self, url: &UrlFacts) {
        let label = url.outcome.label();
        let now = SystemTime::now();
        let mut guard = self.statistics();
        let statistics = &mut *guard;
        if *url.outcome == Outcome::RobotsDisallowed {
            statistics.robots_txt.disallowed += 1;
        }
        if let Some(page) = url.page {
            add_at(&mut statistics.depths, url.depth as usize, 1);
            statistics.page_bytes.record_bytes(page.bytes);
            statistics.truncated += u64::from(page.is_truncated);
            statistics.hosts.change(url.host, || self.new_host(), |host| host.pages += 1);
            let language = page.language.as_deref().and_then(primary_subtag);
            if let Some(language) = language {
                with_lower_case(language, |language| count_name(&mut statistics.languages, language, 1));
            }
        }
        let latest = &mut statistics.latest;
        // The texts of the oldest entry are used again, so that nothing is allocated.
        let mut entry = match latest.len() < MAX_LATEST {
            true => LatestUrl::default(),
            false => latest.pop_front().unwrap_or_default(),
        };
        replace(&mut entry.url, shortened(url.url, MAX_LATEST_BYTES));
        replace(&mut entry.outcome, &label);
        match url.page {
            Some(page) if !page.title.is_empty() => {
                replace(entry.title.get_or_insert_default(), shortened(&page.title, MAX_LATEST_BYTES));
            }
            _ => entry.title = None,
        }
        let RequestFacts { status, bytes, latency } = url.request;
        (entry.at, entry.status, entry.bytes) = (now, status, bytes);
        (entry.ms, entry.depth) = (milliseconds(latency), url.depth);
        latest.push_back(entry);
    }

    /// Records that a module or an output could not process a page.
    pub fn record_module_failure(&self) {
        self.statistics().module_failures += 1;
    }

    /// What was recorded so far.
    pub fn recorded(&self) -> Statistics {
        let mut statistics = self.statistics().clone();
        statistics.in_flight = self.0.in_flight.load(Ordering::Relaxed);
        statistics
    }

    fn new_host(&self) -> HostStatistics {
        let robots = match self.0.ignores_robots.load(Ordering::Relaxed) {
            true => RobotsState::Ignored,
            false => RobotsState::Unknown,
        };
        HostStatistics { robots, ..HostStatistics::default() }
    }
}

/// A request in flight.
#[derive(Debug)]
pub struct InFlight(Arc<ThreadRecord>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for LatestUrl {
    fn default() -> LatestUrl {
        LatestUrl {
            at: SystemTime::UNIX_EPOCH,
            url: String::new(),
            outcome: String::new(),
            status: None,
            bytes: 0,
            ms: 0,
            depth: 0,
            title: None,
        }
    }
}

/// The recorders of a process, and what earlier processes have recorded.
#[derive(Debug, Default)]
pub struct Recorders {
    before: Statistics,
    series: Mutex<TimeSeries>,
    recorders: Mutex<Vec<Recorder>>,
}

impl Recorders {
    /// Continues these statistics.
    pub fn continuing(before: Statistics) -> Recorders {
        let started_at = before.started_at.or_else(|| Some(SystemTime::now()));
        let before = Statistics { started_at, in_flight: 0, ..before };
        Recorders { before, ..Recorders::default() }
    }

    /// A recorder for one more thread.
    pub fn add(&self) -> Recorder {
        let recorder = Recorder::default();
        self.adopt(recorder.clone());
        recorder
    }

    /// Adds a recorder that is in use.
    pub fn adopt(&self, recorder: Recorder) {
        self.recorders.lock().unwrap_or_else(PoisonError::into_inner).push(recorder);
    }

    /// Adds the counts of the crawl at this active crawl time to the time series.
    pub fn sample(&self, snapshot: &Snapshot, elapsed: Duration) {
        self.series.lock().unwrap_or_else(PoisonError::into_inner).push(sample_of(snapshot, elapsed));
    }

    /// All statistics, merged.
    pub fn merged(&self) -> Statistics {
        let mut merged = self.before.clone();
        for recorder in &*self.recorders.lock().unwrap_or_else(PoisonError::into_inner) {
            merged.merge(&recorder.recorded());
        }
        merged.series.merge(&self.series.lock().unwrap_or_else(PoisonError::into_inner));
        merged
    }
}

/// The counts of a crawl at this active crawl time.
pub fn sample_of(snapshot: &Snapshot, elapsed: Duration) -> Sample {
    let failed = snapshot.outcomes.iter().filter(|(label, _)| group_of_label(label) == OutcomeGroup::Failed);
    Sample {
        at_seconds: u32::try_from(elapsed.as_secs()).unwrap_or(u32::MAX),
        pages: snapshot.pages,
        requests: snapshot.requests,
        bytes: snapshot.bytes,
        failures: failed.map(|(_, count)| count).sum(),
        pending: snapshot.pending(),
    }
}

fn add_request(host: &mut HostStatistics, request: &EndedRequest, is_failed: bool) {
    host.requests += u64::from(request.is_sent);
    host.bytes += request.bytes;
    host.delay_ms = milliseconds(request.delay);
    host.last_request_at = Some(SystemTime::now());
    if request.is_sent {
        let latency = milliseconds(request.latency);
        host.latency_total_ms += u64::from(latency);
        host.latency_max_ms = host.latency_max_ms.max(latency);
    }
    keep_smaller(&mut host.smallest_gap_ms, request.gap.time);
    host.early_requests += u64::from(request.gap.is_early);
    if is_failed {
        host.failures += 1;
        host.consecutive_failures = host.consecutive_failures.saturating_add(1);
        set_failure(host, request);
    } else if request.status.is_some() {
        (host.consecutive_failures, host.has_succeeded) = (0, true);
    }
}

fn set_failure(host: &mut HostStatistics, request: &EndedRequest) {
    let text = match (request.failure, request.status) {
        (Some(failure), _) => failure.to_string(),
        (None, status) => format!("HTTP {}", status.unwrap_or_default()),
    };
    let text = shortened(&text, MAX_FAILURE_BYTES);
    if host.last_failure.as_deref() != Some(text) {
        host.last_failure = Some(text.into());
    }
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn keep_smaller(smallest: &mut Option<u32>, gap: Option<Duration>) {
    if let Some(gap) = gap.map(milliseconds) {
        *smallest = Some(smallest.map_or(gap, |smallest| smallest.min(gap)));
    }
}

fn replace(text: &mut String, new: &str) {
    text.clear();
    text.push_str(new);
}

/// The first part of a language tag: letters.
fn primary_subtag(tag: &str) -> Option<&str> {
    let subtag = tag.trim().split(['-', '_']).next().unwrap_or_default();
    let is_valid = (1..=8).contains(&subtag.len()) && subtag.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_valid.then_some(subtag)
}

/// Calls a function with a name in lower case, or with [`OTHER`] if it is empty or too long, without allocating.
fn with_lower_case(name: &str, call: impl FnOnce(&str)) {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.is_ascii() {
        return call(OTHER);
    }
    if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return call(name);
    }
    let mut buffer = [0; MAX_NAME_BYTES];
    let lower = &mut buffer[..name.len()];
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    call(std::str::from_utf8(lower).unwrap_or(OTHER));
}
