//! Makes the CDXJ index of archives.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use sha1_smol::Sha1;

use super::archives::{Archive, Archives};
use super::cdxj::{IndexEntry, has_http_head, is_indexed};
use super::digest;
use super::header::{RecordHeader, RecordType};
use super::http_message::MAX_HEAD_BYTES;
use super::reader::{ArchiveItem, Damage, WarcRecord};
use super::sorted_lines::SortedLines;
use crate::error::StorageError;
use crate::modules::output::Target;
use crate::modules::output::files::write_error;
use crate::modules::output::new_file::{NewFile, ensure_replaceable};

/// What an index has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexReport {
    /// The lines of the index.
    pub entries: u64,
    /// The records that were read, those that no index has too.
    pub records: u64,
    /// The records that cannot be read, or cannot be in an index.
    pub damaged: u64,
}

/// Why there is no index.
#[derive(Debug)]
pub enum IndexError {
    /// An archive cannot be read or indexed. A complete message.
    Archive(String),
    /// The index cannot be written.
    Write(io::Error),
}

impl IndexError {
    /// The error of a file that was to be written.
    pub fn of_file(self, target: &Path) -> ArchiveFileError {
        match self {
            IndexError::Archive(message) => ArchiveFileError::Archive(message),
            IndexError::Write(error) => ArchiveFileError::Output(write_error(target, error)),
        }
    }
}

/// Why a file that is made from archives, an index or a WACZ file, was not written.
#[derive(Debug)]
pub enum ArchiveFileError {
    /// An archive cannot be read, or cannot be in it. A complete message.
    Archive(String),
    /// It cannot be written.
    Output(StorageError),
}

impl fmt::Display for ArchiveFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArchiveFileError::Archive(message) => f.write_str(message),
            ArchiveFileError::Output(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> IndexError {
        IndexError::Write(error)
    }
}

/// Reads the entries of archives.
pub struct Indexer<'i> {
    /// How much of the block of a record is kept, in addition to the head of an HTTP response.
    pub kept: &'i dyn Fn(&RecordHeader) -> usize,
    /// Whether records that do not have a compressed member of their own are refused: nothing could find them.
    pub needs_members: bool,
    /// Called with a message about each damaged record.
    pub on_damage: &'i mut dyn FnMut(&str),
    /// What was read so far.
    pub report: IndexReport,
}

impl Indexer<'_> {
    /// Calls the function with each record of an archive that belongs into an index.
    pub fn read(
        &mut self,
        archive: &Archive,
        mut each: impl FnMut(IndexEntry, WarcRecord) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let filename = archive.file_name().ok_or_else(|| {
            IndexError::Archive(format!("cannot index {}: only files have a name; name a file", archive.name))
        })?;
        let unreadable =
            |error| IndexError::Archive(format!("cannot read archive '{}': {error}", archive.name));
        let mut reader = archive.open(Default::default()).map_err(unreadable)?;
        let payload = RefCell::new(PayloadHash::default());
        let kept = self.kept;
        let wanted = |header: &RecordHeader| {
            payload.replace(PayloadHash::from_header(header));
            if is_in_index(header) { kept(header).max(MAX_HEAD_BYTES) } else { 0 }
        };
        loop {
            let mut tap = |_: &RecordHeader, bytes: &[u8]| payload.borrow_mut().update(bytes);
            let item = reader.next_tapped(&wanted, &mut tap).map_err(unreadable)?;
            let record = match item {
                None => return Ok(()),
                Some(ArchiveItem::Damage(damage)) => {
                    self.damaged(archive, damage);
                    continue;
                }
                Some(ArchiveItem::Record(record)) => record,
            };
            self.report.records += 1;
            if !is_in_index(&record.header) {
                continue;
            }
            if record.length.is_none() && self.needs_members {
                return Err(IndexError::Archive(format!(
                    "cannot index '{}': its records do not have compressed members of their own, so that no program could find \
                     them; write it anew, with 'warcio recompress' for example",
                    archive.name
                )));
            }
            match IndexEntry::from_record(&record, &filename, || payload.take().finish()) {
                Ok(entry) => {
                    self.report.entries += 1;
                    each(entry, record)?;
                }
                Err(cause) => self.damaged(archive, Damage { offset: record.offset, cause: cause.into() }),
            }
        }
    }

    fn damaged(&mut self, archive: &Archive, damage: Damage) {
        self.report.damaged += 1;
        (self.on_damage)(&archive.describe(&damage));
    }
}

/// Writes the index of archives to a file, which appears under its name when it is complete.
pub fn write_index_file(
    archives: &Archives,
    target: &Path,
    overwrite: bool,
    on_damage: &mut dyn FnMut(&str),
) -> Result<IndexReport, ArchiveFileError> {
    ensure_replaceable(&Target::File(target.to_owned()), overwrite).map_err(ArchiveFileError::Output)?;
    let mut file = NewFile::create(target).map_err(ArchiveFileError::Output)?;
    let written = write_index(archives, &mut file, directory_of(target), on_damage);
    let report = written.map_err(|error| error.of_file(target))?;
    file.finish().map_err(ArchiveFileError::Output)?;
    Ok(report)
}

/// The directory of a file that is being written, for temporary files.
pub fn directory_of(target: &Path) -> &Path {
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}

/// Writes the sorted index of archives. A directory gets temporary files.
pub fn write_index(
    archives: &Archives,
    out: &mut dyn Write,
    directory: &Path,
    on_damage: &mut dyn FnMut(&str),
) -> Result<IndexReport, IndexError> {
    let mut lines = SortedLines::new(directory);
    let mut indexer =
        Indexer { kept: &|_| 0, needs_members: true, on_damage, report: IndexReport::default() };
    for archive in &archives.list {
        indexer.read(archive, |entry, _| Ok(lines.push(entry.line().into_bytes())?))?;
    }
    lines.finish(|line| out.write_all(line))?;
    out.flush()?;
    Ok(indexer.report)
}

fn is_in_index(header: &RecordHeader) -> bool {
    is_indexed(header.record_type(), header.get("Content-Type"))
}

/// Hashes the payload of a record whose header does not have its digest.
#[derive(Default)]
struct PayloadHash {
    hash: Option<Sha1>,
    /// Whether the head of the response has not ended.
    is_in_head: bool,
    /// Whether the line of the head has a character.
    has_text: bool,
}

impl PayloadHash {
    fn from_header(header: &RecordHeader) -> PayloadHash {
        let record_type = header.record_type();
        let has_payload = is_in_index(header) && record_type != RecordType::Revisit;
        let is_missing = has_payload && header.get("WARC-Payload-Digest").is_none();
        PayloadHash {
            hash: is_missing.then(Sha1::new),
            is_in_head: has_http_head(record_type, header.target_uri().unwrap_or_default()),
            has_text: false,
        }
    }

    /// Returns whether more bytes are wanted.
    fn update(&mut self, bytes: &[u8]) -> bool {
        let Some(hash) = &mut self.hash else { return false };
        let mut payload = bytes;
        while let Some((first, rest)) = payload.split_first().filter(|_| self.is_in_head) {
            payload = rest;
            match first {
                b'\n' if !self.has_text => self.is_in_head = false,
                b'\n' => self.has_text = false,
                b'\r' => {}
                _ => self.has_text = true,
            }
        }
        hash.update(payload);
        true
    }

    fn finish(self) -> Option<String> {
        self.hash.map(|hash| digest::text(&hash.digest().bytes()))
    }
}
