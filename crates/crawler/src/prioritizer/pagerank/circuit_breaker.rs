//! A circuit breaker: leaves a service that fails alone for a while; only it knows whether one may ask.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::unpoisoned;

/// The longest that a service can make us leave it alone, whatever it says.
const MAX_REST: Duration = Duration::from_secs(60 * 60);

/// Closed, requests go through; open, none does; half-open, when the rest is over, one does and decides.
#[derive(Debug)]
pub struct CircuitBreaker {
    failures_to_open: u32,
    rest: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures_in_a_row: u32,
    /// Set while open. When it has come, the next request may try.
    open_until: Option<Instant>,
}

impl CircuitBreaker {
    /// A closed one, which opens for `rest` after so many failures in a row.
    pub fn new(failures_to_open: u32, rest: Duration) -> CircuitBreaker {
        CircuitBreaker { failures_to_open, rest: rest.min(MAX_REST), state: Mutex::default() }
    }

    /// Whether a request may be made now.
    pub fn permits(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        match state.open_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                // This request finds out for all others, which go on resting. Should it be given up without a
                // result, the next one may try after another rest.
                state.open_until = Some(now + self.rest);
                true
            }
        }
    }

    /// Whether the service is being left alone.
    pub fn is_open(&self) -> bool {
        self.state().open_until.is_some()
    }

    /// A request went well: all may ask again.
    pub fn succeeded(&self) {
        *self.state() = State::default();
    }

    /// A request failed.
    pub fn failed(&self) {
        let mut state = self.state();
        state.failures_in_a_row = state.failures_in_a_row.saturating_add(1);
        if state.failures_in_a_row >= self.failures_to_open {
            state.open(self.rest);
        }
    }

    /// A request failed, and the service said how long to leave it alone.
    pub fn open_for(&self, time: Duration) {
        let mut state = self.state();
        // Whoever tries next has one try, like after any other rest.
        state.failures_in_a_row = self.failures_to_open;
        state.open(time.min(MAX_REST));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        unpoisoned(&self.state)
    }
}

impl State {
    /// Opens for this long, or longer if it was to be longer anyway.
    fn open(&mut self, time: Duration) {
        let until = Instant::now() + time;
        self.open_until = Some(self.open_until.map_or(until, |before| before.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const REST: Duration = Duration::from_secs(30);
    const MOMENT: Duration = Duration::from_millis(1);

    fn opened() -> CircuitBreaker {
        let breaker = CircuitBreaker::new(3, REST);
        for _ in 0..3 {
            breaker.failed();
        }
        breaker
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_after_failures_in_a_row_only() {
        let breaker = CircuitBreaker::new(3, REST);
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
    async fn after_the_rest_one_request_tries_and_its_success_lets_all_through() {
        let breaker = opened();
        advance(REST - MOMENT).await;
        assert!(!breaker.permits());
        advance(MOMENT).await;
        assert!(breaker.permits());
        assert!(!breaker.permits() && !breaker.permits(), "only one tries");
        breaker.succeeded();
        assert!(breaker.permits() && breaker.permits());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_try_begins_another_rest() {
        let breaker = opened();
        for _ in 0..4 {
            advance(REST).await;
            assert!(breaker.permits());
            advance(REST / 2).await;
            breaker.failed();
            advance(REST - MOMENT).await;
            assert!(!breaker.permits());
            advance(MOMENT).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_is_given_up_does_not_keep_it_open_for_ever() {
        let breaker = opened();
        advance(REST).await;
        assert!(breaker.permits());
        advance(REST).await;
        assert!(breaker.permits());
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_names_a_time_is_left_alone_for_that_time_but_not_for_ever() {
        let breaker = CircuitBreaker::new(3, REST);
        breaker.open_for(10 * REST);
        advance(10 * REST - MOMENT).await;
        assert!(!breaker.permits());
        advance(MOMENT).await;
        assert!(breaker.permits());
        breaker.open_for(Duration::MAX);
        advance(MAX_REST).await;
        assert!(breaker.permits());
    }

    #[tokio::test(start_paused = true)]
    async fn an_ordinary_failure_does_not_shorten_the_time_that_was_named() {
        let breaker = CircuitBreaker::new(1, REST);
        breaker.open_for(10 * REST);
        breaker.failed();
        advance(9 * REST).await;
        assert!(!breaker.permits());
    }
}
