//! The status of a crawl as the page gets it: one JSON object. Every text in it is plain text.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crawler::OutcomeGroup;
use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::redis::Role;
use crawler::internal::backend::{Snapshot, WaitReason, WorkerLoad};
use crawler::internal::crawl_view::{CrawlPhase, CrawlView, Limits};
use crawler::internal::distributed::remote::RedisHealth;
use crawler::internal::outcome::group_of_label;
use crawler::internal::prioritizer::PriorityQueues;
use crawler::internal::statistics::{HostStatistics, RobotsState, Sample, Statistics};
use serde::Serialize;

use super::view::{Rates, View};
use super::warnings;
use crate::live::remaining::{Budgets, History, Remaining};
use crate::live::status::{wait_reason, why_waiting};
use crate::summary::{by_count, group_name};

/// The version of the object. It is raised when a field changes its meaning.
const VERSION: u32 = 1;

/// How many hosts of each kind are listed: the busiest, the slowest, those that fail most.
const HOSTS: usize = 10;

/// How many reasons of a group of outcomes are listed; the last one sums up the others.
const MAX_REASONS: usize = 20;

/// How many workers are listed.
const MAX_WORKERS: usize = 100;

/// The status.
#[derive(Serialize)]
pub struct DashboardStatus<'v> {
    version: u32,
    name: &'v str,
    mode: &'static str,
    phase: &'static str,
    /// Why the crawl ended.
    end: Option<&'v str>,
    elapsed: f64,
    /// Unix time in seconds.
    time: f64,
    started_at: Option<f64>,
    can_act: bool,
    can_resume: bool,
    limits: LimitsJson,
    totals: Totals,
    rates: Rates,
    /// An estimate; or else the time until the time limit, if there is one.
    remaining_seconds: Option<f64>,
    at_most_seconds: Option<f64>,
    outcomes: Vec<Group<'v>>,
    statuses: Vec<StatusCount>,
    content_types: Vec<TypeCount<'v>>,
    languages: Vec<LanguageCount<'v>>,
    depths: &'v [u64],
    queues: Queues,
    workers: Vec<Worker<'v>>,
    frontier: Option<Frontier<'v>>,
    redis: Option<&'v RedisHealth>,
    hosts: Vec<Host<'v>>,
    latest: Vec<Latest<'v>>,
    blocked: &'v [String],
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct LimitsJson {
    max_pages: Option<u64>,
    max_bytes: Option<u64>,
    max_time: Option<f64>,
    max_depth: Option<u32>,
    delay: f64,
}

#[derive(Serialize)]
struct Totals {
    pages: u64,
    requests: u64,
    bytes: u64,
    received: u64,
    failed: u64,
    redirects: u64,
    skipped: u64,
    admitted: u64,
    pending: u64,
    links: u64,
}

#[derive(Serialize)]
struct Group<'v> {
    group: &'static str,
    count: u64,
    reasons: Vec<Reason<'v>>,
}

#[derive(Serialize)]
struct Reason<'v> {
    label: &'v str,
    count: u64,
}

#[derive(Serialize)]
struct StatusCount {
    status: u16,
    count: u64,
}

#[derive(Serialize)]
struct TypeCount<'v> {
    r#type: &'v str,
    count: u64,
}

#[derive(Serialize)]
struct LanguageCount<'v> {
    language: &'v str,
    count: u64,
}

#[derive(Serialize)]
struct Queues {
    url_queue: usize,
    overflow: usize,
    /// URLs that have no priority yet, in both.
    unprioritized: usize,
    priority: Vec<PriorityQueue>,
    leased: usize,
    in_flight: u64,
}

#[derive(Serialize)]
struct PriorityQueue {
    queue: usize,
    from: u8,
    to: u8,
    length: usize,
}

#[derive(Serialize)]
struct Worker<'v> {
    id: usize,
    domains: usize,
    leased: usize,
    location: Option<&'v str>,
    heartbeat_age: Option<f64>,
    state: &'static str,
}

#[derive(Serialize)]
struct Frontier<'v> {
    leader: Option<FrontierProcess<'v>>,
    standby: Vec<FrontierProcess<'v>>,
}

#[derive(Serialize)]
struct FrontierProcess<'v> {
    location: &'v str,
    heartbeat_age: f64,
    state: &'static str,
}

#[derive(Serialize)]
struct Host<'v> {
    host: &'v str,
    requests: u64,
    pages: u64,
    bytes: u64,
    failures: u64,
    consecutive_failures: u32,
    /// Whether that is so often that it keeps failing.
    keeps_failing: bool,
    last_failure: Option<&'v str>,
    mean_ms: Option<u64>,
    max_ms: u32,
    delay: f64,
    crawl_delay: Option<f64>,
    robots: &'static str,
    waiting: Option<u64>,
    /// Of a host that is not one of those of which the most URLs wait.
    waiting_at_most: Option<u64>,
    why: Option<String>,
    /// For how many seconds it gets no requests.
    back_off: Option<f64>,
    smallest_gap: Option<f64>,
}

