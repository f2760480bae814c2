//! The metrics of a crawl in the text format of Prometheus. docs/metrics.md lists them.
//!
//! The number of time series is bounded: labels are fixed names, worker numbers, or the hosts with the most requests on demand.

mod format;

use crawler::OutcomeGroup;
use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::redis::Role;
use crawler::internal::backend::{Budget, Snapshot, WorkerId};
use crawler::internal::crawl_view::{CrawlPhase, CrawlView, Limits};
use crawler::internal::distributed::remote::RedisHealth;
use crawler::internal::outcome::group_of_label;
use crawler::internal::pipeline::CrawlEnd;
use crawler::internal::statistics::Statistics;

use self::format::{Family, counter, gauge, histogram, render};
use super::status::phase_name;
use super::view::View;
use crate::commands::crawl::json::end_name;
use crate::live::remaining::Budgets;

/// The phases of a crawl.
const PHASES: [&str; 4] = ["running", "paused", "stopping", "ended"];

/// The ends of crawls. Any other one is an [`ERROR`], such as a state that could not be written.
const ENDS: [CrawlEnd; 8] = [
    CrawlEnd::Finished,
    CrawlEnd::LimitReached(Budget::Pages),
    CrawlEnd::LimitReached(Budget::Bytes),
    CrawlEnd::TimeLimit,
    CrawlEnd::Stopped,
    CrawlEnd::OutputFailed,
    CrawlEnd::ModuleFailed,
    CrawlEnd::OutputClosed,
];
const ERROR: &str = "error";

/// The groups of outcomes, and the values of their label.
const GROUPS: [(OutcomeGroup, &str); 9] = [
    (OutcomeGroup::Page, "page"),
    (OutcomeGroup::Redirect, "redirect"),
    (OutcomeGroup::Skipped, "skipped"),
    (OutcomeGroup::Failed, "failed"),
    (OutcomeGroup::Sitemap, "sitemap"),
    (OutcomeGroup::Requisite, "requisite"),
    (OutcomeGroup::Checked, "checked"),
    (OutcomeGroup::Unchanged, "unchanged"),
    (OutcomeGroup::NotReached, "not_reached"),
];

/// The metrics of a crawl, with those of this many hosts.
pub fn text(view: &View, hosts: usize) -> String {
    render(&families(view, hosts))
}

fn families(view: &View, hosts: usize) -> Vec<Family> {
    let CrawlView { snapshot, statistics, .. } = &view.crawl;
    let mut families = vec![process()];
    if view.is_waiting {
        families.extend(redis(view));
        return families;
    }
    families.extend(crawl(view));
    families.extend(requests(snapshot, statistics));
    families.extend(pages(statistics));
    families.extend(top_hosts(statistics, hosts));
    if !view.is_worker {
        families.extend(urls(view));
        families.extend(queues(snapshot, statistics));
        families.extend(stored(snapshot));
        families.extend(services(snapshot, statistics));
        families.extend(processes(view));
    }
    families.extend(redis(view));
    families
}

fn process() -> Family {
    gauge("crawler_build_info", "The version of the crawler; always 1.")
        .with(&[("version", env!("CARGO_PKG_VERSION"))], 1.0)
}

