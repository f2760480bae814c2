//! The output files of a crawl in one process. Each page or URL is in them exactly once, also after a crash.
//!
//! The protocol with the durable state:
//!
//! 1. The commit that completes a URL records the URL's writes under the next number.
//! 2. After the commit, the writes are [applied](OutputFiles::apply) in the order of these numbers.
//! 3. From time to time the files are [flushed](OutputFiles::flush), or [fsynced](OutputFiles::sync) if they must
//!    survive a power failure. *Then* the state records the file lengths and the position, and deletes the recorded
//!    writes up to it.
//! 4. A resume [opens](OutputFiles::open) the files with the recorded lengths and position, which truncates everything later,
//!    and applies the writes recorded since. The bytes are the same as without the interruption.
//!
//! A crawl in memory applies writes in the same way and never resumes.

pub(super) mod append;
pub(super) mod segments;

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use self::append::AppendFile;
use self::segments::SegmentedFile;
use super::new_file::{self, FoundTarget, sync_parent};
use super::numbered_dir::{self, NumberedDir};
use super::segments::{SegmentNames, SegmentRule, existing_files};
use super::{OutputPosition, OutputSpec, OutputWrite, Target};
use crate::error::{StorageError, StorageErrorKind, unusable_directory};

/// What a crawl expects to find when it opens its output files.
#[derive(Debug, Clone, Copy)]
pub enum Start<'c> {
    /// The files must be new or empty.
    Fresh,
    /// The output of earlier crawls is removed.
    Overwrite,
    /// The files are truncated to what the state recorded as written.
    Resumed {
        /// The length of each output's file, in the order of the outputs; of a directory, the number of pages that were
        /// crawled before it was added.
        committed: &'c [u64],
        /// How far the files are written.
        written: OutputPosition,
    },
}

impl Start<'_> {
    /// How far the files are written.
    fn position(&self) -> OutputPosition {
        if let Start::Resumed { written, .. } = self { *written } else { OutputPosition::default() }
    }
}

/// The open files of all outputs of a crawl, locked against other crawls.
#[derive(Debug)]
pub struct OutputFiles {
    outputs: Vec<OpenOutput>,
    position: OutputPosition,
    /// What was found at the target of each output. `None` if anything there may be replaced.
    found: Option<Vec<FoundTarget>>,
}

#[derive(Debug)]
enum OpenOutput {
    File(AppendFile),
    Segments(Box<SegmentedFile>),
    /// A directory, and the number of pages that were crawled before it was added.
    Directory(NumberedDir, u64),
}

/// What is opened for an output.
#[derive(Debug)]
pub(crate) struct OpenTarget<'h> {
    /// The file or directory that is written during the crawl.
    pub(crate) target: Target,
    /// The bytes at its start.
    pub(crate) header: Cow<'h, [u8]>,
    /// How it is split into files, if it is. Then these have headers of their own.
    pub(crate) segments: Option<SegmentRule>,
}

impl OpenTarget<'_> {
    /// The file or directory that exists as soon as the output does.
    fn first_path(&self) -> PathBuf {
        match self.segments {
            Some(_) => SegmentNames::from_output(self.target.path()).path(1),
            None => self.target.path().to_owned(),
        }
    }
}

/// The files and directories of all outputs, to fsync while another thread writes to them.
#[derive(Debug)]
pub struct SyncHandles(pub(super) Vec<SyncHandle>);

#[derive(Debug)]
pub(super) enum SyncHandle {
    File(PathBuf, File),
    /// A file that is complete and was closed.
    Closed(PathBuf),
    /// The name of a new file.
    Name(PathBuf),
    Directory(numbered_dir::DirSyncHandle),
}

impl SyncHandles {
    /// Fsyncs everything flushed so far.
    pub fn sync(&self) -> Result<(), StorageError> {
        self.0.iter().try_for_each(|handle| match handle {
            SyncHandle::File(path, file) => file.sync_data().map_err(|error| write_error(path, error)),
            SyncHandle::Closed(path) => {
                File::open(path).and_then(|file| file.sync_data()).map_err(|error| write_error(path, error))
            }
            SyncHandle::Name(path) => {
                sync_parent(path);
                Ok(())
            }
            SyncHandle::Directory(files) => files.sync().map_err(|error| write_error(files.path(), error)),
        })
    }
}

impl OutputFiles {
    /// Opens the files of the outputs. If one cannot be used, none is changed.
    pub fn open(specs: &[OutputSpec], start: Start) -> Result<OutputFiles, StorageError> {
        check_distinct(specs)?;
        check_finished_targets(specs, start)?;
        let targets: Vec<_> = specs.iter().map(OutputSpec::open_target).collect();
        let found = (!matches!(start, Start::Overwrite))
            .then(|| specs.iter().map(|spec| FoundTarget::at(spec.target.path())).collect());
        Ok(OutputFiles { found, ..OutputFiles::open_targets(&targets, start)? })
    }

