//! The classic page files: page N is the file N of a directory, its URL, its depth, then its bytes unchanged.

use std::io;
use std::path::Path;

use super::output::numbered_dir::NumberedDir;
use super::{Output, OutputWrite};
use crate::error::Error;
use crate::page::Page;
use crate::task::Depth;

/// A directory that pages are written to, by one crawl at a time.
#[derive(Debug)]
pub struct PageFiles {
    files: NumberedDir,
    next: u64,
}

impl PageFiles {
    /// Opens an existing, writable directory without numbered files, or clears it of them if told to.
    pub fn open(path: &Path, overwrite: bool) -> Result<PageFiles, Error> {
        let files = NumberedDir::open(path)?;
        if !overwrite {
            files.refuse_unless_empty()?;
        }
        files.remove_after(0)?;
        Ok(PageFiles { files, next: 1 })
    }

    /// Writes the next page and returns its number. The file appears whole or not at all, and a page that
    /// could not be written uses up no number.
    pub fn save(&mut self, url: &str, depth: Depth, body: &[u8]) -> io::Result<u64> {
        let number = self.next;
        self.files.save(number, head(url, depth).as_bytes(), body)?;
        self.next += 1;
        Ok(number)
    }
}

/// The same files as the output of a crawl that may be killed and resumed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pages;

impl Output for Pages {
    fn name(&self) -> &str {
        "pages"
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let head = head(page.url.as_str(), page.depth);
        OutputWrite::File([head.as_bytes(), &page.body].concat())
    }
}

/// What stands before the bytes of the page.
fn head(url: &str, depth: Depth) -> String {
    format!("{url}\n{depth}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::example;
    use std::fs;

    fn each_way(test: impl Fn(&Path, PageFiles)) {
        NumberedDir::each_way(|path, files| test(path, PageFiles { files, next: 1 }));
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
    fn as_an_output_a_page_is_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let body = b"<p>\xFF no newline";
        PageFiles::open(directory.path(), false).unwrap().save("http://a.test/x", 2, body).unwrap();
        let classic = fs::read(directory.path().join("1")).unwrap();
        assert_eq!(Pages.render(&example::page("http://a.test/x", body, &[])), OutputWrite::File(classic));
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
        for name in ["1", "27", "notes.txt", "007", "0"] {
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
        for name in ["3", ".page.unfinished"] {
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
            let unfinished = path.join(".page.unfinished");
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
