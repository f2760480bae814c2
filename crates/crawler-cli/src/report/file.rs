//! The file of a report, and its markup.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::content::ReportContent;
use super::{html, markdown};
use crate::atomic_file::AtomicFile;

/// The markup of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportMarkup {
    // One file with charts. Not a doc comment, because clap would print it in the help.
    Html,
    Markdown,
}

impl ReportMarkup {
    /// The markup of a file, by its extension.
    pub fn of_path(path: &Path) -> Option<ReportMarkup> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "html" | "htm" => Some(ReportMarkup::Html),
            "md" | "markdown" => Some(ReportMarkup::Markdown),
            _ => None,
        }
    }

    /// The name of the file that has the report if none is given.
    pub fn default_name(self) -> &'static str {
        match self {
            ReportMarkup::Html => "report.html",
            ReportMarkup::Markdown => "report.md",
        }
    }

    /// The report.
    pub fn render(self, content: &ReportContent) -> String {
        match self {
            ReportMarkup::Html => html::render(content),
            ReportMarkup::Markdown => markdown::render(content),
        }
    }
}

/// Parses the file of a report, whose extension says what it contains.
pub fn report_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match ReportMarkup::of_path(&path) {
        Some(_) => Ok(path),
        None => Err("must end with .html or .md".into()),
    }
}

/// A file that gets a report.
pub struct ReportFile {
    file: AtomicFile,
    path: PathBuf,
    markup: ReportMarkup,
}

impl ReportFile {
    /// Checks that a report can be written to the path that was given as `option`.
    pub fn new(option: &str, path: &Path, markup: ReportMarkup) -> Result<ReportFile, String> {
        let file = AtomicFile::new(option, path, 0o666)?;
        Ok(ReportFile { file, path: path.to_owned(), markup })
    }

    /// Writes the report, replacing an older one.
    pub fn write(&self, content: &ReportContent) -> Result<(), String> {
        let text = self.markup.render(content);
        self.file.write("the report", |file| file.write_all(text.as_bytes()))
    }

    /// Where the report is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Prints a report to standard output.
pub fn print(markup: ReportMarkup, content: &ReportContent) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(markup.render(content).as_bytes())?;
    out.flush()
}
