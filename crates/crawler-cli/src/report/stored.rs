//! Reads the content of a report from what a crawl stored.

use std::time::{Duration, SystemTime};

use crawler::Error;
use crawler::internal::crawl_view::{CrawlPhase, CrawlView};

use super::collect::{Collector, LinkSearchResult};
use super::content::{ReportContent, UrlFindings};
use super::given_options::GivenOptions;
use crate::args::CrawlSource;
use crate::commands::stored_crawl::StoredCrawl;

/// The content of a report on a crawl. Stored pages are searched for links for at most this time.
pub async fn content(source: &CrawlSource, max_search_time: Duration) -> Result<ReportContent, Error> {
    let (mut crawl, options) = StoredCrawl::open(source).await?;
    let view = crawl.view().await?;
    let mut urls = Collector::default();
    crawl.each_url(|url| urls.add_stored(&url)).await?;
    let found = crawl.pages_linking_to(urls.failed_ids(), options.as_ref(), max_search_time).await?;
    let pages = view.snapshot.stored_pages as u64;
    let urls = urls.finish(found.map(|found| LinkSearchResult { found, pages }));
    let given = options.as_ref().map(GivenOptions::of_crawl).unwrap_or_default();
    let can_resume = matches!(source, CrawlSource::State(_));
    Ok(ReportContent { can_resume, ..ReportContent::new(given, view, urls) })
}

impl ReportContent {
    /// A report that is written now, on a crawl without a state directory.
    pub fn new(given: GivenOptions, view: CrawlView, urls: UrlFindings) -> ReportContent {
        let end = match &view.phase {
            CrawlPhase::Ended(end) => Some(end.clone()),
            _ => None,
        };
        ReportContent {
            version: env!("CARGO_PKG_VERSION").into(),
            written_at: SystemTime::now(),
            seeds: given.seeds,
            options: given.options,
            view,
            can_resume: false,
            end,
            urls,
        }
    }
}
