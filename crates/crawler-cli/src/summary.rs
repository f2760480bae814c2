//! The counts of a crawl as users see them in every mode: the table at the end, the progress line and the JSON keys.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crawler::OutcomeGroup;
use crawler::internal::backend::Snapshot;
use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::crawl_view::{CrawlPhase, CrawlView};
use crawler::internal::outcome::{group_of_label, label_is_temporary};
use crawler::internal::replay::ReplayReport;
use crawler::internal::stats::Stats;
use serde::Serialize;

use crate::format::{bytes, counted, elapsed, number, rate};
use crate::live::layout::{Piece, SEPARATOR};
use crate::printable::printable;

/// The width of the row names.
const NAME_WIDTH: usize = 11;

/// The width of the counts; larger counts widen the column.
const COUNT_WIDTH: usize = 9;

/// A row lists at most this many reasons, the most frequent first. The JSON has all of them.
const MAX_REASONS: usize = 8;

/// The counts of a crawl. `pages`, `redirects`, `skipped`, `failed`, `sitemaps`, `requisites`, `checked`, `unchanged`, `not_reached` and
/// `pending` add up to `admitted`.
#[derive(Serialize)]
pub struct Counts {
    pub pages: u64,
    /// Decoded body bytes: of the saved pages in the classic mode, of all responses in the pipeline.
    pub bytes: u64,
    /// Body bytes received, of all responses.
    received: u64,
    /// Those of `pages` of which only the start was read.
    truncated: u64,
    pub redirects: u64,
    skipped: Breakdown,
    failed: Breakdown,
    /// Those of `failed` that failed temporarily.
    pub failed_temporarily: u64,
    sitemaps: Sitemaps,
    /// Files that browsers need to show the pages.
    requisites: u64,
    /// Links that were checked and not crawled, and can be fetched.
    checked: u64,
    /// URLs that were visited again, and are the same as before.
    unchanged: u64,
    /// URLs that the crawl stopped before.
    not_reached: u64,
    /// URLs without an outcome yet; 0 when the crawl has ended.
    pub pending: u64,
    /// Distinct URLs.
    pub admitted: u64,
    /// URLs that were fetched again for their links, because they were found again at a lower depth.
    refetches: u64,
    links: Links,
    /// HTTP requests sent.
    requests: u64,
}

/// A row of the table of all counts.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub count: u64,
    /// Reasons or measures, in one line.
    pub detail: String,
}

/// A count by reason.
#[derive(Serialize)]
struct Breakdown {
    total: u64,
    by_reason: BTreeMap<String, u64>,
}

/// Files that list URLs. They are no pages.
#[derive(Serialize)]
struct Sitemaps {
    /// Those that were read or failed.
    total: u64,
    failed: u64,
    /// URLs that they list.
    urls: u64,
}

#[derive(Serialize)]
struct Links {
    found: u64,
    new: u64,
    seen: u64,
    rejected: Breakdown,
}

impl Counts {
    /// The counts of a classic crawl, running or ended.
    pub fn from_stats(stats: &Stats) -> Counts {
        let rejected = stats.links_rejected.iter().map(|(reason, count)| (reason.clone(), *count));
        let rejected = Breakdown::new(rejected.collect());
        Counts {
            pages: stats.pages,
            bytes: stats.bytes,
            received: stats.received,
            truncated: 0,
            redirects: stats.in_group(OutcomeGroup::Redirect),
            skipped: Breakdown::of_group(&stats.outcomes, OutcomeGroup::Skipped),
            failed: Breakdown::of_group(&stats.outcomes, OutcomeGroup::Failed),
            failed_temporarily: failed_temporarily(&stats.outcomes),
            sitemaps: Sitemaps { total: 0, failed: 0, urls: 0 },
            requisites: 0,
            checked: 0,
            unchanged: 0,
            not_reached: stats.in_group(OutcomeGroup::NotReached),
            pending: stats.pending(),
            admitted: stats.admitted,
            refetches: 0,
            links: Links {
                found: stats.links,
                new: stats.links - stats.links_seen - rejected.total,
                seen: stats.links_seen,
                rejected,
            },
            requests: stats.requests,
        }
    }

