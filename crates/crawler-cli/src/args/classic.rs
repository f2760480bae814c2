//! The command line of the classic crawl: `crawler seedURL pageDirectory maxDepth`.

use std::borrow::Cow;
use std::path::PathBuf;

use crawler::internal::classic::ClassicCrawl;
use crawler::internal::classic::ClassicInternals as _;
use crawler::internal::task::Depth;
use url::Url;

use super::{FetchArgs, Verbosity};
use crate::values;

/// Stands for `--internal`.
const INTERNAL_VARIABLE: &str = "CRAWLER_INTERNAL";

/// What was typed.
#[derive(clap::Args)]
pub struct ClassicArgs {
    /// Where to start: an absolute http or https URL
    #[arg(value_name = "seedURL", required = true)]
    seed: Option<String>,
    /// Where the pages go: an existing directory
    #[arg(value_name = "pageDirectory", required = true)]
    directory: Option<PathBuf>,
    /// How many hops from the seed to go: 0 is the seed alone
    #[arg(value_name = "maxDepth", required = true, allow_negative_numbers = true, value_parser = values::depth)]
    max_depth: Option<Depth>,

    /// Remove the numbered files of an earlier crawl from pageDirectory first
    #[arg(long)]
    overwrite: bool,
    /// Stay below this URL prefix instead of the seed's own server [env: CRAWLER_INTERNAL]
    #[arg(long, value_name = "PREFIX", help_heading = "Scope")]
    internal: Option<String>,

    /// Requests in flight at once; with more than one the delay separates their starts
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::at_least_one, allow_negative_numbers = true, help_heading = "Politeness", display_order = 2)]
    concurrency: usize,

    #[command(flatten)]
    fetch: FetchArgs,
}

/// A classic crawl, ready to begin.
pub struct ClassicJob {
    /// The crawl.
    pub crawl: ClassicCrawl,
    /// Where it begins.
    pub seed: Url,
    /// How many requests are in flight at most.
    pub concurrency: usize,
    /// How much is printed.
    pub verbosity: Verbosity,
}

impl ClassicArgs {
    /// Checks what was typed.
    pub fn validate(self) -> Result<ClassicJob, String> {
        let missing = |name| format!("{name} is missing; see the usage");
        let seed = self.seed.as_deref().ok_or_else(|| missing("seedURL"))?;
        let seed = values::seed(seed).map_err(|error| format!("seedURL is not usable: {error}"))?;
        let directory = self.directory.clone().ok_or_else(|| missing("pageDirectory"))?;
        let max_depth = self.max_depth.ok_or_else(|| missing("maxDepth"))?;
        let (designated_by, internal) = self.internal()?;
        let config = self.fetch.config(self.concurrency, self.concurrency)?;
        let crawl =
            ClassicCrawl::new(seed.as_str(), &directory, max_depth).map_err(|error| error.to_string())?;
        let mut crawl = crawl.overwrite(self.overwrite).configure(|fetch| *fetch = config);
        if let Some(prefix) = &internal {
            crawl = crawl.internal_prefix(prefix).map_err(|error| format!("{error} ({designated_by})"))?;
        }
        Ok(ClassicJob { crawl, seed, concurrency: self.concurrency, verbosity: self.fetch.verbosity() })
    }

    /// The prefix that was designated, and by what. An empty variable is one that is not set.
    fn internal(&self) -> Result<(&'static str, Option<Url>), String> {
        let variable = std::env::var_os(INTERNAL_VARIABLE).filter(|value| !value.is_empty());
        let (name, text) = match (&self.internal, &variable) {
            (Some(text), _) => ("--internal", Cow::Borrowed(text.as_str())),
            (None, Some(text)) => (INTERNAL_VARIABLE, text.to_string_lossy()),
            (None, None) => return Ok(("--internal", None)),
        };
        match values::prefix(&text) {
            Ok(prefix) => Ok((name, Some(prefix))),
            Err(error) => Err(format!("{name} is not usable: {error}")),
        }
    }
}