fn crawl(view: &View) -> Vec<Family> {
    let Limits { max_time, delay, .. } = view.crawl.limits;
    let phase = phase_name(&view.crawl.phase);
    let started =
        view.crawl.statistics.started_at.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let end = match &view.crawl.phase {
        CrawlPhase::Ended(text) => {
            Some(ENDS.into_iter().find(|end| end.to_string() == *text).map_or(ERROR, end_name))
        }
        _ => None,
    };
    let is_over = end.is_some();
    let budgets = Budgets::from(&view.crawl.limits);
    vec![
        gauge("crawler_phase", "1 for the phase of the crawl, 0 for the others.").with_all(
            PHASES
                .iter()
                .map(|name| (vec![("phase", (*name).to_owned())], f64::from(u8::from(*name == phase)))),
        ),
        gauge("crawler_ended", "1 for the reason why the crawl has ended, 0 for the others.").with_all(
            ENDS.map(end_name)
                .into_iter()
                .chain([ERROR])
                .map(|name| (vec![("reason", name.to_owned())], f64::from(u8::from(Some(name) == end)))),
        ),
        gauge("crawler_start_time_seconds", "When the crawl was first started, as Unix time.")
            .maybe(started.map(|time| time.as_secs_f64())),
        counter("crawler_active_seconds_total", "Active crawl time, with that of earlier processes.")
            .value(view.crawl.elapsed.as_secs_f64()),
        gauge("crawler_limit_pages", "The limit on pages; absent if unlimited.")
            .maybe(budgets.pages.map(|pages| pages as f64)),
        gauge("crawler_limit_bytes", "The limit on bytes; absent if unlimited.")
            .maybe(budgets.bytes.map(|bytes| bytes as f64)),
        gauge("crawler_limit_seconds", "The limit on active crawl time; absent if unlimited.")
            .maybe(max_time.map(|time| time.as_secs_f64())),
        gauge("crawler_delay_seconds", "The delay between requests to a host.").value(delay.as_secs_f64()),
        gauge(
            "crawler_network_down_seconds",
            "For how long the network of this machine has been down; 0 if it is up.",
        )
        .value(view.snapshot().network_down.filter(|_| !is_over).unwrap_or(0) as f64),
        gauge(
            "crawler_disk_free_bytes",
            "Bytes left on the fullest file system to which this process writes; absent if it writes nothing.",
        )
        .maybe(view.disk_free.map(|bytes| bytes as f64)),
    ]
}

fn urls(view: &View) -> Vec<Family> {
    let (counts, snapshot) = (view.counts(), view.snapshot());
    let of_group = |group: OutcomeGroup| {
        let labels = snapshot.outcomes.iter().filter(|(label, _)| group_of_label(label) == group);
        labels.map(|(_, count)| *count).sum::<u64>() as f64
    };
    let rejected: u64 = snapshot.links_rejected.values().sum();
    vec![
        counter("crawler_urls_admitted_total", "Distinct URLs admitted to the crawl.").count(counts.admitted),
        counter("crawler_urls_completed_total", "URLs completed, by the group of their outcome.").with_all(
            GROUPS.iter().map(|(group, name)| (vec![("outcome", (*name).to_owned())], of_group(*group))),
        ),
        gauge("crawler_urls_pending", "URLs admitted and not completed.").value(counts.pending as f64),
        counter("crawler_links_total", "Links found on pages, by what became of them.").with_all(
            [("new", snapshot.links_new), ("seen", snapshot.links_seen), ("rejected", rejected)]
                .map(|(name, count)| (vec![("result", name.to_owned())], count as f64)),
        ),
        counter("crawler_sitemap_urls_total", "URLs listed in sitemaps.").count(snapshot.sitemap_urls),
        gauge("crawler_seen_urls", "URLs in the seen set.").value(snapshot.seen_urls as f64),
    ]
}

fn requests(snapshot: &Snapshot, statistics: &Statistics) -> Vec<Family> {
    let class = |class: u16| (vec![("class", format!("{class}xx"))], statistics.status_class(class) as f64);
    let failures = statistics.failures.named();
    let robots = &statistics.robots_txt;
    let robots =
        [("fetched", robots.fetched), ("missing", robots.missing), ("unavailable", robots.unavailable)];
    let stages = statistics.stages.named().map(|(stage, times)| (vec![("stage", stage.to_owned())], times));
    vec![
        counter("crawler_requests_total", "HTTP requests sent, for robots.txt too.").count(snapshot.requests),
        counter("crawler_responses_total", "HTTP responses, by the class of their status.")
            .with_all((1..=5).map(class)),
        counter("crawler_request_failures_total", "Requests that got no complete response, by kind.")
            .with_all(failures.map(|(kind, count)| (vec![("kind", kind.to_owned())], count as f64))),
        counter("crawler_request_retries_total", "Requests sent again after a temporary failure.")
            .count(statistics.retries),
        gauge("crawler_requests_in_flight", "Requests in flight.").value(statistics.in_flight as f64),
        counter("crawler_robots_txt_total", "robots.txt files, by result.")
            .with_all(robots.map(|(name, count)| (vec![("result", name.to_owned())], count as f64))),
        counter("crawler_robots_disallowed_urls_total", "URLs that a robots.txt disallows.")
            .count(statistics.robots_txt.disallowed),
        histogram("crawler_stage_duration_seconds", "How long the stages of requests and pages took.")
            .histograms(stages),
    ]
}

