//! Runs one role of a distributed crawl, which processes share through Redis: the frontier or a worker.

pub mod crawl_loss;
pub mod failure_detector;
mod frontier_role;
mod live_worker;
mod process_identity;
pub mod remote;
mod statistics_parts;
mod worker_condition;
mod worker_role;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use url::Url;

use self::crawl_loss::CrawlLossDetector;
use self::failure_detector::FailureDetector;
use self::process_identity::{ProcessIdentity, is_surely_dead};
use self::worker_condition::WorkerCondition;
use crate::backend::local::BackendConfig;
use crate::backend::redis::{CrawlState, DistributedCrawl, JoinResult, Phase, RedisCrawl, Role};
use crate::backend::{BackendError, Budget, Snapshot, WorkerId};
use crate::crawl_view::CrawlPhase;
use crate::error::{Error, StorageError, StorageErrorKind};
use crate::log;
use crate::modules::page_pipeline::{ModuleFailures, after_redirects};
use crate::outcome::Outcome;
use crate::pipeline::{CrawlEnd, CrawlReport, Crawler, ResumeStatus, Traffic};
use crate::prioritizer::ServiceStats;

pub use crate::backend::redis::Notice;

/// The default time without a heartbeat after which a member is declared dead.
pub const DEAD_AFTER: Duration = Duration::from_secs(15);

/// Heartbeats within the time after which a member is declared dead.
const HEARTBEATS_PER_TIMEOUT: u32 = 15;

/// The longest time between heartbeats. Their replies carry instructions, so they must be frequent even with
/// a long timeout.
const MAX_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// The time between two reports of a role's status.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How a process takes part in a distributed crawl.
#[derive(Clone)]
pub struct SharedCrawl {
    /// The crawl's name and the address of its Redis.
    pub redis: RedisCrawl,
    /// The time without a heartbeat after which a member is declared dead.
    pub dead_after: Duration,
    /// Receives messages for the operator.
    pub notice: Notice,
}

impl SharedCrawl {
    /// A crawl with the default timeout. Messages are discarded.
    pub fn new(redis: RedisCrawl) -> SharedCrawl {
        SharedCrawl { redis, dead_after: DEAD_AFTER, notice: Arc::new(|_| {}) }
    }

    /// The time between two heartbeats of a member.
    pub fn heartbeat_interval(&self) -> Duration {
        heartbeat_interval(self.dead_after)
    }
}

/// Why a role exited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleExit {
    /// The crawl has ended.
    CrawlEnded(CrawlEnd),
    /// The crawl has new settings. Start the role again to use them.
    Changed,
    /// The process was declared dead, and its role is free or taken by another process. Start the role again
    /// to join as a new member.
    Lost,
    /// The process received a request to stop.
    Stopped,
    /// The worker's pages go only to its standard output, and the reader has closed it.
    OutputClosed,
    /// The crawl is gone: it was purged, or Redis has lost it.
    Gone,
}

/// What a member stores in Redis: when it exits, for the crawl's report, and before, for displays.
#[derive(Debug, Default, Serialize, Deserialize)]
struct MemberReport {
    failures: BTreeMap<String, u64>,
    last_failure: Option<String>,
    summaries: Vec<String>,
    #[serde(default)]
    module_failure: Option<String>,
    /// The outcomes of the seeds that a worker fetched, and of the URLs that they redirect to.
    #[serde(default)]
    seeds: HashMap<String, Outcome>,
    #[serde(default)]
    traffic: Traffic,
    /// The counters of the prioritizer's service, in the report of the frontier.
    #[serde(default)]
    prioritizer_service: Option<ServiceStats>,
    /// What holds a running worker up.
    #[serde(default)]
    condition: WorkerCondition,
}

/// The name of the frontier's report, which it updates while the crawl runs. Other reports have the token of their
/// member.
const FRONTIER_REPORT: &str = "frontier";

