//! Runs modules and outputs on the pages of web archives: `crawler replay ARCHIVE…`.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crawler::internal::backend::Budget;
use crawler::internal::log::NOTICE;
use crawler::internal::pipeline::CrawlEnd;
use crawler::internal::replay::{Callbacks, ReplayCounts, ReplayReport};
use crawler::{Outcome, OutcomeGroup};

use super::crawl::outcome_log::line;
use super::crawl::{module_failures_line, status_of};
use super::damage::DamageMessages;
use super::{hint, with_hint};
use crate::args::{ReplayJob, Verbosity};
use crate::format::{bytes, clock, counted, number, rate, share_of_bytes};
use crate::live::layout::{Piece, fitted, joined};
use crate::live::screen::{self, Style};
use crate::log;
use crate::printable::{print_error, print_stderr, print_stdout, printable};
use crate::progress::PLAIN_INTERVAL;
use crate::summary::replay_table;
use crate::{EXIT_DAMAGED, EXIT_FAILED, EXIT_NOT_WRITTEN, signals};

/// Printed after the first signal.
const STOPPING: &str = "stopping; the outputs get the pages that were read; press Ctrl-C again to stop now";

/// What is shown of a replay, and where.
struct Display {
    verbosity: Verbosity,
    is_stdout_taken: bool,
    is_live: bool,
    is_plain: bool,
    last_plain_line: Mutex<Instant>,
    damage: DamageMessages,
}