fn queues(snapshot: &Snapshot, statistics: &Statistics) -> Vec<Family> {
    let worker = |index: usize| vec![("worker", index.to_string())];
    let loads = || snapshot.workers.iter().enumerate();
    let queue = |(index, length): (usize, &usize)| (vec![("queue", (index + 1).to_string())], *length as f64);
    vec![
        gauge("crawler_url_queue_urls", "URLs in the URL queue, without its overflow.")
            .value(snapshot.url_queue as f64),
        gauge("crawler_overflow_urls", "URLs in the overflow of the URL queue.")
            .value(snapshot.overflow as f64),
        gauge("crawler_priority_queue_urls", "URLs in each priority queue; 1 is the best.")
            .with_all(snapshot.priority_queues.iter().enumerate().map(queue)),
        gauge("crawler_worker_leased_urls", "URLs leased to each worker.")
            .with_all(loads().map(|(index, load)| (worker(index), load.leased as f64))),
        gauge("crawler_worker_domains", "Domains of each worker that have URLs.")
            .with_all(loads().map(|(index, load)| (worker(index), load.domains as f64))),
        gauge("crawler_owned_domains", "Domains that have an owner.").value(snapshot.owned_domains as f64),
        gauge("crawler_active_hosts", "Hosts of which URLs wait with a priority or are leased.")
            .value(snapshot.active_hosts as f64),
        gauge("crawler_unreachable_hosts", "Hosts that were given up, up to 100.")
            .value(snapshot.unreachable_hosts.len() as f64),
        gauge("crawler_failing_hosts", "Hosts whose last five requests failed.")
            .value(statistics.hosts.iter().filter(|(_, host)| host.keeps_failing()).count() as f64),
    ]
}

fn pages(statistics: &Statistics) -> Vec<Family> {
    vec![
        histogram("crawler_page_size_bytes", "Sizes of pages after decoding.")
            .histograms([(Vec::new(), &statistics.page_bytes)]),
        counter("crawler_truncated_pages_total", "Pages of which only the start was read.")
            .count(statistics.truncated),
        counter("crawler_module_failures_total", "Pages that a module or an output could not process.")
            .count(statistics.module_failures),
    ]
}

/// What the crawl has fetched and stored.
fn stored(snapshot: &Snapshot) -> Vec<Family> {
    vec![
        counter("crawler_pages_total", "Pages.").count(snapshot.pages),
        counter("crawler_body_bytes_total", "Body bytes after decoding.").count(snapshot.bytes),
        counter("crawler_received_bytes_total", "Body bytes as received.").count(snapshot.received),
        gauge("crawler_stored_pages", "Pages in the content store.").value(snapshot.stored_pages as f64),
        gauge("crawler_stored_bytes", "Bytes that the stored pages take, compressed.")
            .value(snapshot.stored_bytes as f64),
    ]
}

fn services(snapshot: &Snapshot, statistics: &Statistics) -> Vec<Family> {
    let service = snapshot.prioritizer_service();
    vec![
        counter("crawler_state_commits_total", "Commits of the state.").count(statistics.commits),
        gauge("crawler_pagerank_up", "Whether the PageRank service is available; absent without one.")
            .maybe(service.map(|service| f64::from(u8::from(service.is_available)))),
        counter("crawler_pagerank_requests_total", "Requests to the PageRank service.")
            .maybe(service.map(|service| service.requests as f64)),
        counter("crawler_pagerank_failures_total", "Requests to the PageRank service that failed.")
            .maybe(service.map(|service| service.failures as f64)),
    ]
}

