//! The file of `--summary`, written atomically.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::json::SummaryJson;

/// A summary file at a writable path.
pub struct SummaryFile {
    path: PathBuf,
}

impl SummaryFile {
    /// Checks that a file can be written at this path.
    pub fn new(path: &Path) -> Result<SummaryFile, String> {
        let unusable = |why: &dyn std::fmt::Display| {
            format!("cannot write --summary '{}': {why}; name a file that can be written", path.display())
        };
        // A device or directory must not be replaced by a file.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(unusable(&"it is not a regular file"));
        }
        // The target of a symbolic link is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = SummaryFile { path };
        file.temporary().map_err(|error| unusable(&error))?;
        Ok(file)
    }

    /// Writes the summary, replacing an older one.
    pub fn write(&self, summary: &SummaryJson<'_>) -> Result<(), String> {
        let write = || {
            let mut file = self.temporary()?;
            serde_json::to_writer_pretty(&mut file, summary)?;
            file.write_all(b"\n")?;
            file.persist(&self.path)?;
            io::Result::Ok(())
        };
        write().map_err(|error| format!("cannot write the summary to '{}': {error}", self.path.display()))
    }

    /// A file in the same directory, removed when dropped.
    fn temporary(&self) -> io::Result<NamedTempFile> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        tempfile::Builder::new()
            .prefix(".summary-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            // The error would name the temporary file.
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => io::Error::other("the directory does not exist"),
                kind => kind.into(),
            })
    }
}
