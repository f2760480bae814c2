//! `crawler demo`: serves a small site on loopback and crawls it.

mod common;
pub mod distributed;
pub mod pipeline;

use std::time::Duration;

use crawler::ClassicCrawl;
use demoweb::{Server, one_site};
use url::Url;

use crate::EXIT_FAILED;
use crate::args::Verbosity;
use crate::commands::classic::{self, Printing};
use crate::printable::{print_error, print_stdout};

/// Deep enough to reach all pages of the site.
const MAX_DEPTH: u32 = 5;

/// The crawl takes seconds, and its progress can be watched.
const DELAY: Duration = Duration::from_millis(200);

/// Runs the demo and returns its exit status.
pub async fn run(verbosity: Verbosity) -> u8 {
    match prepare() {
        Ok((server, seed, crawl, directory)) => {
            let (url, directory_name) = (server.url("/"), directory.display());
            let command = format!("crawler {url} {directory_name} {MAX_DEPTH} --delay 200ms");
            if !print_stdout(&format!("Serving a small site at {url}\n  {command}\n\n")) {
                return EXIT_FAILED;
            }
            let status = classic::crawl(&seed, crawl, Printing::new(verbosity)).await;
            let first = std::fs::read_to_string(directory.join("1")).unwrap_or_default();
            let first_lines: String = first.lines().take(6).map(|line| format!("  {line}\n")).collect();
            print_stdout(&format!("\nThe pages are in {directory_name}; page 1 starts with:\n{first_lines}"));
            status
        }
        Err(error) => {
            print_error(&format!("cannot run the demo: {error}"));
            EXIT_FAILED
        }
    }
}

type Prepared = (Server, Url, ClassicCrawl, std::path::PathBuf);

fn prepare() -> Result<Prepared, Box<dyn std::error::Error>> {
    let server = Server::start(one_site::respond)?;
    let directory = tempfile::Builder::new().prefix("crawler-demo-").tempdir()?.keep();
    let seed = Url::parse(&server.url("/"))?;
    let crawl = ClassicCrawl::new(seed.as_str(), &directory, MAX_DEPTH)?.delay(DELAY);
    Ok((server, seed, crawl, directory))
}
