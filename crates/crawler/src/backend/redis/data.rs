//! What a crawl has stored on Redis, and how it is read.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::FromRedisValue;

use super::super::{BackendError, Snapshot};
use super::Result;
use super::connection::{Call, RedisConnection};
use super::keys::CrawlKeys;
use super::messages::{Position, decode};
use super::records::{CompletedRecord, ReasonRow};
use crate::backend::local::decompress;
use crate::backend::local::storage::Body;
use crate::error::StorageErrorKind;

/// How many rows of a hash are read at a time, about.
const ROWS: usize = 2_000;

/// How many entries of completed URLs are read at a time. Most have few records, if URLs completed one by one; all together
/// have less than 20 MB, which a slow network sends before the reply counts as missing.
const ENTRIES: usize = 2_000;

/// How long a read of a stream waits for a message.
const BLOCK: Duration = Duration::from_secs(1);

/// How long the processes of a crawl that is removed can see that it was. Without that, they would wait for Redis to find it
/// again.
const MARKER_TTL: Duration = Duration::from_secs(60);

/// How many keys of a server are looked at in one step.
const KEYS_PER_STEP: usize = 2_000;

/// The first byte of a stored body.
pub(super) const PLAIN: u8 = 0;
pub(super) const COMPRESSED: u8 = 1;

/// A field of a hash and its value.
pub(super) type Row = (Vec<u8>, Vec<u8>);

/// The data of a crawl. Clones share the connection.
#[derive(Clone)]
pub(super) struct CrawlData {
    pub(super) connection: RedisConnection,
    pub(super) keys: CrawlKeys,
}

impl CrawlData {
    /// The same with another connection, for commands that wait.
    pub(super) fn with_another_connection(&self) -> CrawlData {
        CrawlData { connection: self.connection.another(), keys: self.keys.clone() }
    }

    pub(super) fn damaged(&self) -> BackendError {
        let address = self.connection.address();
        let message = format!(
            "cannot continue the crawl: its data on Redis at {address} is lost or damaged; purge what is left of it, then start it \
             again"
        );
        BackendError::redis(StorageErrorKind::Damaged, message)
    }

    /// A command on a key of the frontier's state.
    pub(super) fn call(&self, command: &str, name: &str) -> Call {
        Call::new(command, self.keys.of(name))
    }

    pub(super) async fn get<T: FromRedisValue>(&self, name: &str) -> Result<T> {
        self.connection.one(self.call("GET", name)).await
    }

    /// Counts and queue lengths, as the frontier has last written them.
    pub(super) async fn snapshot(&self) -> Result<Snapshot> {
        let status: Option<Vec<u8>> = self.get("status").await?;
        Ok(status.and_then(|status| serde_json::from_slice(&status).ok()).unwrap_or_default())
    }

    /// The rows of a hash for these IDs, in their order.
    pub(super) async fn rows(
        &self,
        name: &str,
        ids: impl IntoIterator<Item = Option<u64>>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let ids: Vec<Option<u64>> = ids.into_iter().collect();
        let wanted: Vec<Vec<u8>> = ids.iter().flatten().map(|id| id.to_le_bytes().to_vec()).collect();
        let mut found = match wanted.is_empty() {
            true => Vec::new(),
            false => self.connection.one::<Vec<_>>(self.call("HMGET", name).arg(wanted)).await?,
        }
        .into_iter();
        Ok(ids.iter().map(|id| id.and_then(|_| found.next().flatten())).collect())
    }

    pub(super) async fn row<T: FromRedisValue>(&self, name: &str, id: u64) -> Result<Option<T>> {
        self.connection.one(self.call("HGET", name).arg(&id.to_le_bytes()[..])).await
    }

    /// What the record of a completed URL does not contain.
    pub(super) async fn reason(&self, id: u64) -> Result<Option<ReasonRow>> {
        Ok(self.row::<Vec<u8>>("reasons", id).await?.and_then(|row| decode(&row)))
    }

