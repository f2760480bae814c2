//! Sitemaps: files that list URLs of a site, or further sitemaps. Each is a task of its own, so that it has an owner, a lease, a
//! delay and a budget as a page has, and survives a crash as a page does.
//!
//! Its [kind](TaskKind::Sitemap) distinguishes it from a page of the same URL. Its depth is the number of sitemap indexes that led to it.

pub(crate) mod date;
mod document;
pub mod reader;
mod resolver;

use url::Url;

use crate::html::{self, BadLink};
use crate::outcome::Outcome;
use crate::prioritizer::Priority;
use crate::task::Depth;
use crate::task_kind::TaskKind;

/// The depth of the pages that a sitemap lists: they are followed as links of a seed are.
pub(crate) const LISTED_DEPTH: Depth = 1;

/// How many sitemap indexes may lead to a sitemap. The protocol allows one; some sites have an index of indexes.
pub(crate) const MAX_INDEXES: Depth = 3;

/// The URL of the task that reads the sitemap that a robots.txt names. `base` is the URL of the robots.txt, or of any file next to it.
pub(crate) fn task_url_of(base: &Url, sitemap: &str) -> Result<String, BadLink> {
    Ok(TaskKind::Sitemap.task_url(&html::resolve(base, sitemap)?))
}

/// The priority of a sitemap. Those that the user or a robots.txt names come first, so that the crawl knows the site's URLs. An
/// index may name thousands, with more URLs than the crawl has pages: they come last, after the pages that are known.
pub(crate) fn priority(indexes: Depth) -> Priority {
    if indexes == 0 { Priority::BEST } else { Priority::WORST }
}

/// The outcome of a sitemap's task: a failure is one of the sitemap, not of a page.
pub(crate) fn outcome(task_url: &str, outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Sitemap { .. }
        | Outcome::SitemapFailed { .. }
        | Outcome::Redirect { .. }
        | Outcome::Unchanged
        | Outcome::NotReached => outcome,
        failure if TaskKind::from_task_url(task_url) == TaskKind::Sitemap => {
            Outcome::SitemapFailed { cause: failure.to_string(), is_temporary: failure.is_temporary() }
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sitemap_of_a_robots_txt_is_resolved() {
        let base = Url::parse("https://a.test/x/y").unwrap();
        assert_eq!(task_url_of(&base, " /s.xml ").unwrap(), "https://a.test/s.xml#sitemap");
        assert!(task_url_of(&base, "ftp://a.test/s.xml").is_err());
    }

    #[test]
    fn failures_of_sitemaps_are_no_failures_of_pages() {
        let failed = || Outcome::HttpStatus { code: 404, retry_after: None };
        assert_eq!(outcome("http://a/", failed()), failed());
        let of_sitemap = outcome("http://a/#sitemap", failed());
        assert_eq!(of_sitemap, Outcome::SitemapFailed { cause: "HTTP 404".into(), is_temporary: false });
        for no_failure in [Outcome::NotReached, Outcome::Unchanged] {
            assert_eq!(outcome("http://a/#sitemap", no_failure.clone()), no_failure);
        }
    }
}
