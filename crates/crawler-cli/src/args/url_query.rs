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
                return Err("missing --state <DIR> or --redis <URL>, to select the crawl".into());
            }
        };
        Ok(UrlQuery { url, source })
    }
}