    /// Rejects a target that is made at the end, if another program has written to it since it was [opened](OutputFiles::open).
    pub fn check_unchanged(&self, index: usize, target: &Target) -> Result<(), StorageError> {
        let found = self.found.as_ref().and_then(|found| found.get(index));
        match (target, found) {
            (Target::File(path), Some(found)) => found.check_unchanged(path),
            _ => Ok(()),
        }
    }

    /// Notes that a target was made: this crawl may make it again.
    pub(crate) fn note_made(&mut self, index: usize, target: &Target) {
        if let Some(found) = self.found.as_mut().and_then(|found| found.get_mut(index)) {
            *found = FoundTarget::at(target.path());
        }
    }

    /// Opens files and directories, each with the header of its output.
    pub(crate) fn open_targets(targets: &[OpenTarget], start: Start) -> Result<OutputFiles, StorageError> {
        if let Start::Resumed { committed, .. } = start
            && committed.len() != targets.len()
        {
            let (recorded, given) = (committed.len(), targets.len());
            let message = format!(
                "cannot resume the crawl: its state is damaged: it has the lengths of {recorded} outputs, and there are \
                 {given}; start a new crawl in another directory"
            );
            return Err(StorageError::new(StorageErrorKind::Damaged, message));
        }
        let mut outputs = Vec::with_capacity(targets.len());
        let mut created = Vec::new();
        if let Err(error) = open_all(targets, start, &mut outputs, &mut created) {
            // Still locked, so no other crawl has written to them.
            created.into_iter().for_each(remove_if_empty);
            return Err(error);
        }
        for (index, output) in outputs.iter_mut().enumerate() {
            output.truncate(start, index)?;
        }
        for (output, target) in outputs.iter_mut().zip(targets) {
            output.put_header(&target.header);
        }
        Ok(OutputFiles { outputs, position: start.position(), found: None })
    }

    /// Applies writes, those of a page or of another URL.
    ///
    /// Writes are applied in the order of their numbers, without gaps. Those that are already in the files are ignored. After
    /// an error, which names the file, they do not count, and can be applied again.
    pub fn apply(
        &mut self,
        sequence: u64,
        page: Option<u64>,
        writes: &[(usize, OutputWrite)],
    ) -> Result<(), StorageError> {
        if sequence <= self.position.sequence {
            return Ok(());
        }
        self.check(sequence, page, writes)?;
        // The steps that can fail come first, so that nothing has to be rolled back.
        for output in &mut self.outputs {
            output.flush_if_full()?;
        }
        for (index, write) in writes {
            match (&mut self.outputs[*index], write) {
                (OpenOutput::Directory(files, _), OutputWrite::File(bytes)) => {
                    // Checked before.
                    let Some(page) = page else { continue };
                    files.replace(page, bytes).map_err(|error| write_error(&files.page_path(page), error))?;
                }
                (OpenOutput::Segments(file), OutputWrite::Append(bytes)) if !bytes.is_empty() => {
                    file.rotate_if_full()?;
                }
                _ => {}
            }
        }
        for (index, write) in writes {
            match (&mut self.outputs[*index], write) {
                (OpenOutput::File(file), OutputWrite::Append(bytes)) => file.append(bytes),
                (OpenOutput::Segments(file), OutputWrite::Append(bytes)) => file.append(bytes),
                _ => {}
            }
        }
        self.position = OutputPosition { sequence, page: page.unwrap_or(self.position.page) };
        Ok(())
    }

    /// Appends bytes that are no part of what the state records: a resume truncates them.
    pub fn append_unrecorded(&mut self, index: usize, bytes: &[u8]) -> Result<(), StorageError> {
        match self.outputs.get_mut(index) {
            Some(OpenOutput::File(file)) => {
                file.flush_if_full()?;
                file.append(bytes);
            }
            Some(OpenOutput::Segments(file)) if !bytes.is_empty() => {
                file.flush_if_full().and_then(|()| file.rotate_if_full())?;
                file.append(bytes);
            }
            _ => {}
        }
        Ok(())
    }

    /// Hands everything applied to the operating system, so that it survives a crash of the process. Can be retried
    /// after an error.
    pub fn flush(&mut self) -> Result<(), StorageError> {
        self.outputs.iter_mut().try_for_each(|output| match output {
            OpenOutput::File(file) => file.flush(),
            OpenOutput::Segments(file) => file.flush(),
            OpenOutput::Directory(..) => Ok(()),
        })
    }

