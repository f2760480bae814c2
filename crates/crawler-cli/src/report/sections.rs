//! Puts together what a report says, section by section.

mod distributions;
mod failures;
mod hosts;
mod outcomes;
mod over_time;
mod overview;
mod structure;

use crate::report::content::ReportContent;
use crate::report::document::{Bar, Document, Tone};
use crawler::internal::format::number;

/// The report on a crawl. Sections that have nothing to say are left out.
pub fn document(content: &ReportContent) -> Document<'_> {
    let sections = [
        Some(overview::summary(content)),
        Some(overview::request(content)),
        overview::budgets(content),
        over_time::section(content),
        outcomes::section(content),
        outcomes::statuses(content),
        hosts::hosts(content),
        hosts::politeness(content),
        distributions::pages(content),
        distributions::speed(content),
        structure::section(content),
        outcomes::redirects(content),
        outcomes::duplicates(content),
        failures::broken_links(content),
        Some(failures::failed(content)),
    ];
    Document {
        title: "Crawl report".into(),
        subject: overview::subject(content),
        facts: overview::facts(content),
        sections: sections.into_iter().flatten().collect(),
        footer: overview::footer(content),
    }
}

/// Bars of counts, with the sum of those that are too many at the end.
fn bars<L: Into<String>>(counts: impl Iterator<Item = (L, u64, Tone)>, most: usize) -> Vec<Bar> {
    let bar = |label: String, count: u64, tone| Bar {
        label,
        value: count as f64,
        text: number(count),
        tone,
        mark: None,
        full: None,
    };
    let mut counts: Vec<(L, u64, Tone)> = counts.filter(|(_, count, _)| *count > 0).collect();
    let others = counts.split_off(counts.len().min(most));
    let mut bars: Vec<Bar> =
        counts.into_iter().map(|(label, count, tone)| bar(label.into(), count, tone)).collect();
    if !others.is_empty() {
        let sum = others.iter().map(|(_, count, _)| count).sum();
        bars.push(bar(format!("{} others", number(others.len() as u64)), sum, Tone::Rest));
    }
    bars
}

/// A part of a whole in per cent; `<1 %` if it is small but not nothing.
fn percent(part: u64, whole: u64) -> String {
    match 100.0 * part as f64 / whole.max(1) as f64 {
        share if share > 0.0 && share < 1.0 => "<1 %".into(),
        share => format!("{:.0} %", share.floor()),
    }
}

/// A measured time in milliseconds: `12 ms`, `1.25 s`.
fn milliseconds(time: f64) -> String {
    match time {
        time if time < 999.5 => format!("{time:.0} ms"),
        time if time < 9_995.0 => format!("{:.2} s", time / 1_000.0),
        time => crate::format::elapsed(std::time::Duration::from_secs_f64(time / 1_000.0)),
    }
}
