//! One role of a crawl that many processes share over Redis: the frontier, or a worker.

pub mod crawl_loss;
mod failure_detector;
mod frontier_role;
mod process_identity;
mod rebalancer;
pub mod remote;
mod worker_role;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use self::crawl_loss::CrawlLossDetector;
use self::failure_detector::FailureDetector;
use self::process_identity::{ProcessIdentity, is_surely_dead};
use crate::backend::local::BackendConfig;
use crate::backend::redis::{HeartbeatReply, JoinResult, Phase, RedisBackend, RedisCrawl, Role};
use crate::backend::{Backend, BackendError, Budget, Snapshot};
use crate::modules::page_pipeline::ModuleFailures;
use crate::pipeline::{CrawlEnd, CrawlReport, Crawler, ResumeStatus, Traffic};

/// Somebody who is told what happens to a role, in words.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// A member counts as dead when it was not heard of for so long, unless it is told otherwise.
pub const DEAD_AFTER: Duration = Duration::from_secs(15);

/// How often a member tells that it lives, as a part of the time after which it counts as dead.
const BEATS: u32 = 15;

/// It tells so at least this often: with that, it learns what it is to do.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// How long between two looks at what will take its time.
const LOOK: Duration = Duration::from_millis(200);

/// How a crawl is shared.
#[derive(Clone)]
pub struct SharedCrawl {
    /// Where the crawl is.
    pub place: RedisCrawl,
    /// A member counts as dead when it was not heard of for so long.
    pub dead_after: Duration,
    /// Who is told what happens.
    pub notice: Notice,
}

impl SharedCrawl {
    /// With a crawl that is there, as usual; nobody is told what happens.
    pub fn new(place: RedisCrawl) -> SharedCrawl {
        SharedCrawl { place, dead_after: DEAD_AFTER, notice: Arc::new(|_| {}) }
    }
}

/// Why a role came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleExit {
    /// The crawl is over.
    Over(CrawlEnd),
    /// The crawl has other settings now: whoever takes the role up again goes by them.
    Changed,
    /// It was taken for dead, and another has its place: whoever takes the role up again is a new member.
    Lost,
    /// Somebody asked.
    Stopped,
    /// The crawl is no more: it was purged, or Redis has lost it.
    Gone,
}

/// What a member leaves behind for whoever sums up.
#[derive(Debug, Default, Serialize, Deserialize)]
struct MemberReport {
    failures: BTreeMap<String, u64>,
    last_failure: Option<String>,
    summaries: Vec<String>,
    #[serde(default)]
    traffic: Traffic,
}

impl MemberReport {
    /// Of one who asked so much of Redis.
    fn of(backend: &RedisBackend) -> MemberReport {
        let (round_trips, commands) = backend.traffic();
        MemberReport { traffic: Traffic { round_trips, commands }, ..MemberReport::default() }
    }
}

/// A place in the crew, and what keeps it.
struct Membership {
    backend: Arc<RedisBackend>,
    role: Role,
    identity: ProcessIdentity,
    /// When it joined, by Redis's clock.
    since: u64,
    dead_after: Duration,
    last_beat: Instant,
}

impl Membership {
    /// Takes a place, when it is free. Tells whether its last holder is dead, and left something there. Whoever waits for it
    /// waits no longer than the crawl goes on.
    async fn take(
        backend: Arc<RedisBackend>,
        wanted: Option<Role>,
        crawler: &Crawler,
        sharing: &SharedCrawl,
    ) -> Result<Result<(Membership, bool), RoleExit>, BackendError> {
        let identity = ProcessIdentity::new();
        let (mut deaths, mut dead, mut told) = (FailureDetector::new(sharing.dead_after), None, false);
        let mut absence = CrawlLossDetector::new(sharing);
        loop {
            let ProcessIdentity { token, place } = &identity;
            let joined = backend.join(wanted, token, place, dead.as_ref()).await?;
            let (role, since, is_again) = match joined {
                JoinResult::New(role, since) => (role, since, false),
                JoinResult::Again(role, since) => (role, since, true),
                JoinResult::Taken(member) => {
                    if is_surely_dead(&member.token) || deaths.is_dead(&member) {
                        dead = Some(member);
                        continue;
                    }
                    if !std::mem::replace(&mut told, true) {
                        let (role, place) = (member.role, &member.place);
                        (sharing.notice)(&format!("{role} is {place}; waiting for its end"));
                    }
                    tokio::select! {
                        () = crawler.stop.stop_requested() => return Ok(Err(RoleExit::Stopped)),
                        () = sleep(LOOK) => {}
                    }
                    let phase = backend.crew().await?.1.phase;
                    if absence.is_final(&phase) {
                        (sharing.notice)(&absence.message(&phase));
                        return Ok(Err(RoleExit::Gone));
                    }
                    match phase {
                        Phase::Over(how) if backend.result().await?.is_some() => {
                            return Ok(Err(RoleExit::Over(end_of(&how))));
                        }
                        _ => continue,
                    }
                }
            };
            let dead_after = sharing.dead_after;
            let last_beat = Instant::now();
            let membership = Membership { backend, role, identity, since, dead_after, last_beat };
            return Ok(Ok((membership, is_again)));
        }
    }