#[derive(Serialize)]
struct Latest<'v> {
    url: &'v str,
    title: Option<&'v str>,
    outcome: &'v str,
    status: Option<u16>,
    bytes: u64,
    ms: u32,
    depth: u32,
    at: f64,
}

impl DashboardStatus<'_> {
    /// The status of a crawl at these rates.
    pub fn new(view: &View, rates: Rates) -> DashboardStatus<'_> {
        let (snapshot, statistics) = (&view.crawl.snapshot, &*view.crawl.statistics);
        let (remaining_seconds, at_most_seconds) = match remaining(view) {
            Some(Remaining::About(time)) => (Some(seconds(time)), None),
            Some(Remaining::AtMost(time)) => (None, Some(seconds(time))),
            None => (None, None),
        };
        let end = match &view.crawl.phase {
            CrawlPhase::Ended(end) => Some(end.as_str()),
            _ => None,
        };
        DashboardStatus {
            version: VERSION,
            name: &view.name,
            mode: view.mode.name(),
            phase: if view.is_waiting { "waiting" } else { phase_name(&view.crawl.phase) },
            end,
            elapsed: seconds(view.crawl.elapsed),
            time: unix_seconds(SystemTime::now()),
            started_at: statistics.started_at.map(unix_seconds),
            can_act: view.can_act,
            can_resume: view.can_resume,
            limits: limits(&view.crawl.limits),
            totals: totals(view),
            rates,
            remaining_seconds,
            at_most_seconds,
            outcomes: outcomes(view),
            statuses: statistics
                .statuses
                .iter()
                .map(|(status, count)| StatusCount { status: *status, count: *count })
                .collect(),
            content_types: by_count(&statistics.content_types)
                .map(|(name, count)| TypeCount { r#type: name, count })
                .collect(),
            languages: by_count(&statistics.languages)
                .map(|(language, count)| LanguageCount { language, count })
                .collect(),
            depths: &statistics.depths,
            queues: queues(snapshot, statistics),
            workers: workers(view),
            frontier: frontier(view),
            redis: view.redis.as_ref(),
            hosts: hosts(&view.crawl),
            latest: statistics.latest.iter().rev().map(latest).collect(),
            blocked: &view.blocked,
            warnings: warnings::of(view),
        }
    }
}

/// The name of a phase.
pub fn phase_name(phase: &CrawlPhase) -> &'static str {
    match phase {
        CrawlPhase::Running => "running",
        CrawlPhase::Paused => "paused",
        CrawlPhase::Stopping => "stopping",
        CrawlPhase::Ended(_) => "ended",
    }
}

/// The history of a crawl: time, pages, requests, bytes, failures, pending URLs.
pub fn history(statistics: &Statistics) -> Vec<[u64; 6]> {
    let row = |sample: &Sample| {
        let Sample { at_seconds, pages, requests, bytes, failures, pending, .. } = *sample;
        [at_seconds.into(), pages, requests, bytes, failures, pending]
    };
    statistics.series.samples().iter().map(row).collect()
}

fn limits(limits: &Limits) -> LimitsJson {
    let budgets = Budgets::from(limits);
    LimitsJson {
        max_pages: budgets.pages,
        max_bytes: budgets.bytes,
        max_time: limits.max_time.map(seconds),
        max_depth: limits.max_depth,
        delay: seconds(limits.delay),
    }
}

/// How long the crawl will take, as the display on a terminal estimates it.
fn remaining(view: &View) -> Option<Remaining> {
    let is_running = view.crawl.phase == CrawlPhase::Running;
    let history = is_running.then(|| History::from_view(&view.crawl))?;
    history.remaining(&Budgets::from(&view.crawl.limits))
}

fn totals(view: &View) -> Totals {
    let (counts, snapshot) = (view.counts(), view.snapshot());
    Totals {
        pages: counts.pages,
        requests: snapshot.requests,
        bytes: counts.bytes,
        received: snapshot.received,
        failed: counts.failed(),
        redirects: counts.redirects,
        skipped: counts.skipped(),
        admitted: counts.admitted,
        pending: counts.pending,
        links: counts.links(),
    }
}

