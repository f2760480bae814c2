//! Outputs that are made at the end of a crawl, from a file of records.
//!
//! A format with a footer, or one that needs all pages at once, cannot be appended to. Such an output has a [`Finisher`]. Its
//! [`render`](super::Output::render) returns records, which the crawl writes exactly once, as it does the bytes of every output, to
//! the *records file* next to the target: `pages.parquet.records` of `pages.parquet`. When the crawl ends or stops, the finisher
//! makes the target from it.
//!
//! - The target is replaced at once, so that a crash leaves the old or the new one.
//! - A crawl in memory then removes the records file. A crawl with a state keeps it, appends to it when it is resumed, and makes
//!   the target again.
//! - In a distributed crawl, the part files are records files. The [merge](super::parts::merge()) makes the target from them.
//! - If the target cannot be made, the records file stays. [`finish_file`] makes the target from it, at any time.
//!
//! The first line of a records file names the [format](super::BuiltinOutput::format), so that it is sufficient to make the target. Each
//! record is its length, 8 bytes in little-endian order, followed by its bytes.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::files::OpenTarget;
use super::new_file::{FoundTarget, ensure_replaceable};
use super::{OutputSpec, Target};
use crate::error::{StorageError, StorageErrorKind};
use crate::file_lock;
use crate::modules::registry;

/// The end of the name of a records file.
pub(super) const RECORDS_SUFFIX: &str = ".records";

/// How the first line of a records file starts. The format follows.
const HEADER_START: &str = "crawler-records-1 ";

/// Longer than any first line. Longer ones belong to something else.
const MAX_HEADER: u64 = 64 * 1024;

/// The bytes of a record's length.
const LENGTH_BYTES: usize = 8;

/// The bytes that are read ahead.
const READ_BUFFER: usize = 256 * 1024;

/// Making a target of fewer bytes of records takes seconds at most.
const MANY_RECORD_BYTES: u64 = 200_000_000;

/// Makes the target of an output from its records.
pub trait Finisher: Send + Sync {
    /// Rejects a target that it cannot replace, or must not. Called before the crawl.
    fn check_target(&self, _target: &Path) -> Result<(), StorageError> {
        Ok(())
    }

    /// Makes the target, or replaces it. Until it returns, an earlier target is unchanged, or complete with each of its files.
    /// Called again after a failure and after more records.
    fn finish(&self, records: &Records, target: &Path) -> Result<(), StorageError>;
}

/// A records file.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    format: String,
    header_length: u64,
}

impl Records {
    /// Opens a records file and reads its first line. Returns `None` if it has none.
    pub fn open(path: &Path) -> io::Result<Option<Records>> {
        let mut line = Vec::new();
        BufReader::new(File::open(path)?).take(MAX_HEADER).read_until(b'\n', &mut line)?;
        Ok(format_in(&line).map(|format| Records {
            path: path.to_owned(),
            format: format.to_owned(),
            header_length: line.len() as u64,
        }))
    }

    /// Reads the records from the first one.
    pub fn read(&self) -> Result<RecordReader<'_>, StorageError> {
        self.read_from(self.header_length)
    }

    /// Reads the records from one at this [position](RecordReader::position).
    pub fn read_from(&self, position: u64) -> Result<RecordReader<'_>, StorageError> {
        let open = || {
            let mut file = File::open(&self.path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(position))?;
            Ok((BufReader::with_capacity(READ_BUFFER, file), length))
        };
        let (reader, length) = open().map_err(|error| self.unreadable(error))?;
        Ok(RecordReader { records: self, reader, position, length })
    }

    /// The error for records that do not have the format of their output.
    pub fn damaged(&self) -> StorageError {
        let message = format!(
            "cannot read records file '{}': it is damaged; restore it, or start a new crawl",
            self.path.display()
        );
        StorageError::new(StorageErrorKind::Damaged, message)
    }

    fn unreadable(&self, error: io::Error) -> StorageError {
        let what = format!("cannot read records file '{}'", self.path.display());
        StorageError::with_source(StorageErrorKind::Io, what, error, "")
    }
}

/// Reads records in the order in which they were written.
#[derive(Debug)]
pub struct RecordReader<'r> {
    records: &'r Records,
    reader: BufReader<File>,
    position: u64,
    /// The length of the file when it was opened.
    length: u64,
}

impl RecordReader<'_> {
    /// Reads the next record into the buffer, replacing its content. Returns false at the end: a record that is incomplete,
    /// because a process was killed while it wrote it, is not read.
    pub fn next(&mut self, record: &mut Vec<u8>) -> Result<bool, StorageError> {
        record.clear();
        let left = self.length.saturating_sub(self.position);
        let Some(left) = left.checked_sub(LENGTH_BYTES as u64) else { return Ok(false) };
        let mut bytes = [0; LENGTH_BYTES];
        let unreadable = |error| self.records.unreadable(error);
        self.reader.read_exact(&mut bytes).map_err(unreadable)?;
        let length = u64::from_le_bytes(bytes);
        if length > left {
            return Ok(false);
        }
        self.reader.by_ref().take(length).read_to_end(record).map_err(unreadable)?;
        if record.len() as u64 != length {
            return Err(self.records.damaged());
        }
        self.position += LENGTH_BYTES as u64 + length;
        Ok(true)
    }

    /// Where the next record is in the file.
    pub fn position(&self) -> u64 {
        self.position
    }
}

