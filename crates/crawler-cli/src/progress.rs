//! What the user sees while a crawl runs: a live line on a terminal, plain lines otherwise.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crawler::internal::event::{Event, Observer};
use crawler::internal::outcome::Outcome;
use crawler::internal::stats::Stats;
use crawler::internal::task::Depth;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::MissedTickBehavior;

use crate::args::Verbosity;
use crate::printable::printable;

/// How often the numbers are printed where there is no live line.
pub const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// How often the live line is redrawn.
const LIVE_INTERVAL: Duration = Duration::from_millis(100);

/// Prints events and progress. Events of `-v` go to standard output, everything else to standard error.
pub struct Progress {
    verbosity: Verbosity,
    begun: Instant,
    live: Option<ProgressBar>,
    now: RefCell<Now>,
    out: RefCell<io::Stdout>,
}

/// How far the crawl is.
struct Now {
    saved: u64,
    queued: u64,
    failed: u64,
    /// What was begun last: of several requests in flight, the newest.
    url: String,
}

impl Progress {
    /// Begins to show a crawl.
    pub fn new(verbosity: Verbosity) -> Progress {
        let live = (verbosity == Verbosity::Normal && io::stderr().is_terminal()).then(live_line);
        // A crawl begins with one URL, its seed.
        let now = RefCell::new(Now { saved: 0, queued: 1, failed: 0, url: String::new() });
        Progress { verbosity, begun: Instant::now(), live, now, out: RefCell::new(io::stdout()) }
    }

    /// Shows how far the crawl is, over and over, also while nothing happens. Ends only where nothing is to be shown.
    pub async fn keep_showing(&self) {
        let (first, interval) = match &self.live {
            _ if self.verbosity != Verbosity::Normal => return,
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
        let (numbers, now) = (self.numbers(), self.now.borrow());
        match &self.live {
            Some(live) => {
                live.set_message(format!("{numbers} · {}", printable(&now.url)));
                live.tick();
                to_line_start();
            }
            None => self.error(&format!("{numbers}, {}", now.url)),
        }
    }

    fn numbers(&self) -> String {
        let Now { saved, queued, failed, .. } = *self.now.borrow();
        let rate = saved as f64 / self.begun.elapsed().as_secs_f64().max(0.001);
        format!("{saved} saved, {queued} queued, {failed} failed, {rate:.1} pages/s")
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
            Some(live) => {
                live.suspend(print);
                to_line_start();
            }
            None => print(),
        }
    }

    fn event_line(&self, word: &str, depth: Depth, rest: &str) {
        // A reader who has gone away (`| head`) does not end the crawl.
        let _ = writeln!(self.out.borrow_mut(), "{depth:2} {word:>10}: {}", printable(rest));
    }
}

impl Observer for Progress {
    fn on_event(&self, event: Event<'_>, depth: Depth, url: &str) {
        if self.verbosity == Verbosity::Verbose {
            let (word, detail) = describe(&event);
            self.event_line(word, depth, &[url, &detail].concat());
        } else if let Event::Ended { outcome } = event
            && is_worth_telling(outcome, self.verbosity)
        {
            self.error(&format!("{url}: {outcome}"));
        }
    }

    fn on_fetch_start(&self, url: &str, _depth: Depth) {
        url.clone_into(&mut self.now.borrow_mut().url);
    }

    fn on_progress(&self, stats: &Stats, _url: &str) {
        let mut now = self.now.borrow_mut();
        (now.saved, now.queued, now.failed) = (stats.pages(), stats.outstanding(), stats.failed());
    }

    fn wants_links(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }
}

/// Takes the cursor back from the end of the live line, which is as wide as the terminal: the `^C` that a terminal echoes
/// would begin a new line there, and leave the old one behind for good.
pub fn to_line_start() {
    let _ = io::stderr().write_all(b"\r");
}

fn live_line() -> ProgressBar {
    let live = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        live.set_style(style);
    }
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
        Event::Ignored { reason: crawler::internal::scope::RejectReason::External } => {
            ("IgnExtrn", String::new())
        }
        Event::Ignored { reason } => ("Ignored", format!(" ({reason})")),
        Event::BadLink { reason } => ("Ignored", format!(" (a link there: {reason})")),
        Event::Ended { outcome: Outcome::Redirect { to } } => ("Redirected", format!(" to {to}")),
        Event::Ended { outcome } => ("Failed", format!(" ({outcome})")),
    }
}

/// Redirects are the ordinary way of the web, and what a stopped crawl did not reach may be a million URLs: the
/// summary counts them. What the rules of the crawl keep out is no error.
fn is_worth_telling(outcome: &Outcome, verbosity: Verbosity) -> bool {
    match outcome {
        Outcome::Page | Outcome::Redirect { .. } | Outcome::NotReached => false,
        Outcome::RobotsDisallowed | Outcome::RedirectRejected { .. } => verbosity == Verbosity::Normal,
        _ => true,
    }
}
