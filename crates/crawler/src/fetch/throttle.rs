//! Keeps the delay between requests to a host; only it knows when a host may be asked next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::backend::HostDelay;
use crate::config::FetchConfig;

/// The longest pause that slow answers alone lead to: a host that always times out must not stall its pages for ever.
const MAX_ADAPTED: Duration = Duration::from_secs(30);

/// One part in so many of the newest answer goes into how long answers take lately.
const SMOOTHING: u32 = 4;

/// So many hosts are remembered before those are forgotten that may be asked at once anyway.
const FORGET_AT: usize = 10_000;

/// A host with a delay of its own is remembered for so long after it could have been asked. Its delay comes back with
/// the next look at its robots.txt, so to forget it is safe; not to would let one domain of endless names fill memory.
const QUIET: Duration = Duration::from_secs(5 * 60);

/// The pace of the hosts asked lately. Threads may share it, each with a runtime of its own.
#[derive(Debug)]
pub struct HostThrottle {
    delay: Duration,
    parallel: usize,
    adapts: bool,
    hosts: Mutex<ThrottledHosts>,
}

#[derive(Debug, Default)]
struct ThrottledHosts {
    by_name: HashMap<String, Arc<Host>>,
    forget_at: usize,
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
    /// How long the host's answers took lately, by the share of each in a pause; zero where that does not matter.
    answers: Duration,
}

impl Times {
    /// The time between requests: the delay, or longer where the host has become slow.
    fn pause(&self) -> Duration {
        self.delay.max(self.answers.min(MAX_ADAPTED))
    }
}

/// The right to ask a host once; it ends, and the delay begins to run, when this is dropped.
#[derive(Debug)]
pub struct ThrottlePermit {
    host: Arc<Host>,
    parallel: usize,
    adapts: bool,
    _slot: OwnedSemaphorePermit,
}

impl HostThrottle {
    /// The pace that these settings ask for.
    pub fn from_config(config: &FetchConfig) -> HostThrottle {
        let pace = HostThrottle::new(config.delay, config.max_per_host);
        if config.adaptive_delay { pace.adaptive() } else { pace }
    }

    /// At least `delay` between requests to a host, at most `parallel` in flight. With one in flight the delay
    /// runs from the end of one to the start of the next, otherwise from start to start.
    pub fn new(delay: Duration, parallel: usize) -> HostThrottle {
        let parallel = parallel.clamp(1, Semaphore::MAX_PERMITS);
        HostThrottle { delay, parallel, adapts: false, hosts: Mutex::default() }
    }

    /// Slows down with a host whose answers slow down: it is left alone for at least as long as they took lately, or
    /// a fair part of that where several are in flight. Only where there is a delay at all, and never below it.
    pub fn adaptive(self) -> HostThrottle {
        HostThrottle { adapts: true, ..self }
    }

    /// Waits until the host may be asked, and takes the turn.
    pub async fn acquire(&self, host: &str) -> ThrottlePermit {
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
                times.next = Instant::now() + times.pause();
            }
        }
        ThrottlePermit { host, parallel: self.parallel, adapts: self.adapts, _slot: slot }
    }

    /// Asks the host at this delay from now on, if it is the longer one; tells whether it is.
    pub fn slow_down(&self, host: &str, delay: Duration) -> bool {
        let host = self.host(host);
        let mut times = host.times();
        if delay <= times.delay {
            return false;
        }
        // The pause that runs now began when the last request ended.
        let before = times.pause();
        times.delay = delay;
        let longer = times.pause() - before;
        times.next += longer;
        true
    }

    /// Leaves the host alone for at least this long from now.
    pub fn cool_down(&self, host: &str, time: Duration) {
        if !time.is_zero() {
            self.host(host).rest(time);
        }
    }

    /// How the host is paced now; `None` for one that may be asked at any time, or never was.
    pub fn host_delay(&self, host: &str) -> Option<HostDelay> {
        let host = unpoisoned(&self.hosts).by_name.get(host).map(Arc::clone)?;
        let times = host.times();
        let rest = times.next.saturating_duration_since(Instant::now());
        let delay = times.pause();
        (!delay.is_zero() || !rest.is_zero()).then_some(HostDelay { delay, cooldown: rest })
    }

    /// The hosts that have to be left alone for a while, and how they are paced.
    pub fn cooldowns(&self) -> Vec<(String, HostDelay)> {
        let (hosts, now) = (unpoisoned(&self.hosts), Instant::now());
        let resting = hosts.by_name.iter().filter_map(|(name, host)| {
            let times = host.times();
            let rest = times.next.saturating_duration_since(now);
            (!rest.is_zero()).then(|| (name.clone(), HostDelay { delay: times.pause(), cooldown: rest }))
        });
        resting.collect()
    }

    fn host(&self, host: &str) -> Arc<Host> {
        let mut hosts = unpoisoned(&self.hosts);
        if let Some(host) = hosts.by_name.get(host) {
            return Arc::clone(host);
        }
        if hosts.by_name.len() >= hosts.forget_at.max(FORGET_AT) {
            let now = Instant::now();
            hosts.by_name.retain(|_, host| !host.is_as_new(self.delay, now));
            hosts.forget_at = 2 * hosts.by_name.len();
        }
        let new = Arc::new(Host {
            slots: Arc::new(Semaphore::new(self.parallel)),
            next_in_line: tokio::sync::Mutex::default(),
            times: Mutex::new(Times { delay: self.delay, next: Instant::now(), answers: Duration::ZERO }),
        });
        hosts.by_name.insert(host.to_owned(), Arc::clone(&new));
        new
    }
}

