//! Makes the files that outputs have in addition to those that they are split into, such as the index of an archive, when the crawl ends.

use std::fs;
use std::path::PathBuf;

use super::{PagePipeline, lock};
use crate::error::{StorageError, StorageErrorKind};
use crate::log;
use crate::panics::catch_panic;

/// Reading an archive of fewer bytes takes seconds at most.
const MANY_BYTES: u64 = 500_000_000;

impl PagePipeline {
    /// Makes the files. One that cannot be made is a failure of the outputs, and the others are as they were.
    pub(super) fn make_files(&self, notice: &dyn Fn(&str)) {
        self.with_segments(|spec, files| {
            let length = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
            if files.iter().map(length).sum::<u64>() >= MANY_BYTES {
                log::informed(notice, &format!("making the index of '{}'", spec.target));
            }
            let made = catch_panic(|| spec.output.make_files(spec.target.path(), files));
            let made = made.unwrap_or_else(|panic| {
                let cause = format!("cannot make the index of '{}': it {panic}", spec.target);
                Err(StorageError::new(StorageErrorKind::Internal, cause))
            });
            if let Err(error) = made {
                self.output_failed(lock(&self.files), error);
            }
        });
    }
}
