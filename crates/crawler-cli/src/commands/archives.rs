//! Makes files from web archives: `crawler index` and `crawler wacz`.

use std::io::{self, BufWriter, Write};

use crawler::StorageErrorKind;
use crawler::internal::wacz::write_wacz;
use crawler::internal::warc::archives::Archives;
use crawler::internal::warc::index::{
    ArchiveFileError, IndexError, IndexReport, write_index, write_index_file,
};

use super::damage::DamageMessages;
use super::{hint, with_hint};
use crate::args::{ArchiveFileJob, ArchiveFileKind};
use crate::format::counted;
use crate::printable::{is_printed, print_error, print_stderr, print_stdout};
use crate::signals;
use crate::{EXIT_DAMAGED, EXIT_FAILED, EXIT_NOT_WRITTEN, EXIT_USAGE};

/// Makes the file, prints what it has, and returns the exit status.
pub async fn run(job: &ArchiveFileJob) -> u8 {
    let _size_limit = signals::survive_the_file_size_limit();
    let archives = match Archives::find(&job.archives) {
        Ok(archives) => archives,
        Err(error) => {
            print_error(&with_hint(&error));
            return EXIT_USAGE;
        }
    };
    let messages = DamageMessages::new(false, "more damaged records are left out");
    let mut on_damage = |message: &str| messages.report(message);
    let made = match (job.kind, &job.output) {
        (ArchiveFileKind::Wacz, Some(target)) => {
            let report = write_wacz(&archives, target, job.overwrite, &mut on_damage);
            report.map(|report| {
                let pages = counted(report.pages, "page");
                (report.index, format!("{} with {pages}", indexed(&report.index)))
            })
        }
        (_, Some(target)) => write_index_file(&archives, target, job.overwrite, &mut on_damage)
            .map(|report| (report, indexed(&report))),
        (_, None) => match print_index(&archives, &mut on_damage) {
            Ok(report) => report.map(|report| (report, indexed(&report))),
            Err(status) => return status,
        },
    };
    match made {
        Ok((report, text)) => {
            let text = format!("{text}\n");
            let is_reported = match &job.output {
                _ if job.is_quiet => true,
                Some(_) => print_stdout(&text),
                None => {
                    print_stderr(&text);
                    true
                }
            };
            match () {
                () if report.damaged > 0 => EXIT_DAMAGED,
                () if !is_reported => EXIT_FAILED,
                () => 0,
            }
        }
        Err(error) => fail(&error),
    }
}

/// Prints the index. A closed pipe (`| head`) is no error. `Err` is an exit status.
fn print_index(
    archives: &Archives,
    on_damage: &mut dyn FnMut(&str),
) -> Result<Result<IndexReport, ArchiveFileError>, u8> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    match write_index(archives, &mut stdout, &std::env::temp_dir(), on_damage) {
        Ok(report) if is_printed(stdout.flush()) => Ok(Ok(report)),
        Ok(_) => Err(EXIT_NOT_WRITTEN),
        Err(IndexError::Archive(message)) => Ok(Err(ArchiveFileError::Archive(message))),
        Err(IndexError::Write(error)) => Err(if is_printed(Err(error)) { 0 } else { EXIT_NOT_WRITTEN }),
    }
}

fn indexed(report: &IndexReport) -> String {
    format!("indexed {} of {}", counted(report.entries, "capture"), counted(report.records, "record"))
}

/// Prints why there is no file, and returns the exit status.
fn fail(error: &ArchiveFileError) -> u8 {
    let message = format!("{error:#}");
    print_error(&format!("{message}{}", hint(&message)));
    match error {
        ArchiveFileError::Output(error) if error.kind() == StorageErrorKind::Io => EXIT_NOT_WRITTEN,
        ArchiveFileError::Output(_) => EXIT_USAGE,
        ArchiveFileError::Archive(_) => EXIT_FAILED,
    }
}
