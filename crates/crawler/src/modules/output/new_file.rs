//! A file that appears under its name when it is complete, and replaces an earlier one at once.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::Target;
use super::files::write_error;
use crate::error::{StorageError, StorageErrorKind, unusable_directory};
use crate::file_lock;

/// The end of the name of the [note](FoundTarget::note_made) about a target.
const MADE: &str = ".made";

/// What to do about a path that cannot be written to.
const REMEDY: &str = "name a file you may write to";

/// A file with a temporary name, `.NAME.unfinished`, which is renamed when it is complete. A drop removes an incomplete one.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    unfinished: PathBuf,
    writer: BufWriter<File>,
    /// The file was renamed. A file with the temporary name now belongs to another process.
    finished: bool,
}

impl NewFile {
    /// Creates and locks the file with the temporary name.
    pub fn create(path: &Path) -> Result<NewFile, StorageError> {
        if path.file_name().is_none() {
            return Err(unusable(path, "the path has no file name"));
        }
        let unfinished = sibling(path, ".unfinished");
        match create(&unfinished) {
            Ok(file) => Ok(NewFile {
                path: path.to_owned(),
                unfinished,
                writer: BufWriter::new(file),
                finished: false,
            }),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::AlreadyExists) => {
                let message = format!(
                    "cannot write to output file '{}': another process is writing to it; wait until it exits, or name \
                     another file",
                    path.display()
                );
                Err(StorageError::new(StorageErrorKind::InUse, message))
            }
            Err(error) => {
                let what = format!("cannot write to output file '{}'", path.display());
                Err(StorageError::with_source(StorageErrorKind::Unusable, what, error, REMEDY))
            }
        }
    }

    /// Writes everything out, fsyncs it and renames the file.
    pub fn finish(mut self) -> Result<(), StorageError> {
        let finish = |file: &mut NewFile| {
            file.writer.flush()?;
            file.writer.get_ref().sync_all()?;
            fs::rename(&file.unfinished, &file.path)?;
            file.finished = true;
            // The records may be removed next, and a power failure must not lose both names.
            sync_parent(&file.path);
            Ok(())
        };
        finish(&mut self).map_err(|error| self.error(error))
    }

    /// Hands everything written to the operating system, and returns the temporary name.
    pub(super) fn flush_unfinished(&mut self) -> io::Result<&Path> {
        self.writer.flush()?;
        Ok(&self.unfinished)
    }

    /// The error for a write that failed.
    pub fn error(&self, error: io::Error) -> StorageError {
        write_error(&self.path, error)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.writer.seek(to)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// A hidden name next to a path: `.NAME` with this end.
pub(crate) fn sibling(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(end);
    path.with_file_name(name)
}

/// Makes a new name survive a power failure. Ignores the error of file systems that cannot sync a directory.
pub(crate) fn sync_parent(path: &Path) {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let _ = File::open(parent.unwrap_or(Path::new("."))).and_then(|directory| directory.sync_all());
}

/// Rejects a target that a file or directory made later could not or must not replace: one of another kind, and one with content,
/// unless it may be overwritten.
pub fn ensure_replaceable(target: &Target, overwrite: bool) -> Result<(), StorageError> {
    let path = target.path();
    let occupied = |cause: String| {
        let message = format!(
            "cannot write to output '{}': {cause}; name another one, or overwrite it",
            path.display()
        );
        Err(StorageError::new(StorageErrorKind::AlreadyExists, message))
    };
    match (target, fs::metadata(path)) {
        (_, Err(_)) => Ok(()),
        (Target::File(_), Ok(found)) if !found.is_file() => {
            Err(unusable(path, "it is not a regular file ('-' is standard output)"))
        }
        (Target::File(_), Ok(found)) if found.len() > 0 && !overwrite => {
            occupied(format!("it already has {} bytes", found.len()))
        }
        (Target::Directory(_), Ok(found)) if !found.is_dir() => {
            Err(unusable_directory(path, ErrorKind::NotADirectory.into()))
        }
        (Target::Directory(_), Ok(_)) if !overwrite => {
            let mut entries = fs::read_dir(path).map_err(|error| unusable_directory(path, error))?;
            if entries.next().is_some() { occupied("it is not empty".into()) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// The file at a path at some time, so that one which another program makes later is not replaced.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundTarget(Option<(u64, u64, u64, SystemTime)>);

impl FoundTarget {
    /// What is at the path now.
    pub fn at(path: &Path) -> FoundTarget {
        let found = fs::metadata(path).ok();
        FoundTarget(found.and_then(|file| Some((file.dev(), file.ino(), file.len(), file.modified().ok()?))))
    }

    /// Notes next to the path that what is there now was made from the records of a crawl that runs, and may be replaced by it.
    pub fn note_made(path: &Path) {
        let found = serde_json::to_vec(&FoundTarget::at(path)).unwrap_or_default();
        // Without the note, the crawl says that another program has written to the path.
        let _ = fs::write(sibling(path, MADE), found);
    }

    /// Removes the note, if there is one.
    pub fn remove_note(path: &Path) {
        let _ = fs::remove_file(sibling(path, MADE));
    }

    /// Rejects a file at the path that was not there, or was written to since.
    pub fn check_unchanged(&self, path: &Path) -> Result<(), StorageError> {
        let now = FoundTarget::at(path);
        let is_empty = matches!(now.0, None | Some((_, _, 0, _)));
        let is_noted = || {
            let note = fs::read(sibling(path, MADE)).ok()?;
            Some(serde_json::from_slice::<FoundTarget>(&note).ok()? == now)
        };
        if is_empty || now == *self || is_noted() == Some(true) {
            return Ok(());
        }
        let message = format!(
            "cannot write to output '{}': another program has written to it during the crawl; move its file, or overwrite it",
            path.display()
        );
        Err(StorageError::new(StorageErrorKind::AlreadyExists, message))
    }
}

fn unusable(path: &Path, cause: &str) -> StorageError {
    let message = format!("cannot write to output file '{}': {cause}; {REMEDY}", path.display());
    StorageError::new(StorageErrorKind::Unusable, message)
}

/// Creates and locks the temporary file, removing one that an earlier process left.
fn create(path: &Path) -> io::Result<File> {
    // Open only a regular file: anything else may be a link to a file elsewhere, or a pipe without a reader.
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
        && !file_lock::lock(&File::open(path)?)
    {
        return Err(ErrorKind::WouldBlock.into());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::create_new(path)?;
    if file_lock::lock(&file) { Ok(file) } else { Err(ErrorKind::WouldBlock.into()) }
}
