//! `crawler demo`: a small site served on loopback and crawled, so that anybody can see it work.

use std::time::Duration;

use crawler::classic::Classic;
use crawler::config::Config;
use crawler::modules::pages::PageFiles;
use testweb::{Web, demo_site};
use url::Url;

use crate::args::Verbosity;
use crate::printable::{complain, say};
use crate::{EXIT_FAILED, classic};

/// Deep enough for the whole site.
const MAX_DEPTH: u32 = 5;

/// Short enough to be done in seconds, long enough to be watched.
const DELAY: Duration = Duration::from_millis(200);

/// Runs the demonstration and returns its exit status.
pub async fn run(verbosity: Verbosity) -> u8 {
    match prepare() {
        Ok((web, crawl, pages, directory)) => {
            let (url, place) = (web.url("/"), directory.display());
            say(&format!("A small site is being served at {url}\n"));
            say(&format!("  crawler {url} {place} {MAX_DEPTH} --delay 200ms\n\n"));
            let status = classic::crawl(crawl, pages, verbosity).await;
            say(&format!("\nThe pages are in {place}; the first begins:\n"));
            let first = std::fs::read_to_string(directory.join("1")).unwrap_or_default();
            first.lines().take(6).for_each(|line| say(&format!("  {line}\n")));
            status
        }
        Err(error) => {
            complain(&format!("the demonstration cannot run: {error}"));
            EXIT_FAILED
        }
    }
}

type Prepared = (Web, Classic, PageFiles, std::path::PathBuf);

fn prepare() -> Result<Prepared, Box<dyn std::error::Error>> {
    let web = Web::builder().site(demo_site()).try_start()?;
    let directory = tempfile::Builder::new().prefix("crawler-demo-").tempdir()?.keep();
    let seed = Url::parse(&web.url("/"))?;
    let config = Config { delay: DELAY, ..Config::default() };
    let crawl = Classic::new(seed, None, MAX_DEPTH, config)?;
    let pages = PageFiles::open(&directory, false)?;
    Ok((web, crawl, pages, directory))
}
