//! The classic page files: page N is the file N of a directory, its URL, its depth, then its bytes unchanged.

use std::fs::{self, File, TryLockError};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::task::Depth;

/// The name a page has while it is being written, where files cannot be written without one. A crash leaves at
/// most this one behind.
const UNFINISHED: &str = ".page.unfinished";

/// A directory that pages are written to, by one crawl at a time.
#[derive(Debug)]
pub struct PageFiles {
    path: PathBuf,
    /// Open, and locked to keep other crawls out.
    directory: File,
    way: Way,
    next: u64,
}

/// How a file comes to appear whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It gets its name when it is complete: a quarter less work for the system than renaming.
    NamedAtTheEnd,
    /// It is renamed when it is complete: possible everywhere.
    Renamed,
}

impl PageFiles {
    /// Opens an existing, writable directory without numbered files, or clears it of them if told to.
    pub fn open(path: &Path, overwrite: bool) -> Result<PageFiles, Error> {
        let unusable = |cause| Error::Directory { path: path.to_owned(), cause };
        if !fs::metadata(path).map_err(unusable)?.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        let directory = File::open(path).map_err(unusable)?;
        // Filesystems that cannot lock are used all the same.
        if let Err(TryLockError::WouldBlock) = directory.try_lock() {
            return Err(Error::InUse { path: path.to_owned() });
        }
        let numbered = numbered_files(path).map_err(unusable)?;
        if let Some(example) = numbered.iter().min()
            && !overwrite
        {
            return Err(Error::NotEmpty { path: path.to_owned(), example: example.to_string() });
        }
        let earlier: Vec<PathBuf> = numbered.iter().map(|number| path.join(number.to_string())).collect();
        // All are looked at before any is removed: a refusal leaves the directory as it was.
        for entry in &earlier {
            if !fs::symlink_metadata(entry).map_err(unusable)?.is_file() {
                return Err(Error::InTheWay { path: entry.clone() });
            }
        }
        // Whether we may write is best known by writing; this also clears what a crash has left behind.
        let unfinished = path.join(UNFINISHED);
        if fs::symlink_metadata(&unfinished).is_ok_and(|found| found.is_dir()) {
            return Err(Error::InTheWay { path: unfinished });
        }
        create_anew(&unfinished).and_then(|_| fs::remove_file(&unfinished)).map_err(unusable)?;
        for entry in earlier {
            fs::remove_file(entry).map_err(unusable)?;
        }
        let way = if nameless::can(&directory) { Way::NamedAtTheEnd } else { Way::Renamed };
        Ok(PageFiles { path: path.to_owned(), directory, way, next: 1 })
    }

    /// Writes the next page and returns its number. The file appears whole or not at all, and a page that
    /// could not be written uses up no number.
    pub fn save(&mut self, url: &str, depth: Depth, body: &[u8]) -> io::Result<u64> {
        let number = self.next;
        let (name, head) = (number.to_string(), format!("{url}\n{depth}\n"));
        match self.way {
            Way::NamedAtTheEnd => {
                let mut file = nameless::create(&self.directory)?;
                write(&mut file, &head, body)?;
                nameless::name(&file, &self.directory, &name)?;
            }
            Way::Renamed => {
                let unfinished = self.path.join(UNFINISHED);
                let written = create_anew(&unfinished)
                    .and_then(|mut file| write(&mut file, &head, body))
                    .and_then(|()| fs::rename(&unfinished, self.path.join(&name)));
                if let Err(error) = written {
                    // What cannot be removed now is cleared by the next run.
                    let _ = fs::remove_file(&unfinished);
                    return Err(error);
                }
            }
        }
        self.next += 1;
        Ok(number)
    }
}

/// A new file in the place of whatever has this name. What is there is removed, never opened: it may be a link
/// to a file of somebody else, or a pipe that nobody reads.
fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

