//! What the operator of a crawl should know, in sentences.

use std::time::Duration;

use crawler::internal::crawl_view::CrawlPhase;

use super::view::{View, byte_budget, page_budget};
use crate::format::{counted, elapsed, number};
use crate::summary::page_rank_line;

/// A budget is nearly spent from this part on.
const NEARLY_SPENT: f64 = 0.95;

/// A host that failed this often in a row keeps failing.
const KEEPS_FAILING: u32 = 3;

/// How many hosts are named.
const NAMED_HOSTS: usize = 3;

/// Redis is nearly full from this part on.
const NEARLY_FULL: f64 = 0.9;

/// The warnings about a crawl.
pub fn of(view: &View) -> Vec<String> {
    let mut warnings = view.warnings.clone();
    let snapshot = view.snapshot();
    let is_over = matches!(view.crawl.phase, CrawlPhase::Ended(_));
    if let Some(seconds) = snapshot.network_down.filter(|_| !is_over) {
        let time = elapsed(Duration::from_secs(seconds));
        warnings
            .push(format!("The network of this machine has been down for {time}. No URL fails meanwhile."));
    }
    if !is_over {
        warnings.extend(spent_budgets(view));
        warnings.extend(failing_hosts(view));
    }
    match snapshot.unreachable_hosts.len() as u64 {
        0 => {}
        hosts => warnings.push(format!("Given up after too many failures: {}.", counted(hosts, "host"))),
    }
    if !snapshot.failed_sitemaps.is_empty() {
        let sitemaps = counted(snapshot.failed_sitemaps.len() as u64, "sitemap");
        warnings.push(format!("Failed or incomplete: {sitemaps}."));
    }
    if snapshot.prioritizer_service.as_ref().is_some_and(|service| !service.is_available) {
        warnings.extend(page_rank_line(snapshot));
    }
    if let Some(redis) = &view.redis {
        if redis.aof_ok == Some(false) || redis.last_save_ok == Some(false) {
            warnings.push("Redis cannot write to its disk: what it stores may be lost.".into());
        }
        if let (Some(used), Some(max)) = (redis.used_memory, redis.max_memory)
            && used as f64 >= NEARLY_FULL * max as f64
        {
            warnings.push("The memory of Redis is nearly used up.".into());
        }
    }
    let silent = view.members.iter().filter(|(_, alive)| !alive).count();
    if silent > 0 && !is_over {
        warnings.push(format!("Processes that send no heartbeat: {silent}."));
    }
    warnings
}

fn spent_budgets(view: &View) -> Option<String> {
    let (limits, snapshot) = (&view.crawl.limits, view.snapshot());
    let spent =
        |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used as f64 >= NEARLY_SPENT * limit as f64);
    let names = [
        (spent(snapshot.pages, page_budget(limits)), "pages"),
        (spent(snapshot.bytes.max(snapshot.received), byte_budget(limits)), "bytes"),
        (
            limits
                .max_time
                .is_some_and(|time| view.crawl.elapsed.as_secs_f64() >= NEARLY_SPENT * time.as_secs_f64()),
            "time",
        ),
    ];
    let names: Vec<&str> =
        names.into_iter().filter(|(is_spent, _)| *is_spent).map(|(_, name)| name).collect();
    (!names.is_empty()).then(|| format!("The budget is nearly used up: {}.", names.join(", ")))
}

fn failing_hosts(view: &View) -> Option<String> {
    let table = &view.crawl.statistics.hosts;
    let failing = table.iter().filter(|(_, host)| host.consecutive_failures >= KEEPS_FAILING).count();
    let worst = table.top(NAMED_HOSTS.min(failing), |host| host.consecutive_failures);
    let describe =
        |(name, host): &(&str, &crawler::internal::statistics::HostStatistics)| match &host.last_failure {
            Some(cause) => format!("{name} ({cause})"),
            None => (*name).to_owned(),
        };
    let mut names: Vec<String> = worst.iter().map(describe).collect();
    if failing > names.len() {
        names.push(format!("{} more", number((failing - names.len()) as u64)));
    }
    (failing > 0).then(|| format!("Hosts that keep failing: {}.", names.join(", ")))
}
