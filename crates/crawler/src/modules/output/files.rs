//! The output files of a crawl, in which each page is exactly once, whatever died when.
//!
//! The contract with durable state: the commit that completes page `id` records what the page adds; after it, and
//! in the order of the ids, the additions are [applied](OutputFiles::apply). Now and then the files are
//! [flushed](OutputFiles::flush) (or [synced](OutputFiles::sync), where a loss of power matters too), and *then* the
//! state notes the lengths and the last id, and forgets the recorded additions up to it. A resume
//! [opens](OutputFiles::open) the files with the lengths and the id that were noted, which cuts off everything
//! later, and applies the additions recorded since. The bytes are the same as without the interruption.
//!
//! A crawl in memory applies in the same way and never resumes.

pub(super) mod append;

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use self::append::AppendFile;
use super::numbered_dir::{self, NumberedDir};
use super::{OutputSpec, OutputWrite, Target};
use crate::error::Error;

/// How a crawl finds its output files.
#[derive(Debug, Clone, Copy)]
pub enum Start<'c> {
    /// They must be new or empty.
    Fresh,
    /// What earlier crawls wrote is removed.
    Overwrite,
    /// They are put back to a state that is known to be written.
    Resumed {
        /// The length of each output's file, in the order of the outputs; that of a directory is not looked at.
        committed: &'c [u64],
        /// The last page whose additions are in the files.
        last_id: u64,
    },
}

/// The open files of all outputs of a crawl. Other crawls are kept out of them.
#[derive(Debug)]
pub struct OutputFiles {
    places: Vec<OpenOutput>,
    last_id: u64,
}

#[derive(Debug)]
enum OpenOutput {
    File(AppendFile),
    Directory(NumberedDir),
}

/// The files and directories of all outputs, to be synced apart from what is written to them.
#[derive(Debug)]
pub struct Handles(pub(super) Vec<Handle>);

/// One of them.
#[derive(Debug)]
pub(super) enum Handle {
    File(PathBuf, File),
    Directory(numbered_dir::Handle),
}

impl Handles {
    /// Asks the system to put everything flushed where a loss of power does not reach it.
    pub fn sync(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|handle| match handle {
            Handle::File(path, file) => file.sync_data().map_err(|error| named(path, &error)),
            Handle::Directory(files) => files.sync().map_err(|error| named(files.path(), &error)),
        })
    }
}

impl OutputFiles {
    /// Opens the files of these outputs. If one is refused, none is changed.
    pub fn open(specs: &[OutputSpec], start: Start) -> Result<OutputFiles, Error> {
        if let Start::Resumed { committed, .. } = start
            && committed.len() != specs.len()
        {
            return Err(Error::Output(format!(
                "the crawl was begun with {} output modules and is resumed with {}; give the same",
                committed.len(),
                specs.len()
            )));
        }
        let mut places = Vec::with_capacity(specs.len());
        for (index, spec) in specs.iter().enumerate() {
            places.push(OpenOutput::open(&spec.target, start, index)?);
        }
        // All is looked at before anything is cut off or removed.
        for place in &places {
            place.check(start)?;
        }
        for (index, place) in places.iter_mut().enumerate() {
            place.begin(start, index)?;
        }
        for (place, spec) in places.iter_mut().zip(specs) {
            place.put_head(spec.output.header());
        }
        let last_id = if let Start::Resumed { last_id, .. } = start { last_id } else { 0 };
        Ok(OutputFiles { places, last_id })
    }

    /// Adds what page `id` adds, and returns the length of each file with it. Pages come in the order of their ids,
    /// without holes; one that is in the files already is left as it is. After an error, which names the file,
    /// nothing of the page counts, and it can be applied again.
    pub fn apply(&mut self, id: u64, additions: &[(usize, OutputWrite)]) -> io::Result<Vec<u64>> {
        if id <= self.last_id {
            return Ok(self.lengths());
        }
        self.check(id, additions)?;
        // What can fail comes first, so that there is nothing to take back.
        for place in &mut self.places {
            place.make_room()?;
        }
        for (index, addition) in additions {
            if let (OpenOutput::Directory(files), OutputWrite::File(bytes)) = (&self.places[*index], addition)
            {
                files.replace(id, bytes).map_err(|error| named(&files.name(id), &error))?;
            }
        }
        for (index, addition) in additions {
            if let (OpenOutput::File(file), OutputWrite::Append(bytes)) = (&mut self.places[*index], addition)
            {
                file.append(bytes);
            }
        }
        self.last_id = id;
        Ok(self.lengths())
    }

