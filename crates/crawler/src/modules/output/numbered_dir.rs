//! A directory of files named 1, 2, 3 …, or `1.md`, `2.md` …, each created atomically. One crawl at a time writes to it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use crate::error::{StorageError, StorageErrorKind, unusable_directory};
use crate::file_lock;

/// The temporary name of a file while it is written, on systems without unnamed files. A crash leaves at most this one
/// file behind.
pub(in crate::modules) const UNFINISHED: &str = ".page.unfinished";

/// The open directory.
#[derive(Debug)]
pub(in crate::modules) struct NumberedDir {
    path: PathBuf,
    /// The end of each file's name, such as `.md`. Files with other ends do not count.
    extension: String,
    /// Locked against other crawls.
    directory: File,
    method: WriteMethod,
}

/// How a file is created atomically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteMethod {
    /// An unnamed file is linked to its name when it is complete. Costs a quarter less system time than a rename.
    LinkUnnamed,
    /// A temporary file is renamed when it is complete. Works everywhere.
    RenameTemporary,
}

impl NumberedDir {
    /// Opens and locks an existing directory, and does not change its content.
    pub(in crate::modules) fn open(path: &Path) -> Result<NumberedDir, StorageError> {
        let unusable = |source| unusable_directory(path, source);
        if !fs::metadata(path).map_err(unusable)?.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        let directory = File::open(path).map_err(unusable)?;
        if !file_lock::lock(&directory) {
            let message = format!(
                "another crawl is writing to directory '{}'; wait for its end, or name another directory",
                path.display()
            );
            return Err(StorageError::new(StorageErrorKind::InUse, message));
        }
        let method = if unnamed_file::is_supported(&directory) {
            WriteMethod::LinkUnnamed
        } else {
            WriteMethod::RenameTemporary
        };
        Ok(NumberedDir { path: path.to_owned(), extension: String::new(), directory, method })
    }

    /// The same directory with files whose names end so.
    pub(in crate::modules) fn with_extension(self, extension: &[u8]) -> NumberedDir {
        NumberedDir { extension: String::from_utf8_lossy(extension).into_owned(), ..self }
    }

    /// Rejects a directory that has numbered files.
    pub(in crate::modules) fn ensure_empty(&self) -> Result<(), StorageError> {
        match self.numbers()?.iter().min() {
            None => Ok(()),
            Some(example) => {
                let message = format!(
                    "directory '{}' contains pages of an earlier crawl (file {}); name another directory, or \
                     overwrite them",
                    self.path.display(),
                    self.file_name(*example)
                );
                Err(StorageError::new(StorageErrorKind::AlreadyExists, message))
            }
        }
    }

    /// Rejects a directory in which one of the files after `earlier`, up to `last`, is missing.
    pub(in crate::modules) fn ensure_complete(&self, earlier: u64, last: u64) -> Result<(), StorageError> {
        let mut numbers = self.numbers()?;
        numbers.retain(|number| *number > earlier);
        numbers.sort_unstable();
        // The sorted numbers are distinct: they are consecutive up to the first one missing.
        let expected = earlier.saturating_add(1)..;
        let complete = expected.zip(numbers).take_while(|(expected, number)| expected == number).count()
            as u64
            + earlier;
        if complete >= last {
            return Ok(());
        }
        Err(missing_pages(
            &self.path,
            &format!("it has no file {}", self.file_name(complete + 1)),
            earlier,
            last,
        ))
    }

    /// Removes the files with larger numbers, and the temporary file that a crash may have left.
    pub(in crate::modules) fn remove_after(&self, last: u64) -> Result<(), StorageError> {
        for entry in self.removable_after(last)? {
            fs::remove_file(entry).map_err(|source| unusable_directory(&self.path, source))?;
        }
        Ok(())
    }