    /// Flushes and fsyncs everything applied, so that it survives a power failure.
    pub fn sync(&mut self) -> Result<(), StorageError> {
        self.flush()?;
        self.handles()?.sync()
    }

    /// Handles to fsync what has been flushed, while more pages are applied.
    ///
    /// The operating system reports a failed write to one fsync only; a later fsync succeeds. After a failed fsync it
    /// is unknown what was written.
    pub fn handles(&mut self) -> Result<SyncHandles, StorageError> {
        let mut handles = Vec::with_capacity(self.outputs.len());
        for output in &mut self.outputs {
            match output {
                OpenOutput::File(file) => handles.push(file.handle()?),
                OpenOutput::Segments(file) => handles.extend(file.handles()?),
                OpenOutput::Directory(files, _) => {
                    let handle = files.handle().map_err(|error| write_error(files.path(), error))?;
                    handles.push(SyncHandle::Directory(handle));
                }
            }
        }
        Ok(SyncHandles(handles))
    }

    /// The length of each output's file, including what is buffered; of a directory, the number of pages that were crawled
    /// before it was added.
    pub fn lengths(&self) -> Vec<u64> {
        let length = |output: &OpenOutput| match output {
            OpenOutput::File(file) => file.length(),
            OpenOutput::Segments(file) => file.length(),
            OpenOutput::Directory(_, earlier_pages) => *earlier_pages,
        };
        self.outputs.iter().map(length).collect()
    }

    /// The files of an output that is split, in order.
    pub fn segments(&self, index: usize) -> Option<Vec<PathBuf>> {
        match self.outputs.get(index) {
            Some(OpenOutput::Segments(file)) => Some(file.paths()),
            _ => None,
        }
    }

    /// How far the files are written.
    pub fn position(&self) -> OutputPosition {
        self.position
    }

    fn check(
        &self,
        sequence: u64,
        page: Option<u64>,
        writes: &[(usize, OutputWrite)],
    ) -> Result<(), StorageError> {
        let last = self.position.sequence;
        let is_file = |(_, write): &(usize, OutputWrite)| matches!(write, OutputWrite::File(_));
        let wrong = match page {
            _ if sequence != last + 1 => format!("they have number {sequence}, and the last ones had {last}"),
            None if writes.iter().any(is_file) => "a directory has files for pages only".into(),
            _ => String::new(),
        };
        if !wrong.is_empty() {
            let message = format!("cannot write to the outputs: {wrong}");
            return Err(StorageError::new(StorageErrorKind::Internal, message));
        }
        for (index, write) in writes {
            let output = self.outputs.get(*index);
            write.check(*index, output.map(|output| matches!(output, OpenOutput::Directory(..))))?;
        }
        Ok(())
    }
}

impl OpenOutput {
    /// Opens and locks the target, and checks it as far as possible without changing anything.
    fn open(target: &OpenTarget, start: Start, index: usize) -> Result<OpenOutput, StorageError> {
        match &target.target {
            Target::File(path) if let Some(rule) = &target.segments => {
                Ok(OpenOutput::Segments(Box::new(SegmentedFile::open(path, rule, start, index)?)))
            }
            Target::File(path) => {
                let file = AppendFile::open(path)?;
                match start {
                    Start::Fresh => file.ensure_empty()?,
                    Start::Overwrite => {}
                    Start::Resumed { committed, .. } => file.ensure_not_shorter(committed[index])?,
                }
                Ok(OpenOutput::File(file))
            }
            Target::Directory(path) => {
                let earlier_pages =
                    if let Start::Resumed { committed, .. } = start { committed[index] } else { 0 };
                match start.position().page {
                    last_page if last_page > earlier_pages => {
                        numbered_dir::ensure_exists(path, earlier_pages, last_page)?;
                    }
                    _ => create_directory(path)?,
                }
                let files = NumberedDir::open(path)?.with_extension(&target.header);
                if let Start::Fresh = start {
                    files.ensure_empty()?;
                }
                Ok(OpenOutput::Directory(files, earlier_pages))
            }
        }
    }

    /// Rejects a directory that [`truncate`](OpenOutput::truncate) could not bring to the start state.
    fn check(&self, start: Start) -> Result<(), StorageError> {
        match self {
            OpenOutput::File(_) | OpenOutput::Segments(_) => Ok(()),
            OpenOutput::Directory(files, earlier_pages) => {
                let last_page = start.position().page;
                files.ensure_complete(*earlier_pages, last_page)?;
                files.removable_after(last_page).map(drop)
            }
        }
    }

