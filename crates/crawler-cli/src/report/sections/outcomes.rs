//! What became of the URLs: outcomes, status codes, redirects and duplicates.

use crawler::internal::outcome::group_of_label;
use hyper::StatusCode;

use super::{bars, overview, percent};
use crate::format::{counted, number};
use crate::report::content::ReportContent;
use crate::report::document::{Block, Cell, Chart, Heading, Numbers, Section, Table, Tone};
use crate::summary::by_count;

/// The most bars of a chart.
const MAX_BARS: usize = 14;

/// The outcomes by their labels.
pub fn section(content: &ReportContent) -> Option<Section<'static>> {
    let outcomes = &content.view.snapshot.outcomes;
    let all: u64 = outcomes.values().sum();
    if all == 0 {
        return None;
    }
    let mut section = Section::new("outcomes", "Outcomes");
    section.say(format!("Outcomes of {}.", counted(all, "completed URL")));
    let counts =
        by_count(outcomes).map(|(label, count)| (label, count, overview::group(group_of_label(label)).1));
    let chart = Chart {
        title: "URLs by outcome".into(),
        note: String::new(),
        numbers: Numbers::Bars(bars(counts, MAX_BARS)),
    };
    let mut charts = vec![chart];
    let rejected =
        by_count(&content.view.snapshot.links_rejected).map(|(why, count)| (why, count, Tone::Rest));
    let rejected = bars(rejected, MAX_BARS);
    if !rejected.is_empty() {
        charts.push(Chart {
            title: "Links not followed".into(),
            note: "Links on pages that the scope of the crawl leaves out, by reason.".into(),
            numbers: Numbers::Bars(rejected),
        });
    }
    section.draw(charts);
    Some(section)
}

/// The responses by their status, and the requests without a response.
pub fn statuses(content: &ReportContent) -> Option<Section<'static>> {
    let statistics = &content.view.statistics;
    let responses: u64 = statistics.statuses.values().sum();
    let failures = statistics.failures.total();
    if responses + failures == 0 {
        return None;
    }
    let mut section = Section::new("statuses", "Status codes");
    let mut sentence = format!("{} got a response", counted(responses, "request"));
    let errors = statistics.status_class(4) + statistics.status_class(5);
    if errors > 0 && responses > 0 {
        sentence +=
            &format!(", of which {} ({}) had an error status", number(errors), percent(errors, responses));
    }
    if statistics.retries > 0 {
        sentence += &format!("; {} sent again", counted(statistics.retries, "request"));
    }
    section.say(sentence + ". Requests for robots.txt are included.");
    let mut charts = Vec::new();
    let mut statuses: Vec<(u16, u64)> =
        statistics.statuses.iter().map(|(code, count)| (*code, *count)).collect();
    statuses.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let statuses =
        bars(statuses.into_iter().map(|(code, count)| (status(code), count, tone(code))), MAX_BARS);
    if !statuses.is_empty() {
        charts.push(Chart {
            title: "Responses by status".into(),
            note: String::new(),
            numbers: Numbers::Bars(statuses),
        });
    }
    let kinds = statistics.failures.named().map(|(kind, count)| (failure(kind), count, Tone::Bad));
    let failures = bars(kinds.into_iter(), MAX_BARS);
    if !failures.is_empty() {
        charts.push(Chart {
            title: "Requests without a complete response".into(),
            note: String::new(),
            numbers: Numbers::Bars(failures),
        });
    }
    section.draw(charts);
    Some(section)
}

/// A status with its name: `404 Not Found`.
fn status(code: u16) -> String {
    let name = StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason());
    name.map_or_else(|| code.to_string(), |name| format!("{code} {name}"))
}

fn tone(code: u16) -> Tone {
    match code {
        200..300 => Tone::Good,
        300..400 => Tone::Info,
        400..500 => Tone::Warn,
        500..600 => Tone::Bad,
        _ => Tone::Rest,
    }
}

/// The kind of a failed request, in words.
fn failure(kind: &'static str) -> &'static str {
    match kind {
        "dns" => "name not resolved",
        "connect" => "connection failed",
        "tls" => "TLS failed",
        "timeout" => "timeout",
        "protocol" => "invalid response",
        "proxy" => "proxy failed",
        "private_address" => "private address",
        other => other,
    }
}

/// The URLs that redirect.
pub fn redirects(content: &ReportContent) -> Option<Section<'static>> {
    let redirects = &content.urls.redirects;
    if redirects.total == 0 {
        return None;
    }
    let mut section = Section::new("redirects", "Redirects");
    let rejected = redirects.rows.iter().filter(|redirect| redirect.rejected.is_some()).count() as u64;
    let mut sentence = counted(redirects.total, "URL");
    sentence += if redirects.total == 1 { " redirects" } else { " redirect" };
    if rejected > 0 {
        sentence += &format!("; {} not followed, for the reason given", number(rejected));
    }
    section.say(sentence + ".");
    let row = |redirect: &crate::report::content::RedirectedUrl| {
        let rejected = redirect.rejected.clone();
        vec![
            Cell::Url(redirect.url.clone()),
            Cell::Url(redirect.to.clone()),
            rejected.map_or(Cell::Text("yes".into()), |why| Cell::Foreign(format!("no: {why}"))),
        ]
    };
    section.blocks.push(Block::Table(Table {
        id: "redirect-table",
        noun: "redirect",
        columns: vec![Heading::wide("URL"), Heading::wide("Redirects to"), Heading::text("Followed")],
        rows: redirects.rows.iter().map(row).collect(),
        total: redirects.total,
        choice: Some(2),
    }));
    Some(section)
}

/// The pages that equal others.
pub fn duplicates(content: &ReportContent) -> Option<Section<'static>> {
    let duplicates = &content.urls.duplicates;
    if duplicates.total == 0 {
        return None;
    }
    let mut section = Section::new("duplicates", "Duplicates");
    let outcomes = &content.view.snapshot.outcomes;
    let count = |label: &str| outcomes.get(label).copied().unwrap_or(0);
    section.say(format!(
        "{} with the content of another page, {} with nearly the content. Only the other page was kept.",
        counted(count("duplicate"), "URL"),
        number(count("near-duplicate"))
    ));
    let row = |duplicate: &crate::report::content::DuplicateUrl| {
        vec![
            Cell::Url(duplicate.url.clone()),
            duplicate.of.clone().map_or(Cell::Text("unknown".into()), Cell::Url),
            Cell::Text(if duplicate.is_near { "nearly".into() } else { "exactly".into() }),
        ]
    };
    section.blocks.push(Block::Table(Table {
        id: "duplicate-table",
        noun: "duplicate",
        columns: vec![Heading::wide("URL"), Heading::wide("Same as"), Heading::text("Equal")],
        rows: duplicates.rows.iter().map(row).collect(),
        total: duplicates.total,
        choice: Some(2),
    }));
    Some(section)
}
