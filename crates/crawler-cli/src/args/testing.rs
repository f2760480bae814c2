//! The options of a crawl from a command line, for unit tests.

use clap::Parser;

use super::CrawlOptions;

#[derive(Parser)]
pub struct TestCli {
    #[command(flatten)]
    options: CrawlOptions,
}

/// The options with these arguments of `crawler crawl`.
pub fn parse(arguments: &str) -> CrawlOptions {
    let arguments = std::iter::once("crawl").chain(arguments.split_whitespace());
    TestCli::try_parse_from(arguments).map_err(|error| error.to_string()).unwrap().options
}
