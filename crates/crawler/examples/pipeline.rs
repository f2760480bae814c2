//! The pipeline mode: streams the pages of a crawl of many hosts.
//!
//! ```sh
//! cargo run --example pipeline URL
//! ```

use crawler::{Crawler, Error, Outcome};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let seed = std::env::args().nth(1).unwrap_or_else(|| "https://example.org/".into());
    let mut pages = Crawler::new(&seed)?
        .max_pages(100)
        .user_agent("example/1.0 (+https://example.org/bot)")
        .on_outcome(|url, outcome| {
            if let Outcome::HttpStatus { code, .. } = outcome {
                eprintln!("{url}: HTTP status {code}");
            }
        })
        .pages()?;
    while let Some(page) = pages.next().await {
        println!("{} {:?}, {} links", page.url, page.title, page.links.len());
    }
    let report = pages.report().await?;
    eprintln!("{} pages in {:.1?}: {}", report.snapshot.pages, report.elapsed, report.end);
    Ok(())
}
