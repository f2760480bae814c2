//! Modules process each page; outputs write each page to files exactly once.
//!
//! The built-in modules have names: see [`registry::parse`].

pub mod builtin;
pub mod check;
mod csv;
pub mod edges;
pub mod exec;
pub mod extract;
mod fields;
pub mod graphml;
pub mod jsonl;
pub mod markdown;
pub mod markup;
pub mod mirror;
pub mod noop;
pub mod output;
pub mod page_pipeline;
pub mod pages;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod registry;
mod spec;
pub mod stdout;
pub mod table;
pub mod timestamp;
pub mod urls;
pub mod warc;
pub mod words;
mod xml;

pub use self::builtin::BuiltinModule;
pub use self::output::{BuiltinOutput, Output, OutputSpec, OutputWrite, Target};
use crate::page::Page;

/// Processes each page of a crawl, at least once: a page may be processed again after a crash.
///
/// Every `Fn(&Page)` is a module:
///
/// ```no_run
/// # fn example() -> Result<(), crawler::Error> {
/// use crawler::{Crawler, Page};
///
/// Crawler::new("https://example.org/")?.module(|page: &Page| println!("{}", page.url)).run_blocking()?;
/// # Ok(())
/// # }
/// ```
pub trait Module: Send + Sync {
    /// The name of the module in messages.
    fn name(&self) -> &str;

    /// Processes a page, possibly on several threads at once. It may block, but not forever. The crawl completes the page
    /// when this returns. An error or a panic is counted and reported at the end, and does not stop the crawl.
    fn process_page(&self, page: &Page) -> Result<(), String>;

    /// Whether [`process_page`](Module::process_page) may block or take long; true by default. It then runs on a thread
    /// where it does not delay other pages. Return `false` only if it is always quick.
    fn is_blocking(&self) -> bool {
        true
    }

    /// Completes unfinished work. Called once, after the last page.
    fn finish(&self) -> Result<(), String> {
        Ok(())
    }

    /// A text for the end of the crawl. Called after [`finish`](Module::finish).
    fn summary(&self) -> Option<String> {
        None
    }
}

/// Every function of a page is a module.
impl<F: Fn(&Page) + Send + Sync> Module for F {
    fn name(&self) -> &str {
        "function"
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        self(page);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod example {
    //! Pages and URLs for the tests of modules.

    use std::time::{Duration, UNIX_EPOCH};

    use hyper::header::{HeaderName, HeaderValue};

    use crate::media::Media;
    use crate::outcome::Outcome;
    use crate::page::Page;
    use crate::url_record::{RequestRecord, UrlRecord};

    /// The record of a URL that was requested.
    pub(crate) fn url_record(task_url: &str, outcome: Outcome, status: u16) -> UrlRecord<'static> {
        UrlRecord {
            task_url: task_url.into(),
            outcome,
            depth: 1,
            discovery: None,
            retries: 0,
            was_visited: false,
            queued: None,
            request: RequestRecord { status: Some(status), ..RequestRecord::default() },
            truncated: false,
            done: None,
            page: None,
        }
    }

    /// An HTML page of 2026-11-05T06:07:08.009Z with these links.
    pub(crate) fn page(url: &str, body: &[u8], links: &[&str]) -> Page {
        Page {
            url: url.parse().unwrap(),
            depth: 2,
            status: 200,
            headers: [("content-type", "text/html; charset=utf-8"), ("x-note", "one")]
                .into_iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect(),
            media: Media::Html,
            body: body.to_vec().into(),
            truncated: false,
            lastmod: None,
            version: 1,
            changed: false,
            title: String::new(),
            robots: Default::default(),
            links: links.iter().collect(),
            found_on: Some("http://a.test/".into()),
            redirects: vec!["http://a.test/old".into()],
            requested: UNIX_EPOCH + Duration::from_millis(1_793_858_827_900),
            first_byte: UNIX_EPOCH + Duration::from_millis(1_793_858_828_000),
            link_details: Vec::new(),
            requisites: Default::default(),
            ids: Default::default(),
            not_requested: Default::default(),
            fetched: UNIX_EPOCH + Duration::from_millis(1_793_858_828_009),
        }
    }
}
