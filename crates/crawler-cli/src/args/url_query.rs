//! The command lines of looking into a crawl: `crawler show URL` and `crawler why URL`, with --state DIR or --redis URL.

use std::path::PathBuf;
use std::sync::Arc;

use crawler::internal::distributed::SharedCrawl;
use url::Url;

use super::distributed::OptionalRedisArgs;
use crate::printable::print_error;

/// What was typed.
#[derive(clap::Args)]
pub struct UrlQueryArgs {
    /// An absolute URL
    #[arg(value_name = "URL")]
    url: String,
    /// What was given as --state when the crawl was begun
    #[arg(long, value_name = "DIR", conflicts_with = "redis")]
    state: Option<PathBuf>,
    #[command(flatten)]
    shared: OptionalRedisArgs,
}

/// A URL that somebody wants to know about, and where it is known.
pub struct UrlQuery {
    /// The URL.
    pub url: Url,
    /// Where.
    pub source: Source,
}

/// Where a crawl is.
pub enum Source {
    /// The directory of its state.
    State(PathBuf),
    /// On Redis.
    Redis(Box<SharedCrawl>),
}

impl UrlQueryArgs {
    /// Checks what was typed.
    pub fn validate(self) -> Result<UrlQuery, String> {
        let url = Url::parse(&self.url)
            .map_err(|error| format!("the URL is not usable: {error}; give an absolute URL"))?;
        let shared = self.shared.validate(Arc::new(print_error))?;
        let source = match (self.state, shared) {
            (Some(directory), _) => Source::State(directory),
            (None, Some(sharing)) => Source::Redis(Box::new(sharing)),
            (None, None) => {
                return Err("give --state DIR, or --redis URL (or --redis alone, with CRAWLER_REDIS)".into());
            }
        };
        Ok(UrlQuery { url, source })
    }
}
