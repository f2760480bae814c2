//! The command line of going on with a crawl: `crawler resume DIR`.

use std::path::PathBuf;
use std::time::Duration;

use super::crawl::{CrawlOptions, ProgressForm, absolute};
use crate::values;

/// What `crawler resume` was told: where the crawl is, and what of it may be otherwise from now on.
#[derive(clap::Args)]
pub struct ResumeOptions {
    /// What was given as --state when the crawl was begun
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// End when so many pages are kept, those kept before included
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true, help_heading = "Budgets, which may be raised")]
    max_pages: Option<u64>,
    /// End when so many bytes of bodies are read, those read before included
    #[arg(long, value_name = "SIZE", value_parser = values::large_size, allow_negative_numbers = true, help_heading = "Budgets, which may be raised")]
    max_bytes: Option<u64>,
    /// End after so long, the time taken before included
    #[arg(long, value_name = "TIME", value_parser = values::long_time, allow_negative_numbers = true, help_heading = "Budgets, which may be raised")]
    max_time: Option<Duration>,
    /// Keep at most so many pages of one host
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true, help_heading = "Budgets, which may be raised")]
    max_pages_per_host: Option<u64>,

    /// How many workers share the hosts
    #[arg(long, value_name = "N", value_parser = values::workers, allow_negative_numbers = true, help_heading = "Workers")]
    workers: Option<u16>,
    /// Requests in flight at once, of each worker
    #[arg(long, value_name = "N", value_parser = values::at_least_one, allow_negative_numbers = true, help_heading = "Workers")]
    concurrency: Option<usize>,

    /// How progress is shown
    #[arg(long, value_name = "FORM", value_enum, conflicts_with = "quiet", help_heading = "Output")]
    progress: Option<ProgressForm>,
    /// Write the summary to this file as JSON too
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    summary: Option<PathBuf>,
    /// Print how each URL ended
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Output")]
    verbose: bool,
    /// Print nothing but errors
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
}

impl ResumeOptions {
    /// Checks what was typed.
    pub fn validate(mut self) -> Result<ResumeOptions, String> {
        self.directory = absolute("DIR", &self.directory)?;
        if let Some(summary) = &mut self.summary {
            *summary = absolute("--summary", summary)?;
        }
        Ok(self)
    }

    /// What the crawl was told when it was begun, with what is otherwise now.
    pub fn over(self, begun: CrawlOptions) -> CrawlOptions {
        let mut options = begun;
        options.state = Some(self.directory);
        options.max_pages = self.max_pages.unwrap_or(options.max_pages);
        options.max_bytes = self.max_bytes.unwrap_or(options.max_bytes);
        options.max_time = self.max_time.or(options.max_time);
        options.max_pages_per_host = self.max_pages_per_host.or(options.max_pages_per_host);
        options.workers = self.workers.or(options.workers);
        options.concurrency = self.concurrency.unwrap_or(options.concurrency);
        options.summary = self.summary.or(options.summary);
        // How much is printed is one choice: whoever makes it anew makes the whole of it.
        if self.verbose || self.quiet || self.progress.is_some() {
            (options.fetch.verbose, options.fetch.quiet) = (self.verbose, self.quiet);
            options.progress = self.progress.unwrap_or(ProgressForm::Auto);
        }
        options
    }
}
