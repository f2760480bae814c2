//! One worker's parts of the outputs of a crawl that many workers share, and what makes one output of them again.
//!
//! The contract with the crawl: what a page adds is [added](Parts::add) *before* the page is completed, so that nothing
//! completed is missing. A worker that dies in between leaves a page behind that another delivers again, on a larger
//! loan: of each ticket the largest loan counts. If the other worker finds no page there, it [withdraws](Parts::withdraw)
//! what may have been left behind.
//!
//! The part of `pages.jsonl` that worker 3 writes is `pages.3.jsonl`, in the format of its module, with an index
//! `pages.3.jsonl.index` beside it; that of a directory `pages` is a directory `pages.3`. [`collect`] merges parts.

mod directory;
mod file;
mod index;
mod merge;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;

pub use self::merge::{Destination, MergeError, MergeReport, collect, parts_of};

use self::directory::DirectoryPart;
use self::file::FilePart;
use self::index::PartHeader;
use super::files::{Handle, Handles};
use super::{OutputSpec, OutputWrite, Target};
use crate::error::Error;

/// Which crawl a part is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlIdentity {
    /// Its name.
    pub name: String,
    /// What tells it from others that had or will have the name.
    pub id: String,
}

/// The open parts of one worker. Other processes are kept out of them.
#[derive(Debug)]
pub struct Parts {
    places: Vec<OpenPart>,
    /// Why nothing is known of the files any more.
    in_doubt: Option<String>,
}

#[derive(Debug)]
enum OpenPart {
    File(FilePart),
    Directory(DirectoryPart),
}

/// What is where a part shall be.
#[derive(Debug, Clone, Copy)]
enum ExistingPart {
    /// Nothing, or nothing that is to be kept.
    Nothing,
    /// A part of this crawl, to go on with.
    Part,
}

impl Parts {
    /// Opens a worker's parts of these outputs. Those of this crawl go on after their last whole page; those of
    /// another, and whatever else is there, are refused, or replaced if `overwrite` says so. If one is refused, none
    /// is changed.
    pub fn open(
        specs: &[OutputSpec],
        worker: u16,
        crawl: &CrawlIdentity,
        overwrite: bool,
    ) -> Result<Parts, Error> {
        let mut places = Vec::with_capacity(specs.len());
        for spec in specs {
            places.push(match part_of(&spec.target, worker)? {
                Target::File(path) => OpenPart::File(FilePart::open(&path)?),
                Target::Directory(path) => OpenPart::Directory(DirectoryPart::open(&path)?),
            });
        }
        let headers: Vec<PartHeader> =
            specs.iter().map(|spec| PartHeader::new(crawl, &*spec.output)).collect();
        // All is looked at before anything is cut off or removed.
        let mut found = Vec::with_capacity(specs.len());
        for (place, header) in places.iter_mut().zip(&headers) {
            found.push(match place {
                OpenPart::File(part) => part.check(header, overwrite)?,
                OpenPart::Directory(part) => part.check(header, overwrite)?,
            });
        }
        for (((place, found), header), spec) in places.iter_mut().zip(found).zip(&headers).zip(specs) {
            match place {
                OpenPart::File(part) => part.begin(found, header, spec.output.header())?,
                OpenPart::Directory(part) => part.begin(found, header)?,
            }
        }
        Ok(Parts { places, in_doubt: None })
    }

    /// Adds what the page of a ticket adds, delivered on this loan. It has been handed to the system on return and
    /// outlives the process. After an error, which names the file, nothing of the page counts, and it can be added
    /// again.
    pub fn add(&mut self, task_id: u64, lease_id: u64, additions: &[(usize, OutputWrite)]) -> io::Result<()> {
        self.check(additions)?;
        let added = self.try_to_add(task_id, lease_id, additions);
        self.settle(added)
    }

    /// Notes that the page of a ticket does not count, whatever has been added on smaller loans: for a URL that was
    /// on loan before and of which there is no page this time.
    pub fn withdraw(&mut self, task_id: u64, lease_id: u64) -> io::Result<()> {
        self.check(&[])?;
        let withdrawn = self.places.iter_mut().try_for_each(|place| match place {
            OpenPart::File(part) => part.name(task_id, lease_id, true),
            OpenPart::Directory(part) => part.withdraw(task_id, lease_id),
        });
        self.settle(withdrawn)
    }

    /// Handles to sync what has been added by, while more is added. An error of the disk is told to one sync and to
    /// no later one: after it, nothing is known of what was written before.
    pub fn handles(&self) -> io::Result<Handles> {
        let mut handles = Vec::new();
        for place in &self.places {
            match place {
                OpenPart::File(part) => handles.extend(part.handles()?),
                OpenPart::Directory(part) => handles.push(Handle::Directory(part.handle()?)),
            }
        }
        Ok(Handles(handles))
    }

