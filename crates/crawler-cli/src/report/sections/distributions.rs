//! What the pages were like, and how long requests took.

use crawler::internal::statistics::Histogram;

use super::{bars, milliseconds, percent};
use crate::format::{bytes, counted, number};
use crate::report::content::ReportContent;
use crate::report::document::{Block, Cell, Chart, Column, Columns, Heading, Numbers, Section, Table, Tone};
use crate::summary::by_count;

/// The most bars of a chart.
const MAX_BARS: usize = 10;

/// Depth, size, language and media type of the pages.
pub fn pages(content: &ReportContent) -> Option<Section<'static>> {
    let statistics = &content.view.statistics;
    let mut charts = Vec::new();
    charts.extend(depths(&statistics.depths));
    charts.extend(sizes(&statistics.page_bytes));
    for (title, note, counts) in [
        ("Languages", "Pages by the language that they declare or are written in.", &statistics.languages),
        ("Media types", "Successful responses.", &statistics.content_types),
    ] {
        let bars = bars(by_count(counts).map(|(name, count)| (name, count, Tone::Plain)), MAX_BARS);
        if !bars.is_empty() {
            charts.push(Chart { title: title.into(), note: note.into(), numbers: Numbers::Bars(bars) });
        }
    }
    if charts.is_empty() {
        return None;
    }
    let mut section = Section::new("pages", "Pages");
    if statistics.truncated > 0 {
        section.say(format!(
            "Of {} only the start was read, because they were too large.",
            counted(statistics.truncated, "page")
        ));
    }
    section.draw(charts);
    Some(section)
}

fn depths(depths: &[u64]) -> Option<Chart> {
    let deepest = depths.iter().rposition(|pages| *pages > 0)?;
    let depths = depths.get(..=deepest)?;
    let all: u64 = depths.iter().sum();
    let column = |(depth, pages): (usize, &u64)| Column {
        label: depth.to_string(),
        range: format!("depth {depth}"),
        count: *pages,
    };
    let fullest = depths.iter().enumerate().max_by_key(|(_, pages)| **pages)?;
    let note = format!(
        "The deepest page is {} from a seed. Depth {} has the most pages ({}).",
        counted(deepest as u64, "link"),
        fullest.0,
        percent(*fullest.1, all)
    );
    let columns =
        Columns { columns: depths.iter().enumerate().map(column).collect(), axis: "links from a seed" };
    Some(Chart { title: "Depth".into(), note, numbers: Numbers::Columns(columns) })
}

fn sizes(sizes: &Histogram) -> Option<Chart> {
    let first = sizes.counts.iter().position(|count| *count > 0)?;
    let last = sizes.counts.iter().rposition(|count| *count > 0)?;
    let bounds = sizes.bounds();
    let column = |index: usize| {
        let from = index.checked_sub(1).and_then(|index| bounds.get(index)).copied().unwrap_or(0.0);
        let (label, range) = match bounds.get(index) {
            // A column is too narrow for `bytes`.
            Some(to) => (
                short_size(*to).replace(" bytes", ""),
                format!("{} to {}", short_size(from), short_size(*to)),
            ),
            None => ("more".into(), format!("more than {}", short_size(from))),
        };
        Column { label, range, count: sizes.counts.get(index).copied().unwrap_or(0) }
    };
    let half = sizes.quantile(0.5).filter(|half| half.is_finite());
    let mean = bytes(sizes.mean()?.round() as u64);
    let note = match half {
        Some(half) => format!("Mean {mean}; half of the pages have at most {}.", short_size(half)),
        None => format!("Mean {mean}."),
    };
    let columns =
        Columns { columns: (first..=last).map(column).collect(), axis: "size after decoding, up to" };
    Some(Chart { title: "Page sizes".into(), note, numbers: Numbers::Columns(columns) })
}

/// A round size: `500 bytes`, `20 KB`, `1 MB`.
fn short_size(size: f64) -> String {
    match size {
        size if size < 1e3 => format!("{size:.0} bytes"),
        size if size < 1e6 => format!("{:.0} KB", size / 1e3),
        size => format!("{:.0} MB", size / 1e6),
    }
}

/// How long the stages of requests took.
pub fn speed(content: &ReportContent) -> Option<Section<'static>> {
    let stages = &content.view.statistics.stages;
    let stages = [
        ("Looking up the name", &stages.dns),
        ("Connecting", &stages.connect),
        ("TLS handshake", &stages.tls),
        ("Waiting for the response", &stages.first_byte),
        ("Reading the response", &stages.download),
        ("Parsing the page", &stages.process),
        ("Modules and outputs", &stages.modules),
    ];
    let rows: Vec<Vec<Cell>> = stages
        .into_iter()
        .filter(|(_, times)| times.count > 0)
        .map(|(name, times)| stage(name, times))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut section = Section::new("speed", "Speed");
    section.say("How long each stage of the requests took. Each column is an upper bound: that share of the requests took at most this time.");
    section.blocks.push(Block::Table(Table {
        id: "stage-table",
        noun: "stage",
        columns: vec![
            Heading::wide("Stage"),
            Heading::number("Times"),
            Heading::number("Mean"),
            Heading::number("50 %"),
            Heading::number("90 %"),
            Heading::number("99 %"),
        ],
        total: rows.len() as u64,
        rows,
        choice: None,
    }));
    Some(section)
}

fn stage(name: &'static str, times: &Histogram) -> Vec<Cell> {
    let time = |seconds: Option<f64>| match seconds {
        Some(seconds) if seconds.is_finite() => Cell::Number(seconds, precise(seconds)),
        Some(_) => Cell::Number(f64::from(u32::MAX), "over 1 m".into()),
        None => Cell::None,
    };
    vec![
        Cell::Text(name.into()),
        Cell::Number(times.count as f64, number(times.count)),
        time(times.mean()),
        time(times.quantile(0.5)),
        time(times.quantile(0.9)),
        time(times.quantile(0.99)),
    ]
}

/// A time that may be less than a millisecond.
fn precise(seconds: f64) -> String {
    match seconds * 1_000.0 {
        time if time < 9.95 => format!("{time:.1} ms"),
        time => milliseconds(time),
    }
}
