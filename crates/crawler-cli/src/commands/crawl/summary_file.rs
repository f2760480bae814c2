//! The file of `--summary`.

use std::path::Path;

use super::json::SummaryJson;
use crate::atomic_file::AtomicFile;

/// A summary file at a writable path.
pub struct SummaryFile(AtomicFile);

impl SummaryFile {
    /// Checks that a file can be written at this path.
    pub fn new(path: &Path) -> Result<SummaryFile, String> {
        AtomicFile::new("--summary", path, 0o666).map(SummaryFile)
    }

    /// Writes the summary, replacing an older one.
    pub fn write(&self, summary: &SummaryJson<'_>) -> Result<(), String> {
        self.0.write("the summary", |file| {
            serde_json::to_writer_pretty(&mut *file, summary)?;
            file.write_all(b"\n")
        })
    }
}