    /// The counts of a pipeline that runs.
    pub fn of_running(snapshot: &Snapshot) -> Counts {
        // A URL that is fetched again for its links is still one URL.
        let admitted = snapshot.admitted - snapshot.refetches.min(snapshot.admitted);
        let in_group = |group| Breakdown::of_group(&snapshot.outcomes, group);
        let rejected = Breakdown::new(snapshot.links_rejected.clone());
        let sitemaps = in_group(OutcomeGroup::Sitemap);
        Counts {
            pages: snapshot.pages,
            bytes: snapshot.bytes,
            received: snapshot.received,
            truncated: snapshot.truncated,
            redirects: in_group(OutcomeGroup::Redirect).total,
            skipped: in_group(OutcomeGroup::Skipped),
            failed: in_group(OutcomeGroup::Failed),
            failed_temporarily: failed_temporarily(&snapshot.outcomes),
            sitemaps: Sitemaps {
                total: sitemaps.total,
                failed: sitemaps.total - sitemaps.by_reason.get("sitemap").copied().unwrap_or(0),
                urls: snapshot.sitemap_urls,
            },
            requisites: in_group(OutcomeGroup::Requisite).total,
            checked: in_group(OutcomeGroup::Checked).total,
            unchanged: in_group(OutcomeGroup::Unchanged).total,
            not_reached: in_group(OutcomeGroup::NotReached).total,
            pending: admitted.saturating_sub(snapshot.outcomes.values().sum()),
            admitted,
            refetches: snapshot.refetches,
            links: Links {
                found: snapshot.links_new + snapshot.links_seen + rejected.total,
                new: snapshot.links_new,
                seen: snapshot.links_seen,
                rejected,
            },
            requests: snapshot.requests,
        }
    }

    /// The counts of a pipeline that has ended: the URLs that are still pending were not reached.
    pub fn of_ended(snapshot: &Snapshot) -> Counts {
        let counts = Counts::of_running(snapshot);
        Counts { not_reached: counts.not_reached + counts.pending, pending: 0, ..counts }
    }

    /// The counts of a crawl, running or ended.
    pub fn of_view(view: &CrawlView) -> Counts {
        match view.phase {
            CrawlPhase::Ended(_) => Counts::of_ended(&view.snapshot),
            _ => Counts::of_running(&view.snapshot),
        }
    }

    /// URLs that failed.
    pub fn failed(&self) -> u64 {
        self.failed.total
    }

    /// Links on pages.
    pub fn links(&self) -> u64 {
        self.links.found
    }

