//! Files that contain every page exactly once, also after a crash.

pub mod files;
pub(super) mod numbered_dir;
pub mod parts;

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::page::Page;

/// Says what each kept page adds to files. Pure: the same page always adds the same. It need not know the page's
/// number, which is given only by the commit that records what it adds.
pub trait Output: Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str;

    /// What its file begins with, before any page.
    fn header(&self) -> &[u8] {
        b""
    }

    /// What the page adds: always [`OutputWrite::Append`] where the target is a file, always [`OutputWrite::File`] where
    /// it is a directory.
    fn render(&self, page: &Page) -> OutputWrite;
}

/// What one page adds to the output of a crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputWrite {
    /// Bytes at the end of the output's one file.
    Append(Vec<u8>),
    /// A file of its own in the output's directory, named by the page's number: so that what a crash left behind
    /// can be told, and no page can choose where it is written.
    File(Vec<u8>),
}

impl OutputWrite {
    /// Refuses what is meant for a file where there is a directory, or the other way round, or for an output that is not
    /// there.
    fn check(&self, index: usize, is_directory: Option<bool>) -> io::Result<()> {
        let wrong = match (is_directory, self) {
            (Some(false), OutputWrite::Append(_)) | (Some(true), OutputWrite::File(_)) => return Ok(()),
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
