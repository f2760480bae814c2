//! The classic page files: page N is the file N of a directory, its URL, its depth, then its bytes unchanged.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::task::Depth;

/// The name a page has while it is being written. A crash leaves at most this one behind.
const UNFINISHED: &str = ".page.unfinished";

/// A directory that pages are written to, by one crawl at a time.
#[derive(Debug)]
pub struct PageFiles {
    directory: PathBuf,
    next: u64,
    /// Held to keep other crawls out.
    _lock: File,
}

impl PageFiles {
    /// Opens an existing, writable directory without numbered files, or clears it of them if told to.
    pub fn open(directory: &Path, overwrite: bool) -> Result<PageFiles, Error> {
        let unusable = |cause| Error::Directory { path: directory.to_owned(), cause };
        if !fs::metadata(directory).map_err(unusable)?.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        let lock = File::open(directory).map_err(unusable)?;
        // Filesystems that cannot lock are used all the same.
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(Error::InUse { path: directory.to_owned() });
        }
        let numbered = numbered_files(directory).map_err(unusable)?;
        if let Some(example) = numbered.iter().min()
            && !overwrite
        {
            return Err(Error::NotEmpty { path: directory.to_owned(), example: example.to_string() });
        }
        // Also what a crash may have left behind; and whether we may write is best known by writing.
        let unfinished = directory.join(UNFINISHED);
        File::create(&unfinished).and_then(|_| fs::remove_file(&unfinished)).map_err(unusable)?;
        for number in numbered {
            fs::remove_file(directory.join(number.to_string())).map_err(unusable)?;
        }
        Ok(PageFiles { directory: directory.to_owned(), next: 1, _lock: lock })
    }

    /// Writes the next page and returns its number. The file appears whole or not at all, and a page that
    /// could not be written uses up no number.
    pub fn save(&mut self, url: &str, depth: Depth, body: &[u8]) -> io::Result<u64> {
        let unfinished = self.directory.join(UNFINISHED);
        let number = self.next;
        let written = write(&unfinished, &format!("{url}\n{depth}\n"), body)
            .and_then(|()| fs::rename(&unfinished, self.directory.join(number.to_string())));
        if let Err(error) = written {
            // What cannot be removed now is cleared by the next run.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        self.next += 1;
        Ok(number)
    }
}

fn write(path: &Path, head: &str, body: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    // Both at once as a rule; whatever a single write leaves over is written after it.
    let written = file.write_vectored(&[IoSlice::new(head.as_bytes()), IoSlice::new(body)])?;
    let head_left = &head.as_bytes()[written.min(head.len())..];
    file.write_all(head_left)?;
    file.write_all(&body[written.saturating_sub(head.len())..])
}

/// The numbers that stand as names in a directory, as `save` writes them.
fn numbered_files(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.parse().ok().filter(|number: &u64| number.to_string() == name));
        numbers.extend(number.filter(|number| *number > 0));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_numbered_from_one_and_hold_url_depth_and_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let mut pages = PageFiles::open(directory.path(), false).unwrap();
        assert_eq!(pages.save("http://a/", 0, b"<p>\xFF no newline").unwrap(), 1);
        assert_eq!(pages.save("http://a/b", 12, b"").unwrap(), 2);
        assert_eq!(fs::read(directory.path().join("1")).unwrap(), b"http://a/\n0\n<p>\xFF no newline");
        assert_eq!(fs::read(directory.path().join("2")).unwrap(), b"http://a/b\n12\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn a_page_that_cannot_be_written_uses_up_no_number() {
        let directory = tempfile::tempdir().unwrap();
        let mut pages = PageFiles::open(directory.path(), false).unwrap();
        fs::create_dir(directory.path().join("1")).unwrap();
        assert!(pages.save("http://a/", 0, b"x").is_err());
        fs::remove_dir(directory.path().join("1")).unwrap();
        assert_eq!(pages.save("http://a/", 0, b"x").unwrap(), 1);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn earlier_pages_are_refused_or_removed_and_other_files_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["1", "27", "notes.txt", "007", "0", UNFINISHED] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let refused = PageFiles::open(directory.path(), false).unwrap_err();
        assert!(matches!(refused, Error::NotEmpty { .. }), "{refused}");
        drop(PageFiles::open(directory.path(), true).unwrap());
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["0", "007", "notes.txt"]);
    }

    #[test]
    fn two_crawls_do_not_share_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let first = PageFiles::open(directory.path(), false).unwrap();
        assert!(matches!(PageFiles::open(directory.path(), false), Err(Error::InUse { .. })));
        drop(first);
        PageFiles::open(directory.path(), false).unwrap();
    }

    #[test]
    fn what_is_not_a_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(PageFiles::open(&file, false), Err(Error::Directory { .. })));
        assert!(matches!(
            PageFiles::open(&directory.path().join("none"), false),
            Err(Error::Directory { .. })
        ));
    }
}
