//! Collects what a report says about the URLs of a crawl, in bounded memory: totals are exact, and lists have their first rows.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::time::SystemTime;

use crawler::internal::backend::linking_pages::FoundLinks;
use crawler::internal::backend::stored_url::{StoredUrl, has_failed};
use crawler::internal::outcome::{NamedUrl, label_of_text, named_url, named_url_of_text};
use crawler::internal::outcome::{group_of_label, label_is_temporary};
use crawler::internal::task_kind::{TaskKind, shown_url};
use crawler::internal::url_record::UrlRecord;
use crawler::{Outcome, OutcomeGroup};

use super::content::{DuplicateUrl, FailedUrl, LinkSearchExtent, Listed, RedirectedUrl, UrlFindings};
use super::structure::{Structure, UrlGroup};

/// How many rows the lists have.
const MAX_FAILED: usize = 10_000;
const MAX_REDIRECTS: usize = 5_000;
const MAX_DUPLICATES: usize = 5_000;

/// The size of the texts of a list, in bytes.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// The longest outcome, in bytes. Only the texts of servers are longer.
const MAX_OUTCOME_BYTES: usize = 500;

/// What stands for a URL that is not stored.
const NOT_STORED: &str = "(a URL that is not stored)";

/// Collects what became of the URLs of a crawl.
#[derive(Default)]
pub struct Collector {
    /// The failed URLs, each with the ID of links to it.
    failed: Listed<(u64, FailedUrl)>,
    redirects: Listed<RedirectedUrl>,
    duplicates: Listed<DuplicateUrl>,
    structure: Structure,
    /// The size of the texts of these lists.
    text_bytes: [usize; 3],
}

/// A completed URL.
struct CompletedUrl<'u> {
    task_url: Option<&'u str>,
    link_id: u64,
    label: &'u str,
    text: Cow<'u, str>,
    named: Option<NamedUrl<'u>>,
    depth: u32,
    at: Option<SystemTime>,
    found_on: Option<&'u str>,
}

/// The pages that link to failed URLs, and how many pages there are.
pub struct LinkSearchResult {
    pub found: FoundLinks,
    pub pages: u64,
}

impl Collector {
    /// Adds a URL of a stored crawl.
    pub fn add_stored(&mut self, url: &StoredUrl) {
        self.add(CompletedUrl {
            task_url: url.task_url.as_deref(),
            link_id: url.link_id,
            label: label_of_text(&url.outcome),
            text: url.outcome.as_str().into(),
            named: named_url_of_text(&url.outcome),
            depth: url.depth,
            at: Some(url.at),
            found_on: url.found_on.as_deref(),
        });
    }

    /// Adds a URL that is being completed. Links to it have this ID.
    pub fn add_record(&mut self, record: &UrlRecord, link_id: u64) {
        if record.outcome == Outcome::NotReached {
            return;
        }
        let label = record.outcome.label();
        self.add(CompletedUrl {
            task_url: Some(&record.task_url),
            link_id,
            label: &label,
            text: record.outcome.to_string().into(),
            named: named_url(&record.outcome),
            depth: record.depth,
            at: record.done,
            found_on: record.found_on(),
        });
    }

    fn add(&mut self, url: CompletedUrl) {
        let shown = url.task_url.map(shown_url);
        let has_failed = has_failed(url.label);
        let group = match group_of_label(url.label) {
            _ if has_failed => UrlGroup::Failed,
            OutcomeGroup::Page => UrlGroup::Page,
            _ => UrlGroup::Other,
        };
        self.structure.add(shown, group);
        let shown = shown.unwrap_or(NOT_STORED);
        let [failed_bytes, redirect_bytes, duplicate_bytes] = &mut self.text_bytes;
        if has_failed {
            let text = &url.text[..url.text.floor_char_boundary(MAX_OUTCOME_BYTES)];
            let size = shown.len() + text.len() + url.found_on.map_or(0, str::len);
            push(&mut self.failed, MAX_FAILED, failed_bytes, size, || (url.link_id, url.failed(shown, text)));
        }
        match url.named {
            Some(NamedUrl::Target { to, rejected }) => {
                let row = || RedirectedUrl {
                    url: shown.to_owned(),
                    to: to.to_owned(),
                    rejected: rejected.map(Cow::into_owned),
                };
                push(&mut self.redirects, MAX_REDIRECTS, redirect_bytes, shown.len() + to.len(), row);
            }
            Some(NamedUrl::Original { of, is_near }) => {
                let row = || DuplicateUrl { url: shown.to_owned(), of: Some(of.to_owned()), is_near };
                push(&mut self.duplicates, MAX_DUPLICATES, duplicate_bytes, shown.len() + of.len(), row);
            }
            None => {}
        }
    }

    /// The IDs of links to the failed URLs that are listed.
    pub fn failed_ids(&self) -> Vec<u64> {
        self.failed.rows.iter().map(|(id, _)| *id).collect()
    }

