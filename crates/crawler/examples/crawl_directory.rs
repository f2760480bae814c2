//! Crawls a directory of page files: the link `news` is the file `news` in that directory.
//!
//! ```sh
//! cargo run --example crawl_directory DIRECTORY START
//! ```
//!
//! prints every edge to standard output, and to standard error what the crawl came to.

use crawler::crawl::Crawl;
use std::path::{Component, Path};
use std::process::ExitCode;
use std::{env, fs};

/// The page behind a link, if there is one.
fn fetch(directory: &Path, link: &str) -> Option<String> {
    // A link is whatever a page says it is: it must not lead out of the directory.
    let mut parts = Path::new(link).components();
    let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
        return None;
    };
    fs::read_to_string(directory.join(name)).ok()
}

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    let [directory, start] = words.as_slice() else {
        eprintln!("usage: crawl_directory DIRECTORY START");
        return ExitCode::from(2);
    };
    let crawl = Crawl::new().download_workers(8).parse_workers(2).work_queue_size(100);
    let print_edge = |from: &str, to: &str| println!("{from} -> {to}");
    match crawl.run_str(start, |link| fetch(Path::new(directory), link), print_edge) {
        Ok(report) => {
            eprintln!("{} pages, {} broken links, {} edges", report.pages, report.broken, report.edges);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot crawl: {error}");
            ExitCode::FAILURE
        }
    }
}
