//! A part that is a file, with its index.

use std::io;
use std::path::{Path, PathBuf};

use super::index::{self, IndexReader, PartHeader, PartIndexEntry};
use super::{ExistingPart, cannot_resume, occupied};
use crate::error::StorageError;
use crate::modules::output::files::SyncHandle;
use crate::modules::output::files::append::AppendFile;

/// A part file and its index. The index is written last: bytes of the part that it does not name are incomplete.
#[derive(Debug)]
pub(super) struct FilePart {
    path: PathBuf,
    part: AppendFile,
    index: AppendFile,
    /// The lengths of the part and of the index up to the last complete page.
    committed: (u64, u64),
}

impl FilePart {
    /// Opens and locks a part, creating it if needed, and does not change its content.
    pub(super) fn open(path: &Path) -> Result<FilePart, StorageError> {
        // Create the index first, so that there is never a part without one.
        let index = AppendFile::open(&index::index_path(path))?;
        let part = AppendFile::open(path)?;
        Ok(FilePart { path: path.to_owned(), part, index, committed: (0, 0) })
    }

    /// Finds the last complete page, and rejects a part that this crawl cannot continue.
    pub(super) fn check(
        &mut self,
        header: &PartHeader,
        overwrite: bool,
    ) -> Result<ExistingPart, StorageError> {
        let replace = |cause: &str| {
            if overwrite { Ok(ExistingPart::Nothing) } else { Err(occupied(&self.path, cause)) }
        };
        let length = self.part.disk_length()?;
        let unreadable = |error: io::Error| occupied(&self.path, &format!("cannot read its index: {error}"));
        let mut reader = IndexReader::open(&self.path).map_err(unreadable)?;
        let found = match reader.header() {
            Err(cause) => return replace(&cause),
            Ok(None) if length == 0 => return Ok(ExistingPart::Nothing),
            Ok(None) => {
                return replace(&format!("it has {length} bytes that its index does not name"));
            }
            Ok(Some(found)) => found,
        };
        if let Some(cause) = found.mismatch(header) {
            return if found.is_same_crawl(header) {
                Err(cannot_resume(&self.path, &cause))
            } else {
                replace(&cause)
            };
        }
        loop {
            match reader.entry() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(cause) => return Err(cannot_resume(&self.path, &cause)),
            }
        }
        if length < reader.end() && reader.end() > header.header_length {
            let end = reader.end();
            return Err(cannot_resume(
                &self.path,
                &format!("it has {length} bytes, but its index names {end}"),
            ));
        }
        // A truncated header is written again.
        self.committed = (if length < header.header_length { 0 } else { reader.end() }, reader.length());
        Ok(ExistingPart::Part)
    }

    /// Truncates incomplete pages, or everything, and continues from there.
    pub(super) fn start(
        &mut self,
        existing: ExistingPart,
        header: &PartHeader,
        output_header: &[u8],
    ) -> Result<(), StorageError> {
        if let ExistingPart::Nothing = existing {
            self.committed = (0, 0);
        }
        self.part.truncate(self.committed.0)?;
        self.index.truncate(self.committed.1)?;
        if let ExistingPart::Nothing = existing {
            self.index.append(&header.line());
        }
        self.part.put_header(output_header);
        // The index names the crawl before the part has any content.
        self.index.flush().and_then(|()| self.part.flush())?;
        self.committed = (self.part.length(), self.index.length());
        Ok(())
    }

    /// Writes a page. It does not count until the index names it.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.part.append(bytes);
        self.part.flush()
    }

    /// Adds the page written last to the index, or a tombstone.
    pub(super) fn append_to_index(
        &mut self,
        task_id: u64,
        lease_id: u64,
        tombstone: bool,
    ) -> Result<(), StorageError> {
        let (offset, end) = (self.committed.0, self.part.length());
        let length = (!tombstone).then_some(end - offset);
        self.index.append(PartIndexEntry { task_id, lease_id, offset, length }.text().as_bytes());
        self.index.flush()
    }

    /// Commits what was written: a roll back no longer removes it.
    pub(super) fn commit(&mut self) {
        self.committed = (self.part.length(), self.index.length());
    }

    /// Removes what was written since the last commit.
    pub(super) fn roll_back(&mut self) -> Result<(), StorageError> {
        let (part, index) = self.committed;
        // The index first, so that it never names bytes that are gone.
        self.index.truncate(index).and_then(|()| self.part.truncate(part))
    }

    /// The length of the part file.
    pub(super) fn length(&self) -> u64 {
        self.part.length()
    }

    /// Handles to fsync the part, then its index.
    pub(super) fn handles(&self) -> Result<[SyncHandle; 2], StorageError> {
        Ok([self.part.handle()?, self.index.handle()?])
    }
}