    /// What was collected, with the pages that link to failed URLs, if they were searched.
    pub fn finish(self, links: Option<LinkSearchResult>) -> UrlFindings {
        let link_search = match &links {
            None => LinkSearchExtent::FirstPageOnly,
            Some(LinkSearchResult { found, pages }) if found.has_unread => {
                LinkSearchExtent::Partial { searched: found.read, pages: *pages.max(&found.read) }
            }
            Some(_) => LinkSearchExtent::Complete,
        };
        let mut found = links.map(|links| links.found).unwrap_or_default();
        let with_pages = |(id, failed): (u64, FailedUrl)| {
            let (total, rows) = found.pages.remove(&id).unwrap_or_default();
            failed.linked_from(Listed { rows, total })
        };
        let mut failed: Vec<FailedUrl> = self.failed.rows.into_iter().map(with_pages).collect();
        failed.sort_by_key(|failed| Reverse(failed.linked_from.total));
        UrlFindings {
            failed: Listed { rows: failed, total: self.failed.total },
            redirects: self.redirects,
            duplicates: self.duplicates,
            structure: self.structure.into_nodes(),
            link_search,
        }
    }
}

impl CompletedUrl<'_> {
    fn failed(&self, shown: &str, text: &str) -> FailedUrl {
        FailedUrl {
            url: shown.to_owned(),
            kind: match self.task_url.map_or(TaskKind::Page, TaskKind::from_task_url) {
                TaskKind::Probe => "link",
                kind => kind.name(),
            },
            outcome: text.to_owned(),
            is_temporary: label_is_temporary(self.label),
            depth: self.depth,
            at: self.at,
            found_on: self.found_on.map(str::to_owned),
            linked_from: Listed::default(),
        }
    }
}

impl FailedUrl {
    /// The same with the pages that link to it. One of them is that on which it was found, which may not be stored any more.
    fn linked_from(self, mut pages: Listed<String>) -> FailedUrl {
        if let Some(found_on) = &self.found_on
            && pages.total == pages.rows.len() as u64
            && !pages.rows.contains(found_on)
        {
            pages.total += 1;
            pages.rows.push(found_on.clone());
        }
        FailedUrl { linked_from: pages, ..self }
    }
}

/// Counts a row, and adds it unless the list is full.
fn push<T>(list: &mut Listed<T>, max: usize, text_bytes: &mut usize, size: usize, row: impl FnOnce() -> T) {
    list.total += 1;
    if list.rows.len() < max && *text_bytes + size <= MAX_TEXT_BYTES {
        *text_bytes += size;
        list.rows.push(row());
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn stored(url: &str, outcome: &str, found_on: Option<&str>) -> StoredUrl {
        StoredUrl {
            task_url: Some(url.to_owned()),
            link_id: url.len() as u64,
            outcome: outcome.to_owned(),
            depth: 1,
            at: UNIX_EPOCH,
            found_on: found_on.map(str::to_owned),
        }
    }

    #[test]
    fn urls_are_listed_by_their_outcomes() {
        let mut collector = Collector::default();
        for (url, outcome) in [
            ("http://a.test/", "page"),
            ("http://a.test/gone", "HTTP 404"),
            ("http://a.test/slow#probe", "timeout: the request took longer than 10s"),
            ("http://a.test/s.xml#sitemap", "sitemap failed: it is no XML"),
            ("http://a.test/old", "redirect to http://a.test/new"),
            ("http://a.test/away", "redirect out of scope: http://b.test/ (excluded)"),
            ("http://a.test/copy", "near-duplicate of http://a.test/ (links followed)"),
            ("http://a.test/private", "robots.txt disallows it"),
        ] {
            collector.add_stored(&stored(url, outcome, Some("http://a.test/")));
        }
        let mut found = FoundLinks::default();
        for page in ["http://a.test/", "http://a.test/2"] {
            found.add_link("http://a.test/slow#probe".len() as u64, page);
        }
        let findings = collector.finish(Some(LinkSearchResult { found, pages: 2 }));
        let failed = findings.failed.rows.iter();
        let failed: Vec<_> =
            failed.map(|row| (row.url.as_str(), row.kind, row.is_temporary, row.linked_from.total)).collect();
        assert_eq!(
            failed,
            [
                ("http://a.test/slow", "link", true, 2),
                ("http://a.test/gone", "page", false, 1),
                ("http://a.test/s.xml", "sitemap", false, 1),
            ]
        );
        assert_eq!(findings.redirects.rows[1].rejected.as_deref(), Some("excluded"));
        assert_eq!(findings.redirects.rows[0].to, "http://a.test/new");
        assert_eq!(findings.duplicates.rows[0].of.as_deref(), Some("http://a.test/"));
        let root = &findings.structure;
        assert_eq!((root.urls, root.pages, root.failed), (8, 1, 3));
        assert_eq!(findings.link_search, LinkSearchExtent::Complete);
    }

    #[test]
    fn lists_are_bounded_and_totals_are_not() {
        let mut collector = Collector::default();
        let cause = "x".repeat(1_000);
        for number in 0..12_000 {
            let url = format!("http://a.test/{number}/{}", "u".repeat(1_500));
            collector.add_stored(&stored(&url, &format!("invalid response: {cause}"), None));
        }
        let findings = collector.finish(None);
        assert_eq!(findings.failed.total, 12_000);
        let size: usize = findings.failed.rows.iter().map(|row| row.url.len() + row.outcome.len()).sum();
        assert!(findings.failed.rows.len() > 1_000 && size <= MAX_TEXT_BYTES, "{size}");
        assert_eq!(findings.link_search, LinkSearchExtent::FirstPageOnly);
    }
}
