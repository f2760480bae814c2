//! The changes that the frontier process writes to Redis together: to its queues and storages, and to the streams of the
//! workers.

use std::collections::{BTreeMap, HashMap};

use super::connection::Transaction;
use super::keys::CrawlKeys;
use super::messages::{Position, Reply, Session, encode, encode_onto};
use super::records::{CompletedRecord, LeaseRow};
use crate::backend::{AdmitCounts, WorkerId};

/// How many tasks a batch changes, about: no more messages are applied until it is written.
const MAX_TASKS: usize = 10_000;

/// The most bytes of an entry of completed URLs, about: a reader reads many entries at a time.
const MAX_ENTRY_BYTES: usize = 8 * 1024;

/// The changed rows of a hash, by ID. `None` removes the row.
type ChangedRows = HashMap<u64, Option<Vec<u8>>>;

/// Changes that are written together, atomically.
#[derive(Default)]
pub(super) struct RedisBatch {
    pub(super) number: u64,
    pub(super) tasks: ChangedRows,
    pub(super) leases: HashMap<u64, Option<LeaseRow>>,
    /// The smaller depths at which pending URLs were found again, by the IDs of the URLs.
    pub(super) depths: ChangedRows,
    /// The records of completed URLs, in entries of bounded size.
    pub(super) completed: Vec<Vec<u8>>,
    /// The URLs and outcomes that the records do not have, by the IDs of the URLs.
    pub(super) reasons: ChangedRows,
    pub(super) pages: ChangedRows,
    pub(super) hosts: HashMap<String, Option<Vec<u8>>>,
    pub(super) domains: HashMap<String, u32>,
    /// When pages were last modified, by the IDs of their URLs.
    pub(super) lastmods: HashMap<u64, u32>,
    /// How many of the seeds of each submission were new.
    pub(super) admitted_seeds: Vec<(u64, AdmitCounts)>,
    /// The replies and leases for each worker.
    pub(super) replies: BTreeMap<WorkerId, (Session, Vec<Reply>)>,
    /// The positions up to which the workers have read their streams.
    pub(super) read: BTreeMap<WorkerId, Position>,
    /// The workers whose sessions have ended.
    pub(super) ended_sessions: Vec<WorkerId>,
    /// The position up to which the messages of the workers are applied, if it changed.
    pub(super) applied: Option<Position>,
    /// The counters and the sessions as they are after the batch, and what is shown of them if that is due.
    pub(super) checkpoint: Vec<u8>,
    pub(super) sessions: Vec<u8>,
    pub(super) status: Option<Vec<u8>>,
}

impl RedisBatch {
    pub(super) fn new(number: u64) -> RedisBatch {
        RedisBatch { number, ..RedisBatch::default() }
    }

    /// Whether there are no changes.
    pub(super) fn is_empty(&self) -> bool {
        let tables = [&self.tasks, &self.depths, &self.reasons, &self.pages];
        tables.iter().all(|table| table.is_empty())
            && self.leases.is_empty()
            && self.completed.is_empty()
            && self.hosts.is_empty()
            && self.domains.is_empty()
            && self.lastmods.is_empty()
            && self.replies.is_empty()
            && self.read.is_empty()
            && self.ended_sessions.is_empty()
            && self.applied.is_none()
    }

    /// Whether more messages may be applied before the batch is written. Redis serves no other client while it writes one.
    pub(super) fn has_room(&self) -> bool {
        self.tasks.len() < MAX_TASKS
    }

    /// Adds the record of a completed URL.
    pub(super) fn complete(&mut self, record: &CompletedRecord) {
        let entry = self.completed.pop_if(|entry| entry.len() < MAX_ENTRY_BYTES).unwrap_or_default();
        self.completed.push(encode_onto(entry, record));
    }

    /// Adds a reply to a worker.
    pub(super) fn reply(&mut self, worker: WorkerId, session: Session, reply: Reply) {
        let (for_session, replies) = self.replies.entry(worker).or_insert_with(|| (session, Vec::new()));
        if *for_session != session {
            (*for_session, *replies) = (session, Vec::new());
        }
        replies.push(reply);
    }

