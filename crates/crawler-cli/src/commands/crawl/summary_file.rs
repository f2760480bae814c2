//! The file of `--summary`: written whole or not at all.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::json::SummaryJson;

/// A file that can be written.
pub struct SummaryFile {
    path: PathBuf,
}

impl SummaryFile {
    /// The file at a path, if one can be put there.
    pub fn at(path: &Path) -> Result<SummaryFile, String> {
        let unusable = |why: &dyn std::fmt::Display| {
            format!("--summary '{}': {why}; name a file you may write to", path.display())
        };
        // Something that is no file would be replaced by one.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(unusable(&"it is not a regular file"));
        }
        // Where a link leads, not the link, is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = SummaryFile { path };
        file.unfinished().map_err(|error| unusable(&error))?;
        Ok(file)
    }

    /// Puts the summary there.
    pub fn write(&self, summary: &SummaryJson<'_>) -> Result<(), String> {
        let put = || {
            let mut file = self.unfinished()?;
            serde_json::to_writer_pretty(&mut file, summary)?;
            file.write_all(b"\n")?;
            file.persist(&self.path)?;
            io::Result::Ok(())
        };
        put().map_err(|error| format!("cannot write the summary to '{}': {error}", self.path.display()))
    }

    /// A file beside it, which is gone when it is dropped.
    fn unfinished(&self) -> io::Result<NamedTempFile> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        tempfile::Builder::new()
            .prefix(".summary-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            // The name of that file would only confuse.
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => io::Error::other("there is no such directory"),
                kind => kind.into(),
            })
    }
}
