//! Reads the state of a distributed crawl back from Redis, for a frontier process that takes over.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::FromRedisValue;

use super::super::durable::checkpoint::Checkpoint;
use super::super::durable::records::{HostRow, PageRow, TaskRow};
use super::super::durable::{restore_host, restore_page};
use super::super::{BackendError, TaskId, WorkerId};
use super::connection::{Call, Connection};
use super::control::Shared;
use super::keys::CrawlKeys;
use super::messages::{Position, decode};
use super::records::{CompletedRecord, LeaseRow};
use super::storage::RedisStorage;
use crate::backend::local::budgets::BudgetReservation;
use crate::backend::local::memory_storage::MemoryStorage;
use crate::backend::local::state::LocalState;
use crate::backend::local::storage::{Clock, Storage, unix_millis};
use crate::backend::local::{BackendConfig, HostLimits};
use crate::domain::Domain;
use crate::error::StorageErrorKind;
use crate::task::Depth;
use crate::task_kind::TaskKind;

/// How many rows of a hash are read at a time, about.
const ROWS: usize = 2_000;

/// How many batches of records are read at a time.
const BATCHES: usize = 200;

/// Lease IDs have the number of the frontier in front, so that those of a later frontier are larger.
const LEASE_ID_BITS: u32 = 40;

/// What a frontier process takes over.
pub(super) struct Restored {
    pub(super) state: LocalState<RedisStorage>,
    /// The number of this frontier.
    pub(super) epoch: u64,
    /// How far the messages of the workers are applied.
    pub(super) applied: Position,
}

/// A field of a hash and its value.
type Row = (Vec<u8>, Vec<u8>);

/// The rows of a crawl on Redis.
pub(super) struct Rows<'a> {
    pub(super) connection: &'a Connection,
    pub(super) keys: &'a CrawlKeys,
}

/// Takes over from the previous frontier, which can write nothing more, and reads the state back.
pub(super) async fn take_over(shared: &Shared, connection: &Connection) -> Result<Restored, BackendError> {
    let Shared { place, keys, settings, key, confirmation, .. } = shared;
    let (key, default_delay) = (*key, place.delay);
    let hosts = HostLimits { workers_share_throttle: false, ..settings.hosts.clone() };
    let config = BackendConfig { workers: 0, hosts, ..settings.clone() };
    let rows = Rows { connection, keys };
    let begun = Call::new("HGET", keys.of_members("crawl")).arg("begun");
    let is_begun = connection.one::<Option<u8>>(begun).await? == Some(1);
    // Nothing is written to a Redis that has lost the crawl.
    if is_begun && rows.get::<Option<Vec<u8>>>("checkpoint").await?.is_none() {
        return Err(rows.damaged());
    }
    let epoch: u64 = connection.confirmed(Call::new("INCR", keys.of("epoch")), *confirmation).await?;
    let batch: Option<u64> = rows.get("batch").await?;
    let checkpoint = match rows.get::<Option<Vec<u8>>>("checkpoint").await? {
        Some(bytes) => Checkpoint::from_bytes(&bytes).ok_or_else(|| rows.damaged())?,
        None => Checkpoint::default(),
    };
    let is_resumed = checkpoint.last_task_id() > 0;
    let mut storage = RedisStorage::new(
        MemoryStorage::new(&config, key),
        config.keep_depths,
        default_delay,
        batch.unwrap_or(0),
    );
    if let Some(sessions) = rows.get::<Option<Vec<u8>>>("sessions").await? {
        storage.sessions = decode(&sessions).ok_or_else(|| rows.damaged())?;
    }
    rows.completed(|record| {
        storage.memory.restore_completed(record.id, record.depth, record.code.has_links());
    })
    .await?;
    let clock = Clock::starting_at(checkpoint.active_time());
    let outstanding = checkpoint.outstanding();
    let mut state = LocalState::new(config, clock, storage);
    checkpoint.restore_into(&mut state);
    state.set_next_lease_id(epoch << LEASE_ID_BITS);
    rows.domains(&mut state).await?;
    rows.lastmods(&mut state).await?;
    rows.pages(&mut state).await?;
    let sessions = state.storage.sessions.iter().map(|(worker, session)| (*worker, session.room()));
    for (worker, room) in sessions.collect::<Vec<(WorkerId, u64)>>() {
        state.add_worker(worker);
        if room == 0 {
            state.accept_no_urls(worker);
        }
    }
    let tasks = rows.tasks(&mut state).await?;
    match outstanding {
        Some(outstanding) if outstanding == tasks => {}
        // A crawl that was stopped and not resumed in time has lost its URLs.
        Some(outstanding) if tasks == 0 => state.counters.count_expired(outstanding),
        _ => return Err(rows.damaged()),
    }
    // The delays of hosts are remembered as long as URLs of them are leased.
    rows.hosts(&mut state, default_delay).await?;
    if is_resumed {
        // Requests of any worker may have been in flight.
        state.cooldowns.set_for_all(default_delay.max(state.config.hosts.site_delay));
    }
    let applied: Option<String> = rows.get("applied").await?;
    let applied = applied.map_or(Ok(Position::default()), |applied| applied.parse());
    let applied = applied.map_err(|_| rows.damaged())?;
    state.storage.applied = applied;
    Ok(Restored { state, epoch, applied })
}

