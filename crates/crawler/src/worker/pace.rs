//! Keeps the delay between requests to a host; only it knows when a host may be asked next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// The pace of every host asked so far.
#[derive(Debug)]
pub struct Pace {
    delay: Duration,
    parallel: usize,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
}

#[derive(Debug)]
struct Host {
    /// One permit for each request that may be in flight.
    slots: Arc<Semaphore>,
    /// Held by the one who is next, so that turns come in the order of asking.
    next_in_line: tokio::sync::Mutex<()>,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    delay: Duration,
    next: Instant,
}

/// The right to ask a host once; it ends, and the delay begins to run, when this is dropped.
#[derive(Debug)]
pub struct Turn {
    host: Arc<Host>,
    alone: bool,
    _slot: OwnedSemaphorePermit,
}

impl Pace {
    /// At least `delay` between requests to a host, at most `parallel` in flight. With one in flight the delay
    /// runs from the end of one to the start of the next, otherwise from start to start.
    pub fn new(delay: Duration, parallel: usize) -> Pace {
        Pace { delay, parallel: parallel.clamp(1, Semaphore::MAX_PERMITS), hosts: Mutex::default() }
    }

    /// Waits until the host may be asked, and takes the turn.
    pub async fn turn(&self, host: &str) -> Turn {
        let host = self.host(host);
        let slots = Arc::clone(&host.slots);
        let slot = slots.acquire_owned().await.expect("the semaphore is never closed");
        {
            let _line = host.next_in_line.lock().await;
            // Asked anew after each sleep: a Retry-After may have moved the time meanwhile.
            loop {
                let next = host.times().next;
                if next <= Instant::now() {
                    break;
                }
                sleep_until(next).await;
            }
            if self.parallel > 1 {
                let mut times = host.times();
                times.next = Instant::now() + times.delay;
            }
        }
        Turn { host, alone: self.parallel == 1, _slot: slot }
    }

    /// Asks the host at this delay from now on, if it is the longer one.
    pub fn slow_down(&self, host: &str, delay: Duration) {
        let host = self.host(host);
        let mut times = host.times();
        if delay > times.delay {
            // The delay that runs now began when the last request ended.
            let longer = delay - times.delay;
            times.next += longer;
            times.delay = delay;
        }
    }

    fn host(&self, host: &str) -> Arc<Host> {
        let mut hosts = unpoisoned(&self.hosts);
        if let Some(host) = hosts.get(host) {
            return Arc::clone(host);
        }
        let new = Arc::new(Host {
            slots: Arc::new(Semaphore::new(self.parallel)),
            next_in_line: tokio::sync::Mutex::default(),
            times: Mutex::new(Times { delay: self.delay, next: Instant::now() }),
        });
        hosts.insert(host.to_owned(), Arc::clone(&new));
        new
    }
}

impl Turn {
    /// Leaves the host alone for this long from now.
    pub fn rest(&self, time: Duration) {
        let mut times = self.host.times();
        times.next = times.next.max(Instant::now() + time);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.alone {
            let mut times = self.host.times();
            times.next = times.next.max(Instant::now() + times.delay);
        }
    }
}

impl Host {
    fn times(&self) -> MutexGuard<'_, Times> {
        unpoisoned(&self.times)
    }
}

/// Nothing in here panics while holding a lock, and the times stay usable if something ever did.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_delay_runs_from_the_end_of_one_request_to_the_next() {
        let pace = Pace::new(SECOND, 1);
        let turn = pace.turn("host").await;
        sleep(5 * SECOND).await;
        drop(turn);
        let ended = Instant::now();
        let _turn = pace.turn("host").await;
        assert!(ended.elapsed() >= SECOND);
        assert!(ended.elapsed() < SECOND + Duration::from_millis(5));
    }

    #[tokio::test(start_paused = true)]
    async fn one_hosts_delay_does_not_hold_up_another() {
        let pace = Pace::new(SECOND, 1);
        drop(pace.turn("slow").await);
        let begun = Instant::now();
        drop(pace.turn("other").await);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn with_several_in_flight_the_delay_separates_the_starts() {
        let pace = Arc::new(Pace::new(SECOND, 3));
        let begun = Instant::now();
        let asks = (0..6).map(|_| {
            let pace = Arc::clone(&pace);
            tokio::spawn(async move {
                let _turn = pace.turn("host").await;
                let started = begun.elapsed();
                sleep(2 * SECOND + SECOND / 2).await;
                started
            })
        });
        let mut starts = Vec::new();
        for ask in asks.collect::<Vec<_>>() {
            starts.push(ask.await.unwrap());
        }
        starts.sort();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{starts:?}");
        assert!(starts[2] < 3 * SECOND, "three are in flight at once: {starts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_is_waited_out_also_by_those_who_wait_already() {
        let pace = Arc::new(Pace::new(SECOND, 1));
        let turn = pace.turn("host").await;
        let waiting = tokio::spawn({
            let pace = Arc::clone(&pace);
            async move {
                drop(pace.turn("host").await);
                Instant::now()
            }
        });
        let begun = Instant::now();
        turn.rest(7 * SECOND);
        drop(turn);
        assert!(waiting.await.unwrap() - begun >= 7 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_longer_delay_wins_and_a_shorter_one_does_not() {
        let pace = Pace::new(SECOND, 1);
        drop(pace.turn("host").await);
        let ended = Instant::now();
        pace.slow_down("host", 3 * SECOND);
        pace.slow_down("host", SECOND / 2);
        drop(pace.turn("host").await);
        assert!(ended.elapsed() >= 3 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_given_up_while_waiting_leaves_the_host_to_the_next() {
        let pace = Pace::new(SECOND, 1);
        drop(pace.turn("host").await);
        let given_up = tokio::time::timeout(SECOND / 2, pace.turn("host")).await;
        assert!(given_up.is_err());
        let begun = Instant::now();
        drop(pace.turn("host").await);
        assert!(begun.elapsed() <= SECOND);
    }
}
