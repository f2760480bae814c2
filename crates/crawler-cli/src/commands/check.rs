//! What `crawler check` adds to a crawl: prints the report, and says by the exit status whether a link is broken.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use crawler::internal::pipeline::CrawlReport;

use crate::args::CheckReport;
use crate::printable::{is_printed, print_error};
use crate::{EXIT_FAILED, EXIT_NOT_WRITTEN};

/// The temporary directory of a report, which is removed with the value.
pub struct ReportDirectory(Option<PathBuf>);

impl ReportDirectory {
    /// Creates the directory of a report, if it has one of its own. Only this user can read it.
    pub fn create(check: Option<&CheckReport>) -> Result<ReportDirectory, String> {
        let Some(path) = check.filter(|check| check.is_temporary).and_then(|check| check.file.parent())
        else {
            return Ok(ReportDirectory(None));
        };
        DirBuilder::new().mode(0o700).create(path).map_err(|error| {
            format!(
                "cannot create the directory '{}' for the links that are found: {error}; set TMPDIR to another one, or use \
                 --output",
                path.display()
            )
        })?;
        Ok(ReportDirectory(Some(path.to_owned())))
    }
}

impl Drop for ReportDirectory {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Prints the report of a check, if it is printed, and returns the exit status, which was `status` before.
pub fn conclude(check: &CheckReport, report: &CrawlReport, status: u8) -> u8 {
    if check.is_printed {
        match File::open(&check.file) {
            Ok(mut file) => {
                if !is_printed(io::copy(&mut file, &mut io::stdout().lock()).map(|_| ())) {
                    return EXIT_NOT_WRITTEN;
                }
            }
            // The crawl has said why there is none.
            Err(_) if status != 0 => {}
            Err(error) => {
                print_error(&format!("cannot read the report '{}': {error}", check.file.display()));
                return EXIT_NOT_WRITTEN;
            }
        }
    }
    match report.broken_links {
        Some(1..) if status == 0 => EXIT_FAILED,
        _ => status,
    }
}