fn write(file: &mut File, head: &str, body: &[u8]) -> io::Result<()> {
    // Both at once as a rule; whatever a single write leaves over is written after it.
    let written = file.write_vectored(&[IoSlice::new(head.as_bytes()), IoSlice::new(body)])?;
    file.write_all(&head.as_bytes()[written.min(head.len())..])?;
    file.write_all(&body[written.saturating_sub(head.len())..])
}

/// Files that have no name until they are given one; a crash leaves nothing of them.
#[cfg(target_os = "linux")]
mod nameless {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

    /// Whether this directory can have such files, and their names can be given through /proc.
    pub(super) fn can(directory: &File) -> bool {
        create(directory).is_ok_and(|file| std::fs::metadata(handle(&file)).is_ok())
    }

    pub(super) fn create(directory: &File) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        Ok(openat(directory, ".", flags, Mode::from_raw_mode(0o666))?.into())
    }

    pub(super) fn name(file: &File, directory: &File, name: &str) -> io::Result<()> {
        Ok(linkat(CWD, handle(file), directory, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn handle(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }
}

#[cfg(not(target_os = "linux"))]
mod nameless {
    use std::fs::File;
    use std::io;

    pub(super) fn can(_: &File) -> bool {
        false
    }

    pub(super) fn create(_: &File) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn name(_: &File, _: &File, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
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

    fn each_way(test: impl Fn(&Path, PageFiles)) {
        for way in [Way::NamedAtTheEnd, Way::Renamed] {
            let directory = tempfile::tempdir().unwrap();
            let pages = PageFiles::open(directory.path(), false).unwrap();
            if way == Way::Renamed || pages.way == way {
                test(directory.path(), PageFiles { way, ..pages });
            }
        }
    }

    #[test]
    fn pages_are_numbered_from_one_and_hold_url_depth_and_bytes() {
        each_way(|path, mut pages| {
            assert_eq!(pages.save("http://a/", 0, b"<p>\xFF no newline").unwrap(), 1);
            assert_eq!(pages.save("http://a/b", 12, b"").unwrap(), 2);
            assert_eq!(fs::read(path.join("1")).unwrap(), b"http://a/\n0\n<p>\xFF no newline");
            assert_eq!(fs::read(path.join("2")).unwrap(), b"http://a/b\n12\n");
            assert_eq!(fs::read_dir(path).unwrap().count(), 2, "nothing else is left");
        });
    }

    #[test]
    fn a_page_that_cannot_be_written_uses_up_no_number() {
        each_way(|path, mut pages| {
            fs::create_dir(path.join("1")).unwrap();
            assert!(pages.save("http://a/", 0, b"x").is_err());
            fs::remove_dir(path.join("1")).unwrap();
            assert_eq!(pages.save("http://a/", 0, b"x").unwrap(), 1);
            assert_eq!(fs::read_dir(path).unwrap().count(), 1);
        });
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
    fn what_is_no_file_is_named_and_nothing_is_removed() {
        for name in ["3", UNFINISHED] {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("1"), "").unwrap();
            fs::create_dir(directory.path().join(name)).unwrap();
            let refused = PageFiles::open(directory.path(), true).unwrap_err().to_string();
            assert!(refused.contains(&format!("/{name}' is in the way")), "{refused}");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_unfinished_page_is_replaced_and_never_opened() {
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        fs::write(&elsewhere, "of somebody else").unwrap();
        each_way(|path, mut pages| {
            let unfinished = path.join(UNFINISHED);
            let link = || std::os::unix::fs::symlink(&elsewhere, &unfinished).unwrap();
            link();
            pages.save("http://a/", 0, b"x").unwrap();
            drop(pages);
            let _ = fs::remove_file(&unfinished);
            link();
            drop(PageFiles::open(path, true).unwrap());
            assert!(fs::symlink_metadata(&unfinished).is_err(), "the link is gone");
            // Opening a pipe would wait for a reader.
            rustix::fs::mknodat(rustix::fs::CWD, &unfinished, rustix::fs::FileType::Fifo, 0o600.into(), 0)
                .unwrap();
            drop(PageFiles::open(path, true).unwrap());
        });
        assert_eq!(fs::read(&elsewhere).unwrap(), b"of somebody else");
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
