//! The files that are made of a complete archive: its index, and a WACZ file.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, StorageError, StorageErrorKind};
use crate::modules::output::segments::{existing_files, stem};
use crate::wacz::write_wacz;
use crate::warc::archives::Archives;
use crate::warc::index::{ArchiveFileError, write_index_file};

/// The end of the name of an index.
pub const INDEX_SUFFIX: &str = ".cdxj";

/// The end of the name of a WACZ file.
const WACZ_SUFFIX: &str = ".wacz";

/// What follows a message about a file that was not made.
const REMEDY: &str = "; the archive itself is complete: make the file from it later";

/// The index of the archive at a path: `crawl.cdxj` of `crawl.warc.gz`.
pub fn index_path(archive: &Path) -> PathBuf {
    archive.with_file_name(stem(archive) + INDEX_SUFFIX)
}

/// The WACZ file of the archive at a path: `crawl.wacz` of `crawl.warc.gz`.
pub fn wacz_path(archive: &Path) -> PathBuf {
    archive.with_file_name(stem(archive) + WACZ_SUFFIX)
}

/// The files of the archive at a path, in order.
pub fn archive_files(archive: &Path) -> io::Result<Vec<PathBuf>> {
    existing_files(archive)
}

/// Makes the index of an archive from its files, and its WACZ file, replacing earlier ones. The archive is not changed, whatever
/// happens.
pub fn make(archive: &Path, files: &[PathBuf], makes_wacz: bool) -> Result<(), StorageError> {
    let unreadable = |error: Error| not_made(ArchiveFileError::Archive(error.to_string()));
    let archives = Archives::find(files).map_err(unreadable)?;
    let mut damaged = None;
    let mut on_damage = |message: &str| {
        damaged.get_or_insert_with(|| message.to_owned());
    };
    write_index_file(&archives, &index_path(archive), true, &mut on_damage).map_err(not_made)?;
    if makes_wacz {
        write_wacz(&archives, &wacz_path(archive), true, &mut |_| {}).map_err(not_made)?;
    }
    match damaged {
        None => Ok(()),
        Some(message) => Err(StorageError::new(
            StorageErrorKind::Damaged,
            format!("cannot index all records: {message}; the index has all others"),
        )),
    }
}

fn not_made(error: ArchiveFileError) -> StorageError {
    let kind = match &error {
        ArchiveFileError::Archive(_) => StorageErrorKind::Damaged,
        ArchiveFileError::Output(error) => error.kind(),
    };
    StorageError::new(kind, format!("{error:#}{REMEDY}"))
}