    /// URLs that were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped.total
    }

    /// Pages per second over this time.
    pub fn pages_per_second(&self, time: Duration) -> f64 {
        self.pages as f64 / time.as_secs_f64().max(0.001)
    }

    /// The bytes that count against a budget.
    pub fn budgeted_bytes(&self) -> u64 {
        self.bytes.max(self.received)
    }

    /// The counts other than the pages, each as a piece of a line. Those that are zero are left out, except pending.
    pub fn pieces(&self) -> Vec<Piece> {
        let piece = |rank, count, name: &str| {
            (count > 0).then(|| Piece::new(rank, format!("{} {name}", number(count))))
        };
        let singular = |rank, count, noun: &str| (count > 0).then(|| Piece::new(rank, counted(count, noun)));
        let failed = piece(1, self.failed.total, "failed").map(|failed| {
            let (count, reasons) = (failed.text(), self.failed_reasons());
            let reasons: Vec<&str> = reasons.split(SEPARATOR).collect();
            let with = |reasons: &str| format!("{count} ({reasons})");
            let most_frequent =
                with(&format!("{}{}", reasons[0], if reasons.len() > 1 { ", …" } else { "" }));
            Piece::new(1, with(&reasons.join(", "))).or(most_frequent).or(count)
        });
        let pieces = [
            Some(Piece::new(0, format!("{} pending", number(self.pending)))),
            failed,
            piece(3, self.skipped.total, "skipped"),
            singular(4, self.redirects, "redirect"),
            singular(5, self.sitemaps.total, "sitemap"),
            singular(5, self.requisites, "requisite"),
            piece(5, self.checked, "checked"),
            piece(5, self.unchanged, "unchanged"),
            singular(6, self.requests, "request"),
        ];
        pieces.into_iter().flatten().collect()
    }

    /// Why URLs were skipped, the most frequent reasons first; empty if none was.
    pub fn skipped_reasons(&self) -> String {
        self.skipped.reasons(|reason, count| format!("{reason} {}", number(count)))
    }

    /// Why URLs failed, the most frequent reasons first; empty if none did.
    pub fn failed_reasons(&self) -> String {
        // "HTTP 404 60" would read as one number.
        self.failed.reasons(|reason, count| format!("{reason} ×{}", number(count)))
    }

    /// The table of all counts.
    pub fn table(&self, time: Duration) -> String {
        table_of(&self.rows(time))
    }

    /// The rows of the table of all counts. Those that are zero are left out, except pages, links and requests.
    pub fn rows(&self, time: Duration) -> Vec<Row> {
        let links = [(self.links.new, "new"), (self.links.seen, "seen")];
        let links = links.into_iter().filter(|(count, _)| *count > 0);
        let mut links: Vec<String> = links.map(|(count, what)| format!("{} {what}", number(count))).collect();
        let rejected = self.links.rejected.reasons(|reason, count| format!("{} {reason}", number(count)));
        links.extend(Some(rejected).filter(|rejected| !rejected.is_empty()));
        let received = format!("{} received", bytes(self.received));
        let speed = format!("{received} · {} · {}", rate(self.pages_per_second(time)), elapsed(time));
        let mut pages = bytes(self.bytes);
        if self.truncated > 0 {
            pages += &format!("{SEPARATOR}{} truncated", number(self.truncated));
        }
        let rows = [
            ("Pages", self.pages, pages),
            ("Redirects", self.redirects, String::new()),
            ("Skipped", self.skipped.total, self.skipped_reasons()),
            ("Failed", self.failed.total, self.failed_reasons()),
            ("Sitemaps", self.sitemaps.total, self.sitemaps.detail()),
            ("Requisites", self.requisites, String::new()),
            ("Checked", self.checked, "links that are not crawled".into()),
            ("Unchanged", self.unchanged, "since the last visit".into()),
            ("Not reached", self.not_reached, String::new()),
            ("Pending", self.pending, String::new()),
            ("Links", self.links.found, links.join(" · ")),
            ("Requests", self.requests, speed),
        ];
        let is_shown = |row: &Row| row.count > 0 || matches!(row.name, "Pages" | "Links" | "Requests");
        let rows = rows.into_iter().map(|(name, count, detail)| Row { name, count, detail });
        rows.filter(is_shown).collect()
    }
}

