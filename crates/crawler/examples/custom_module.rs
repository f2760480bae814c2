//! A module of your own: prints the pages with the most links.
//!
//! ```sh
//! cargo run --example custom_module URL
//! ```

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crawler::{Crawler, Error, Page};

fn main() -> Result<(), Error> {
    let seed = std::env::args().nth(1).unwrap_or_else(|| "https://example.org/".into());
    let pages = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&pages);
    let report = Crawler::new(&seed)?
        .max_depth(2)
        .module(move |page: &Page| {
            seen.lock().expect("no module panics").insert((page.links.iter().len(), page.url.to_string()));
        })
        .run_blocking()?;
    let mut text = format!("{} pages\n", report.snapshot.pages);
    for (links, url) in pages.lock().expect("no module panics").iter().rev().take(10) {
        text += &format!("{links:5} {url}\n");
    }
    // A reader such as `head` may close the pipe early.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(())
}