impl MemberReport {
    /// A report with the Redis traffic of this process, and nothing else.
    fn with_traffic(control: &DistributedCrawl) -> MemberReport {
        let (round_trips, commands) = control.traffic();
        MemberReport { traffic: Traffic { round_trips, commands }, ..MemberReport::default() }
    }

    /// All reports that members have stored in Redis, by their names.
    async fn all(control: &DistributedCrawl) -> Result<BTreeMap<String, MemberReport>, BackendError> {
        let reports = control.reports().await?.into_iter();
        Ok(reports.filter_map(|(name, report)| Some((name, serde_json::from_str(&report).ok()?))).collect())
    }

    async fn store(&self, control: &DistributedCrawl, name: &str) -> Result<(), BackendError> {
        control.report(name, &self.to_json()?).await
    }

    /// Stores the report of a running process, unless it is no member any more.
    async fn store_of_member(
        &self,
        control: &DistributedCrawl,
        role: Role,
        token: &str,
    ) -> Result<(), BackendError> {
        control.report_of_member(role, token, &self.to_json()?).await
    }

    fn to_json(&self) -> Result<String, BackendError> {
        serde_json::to_string(self)
            .map_err(|error| BackendError::redis(StorageErrorKind::Io, error.to_string()))
    }
}

/// This process as a member of the crawl.
struct Membership {
    control: Arc<DistributedCrawl>,
    role: Role,
    identity: ProcessIdentity,
    /// When it joined, by Redis's clock.
    joined_at: u64,
    dead_after: Duration,
    last_heartbeat: Instant,
    /// The crawl is paused, so that its time does not run on.
    is_paused: bool,
    /// Whether a reader watches the statistics of the crawl.
    is_watched: Arc<AtomicBool>,
}

impl Membership {
    /// Joins in a role as soon as it is free, unless the crawl ends or the process is stopped first.
    async fn join(
        control: Arc<DistributedCrawl>,
        wanted: Option<Role>,
        crawler: &Crawler,
        shared: &SharedCrawl,
    ) -> Result<Result<Membership, RoleExit>, BackendError> {
        let identity = ProcessIdentity::new();
        let (mut failures, mut dead, mut is_announced) =
            (FailureDetector::new(shared.dead_after), None, false);
        let mut loss = CrawlLossDetector::new(shared);
        loop {
            let ProcessIdentity { token, location } = &identity;
            let joined = control.join(wanted, token, location, dead.as_ref()).await?;
            let (role, joined_at) = match joined {
                JoinResult::Joined(role, joined_at) => (role, joined_at),
                JoinResult::NoCrawl => {
                    if loss.is_gone(&control.members().await?.1.phase) {
                        return Ok(Err(RoleExit::Gone));
                    }
                    tokio::select! {
                        () = crawler.stop.stop_requested() => return Ok(Err(RoleExit::Stopped)),
                        () = sleep(shared.heartbeat_interval()) => continue,
                    }
                }
                JoinResult::Taken(member) => {
                    let seems_dead = is_surely_dead(&member.token) || failures.is_dead(&member);
                    // The frontier frees the role of one that is declared dead.
                    if seems_dead && !member.is_dead {
                        dead = Some(member);
                        continue;
                    }
                    if !std::mem::replace(&mut is_announced, true) {
                        let (role, location) = (member.role, &member.location);
                        let message = match member.is_dead {
                            true => format!(
                                "{role} ({location}) is declared dead; waiting for the frontier to reassign its URLs"
                            ),
                            false => {
                                format!("{role} is already running ({location}); waiting for it to exit")
                            }
                        };
                        log::warned(&*shared.notice, &message);
                    }
                    tokio::select! {
                        () = crawler.stop.stop_requested() => return Ok(Err(RoleExit::Stopped)),
                        () = sleep(shared.heartbeat_interval()) => {}
                    }
                    let phase = control.members().await?.1.phase;
                    if loss.is_final(&phase) {
                        log::warned(&*shared.notice, &loss.message(&phase));
                        return Ok(Err(RoleExit::Gone));
                    }
                    match phase {
                        Phase::Ended(end) if control.result().await?.is_some() => {
                            return Ok(Err(RoleExit::CrawlEnded(end_of(&end))));
                        }
                        _ => continue,
                    }
                }
            };
            log::joined(&role);
            let (dead_after, last_heartbeat) = (shared.dead_after, Instant::now());
            let (is_paused, is_watched) = (false, Arc::default());
            return Ok(Ok(Membership {
                control,
                role,
                identity,
                joined_at,
                dead_after,
                last_heartbeat,
                is_paused,
                is_watched,
            }));
        }
    }

