//! A circuit breaker: sends no requests to a failing service for a while.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::unpoisoned;

/// The longest cooldown, whatever the service's Retry-After header says.
const MAX_COOLDOWN: Duration = Duration::from_secs(60 * 60);

/// Closed, it permits all requests; open, none. After the cooldown it permits one request, whose result
/// closes it or opens it again.
#[derive(Debug)]
pub struct CircuitBreaker {
    failures_to_open: u32,
    cooldown: Duration,
    state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
struct BreakerState {
    consecutive_failures: u32,
    /// Set while open. From this time on, the next request is permitted as a trial.
    open_until: Option<Instant>,
}

impl CircuitBreaker {
    /// A closed circuit breaker, which opens for `cooldown` after `failures_to_open` consecutive failures.
    pub fn new(failures_to_open: u32, cooldown: Duration) -> CircuitBreaker {
        CircuitBreaker { failures_to_open, cooldown: cooldown.min(MAX_COOLDOWN), state: Mutex::default() }
    }

    /// Whether a request may be sent now.
    pub fn permits(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        match state.open_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                // Other requests are rejected while this trial runs. If the trial is aborted without a
                // result, the next one is permitted after another cooldown.
                state.open_until = Some(now + self.cooldown);
                true
            }
        }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.state().open_until.is_some()
    }

    /// Whether it is open and the next request is permitted as a trial.
    pub fn is_trial_due(&self) -> bool {
        self.state().open_until.is_some_and(|until| until <= Instant::now())
    }

    /// Closes it after a successful request.
    pub fn succeeded(&self) {
        *self.state() = BreakerState::default();
    }

    /// Counts a failed request.
    pub fn failed(&self) {
        let mut state = self.state();
        state.consecutive_failures = state.consecutive_failures.saturating_add(1);
        if state.consecutive_failures >= self.failures_to_open {
            state.open(self.cooldown);
        }
    }

    /// Opens it for this long, as the service demanded in a failed response.
    pub fn open_for(&self, time: Duration) {
        let mut state = self.state();
        // Afterwards one failed trial opens it again, as after any other cooldown.
        state.consecutive_failures = self.failures_to_open;
        state.open(time.min(MAX_COOLDOWN));
    }

    fn state(&self) -> MutexGuard<'_, BreakerState> {
        unpoisoned(&self.state)
    }
}

impl BreakerState {
    /// Opens for this long, unless it is already open for longer.
    fn open(&mut self, time: Duration) {
        let until = Instant::now() + time;
        self.open_until = Some(self.open_until.map_or(until, |before| before.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const COOLDOWN: Duration = Duration::from_secs(30);
    const MILLISECOND: Duration = Duration::from_millis(1);

    fn opened() -> CircuitBreaker {
        let breaker = CircuitBreaker::new(3, COOLDOWN);
        for _ in 0..3 {
            breaker.failed();
        }
        breaker
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_after_consecutive_failures_only() {
        let breaker = CircuitBreaker::new(3, COOLDOWN);
        for _ in 0..5 {
            breaker.failed();
            breaker.failed();
            assert!(breaker.permits() && !breaker.is_open());
            breaker.succeeded();
        }
        for _ in 0..3 {
            assert!(breaker.permits());
            breaker.failed();
        }
        assert!(!breaker.permits() && breaker.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn successful_trial_after_the_cooldown_closes_it() {
        let breaker = opened();
        advance(COOLDOWN - MILLISECOND).await;
        assert!(!breaker.permits());
        assert!(!breaker.is_trial_due());
        advance(MILLISECOND).await;
        assert!(breaker.is_trial_due() && breaker.permits());
        assert!(!breaker.is_trial_due() && !breaker.permits() && !breaker.permits(), "only one trial");
        breaker.succeeded();
        assert!(breaker.permits() && breaker.permits());
    }

    #[tokio::test(start_paused = true)]
    async fn failed_trial_starts_another_cooldown() {
        let breaker = opened();
        for _ in 0..4 {
            advance(COOLDOWN).await;
            assert!(breaker.permits());
            advance(COOLDOWN / 2).await;
            breaker.failed();
            advance(COOLDOWN - MILLISECOND).await;
            assert!(!breaker.permits());
            advance(MILLISECOND).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn aborted_trial_does_not_keep_it_open_forever() {
        let breaker = opened();
        advance(COOLDOWN).await;
        assert!(breaker.permits());
        advance(COOLDOWN).await;
        assert!(breaker.permits());
    }

    #[tokio::test(start_paused = true)]
    async fn requested_cooldown_is_kept_up_to_the_maximum() {
        let breaker = CircuitBreaker::new(3, COOLDOWN);
        breaker.open_for(10 * COOLDOWN);
        advance(10 * COOLDOWN - MILLISECOND).await;
        assert!(!breaker.permits());
        advance(MILLISECOND).await;
        assert!(breaker.permits());
        breaker.open_for(Duration::MAX);
        advance(MAX_COOLDOWN).await;
        assert!(breaker.permits());
    }

    #[tokio::test(start_paused = true)]
    async fn failure_does_not_shorten_a_requested_cooldown() {
        let breaker = CircuitBreaker::new(1, COOLDOWN);
        breaker.open_for(10 * COOLDOWN);
        breaker.failed();
        advance(9 * COOLDOWN).await;
        assert!(!breaker.permits());
    }
}
