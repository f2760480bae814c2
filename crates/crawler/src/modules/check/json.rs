//! The report of a link check as JSON. docs/check.md describes it.

use std::io::{self, Write};

use serde::Serialize;

use super::report::{CheckCounts, Finding, IncomingLink, Report, UnlinkedOrigin};
use super::verdict::Verdict;
use crate::modules::jsonl::json;

/// The version of the format. It rises when a key changes its meaning or disappears, not when one is added.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct JsonCounts {
    pages: u64,
    links: u64,
    urls: u64,
    broken: u64,
    redirected: u64,
    not_checked: u64,
    anchors_not_checked: u64,
}

#[derive(Serialize)]
struct JsonFinding<'r> {
    url: &'r str,
    problem: Verdict,
    status: Option<u16>,
    reason: &'r str,
    redirects_to: Option<&'r str>,
    pages: u64,
    links: u64,
    linked_from: Vec<JsonReference<'r>>,
    is_seed: bool,
    found_on: Option<&'r str>,
}

#[derive(Serialize)]
struct JsonReference<'r> {
    page: &'r str,
    element: &'r str,
    text: &'r str,
}

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let CheckCounts { pages, links, urls, broken, redirected, not_checked, anchors_not_checked } =
        report.counts;
    let counts = JsonCounts { pages, links, urls, broken, redirected, not_checked, anchors_not_checked };
    writeln!(out, "{{\n  \"version\": {VERSION},\n  \"complete\": {},", report.gaps.is_empty())?;
    for (key, value) in
        [("gaps", json(&report.gaps)), ("seeds", json(&report.seeds)), ("counts", json(&counts))]
    {
        write!(out, "  \"{key}\": ")?;
        out.write_all(&value)?;
        writeln!(out, ",")?;
    }
    write_list(out, "broken", &report.broken, ",")?;
    write_list(out, "redirected", &report.redirected, ",")?;
    write_list(out, "not_checked", &report.not_checked, "")?;
    writeln!(out, "}}")
}

/// Writes one finding per line.
fn write_list(out: &mut dyn Write, key: &str, findings: &[Finding], end: &str) -> io::Result<()> {
    write!(out, "  \"{key}\": [")?;
    for (index, finding) in findings.iter().enumerate() {
        write!(out, "{}\n    ", if index == 0 { "" } else { "," })?;
        out.write_all(&json(&json_finding(finding)))?;
    }
    writeln!(out, "{}]{end}", if findings.is_empty() { "" } else { "\n  " })
}

fn reference(IncomingLink { page, element, text }: &IncomingLink) -> JsonReference<'_> {
    JsonReference { page, element, text }
}

fn json_finding(finding: &Finding) -> JsonFinding<'_> {
    JsonFinding {
        url: &finding.url,
        problem: finding.verdict,
        status: finding.status,
        reason: &finding.reason,
        redirects_to: finding.target.as_deref(),
        pages: finding.pages,
        links: finding.links,
        linked_from: finding.references.iter().map(reference).collect(),
        is_seed: finding.origin == Some(UnlinkedOrigin::Seed),
        found_on: match &finding.origin {
            Some(UnlinkedOrigin::FoundOn(url)) => Some(url),
            _ => None,
        },
    }
}
