//! The arguments of `crawler diff DIR`.

use std::path::PathBuf;

/// The arguments.
#[derive(clap::Args)]
pub struct DiffArgs {
    /// State directory of the crawl: the DIR of its --state
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Format of the result: text, or JSON with one object per line
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub format: DiffFormat,
    /// Exit with status 1 if there are differences
    #[arg(long)]
    pub exit_code: bool,
}

/// The form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DiffFormat {
    Text,
    Json,
}
