//! The index of a part file: the crawl it belongs to, and where its pages are. Only this file knows the format.
//!
//! The first line is a JSON object, the [header](PartHeader). A line `TASK LEASE OFFSET LENGTH` follows for each page,
//! in the order of the pages in the part file, or `TASK LEASE OFFSET -` for a tombstone, which retracts a page. A line
//! counts only with its line feed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::CrawlIdentity;
use crate::modules::OutputSpec;
use crate::modules::output::segments::SegmentRule;

/// The format name in the header.
const FORMAT: &str = "crawler-part-1";

/// Longer than any line of an index. Longer lines are damage.
const MAX_LINE: u64 = 64 * 1024;

/// The crawl and output that a part belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartHeader {
    format: String,
    /// The name of the crawl.
    pub(super) crawl: String,
    /// The crawl's unique id.
    pub(super) id: String,
    /// The format of the output.
    pub(super) output: String,
    /// The length of the output's header, before the first page.
    #[serde(rename = "head")]
    pub(super) header_length: u64,
    /// How the output is split into files when the parts are merged, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) segments: Option<SegmentRule>,
}

impl PartHeader {
    pub(super) fn new(crawl: &CrawlIdentity, spec: &OutputSpec) -> PartHeader {
        PartHeader {
            format: FORMAT.into(),
            crawl: crawl.name.clone(),
            id: crawl.id.clone(),
            output: spec.output.format(),
            header_length: spec.header().len() as u64,
            segments: spec.output.segments(),
        }
    }

    /// The header as a line of the index.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("strings and numbers are always JSON");
        line.push(b'\n');
        line
    }

    /// Parses the line.
    pub(super) fn parse(line: &[u8]) -> Result<PartHeader, &'static str> {
        match serde_json::from_slice::<PartHeader>(line) {
            Ok(header) if header.format == FORMAT => Ok(header),
            Ok(_) => Err("has the format of another version of this program; use that version"),
            Err(_) => Err("does not start with the header of a part"),
        }
    }

    /// Whether both parts belong to one crawl.
    pub(super) fn is_same_crawl(&self, other: &PartHeader) -> bool {
        (&self.crawl, &self.id) == (&other.crawl, &other.id)
    }

    /// The crawl, for messages.
    pub(super) fn describe_crawl(&self) -> String {
        format!("crawl '{}' ({})", self.crawl, self.id)
    }
}

/// The position of one version of a page, or a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartIndexEntry {
    pub(super) task_id: u64,
    pub(super) lease_id: u64,
    pub(super) offset: u64,
    /// `None` for a tombstone: versions with this lease id or a smaller one do not count.
    pub(super) length: Option<u64>,
}

impl PartIndexEntry {
    pub(super) fn text(&self) -> String {
        let PartIndexEntry { task_id, lease_id, offset, length } = self;
        match length {
            Some(length) => format!("{task_id} {lease_id} {offset} {length}\n"),
            None => format!("{task_id} {lease_id} {offset} -\n"),
        }
    }

    fn parse(text: &[u8]) -> Option<PartIndexEntry> {
        let mut fields = std::str::from_utf8(text).ok()?.strip_suffix('\n')?.split(' ');
        let mut number = || fields.next()?.parse().ok();
        let (task_id, lease_id, offset) = (number()?, number()?, number()?);
        let length = match fields.next()? {
            "-" => None,
            length => Some(length.parse().ok()?),
        };
        let entry = PartIndexEntry { task_id, lease_id, offset, length };
        // Accept only the exact spelling that this program writes.
        (entry.text().as_bytes() == text).then_some(entry)
    }
}

/// The path of a part's index.
pub(super) fn index_path(part: &Path) -> PathBuf {
    let mut name = part.as_os_str().to_owned();
    name.push(".index");
    name.into()
}

/// Whether a file has an index, and so is a part.
pub fn has_index(part: &Path) -> bool {
    index_path(part).exists()
}

/// Reads an index up to its last complete line.
#[derive(Debug)]
pub(super) struct IndexReader {
    path: PathBuf,
    lines: BufReader<File>,
    line_number: u64,
    length: u64,
    end: u64,
}

impl IndexReader {
    pub(super) fn open(part: &Path) -> io::Result<IndexReader> {
        let path = index_path(part);
        let lines = BufReader::new(File::open(&path)?);
        Ok(IndexReader { path, lines, line_number: 0, length: 0, end: 0 })
    }

    /// The header, if its line is complete.
    pub(super) fn header(&mut self) -> Result<Option<PartHeader>, String> {
        let Some(line) = self.line()? else { return Ok(None) };
        let header =
            PartHeader::parse(&line).map_err(|wrong| format!("'{}' {wrong}", self.path.display()))?;
        self.end = header.header_length;
        Ok(Some(header))
    }

    /// The next entry, if its line is complete.
    pub(super) fn entry(&mut self) -> Result<Option<PartIndexEntry>, String> {
        let Some(text) = self.line()? else { return Ok(None) };
        let damaged = || format!("line {} of '{}' is damaged", self.line_number, self.path.display());
        let entry =
            PartIndexEntry::parse(&text).filter(|entry| entry.offset == self.end).ok_or_else(damaged)?;
        self.end = self.end.checked_add(entry.length.unwrap_or(0)).ok_or_else(damaged)?;
        Ok(Some(entry))
    }

    /// The total length of the lines read so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The offset in the part file at which the last page read ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut line = Vec::new();
        let read = self.lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        read.map_err(|error| format!("cannot read '{}': {error}", self.path.display()))?;
        self.line_number += 1;
        if line.last() == Some(&b'\n') {
            self.length += line.len() as u64;
            return Ok(Some(line));
        }
        if line.len() as u64 == MAX_LINE {
            return Err(format!("line {} of '{}' is damaged", self.line_number, self.path.display()));
        }
        Ok(None)
    }
}
