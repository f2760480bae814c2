//! The outcome of a URL in three bytes, for the records of completed URLs.

use crate::outcome::{HTTP, LABELS, Outcome};

/// The index of a label is less than this.
const MAX_LABELS: u8 = 64;
/// A flag in the byte of the index: links were followed from the URL.
const HAS_LINKS: u8 = 64;
/// A flag in the byte of the index: the URL was found through a redirect, not a link.
const BY_REDIRECT: u8 = 128;

/// The outcome of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutcomeCode {
    /// The index of the label, and flags.
    pub(super) byte: u8,
    /// The HTTP status, or 0.
    pub(super) status: u16,
}

impl OutcomeCode {
    pub(super) fn of(outcome: &Outcome, by_redirect: bool) -> OutcomeCode {
        // An outcome without a label here is shown as unknown.
        let (label, status) = match outcome {
            Outcome::HttpStatus { code, .. } => (HTTP.into(), *code),
            outcome => (outcome.label(), 0),
        };
        let index = LABELS.iter().position(|known| *known == label).unwrap_or(LABELS.len());
        let links = if outcome.has_links() { HAS_LINKS } else { 0 };
        OutcomeCode { byte: index as u8 + links + if by_redirect { BY_REDIRECT } else { 0 }, status }
    }

    /// Whether links were followed from the URL.
    pub(super) fn has_links(self) -> bool {
        self.byte & HAS_LINKS != 0
    }

    pub(super) fn by_redirect(self) -> bool {
        self.byte & BY_REDIRECT != 0
    }

    /// The label.
    pub(super) fn label(self) -> String {
        match (self.status, LABELS.get(usize::from(self.byte % MAX_LABELS))) {
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
                let code = OutcomeCode::of(&outcome, by_redirect);
                assert_eq!((code.label(), code.by_redirect()), (outcome.label().into_owned(), by_redirect));
                assert_eq!(code.byte & HAS_LINKS != 0, outcome.has_links());
            }
        }
        assert!(LABELS.len() < usize::from(MAX_LABELS));
    }
}
