//! The report of a link check as one HTML file that needs no other.

use std::io::{self, Write};

use super::report::{Finding, IncomingLink, Report};
use crate::format::{counted, number};
use crate::modules::markup::{escaped, is_web_url};

/// How many links to a URL are shown before the reader opens the others.
const OPEN_LINKS: usize = 5;

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Link check</title>
<style>
:root { color-scheme: light dark; --line: #8884; --quiet: #667; --bad: #b3261e; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --quiet: #99a; --bad: #ff8a80; --warn: #e0b050; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; }
section > article { border-top: 1px solid var(--line); padding: .75rem 0; overflow-wrap: anywhere; }
article > p { margin: .25rem 0; } .quiet { color: var(--quiet); }
.broken .reason { color: var(--bad); } .redirected .reason, .gaps { color: var(--warn); }
ul { margin: .25rem 0; padding-left: 1.5rem; } summary { cursor: pointer; color: var(--quiet); }
</style>
"#;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(HEAD.as_bytes())?;
    writeln!(out, "<h1>Link check</h1>")?;
    let seeds: Vec<String> = report.seeds.iter().map(|seed| link(seed)).collect();
    writeln!(out, "<p class=quiet>{}</p>", seeds.join("<br>"))?;
    writeln!(out, "<p>{}</p>", escaped(&report.counts.to_string()))?;
    if !report.gaps.is_empty() {
        writeln!(out, "<p class=gaps>Not complete: {}</p>", escaped(&report.gaps.join("; ")))?;
    }
    section(out, "broken", "Broken", &report.broken, report.counts.broken)?;
    section(out, "redirected", "Moved permanently", &report.redirected, report.counts.redirected)?;
    section(out, "unchecked", "Not checked", &report.not_checked, report.counts.not_checked)
}

fn section(
    out: &mut dyn Write,
    class: &str,
    title: &str,
    findings: &[Finding],
    count: u64,
) -> io::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section class={class}>\n<h2>{title} ({})</h2>", number(count))?;
    for finding in findings {
        article(out, finding)?;
    }
    let more = count.saturating_sub(findings.len() as u64);
    if more > 0 {
        writeln!(out, "<article>… and {} more</article>", number(more))?;
    }
    writeln!(out, "</section>")
}

fn article(out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
    writeln!(out, "<article>\n<p>{}</p>", link(&finding.url))?;
    writeln!(out, "<p class=reason>{}</p>", escaped(&finding.words()))?;
    writeln!(out, "<p class=quiet>{}</p>", escaped(&finding.linked_from()))?;
    let (open, folded) = finding.references.split_at(finding.references.len().min(OPEN_LINKS));
    let items = |references: &[IncomingLink]| -> String {
        let item = |reference: &IncomingLink| {
            format!("<li>{} <span class=quiet>{}</span>", link(&reference.page), escaped(&reference.label()))
        };
        references.iter().map(item).collect()
    };
    if !open.is_empty() {
        writeln!(out, "<ul>{}</ul>", items(open))?;
    }
    if !folded.is_empty() || finding.unlisted() > 0 {
        let more = counted(finding.links - open.len() as u64, "more link");
        let unlisted = match finding.unlisted() {
            0 => String::new(),
            count => format!("<li>… and {}, not listed", number(count)),
        };
        writeln!(out, "<details><summary>{more}</summary><ul>{}{unlisted}</ul></details>", items(folded))?;
    }
    writeln!(out, "</article>")
}

/// A URL as a link. What is not a URL is text.
fn link(url: &str) -> String {
    let text = escaped(url);
    match is_web_url(url) {
        true => format!(r#"<a href="{text}" rel="noopener noreferrer nofollow">{text}</a>"#),
        false => text,
    }
}
