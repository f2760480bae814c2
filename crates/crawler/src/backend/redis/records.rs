//! Encodes what the frontier process of a distributed crawl stores on Redis, in addition to the rows that it has in common with a
//! state on disk.

use serde::{Deserialize, Serialize};

use crate::backend::local::storage::{CompletedUrl, QueuedTask};
use crate::outcome::{HTTP, LABELS, Outcome};
use crate::task::Depth;

/// A completed URL. A crawl has millions of them, so a record has no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CompletedRecord {
    /// The ID of the URL.
    #[serde(with = "postcard::fixint::le")]
    pub(super) id: u64,
    /// The ID of the URL of the page on which it was found. A seed has its own.
    #[serde(with = "postcard::fixint::le")]
    pub(super) from: u64,
    pub(super) depth: Depth,
    pub(super) code: OutcomeCode,
    /// Unix time in seconds.
    #[serde(with = "postcard::fixint::le")]
    pub(super) completed_at: u32,
    /// The page number; 0 if it was not a page.
    pub(super) page_number: u64,
}

impl CompletedRecord {
    pub(super) fn new(id: u64, task: &QueuedTask, completed: &CompletedUrl) -> CompletedRecord {
        CompletedRecord {
            id,
            from: task.from.0,
            depth: completed.depth,
            code: OutcomeCode::from_outcome(completed.outcome, task.redirects > 0),
            completed_at: u32::try_from(completed.at / 1000).unwrap_or(u32::MAX),
            page_number: completed.page_number.unwrap_or(0),
        }
    }

    /// Reads all records of an entry; `None` if it is damaged.
    pub(super) fn read_all(mut entry: &[u8], records: &mut Vec<CompletedRecord>) -> Option<()> {
        while !entry.is_empty() {
            let record;
            (record, entry) = postcard::take_from_bytes(entry).ok()?;
            records.push(record);
        }
        Some(())
    }
}

/// The index of a label is less than this.
const MAX_LABELS: u8 = 64;
/// A flag in the byte of the index: links were followed from the URL.
const HAS_LINKS: u8 = 64;
/// A flag in the byte of the index: the URL was found through a redirect, not a link.
const BY_REDIRECT: u8 = 128;

/// The outcome of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OutcomeCode {
    /// The index of the label, and flags.
    pub(super) byte: u8,
    /// The HTTP status, or 0.
    pub(super) status: u16,
}

impl OutcomeCode {
    pub(super) fn from_outcome(outcome: &Outcome, by_redirect: bool) -> OutcomeCode {
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

/// The URL and the outcome of a completed URL whose record is not enough: redirects, failures, and sitemaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReasonRow {
    pub(super) url: String,
    pub(super) outcome: String,
}

/// The longest outcome that is stored, in bytes. Only the texts of servers are longer.
const MAX_REASON_BYTES: usize = 2 * crate::html::MAX_URL_BYTES;

impl ReasonRow {
    /// The row of a URL with this outcome; `None` if its record is enough. Failures have one for their URLs, which a report names.
    pub(super) fn from_outcome(url: &str, outcome: &Outcome) -> Option<ReasonRow> {
        let mut reason = match outcome {
            Outcome::HttpStatus { .. } => outcome.to_string(),
            outcome => outcome.reason()?,
        };
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        Some(ReasonRow { url: url.to_owned(), outcome: reason })
    }
}

/// A leased URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeaseRow {
    pub(super) worker: u16,
    pub(super) lease_id: u64,
    /// Its priority queue.
    pub(super) queue: u8,
    /// How often it was requested in vain.
    pub(super) attempts: u8,
    /// What its requests may use of the budgets: bytes, bytes that are read already, and whether it may become a page.
    pub(super) reservation: Option<(u64, u64, bool)>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::redis::messages::{decode, encode};
    use crate::outcome::tests::all_outcomes;

    #[test]
    fn records_survive_a_round_trip() {
        let code = OutcomeCode { byte: 3, status: 404 };
        let record =
            CompletedRecord { id: 1 << 60, from: 7, depth: 5, code, completed_at: 8, page_number: 9 };
        let (two, mut read) = ([encode(&record), encode(&record)].concat(), Vec::new());
        assert!(two.len() <= 2 * 29, "{}", two.len());
        CompletedRecord::read_all(&two, &mut read).unwrap();
        assert_eq!(read, [record; 2]);
        assert_eq!(CompletedRecord::read_all(&two[..two.len() - 1], &mut read), None);
        for reservation in [None, Some((500, 1 << 40, true))] {
            let row = LeaseRow { worker: 3, lease_id: 1 << 50, queue: 9, attempts: 1, reservation };
            assert_eq!(decode(&encode(&row)), Some(row));
        }
    }

    #[test]
    fn only_outcomes_that_say_more_than_their_label_have_a_reason() {
        let reason = |outcome: &Outcome| ReasonRow::from_outcome("http://a/", outcome);
        for outcome in all_outcomes() {
            let text = reason(&outcome).map(|row| row.outcome);
            let text = text.unwrap_or_else(|| Outcome::text_of_label(&outcome.label()).into_owned());
            assert_eq!(text, outcome.to_string());
        }
        assert_eq!(reason(&Outcome::RobotsDisallowed), None);
        let long = Outcome::InvalidResponse { cause: "ä".repeat(10_000) };
        let row = reason(&long).unwrap();
        assert_eq!((row.outcome.len(), decode(&encode(&row))), (MAX_REASON_BYTES, Some(row.clone())));
    }

    #[test]
    fn every_outcome_is_read_back_as_its_label() {
        for outcome in all_outcomes() {
            for by_redirect in [false, true] {
                let code = OutcomeCode::from_outcome(&outcome, by_redirect);
                assert_eq!((code.label(), code.by_redirect()), (outcome.label().into_owned(), by_redirect));
                assert_eq!(code.byte & HAS_LINKS != 0, outcome.has_links());
            }
        }
        assert!(LABELS.len() < usize::from(MAX_LABELS));
    }

    proptest! {
        #[test]
        fn damaged_records_are_refused_without_a_panic(bytes: Vec<u8>) {
            let _ = (CompletedRecord::read_all(&bytes, &mut Vec::new()), decode::<LeaseRow>(&bytes));
        }
    }
}