impl Rows<'_> {
    fn damaged(&self) -> BackendError {
        let address = self.connection.address();
        let message = format!(
            "cannot continue the crawl: its data on Redis at {address} is lost or damaged; purge what is left of it, then start it \
             again"
        );
        BackendError::redis(StorageErrorKind::Damaged, message)
    }

    async fn get<T: FromRedisValue>(&self, name: &str) -> Result<T, BackendError> {
        self.connection.one(Call::new("GET", self.keys.of(name))).await
    }

    /// Calls `row` with all fields and values of a hash, each at least once.
    pub(super) async fn each(
        &self,
        name: &str,
        mut row: impl FnMut(Vec<u8>, Vec<u8>) -> Option<()>,
    ) -> Result<(), BackendError> {
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
    pub(super) async fn some(&self, name: &str, cursor: u64) -> Result<(u64, Vec<Row>), BackendError> {
        let scan = Call::new("HSCAN", self.keys.of(name)).arg(cursor).arg("COUNT").arg(ROWS);
        self.connection.one(scan).await
    }

    /// Calls `apply` with the records of all completed URLs, in the order of completion.
    pub(super) async fn completed(&self, mut apply: impl FnMut(CompletedRecord)) -> Result<(), BackendError> {
        let mut next = Some(0);
        while let Some(first) = next {
            let records;
            (records, next) = self.completed_from(first).await?;
            records.into_iter().for_each(&mut apply);
        }
        Ok(())
    }

    /// The records of completed URLs in some batches, from this one on, and the batch after them, if there may be more.
    pub(super) async fn completed_from(
        &self,
        first: usize,
    ) -> Result<(Vec<CompletedRecord>, Option<usize>), BackendError> {
        let range = Call::new("LRANGE", self.keys.of("completed")).arg(first).arg(first + BATCHES - 1);
        let batches: Vec<Vec<u8>> = self.connection.one(range).await?;
        let records = batches.iter().flat_map(|batch| CompletedRecord::all(batch));
        let records = records.map(|record| record.ok_or_else(|| self.damaged())).collect::<Result<_, _>>()?;
        Ok((records, (batches.len() == BATCHES).then_some(first + BATCHES)))
    }

    async fn hosts(
        &self,
        state: &mut LocalState<RedisStorage>,
        default_delay: Duration,
    ) -> Result<(), BackendError> {
        let now = unix_millis();
        self.each("hosts", |host, row| {
            let (host, row) = (String::from_utf8(host).ok()?, HostRow::from_bytes(&row)?);
            state.storage.hosts.insert(host.clone(), row);
            restore_host(state, host, row, default_delay, now);
            Some(())
        })
        .await
    }

    async fn domains(&self, state: &mut LocalState<RedisStorage>) -> Result<(), BackendError> {
        self.each("domains", |domain, pages| {
            let pages = std::str::from_utf8(&pages).ok()?.parse().ok()?;
            state.popularity.resume(&Domain::named(std::str::from_utf8(&domain).ok()?), pages);
            Some(())
        })
        .await
    }

    async fn lastmods(&self, state: &mut LocalState<RedisStorage>) -> Result<(), BackendError> {
        self.each("lastmods", |id, lastmod| {
            let lastmod = std::str::from_utf8(&lastmod).ok()?.parse().ok()?;
            state.storage.memory.set_lastmod(u64::from_le_bytes(id.try_into().ok()?), lastmod);
            Some(())
        })
        .await
    }

    async fn pages(&self, state: &mut LocalState<RedisStorage>) -> Result<(), BackendError> {
        for (id, page) in self.by_id("pages", PageRow::from_bytes).await? {
            restore_page(state, id, page);
        }
        state.content.finish_restore();
        Ok(())
    }

    /// Restores the outstanding URLs, and returns how many there are.
    async fn tasks(&self, state: &mut LocalState<RedisStorage>) -> Result<u64, BackendError> {
        let mut leases = self.by_id("leases", LeaseRow::from_bytes).await?;
        let depths = self.by_id("depths", |depth| Some(Depth::from_le_bytes(depth.try_into().ok()?))).await?;
        let tasks = self.by_id("tasks", TaskRow::from_bytes).await?;
        let count = tasks.len() as u64;
        for (task_id, row) in tasks {
            let mut task = row.into_task(TaskId(task_id));
            let id = state.storage.id(&task.url);
            let depth = depths.get(&id).map_or(task.depth, |lowered| task.depth.min(*lowered));
            let lease = leases.remove(&task_id);
            let lease = lease.filter(|lease| state.storage.sessions.contains_key(&WorkerId(lease.worker)));
            let is_requisite = TaskKind::of(&task.url) == TaskKind::Requisite;
            let in_overflow = lease.is_none() && !is_requisite;
            state.storage.memory.restore_outstanding(task.borrowed(), depth, in_overflow);
            let Some(lease) = lease else {
                if is_requisite {
                    state.restore_requisite(task);
                }
                continue;
            };
            state.storage.leases.insert(task.task_id, (id, lease));
            (task.queue, task.attempts) = (lease.queue, lease.attempts);
            let reservation =
                lease.reservation.map(|parts| BudgetReservation::from_parts(lease.lease_id, parts));
            state.restore_lease(task, WorkerId(lease.worker), lease.lease_id, reservation);
        }
        Ok(count)
    }

    /// All rows of a hash, in the order of their IDs.
    async fn by_id<T>(
        &self,
        name: &str,
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<BTreeMap<u64, T>, BackendError> {
        let mut rows = BTreeMap::new();
        self.each(name, |id, row| {
            rows.insert(u64::from_le_bytes(id.try_into().ok()?), decode(&row)?);
            Some(())
        })
        .await?;
        Ok(rows)
    }
}
