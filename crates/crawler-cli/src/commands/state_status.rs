//! Shows the status of a crawl with a state: `crawler status DIR`.

use std::path::Path;

use crawler::Error;
use crawler::internal::backend::durable::{StateReader, StateStatus};

use crate::EXIT_FAILED;
use crate::commands::crawl::json::StateStatusJson;
use crate::commands::crawl::resume_hints::quoted;
use crate::commands::crawl::status_of;
use crate::commands::with_hint;
use crate::format::number;
use crate::printable::{print_error, print_stdout, printable};
use crate::summary::{Counts, page_rank_line};

/// Prints the status of the crawl in a directory, and returns the exit status.
pub fn run(directory: &Path, is_json: bool, is_quiet: bool) -> u8 {
    let status = match StateReader::open(directory).and_then(|mut state| state.status()) {
        Ok(status) => status,
        Err(error) => return failed(&error),
    };
    let text = match is_json {
        true => serde_json::to_string(&StateStatusJson::new(directory, &status)).unwrap_or_default() + "\n",
        false => table(directory, &status),
    };
    if is_quiet || print_stdout(&text) { 0 } else { EXIT_FAILED }
}

fn failed(error: &Error) -> u8 {
    print_error(&with_hint(error));
    status_of(error)
}

fn table(directory: &Path, status: &StateStatus) -> String {
    let StateStatus { snapshot, elapsed, process, .. } = status;
    let name = directory.display().to_string();
    let counts = Counts::of_running(snapshot);
    let (state, last_line) = match (process, snapshot.outstanding()) {
        (Some(process), _) => (format!("running (process {process})"), queues(status)),
        (None, 0) => ("finished".into(), retry_line(directory, &counts)),
        (None, _) => ("stopped".into(), format!("To resume: crawler resume {}\n", quoted(directory))),
    };
    let mut text = format!("Crawl in '{}': {state}\n", printable(&name));
    text += &counts.table(*elapsed);
    if let Some(line) = page_rank_line(snapshot) {
        text += &format!("{line}\n");
    }
    text + &last_line
}

/// How to fetch URLs again that failed, if the cause may have passed.
fn retry_line(directory: &Path, counts: &Counts) -> String {
    match counts.failed_temporarily {
        0 => String::new(),
        _ => format!(
            "To fetch failed URLs again whose cause may have passed: crawler resume {} --retry-failed\n",
            quoted(directory)
        ),
    }
}

/// The lengths of the queues.
fn queues(StateStatus { snapshot, .. }: &StateStatus) -> String {
    let (url_queue, overflow) = snapshot.url_queue;
    let lengths = [
        ("URL queue", url_queue),
        ("overflow", overflow),
        ("prioritized", snapshot.priority_queues.iter().sum()),
        ("leased", snapshot.workers.iter().map(|(_, leased)| leased).sum()),
    ];
    let lengths = lengths.map(|(name, length)| format!("{name} {}", number(length as u64)));
    format!("Queues: {} · active hosts {}\n", lengths.join(" · "), number(snapshot.active_hosts as u64))
}
