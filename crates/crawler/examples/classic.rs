//! The classic mode: saves a site as numbered files.
//!
//! ```sh
//! mkdir pages && cargo run --example classic URL pages 2
//! ```

use crawler::{ClassicCrawl, OutcomeGroup};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, directory, depth] = arguments.as_slice() else {
        return Err("usage: classic URL DIRECTORY DEPTH".into());
    };
    let report = ClassicCrawl::new(seed, directory, depth.parse()?)?.run_blocking()?;
    eprintln!(
        "{} pages saved, {} URLs failed",
        report.stats.pages,
        report.stats.in_group(OutcomeGroup::Failed)
    );
    Ok(())
}
