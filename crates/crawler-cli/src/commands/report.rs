//! Writes a report on a crawl that stored what it did: `crawler report DIR` and `crawler report --redis URL`.

use std::io::IsTerminal;
use std::path::Path;

use crate::args::{ReportJob, ReportTarget};
use crate::commands::crawl::status_of;
use crate::commands::with_hint;
use crate::printable::{is_printed, print_error, print_stderr, printable};
use crate::report::at_end::MAX_SEARCH_TIME;
use crate::report::file::{self, ReportFile};
use crate::report::stored;
use crate::{EXIT_NOT_WRITTEN, EXIT_USAGE};

/// Writes the report, and returns the exit status.
pub async fn run(ReportJob { source, target, markup, is_quiet }: ReportJob) -> u8 {
    let file = match &target {
        ReportTarget::File(path) => Some(ReportFile::new("--output", path, markup)),
        // A report is not readable on a terminal.
        ReportTarget::Default if std::io::stdout().is_terminal() => {
            Some(ReportFile::new("the report", Path::new(markup.default_name()), markup))
        }
        ReportTarget::Default | ReportTarget::Stdout => None,
    };
    let file = match file.transpose() {
        Ok(file) => file,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    let content = match stored::content(&source, MAX_SEARCH_TIME).await {
        Ok(content) => content,
        Err(error) => {
            print_error(&with_hint(&error));
            return status_of(&error);
        }
    };
    let Some(file) = file else {
        return if is_printed(file::print(markup, &content)) { 0 } else { EXIT_NOT_WRITTEN };
    };
    if let Err(error) = file.write(&content) {
        print_error(&error);
        return EXIT_NOT_WRITTEN;
    }
    if !is_quiet {
        print_stderr(&format!("report: {}\n", printable(&file.path().display().to_string())));
    }
    0
}
