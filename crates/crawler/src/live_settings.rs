//! What can change while a crawl runs: pauses, delays, budgets, blocked hosts and patterns, and further seeds.

mod control;
mod pause;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

pub use self::control::CrawlControl;
pub use self::pause::Pause;
use crate::backend::AdmitCounts;
use crate::crawl_view::Limits;
use crate::format::{limit, number};
use crate::html::{self, normal_form};
use crate::scope::Blocked;
use crate::time_text::time_text;

/// The longest delay, and the longest maximum time.
const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The most hosts and patterns that are blocked: all are checked for every link.
const MAX_BLOCKED_HOSTS: usize = 10_000;
const MAX_BLOCKED_PATTERNS: usize = 100;

/// A change of a running crawl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ControlAction {
    /// Starts no further request. Requests in flight finish, and the maximum time does not run on.
    Pause,
    /// Starts requests again.
    Unpause,
    /// Stops the crawl. Requests in flight finish.
    Stop,
    /// Sets the minimum time between two requests to a host. A host that wants a longer one keeps it.
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
    /// Adds a seed, which extends the scope: an http or https URL without user name and password.
    AddSeed(String),
}

impl ControlAction {
    /// The error for an action that cannot be done: why not, and what to do about it.
    pub(crate) fn error(&self, why: impl std::fmt::Display) -> String {
        let action = match self {
            ControlAction::Pause => "pause the crawl",
            ControlAction::Unpause => "unpause the crawl",
            ControlAction::Stop => "stop the crawl",
            ControlAction::SetDelay(_) => "set the delay",
            ControlAction::SetMaxPages(_) => "set the maximum number of pages",
            ControlAction::SetMaxBytes(_) => "set the maximum number of bytes",
            ControlAction::SetMaxTime(_) => "set the maximum time",
            ControlAction::BlockHost(_) => "block the host",
            ControlAction::BlockPattern(_) => "block the pattern",
            ControlAction::AddSeed(_) => "add the seed",
        };
        format!("cannot {action}: {why}")
    }

    /// What a crawl does with the change that is resumed from its state later, if it does not keep it: a sentence.
    pub(crate) fn after_resume(&self) -> Option<&'static str> {
        match self {
            ControlAction::Unpause | ControlAction::Stop | ControlAction::AddSeed(_) => None,
            ControlAction::Pause => Some("A crawl that ends and is resumed later is not paused."),
            _ => Some("This lasts until the crawl ends. A resumed crawl uses its saved options."),
        }
    }

    /// Checks what can be checked without the crawl: whether a value can be used at all. The error says why not.
    pub fn check(&self) -> Result<(), String> {
        match self {
            ControlAction::AddSeed(seed) => added_seed(seed).map(drop).map_err(|why| self.error(why)),
            action => LiveSettings::default().with(action).map(drop),
        }
    }
}

/// Why the crawl of another process was not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlError {
    /// No process runs the crawl. It has to be started first.
    NotRunning(String),
    /// Another cause, with its remedy.
    Failed(String),
}

impl ControlError {
    /// The error for an action on a crawl that no process runs.
    pub(crate) fn not_running(action: &ControlAction) -> ControlError {
        ControlError::NotRunning(action.error("no process runs it"))
    }
}

impl From<String> for ControlError {
    fn from(message: String) -> ControlError {
        ControlError::Failed(message)
    }
}

/// What was changed since the crawl started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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

/// The limits of a running crawl, as its queues apply them.
#[derive(Debug, Clone)]
pub struct LiveLimits {
    /// Whether the crawl is paused, so that its time does not run on.
    pub is_paused: bool,
    /// The maximum number of pages.
    pub max_pages: u64,
    /// The maximum number of body bytes.
    pub max_bytes: u64,
    /// The minimum time between two requests to a host.
    pub delay: Duration,
    /// The minimum time between the starts of two requests to a site.
    pub site_delay: Duration,
    /// The hosts and URLs that are blocked.
    pub(crate) blocked: Option<Arc<Blocked>>,
}

impl LiveSettings {
    /// The settings after an action, and a sentence that says what it does. An error if it cannot be done; then nothing changes.
    /// Stops and seeds are no settings.
    pub(crate) fn with(&self, action: &ControlAction) -> Result<(LiveSettings, String), String> {
        let mut settings = self.clone();
        let done = settings.change(action).map_err(|why| action.error(why))?;
        Ok((settings, done))
    }

