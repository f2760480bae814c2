//! The lines that wait to be written: bounded, so that a slow disk or reader costs lines and neither memory nor time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most bytes that wait. More lines are dropped, and counted.
const MAX_BYTES: usize = 4 << 20;

/// Lines from all threads, for the thread that writes them.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    added: Condvar,
    is_written: Condvar,
}

#[derive(Default)]
struct State {
    batch: Batch,
    is_writing: bool,
}

/// What is written at a time.
#[derive(Default)]
pub struct Batch {
    /// Whole lines.
    pub lines: Vec<u8>,
    /// How many lines were dropped after these.
    pub dropped: u64,
    /// Whether the file is to be opened again before that.
    pub reopens: bool,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0 && !self.reopens
    }
}

impl Queue {
    /// Adds a line, unless too many wait.
    pub fn push(&self, line: &str) {
        let mut state = self.state();
        let batch = &mut state.batch;
        if batch.lines.len() + line.len() > MAX_BYTES {
            batch.dropped += 1;
            return;
        }
        batch.lines.extend_from_slice(line.as_bytes());
        drop(state);
        self.added.notify_one();
    }

    /// Lets the file be opened again.
    pub fn reopen(&self) {
        self.state().batch.reopens = true;
        self.added.notify_one();
    }

    /// Waits for lines.
    pub fn next(&self) -> Batch {
        let mut state = self.state();
        while state.batch.is_empty() {
            state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_writing = true;
        std::mem::take(&mut state.batch)
    }

    /// The lines that were taken last are written.
    pub fn written(&self) {
        self.state().is_writing = false;
        self.is_written.notify_all();
    }

    /// Waits until nothing is left to be written, but not for longer than this.
    pub fn flush(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut state = self.state();
        while state.is_writing || !state.batch.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.is_written.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_is_bounded_and_counts_what_it_drops() {
        let (queue, line) = (Queue::default(), "x".repeat(1023) + "\n");
        for _ in 0..MAX_BYTES / 1024 + 10 {
            queue.push(&line);
        }
        let batch = queue.next();
        assert_eq!((batch.lines.len(), batch.dropped), (MAX_BYTES, 10));
        let started = Instant::now();
        queue.flush(Duration::from_millis(10));
        assert!(started.elapsed() >= Duration::from_millis(10), "the lines are not written yet");
        queue.written();
        queue.flush(Duration::from_secs(60));
        assert!(started.elapsed() < Duration::from_secs(50));
    }
}