    /// Removes everything that is later than the start state.
    fn truncate(&mut self, start: Start, index: usize) -> Result<(), StorageError> {
        let length = if let Start::Resumed { committed, .. } = start { committed[index] } else { 0 };
        match self {
            OpenOutput::File(file) => file.truncate(length),
            OpenOutput::Segments(file) => file.truncate(length),
            OpenOutput::Directory(files, _) => files.remove_after(start.position().page),
        }
    }

    fn put_header(&mut self, header: &[u8]) {
        match self {
            OpenOutput::File(file) => file.put_header(header),
            OpenOutput::Segments(file) => file.put_header(),
            OpenOutput::Directory(..) => {}
        }
    }

    fn flush_if_full(&mut self) -> Result<(), StorageError> {
        match self {
            OpenOutput::File(file) => file.flush_if_full(),
            OpenOutput::Segments(file) => file.flush_if_full(),
            OpenOutput::Directory(..) => Ok(()),
        }
    }
}

/// Opens all targets, and checks them before any is truncated or emptied. Those that did not exist are `created`.
fn open_all(
    targets: &[OpenTarget],
    start: Start,
    outputs: &mut Vec<OpenOutput>,
    created: &mut Vec<PathBuf>,
) -> Result<(), StorageError> {
    for (index, target) in targets.iter().enumerate() {
        let path = target.first_path();
        // What it has created before it failed is removed, too.
        if fs::symlink_metadata(&path).is_err() {
            created.push(path);
        }
        outputs.push(OpenOutput::open(target, start, index)?);
    }
    outputs.iter().try_for_each(|output| output.check(start))
}

/// Removes a new file or directory. One that cannot be removed stays.
fn remove_if_empty(path: PathBuf) {
    let _ = match fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => fs::remove_dir(&path),
        Ok(found) if found.is_file() && found.len() == 0 => fs::remove_file(&path),
        _ => Ok(()),
    };
}

/// Rejects two outputs that write to the same file or directory, and one that writes into what another one makes at the end.
pub fn check_distinct(specs: &[OutputSpec]) -> Result<(), StorageError> {
    let paths: Vec<[PathBuf; 2]> =
        specs.iter().map(|spec| [identity(spec.target.path()), identity(spec.written().path())]).collect();
    for (index, spec) in specs.iter().enumerate() {
        let own = &paths[index];
        let is_made = spec.output.finisher().is_some();
        let others =
            paths.iter().enumerate().filter(|(other, _)| *other != index).flat_map(|(_, paths)| paths);
        let clashes = |other: &PathBuf| own.contains(other) || is_made && other.starts_with(&own[0]);
        if let Some(other) = others.into_iter().find(|other| clashes(other)) {
            let message = format!(
                "cannot write to output '{}': another module writes to it; name another one",
                other.display()
            );
            return Err(StorageError::new(StorageErrorKind::InUse, message));
        }
    }
    Ok(())
}

/// A path without symbolic links, which need not exist, to compare it with others.
pub fn identity(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let in_parent = || Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    fs::canonicalize(&path).ok().or_else(in_parent).unwrap_or(path)
}

/// Rejects targets of outputs that are made at the end, if they exist and may not be replaced. The records files are checked when
/// they are opened.
fn check_finished_targets(specs: &[OutputSpec], start: Start) -> Result<(), StorageError> {
    let may_replace = !matches!(start, Start::Fresh);
    for spec in specs {
        // If there are files of an earlier archive, they are the first to be named.
        let made = spec.output.made_files(spec.target.path());
        if !made.is_empty() && existing_files(spec.target.path()).is_ok_and(|files| files.is_empty()) {
            made.into_iter()
                .try_for_each(|made| new_file::ensure_replaceable(&Target::File(made), may_replace))?;
        }
        let Some(finisher) = spec.output.finisher() else { continue };
        new_file::ensure_replaceable(&spec.target, may_replace)?;
        finisher.check_target(spec.target.path())?;
    }
    Ok(())
}

/// Creates a directory if it does not exist. Its parent is not created: a missing parent is more likely a typing error.
pub(super) fn create_directory(path: &Path) -> Result<(), StorageError> {
    match fs::create_dir(path) {
        Err(source) if source.kind() != ErrorKind::AlreadyExists => Err(unusable_directory(path, source)),
        _ => Ok(()),
    }
}

/// The error for a write that failed.
pub(crate) fn write_error(path: &Path, error: io::Error) -> StorageError {
    let what = format!("cannot write to output file '{}'", path.display());
    StorageError::with_source(StorageErrorKind::Io, what, error, "")
}

#[cfg(test)]
mod tests;
