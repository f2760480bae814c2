//! Shows the status of a crawl with a state: `crawler status DIR`.

use std::path::{Path, PathBuf};

use crawler::Error;
use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::durable::{StateReader, StateStatus};
use crawler::internal::crawl_view::CrawlPhase;

use super::watch::{self, Watched};
use crate::EXIT_FAILED;
use crate::args::StatusOptions;
use crate::commands::crawl::json::StateStatusJson;
use crate::commands::crawl::resume_hints::quoted;
use crate::commands::crawl::status_of;
use crate::commands::with_hint;
use crate::live::disk_space::DiskSpace;
use crate::live::remaining::History;
use crate::live::status::LiveStatus;
use crate::printable::{print_error, print_stdout, printable};
use crate::summary::{Counts, page_rank_line};

/// Prints the status of the crawl in a directory, and returns the exit status.
pub async fn run(directory: PathBuf, options: &StatusOptions) -> u8 {
    let mut state = WatchedState::new(directory, options);
    let shown = match options.interval {
        Some(interval) => watch::watch(interval, options.json, async || state.read().await, with_hint).await,
        None => state.read().await.map(|status| match options.quiet || print_stdout(&status.text) {
            true => 0,
            false => EXIT_FAILED,
        }),
    };
    shown.unwrap_or_else(|error| {
        print_error(&with_hint(&error));
        status_of(&error)
    })
}

/// A state whose status is read once or repeatedly.
struct WatchedState {
    directory: PathBuf,
    is_json: bool,
    is_verbose: bool,
    /// Set when the status was read.
    history: Option<History>,
    disk_space: DiskSpace,
}

impl WatchedState {
    fn new(directory: PathBuf, options: &StatusOptions) -> WatchedState {
        let disk_space = DiskSpace::new([directory.clone()]);
        let (is_json, is_verbose) = (options.json, options.verbose);
        WatchedState { directory, is_json, is_verbose, history: None, disk_space }
    }

    async fn read(&mut self) -> Result<Watched, Error> {
        let directory = self.directory.clone();
        // A reader may wait for a moment; Ctrl-C need not.
        let read = move || StateReader::open(&directory).and_then(|mut state| state.status());
        let status = match tokio::task::spawn_blocking(read).await {
            Ok(status) => status?,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        };
        Ok(self.describe(&status))
    }

    fn describe(&mut self, status: &StateStatus) -> Watched {
        let view = status.view();
        let history = self.history.get_or_insert_with(|| History::from_view(&view));
        let mut live = LiveStatus::new(&view, history);
        let is_over = status.process.is_none();
        if !is_over {
            live.warnings.extend(self.disk_space.warnings());
        }
        let heading = heading(&self.directory, status);
        let text = match self.is_json {
            true => {
                let object = StateStatusJson::new(&self.directory, status);
                serde_json::to_string(&object).unwrap_or_default() + "\n"
            }
            false => format!("{heading}\n{}", text(&self.directory, status, &live, self.is_verbose)),
        };
        Watched { heading, live, is_verbose: self.is_verbose, details: Vec::new(), text, is_over }
    }
}

/// The crawl, and whether it runs.
fn heading(directory: &Path, status: &StateStatus) -> String {
    let name = directory.display().to_string();
    let state = match (status.process, status.snapshot.pending()) {
        (Some(process), _) if status.view().phase == CrawlPhase::Paused => {
            format!("paused (process {process})")
        }
        (Some(process), _) => format!("running (process {process})"),
        (None, 0) if status.snapshot.scheduled() == 0 => "finished".into(),
        (None, _) => "stopped".into(),
    };
    let visit = match status.snapshot.visit() {
        0 | 1 => String::new(),
        visit => format!(", visit {visit}"),
    };
    format!("Crawl in '{}': {state}{visit}", printable(&name))
}

fn text(directory: &Path, status: &StateStatus, live: &LiveStatus, is_verbose: bool) -> String {
    let StateStatus { snapshot, elapsed, process, .. } = status;
    let counts = Counts::of_running(snapshot);
    let (live, last_line) = match (process, snapshot.pending()) {
        (Some(_), _) => (live.text(is_verbose), String::new()),
        (None, 0) if snapshot.scheduled() == 0 => (String::new(), retry_line(directory, &counts)),
        (None, _) => (String::new(), format!("To resume: crawler resume {}\n", quoted(directory))),
    };
    let page_rank = page_rank_line(snapshot).map_or_else(String::new, |line| format!("{line}\n"));
    live + &counts.table(*elapsed) + &page_rank + &last_line
}

/// How to fetch URLs again that failed, if they failed temporarily.
fn retry_line(directory: &Path, counts: &Counts) -> String {
    match counts.failed_temporarily {
        0 => String::new(),
        _ => format!(
            "To fetch the URLs again that failed temporarily: crawler resume {} --retry-failed\n",
            quoted(directory)
        ),
    }
}
