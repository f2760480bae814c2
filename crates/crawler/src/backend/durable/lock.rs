//! Locks the directory of a state, so that only one process uses it, and finds the process that does.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{major, minor};

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

/// The process that has locked a directory; `None` if there is none, or the system does not report it, which only Linux does.
pub(super) fn holder(directory: &Path) -> Option<u32> {
    let metadata = fs::metadata(directory.join(LOCK_FILE)).ok()?;
    let (device, inode) = (metadata.dev(), metadata.ino().to_string());
    // File systems without a device of their own, such as overlayfs, report another one there: then the inode has to do.
    let device = (major(device) != 0).then(|| format!("{:02x}:{:02x}", major(device), minor(device)));
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let mut holders = locks.lines().filter_map(|line| {
        // A number, FLOCK, the mode, the access, the process, and the device with the inode.
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, process, file, ..] = fields[..] else { return None };
        let (file_device, file_inode) = file.rsplit_once(':')?;
        let is_same = file_inode == inode && device.as_ref().is_none_or(|device| device == file_device);
        is_same.then_some(process)
    });
    // Without the device, two files may have the same inode.
    let holder = holders.next().filter(|_| holders.next().is_none())?;
    // A process that this one cannot see, for instance in another container, has no positive number.
    holder.parse().ok().filter(|process| *process > 0)
}

/// The process that has locked a directory, if it is suspended: by Ctrl-Z, `kill -STOP` or a debugger.
pub(super) fn suspended_holder(directory: &Path) -> Option<u32> {
    holder(directory).filter(|process| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The state follows the name of the program, which may have spaces and parentheses.
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        matches!(state, Some('T' | 't'))
    })
}

/// The error for a state that another process uses.
pub(super) fn in_use(directory: &Path) -> BackendError {
    let message = format!(
        "cannot open the state in '{}': another process is using it; wait until it exits, or choose another directory",
        directory.display()
    );
    BackendError::state(StorageErrorKind::InUse, message)
}
