//! Commits the changes of the operations, batch after batch, on its own thread. While one batch is being written, the
//! next one collects, so the cost per operation falls as the load rises.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::super::BackendError;
use super::checkpoint::Checkpoint;
use super::disk_storage::DiskStorage;
use super::{Batch, Tables};
use crate::backend::local::SharedState;
use crate::backend::local::state::LocalState;
use crate::backend::local::storage::Storage;
use crate::error::StorageErrorKind;
use crate::log;
use crate::statistics::Recorder;

/// Minimum time between the starts of two commits, so that several pages share one.
const MIN_COMMIT_INTERVAL: Duration = Duration::from_millis(10);

/// A commit of this many completed URLs starts before the interval has passed, as soon as no further ones arrive: all
/// fetches may be waiting for it.
const EARLY_COMMIT_URLS: usize = 16;

/// How often arrivals are checked for an early commit.
const ARRIVAL_INTERVAL: Duration = Duration::from_millis(1);

/// How long to wait for changes before checking again.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Commits until the state is closed, then commits the rest. After an error it commits nothing more, and every
/// operation that waits gets the error.
pub(crate) fn run(
    shared: &Arc<SharedState<DiskStorage>>,
    tables: &Tables,
    recorder: &Recorder,
    clock_interval: Duration,
) -> Result<(), BackendError> {
    let mut last_commit = Instant::now();
    loop {
        let started = Instant::now();
        let Some(batch) = next_batch(shared, last_commit, clock_interval) else {
            return shared.state().storage.committed.borrow().clone().map(|_| ());
        };
        let writing = Instant::now();
        let written = tables.write(&batch).and_then(|()| tables.view());
        log::committed(writing);
        last_commit = Instant::now();
        recorder.record_commit(last_commit - writing);
        let mut state = shared.state();
        let storage = &mut state.storage;
        match written {
            Ok(_) if storage.failed => return storage.committed.borrow().clone().map(|_| ()),
            Ok(view) => {
                storage.view = view;
                storage.committing = None;
                drop(storage.committed.send_replace(Ok(batch.number)));
            }
            Err(error) => {
                log::commit_failed(&error);
                drop(storage.committed.send_replace(Err(error.clone())));
                return Err(error);
            }
        }
        let closing = storage.closing;
        drop(state);
        if !closing {
            wait_for_arrivals(shared, started);
        }
    }
}

/// Waits until the interval since the last commit started has passed, or an early commit is due.
fn wait_for_arrivals(shared: &SharedState<DiskStorage>, last_started: Instant) {
    let mut arrived = 0;
    loop {
        let left = MIN_COMMIT_INTERVAL.saturating_sub(last_started.elapsed());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(ARRIVAL_INTERVAL));
        let completed = shared.state().storage.batch.completed.len();
        if completed >= EARLY_COMMIT_URLS && completed == arrived {
            return;
        }
        arrived = completed;
    }
}

/// Waits for the next batch, or until the clock is due. Returns `None` when everything is written and the state is
/// closed.
fn next_batch(
    shared: &SharedState<DiskStorage>,
    last_commit: Instant,
    clock_interval: Duration,
) -> Option<Arc<Batch>> {
    let mut state = shared.state();
    loop {
        if shared.is_broken() {
            state.storage.fail(&BackendError::state(
                StorageErrorKind::Internal,
                "cannot commit: an operation panicked half-way, which is a bug in the crawler; resume the crawl (nothing \
                 committed is lost)",
            ));
        }
        let storage = &mut state.storage;
        if storage.failed {
            return None;
        }
        let is_clock_due =
            last_commit.elapsed() >= if storage.closing { POLL_INTERVAL } else { clock_interval };
        if !storage.batch.is_empty() || storage.closing || is_clock_due {
            return take_batch(&mut state, is_clock_due);
        }
        shared.committer_waits.store(true, Ordering::Relaxed);
        let waited = shared.uncommitted.wait_timeout(state, POLL_INTERVAL.min(clock_interval));
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Takes the collected changes, with the current counters. Takes an empty batch only if the clock is due.
fn take_batch(state: &mut LocalState<DiskStorage>, is_clock_due: bool) -> Option<Arc<Batch>> {
    let (last_task_id, traffic) = (state.counters.last_task_id, state.traffic());
    let storage = &mut state.storage;
    if storage.seen_cache.is_due() || storage.closing {
        storage.batch.seen = storage.seen_cache.take_changed();
        storage.seen_written_up_to = last_task_id;
    }
    // The requests and bytes after the last completion are written when the state is closed.
    let has_new_traffic = storage.closing && storage.committed_traffic != traffic;
    if storage.batch.is_empty() && !is_clock_due && !has_new_traffic {
        return None;
    }
    storage.committed_traffic = traffic;
    let checkpoint = Checkpoint::from_state(state, state.storage.seen_written_up_to);
    let storage = &mut state.storage;
    storage.batch.meta.insert("checkpoint", checkpoint.to_bytes());
    let number = storage.batch.number;
    storage.current_segment += 1;
    let batch = std::mem::replace(&mut storage.batch, Batch { number: number + 1, ..Batch::default() });
    let batch = Arc::new(batch);
    storage.committing = Some(Arc::clone(&batch));
    Some(batch)
}
