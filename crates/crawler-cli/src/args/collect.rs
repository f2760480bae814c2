//! The arguments of merging part files: `crawler collect PART… --output PATH`.

use std::path::PathBuf;

use crawler::internal::modules::output::finish::records_path;
use crawler::internal::modules::output::parts;

/// The arguments as parsed.
#[derive(clap::Args)]
pub struct CollectArgs {
    /// Part files or directories of one output; the index of a part file must be next to it
    #[arg(value_name = "PART", required_unless_present = "of")]
    parts: Vec<PathBuf>,
    /// Merge all part files of this output: the path that was given to --module
    #[arg(long, value_name = "PATH", conflicts_with = "parts")]
    of: Option<PathBuf>,
    /// File to write, or directory if the parts are directories; '-' is standard output [default: the path of --of]
    #[arg(short, long, value_name = "PATH", required_unless_present = "of")]
    output: Option<PathBuf>,
    /// Replace an existing output
    #[arg(long)]
    overwrite: bool,
    /// If the output is a web archive, also make a WACZ file of it
    #[arg(long)]
    wacz: bool,
}

/// A checked merge.
pub struct CollectJob {
    /// The part files or directories.
    pub parts: Vec<PathBuf>,
    /// The merged output.
    pub output: CollectOutput,
    /// Whether to replace an existing output.
    pub overwrite: bool,
    /// Whether to make a WACZ file of an archive.
    pub makes_wacz: bool,
}

/// The destination of the merged output.
pub enum CollectOutput {
    /// Standard output.
    Stdout,
    /// A file or a directory.
    Path(PathBuf),
}

impl CollectArgs {
    /// Checks the arguments, and finds the part files for `--of`.
    pub fn validate(self) -> Result<CollectJob, String> {
        let parts = match &self.of {
            None => self.parts,
            Some(of) => match parts::parts_of(of) {
                found if found.is_empty() && records_path(of).is_file() => vec![records_path(of)],
                found if found.is_empty() => {
                    let of = of.display();
                    return Err(format!(
                        "cannot find part files of '{of}'; give the path that was given to --module"
                    ));
                }
                found => found,
            },
        };
        // Clap requires one of the two.
        let output = self.output.or(self.of).unwrap_or_default();
        let output =
            if output.as_os_str() == "-" { CollectOutput::Stdout } else { CollectOutput::Path(output) };
        Ok(CollectJob { parts, output, overwrite: self.overwrite, makes_wacz: self.wacz })
    }
}
