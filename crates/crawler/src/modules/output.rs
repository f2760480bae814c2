//! Output files that contain every page exactly once, also after a crash.

pub mod files;
pub mod finish;
pub mod new_file;
pub(super) mod numbered_dir;
pub mod parts;
pub mod segments;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::finish::Finisher;
use self::segments::SegmentRule;
use crate::config::FetchConfig;
use crate::error::{StorageError, StorageErrorKind};
use crate::exchange::Exchange;
use crate::html::parts::PageParts;
use crate::page::Page;
use crate::strip_query::StripQuery;
use crate::url_record::UrlRecord;

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
// A format with a footer, or in which the bytes of one page depend on another page, is made at the end of the crawl: see `finish`.
pub trait Output: Send + Sync {
    /// The name used in messages and stored in the index of each part file. Two part files are merged only if their
    /// names are equal.
    fn name(&self) -> &str;

    /// The name, and the options that determine the bytes, as in a specification without its path: `edges,distinct`. Pages are
    /// appended only to a file of the same format.
    #[doc(hidden)]
    fn format(&self) -> String {
        self.name().to_owned()
    }

    /// What makes the target at the end of the crawl, if the pages are only records of it. Then
    /// [`render`](Output::render) returns [records](finish::push_record) to append.
    #[doc(hidden)]
    fn finisher(&self) -> Option<&dyn Finisher> {
        None
    }

    /// The bytes at the start of the file, before any page; always the same. If the target is a directory, the extension of
    /// its files, such as `.md`.
    fn header(&self) -> &[u8] {
        b""
    }

    /// How it is split into files of bounded size, if it is. Then its target is the name that theirs are made from.
    #[doc(hidden)]
    fn segments(&self) -> Option<SegmentRule> {
        None
    }

    /// The bytes that the page adds: always [`OutputWrite::Append`] if the target is a file, always
    /// [`OutputWrite::File`] if it is a directory.
    fn render(&self, page: &Page) -> OutputWrite;

    /// Whether links are requested that are not crawled, because it reports which links are broken.
    #[doc(hidden)]
    fn checks_links(&self) -> bool {
        false
    }

    /// The number of broken links, if it checks links, when it [is made](finish::Finisher::finish).
    #[doc(hidden)]
    fn broken_links(&self) -> Option<u64> {
        None
    }

    /// Called if it is made from a records file alone: the options that only change how it is made are those in the records.
    #[doc(hidden)]
    fn use_recorded_options(&mut self) {}

    /// A text for the end of the crawl, when it is made.
    #[doc(hidden)]
    fn summary(&self) -> Option<String> {
        None
    }

    /// Whether it has rows for URLs that are no pages, too. Only for an output to a file.
    #[doc(hidden)]
    fn wants_urls(&self) -> bool {
        false
    }

    /// The bytes that a URL adds when it is completed, after those of its [page](Output::render) if it is one. Called once for
    /// each URL of the crawl, if the output wants URLs.
    #[doc(hidden)]
    fn render_url(&self, _record: &UrlRecord) -> Vec<u8> {
        Vec::new()
    }

    /// Whether it archives the requests and responses of the crawl. Only for an output to a file.
    #[doc(hidden)]
    fn wants_exchanges(&self) -> bool {
        false
    }

    /// The bytes that the exchanges of a URL add when the URL is completed, if the output wants them: all of its requests, and those
    /// for a robots.txt that it waited for.
    #[doc(hidden)]
    fn render_exchanges(&self, _exchanges: &[Exchange]) -> Vec<u8> {
        Vec::new()
    }

    /// Called when exchanges that were rendered are stored durably.
    #[doc(hidden)]
    fn exchanges_committed(&self, _exchanges: &[Exchange]) {}

    /// Called before a resumed crawl continues with the files of an output that is split, in order.
    #[doc(hidden)]
    fn resume(&self, _files: &[PathBuf]) {}

    /// The files that are [made](Output::make_files) of an output that is split, when the crawl ends.
    #[doc(hidden)]
    fn made_files(&self, _target: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Makes [files](Output::made_files) from those of an output that is split, when all are written. Earlier ones are replaced.
    #[doc(hidden)]
    fn make_files(&self, _target: &Path, _files: &[PathBuf]) -> Result<(), StorageError> {
        Ok(())
    }

    /// Called before the [summary](Output::summary) with the files of an output that is split, in order.
    #[doc(hidden)]
    fn files_written(&self, _files: &[PathBuf]) {}

    /// The URL of the task whose row this line of the file is. The row is removed when the URL is requested again, so that the
    /// URL has only its last one. `None` if the line stays.
    #[doc(hidden)]
    fn task_url_of_row(&self, _row: &[u8]) -> Option<String> {
        None
    }

    /// Whether it uses [`Page::found_on`] or [`Page::redirects`]. If neither a module nor an output does, they are not stored.
    #[doc(hidden)]
    fn wants_found_on(&self) -> bool {
        true
    }

    /// Whether it keeps the files that browsers need to show the pages. They are fetched then, and
    /// [rendered](Output::render) as pages are. Only for an output to a file.
    #[doc(hidden)]
    fn keeps_requisites(&self) -> bool {
        false
    }

    /// The parts of pages that it uses, beyond title and links.
    #[doc(hidden)]
    fn wants(&self) -> PageParts {
        PageParts::default()
    }

    /// Called before the crawl with the query parameters that it removes from URLs.
    #[doc(hidden)]
    fn set_strip_query(&mut self, _strip_query: &StripQuery) {}

    /// Called before the crawl with how its pages are fetched.
    #[doc(hidden)]
    fn set_fetch_config(&mut self, _config: &FetchConfig) {}
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
    pub output: Box<dyn Output>,
    /// The file or directory that the pages are written to.
    pub target: Target,
}

/// The file or directory of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
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
