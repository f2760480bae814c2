//! Locks the directory of a state, so that only one process uses it.

use std::fs::File;
use std::path::Path;

use super::super::BackendError;
use crate::error::{StorageError, StorageErrorKind};
use crate::file_lock;

/// The process that uses the directory locks this file, even before the state file has its final name.
pub(super) const LOCK_FILE: &str = "crawl.lock";

/// The lock of a directory. The operating system releases it if the process dies.
pub(super) struct Lock(#[expect(dead_code, reason = "an open file holds the lock")] File);

impl Lock {
    /// Locks a directory, unless another process has locked it.
    pub(super) fn acquire(directory: &Path) -> Result<Lock, BackendError> {
        let path = directory.join(LOCK_FILE);
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| {
            let what = format!("cannot lock the state with '{}'", path.display());
            let remedy = "check the permissions of the directory";
            BackendError::State(StorageError::with_source(StorageErrorKind::Unusable, what, error, remedy))
        })?;
        if file_lock::lock(&file) { Ok(Lock(file)) } else { Err(in_use(directory)) }
    }
}

/// The error for a state that another process uses.
pub(super) fn in_use(directory: &Path) -> BackendError {
    let message = format!(
        "cannot open the state in '{}': another process is using it; wait until it exits, or choose another directory",
        directory.display()
    );
    BackendError::state(StorageErrorKind::InUse, message)
}
