//! Writes what the moves gathered, batch after batch, on a thread of its own: while one is being written, the next
//! gathers, so that the more is going on, the less each move costs.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::super::BackendError;
use super::checkpoint::Checkpoint;
use super::disk_storage::DiskStorage;
use super::{Batch, Tables};
use crate::backend::local::SharedState;
use crate::backend::local::state::LocalState;
use crate::backend::local::storage::Storage;

/// The least time from one commit's begin to the next: enough for a handful of pages to share one.
const INTERVAL: Duration = Duration::from_millis(10);

/// How long to wait for something to commit before looking again.
const WAIT: Duration = Duration::from_millis(500);

/// How often the crawl's own time is written where nothing else is: what a death takes of it is not counted.
const NOTED_EVERY: Duration = Duration::from_secs(5);

/// Commits until the state is closed, then what is left. After an error nothing more is committed, and everybody who
/// waits is told.
pub(crate) fn run(shared: &Arc<SharedState<DiskStorage>>, tables: &Tables) -> Result<(), BackendError> {
    let mut noted = Instant::now();
    loop {
        let begun = Instant::now();
        let Some(batch) = next(shared, noted) else {
            return shared.state().storage.committed.borrow().clone().map(|_| ());
        };
        let written = tables.write(&batch).and_then(|()| tables.view());
        noted = Instant::now();
        let mut state = shared.state();
        let disk = &mut state.storage;
        match written {
            Ok(_) if disk.failed => return disk.committed.borrow().clone().map(|_| ()),
            Ok(view) => {
                disk.view = view;
                disk.committing = None;
                drop(disk.committed.send_replace(Ok(batch.number)));
            }
            Err(trouble) => {
                drop(disk.committed.send_replace(Err(trouble.clone())));
                return Err(trouble);
            }
        }
        let closing = disk.closing;
        drop(state);
        if !closing {
            std::thread::sleep(INTERVAL.saturating_sub(begun.elapsed()));
        }
    }
}

/// Waits for the next batch, or until the time is to be noted; `None` when all is written and nothing more comes.
fn next(shared: &SharedState<DiskStorage>, noted: Instant) -> Option<Arc<Batch>> {
    let mut state = shared.state();
    loop {
        if shared.is_broken() {
            state.storage.fail(&BackendError(
                "a step of the crawl broke off half-way, which is a fault of the crawler; resume it: nothing committed \
                 is lost"
                    .into(),
            ));
        }
        let disk = &mut state.storage;
        if !disk.failed
            && !disk.closing
            && let Err(trouble) = disk.sweep()
        {
            disk.fail(&trouble);
        }
        if disk.failed {
            return None;
        }
        let is_time = noted.elapsed() >= if disk.closing { WAIT } else { NOTED_EVERY };
        if !disk.batch.is_empty() || disk.closing || is_time {
            return take(&mut state, is_time);
        }
        let wait = if disk.is_sweeping() { INTERVAL } else { WAIT };
        let waited = shared.uncommitted.wait_timeout(state, wait);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Takes what was gathered, with the counts as they stand; nothing at all only if it is time to note these.
fn take(state: &mut LocalState<DiskStorage>, is_time: bool) -> Option<Arc<Batch>> {
    let (last_ticket, requests) = (state.counts.last_ticket, state.counts.requests.total());
    let disk = &mut state.storage;
    if disk.seen.is_due() || disk.closing {
        disk.batch.links = disk.seen.take_changed();
        disk.links_up_to = last_ticket;
    }
    // The requests after the last completion are written when the state is closed.
    let has_new_requests = disk.closing && disk.committed_requests != requests;
    if disk.batch.is_empty() && !is_time && !has_new_requests {
        return None;
    }
    disk.committed_requests = requests;
    let progress = Checkpoint::of(state, state.storage.links_up_to);
    let disk = &mut state.storage;
    disk.batch.meta.insert("progress", progress.to_bytes());
    let number = disk.batch.number;
    disk.segment += 1;
    let batch = std::mem::replace(&mut disk.batch, Batch { number: number + 1, ..Batch::default() });
    let batch = Arc::new(batch);
    disk.committing = Some(Arc::clone(&batch));
    Some(batch)
}