/// The outcomes in groups, and what became of the URLs without one: their counts add up to the admitted URLs.
fn outcomes(view: &View) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<OutcomeGroup, Vec<Reason<'_>>> = BTreeMap::new();
    for (label, count) in by_count(&view.snapshot().outcomes) {
        groups.entry(group_of_label(label)).or_default().push(Reason { label, count });
    }
    let mut groups: Vec<Group<'_>> = groups
        .into_iter()
        .map(|(group, mut reasons)| {
            let count = reasons.iter().map(|reason| reason.count).sum();
            if reasons.len() > MAX_REASONS {
                let others = reasons.split_off(MAX_REASONS - 1);
                reasons
                    .push(Reason { label: "other", count: others.iter().map(|reason| reason.count).sum() });
            }
            Group { group: group_name(group), count, reasons }
        })
        .collect();
    let pending = view.counts().pending;
    let name = match view.crawl.phase {
        CrawlPhase::Ended(_) => group_name(OutcomeGroup::NotReached),
        _ => "Pending",
    };
    match groups.iter_mut().find(|group| group.group == name) {
        Some(group) => group.count += pending,
        None if pending > 0 => groups.push(Group { group: name, count: pending, reasons: Vec::new() }),
        None => {}
    }
    groups
}

fn queues(snapshot: &Snapshot, statistics: &Statistics) -> Queues {
    let (url_queue, overflow) = (snapshot.url_queue, snapshot.overflow);
    let ranges = PriorityQueues::new(snapshot.priority_queues.len()).map(PriorityQueues::ranges);
    let priority = snapshot.priority_queues.iter().zip(ranges.unwrap_or_default()).enumerate();
    let priority = priority.map(|(index, (length, range))| PriorityQueue {
        queue: index + 1,
        from: *range.start(),
        to: *range.end(),
        length: *length,
    });
    Queues {
        url_queue,
        overflow,
        unprioritized: url_queue + overflow,
        priority: priority.collect(),
        leased: snapshot.workers.iter().map(|worker| worker.leased).sum(),
        in_flight: statistics.in_flight,
    }
}

fn workers(view: &View) -> Vec<Worker<'_>> {
    let member_of = |id: usize| {
        let mut members = view.members.iter();
        members.find(|(member, _)| matches!(member.role, Role::Worker(worker) if usize::from(worker.0) == id))
    };
    let is_distributed = !view.members.is_empty() || view.redis.is_some();
    let last_member = view.members.iter().filter_map(|(member, _)| match member.role {
        Role::Worker(id) => Some(usize::from(id.0) + 1),
        Role::Frontier => None,
    });
    let count = last_member.max().unwrap_or(0).max(view.snapshot().workers.len()).min(MAX_WORKERS);
    let worker = |id: usize| {
        let WorkerLoad { domains, leased, .. } = view.snapshot().workers.get(id).copied().unwrap_or_default();
        let member = member_of(id);
        if is_distributed && member.is_none() && leased == 0 && domains == 0 {
            return None;
        }
        Some(Worker {
            id,
            domains,
            leased,
            location: member.map(|(member, _)| member.location.as_str()),
            heartbeat_age: member.map(|(member, _)| seconds(member.since_heartbeat)),
            state: match member {
                Some((_, true)) => "alive",
                Some((member, false)) if member.is_dead => "dead",
                Some((_, false)) => "no heartbeat",
                None if is_distributed => "left",
                None => "alive",
            },
        })
    };
    (0..count).filter_map(worker).collect()
}

fn frontier(view: &View) -> Option<Frontier<'_>> {
    if view.members.is_empty() && view.standbys.is_empty() {
        return None;
    }
    let leader = view.members.iter().find(|(member, _)| member.role == Role::Frontier);
    let leader = leader.map(|(member, alive)| FrontierProcess {
        location: &member.location,
        heartbeat_age: seconds(member.since_heartbeat),
        state: if *alive { "alive" } else { "dead" },
    });
    let standbys = view.standbys.iter().filter(|standby| standby.role == Role::Frontier);
    let standby = standbys.map(|standby| FrontierProcess {
        location: &standby.location,
        heartbeat_age: seconds(standby.since_heartbeat),
        state: "alive",
    });
    Some(Frontier { leader, standby: standby.collect() })
}

/// The busiest hosts, the slowest, those that fail, and those that hold the crawl up.
fn hosts(crawl: &CrawlView) -> Vec<Host<'_>> {
    let (snapshot, table) = (&crawl.snapshot, &crawl.statistics.hosts);
    let mut hosts: Vec<(&str, &HostStatistics)> = table.top(HOSTS, |host| host.requests);
    let slowest = table.top(HOSTS, |host| host.mean_latency_ms());
    let failing = table.top(HOSTS, |host| (host.consecutive_failures, host.failures));
    let failing = failing.into_iter().filter(|(_, host)| host.failures > 0);
    let waiting = snapshot
        .waiting_hosts()
        .iter()
        .filter_map(|waiting| Some((&*waiting.host, table.get(&waiting.host)?)));
    for (name, host) in slowest.into_iter().chain(failing).chain(waiting) {
        if !hosts.iter().any(|(known, _)| *known == name) {
            hosts.push((name, host));
        }
    }
    hosts.into_iter().map(|(name, of_host)| host(name, of_host, crawl)).collect()
}

