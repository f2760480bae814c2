//! How a URL ended, in the few bytes that link storage has for it.

use crate::outcome::Outcome;

/// What can have become of a URL; each is known by its place, which must not change while there are crawls.
const LABELS: [&str; 20] = [
    "kept",
    "redirected",
    "redirected out of bounds",
    "too many redirects",
    "disallowed by robots.txt",
    "robots.txt unavailable",
    "duplicate",
    "near duplicate",
    "beyond its host's pages",
    "neither HTML nor text",
    "too large",
    "HTTP error status",
    "name not found",
    "address refused",
    "connection failed",
    "TLS failed",
    "timed out",
    "malformed response",
    "could not be written",
    "not reached before the end",
];

/// In the byte: the place among the labels, which is less than this.
const PLACES: u8 = 32;
/// In the byte: something was found there that leads on. The scripts know it, too.
const HAS_LINKS: u8 = 32;
/// In the byte: a redirect led here, not a link.
const BY_REDIRECT: u8 = 64;

/// How a URL ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) byte: u8,
    /// The HTTP status, if that is how it ended, or else 0.
    pub(super) status: u16,
}

impl Ended {
    pub(super) fn of(outcome: &Outcome, by_redirect: bool) -> Ended {
        // What has no place is told of as if nobody knew.
        let place = LABELS.iter().position(|label| *label == outcome.label()).unwrap_or(LABELS.len());
        let status = if let Outcome::HttpStatus { code, .. } = outcome { *code } else { 0 };
        let links = if outcome.has_links() { HAS_LINKS } else { 0 };
        Ended { byte: place as u8 + links + if by_redirect { BY_REDIRECT } else { 0 }, status }
    }

    pub(super) fn by_redirect(self) -> bool {
        self.byte & BY_REDIRECT != 0
    }

    /// In words.
    pub(super) fn outcome(self) -> String {
        match (self.status, LABELS.get(usize::from(self.byte % PLACES))) {
            (0, Some(label)) => (*label).to_owned(),
            (0, None) => "ended in a way that is not known here".to_owned(),
            (status, _) => format!("HTTP status {status}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scope::RejectReason;

    #[test]
    fn every_outcome_has_its_place_and_is_told_as_it_is_counted() {
        let (cause, to) = (String::new, String::new);
        let address = [127, 0, 0, 1].into();
        let outcomes = [
            Outcome::Page,
            Outcome::Redirect { to: to() },
            Outcome::RedirectRejected { to: to(), why: RejectReason::External },
            Outcome::TooManyRedirects,
            Outcome::RobotsDisallowed,
            Outcome::RobotsUnavailable { cause: cause() },
            Outcome::Duplicate { of: to() },
            Outcome::NearDuplicate { of: to() },
            Outcome::HostPageLimit,
            Outcome::UnsupportedMedia { what: cause() },
            Outcome::TooLarge { limit: 1 },
            Outcome::DnsFailed { cause: cause() },
            Outcome::BlockedAddress { address, kind: "private" },
            Outcome::ConnectionFailed { cause: cause() },
            Outcome::StaleConnection,
            Outcome::RequestNotProcessed,
            Outcome::TlsFailed { cause: cause() },
            Outcome::Timeout { doing: "it", limit: Duration::ZERO },
            Outcome::InvalidResponse { cause: cause() },
            Outcome::WriteFailed { cause: cause() },
            Outcome::NotReached,
        ];
        for outcome in outcomes {
            for by_redirect in [false, true] {
                let ended = Ended::of(&outcome, by_redirect);
                assert_eq!((ended.outcome(), ended.by_redirect()), (outcome.label().to_owned(), by_redirect));
                assert_eq!(ended.byte & HAS_LINKS != 0, outcome.has_links());
            }
        }
        let missing = Outcome::HttpStatus { code: 404, retry_after: None };
        assert_eq!(Ended::of(&missing, false).outcome(), missing.to_string());
        assert!(LABELS.len() < usize::from(PLACES));
    }
}
