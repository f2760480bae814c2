//! Stops a distributed worker's requests when its heartbeats are not acknowledged, before it is declared dead
//! and its hosts are reassigned.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How long at most until the permission is checked again.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Permission to send requests, renewed by each acknowledged heartbeat. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct LivenessGuard(Option<Arc<Renewal>>);

#[derive(Debug)]
struct Renewal {
    at: watch::Sender<HeartbeatTime>,
    /// How long after a renewal requests may start.
    start_window: Duration,
    /// How long after a renewal requests in flight are aborted.
    abort_after: Duration,
}

/// When a heartbeat was sent. The time for which the machine is suspended afterwards counts, too.
#[derive(Debug, Clone, Copy)]
pub struct HeartbeatTime {
    /// By a clock that stands still while the machine is suspended.
    pub at: Instant,
    /// For how long the machine had been suspended by then.
    suspended: Duration,
}

impl HeartbeatTime {
    /// A heartbeat that is sent now.
    pub fn now() -> HeartbeatTime {
        HeartbeatTime { at: Instant::now(), suspended: time_suspended() }
    }

    fn elapsed(self) -> Duration {
        self.at.elapsed() + time_suspended().saturating_sub(self.suspended)
    }
}

/// For how long the machine has been suspended since it was started.
#[cfg(target_os = "linux")]
fn time_suspended() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    let awake = time(ClockId::Monotonic);
    time(ClockId::Boottime).saturating_sub(awake)
}

/// Not known.
#[cfg(not(target_os = "linux"))]
fn time_suspended() -> Duration {
    Duration::ZERO
}

impl LivenessGuard {
    /// For a crawl in one process: never expires.
    pub fn unlimited() -> LivenessGuard {
        LivenessGuard::default()
    }

    /// For a worker that is declared dead after `dead_after` without a heartbeat. Requests may start for two
    /// thirds of that time after a renewal, and are aborted after 13/15 of it. It starts expired, until the
    /// first renewal.
    pub fn with_timeout(dead_after: Duration) -> LivenessGuard {
        let (start_window, abort_after) = (dead_after * 2 / 3, dead_after * 13 / 15);
        let long_ago = Instant::now().checked_sub(2 * dead_after).unwrap_or_else(Instant::now);
        let at = watch::Sender::new(HeartbeatTime { at: long_ago, ..HeartbeatTime::now() });
        LivenessGuard(Some(Arc::new(Renewal { at, start_window, abort_after })))
    }

    /// Renews it as of `sent`, when the heartbeat that was acknowledged now was sent.
    pub fn renew(&self, sent: HeartbeatTime) {
        if let Some(renewal) = &self.0 {
            renewal.at.send_modify(|last| {
                if sent.at >= last.at {
                    *last = sent;
                }
            });
        }
    }

    /// Whether a request may start now.
    pub fn is_current(&self) -> bool {
        self.0.as_ref().is_none_or(|renewal| renewal.at.borrow().elapsed() < renewal.start_window)
    }

    /// Returns as soon as a request may start.
    pub async fn renewed(&self) {
        let Some(renewal) = &self.0 else { return };
        // The sender lives in `self`, so waiting cannot fail.
        let _ = renewal.at.subscribe().wait_for(|at| at.elapsed() < renewal.start_window).await;
    }

    /// Returns when requests in flight must be aborted.
    pub async fn expired(&self) {
        let Some(renewal) = &self.0 else { return std::future::pending().await };
        loop {
            let left = renewal.abort_after.saturating_sub(renewal.at.borrow().elapsed());
            if left.is_zero() {
                return;
            }
            // A machine that was suspended is noticed soon.
            sleep(left.min(MAX_SLEEP)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, timeout};

    #[tokio::test(start_paused = true)]
    async fn requests_start_for_ten_seconds_after_a_renewal_and_are_aborted_before_a_takeover() {
        let guard = LivenessGuard::with_timeout(Duration::from_secs(15));
        assert!(!guard.is_current());
        guard.renew(HeartbeatTime::now());
        guard.renewed().await;
        advance(Duration::from_millis(9_990)).await;
        assert!(guard.is_current());
        advance(Duration::from_millis(20)).await;
        assert!(!guard.is_current());
        assert!(timeout(Duration::from_millis(100), guard.renewed()).await.is_err());
        let before = Instant::now();
        guard.expired().await;
        assert!(before.elapsed() < Duration::from_secs(4));
    }

    #[tokio::test(start_paused = true)]
    async fn renewals_keep_requests_in_flight_from_being_aborted() {
        let guard = LivenessGuard::with_timeout(Duration::from_secs(15));
        guard.renew(HeartbeatTime::now());
        let renewing = guard.clone();
        tokio::spawn(async move {
            loop {
                renewing.renew(HeartbeatTime::now());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        assert!(timeout(Duration::from_secs(60), guard.expired()).await.is_err());
        assert!(guard.is_current());
    }

    #[tokio::test]
    async fn unlimited_guard_needs_no_renewal() {
        let guard = LivenessGuard::unlimited();
        assert!(guard.is_current());
        guard.renewed().await;
        assert!(timeout(Duration::from_millis(10), guard.expired()).await.is_err());
    }
}
