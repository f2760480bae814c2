//! Progress and summary as JSON; only this file knows the keys.

use std::collections::BTreeMap;
use std::time::Duration;

use crawler::internal::backend::redis::{Phase, Role};
use crawler::internal::backend::{Budget, Snapshot};
use crawler::internal::distributed::remote::CrawlStatus;
use crawler::internal::outcome::Outcome;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport, ResumeStatus, Traffic};
use crawler::internal::prioritizer::pagerank::PageRankStats;
use serde::Serialize;

/// How things stand at one moment.
#[derive(Serialize)]
pub struct ProgressJson<'s> {
    elapsed: f64,
    /// Of the last seconds; at the end, of the whole crawl.
    pages_per_second: f64,
    #[serde(flatten)]
    counts: CountsJson<'s>,
    url_queue: usize,
    overflow: usize,
    priority_queues: &'s [usize],
    waiting: usize,
    workers: Vec<WorkerJson>,
    active_hosts: usize,
    owned_domains: usize,
    known_urls: usize,
    stored_pages: usize,
    stored_bytes: u64,
    /// Null until the last one.
    end: Option<&'static str>,
}

#[derive(Serialize)]
struct WorkerJson {
    queued: usize,
    on_loan: usize,
}

/// How a crawl that processes share stands.
#[derive(Serialize)]
pub struct CrawlStatusJson<'s> {
    crawl: &'s str,
    phase: &'static str,
    /// Why it is over; null before that.
    end: Option<&'s str>,
    elapsed: f64,
    #[serde(flatten)]
    counts: CountsJson<'s>,
    members: Vec<MemberJson<'s>>,
    /// What went to Redis and back; null before the end.
    redis: Option<Traffic>,
}

#[derive(Serialize)]
struct MemberJson<'s> {
    role: String,
    place: &'s str,
    /// Its number there.
    process: Option<u32>,
    silent: f64,
    /// Of how many it has URLs in hand; nothing of one that takes no more.
    domains: Option<usize>,
    dead: bool,
}

impl<'s> CrawlStatusJson<'s> {
    pub fn of(
        crawl: &'s str,
        status: &'s CrawlStatus,
        report: Option<&'s CrawlReport>,
    ) -> CrawlStatusJson<'s> {
        // What is left of a crawl that is over is its result.
        let snapshot = report.map_or(&status.snapshot, |report| &report.snapshot);
        let (phase, end) = match &status.state.phase {
            Phase::Unknown => ("unknown", None),
            Phase::Purged => ("purged", None),
            Phase::Opening => ("opening", None),
            Phase::Running => ("running", None),
            Phase::Over(how) => ("over", Some(how.as_str())),
        };
        let members = status.members.iter().map(|member| MemberJson {
            role: match member.role {
                Role::Frontier => "frontier".into(),
                Role::Worker(id) => format!("worker {}", id.0),
            },
            place: &member.place,
            process: member.process(),
            silent: member.silent.as_secs_f64(),
            domains: member.domains,
            dead: member.is_dead,
        });
        CrawlStatusJson {
            crawl,
            phase,
            end,
            elapsed: status.state.elapsed.as_secs_f64(),
            counts: CountsJson::of(snapshot),
            members: members.collect(),
            redis: report.and_then(|report| report.traffic),
        }
    }
}

/// How a crawl ended.
#[derive(Serialize)]
pub struct SummaryJson<'s> {
    end: &'static str,
    /// Whether an earlier process had begun the crawl.
    resumed: bool,
    elapsed: f64,
    pages_per_second: f64,
    #[serde(flatten)]
    counts: CountsJson<'s>,
    module_failures: &'s BTreeMap<String, u64>,
    last_module_failure: Option<&'s str>,
    module_summaries: &'s [String],
    output_failure: Option<&'s str>,
    pagerank: Option<PageRankJson<'s>>,
    /// What went to Redis and back; null where nothing did.
    redis: Option<Traffic>,
}

/// The counts that add up.
#[derive(Serialize)]
struct CountsJson<'s> {
    pages: u64,
    bytes: u64,
    admitted: u64,
    outstanding: u64,
    failed: u64,
    outcomes: &'s BTreeMap<String, u64>,
    revisits: u64,
    links: LinksJson<'s>,
}

#[derive(Serialize)]
struct LinksJson<'s> {
    found: u64,
    new: u64,
    known: u64,
    refused: &'s BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct PageRankJson<'s> {
    requests: u64,
    failures: u64,
    fallbacks: u64,
    last_failure: Option<&'s str>,
}

