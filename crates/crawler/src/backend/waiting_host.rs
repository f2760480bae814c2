//! The hosts that hold a crawl up: those with the most URLs that wait, and why they wait.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::format::limit;

/// How many hosts a snapshot names.
pub const MAX_WAITING_HOSTS: usize = 10;

/// A host of which URLs wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingHost {
    /// The host.
    pub host: String,
    /// How many of its URLs wait with a priority.
    pub waiting: u64,
    /// How many of its URLs are leased to a worker.
    pub leased: u32,
    /// Why they wait.
    pub why: WaitReason,
}

impl WaitingHost {
    /// Adds a host whose URLs are all leased and wait for this reason, unless it is listed.
    pub(crate) fn add_unlisted(hosts: &mut Vec<WaitingHost>, host: &str, why: WaitReason) {
        if hosts.iter().all(|listed| listed.host != host) {
            hosts.push(WaitingHost { host: host.to_owned(), waiting: 0, leased: 1, why });
        }
    }
}

/// Why the URLs of a host wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitReason {
    /// The delay between its requests.
    Delay(Duration),
    /// The delay between the requests to all hosts of its site.
    SiteDelay(Duration),
    /// It gets no requests for a while, because its requests failed.
    BackingOff {
        /// For how long.
        for_: Duration,
        /// Its last failure.
        cause: String,
    },
    /// It gets no requests for longer than its delay: it asked for a pause, or its robots.txt failed.
    ServerDelay(Duration),
    /// It responds slowly.
    Slow,
    /// Its robots.txt could not be fetched yet, and why.
    RobotsTxt(String),
    /// The crawl is paused.
    Paused,
    /// Other hosts have their turn: the workers are busy.
    Busy,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitReason::Delay(delay) => write!(f, "delay {}", limit(*delay)),
            WaitReason::SiteDelay(delay) => write!(f, "delay of the site {}", limit(*delay)),
            WaitReason::BackingOff { for_, cause } => {
                write!(f, "backing off for {}: {cause}", whole_seconds(*for_))
            }
            WaitReason::ServerDelay(for_) => {
                write!(f, "waits {}, as the server requested", whole_seconds(*for_))
            }
            WaitReason::Slow => f.write_str("slow"),
            WaitReason::RobotsTxt(cause) => write!(f, "robots.txt: {cause}"),
            WaitReason::Paused => f.write_str("paused"),
            WaitReason::Busy => f.write_str("busy"),
        }
    }
}

fn whole_seconds(time: Duration) -> String {
    limit(Duration::from_secs(time.as_secs_f64().ceil().max(1.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_people_write_them() {
        let resting = |for_| WaitReason::BackingOff { for_, cause: "HTTP 503".into() }.to_string();
        assert_eq!(WaitReason::Delay(Duration::from_nanos(27_895_189)).to_string(), "delay 28 ms");
        assert_eq!(WaitReason::Delay(Duration::from_nanos(1_507_302_745)).to_string(), "delay 1.507 s");
        assert_eq!(WaitReason::SiteDelay(Duration::from_millis(250)).to_string(), "delay of the site 250 ms");
        assert_eq!(resting(Duration::from_millis(12_300)), "backing off for 13 s: HTTP 503");
        assert_eq!(resting(Duration::from_secs(600)), "backing off for 10 m 00 s: HTTP 503");
        assert_eq!(
            WaitReason::ServerDelay(Duration::from_millis(59_001)).to_string(),
            "waits 1 m 00 s, as the server requested"
        );
    }
}