    /// Calls `row` with all fields and values of a hash, each at least once.
    pub(super) async fn each(
        &self,
        name: &str,
        mut row: impl FnMut(Vec<u8>, Vec<u8>) -> Option<()>,
    ) -> Result<()> {
        let mut cursor = 0;
        loop {
            let (next, rows) = self.some(name, cursor).await?;
            for (field, value) in rows {
                row(field, value).ok_or_else(|| self.damaged())?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Some fields and values of a hash, and the cursor of the next ones; 0 after the last ones.
    pub(super) async fn some(&self, name: &str, cursor: u64) -> Result<(u64, Vec<Row>)> {
        self.connection.one(self.call("HSCAN", name).arg((cursor, "COUNT", ROWS))).await
    }

    /// All rows of a hash, in the order of their IDs.
    pub(super) async fn by_id<T>(
        &self,
        name: &str,
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<BTreeMap<u64, T>> {
        let mut rows = BTreeMap::new();
        self.each(name, |id, row| {
            rows.insert(u64::from_le_bytes(id.try_into().ok()?), decode(&row)?);
            Some(())
        })
        .await?;
        Ok(rows)
    }

    /// Calls `apply` with the records of all completed URLs, in the order of completion.
    pub(super) async fn completed(&self, mut apply: impl FnMut(CompletedRecord)) -> Result<()> {
        let mut next = Some(0);
        while let Some(first) = next {
            let records;
            (records, next) = self.completed_from(first).await?;
            records.into_iter().for_each(&mut apply);
        }
        Ok(())
    }

    /// The records of completed URLs in some entries, from this one on, and the entry after them, if there may be more.
    pub(super) async fn completed_from(&self, first: usize) -> Result<(Vec<CompletedRecord>, Option<usize>)> {
        let range = self.call("LRANGE", "completed").arg((first, first + ENTRIES - 1));
        let entries: Vec<Vec<u8>> = self.connection.one(range).await?;
        let mut records = Vec::new();
        for entry in &entries {
            CompletedRecord::read_all(entry, &mut records).ok_or_else(|| self.damaged())?;
        }
        Ok((records, (entries.len() == ENTRIES).then_some(first + ENTRIES)))
    }

    /// The bodies of pages, by the IDs of their URLs.
    pub(super) async fn bodies(&self, ids: &[u64]) -> Result<Vec<Option<Vec<u8>>>> {
        let calls = ids.iter().map(|id| Call::new("GET", self.keys.body(*id)));
        let stored = self.connection.all::<Option<Vec<u8>>>(calls.collect()).await?;
        let body = |stored: Option<Vec<u8>>| {
            let body = match stored.as_deref().and_then(<[u8]>::split_first) {
                Some((&PLAIN, bytes)) => Body::Plain(bytes.to_vec().into()),
                Some((&COMPRESSED, bytes)) => Body::Compressed(bytes.into()),
                _ => return Ok(None),
            };
            decompress(body).map(Some).map_err(BackendError::Redis)
        };
        stored.into_iter().map(body).collect()
    }

    pub(super) async fn body(&self, id: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.bodies(&[id]).await?.pop().flatten())
    }

    /// Reads the entries of a stream after a position. Waits for the first one for a while, and so do other commands of the
    /// connection.
    pub(super) async fn read_stream(
        &self,
        stream: &str,
        after: Position,
        max: usize,
    ) -> Result<Vec<(Position, Vec<u8>)>> {
        type Entries = Vec<(String, Vec<(String, (String, Vec<u8>))>)>;
        let read = ("COUNT", max, "BLOCK", BLOCK.as_millis() as u64, "STREAMS", stream, after.to_string());
        let entries: Option<Entries> =
            self.connection.one(Call::for_key("XREAD", stream).arg(read).waiting()).await?;
        let entries = entries.into_iter().flatten().flat_map(|(_, entries)| entries);
        Ok(entries.filter_map(|(id, (_, message))| Some((id.parse().ok()?, message))).collect())
    }

    /// Removes everything of the crawl, whatever state it is in, in small steps. Returns how many keys that were. For processes that
    /// use the crawl, it leaves a marker: if it has members, or if `leaves_marker`.
    pub(super) async fn purge(&self, leaves_marker: bool) -> Result<u64> {
        let (members, marker) = (self.keys.of_members("members"), self.keys.of_members("purged"));
        if leaves_marker || self.connection.one::<u64>(Call::new("HLEN", &members)).await? > 0 {
            self.connection.one::<()>(Call::new("SET", &marker).arg((1, "EX", MARKER_TTL.as_secs()))).await?;
        }
        // The frontier and the workers can write nothing more from here on.
        let mut removed =
            self.unlink([self.keys.of("epoch"), members, self.keys.of_members("crawl")]).await?;
        for server in self.connection.servers() {
            let mut cursor = 0u64;
            loop {
                let scan = (cursor, "MATCH", self.keys.pattern(), "COUNT", KEYS_PER_STEP);
                let scan = Call::for_server("SCAN", &server).arg(scan);
                let (next, found): (_, Vec<String>) = self.connection.one(scan).await?;
                removed += self.unlink(found.into_iter().filter(|key| *key != marker)).await?;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        // A message of a worker may have come behind the cursor.
        removed += self.unlink([self.keys.of("urls")]).await?;
        Ok(removed)
    }

    /// Removes keys, and returns how many there were.
    async fn unlink(&self, keys: impl IntoIterator<Item = String>) -> Result<u64> {
        // The keys of one command would have to be in one slot of a cluster.
        let unlinks = keys.into_iter().map(|key| Call::new("UNLINK", key));
        Ok(self.connection.all::<u64>(unlinks.collect()).await?.into_iter().sum())
    }
}