    fn heartbeat_interval(&self) -> Duration {
        heartbeat_interval(self.dead_after)
    }

    /// Sends a heartbeat. Returns whether the process still is a member, and the state of the crawl.
    async fn heartbeat(&mut self) -> Result<(bool, CrawlState), BackendError> {
        let now = Instant::now();
        // A Redis outage, in which no process can work, does not count as crawl time.
        let since_last = now.duration_since(self.last_heartbeat).min(4 * self.heartbeat_interval());
        self.last_heartbeat = now;
        let counts_time = self.role == Role::Frontier && !self.is_paused;
        let elapsed = if counts_time { since_last } else { Duration::ZERO };
        let (is_member, state) = self.control.heartbeat(self.role, &self.identity.token, elapsed).await?;
        self.is_watched.store(state.is_watched, Ordering::Relaxed);
        Ok((is_member, state))
    }

    /// Leaves the crawl.
    async fn leave(&self) -> Result<(), BackendError> {
        log::left(&self.role);
        self.control.leave(self.role, &self.identity.token).await
    }
}

impl Crawler {
    /// Opens this crawl on Redis.
    pub(super) async fn open_on_redis(&self, shared: &SharedCrawl) -> Result<DistributedCrawl, BackendError> {
        let (redis, settings) = self.on_redis(shared);
        DistributedCrawl::open(redis, settings).await
    }

