//! The JSON of `--progress json`, `--summary` and `crawler status --json`. The keys of the counts are in `summary.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::durable::StateStatus;
use crawler::internal::backend::redis::{Member, Phase, Role, Standby};
use crawler::internal::backend::{Budget, Snapshot, WorkerLoad};
use crawler::internal::classic::ClassicReport;
use crawler::internal::classic::ClassicReportInternals as _;
use crawler::internal::distributed::end_of;
use crawler::internal::distributed::remote::CrawlStatus;
use crawler::internal::pipeline::CrawlReportInternals as _;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport, ResumeStatus, Traffic};
use serde::Serialize;

use crate::summary::Counts;

/// The progress of a crawl at one moment.
#[derive(Serialize)]
pub struct ProgressJson<'s> {
    #[serde(flatten)]
    state: StateJson,
    elapsed_seconds: f64,
    /// Of the last seconds; in the last object, of the whole crawl.
    pages_per_second: f64,
    #[serde(flatten)]
    counts: Counts,
    queues: QueuesJson<'s>,
    workers: Vec<WorkerJson>,
    active_hosts: usize,
    owned_domains: usize,
    /// For how many seconds the network of this machine has been down; null if it is up.
    network_down_seconds: Option<u64>,
    /// Hosts that were given up, and why; the first hundred.
    unreachable_hosts: &'s BTreeMap<String, String>,
    /// Sitemaps that failed, and why; the first hundred.
    failed_sitemaps: &'s BTreeMap<String, String>,
    seen_urls: usize,
    stored_pages: usize,
    stored_bytes: u64,
    pagerank: Option<PageRankJson<'s>>,
}

/// URLs in each queue.
#[derive(Serialize)]
struct QueuesJson<'s> {
    url_queue: usize,
    overflow: usize,
    priority_queues: &'s [usize],
}

/// URLs of a worker.
#[derive(Serialize)]
struct WorkerJson {
    domains: usize,
    leased: usize,
}

/// Whether a crawl runs, and why it stopped.
#[derive(Serialize)]
struct StateJson {
    /// `running`, `finished` (no URL is left) or `stopped`; of a distributed crawl also `starting`, `unknown`, `purged`.
    state: &'static str,
    /// What stopped it; null unless the state is `stopped`.
    stopped_by: Option<&'static str>,
}

/// The result of a crawl.
#[derive(Serialize)]
pub struct SummaryJson<'s> {
    #[serde(flatten)]
    state: StateJson,
    /// Whether an earlier process started the crawl.
    resumed: bool,
    elapsed_seconds: f64,
    pages_per_second: f64,
    #[serde(flatten)]
    counts: Counts,
    module_failures: &'s BTreeMap<String, u64>,
    last_module_failure: Option<&'s str>,
    module_summaries: &'s [String],
    output_failure: Option<String>,
    module_failure: Option<&'s str>,
    /// Hosts that were given up, and why; the first hundred.
    unreachable_hosts: &'s BTreeMap<String, String>,
    /// Sitemaps that failed, and why; the first hundred.
    failed_sitemaps: &'s BTreeMap<String, String>,
    pagerank: Option<PageRankJson<'s>>,
    /// Traffic between all processes and Redis; null for a crawl in one process.
    redis: Option<Traffic>,
}

/// The status of a crawl with a state.
#[derive(Serialize)]
pub struct StateStatusJson<'s> {
    /// The state directory.
    crawl: String,
    /// The process that runs the crawl; null if none does.
    process: Option<u32>,
    #[serde(flatten)]
    progress: ProgressJson<'s>,
}

/// The health of the PageRank service.
#[derive(Serialize)]
struct PageRankJson<'s> {
    available: bool,
    requests: u64,
    failures: u64,
    fallbacks: u64,
    last_failure: Option<&'s str>,
}

/// The status of a distributed crawl.
#[derive(Serialize)]
pub struct CrawlStatusJson<'s> {
    crawl: &'s str,
    #[serde(flatten)]
    state: StateJson,
    elapsed_seconds: f64,
    #[serde(flatten)]
    counts: Counts,
    members: Vec<MemberJson<'s>>,
    standbys: Vec<StandbyJson<'s>>,
    pagerank: Option<PageRankJson<'s>>,
    /// Traffic between all processes and Redis; null until the crawl ends.
    redis: Option<Traffic>,
}

