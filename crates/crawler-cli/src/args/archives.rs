//! The arguments of the commands that make files from web archives: `crawler index ARCHIVE…` and `crawler wacz ARCHIVE…`.

use std::path::PathBuf;

use crate::commands::crawl::summary_file::is_stdout;

/// The arguments of `crawler index`.
#[derive(clap::Args)]
pub struct IndexArgs {
    /// WARC and WACZ files, compressed or not
    #[arg(value_name = "ARCHIVE", required = true)]
    archives: Vec<PathBuf>,
    /// Write the index to this file, such as site.cdxj; '-' is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    common: CommonArgs,
}

/// The arguments of `crawler wacz`.
#[derive(clap::Args)]
pub struct WaczArgs {
    /// WARC files, compressed with gzip or not, or WACZ files
    #[arg(value_name = "ARCHIVE", required = true)]
    archives: Vec<PathBuf>,
    /// Write this file, such as site.wacz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(clap::Args)]
struct CommonArgs {
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

/// A file that is to be made from archives.
pub struct ArchiveFileJob {
    /// The archives.
    pub archives: Vec<PathBuf>,
    /// What is made.
    pub kind: ArchiveFileKind,
    /// The file; `None` is standard output.
    pub output: Option<PathBuf>,
    /// Whether to replace an existing file.
    pub overwrite: bool,
    /// Whether to print only errors.
    pub is_quiet: bool,
}

/// What is made from archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFileKind {
    /// An index.
    Index,
    /// A WACZ file.
    Wacz,
}

impl IndexArgs {
    /// Checks the arguments.
    pub fn validate(self) -> Result<ArchiveFileJob, String> {
        let output = Some(self.output).filter(|output| !is_stdout(output));
        job(self.archives, ArchiveFileKind::Index, output, self.common)
    }
}

impl WaczArgs {
    /// Checks the arguments.
    pub fn validate(self) -> Result<ArchiveFileJob, String> {
        if is_stdout(&self.output) {
            return Err("cannot write a WACZ file to standard output; name a file for --output".into());
        }
        job(self.archives, ArchiveFileKind::Wacz, Some(self.output), self.common)
    }
}

fn job(
    archives: Vec<PathBuf>,
    kind: ArchiveFileKind,
    output: Option<PathBuf>,
    common: CommonArgs,
) -> Result<ArchiveFileJob, String> {
    if archives.iter().any(|archive| archive.as_os_str() == "-") {
        return Err(
            "cannot use standard input: records are found by the name of their file; name a file".into()
        );
    }
    let CommonArgs { overwrite, quiet } = common;
    if let Some(output) = &output
        && let Some(archive) = archives.iter().find(|archive| is_same_file(archive, output))
    {
        return Err(format!("--output {} is one of the archives; name another file", archive.display()));
    }
    Ok(ArchiveFileJob { archives, kind, output, overwrite, is_quiet: quiet })
}

fn is_same_file(one: &std::path::Path, other: &std::path::Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
