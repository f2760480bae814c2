//! Writes the merged output: to files that are replaced atomically, to a directory, to a stream, or to a records file from which
//! the output is made.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::new_segments::NewSegments;
use super::{Destination, MergeError};
use crate::error::{StorageError, StorageErrorKind};
use crate::modules::output::files::{create_directory, write_error};
use crate::modules::output::finish::{self, Records};
use crate::modules::output::new_file::{NewFile, ensure_replaceable};
use crate::modules::output::numbered_dir::NumberedDir;
use crate::modules::output::segments::SegmentRule;
use crate::modules::{Target, registry};

/// The open destination of a merge.
pub(super) enum MergeSink<'w> {
    File(NewFile),
    Directory {
        files: NumberedDir,
        last: u64,
    },
    Stream(BufWriter<&'w mut dyn Write>),
    Segments(Box<NewSegments>),
    /// The merged records, which are temporary, and the target to make from them.
    Records(NewFile, PathBuf),
}

impl<'w> MergeSink<'w> {
    /// Opens the destination, and writes the header of the output to it. Rejects one that is not empty, unless `overwrite` is set.
    pub(super) fn open(
        destination: Destination<'w>,
        header: &[u8],
        is_directory: bool,
        overwrite: bool,
    ) -> Result<MergeSink<'w>, MergeError> {
        let mut sink = match (destination, finish::format_in(header)) {
            (Destination::Path(path), Some(format)) => open_records(path, format, overwrite)?,
            (Destination::Stream(_), Some(format)) => {
                let name = format.split(',').next().unwrap_or_default();
                let refused = format!("cannot print the output: {name} needs a file; name a file as output");
                return Err(MergeError::Refused(refused));
            }
            (Destination::Path(path), None) if is_directory => open_directory(path, header, overwrite)?,
            (Destination::Path(path), None) => {
                ensure_replaceable(&Target::File(path.to_owned()), overwrite).map_err(refused)?;
                MergeSink::File(NewFile::create(path).map_err(refused)?)
            }
            (Destination::Stream(_), None) if is_directory => {
                return Err(MergeError::Refused(
                    "cannot print the output: the parts are directories; name a directory as output".into(),
                ));
            }
            (Destination::Stream(stream), None) => MergeSink::Stream(BufWriter::new(stream)),
        };
        if !is_directory {
            sink.page(header).map_err(MergeError::NotWritten)?;
        }
        Ok(sink)
    }

    /// Opens an output that is split into files.
    pub(super) fn open_segments(
        destination: Destination<'w>,
        rule: &SegmentRule,
        overwrite: bool,
        made: &[PathBuf],
    ) -> Result<MergeSink<'w>, MergeError> {
        let Destination::Path(path) = destination else {
            let refused = "cannot print the output: it consists of several files; name a file as output";
            return Err(MergeError::Refused(refused.into()));
        };
        let files = NewSegments::create(path, rule, overwrite, made).map_err(refused)?;
        Ok(MergeSink::Segments(Box::new(files)))
    }

    /// Writes the next page.
    pub(super) fn page(&mut self, page: &[u8]) -> io::Result<()> {
        match self {
            MergeSink::File(file) | MergeSink::Records(file, _) => {
                file.write_all(page).map_err(|error| not_written(file.error(error)))
            }
            MergeSink::Directory { files, last } => {
                let number = *last + 1;
                files
                    .save(number, b"", page)
                    .map_err(|error| not_written(write_error(&files.page_path(number), error)))?;
                *last = number;
                Ok(())
            }
            MergeSink::Segments(files) => files.append(page).map_err(|error| not_written(files.error(error))),
            MergeSink::Stream(stream) => stream.write_all(page),
        }
    }

    /// Writes everything out, and makes the output of records. A file or directory is fsynced.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            MergeSink::File(file) => file.finish().map_err(not_written),
            MergeSink::Directory { files, .. } => files
                .handle()
                .and_then(|it| it.sync())
                .map_err(|error| not_written(write_error(files.path(), error))),
            MergeSink::Segments(files) => files.finish().map_err(not_written),
            MergeSink::Stream(mut stream) => stream.flush(),
            MergeSink::Records(mut file, target) => {
                let written = file.flush_unfinished().map(Path::to_owned);
                let path = written.map_err(|error| not_written(file.error(error)))?;
                let records = Records::open(&path)?.ok_or(io::ErrorKind::InvalidData)?;
                finish::finish_file(&records, &target, true).map_err(not_written)
            }
        }
    }
}

/// Keeps the kind of the cause: a closed pipe is no error of the command.
fn not_written(error: StorageError) -> io::Error {
    use std::error::Error as _;
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    io::Error::new(cause.map_or(io::ErrorKind::Other, io::Error::kind), error)
}

fn refused(error: StorageError) -> MergeError {
    MergeError::Refused(format!("{error:#}"))
}

fn open_directory<'w>(path: &Path, extension: &[u8], overwrite: bool) -> Result<MergeSink<'w>, MergeError> {
    create_directory(path).map_err(refused)?;
    let files = NumberedDir::open(path).map_err(refused)?.with_extension(extension);
    if !overwrite {
        files.ensure_empty().map_err(refused)?;
    }
    files.remove_after(0).map_err(refused)?;
    Ok(MergeSink::Directory { files, last: 0 })
}

fn open_records<'w>(path: &Path, format: &str, overwrite: bool) -> Result<MergeSink<'w>, MergeError> {
    let Some(spec) = registry::output_of_format(format, path) else {
        let message = format!(
            "cannot merge: this program has no output '{format}'; use the program that wrote the parts"
        );
        return Err(refused(StorageError::new(StorageErrorKind::Unsupported, message)));
    };
    ensure_replaceable(&spec.target, overwrite).map_err(refused)?;
    let records = NewFile::create(&finish::records_path(path)).map_err(refused)?;
    Ok(MergeSink::Records(records, path.to_owned()))
}
