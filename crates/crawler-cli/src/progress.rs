//! Shows the progress of a classic crawl: a live line on a terminal, plain lines otherwise.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crawler::internal::event::{Event, Observer};
use crawler::internal::fetch::robots::waits::RobotsWaits;
use crawler::internal::log::NOTICE;
use crawler::internal::origin::without_credentials;
use crawler::internal::scope::RejectReason;
use crawler::internal::stats::{RequestCounter, Stats};
use crawler::internal::task::Depth;
use crawler::{Outcome, OutcomeGroup};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::MissedTickBehavior;
use url::Url;

use crate::args::Verbosity;
use crate::log;
use crate::printable::printable;
use crate::summary::Counts;

/// How often the counts are printed where there is no live line.
pub const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// How often the live line is redrawn.
const LIVE_INTERVAL: Duration = Duration::from_millis(100);

/// Prints events and progress. The events of `-v` go to standard output, unless it is taken, everything else to standard error.
pub struct Progress {
    verbosity: Verbosity,
    started: Instant,
    live_line: Option<ProgressBar>,
    /// The requests sent so far. The other counts are as of the last outcome.
    requests: RequestCounter,
    robots_waits: RobotsWaits,
    current: RefCell<Current>,
    /// Its failure ends the crawl, and is printed then.
    seed: String,
    /// What the crawl will do, until it is printed.
    plan: RefCell<Option<String>>,
    /// Where events go.
    out: RefCell<Box<dyn Write>>,
}

/// The latest counts and the URL of the request that was started last.
struct Current {
    stats: Stats,
    url: String,
}

impl Progress {
    /// Starts to show a crawl.
    pub fn new(
        verbosity: Verbosity,
        seed: &Url,
        requests: RequestCounter,
        robots_waits: RobotsWaits,
    ) -> Progress {
        let is_live = verbosity == Verbosity::Normal && io::stderr().is_terminal() && !log::is_on_stderr();
        let live_line = is_live.then(live_line);
        // A crawl starts with one URL, its seed.
        let mut stats = Stats::default();
        stats.admitted = 1;
        let current = RefCell::new(Current { stats, url: String::new() });
        let (started, out) = (Instant::now(), RefCell::new(Box::new(io::stdout()) as Box<dyn Write>));
        Progress {
            verbosity,
            started,
            live_line,
            requests,
            robots_waits,
            current,
            seed: without_credentials(seed).into(),
            plan: RefCell::default(),
            out,
        }
    }

    /// Prints events to standard error, too.
    pub fn without_stdout(self) -> Progress {
        Progress { out: RefCell::new(Box::new(io::stderr())), ..self }
    }

    /// Prints what the crawl will do when it starts.
    pub fn announce(self, plan: String) -> Progress {
        Progress { plan: RefCell::new(Some(plan)), ..self }
    }

    /// Shows the progress at regular intervals, also while no event occurs. Returns only if progress is not to be shown.
    pub async fn keep_showing(&self) {
        let (first, interval) = match &self.live_line {
            _ if self.verbosity == Verbosity::Verbose => {
                match self.robots_waits.report(|message| self.print_logged(message)).await {}
            }
            _ if self.verbosity == Verbosity::Quiet || log::is_on_stderr() => return,
            Some(_) => (Duration::ZERO, LIVE_INTERVAL),
            None => (PLAIN_INTERVAL, PLAIN_INTERVAL),
        };
        let mut timer = tokio::time::interval_at(tokio::time::Instant::now() + first, interval);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            self.show();
        }
    }

    fn show(&self) {
        let line = {
            let mut current = self.current.borrow_mut();
            current.stats.requests = self.requests.total();
            let counts = Counts::from_stats(&current.stats);
            let rate = counts.pages_per_second(self.started.elapsed());
            let current = match self.robots_waits.current() {
                Some(wait) => wait.to_string(),
                None => current.url.clone(),
            };
            format!("{} · {current}", counts.progress_line(rate))
        };
        match &self.live_line {
            Some(live_line) => {
                live_line.set_message(printable(&line).into_owned());
                live_line.tick();
                to_line_start();
            }
            None => self.print_stderr(&line),
        }
    }

    /// Prints a message about the crawl as a whole, unless `--quiet` is set, and logs it.
    pub fn print(&self, message: &str) {
        tracing::info!(target: NOTICE, "{message}");
        self.print_logged(message);
    }

    /// Prints a message that the library has logged.
    pub fn print_logged(&self, message: &str) {
        if !log::is_on_stderr() && self.verbosity != Verbosity::Quiet {
            self.print_stderr(message);
        }
    }

    /// Removes the live line.
    pub fn finish(&self) {
        if let Some(live_line) = &self.live_line {
            live_line.finish_and_clear();
        }
    }

    fn print_stderr(&self, message: &str) {
        let print = || {
            // A closed standard error does not stop the crawl.
            let _ = writeln!(io::stderr(), "{}", printable(message));
        };
        match &self.live_line {
            Some(live_line) => {
                live_line.suspend(print);
                to_line_start();
            }
            None => print(),
        }
    }

    fn print_event(&self, word: &str, depth: Depth, text: &str) {
        // A closed pipe (`| head`) does not stop the crawl.
        let _ = writeln!(self.out.borrow_mut(), "{depth:2} {word:>10}: {}", printable(text));
    }
}