    /// The files with numbers larger than `last`. Fails if one of them cannot be removed.
    pub(in crate::modules) fn removable_after(&self, last: u64) -> Result<Vec<PathBuf>, StorageError> {
        let unusable = |source| unusable_directory(&self.path, source);
        let later = self.numbers()?.into_iter().filter(|number| *number > last);
        let later: Vec<PathBuf> = later.map(|number| self.page_path(number)).collect();
        // Check all before any is removed, so that an error leaves the directory unchanged.
        for entry in &later {
            if !fs::symlink_metadata(entry).map_err(unusable)?.is_file() {
                return Err(blocked(entry));
            }
        }
        // A test write is the surest check for permission. It also removes a temporary file left by a crash.
        let unfinished = self.path.join(UNFINISHED);
        if fs::symlink_metadata(&unfinished).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(blocked(&unfinished));
        }
        replace_with_new(&unfinished).and_then(|_| fs::remove_file(&unfinished)).map_err(unusable)?;
        Ok(later)
    }

    /// Writes a new file: `head`, then `body`.
    pub(in crate::modules) fn save(&self, number: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.save_as(&self.file_name(number), head, body)
    }

    /// Writes a file, replacing an existing one.
    pub(in crate::modules) fn replace(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        self.replace_as(&self.file_name(number), bytes)
    }

    /// As [`replace`](NumberedDir::replace), with a name that is not a number.
    pub(in crate::modules) fn replace_as(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self.save_as(name, b"", bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.save_by_renaming(name, b"", bytes)
            }
            saved => saved,
        }
    }

    /// A handle to fsync the files while more are written.
    pub(in crate::modules) fn handle(&self) -> io::Result<DirSyncHandle> {
        Ok(DirSyncHandle { path: self.path.clone(), directory: self.directory.try_clone()? })
    }

    /// The path of the directory.
    pub(in crate::modules) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a page's file.
    pub(in crate::modules) fn page_path(&self, number: u64) -> PathBuf {
        self.path.join(self.file_name(number))
    }

    fn file_name(&self, number: u64) -> String {
        format!("{number}{}", self.extension)
    }

    fn save_as(&self, name: &str, head: &[u8], body: &[u8]) -> io::Result<()> {
        match self.method {
            WriteMethod::LinkUnnamed => {
                let mut file = unnamed_file::create(&self.directory)?;
                write(&mut file, head, body)?;
                unnamed_file::link(&file, &self.directory, name)
            }
            WriteMethod::RenameTemporary => self.save_by_renaming(name, head, body),
        }
    }

    fn save_by_renaming(&self, name: &str, head: &[u8], body: &[u8]) -> io::Result<()> {
        let unfinished = self.path.join(UNFINISHED);
        let written = replace_with_new(&unfinished)
            .and_then(|mut file| write(&mut file, head, body))
            .and_then(|()| fs::rename(&unfinished, self.path.join(name)));
        if written.is_err() {
            // If the removal fails, the next run removes the file.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// The numbers that are file names in the directory, without leading zeros.
    fn numbers(&self) -> Result<Vec<u64>, StorageError> {
        let unusable = |source| unusable_directory(&self.path, source);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(unusable)? {
            let name = entry.map_err(unusable)?.file_name();
            numbers.extend(self.number_of(&name));
        }
        Ok(numbers)
    }

    /// The number of the file with this name, if it is one without leading zeros.
    fn number_of(&self, name: &OsStr) -> Option<u64> {
        let name = name.to_str()?.strip_suffix(&*self.extension)?;
        name.parse().ok().filter(|number: &u64| *number > 0 && number.to_string() == name)
    }

    /// Rejects the path of another output if the file is one of this directory.
    pub(in crate::modules) fn ensure_not_in(&self, path: &Path) -> Result<(), StorageError> {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let new_file = || {
            let directory = fs::canonicalize(directory.unwrap_or(Path::new(".")))?;
            Ok::<_, io::Error>(directory.join(path.file_name().unwrap_or_default()))
        };
        let is_here =
            |file: &PathBuf| fs::canonicalize(&self.path).is_ok_and(|own| file.parent() == Some(&own));
        let file = fs::canonicalize(path).or_else(|_| new_file()).ok().filter(is_here);
        let name = file.as_ref().and_then(|file| file.file_name());
        if name.is_none_or(|name| self.number_of(name).is_none() && name != UNFINISHED) {
            return Ok(());
        }
        let message = format!(
            "cannot write to output file '{}': it is the file of a page; name another file",
            path.display()
        );
        Err(StorageError::new(StorageErrorKind::InUse, message))
    }

    /// Runs a test with each write method that the system supports.
    #[cfg(test)]
    pub(in crate::modules) fn with_each_method(test: impl Fn(&Path, NumberedDir)) {
        for method in [WriteMethod::LinkUnnamed, WriteMethod::RenameTemporary] {
            let directory = tempfile::tempdir().unwrap();
            let files = NumberedDir::open(directory.path()).unwrap();
            if method == WriteMethod::RenameTemporary || files.method == method {
                test(directory.path(), NumberedDir { method, ..files });
            }
        }
    }
}

/// A directory to fsync while another thread writes to it.
#[derive(Debug)]
pub(in crate::modules) struct DirSyncHandle {
    path: PathBuf,
    directory: File,
}

impl DirSyncHandle {
    /// Fsyncs all files of the directory.
    pub(in crate::modules) fn sync(&self) -> io::Result<()> {
        unnamed_file::sync(&self.directory)
    }

    /// The path of the directory.
    pub(in crate::modules) fn path(&self) -> &Path {
        &self.path
    }
}

/// Rejects a directory that does not exist although the crawl has written files to it.
pub(in crate::modules) fn ensure_exists(path: &Path, earlier: u64, last: u64) -> Result<(), StorageError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(missing_pages(path, "it does not exist", earlier, last))
        }
        _ => Ok(()),
    }
}

