//! An output that is split into files. To the crawl it is one file, whose length is the sum of theirs.
//!
//! A file ends before a write that would follow once it has the bytes of the [rule](SegmentRule), so that what one URL writes is in
//! one file. Each file starts with a header of its own. All have the ID of the archive in it, so that a resume removes only files
//! that the crawl has written.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::append::AppendFile;
use super::{Start, SyncHandle, write_error};
use crate::error::{StorageError, StorageErrorKind};
use crate::modules::output::segments::{SegmentNames, SegmentRule};
use crate::warc::input::{ArchiveInput, FileSection};
use crate::warc::reader::{ArchiveItem, WarcReader};
use crate::warc::writer::unique_id;

/// More bytes than the first record of a file has.
const MAX_INFO: usize = 64 * 1024;

/// The field with the ID of the archive.
const ARCHIVE_ID: &str = "isPartOf: ";

/// The open file of an output that is split.
#[derive(Debug)]
pub(in crate::modules::output) struct SegmentedFile {
    names: SegmentNames,
    rule: SegmentRule,
    archive_id: String,
    /// The first file, if another one is open: it is locked as long as the output is.
    first: Option<AppendFile>,
    current: AppendFile,
    /// The number of the current file.
    number: u32,
    /// The bytes of the files before it.
    finished_bytes: u64,
    /// The files after it, which are removed before anything is written.
    later: Vec<u32>,
    /// The first file that was not fsynced since it was last written to. Those before the current one are closed: a crawl that is
    /// never fsynced may write any number of them.
    first_unsynced: u32,
}

/// Where a length is in the files of an output.
#[derive(Debug, PartialEq, Eq)]
struct SegmentPosition {
    number: u32,
    finished_bytes: u64,
}

impl SegmentedFile {
    /// Opens and locks the file that is written next, and checks the others, without changing anything.
    pub(in crate::modules::output) fn open(
        output: &Path,
        rule: &SegmentRule,
        start: Start,
        index: usize,
    ) -> Result<SegmentedFile, StorageError> {
        let names = SegmentNames::from_output(output);
        let first = AppendFile::open(&names.path(1))?;
        let found = names.existing().map_err(|error| write_error(output, error))?;
        let archive_id = archive_id_in(&names.path(1));
        let position = match start {
            Start::Fresh => {
                first.ensure_empty()?;
                ensure_none_after(&names, 1, &found)?;
                SegmentPosition { number: 1, finished_bytes: 0 }
            }
            Start::Overwrite => SegmentPosition { number: 1, finished_bytes: 0 },
            Start::Resumed { committed, .. } => {
                let position = position_of(committed[index], &found).ok_or_else(|| {
                    let bytes = found.iter().map(|(_, length)| length).sum();
                    shorter(output, bytes, committed[index])
                })?;
                ensure_own_after(&names, position.number, &found, archive_id.as_deref())?;
                position
            }
        };
        let (first, current) = match position.number {
            1 => (None, first),
            number => (Some(first), AppendFile::open(&names.path(number))?),
        };
        let later =
            found.iter().map(|(number, _)| *number).filter(|number| *number > position.number).collect();
        Ok(SegmentedFile {
            names,
            rule: rule.clone(),
            archive_id: archive_id.unwrap_or_default(),
            first,
            current,
            number: position.number,
            finished_bytes: position.finished_bytes,
            later,
            first_unsynced: position.number,
        })
    }

