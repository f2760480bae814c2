//! Writes the changes of the frontier process to Redis, batch after batch. While one batch is written the next one
//! collects, so the cost per change falls as the load rises.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::super::BackendError;
use super::super::durable::checkpoint::Checkpoint;
use super::Result;
use super::batch::RedisBatch;
use super::connection::Transaction;
use super::frontier_process::{FrontierEnd, FrontierProcess};
use super::messages::encode;
use crate::error::StorageErrorKind;
use crate::log;

/// Minimum time between the starts of two batches, so that several pages share one.
const MIN_INTERVAL: Duration = Duration::from_millis(4);

/// How often counts and queue lengths are written for display.
const STATUS_INTERVAL: Duration = Duration::from_millis(250);

impl FrontierProcess {
    /// Writes batches until the frontier is superseded, or an error.
    pub(super) async fn commit(&self) -> Result<FrontierEnd> {
        let changed = self.backend.inspect(|state| Arc::clone(&state.storage.changed));
        let (mut started, mut status_at, mut is_status_due) = (None::<Instant>, Instant::now(), false);
        loop {
            tokio::select! {
                () = changed.notified() => {}
                () = sleep_until(status_at), if is_status_due => {}
            }
            if let Some(started) = started {
                sleep(MIN_INTERVAL.saturating_sub(started.elapsed())).await;
            }
            started = Some(Instant::now());
            let with_status = Instant::now() >= status_at;
            let Some(taken) = self.take(with_status, is_status_due)? else { continue };
            if let Some(end) = self.write(taken).await? {
                return Ok(end);
            }
            if with_status {
                status_at = Instant::now() + STATUS_INTERVAL;
            }
            is_status_due = !with_status;
        }
    }

    /// Takes the collected changes. An empty batch is taken only for a status that is due.
    fn take(&self, with_status: bool, is_status_due: bool) -> Result<Option<RedisBatch>> {
        self.backend.inspect(|state| {
            state.storage.committed.borrow().clone()?;
            if self.backend.shared.is_broken() {
                let message =
                    "cannot continue: an operation panicked half-way, which is a bug in the crawler";
                return Err(BackendError::redis(StorageErrorKind::Internal, message));
            }
            if state.storage.batch.is_empty() && !(with_status && is_status_due) {
                return Ok(None);
            }
            let checkpoint = Checkpoint::from_state(state, 0).to_bytes();
            let status = with_status.then(|| serde_json::to_vec(&state.snapshot()).unwrap_or_default());
            let storage = &mut state.storage;
            let next = RedisBatch::new(storage.batch.number + 1);
            let batch = std::mem::replace(&mut storage.batch, next);
            let sessions = encode(&storage.sessions);
            Ok(Some(RedisBatch { checkpoint, sessions, status, ..batch }))
        })
    }

    async fn write(&self, batch: RedisBatch) -> Result<Option<FrontierEnd>> {
        let last = if batch.number == 1 { String::new() } else { (batch.number - 1).to_string() };
        let keys = &self.data.keys;
        let mut write =
            Transaction::new([(keys.of("epoch"), self.epoch.to_string()), (keys.of("batch"), last)]);
        batch.write(keys, &mut write);
        let writing = std::time::Instant::now();
        let failed: u8 = self.data.connection.confirmed(write.call(&keys.base), self.confirmation).await?;
        // A batch whose reply was lost is sent again.
        let is_written = match failed {
            2 => self.data.get::<Option<u64>>("batch").await? == Some(batch.number),
            failed => failed == 0,
        };
        log::committed(writing);
        self.data.connection.recorder().record_commit(writing.elapsed());
        if is_written {
            self.backend.inspect(|state| drop(state.storage.committed.send_replace(Ok(batch.number))));
            return Ok(None);
        }
        let (end, message) = match failed {
            1 => (FrontierEnd::Superseded, "cannot continue: another frontier has taken over"),
            _ => (FrontierEnd::DataLost, "cannot continue: Redis has lost the last changes of the crawl"),
        };
        let error = BackendError::redis(StorageErrorKind::Internal, message);
        self.backend.inspect(|state| drop(state.storage.committed.send_replace(Err(error))));
        Ok(Some(end))
    }
}
