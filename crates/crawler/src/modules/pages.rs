//! Page files: page N is file N of a directory, with its URL, its depth, then its unchanged bytes.

use std::io;
use std::path::Path;

use super::output::numbered_dir::NumberedDir;
use super::{BuiltinOutput, OutputWrite};
use crate::error::StorageError;
use crate::page::Page;
use crate::task::Depth;

/// The page directory of the classic mode, locked against other crawls.
#[derive(Debug)]
pub struct PageFiles {
    files: NumberedDir,
    next: u64,
}

impl PageFiles {
    /// Opens an existing, writable directory. Numbered files in it are an error, or are removed if `overwrite` is set.
    /// Nothing is removed if `prepare` fails.
    pub fn open_with<T>(
        path: &Path,
        overwrite: bool,
        prepare: impl FnOnce(&PageFiles) -> Result<T, StorageError>,
    ) -> Result<(PageFiles, T), StorageError> {
        let pages = PageFiles { files: NumberedDir::open(path)?, next: 1 };
        if !overwrite {
            pages.files.ensure_empty()?;
        }
        pages.files.removable_after(0)?;
        let prepared = prepare(&pages)?;
        pages.files.remove_after(0)?;
        Ok((pages, prepared))
    }

    /// Rejects the path of another output if it is that of a page.
    pub fn ensure_not_page(&self, path: &Path) -> Result<(), StorageError> {
        self.files.ensure_not_in(path)
    }

    /// Writes the next page and returns its number. The file is created atomically. A page that could not be written
    /// does not use up a number.
    pub fn save(&mut self, url: &str, depth: Depth, body: &[u8]) -> io::Result<u64> {
        let number = self.next;
        self.files.save(number, head(url, depth).as_bytes(), body)?;
        self.next += 1;
        Ok(number)
    }
}

/// The same files as an output of the pipeline.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pages;

impl BuiltinOutput for Pages {
    fn name(&self) -> &str {
        "pages"
    }

    fn wants_found_on(&self) -> bool {
        false
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let head = head(page.url.as_str(), page.depth);
        OutputWrite::File([head.as_bytes(), &page.body].concat())
    }
}

/// The lines before the page's bytes.
fn head(url: &str, depth: Depth) -> String {
    format!("{url}\n{depth}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StorageErrorKind;
    use crate::modules::example;
    use std::fs;

    impl PageFiles {
        fn open(path: &Path, overwrite: bool) -> Result<PageFiles, StorageError> {
            PageFiles::open_with(path, overwrite, |_| Ok(())).map(|(pages, ())| pages)
        }
    }

    fn with_each_method(test: impl Fn(&Path, PageFiles)) {
        NumberedDir::with_each_method(|path, files| test(path, PageFiles { files, next: 1 }));
    }

    #[test]
    fn files_are_numbered_from_one_and_have_url_depth_and_bytes() {
        with_each_method(|path, mut pages| {
            assert_eq!(pages.save("http://a/", 0, b"<p>\xFF no newline").unwrap(), 1);
            assert_eq!(pages.save("http://a/b", 12, b"").unwrap(), 2);
            assert_eq!(fs::read(path.join("1")).unwrap(), b"http://a/\n0\n<p>\xFF no newline");
            assert_eq!(fs::read(path.join("2")).unwrap(), b"http://a/b\n12\n");
            assert_eq!(fs::read_dir(path).unwrap().count(), 2, "there are no other files");
        });
    }

    #[test]
    fn output_writes_the_same_file_as_the_classic_mode() {
        let directory = tempfile::tempdir().unwrap();
        let body = b"<p>\xFF no newline";
        PageFiles::open(directory.path(), false).unwrap().save("http://a.test/x", 2, body).unwrap();
        let classic = fs::read(directory.path().join("1")).unwrap();
        assert_eq!(Pages.render(&example::page("http://a.test/x", body, &[])), OutputWrite::File(classic));
    }

    #[test]
    fn failed_write_does_not_use_up_a_number() {
        with_each_method(|path, mut pages| {
            fs::create_dir(path.join("1")).unwrap();
            assert!(pages.save("http://a/", 0, b"x").is_err());
            fs::remove_dir(path.join("1")).unwrap();
            assert_eq!(pages.save("http://a/", 0, b"x").unwrap(), 1);
            assert_eq!(fs::read_dir(path).unwrap().count(), 1);
        });
    }

    #[test]
    fn earlier_pages_are_rejected_or_removed_and_other_files_stay() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["1", "27", "notes.txt", "007", "0"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let refused = PageFiles::open(directory.path(), false).unwrap_err();
        assert_eq!(refused.kind(), StorageErrorKind::AlreadyExists, "{refused}");
        drop(PageFiles::open(directory.path(), true).unwrap());
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["0", "007", "notes.txt"]);
    }

    #[test]
    fn directory_with_the_name_of_a_page_is_rejected_and_nothing_is_removed() {
        for name in ["3", ".page.unfinished"] {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("1"), "").unwrap();
            fs::create_dir(directory.path().join(name)).unwrap();
            let refused = PageFiles::open(directory.path(), true).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("/{name}': something that is not a file is there")),
                "{refused}"
            );
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn temporary_file_is_replaced_without_being_opened() {
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        fs::write(&elsewhere, "content of another file").unwrap();
        with_each_method(|path, mut pages| {
            let unfinished = path.join(".page.unfinished");
            let link = || std::os::unix::fs::symlink(&elsewhere, &unfinished).unwrap();
            link();
            pages.save("http://a/", 0, b"x").unwrap();
            drop(pages);
            let _ = fs::remove_file(&unfinished);
            link();
            drop(PageFiles::open(path, true).unwrap());
            assert!(fs::symlink_metadata(&unfinished).is_err(), "the link is gone");
            // Opening a pipe would block until it has a reader.
            rustix::fs::mknodat(rustix::fs::CWD, &unfinished, rustix::fs::FileType::Fifo, 0o600.into(), 0)
                .unwrap();
            drop(PageFiles::open(path, true).unwrap());
        });
        assert_eq!(fs::read(&elsewhere).unwrap(), b"content of another file");
    }

    #[test]
    fn directory_is_locked_against_other_crawls() {
        let directory = tempfile::tempdir().unwrap();
        let first = PageFiles::open(directory.path(), false).unwrap();
        assert_eq!(PageFiles::open(directory.path(), false).unwrap_err().kind(), StorageErrorKind::InUse);
        drop(first);
        PageFiles::open(directory.path(), false).unwrap();
    }

    #[test]
    fn target_that_is_not_a_directory_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [file, directory.path().join("none")] {
            assert_eq!(PageFiles::open(&path, false).unwrap_err().kind(), StorageErrorKind::Unusable);
        }
    }
}
