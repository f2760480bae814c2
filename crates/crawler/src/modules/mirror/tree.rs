//! A directory tree that appears under its name when it is complete, and replaces an earlier one at once.

use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::ListedFile;
use super::paths::LIST_NAME;
use crate::error::{StorageError, StorageErrorKind, unusable_directory};
use crate::file_lock;
use crate::modules::output::files::write_error;
use crate::modules::output::new_file::{sibling, sync_parent};

/// Files that file managers add to the directories which they show.
const BY_FILE_MANAGERS: [&str; 3] = [".DS_Store", "Thumbs.db", "desktop.ini"];

/// A tree with a temporary name, `.NAME.unfinished`, which is renamed when it is complete. A drop removes an incomplete one.
#[derive(Debug)]
pub(super) struct NewTree {
    target: PathBuf,
    unfinished: PathBuf,
    /// The last directory that was created.
    directory: PathBuf,
    finished: bool,
    _lock: File,
}

impl NewTree {
    /// Creates and locks the tree with the temporary name, after removing one that an earlier process left.
    pub(super) fn create(target: &Path) -> Result<NewTree, StorageError> {
        // A link to a directory stays, and the directory is replaced.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        check_target(&target)?;
        let unfinished = sibling(&target, ".unfinished");
        let unusable = |error| write_error(&unfinished, error);
        if let Ok(earlier) = File::open(&unfinished) {
            if !file_lock::lock(&earlier) {
                let message = format!(
                    "cannot write to directory '{}': another process is writing to it; wait until it exits, or name another \
                     directory",
                    target.display()
                );
                return Err(StorageError::new(StorageErrorKind::InUse, message));
            }
            remove(&unfinished).map_err(unusable)?;
        }
        fs::create_dir(&unfinished).map_err(unusable)?;
        let lock = File::open(&unfinished).map_err(unusable)?;
        file_lock::lock(&lock);
        let directory = unfinished.clone();
        Ok(NewTree { target, unfinished, directory, finished: false, _lock: lock })
    }

    /// Writes a file; `path` is relative, with slashes.
    pub(super) fn write(&mut self, path: &str, content: &[u8]) -> Result<(), StorageError> {
        self.create_file(path)
            .and_then(|mut file| file.write_all(content))
            .map_err(|error| self.error(path, error))
    }

    /// The error for a file that could not be written.
    pub(super) fn error(&self, path: &str, error: io::Error) -> StorageError {
        write_error(&self.target.join(path), error)
    }

    /// Creates a file and the directories that it is in.
    pub(super) fn create_file(&mut self, path: &str) -> io::Result<File> {
        let path = self.unfinished.join(path);
        if let Some(directory) = path.parent().filter(|directory| *directory != self.directory) {
            fs::create_dir_all(directory)?;
            self.directory = directory.to_owned();
        }
        File::create_new(&path)
    }

    /// Puts the tree in its place.
    pub(super) fn finish(mut self) -> Result<(), StorageError> {
        self.put_in_place().map_err(|error| write_error(&self.target, error))?;
        sync_parent(&self.target);
        Ok(())
    }

    fn put_in_place(&mut self) -> io::Result<()> {
        sync_file_system(&self._lock)?;
        if !self.target.exists() {
            fs::rename(&self.unfinished, &self.target)?;
            self.finished = true;
            return Ok(());
        }
        // The drop removes the earlier tree, which now has the temporary name.
        if exchange(&self.unfinished, &self.target) {
            return Ok(());
        }
        let earlier = sibling(&self.target, ".earlier");
        remove(&earlier)?;
        fs::rename(&self.target, &earlier)?;
        if let Err(error) = fs::rename(&self.unfinished, &self.target) {
            fs::rename(&earlier, &self.target)?;
            return Err(error);
        }
        self.finished = true;
        let _ = fs::remove_dir_all(&earlier);
        Ok(())
    }
}

impl Drop for NewTree {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_dir_all(&self.unfinished);
        }
    }
}

/// Rejects a target that cannot be replaced by a tree, or that has something else than an earlier mirror in it.
pub(super) fn check_target(target: &Path) -> Result<(), StorageError> {
    let Ok(found) = fs::metadata(target) else { return Ok(()) };
    if !found.is_dir() {
        return Err(unusable_directory(target, ErrorKind::NotADirectory.into()));
    }
    if is_mount_point(target, &found) {
        let message = format!(
            "cannot write to directory '{}': it is a mount point, which cannot be replaced; name a directory in it",
            target.display()
        );
        return Err(StorageError::new(StorageErrorKind::Unusable, message));
    }
    match foreign_entry(target).map_err(|error| unusable_directory(target, error))? {
        None => Ok(()),
        Some(path) => {
            let message = format!(
                "cannot write to directory '{}': it contains '{}', which is not part of a mirror and would be removed; move it, or name \
                 another directory",
                target.display(),
                path.display()
            );
            Err(StorageError::new(StorageErrorKind::AlreadyExists, message))
        }
    }
}

/// The first file or directory below a directory that is not part of the mirror in it. Returns its relative path.
fn foreign_entry(directory: &Path) -> io::Result<Option<PathBuf>> {
    let listed = ListedPaths::read(directory)?;
    let mut directories = vec![PathBuf::new()];
    while let Some(inner) = directories.pop() {
        for entry in fs::read_dir(directory.join(&inner))? {
            let entry = entry?;
            let path = inner.join(entry.file_name());
            if !listed.contains(&path) && !BY_FILE_MANAGERS.iter().any(|name| entry.file_name() == *name) {
                return Ok(Some(path));
            }
            // A link to a directory is none.
            if entry.file_type()?.is_dir() {
                directories.push(path);
            }
        }
    }
    Ok(None)
}

