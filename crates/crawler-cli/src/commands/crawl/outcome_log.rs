//! Prints the outcome of each URL (`--verbose`) or of those that failed (`--quiet`), and remembers why there are no pages
//! if there are none.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crawler::internal::html;
use crawler::internal::origin::without_credentials;
use crawler::{Outcome, OutcomeGroup, RejectReason};
use url::Url;

use super::stdout_reader::StdoutReader;
use crate::args::{CrawlOptions, Verbosity};
use crate::commands::{self, start_there};
use crate::live::screen;
use crate::printable::printable;
use crate::progress::outcome_word;

/// Receives the outcome of each URL.
pub struct OutcomeLog {
    reader: StdoutReader,
    /// Where each outcome is printed.
    stream: Option<Stream>,
    /// Whether URLs that failed are printed to standard error.
    prints_failures: bool,
    has_outcomes: AtomicBool,
    has_pages: AtomicBool,
    last_failure: Mutex<Option<String>>,
    seeds: HashSet<String>,
    /// The seeds that redirect out of scope, each with the remedy.
    redirected_seeds: Mutex<Vec<String>>,
}

#[derive(Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

impl OutcomeLog {
    /// The log of a crawl with these options.
    pub fn new(options: &CrawlOptions, reader: StdoutReader) -> OutcomeLog {
        let stream = if options.stdout_is_taken() { Stream::Stderr } else { Stream::Stdout };
        OutcomeLog {
            reader,
            stream: (options.fetch.verbosity() == Verbosity::Verbose).then_some(stream),
            prints_failures: options.fetch.verbosity() == Verbosity::Quiet,
            has_outcomes: AtomicBool::new(false),
            has_pages: AtomicBool::new(false),
            last_failure: Mutex::default(),
            seeds: options.seeds.iter().filter_map(|seed| normalized(seed, options)).collect(),
            redirected_seeds: Mutex::default(),
        }
    }

    /// Records the outcome of a URL.
    pub fn record(&self, url: &str, outcome: &Outcome) {
        if let Some(stream) = self.stream {
            let line = format!("{}\n", printable(&line(url, outcome)));
            screen::above(|| match stream {
                Stream::Stdout => self.reader.check(&io::stdout().write_all(line.as_bytes())),
                Stream::Stderr => drop(io::stderr().write_all(line.as_bytes())),
            });
        }
        let is_failure =
            outcome.group() == OutcomeGroup::Failed || matches!(outcome, Outcome::SitemapFailed { .. });
        if self.prints_failures && is_failure {
            let _ = writeln!(io::stderr(), "{}", printable(&format!("{url}: {outcome}")));
        }
        self.has_outcomes.store(true, Ordering::Relaxed);
        if is_out_of_scope(outcome) && self.seeds.contains(url) {
            unpoisoned(&self.redirected_seeds).push(format!("{url}: {outcome}{}", remedy(url, outcome)));
        }
        match outcome {
            Outcome::Page => self.has_pages.store(true, Ordering::Relaxed),
            // The seeds say why there are no pages.
            Outcome::Sitemap { .. } | Outcome::SitemapFailed { .. } => {}
            _ if self.has_pages.load(Ordering::Relaxed) => {}
            // Without any failure, the redirects lead back to each other.
            Outcome::Redirect { .. } => {
                unpoisoned(&self.last_failure)
                    .get_or_insert_with(|| format!("{url}: {outcome}, which redirects back"));
            }
            failure => {
                let failure = format!("{url}: {failure}{}", remedy(url, failure));
                *unpoisoned(&self.last_failure) = Some(failure);
            }
        }
    }

    /// Takes the messages about seeds that redirect out of scope.
    pub fn take_redirected_seeds(&self) -> Vec<String> {
        std::mem::take(&mut *unpoisoned(&self.redirected_seeds))
    }

    /// Whether any URL has an outcome.
    pub fn has_outcomes(&self) -> bool {
        self.has_outcomes.load(Ordering::Relaxed)
    }

    /// The last URL that gave no page, its reason and the remedy, to follow "no pages crawled". Empty if none is known.
    pub fn last_failure(&self) -> String {
        let failure = unpoisoned(&self.last_failure);
        failure.as_deref().map_or_else(String::new, |failure| format!("; {failure}"))
    }
}

/// The outcome of a URL in one line.
pub fn line(url: &str, outcome: &Outcome) -> String {
    let word = outcome_word(outcome);
    match outcome {
        Outcome::Page => format!("{word:>10}: {url}"),
        Outcome::Redirect { to, .. } => format!("{word:>10}: {url} to {to}"),
        _ => format!("{word:>10}: {url} ({outcome})"),
    }
}

fn remedy(url: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::RedirectRejected { to, .. } if is_out_of_scope(outcome) => start_there("crawler crawl", to),
        outcome => commands::remedy(url, outcome),
    }
}

fn is_out_of_scope(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::RedirectRejected { why: RejectReason::External, .. })
}

/// A seed as outcomes name it.
fn normalized(seed: &str, options: &CrawlOptions) -> Option<String> {
    let seed = without_credentials(&Url::parse(seed).ok()?);
    let seed = html::normalize(seed.as_str()).ok()?;
    Some(options.fetch.strip_query().ok()?.strip(seed.as_str()).into_owned())
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