    /// Removes everything beyond a length.
    pub(in crate::modules::output) fn truncate(&mut self, length: u64) -> Result<(), StorageError> {
        // The last one first, so that a crash leaves no gap.
        while let Some(number) = self.later.pop() {
            let path = self.names.path(number);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(write_error(&path, error)),
                _ => {}
            }
        }
        self.current.truncate(length.saturating_sub(self.finished_bytes))
    }

    /// Starts an empty file with a header.
    pub(in crate::modules::output) fn put_header(&mut self) {
        if self.current.length() == 0 {
            self.archive_id = unique_id(&self.names.path(1).to_string_lossy());
            self.current.put_header(&self.names.header(self.number, &self.rule, &self.archive_id));
        }
    }

    /// Continues in a new file if the current one is full. After an error, it can be tried again.
    pub(in crate::modules::output) fn rotate_if_full(&mut self) -> Result<(), StorageError> {
        if self.current.length() < self.rule.max_bytes {
            return Ok(());
        }
        self.current.flush()?;
        let number = self.number + 1;
        let path = self.names.path(number);
        let mut next = AppendFile::create(&path)?;
        next.put_header(&self.names.header(number, &self.rule, &self.archive_id));
        // At once, so that a file without a header is empty.
        if let Err(error) = next.flush() {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        self.finished_bytes += self.current.length();
        self.number = number;
        let finished = std::mem::replace(&mut self.current, next);
        if number == 2 {
            self.first = Some(finished);
        }
        Ok(())
    }

    /// Appends bytes. Cannot fail.
    pub(in crate::modules::output) fn append(&mut self, bytes: &[u8]) {
        self.current.append(bytes);
    }

    /// Writes the buffer if it is full.
    pub(in crate::modules::output) fn flush_if_full(&mut self) -> Result<(), StorageError> {
        self.current.flush_if_full()
    }

    /// Writes the buffer.
    pub(in crate::modules::output) fn flush(&mut self) -> Result<(), StorageError> {
        self.current.flush()
    }

    /// Handles to fsync what was written since they were last requested.
    pub(in crate::modules::output) fn handles(&mut self) -> Result<Vec<SyncHandle>, StorageError> {
        let current = self.current.handle()?;
        // If one of them fails, the output has failed for good.
        let finished = std::mem::replace(&mut self.first_unsynced, self.number)..self.number;
        let mut handles: Vec<_> =
            finished.map(|number| SyncHandle::Closed(self.names.path(number))).collect();
        if !handles.is_empty() {
            // One directory has the names of all.
            handles.push(SyncHandle::Name(self.names.path(self.number)));
        }
        handles.push(current);
        Ok(handles)
    }

    /// The length of all files, including the buffer.
    pub(in crate::modules::output) fn length(&self) -> u64 {
        self.finished_bytes + self.current.length()
    }

    /// The paths of all files, in order.
    pub(in crate::modules::output) fn paths(&self) -> Vec<PathBuf> {
        (1..=self.number).map(|number| self.names.path(number)).collect()
    }
}

/// The file in which a length ends. `None` if the files are shorter, or one is missing before it.
fn position_of(length: u64, found: &[(u32, u64)]) -> Option<SegmentPosition> {
    let mut finished_bytes = 0;
    for (expected, (number, bytes)) in (1..).zip(found) {
        if *number != expected {
            return None;
        }
        if length <= finished_bytes + bytes {
            return Some(SegmentPosition { number: *number, finished_bytes });
        }
        finished_bytes += bytes;
    }
    None
}

/// Rejects files that are there already. An empty one has nothing to lose.
pub(in crate::modules::output) fn ensure_none(
    names: &SegmentNames,
    found: &[(u32, u64)],
) -> Result<(), StorageError> {
    let found: Vec<(u32, u64)> = found.iter().filter(|(_, length)| *length > 0).copied().collect();
    ensure_none_after(names, 0, &found)
}

/// Rejects files after this one that are there already.
fn ensure_none_after(names: &SegmentNames, number: u32, found: &[(u32, u64)]) -> Result<(), StorageError> {
    let Some((number, length)) = found.iter().find(|(found, _)| *found > number) else { return Ok(()) };
    let message = format!(
        "cannot write to output file '{}': it already has {length} bytes; name another file, or overwrite it",
        names.path(*number).display()
    );
    Err(StorageError::new(StorageErrorKind::AlreadyExists, message))
}

/// Rejects files after this one that are of another archive. An empty one has nothing to lose.
fn ensure_own_after(
    names: &SegmentNames,
    number: u32,
    found: &[(u32, u64)],
    archive_id: Option<&str>,
) -> Result<(), StorageError> {
    for (later, _) in found.iter().filter(|(found, length)| *found > number && *length > 0) {
        let path = names.path(*later);
        if archive_id.is_none() || archive_id_in(&path).as_deref() != archive_id {
            let message = format!(
                "cannot resume output file '{}': this crawl has not written it, but would write a file of that name; move it away",
                path.display()
            );
            return Err(StorageError::new(StorageErrorKind::AlreadyExists, message));
        }
    }
    Ok(())
}

fn shorter(output: &Path, bytes: u64, committed: u64) -> StorageError {
    let message = format!(
        "cannot resume output '{}': its numbered files have {bytes} bytes without a gap, but the crawl had written {committed}; \
         restore the files, or start a new crawl",
        output.display()
    );
    StorageError::new(StorageErrorKind::Damaged, message)
}

/// The ID of the archive that a file belongs to, if it has one.
pub(in crate::modules::output) fn archive_id_in(path: &Path) -> Option<String> {
    let read = || -> io::Result<Option<String>> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let input = ArchiveInput::new(Box::new(FileSection::new(file, 0, length)?), Default::default());
        let Some(ArchiveItem::Record(info)) = WarcReader::new(input)?.next(&|_| MAX_INFO)? else {
            return Ok(None);
        };
        let block = String::from_utf8_lossy(&info.block).into_owned();
        Ok(block.lines().find_map(|line| line.strip_prefix(ARCHIVE_ID).map(str::to_owned)))
    };
    read().ok().flatten()
}

#[cfg(test)]
mod tests;
