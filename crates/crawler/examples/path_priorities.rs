//! Priorities of your own: crawls the pages below one path of a site before the others.
//!
//! ```sh
//! cargo run --example path_priorities URL PATH PAGES
//! ```

use std::time::Duration;

use crawler::{Candidate, Crawler, Page, Priorities, Prioritizer, Priority, Scope};
use url::Url;

/// Prefers URLs that contain a path.
struct PathFirst {
    path: String,
}

impl PathFirst {
    fn priority(&self, candidate: &Candidate) -> Priority {
        if candidate.url.contains(&self.path) { Priority::BEST } else { Priority::WORST }
    }
}

impl Prioritizer for PathFirst {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        Box::pin(async { candidates.iter().map(|candidate| self.priority(candidate)).collect() })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, path, pages] = arguments.as_slice() else {
        return Err("usage: path_priorities URL PATH PAGES".into());
    };
    let seed: Url = seed.parse()?;
    let scope = Scope::hosts(std::slice::from_ref(&seed));
    let report = Crawler::from_seeds([seed])?
        .scope(scope)
        .prioritizer(PathFirst { path: path.clone() })
        .max_pages(pages.parse()?)
        // For a site of your own.
        .delay(Duration::from_millis(50))
        .module(|page: &Page| println!("{}", page.url))
        .run_blocking()?;
    eprintln!("{} pages: {}", report.snapshot.pages, report.end);
    Ok(())
}
