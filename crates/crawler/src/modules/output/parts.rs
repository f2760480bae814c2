//! One worker's part files of the outputs of a distributed crawl, and the merge of the part files into one output.
//!
//! The protocol with the crawl:
//!
//! - A worker [adds](Parts::add) what a URL writes *before* it completes the URL's task, so that nothing completed is missing.
//! - If the worker crashes in between, another worker processes the task again under a larger lease id. For each task,
//!   the largest lease id counts.
//! - If that worker has nothing to write to an output, because it finds no page at the URL, it retracts what the crashed worker
//!   may have added to the output.
//! - A try that failed and is repeated has an id of its own, under which outputs that archive requests keep it. So has a lease that is
//!   returned after requests, such as one for a robots.txt that cannot be fetched.
//!
//! Worker 3's part of `pages.jsonl` is `pages.3.jsonl`, in the format of its module, with the index
//! `pages.3.jsonl.index` next to it. Its part of a directory `pages` is the directory `pages.3`. Its part of an output that is
//! made at the end is a records file, `pages.3.parquet.records`. [`merge`](merge()) merges the parts.

mod directory;
mod file;
mod index;
mod merge;

use std::ffi::OsString;
use std::path::Path;

pub use self::index::has_index;
pub use self::merge::{Destination, MergeError, MergeReport, end_merge, merge, merge_with_files, parts_of};

use self::directory::DirectoryPart;
use self::file::FilePart;
use self::index::PartHeader;
use super::files::{SyncHandle, SyncHandles};
use super::finish::records_path;
use super::{OutputSpec, OutputWrite, Target};
use crate::error::{StorageError, StorageErrorKind};
use crate::warc::encoding::Encoding;

/// Task ids are smaller than two to this power. The bits above are the number of a try that was not the last one, or [`RETURNED`].
const TASK_ID_BITS: u32 = 56;

/// Stands for what a lease wrote that was returned. A task may have several of them, and each counts.
const RETURNED: u64 = 0xFF;

/// The crawl that a part belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlIdentity {
    /// The crawl's name.
    pub name: String,
    /// A unique id, which differs from those of earlier and later crawls of the same name.
    pub id: String,
}

/// The open parts of one worker, locked against other processes.
#[derive(Debug)]
pub struct Parts {
    parts: Vec<OpenPart>,
    /// Set if a failed write could not be rolled back. The content of the files is unknown from then on.
    rollback_error: Option<StorageError>,
}

#[derive(Debug)]
enum OpenPart {
    File(FilePart),
    Directory(DirectoryPart),
}

/// What a worker found at the path of a part.
#[derive(Debug, Clone, Copy)]
enum ExistingPart {
    /// Nothing, or something to replace.
    Nothing,
    /// A part of this crawl, to continue.
    Part,
}

impl Parts {
    /// Opens a worker's parts of the outputs.
    ///
    /// A part of this crawl continues after its last complete page. Anything else at the path is rejected, or replaced
    /// if `overwrite` is set. If one part is rejected, none is changed.
    pub fn open(
        specs: &[OutputSpec],
        worker: u16,
        crawl: &CrawlIdentity,
        overwrite: bool,
    ) -> Result<Parts, StorageError> {
        let mut parts = Vec::with_capacity(specs.len());
        for spec in specs {
            parts.push(match written_part(spec, worker)? {
                Target::File(path) => OpenPart::File(FilePart::open(&path)?),
                Target::Directory(path) => OpenPart::Directory(DirectoryPart::open(&path)?),
            });
        }
        let headers: Vec<PartHeader> = specs.iter().map(|spec| PartHeader::new(crawl, spec)).collect();
        // Check all parts before truncating or removing anything.
        let mut existing = Vec::with_capacity(specs.len());
        for (part, header) in parts.iter_mut().zip(&headers) {
            existing.push(match part {
                OpenPart::File(part) => part.check(header, overwrite)?,
                OpenPart::Directory(part) => part.check(header, overwrite)?,
            });
        }
        for (((part, existing), header), spec) in parts.iter_mut().zip(existing).zip(&headers).zip(specs) {
            match part {
                OpenPart::File(part) => part.start(existing, header, &spec.header())?,
                OpenPart::Directory(part) => part.start(existing, header)?,
            }
        }
        Ok(Parts { parts, rollback_error: None })
    }