    fn change(&mut self, action: &ControlAction) -> Result<String, String> {
        let too_small = || Err("it is 0; give a larger number".to_owned());
        Ok(match action {
            ControlAction::Pause if std::mem::replace(&mut self.is_paused, true) => {
                "The crawl is paused already.".into()
            }
            ControlAction::Pause => "The crawl is paused; requests in flight finish.".into(),
            ControlAction::Unpause if !std::mem::replace(&mut self.is_paused, false) => {
                "The crawl is not paused.".into()
            }
            ControlAction::Unpause => "The crawl continues.".into(),
            ControlAction::SetDelay(delay) => {
                self.delay = Some(limited(*delay, MAX_DELAY)?);
                format!("The delay is {} per host; a longer delay of a host still applies.", limit(*delay))
            }
            ControlAction::SetMaxPages(0) | ControlAction::SetMaxBytes(0) => return too_small(),
            ControlAction::SetMaxPages(pages) => {
                self.max_pages = Some(*pages);
                format!("The maximum number of pages is {}.", number(*pages))
            }
            ControlAction::SetMaxBytes(bytes) => {
                self.max_bytes = Some(*bytes);
                format!("The maximum number of bytes is {}.", number(*bytes))
            }
            ControlAction::SetMaxTime(None) => {
                self.max_time = Some(MaxTime::Unlimited);
                "The maximum time is unlimited.".into()
            }
            ControlAction::SetMaxTime(Some(Duration::ZERO)) => return too_small(),
            ControlAction::SetMaxTime(Some(time)) => {
                self.max_time = Some(MaxTime::Limited(limited(*time, MAX_TIME)?));
                format!("The maximum time is {}.", limit(*time))
            }
            ControlAction::BlockHost(host) => self.block_host(host)?,
            ControlAction::BlockPattern(pattern) => self.block_pattern(pattern)?,
            ControlAction::Stop => "The crawl stops; requests in flight finish.".into(),
            ControlAction::AddSeed(_) => "The seed is added.".into(),
        })
    }

    fn block_host(&mut self, host: &str) -> Result<String, String> {
        let host = Blocked::host(host)?;
        if !self.blocked_hosts.contains(&host) {
            add_limited(&mut self.blocked_hosts, host.clone(), MAX_BLOCKED_HOSTS)?;
        }
        Ok(format!("No further request is sent to {host}; its waiting URLs are skipped."))
    }

    fn block_pattern(&mut self, pattern: &str) -> Result<String, String> {
        Blocked::check_pattern(pattern)?;
        if !self.blocked_patterns.iter().any(|blocked| blocked == pattern) {
            add_limited(&mut self.blocked_patterns, pattern.to_owned(), MAX_BLOCKED_PATTERNS)?;
            // All of them together may be too large.
            self.blocked()?;
        }
        Ok(format!("No further URL that matches {pattern} is fetched; waiting ones are skipped."))
    }

    /// What blocks these hosts and patterns.
    pub(crate) fn blocked(&self) -> Result<Option<Arc<Blocked>>, String> {
        Blocked::new(&self.blocked_hosts, &self.blocked_patterns)
    }

    /// What differs from how the crawl was started.
    pub(crate) fn description(&self) -> String {
        let counted_as = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what} blocked"));
        let parts = [
            self.is_paused.then(|| "paused".to_owned()),
            self.delay.map(|delay| format!("delay {}", time_text(delay))),
            self.max_pages.map(|pages| format!("max-pages {pages}")),
            self.max_bytes.map(|bytes| format!("max-bytes {bytes}")),
            self.max_time.map(|time| match time {
                MaxTime::Unlimited => "max-time unlimited".into(),
                MaxTime::Limited(time) => format!("max-time {}", time_text(time)),
            }),
            counted_as(self.blocked_hosts.len(), "hosts"),
            counted_as(self.blocked_patterns.len(), "patterns"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "as started".into() } else { parts.join(", ") }
    }

    /// The limits, of a crawl that started with these.
    pub fn limits(&self, configured: &Limits) -> Limits {
        Limits {
            max_pages: self.max_pages.unwrap_or(configured.max_pages),
            max_bytes: self.max_bytes.unwrap_or(configured.max_bytes),
            max_time: self.max_time(configured.max_time),
            max_depth: configured.max_depth,
            delay: self.delay.unwrap_or(configured.delay),
        }
    }

    /// The maximum time, of a crawl that had this one.
    pub fn max_time(&self, configured: Option<Duration>) -> Option<Duration> {
        match self.max_time {
            None => configured,
            Some(MaxTime::Unlimited) => None,
            Some(MaxTime::Limited(time)) => Some(time),
        }
    }
}

fn limited(time: Duration, max: Duration) -> Result<Duration, String> {
    match time > max {
        true => Err(format!("{} is longer than {}; give a shorter time", time_text(time), time_text(max))),
        false => Ok(time),
    }
}

