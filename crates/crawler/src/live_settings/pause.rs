//! Whether a crawl is paused, and for how long it was.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The pauses of a crawl in this process.
#[derive(Debug, Default)]
pub struct Pause {
    is_paused: AtomicBool,
    resumed: Notify,
    times: Mutex<PauseTimes>,
}

#[derive(Debug, Default)]
struct PauseTimes {
    since: Option<Instant>,
    earlier: Duration,
    last_resumed: Option<Instant>,
}

impl Pause {
    /// Whether the crawl is paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Pauses the crawl, or resumes it.
    pub(crate) fn set(&self, is_paused: bool) {
        let mut times = self.times();
        if self.is_paused.swap(is_paused, Ordering::Relaxed) == is_paused {
            return;
        }
        let now = Instant::now();
        if is_paused {
            times.since = Some(now);
        } else {
            let paused = times.since.take().map_or(Duration::ZERO, |since| now - since);
            times.earlier += paused;
            times.last_resumed = Some(now);
            self.resumed.notify_waiters();
        }
    }

    /// How long the crawl was paused so far.
    pub fn total(&self) -> Duration {
        let times = self.times();
        times.earlier + times.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits while the crawl is paused.
    pub(crate) async fn resumed(&self) {
        while self.is_paused() {
            let mut resumed = std::pin::pin!(self.resumed.notified());
            resumed.as_mut().enable();
            if self.is_paused() {
                resumed.await;
            }
        }
    }

    /// Waits until a time after `start` has passed. It begins again when the crawl is resumed.
    pub(crate) async fn sleep(&self, start: Instant, time: Duration) {
        loop {
            self.resumed().await;
            let end = self.times().last_resumed.map_or(start, |resumed| resumed.max(start)) + time;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }

    fn times(&self) -> MutexGuard<'_, PauseTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn paused_time_does_not_count() {
        let (pause, second) = (Arc::new(Pause::default()), Duration::from_secs(1));
        let start = Instant::now();
        pause.set(true);
        let resuming = Arc::clone(&pause);
        tokio::spawn(async move {
            tokio::time::sleep(60 * second).await;
            resuming.set(true);
            resuming.set(false);
        });
        pause.resumed().await;
        assert_eq!((start.elapsed(), pause.total()), (60 * second, 60 * second));
        pause.sleep(start, 5 * second).await;
        assert_eq!((start.elapsed(), pause.total()), (65 * second, 60 * second));
    }
}
