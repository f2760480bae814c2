//! A directory of files named 1, 2, 3 …, each of which appears whole or not at all. One crawl at a time writes to it.

use std::fs::{self, File, TryLockError};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The name a file has while it is being written, where files cannot be written without one. A crash leaves at
/// most this one behind.
pub(in crate::modules) const UNFINISHED: &str = ".page.unfinished";

/// The directory, held open.
#[derive(Debug)]
pub(in crate::modules) struct NumberedDir {
    path: PathBuf,
    /// Open, and locked to keep other crawls out.
    directory: File,
    way: WriteMethod,
}

/// How a file comes to appear whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteMethod {
    /// It gets its name when it is complete: a quarter less work for the system than renaming.
    NamedAtTheEnd,
    /// It is renamed when it is complete: possible everywhere.
    Renamed,
}

impl NumberedDir {
    /// Opens an existing directory and keeps other crawls out of it, and changes nothing in it.
    pub(in crate::modules) fn open(path: &Path) -> Result<NumberedDir, Error> {
        let unusable = |source| Error::Directory { path: path.to_owned(), source };
        if !fs::metadata(path).map_err(unusable)?.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        let directory = File::open(path).map_err(unusable)?;
        // Filesystems that cannot lock are used all the same.
        if let Err(TryLockError::WouldBlock) = directory.try_lock() {
            return Err(Error::InUse { path: path.to_owned() });
        }
        let way = if nameless::can(&directory) { WriteMethod::NamedAtTheEnd } else { WriteMethod::Renamed };
        Ok(NumberedDir { path: path.to_owned(), directory, way })
    }

    /// Refuses a directory that has numbered files.
    pub(in crate::modules) fn refuse_unless_empty(&self) -> Result<(), Error> {
        match self.numbers()?.iter().min() {
            None => Ok(()),
            Some(example) => Err(Error::NotEmpty { path: self.path.clone(), example: example.to_string() }),
        }
    }

    /// Refuses a directory that has not all the files up to a number.
    pub(in crate::modules) fn refuse_unless_whole(&self, last: u64) -> Result<(), Error> {
        let mut numbers = self.numbers()?;
        numbers.sort_unstable();
        // Sorted and without repetition, they are 1, 2, 3 … as far as none is missing.
        let whole = (1..).zip(numbers).take_while(|(expected, number)| expected == number).count() as u64;
        if whole >= last {
            return Ok(());
        }
        Err(lost(&self.path, &format!("has no file {}", whole + 1), last))
    }

    /// Removes the files with larger numbers, and what a crash has left unfinished.
    pub(in crate::modules) fn remove_after(&self, last: u64) -> Result<(), Error> {
        for entry in self.check_after(last)? {
            fs::remove_file(entry).map_err(|source| Error::Directory { path: self.path.clone(), source })?;
        }
        Ok(())
    }

    /// The files with larger numbers, all of which can be removed from a directory that can be written to.
    pub(in crate::modules) fn check_after(&self, last: u64) -> Result<Vec<PathBuf>, Error> {
        let unusable = |source| Error::Directory { path: self.path.clone(), source };
        let later = self.numbers()?.into_iter().filter(|number| *number > last);
        let later: Vec<PathBuf> = later.map(|number| self.name(number)).collect();
        // All are looked at before any is removed: a refusal leaves the directory as it was.
        for entry in &later {
            if !fs::symlink_metadata(entry).map_err(unusable)?.is_file() {
                return Err(Error::PathBlocked { path: entry.clone() });
            }
        }
        // Whether we may write is best known by writing; this also clears what a crash has left behind.
        let unfinished = self.path.join(UNFINISHED);
        if fs::symlink_metadata(&unfinished).is_ok_and(|found| found.is_dir()) {
            return Err(Error::PathBlocked { path: unfinished });
        }
        create_anew(&unfinished).and_then(|_| fs::remove_file(&unfinished)).map_err(unusable)?;
        Ok(later)
    }

    /// Writes a file that does not exist yet, in two parts.
    pub(in crate::modules) fn save(&self, number: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.save_as(&number.to_string(), head, body)
    }

    /// Writes a file, in place of another if there is one.
    pub(in crate::modules) fn replace(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        self.replace_as(&number.to_string(), bytes)
    }

