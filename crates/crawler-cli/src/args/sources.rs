//! The options that say where URLs come from, in addition to the seeds on the command line: seed lists and sitemaps.

use serde::{Deserialize, Serialize};

use super::crawl::absolute;
use crate::seed_files::STDIN;
use crate::values;

/// The heading of these options in the help.
const HEADING: &str = "Seeds and sitemaps";

/// The sources of URLs, as parsed.
#[derive(clap::Args, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SourceArgs {
    /// Also start from the URLs in this file, one per line; '-' is standard input; repeatable
    #[arg(long = "seeds", id = "seed_files", value_name = "FILE", help_heading = HEADING)]
    #[serde(rename = "seed-files", default)]
    pub seed_files: Vec<String>,
    /// Also crawl the URLs in scope that this sitemap, sitemap index or feed lists; repeatable
    #[arg(long, value_name = "URL", value_parser = values::sitemap, help_heading = HEADING)]
    #[serde(default)]
    pub sitemap: Vec<String>,
    /// Do not use the sitemaps that robots.txt names; they are used by default unless the scope is any
    #[arg(long, help_heading = HEADING)]
    #[serde(default)]
    pub no_sitemaps: bool,
}

impl SourceArgs {
    /// Makes paths absolute, because the crawl may be resumed from another directory.
    pub fn make_absolute(&mut self) -> Result<(), String> {
        for file in self.seed_files.iter_mut().filter(|file| *file != STDIN) {
            *file = absolute("--seeds", file.as_ref())?.display().to_string();
        }
        match self.seed_files.iter().filter(|file| *file == STDIN).count() {
            0 | 1 => Ok(()),
            _ => Err("--seeds - is given twice; standard input can be read once".into()),
        }
    }
}
