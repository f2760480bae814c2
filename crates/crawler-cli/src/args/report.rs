//! The arguments of `crawler report`.

use std::path::PathBuf;
use std::sync::Arc;

use super::CrawlSource;
use super::distributed::OptionalRedisArgs;
use crate::commands::crawl::summary_file::is_stdout;
use crate::printable::print_message;
use crate::report::file::ReportMarkup;

/// The arguments as parsed.
#[derive(clap::Args)]
pub struct ReportArgs {
    /// State directory of the crawl: the DIR of its --state
    #[arg(value_name = "DIR", conflicts_with = "redis")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    redis: OptionalRedisArgs,
    /// Write the report to this file; '-' is standard output [default: standard output, or report.html if that is a terminal]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the report [default: by the extension of --output, otherwise html]
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<ReportMarkup>,
    /// Print nothing unless an error occurs
    #[arg(short, long)]
    quiet: bool,
}

/// A checked report on a crawl that another process runs, or none.
pub struct ReportJob {
    pub source: CrawlSource,
    pub target: ReportTarget,
    pub markup: ReportMarkup,
    pub is_quiet: bool,
}

/// Where a report is written to.
pub enum ReportTarget {
    File(PathBuf),
    Stdout,
    /// Standard output, or a file if that is a terminal.
    Default,
}

impl ReportArgs {
    /// Checks the arguments.
    pub fn validate(self) -> Result<ReportJob, String> {
        let source = match (self.directory, self.redis.validate(Arc::new(print_message))?) {
            (Some(directory), _) => CrawlSource::State(directory),
            (None, Some(mut shared)) => {
                // A user waits for the result, so an unreachable Redis is an error at once.
                shared.redis.connect_options.retry_forever = false;
                CrawlSource::Redis(Box::new(shared))
            }
            (None, None) => return Err("missing <DIR> or --redis <URL>, to select the crawl".into()),
        };
        let target = match self.output {
            None => ReportTarget::Default,
            Some(path) if is_stdout(&path) => ReportTarget::Stdout,
            Some(path) => ReportTarget::File(path),
        };
        let markup = match (self.format, &target) {
            (Some(format), _) => format,
            (None, ReportTarget::File(path)) => ReportMarkup::of_path(path).ok_or_else(|| {
                format!(
                    "cannot derive the format of '{}' from its extension; name a file .html or .md, or use --format",
                    path.display()
                )
            })?,
            (None, _) => ReportMarkup::Html,
        };
        Ok(ReportJob { source, target, markup, is_quiet: self.quiet })
    }
}
