//! The command line of making one output of parts: `crawler collect PART… --output PATH`.

use std::path::PathBuf;

/// What was typed.
#[derive(clap::Args)]
pub struct TypedCollect {
    /// The parts of one output, each with its index beside it
    #[arg(value_name = "PART", required = true)]
    parts: Vec<PathBuf>,
    /// The file to write, or the directory if the parts are directories; '-' is standard output
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// Replace what the output holds
    #[arg(long)]
    overwrite: bool,
}

/// Parts that somebody wants as one.
pub struct CollectJob {
    /// The parts.
    pub parts: Vec<PathBuf>,
    /// Where they go.
    pub output: Place,
    /// Whether what is there may be replaced.
    pub overwrite: bool,
}

/// Where an output goes.
pub enum Place {
    /// To standard output.
    Stdout,
    /// To a file or a directory.
    Path(PathBuf),
}

impl TypedCollect {
    /// What is meant by it.
    pub fn meant(self) -> CollectJob {
        let output = if self.output.as_os_str() == "-" { Place::Stdout } else { Place::Path(self.output) };
        CollectJob { parts: self.parts, output, overwrite: self.overwrite }
    }
}