impl Observer for Progress {
    fn on_event(&self, event: Event<'_>, depth: Depth, url: &str) {
        if self.verbosity == Verbosity::Verbose {
            let (word, detail) = describe(&event);
            self.print_event(word, depth, &[url, &detail].concat());
        } else if let Event::Ended { outcome } = event
            && is_reported(outcome, self.verbosity)
            && !log::is_on_stderr()
            && (url != self.seed || matches!(outcome, Outcome::WriteFailed { .. }))
        {
            self.print_stderr(&format!("{url}: {outcome}"));
        }
    }

    fn on_fetch_start(&self, url: &str, _depth: Depth) {
        if let Some(plan) = self.plan.take() {
            self.print(&plan);
        }
        url.clone_into(&mut self.current.borrow_mut().url);
    }

    fn on_progress(&self, stats: &Stats, _url: &str) {
        if self.verbosity == Verbosity::Normal {
            self.current.borrow_mut().stats.clone_from(stats);
        }
    }

    fn wants_links(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }
}

/// Moves the cursor to the start of the line. The live line is as wide as the terminal, so the `^C` that a terminal
/// echoes at its end would wrap, and the live line could not be cleared any more.
pub fn to_line_start() {
    let _ = io::stderr().write_all(b"\r");
}

fn live_line() -> ProgressBar {
    let live_line = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        live_line.set_style(style);
    }
    live_line
}

/// The name of an event, and the details that follow the URL.
fn describe(event: &Event<'_>) -> (&'static str, String) {
    match event {
        Event::Fetched { bytes } => ("Fetched", format!(" ({bytes} bytes)")),
        Event::Saved { id } => ("Saved", format!(" as {id}")),
        Event::Scanning => ("Scanning", String::new()),
        Event::Found => ("Found", String::new()),
        Event::Added => ("Added", String::new()),
        Event::Duplicate => ("IgnDupl", String::new()),
        Event::Ignored { reason: RejectReason::External } => ("IgnExtrn", String::new()),
        Event::Ignored { reason } => ("Ignored", format!(" ({reason})")),
        Event::BadLink { reason } => ("Ignored", format!(" (a link on this page: {reason})")),
        Event::Ended { outcome: Outcome::Redirect { to } } => ("Redirect", format!(" to {to}")),
        Event::Ended { outcome } => (outcome_word(outcome), format!(" ({outcome})")),
        other => ("Event", format!(" ({other:?})")),
    }
}

/// The group of an outcome, as one word.
pub fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome.group() {
        OutcomeGroup::Page => "Page",
        OutcomeGroup::Redirect => "Redirect",
        OutcomeGroup::Skipped => "Skipped",
        OutcomeGroup::Sitemap => "Sitemap",
        OutcomeGroup::Checked => "Checked",
        OutcomeGroup::Requisite => "Requisite",
        OutcomeGroup::NotReached => "NotReached",
        _ => "Failed",
    }
}

/// Whether an outcome gets a line of its own. The summary counts the others: a stopped crawl may leave millions of URLs.
fn is_reported(outcome: &Outcome, verbosity: Verbosity) -> bool {
    match outcome.group() {
        _ if *outcome == Outcome::NotSaved => false,
        OutcomeGroup::Page | OutcomeGroup::Redirect | OutcomeGroup::NotReached => false,
        OutcomeGroup::Skipped => verbosity == Verbosity::Normal,
        _ => true,
    }
}