impl<'s> ProgressJson<'s> {
    /// A snapshot, taken so long after the beginning.
    pub fn of(
        snapshot: &'s Snapshot,
        elapsed: Duration,
        rate: f64,
        end: Option<CrawlEnd>,
    ) -> ProgressJson<'s> {
        ProgressJson {
            elapsed: rounded(elapsed.as_secs_f64()),
            pages_per_second: rounded(rate),
            counts: CountsJson::of(snapshot),
            url_queue: snapshot.url_queue.0,
            overflow: snapshot.url_queue.1,
            priority_queues: &snapshot.priority_queues,
            waiting: snapshot.parked,
            workers: snapshot
                .workers
                .iter()
                .map(|&(queued, on_loan)| WorkerJson { queued, on_loan })
                .collect(),
            active_hosts: snapshot.active_hosts,
            owned_domains: snapshot.owned_domains,
            known_urls: snapshot.seen_urls,
            stored_pages: snapshot.stored_pages,
            stored_bytes: snapshot.stored_bytes,
            end: end.map(name),
        }
    }
}

impl<'s> SummaryJson<'s> {
    /// A crawl that is over.
    pub fn of(report: &'s CrawlReport, health: Option<&'s PageRankStats>) -> SummaryJson<'s> {
        SummaryJson {
            end: name(report.end),
            resumed: report.resumed != ResumeStatus::No,
            elapsed: rounded(report.elapsed.as_secs_f64()),
            pages_per_second: rounded(whole_rate(report)),
            counts: CountsJson::of(&report.snapshot),
            module_failures: &report.counts.failures,
            last_module_failure: report.counts.last_failure.as_deref(),
            module_summaries: &report.summaries,
            output_failure: report.output_failure.as_deref(),
            redis: report.traffic,
            pagerank: health.map(|health| PageRankJson {
                requests: health.requests,
                failures: health.failures,
                fallbacks: health.fallbacks,
                last_failure: health.last_failure.as_deref(),
            }),
        }
    }
}

impl<'s> CountsJson<'s> {
    fn of(snapshot: &'s Snapshot) -> CountsJson<'s> {
        let admitted = admitted(snapshot);
        CountsJson {
            pages: snapshot.pages,
            bytes: snapshot.bytes,
            admitted,
            outstanding: admitted - snapshot.outcomes.values().sum::<u64>().min(admitted),
            failed: failed(snapshot),
            outcomes: &snapshot.outcomes,
            revisits: snapshot.revisits,
            links: LinksJson {
                found: links_found(snapshot),
                new: snapshot.links_new,
                known: snapshot.links_seen,
                refused: &snapshot.links_rejected,
            },
        }
    }
}

/// Pages a second over the whole crawl.
pub fn whole_rate(report: &CrawlReport) -> f64 {
    report.snapshot.pages as f64 / report.elapsed.as_secs_f64().max(0.001)
}

/// Different URLs admitted: one that was met again nearer to a seed and visited for its links is still one.
pub fn admitted(snapshot: &Snapshot) -> u64 {
    snapshot.admitted - snapshot.revisits.min(snapshot.admitted)
}

/// All links of kept pages.
pub fn links_found(snapshot: &Snapshot) -> u64 {
    snapshot.links_new + snapshot.links_seen + snapshot.links_rejected.values().sum::<u64>()
}

/// The outcomes of URLs that should have given a page and did not.
pub fn failures(snapshot: &Snapshot) -> impl Iterator<Item = (&str, u64)> {
    let nothing = String::new;
    // What the rules of the crawl leave out is no failure.
    let by_rule = [
        Outcome::Page,
        Outcome::Redirect { to: nothing() },
        Outcome::Duplicate { of: nothing() },
        Outcome::NearDuplicate { of: nothing() },
        Outcome::RobotsDisallowed,
        Outcome::HostPageLimit,
        Outcome::NotReached,
    ]
    .map(|outcome| outcome.label());
    let outcomes = snapshot.outcomes.iter().map(|(label, count)| (label.as_str(), *count));
    outcomes.filter(move |(label, _)| !by_rule.contains(label))
}

/// How many URLs should have given a page and did not.
pub fn failed(snapshot: &Snapshot) -> u64 {
    failures(snapshot).map(|(_, count)| count).sum()
}

fn name(end: CrawlEnd) -> &'static str {
    match end {
        CrawlEnd::Done => "done",
        CrawlEnd::Spent(Budget::Pages) => "max-pages",
        CrawlEnd::Spent(Budget::Bytes) => "max-bytes",
        CrawlEnd::TimeUp => "max-time",
        CrawlEnd::Stopped => "stopped",
        CrawlEnd::OutputFailed => "output-failed",
    }
}

/// To thousandths: more would be noise.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
