//! The counters of statistics that have a fixed set of names.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use crate::outcome::Outcome;

/// robots.txt files, and what they disallow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RobotsStatistics {
    /// Files that were fetched.
    pub fetched: u64,
    /// Files that do not exist: the status is 4xx, and everything is allowed.
    pub missing: u64,
    /// Files that could not be fetched, so that nothing is allowed.
    pub unavailable: u64,
    /// URLs that a robots.txt disallows.
    pub disallowed: u64,
}

impl RobotsStatistics {
    pub(super) fn merge(&mut self, other: &RobotsStatistics) {
        self.fetched += other.fetched;
        self.missing += other.missing;
        self.unavailable += other.unavailable;
        self.disallowed += other.disallowed;
    }
}

/// How long the stages of requests and pages took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stages {
    /// DNS lookups that the cache did not answer.
    pub dns: Histogram,
    /// Connecting to a server or proxy.
    pub connect: Histogram,
    /// TLS handshakes.
    pub tls: Histogram,
    /// From a request to the head of its response.
    pub first_byte: Histogram,
    /// From the head of a response to its end.
    pub download: Histogram,
    /// Parsing a page and comparing it with others.
    pub process: Histogram,
    /// Modules and outputs of a page.
    pub modules: Histogram,
    /// Commits of the state.
    pub commit: Histogram,
    /// Round trips to Redis.
    pub redis: Histogram,
}

/// A stage of a request or page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are those of Stages")]
pub enum Stage {
    Dns,
    Connect,
    Tls,
    FirstByte,
    Download,
    Process,
    Modules,
    Commit,
    Redis,
}

impl Stages {
    /// All stages, with their names.
    pub fn named(&self) -> [(&'static str, &Histogram); 9] {
        [
            ("dns", &self.dns),
            ("connect", &self.connect),
            ("tls", &self.tls),
            ("first_byte", &self.first_byte),
            ("download", &self.download),
            ("process", &self.process),
            ("modules", &self.modules),
            ("commit", &self.commit),
            ("redis", &self.redis),
        ]
    }

    /// Counts the time that a stage took.
    pub fn record(&mut self, stage: Stage, time: Duration) {
        self.of_mut(stage).record(time);
    }

    fn of_mut(&mut self, stage: Stage) -> &mut Histogram {
        match stage {
            Stage::Dns => &mut self.dns,
            Stage::Connect => &mut self.connect,
            Stage::Tls => &mut self.tls,
            Stage::FirstByte => &mut self.first_byte,
            Stage::Download => &mut self.download,
            Stage::Process => &mut self.process,
            Stage::Modules => &mut self.modules,
            Stage::Commit => &mut self.commit,
            Stage::Redis => &mut self.redis,
        }
    }

    pub(super) fn merge(&mut self, other: &Stages) {
        let Stages { dns, connect, tls, first_byte, download, process, modules, commit, redis } = self;
        let own = [dns, connect, tls, first_byte, download, process, modules, commit, redis];
        for (own, (_, other)) in own.into_iter().zip(other.named()) {
            own.merge(other);
        }
    }
}

/// The kind of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The name could not be resolved.
    Dns,
    /// The connection could not be established, or broke.
    Connect,
    /// The TLS handshake failed, or the certificate is invalid.
    Tls,
    /// A phase of the request exceeded its time limit.
    Timeout,
    /// The response is not valid HTTP.
    Protocol,
    /// The proxy could not be used, or refused to connect.
    Proxy,
    /// The host has an address to which pages must not lead the crawler.
    PrivateAddress,
}

impl FailureKind {
    /// The kind of an outcome that is a failed request; `None` if the server responded, or no request was made.
    pub fn from_outcome(outcome: &Outcome) -> Option<FailureKind> {
        Some(match outcome {
            Outcome::DnsFailed { .. } => FailureKind::Dns,
            Outcome::ConnectionFailed { .. } => FailureKind::Connect,
            Outcome::TlsFailed { .. } => FailureKind::Tls,
            Outcome::Timeout { .. } => FailureKind::Timeout,
            Outcome::InvalidResponse { .. } => FailureKind::Protocol,
            Outcome::ProxyFailed { .. } => FailureKind::Proxy,
            Outcome::BlockedAddress { .. } => FailureKind::PrivateAddress,
            _ => return None,
        })
    }
}

/// Requests that got no complete response, by the kind of the failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "they are those of FailureKind")]
pub struct FailureCounts {
    pub dns: u64,
    pub connect: u64,
    pub tls: u64,
    pub timeout: u64,
    pub protocol: u64,
    pub proxy: u64,
    pub private_address: u64,
}

impl FailureCounts {
    /// All kinds, with their names.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("dns", self.dns),
            ("connect", self.connect),
            ("tls", self.tls),
            ("timeout", self.timeout),
            ("protocol", self.protocol),
            ("proxy", self.proxy),
            ("private_address", self.private_address),
        ]
    }

    /// All failures.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }

    /// Counts a failure.
    pub fn record(&mut self, kind: FailureKind) {
        *self.all_mut()[kind as usize] += 1;
    }

    /// The counts in the order of [`FailureKind`].
    fn all_mut(&mut self) -> [&mut u64; 7] {
        let FailureCounts { dns, connect, tls, timeout, protocol, proxy, private_address } = self;
        [dns, connect, tls, timeout, protocol, proxy, private_address]
    }

    pub(super) fn merge(&mut self, other: &FailureCounts) {
        for (own, (_, more)) in self.all_mut().into_iter().zip(other.named()) {
            *own += more;
        }
    }
}