    /// Everything added so far outlives a loss of power on return.
    pub fn sync(&self) -> io::Result<()> {
        self.handles()?.sync()
    }

    /// The length of each output's part; 0 for a directory.
    pub fn lengths(&self) -> Vec<u64> {
        let length = |place: &OpenPart| match place {
            OpenPart::File(part) => part.length(),
            OpenPart::Directory(_) => 0,
        };
        self.places.iter().map(length).collect()
    }

    fn try_to_add(
        &mut self,
        task_id: u64,
        lease_id: u64,
        additions: &[(usize, OutputWrite)],
    ) -> io::Result<()> {
        // All is written before any is named, so that a failure can be taken back.
        for (index, addition) in additions {
            match (&mut self.places[*index], addition) {
                (OpenPart::File(part), OutputWrite::Append(bytes)) => part.write(bytes)?,
                (OpenPart::Directory(part), OutputWrite::File(bytes)) => {
                    part.write(task_id, lease_id, bytes)?
                }
                _ => {}
            }
        }
        for (index, _) in additions {
            if let OpenPart::File(part) = &mut self.places[*index] {
                part.name(task_id, lease_id, false)?;
            }
        }
        Ok(())
    }

    /// Keeps what was written, or takes it back if not all could be.
    fn settle(&mut self, written: io::Result<()>) -> io::Result<()> {
        for place in &mut self.places {
            let OpenPart::File(part) = place else { continue };
            if written.is_ok() {
                part.keep();
            } else if let Err(error) = part.take_back() {
                // What would be written now might not be where the index says; opened anew, it is put right.
                self.in_doubt = Some(error.to_string());
            }
        }
        written
    }

    fn check(&self, additions: &[(usize, OutputWrite)]) -> io::Result<()> {
        if let Some(why) = &self.in_doubt {
            return Err(io::Error::other(why.clone()));
        }
        let refuse = |what: String| Err(io::Error::new(ErrorKind::InvalidInput, what));
        for (position, (index, addition)) in additions.iter().enumerate() {
            if additions[..position].iter().any(|(earlier, _)| earlier == index) {
                return refuse(format!("a page adds to output {index} twice"));
            }
            let place = self.places.get(*index);
            addition.check(*index, place.map(|place| matches!(place, OpenPart::Directory(_))))?;
        }
        Ok(())
    }
}

/// A worker's part of an output: `dir/pages.3.jsonl` of `dir/pages.jsonl`, `pages.3` of `pages`.
pub fn part_of(target: &Target, worker: u16) -> Result<Target, Error> {
    let (Target::File(path) | Target::Directory(path)) = target;
    let Some(whole) = path.file_name() else {
        return Err(Error::Output(format!(
            "the parts of output '{}' cannot be named after it; give a path that ends with a name",
            path.display()
        )));
    };
    let is_file = matches!(target, Target::File(_));
    let (stem, extension) = if is_file { split(path) } else { (whole.to_owned(), None) };
    let mut name = stem;
    name.push(format!(".{worker}"));
    if let Some(extension) = extension {
        name.push(".");
        name.push(extension);
    }
    let path = path.with_file_name(name);
    Ok(if is_file { Target::File(path) } else { Target::Directory(path) })
}

/// A file's name before and after its last period.
fn split(path: &Path) -> (OsString, Option<OsString>) {
    let stem = path.file_stem().unwrap_or_default().to_owned();
    (stem, path.extension().map(|extension| extension.to_owned()))
}

impl PartHeader {
    /// In which way a part is not what another header says, if it is not.
    fn is_not(&self, other: &PartHeader) -> Option<String> {
        if !self.is_of_crawl_of(other) {
            let (its, ours) = (self.crawl_in_words(), other.crawl_in_words());
            return Some(format!("it is of {its}, and this is {ours}"));
        }
        ((&self.output, self.head) != (&other.output, other.head))
            .then(|| format!("it is of module '{}', and this is '{}'", self.output, other.output))
    }
}

/// What stands where a part shall be, and is not to be replaced unasked.
fn refused(path: &Path, why: &str) -> Error {
    Error::Output(format!(
        "cannot write to part '{}': {why}; move it away with its index, name another output, or give --overwrite to \
         replace it",
        path.display()
    ))
}

/// A part of this very crawl that is not as it was left. Nothing replaces it: a worker that is started again is told to
/// overwrite as it was the first time.
fn kept(path: &Path, why: &str) -> Error {
    Error::Output(format!(
        "cannot go on with part '{}': {why}; put back the part and its index as they were, or move both away and \
         keep them for 'crawler collect'",
        path.display()
    ))
}

#[cfg(test)]
mod tests;
