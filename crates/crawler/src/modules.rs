//! What is done with a kept page, besides keeping it.
//!
//! There are two kinds. A [`Module`] performs a side effect, at least once for each page. An [`Output`] says what a
//! page adds to files; the files are written by the crawl itself, from what the commit that completed the page
//! recorded, so that each page is in them exactly once, whatever died when.

pub mod pages;

use crate::page::Page;

/// Performs a side effect for each kept page. A page may be seen twice if the crawl was killed in between.
pub trait Module: Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str;

    /// Sees a page. An error is reported and counted, and does not stop the crawl.
    fn page(&self, page: &Page) -> Result<(), String>;

    /// What it has to say at the end of the crawl.
    fn summary(&self) -> Option<String> {
        None
    }
}

/// Any function of a page is a module.
impl<F: Fn(&Page) + Send + Sync> Module for F {
    fn name(&self) -> &str {
        "function"
    }

    fn page(&self, page: &Page) -> Result<(), String> {
        self(page);
        Ok(())
    }
}

/// Says what each kept page adds to files. Pure: the same page and number always add the same.
pub trait Output: Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str;

    /// What the page adds, as document `id` (1, 2, 3 … without holes).
    fn render(&self, page: &Page, id: u64) -> Addition;
}

/// What one page adds to the output of a crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addition {
    /// Bytes at the end of the output's one file.
    Append(Vec<u8>),
    /// A file of its own in the output's directory.
    File {
        /// Its name.
        name: String,
        /// All of it.
        bytes: Vec<u8>,
    },
}
