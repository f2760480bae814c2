//! Reads the state of a distributed crawl back from Redis, for a frontier process that takes over.

use std::time::Duration;

use tokio::task::yield_now;

use super::super::durable::checkpoint::Checkpoint;
use super::super::durable::records::{HostRow, PageRow, TaskRow};
use super::super::durable::{restore_host, restore_page};
use super::super::{TaskId, WorkerId};
use super::Result;
use super::connection::Call;
use super::control::OpenedCrawl;
use super::data::CrawlData;
use super::messages::{Position, decode};
use super::records::LeaseRow;
use super::server::FrontierState;
use super::storage::RedisStorage;
use crate::backend::local::budgets::BudgetReservation;
use crate::backend::local::memory_storage::MemoryStorage;
use crate::backend::local::storage::{Clock, Storage, unix_millis};
use crate::backend::local::{BackendConfig, HostLimits};
use crate::domain::Domain;
use crate::task::Depth;
use crate::task_kind::TaskKind;

/// How many rows are restored at a time. In between, the heartbeats of this process are sent on the same thread.
const ROWS_AT_ONCE: usize = 2_000;

/// Lease IDs have the number of the frontier in front, so that those of a later frontier are larger.
const LEASE_ID_BITS: u32 = 40;

/// Takes over from the previous frontier, which can write nothing more, and reads the state back. Returns it with the number of
/// this frontier.
pub(super) async fn take_over(shared: &OpenedCrawl, data: &CrawlData) -> Result<(FrontierState, u64)> {
    let OpenedCrawl { redis_crawl, settings, key, confirmation, .. } = shared;
    let hosts = HostLimits { workers_share_throttle: false, ..settings.hosts.clone() };
    let config = BackendConfig { workers: 0, hosts, ..settings.clone() };
    let begun = Call::new("HGET", data.keys.of_members("crawl")).arg("begun");
    let is_begun = data.connection.one::<Option<u8>>(begun).await? == Some(1);
    // Nothing is written to a Redis that has lost the crawl.
    if is_begun && data.get::<Option<Vec<u8>>>("checkpoint").await?.is_none() {
        return Err(data.damaged());
    }
    let epoch: u64 = data.connection.confirmed(data.call("INCR", "epoch"), *confirmation).await?;
    let batch = data.get::<Option<u64>>("batch").await?.unwrap_or(0);
    let checkpoint = match data.get::<Option<Vec<u8>>>("checkpoint").await? {
        Some(bytes) => Checkpoint::from_bytes(&bytes).ok_or_else(|| data.damaged())?,
        None => Checkpoint::default(),
    };
    let (is_resumed, pending) = (checkpoint.last_task_id() > 0, checkpoint.pending());
    let memory = MemoryStorage::new(&config, *key);
    let mut storage = RedisStorage::new(memory, config.keep_depths, redis_crawl.delay, batch);
    if let Some(sessions) = data.get::<Option<Vec<u8>>>("sessions").await? {
        storage.sessions = decode(&sessions).ok_or_else(|| data.damaged())?;
    }
    if let Some(applied) = data.get::<Option<String>>("applied").await? {
        storage.applied = applied.parse::<Position>().map_err(|_| data.damaged())?;
    }
    let restore_completed = |record: super::records::CompletedRecord| {
        storage.memory.restore_completed(record.id, record.depth, record.code.has_links());
    };
    data.completed(restore_completed).await?;
    let mut state = FrontierState::new(config, Clock::starting_at(checkpoint.active_time()), storage);
    checkpoint.restore_into(&mut state);
    state.set_next_lease_id(epoch << LEASE_ID_BITS);
    restore_rows(&mut state, data).await?;
    match (pending, restore_tasks(&mut state, data).await?) {
        (Some(pending), tasks) if pending == tasks => {}
        // A crawl that was stopped and not resumed in time has lost its URLs.
        (Some(pending), 0) => state.counters.count_expired(pending),
        _ => return Err(data.damaged()),
    }
    restore_hosts(&mut state, data, redis_crawl.delay).await?;
    if is_resumed {
        // Requests of any worker may have been in flight.
        state.cooldowns.set_for_all(redis_crawl.delay.max(state.config.hosts.site_delay));
    }
    Ok((state, epoch))
}

/// Restores what is known about domains and pages, and the workers.
async fn restore_rows(state: &mut FrontierState, data: &CrawlData) -> Result<()> {
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse().ok();
    data.each("domains", |domain, pages| {
        state.popularity.resume(&Domain::named(std::str::from_utf8(&domain).ok()?), number(&pages)?);
        Some(())
    })
    .await?;
    for (id, lastmod) in data.by_id("lastmods", number).await? {
        state.storage.memory.set_lastmod(id, lastmod);
    }
    for (count, (id, page)) in data.by_id("pages", PageRow::from_bytes).await?.into_iter().enumerate() {
        yield_after(count).await;
        restore_page(state, id, page);
    }
    while state.content.finish_restore(ROWS_AT_ONCE) {
        yield_now().await;
    }
    let sessions = state.storage.sessions.iter().map(|(worker, session)| (*worker, session.room()));
    for (worker, room) in sessions.collect::<Vec<(WorkerId, u64)>>() {
        state.add_worker(worker);
        if room == 0 {
            state.accept_no_urls(worker);
        }
    }
    Ok(())
}

/// Restores the pending URLs, and returns how many there are.
async fn restore_tasks(state: &mut FrontierState, data: &CrawlData) -> Result<u64> {
    let mut leases = data.by_id("leases", |row| decode::<LeaseRow>(row)).await?;
    let depths = data.by_id("depths", |depth| Some(Depth::from_le_bytes(depth.try_into().ok()?))).await?;
    let tasks = data.by_id("tasks", TaskRow::from_bytes).await?;
    let total = tasks.len() as u64;
    for (count, (task_id, row)) in tasks.into_iter().enumerate() {
        yield_after(count).await;
        let mut task = row.into_task(TaskId(task_id));
        let id = state.storage.id(&task.url);
        let depth = depths.get(&id).map_or(task.depth, |lowered| task.depth.min(*lowered));
        let lease = leases.remove(&task_id);
        let lease = lease.filter(|lease| state.storage.sessions.contains_key(&WorkerId(lease.worker)));
        let is_requisite = TaskKind::from_task_url(&task.url) == TaskKind::Requisite;
        let in_overflow = lease.is_none() && !is_requisite;
        state.storage.memory.restore_pending(task.borrowed(), depth, in_overflow);
        if let Some(lease) = lease {
            state.storage.leases.insert(task.task_id, (id, lease));
            (task.queue, task.attempts) = (lease.queue, lease.attempts);
            let reservation =
                lease.reservation.map(|parts| BudgetReservation::from_parts(lease.lease_id, parts));
            state.restore_lease(task, WorkerId(lease.worker), lease.lease_id, reservation);
        } else if is_requisite {
            state.restore_requisite(task);
        }
    }
    Ok(total)
}

/// Lets the other tasks of the thread run, after every so many rows.
async fn yield_after(rows: usize) {
    if rows % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 {
        yield_now().await;
    }
}

/// Restores the hosts. Their delays are remembered as long as URLs of them are leased, so the leases come first.
async fn restore_hosts(state: &mut FrontierState, data: &CrawlData, default_delay: Duration) -> Result<()> {
    let now = unix_millis();
    data.each("hosts", |host, row| {
        let (host, row) = (String::from_utf8(host).ok()?, HostRow::from_bytes(&row)?);
        state.storage.hosts.insert(host.clone(), row);
        restore_host(state, host, row, default_delay, now);
        Some(())
    })
    .await
}
