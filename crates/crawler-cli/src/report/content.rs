//! What a report on a crawl says, before it is written as HTML or Markdown.

use std::time::SystemTime;

use crawler::internal::crawl_view::CrawlView;

/// Everything a report says. Its size is bounded, however large the crawl was.
#[derive(Debug, Clone)]
pub struct ReportContent {
    /// The version of the program that wrote it.
    pub version: String,
    /// When it was written.
    pub written_at: SystemTime,
    /// The seeds, and how many there are.
    pub seeds: Listed<String>,
    /// The options that were given, as on a command line, without secrets: `("--max-pages", "500")`.
    pub options: Vec<(String, String)>,
    /// Counts, statistics, limits and whether it runs.
    pub view: CrawlView,
    /// Whether `crawler resume` can continue the crawl: it has a state directory.
    pub can_resume: bool,
    /// Why the crawl stopped, as in the summary, if it has ended.
    pub end: Option<String>,
    /// What became of its URLs.
    pub urls: UrlFindings,
}

/// The first rows of a list, and how many rows it has.
#[derive(Debug, Clone)]
pub struct Listed<T> {
    pub rows: Vec<T>,
    pub total: u64,
}

impl<T> Default for Listed<T> {
    fn default() -> Listed<T> {
        Listed { rows: Vec::new(), total: 0 }
    }
}

/// What became of the URLs of a crawl, as far as a report names them.
#[derive(Debug, Clone, Default)]
pub struct UrlFindings {
    /// URLs that failed.
    pub failed: Listed<FailedUrl>,
    /// URLs that redirect, and their targets.
    pub redirects: Listed<RedirectedUrl>,
    /// Duplicates and near-duplicates, and the pages that they equal.
    pub duplicates: Listed<DuplicateUrl>,
    /// The hosts and directories of the crawl.
    pub structure: StructureNode,
    /// How the pages with links to failed URLs were found.
    pub link_search: LinkSearchExtent,
}

/// How completely the pages with links to failed URLs are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LinkSearchExtent {
    /// All stored pages were searched.
    Complete,
    /// Searching all pages takes too long: how many were searched, and of how many.
    Partial { searched: u64, pages: u64 },
    /// Only the page is known on which a URL was found first, for this reason.
    #[default]
    FirstPageOnly,
}

/// A URL that failed.
#[derive(Debug, Clone)]
pub struct FailedUrl {
    pub url: String,
    /// `page`, `sitemap`, `requisite` or `link`.
    pub kind: &'static str,
    /// The outcome as text, such as `HTTP 404` or `timeout`.
    pub outcome: String,
    /// Whether the failure is temporary.
    pub is_temporary: bool,
    pub depth: u32,
    pub at: Option<SystemTime>,
    /// The page on which it was found first; a seed has none.
    pub found_on: Option<String>,
    /// The pages that link to it, as far as they are known.
    pub linked_from: Listed<String>,
}

/// A URL that redirects.
#[derive(Debug, Clone)]
pub struct RedirectedUrl {
    pub url: String,
    pub to: String,
    /// Why the redirect was not followed.
    pub rejected: Option<String>,
}

/// A page that equals another one, nearly or exactly.
#[derive(Debug, Clone)]
pub struct DuplicateUrl {
    pub url: String,
    /// The page that was kept, if it is known.
    pub of: Option<String>,
    pub is_near: bool,
}

/// A host or directory of a site, or the root of all hosts (with an empty name), with the totals of everything below.
#[derive(Debug, Clone, Default)]
pub struct StructureNode {
    pub name: String,
    pub pages: u64,
    /// All completed URLs.
    pub urls: u64,
    pub failed: u64,
    /// The children with the most URLs.
    pub children: Vec<StructureNode>,
    /// How many more children there are, and their URLs.
    pub omitted: (u64, u64),
}
