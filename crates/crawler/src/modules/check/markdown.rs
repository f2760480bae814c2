//! The report of a link check as Markdown, short enough for a comment on GitHub.

use std::io::{self, Write};

use super::report::{Finding, Report};
use crate::format::number;
use crate::modules::markup::{markdown_code as code, markdown_link as link};

/// GitHub and GitLab refuse longer comments at 65,536 characters and more.
const MAX_BYTES: usize = 60_000;

/// How many links to a URL are listed.
const MAX_LISTED_LINKS: usize = 10;

/// How many URLs that were not checked are listed. The reports for machines have all.
const MAX_LISTED_NOT_CHECKED: usize = 20;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::from("## Link check\n\n");
    text += &format!("{}\n", report.counts);
    if !report.gaps.is_empty() {
        text += &format!("\n**Not complete:** {}\n", code(&report.gaps.join("; ")));
    }
    section(&mut text, "Broken", &report.broken, report.counts.broken);
    section(&mut text, "Moved permanently", &report.redirected, report.counts.redirected);
    let not_checked = &report.not_checked[..report.not_checked.len().min(MAX_LISTED_NOT_CHECKED)];
    section(&mut text, "Not checked", not_checked, report.counts.not_checked);
    out.write_all(text.as_bytes())
}

fn section(text: &mut String, title: &str, findings: &[Finding], count: u64) {
    if findings.is_empty() {
        return;
    }
    *text += &format!("\n### {title}\n\n");
    let mut listed = 0;
    for finding in findings {
        let item = item(finding);
        if text.len() + item.len() > MAX_BYTES {
            break;
        }
        *text += &item;
        listed += 1;
    }
    if count > listed {
        *text += &format!("- … and {} more\n", number(count - listed));
    }
}

fn item(finding: &Finding) -> String {
    let mut item =
        format!("- {}: {}; {}\n", link(&finding.url), code(&finding.words()), code(&finding.linked_from()));
    for reference in finding.references.iter().take(MAX_LISTED_LINKS) {
        item += &format!("  - {} {}\n", link(&reference.page), code(&reference.label()));
    }
    let more = finding.links.saturating_sub(finding.references.len().min(MAX_LISTED_LINKS) as u64);
    if more > 0 {
        item += &format!("  - … and {} more\n", number(more));
    }
    item
}
