//! Lets threads take turns in the order of their batches, and keeps them close together.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Who is next.
#[derive(Debug)]
pub struct Turns {
    state: Mutex<TurnState>,
    changed: Condvar,
    /// How far a batch may be ahead of the first one that is not done.
    window: u64,
}

#[derive(Debug, Default)]
struct TurnState {
    /// The batch whose turn it is.
    next: u64,
    /// All batches before this one are done.
    first_undone: u64,
    /// Batches after it that are done.
    done: BTreeSet<u64>,
}

impl Turns {
    /// The turns of batches, of which this many may be in progress.
    pub fn new(window: u64) -> Turns {
        Turns { state: Mutex::default(), changed: Condvar::new(), window: window.max(1) }
    }

    /// Calls a function when it is the turn of a batch.
    pub fn in_order<T>(&self, batch: u64, call: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        while state.next != batch || batch - state.first_undone >= self.window {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        // Passes the turn on also if the call panics.
        let _turn = TurnGuard(self);
        call()
    }

    /// Says that all work on a batch is done.
    pub fn done(&self, batch: u64) {
        let mut state = self.lock();
        state.done.insert(batch);
        while state.done.first() == Some(&state.first_undone) {
            state.done.pop_first();
            state.first_undone += 1;
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of a batch, until this is dropped.
struct TurnGuard<'t>(&'t Turns);

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().next += 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn turns_are_in_order_and_batches_close_together() {
        let (turns, taken, order) = (Turns::new(3), AtomicU64::new(0), Mutex::new(Vec::new()));
        let (running, most) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    loop {
                        let batch = taken.fetch_add(1, Ordering::SeqCst);
                        if batch >= 500 {
                            return;
                        }
                        turns.in_order(batch, || order.lock().unwrap().push(batch));
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                        turns.done(batch);
                    }
                });
            }
        });
        assert_eq!(order.into_inner().unwrap(), (0..500).collect::<Vec<_>>());
        assert!(most.into_inner() <= 3);
    }
}
