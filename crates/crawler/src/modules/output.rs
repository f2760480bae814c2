//! Output files that contain every page exactly once, also after a crash.

mod builtin;
pub mod files;
pub mod finish;
pub mod new_file;
pub(super) mod numbered_dir;
pub mod parts;
pub mod segments;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::builtin::BuiltinOutput;
use crate::error::{StorageError, StorageErrorKind};
use crate::page::Page;

/// Renders each page to bytes, which the crawl writes to a file, or to a directory with a file per page.
///
/// ```
/// use crawler::{Crawler, Output, OutputWrite, Page, Target};
///
/// /// Writes a line with the title and the URL of each page.
/// struct Titles;
///
/// impl Output for Titles {
///     fn name(&self) -> &str {
///         "titles"
///     }
///
///     fn render(&self, page: &Page) -> OutputWrite {
///         OutputWrite::Append(format!("{}\t{}\n", page.title, page.url).into_bytes())
///     }
/// }
///
/// let crawler = Crawler::new("https://example.org/")?.output(Titles, Target::File("titles.tsv".into()));
/// # Ok::<(), crawler::Error>(())
/// ```
///
/// - Each page is in the output exactly once, also after a crash and a resume.
/// - The same page must always give the same bytes, and they must not depend on other pages: the file is the header
///   followed by the pages, in any order.
/// - In a distributed crawl, each worker writes its own part file, and `crawler collect` merges them. This needs no further
///   code: it copies byte ranges and does not call the `Output`.
pub trait Output: Send + Sync {
    /// The name used in messages and stored in the index of each part file. Two part files are merged only if their
    /// names are equal.
    fn name(&self) -> &str;

    /// The bytes at the start of the file, before any page; always the same.
    fn header(&self) -> &[u8] {
        b""
    }

    /// The end of the names of the files if the target is a directory, such as `.md`; always the same.
    fn extension(&self) -> &str {
        ""
    }

    /// The bytes that the page adds: always [`OutputWrite::Append`] if the target is a file, always
    /// [`OutputWrite::File`] if it is a directory.
    fn render(&self, page: &Page) -> OutputWrite;
}

/// What a page or another URL adds to the outputs, by the output's index.
pub type Writes = Vec<(usize, OutputWrite)>;

/// How far outputs are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPosition {
    /// The number of the last writes. Those of pages and of other URLs are counted together, from 1.
    pub sequence: u64,
    /// The last page. Pages have numbers of their own, after which the files of directories are named.
    pub page: u64,
}

/// What one page adds to an output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputWrite {
    /// Bytes to append to the output's file.
    Append(Vec<u8>),
    /// The content of a new file in the output's directory. The file is named after the page's number, so that a resume
    /// recognises what a crash left behind, and no page chooses where it is written.
    File(Vec<u8>),
}

impl OutputWrite {
    /// Rejects a write of the wrong kind, or for an output that does not exist (`is_directory` is `None`).
    fn check(&self, index: usize, is_directory: Option<bool>) -> Result<(), StorageError> {
        let wrong = match (is_directory, self) {
            (Some(false), OutputWrite::Append(_)) | (Some(true), OutputWrite::File(_)) => return Ok(()),
            (Some(false), _) => {
                format!("cannot write to output {index}: it is a file, and the page is a file of its own")
            }
            (Some(true), _) => {
                format!("cannot write to output {index}: it is a directory, and the page is to be appended")
            }
            (None, _) => format!("cannot write to output {index}: there is no such output"),
        };
        Err(StorageError::new(StorageErrorKind::Internal, wrong))
    }
}

/// An output and its target.
pub struct OutputSpec {
    /// Renders the pages.
    pub output: Box<dyn BuiltinOutput>,
    /// The file or directory that the pages are written to.
    pub target: Target,
}

/// The file or directory of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A file that pages are appended to.
    File(PathBuf),
    /// A directory with one file per page, named 1, 2, 3 …
    Directory(PathBuf),
}

impl Target {
    /// A write of these bytes.
    pub(crate) fn write_of(&self, bytes: Vec<u8>) -> OutputWrite {
        match self {
            Target::File(_) => OutputWrite::Append(bytes),
            Target::Directory(_) => OutputWrite::File(bytes),
        }
    }

    /// The path of the file or directory.
    pub(crate) fn path(&self) -> &Path {
        let (Target::File(path) | Target::Directory(path)) = self;
        path
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().display().fmt(f)
    }
}