/// A process of a distributed crawl.
#[derive(Serialize)]
struct MemberJson<'s> {
    role: String,
    /// The process and its machine, as text.
    process: &'s str,
    pid: Option<u32>,
    seconds_since_heartbeat: f64,
    /// The domains of a worker that have URLs, and the URLs leased to it; null for the frontier.
    domains: Option<usize>,
    leased: Option<usize>,
    dead: bool,
}

/// A process that waits for the role of a member.
#[derive(Serialize)]
struct StandbyJson<'s> {
    role: String,
    process: &'s str,
    pid: Option<u32>,
    seconds_since_heartbeat: f64,
}

/// The name of the end of a crawl, in JSON and in metrics.
pub fn end_name(end: CrawlEnd) -> &'static str {
    match end {
        CrawlEnd::Finished => "finished",
        CrawlEnd::LimitReached(Budget::Pages) => "max-pages",
        CrawlEnd::LimitReached(Budget::Bytes) => "max-bytes",
        CrawlEnd::TimeLimit => "max-time",
        CrawlEnd::Stopped => "request",
        CrawlEnd::OutputFailed => "output-failure",
        CrawlEnd::ModuleFailed => "module-failure",
        CrawlEnd::OutputClosed => "output-closed",
        _ => "other",
    }
}

impl StateJson {
    const RUNNING: StateJson = StateJson { state: "running", stopped_by: None };

    fn ended(end: CrawlEnd) -> StateJson {
        match end {
            CrawlEnd::Finished => StateJson { state: end_name(end), stopped_by: None },
            end => StateJson { state: "stopped", stopped_by: Some(end_name(end)) },
        }
    }

    fn in_phase(phase: &Phase) -> StateJson {
        let state = match phase {
            Phase::Ended(end) => return StateJson::ended(end_of(end)),
            Phase::Running => return StateJson::RUNNING,
            Phase::Unknown => "unknown",
            Phase::Purged => "purged",
            Phase::Seeding => "starting",
        };
        StateJson { state, stopped_by: None }
    }
}

