//! `crawler demo`: a small site served on loopback and crawled, so that anybody can see it work.

pub mod distributed;
pub mod pipeline;
mod stage;

use std::time::Duration;

use crawler::ClassicCrawl;
use demoweb::{Server, one_site};
use url::Url;

use crate::EXIT_FAILED;
use crate::args::Verbosity;
use crate::commands::classic;
use crate::printable::{print_error, print_stdout};

/// Deep enough for the whole site.
const MAX_DEPTH: u32 = 5;

/// Short enough to be done in seconds, long enough to be watched.
const DELAY: Duration = Duration::from_millis(200);

/// Runs the demonstration and returns its exit status.
pub async fn run(verbosity: Verbosity) -> u8 {
    match prepare() {
        Ok((server, seed, crawl, directory)) => {
            let (url, place) = (server.url("/"), directory.display());
            let command = format!("crawler {url} {place} {MAX_DEPTH} --delay 200ms");
            if !print_stdout(&format!("A small site is being served at {url}\n  {command}\n\n")) {
                return EXIT_FAILED;
            }
            let status = classic::crawl(&seed, crawl, verbosity).await;
            let first = std::fs::read_to_string(directory.join("1")).unwrap_or_default();
            let beginning: String = first.lines().take(6).map(|line| format!("  {line}\n")).collect();
            print_stdout(&format!("\nThe pages are in {place}; the first begins:\n{beginning}"));
            status
        }
        Err(error) => {
            print_error(&format!("the demonstration cannot run: {error}"));
            EXIT_FAILED
        }
    }
}

type Prepared = (Server, Url, ClassicCrawl, std::path::PathBuf);

fn prepare() -> Result<Prepared, Box<dyn std::error::Error>> {
    let server = Server::start(one_site::answer)?;
    let directory = tempfile::Builder::new().prefix("crawler-demo-").tempdir()?.keep();
    let seed = Url::parse(&server.url("/"))?;
    let crawl = ClassicCrawl::new(seed.as_str(), &directory, MAX_DEPTH)?.delay(DELAY);
    Ok((server, seed, crawl, directory))
}
