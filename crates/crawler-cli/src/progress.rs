//! What the user sees while a crawl runs: a live line on a terminal, plain lines otherwise.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crawler::event::{Event, Observer};
use crawler::outcome::Outcome;
use crawler::stats::Stats;
use crawler::task::Depth;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Verbosity;
use crate::printable::printable;

/// How often the numbers are printed where there is no live line.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// How often the live line is redrawn.
const LIVE_INTERVAL: Duration = Duration::from_millis(100);

/// Prints events and progress. Events of `-v` go to standard output, everything else to standard error.
pub struct Progress {
    verbosity: Verbosity,
    begun: Instant,
    live: Option<ProgressBar>,
    last_plain: Cell<Instant>,
    out: RefCell<io::Stdout>,
}

impl Progress {
    /// Begins to show a crawl.
    pub fn new(verbosity: Verbosity) -> Progress {
        let live = (verbosity == Verbosity::Normal && io::stderr().is_terminal()).then(live_line);
        let begun = Instant::now();
        Progress { verbosity, begun, live, last_plain: Cell::new(begun), out: RefCell::new(io::stdout()) }
    }

    /// A message about the crawl as a whole.
    pub fn say(&self, message: &str) {
        if self.verbosity != Verbosity::Quiet {
            self.error(message);
        }
    }

    /// Removes the live line; what follows is printed as usual.
    pub fn finish(&self) {
        if let Some(live) = &self.live {
            live.finish_and_clear();
        }
    }

    fn error(&self, message: &str) {
        let print = || {
            // Nobody is left to be told if standard error is gone.
            let _ = writeln!(io::stderr(), "{}", printable(message));
        };
        match &self.live {
            Some(live) => live.suspend(print),
            None => print(),
        }
    }

    fn event_line(&self, word: &str, depth: Depth, rest: &str) {
        // A reader who has gone away (`| head`) does not end the crawl.
        let _ = writeln!(self.out.borrow_mut(), "{depth:2} {word:>10}: {}", printable(rest));
    }
}

impl Observer for Progress {
    fn event(&self, event: Event<'_>, depth: Depth, url: &str) {
        if self.verbosity == Verbosity::Verbose {
            let (word, detail) = describe(&event);
            self.event_line(word, depth, &[url, &detail].concat());
        } else if let Event::Ended { outcome } = event
            && is_worth_telling(outcome, self.verbosity)
        {
            self.error(&format!("{url}: {outcome}"));
        }
    }

    fn progress(&self, stats: &Stats, url: &str) {
        if self.verbosity != Verbosity::Normal {
            return;
        }
        if let Some(live) = &self.live {
            live.set_message(format!("{} · {url}", self.numbers(stats)));
        } else if self.last_plain.get().elapsed() >= PLAIN_INTERVAL {
            self.last_plain.set(Instant::now());
            self.error(&format!("{}, {url}", self.numbers(stats)));
        }
    }

    fn wants_links(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }
}

impl Progress {
    fn numbers(&self, stats: &Stats) -> String {
        let rate = stats.kept() as f64 / self.begun.elapsed().as_secs_f64().max(0.001);
        let (saved, queued, failed) = (stats.kept(), stats.outstanding(), stats.failed());
        format!("{saved} saved, {queued} queued, {failed} failed, {rate:.1} pages/s")
    }
}

fn live_line() -> ProgressBar {
    let live = ProgressBar::new_spinner().with_message("starting");
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        live.set_style(style);
    }
    live.enable_steady_tick(LIVE_INTERVAL);
    live
}

/// The word for an event, and what is to be said after the URL.
fn describe(event: &Event<'_>) -> (&'static str, String) {
    match event {
        Event::Fetched { bytes } => ("Fetched", format!(" ({bytes} bytes)")),
        Event::Saved { id } => ("Saved", format!(" as {id}")),
        Event::Scanning => ("Scanning", String::new()),
        Event::Found => ("Found", String::new()),
        Event::Added => ("Added", String::new()),
        Event::Duplicate => ("IgnDupl", String::new()),
        Event::Ignored { why: crawler::scope::Refusal::External } => ("IgnExtrn", String::new()),
        Event::Ignored { why } => ("Ignored", format!(" ({why})")),
        Event::BadLink { why } => ("Ignored", format!(" (a link there: {why})")),
        Event::Ended { outcome: Outcome::Redirected { to } } => ("Redirected", format!(" to {to}")),
        Event::Ended { outcome } => ("Failed", format!(" ({outcome})")),
    }
}

/// Redirects are the ordinary way of the web, and what a stopped crawl did not reach may be a million URLs: the
/// summary counts them. What the rules of the crawl keep out is no error.
fn is_worth_telling(outcome: &Outcome, verbosity: Verbosity) -> bool {
    match outcome {
        Outcome::Kept | Outcome::Redirected { .. } | Outcome::NotReached => false,
        Outcome::Disallowed | Outcome::RedirectRefused { .. } => verbosity == Verbosity::Normal,
        _ => true,
    }
}
