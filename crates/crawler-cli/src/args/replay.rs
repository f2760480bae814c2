//! The arguments of `crawler replay ARCHIVE…`.

use std::path::PathBuf;

use crawler::Scope;
use crawler::internal::config::Oversize;
use crawler::internal::replay::Replay;
use crawler::internal::similarity::Threshold;

use super::Verbosity;
use super::crawl::{DEFAULT_PAGE_BYTES, DEFAULT_SIMILARITY, MIRROR_PAGE_BYTES, OversizeRule};
use super::outputs::{is_program, writes_to_stdout};
use super::written::{check_modules, of_modules};
use crate::values;

/// The options of `crawler replay`.
#[derive(clap::Args)]
pub struct ReplayArgs {
    /// WARC and WACZ files, compressed or not; '-' is standard input
    #[arg(value_name = "ARCHIVE", required = true)]
    archives: Vec<PathBuf>,

    /// Process each page with this module (see 'crawler crawl --help'); repeatable
    #[arg(long, value_name = "NAME[=ARGS]", default_value = "noop", value_parser = values::module, help_heading = "Pages")]
    module: Vec<String>,
    /// Delete the output files of earlier crawls and replays first
    #[arg(long, help_heading = "Pages")]
    overwrite: bool,
    /// Similarity (Dice, 0 to 1) from which a page is dropped as a near-duplicate; 1 drops only exact duplicates, 0 none
    /// [default: 0.9; with mirror: 1]
    #[arg(long, value_name = "N", value_parser = values::similarity, help_heading = "Pages")]
    similarity: Option<f64>,
    /// Also use content of these media types, e.g. application/pdf,image/*; repeatable
    #[arg(long, value_name = "TYPES", value_delimiter = ',', value_parser = values::media_type, help_heading = "Pages")]
    accept: Vec<String>,
    /// Use only URLs that match this regular expression; repeatable: one of them must match
    #[arg(long, value_name = "REGEX", value_parser = values::pattern, help_heading = "Pages")]
    include: Vec<String>,
    /// Do not use URLs that match this regular expression; repeatable
    #[arg(long, value_name = "REGEX", value_parser = values::pattern, help_heading = "Pages")]
    exclude: Vec<String>,

    /// Stop after N pages [default: unlimited]
    #[arg(long, value_name = "N", value_parser = values::count, help_heading = "Limits")]
    max_pages: Option<u64>,
    /// Maximum size of a page, stored and decoded [default: 500KB; with mirror: 10MB]
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = "Limits")]
    max_page_bytes: Option<usize>,
    /// What to do with a page larger than --max-page-bytes: truncate it there, or drop it
    #[arg(long, value_name = "RULE", value_enum, default_value = "truncate", help_heading = "Limits")]
    oversize: OversizeRule,
    /// Maximum size of content that is neither HTML nor text; larger content is skipped
    #[arg(long, value_name = "SIZE", default_value = "10MB", value_parser = values::size, help_heading = "Limits")]
    max_file_bytes: usize,
    /// Number of threads that process pages [default: number of CPU cores]
    #[arg(long, value_name = "N", value_parser = values::workers, help_heading = "Limits")]
    threads: Option<u16>,

    /// Print the outcome of each URL
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Output")]
    verbose: bool,
    /// Print only errors
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
}

/// A checked replay.
pub struct ReplayJob {
    /// The replay.
    pub replay: Replay,
    /// How much is printed.
    pub verbosity: Verbosity,
    /// Whether a module writes to standard output, so that nothing else may.
    pub is_stdout_taken: bool,
    /// The specifications of its modules and outputs.
    pub modules: Vec<String>,
}

impl ReplayArgs {
    /// Checks the arguments.
    pub fn validate(self) -> Result<ReplayJob, String> {
        check_modules(&self.module, &of_modules(&self.module).collect::<Vec<_>>())?;
        if let Some(check) = self.module.iter().find(|module| module.starts_with("check")) {
            return Err(format!(
                "cannot use --module {check}: it requests links, and a replay sends no requests; use 'crawler check'"
            ));
        }
        if let Some(warc) = self.module.iter().find(|module| module.starts_with("warc")) {
            return Err(format!(
                "cannot use --module {warc}: it archives requests, and a replay sends none; copy the archive instead"
            ));
        }
        let is_mirror = self.module.iter().any(|module| module.starts_with("mirror="));
        let mut replay = Replay::new(self.archives);
        for module in &self.module {
            replay = replay.module_from_spec(module).map_err(|error| error.to_string())?;
        }
        let similarity = self.similarity.unwrap_or(if is_mirror { 1.0 } else { DEFAULT_SIMILARITY });
        // The value was checked before; 0 turns the comparison off.
        replay.similarity = Some(similarity).filter(|value| *value > 0.0).and_then(Threshold::new);
        replay.scope = Scope::anywhere()
            .with_filters(&self.include, &self.exclude)
            .map_err(|error| error.to_string())?;
        let page_bytes = if is_mirror { MIRROR_PAGE_BYTES } else { DEFAULT_PAGE_BYTES };
        replay.config.max_page_bytes = self.max_page_bytes.unwrap_or(page_bytes);
        replay.config.oversize = match self.oversize {
            OversizeRule::Truncate => Oversize::Truncate,
            OversizeRule::Drop => Oversize::Drop,
        };
        let (accept, max_file_bytes) = (self.accept, self.max_file_bytes);
        (replay.config.requests.accept, replay.config.requests.max_file_bytes) = (accept, max_file_bytes);
        replay.max_pages = self.max_pages.unwrap_or(u64::MAX);
        replay.threads = self.threads.map_or(replay.threads, usize::from);
        replay.overwrite = self.overwrite;
        let verbosity = match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        };
        let is_stdout_taken = self.module.iter().any(|module| writes_to_stdout(module) || is_program(module));
        Ok(ReplayJob { replay, verbosity, is_stdout_taken, modules: self.module })
    }
}