fn missing_pages(path: &Path, cause: &str, earlier: u64, last: u64) -> StorageError {
    let first = earlier + 1;
    let message = format!(
        "cannot resume page directory '{}': {cause}, but the crawl had written {first} to {last}; restore all files, or start a \
         new crawl",
        path.display()
    );
    StorageError::new(StorageErrorKind::Damaged, message)
}

/// The error for something that is not a file at the path of one.
fn blocked(path: &Path) -> StorageError {
    let message = format!(
        "cannot write '{}': something that is not a file is there; move it, or name another directory",
        path.display()
    );
    StorageError::new(StorageErrorKind::Unusable, message)
}

/// Creates a file, removing an existing one. The existing one is not opened: it may be a link to a file elsewhere, or a
/// pipe without a reader.
fn replace_with_new(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

fn write(file: &mut File, head: &[u8], body: &[u8]) -> io::Result<()> {
    // Usually one system call writes both; the rest of a short write follows.
    let written = file.write_vectored(&[IoSlice::new(head), IoSlice::new(body)])?;
    file.write_all(&head[written.min(head.len())..])?;
    file.write_all(&body[written.saturating_sub(head.len())..])
}

/// Files without a name until they are linked. A crash leaves nothing of them.
#[cfg(target_os = "linux")]
mod unnamed_file {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

    /// Whether the directory's filesystem supports unnamed files, and they can be linked through /proc.
    pub(in crate::modules) fn is_supported(directory: &File) -> bool {
        create(directory).is_ok_and(|file| std::fs::metadata(proc_path(&file)).is_ok())
    }

    pub(in crate::modules) fn create(directory: &File) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        Ok(openat(directory, ".", flags, Mode::from_raw_mode(0o666))?.into())
    }

    pub(in crate::modules) fn link(file: &File, directory: &File, name: &str) -> io::Result<()> {
        Ok(linkat(CWD, proc_path(file), directory, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    pub(in crate::modules) fn sync(directory: &File) -> io::Result<()> {
        Ok(rustix::fs::syncfs(directory)?)
    }

    fn proc_path(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }
}

#[cfg(not(target_os = "linux"))]
mod unnamed_file {
    use std::fs::File;
    use std::io;

    pub(in crate::modules) fn is_supported(_: &File) -> bool {
        false
    }

    pub(in crate::modules) fn create(_: &File) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::modules) fn link(_: &File, _: &File, _: &str) -> io::Result<()> {
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
    fn remove_after_removes_larger_numbers_and_temporary_files_only() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["1", "2", "3", "27", "notes.txt", "007", "0", UNFINISHED] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let files = NumberedDir::open(directory.path()).unwrap();
        assert_eq!(files.ensure_empty().unwrap_err().kind(), StorageErrorKind::AlreadyExists);
        assert_eq!(names(directory.path()).len(), 8, "nothing is removed yet");
        files.remove_after(2).unwrap();
        assert_eq!(names(directory.path()), ["0", "007", "1", "2", "notes.txt"]);
        files.remove_after(0).unwrap();
        assert_eq!(names(directory.path()), ["0", "007", "notes.txt"]);
        files.ensure_empty().unwrap();
    }

    #[test]
    fn replace_is_atomic_and_leaves_no_temporary_file() {
        NumberedDir::with_each_method(|path, files| {
            files.replace(1, b"a longer first").unwrap();
            files.replace(1, b"second").unwrap();
            assert_eq!(fs::read(path.join("1")).unwrap(), b"second");
            assert_eq!(names(path), ["1"]);
            files.handle().unwrap().sync().unwrap();
        });
    }
}
