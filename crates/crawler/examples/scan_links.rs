//! Finds the links of pages on disk, to measure what that costs.
//!
//! ```text
//! cargo build --profile bench --example scan_links
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*scan_all*' \
//!     target/release/examples/scan_links --only-scan DIRECTORY
//! ```
//!
//! Divide the number of instructions that callgrind calls `Collected` by the number of bytes printed. Without
//! `--only-scan` the targets are also joined to absolute URLs, and with `--fingerprint` the pages' fingerprints
//! are taken on the way.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs, io};

use crawler::internal::html::{self, Targets};
use crawler::internal::similarity::{Fingerprint, HashKey};
use url::Url;

fn main() -> io::Result<()> {
    let mut pages = Vec::new();
    let mut work = Work::Join;
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

/// How much is done with each page.
#[derive(Clone, Copy)]
pub enum Work {
    /// The targets are found.
    Scan,
    /// The targets are found and joined.
    Join,
    /// The same, and the fingerprint is taken.
    Fingerprint,
}

/// A page with the URL that it is supposed to be found at.
pub struct Page {
    url: Url,
    body: Vec<u8>,
}

/// The number of links of all pages: the one function whose instructions are to be counted.
#[inline(never)]
pub fn scan_all(pages: &[Page], work: Work) -> usize {
    let mut count = 0;
    let html = Some("text/html");
    for Page { url, body } in pages {
        let found = |_, target: Result<&str, _>| {
            count += 1;
            let _ = black_box(target);
        };
        match work {
            Work::Scan => count += black_box(Targets::of(body)).links.len(),
            Work::Join => html::each_link(url, html, body, found),
            Work::Fingerprint => {
                black_box(Fingerprint::of_html(
                    HashKey::new(1),
                    url,
                    html,
                    body,
                    &mut html::LinkHandler(found),
                ));
            }
        }
    }
    count
}

/// Loads a page, or all of a directory, as if served from a site with the root at `root`.
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