/// Appends a record to the bytes that a page adds.
pub fn push_record(bytes: &mut Vec<u8>, record: &[u8]) {
    bytes.extend_from_slice(&(record.len() as u64).to_le_bytes());
    bytes.extend_from_slice(record);
}

/// The records file of a target.
pub fn records_path(target: &Path) -> PathBuf {
    let mut path = OsString::from(target);
    path.push(RECORDS_SUFFIX);
    path.into()
}

/// Whether a file is named as a records file.
pub(super) fn is_records(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(RECORDS_SUFFIX.as_bytes())
}

/// Makes the target from a records file alone, without its crawl. An existing target is replaced only if `overwrite` is set.
pub fn finish_file(records: &Records, target: &Path, overwrite: bool) -> Result<(), StorageError> {
    let Some(spec) = registry::output_of_format(&records.format, target) else {
        let message = format!(
            "cannot make '{}' from '{}': this program has no output '{}'; use the program that wrote it",
            target.display(),
            records.path.display(),
            records.format
        );
        return Err(StorageError::new(StorageErrorKind::Unsupported, message));
    };
    ensure_replaceable(&spec.target, overwrite)?;
    if let Some(finisher) = spec.output.finisher() {
        finisher.check_target(target)?;
    }
    spec.finish_from(records)
}

/// Does the same with the records file of a crawl, which may still run: it may replace the target when it ends.
pub fn finish_file_of_crawl(records: &Records, target: &Path, overwrite: bool) -> Result<(), StorageError> {
    finish_file(records, target, overwrite)?;
    if File::open(&records.path).is_ok_and(|file| !file_lock::lock(&file)) && target.is_file() {
        FoundTarget::note_made(target);
    }
    Ok(())
}

/// The format that the first line of a records file names.
pub(super) fn format_in(header: &[u8]) -> Option<&str> {
    std::str::from_utf8(header).ok()?.strip_suffix('\n')?.strip_prefix(HEADER_START)
}

impl OutputSpec {
    /// Where the crawl writes the pages: to the records file of an output that is made at the end, otherwise to the target.
    pub fn written(&self) -> Target {
        match self.output.finisher() {
            Some(_) => Target::File(records_path(self.target.path())),
            None => self.target.clone(),
        }
    }

    /// What is opened for the output.
    pub(crate) fn open_target(&self) -> OpenTarget<'_> {
        OpenTarget { target: self.written(), header: self.header(), segments: self.output.segments() }
    }

    /// The bytes at the start of the file that the crawl writes. If it writes a directory, the extension of the files: it is
    /// recorded in the place of a header, which these files have not.
    pub fn header(&self) -> Cow<'_, [u8]> {
        match (self.output.finisher(), &self.target) {
            (Some(_), _) => format!("{HEADER_START}{}\n", self.output.format()).into_bytes().into(),
            (None, Target::File(_)) => self.output.header().into(),
            (None, Target::Directory(_)) => self.output.extension().as_bytes().into(),
        }
    }

    /// Whether making the target may take long.
    pub fn has_many_records(&self) -> bool {
        fs::metadata(records_path(self.target.path())).is_ok_and(|records| records.len() >= MANY_RECORD_BYTES)
    }

    /// Makes the target from the records file, if the output is made at the end.
    pub fn finish(&self) -> Result<(), StorageError> {
        if self.output.finisher().is_none() {
            return Ok(());
        }
        let path = records_path(self.target.path());
        let unreadable = |error| {
            let what = format!("cannot read records file '{}'", path.display());
            StorageError::with_source(StorageErrorKind::Io, what, error, "")
        };
        match Records::open(&path).map_err(unreadable)? {
            Some(records) => self.finish_from(&records),
            None => Err(StorageError::new(
                StorageErrorKind::Damaged,
                format!("cannot read records file '{}': it has no header; restore the file", path.display()),
            )),
        }
    }

    fn finish_from(&self, records: &Records) -> Result<(), StorageError> {
        let Some(finisher) = self.output.finisher() else { return Ok(()) };
        finisher.finish(records, self.target.path())
    }

    /// Removes the records file, if there is one. It is no longer needed when the target is made and the crawl cannot be
    /// resumed.
    pub fn remove_records(&self) -> Result<(), StorageError> {
        if self.output.finisher().is_none() {
            return Ok(());
        }
        FoundTarget::remove_note(self.target.path());
        let path = records_path(self.target.path());
        fs::remove_file(&path).map_err(|error| {
            let what = format!("cannot remove records file '{}'", path.display());
            StorageError::with_source(StorageErrorKind::Io, what, error, "")
        })
    }
}

#[cfg(test)]
mod tests;
