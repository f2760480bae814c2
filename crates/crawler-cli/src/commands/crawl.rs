//! The pipeline's commands: `crawler crawl URL…` and `crawler resume DIR`.

pub mod display;
pub mod json;
pub mod outcome_log;
mod resume_hints;
pub mod saved_options;
pub mod shared_rank;
mod summary;
pub mod summary_file;

use std::cell::Cell;
use std::io::{self, Write};
use std::sync::Arc;

use crawler::internal::modules::stdout::STDOUT_CLOSED;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport};
use crawler::internal::prioritizer::PageRank;
use crawler::internal::stop::StopHandle;
use crawler::{Error, StateReader};

use self::display::Display;
use self::outcome_log::OutcomeLog;
use self::saved_options::SavedOptions;
use self::summary_file::SummaryFile;
use crate::args::{CrawlJob, CrawlOptions, ProgressForm, ResumeOptions, Verbosity};
use crate::open_files::{make_room, spare};
use crate::printable::{print_error, print_stdout};
use crate::{EXIT_FAILED, EXIT_NOT_WRITTEN, EXIT_USAGE, signals};

/// Connections that each worker keeps open at most: more hosts than it asks within a delay or two.
const MAX_IDLE: usize = 1024;

/// What a worker has open besides its connections: its runtime's own, and connections that are just being closed.
const FILES_PER_WORKER: usize = 8;

/// Goes on with a crawl as it was begun, but for what is told now, and returns the exit status.
pub async fn resume(resume: ResumeOptions) -> u8 {
    let begun = match StateReader::metadata_in(&resume.directory) {
        Ok(metadata) => SavedOptions::read(&metadata, resume.directory.display()),
        Err(error) => {
            print_error(&error.to_string());
            return status_of(&error);
        }
    };
    let job = begun.and_then(|begun| {
        let options = resume.over(begun);
        if let Some(warning) = resume_hints::without_credentials(&options.forgotten_credentials)
            && options.fetch.verbosity() != Verbosity::Quiet
        {
            print_error(&warning);
        }
        options.validate()
    });
    match job {
        Ok(job) => run(job).await,
        Err(error) => {
            print_error(&error);
            EXIT_USAGE
        }
    }
}

/// The exit status of a crawl, or of a look at one, that could not begin.
pub fn status_of(error: &Error) -> u8 {
    // Of all that stands in the way, only the storage is not what the command line named.
    if matches!(error, Error::Storage(_)) { EXIT_FAILED } else { EXIT_USAGE }
}

/// Runs a crawl and returns its exit status.
pub async fn run(job: CrawlJob) -> u8 {
    let CrawlJob { crawler, options, page_rank } = job;
    let (summary_file, max_idle) = match prepare(&options) {
        Ok(prepared) => prepared,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE;
        }
    };
    let _size_limit = signals::survive_the_file_size_limit();
    let (display, account) = (Arc::new(Display::new(&options)), Arc::new(OutcomeLog::new(&options)));
    let stop = StopHandle::new();
    let teller = Arc::clone(&account);
    let crawler = crawler.configure(|config| config.max_idle_connections = max_idle);
    let crawler =
        crawler.stop_handle(stop.clone()).on_outcome(move |url, outcome| teller.ended(url, outcome));
    let shown = Arc::clone(&display);
    let crawling =
        tokio::task::spawn_blocking(move || crawler.run_with_progress(|snapshot| shown.show(snapshot)));
    let ended_by = Cell::new(None);
    let report = tokio::select! {
        report = crawling => report,
        never = signals::watch(&stop, &ended_by, |message| display.say(message), || display.clear()) => match never {},
    };
    display.clear();
    match report {
        Ok(Ok(report)) => {
            let status = conclude(&options, &report, &display, &account, page_rank.as_deref(), summary_file);
            ended_by.get().unwrap_or(status)
        }
        Ok(Err(error)) => {
            print_error(&error.to_string());
            if account.has_begun() { EXIT_FAILED } else { status_of(&error) }
        }
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => EXIT_FAILED,
        },
    }
}

/// Everything that can be found wrong before anything is fetched; and how many connections a worker may keep open.
fn prepare(options: &CrawlOptions) -> Result<(Option<SummaryFile>, usize), String> {
    let max_idle = connections(options.workers(), options.concurrency)?;
    Ok((options.summary.as_deref().map(SummaryFile::at).transpose()?, max_idle))
}

/// Makes room for the connections of so many workers in this process, and tells how many each may keep open.
pub fn connections(workers: usize, each: usize) -> Result<usize, String> {
    let said = format!("--concurrency {each} for each of {workers} workers");
    let needed = workers * (each + FILES_PER_WORKER);
    make_room(needed, &said)?;
    Ok(spare(needed, workers * MAX_IDLE) / workers)
}

/// Tells how the crawl ended, everywhere it is to be told, and returns the exit status.
pub fn conclude(
    options: &CrawlOptions,
    report: &CrawlReport,
    display: &Display,
    account: &OutcomeLog,
    page_rank: Option<&PageRank>,
    summary_file: Option<SummaryFile>,
) -> u8 {
    display.last(report);
    let health = page_rank.map(PageRank::stats);
    let printed = print(options, &summary::table(options, report, health.as_ref()));
    let mut not_written = false;
    if let Some(why) = lost_output(report) {
        print_error(&format!("not everything could be written: {why}"));
        not_written = true;
    }
    if let Some(file) = summary_file
        && let Err(error) = file.write(&json::SummaryJson::of(report, health.as_ref()))
    {
        print_error(&error);
        not_written = true;
    }
    for message in resume_hints::at_the_end(options, report) {
        display.say(&message);
    }
    if report.snapshot.pages == 0 && report.end != CrawlEnd::Stopped {
        print_error(&format!("no page was kept{}", account.why_nothing_was_kept()));
    }
    match () {
        () if not_written => EXIT_NOT_WRITTEN,
        () if report.snapshot.pages == 0 || !printed => EXIT_FAILED,
        () => 0,
    }
}

/// Prints the summary where nothing else is printed; false, and told, if it is lost.
fn print(options: &CrawlOptions, table: &str) -> bool {
    match (options.fetch.verbosity(), options.stdout_is_taken()) {
        (Verbosity::Quiet, _) => true,
        (_, false) => print_stdout(table),
        // Whoever reads JSON from standard error has had it all in the last object.
        (_, true) if options.progress == ProgressForm::Json => true,
        (_, true) => {
            // One who has closed standard error is not told.
            let _ = io::stderr().write_all(table.as_bytes());
            true
        }
    }
}

/// Why some page is missing where it was to be written, if one is.
fn lost_output(report: &CrawlReport) -> Option<&str> {
    let failures = &report.counts.failures;
    // These are modules only where they print, and a reader who has gone away (`| head`) has seen enough.
    let reader_gone = report.summaries.iter().any(|summary| summary.contains(STDOUT_CLOSED));
    let unprinted = ["jsonl", "edges"].iter().any(|name| failures.contains_key(*name)) && !reader_gone;
    let lost = unprinted || failures.contains_key("output");
    let last = report.counts.last_failure.as_deref();
    report.output_failure.as_deref().or(if lost { last } else { None })
}
