//! The callback mode: crawls a directory of page files, where the link `news` is the file `news`.
//!
//! ```sh
//! cargo run --example crawl_directory DIRECTORY START
//! ```
//!
//! Prints every edge to standard output, and the counts to standard error. Names and pages are bytes in any encoding.

use crawler::CallbackCrawl;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

/// Returns the page behind a link, if it exists.
fn fetch(directory: &Path, link: &[u8]) -> Option<Vec<u8>> {
    // Pages choose their links, so a link must not lead out of the directory.
    if link.contains(&b'/') || link == b"." || link == b".." {
        return None;
    }
    fs::read(directory.join(OsStr::from_bytes(link))).ok()
}

fn print_edge(from: &[u8], to: &[u8]) {
    let line = [from, b" -> ", to, b"\n"].concat();
    // A reader such as `head` may close the pipe early.
    let _ = io::stdout().write_all(&line);
}

fn main() -> ExitCode {
    let words: Vec<_> = env::args_os().skip(1).collect();
    let [directory, start] = words.as_slice() else {
        eprintln!("usage: crawl_directory DIRECTORY START");
        return ExitCode::from(2);
    };
    let crawl = CallbackCrawl::default().download_workers(8).parse_workers(2).work_queue_size(100);
    match crawl.run(start.as_bytes(), |link| fetch(Path::new(directory), link), print_edge) {
        Ok(report) => {
            eprintln!("{} pages, {} broken links, {} edges", report.pages, report.broken, report.edges);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot crawl: {error:#}");
            ExitCode::FAILURE
        }
    }
}
