//! Where what is collected is written: a file that appears whole or not at all, a directory, or a stream.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::{Destination, MergeError};
use crate::modules::output::files::{make_directory, named};
use crate::modules::output::numbered_dir::NumberedDir;

/// What pages are written to.
pub(super) enum Sink<'w> {
    File(NewFile),
    Directory { files: NumberedDir, last: u64 },
    Stream(BufWriter<&'w mut dyn Write>),
}

/// A file that gets its name when it is complete.
pub(super) struct NewFile {
    path: PathBuf,
    unfinished: PathBuf,
    writer: BufWriter<File>,
    /// It has its name, and what has the other one is not ours any more.
    finished: bool,
}

impl<'w> Sink<'w> {
    /// Opens the destination; refuses one that has something in it, unless it may be replaced.
    pub(super) fn open(
        to: Destination<'w>,
        directory: bool,
        overwrite: bool,
    ) -> Result<Sink<'w>, MergeError> {
        match to {
            Destination::Path(path) if directory => open_directory(path, overwrite),
            Destination::Path(path) => NewFile::open(path, overwrite).map(Sink::File),
            Destination::Stream(_) if directory => Err(MergeError::Refused(
                "the parts are directories, which cannot be printed; name a directory as output".into(),
            )),
            Destination::Stream(stream) => Ok(Sink::Stream(BufWriter::new(stream))),
        }
    }

    /// What stands before any page.
    pub(super) fn head(&mut self, head: &[u8]) -> io::Result<()> {
        match self {
            Sink::Directory { .. } => Ok(()),
            Sink::File(_) | Sink::Stream(_) => self.page(head),
        }
    }

    /// The next page.
    pub(super) fn page(&mut self, page: &[u8]) -> io::Result<()> {
        match self {
            Sink::File(file) => file.writer.write_all(page).map_err(|error| named(&file.path, &error)),
            Sink::Directory { files, last } => {
                let number = *last + 1;
                files.save(number, b"", page).map_err(|error| named(&files.name(number), &error))?;
                *last = number;
                Ok(())
            }
            Sink::Stream(stream) => stream.write_all(page),
        }
    }

    /// Everything is written, and outlives a loss of power where it is a file.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Sink::File(mut file) => file.finish().map_err(|error| named(&file.path, &error)),
            Sink::Directory { files, .. } => {
                files.handle().and_then(|it| it.sync()).map_err(|error| named(files.path(), &error))
            }
            Sink::Stream(mut stream) => stream.flush(),
        }
    }
}

fn open_directory<'w>(path: &Path, overwrite: bool) -> Result<Sink<'w>, MergeError> {
    let refused = |error: crate::Error| MergeError::Refused(error.to_string());
    make_directory(path).map_err(refused)?;
    let files = NumberedDir::open(path).map_err(refused)?;
    if !overwrite {
        files.refuse_unless_empty().map_err(refused)?;
    }
    files.remove_after(0).map_err(refused)?;
    Ok(Sink::Directory { files, last: 0 })
}

impl NewFile {
    fn open(path: &Path, overwrite: bool) -> Result<NewFile, MergeError> {
        let refused = |why: &str, remedy: &str| {
            MergeError::Refused(format!("cannot write to output file '{}': {why}; {remedy}", path.display()))
        };
        match fs::metadata(path) {
            Ok(found) if !found.is_file() => {
                let why = "it is not a regular file ('-' is standard output)";
                return Err(refused(why, "name a file you may write to"));
            }
            Ok(found) if found.len() > 0 && !overwrite => {
                let why = format!("it exists and holds {} bytes", found.len());
                return Err(refused(&why, "name another, or give --overwrite to replace it"));
            }
            _ => {}
        }
        let Some(name) = path.file_name() else {
            return Err(refused("it has no name", "name a file you may write to"));
        };
        let mut unfinished = std::ffi::OsString::from(".");
        unfinished.push(name);
        unfinished.push(".unfinished");
        let unfinished = path.with_file_name(unfinished);
        match create(&unfinished) {
            Ok(file) => Ok(NewFile {
                path: path.to_owned(),
                unfinished,
                writer: BufWriter::new(file),
                finished: false,
            }),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::AlreadyExists) => {
                Err(refused("another process is collecting into it", "wait for its end or name another"))
            }
            Err(error) => Err(refused(&error.to_string(), "name a file you may write to")),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.writer.flush()?;
        self.writer.get_ref().sync_all()?;
        fs::rename(&self.unfinished, &self.path)?;
        self.finished = true;
        Ok(())
    }
}

/// A new file, locked, in the place of what an earlier process has left unfinished.
fn create(path: &Path) -> io::Result<File> {
    // Nothing but a file is opened: it may be a link to a file of somebody else, or a pipe that nobody reads.
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
        && let Err(TryLockError::WouldBlock) = File::open(path)?.try_lock()
    {
        return Err(ErrorKind::WouldBlock.into());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::create_new(path)?;
    // Filesystems that cannot lock are used all the same.
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
        _ => Ok(file),
    }
}

/// What could not be finished leaves nothing behind.
impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}
