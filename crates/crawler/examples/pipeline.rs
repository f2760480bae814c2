//! The pipeline mode: streams the pages of a crawl of many hosts.
//!
//! ```sh
//! cargo run --example pipeline URL…
//! ```

use std::io::{self, Write};
use std::process::ExitCode;

use crawler::{Crawler, OutcomeGroup};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let seeds = std::env::args().skip(1).map(|seed| seed.parse()).collect::<Result<Vec<_>, _>>()?;
    let mut pages = Crawler::from_seeds(seeds)?
        .max_pages(100)
        .user_agent("example/1.0 (+https://example.org/bot)")
        .pages()?;
    while let Some(page) = pages.next().await {
        // A reader such as `head` may close the pipe early: then the crawl stops.
        if writeln!(io::stdout(), "{} {:?}, {} links", page.url, page.title, page.links.iter().len()).is_err()
        {
            break;
        }
    }
    let report = pages.report().await?;
    for (seed, outcome) in &report.seeds {
        if outcome.group() == OutcomeGroup::Failed {
            eprintln!("seed {seed}: {outcome}");
        }
    }
    eprintln!("{} pages in {:.1?}: {}", report.snapshot.pages, report.elapsed, report.end);
    Ok(if report.snapshot.pages > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
