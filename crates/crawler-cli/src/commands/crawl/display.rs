//! What the user sees while many hosts are crawled: live lines on a terminal, plain lines or JSON otherwise.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crawler::internal::backend::Snapshot;
use crawler::internal::pipeline::CrawlReport;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::json::{self, ProgressJson};
use super::resume_hints;
use crate::args::{CrawlOptions, ProgressForm, Verbosity};
use crate::printable::printable;
use crate::progress::{PLAIN_INTERVAL, to_line_start};
use crate::summary::bytes;

/// Over how long the rate of pages is measured: long enough to be steady, short enough to be news.
const RECENT: Duration = Duration::from_secs(10);

/// How many workers and kinds of failure are shown one by one.
const MOST_SHOWN: usize = 8;

/// Shows a crawl on standard error.
pub struct Display {
    form: Form,
    quiet: bool,
    begun: Instant,
    seen: Mutex<Seen>,
}

enum Form {
    Nothing,
    Plain,
    Live(MultiProgress, Vec<ProgressBar>),
    Json,
}

/// What was shown before.
struct Seen {
    /// When there were how many pages, in the last seconds.
    pages: VecDeque<(Instant, u64)>,
    plain_line: Instant,
}

impl Display {
    /// Begins to show a crawl with these options.
    pub fn new(options: &CrawlOptions) -> Display {
        let verbosity = options.fetch.verbosity();
        let form = match options.progress {
            ProgressForm::Json => Form::Json,
            ProgressForm::Plain => Form::Plain,
            ProgressForm::Auto if verbosity != Verbosity::Normal => Form::Nothing,
            ProgressForm::Auto if io::stderr().is_terminal() => live_lines(),
            ProgressForm::Auto => Form::Plain,
        };
        let begun = Instant::now();
        let seen = Mutex::new(Seen { pages: VecDeque::new(), plain_line: begun });
        Display { form, quiet: verbosity == Verbosity::Quiet, begun, seen }
    }

    /// Shows how things stand; to be called at the beginning and once a second.
    pub fn show(&self, snapshot: &Snapshot) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if seen.pages.is_empty() {
            seen.pages.push_back((now, snapshot.pages));
            if let Some(message) = resume_hints::resuming(snapshot) {
                self.say(&message);
            }
            return;
        }
        let rate = seen.rate(now, snapshot.pages);
        match &self.form {
            Form::Nothing => {}
            Form::Json => print_json(&ProgressJson::of(snapshot, self.begun.elapsed(), rate, None)),
            Form::Plain => {
                // A second that comes a little early is not to cost a whole further one.
                if now + Duration::from_millis(500) >= seen.plain_line + PLAIN_INTERVAL {
                    seen.plain_line = now;
                    print(&lines(snapshot, rate).join("; "));
                }
            }
            Form::Live(_, bars) => {
                for (bar, line) in bars.iter().zip(lines(snapshot, rate)) {
                    bar.set_message(printable(&line).into_owned());
                }
                to_line_start();
            }
        }
    }

    /// Shows how things stood at the end, to those who read every object.
    pub fn last(&self, report: &CrawlReport) {
        if let Form::Json = self.form {
            let rate = json::whole_rate(report);
            print_json(&ProgressJson::of(&report.snapshot, report.elapsed, rate, Some(report.end)));
        }
    }

    /// A message about the crawl as a whole.
    pub fn say(&self, message: &str) {
        match &self.form {
            // It is no object, and the next ones tell that the queues no longer move.
            Form::Json => {}
            Form::Live(all, _) => {
                all.suspend(|| print(message));
                to_line_start();
            }
            Form::Nothing | Form::Plain if self.quiet => {}
            Form::Nothing | Form::Plain => print(message),
        }
    }

    /// Removes the live lines; what follows is printed as usual.
    pub fn clear(&self) {
        if let Form::Live(all, bars) = &self.form {
            bars.iter().for_each(ProgressBar::finish_and_clear);
            let _ = all.clear();
        }
    }
}

impl Seen {
    /// Pages a second of late.
    fn rate(&mut self, now: Instant, pages: u64) -> f64 {
        self.pages.push_back((now, pages));
        while self.pages.len() > 2 && self.pages[0].0 + RECENT < now {
            self.pages.pop_front();
        }
        let (since, before) = self.pages[0];
        pages.saturating_sub(before) as f64 / (now - since).as_secs_f64().max(0.001)
    }
}

/// How things stand, in four lines: the pages, the queues, the workers, the failures.
fn lines(snapshot: &Snapshot, rate: f64) -> [String; 4] {
    let Snapshot { pages, url_queue: (url_queue, overflow), parked: waiting, .. } = snapshot;
    let priority: usize = snapshot.priority_queues.iter().sum();
    let loads =
        snapshot.workers.iter().take(MOST_SHOWN).map(|(queued, on_loan)| format!("{queued}+{on_loan}"));
    let mut loads = loads.collect::<Vec<_>>().join(" ");
    if snapshot.workers.len() > MOST_SHOWN {
        loads += " …";
    }
    let mut kinds: Vec<(&str, u64)> = json::failures(snapshot).collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let kinds = kinds.iter().take(MOST_SHOWN).map(|(label, count)| format!("{count} {label}"));
    let mut failures = format!("failed {}", json::failed(snapshot));
    for (place, kind) in kinds.enumerate() {
        failures += if place == 0 { ": " } else { ", " };
        failures += &kind;
    }
    [
        format!(
            "{pages} kept, {rate:.1} pages/s, {}, {} outstanding",
            bytes(snapshot.bytes),
            snapshot.outstanding()
        ),
        format!("URL queue {url_queue}+{overflow}, priority queues {priority}, waiting per domain {waiting}"),
        format!("active hosts {}, workers {loads}", snapshot.active_hosts),
        failures,
    ]
}

fn live_lines() -> Form {
    let all = MultiProgress::new();
    let bars = (0..4).map(|_| {
        let bar = all.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        bar
    });
    let bars = bars.collect();
    Form::Live(all, bars)
}

fn print(message: &str) {
    // Nobody is left to be told if standard error is gone.
    let _ = writeln!(io::stderr(), "{}", printable(message));
}

fn print_json(progress: &ProgressJson<'_>) {
    // Counts and names of ours only: always JSON, and nothing in it steers a terminal.
    if let Ok(mut line) = serde_json::to_vec(progress) {
        line.push(b'\n');
        let _ = io::stderr().write_all(&line);
    }
}
