//! A time that may be changed while others read it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A time, as nanoseconds: up to 584 years.
#[derive(Debug)]
pub(super) struct TimeSetting(AtomicU64);

impl TimeSetting {
    pub(super) fn new(time: Duration) -> TimeSetting {
        TimeSetting(AtomicU64::new(nanoseconds(time)))
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Sets the time, and returns the one before.
    pub(super) fn replace(&self, time: Duration) -> Duration {
        Duration::from_nanos(self.0.swap(nanoseconds(time), Ordering::Relaxed))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