    /// Hands everything applied to the system: it outlives the process. After an error it can be tried again.
    pub fn flush(&mut self) -> io::Result<()> {
        self.places.iter_mut().try_for_each(|place| match place {
            OpenOutput::File(file) => file.flush(),
            OpenOutput::Directory(_) => Ok(()),
        })
    }

    /// As [`flush`](OutputFiles::flush), and everything applied outlives a loss of power.
    pub fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.handles()?.sync()
    }

    /// Handles to sync what has been flushed by, while more is applied. An error of the disk is told to one sync and
    /// to no later one: after it, nothing is known of what was written before.
    pub fn handles(&self) -> io::Result<Handles> {
        let handle = |place: &OpenOutput| match place {
            OpenOutput::File(file) => file.handle(),
            OpenOutput::Directory(files) => {
                files.handle().map_err(|error| named(files.path(), &error)).map(Handle::Directory)
            }
        };
        Ok(Handles(self.places.iter().map(handle).collect::<io::Result<_>>()?))
    }

    /// The length of each output's file with everything applied; 0 for a directory.
    pub fn lengths(&self) -> Vec<u64> {
        let length = |place: &OpenOutput| match place {
            OpenOutput::File(file) => file.length(),
            OpenOutput::Directory(_) => 0,
        };
        self.places.iter().map(length).collect()
    }

    /// The last page applied; 0 before the first.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    fn check(&self, id: u64, additions: &[(usize, OutputWrite)]) -> io::Result<()> {
        let refuse = |what: String| Err(io::Error::new(ErrorKind::InvalidInput, what));
        if id != self.last_id + 1 {
            return refuse(format!("page {id} was to be written after page {}", self.last_id));
        }
        for (index, addition) in additions {
            let place = self.places.get(*index);
            addition.check(*index, place.map(|place| matches!(place, OpenOutput::Directory(_))))?;
        }
        Ok(())
    }
}

impl OpenOutput {
    /// Opens and checks, and changes nothing that exists.
    fn open(target: &Target, start: Start, index: usize) -> Result<OpenOutput, Error> {
        match target {
            Target::File(path) => {
                let file = AppendFile::open(path)?;
                match start {
                    Start::Fresh => file.refuse_unless_empty()?,
                    Start::Overwrite => {}
                    Start::Resumed { committed, .. } => file.refuse_if_shorter(committed[index])?,
                }
                Ok(OpenOutput::File(file))
            }
            Target::Directory(path) => {
                match start {
                    Start::Resumed { last_id, .. } if last_id > 0 => {
                        numbered_dir::refuse_if_missing(path, last_id)?;
                    }
                    _ => make_directory(path)?,
                }
                let files = NumberedDir::open(path)?;
                if let Start::Fresh = start {
                    files.refuse_unless_empty()?;
                }
                Ok(OpenOutput::Directory(files))
            }
        }
    }

    /// Refuses a directory that [`begin`](Place::begin) could not go on with.
    fn check(&self, start: Start) -> Result<(), Error> {
        match self {
            OpenOutput::File(_) => Ok(()),
            OpenOutput::Directory(files) => {
                let last_id = if let Start::Resumed { last_id, .. } = start { last_id } else { 0 };
                files.refuse_unless_whole(last_id)?;
                files.check_after(last_id).map(drop)
            }
        }
    }

    /// Removes what is later than the start.
    fn begin(&mut self, start: Start, index: usize) -> Result<(), Error> {
        let (length, last_id) = match start {
            Start::Resumed { committed, last_id } => (committed[index], last_id),
            Start::Fresh | Start::Overwrite => (0, 0),
        };
        match self {
            OpenOutput::File(file) => file.begin(length),
            OpenOutput::Directory(files) => files.remove_after(last_id),
        }
    }

    fn put_head(&mut self, head: &[u8]) {
        if let OpenOutput::File(file) = self {
            file.put_head(head);
        }
    }

    fn make_room(&mut self) -> io::Result<()> {
        match self {
            OpenOutput::File(file) => file.make_room(),
            OpenOutput::Directory(_) => Ok(()),
        }
    }
}

/// Makes a directory if it is missing, as a file is made. A missing parent is more likely a slip of the pen.
pub(super) fn make_directory(path: &Path) -> Result<(), Error> {
    match fs::create_dir(path) {
        Err(source) if source.kind() != ErrorKind::AlreadyExists => {
            Err(Error::Directory { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// The error with the name of the file.
pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to output file '{}': {error}", path.display()))
}

#[cfg(test)]
mod tests;
