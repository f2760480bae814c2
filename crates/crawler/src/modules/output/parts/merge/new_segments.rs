//! Writes an output that is split into files, which get their names when all of them are complete.
//!
//! They are written in a directory next to the output, `.NAME.unfinished`. When all are fsynced, it is renamed to `.NAME.complete`, and
//! the files are moved from there. A process that is killed before leaves the earlier output as it was, and one that is killed
//! later leaves a directory from which the next process moves the rest. It is removed when the files are made that belong to the output,
//! such as an index.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::{StorageError, StorageErrorKind};
use crate::file_lock;
use crate::modules::Target;
use crate::modules::output::files::append::AppendFile;
use crate::modules::output::files::segments::{archive_id_in, ensure_none};
use crate::modules::output::files::write_error;
use crate::modules::output::new_file::{ensure_replaceable, sibling, sync_parent};
use crate::modules::output::segments::{SegmentNames, SegmentRule};
use crate::warc::writer::unique_id;

/// The end of the name of the directory in which the files are written.
const UNFINISHED: &str = ".unfinished";

/// The end of its name when all files are complete.
const COMPLETE: &str = ".complete";

/// The files of an output that is split, until they replace an earlier output.
pub(super) struct NewSegments {
    output: PathBuf,
    /// The names of the files, and their names in the directory.
    names: SegmentNames,
    unfinished: SegmentNames,
    rule: SegmentRule,
    archive_id: String,
    directory: PathBuf,
    /// The directory and the file that is replaced, locked until all files are moved.
    _locks: (File, Option<AppendFile>),
    current: BufWriter<File>,
    /// Its number and its bytes.
    number: u32,
    length: u64,
    is_published: bool,
}

impl NewSegments {
    /// Starts the first file. Rejects an earlier output and files that will be made of it, unless `overwrite` is set or a killed
    /// process has left them incomplete.
    pub(super) fn create(
        output: &Path,
        rule: &SegmentRule,
        overwrite: bool,
        made: &[PathBuf],
    ) -> Result<NewSegments, StorageError> {
        let names = SegmentNames::from_output(output);
        let was_killed = finish_publishing(output, &names)?;
        if !overwrite && !was_killed {
            ensure_none(&names, &names.existing().map_err(|error| write_error(output, error))?)?;
        }
        made.iter()
            .try_for_each(|made| ensure_replaceable(&Target::File(made.clone()), overwrite || was_killed))?;
        // A crawl that writes to it holds its lock.
        let replaced = names.path(1).exists().then(|| AppendFile::open(&names.path(1))).transpose()?;
        let directory = sibling(output, UNFINISHED);
        let unusable = |error| unusable(output, error);
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(unusable(error)),
            _ => {}
        }
        let lock = locked(output, &directory)?;
        for entry in fs::read_dir(&directory).map_err(unusable)? {
            fs::remove_file(entry.map_err(unusable)?.path()).map_err(unusable)?;
        }
        let unfinished = SegmentNames::from_output(&directory.join(output.file_name().unwrap_or_default()));
        let archive_id = unique_id(&names.path(1).to_string_lossy());
        let file = File::create(unfinished.path(1)).map_err(unusable)?;
        let mut segments = NewSegments {
            output: output.to_owned(),
            names,
            unfinished,
            rule: rule.clone(),
            archive_id,
            directory,
            _locks: (lock, replaced),
            current: BufWriter::new(file),
            number: 1,
            length: 0,
            is_published: false,
        };
        segments.write_header().map_err(unusable)?;
        Ok(segments)
    }

    fn write_header(&mut self) -> io::Result<()> {
        let header = self.names.header(self.number, &self.rule, &self.archive_id);
        self.length = header.len() as u64;
        self.current.write_all(&header)
    }

    /// Writes the next bytes, which are in one file.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.length >= self.rule.max_bytes {
            self.finish_file()?;
            self.number += 1;
            self.current = BufWriter::new(File::create(self.unfinished.path(self.number))?);
            self.write_header()?;
        }
        self.length += bytes.len() as u64;
        self.current.write_all(bytes)
    }

    fn finish_file(&mut self) -> io::Result<()> {
        self.current.flush()?;
        self.current.get_ref().sync_all()
    }

    /// Fsyncs the files and gives them their names, in place of those of an earlier output.
    pub(super) fn finish(mut self) -> Result<(), StorageError> {
        let (output, names) = (self.output.clone(), self.names.clone());
        let complete = sibling(&output, COMPLETE);
        let mut finish = || {
            self.finish_file()?;
            // Their names in the directory.
            sync_parent(&self.unfinished.path(1));
            // One that is there is empty.
            fs::rename(&self.directory, &complete)?;
            self.is_published = true;
            sync_parent(&complete);
            publish(&output, &names, &complete)
        };
        finish().map_err(|error| write_error(&self.output, error))
    }

    /// The error for a write that failed.
    pub(super) fn error(&self, error: io::Error) -> StorageError {
        write_error(&self.names.path(self.number), error)
    }
}

impl Drop for NewSegments {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Moves the files that a killed process has left complete. Returns whether there were any.
fn finish_publishing(output: &Path, names: &SegmentNames) -> Result<bool, StorageError> {
    let complete = sibling(output, COMPLETE);
    if !complete.is_dir() {
        return Ok(false);
    }
    let _lock = locked(output, &complete)?;
    publish(output, names, &complete).map_err(|error| unusable(output, error))?;
    Ok(true)
}

/// Moves all files from a directory, the first one last: without it, no program takes them for an archive that starts there. Removes the
/// files of an earlier archive that are left.
fn publish(output: &Path, names: &SegmentNames, complete: &Path) -> io::Result<()> {
    let from = SegmentNames::from_output(&complete.join(output.file_name().unwrap_or_default()));
    for (number, _) in from.existing()?.into_iter().rev() {
        fs::rename(from.path(number), names.path(number))?;
    }
    sync_parent(&names.path(1));
    let archive_id = archive_id_in(&names.path(1));
    for (number, _) in names.existing()? {
        if archive_id_in(&names.path(number)) != archive_id {
            fs::remove_file(names.path(number))?;
        }
    }
    Ok(())
}

/// Ends the merge into an output that is split: the files are made that belong to it.
pub fn end_merge(output: &Path) -> Result<(), StorageError> {
    match fs::remove_dir(sibling(output, COMPLETE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(write_error(output, error)),
        _ => Ok(()),
    }
}

/// Opens and locks a directory.
fn locked(output: &Path, directory: &Path) -> Result<File, StorageError> {
    let directory = File::open(directory).map_err(|error| unusable(output, error))?;
    if file_lock::lock(&directory) {
        return Ok(directory);
    }
    let message = format!(
        "cannot write to output file '{}': another process is writing to it; wait until it exits, or name another file",
        output.display()
    );
    Err(StorageError::new(StorageErrorKind::InUse, message))
}

fn unusable(output: &Path, error: io::Error) -> StorageError {
    let what = format!("cannot write to output file '{}'", output.display());
    StorageError::with_source(StorageErrorKind::Unusable, what, error, "name a file you may write to")
}
