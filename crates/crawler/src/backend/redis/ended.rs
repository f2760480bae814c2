//! How a URL ended, in the few bytes that link storage has for it.

use crate::outcome::Outcome;

/// What can have become of a URL; each is known by its place, which must not change while there are crawls.
const LABELS: [&str; 24] = [
    "page",
    "redirect",
    "redirect out of scope",
    "too many redirects",
    "robots.txt",
    "robots.txt unavailable",
    "duplicate",
    "near-duplicate",
    "host page limit",
    "not a page",
    "too large",
    HTTP,
    "DNS",
    "blocked address",
    "connection",
    "TLS",
    "timeout",
    "invalid response",
    "not written",
    "not reached",
    "redirect loop",
    "host unreachable",
    "DNS unavailable",
    "site page limit",
];

/// Stands for every HTTP status, which is kept beside it.
const HTTP: &str = "HTTP";

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
        let (label, status) = match outcome {
            Outcome::HttpStatus { code, .. } => (HTTP.into(), *code),
            outcome => (outcome.label(), 0),
        };
        let place = LABELS.iter().position(|known| *known == label).unwrap_or(LABELS.len());
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
            (0, None) => "unknown".to_owned(),
            (status, _) => format!("{HTTP} {status}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::tests::all_outcomes;

    #[test]
    fn every_outcome_is_read_back_as_its_label() {
        for outcome in all_outcomes() {
            for by_redirect in [false, true] {
                let ended = Ended::of(&outcome, by_redirect);
                assert_eq!(
                    (ended.outcome(), ended.by_redirect()),
                    (outcome.label().into_owned(), by_redirect)
                );
                assert_eq!(ended.byte & HAS_LINKS != 0, outcome.has_links());
            }
        }
        assert!(LABELS.len() < usize::from(PLACES));
    }
}