/// Runs a replay and returns the exit status.
pub async fn run(job: ReplayJob) -> u8 {
    let _size_limit = signals::survive_the_file_size_limit();
    let ReplayJob { mut replay, verbosity, is_stdout_taken, .. } = job;
    let max_pages = replay.max_pages;
    let display = Arc::new(Display::new(verbosity, is_stdout_taken));
    let (shown, outcomes, damage, notices) =
        (Arc::clone(&display), Arc::clone(&display), Arc::clone(&display), Arc::clone(&display));
    replay.callbacks = Callbacks {
        on_outcome: Arc::new(move |url, outcome| outcomes.outcome(url, outcome)),
        on_progress: Box::new(move |counts, total, time| shown.progress(counts, total, time)),
        on_damage: Box::new(move |message| damage.damage.report(message)),
        on_notice: Box::new(move |message| notices.print(&format!("crawler: {message}"))),
    };
    let stop = replay.stop.clone();
    let signal_status = Cell::new(None);
    let running = tokio::task::spawn_blocking(move || replay.run());
    let report = tokio::select! {
        report = running => report,
        never = signals::watch(&stop, &signal_status, || 0, |_| display.print(STOPPING)) => match never {},
    };
    screen::clear();
    match report {
        Ok(Ok(report)) => {
            let status = display.conclude(&report, max_pages);
            signal_status.get().unwrap_or(status)
        }
        Ok(Err(error)) => {
            print_error(&with_hint(&error));
            status_of(&error)
        }
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

impl Display {
    fn new(verbosity: Verbosity, is_stdout_taken: bool) -> Display {
        let prints_to_terminal = is_stdout_taken && io::stdout().is_terminal();
        let shows = verbosity == Verbosity::Normal && !log::is_on_stderr() && !prints_to_terminal;
        let is_live = shows && screen::is_available();
        Display {
            verbosity,
            is_stdout_taken,
            is_live,
            is_plain: shows && !is_live,
            last_plain_line: Mutex::new(Instant::now()),
            damage: DamageMessages::new(
                verbosity == Verbosity::Verbose,
                "more damaged records are counted, and named with -v",
            ),
        }
    }

    fn outcome(&self, url: &str, outcome: &Outcome) {
        match self.verbosity {
            Verbosity::Normal => {}
            Verbosity::Quiet if outcome.group() == OutcomeGroup::Failed => {
                print_stderr(&format!("{}\n", printable(&format!("{url}: {outcome}"))));
            }
            Verbosity::Quiet => {}
            Verbosity::Verbose => {
                let line = format!("{}\n", printable(&line(url, outcome)));
                // If the reader is gone, the outputs still get the pages.
                let _ = match self.is_stdout_taken {
                    true => io::stderr().write_all(line.as_bytes()),
                    false => io::stdout().write_all(line.as_bytes()),
                };
            }
        }
    }

    fn progress(&self, counts: &ReplayCounts, total: Option<u64>, time: Duration) {
        let pages = counts.pages();
        let read = match total {
            Some(total) if counts.archive_bytes <= total => share_of_bytes(counts.archive_bytes, total),
            _ => bytes(counts.archive_bytes),
        };
        let damaged =
            (counts.damaged > 0).then(|| Piece::new(1, format!("{} damaged", number(counts.damaged))));
        let pieces = [
            Some(Piece::new(0, counted(pages, "page"))),
            Some(Piece::new(0, format!("{read} read"))),
            Some(Piece::new(2, rate(pages as f64 / time.as_secs_f64().max(0.001)))),
            Some(Piece::new(3, counted(counts.records, "record"))),
            damaged,
            Some(Piece::new(4, clock(time))),
        ];
        let pieces: Vec<Piece> = pieces.into_iter().flatten().collect();
        if self.is_live {
            return screen::show(move |size| vec![(Style::Strong, fitted(pieces.clone(), size.columns))]);
        }
        let mut last = self.last_plain_line.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_plain && last.elapsed() + Duration::from_millis(500) >= PLAIN_INTERVAL {
            *last = Instant::now();
            screen::print(&joined(&pieces));
        }
    }

    fn print(&self, message: &str) {
        tracing::info!(target: NOTICE, "{}", message.trim_start_matches("crawler: "));
        if self.verbosity != Verbosity::Quiet && !log::is_on_stderr() {
            screen::print(message);
        }
    }

    /// Prints the result, and returns the exit status.
    fn conclude(&self, report: &ReplayReport, max_pages: u64) -> u8 {
        let text = summary(report, max_pages);
        let is_printed = match (self.verbosity, self.is_stdout_taken) {
            (Verbosity::Quiet, _) => true,
            (_, false) => print_stdout(&text),
            (_, true) => {
                print_stderr(&text);
                true
            }
        };
        let mut is_written = true;
        if let Some(failure) = &report.output_failure {
            let cause = format!("{failure:#}");
            print_error(&format!("cannot write all pages: {cause}{}", hint(&cause)));
            is_written = false;
        }
        if let Some(cause) = &report.module_failure {
            print_error(&format!("cannot process all pages: {cause}"));
            is_written = false;
        }
        let counts = &report.counts;
        let is_damaged = counts.damaged > 0 || counts.failed_archives > 0;
        match report.end {
            _ if !is_written => EXIT_NOT_WRITTEN,
            CrawlEnd::OutputClosed => 0,
            CrawlEnd::Finished | CrawlEnd::LimitReached(_) if counts.pages() == 0 => {
                print_error("no pages found in the archives");
                EXIT_FAILED
            }
            _ if is_damaged => EXIT_DAMAGED,
            _ if !is_printed => EXIT_FAILED,
            _ => 0,
        }
    }
}

/// The table of counts, what the modules report, and why the replay stopped.
fn summary(report: &ReplayReport, max_pages: u64) -> String {
    let mut text = replay_table(report);
    for line in report.module_summaries.iter().flat_map(|summary| summary.lines()) {
        text += &format!("{}\n", printable(line));
    }
    text += &module_failures_line(&report.module_failures).unwrap_or_default();
    let reason = match report.end {
        CrawlEnd::Finished => return text,
        CrawlEnd::LimitReached(Budget::Pages) => format!("{} (--max-pages)", counted(max_pages, "page")),
        CrawlEnd::Stopped => "on request".into(),
        CrawlEnd::OutputFailed => "an output cannot be written".into(),
        CrawlEnd::ModuleFailed => "a module cannot process pages".into(),
        end => end.to_string(),
    };
    text + &format!("Stopped: {reason}\n")
}
