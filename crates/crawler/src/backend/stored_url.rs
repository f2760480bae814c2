//! A completed URL of a stored crawl, as a process that reads the crawl gets it.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::outcome::{OutcomeGroup, group_of_label, label_is_temporary, label_of_text};
use crate::task::Depth;

/// A completed URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredUrl {
    /// The URL of its task. `None` if only its outcome is stored.
    pub task_url: Option<String>,
    /// The ID under which links to it are found.
    pub link_id: u64,
    /// Its outcome as text.
    pub outcome: String,
    /// Number of links from the nearest seed.
    pub depth: Depth,
    /// When it was completed.
    pub at: SystemTime,
    /// The URL of the page on which it was found first, if it [failed](has_failed). A seed has none.
    pub found_on: Option<String>,
}

impl StoredUrl {
    /// About how much memory it takes, in bytes.
    pub(crate) fn size(&self) -> usize {
        let urls = [&self.task_url, &self.found_on].into_iter().flatten();
        size_of::<StoredUrl>() + self.outcome.len() + urls.map(String::len).sum::<usize>()
    }

    /// Whether the URL failed.
    pub(crate) fn has_failed(&self) -> bool {
        has_failed(label_of_text(&self.outcome))
    }
}

/// Whether a URL with this label failed. Failed sitemaps are counted among sitemaps.
pub fn has_failed(label: &str) -> bool {
    match group_of_label(label) {
        OutcomeGroup::Failed => true,
        OutcomeGroup::Sitemap => label_is_temporary(label) || label == "sitemap failed",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::outcome::tests::all_outcomes;

    #[test]
    fn failed_sitemaps_have_failed_and_others_have_not() {
        for outcome in all_outcomes() {
            let expected =
                outcome.group() == OutcomeGroup::Failed || matches!(outcome, Outcome::SitemapFailed { .. });
            assert_eq!(has_failed(&outcome.label()), expected, "{outcome}");
        }
    }
}
