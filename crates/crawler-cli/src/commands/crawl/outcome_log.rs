//! Prints the outcome of each URL (`--verbose`) or of those that failed (`--quiet`), and remembers why there are no pages if there are none.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crawler::{Outcome, OutcomeGroup};

use crate::args::{CrawlOptions, Verbosity};
use crate::commands::remedy;
use crate::printable::printable;
use crate::progress::outcome_word;

/// Receives the outcome of each URL.
pub struct OutcomeLog {
    /// Where each outcome is printed.
    stream: Option<Stream>,
    /// Whether URLs that failed are printed to standard error.
    prints_failures: bool,
    has_outcomes: AtomicBool,
    has_pages: AtomicBool,
    last_failure: Mutex<Option<String>>,
}

#[derive(Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

impl OutcomeLog {
    /// The log of a crawl with these options.
    pub fn new(options: &CrawlOptions) -> OutcomeLog {
        let stream = if options.stdout_is_taken() { Stream::Stderr } else { Stream::Stdout };
        OutcomeLog {
            stream: (options.fetch.verbosity() == Verbosity::Verbose).then_some(stream),
            prints_failures: options.fetch.verbosity() == Verbosity::Quiet,
            has_outcomes: AtomicBool::new(false),
            has_pages: AtomicBool::new(false),
            last_failure: Mutex::default(),
        }
    }

    /// Records the outcome of a URL.
    pub fn record(&self, url: &str, outcome: &Outcome) {
        if let Some(stream) = self.stream {
            let line = format!("{}\n", printable(&line(url, outcome)));
            // A closed pipe (`| head`) does not stop the crawl.
            let _ = match stream {
                Stream::Stdout => io::stdout().write_all(line.as_bytes()),
                Stream::Stderr => io::stderr().write_all(line.as_bytes()),
            };
        }
        if self.prints_failures && outcome.group() == OutcomeGroup::Failed {
            let _ = writeln!(io::stderr(), "{}", printable(&format!("{url}: {outcome}")));
        }
        self.has_outcomes.store(true, Ordering::Relaxed);
        match outcome {
            Outcome::Page => self.has_pages.store(true, Ordering::Relaxed),
            Outcome::Redirect { .. } => {}
            _ if self.has_pages.load(Ordering::Relaxed) => {}
            failure => {
                let failure = format!("{url}: {failure}{}", remedy(url, failure));
                *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            }
        }
    }

    /// Whether any URL has an outcome.
    pub fn has_outcomes(&self) -> bool {
        self.has_outcomes.load(Ordering::Relaxed)
    }

    /// The last URL that gave no page, its reason and the remedy, to follow "no pages crawled". Empty if none is known.
    pub fn last_failure(&self) -> String {
        let failure = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_deref().map_or_else(String::new, |failure| format!("; {failure}"))
    }
}

/// The outcome of a URL in one line.
fn line(url: &str, outcome: &Outcome) -> String {
    let word = outcome_word(outcome);
    match outcome {
        Outcome::Page => format!("{word:>10}: {url}"),
        Outcome::Redirect { to } => format!("{word:>10}: {url} to {to}"),
        _ => format!("{word:>10}: {url} ({outcome})"),
    }
}
