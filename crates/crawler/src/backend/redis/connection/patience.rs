//! Tells when Redis is in trouble and when that is over, while those who want something of it wait.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Receives messages for the operator.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// How long a trouble lasts before anybody is told: many are over sooner.
const SILENCE: Duration = Duration::from_secs(1);

/// How often a trouble that lasts is told of.
const REMINDER: Duration = Duration::from_secs(10);

/// Replicas that did not confirm in time are given so much less of it the next time, until they do.
const LAGGING: u32 = 20;

/// The pauses between two tries; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pause after this one.
pub(super) fn longer(pause: Duration) -> Duration {
    (2 * pause).clamp(FIRST_PAUSE, LONGEST_PAUSE)
}

/// The trouble that Redis is in, if it is.
pub(super) struct Patience {
    /// Where Redis is, for messages.
    address: String,
    notice: Notice,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many wait for what they asked for once already. Counted, because some may be answered while others are
    /// not: where memory is full, who reads is.
    stuck: usize,
    since: Option<Instant>,
    why: String,
    told: bool,
    /// When it was last told that replicas did not confirm.
    unconfirmed: Option<Instant>,
    /// Whether they did not, the last time.
    lags: bool,
}

/// Somebody who waits; not any more when this is dropped.
pub(super) struct Stuck {
    patience: Arc<Patience>,
}

impl Patience {
    pub(super) fn new(address: String, notice: Notice) -> Patience {
        Patience { address, notice, state: Mutex::default() }
    }

    /// Since when there has been trouble, if there is.
    pub(super) fn since(&self) -> Option<Instant> {
        self.state().since
    }

    /// Somebody has to wait who asked at that time.
    pub(super) fn wait(self: &Arc<Self>, asked: Instant, why: &impl fmt::Display) -> Stuck {
        let mut state = self.state();
        state.stuck += 1;
        state.why = why.to_string();
        if state.since.is_none() {
            state.since = Some(asked);
            state.told = false;
            tokio::spawn(Arc::clone(self).remind(asked));
        }
        drop(state);
        Stuck { patience: Arc::clone(self) }
    }

    /// Tells of a trouble for as long as it lasts.
    async fn remind(self: Arc<Self>, since: Instant) {
        sleep(SILENCE.saturating_sub(since.elapsed())).await;
        loop {
            let message = {
                let mut state = self.state();
                if state.since != Some(since) {
                    return;
                }
                state.told = true;
                let (address, why, seconds) = (&self.address, &state.why, since.elapsed().as_secs());
                format!("waiting for Redis at {address} for {seconds} s now: {why}")
            };
            (self.notice)(&message);
            sleep(REMINDER).await;
        }
    }

    /// Fewer replicas confirmed than wanted: told, but not for every page anew.
    pub(super) fn unconfirmed(&self, confirmed: i64, wanted: u32) {
        let mut state = self.state();
        state.lags = true;
        if state.unconfirmed.is_some_and(|told| told.elapsed() < REMINDER) {
            return;
        }
        state.unconfirmed = Some(Instant::now());
        drop(state);
        (self.notice)(&format!(
            "{confirmed} of {wanted} replicas of Redis at {} confirmed in time; should it fail over now, what is newest \
             may be lost",
            self.address
        ));
    }

    /// As many replicas confirmed as were wanted.
    pub(super) fn confirmed(&self) {
        self.state().lags = false;
    }

    /// How long replicas are waited for that may be waited for so long: where there are none at all, as after a failover,
    /// nobody shall wait for them page by page.
    pub(super) fn wait_for_replicas(&self, within: Duration) -> Duration {
        if self.state().lags { within / LAGGING } else { within }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stuck {
    /// It still is, and now for this reason.
    pub(super) fn still(&self, why: &impl fmt::Display) {
        self.patience.state().why = why.to_string();
    }

    /// It is not waited for any longer: the trouble is not over, and nobody is told that it is.
    pub(super) fn for_ever(self) {
        std::mem::forget(self);
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        let mut state = self.patience.state();
        state.stuck -= 1;
        if state.stuck > 0 {
            return;
        }
        let Some(since) = state.since.take() else { return };
        if std::mem::take(&mut state.told) {
            drop(state);
            let (address, seconds) = (&self.patience.address, since.elapsed().as_secs());
            (self.patience.notice)(&format!("Redis at {address} answers again after {seconds} s"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> (Arc<Patience>, Arc<Mutex<Vec<String>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let notice = {
            let told = Arc::clone(&told);
            Arc::new(move |message: &str| told.lock().unwrap().push(message.to_owned()))
        };
        (Arc::new(Patience::new("redis://h".into(), notice)), told)
    }

    #[tokio::test(start_paused = true)]
    async fn a_trouble_that_passes_at_once_is_not_told() {
        let (patience, told) = told();
        let stuck = patience.wait(Instant::now(), &"cut");
        sleep(SILENCE / 2).await;
        assert!(patience.since().is_some());
        drop(stuck);
        sleep(10 * REMINDER).await;
        assert!(told.lock().unwrap().is_empty() && patience.since().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_trouble_is_told_when_it_begins_while_it_lasts_and_when_the_last_one_who_waited_has_been_answered()
     {
        let (patience, told) = told();
        let first = patience.wait(Instant::now(), &"cut");
        let second = patience.wait(Instant::now(), &"cut");
        sleep(Duration::from_millis(5_500)).await;
        drop(first);
        second.still(&"refused");
        sleep(Duration::from_secs(7)).await;
        drop(second);
        sleep(10 * REMINDER).await;
        assert_eq!(
            *told.lock().unwrap(),
            [
                "waiting for Redis at redis://h for 1 s now: cut",
                "waiting for Redis at redis://h for 11 s now: refused",
                "Redis at redis://h answers again after 12 s",
            ]
        );
    }
}
