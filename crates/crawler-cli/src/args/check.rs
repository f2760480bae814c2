//! The arguments of `crawler check URL…`: a crawl with a link check as its output, and defaults for a complete check of a site.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use crawler::internal::modules::check::StatusCodes;
use serde::{Deserialize, Serialize};

use super::crawl::{CrawlJob, CrawlOptions, ScopeKind, absolute};
use super::distributed::MODULE_HELP;
use super::outputs::output_path;
use crate::commands::crawl::summary_file::is_stdout;
use crate::values;

/// The heading of the options that only `check` has.
const HEADING: &str = "Report";

/// The options of `crawl` that `check` does not list: they have no use for it, or a fixed value.
const NOT_LISTED: [&str; 20] = [
    "revisit-after",
    "requisites",
    "save-include",
    "save-exclude",
    "max-file-bytes",
    "similarity",
    "follow-duplicates",
    "no-content",
    "max-pages-per-host",
    "max-pages-per-site",
    "redis",
    "crawl",
    "dead-after",
    "replicas",
    "queue-size",
    "priority-queues",
    "pagerank-url",
    "domain-ttl",
    "ttl",
    "oversize",
];

/// The options of `crawler check`.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// Format of the report [default: by the extension of --output, otherwise text]
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = HEADING)]
    pub format: Option<ReportFormat>,
    /// Write the report to this file (.txt, .json, .xml, .md or .html); '-' is standard output [default: -]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub output: Option<PathBuf>,
    /// Also check anchors: whether the target of a link 'page#id' has an element with this id
    #[arg(long, help_heading = HEADING)]
    pub fragments: bool,
    /// HTTP statuses that do not count as broken, such as 403,999 or 500-599
    #[arg(long, visible_alias = "accept", value_name = "CODES", help_heading = HEADING)]
    pub accept_status: Option<StatusCodes>,
    /// Also list links that redirect permanently (HTTP 301 or 308)
    #[arg(long, help_heading = HEADING)]
    pub redirects: bool,
    #[command(flatten)]
    pub options: CrawlOptions,
}

/// The form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Text,
    Json,
    Junit,
    Markdown,
    Html,
}

/// Where the report of a check is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    pub file: PathBuf,
    /// Whether the report is printed to standard output.
    pub is_printed: bool,
    /// Whether the file is in a directory of its own, which is removed when the report has been printed.
    #[serde(skip)]
    pub is_temporary: bool,
}

/// Adapts the options of `crawl` to `crawler check`.
pub fn adapt(check: clap::Command) -> clap::Command {
    check.mut_args(|option| match option.get_long() {
        Some(name) if NOT_LISTED.contains(&name) => option.hide(true),
        // The media types of a crawl. Here, the name stands for --accept-status.
        Some("accept") => option.long("accept-types").hide(true),
        Some("module") => option.hide_default_value(true).help(MODULE_HELP),
        Some("overwrite") => option.help("Replace the report and the output files of earlier crawls"),
        Some("scope") => option.default_value("host").value_parser(bounded_scope()).help(
            "Pages to check: those in the registrable domain, on the host, or below the URL prefix of a seed; other links are \
             only requested",
        ),
        Some("include") => option.help("Check the links of pages that match this regular expression only; repeatable"),
        Some("exclude") => option.help("Do not request URLs that match this regular expression; repeatable"),
        Some("max-depth") => option.help(
            "Maximum number of links to follow from a seed; 0 checks the links of the seeds alone [default: unlimited]",
        ),
        Some("max-pages") => option.default_value("unlimited").value_parser(values::unlimited_count),
        Some("max-bytes") => option.default_value("unlimited").value_parser(values::unlimited_size),
        Some("max-page-bytes") => option
            .default_value("10MB")
            .help("Maximum size of a page; the links after that are not checked"),
        _ => option,
    })
}

/// Parses a scope that is not the whole web.
fn bounded_scope() -> impl TypedValueParser<Value = ScopeKind> {
    PossibleValuesParser::new(["domain", "host", "prefix"]).map(|name| match name.as_str() {
        "domain" => ScopeKind::Domain,
        "prefix" => ScopeKind::Prefix,
        _ => ScopeKind::Host,
    })
}

impl CheckArgs {
    /// Checks the arguments.
    pub fn validate(self) -> Result<CrawlJob, String> {
        let CheckArgs { format, output, fragments, accept_status, redirects, mut options } = self;
        // A page that is dropped as a duplicate would hide its broken links.
        options.similarity = 0.0;
        options.no_content = true;
        options.complete_seeds();
        let format =
            format.and_then(|format| format.to_possible_value()).map(|value| value.get_name().to_owned());
        let report = CheckReport::new(output.as_deref(), options.state.as_deref())?;
        let mut module = format!("check={}", report.file.display());
        for (is_given, option) in [
            (format.is_some(), format!(",format={}", format.unwrap_or_default())),
            (accept_status.is_some(), format!(",accept={}", accept_status.unwrap_or_default())),
            (fragments, ",fragments".into()),
            (redirects, ",redirects".into()),
        ] {
            if is_given {
                module += &option;
            }
        }
        if output_path(&module).is_some_and(|path| path != report.file) {
            return Err(format!(
                "cannot use '{}' for the report: its name has an option of the report after a comma, or is not UTF-8; use \
                 --output with another name",
                report.file.display()
            ));
        }
        options.module.retain(|module| module != "noop");
        options.module.push(module);
        options.check = Some(report);
        options.validate()
    }
}

impl CheckReport {
    /// Whether one of these modules writes the report.
    pub fn is_written_by(&self, modules: &[String]) -> bool {
        modules.iter().any(|module| output_path(module).as_ref() == Some(&self.file))
    }

    /// The report of a check: in the file of `--output`, or next to the state, or in a temporary directory.
    fn new(output: Option<&Path>, state: Option<&Path>) -> Result<CheckReport, String> {
        if let Some(output) = output.filter(|output| !is_stdout(output)) {
            let file = absolute("--output", output)?;
            return Ok(CheckReport { file, is_printed: false, is_temporary: false });
        }
        let directory = match state {
            Some(state) => absolute("--state", state)?,
            None => temporary_directory(),
        };
        Ok(CheckReport { file: directory.join("report"), is_printed: true, is_temporary: state.is_none() })
    }
}

/// A directory that no other process uses. It does not exist yet.
fn temporary_directory() -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    std::env::temp_dir().join(format!("crawler-check-{}-{now}", std::process::id()))
}
