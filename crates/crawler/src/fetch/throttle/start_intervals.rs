//! Enforces a minimum time between the starts of requests that have something in common: their site or their address.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::time_setting::TimeSetting;
use super::{MIN_HOSTS_TO_FORGET, sleep_a_while, unpoisoned};

/// The minimum time between the starts of requests with the same key.
#[derive(Debug)]
pub(super) struct StartIntervals<K> {
    interval: Arc<TimeSetting>,
    known: Mutex<KnownStarts<K>>,
}

#[derive(Debug)]
struct KnownStarts<K> {
    by_key: HashMap<K, Arc<NextStart>>,
    /// Number of keys at which the next cleanup runs.
    next_cleanup: usize,
}

/// When the next request with a key may start.
#[derive(Debug)]
pub(super) struct NextStart {
    interval: Arc<TimeSetting>,
    /// Locked by the next request, so that requests of several hosts take turns.
    next_in_line: tokio::sync::Mutex<()>,
    times: Mutex<StartTimes>,
}

#[derive(Debug)]
struct StartTimes {
    /// When the next request may connect.
    next_turn: Instant,
    /// When the next request may be written.
    next_start: Instant,
}

/// The right to connect, if it is taken.
pub(super) struct ConnectTurn<'a> {
    next: &'a NextStart,
    _in_line: tokio::sync::MutexGuard<'a, ()>,
}

/// A key of which no other request can start.
pub(super) struct LockedStart<'a> {
    interval: Duration,
    times: MutexGuard<'a, StartTimes>,
}

impl<K: Hash + Eq> StartIntervals<K> {
    pub(super) fn new(interval: Duration) -> StartIntervals<K> {
        let known = KnownStarts { by_key: HashMap::new(), next_cleanup: MIN_HOSTS_TO_FORGET };
        StartIntervals { interval: Arc::new(TimeSetting::new(interval)), known: Mutex::new(known) }
    }

    /// Whether there is a minimum time.
    pub(super) fn has_interval(&self) -> bool {
        !self.interval.get().is_zero()
    }

    /// Changes the interval, also for requests that wait for an earlier one. They do not wait longer than the new interval from now.
    pub(super) fn set_interval(&self, interval: Duration) {
        let (known, latest) = (unpoisoned(&self.known), Instant::now() + interval);
        let longer = interval.saturating_sub(self.interval.replace(interval));
        for next in known.by_key.values() {
            let mut times = unpoisoned(&next.times);
            times.next_turn = (times.next_turn + longer).min(latest);
            times.next_start = (times.next_start + longer).min(latest);
        }
    }

    /// The time for a key; `None` without an interval, which then costs nothing. A request with a key that is not known may start
    /// now.
    pub(super) fn next_start(&self, key: impl FnOnce() -> K) -> Option<Arc<NextStart>> {
        self.next_start_after(key, Duration::ZERO)
    }

    /// The same, but a request with a key that is not known may start after this time.
    pub(super) fn next_start_after(&self, key: impl FnOnce() -> K, time: Duration) -> Option<Arc<NextStart>> {
        if !self.has_interval() {
            return None;
        }
        let (mut known, now) = (unpoisoned(&self.known), Instant::now());
        if known.by_key.len() >= known.next_cleanup {
            // No request uses these, and the next one may start at once.
            known
                .by_key
                .retain(|_, next| Arc::strong_count(next) > 1 || next.remaining(now) > Duration::ZERO);
            known.next_cleanup = MIN_HOSTS_TO_FORGET.max(2 * known.by_key.len());
        }
        let next = known.by_key.entry(key()).or_insert_with(|| {
            Arc::new(NextStart {
                interval: Arc::clone(&self.interval),
                next_in_line: tokio::sync::Mutex::default(),
                times: Mutex::new(StartTimes { next_turn: now + time, next_start: now + time }),
            })
        });
        Some(Arc::clone(next))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        unpoisoned(&self.known).by_key.len()
    }

    /// How long no request with this key may start.
    pub(super) fn remaining(&self, key: &K) -> Duration {
        let known = unpoisoned(&self.known);
        known.by_key.get(key).map_or(Duration::ZERO, |next| next.remaining(Instant::now()))
    }
}

impl NextStart {
    /// Waits in line until a request may connect.
    pub(super) async fn turn(next: Option<&NextStart>) -> Option<ConnectTurn<'_>> {
        let next = next?;
        let turn = ConnectTurn { next, _in_line: next.next_in_line.lock().await };
        loop {
            let next_turn = unpoisoned(&next.times).next_turn;
            if next_turn <= Instant::now() {
                return Some(turn);
            }
            sleep_a_while(next_turn).await;
        }
    }

    pub(super) fn lock(&self) -> LockedStart<'_> {
        LockedStart { interval: self.interval.get(), times: unpoisoned(&self.times) }
    }

    fn remaining(&self, now: Instant) -> Duration {
        unpoisoned(&self.times).next_start.saturating_duration_since(now)
    }
}

impl ConnectTurn<'_> {
    /// Lets the next request wait for the interval.
    pub(super) fn take(self) {
        unpoisoned(&self.next.times).next_turn = Instant::now() + self.next.interval.get();
    }
}

impl LockedStart<'_> {
    pub(super) fn next_start(&self) -> Instant {
        self.times.next_start
    }

    /// Records the start of a request.
    pub(super) fn start(&mut self, now: Instant) {
        self.times.next_start = now + self.interval;
        self.times.next_turn = self.times.next_turn.max(self.times.next_start);
    }
}
