//! What is done with a kept page, besides keeping it.
//!
//! There are two kinds. A [`Module`] performs a side effect, at least once for each page. An [`Output`] says what a
//! page adds to files; the files are written by the crawl itself, from what the commit that completed the page
//! recorded, so that each page is in them exactly once, whatever died when ([`files::OutputFiles`]).
//!
//! The delivered ones are known by name to [`registry::parse`].

pub mod edges;
pub mod exec;
pub mod jsonl;
pub mod noop;
pub mod output;
pub mod page_pipeline;
pub mod pages;
pub mod registry;
pub mod stdout;
pub mod timestamp;
pub mod words;

pub use self::output::{Output, OutputSpec, OutputWrite, Target};
use crate::page::Page;

/// Performs a side effect for each kept page. A page may be seen twice if the crawl was killed in between.
pub trait Module: Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str;

    /// Sees a page, possibly from several threads at once, and returns when the side effect no longer needs the
    /// crawl to live. It may block, but not for ever. An error or a panic is counted and told at the end, and does
    /// not stop the crawl.
    fn process_page(&self, page: &Page) -> Result<(), String>;

    /// Whether seeing a page may take long or block. If so it is done on a thread where it holds up no other page;
    /// only what is always quick should say no, and saves the way there.
    fn is_blocking(&self) -> bool {
        true
    }

    /// The crawl was told to end: [`finish`](Module::finish) is about to be called, and should take seconds at most.
    fn shutdown_requested(&self) {}

    /// Brings what it has under way to an end. Called once, after the last page.
    fn finish(&self) -> Result<(), String> {
        Ok(())
    }

    /// What it has to say at the end of the crawl, after [`finish`](Module::finish).
    fn summary(&self) -> Option<String> {
        None
    }
}

/// Any function of a page is a module.
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
    //! Pages for the tests of modules.

    use std::time::{Duration, UNIX_EPOCH};

    use crate::media::Media;
    use crate::page::Page;

    /// An HTML page of 2026-11-05T06:07:08.009Z with these links.
    pub(crate) fn page(url: &str, body: &[u8], links: &[&str]) -> Page {
        Page {
            url: url.parse().unwrap(),
            depth: 2,
            status: 200,
            headers: vec![
                ("content-type".into(), "text/html; charset=utf-8".into()),
                ("x-note".into(), "one".into()),
            ],
            media: Media::Html,
            body: body.to_vec().into(),
            title: String::new(),
            links: links.iter().map(|link| link.to_string()).collect(),
            fetched: UNIX_EPOCH + Duration::from_millis(1_793_858_828_009),
        }
    }
}
