//! Reads a report in Markdown: its sections, tables and counts.

use std::collections::BTreeMap;

/// A report.
pub struct MarkdownReport(pub String);

impl MarkdownReport {
    /// The text below a heading; empty if there is none.
    pub fn section(&self, title: &str) -> &str {
        let Some((_, text)) = self.0.split_once(&format!("\n## {title}\n")) else { return "" };
        text.split("\n## ").next().unwrap()
    }

    /// The rows of the tables of a section, without their headings. Links and code have no marks.
    pub fn rows(&self, title: &str) -> Vec<Vec<String>> {
        let lines: Vec<&str> = self.section(title).lines().collect();
        let is_row = |index: usize| {
            lines[index].starts_with("| ")
                && !lines[index].starts_with("|---")
                && !lines.get(index + 1).is_some_and(|next| next.starts_with("|---"))
        };
        let cell = |cell: &str| cell.trim().replace(['<', '>', '`'], "").replace('\\', "");
        let cells = |line: &str| line.trim_matches('|').split(" | ").map(cell).collect();
        (0..lines.len()).filter(|index| is_row(*index)).map(|index| cells(lines[index])).collect()
    }

    /// The counts of the summary, by name.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let rows = self.rows("Summary").into_iter();
        rows.map(|row| (row[0].clone(), row[1].replace(',', "").parse().unwrap())).collect()
    }

    /// The URLs that failed, each with its outcome and the pages that link to it.
    pub fn failed(&self) -> BTreeMap<String, (String, Vec<String>)> {
        let rows = self.rows("Failed URLs").into_iter();
        rows.map(|row| {
            let mut pages: Vec<String> = row[6].split(' ').map(str::to_owned).collect();
            pages.sort();
            (row[0].clone(), (row[1].clone(), pages))
        })
        .collect()
    }

    /// Whether the counts are those of the JSON of a status or summary.
    #[track_caller]
    pub fn check_counts(&self, expected: &serde_json::Value) {
        let counts = self.counts();
        let pairs = [
            ("Pages", &expected["pages"]),
            ("Redirects", &expected["redirects"]),
            ("Skipped", &expected["skipped"]["total"]),
            ("Failed", &expected["failed"]["total"]),
            ("Not reached", &expected["not_reached"]),
            ("Links", &expected["links"]["found"]),
            ("Requests", &expected["requests"]),
        ];
        for (name, count) in pairs {
            assert_eq!(counts.get(name).copied().unwrap_or(0), count.as_u64().unwrap(), "{name}: {}", self.0);
        }
        let failed = self.section("Failed URLs");
        match expected["failed"]["total"].as_u64().unwrap() {
            0 => assert!(failed.contains("no URL failed"), "{failed}"),
            1 => assert!(failed.contains("\n1 URL failed"), "{failed}"),
            count => assert!(failed.contains(&format!("\n{count} URLs failed")), "{failed}"),
        }
    }
}
