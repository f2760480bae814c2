//! Merges the part files of the workers into one output: `crawler collect`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crawler::StorageErrorKind;
use crawler::internal::modules::output::finish::{Records, finish_file_of_crawl};
use crawler::internal::modules::output::parts::{self, Destination, MergeError, MergeReport};

use crawler::internal::modules::warc::made_files::{self, archive_files};

use crate::args::{CollectJob, CollectOutput};
use crate::commands::hint;
use crate::format::{bytes, counted};
use crate::printable::{is_printed, print_error, print_stdout, printable};
use crate::signals;
use crate::{EXIT_FAILED, EXIT_NOT_WRITTEN, EXIT_USAGE};

/// Merges the parts, prints a report, and returns the exit status.
pub async fn run(job: &CollectJob) -> u8 {
    let _size_limit = signals::survive_the_file_size_limit();
    match &job.output {
        CollectOutput::Path(path) if let Some(records) = records_of_one_process(&job.parts) => {
            finish(&records, path, job.overwrite)
        }
        CollectOutput::Path(path) => match merge(job, path) {
            Ok(report) => {
                let made = if report.is_archive { make_files(path, job.makes_wacz) } else { 0 };
                match print_stdout(&format!("{}\n", describe(&report))) {
                    _ if made != 0 => made,
                    true => 0,
                    false => EXIT_FAILED,
                }
            }
            Err(error) => fail(&error),
        },
        CollectOutput::Stdout => {
            let mut stdout = io::stdout().lock();
            match parts::merge(&job.parts, Destination::Stream(&mut stdout), job.overwrite) {
                Ok(report) => {
                    // If standard error is closed, the exit status remains.
                    let _ = writeln!(io::stderr(), "{}", describe(&report));
                    0
                }
                // A closed pipe (`| head`) is no error.
                Err(MergeError::NotWritten(error)) => {
                    if is_printed(Err(error)) {
                        0
                    } else {
                        EXIT_NOT_WRITTEN
                    }
                }
                Err(error) => fail(&error),
            }
        }
    }
}

/// The records file of a crawl in one process, if that is what is to be collected.
fn records_of_one_process(parts: &[PathBuf]) -> Option<Records> {
    match parts {
        [part] if !parts::has_index(part) => Records::open(part).ok().flatten(),
        _ => None,
    }
}

/// Makes an output from its records file, and returns the exit status.
fn finish(records: &Records, output: &Path, overwrite: bool) -> u8 {
    match finish_file_of_crawl(records, output, overwrite) {
        Ok(())
            if print_stdout(&format!(
                "made {} from its records\n",
                printable(&output.display().to_string())
            )) =>
        {
            0
        }
        Ok(()) => EXIT_FAILED,
        Err(error) => {
            let message = format!("{error:#}");
            print_error(&format!("{message}{}", hint(&message)));
            match error.kind() {
                StorageErrorKind::Io => EXIT_NOT_WRITTEN,
                StorageErrorKind::Damaged => EXIT_FAILED,
                _ => EXIT_USAGE,
            }
        }
    }
}

/// Merges into a path, if that and the files that are made of an archive may be written.
fn merge(job: &CollectJob, path: &Path) -> Result<MergeReport, MergeError> {
    let wacz = job.makes_wacz.then(|| made_files::wacz_path(path));
    let made: Vec<PathBuf> = std::iter::once(made_files::index_path(path)).chain(wacz).collect();
    parts::merge_with_files(&job.parts, Destination::Path(path), job.overwrite, &made)
}

/// Makes the index of an archive, and its WACZ file. Returns the exit status.
fn make_files(archive: &Path, makes_wacz: bool) -> u8 {
    let files =
        archive_files(archive).map_err(|error| format!("cannot read '{}': {error}", archive.display()));
    let made = files.and_then(|files| {
        let made = made_files::make(archive, &files, makes_wacz).and_then(|()| parts::end_merge(archive));
        made.map_err(|error| format!("{error:#}"))
    });
    match made {
        Ok(()) => 0,
        Err(message) => {
            print_error(&format!("{message}{}", hint(&message)));
            EXIT_NOT_WRITTEN
        }
    }
}

fn fail(error: &MergeError) -> u8 {
    let message = error.to_string();
    print_error(&format!("{message}{}", hint(&message)));
    match error {
        MergeError::Refused(_) => EXIT_USAGE,
        MergeError::Unreadable(_) => EXIT_FAILED,
        MergeError::NotWritten(_) => EXIT_NOT_WRITTEN,
    }
}

/// How many pages were merged, and what was left out.
fn describe(report: &MergeReport) -> String {
    let MergeReport { is_of_urls, pages, parts, superseded, retracted, incomplete_bytes, .. } = *report;
    let page = if is_of_urls { "URL" } else { "page" };
    let mut text = format!("merged {} from {}", counted(pages, page), counted(parts as u64, "part file"));
    let left_out = [
        (superseded, counted(superseded, &format!("repeated {page}"))),
        (retracted, counted(retracted, &format!("retracted {page}"))),
        (incomplete_bytes, format!("{} of an incomplete {page}", bytes(incomplete_bytes))),
    ];
    let left_out: Vec<String> =
        left_out.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    if !left_out.is_empty() {
        text += &format!("; left out {}", left_out.join(", "));
    }
    text
}
