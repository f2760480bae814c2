//! What is done with a kept page, besides keeping it.
//!
//! There are two kinds. A [`Module`] performs a side effect, at least once for each page. An [`Output`] says what a
//! page adds to files; the files are written by the crawl itself, from what the commit that completed the page
//! recorded, so that each page is in them exactly once, whatever died when ([`files::OutputFiles`]).
//!
//! The delivered ones are known by name to [`registry::parse`].

pub mod edges;
pub mod exec;
pub mod files;
pub mod jsonl;
pub mod noop;
mod numbered;
pub mod pages;
pub mod parts;
pub mod registry;
pub mod stdout;
pub mod timestamp;
pub mod words;

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::page::Page;

/// Performs a side effect for each kept page. A page may be seen twice if the crawl was killed in between.
pub trait Module: Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str;

    /// Sees a page, possibly from several threads at once, and returns when the side effect no longer needs the
    /// crawl to live. It may block, but not for ever. An error or a panic is counted and told at the end, and does
    /// not stop the crawl.
    fn page(&self, page: &Page) -> Result<(), String>;

    /// Whether seeing a page may take long or block. If so it is done on a thread where it holds up no other page;
    /// only what is always quick should say no, and saves the way there.
    fn blocks(&self) -> bool {
        true
    }

    /// The crawl was told to end: [`finish`](Module::finish) is about to be called, and should take seconds at most.
    fn hurry(&self) {}

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

    fn page(&self, page: &Page) -> Result<(), String> {
        self(page);
        Ok(())
    }
}

/// Says what each kept page adds to files. Pure: the same page always adds the same. It need not know the page's
/// number, which is given only by the commit that records what it adds.
pub trait Output: Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str;

    /// What its file begins with, before any page.
    fn head(&self) -> &[u8] {
        b""
    }

    /// What the page adds: always [`Addition::Append`] where the target is a file, always [`Addition::File`] where
    /// it is a directory.
    fn render(&self, page: &Page) -> Addition;
}

/// What one page adds to the output of a crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addition {
    /// Bytes at the end of the output's one file.
    Append(Vec<u8>),
    /// A file of its own in the output's directory, named by the page's number: so that what a crash left behind
    /// can be told, and no page can choose where it is written.
    File(Vec<u8>),
}

impl Addition {
    /// Refuses what is meant for a file where there is a directory, or the other way round, or for an output that is not
    /// there.
    fn check(&self, index: usize, is_directory: Option<bool>) -> io::Result<()> {
        let wrong = match (is_directory, self) {
            (Some(false), Addition::Append(_)) | (Some(true), Addition::File(_)) => return Ok(()),
            (Some(_), _) => {
                format!("output {index} adds to a file what is meant for a directory, or the other way round")
            }
            (None, _) => format!("there is no output {index}"),
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, wrong))
    }
}

/// An output, and where it goes.
pub struct OutputSpec {
    /// What a page adds.
    pub output: Box<dyn Output>,
    /// To which file or files.
    pub target: Target,
}

/// Where an output goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One file that grows.
    File(PathBuf),
    /// A directory with a file for each page, named 1, 2, 3 …
    Directory(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Target::File(path) | Target::Directory(path)) = self;
        path.display().fmt(f)
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
