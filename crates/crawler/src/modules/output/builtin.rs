//! The trait of the built-in outputs, which need more of a crawl than the public one offers.

use std::path::{Path, PathBuf};

use super::finish::Finisher;
use super::segments::SegmentRule;
use super::{Output, OutputWrite};
use crate::config::FetchConfig;
use crate::error::StorageError;
use crate::exchange::{DroppedExchanges, Exchange};
use crate::html::parts::PageParts;
use crate::page::Page;
use crate::strip_query::StripQuery;
use crate::url_record::UrlRecord;

/// An output with all that the built-in ones need of a crawl. Every [`Output`] is one, with the defaults.
// A format with a footer, or in which the bytes of one page depend on another page, is made at the end of the crawl: see `finish`.
pub trait BuiltinOutput: Send + Sync {
    /// As [`Output::name`].
    fn name(&self) -> &str;

    /// The name, and the options that determine the bytes, as in a specification without its path: `edges,distinct`. Pages are
    /// appended only to a file of the same format.
    fn format(&self) -> String {
        self.name().to_owned()
    }

    /// What makes the target at the end of the crawl, if the pages are only records of it. Then
    /// [`render`](BuiltinOutput::render) returns [records](super::finish::push_record) to append.
    fn finisher(&self) -> Option<&dyn Finisher> {
        None
    }

    /// As [`Output::header`].
    fn header(&self) -> &[u8] {
        b""
    }

    /// As [`Output::extension`].
    fn extension(&self) -> &str {
        ""
    }

    /// How it is split into files of bounded size, if it is. Then its target is the name that theirs are made from.
    fn segments(&self) -> Option<SegmentRule> {
        None
    }

    /// As [`Output::render`].
    fn render(&self, page: &Page) -> OutputWrite;

    /// Whether links are requested that are not crawled, because it reports which links are broken.
    fn checks_links(&self) -> bool {
        false
    }

    /// The number of broken links, if it checks links, when it [is made](Finisher::finish).
    fn broken_links(&self) -> Option<u64> {
        None
    }

    /// Called if it is made from a records file alone: the options that only change how it is made are those in the records.
    fn use_recorded_options(&mut self) {}

    /// Called with what was dropped of exchanges, which the output does not get.
    fn exchanges_dropped(&self, _dropped: DroppedExchanges) {}

    /// A text for the end of the crawl, when it is made.
    fn summary(&self) -> Option<String> {
        None
    }

    /// Whether it has rows for URLs that are no pages, too. Only for an output to a file.
    fn wants_urls(&self) -> bool {
        false
    }

    /// The bytes that a URL adds when it is completed, after those of its [page](BuiltinOutput::render) if it is one. Called once for
    /// each URL of the crawl, if the output wants URLs.
    fn render_url(&self, _record: &UrlRecord) -> Vec<u8> {
        Vec::new()
    }

    /// Whether it archives the requests and responses of the crawl. Only for an output to a file.
    fn wants_exchanges(&self) -> bool {
        false
    }

    /// The bytes that the exchanges of a URL add when the URL is completed, if the output wants them: all of its requests, and those
    /// for a robots.txt that it waited for.
    fn render_exchanges(&self, _exchanges: &[Exchange]) -> Vec<u8> {
        Vec::new()
    }

    /// Called when exchanges that were rendered are stored durably.
    fn exchanges_committed(&self, _exchanges: &[Exchange]) {}

    /// Called before a resumed crawl continues with the files of an output that is split, in order.
    fn resume(&self, _files: &[PathBuf]) {}

    /// The files that are [made](BuiltinOutput::make_files) of an output that is split, when the crawl ends.
    fn made_files(&self, _target: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Makes [files](BuiltinOutput::made_files) from those of an output that is split, when all are written. Earlier ones are replaced.
    fn make_files(&self, _target: &Path, _files: &[PathBuf]) -> Result<(), StorageError> {
        Ok(())
    }

    /// Called before the [summary](BuiltinOutput::summary) with the files of an output that is split, in order.
    fn files_written(&self, _files: &[PathBuf]) {}

    /// The URL of the task whose row this line of the file is. The row is removed when the URL is requested again, so that the
    /// URL has only its last one. `None` if the line stays.
    fn task_url_of_row(&self, _row: &[u8]) -> Option<String> {
        None
    }

    /// Whether it uses [`Page::found_on`] or [`Page::redirects`]. If neither a module nor an output does, they are not stored.
    fn wants_found_on(&self) -> bool {
        true
    }

    /// Whether it keeps the files that browsers need to show the pages. They are fetched then, and
    /// [rendered](BuiltinOutput::render) as pages are. Only for an output to a file.
    fn keeps_requisites(&self) -> bool {
        false
    }

    /// The parts of pages that it uses, beyond title and links.
    fn wants(&self) -> PageParts {
        PageParts::default()
    }

    /// Called before the crawl with the query parameters that it removes from URLs.
    fn set_strip_query(&mut self, _strip_query: &StripQuery) {}

    /// Called before the crawl with how its pages are fetched.
    fn set_fetch_config(&mut self, _config: &FetchConfig) {}
}

impl<O: Output> BuiltinOutput for O {
    fn name(&self) -> &str {
        Output::name(self)
    }

    fn header(&self) -> &[u8] {
        Output::header(self)
    }

    fn extension(&self) -> &str {
        Output::extension(self)
    }

    fn render(&self, page: &Page) -> OutputWrite {
        Output::render(self, page)
    }
}