/// The table of a replay. Rows that are zero are left out, except pages and records.
pub fn replay_table(report: &ReplayReport) -> String {
    let (counts, time) = (&report.counts, report.elapsed);
    let in_group = |group| Breakdown::of_group(&counts.outcomes, group);
    let listed =
        |breakdown: &Breakdown| breakdown.reasons(|reason, count| format!("{reason} {}", number(count)));
    let (skipped, failed) = (in_group(OutcomeGroup::Skipped), in_group(OutcomeGroup::Failed));
    let left_out = listed(&Breakdown::new(counts.left_out.clone()));
    let records = if left_out.is_empty() { left_out } else { format!("not used: {left_out}") };
    let pages_per_second = counts.pages() as f64 / time.as_secs_f64().max(0.001);
    let speed =
        format!("{} read · {} · {}", bytes(counts.archive_bytes), rate(pages_per_second), elapsed(time));
    let rows = [
        ("Pages", counts.pages(), bytes(counts.bytes)),
        ("Redirects", in_group(OutcomeGroup::Redirect).total, String::new()),
        ("Skipped", skipped.total, listed(&skipped)),
        ("Failed", failed.total, failed.reasons(|reason, count| format!("{reason} ×{}", number(count)))),
        ("Requisites", in_group(OutcomeGroup::Requisite).total, String::new()),
        ("Records", counts.records, records),
        ("Damaged", counts.damaged, "records that were skipped".into()),
        ("Unreadable", counts.failed_archives, "archives that were not read to their end".into()),
        ("Archives", report.archives as u64, speed),
    ];
    let rows = rows.into_iter().map(|(name, count, detail)| Row { name, count, detail });
    let is_shown = |row: &Row| row.count > 0 || matches!(row.name, "Pages" | "Records");
    table_of(&rows.filter(is_shown).collect::<Vec<_>>())
}

/// The rows as lines of a table.
fn table_of(rows: &[Row]) -> String {
    let rows: Vec<(&str, String, &str)> =
        rows.iter().map(|row| (row.name, number(row.count), row.detail.as_str())).collect();
    let width = rows.iter().map(|(_, count, _)| count.len()).max().unwrap_or(0).max(COUNT_WIDTH);
    rows.iter().map(|(name, count, detail)| line(name, count, detail, width)).collect()
}

/// The name of a group of outcomes.
pub fn group_name(group: OutcomeGroup) -> &'static str {
    match group {
        OutcomeGroup::Page => "Pages",
        OutcomeGroup::Redirect => "Redirects",
        OutcomeGroup::Skipped => "Skipped",
        OutcomeGroup::Sitemap => "Sitemaps",
        OutcomeGroup::Requisite => "Requisites",
        OutcomeGroup::Checked => "Checked",
        OutcomeGroup::Unchanged => "Unchanged",
        OutcomeGroup::NotReached => "Not reached",
        _ => "Failed",
    }
}

/// Names and counts, the most frequent first.
pub fn by_count(counts: &BTreeMap<String, u64>) -> impl Iterator<Item = (&str, u64)> {
    let mut counts: Vec<(&str, u64)> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts.into_iter()
}

/// The health of the PageRank service, if the crawl uses one.
pub fn page_rank_line(snapshot: &Snapshot) -> Option<String> {
    let stats = snapshot.prioritizer_service()?;
    let mut line = format!(
        "PageRank service {}: {}, {} failed, {} without a rank",
        if stats.is_available { "available" } else { "unavailable" },
        counted(stats.requests, "request"),
        number(stats.failures),
        counted(stats.fallbacks, "URL")
    );
    if let Some(last) = &stats.last_failure {
        line += &format!(" (last: {})", printable(last));
    }
    Some(line)
}

fn line(name: &str, count: &str, detail: &str, width: usize) -> String {
    let line = format!("{name:<NAME_WIDTH$}{count:>width$}   {detail}");
    format!("{}\n", line.trim_end())
}

/// The number of URLs and sitemaps that failed temporarily.
fn failed_temporarily(outcomes: &BTreeMap<String, u64>) -> u64 {
    outcomes.iter().filter(|(label, _)| label_is_temporary(label)).map(|(_, count)| count).sum()
}

impl Sitemaps {
    fn detail(&self) -> String {
        let failed =
            if self.failed > 0 { format!(" · {} failed", number(self.failed)) } else { String::new() };
        format!("{}{failed}", counted(self.urls, "URL"))
    }
}

