//! Encodes what the frontier process of a distributed crawl stores on Redis, beside the rows that it has in common with a
//! state on disk.

use serde::{Deserialize, Serialize};

use super::super::durable::records::take;
use super::messages::{decode, encode};
use super::outcome_code::OutcomeCode;
use crate::backend::local::storage::{CompletedUrl, QueuedTask};
use crate::outcome::Outcome;
use crate::task::Depth;

/// A completed URL. A crawl has millions of them, so a record has no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CompletedRecord {
    /// The ID of the URL.
    pub(super) id: u64,
    /// The ID of the URL of the page on which it was found. A seed has its own.
    pub(super) from: u64,
    pub(super) depth: Depth,
    pub(super) code: OutcomeCode,
    /// Unix time in seconds.
    pub(super) completed_at: u32,
    /// The page number; 0 if it was not a page.
    pub(super) page_number: u32,
}

impl CompletedRecord {
    pub(super) const BYTES: usize = 29;

    pub(super) fn new(id: u64, task: &QueuedTask, completed: &CompletedUrl, now: u64) -> CompletedRecord {
        CompletedRecord {
            id,
            from: task.from.0,
            depth: completed.depth,
            code: OutcomeCode::of(completed.outcome, task.redirects > 0),
            completed_at: u32::try_from(now).unwrap_or(u32::MAX),
            page_number: completed.page_number.map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX)),
        }
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CompletedRecord::BYTES);
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.from.to_le_bytes());
        bytes.extend(u16::try_from(self.depth).unwrap_or(u16::MAX).to_le_bytes());
        bytes.push(self.code.byte);
        bytes.extend(self.code.status.to_le_bytes());
        bytes.extend(self.completed_at.to_le_bytes());
        bytes.extend(self.page_number.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(mut bytes: &[u8]) -> Option<CompletedRecord> {
        let id = u64::from_le_bytes(take(&mut bytes)?);
        let from = u64::from_le_bytes(take(&mut bytes)?);
        let depth = u16::from_le_bytes(take(&mut bytes)?).into();
        let [byte] = take(&mut bytes)?;
        let code = OutcomeCode { byte, status: u16::from_le_bytes(take(&mut bytes)?) };
        let completed_at = u32::from_le_bytes(take(&mut bytes)?);
        let page_number = u32::from_le_bytes(take(&mut bytes)?);
        Some(CompletedRecord { id, from, depth, code, completed_at, page_number })
    }

    /// All records of a list, which has been written batch by batch.
    pub(super) fn all(bytes: &[u8]) -> impl Iterator<Item = Option<CompletedRecord>> {
        bytes.chunks(CompletedRecord::BYTES).map(CompletedRecord::from_bytes)
    }
}

/// The URL and the outcome of a completed URL whose record does not tell all: redirects, failures, and sitemaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReasonRow {
    pub(super) url: String,
    pub(super) outcome: String,
}

/// The longest outcome that is stored, in bytes. Only the texts of servers are longer.
const MAX_REASON_BYTES: usize = 2 * crate::html::MAX_URL_BYTES;

impl ReasonRow {
    /// The row of a URL with this outcome; `None` if its record tells all. Failures have one for their URLs, which a report names.
    pub(super) fn of(url: &str, outcome: &Outcome) -> Option<ReasonRow> {
        let mut reason = match outcome {
            Outcome::HttpStatus { .. } => outcome.to_string(),
            outcome => outcome.reason()?,
        };
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        Some(ReasonRow { url: url.to_owned(), outcome: reason })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<ReasonRow> {
        decode(bytes)
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

impl LeaseRow {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        encode(&self)
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<LeaseRow> {
        decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_survive_a_round_trip() {
        let code = OutcomeCode { byte: 3, status: 404 };
        let record =
            CompletedRecord { id: 1 << 60, from: 7, depth: 5, code, completed_at: 8, page_number: 9 };
        assert_eq!(record.to_bytes().len(), CompletedRecord::BYTES);
        let two = [record.to_bytes(), record.to_bytes()].concat();
        assert_eq!(CompletedRecord::all(&two).collect::<Vec<_>>(), [Some(record); 2]);
        for reservation in [None, Some((500, 1 << 40, true))] {
            let row = LeaseRow { worker: 3, lease_id: 1 << 50, queue: 9, attempts: 1, reservation };
            assert_eq!(LeaseRow::from_bytes(&row.to_bytes()), Some(row));
        }
    }

    #[test]
    fn only_outcomes_that_say_more_than_their_label_have_a_reason() {
        let reason = |outcome: &Outcome| ReasonRow::of("http://a/", outcome);
        for outcome in crate::outcome::tests::all_outcomes() {
            let text = reason(&outcome).map(|row| row.outcome);
            let text = text.unwrap_or_else(|| Outcome::text_of_label(&outcome.label()).into_owned());
            assert_eq!(text, outcome.to_string());
        }
        assert_eq!(reason(&Outcome::RobotsDisallowed), None);
        let long = Outcome::InvalidResponse { cause: "ä".repeat(10_000) };
        let row = reason(&long).unwrap();
        assert_eq!(
            (row.outcome.len(), ReasonRow::from_bytes(&row.to_bytes())),
            (MAX_REASON_BYTES, Some(row.clone()))
        );
    }

    proptest! {
        #[test]
        fn damaged_records_are_refused_without_a_panic(bytes: Vec<u8>) {
            let _ = (CompletedRecord::all(&bytes).count(), LeaseRow::from_bytes(&bytes));
        }
    }
}
