//! An append-only file whose length is known exactly, also after a failed write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::SyncHandle;
use crate::error::{StorageError, StorageErrorKind};
use crate::file_lock;
use crate::modules::output::finish;

/// How many bytes are buffered before they are written, so that a thousand short lines cost one system call.
const BUFFER_BYTES: usize = 64 * 1024;

/// An append-only file with a buffer. A batch counts as written only when all of its bytes are.
#[derive(Debug)]
pub(in crate::modules) struct AppendFile {
    path: PathBuf,
    file: File,
    written: u64,
    buffer: Vec<u8>,
    /// How many of the buffered bytes are the header. A drop does not write a header without pages.
    header_bytes: usize,
}

impl AppendFile {
    /// Opens and locks a file, creating it if needed, and does not change its content.
    pub(in crate::modules) fn open(path: &Path) -> Result<AppendFile, StorageError> {
        AppendFile::open_with(path, OpenOptions::new().write(true).create(true).truncate(false))
    }

    /// Creates and locks a file that must not exist.
    pub(in crate::modules) fn create(path: &Path) -> Result<AppendFile, StorageError> {
        AppendFile::open_with(path, OpenOptions::new().write(true).create_new(true))
    }

    fn open_with(path: &Path, options: &OpenOptions) -> Result<AppendFile, StorageError> {
        let what = format!("cannot write to output file '{}'", path.display());
        let remedy = "name a file you may write to";
        // Checked before the open: opening a pipe blocks until it has a reader.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            let message = format!("{what}: it is not a regular file ('-' is standard output); {remedy}");
            return Err(StorageError::new(StorageErrorKind::Unusable, message));
        }
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let message = format!("{what}: another program has made it during the crawl; move it away");
                return Err(StorageError::new(StorageErrorKind::AlreadyExists, message));
            }
            Err(error) => {
                return Err(StorageError::with_source(StorageErrorKind::Unusable, what, error, remedy));
            }
        };
        if !file_lock::lock(&file) {
            let message = format!("{what}: another crawl or another module writes to it; {remedy}");
            return Err(StorageError::new(StorageErrorKind::InUse, message));
        }
        Ok(AppendFile { path: path.to_owned(), file, written: 0, buffer: Vec::new(), header_bytes: 0 })
    }

    /// Rejects a file that is not empty.
    pub(in crate::modules) fn ensure_empty(&self) -> Result<(), StorageError> {
        match self.disk_length()? {
            0 => Ok(()),
            length if finish::is_records(&self.path) => {
                let message = format!(
                    "cannot write to output file '{}': it already has {length} bytes, the pages of an earlier crawl; make the \
                     output from it, name another file, or overwrite it",
                    self.path.display()
                );
                Err(StorageError::new(StorageErrorKind::AlreadyExists, message))
            }
            length => {
                let message = format!(
                    "cannot write to output file '{}': it already has {length} bytes; name another file, or overwrite it",
                    self.path.display()
                );
                Err(StorageError::new(StorageErrorKind::AlreadyExists, message))
            }
        }
    }

    /// Rejects a file that is shorter than the crawl left it.
    pub(in crate::modules) fn ensure_not_shorter(&self, committed: u64) -> Result<(), StorageError> {
        match self.disk_length()? {
            length if length >= committed => Ok(()),
            length => {
                let message = format!(
                    "cannot resume output file '{}': it has {length} bytes, but the crawl had written {committed}; restore \
                     the file, or start a new crawl",
                    self.path.display()
                );
                Err(StorageError::new(StorageErrorKind::Damaged, message))
            }
        }
    }

    /// Discards the buffer and everything written beyond a length; appends continue from there.
    pub(in crate::modules) fn truncate(&mut self, length: u64) -> Result<(), StorageError> {
        self.buffer.clear();
        self.header_bytes = 0;
        self.file.set_len(length).map_err(|error| self.write_error(error))?;
        self.written = length;
        Ok(())
    }

    /// Starts an empty file with a header.
    pub(in crate::modules) fn put_header(&mut self, header: &[u8]) {
        if self.length() == 0 {
            self.buffer.extend_from_slice(header);
            self.header_bytes = header.len();
        }
    }

    /// The length of the file, including the buffer.
    pub(in crate::modules) fn length(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Writes the buffer if it is full.
    pub(in crate::modules) fn flush_if_full(&mut self) -> Result<(), StorageError> {
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Appends bytes to the buffer. Cannot fail.
    pub(in crate::modules) fn append(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Writes the buffer. After an error, all of it is still buffered, and none of it is in the file.
    pub(in crate::modules) fn flush(&mut self) -> Result<(), StorageError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written =
            self.file.seek(SeekFrom::Start(self.written)).and_then(|_| self.file.write_all(&self.buffer));
        if let Err(error) = written {
            // If this fails too, the next attempt overwrites the bytes, and a resume truncates them.
            let _ = self.file.set_len(self.written);
            return Err(self.write_error(error));
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.header_bytes = 0;
        Ok(())
    }

    /// A handle to fsync what has been written.
    pub(in crate::modules) fn handle(&self) -> Result<SyncHandle, StorageError> {
        let file = self.file.try_clone().map_err(|error| self.write_error(error))?;
        Ok(SyncHandle::File(self.path.clone(), file))
    }

    /// The length of the file on disk, without the buffer.
    pub(in crate::modules) fn disk_length(&self) -> Result<u64, StorageError> {
        Ok(self.file.metadata().map_err(|error| self.write_error(error))?.len())
    }

    fn write_error(&self, error: io::Error) -> StorageError {
        let remedy = match finish::is_records(&self.path) {
            true => "it has the pages so far; to use them, make the output from it",
            false => "",
        };
        let what = format!("cannot write to output file '{}'", self.path.display());
        StorageError::with_source(StorageErrorKind::Io, what, error, remedy)
    }
}

/// A crawl that ends with an error writes what is buffered. A crawl that did not start leaves the file empty.
impl Drop for AppendFile {
    fn drop(&mut self) {
        if self.buffer.len() > self.header_bytes {
            let _ = self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The environment variable that is set in the child process, whose file size is limited.
    const SIZE_LIMITED_FILE: &str = "CRAWLER_TEST_CONFINED_FILE";

    /// A real write fails half-way: `ulimit -f 1` limits files to 512 or 1,024 bytes, depending on the shell.
    #[test]
    fn failed_write_leaves_nothing_in_the_file_and_can_be_retried() {
        let Some(path) = std::env::var_os(SIZE_LIMITED_FILE).map(PathBuf::from) else {
            let directory = tempfile::tempdir().unwrap();
            let this_test = "modules::output::files::append::tests::failed_write_leaves_nothing_in_the_file_and_can_be_retried";
            let run = std::process::Command::new("sh")
                .args(["-c", r#"trap "" XFSZ; ulimit -f 1; exec "$0" --exact --nocapture "$1""#])
                .arg(std::env::current_exe().unwrap())
                .arg(this_test)
                .env(SIZE_LIMITED_FILE, directory.path().join("out"))
                .output()
                .unwrap();
            assert!(run.status.success(), "{run:?}");
            assert!(String::from_utf8_lossy(&run.stdout).contains("1 passed"), "{run:?}");
            return;
        };
        let mut file = AppendFile::open(&path).unwrap();
        file.truncate(0).unwrap();
        file.put_header(b"header\n");
        file.flush().unwrap();
        file.append(&[b'x'; 4096]);
        let error = file.flush().unwrap_err().to_string();
        assert!(error.contains("/out'"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"header\n", "the file has no partial write");
        assert_eq!(file.length(), 7 + 4096, "the bytes are still buffered");
        file.buffer.truncate(3);
        file.flush().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"header\nxxx");
    }

    #[test]
    fn full_buffer_is_written_and_a_drop_writes_the_remainder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut file = AppendFile::open(&path).unwrap();
        file.append(&[b'x'; BUFFER_BYTES - 1]);
        file.flush_if_full().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        file.append(b"y");
        file.flush_if_full().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), BUFFER_BYTES as u64);
        file.append(b"z");
        drop(file);
        assert_eq!(fs::metadata(&path).unwrap().len(), BUFFER_BYTES as u64 + 1, "a drop writes the buffer");
    }

    #[test]
    fn non_regular_files_are_rejected() {
        for path in ["/dev/null", "/", "/nonexistent/file"] {
            let error = AppendFile::open(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(path), "{error}");
        }
    }
}