    /// Adds the commands that write the batch.
    pub(super) fn write(&self, keys: &CrawlKeys, to: &mut Transaction) {
        // The last batch may come after the frontier has let a crawl expire that has ended, hence KEEPTTL.
        to.write(("SET", keys.of("batch"), self.number, "KEEPTTL"));
        for (name, bytes) in [("checkpoint", &self.checkpoint), ("sessions", &self.sessions)] {
            to.write(("SET", keys.of(name), bytes, "KEEPTTL"));
        }
        if let Some(status) = &self.status {
            to.write(("SET", keys.of("status"), status));
        }
        let RedisBatch { tasks, depths, reasons, pages, .. } = self;
        for (name, rows) in [("tasks", tasks), ("depths", depths), ("reasons", reasons), ("pages", pages)] {
            to.write_rows(&keys.of(name), rows.iter().map(|(id, row)| (id.to_le_bytes(), row.as_ref())));
        }
        let leases = self.leases.iter().map(|(id, row)| (id.to_le_bytes(), row.as_ref().map(encode)));
        to.write_rows(&keys.of("leases"), leases);
        to.write_rows(&keys.of("hosts"), self.hosts.iter().map(|(host, row)| (host, row.as_ref())));
        to.write_rows(&keys.of("domains"), self.domains.iter().map(|(domain, pages)| (domain, Some(pages))));
        let lastmods = self.lastmods.iter().map(|(id, lastmod)| (id.to_le_bytes(), Some(lastmod)));
        to.write_rows(&keys.of("lastmods"), lastmods);
        if !self.completed.is_empty() {
            to.write(("RPUSH", keys.of("completed"), &self.completed));
        }
        for (reply, AdmitCounts { new, seen }) in &self.admitted_seeds {
            let key = keys.seeds(*reply);
            to.write(("HSET", &key, "new", new, "seen", seen));
            to.write(("EXPIRE", &key, 60));
        }
        for worker in &self.ended_sessions {
            // A stream that is removed could start again with smaller IDs than the worker has read.
            to.write(("XTRIM", keys.replies(*worker), "MAXLEN", 0));
        }
        for (worker, (session, replies)) in &self.replies {
            let message = encode(&FrontierMessageRef { session: *session, replies });
            to.write(("XADD", keys.replies(*worker), "*", "m", message));
        }
        for (worker, position) in &self.read {
            to.write(("XTRIM", keys.replies(*worker), "MINID", position.to_string()));
        }
        if let Some(position) = self.applied {
            to.write(("XTRIM", keys.of("urls"), "MINID", position.to_string()));
            to.write(("SET", keys.of("applied"), position.to_string(), "KEEPTTL"));
        }
    }
}

/// A `FrontierMessage` whose replies are borrowed.
#[derive(serde::Serialize)]
struct FrontierMessageRef<'a> {
    session: Session,
    replies: &'a [Reply],
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl std::str::FromStr for Position {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Position, Self::Err> {
        let (first, second) = text.split_once('-').unwrap_or((text, "0"));
        Ok(Position(first.parse()?, second.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::messages::{FrontierMessage, decode};
    use crate::backend::redis::records::OutcomeCode;

    #[test]
    fn entries_of_completed_urls_are_bounded_and_have_all_records() {
        let record = |id| CompletedRecord {
            id,
            from: id,
            depth: 1,
            code: OutcomeCode { byte: 0, status: 200 },
            completed_at: 7,
            page_number: id,
        };
        let mut batch = RedisBatch::new(1);
        (0..10_000).for_each(|id| batch.complete(&record(id)));
        assert!(batch.completed.iter().all(|entry| entry.len() < MAX_ENTRY_BYTES + 64));
        let mut records = Vec::new();
        batch.completed.iter().for_each(|entry| CompletedRecord::read_all(entry, &mut records).unwrap());
        assert_eq!(records, (0..10_000).map(record).collect::<Vec<_>>());
        // Few entries, so that a take-over reads them soon.
        assert!(batch.completed.len() < 40, "{}", batch.completed.len());
    }

    #[test]
    fn borrowed_message_is_read_as_a_message() {
        let session = Session { joined_at: 1, restarts: 2, random: 3 };
        let bytes = encode(&FrontierMessageRef { session, replies: &[Reply::Restart] });
        let message: FrontierMessage = decode(&bytes).unwrap();
        assert_eq!(message.session, session);
        assert!(matches!(message.replies[..], [Reply::Restart]));
    }
}
