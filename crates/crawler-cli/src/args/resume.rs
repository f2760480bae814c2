//! The arguments of `crawler resume DIR`.

use std::path::PathBuf;
use std::time::Duration;

use super::crawl::{CrawlOptions, ProgressForm, absolute};
use super::login::LoginArgs;
use crate::values;

/// The options of `crawler resume`: the state directory, and the settings that can change on resume.
#[derive(clap::Args)]
pub struct ResumeOptions {
    /// State directory of the crawl: the DIR of its --state
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Stop after N pages, including those of earlier runs
    #[arg(long, value_name = "N", value_parser = values::count, help_heading = "Limits")]
    max_pages: Option<u64>,
    /// Stop after SIZE of decoded response bodies, including earlier runs
    #[arg(long, value_name = "SIZE", value_parser = values::large_size, help_heading = "Limits")]
    max_bytes: Option<u64>,
    /// Stop after TIME, including earlier runs
    #[arg(long, value_name = "TIME", value_parser = values::long_time, help_heading = "Limits")]
    max_time: Option<Duration>,
    /// Maximum pages per host, including earlier runs
    #[arg(long, value_name = "N", value_parser = values::count, help_heading = "Limits")]
    max_pages_per_host: Option<u64>,
    /// Maximum pages per site, including earlier runs
    #[arg(long, value_name = "N", value_parser = values::count, help_heading = "Limits")]
    max_pages_per_site: Option<u64>,

    /// Number of workers
    #[arg(long, value_name = "N", value_parser = values::workers, help_heading = "Workers")]
    workers: Option<u16>,
    /// Maximum requests in flight per worker
    #[arg(long, value_name = "N", value_parser = values::concurrency, help_heading = "Workers")]
    concurrency: Option<usize>,

    #[command(flatten)]
    login: LoginArgs,

    /// Progress on standard error: auto is live on a terminal and plain lines elsewhere
    #[arg(long, value_name = "FORM", value_enum, conflicts_with = "quiet", help_heading = "Output")]
    progress: Option<ProgressForm>,
    /// Also write the summary to this file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    summary: Option<PathBuf>,
    /// Print the outcome of each URL
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Output")]
    verbose: bool,
    /// Print only errors
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
}

impl ResumeOptions {
    /// Checks the arguments.
    pub fn validate(mut self) -> Result<ResumeOptions, String> {
        self.directory = absolute("DIR", &self.directory)?;
        self.login.resolve()?;
        if let Some(summary) = &mut self.summary {
            *summary = absolute("--summary", summary)?;
        }
        Ok(self)
    }

    /// The saved options of the crawl, with those that change now.
    pub fn merged_over(self, saved: CrawlOptions) -> CrawlOptions {
        let mut options = saved;
        options.state = Some(self.directory);
        options.fetch.login = self.login;
        options.max_pages = self.max_pages.unwrap_or(options.max_pages);
        options.max_bytes = self.max_bytes.unwrap_or(options.max_bytes);
        options.max_time = self.max_time.or(options.max_time);
        options.max_pages_per_host = self.max_pages_per_host.or(options.max_pages_per_host);
        options.max_pages_per_site = self.max_pages_per_site.or(options.max_pages_per_site);
        options.workers = self.workers.or(options.workers);
        options.concurrency = self.concurrency.unwrap_or(options.concurrency);
        options.summary = self.summary.or(options.summary);
        // Verbosity and progress are one choice: giving one of the options replaces all of them.
        if self.verbose || self.quiet || self.progress.is_some() {
            (options.fetch.verbose, options.fetch.quiet) = (self.verbose, self.quiet);
            options.progress = self.progress.unwrap_or(ProgressForm::Auto);
        }
        options
    }
}
