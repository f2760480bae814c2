//! Warns before a file system is full to which a crawl writes.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crawler::internal::log::NOTICE;
use rustix::fs::{StatVfs, statvfs};

use super::warnings::is_new;
use crate::format::{bytes, counted};
use crate::log;

/// With less room than this a file system is nearly full: some minutes of a fast crawl.
const MIN_BYTES: u64 = 500_000_000;

/// With room for fewer new files than this it is nearly full, too.
const MIN_FILES: u64 = 10_000;

/// How often the file systems are queried.
const INTERVAL: Duration = Duration::from_secs(5);

/// The file systems to which a process writes. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct DiskSpace(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    paths: Vec<PathBuf>,
    checked: Option<Instant>,
    warnings: Vec<String>,
    /// Those that `check` has not returned yet.
    unreported: Vec<String>,
    /// The bytes that are left where the fewest are.
    free: Option<u64>,
}

impl DiskSpace {
    /// The file systems of these files and directories, which need not exist yet, and that of the log.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> DiskSpace {
        let disk_space = DiskSpace::default();
        disk_space.watch(paths);
        disk_space
    }

    /// From now on, those of other files and directories, and that of the log.
    pub fn watch(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let mut state = self.state();
        state.paths = paths.into_iter().chain(log::file().map(Path::to_owned)).collect();
        state.checked = None;
    }

    /// The warnings that it has not returned before. They are logged, too.
    pub fn check(&self) -> Vec<String> {
        std::mem::take(&mut self.current().unreported)
    }

    /// What to say about file systems that are nearly full.
    pub fn warnings(&self) -> Vec<String> {
        self.current().warnings.clone()
    }

    /// The bytes that are left on the file system where the fewest are; `None` if none reports it.
    pub fn free(&self) -> Option<u64> {
        self.current().free
    }

    /// The state, for which the file systems are queried if the last time was some seconds ago. Logs the warnings that are new.
    fn current(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if state.checked.is_none_or(|checked| checked.elapsed() >= INTERVAL) {
            let earlier = state.query();
            let new: Vec<String> =
                state.warnings.iter().filter(|warning| is_new(warning, &earlier)).cloned().collect();
            new.iter().for_each(|warning| tracing::warn!(target: NOTICE, "{warning}"));
            state.unreported.extend(new);
        }
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Queries the file systems, and returns the warnings before that.
    fn query(&mut self) -> Vec<String> {
        self.checked = Some(Instant::now());
        let mut devices = Vec::new();
        let paths = self.paths.iter().filter(|path| is_of_new_device(path, &mut devices));
        let spaces: Vec<(&PathBuf, StatVfs)> =
            paths.filter_map(|path| Some((path, statvfs(existing(path)?).ok()?))).collect();
        self.free = spaces.iter().filter_map(|(_, space)| free(space)).min();
        let warnings = spaces.iter().filter_map(|(path, space)| warning(path, space)).collect();
        std::mem::replace(&mut self.warnings, warnings)
    }
}

/// Whether no earlier path has the same file system.
fn is_of_new_device(path: &Path, devices: &mut Vec<u64>) -> bool {
    let device = existing(path).and_then(|path| fs::metadata(path).ok()).map(|metadata| metadata.dev());
    device.is_some_and(|device| {
        let is_new = !devices.contains(&device);
        devices.push(device);
        is_new
    })
}

/// The path, or the nearest directory above it that exists.
fn existing<'p>(path: &'p Path) -> Option<&'p Path> {
    let named = |path: &'p Path| if path.as_os_str().is_empty() { Path::new(".") } else { path };
    path.ancestors().map(named).find(|path| path.exists())
}

/// The bytes that are left. A file system without a number of blocks, such as a network file system, does not report it.
fn free(space: &StatVfs) -> Option<u64> {
    (space.f_blocks > 0).then(|| space.f_bavail.saturating_mul(space.f_frsize))
}

fn warning(path: &Path, space: &StatVfs) -> Option<String> {
    let path = path.display();
    if let Some(left) = free(space).filter(|left| *left < MIN_BYTES) {
        return Some(format!("disk nearly full: {} left for {path}", bytes(left)));
    }
    // Nor does every file system report how many files there may be.
    let is_out_of_files = space.f_files > 0 && space.f_favail < MIN_FILES;
    is_out_of_files
        .then(|| format!("disk nearly full: room for {} more in {path}", counted(space.f_favail, "file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_for_bytes_or_files_is_a_warning() {
        let path = Path::new("/data/state");
        let mut space = statvfs("/").unwrap();
        (space.f_frsize, space.f_blocks, space.f_bavail) = (4_096, 10_000_000, 1_000_000);
        (space.f_files, space.f_favail) = (1_000_000, 500_000);
        assert_eq!(warning(path, &space), None);
        space.f_favail = 12;
        assert_eq!(warning(path, &space).unwrap(), "disk nearly full: room for 12 files more in /data/state");
        space.f_bavail = 76_172;
        assert_eq!(warning(path, &space).unwrap(), "disk nearly full: 312.0 MB left for /data/state");
        // As some file systems of networks say.
        (space.f_blocks, space.f_bavail, space.f_files, space.f_favail) = (0, 0, 0, 0);
        assert_eq!(warning(path, &space), None);
    }

    #[test]
    fn file_system_of_a_missing_file_is_that_of_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(existing(&directory.path().join("a/b")), Some(directory.path()));
        assert_eq!(existing(Path::new("no such directory/file")), Some(Path::new(".")));
        let mut devices = Vec::new();
        assert!(is_of_new_device(directory.path(), &mut devices));
        assert!(!is_of_new_device(&directory.path().join("a"), &mut devices));
        assert!(DiskSpace::default().warnings().is_empty());
    }
}
