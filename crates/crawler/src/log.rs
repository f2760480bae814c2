//! The events that a crawl logs through `tracing`: the level, target and fields of each, in one place. docs/logs.md lists them.
//!
//! Without a subscriber an event costs a comparison. Texts from the web are passed on as they are: the subscriber escapes them.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{debug, error, info, trace, warn};
use url::Url;

use crate::backend::{Lease, Snapshot, WorkerId};
use crate::domain::Domain;
use crate::exchange::DroppedExchanges;
use crate::fetch::http::Download;
use crate::origin::without_credentials;
use crate::outcome::{Outcome, OutcomeGroup};
use crate::pipeline::CrawlEnd;
use crate::stats::Stats;
use crate::task_kind::shown_url;

/// What the targets of all events start with. Events of other crates have other targets.
pub const PREFIX: &str = "crawler::";

macro_rules! targets {
    ($($(#[$doc:meta])* $constant:ident = $name:literal,)+) => {
        $($(#[$doc])* pub const $constant: &str = concat!("crawler::", $name);)+

        /// The targets, without their prefix.
        pub const TARGETS: &[&str] = &[$($name),+];
    };
}

targets! {
    /// Errors of the command, and signals.
    COMMAND = "command",
    /// The start and the end of a crawl.
    CRAWL = "crawl",
    /// Hosts that cannot be reached, and domains that change their worker.
    HOST = "host",
    /// The log itself.
    LOG = "log",
    /// Modules that fail.
    MODULE = "module",
    /// Failures of the network.
    NETWORK = "network",
    /// Messages for the operator, which the command prints, too.
    NOTICE = "notice",
    /// Outputs that cannot be written.
    OUTPUT = "output",
    /// Requests and responses.
    REQUEST = "request",
    /// robots.txt.
    ROBOTS = "robots",
    /// The state of a crawl on disk, or in Redis.
    STATE = "state",
    /// The outcomes of URLs.
    URL = "url",
    /// Processes of a distributed crawl, and the leases of workers.
    WORKER = "worker",
}

/// A commit that takes longer is logged.
const SLOW_COMMIT: Duration = Duration::from_secs(1);

/// Passes a message about something that needs attention to the operator, and logs it.
pub fn warned(notice: &(impl Fn(&str) + ?Sized), message: &str) {
    warn!(target: NOTICE, "{message}");
    notice(message);
}

/// Passes a message about something that is as it should be to the operator, and logs it.
pub fn informed(notice: &(impl Fn(&str) + ?Sized), message: &str) {
    info!(target: NOTICE, "{message}");
    notice(message);
}

pub(crate) fn crawl_started(mode: &str, seeds: usize, pending: u64) {
    info!(target: CRAWL, mode, seeds, pending, "crawl started");
}

pub(crate) fn crawl_ended(end: &impl Display, snapshot: &Snapshot, elapsed: Duration) {
    let Snapshot { pages, requests, bytes, .. } = snapshot;
    let (pending, seconds) = (snapshot.pending(), elapsed.as_secs_f64());
    info!(target: CRAWL, %end, pages, requests, bytes, pending, seconds, "crawl ended");
}

pub(crate) fn classic_crawl_ended(stats: &Stats, is_stopped: bool) {
    let (pages, Stats { requests, bytes, .. }) = (stats.pages, stats);
    let end = if is_stopped { CrawlEnd::Stopped } else { CrawlEnd::Finished };
    let seconds = stats.elapsed.as_secs_f64();
    info!(target: CRAWL, %end, pages, requests, bytes, seconds, "crawl ended");
}

pub(crate) fn crawl_failed(cause: &impl Display) {
    error!(target: CRAWL, cause = %format_args!("{cause:#}"), "crawl failed");
}

pub(crate) fn limit_reached(limit: &impl Display) {
    info!(target: CRAWL, %limit, "limit reached");
}

/// The crawl was changed while it runs, from a dashboard or a command.
pub(crate) fn changed(change: &str) {
    info!(target: CRAWL, change, "crawl changed");
}

pub(crate) fn url_completed(url: &str, depth: u32, outcome: &Outcome) {
    let url = shown_url(url);
    match outcome {
        // Finding out the group of others takes longer.
        Outcome::Page => debug!(target: URL, url, %outcome, depth, "URL completed"),
        _ if LevelFilter::current() < LevelFilter::INFO => {}
        outcome => match outcome.group() {
            OutcomeGroup::Failed => info!(target: URL, url, %outcome, depth, "URL failed"),
            // A crawl that is stopped may leave millions of them.
            OutcomeGroup::NotReached => trace!(target: URL, url, %outcome, depth, "URL not reached"),
            _ if matches!(outcome, Outcome::SitemapFailed { .. }) => {
                info!(target: URL, url, %outcome, depth, "URL failed");
            }
            _ => debug!(target: URL, url, %outcome, depth, "URL completed"),
        },
    }
}

pub(crate) fn request_sent(url: &Url) {
    debug!(target: REQUEST, url = %shown(url), "request sent");
}

/// The time of a request that was sent starts when it was.
pub(crate) fn request_ended(
    url: &Url,
    result: &Result<Download, Outcome>,
    received: u64,
    (is_sent, elapsed): (bool, Duration),
) {
    let ms = elapsed.as_millis() as u64;
    match result {
        // The host backs off, or the crawl stopped.
        Err(Outcome::RequestNotProcessed | Outcome::NotReached) if !is_sent => {}
        Ok(Download { status, .. }) => {
            debug!(target: REQUEST, url = %shown(url), status, received, ms, "response");
        }
        Err(cause) => debug!(target: REQUEST, url = %shown(url), %cause, received, ms, "request failed"),
    }
}

pub(crate) fn retrying(url: &Url, cause: &Outcome) {
    debug!(target: REQUEST, url = %shown(url), %cause, "request is sent again");
}

pub(crate) fn robots_fetched(site: &impl Display, bytes: usize) {
    debug!(target: ROBOTS, %site, bytes, "robots.txt fetched");
}

pub(crate) fn robots_failed(site: &impl Display, cause: &Outcome, tries: u32) {
    debug!(target: ROBOTS, %site, %cause, tries, "robots.txt could not be fetched, will try again");
}

pub(crate) fn robots_unavailable(site: &impl Display, cause: &Outcome) {
    info!(target: ROBOTS, %site, %cause, "robots.txt unavailable");
}

/// An event of a host or domain. It is found under the lock of the state, and logged after that: a terminal may be slow.
#[derive(Debug)]
pub(crate) enum HostEvent {
    Failed { host: String, cause: String, is_given_up: bool },
    Moved { domain: Domain, from: WorkerId, to: WorkerId },
}

impl HostEvent {
    pub(crate) fn log(&self) {
        match self {
            HostEvent::Failed { host, cause, is_given_up: true } => {
                info!(target: HOST, host, cause, "host unreachable");
            }
            HostEvent::Failed { host, cause, is_given_up: false } => {
                debug!(target: HOST, host, cause, "host failed");
            }
            HostEvent::Moved { domain, from, to } => {
                debug!(target: HOST, %domain, from = from.0, to = to.0, "domain moved");
            }
        }
    }
}

pub(crate) fn network_down() {
    warn!(target: NETWORK, "network down");
}

pub(crate) fn network_up(down: Duration, is_given_up: bool) {
    let seconds = down.as_secs();
    match is_given_up {
        true => warn!(target: NETWORK, seconds, "network is still down, requests fail from now on"),
        false => info!(target: NETWORK, seconds, "network up again"),
    }
}

pub(crate) fn leased(worker: WorkerId, lease: &Lease) {
    trace!(target: WORKER, worker = worker.0, url = shown_url(&lease.url), "URL leased");
}

pub(crate) fn lease_returned(worker: WorkerId, url: &str) {
    trace!(target: WORKER, worker = worker.0, url = shown_url(url), "lease ended");
}

pub(crate) fn joined(role: &impl Display) {
    info!(target: WORKER, %role, "joined the crawl");
}

pub(crate) fn left(role: &impl Display) {
    info!(target: WORKER, %role, "left the crawl");
}

pub(crate) fn committed(started: std::time::Instant) {
    let elapsed = started.elapsed();
    if elapsed > SLOW_COMMIT {
        warn!(target: STATE, ms = elapsed.as_millis() as u64, "commit is slow");
    }
}

pub(crate) fn commit_failed(cause: &impl Display) {
    error!(target: STATE, cause = %format_args!("{cause:#}"), "commit failed");
}

pub(crate) fn module_failed(module: &str, cause: &str) {
    warn!(target: MODULE, module, cause, "module failed");
}

pub(crate) fn output_failed(cause: &str) {
    error!(target: OUTPUT, cause, "output failed");
}

pub(crate) fn exchanges_dropped(url: &str, dropped: DroppedExchanges) {
    let DroppedExchanges { bodies, exchanges } = dropped;
    warn!(target: OUTPUT, url, bodies, exchanges, "responses not archived");
}

/// The URL without user name and password.
fn shown(url: &Url) -> Cow<'_, str> {
    match url.username().is_empty() && url.password().is_none() {
        true => Cow::Borrowed(url.as_str()),
        false => Cow::Owned(without_credentials(url).into()),
    }
}