fn add_limited(list: &mut Vec<String>, entry: String, max: usize) -> Result<(), String> {
    if list.len() >= max {
        let max = number(max as u64);
        return Err(format!(
            "{max} are blocked already; stop the crawl, and exclude them when it is resumed"
        ));
    }
    list.push(entry);
    Ok(())
}

/// Why a seed is not added that is blocked.
pub(crate) const ADDED_SEED_IS_BLOCKED: &str =
    "its host or URL was blocked in this crawl; crawl it with another one";

/// What was done with a seed. Without counts, it waits for a process that admits it.
pub(crate) fn added_seed_text(url: &Url, admitted: Option<AdmitCounts>) -> String {
    match admitted {
        None => format!("The seed {url} is stored; the frontier process adds it when it runs."),
        Some(AdmitCounts { new: 0, .. }) => {
            format!("{url} was found before, so it is not added again; the scope is extended by it.")
        }
        Some(_) => format!("Added the seed {url}."),
    }
}

/// The normalized URL of a seed that is added to a running crawl. The error does not contain a password.
pub(crate) fn added_seed(text: &str) -> Result<Url, String> {
    const EXAMPLE: &str = "give an absolute http or https URL, like https://example.org/";
    let mut url = Url::parse(text.trim()).map_err(|error| format!("it is not a URL: {error}; {EXAMPLE}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("its scheme is '{}'; {EXAMPLE}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user name or a password; give it without them".into());
    }
    normal_form::normalize(&mut url).map_err(|bad| format!("it is {bad}; {EXAMPLE}"))?;
    match url.as_str().len() > html::MAX_URL_BYTES {
        true => Err(format!("it has more than {} bytes; give a shorter URL", html::MAX_URL_BYTES)),
        false => Ok(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_actions_are_refused_with_the_cause_and_change_nothing() {
        let settings = LiveSettings::default();
        for (action, why) in [
            (ControlAction::SetDelay(365 * MAX_DELAY), "cannot set the delay: 8760h is longer than"),
            (ControlAction::SetMaxPages(0), "cannot set the maximum number of pages: it is 0"),
            (ControlAction::SetMaxBytes(0), "cannot set the maximum number of bytes: it is 0"),
            (ControlAction::SetMaxTime(Some(Duration::ZERO)), "cannot set the maximum time: it is 0"),
            (ControlAction::BlockHost("http://a.test/".into()), "cannot block the host: it is not a host"),
            (ControlAction::BlockHost("*".into()), "cannot block the host: it is not a host"),
            (ControlAction::BlockPattern("(".into()), "cannot block the pattern: it is not a regular"),
            (ControlAction::BlockPattern(".*".into()), "cannot block the pattern: it matches every URL"),
            (
                ControlAction::BlockPattern("(a{1000}){1000}".into()),
                "cannot block the pattern: it is too large",
            ),
        ] {
            let error = settings.with(&action).unwrap_err();
            assert!(error.starts_with(why) && error.contains("; "), "{error}");
            assert_eq!(action.check(), Err(error));
        }
    }

    #[test]
    fn blocked_hosts_and_patterns_are_listed_once_and_bounded() {
        let mut settings = LiveSettings::default();
        for _ in 0..2 {
            (settings, _) = settings.with(&ControlAction::BlockHost("A.test".into())).unwrap();
            (settings, _) = settings.with(&ControlAction::BlockPattern("x".into())).unwrap();
        }
        assert_eq!(
            (&settings.blocked_hosts[..], &settings.blocked_patterns[..]),
            (&["a.test".into()][..], &["x".into()][..])
        );
        settings.blocked_patterns = (0..100).map(|number| number.to_string()).collect();
        assert!(settings.with(&ControlAction::BlockPattern("x".into())).is_err());
        settings.blocked_hosts = (0..10_000).map(|number| format!("h{number}.test")).collect();
        let error = settings.with(&ControlAction::BlockHost("a.test".into())).unwrap_err();
        assert!(error.starts_with("cannot block the host: 10,000 are blocked already; "), "{error}");
        assert!(settings.with(&ControlAction::BlockHost("h7.test".into())).is_ok(), "it is blocked already");
    }

    #[test]
    fn seeds_with_passwords_and_other_schemes_are_refused() {
        assert_eq!(added_seed(" http://A.test/b/../c#d ").unwrap().as_str(), "http://a.test/c");
        for text in ["ftp://a.test/", "http://me:secret@a.test/", "a.test", "", "http://"] {
            assert!(ControlAction::AddSeed(text.into()).check().is_err());
            let error = added_seed(text).unwrap_err();
            assert!(error.contains("; ") && !error.contains("secret"), "{error}");
        }
        assert!(added_seed(&format!("http://a.test/{}", "x".repeat(10_000))).is_err());
    }
}
