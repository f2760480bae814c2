//! Hears how each URL ended: prints it if that is wanted, and remembers why there is no page if there is none.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crawler::internal::outcome::Outcome;

use crate::args::{CrawlOptions, Verbosity};
use crate::printable::printable;

/// What is known of the URLs that ended.
pub struct OutcomeLog {
    /// Where a line for each goes.
    printed: Option<Stream>,
    begun: AtomicBool,
    kept_one: AtomicBool,
    last_failure: Mutex<Option<String>>,
}

#[derive(Clone, Copy)]
enum Stream {
    Out,
    Error,
}

impl OutcomeLog {
    /// Of a crawl with these options, before its beginning.
    pub fn new(options: &CrawlOptions) -> OutcomeLog {
        let stream = if options.stdout_is_taken() { Stream::Error } else { Stream::Out };
        OutcomeLog {
            printed: (options.fetch.verbosity() == Verbosity::Verbose).then_some(stream),
            begun: AtomicBool::new(false),
            kept_one: AtomicBool::new(false),
            last_failure: Mutex::default(),
        }
    }

    /// A URL ended.
    pub fn ended(&self, url: &str, outcome: &Outcome) {
        if let Some(stream) = self.printed {
            let line = format!("{}\n", printable(&line(url, outcome)));
            // A reader who has gone away (`| head`) does not end the crawl.
            let _ = match stream {
                Stream::Out => io::stdout().write_all(line.as_bytes()),
                Stream::Error => io::stderr().write_all(line.as_bytes()),
            };
        }
        self.begun.store(true, Ordering::Relaxed);
        match outcome {
            Outcome::Page => self.kept_one.store(true, Ordering::Relaxed),
            Outcome::Redirect { .. } => {}
            _ if self.kept_one.load(Ordering::Relaxed) => {}
            failure => {
                let failure = format!("{url}: {failure}{}", remedy(failure));
                *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            }
        }
    }

    /// Whether any URL has ended.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// The reason and perhaps the remedy, to be said after "no page was kept".
    pub fn why_nothing_was_kept(&self) -> String {
        let failure = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_deref().map_or_else(String::new, |failure| format!("; {failure}"))
    }
}

/// What became of a URL, in a line.
fn line(url: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Page => format!("      Kept: {url}"),
        Outcome::Redirect { to } => format!("Redirected: {url} to {to}"),
        Outcome::Duplicate { .. } | Outcome::NearDuplicate { .. } => format!("   Dropped: {url} ({outcome})"),
        _ => format!("    Failed: {url} ({outcome})"),
    }
}

fn remedy(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::RobotsUnavailable { .. } => {
            "; try again later, or give --ignore-robots if the site is yours"
        }
        Outcome::RobotsDisallowed => "; give --ignore-robots if the site is yours",
        Outcome::BlockedAddress { .. } => "; give --allow-private if it is to be reached",
        _ => "",
    }
}