impl<'s> ProgressJson<'s> {
    /// The progress of a running crawl.
    pub fn running(snapshot: &'s Snapshot, elapsed: Duration, rate: f64) -> ProgressJson<'s> {
        ProgressJson::new(StateJson::RUNNING, Counts::of_running(snapshot), snapshot, elapsed, rate)
    }

    /// The last progress of a crawl that has ended.
    pub fn ended(report: &'s CrawlReport) -> ProgressJson<'s> {
        let CrawlReport { snapshot, elapsed, end, .. } = report;
        let counts = Counts::of_ended(snapshot);
        let rate = counts.pages_per_second(*elapsed);
        ProgressJson::new(StateJson::ended(*end), counts, snapshot, *elapsed, rate)
    }

    fn new(
        state: StateJson,
        counts: Counts,
        snapshot: &'s Snapshot,
        elapsed: Duration,
        rate: f64,
    ) -> ProgressJson<'s> {
        let workers =
            snapshot.workers.iter().map(|&WorkerLoad { domains, leased, .. }| WorkerJson { domains, leased });
        ProgressJson {
            state,
            elapsed_seconds: rounded(elapsed.as_secs_f64()),
            pages_per_second: rounded(rate),
            counts,
            queues: QueuesJson {
                url_queue: snapshot.url_queue,
                overflow: snapshot.overflow,
                priority_queues: &snapshot.priority_queues,
            },
            workers: workers.collect(),
            active_hosts: snapshot.active_hosts,
            owned_domains: snapshot.owned_domains,
            network_down_seconds: snapshot.network_down,
            unreachable_hosts: &snapshot.unreachable_hosts,
            failed_sitemaps: &snapshot.failed_sitemaps,
            seen_urls: snapshot.seen_urls,
            stored_pages: snapshot.stored_pages,
            stored_bytes: snapshot.stored_bytes,
            pagerank: PageRankJson::new(snapshot),
        }
    }
}

impl<'s> StateStatusJson<'s> {
    /// The status of the crawl in a directory. Why a crawl stopped is not stored.
    pub fn new(directory: &Path, status: &'s StateStatus) -> StateStatusJson<'s> {
        let StateStatus { snapshot, elapsed, process, .. } = status;
        let state = match (process, snapshot.pending()) {
            (Some(_), _) => "running",
            (None, 0) => "finished",
            (None, _) => "stopped",
        };
        let counts = Counts::of_running(snapshot);
        let rate = counts.pages_per_second(*elapsed);
        let state = StateJson { state, stopped_by: None };
        StateStatusJson {
            crawl: directory.display().to_string(),
            process: *process,
            progress: ProgressJson::new(state, counts, snapshot, *elapsed, rate),
        }
    }
}

impl<'s> SummaryJson<'s> {
    /// The result of a crawl that has ended.
    pub fn new(report: &'s CrawlReport) -> SummaryJson<'s> {
        let counts = Counts::of_ended(&report.snapshot);
        SummaryJson {
            state: StateJson::ended(report.end),
            resumed: report.resumed != ResumeStatus::New,
            elapsed_seconds: rounded(report.elapsed.as_secs_f64()),
            pages_per_second: rounded(counts.pages_per_second(report.elapsed)),
            counts,
            module_failures: &report.module_failures.failures,
            last_module_failure: report.module_failures.last_failure.as_deref(),
            module_summaries: &report.module_summaries,
            output_failure: report.output_failure.as_ref().map(|failure| format!("{failure:#}")),
            module_failure: report.module_failure.as_deref(),
            unreachable_hosts: &report.snapshot.unreachable_hosts,
            failed_sitemaps: &report.snapshot.failed_sitemaps,
            redis: report.redis_traffic(),
            pagerank: PageRankJson::new(&report.snapshot),
        }
    }
}

impl SummaryJson<'static> {
    /// The result of a classic crawl. It has no modules, and gives up no hosts.
    pub fn of_classic(report: &ClassicReport) -> SummaryJson<'static> {
        static NO_FAILURES: BTreeMap<String, u64> = BTreeMap::new();
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let (counts, elapsed) = (Counts::from_stats(&report.stats), report.stats.elapsed);
        let end = if report.stopped { CrawlEnd::Stopped } else { CrawlEnd::Finished };
        SummaryJson {
            state: StateJson::ended(end),
            resumed: false,
            elapsed_seconds: rounded(elapsed.as_secs_f64()),
            pages_per_second: rounded(counts.pages_per_second(elapsed)),
            counts,
            module_failures: &NO_FAILURES,
            last_module_failure: None,
            module_summaries: &[],
            output_failure: report.urls_failure().map(str::to_owned),
            module_failure: None,
            unreachable_hosts: &NONE,
            failed_sitemaps: &NONE,
            redis: None,
            pagerank: None,
        }
    }
}

impl<'s> PageRankJson<'s> {
    fn new(snapshot: &'s Snapshot) -> Option<PageRankJson<'s>> {
        let stats = snapshot.prioritizer_service()?;
        Some(PageRankJson {
            available: stats.is_available,
            requests: stats.requests,
            failures: stats.failures,
            fallbacks: stats.fallbacks,
            last_failure: stats.last_failure.as_deref(),
        })
    }
}

impl<'s> CrawlStatusJson<'s> {
    /// The status of a crawl of this name with these counts, which are those of the snapshot.
    pub fn new(
        crawl: &'s str,
        status: &'s CrawlStatus,
        snapshot: &'s Snapshot,
        counts: Counts,
        redis: Option<Traffic>,
    ) -> CrawlStatusJson<'s> {
        CrawlStatusJson {
            crawl,
            state: StateJson::in_phase(&status.state.phase),
            elapsed_seconds: rounded(status.state.elapsed.as_secs_f64()),
            counts,
            members: status.members.iter().map(|member| MemberJson::new(member, snapshot)).collect(),
            standbys: status.standbys.iter().map(StandbyJson::new).collect(),
            pagerank: PageRankJson::new(snapshot),
            redis,
        }
    }
}

impl<'s> MemberJson<'s> {
    fn new(member: &'s Member, snapshot: &Snapshot) -> MemberJson<'s> {
        let load = match member.role {
            Role::Frontier => None,
            Role::Worker(id) => Some(snapshot.workers.get(usize::from(id.0)).copied().unwrap_or_default()),
        };
        MemberJson {
            domains: load.map(|load| load.domains),
            leased: load.map(|load| load.leased),
            role: role_name(member.role),
            process: &member.location,
            pid: member.process(),
            seconds_since_heartbeat: member.since_heartbeat.as_secs_f64(),
            dead: member.is_dead,
        }
    }
}

impl<'s> StandbyJson<'s> {
    fn new(standby: &'s Standby) -> StandbyJson<'s> {
        StandbyJson {
            role: role_name(standby.role),
            process: &standby.location,
            pid: standby.process(),
            seconds_since_heartbeat: standby.since_heartbeat.as_secs_f64(),
        }
    }
}

fn role_name(role: Role) -> String {
    match role {
        Role::Frontier => "frontier".into(),
        Role::Worker(id) => format!("worker {}", id.0),
    }
}

/// Rounds to thousandths.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
