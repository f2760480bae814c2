//! The command line of making one output of parts: `crawler collect PART… --output PATH`.

use std::path::PathBuf;

use crawler::internal::modules::output::parts;

/// What was typed.
#[derive(clap::Args)]
pub struct CollectArgs {
    /// The parts of one output, each with its index beside it
    #[arg(value_name = "PART", required_unless_present = "of")]
    parts: Vec<PathBuf>,
    /// All parts of this output that stand where it would be, and no need to name them
    #[arg(long, value_name = "PATH", conflicts_with = "parts")]
    of: Option<PathBuf>,
    /// The file to write, or the directory if the parts are directories; '-' is standard output [default: what --of names]
    #[arg(short, long, value_name = "PATH", required_unless_present = "of")]
    output: Option<PathBuf>,
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

impl CollectArgs {
    /// Looks for the parts, where they are not named.
    pub fn validate(self) -> Result<CollectJob, String> {
        let parts = match &self.of {
            None => self.parts,
            Some(of) => match parts::parts_of(of) {
                found if found.is_empty() => {
                    let of = of.display();
                    return Err(format!(
                        "there are no parts of '{of}'; name the output as the crawl was told it"
                    ));
                }
                found => found,
            },
        };
        // Clap has seen to it that there is one of the two.
        let output = self.output.or(self.of).unwrap_or_default();
        let output = if output.as_os_str() == "-" { Place::Stdout } else { Place::Path(output) };
        Ok(CollectJob { parts, output, overwrite: self.overwrite })
    }
}
