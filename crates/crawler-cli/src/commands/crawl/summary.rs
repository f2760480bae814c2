//! The summary at the end of a crawl of many hosts, whose numbers add up.

use crawler::internal::backend::Budget;
use crawler::internal::outcome::Outcome;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport, ResumeStatus};
use crawler::internal::prioritizer::pagerank::PageRankStats;

use super::json::{admitted, links_found};
use crate::args::CrawlOptions;
use crate::printable::printable;
use crate::summary::{bytes, last_line, row};

/// The counts of a crawl as a table, what its modules have to say, and why it ended.
pub fn table(options: &CrawlOptions, report: &CrawlReport, health: Option<&PageRankStats>) -> String {
    let snapshot = &report.snapshot;
    let admitted = admitted(snapshot);
    let mut text = row(0, "URLs admitted", admitted);
    text += &row(2, Outcome::Page.label(), snapshot.pages);
    for (label, count) in snapshot.outcomes.iter().filter(|(label, _)| *label != Outcome::Page.label()) {
        text += &row(2, label, *count);
    }
    match admitted.saturating_sub(snapshot.outcomes.values().sum()) {
        0 => {}
        not_reached => text += &row(2, Outcome::NotReached.label(), not_reached),
    }
    text += &row(0, "links found", links_found(snapshot));
    text += &row(2, "new", snapshot.links_new);
    text += &row(2, "known already", snapshot.links_seen);
    for (label, count) in &snapshot.links_rejected {
        text += &row(2, label, *count);
    }
    // Of a crawl that was finished before, the modules saw nothing.
    let summaries = if report.resumed == ResumeStatus::Finished { &[][..] } else { &report.summaries };
    for summary in summaries {
        for line in summary.lines() {
            text += &format!("{}\n", printable(line));
        }
    }
    let failures: Vec<String> = report.counts.failures.iter().map(failures_of).collect();
    if let (false, Some(last)) = (failures.is_empty(), &report.counts.last_failure) {
        text += &format!("{} (the last failure: {})\n", failures.join(", "), printable(last));
    }
    if let Some(health) = health {
        text += &service(health);
    }
    text += &format!("ended because {}\n", reason(options, report.end));
    text + &last_line(snapshot.bytes, report.elapsed, snapshot.pages)
}

fn failures_of((name, count): (&String, &u64)) -> String {
    format!("{} of module {}", times(*count, "failure"), printable(name))
}

fn service(health: &PageRankStats) -> String {
    let PageRankStats { requests, failures, fallbacks, last_failure, .. } = health;
    let asked = times(*requests, "request");
    let mut line = format!("PageRank service: {asked}, {failures} failed, {fallbacks} URLs without a rank");
    if let Some(last) = last_failure {
        line += &format!(" (the last failure: {})", printable(last));
    }
    line + "\n"
}

fn reason(options: &CrawlOptions, end: CrawlEnd) -> String {
    match end {
        CrawlEnd::Done => "nothing was left to do".into(),
        CrawlEnd::Spent(Budget::Pages) => {
            format!("{} were kept (--max-pages)", times(options.max_pages, "page"))
        }
        CrawlEnd::Spent(Budget::Bytes) => format!("{} were read (--max-bytes)", bytes(options.max_bytes)),
        CrawlEnd::TimeUp => {
            format!("{:?} had passed (--max-time)", options.max_time.unwrap_or_default())
        }
        CrawlEnd::Stopped => "it was told to stop".into(),
        CrawlEnd::OutputFailed => "an output could not be written".into(),
    }
}

fn times(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