    /// Checks that a crawl that does not exist yet can use the parts of a worker. Changes and creates nothing.
    pub fn check_unused(
        specs: &[OutputSpec],
        worker: u16,
        crawl: &CrawlIdentity,
        overwrite: bool,
    ) -> Result<(), StorageError> {
        for spec in specs {
            let header = PartHeader::new(crawl, spec);
            match written_part(spec, worker)? {
                Target::File(path) if path.exists() => {
                    FilePart::open(&path)?.check(&header, overwrite)?;
                }
                Target::Directory(path) if path.exists() => {
                    DirectoryPart::open(&path)?.check(&header, overwrite)?;
                }
                Target::File(_) | Target::Directory(_) => {}
            }
        }
        Ok(())
    }

    /// Adds what the URL of a task writes to the outputs, processed under this lease. From outputs to which it writes nothing,
    /// what it wrote under smaller lease ids is retracted.
    ///
    /// On return this is handed to the operating system and survives a crash of the process. After an error, which
    /// names the file, nothing of it counts, and it can be added again.
    pub fn add(
        &mut self,
        task_id: u64,
        lease_id: u64,
        writes: &[(usize, OutputWrite)],
    ) -> Result<(), StorageError> {
        self.add_to(task_id, lease_id, writes, |_| true)
    }

    /// Adds what a try to fetch the URL of a task writes to these outputs, if the URL is fetched again: under an id of its own, so that
    /// what later leases write does not replace it. If nothing is given, what this try wrote under smaller lease ids is retracted.
    pub fn add_try(
        &mut self,
        (task_id, attempts): (u64, u8),
        lease_id: u64,
        writes: &[(usize, OutputWrite)],
        outputs: impl Fn(usize) -> bool,
    ) -> Result<(), StorageError> {
        let try_id = task_id | (u64::from(attempts) + 1) << TASK_ID_BITS;
        self.add_to(try_id, lease_id, writes, outputs)
    }

    /// Adds what a lease of a task writes to these outputs that is returned: what later leases write does not replace it.
    pub fn add_returned(
        &mut self,
        task_id: u64,
        lease_id: u64,
        writes: &[(usize, OutputWrite)],
        outputs: impl Fn(usize) -> bool,
    ) -> Result<(), StorageError> {
        self.add_to(task_id | RETURNED << TASK_ID_BITS, lease_id, writes, outputs)
    }

    fn add_to(
        &mut self,
        id: u64,
        lease_id: u64,
        writes: &[(usize, OutputWrite)],
        outputs: impl Fn(usize) -> bool,
    ) -> Result<(), StorageError> {
        self.check(writes)?;
        let written = self.write_to(id, lease_id, writes, outputs);
        self.commit_or_roll_back(written)
    }

    /// Handles to fsync what has been added, while more pages are added.
    ///
    /// The operating system reports a failed write to one fsync only; a later fsync succeeds. After a failed fsync it
    /// is unknown what was written.
    pub fn handles(&self) -> Result<SyncHandles, StorageError> {
        let mut handles = Vec::new();
        for part in &self.parts {
            match part {
                OpenPart::File(part) => handles.extend(part.handles()?),
                OpenPart::Directory(part) => handles.push(SyncHandle::Directory(part.handle()?)),
            }
        }
        Ok(SyncHandles(handles))
    }

    /// Fsyncs everything added so far, so that it survives a power failure.
    pub fn sync(&self) -> Result<(), StorageError> {
        self.handles()?.sync()
    }

    /// The length of each output's part file; 0 for a directory.
    pub fn lengths(&self) -> Vec<u64> {
        let length = |part: &OpenPart| match part {
            OpenPart::File(part) => part.length(),
            OpenPart::Directory(_) => 0,
        };
        self.parts.iter().map(length).collect()
    }

    fn write_to(
        &mut self,
        task_id: u64,
        lease_id: u64,
        writes: &[(usize, OutputWrite)],
        outputs: impl Fn(usize) -> bool,
    ) -> Result<(), StorageError> {
        // Write the page to all outputs before any index names it, so that a failure can be rolled back.
        for (index, write) in writes {
            match (&mut self.parts[*index], write) {
                (OpenPart::File(part), OutputWrite::Append(bytes)) => part.write(bytes)?,
                (OpenPart::Directory(part), OutputWrite::File(bytes)) => {
                    part.write(task_id, lease_id, bytes)?
                }
                _ => {}
            }
        }
        for (index, part) in self.parts.iter_mut().enumerate().filter(|(index, _)| outputs(*index)) {
            let has_written = writes.iter().any(|(written, _)| *written == index);
            match part {
                OpenPart::File(part) => part.append_to_index(task_id, lease_id, !has_written)?,
                OpenPart::Directory(part) if !has_written => part.retract(task_id, lease_id)?,
                OpenPart::Directory(_) => {}
            }
        }
        Ok(())
    }

