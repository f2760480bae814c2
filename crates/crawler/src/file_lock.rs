//! Locks files against other processes.

use std::fs::{File, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a lock is waited for. A child process that this process has just started holds the locks of its parent until
/// it executes its program, and a process that was killed may hold its own for a moment.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The interval between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Locks a file until it is closed. Returns `false` if another process, or another open file of this one, holds the lock.
/// A file on a file system without locks counts as locked.
pub(crate) fn lock(file: &File) -> bool {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    while let Err(TryLockError::WouldBlock) = file.try_lock() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(RETRY_INTERVAL);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_exclusive_and_a_short_one_is_waited_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let [first, second] = [(); 2].map(|()| file.reopen().unwrap());
        assert!(lock(&first) && !lock(&second));
        let holder = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(first);
        });
        assert!(lock(&second));
        holder.join().unwrap();
    }
}
