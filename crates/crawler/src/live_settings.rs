//! What can change while a crawl runs: pauses, delays, budgets, blocked hosts and patterns, and further seeds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A change of a running crawl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ControlAction {
    /// Starts no further request. Requests in flight finish.
    Pause,
    /// Starts requests again.
    Resume,
    /// Stops the crawl. Requests in flight finish.
    Stop,
    /// Sets the minimum time between two requests to a host. A longer delay that the host wants stays.
    SetDelay(Duration),
    /// Sets the maximum number of pages.
    SetMaxPages(u64),
    /// Sets the maximum number of body bytes.
    SetMaxBytes(u64),
    /// Sets the maximum time, or removes it.
    SetMaxTime(Option<Duration>),
    /// Sends no further request to a host, and follows no link to it.
    BlockHost(String),
    /// Fetches no further URL that matches a regular expression, and follows no link to one.
    BlockPattern(String),
    /// Adds a seed, which extends the scope.
    AddSeed(String),
}

/// What was changed since the crawl started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LiveSettings {
    /// Whether the crawl is paused.
    pub is_paused: bool,
    /// The minimum time between two requests to a host, if it was changed.
    pub delay: Option<Duration>,
    /// The maximum number of pages, if it was changed.
    pub max_pages: Option<u64>,
    /// The maximum number of body bytes, if it was changed.
    pub max_bytes: Option<u64>,
    /// The maximum time, if it was changed.
    pub max_time: Option<MaxTime>,
    /// The hosts to which no request is sent.
    pub blocked_hosts: Vec<String>,
    /// The regular expressions of URLs that are not fetched.
    pub blocked_patterns: Vec<String>,
}

/// A maximum time that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaxTime {
    /// There is none any more.
    Unlimited,
    /// This one.
    Limited(Duration),
}

/// Changes a crawl of this process while it runs. Clones change the same crawl.
#[derive(Debug, Clone, Default)]
pub struct CrawlControl {}

impl CrawlControl {
    /// A handle for one crawl.
    pub fn new() -> CrawlControl {
        CrawlControl::default()
    }

    /// Changes the crawl, and returns a sentence that says what was done, or why not. Waits for the crawl to do it: mostly
    /// milliseconds, at most seconds.
    pub fn apply(&self, action: ControlAction) -> Result<String, String> {
        Err(format!("cannot apply {action:?}: not supported yet"))
    }

    /// What was changed so far.
    pub fn settings(&self) -> LiveSettings {
        LiveSettings::default()
    }
}
