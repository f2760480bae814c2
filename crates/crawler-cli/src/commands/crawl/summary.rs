//! The summary at the end of a pipeline: the table of counts, what the modules report, and why the crawl stopped.

use std::collections::BTreeMap;

use crawler::ModuleFailures;
use crawler::internal::backend::Budget;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport, ResumeStatus};

use crate::args::CrawlOptions;
use crate::format::{bytes, counted, limit};
use crate::printable::printable;
use crate::summary::{Counts, page_rank_line};

/// How many unreachable hosts, and how many failed sitemaps, the summary names.
const MAX_NAMED: usize = 5;

/// The summary as text.
pub fn text(options: &CrawlOptions, report: &CrawlReport) -> String {
    let mut text = Counts::of_ended(&report.snapshot).table(report.elapsed);
    // If the crawl was finished before, the modules of this process received no pages.
    let summaries =
        if report.resumed == ResumeStatus::AlreadyFinished { &[][..] } else { &report.module_summaries };
    for line in summaries.iter().flat_map(|summary| summary.lines()) {
        text += &format!("{}\n", printable(line));
    }
    text += &module_failures_line(&report.module_failures).unwrap_or_default();
    if let Some(line) = page_rank_line(&report.snapshot) {
        text += &format!("{line}\n");
    }
    text += &named("Host unreachable", "other unreachable host", &report.snapshot.unreachable_hosts);
    text += &named("Sitemap failed", "other failed sitemap", &report.snapshot.failed_sitemaps);
    if let Some(reason) = stop_reason(options, report.end) {
        text += &format!("Stopped: {reason}\n");
    }
    text
}

/// How often modules and outputs failed, and the last failure, if there was one.
pub fn module_failures_line(failures: &ModuleFailures) -> Option<String> {
    let counts: Vec<String> = failures.failures.iter().map(module_failures).collect();
    let last = failures.last_failure.as_ref().filter(|_| !counts.is_empty())?;
    Some(format!("{} (last: {})\n", counts.join(", "), printable(last)))
}

fn module_failures((module, count): (&String, &u64)) -> String {
    format!("module {}: {}", printable(module), counted(*count, "failure"))
}

/// The hosts that were given up or the sitemaps that failed, each with its cause.
fn named(what: &str, others_name: &str, causes: &BTreeMap<String, String>) -> String {
    let named = causes.iter().take(MAX_NAMED);
    let mut lines: String =
        named.map(|(name, cause)| format!("{what}: {} ({})\n", printable(name), printable(cause))).collect();
    if let Some(others @ 1..) = causes.len().checked_sub(MAX_NAMED) {
        lines += &format!("… and {}\n", counted(others as u64, others_name));
    }
    lines
}

/// Why a crawl stopped with URLs pending; `None` if it is finished.
pub fn stop_reason(options: &CrawlOptions, end: CrawlEnd) -> Option<String> {
    Some(match end {
        CrawlEnd::Finished => return None,
        CrawlEnd::LimitReached(Budget::Pages) => {
            format!("{} (--max-pages)", counted(options.max_pages, "page"))
        }
        CrawlEnd::LimitReached(Budget::Bytes) => format!("{} (--max-bytes)", bytes(options.max_bytes)),
        CrawlEnd::TimeLimit => format!("{} (--max-time)", limit(options.max_time.unwrap_or_default())),
        CrawlEnd::Stopped => "on request".into(),
        CrawlEnd::OutputFailed => "an output cannot be written".into(),
        CrawlEnd::ModuleFailed => "a module cannot process pages".into(),
        end => end.to_string(),
    })
}
