//! Crawls one host with the `spider` crate, for comparison with this crawler: `spider-bench URL CONCURRENCY`.

use spider::website::Website;
use tokio::sync::broadcast::error::RecvError;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, concurrency] = arguments.as_slice() else {
        eprintln!("usage: spider-bench URL CONCURRENCY");
        std::process::exit(2);
    };
    let Ok(concurrency) = concurrency.parse() else {
        eprintln!("CONCURRENCY must be a number, not {concurrency}");
        std::process::exit(2);
    };
    let mut website = Website::new(url);
    website
        .with_respect_robots_txt(false)
        .with_delay(0)
        .with_concurrency_limit(Some(concurrency))
        // Depth 0 means no limit.
        .with_depth(0)
        .with_limit(u32::MAX);
    // The subscriber ignores the pages, like the module noop.
    let mut pages = website.subscribe(0);
    let subscriber =
        tokio::spawn(async move { while !matches!(pages.recv().await, Err(RecvError::Closed)) {} });
    website.crawl().await;
    website.unsubscribe();
    let _ = subscriber.await;
}
