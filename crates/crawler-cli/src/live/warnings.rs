//! What an operator should look at: hosts that keep failing, budgets that are nearly exhausted, an outage.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crawler::internal::backend::Snapshot;
use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::crawl_view::{CrawlPhase, CrawlView, Limits};
use crawler::internal::distributed::remote::{CrawlStatus, RedisHealth};
use crawler::internal::statistics::Statistics;

use super::remaining::Budgets;
use crate::format::{bytes, clock, counted, elapsed, limit, number};
use crate::summary::page_rank_line;

/// A host that got no request for this long is not reported as failing.
const FAILURE_AGE: Duration = Duration::from_secs(600);

/// A budget of which at least this part is used is nearly spent.
const NEARLY_EXHAUSTED: f64 = 0.95;

/// Redis is nearly full if at least this part of its memory is used.
const NEARLY_FULL: f64 = 0.9;

/// The warnings about a crawl, the most important first.
pub fn of(view: &CrawlView) -> Vec<String> {
    let CrawlView { snapshot, statistics, elapsed, limits, phase } = view;
    if let CrawlPhase::Ended(_) = phase {
        return Vec::new();
    }
    let mut warnings = Vec::from_iter(network_down(snapshot));
    warnings.extend(failing_hosts(statistics, snapshot));
    warnings.extend(given_up(&snapshot.unreachable_hosts));
    warnings.extend(nearly_exhausted(snapshot, limits, *elapsed));
    if snapshot.prioritizer_service().is_some_and(|service| !service.is_available) {
        warnings.extend(page_rank_line(snapshot));
    }
    warnings
}

/// Whether a warning is about something else than the earlier ones: its numbers may have changed.
pub fn is_new(warning: &str, earlier: &[String]) -> bool {
    let subject = |warning: &str| warning.replace(|c: char| c.is_ascii_digit(), "");
    let new = subject(warning);
    !earlier.iter().any(|earlier| subject(earlier) == new)
}

/// The warnings about the processes of a distributed crawl, and about Redis.
pub fn of_distributed(status: &CrawlStatus) -> Vec<String> {
    of_workers(status).into_iter().chain(of_redis(&status.redis)).collect()
}

/// The warning about workers whose network is down, while others have one.
pub fn of_workers(CrawlStatus { networks_down, snapshot, .. }: &CrawlStatus) -> Option<String> {
    let is_said = network_down(snapshot).is_some();
    let (worker, time) = networks_down.iter().max_by_key(|(_, time)| **time).filter(|_| !is_said)?;
    let (time, others) = (elapsed(*time), and_others(networks_down.len(), "worker"));
    Some(format!("the network of {worker} has been down for {time}{others}; no URL fails meanwhile"))
}

/// The warnings about Redis.
pub fn of_redis(redis: &RedisHealth) -> Vec<String> {
    let mut warnings = Vec::new();
    if let (Some(used), Some(max)) = (redis.used_memory, redis.max_memory)
        && max > 0
        && used as f64 >= NEARLY_FULL * max as f64
    {
        warnings.push(format!("Redis is nearly full: {} of {} (maxmemory)", bytes(used), bytes(max)));
    }
    if redis.aof_ok == Some(false) {
        warnings.push("Redis cannot write its append-only file; see its log".into());
    }
    if redis.last_save_ok == Some(false) {
        warnings.push("Redis could not save its last snapshot; see its log".into());
    }
    warnings
}

fn network_down(snapshot: &Snapshot) -> Option<String> {
    let time = elapsed(Duration::from_secs(snapshot.network_down?));
    Some(format!("the network has been down for {time}; no URL fails meanwhile"))
}

/// The host with the most failures in a row.
fn failing_hosts(statistics: &Statistics, snapshot: &Snapshot) -> Option<String> {
    let now = SystemTime::now();
    let is_recent = |at: Option<SystemTime>| {
        at.and_then(|at| now.duration_since(at).ok()).is_none_or(|age| age < FAILURE_AGE)
    };
    let failing = statistics.hosts.iter().filter(|(host, statistics)| {
        statistics.keeps_failing()
            && is_recent(statistics.last_request_at)
            && !snapshot.unreachable_hosts.contains_key(*host)
    });
    let failing: Vec<_> = failing.collect();
    let (host, worst) = failing.iter().max_by_key(|(host, worst)| (worst.consecutive_failures, *host))?;
    let cause = worst.last_failure.as_deref().map_or_else(String::new, |cause| format!(" ({cause})"));
    let failures = counted(worst.consecutive_failures.into(), "request");
    Some(format!("{host} keeps failing: {failures} in a row{cause}{}", and_others(failing.len(), "host")))
}

/// Hosts whose URLs are not requested any more.
pub fn given_up(hosts: &BTreeMap<String, String>) -> Option<String> {
    let (host, cause) = hosts.first_key_value()?;
    Some(format!("gave up {host} ({cause}){}", and_others(hosts.len(), "host")))
}

/// How many more hosts, or other things, there are than the one that is named.
fn and_others(count: usize, noun: &str) -> String {
    match count - 1 {
        0 => String::new(),
        others => format!(", and {}", counted(others as u64, &format!("other {noun}"))),
    }
}

/// The budgets that are nearly exhausted.
fn nearly_exhausted(snapshot: &Snapshot, limits: &Limits, elapsed: Duration) -> Vec<String> {
    let is_near = |used: f64, budget: f64| used >= NEARLY_EXHAUSTED * budget && budget > 0.0;
    let budgets = Budgets::from(limits);
    let mut warnings = Vec::new();
    if let Some(budget) = budgets.pages
        && is_near(snapshot.pages as f64, budget as f64)
    {
        let pages = number(snapshot.pages);
        warnings.push(format!("the crawl ends soon: {pages} of {} pages (--max-pages)", number(budget)));
    }
    let used = snapshot.bytes.max(snapshot.received);
    if let Some(budget) = budgets.bytes
        && is_near(used as f64, budget as f64)
    {
        warnings.push(format!("the crawl ends soon: {} of {} (--max-bytes)", bytes(used), bytes(budget)));
    }
    if let Some(time) = budgets.time
        && is_near(elapsed.as_secs_f64(), time.as_secs_f64())
    {
        warnings.push(format!("the crawl ends soon: {} of {} (--max-time)", clock(elapsed), limit(time)));
    }
    warnings
}
