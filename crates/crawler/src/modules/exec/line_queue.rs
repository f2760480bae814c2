//! The queue between the threads that process pages and the feeder, with counts of what was sent.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::GIVEN_UP;

/// Lines for the program. It has at most one line per thread, because each thread waits for its own line.
#[derive(Debug, Default)]
pub(super) struct LineQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Lines that the feeder has not taken yet, with their numbers.
    waiting: VecDeque<(u64, Vec<u8>)>,
    /// The feeder has taken a line and not written it yet.
    busy: bool,
    /// The number of the line queued last.
    last_number: u64,
    /// The number of the line written last.
    written: u64,
    /// When the program last read something, or when a line was queued after an idle time.
    last_progress: Option<Instant>,
    /// The program has read nothing for the stall timeout.
    stalled: bool,
    /// Set when the queue is closed: when the program must have exited.
    deadline: Option<Instant>,
    /// How long that is after the close.
    exit_timeout: Duration,
    /// Why no more lines are sent.
    abandoned: Option<String>,
    stats: FeedStats,
}

#[derive(Debug, Default)]
struct FeedStats {
    pages: u64,
    rejected: u64,
    restarts: u64,
    status: Option<ExitStatus>,
}

impl LineQueue {
    /// Queues a line and waits until it is in the program's pipe.
    pub(super) fn send(&self, line: Vec<u8>, stall: Duration) -> Result<(), String> {
        let mut state = self.lock();
        if state.stalled || state.deadline.is_some() || state.abandoned.is_some() {
            return Err(state.rejection(stall));
        }
        if !state.busy && state.waiting.is_empty() {
            state.last_progress = Some(Instant::now());
        }
        state.last_number += 1;
        let number = state.last_number;
        state.waiting.push_back((number, line));
        self.changed.notify_all();
        while state.written < number {
            let idle = state.last_progress.map_or(Duration::ZERO, |progress| progress.elapsed());
            state.stalled |= idle >= stall;
            if state.stalled || state.abandoned.is_some() {
                state.waiting.retain(|(waiting, _)| *waiting != number);
                return Err(state.rejection(stall));
            }
            let wait = self.changed.wait_timeout(state, stall - idle);
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Closes the queue: no more lines follow, and the program must exit within the timeout. Only the first call
    /// counts.
    pub(super) fn close(&self, exit_timeout: Duration) {
        let mut state = self.lock();
        if state.deadline.is_none() {
            (state.deadline, state.exit_timeout) = (Some(Instant::now() + exit_timeout), exit_timeout);
        }
        self.changed.notify_all();
    }

    /// The timeout that the queue was closed with.
    pub(super) fn exit_timeout(&self) -> Duration {
        self.lock().exit_timeout
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().deadline.is_some()
    }

    /// Whether the program got all lines and exited with success.
    pub(super) fn result(&self) -> Result<(), String> {
        let state = self.lock();
        match (&state.abandoned, state.stats.status) {
            (Some(cause), _) => Err(cause.clone()),
            (None, Some(status)) if !status.success() => Err(format!("failed with {status}")),
            _ => Ok(()),
        }
    }

    /// What was sent, in one line.
    pub(super) fn summary(&self) -> String {
        let state = self.lock();
        let FeedStats { pages, rejected, restarts, status } = &state.stats;
        let is_abandoned = state.abandoned.is_some();
        let mut summary = format!("was sent {pages} page{}", if *pages == 1 { "" } else { "s" });
        if *rejected > 0 {
            summary += &format!(", {rejected} could not be sent");
        }
        if *restarts > 0 {
            summary += &format!(", restarted {restarts} time{}", if *restarts == 1 { "" } else { "s" });
        }
        if let Some(status) = status {
            summary += &format!("; {status}");
        }
        if is_abandoned {
            summary += &format!("; {GIVEN_UP}");
        }
        summary
    }

    /// Waits for the next line. Returns the deadline if the queue is closed and empty.
    pub(super) fn next(&self) -> Result<(u64, Vec<u8>), Instant> {
        let mut state = self.lock();
        loop {
            match (state.waiting.pop_front(), state.deadline) {
                (Some(line), _) => {
                    state.busy = true;
                    return Ok(line);
                }
                (None, Some(deadline)) => return Err(deadline),
                (None, None) => {}
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records whether the program has read something. Returns whether there is time to wait for it.
    pub(super) fn on_progress(&self, has_read: bool) -> bool {
        let mut state = self.lock();
        if has_read {
            state.last_progress = Some(Instant::now());
            state.stalled = false;
        }
        state.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Records that the line of this number is in the pipe.
    pub(super) fn written(&self, number: u64) {
        let mut state = self.lock();
        (state.written, state.busy) = (number, false);
        state.stats.pages += 1;
        self.changed.notify_all();
    }

    /// Rejects all lines from now on.
    pub(super) fn abandon(&self, cause: String) {
        self.lock().abandoned = Some(cause);
        self.changed.notify_all();
    }

    pub(super) fn count_restart(&self) {
        self.lock().stats.restarts += 1;
    }

    /// Records how the program exited; `None` if it had to be killed.
    pub(super) fn record_exit(&self, status: Option<ExitStatus>) {
        self.lock().stats.status = status;
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn rejection(&mut self, stall: Duration) -> String {
        self.stats.rejected += 1;
        match &self.abandoned {
            Some(cause) => cause.clone(),
            None if self.stalled => format!("has read nothing for {stall:?}"),
            None => "has been stopped".into(),
        }
    }
}