    /// The same with a name that is no number.
    pub(in crate::modules) fn replace_as(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self.save_as(name, b"", bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.save_by_renaming(name, b"", bytes)
            }
            saved => saved,
        }
    }

    /// A handle to sync the files by, while more are written.
    pub(in crate::modules) fn handle(&self) -> io::Result<Handle> {
        Ok(Handle { path: self.path.clone(), directory: self.directory.try_clone()? })
    }

    /// The directory.
    pub(in crate::modules) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file.
    pub(in crate::modules) fn name(&self, number: u64) -> PathBuf {
        self.path.join(number.to_string())
    }

    fn save_as(&self, name: &str, head: &[u8], body: &[u8]) -> io::Result<()> {
        match self.way {
            WriteMethod::NamedAtTheEnd => {
                let mut file = nameless::create(&self.directory)?;
                write(&mut file, head, body)?;
                nameless::name(&file, &self.directory, name)
            }
            WriteMethod::Renamed => self.save_by_renaming(name, head, body),
        }
    }

    fn save_by_renaming(&self, name: &str, head: &[u8], body: &[u8]) -> io::Result<()> {
        let unfinished = self.path.join(UNFINISHED);
        let written = create_anew(&unfinished)
            .and_then(|mut file| write(&mut file, head, body))
            .and_then(|()| fs::rename(&unfinished, self.path.join(name)));
        if written.is_err() {
            // What cannot be removed now is cleared by the next run.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// The numbers that stand as names in the directory, as they are written here.
    fn numbers(&self) -> Result<Vec<u64>, Error> {
        let unusable = |source| Error::Directory { path: self.path.clone(), source };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(unusable)? {
            let name = entry.map_err(unusable)?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.parse().ok().filter(|number: &u64| number.to_string() == name));
            numbers.extend(number.filter(|number| *number > 0));
        }
        Ok(numbers)
    }

    /// The same directory, written to in each way it can be.
    #[cfg(test)]
    pub(in crate::modules) fn each_way(test: impl Fn(&Path, NumberedDir)) {
        for way in [WriteMethod::NamedAtTheEnd, WriteMethod::Renamed] {
            let directory = tempfile::tempdir().unwrap();
            let files = NumberedDir::open(directory.path()).unwrap();
            if way == WriteMethod::Renamed || files.way == way {
                test(directory.path(), NumberedDir { way, ..files });
            }
        }
    }
}

/// A directory to be synced apart from what is written to it.
#[derive(Debug)]
pub(in crate::modules) struct Handle {
    path: PathBuf,
    directory: File,
}

impl Handle {
    /// Asks the system to put all files where a loss of power does not reach them.
    pub(in crate::modules) fn sync(&self) -> io::Result<()> {
        nameless::sync(&self.directory)
    }

    /// The directory.
    pub(in crate::modules) fn path(&self) -> &Path {
        &self.path
    }
}

/// Refuses a directory that should have files and does not even exist.
pub(in crate::modules) fn refuse_if_missing(path: &Path, last: u64) -> Result<(), Error> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(lost(path, "is not there", last)),
        _ => Ok(()),
    }
}

fn lost(path: &Path, what: &str, last: u64) -> Error {
    Error::Output(format!(
        "page directory '{}' {what} where the crawl had written 1 to {last}; put all files back, or begin a new crawl",
        path.display()
    ))
}

/// A new file in the place of whatever has this name. What is there is removed, never opened: it may be a link
/// to a file of somebody else, or a pipe that nobody reads.
fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

fn write(file: &mut File, head: &[u8], body: &[u8]) -> io::Result<()> {
    // Both at once as a rule; whatever a single write leaves over is written after it.
    let written = file.write_vectored(&[IoSlice::new(head), IoSlice::new(body)])?;
    file.write_all(&head[written.min(head.len())..])?;
    file.write_all(&body[written.saturating_sub(head.len())..])
}

/// Files that have no name until they are given one; a crash leaves nothing of them.
#[cfg(target_os = "linux")]
mod nameless {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

    /// Whether this directory can have such files, and their names can be given through /proc.
    pub(in crate::modules) fn can(directory: &File) -> bool {
        create(directory).is_ok_and(|file| std::fs::metadata(handle(&file)).is_ok())
    }

    pub(in crate::modules) fn create(directory: &File) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        Ok(openat(directory, ".", flags, Mode::from_raw_mode(0o666))?.into())
    }

    pub(in crate::modules) fn name(file: &File, directory: &File, name: &str) -> io::Result<()> {
        Ok(linkat(CWD, handle(file), directory, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    pub(in crate::modules) fn sync(directory: &File) -> io::Result<()> {
        Ok(rustix::fs::syncfs(directory)?)
    }

    fn handle(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }
}

#[cfg(not(target_os = "linux"))]
mod nameless {
    use std::fs::File;
    use std::io;

    pub(in crate::modules) fn can(_: &File) -> bool {
        false
    }

    pub(in crate::modules) fn create(_: &File) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::modules) fn name(_: &File, _: &File, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::modules) fn sync(_: &File) -> io::Result<()> {
        rustix::fs::sync();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn larger_numbers_and_unfinished_files_are_removed_and_others_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["1", "2", "3", "27", "notes.txt", "007", "0", UNFINISHED] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let files = NumberedDir::open(directory.path()).unwrap();
        assert!(matches!(files.refuse_unless_empty(), Err(Error::NotEmpty { .. })));
        assert_eq!(names(directory.path()).len(), 8, "nothing is changed before it is asked for");
        files.remove_after(2).unwrap();
        assert_eq!(names(directory.path()), ["0", "007", "1", "2", "notes.txt"]);
        files.remove_after(0).unwrap();
        assert_eq!(names(directory.path()), ["0", "007", "notes.txt"]);
        files.refuse_unless_empty().unwrap();
    }

    #[test]
    fn a_file_is_replaced_whole() {
        NumberedDir::each_way(|path, files| {
            files.replace(1, b"a longer first").unwrap();
            files.replace(1, b"second").unwrap();
            assert_eq!(fs::read(path.join("1")).unwrap(), b"second");
            assert_eq!(names(path), ["1"]);
            files.handle().unwrap().sync().unwrap();
        });
    }
}
