//! A part that is a directory: a file `TASK.LEASE` for each page, a header file, and a file of tombstones: lines
//! `TASK LEASE` that retract pages.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::index::PartHeader;
use super::{ExistingPart, cannot_resume, occupied};
use crate::error::{StorageError, unusable_directory};
use crate::modules::output::files;
use crate::modules::output::files::append::AppendFile;
use crate::modules::output::numbered_dir::{DirSyncHandle, NumberedDir, UNFINISHED};

/// The file with the part's header: the first line of an index.
const HEADER_FILE: &str = "crawl.json";

/// The file with the tombstones.
const TOMBSTONES: &str = "withdrawn";

/// Longer than any tombstone.
const MAX_LINE: u64 = 64;

/// Longer than any header.
const MAX_HEADER: u64 = 64 * 1024;

/// The open directory.
#[derive(Debug)]
pub(super) struct DirectoryPart {
    files: NumberedDir,
    /// A line counts only with its line feed.
    tombstones: AppendFile,
    /// The length of the complete lines in `tombstones`.
    tombstones_length: u64,
}

/// One version of a page: what a worker wrote for a task under a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VersionId {
    pub(super) task_id: u64,
    pub(super) lease_id: u64,
}

impl VersionId {
    pub(super) fn file_name(&self) -> String {
        let VersionId { task_id, lease_id } = self;
        format!("{task_id}.{lease_id}")
    }

    fn parse(text: &str) -> Option<VersionId> {
        let (task_id, lease_id) = text.split_once('.')?;
        let name = VersionId { task_id: task_id.parse().ok()?, lease_id: lease_id.parse().ok()? };
        // A file with another spelling was not written by this program.
        (name.file_name() == text).then_some(name)
    }
}

impl DirectoryPart {
    /// Opens and locks a part, creating it if needed, and does not change its content.
    pub(super) fn open(path: &Path) -> Result<DirectoryPart, StorageError> {
        files::create_directory(path)?;
        let files = NumberedDir::open(path)?;
        let tombstones = AppendFile::open(&path.join(TOMBSTONES))?;
        Ok(DirectoryPart { files, tombstones, tombstones_length: 0 })
    }

    /// Finds the last complete tombstone, and rejects a part that this crawl cannot continue.
    pub(super) fn check(
        &mut self,
        header: &PartHeader,
        overwrite: bool,
    ) -> Result<ExistingPart, StorageError> {
        let path = self.files.path();
        // Checks write permission, and removes a temporary file left by a crash.
        self.files.removable_after(u64::MAX)?;
        let unusable = |source| unusable_directory(path, source);
        let replace =
            |cause: &str| if overwrite { Ok(ExistingPart::Nothing) } else { Err(occupied(path, cause)) };
        self.tombstones_length = complete_lines(&path.join(TOMBSTONES)).map_err(unusable)?;
        match read_header(path) {
            Ok(None) => match page_files(path).map_err(unusable)?.first() {
                None => Ok(ExistingPart::Nothing),
                Some(name) => {
                    replace(&format!("it has pages (file {}) and no {HEADER_FILE}", name.file_name()))
                }
            },
            Ok(Some(found)) => match found.mismatch(header) {
                None => Ok(ExistingPart::Part),
                Some(cause) if found.is_same_crawl(header) => Err(cannot_resume(path, &cause)),
                Some(cause) => replace(&cause),
            },
            Err(cause) => replace(&cause),
        }
    }

    /// Truncates an incomplete tombstone; or removes everything and writes the header.
    pub(super) fn start(&mut self, existing: ExistingPart, header: &PartHeader) -> Result<(), StorageError> {
        if let ExistingPart::Part = existing {
            return self.tombstones.truncate(self.tombstones_length);
        }
        self.tombstones.truncate(0)?;
        let unusable = |source| unusable_directory(self.files.path(), source);
        for name in page_files(self.files.path()).map_err(unusable)? {
            fs::remove_file(self.files.path().join(name.file_name())).map_err(unusable)?;
        }
        self.files.replace_as(HEADER_FILE, &header.line()).map_err(unusable)
    }

    /// Writes a page's file atomically.
    pub(super) fn write(&self, task_id: u64, lease_id: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let name = VersionId { task_id, lease_id }.file_name();
        let written = self.files.replace_as(&name, bytes);
        written.map_err(|error| files::write_error(&self.files.path().join(name), error))
    }

    /// Writes a tombstone: versions of the page with this lease id or a smaller one do not count.
    pub(super) fn retract(&mut self, task_id: u64, lease_id: u64) -> Result<(), StorageError> {
        let before = self.tombstones.length();
        self.tombstones.append(format!("{task_id} {lease_id}\n").as_bytes());
        let written = self.tombstones.flush();
        if written.is_err() {
            // Drop it from the buffer, so that a later flush does not write it.
            self.tombstones.truncate(before)?;
        }
        written
    }

    /// A handle to fsync the directory with all its files.
    pub(super) fn handle(&self) -> Result<DirSyncHandle, StorageError> {
        self.files.handle().map_err(|error| files::write_error(self.files.path(), error))
    }
}

/// Whether a directory is a part.
pub(super) fn is_part(path: &Path) -> bool {
    path.join(HEADER_FILE).is_file()
}

/// The header of a part, if the directory has one.
pub(super) fn read_header(path: &Path) -> Result<Option<PartHeader>, String> {
    let path: PathBuf = path.join(HEADER_FILE);
    let mut text = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(MAX_HEADER).read_to_end(&mut text));
    match read {
        Ok(_) => PartHeader::parse(&text).map(Some).map_err(|cause| format!("'{}' {cause}", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read '{}': {error}", path.display())),
    }
}

/// The page files of a directory.
pub(super) fn page_files(path: &Path) -> io::Result<Vec<VersionId>> {
    let mut page_files = Vec::new();
    for entry in fs::read_dir(path)? {
        page_files.extend(entry?.file_name().to_str().and_then(VersionId::parse));
    }
    Ok(page_files)
}

/// Calls a function with each tombstone of a directory, and with `None` for each damaged line.
pub(super) fn for_each_tombstone(path: &Path, mut call: impl FnMut(Option<VersionId>)) -> io::Result<()> {
    let file = match File::open(path.join(TOMBSTONES)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        match line.split_last() {
            Some((b'\n', line)) => call(std::str::from_utf8(line).ok().and_then(parse_tombstone)),
            Some(_) if line.len() as u64 == MAX_LINE => call(None),
            _ => return Ok(()),
        }
    }
}

fn parse_tombstone(line: &str) -> Option<VersionId> {
    let (task_id, lease_id) = line.split_once(' ')?;
    Some(VersionId { task_id: task_id.parse().ok()?, lease_id: lease_id.parse().ok()? })
}

/// The total length of the complete lines of a file.
fn complete_lines(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(MAX_LINE);
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(MAX_LINE).read_to_end(&mut end)?;
    Ok(end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| from + at as u64 + 1))
}

/// How many bytes of incomplete pages and tombstones a directory has.
pub(super) fn incomplete_bytes(path: &Path) -> u64 {
    let length = |name| fs::symlink_metadata(path.join(name)).map_or(0, |metadata| metadata.len());
    let complete = complete_lines(&path.join(TOMBSTONES)).unwrap_or(0);
    length(UNFINISHED) + length(TOMBSTONES).saturating_sub(complete)
}