    /// Commits what was written, or rolls all outputs back if one write failed.
    fn commit_or_roll_back(&mut self, written: Result<(), StorageError>) -> Result<(), StorageError> {
        for part in &mut self.parts {
            let OpenPart::File(part) = part else { continue };
            if written.is_ok() {
                part.commit();
            } else if let Err(error) = part.roll_back() {
                // The index no longer matches the positions of further writes. The next open repairs the part.
                self.rollback_error = Some(error);
            }
        }
        written
    }

    fn check(&self, writes: &[(usize, OutputWrite)]) -> Result<(), StorageError> {
        if let Some(error) = &self.rollback_error {
            return Err(error.clone());
        }
        for (position, (index, write)) in writes.iter().enumerate() {
            if writes[..position].iter().any(|(earlier, _)| earlier == index) {
                let twice = format!("cannot write to output {index}: the page writes to it twice");
                return Err(StorageError::new(StorageErrorKind::Internal, twice));
            }
            let part = self.parts.get(*index);
            write.check(*index, part.map(|part| matches!(part, OpenPart::Directory(_))))?;
        }
        Ok(())
    }
}

/// What a worker writes for an output: its part, or the records file of its part if the output is made at the end.
fn written_part(spec: &OutputSpec, worker: u16) -> Result<Target, StorageError> {
    let part = part_of(&spec.target, worker)?;
    Ok(match spec.output.finisher() {
        Some(_) => Target::File(records_path(part.path())),
        None => part,
    })
}

/// A worker's part of an output: `dir/pages.3.jsonl` of `dir/pages.jsonl`, `pages.3` of `pages`.
fn part_of(target: &Target, worker: u16) -> Result<Target, StorageError> {
    let path = target.path();
    let Some(file_name) = path.file_name() else {
        let message = format!(
            "cannot write part files of output '{}': the path has no file name; give a path that ends with a name",
            path.display()
        );
        return Err(StorageError::new(StorageErrorKind::Unusable, message));
    };
    let is_file = matches!(target, Target::File(_));
    let (stem, extension) = if is_file { split(path) } else { (file_name.to_owned(), None) };
    let mut name = stem;
    name.push(format!(".{worker}"));
    if let Some(extension) = extension {
        name.push(".");
        name.push(extension);
    }
    let path = path.with_file_name(name);
    Ok(if is_file { Target::File(path) } else { Target::Directory(path) })
}

/// A file name's stem and extension; of an archive, with the extension before that of its compression.
fn split(path: &Path) -> (OsString, Option<OsString>) {
    if let Some((encoding, stem)) = Encoding::from_path(path) {
        return (stem.into(), Some(encoding.extension().trim_start_matches('.').into()));
    }
    let stem = path.file_stem().unwrap_or_default().to_owned();
    (stem, path.extension().map(|extension| extension.to_owned()))
}

impl PartHeader {
    /// How a part's header differs from the expected one, if it does.
    fn mismatch(&self, expected: &PartHeader) -> Option<String> {
        if !self.is_same_crawl(expected) {
            let (its, ours) = (self.describe_crawl(), expected.describe_crawl());
            return Some(format!("it belongs to {its}, and this is {ours}"));
        }
        ((&self.output, self.header_length) != (&expected.output, expected.header_length))
            .then(|| format!("it belongs to module '{}', and this is '{}'", self.output, expected.output))
    }
}

/// The error for a path that is occupied by something other than a part of this crawl.
fn occupied(path: &Path, cause: &str) -> StorageError {
    let message = format!(
        "cannot write to part '{}': {cause}; move it away with its index, name another output, or \
         overwrite it",
        path.display()
    );
    StorageError::new(StorageErrorKind::AlreadyExists, message)
}

/// The error for a part of this crawl that was changed or damaged. Overwriting does not replace it: a restarted
/// worker gets the same options as on its first start, so that is no sign that the pages are to be deleted.
fn cannot_resume(path: &Path, cause: &str) -> StorageError {
    let message = format!(
        "cannot resume part '{}': {cause}; restore the part and its index, or move both away and keep them for \
         merging",
        path.display()
    );
    StorageError::new(StorageErrorKind::Damaged, message)
}

#[cfg(test)]
mod tests;