fn host<'v>(name: &'v str, statistics: &'v HostStatistics, crawl: &CrawlView) -> Host<'v> {
    let waiting = crawl.snapshot.waiting_hosts().iter().find(|waiting| waiting.host == name);
    let why = waiting.map(|waiting| wait_reason(waiting, &crawl.statistics));
    let millis = |millis: u32| f64::from(millis) / 1_000.0;
    Host {
        host: name,
        requests: statistics.requests,
        pages: statistics.pages,
        bytes: statistics.bytes,
        failures: statistics.failures,
        consecutive_failures: statistics.consecutive_failures,
        keeps_failing: statistics.keeps_failing(),
        last_failure: statistics.last_failure.as_deref(),
        mean_ms: statistics.mean_latency_ms(),
        max_ms: statistics.latency_max_ms,
        delay: match why {
            Some(WaitReason::Delay(delay)) => seconds(delay),
            _ => millis(statistics.delay_ms),
        },
        crawl_delay: statistics.crawl_delay_ms.map(millis),
        robots: robots_name(statistics.robots),
        waiting: waiting.map(|waiting| waiting.waiting),
        waiting_at_most: if waiting.is_none() { waiting_at_most(&crawl.snapshot) } else { None },
        why: waiting.map(|waiting| why_waiting(waiting, &crawl.statistics, crawl.limits.delay)),
        back_off: match why {
            Some(WaitReason::BackingOff { for_, .. } | WaitReason::ServerDelay(for_)) => Some(seconds(for_)),
            _ => None,
        },
        smallest_gap: statistics.smallest_gap_ms.map(millis),
    }
}

/// How many URLs of a host wait at most that is not listed: those that wait and are of none that is; `None` if no host is. Which
/// hosts have the most was found out a while ago, so that others may have more than these by now.
fn waiting_at_most(snapshot: &Snapshot) -> Option<u64> {
    let listed = snapshot.waiting_hosts().iter().map(|host| host.waiting).filter(|waiting| *waiting > 0);
    let listed = listed.reduce(|one, other| one + other)?;
    // Whose URLs wait without a priority is not known.
    let waiting = snapshot.url_queue + snapshot.overflow + snapshot.priority_queues.iter().sum::<usize>();
    Some((waiting as u64).saturating_sub(listed))
}

/// The state of a robots.txt.
pub fn robots_name(state: RobotsState) -> &'static str {
    match state {
        RobotsState::Unknown => "unknown",
        RobotsState::Rules => "rules",
        RobotsState::Missing => "none",
        RobotsState::Unavailable => "unavailable",
        RobotsState::Ignored => "ignored",
        RobotsState::Failing => "failing",
    }
}

fn latest(latest: &crawler::internal::statistics::LatestUrl) -> Latest<'_> {
    Latest {
        url: &latest.url,
        title: latest.title.as_deref(),
        outcome: &latest.outcome,
        status: latest.status,
        bytes: latest.bytes,
        ms: latest.ms,
        depth: latest.depth,
        at: unix_seconds(latest.at),
    }
}

/// A time in seconds, to the millisecond.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000.0).round() / 1_000.0
}

fn unix_seconds(time: SystemTime) -> f64 {
    seconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawler::internal::backend::WaitingHost;

    #[test]
    fn no_url_of_a_host_that_is_not_listed_waits_only_if_those_of_the_listed_hosts_are_all() {
        let mut snapshot = Snapshot::default();
        snapshot.priority_queues = vec![3, 4];
        assert_eq!(waiting_at_most(&snapshot), None, "no host is listed");
        let listed = WaitingHost { host: "a.test".into(), waiting: 5, leased: 0, why: WaitReason::Busy };
        snapshot.waiting_hosts_mut().push(listed);
        assert_eq!(waiting_at_most(&snapshot), Some(2), "of hosts that the last search did not find");
        (snapshot.url_queue, snapshot.overflow) = (10, 100);
        assert_eq!(waiting_at_most(&snapshot), Some(112), "a URL without a priority may be of any host");
        (snapshot.url_queue, snapshot.overflow, snapshot.priority_queues) = (0, 0, vec![5, 0]);
        assert_eq!(waiting_at_most(&snapshot), Some(0));
    }
}