/// The files and directories of a mirror, as hashes of their paths: 16 bytes or so for each.
#[derive(Default)]
struct ListedPaths {
    hashes: HashSet<u64>,
    hasher: RandomState,
}

impl ListedPaths {
    /// Reads the list in a mirror. Without one, there are none.
    fn read(mirror: &Path) -> io::Result<ListedPaths> {
        let mut listed = ListedPaths::default();
        let Ok(list) = File::open(mirror.join(LIST_NAME)) else { return Ok(listed) };
        listed.add(Path::new(LIST_NAME));
        for line in BufReader::new(list).lines() {
            let line = line?;
            let Ok(file) = serde_json::from_str::<ListedFile>(&line) else { break };
            listed.add(Path::new(&*file.file));
        }
        Ok(listed)
    }

    /// Adds a path and the directories that it is in.
    fn add(&mut self, path: &Path) {
        for path in path.ancestors() {
            if !self.hashes.insert(self.hasher.hash_one(path)) {
                break;
            }
        }
    }

    fn contains(&self, path: &Path) -> bool {
        self.hashes.contains(&self.hasher.hash_one(path))
    }
}

/// Removes a tree, if it exists. Links in it are removed, not followed.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn is_mount_point(path: &Path, found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path.join("..")).is_ok_and(|parent| parent.dev() != found.dev())
}

#[cfg(not(unix))]
fn is_mount_point(_: &Path, _: &fs::Metadata) -> bool {
    false
}

/// Exchanges two directories at once. Returns false if the system or the file system cannot do that.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> bool {
    false
}

/// Waits until what was written is on disk: one call for all files.
#[cfg(target_os = "linux")]
fn sync_file_system(directory: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(directory)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(directory: &File) -> io::Result<()> {
    directory.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn make(target: &Path, file: &str) {
        let mut tree = NewTree::create(target).unwrap();
        tree.write(file, b"content").unwrap();
        tree.write(LIST_NAME, format!("{{\"url\":\"http://h/\",\"file\":\"{file}\"}}\n").as_bytes()).unwrap();
        tree.finish().unwrap();
    }

    #[test]
    fn tree_replaces_an_earlier_one_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("mirror");
        make(&target, "h/a/b.html");
        assert_eq!(fs::read(target.join("h/a/b.html")).unwrap(), b"content");
        make(&target, "h/c.html");
        assert_eq!(names(&target.join("h")), ["c.html"]);
        let mut abandoned = NewTree::create(&target).unwrap();
        abandoned.write("h/d.html", b"").unwrap();
        assert_eq!(NewTree::create(&target).unwrap_err().kind(), StorageErrorKind::InUse);
        drop(abandoned);
        assert_eq!(
            (names(directory.path()), names(&target.join("h"))),
            (vec!["mirror".into()], vec!["c.html".into()])
        );
    }

    #[test]
    fn directory_that_is_no_mirror_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("precious");
        fs::create_dir(&target).unwrap();
        make(&target, "h/a/b.html");
        let refused = |what: &str| {
            let error = NewTree::create(&target).unwrap_err();
            assert_eq!(error.kind(), StorageErrorKind::AlreadyExists);
            assert!(
                error.to_string().contains(&format!("it contains '{what}', which is not part")),
                "{error}"
            );
        };
        fs::create_dir(target.join("notes")).unwrap();
        refused("notes");
        fs::remove_dir(target.join("notes")).unwrap();
        for own in ["h/notes.txt", "h/a/notes", "h/a/b.html~"] {
            fs::write(target.join(own), "precious").unwrap();
            refused(own);
            fs::remove_file(target.join(own)).unwrap();
        }
        fs::write(target.join("h/a/.DS_Store"), "").unwrap();
        drop(NewTree::create(&target).unwrap());
        fs::remove_file(target.join(LIST_NAME)).unwrap();
        refused("h");
        fs::write(directory.path().join("file"), "").unwrap();
        assert_eq!(
            NewTree::create(&directory.path().join("file")).unwrap_err().kind(),
            StorageErrorKind::Unusable
        );
        #[cfg(target_os = "linux")]
        assert!(check_target(Path::new("/proc")).unwrap_err().to_string().contains("it is a mount point"));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed_out_of_the_tree() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let (target, elsewhere) = (directory.path().join("mirror"), directory.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("a.html"), "precious").unwrap();
        make(&target, "h/a.html");
        fs::remove_dir_all(target.join("h")).unwrap();
        symlink(&elsewhere, target.join("h")).unwrap();
        symlink(&elsewhere, directory.path().join(".mirror.unfinished")).unwrap();
        make(&target, "h/a.html");
        assert_eq!(fs::read(elsewhere.join("a.html")).unwrap(), b"precious");
        assert!(target.join("h").symlink_metadata().unwrap().is_dir());
        // A link to the mirror itself stays.
        symlink(&target, directory.path().join("link")).unwrap();
        make(&directory.path().join("link"), "h/b.html");
        assert_eq!(names(&target.join("h")), ["b.html"]);
        assert!(directory.path().join("link").is_symlink());
    }
}
