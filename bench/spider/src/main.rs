//! Crawls one host with the `spider` crate, to be measured beside this crawler: `spider-bench URL CONCURRENCY`.

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
        eprintln!("CONCURRENCY is a number, not {concurrency}");
        std::process::exit(2);
    };
    let mut website = Website::new(url);
    website
        .with_respect_robots_txt(false)
        .with_delay(0)
        .with_concurrency_limit(Some(concurrency))
        // Depth 0 is no limit.
        .with_depth(0)
        .with_limit(u32::MAX);
    // Each page goes to a subscriber that does nothing with it, as to the module noop.
    let mut pages = website.subscribe(0);
    let subscriber =
        tokio::spawn(async move { while !matches!(pages.recv().await, Err(RecvError::Closed)) {} });
    website.crawl().await;
    website.unsubscribe();
    let _ = subscriber.await;
}