impl Breakdown {
    fn new(by_reason: BTreeMap<String, u64>) -> Breakdown {
        Breakdown { total: by_reason.values().sum(), by_reason }
    }

    fn of_group(outcomes: &BTreeMap<String, u64>, group: OutcomeGroup) -> Breakdown {
        let in_group = outcomes.iter().filter(|(label, _)| group_of_label(label) == group);
        Breakdown::new(in_group.map(|(label, count)| (label.clone(), *count)).collect())
    }

    /// The reasons in one line, the most frequent first.
    fn reasons(&self, show: impl Fn(&str, u64) -> String) -> String {
        let mut reasons: Vec<(&str, u64)> = by_count(&self.by_reason).collect();
        if reasons.len() > MAX_REASONS {
            let others = reasons.split_off(MAX_REASONS - 1);
            reasons.push(("other", others.iter().map(|(_, count)| count).sum()));
        }
        reasons.into_iter().map(|(reason, count)| show(reason, count)).collect::<Vec<_>>().join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::layout::joined;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(label, count)| ((*label).to_owned(), *count)).collect()
    }

    #[test]
    fn table_has_a_row_per_group_with_its_reasons() {
        let mut snapshot = Snapshot::default();
        snapshot.admitted = 1_112;
        snapshot.pages = 500;
        snapshot.bytes = 2_600_000;
        snapshot.received = 910_000;
        snapshot.outcomes = counts(&[
            ("page", 500),
            ("redirect", 267),
            ("near-duplicate", 8),
            ("not a page", 51),
            ("robots.txt", 21),
            ("timeout", 2),
            ("HTTP 404", 60),
        ]);
        snapshot.links_new = 1_111;
        snapshot.links_seen = 1_297;
        snapshot.links_rejected = counts(&[("out of scope", 203)]);
        snapshot.requests = 1_013;
        let expected = "\
Pages            500   2.6 MB
Redirects        267
Skipped           80   not a page 51 · robots.txt 21 · near-duplicate 8
Failed            62   HTTP 404 ×60 · timeout ×2
Not reached      203
Links          2,611   1,111 new · 1,297 seen · 203 out of scope
Requests       1,013   910.0 KB received · 98 pages/s · 5.1 s
";
        assert_eq!(Counts::of_ended(&snapshot).table(Duration::from_millis(5_100)), expected);
        assert_eq!(Counts::of_ended(&snapshot).failed_temporarily, 2);
        let line = "203 pending · 62 failed (HTTP 404 ×60, timeout ×2) · 80 skipped · 267 redirects · 1,013 requests";
        assert_eq!(joined(&Counts::of_running(&snapshot).pieces()), line);
    }

    #[test]
    fn rows_of_zero_are_left_out() {
        let expected = "Pages              0   0 bytes\nLinks              0\nRequests           0   0 bytes received · 0.0 pages/s · 0.0 s\n";
        assert_eq!(Counts::of_ended(&Snapshot::default()).table(Duration::ZERO), expected);
    }

    #[test]
    fn large_counts_widen_the_column() {
        let mut snapshot = Snapshot::default();
        snapshot.requests = 1_234_567_890;
        let table = Counts::of_running(&snapshot).table(Duration::ZERO);
        assert!(table.contains("\nRequests   1,234,567,890   "), "{table}");
        assert!(table.starts_with("Pages                  0   "), "{table}");
    }

    #[test]
    fn rare_reasons_are_summed_up() {
        let outcomes: BTreeMap<String, u64> = (500..512).map(|code| (format!("HTTP {code}"), code)).collect();
        let failed = Breakdown::of_group(&outcomes, OutcomeGroup::Failed);
        let text = failed.reasons(|reason, count| format!("{reason} ×{count}"));
        assert!(text.starts_with("HTTP 511 ×511 · ") && text.ends_with(" · other ×2510"), "{text}");
        assert_eq!(text.split(" · ").count(), MAX_REASONS);
    }
}
