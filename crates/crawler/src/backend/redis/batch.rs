//! The changes that the frontier process writes to Redis together: to its queues and storages, and to the streams of the
//! workers.

use std::collections::{BTreeMap, HashMap};

use redis::ToRedisArgs;

use super::keys::CrawlKeys;
use super::messages::{Position, Reply, Session, encode};
use crate::backend::{AdmitCounts, WorkerId};

/// The most words of a command in a script. Lua passes on only so many.
const MAX_WORDS: usize = 4_000;

/// How many tasks a batch changes, about: no more messages are applied until it is written.
const MAX_TASKS: usize = 10_000;

/// The changed rows of a hash, by ID. `None` removes the row.
type ChangedRows = HashMap<u64, Option<Vec<u8>>>;

/// Changes that are written together, atomically.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) tasks: ChangedRows,
    pub(super) leases: ChangedRows,
    /// The smaller depths at which outstanding URLs were found again, by the IDs of the URLs.
    pub(super) depths: ChangedRows,
    /// The records of completed URLs.
    pub(super) completed: Vec<u8>,
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
}

impl Batch {
    pub(super) fn new(number: u64) -> Batch {
        Batch { number, ..Batch::default() }
    }

    /// Whether there are no changes.
    pub(super) fn is_empty(&self) -> bool {
        let tables = [&self.tasks, &self.leases, &self.depths, &self.reasons, &self.pages];
        tables.iter().all(|table| table.is_empty())
            && self.completed.is_empty()
            && self.hosts.is_empty()
            && self.domains.is_empty()
            && self.lastmods.is_empty()
            && self.replies.is_empty()
            && self.read.is_empty()
            && self.ended_sessions.is_empty()
            && self.applied.is_none()
    }

    /// Whether more messages may be applied before the batch is written. Redis serves nobody else while it writes one.
    pub(super) fn has_room(&self) -> bool {
        self.tasks.len() < MAX_TASKS
    }

    /// Adds a reply to a worker.
    pub(super) fn reply(&mut self, worker: WorkerId, session: Session, reply: Reply) {
        let (for_session, replies) = self.replies.entry(worker).or_insert_with(|| (session, Vec::new()));
        if *for_session != session {
            (*for_session, *replies) = (session, Vec::new());
        }
        replies.push(reply);
    }

    /// The commands that write the batch, with the counters and sessions as they are after it.
    pub(super) fn commands(&self, keys: &CrawlKeys, checkpoint: &[u8], sessions: &[u8]) -> Commands {
        let mut commands = Commands::default();
        let Batch { tasks, leases, depths, reasons, pages, .. } = self;
        let tables = [
            ("tasks", tasks),
            ("leases", leases),
            ("depths", depths),
            ("reasons", reasons),
            ("pages", pages),
        ];
        for (name, rows) in tables {
            let rows = rows.iter().map(|(id, row)| (id.to_le_bytes().to_vec(), row.as_ref()));
            commands.hash(&keys.of(name), rows);
        }
        commands.hash(&keys.of("hosts"), self.hosts.iter().map(|(host, row)| (host, row.as_ref())));
        commands.hash(&keys.of("domains"), self.domains.iter().map(|(domain, pages)| (domain, Some(pages))));
        commands.hash(
            &keys.of("lastmods"),
            self.lastmods.iter().map(|(id, lastmod)| (id.to_le_bytes().to_vec(), Some(lastmod))),
        );
        if !self.completed.is_empty() {
            commands.add(&[b"RPUSH", keys.of("completed").as_bytes(), &self.completed]);
        }
        for (reply, AdmitCounts { new, seen }) in &self.admitted_seeds {
            let (key, new, seen) = (keys.seeds(*reply), new.to_string(), seen.to_string());
            commands.add(&[b"HSET", key.as_bytes(), b"new", new.as_bytes(), b"seen", seen.as_bytes()]);
            commands.add(&[b"EXPIRE", key.as_bytes(), b"60"]);
        }
        for worker in &self.ended_sessions {
            // A stream that is removed could start again with smaller IDs than the worker has read.
            commands.add(&[b"XTRIM", keys.replies(*worker).as_bytes(), b"MAXLEN", b"0"]);
        }
        for (worker, (session, replies)) in &self.replies {
            let message = encode(&FrontierMessageRef { session: *session, replies });
            commands.add(&[b"XADD", keys.replies(*worker).as_bytes(), b"*", b"m", &message]);
        }
        for (worker, position) in &self.read {
            let position = position.to_string();
            commands.add(&[b"XTRIM", keys.replies(*worker).as_bytes(), b"MINID", position.as_bytes()]);
        }
        if let Some(position) = self.applied {
            let position = position.to_string();
            let key = keys.messages();
            commands.add(&[b"XTRIM", key.as_bytes(), b"MINID", position.as_bytes()]);
            commands.add(&[b"SET", keys.of("applied").as_bytes(), position.as_bytes(), b"KEEPTTL"]);
        }
        // The last batch may come after the frontier has let a crawl expire that has ended.
        commands.add(&[b"SET", keys.of("checkpoint").as_bytes(), checkpoint, b"KEEPTTL"]);
        commands.add(&[b"SET", keys.of("sessions").as_bytes(), sessions, b"KEEPTTL"]);
        commands
    }
}

/// A `FrontierMessage` whose replies are borrowed.
#[derive(serde::Serialize)]
struct FrontierMessageRef<'a> {
    session: Session,
    replies: &'a [Reply],
}

/// Commands, as a script takes them: the number of the words, then the words.
#[derive(Default)]
pub(super) struct Commands {
    pub(super) words: Vec<Vec<u8>>,
}

impl Commands {
    pub(super) fn add(&mut self, words: &[&[u8]]) {
        self.words.push(words.len().to_string().into_bytes());
        self.words.extend(words.iter().map(|word| word.to_vec()));
    }

    /// Sets and removes fields of a hash.
    fn hash<F: ToRedisArgs, V: ToRedisArgs>(
        &mut self,
        key: &str,
        changes: impl Iterator<Item = (F, Option<V>)>,
    ) {
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for (field, value) in changes {
            match value {
                Some(value) => {
                    field.write_redis_args(&mut set);
                    value.write_redis_args(&mut set);
                }
                None => field.write_redis_args(&mut removed),
            }
        }
        for (command, words) in [("HSET", set), ("HDEL", removed)] {
            for words in words.chunks(MAX_WORDS) {
                self.words.push((words.len() + 2).to_string().into_bytes());
                self.words.extend([command.as_bytes().to_vec(), key.as_bytes().to_vec()]);
                self.words.extend(words.iter().cloned());
            }
        }
    }
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

    #[test]
    fn borrowed_message_is_read_as_a_message() {
        let session = Session { joined_at: 1, restarts: 2, random: 3 };
        let bytes = encode(&FrontierMessageRef { session, replies: &[Reply::Restart] });
        let message: FrontierMessage = decode(&bytes).unwrap();
        assert_eq!(message.session, session);
        assert!(matches!(message.replies[..], [Reply::Restart]));
    }

    #[test]
    fn long_commands_are_split() {
        let mut commands = Commands::default();
        commands.hash("key", (0..5_000u64).map(|id| (id.to_le_bytes().to_vec(), Some(vec![1u8]))));
        let lengths: Vec<usize> =
            commands.words.iter().filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect();
        assert_eq!(lengths.iter().filter(|length| **length > 1_000).count(), 3, "{lengths:?}");
    }
}
