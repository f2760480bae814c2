//! The summary at the end of a crawl, whose numbers add up.

use std::fmt::Write;

use crawler::outcome::Outcome;
use crawler::stats::Stats;

/// Where the numbers stand.
const COLUMN: usize = 34;

/// The counts of a crawl as a table.
pub fn summary(stats: &Stats) -> String {
    let mut text = String::new();
    let mut row = |indent: usize, name: &str, count: u64| {
        let width = COLUMN - indent;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:indent$}{name:<width$}{count:>9}", "");
    };
    row(0, "URLs admitted", stats.admitted);
    row(2, "saved", stats.kept());
    for (label, count) in stats.outcomes.iter().filter(|(label, _)| **label != Outcome::Kept.label()) {
        row(2, label, *count);
    }
    row(0, "links found", stats.links);
    let refused: u64 = stats.refused.values().sum();
    row(2, "new", stats.links - stats.duplicates - refused);
    row(2, "known already", stats.duplicates);
    for (label, count) in &stats.refused {
        row(2, label, *count);
    }
    let seconds = stats.elapsed.as_secs_f64();
    let rate = stats.kept() as f64 / seconds.max(0.001);
    let _ = writeln!(text, "{} in {seconds:.1} s, {rate:.1} pages/s", bytes(stats.bytes));
    text
}

fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} bytes"),
        1_000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}