    fn interval(&self) -> Duration {
        (self.dead_after / BEATS).min(LONGEST_INTERVAL)
    }

    /// Tells that this member lives, and has URLs of so many domains in hand, if it takes any.
    async fn beat(&mut self, domains: Option<usize>) -> Result<HeartbeatReply, BackendError> {
        let now = Instant::now();
        // Time in which nobody could work, because Redis was away, does not count as the crawl's.
        let since = now.duration_since(self.last_beat).min(4 * self.interval());
        self.last_beat = now;
        let elapsed = if self.role == Role::Frontier { since } else { Duration::ZERO };
        self.backend.beat(self.role, &self.identity.token, elapsed, domains).await
    }

    /// Gives the place up; what a worker still has is given to others first.
    async fn part(self) -> Result<(), BackendError> {
        if let Role::Worker(id) = self.role {
            self.backend.remove_worker(id).await?;
        }
        self.backend.part(self.role, &self.identity.token).await
    }
}

impl Crawler {
    /// The queues and storages of this crawl on Redis.
    pub(super) async fn shared_resources(&self, sharing: &SharedCrawl) -> Result<RedisBackend, BackendError> {
        let place = RedisCrawl { delay: self.config.delay, ..sharing.place.clone() };
        // Workers are there when they come, and nothing is sent to any before.
        let settings = BackendConfig { workers: 0, ..self.settings.clone() };
        RedisBackend::open(place, settings).await
    }
}

/// Whether Redis does not know a crawl in this phase.
fn is_absent(phase: &Phase) -> bool {
    matches!(phase, Phase::Unknown | Phase::Purged)
}

/// How a crawl is called to have ended.
pub(super) fn word(end: CrawlEnd) -> &'static str {
    match end {
        CrawlEnd::Finished => "done",
        CrawlEnd::LimitReached(Budget::Pages) => "pages",
        CrawlEnd::LimitReached(Budget::Bytes) => "bytes",
        CrawlEnd::TimeLimit => "time",
        CrawlEnd::Stopped => "stopped",
        CrawlEnd::OutputFailed => "output",
    }
}

/// The end of this name, as a crawl's course has it.
pub fn end_of(word: &str) -> CrawlEnd {
    match word {
        "done" => CrawlEnd::Finished,
        "pages" => CrawlEnd::LimitReached(Budget::Pages),
        "bytes" => CrawlEnd::LimitReached(Budget::Bytes),
        "time" => CrawlEnd::TimeLimit,
        "output" => CrawlEnd::OutputFailed,
        _ => CrawlEnd::Stopped,
    }
}

/// What a crawl that is over came to, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredReport {
    end: String,
    milliseconds: u64,
    snapshot: Snapshot,
    words: Vec<MemberReport>,
}

impl StoredReport {
    pub(super) fn report(self, resumed: ResumeStatus) -> CrawlReport {
        let (mut counts, mut summaries, mut traffic) =
            (ModuleFailures::default(), Vec::new(), Traffic::default());
        for word in self.words {
            traffic.round_trips += word.traffic.round_trips;
            traffic.commands += word.traffic.commands;
            for (name, failures) in word.failures {
                *counts.failures.entry(name).or_default() += failures;
            }
            counts.last_failure = word.last_failure.or(counts.last_failure);
            summaries.extend(word.summaries);
        }
        let output_failure =
            counts.failures.contains_key("output").then(|| counts.last_failure.clone()).flatten();
        CrawlReport {
            end: end_of(&self.end),
            snapshot: self.snapshot,
            module_failures: counts,
            module_summaries: summaries,
            output_failure,
            elapsed: Duration::from_millis(self.milliseconds),
            resumed,
            redis_traffic: Some(traffic),
        }
    }
}
