//! The queue between the threads that process pages and the feeder, with counts of what was sent.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::GIVEN_UP;
use crate::format::counted;
use crate::modules::stdout::STDOUT_CLOSED;

/// Lines for the program. It has at most one line per thread, because each thread waits for its own line.
#[derive(Debug, Default)]
pub(super) struct LineQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

/// A page as it is sent.
#[derive(Debug)]
pub(super) struct Line {
    /// Counts the lines.
    pub(super) number: u64,
    /// The URL of the page, for messages.
    pub(super) url: String,
    pub(super) bytes: Vec<u8>,
}

/// What the feeder does next.
#[derive(Debug)]
pub(super) enum Next {
    /// Send a line.
    Line(Line),
    /// No line came in time.
    Idle,
    /// No more lines follow, and the program must exit by this time.
    Closed(Instant),
}

#[derive(Debug, Default)]
struct QueueState {
    /// Lines that the feeder has not taken yet.
    waiting: VecDeque<Line>,
    /// The number of the line queued last.
    last_number: u64,
    /// The program has finished the lines up to this number.
    finished: u64,
    /// Whether a line waits to be read by the program, and since when it has read nothing.
    unread_since: Option<Instant>,
    /// How often it was reported that the program reads nothing.
    stall_reports: u32,
    /// Set when the queue is closed: when the program must have exited.
    deadline: Option<Instant>,
    /// How long that is after the close.
    exit_timeout: Duration,
    /// Why no more lines are sent.
    abandoned: Option<String>,
    /// The program read all lines and failed after the end of its input.
    failed_at_end: Option<String>,
    /// The program exited because the reader of standard output has closed it.
    output_closed: bool,
    stats: FeedStats,
}

#[derive(Debug, Default)]
struct FeedStats {
    pages: u64,
    restarts: u64,
    status: Option<ExitStatus>,
}

impl LineQueue {
    /// Queues the line of a page and waits until the program has finished it.
    pub(super) fn send(&self, url: &str, bytes: Vec<u8>) -> Result<(), String> {
        let mut state = self.lock();
        state.last_number += 1;
        let number = state.last_number;
        if state.rejection().is_none() {
            state.unread_since.get_or_insert_with(Instant::now);
            state.waiting.push_back(Line { number, url: url.to_owned(), bytes });
            self.changed.notify_all();
        }
        while state.finished < number {
            if let Some(cause) = state.rejection() {
                return Err(cause);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Closes the queue: no more lines follow, and the program must exit within the timeout. Lines that the feeder has not
    /// taken are rejected. Only the first call counts.
    pub(super) fn close(&self, exit_timeout: Duration) {
        let mut state = self.lock();
        if state.deadline.is_none() {
            (state.deadline, state.exit_timeout) = (Some(Instant::now() + exit_timeout), exit_timeout);
        }
        state.waiting.clear();
        self.changed.notify_all();
    }

    /// The timeout that the queue was closed with.
    pub(super) fn exit_timeout(&self) -> Duration {
        self.lock().exit_timeout
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().deadline.is_some()
    }

    /// Why the program did not process all lines: it gets no more, or it failed at their end.
    pub(super) fn failure(&self) -> Option<String> {
        let state = self.lock();
        state.abandoned.as_ref().or(state.failed_at_end.as_ref()).cloned()
    }

    /// Whether the program exited because the reader of standard output has closed it.
    pub(super) fn is_output_closed(&self) -> bool {
        self.lock().output_closed
    }

    /// What was sent, in one line.
    pub(super) fn summary(&self) -> String {
        let state = self.lock();
        let FeedStats { pages, restarts, status } = &state.stats;
        let mut summary = format!("was sent {}", counted(*pages, "page"));
        if *restarts > 0 {
            summary += &format!(", restarted {}", counted(*restarts, "time"));
        }
        if let Some(status) = status {
            summary += &format!("; {status}");
        }
        if state.output_closed {
            summary += &format!("; {STDOUT_CLOSED}");
        } else if state.abandoned.is_some() {
            summary += &format!("; {GIVEN_UP}");
        }
        summary
    }

    /// How long the program has read nothing although a line waits for it, if that is to be reported: after `first`, after
    /// twice that time, and so on.
    pub(super) fn stall(&self, first: Duration) -> Option<Duration> {
        let mut state = self.lock();
        let time = state.unread_since?.elapsed();
        let is_due = state.deadline.is_none() && time >= first * 2u32.saturating_pow(state.stall_reports);
        state.stall_reports += u32::from(is_due);
        is_due.then_some(time)
    }

    /// Waits for the next line, or only for some time.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Next {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.lock();
        loop {
            match (state.waiting.pop_front(), state.deadline) {
                (Some(line), _) => return Next::Line(line),
                (None, Some(deadline)) => return Next::Closed(deadline),
                (None, None) => {}
            }
            state = match until {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Next::Idle;
                    }
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Records whether the program has read something. Returns whether there is time to wait for it.
    pub(super) fn on_progress(&self, has_read: bool) -> bool {
        let mut state = self.lock();
        if has_read {
            state.unread_since = state.unread_since.map(|_| Instant::now());
        }
        state.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Records that the program has read all lines that the feeder has taken.
    pub(super) fn all_read(&self) {
        let mut state = self.lock();
        state.unread_since = (!state.waiting.is_empty()).then(Instant::now);
    }

    /// Whether the program has finished the line of this number.
    pub(super) fn is_finished(&self, number: u64) -> bool {
        self.lock().finished >= number
    }

    /// Records that the program has finished the lines up to this number.
    pub(super) fn finished(&self, number: u64) {
        let mut state = self.lock();
        if let Some(pages @ 1..) = number.checked_sub(state.finished) {
            (state.finished, state.stats.pages) = (number, state.stats.pages + pages);
            self.changed.notify_all();
        }
    }

    /// Rejects all lines from now on.
    pub(super) fn abandon(&self, cause: String) {
        self.lock().abandoned = Some(cause);
        self.changed.notify_all();
    }

    /// Rejects all lines from now on, because the reader of what the program prints has gone.
    pub(super) fn output_closed(&self) {
        self.lock().output_closed = true;
        self.changed.notify_all();
    }

    /// Records that the program failed after it had read all lines.
    pub(super) fn fail_at_end(&self, cause: String) {
        self.lock().failed_at_end = Some(cause);
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
    /// Why no line is sent, if none is.
    fn rejection(&self) -> Option<String> {
        match &self.abandoned {
            _ if self.output_closed => Some(format!("has exited: {STDOUT_CLOSED}")),
            Some(cause) => Some(cause.clone()),
            None => self.deadline.map(|_| "has been stopped".into()),
        }
    }
}
