//! Whether a host can be reached: how often it failed in a row, how long it backs off, and when it is given up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::HostLimits;

/// The pause after a failure. It is longer from the [third](PAUSES_FROM) failure in a row on.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// From this failure in a row on, the pauses grow: a second, then twice the previous one.
const PAUSES_FROM: u32 = 3;

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// How long failures are remembered after the last URL of the host.
const MEMORY: Duration = Duration::from_secs(10 * 60);

/// The failures of a host in a row: to connect, or to respond in time.
#[derive(Debug, Default)]
pub(super) struct HostHealth {
    failures: u32,
    last_failure: Option<Instant>,
    cooldown_until: Option<Instant>,
    unreachable: Option<Arc<str>>,
    /// The last failure.
    cause: Option<Arc<str>>,
}

impl HostHealth {
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Whether there is something to remember when the host has no URLs.
    pub(super) fn is_remembered(&self) -> bool {
        self.failures > 0
    }

    /// Whether the host failed a short time ago.
    pub(super) fn is_recent(&self) -> bool {
        self.last_failure.is_some_and(|last| last.elapsed() < MEMORY)
    }

    /// Until when the host receives no request.
    pub(super) fn cooldown_until(&self) -> Option<Instant> {
        self.cooldown_until
    }

    /// The last failure, if there was one since the last response.
    pub(super) fn cause(&self) -> Option<&Arc<str>> {
        self.cause.as_ref()
    }

    /// The last failure, if the host has failed so often that its URLs are not requested for some time.
    pub(super) fn unreachable(&self) -> Option<&Arc<str>> {
        self.unreachable.as_ref().filter(|_| self.is_recent())
    }

    /// Sends the host no request for a moment.
    pub(super) fn pause(&mut self) {
        self.cooldown_until = self.cooldown_until.max(Some(Instant::now() + FIRST_PAUSE));
    }

    /// The host responded.
    pub(super) fn responded(&mut self) {
        *self = HostHealth::default();
    }

    /// A request failed. Returns whether the host is unreachable now, and was not before.
    pub(super) fn failed(&mut self, cause: &str, limits: &HostLimits) -> bool {
        let now = Instant::now();
        // A failure that is long ago says nothing about this one.
        if !self.is_recent() {
            *self = HostHealth::default();
        }
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Some(now);
        let pause = match self.failures.checked_sub(PAUSES_FROM) {
            None => FIRST_PAUSE,
            Some(doublings) => Duration::from_secs(1 << doublings.min(6)).min(MAX_PAUSE),
        };
        self.cooldown_until = Some(now + pause);
        let is_given_up = self.unreachable.is_none() && self.failures >= limits.max_failures;
        let cause: Arc<str> = cause.into();
        self.cause = Some(Arc::clone(&cause));
        if is_given_up {
            self.unreachable = Some(cause);
        }
        is_given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_the_host_is_given_up_after_its_last_try() {
        let limits = HostLimits { max_failures: 10, ..HostLimits::default() };
        let mut health = HostHealth::default();
        let mut pauses = Vec::new();
        for failure in 1..=10 {
            assert_eq!(health.failed("refused", &limits), failure == 10);
            pauses.push((health.cooldown_until().unwrap() - Instant::now()).as_secs_f64());
            assert_eq!(health.unreachable().is_some(), failure == 10);
        }
        assert_eq!(pauses, [0.25, 0.25, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        health.responded();
        assert!(!health.has_failed() && health.unreachable().is_none() && health.cooldown_until().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_forgotten_after_some_time() {
        let limits = HostLimits { max_failures: 2, ..HostLimits::default() };
        let mut health = HostHealth::default();
        assert!(!health.failed("refused", &limits));
        tokio::time::advance(MEMORY).await;
        assert!(!health.failed("refused", &limits), "this is the first failure again");
        assert!(health.failed("refused", &limits));
        assert!(health.unreachable().is_some());
        tokio::time::advance(MEMORY).await;
        assert!(health.unreachable().is_none(), "it is tried again");
    }
}