    /// The same if the crawl exists. `None` if it was purged meanwhile: a role creates no crawl.
    async fn open_existing(&self, shared: &SharedCrawl) -> Result<Option<DistributedCrawl>, BackendError> {
        let (redis, settings) = self.on_redis(shared);
        match DistributedCrawl::open_existing(redis, settings).await {
            Err(BackendError::Redis(error)) if error.kind() == StorageErrorKind::NotFound => {
                log::warned(&*shared.notice, &error.to_string());
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    fn on_redis(&self, shared: &SharedCrawl) -> (RedisCrawl, BackendConfig) {
        let redis = RedisCrawl { delay: self.config.delay, ..shared.redis.clone() };
        // Workers join later.
        (redis, BackendConfig { workers: 0, ..self.settings.clone() })
    }
}

fn heartbeat_interval(dead_after: Duration) -> Duration {
    (dead_after / HEARTBEATS_PER_TIMEOUT).min(MAX_HEARTBEAT_INTERVAL)
}

/// Whether Redis has no crawl of this name.
fn is_absent(phase: &Phase) -> bool {
    matches!(phase, Phase::Unknown | Phase::Purged)
}

/// The phase of a crawl as its observers see it. Until its result is stored, requests may be in flight.
fn phase_of(phase: &Phase, is_paused: bool, has_result: bool) -> CrawlPhase {
    match phase {
        Phase::Seeding | Phase::Running if is_paused => CrawlPhase::Paused,
        Phase::Seeding | Phase::Running => CrawlPhase::Running,
        Phase::Ended(_) if !has_result => CrawlPhase::Stopping,
        Phase::Ended(end) => CrawlPhase::Ended(end_of(end).to_string()),
        Phase::Unknown => CrawlPhase::Ended("Redis has no such crawl".into()),
        Phase::Purged => CrawlPhase::Ended("the crawl was purged".into()),
    }
}

/// The name under which the end of a crawl is stored in Redis.
pub(super) fn end_name(end: CrawlEnd) -> &'static str {
    match end {
        CrawlEnd::Finished => "done",
        CrawlEnd::LimitReached(Budget::Pages) => "pages",
        CrawlEnd::LimitReached(Budget::Bytes) => "bytes",
        CrawlEnd::TimeLimit => "time",
        CrawlEnd::Stopped => "stopped",
        CrawlEnd::OutputFailed => "output",
        CrawlEnd::ModuleFailed => "module",
        CrawlEnd::OutputClosed => "closed",
    }
}

/// The end of a crawl by the name under which it is stored in Redis.
pub fn end_of(name: &str) -> CrawlEnd {
    match name {
        "done" => CrawlEnd::Finished,
        "pages" => CrawlEnd::LimitReached(Budget::Pages),
        "bytes" => CrawlEnd::LimitReached(Budget::Bytes),
        "time" => CrawlEnd::TimeLimit,
        "output" => CrawlEnd::OutputFailed,
        "module" => CrawlEnd::ModuleFailed,
        "closed" => CrawlEnd::OutputClosed,
        _ => CrawlEnd::Stopped,
    }
}

/// The result of a finished crawl, as stored in Redis.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredReport {
    end: String,
    milliseconds: u64,
    snapshot: Snapshot,
    #[serde(rename = "words")]
    members: Vec<MemberReport>,
}

impl StoredReport {
    /// The report of the crawl of these seeds, with the failures and traffic of all members added up.
    pub(super) fn into_report(self, seeds: &[Url], resumed: ResumeStatus) -> CrawlReport {
        let (mut counts, mut summaries, mut traffic) =
            (ModuleFailures::default(), Vec::new(), Traffic::default());
        let (mut snapshot, mut module_failure, mut outcomes) = (self.snapshot, None, HashMap::new());
        for member in self.members {
            outcomes.extend(member.seeds);
            module_failure = module_failure.or(member.module_failure);
            snapshot.prioritizer_service = member.prioritizer_service.or(snapshot.prioritizer_service);
            traffic.round_trips += member.traffic.round_trips;
            traffic.commands += member.traffic.commands;
            for (name, failures) in member.failures {
                *counts.failures.entry(name).or_default() += failures;
            }
            counts.last_failure = member.last_failure.or(counts.last_failure);
            summaries.extend(member.summaries);
        }
        let output_failure = counts.last_failure.as_ref().filter(|_| counts.failures.contains_key("output"));
        let output_failure =
            output_failure.map(|failure| StorageError::new(StorageErrorKind::Io, failure.as_str()));
        CrawlReport {
            end: end_of(&self.end),
            snapshot,
            seeds: after_redirects(seeds, &outcomes, resumed == ResumeStatus::New),
            module_failures: counts,
            module_summaries: summaries,
            output_failure,
            module_failure,
            elapsed: Duration::from_millis(self.milliseconds),
            resumed,
            retried: 0,
            broken_links: None,
            statistics: Arc::default(),
            redis_traffic: Some(traffic),
        }
    }
}

/// Runs one role of a distributed crawl, for the command.
pub trait RunRole {
    /// Runs the frontier of this crawl, which exists on Redis, until the crawl ends.
    fn run_frontier(self, shared: &SharedCrawl) -> Result<RoleExit, Error>;

    /// Runs a worker of this crawl, which exists on Redis, until the crawl ends: the worker of this number, or of the
    /// first number that is free.
    fn run_worker(self, shared: &SharedCrawl, id: Option<WorkerId>) -> Result<RoleExit, Error>;
}

#[doc(hidden)]
impl RunRole for Crawler {
    fn run_frontier(self, shared: &SharedCrawl) -> Result<RoleExit, Error> {
        self.run_as_frontier(shared)
    }

    fn run_worker(self, shared: &SharedCrawl, id: Option<WorkerId>) -> Result<RoleExit, Error> {
        self.run_as_worker(shared, id)
    }
}
