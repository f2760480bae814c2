//! The report of a link check as text for people.

use std::io::{self, Write};

use super::report::{Finding, Report};
use crate::format::number;
use crate::printable::printable;

/// How many pages are listed for a URL.
const MAX_LISTED_LINKS: usize = 20;

/// How many pages are listed for a URL that was not checked.
const MAX_LISTED_LINKS_TO_UNCHECKED: usize = 3;

/// How many URLs that were not checked are listed. The reports for machines have all.
const MAX_LISTED_NOT_CHECKED: usize = 20;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    list(out, "Broken", &report.broken, MAX_LISTED_LINKS)?;
    list(out, "Moved permanently", &report.redirected, MAX_LISTED_LINKS)?;
    let not_checked = &report.not_checked[..report.not_checked.len().min(MAX_LISTED_NOT_CHECKED)];
    list(out, "Not checked", not_checked, MAX_LISTED_LINKS_TO_UNCHECKED)?;
    let more = report.counts.not_checked - not_checked.len() as u64;
    if more > 0 {
        write_more(out, "  ", more)?;
        writeln!(out)?;
    }
    if !report.gaps.is_empty() {
        writeln!(out, "Not complete: {}", printable(&report.gaps.join("; ")))?;
    }
    writeln!(out, "{}", report.counts)
}

fn list(out: &mut dyn Write, title: &str, findings: &[Finding], max_links: usize) -> io::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}\n")?;
    for finding in findings {
        writeln!(out, "  {}", printable(&finding.url))?;
        writeln!(out, "    {}", printable(&finding.words()))?;
        let colon = if finding.references.is_empty() { "" } else { ":" };
        writeln!(out, "    {}{colon}", printable(&finding.linked_from()))?;
        for reference in finding.references.iter().take(max_links) {
            writeln!(out, "      {}  {}", printable(&reference.page), printable(&reference.label()))?;
        }
        let more = finding.links.saturating_sub(finding.references.len().min(max_links) as u64);
        write_more(out, "      ", more)?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_more(out: &mut dyn Write, indent: &str, count: u64) -> io::Result<()> {
    match count {
        0 => Ok(()),
        _ => writeln!(out, "{indent}… and {} more", number(count)),
    }
}
