//! The arguments of `crawler show URL` and `crawler why URL`, with `--state DIR` or `--redis URL`.

use std::path::PathBuf;
use std::sync::Arc;

use crawler::internal::distributed::SharedCrawl;
use url::Url;

use super::distributed::OptionalRedisArgs;
use crate::printable::print_message;
use crate::values;

/// The arguments as parsed.
#[derive(clap::Args)]
pub struct UrlQueryArgs {
    /// URL of the page
    #[arg(value_name = "URL")]
    url: String,
    /// State directory of the crawl: the DIR of its --state
    #[arg(long, value_name = "DIR", conflicts_with = "redis")]
    state: Option<PathBuf>,
    #[command(flatten)]
    redis: OptionalRedisArgs,
}

/// The arguments of `crawler show`.
#[derive(clap::Args)]
pub struct ShowArgs {
    #[command(flatten)]
    query: UrlQueryArgs,
    /// WARC and WACZ files to find the page in; repeatable
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["state", "redis"])]
    archive: Vec<PathBuf>,
    /// Print the newest capture at or before this time, e.g. 2026-11-05 or 20261105060708
    #[arg(long, value_name = "DATE", requires = "archive", value_parser = values::timestamp)]
    at: Option<String>,
}

/// A checked query for a page.
pub enum ShowQuery {
    /// Of a crawl.
    Crawl(UrlQuery),
    /// Of archives, not later than a timestamp.
    Archives {
        /// The URL.
        url: Url,
        /// The archives.
        archives: Vec<PathBuf>,
        /// Up to 14 digits: year, month, day, hour, minute, second.
        not_after: Option<String>,
    },
}

impl ShowArgs {
    /// Checks the arguments.
    pub fn validate(self) -> Result<ShowQuery, String> {
        if self.archive.is_empty() {
            let query = self.query.validate();
            return query.map(ShowQuery::Crawl).map_err(|error| match error.as_str() {
                NO_CRAWL => "missing --state <DIR>, --redis <URL> or --archive <FILE>, to select the crawl or its archives".into(),
                _ => error,
            });
        }
        let url = values::url(&self.query.url)?;
        Ok(ShowQuery::Archives { url, archives: self.archive, not_after: self.at })
    }
}

/// Why a query is refused that names no crawl.
const NO_CRAWL: &str = "missing --state <DIR> or --redis <URL>, to select the crawl";

/// A checked query for one URL of a crawl.
pub struct UrlQuery {
    /// The URL.
    pub url: Url,
    /// The crawl.
    pub source: CrawlSource,
}

/// Where a crawl's state is stored.
pub enum CrawlSource {
    /// In a state directory.
    State(PathBuf),
    /// In Redis.
    Redis(Box<SharedCrawl>),
}

impl UrlQueryArgs {
    /// Checks the arguments.
    pub fn validate(self) -> Result<UrlQuery, String> {
        let url = values::url(&self.url)?;
        let shared_crawl = self.redis.validate(Arc::new(print_message))?;
        let source = match (self.state, shared_crawl) {
            (Some(directory), _) => CrawlSource::State(directory),
            (None, Some(shared_crawl)) => CrawlSource::Redis(Box::new(shared_crawl)),
            (None, None) => {
                return Err(NO_CRAWL.into());
            }
        };
        Ok(UrlQuery { url, source })
    }
}
