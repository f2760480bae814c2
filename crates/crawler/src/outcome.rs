//! What became of a URL: one of these for each that was admitted.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::config::MAX_RETRY_AFTER;
use crate::scope::RejectReason;

/// The end of one admitted URL. [`Outcome::label`] is the kind it is counted under, `Display` the whole reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Downloaded and kept.
    Page,
    /// Answered with a redirect, whose target was admitted or is known already.
    Redirect {
        /// Where to, normalised.
        to: String,
    },
    /// Answered with a redirect to something a link could not lead to either.
    RedirectRejected {
        /// Where to, as normalised as it could be.
        to: String,
        /// Why not.
        why: RejectReason,
    },
    /// The last of more redirects in a row than are followed.
    TooManyRedirects,
    /// robots.txt forbids it.
    RobotsDisallowed,
    /// robots.txt could not be had, so nothing is known to be allowed.
    RobotsUnavailable {
        /// What went wrong with it.
        cause: String,
    },
    /// Exactly what another URL gave.
    Duplicate {
        /// Which.
        of: String,
    },
    /// Much like what another URL gave.
    NearDuplicate {
        /// Which.
        of: String,
    },
    /// Its host has given as many pages as a host may.
    HostPageLimit,
    /// Neither HTML nor text.
    UnsupportedMedia {
        /// What it is instead.
        what: String,
    },
    /// Larger than a page may be.
    TooLarge {
        /// The limit it went over, in bytes.
        limit: usize,
    },
    /// An HTTP status other than success or redirect.
    HttpStatus {
        /// The status.
        code: u16,
        /// How long the server asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// The host name has no address.
    DnsFailed {
        /// What the resolver said.
        cause: String,
    },
    /// The host's address is one that pages must not make us reach.
    BlockedAddress {
        /// The address.
        address: IpAddr,
        /// What kind of address it is.
        kind: &'static str,
    },
    /// No connection, or one that broke.
    ConnectionFailed {
        /// What the system said.
        cause: String,
    },
    /// A kept-alive connection that the server had closed meanwhile: says nothing about the URL.
    StaleConnection,
    /// The server said that it did not look at the request: says nothing about the URL.
    RequestNotProcessed,
    /// No secure connection: the certificate or the handshake is at fault.
    TlsFailed {
        /// What is wrong.
        cause: String,
    },
    /// Took too long.
    Timeout {
        /// The phase that did.
        doing: &'static str,
        /// How long it was given.
        limit: Duration,
    },
    /// The answer is not HTTP, or contradicts itself.
    InvalidResponse {
        /// What is wrong with it.
        cause: String,
    },
    /// Downloaded, but could not be written.
    WriteFailed {
        /// What the system said.
        cause: String,
    },
    /// Still waiting when the crawl ended.
    NotReached,
}

impl Outcome {
    /// The kind this outcome is counted under.
    pub fn label(&self) -> &'static str {
        match self {
            Outcome::Page => "kept",
            Outcome::Redirect { .. } => "redirected",
            Outcome::RedirectRejected { .. } => "redirected out of bounds",
            Outcome::TooManyRedirects => "too many redirects",
            Outcome::RobotsDisallowed => "disallowed by robots.txt",
            Outcome::RobotsUnavailable { .. } => "robots.txt unavailable",
            Outcome::Duplicate { .. } => "duplicate",
            Outcome::NearDuplicate { .. } => "near duplicate",
            Outcome::HostPageLimit => "beyond its host's pages",
            Outcome::UnsupportedMedia { .. } => "neither HTML nor text",
            Outcome::TooLarge { .. } => "too large",
            Outcome::HttpStatus { .. } => "HTTP error status",
            Outcome::DnsFailed { .. } => "name not found",
            Outcome::BlockedAddress { .. } => "address refused",
            Outcome::ConnectionFailed { .. } | Outcome::StaleConnection | Outcome::RequestNotProcessed => {
                "connection failed"
            }
            Outcome::TlsFailed { .. } => "TLS failed",
            Outcome::Timeout { .. } => "timed out",
            Outcome::InvalidResponse { .. } => "malformed response",
            Outcome::WriteFailed { .. } => "could not be written",
            Outcome::NotReached => "not reached before the end",
        }
    }

    /// Whether something was found there that leads on.
    pub fn has_links(&self) -> bool {
        matches!(self, Outcome::Page | Outcome::Redirect { .. })
    }

    /// Whether the server wants to be left alone for longer than we wait for one URL.
    pub fn asks_for_too_long(&self) -> bool {
        matches!(self, Outcome::HttpStatus { retry_after: Some(time), .. } if *time > MAX_RETRY_AFTER)
    }

    /// Whether asking again may well end otherwise.
    pub fn is_transient(&self) -> bool {
        match self {
            Outcome::ConnectionFailed { .. }
            | Outcome::StaleConnection
            | Outcome::RequestNotProcessed
            | Outcome::DnsFailed { .. }
            | Outcome::Timeout { .. } => true,
            Outcome::HttpStatus { code, .. } => matches!(code, 408 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.label();
        match self {
            Outcome::Redirect { to } => write!(f, "redirected to {to}"),
            Outcome::RedirectRejected { to, why } => write!(f, "redirected out of bounds: {to} is {why}"),
            Outcome::RobotsUnavailable { cause }
            | Outcome::DnsFailed { cause }
            | Outcome::ConnectionFailed { cause }
            | Outcome::TlsFailed { cause }
            | Outcome::InvalidResponse { cause }
            | Outcome::WriteFailed { cause } => write!(f, "{label}: {cause}"),
            Outcome::Duplicate { of } | Outcome::NearDuplicate { of } => write!(f, "{label} of {of}"),
            Outcome::UnsupportedMedia { what } => write!(f, "{label}: {what}"),
            Outcome::TooLarge { limit } => write!(f, "{label}: more than {limit} bytes"),
            Outcome::HttpStatus { code, .. } => write!(f, "HTTP status {code}"),
            Outcome::BlockedAddress { address, kind } => write!(f, "{label}: {address} is {kind}"),
            Outcome::StaleConnection => write!(f, "{label}: the server closed it before answering"),
            Outcome::RequestNotProcessed => write!(f, "{label}: the server took no more requests on it"),
            Outcome::Timeout { doing, limit } => write!(f, "{label}: {doing} took longer than {limit:?}"),
            _ => f.write_str(label),
        }
    }
}
