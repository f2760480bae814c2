//! Writes the merged output: to a file that is replaced atomically, to a directory, or to a stream.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::{Destination, MergeError};
use crate::error::StorageError;
use crate::file_lock;
use crate::modules::output::files::{create_directory, write_error};
use crate::modules::output::numbered_dir::NumberedDir;

/// The open destination of a merge.
pub(super) enum MergeSink<'w> {
    File(NewFile),
    Directory { files: NumberedDir, last: u64 },
    Stream(BufWriter<&'w mut dyn Write>),
}

/// A file that is renamed to its final name when it is complete.
pub(super) struct NewFile {
    path: PathBuf,
    unfinished: PathBuf,
    writer: BufWriter<File>,
    /// The file was renamed. A file with the temporary name now belongs to another process.
    finished: bool,
}

impl<'w> MergeSink<'w> {
    /// Opens the destination. Rejects one that is not empty, unless `overwrite` is set.
    pub(super) fn open(
        destination: Destination<'w>,
        is_directory: bool,
        overwrite: bool,
    ) -> Result<MergeSink<'w>, MergeError> {
        match destination {
            Destination::Path(path) if is_directory => open_directory(path, overwrite),
            Destination::Path(path) => NewFile::open(path, overwrite).map(MergeSink::File),
            Destination::Stream(_) if is_directory => Err(MergeError::Refused(
                "cannot print the output: the parts are directories; name a directory as output".into(),
            )),
            Destination::Stream(stream) => Ok(MergeSink::Stream(BufWriter::new(stream))),
        }
    }

    /// Writes the header, before any page.
    pub(super) fn header(&mut self, header: &[u8]) -> io::Result<()> {
        match self {
            MergeSink::Directory { .. } => Ok(()),
            MergeSink::File(_) | MergeSink::Stream(_) => self.page(header),
        }
    }

    /// Writes the next page.
    pub(super) fn page(&mut self, page: &[u8]) -> io::Result<()> {
        match self {
            MergeSink::File(file) => {
                file.writer.write_all(page).map_err(|error| not_written(&file.path, error))
            }
            MergeSink::Directory { files, last } => {
                let number = *last + 1;
                files
                    .save(number, b"", page)
                    .map_err(|error| not_written(&files.page_path(number), error))?;
                *last = number;
                Ok(())
            }
            MergeSink::Stream(stream) => stream.write_all(page),
        }
    }

    /// Writes everything out. A file or directory is fsynced.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            MergeSink::File(mut file) => file.finish().map_err(|error| not_written(&file.path, error)),
            MergeSink::Directory { files, .. } => {
                files.handle().and_then(|it| it.sync()).map_err(|error| not_written(files.path(), error))
            }
            MergeSink::Stream(mut stream) => stream.flush(),
        }
    }
}

/// Adds the path to an error of a write.
fn not_written(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), write_error(path, error))
}

fn open_directory<'w>(path: &Path, overwrite: bool) -> Result<MergeSink<'w>, MergeError> {
    let unusable = |error: StorageError| MergeError::Refused(format!("{error:#}"));
    create_directory(path).map_err(unusable)?;
    let files = NumberedDir::open(path).map_err(unusable)?;
    if !overwrite {
        files.ensure_empty().map_err(unusable)?;
    }
    files.remove_after(0).map_err(unusable)?;
    Ok(MergeSink::Directory { files, last: 0 })
}

impl NewFile {
    fn open(path: &Path, overwrite: bool) -> Result<NewFile, MergeError> {
        let unusable = |cause: &str, remedy: &str| {
            MergeError::Refused(format!(
                "cannot write to output file '{}': {cause}; {remedy}",
                path.display()
            ))
        };
        match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => {
                let cause = "it is not a regular file ('-' is standard output)";
                return Err(unusable(cause, "name a file you may write to"));
            }
            Ok(metadata) if metadata.len() > 0 && !overwrite => {
                let cause = format!("it already has {} bytes", metadata.len());
                return Err(unusable(&cause, "name another file, or overwrite it"));
            }
            _ => {}
        }
        let Some(name) = path.file_name() else {
            return Err(unusable("the path has no file name", "name a file you may write to"));
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
                Err(unusable("another process is writing to it", "wait until it exits, or name another file"))
            }
            Err(error) => Err(unusable(&error.to_string(), "name a file you may write to")),
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

/// Creates and locks the temporary file, removing one that an earlier process left.
fn create(path: &Path) -> io::Result<File> {
    // Open only a regular file: anything else may be a link to a file elsewhere, or a pipe without a reader.
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
        && !file_lock::lock(&File::open(path)?)
    {
        return Err(ErrorKind::WouldBlock.into());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::create_new(path)?;
    if file_lock::lock(&file) { Ok(file) } else { Err(ErrorKind::WouldBlock.into()) }
}

/// An unfinished merge leaves no file behind.
impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}
