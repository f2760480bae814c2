//! The summary at the end of a crawl, whose numbers add up.

use std::time::Duration;

use crawler::internal::outcome::Outcome;
use crawler::internal::stats::Stats;

/// Where the numbers stand.
const COLUMN: usize = 34;

/// The counts of a crawl as a table.
pub fn summary(stats: &Stats) -> String {
    let mut text = String::new();
    let mut row = |indent, name: &str, count| text.push_str(&self::row(indent, name, count));
    row(0, "URLs admitted", stats.admitted);
    row(2, "saved", stats.pages());
    for (label, count) in stats.outcomes.iter().filter(|(label, _)| **label != Outcome::Page.label()) {
        row(2, label, *count);
    }
    row(0, "links found", stats.links);
    let refused: u64 = stats.refused.values().sum();
    row(2, "new", stats.links - stats.duplicates - refused);
    row(2, "known already", stats.duplicates);
    for (label, count) in &stats.refused {
        row(2, label, *count);
    }
    text + &last_line(stats.bytes, stats.elapsed, stats.pages())
}

/// One line of the table.
pub fn row(indent: usize, name: &str, count: u64) -> String {
    let width = COLUMN - indent;
    format!("{:indent$}{name:<width$}{count:>9}\n", "")
}

/// What the crawl took.
pub fn last_line(read: u64, elapsed: Duration, pages: u64) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = pages as f64 / seconds.max(0.001);
    format!("{} in {seconds:.1} s, {rate:.1} pages/s\n", bytes(read))
}

/// A number of bytes, as people say it.
pub fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} bytes"),
        1_000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}
