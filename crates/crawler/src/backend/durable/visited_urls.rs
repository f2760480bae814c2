//! Reads what the last visit of each page found, compared with the visit before.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::super::BackendError;
use super::file_reader::FileReader;
use super::records::CompletedRow;
use crate::backend::local::storage::Storage;
use crate::outcome::{NamedUrl, label_is_temporary, label_of_text, named_url_of_text};
use crate::task_kind::{TaskKind, shown_url};
use crate::visit::is_page;

/// An answer is complete when it has this many URLs.
const MAX_ANSWER_URLS: usize = 16_384;

/// A URL that is or was a page, and what the last visit of the crawl found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisitedUrl {
    /// The URL.
    pub url: String,
    /// What has changed.
    pub change: Change,
    /// The outcome of its last visit, as text.
    pub outcome: String,
    /// The number of the page's last version.
    pub version: u32,
    /// When it was visited last.
    pub at: SystemTime,
}

/// What has changed between the last two visits of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// There was no page before.
    New,
    /// The page is another one.
    Changed {
        /// How similar it is to the version before, in percent, if that is known.
        similarity: Option<u8>,
    },
    /// The server replied that there is no page any more.
    Gone,
    /// The URL redirects now.
    Moved {
        /// The target.
        to: String,
    },
    /// The page could not be fetched.
    Failed,
    /// The page is the same.
    Unchanged,
    /// The URL was not visited in the last visit of the crawl: it was not due, or is pending.
    NotVisited,
}

impl FileReader {
    /// What the visit of this number found, from this task on, and the next task to read.
    pub(super) fn visited_urls(
        &self,
        visit: u32,
        first: u64,
    ) -> Result<(Vec<VisitedUrl>, Option<u64>), BackendError> {
        let mut urls = Vec::new();
        let next = self.read_completed(first, |task_id, row| {
            if TaskKind::from_task_url(&row.url) == TaskKind::Page {
                let is_pending = self.storage.view.task(task_id)?.is_some();
                urls.extend(self.visited_url(row, visit, is_pending)?);
            }
            Ok(urls.len() >= MAX_ANSWER_URLS)
        })?;
        Ok((urls, next))
    }

    fn visited_url(
        &self,
        row: CompletedRow,
        visit: u32,
        is_pending: bool,
    ) -> Result<Option<VisitedUrl>, BackendError> {
        let change = match row.visits.visit == visit && !is_pending {
            true => change(&row.outcome, row.visits.earlier.as_deref(), row.visits.has_changed()),
            false => is_page(&row.outcome).then_some(Change::NotVisited),
        };
        let Some(mut change) = change else { return Ok(None) };
        // The page of a duplicate is not stored.
        if let Change::Changed { similarity } = &mut change
            && label_of_text(&row.outcome) == "page"
        {
            let page = self.storage.page(self.storage.id(&row.url))?;
            *similarity = page.and_then(|page| page.similarity);
        }
        let at = UNIX_EPOCH.checked_add(Duration::from_millis(row.completed_at));
        let (url, version) = (shown_url(&row.url).to_owned(), row.visits.version);
        let at = at.ok_or_else(|| self.storage.view.damaged())?;
        Ok(Some(VisitedUrl { url, change, outcome: row.outcome, version, at }))
    }
}

/// What has changed since an earlier outcome. `has_changed` says whether the page, if there is one, is another one. `None` if there was
/// no page, and is none.
fn change(outcome: &str, earlier: Option<&str>, has_changed: bool) -> Option<Change> {
    let was_page = earlier.is_some_and(is_page);
    let label = label_of_text(outcome);
    Some(match (was_page, is_page(outcome)) {
        (false, false) => return None,
        (false, true) => Change::New,
        // Whether another URL has the page, too, is no change of it.
        (true, true) if !has_changed => Change::Unchanged,
        (true, true) => Change::Changed { similarity: None },
        (true, false) => match named_url_of_text(outcome) {
            Some(NamedUrl::Target { to, .. }) => Change::Moved { to: to.to_owned() },
            _ if label.starts_with("HTTP ") && !label_is_temporary(label) => Change::Gone,
            _ => Change::Failed,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_follows_from_the_last_two_outcomes_and_bodies() {
        let changed = || Some(Change::Changed { similarity: None });
        for (earlier, outcome, has_changed, expected) in [
            (None, "page", false, Some(Change::New)),
            (Some("HTTP 404"), "page", false, Some(Change::New)),
            (Some("redirect to http://a/"), "near-duplicate of http://a/", false, Some(Change::New)),
            (None, "HTTP 404", false, None),
            (Some("timeout"), "HTTP 404", false, None),
            (Some("page"), "page", true, changed()),
            (Some("unchanged"), "page", true, changed()),
            (Some("page"), "duplicate of http://a/", true, changed()),
            (Some("page"), "unchanged", false, Some(Change::Unchanged)),
            (Some("unchanged"), "unchanged", false, Some(Change::Unchanged)),
            (Some("duplicate of http://a/"), "duplicate of http://a/", false, Some(Change::Unchanged)),
            (Some("near-duplicate of http://a/"), "near-duplicate of http://b/", true, changed()),
            (Some("duplicate of http://a/"), "page", false, Some(Change::Unchanged)),
            (Some("page"), "HTTP 404", false, Some(Change::Gone)),
            (Some("unchanged"), "HTTP 410", false, Some(Change::Gone)),
            (Some("page"), "HTTP 503", false, Some(Change::Failed)),
            (Some("page"), "robots.txt disallows it", false, Some(Change::Failed)),
            (Some("page"), "redirect to http://a/b", false, Some(Change::Moved { to: "http://a/b".into() })),
            (
                Some("page"),
                "redirect out of scope: http://b/",
                false,
                Some(Change::Moved { to: "http://b/".into() }),
            ),
        ] {
            assert_eq!(change(outcome, earlier, has_changed), expected, "{earlier:?} → {outcome}");
        }
    }
}