/// The processes of a distributed crawl, unless they are not known now.
fn processes(view: &View) -> Vec<Family> {
    let name = |role: Role| match role {
        Role::Frontier => "frontier".to_owned(),
        Role::Worker(WorkerId(id)) => format!("worker-{id}"),
    };
    let is_known = view.redis.is_some() && view.redis_up == Some(true);
    let members = if is_known { &*view.members } else { &[] };
    let alive = members.iter().filter(|(_, alive)| *alive).count();
    let standbys = if is_known { view.standbys.len() } else { 0 };
    let states = [("alive", alive), ("dead", members.len() - alive), ("standby", standbys)];
    let ages = members
        .iter()
        .map(|(member, _)| (vec![("member", name(member.role))], member.since_heartbeat.as_secs_f64()));
    // Two processes may have had the same number: the younger heartbeat counts.
    let mut ages: Vec<(Vec<(&'static str, String)>, f64)> = ages.collect();
    ages.sort_by(|(a_name, a), (b_name, b)| a_name.cmp(b_name).then(a.total_cmp(b)));
    ages.dedup_by(|(later, _), (earlier, _)| later == earlier);
    vec![
        gauge("crawler_members", "Processes of the distributed crawl, by state.").with_all(
            states
                .into_iter()
                .filter(|_| is_known)
                .map(|(state, count)| (vec![("state", state.to_owned())], count as f64)),
        ),
        gauge("crawler_heartbeat_age_seconds", "The time since the last heartbeat of each process.")
            .with_all(ages),
    ]
}

fn redis(view: &View) -> Vec<Family> {
    // What Redis said before an outage is not so any more.
    let redis = view.redis.as_ref().filter(|_| view.redis_up == Some(true));
    let round_trips = view.crawl.statistics.redis_round_trips;
    let of = |value: fn(&RedisHealth) -> Option<u64>| redis.and_then(value).map(|value| value as f64);
    let is_durable = redis.and_then(|redis| match (redis.aof_ok, redis.last_save_ok) {
        (None, None) => None,
        (aof, save) => Some(aof != Some(false) && save != Some(false)),
    });
    vec![
        gauge("crawler_redis_up", "Whether Redis replies; absent without Redis.")
            .maybe(view.redis_up.map(|is_up| f64::from(u8::from(is_up)))),
        counter("crawler_redis_round_trips_total", "How often processes waited for Redis.")
            .maybe(Some(round_trips as f64).filter(|count| *count > 0.0)),
        gauge("crawler_redis_used_memory_bytes", "Memory in use by Redis.")
            .maybe(of(|redis| redis.used_memory)),
        gauge("crawler_redis_max_memory_bytes", "Memory that Redis may use; absent if unlimited.")
            .maybe(of(|redis| redis.max_memory)),
        gauge("crawler_redis_clients", "Clients connected to Redis.")
            .maybe(of(|redis| redis.connected_clients)),
        gauge("crawler_redis_commands_per_second", "Commands per second that Redis executes.")
            .maybe(of(|redis| redis.ops_per_second)),
        gauge("crawler_redis_persistence_ok", "Whether Redis could write to its disk.")
            .maybe(is_durable.map(|is_ok| f64::from(u8::from(is_ok)))),
        gauge("crawler_redis_reply_seconds", "How long Redis took to reply last.")
            .maybe(redis.and_then(|redis| redis.rtt_ms).map(|millis| millis / 1_000.0)),
    ]
}

/// The hosts with the most requests. Their number is the user's choice: each is a time series of each metric.
fn top_hosts(statistics: &Statistics, hosts: usize) -> Vec<Family> {
    let top = statistics.hosts.top(hosts, |host| host.requests);
    let host = |name: &str| vec![("host", name.to_owned())];
    let of = |value: fn(&crawler::internal::statistics::HostStatistics) -> f64| {
        top.iter().map(|(name, statistics)| (host(name), value(statistics))).collect::<Vec<_>>()
    };
    vec![
        counter(
            "crawler_host_requests_total",
            "Requests to the hosts with the most requests (--metrics-hosts).",
        )
        .with_all(of(|host| host.requests as f64)),
        counter("crawler_host_failures_total", "Requests to these hosts that failed.")
            .with_all(of(|host| host.failures as f64)),
        counter("crawler_host_body_bytes_total", "Body bytes of these hosts after decoding.")
            .with_all(of(|host| host.bytes as f64)),
        counter(
            "crawler_host_response_seconds_total",
            "Time from the requests to these hosts to the ends of their responses.",
        )
        .with_all(of(|host| host.latency_total_ms as f64 / 1_000.0)),
    ]
}

#[cfg(test)]
mod tests;
