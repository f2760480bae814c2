//! Makes one output of the parts that workers have written: `crawler collect`.

use std::io::{self, Write};

use crawler::internal::modules::output::parts::{self, Destination, MergeError, MergeReport};

use crate::args::{CollectJob, Place};
use crate::printable::{is_printed, print_error, print_stdout};
use crate::signals;
use crate::{EXIT_FAILED, EXIT_NOT_WRITTEN, EXIT_USAGE};

/// Collects, says what, and returns the exit status.
pub async fn run(job: &CollectJob) -> u8 {
    let _size_limit = signals::survive_the_file_size_limit();
    match &job.output {
        Place::Path(path) => match parts::collect(&job.parts, Destination::Path(path), job.overwrite) {
            Ok(collected) => {
                if print_stdout(&format!("{}\n", in_words(&collected))) {
                    0
                } else {
                    EXIT_FAILED
                }
            }
            Err(failure) => failed(&failure),
        },
        Place::Stdout => {
            let mut stdout = io::stdout().lock();
            match parts::collect(&job.parts, Destination::Stream(&mut stdout), job.overwrite) {
                Ok(collected) => {
                    // One who has closed standard error is not told.
                    let _ = writeln!(io::stderr(), "{}", in_words(&collected));
                    0
                }
                // A reader who has gone away has seen enough.
                Err(MergeError::NotWritten(error)) => {
                    if is_printed(Err(error)) {
                        0
                    } else {
                        EXIT_NOT_WRITTEN
                    }
                }
                Err(failure) => failed(&failure),
            }
        }
    }
}

fn failed(failure: &MergeError) -> u8 {
    print_error(&failure.to_string());
    match failure {
        MergeError::Refused(_) => EXIT_USAGE,
        MergeError::Unreadable(_) => EXIT_FAILED,
        MergeError::NotWritten(_) => EXIT_NOT_WRITTEN,
    }
}

/// What was collected, and what was left out.
fn in_words(collected: &MergeReport) -> String {
    let MergeReport { pages, parts, superseded: repeated, retracted: withdrawn, incomplete_bytes: torn } = *collected;
    let (pages, parts) = (counted(pages, "page", "pages"), counted(parts as u64, "part", "parts"));
    let repeated = counted(repeated, "repeated delivery", "repeated deliveries");
    let withdrawn = match withdrawn {
        0 => String::new(),
        _ => format!("{}, ", counted(withdrawn, "withdrawn page", "withdrawn pages")),
    };
    let torn = counted(torn, "torn byte", "torn bytes");
    format!("collected {pages} from {parts}; left out {repeated}, {withdrawn}{torn}")
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