impl ThrottlePermit {
    /// Leaves the host alone for this long from now.
    pub fn rest(&self, time: Duration) {
        self.host.rest(time);
    }

    /// The host's answer, or its failure, took this long.
    pub fn took(&self, time: Duration) {
        let mut times = self.host.times();
        if self.adapts && !times.delay.is_zero() {
            let share = time / u32::try_from(self.parallel).unwrap_or(u32::MAX);
            times.answers = match times.answers {
                Duration::ZERO => share,
                before => (before * (SMOOTHING - 1) + share) / SMOOTHING,
            };
        }
    }
}

impl Drop for ThrottlePermit {
    fn drop(&mut self) {
        if self.parallel == 1 {
            let pause = self.host.times().pause();
            self.host.rest(pause);
        }
    }
}

impl Host {
    fn times(&self) -> MutexGuard<'_, Times> {
        unpoisoned(&self.times)
    }

    /// Nobody waits for it, it need not be waited for, and it wants no more than the others, or has not been asked for
    /// long: to forget it makes no request come too early.
    fn is_as_new(self: &Arc<Host>, delay: Duration, now: Instant) -> bool {
        let times = self.times();
        let quiet = if times.delay > delay { QUIET } else { Duration::ZERO };
        Arc::strong_count(self) == 1 && times.next + quiet <= now
    }

    fn rest(&self, time: Duration) {
        let mut times = self.times();
        times.next = times.next.max(Instant::now() + time);
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
        let pace = HostThrottle::new(SECOND, 1);
        let turn = pace.acquire("host").await;
        sleep(5 * SECOND).await;
        drop(turn);
        let ended = Instant::now();
        let _turn = pace.acquire("host").await;
        assert!(ended.elapsed() >= SECOND);
        assert!(ended.elapsed() < SECOND + Duration::from_millis(5));
    }

    #[tokio::test(start_paused = true)]
    async fn only_hosts_that_are_owed_nothing_are_forgotten() {
        let pace = HostThrottle::new(SECOND, 1);
        for number in 0..FORGET_AT - 2 {
            drop(pace.acquire(&format!("host{number}")).await);
        }
        pace.slow_down("slow", 5 * SECOND);
        sleep(10 * SECOND).await;
        let _held = pace.acquire("held").await;
        drop(pace.acquire("fresh").await);
        let hosts =
            || unpoisoned(&pace.hosts).by_name.keys().cloned().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(hosts(), ["fresh", "held", "slow"].map(String::from).into());
        drop(pace.acquire("slow").await);
        let ended = Instant::now();
        drop(pace.acquire("slow").await);
        assert!(ended.elapsed() >= 5 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_hosts_are_forgotten_once_they_have_been_quiet_for_long() {
        let pace = HostThrottle::new(SECOND, 1);
        let hosts = || unpoisoned(&pace.hosts).by_name.len();
        for round in 0..5 {
            for number in 0..FORGET_AT {
                pace.slow_down(&format!("{number}.{round}"), 30 * SECOND);
            }
            assert!(hosts() <= FORGET_AT, "{} in round {round}", hosts());
            sleep(QUIET + 30 * SECOND).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_hosts_delay_does_not_hold_up_another() {
        let pace = HostThrottle::new(SECOND, 1);
        drop(pace.acquire("slow").await);
        let begun = Instant::now();
        drop(pace.acquire("other").await);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn with_several_in_flight_the_delay_separates_the_starts() {
        let pace = Arc::new(HostThrottle::new(SECOND, 3));
        let begun = Instant::now();
        let asks = (0..6).map(|_| {
            let pace = Arc::clone(&pace);
            tokio::spawn(async move {
                let _turn = pace.acquire("host").await;
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
        let pace = Arc::new(HostThrottle::new(SECOND, 1));
        let turn = pace.acquire("host").await;
        let waiting = tokio::spawn({
            let pace = Arc::clone(&pace);
            async move {
                drop(pace.acquire("host").await);
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
        let pace = HostThrottle::new(SECOND, 1);
        drop(pace.acquire("host").await);
        let ended = Instant::now();
        pace.slow_down("host", 3 * SECOND);
        pace.slow_down("host", SECOND / 2);
        drop(pace.acquire("host").await);
        assert!(ended.elapsed() >= 3 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_given_up_while_waiting_leaves_the_host_to_the_next() {
        let pace = HostThrottle::new(SECOND, 1);
        drop(pace.acquire("host").await);
        let given_up = tokio::time::timeout(SECOND / 2, pace.acquire("host")).await;
        assert!(given_up.is_err());
        let begun = Instant::now();
        drop(pace.acquire("host").await);
        assert!(begun.elapsed() <= SECOND);
    }

    /// Asks a host once, who takes so long to answer, and tells how long the pause after it is.
    async fn pause_after(pace: &HostThrottle, answer: Duration) -> Duration {
        let turn = pace.acquire("host").await;
        sleep(answer).await;
        turn.took(answer);
        drop(turn);
        pace.host_delay("host").map_or(Duration::ZERO, |host_delay| host_delay.cooldown)
    }

    #[tokio::test(start_paused = true)]
    async fn slow_answers_lead_to_longer_pauses_and_quick_ones_back_to_the_delay() {
        let pace = HostThrottle::new(SECOND, 1).adaptive();
        assert_eq!(pause_after(&pace, SECOND / 10).await, SECOND, "never below the delay");
        assert!(pause_after(&pace, 8 * SECOND).await > 2 * SECOND, "the newest answer counts for a quarter");
        for _ in 0..20 {
            pause_after(&pace, 8 * SECOND).await;
        }
        let ended = Instant::now();
        assert_eq!(pace.host_delay("host").unwrap().delay.as_secs_f64().round(), 8.0);
        drop(pace.acquire("host").await);
        assert!(ended.elapsed() > 7 * SECOND, "{:?}", ended.elapsed());
        for _ in 0..20 {
            pause_after(&pace, SECOND / 100).await;
        }
        assert_eq!(pause_after(&pace, SECOND / 100).await, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_is_slow_enough_for_a_pause_beyond_the_longest() {
        let pace = HostThrottle::new(SECOND, 1).adaptive();
        for _ in 0..3 {
            assert_eq!(pause_after(&pace, 100 * SECOND).await, MAX_ADAPTED);
        }
        assert_eq!(
            pause_after(&HostThrottle::new(2 * MAX_ADAPTED, 1).adaptive(), SECOND).await,
            2 * MAX_ADAPTED
        );
    }

    #[tokio::test(start_paused = true)]
    async fn slow_answers_change_nothing_where_there_is_no_delay_or_nobody_adapts() {
        assert_eq!(
            pause_after(&HostThrottle::new(Duration::ZERO, 1).adaptive(), 5 * SECOND).await,
            Duration::ZERO
        );
        assert_eq!(pause_after(&HostThrottle::new(SECOND, 1), 5 * SECOND).await, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn several_in_flight_share_the_pause_that_slow_answers_lead_to() {
        let pace = HostThrottle::new(SECOND, 4).adaptive();
        pause_after(&pace, 12 * SECOND).await;
        assert_eq!(pace.host_delay("host").unwrap().delay, 3 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_is_left_alone_for_as_long_as_somebody_else_says() {
        let pace = HostThrottle::new(SECOND, 1);
        assert_eq!(pace.host_delay("host"), None, "nothing is known yet");
        pace.cool_down("host", 5 * SECOND);
        pace.cool_down("host", 2 * SECOND);
        assert_eq!(pace.host_delay("host"), Some(HostDelay { delay: SECOND, cooldown: 5 * SECOND }));
        let begun = Instant::now();
        drop(pace.acquire("host").await);
        assert!(begun.elapsed() >= 5 * SECOND);
        assert_eq!(pace.host_delay("host"), Some(HostDelay { delay: SECOND, cooldown: SECOND }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_without_delay_and_rest_has_no_pacing() {
        let pace = HostThrottle::new(Duration::ZERO, 1);
        drop(pace.acquire("host").await);
        assert_eq!(pace.host_delay("host"), None);
        assert!(pace.slow_down("host", SECOND) && !pace.slow_down("host", SECOND));
        assert_eq!(pace.host_delay("host").map(|host_delay| host_delay.delay), Some(SECOND));
    }
}
