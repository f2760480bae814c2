//! A file that is written at the end of a crawl: complete or not at all.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file at a writable path.
pub struct AtomicFile {
    path: PathBuf,
    mode: u32,
}

impl AtomicFile {
    /// Checks that a file with this mode can be written at the path that was given as `option`.
    pub fn new(option: &str, path: &Path, mode: u32) -> Result<AtomicFile, String> {
        let unusable = |why: &dyn std::fmt::Display| {
            format!("cannot write {option} '{}': {why}; name a file that can be written", path.display())
        };
        // A device or directory must not be replaced by a file.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(unusable(&"it is not a regular file"));
        }
        // The target of a symbolic link is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = AtomicFile { path, mode };
        file.temporary().map_err(|error| unusable(&error))?;
        Ok(file)
    }

    /// Writes the file, replacing an older one. `what` is its content, for messages.
    pub fn write(
        &self,
        what: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), String> {
        let written = self.temporary().and_then(|mut file| {
            write(&mut file)?;
            file.persist(&self.path)?;
            Ok(())
        });
        written.map_err(|error| format!("cannot write {what} to '{}': {error}", self.path.display()))
    }

    /// A file in the same directory, removed when dropped.
    fn temporary(&self) -> io::Result<NamedTempFile> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        tempfile::Builder::new()
            .prefix(".crawler-")
            .permissions(Permissions::from_mode(self.mode))
            .tempfile_in(directory)
            // The error would name the temporary file.
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => io::Error::other("the directory does not exist"),
                kind => kind.into(),
            })
    }
}
