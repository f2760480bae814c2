//! The arguments of the classic crawl: `crawler seedURL pageDirectory maxDepth`.

use std::path::{Path, PathBuf};

use crawler::CookieJar;
use crawler::internal::classic::ClassicCrawl;
use crawler::internal::classic::ClassicInternals as _;
use crawler::internal::task::Depth;
use url::Url;

use super::crawl::complete_seed;
use super::{FetchArgs, Verbosity};
use crate::commands::crawl::plan;
use crate::values;

/// The arguments as parsed.
#[derive(clap::Args)]
pub struct ClassicArgs {
    /// URL to start from (http or https)
    #[arg(value_name = "seedURL", required = true)]
    seed: Option<String>,
    /// Existing directory to save the pages in
    #[arg(value_name = "pageDirectory", required = true)]
    directory: Option<PathBuf>,
    /// Maximum number of links to follow from the seed; 0 fetches the seed alone
    #[arg(value_name = "maxDepth", required = true, allow_negative_numbers = true, value_parser = values::depth)]
    max_depth: Option<Depth>,

    /// Delete the numbered files of an earlier crawl in pageDirectory first
    #[arg(long)]
    overwrite: bool,
    /// Follow only links below this URL prefix [default: the seed's scheme, host and port]
    #[arg(long, value_name = "PREFIX", help_heading = "Scope")]
    internal: Option<String>,

    /// Maximum requests in flight; if more than 1, the delay applies between request starts
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::concurrency, help_heading = "Politeness", display_order = 2)]
    concurrency: usize,

    #[command(flatten)]
    fetch: FetchArgs,
}

/// Gives an option that the classic crawl shares with `crawl` its own default: pages are saved whole.
pub fn adapt(option: clap::Arg) -> clap::Arg {
    match option.get_id().as_str() {
        "max_page_bytes" | "max_file_bytes" => option.default_value("50MB"),
        _ => option,
    }
}

/// A checked classic crawl.
pub struct ClassicJob {
    /// The crawl.
    pub crawl: ClassicCrawl,
    /// The seed URL.
    pub seed: Url,
    /// Maximum requests in flight.
    pub concurrency: usize,
    /// What the crawl will do, in one line.
    pub plan: String,
    /// How much is printed.
    pub verbosity: Verbosity,
    /// The cookies of the crawl.
    pub cookies: Option<CookieJar>,
    /// The file for them.
    pub save_cookies: Option<PathBuf>,
    /// The warning about an option that makes the crawl insecure.
    pub warning: Option<&'static str>,
}

impl ClassicArgs {
    /// Checks the arguments.
    pub fn validate(mut self) -> Result<ClassicJob, String> {
        self.fetch.resolve_logins()?;
        // Clap requires all three.
        let missing = |name| format!("missing <{name}>");
        let mut seed = self.seed.clone().ok_or_else(|| missing("seedURL"))?;
        complete_seed(&mut seed, self.fetch.verbosity() == Verbosity::Quiet);
        let seed = values::seed(&seed).map_err(|error| error.of("seedURL"))?;
        let directory = self.directory.clone().ok_or_else(|| missing("pageDirectory"))?;
        let max_depth = self.max_depth.ok_or_else(|| missing("maxDepth"))?;
        let internal = self.internal.as_deref().map(values::prefix).transpose();
        let internal = internal.map_err(|error| format!("--internal is invalid: {error}"))?;
        let config = self.fetch.config(std::slice::from_ref(&seed), self.concurrency, self.concurrency)?;
        let save_cookies = self.fetch.login.save_cookies().map(Path::to_owned);
        let cookies = config.requests.cookies.clone();
        let plan = plan::classic(&seed, internal.as_ref(), &directory, max_depth);
        let crawl =
            ClassicCrawl::new(seed.as_str(), directory, max_depth).map_err(|error| error.to_string())?;
        let mut crawl = crawl.overwrite(self.overwrite).configure(|fetch| *fetch = config);
        if let Some(prefix) = &internal {
            crawl = crawl.internal_prefix(prefix).map_err(|error| format!("{error} (--internal)"))?;
        }
        let (concurrency, verbosity) = (self.concurrency, self.fetch.verbosity());
        let warning = self.fetch.warning();
        Ok(ClassicJob { crawl, seed, concurrency, plan, verbosity, warning, cookies, save_cookies })
    }
}
