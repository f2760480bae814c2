//! Extracts the links of HTML files on disk, to measure the CPU cost of link extraction.
//!
//! ```text
//! cargo build --profile bench --example scan_links
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*scan_all*' \
//!     target/release/examples/scan_links --only-scan DIRECTORY
//! ```
//!
//! Divide the instructions that callgrind reports as `Collected` by the number of bytes that the example prints.
//! Without `--only-scan` the targets are also resolved to absolute URLs. With `--fingerprint` the pages' fingerprints
//! are computed in addition.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs, io};

use crawler::internal::html::{self, Targets};
use crawler::internal::similarity::{Fingerprint, HashKey};
use crawler::internal::strip_query::StripQuery;
use url::Url;

fn main() -> io::Result<()> {
    let mut pages = Vec::new();
    let mut work = Work::Resolve;
    for argument in env::args_os().skip(1) {
        if argument == "--only-scan" {
            work = Work::Scan;
        } else if argument == "--fingerprint" {
            work = Work::Fingerprint;
        } else {
            let path = PathBuf::from(argument);
            load(&path, &path, &mut pages)?;
        }
    }
    let bytes: usize = pages.iter().map(|page| page.body.len()).sum();
    let start = Instant::now();
    let links = scan_all(&pages, work);
    println!("{} pages, {bytes} bytes, {links} links, {:?}", pages.len(), start.elapsed());
    Ok(())
}

/// What to do with each page.
#[derive(Clone, Copy)]
pub enum Work {
    /// Find the link targets.
    Scan,
    /// Find the link targets and resolve them.
    Resolve,
    /// Find and resolve the link targets and compute the fingerprint.
    Fingerprint,
}

/// A page with its assumed URL.
pub struct Page {
    url: Url,
    body: Vec<u8>,
}

/// Counts the links of all pages. callgrind counts the instructions of this function only.
#[inline(never)]
pub fn scan_all(pages: &[Page], work: Work) -> usize {
    let mut count = 0;
    let html = Some("text/html");
    for Page { url, body } in pages {
        let on_link = |_, target: Result<&str, _>| {
            count += 1;
            let _ = black_box(target);
        };
        match work {
            Work::Scan => count += black_box(Targets::scan(body)).links.len(),
            Work::Resolve => html::each_link(url, html, body, on_link),
            Work::Fingerprint => {
                black_box(Fingerprint::of_html(
                    HashKey::new(1),
                    &StripQuery::default(),
                    url,
                    html,
                    body,
                    &mut html::LinkHandler(on_link),
                ));
            }
        }
    }
    count
}

/// Loads a file, or all HTML files of a directory, as pages of a site with the root directory `root`.
fn load(path: &Path, root: &Path, pages: &mut Vec<Page>) -> io::Result<()> {
    if path.is_dir() {
        let mut entries =
            fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        entries.sort();
        return entries.iter().try_for_each(|entry| load(entry, root, pages));
    }
    if path == root || path.extension().is_some_and(|extension| extension == "html" || extension == "htm") {
        let below = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
        let url = Url::parse("https://docs.example.org/manual/").and_then(|site| site.join(&below));
        pages.push(Page { url: url.map_err(io::Error::other)?, body: fs::read(path)? });
    }
    Ok(())
}
