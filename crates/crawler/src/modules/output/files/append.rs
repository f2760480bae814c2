//! A file that grows, and whose length is known exactly whatever goes wrong.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Handle;
use crate::error::Error;

/// How many bytes wait in memory before they are written: a thousand short lines cost one call of the system.
const WAITING_BYTES: usize = 64 * 1024;

/// One file. Bytes wait in memory, are written in order, and count as written only when all of a batch are.
#[derive(Debug)]
pub(in crate::modules) struct AppendFile {
    path: PathBuf,
    file: File,
    written: u64,
    waiting: Vec<u8>,
    /// How many of the waiting bytes are the head, which is not written for its own sake when the file is dropped.
    head: usize,
}

impl AppendFile {
    /// Opens a file, new or not, keeps other crawls out of it, and changes nothing in it.
    pub(in crate::modules) fn open(path: &Path) -> Result<AppendFile, Error> {
        let unusable = |cause: &dyn std::fmt::Display| {
            let path = path.display();
            Error::Output(format!(
                "cannot write to output file '{path}': {cause}; name a file you may write to"
            ))
        };
        // Looked at before it is opened: opening a pipe would wait for its reader.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(unusable(&"it is not a regular file ('-' is standard output)"));
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| unusable(&error))?;
        // Filesystems that cannot lock are used all the same.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(unusable(&"another crawl or another module writes to it"));
        }
        Ok(AppendFile { path: path.to_owned(), file, written: 0, waiting: Vec::new(), head: 0 })
    }

    /// Refuses a file that has something in it.
    pub(in crate::modules) fn refuse_unless_empty(&self) -> Result<(), Error> {
        match self.found()? {
            0 => Ok(()),
            length => Err(Error::Output(format!(
                "output file '{}' exists and holds {length} bytes; name another, or give --overwrite to replace it",
                self.path.display()
            ))),
        }
    }

    /// Refuses a file that is shorter than what was written to it.
    pub(in crate::modules) fn refuse_if_shorter(&self, committed: u64) -> Result<(), Error> {
        match self.found()? {
            length if length >= committed => Ok(()),
            length => Err(Error::Output(format!(
                "output file '{}' has {length} bytes where the crawl had written {committed}; put the whole file back, \
                 or begin a new crawl",
                self.path.display()
            ))),
        }
    }

    /// Cuts the file to a length and goes on from there.
    pub(in crate::modules) fn begin(&mut self, length: u64) -> Result<(), Error> {
        self.take_back(length).map_err(|error| Error::Output(error.to_string()))
    }

    /// Gives up what waits, and what was written after a length.
    pub(in crate::modules) fn take_back(&mut self, length: u64) -> io::Result<()> {
        self.waiting.clear();
        self.head = 0;
        self.file.set_len(length).map_err(|error| self.named(error))?;
        self.written = length;
        Ok(())
    }

    /// Lets an empty file begin with a head.
    pub(in crate::modules) fn put_head(&mut self, head: &[u8]) {
        if self.length() == 0 {
            self.waiting.extend_from_slice(head);
            self.head = head.len();
        }
    }

    /// The length of the file once all that waits is written.
    pub(in crate::modules) fn length(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    /// Writes what waits if it is much.
    pub(in crate::modules) fn make_room(&mut self) -> io::Result<()> {
        if self.waiting.len() < WAITING_BYTES { Ok(()) } else { self.flush() }
    }

    /// Adds bytes to those that wait. Cannot fail.
    pub(in crate::modules) fn append(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// Writes what waits. If that fails, all of it still waits, and none of it is left in the file.
    pub(in crate::modules) fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let written =
            self.file.seek(SeekFrom::Start(self.written)).and_then(|_| self.file.write_all(&self.waiting));
        if let Err(error) = written {
            // If even this fails, the next attempt writes over it, and a resume cuts it off.
            let _ = self.file.set_len(self.written);
            return Err(self.named(error));
        }
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        self.head = 0;
        Ok(())
    }

    /// A handle to sync by what has been written.
    pub(in crate::modules) fn handle(&self) -> io::Result<Handle> {
        let file = self.file.try_clone().map_err(|error| self.named(error))?;
        Ok(Handle::File(self.path.clone(), file))
    }

    /// The length of the file as it was found.
    pub(in crate::modules) fn found(&self) -> Result<u64, Error> {
        let found = self.file.metadata().map_err(|error| Error::Output(self.named(error).to_string()))?;
        Ok(found.len())
    }

    fn named(&self, error: io::Error) -> io::Error {
        super::named(&self.path, &error)
    }
}

/// A crawl that ends by an error keeps what it can; one that has not begun leaves nothing.
impl Drop for AppendFile {
    fn drop(&mut self) {
        if self.waiting.len() > self.head {
            let _ = self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variable that tells a test it is running in a process that may write only a little.
    const CONFINED: &str = "CRAWLER_TEST_CONFINED_FILE";

    /// A real write that fails half-way: files of this process end at 512 or 1,024 bytes, as the shell counts.
    #[test]
    fn a_write_that_fails_half_way_leaves_nothing_behind_and_can_be_repeated() {
        let Some(path) = std::env::var_os(CONFINED).map(PathBuf::from) else {
            let directory = tempfile::tempdir().unwrap();
            let this_test = "modules::output::files::append::tests::a_write_that_fails_half_way_leaves_nothing_behind_and_can_be_repeated";
            let run = std::process::Command::new("sh")
                .args(["-c", r#"trap "" XFSZ; ulimit -f 1; exec "$0" --exact --nocapture "$1""#])
                .arg(std::env::current_exe().unwrap())
                .arg(this_test)
                .env(CONFINED, directory.path().join("out"))
                .output()
                .unwrap();
            assert!(run.status.success(), "{run:?}");
            assert!(String::from_utf8_lossy(&run.stdout).contains("1 passed"), "{run:?}");
            return;
        };
        let mut file = AppendFile::open(&path).unwrap();
        file.begin(0).unwrap();
        file.put_head(b"head\n");
        file.flush().unwrap();
        file.append(&[b'x'; 4096]);
        let refused = file.flush().unwrap_err().to_string();
        assert!(refused.contains("/out'"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"head\n", "nothing half-written stays");
        assert_eq!(file.length(), 5 + 4096, "what waited still waits");
        file.waiting.truncate(3);
        file.flush().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"head\nxxx");
    }

    #[test]
    fn much_is_written_without_being_asked_and_little_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut file = AppendFile::open(&path).unwrap();
        file.append(&[b'x'; WAITING_BYTES - 1]);
        file.make_room().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        file.append(b"y");
        file.make_room().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), WAITING_BYTES as u64);
        file.append(b"z");
        drop(file);
        assert_eq!(fs::metadata(&path).unwrap().len(), WAITING_BYTES as u64 + 1, "a dropped file keeps all");
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused() {
        for path in ["/dev/null", "/", "/nonexistent/file"] {
            let refused = AppendFile::open(Path::new(path)).unwrap_err().to_string();
            assert!(refused.contains(path), "{refused}");
        }
    }
}
