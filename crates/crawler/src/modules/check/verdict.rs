//! What a link check makes of the outcome of a URL.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::format::number;
use crate::outcome::Outcome;
use crate::scope::RejectReason;

/// What is wrong with a URL, if anything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// It can be fetched.
    Fine,
    /// It redirects; what is wrong is known of its target.
    Redirect,
    /// An HTTP status other than success.
    Http,
    Timeout,
    Dns,
    Tls,
    Connection,
    /// Redirects that lead nowhere.
    BadRedirect,
    /// A response that is not HTTP, or cannot be decoded.
    InvalidResponse,
    /// A link that is not a URL.
    Malformed,
    /// The page has no element with the identifier in the link.
    Anchor,
    /// It was not requested, or the server did not say whether it exists.
    NotChecked,
    /// The check ended before.
    NotReached,
    /// A sitemap, which is no link.
    Sitemap,
}

/// The lists of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Broken,
    Redirected,
    NotChecked,
}

impl Verdict {
    /// The list with the URLs of this verdict, which is not [`Verdict::Fine`].
    pub(super) fn list(self) -> List {
        match self {
            Verdict::Redirect => List::Redirected,
            verdict if verdict.is_broken() => List::Broken,
            _ => List::NotChecked,
        }
    }

    /// The verdict on an outcome.
    pub(super) fn from_outcome(outcome: &Outcome) -> Verdict {
        match outcome {
            Outcome::Redirect { .. } => Verdict::Redirect,
            Outcome::RedirectRejected { why: RejectReason::InvalidLink(_), .. }
            | Outcome::TooManyRedirects
            | Outcome::RedirectToSelf => Verdict::BadRedirect,
            // The server limits the rate of requests, which says nothing about the URL.
            Outcome::HttpStatus { code: 429, .. } => Verdict::NotChecked,
            outcome if outcome.exceeds_max_retry_after() => Verdict::NotChecked,
            Outcome::HttpStatus { .. } => Verdict::Http,
            Outcome::DnsFailed { .. } => Verdict::Dns,
            Outcome::TlsFailed { .. } => Verdict::Tls,
            Outcome::Timeout { .. } => Verdict::Timeout,
            Outcome::ConnectionFailed { .. }
            | Outcome::StaleConnection
            | Outcome::RequestNotProcessed
            | Outcome::HostUnreachable { .. } => Verdict::Connection,
            Outcome::InvalidResponse { .. } => Verdict::InvalidResponse,
            Outcome::RedirectRejected { .. }
            | Outcome::Rejected { .. }
            | Outcome::RobotsDisallowed
            | Outcome::RobotsUnavailable { .. }
            | Outcome::BlockedAddress { .. }
            | Outcome::ProxyFailed { .. } => Verdict::NotChecked,
            Outcome::HostPageLimit | Outcome::SitePageLimit | Outcome::NotReached => Verdict::NotReached,
            Outcome::Sitemap { .. } | Outcome::SitemapFailed { .. } => Verdict::Sitemap,
            _ => Verdict::Fine,
        }
    }

    /// Whether a link with this verdict is broken.
    pub(super) fn is_broken(self) -> bool {
        let is_other = matches!(self, Verdict::Fine | Verdict::Redirect | Verdict::Sitemap);
        !is_other && self.is_conclusive()
    }

    /// Whether a request has shown what the URL is.
    pub(super) fn is_conclusive(self) -> bool {
        !matches!(self, Verdict::NotChecked | Verdict::NotReached)
    }
}

/// The name in reports for machines.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The outcome in words.
pub(super) fn reason(outcome: &Outcome) -> String {
    match outcome {
        Outcome::HttpStatus { code, retry_after } => {
            let status = hyper::StatusCode::from_u16(*code).ok();
            let words = status.and_then(|status| status.canonical_reason()).unwrap_or_default();
            let waiting = match retry_after {
                Some(time) if outcome.exceeds_max_retry_after() => {
                    format!("; the server requests a wait of {} s", number(time.as_secs()))
                }
                _ if matches!(code, 429 | 503) => ", also after waiting".into(),
                _ => String::new(),
            };
            format!("{}{waiting}", format!("HTTP {code} {words}").trim_end())
        }
        Outcome::NotReached => "not reached: the check ended before".into(),
        outcome => outcome.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outcome::OutcomeGroup;
    use crate::outcome::tests::all_outcomes;

    #[test]
    fn failures_are_broken_links_unless_they_say_nothing_about_the_url() {
        for outcome in all_outcomes() {
            let verdict = Verdict::from_outcome(&outcome);
            assert_eq!(verdict == Verdict::Sitemap, outcome.group() == OutcomeGroup::Sitemap);
            let expected = match (&outcome, outcome.group()) {
                (
                    Outcome::RobotsUnavailable { .. }
                    | Outcome::ProxyFailed { .. }
                    | Outcome::WriteFailed { .. },
                    _,
                ) => false,
                (_, group) => group == OutcomeGroup::Failed,
            };
            assert_eq!(verdict.is_broken(), expected, "{outcome:?}");
        }
        assert_eq!(
            Verdict::from_outcome(&Outcome::HttpStatus { code: 429, retry_after: None }),
            Verdict::NotChecked
        );
        assert_eq!(reason(&Outcome::HttpStatus { code: 404, retry_after: None }), "HTTP 404 Not Found");
        assert_eq!(reason(&Outcome::HttpStatus { code: 999, retry_after: None }), "HTTP 999");
        let busy =
            |seconds| Outcome::HttpStatus { code: 503, retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(reason(&busy(3)), "HTTP 503 Service Unavailable, also after waiting");
        assert_eq!(
            reason(&busy(3_600)),
            "HTTP 503 Service Unavailable; the server requests a wait of 3,600 s"
        );
        assert_eq!(
            (Verdict::from_outcome(&busy(3)), Verdict::from_outcome(&busy(3_600))),
            (Verdict::Http, Verdict::NotChecked)
        );
    }
}
