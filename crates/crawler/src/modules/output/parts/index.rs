//! The index beside a part: whose it is, and where in the part the pages are. Only this file knows how it is written.
//!
//! The first line is a JSON object; then there is a line `TICKET LOAN OFFSET LENGTH` for each page, in the order in
//! which they stand in the part, or `TICKET LOAN OFFSET -` for a page that is withdrawn. A line counts when its line
//! feed is there.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::CrawlIdentity;
use crate::modules::Output;

/// What the first line says of itself.
const FORMAT: &str = "crawler-part-1";

/// Longer than any line that is written here: what has no line feed so far is something else.
const LONGEST_LINE: u64 = 64 * 1024;

/// Whose a part is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartHeader {
    format: String,
    /// The name of the crawl.
    pub(super) crawl: String,
    /// What tells it from others of the same name.
    pub(super) id: String,
    /// The name of the output.
    pub(super) output: String,
    /// How many bytes the part begins with before any page.
    pub(super) head: u64,
}

impl PartHeader {
    pub(super) fn new(crawl: &CrawlIdentity, output: &dyn Output) -> PartHeader {
        PartHeader {
            format: FORMAT.into(),
            crawl: crawl.name.clone(),
            id: crawl.id.clone(),
            output: output.name().into(),
            head: output.header().len() as u64,
        }
    }

    /// The line that it is.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("strings and numbers are always JSON");
        line.push(b'\n');
        line
    }

    /// Reads the line again.
    pub(super) fn parse(line: &[u8]) -> Result<PartHeader, &'static str> {
        match serde_json::from_slice::<PartHeader>(line) {
            Ok(header) if header.format == FORMAT => Ok(header),
            Ok(_) => Err("is of another version of this program; use that one"),
            Err(_) => Err("does not begin as one does"),
        }
    }

    /// Whether both are of one crawl.
    pub(super) fn is_of_crawl_of(&self, other: &PartHeader) -> bool {
        (&self.crawl, &self.id) == (&other.crawl, &other.id)
    }

    /// The crawl in words.
    pub(super) fn crawl_in_words(&self) -> String {
        format!("crawl '{}' ({})", self.crawl, self.id)
    }
}

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) task_id: u64,
    pub(super) lease_id: u64,
    pub(super) offset: u64,
    /// None where what earlier loans have written does not count.
    pub(super) length: Option<u64>,
}

impl IndexEntry {
    pub(super) fn text(&self) -> String {
        let IndexEntry { task_id, lease_id, offset, length } = self;
        match length {
            Some(length) => format!("{task_id} {lease_id} {offset} {length}\n"),
            None => format!("{task_id} {lease_id} {offset} -\n"),
        }
    }

    fn parse(text: &[u8]) -> Option<IndexEntry> {
        let mut fields = std::str::from_utf8(text).ok()?.strip_suffix('\n')?.split(' ');
        let mut number = || fields.next()?.parse().ok();
        let (task_id, lease_id, offset) = (number()?, number()?, number()?);
        let length = match fields.next()? {
            "-" => None,
            length => Some(length.parse().ok()?),
        };
        let line = IndexEntry { task_id, lease_id, offset, length };
        // What is not written as it would be written here was not written here.
        (line.text().as_bytes() == text).then_some(line)
    }
}

/// The path of a part's index.
pub(super) fn path_of(part: &Path) -> PathBuf {
    let mut name = part.as_os_str().to_owned();
    name.push(".index");
    name.into()
}

/// Reads an index, as far as its lines are whole.
#[derive(Debug)]
pub(super) struct IndexReader {
    path: PathBuf,
    lines: BufReader<File>,
    read: u64,
    length: u64,
    end: u64,
}

impl IndexReader {
    pub(super) fn open(part: &Path) -> io::Result<IndexReader> {
        let path = path_of(part);
        let lines = BufReader::new(File::open(&path)?);
        Ok(IndexReader { path, lines, read: 0, length: 0, end: 0 })
    }

    /// The first line, if it is whole.
    pub(super) fn header(&mut self) -> Result<Option<PartHeader>, String> {
        let Some(line) = self.line()? else { return Ok(None) };
        let header =
            PartHeader::parse(&line).map_err(|wrong| format!("'{}' {wrong}", self.path.display()))?;
        self.end = header.head;
        Ok(Some(header))
    }

    /// The next page, if its line is whole.
    pub(super) fn page(&mut self) -> Result<Option<IndexEntry>, String> {
        let Some(text) = self.line()? else { return Ok(None) };
        let damaged = || format!("line {} of '{}' is damaged", self.read, self.path.display());
        let line = IndexEntry::parse(&text).filter(|line| line.offset == self.end).ok_or_else(damaged)?;
        self.end = self.end.checked_add(line.length.unwrap_or(0)).ok_or_else(damaged)?;
        Ok(Some(line))
    }

    /// How many bytes of the index the lines read so far are.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Where in the part the last page read ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut line = Vec::new();
        let read = self.lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        read.map_err(|error| format!("cannot read '{}': {error}", self.path.display()))?;
        self.read += 1;
        if line.last() == Some(&b'\n') {
            self.length += line.len() as u64;
            return Ok(Some(line));
        }
        if line.len() as u64 == LONGEST_LINE {
            return Err(format!("line {} of '{}' is damaged", self.read, self.path.display()));
        }
        Ok(None)
    }
}
