//! Keeps a second process out of a state's directory.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::super::BackendError;

/// Locked by the process that is at work, from before there is a state: that has its name only when it is whole.
const LOCK: &str = "crawl.lock";

/// Nobody else is at work while this is held; a death gives it back as well.
pub(super) struct Lock(#[expect(dead_code, reason = "it is held open")] File);

impl Lock {
    /// Takes the lock of a directory, unless another process has it.
    pub(super) fn take(directory: &Path) -> Result<Lock, BackendError> {
        let path = directory.join(LOCK);
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| {
            BackendError(format!(
                "cannot lock the state with '{}': {error}; see to the directory",
                path.display()
            ))
        })?;
        // Filesystems that cannot lock are used all the same.
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(in_use(directory)),
            _ => Ok(Lock(file)),
        }
    }
}

/// Another process is at work on a state.
pub(super) fn in_use(directory: &Path) -> BackendError {
    BackendError(format!(
        "another process is at work on the crawl in '{}'; wait for its end, or name another directory",
        directory.display()
    ))
}
