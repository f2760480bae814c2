//! Enforces the delay between requests to a host. Only this file knows when a host may receive the next request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::backend::HostDelay;
use crate::config::FetchConfig;

/// Maximum delay derived from slow responses: a host that always timing out must not stall its URLs forever.
const MAX_ADAPTIVE_DELAY: Duration = Duration::from_secs(30);

/// The newest response time has a weight of 1/4 in the moving average.
const SMOOTHING: u32 = 4;

/// Number of hosts from which hosts without a pending delay are forgotten.
const MIN_HOSTS_TO_FORGET: usize = 10_000;

/// How long a host with a longer delay of its own is remembered after the delay has passed. Forgetting it is safe,
/// because the next robots.txt check applies the delay again. Without a limit, one domain with endless host names could
/// fill the memory.
const SLOW_HOST_TTL: Duration = Duration::from_secs(5 * 60);

/// The delays of recently used hosts. Threads with separate runtimes may share it.
#[derive(Debug)]
pub struct HostThrottle {
    delay: Duration,
    max_in_flight: usize,
    adaptive: bool,
    hosts: Mutex<ThrottledHosts>,
}

#[derive(Debug, Default)]
struct ThrottledHosts {
    by_name: HashMap<String, Arc<ThrottledHost>>,
    /// Number of hosts at which the next cleanup runs.
    next_cleanup: usize,
}

#[derive(Debug)]
struct ThrottledHost {
    /// One slot for each request that may be in flight.
    slots: Arc<Semaphore>,
    /// Locked by the next request, so that permits are granted in order.
    next_in_line: tokio::sync::Mutex<()>,
    timing: Mutex<HostTiming>,
}

#[derive(Debug)]
struct HostTiming {
    delay: Duration,
    /// When the next permit may be granted.
    next: Instant,
    /// When the next request may be written. Earlier than `next` while a request that has its permit is connecting.
    next_start: Instant,
    /// Moving average of the response timing, each divided by the number of requests in flight; zero if the delay is
    /// not adaptive.
    response_time: Duration,
}

impl HostTiming {
    /// The delay between requests, adapted to the response timing.
    fn effective_delay(&self) -> Duration {
        self.delay.max(self.response_time.min(MAX_ADAPTIVE_DELAY))
    }
}

/// Permission to send a host one request, once [`start`](ThrottlePermit::start) returns. If only one request may be in
/// flight, dropping the permit starts the delay.
#[derive(Debug)]
pub struct ThrottlePermit {
    host: Arc<ThrottledHost>,
    max_in_flight: usize,
    adaptive: bool,
    _slot: OwnedSemaphorePermit,
}

/// The host got a cooldown after the permit was granted. A request needs a new permit.
#[derive(Debug, PartialEq, Eq)]
pub struct CoolingDown;

impl HostThrottle {
    /// The throttle for this configuration.
    pub fn from_config(config: &FetchConfig) -> HostThrottle {
        let throttle = HostThrottle::new(config.delay, config.max_per_host);
        if config.adaptive_delay { throttle.adaptive() } else { throttle }
    }

    /// A throttle with at least `delay` between requests to a host and at most `max_in_flight` of them in flight. If
    /// `max_in_flight` is 1, the delay runs from the end of a request to the start of the next, otherwise from start to
    /// start. A request starts when it is written, after connecting.
    pub fn new(delay: Duration, max_in_flight: usize) -> HostThrottle {
        let max_in_flight = max_in_flight.clamp(1, Semaphore::MAX_PERMITS);
        HostThrottle { delay, max_in_flight, adaptive: false, hosts: Mutex::default() }
    }

    /// Adapts the delay to a host's response timing: it is at least their moving average, divided by the number of
    /// requests in flight, and never less than the configured delay. Without a delay nothing changes.
    pub fn adaptive(self) -> HostThrottle {
        HostThrottle { adaptive: true, ..self }
    }

    /// Waits until a connection for a request may be opened. The request itself waits for [`ThrottlePermit::start`].
    pub async fn acquire(&self, host: &str) -> ThrottlePermit {
        let host = self.host(host);
        let slots = Arc::clone(&host.slots);
        let slot = slots.acquire_owned().await.expect("the semaphore is never closed");
        {
            let _guard = host.next_in_line.lock().await;
            // Read again after each sleep, because a Retry-After may have moved it.
            loop {
                let next = host.timing().next;
                if next <= Instant::now() {
                    break;
                }
                sleep_until(next).await;
            }
            if self.max_in_flight > 1 {
                let mut timing = host.timing();
                timing.next = Instant::now() + timing.effective_delay();
            }
        }
        ThrottlePermit { host, max_in_flight: self.max_in_flight, adaptive: self.adaptive, _slot: slot }
    }

    /// Raises the host's delay. Returns false if the delay is not longer than the current one.
    pub fn slow_down(&self, host: &str, delay: Duration) -> bool {
        let host = self.host(host);
        let mut timing = host.timing();
        if delay <= timing.delay {
            return false;
        }
        // The current delay started when the last request ended.
        let before = timing.effective_delay();
        timing.delay = delay;
        let increase = timing.effective_delay() - before;
        timing.next += increase;
        timing.next_start += increase;
        true
    }

    /// Sends the host no request for at least this long from now.
    pub fn cool_down(&self, host: &str, time: Duration) {
        if !time.is_zero() {
            self.host(host).cool_down(time);
        }
    }

    /// The host's delay and remaining cooldown; `None` if it has neither, or received no request.
    pub fn host_delay(&self, host: &str) -> Option<HostDelay> {
        let host = unpoisoned(&self.hosts).by_name.get(host).map(Arc::clone)?;
        let timing = host.timing();
        let cooldown = timing.next.saturating_duration_since(Instant::now());
        let delay = timing.effective_delay();
        (!delay.is_zero() || !cooldown.is_zero()).then_some(HostDelay { delay, cooldown })
    }

    /// The hosts with a remaining cooldown, and their delays.
    pub fn cooldowns(&self) -> Vec<(String, HostDelay)> {
        let (hosts, now) = (unpoisoned(&self.hosts), Instant::now());
        let cooling = hosts.by_name.iter().filter_map(|(name, host)| {
            let timing = host.timing();
            let cooldown = timing.next.saturating_duration_since(now);
            (!cooldown.is_zero())
                .then(|| (name.clone(), HostDelay { delay: timing.effective_delay(), cooldown }))
        });
        cooling.collect()
    }

    fn host(&self, host: &str) -> Arc<ThrottledHost> {
        let mut hosts = unpoisoned(&self.hosts);
        if let Some(host) = hosts.by_name.get(host) {
            return Arc::clone(host);
        }
        if hosts.by_name.len() >= hosts.next_cleanup.max(MIN_HOSTS_TO_FORGET) {
            let now = Instant::now();
            hosts.by_name.retain(|_, host| !host.can_be_forgotten(self.delay, now));
            hosts.next_cleanup = 2 * hosts.by_name.len();
        }
        let now = Instant::now();
        let new = Arc::new(ThrottledHost {
            slots: Arc::new(Semaphore::new(self.max_in_flight)),
            next_in_line: tokio::sync::Mutex::default(),
            timing: Mutex::new(HostTiming {
                delay: self.delay,
                next: now,
                next_start: now,
                response_time: Duration::ZERO,
            }),
        });
        hosts.by_name.insert(host.to_owned(), Arc::clone(&new));
        new
    }
}

impl ThrottlePermit {
    /// Waits until the request may be written, and returns the time of its start. The wait is at most the delay:
    /// connections are opened in the same rhythm, but take different times. If the host got a longer cooldown meanwhile,
    /// the request cannot start with this permit.
    pub async fn start(&self) -> Result<Instant, CoolingDown> {
        loop {
            let next_start = {
                let (mut timing, now) = (self.host.timing(), Instant::now());
                let delay = timing.effective_delay();
                if timing.next_start <= now {
                    if self.max_in_flight > 1 {
                        timing.next_start = now + delay;
                        timing.next = timing.next.max(timing.next_start);
                    }
                    return Ok(now);
                }
                if timing.next_start > now + delay {
                    return Err(CoolingDown);
                }
                timing.next_start
            };
            sleep_until(next_start).await;
        }
    }

    /// Sends the host no request for at least this long from now.
    pub fn cool_down(&self, time: Duration) {
        self.host.cool_down(time);
    }

    /// Records how long the response, or the failure, took.
    pub fn record_response_time(&self, time: Duration) {
        let mut timing = self.host.timing();
        if self.adaptive && !timing.delay.is_zero() {
            let share = time / u32::try_from(self.max_in_flight).unwrap_or(u32::MAX);
            timing.response_time = match timing.response_time {
                Duration::ZERO => share,
                before => (before * (SMOOTHING - 1) + share) / SMOOTHING,
            };
        }
    }
}

impl Drop for ThrottlePermit {
    fn drop(&mut self) {
        if self.max_in_flight == 1 {
            let delay = self.host.timing().effective_delay();
            self.host.cool_down(delay);
        }
    }
}

impl ThrottledHost {
    fn timing(&self) -> MutexGuard<'_, HostTiming> {
        unpoisoned(&self.timing)
    }

    /// Whether forgetting the host cannot make a request come too early: no request uses or waits for it, its delay has
    /// passed, and if it has a longer delay than other hosts, it has been idle for long.
    fn can_be_forgotten(self: &Arc<ThrottledHost>, delay: Duration, now: Instant) -> bool {
        let timing = self.timing();
        let ttl = if timing.delay > delay { SLOW_HOST_TTL } else { Duration::ZERO };
        Arc::strong_count(self) == 1 && timing.next + ttl <= now
    }

    fn cool_down(&self, time: Duration) {
        let (mut timing, until) = (self.timing(), Instant::now() + time);
        timing.next = timing.next.max(until);
        timing.next_start = timing.next_start.max(until);
    }
}

/// Locks a mutex and ignores poisoning: no code here panics while it holds a lock, and the state would stay valid.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn delay_runs_from_the_end_of_a_request_to_the_next() {
        let throttle = HostThrottle::new(SECOND, 1);
        let permit = throttle.acquire("host").await;
        sleep(5 * SECOND).await;
        drop(permit);
        let ended = Instant::now();
        let _permit = throttle.acquire("host").await;
        assert!(ended.elapsed() >= SECOND);
        assert!(ended.elapsed() < SECOND + Duration::from_millis(5));
    }

    #[tokio::test(start_paused = true)]
    async fn only_hosts_without_a_pending_delay_are_forgotten() {
        let throttle = HostThrottle::new(SECOND, 1);
        for number in 0..MIN_HOSTS_TO_FORGET - 2 {
            drop(throttle.acquire(&format!("host{number}")).await);
        }
        throttle.slow_down("slow", 5 * SECOND);
        sleep(10 * SECOND).await;
        let _held = throttle.acquire("held").await;
        drop(throttle.acquire("fresh").await);
        let hosts =
            || unpoisoned(&throttle.hosts).by_name.keys().cloned().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(hosts(), ["fresh", "held", "slow"].map(String::from).into());
        drop(throttle.acquire("slow").await);
        let ended = Instant::now();
        drop(throttle.acquire("slow").await);
        assert!(ended.elapsed() >= 5 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_hosts_are_forgotten_after_a_long_idle_time() {
        let throttle = HostThrottle::new(SECOND, 1);
        let hosts = || unpoisoned(&throttle.hosts).by_name.len();
        for round in 0..5 {
            for number in 0..MIN_HOSTS_TO_FORGET {
                throttle.slow_down(&format!("{number}.{round}"), 30 * SECOND);
            }
            assert!(hosts() <= MIN_HOSTS_TO_FORGET, "{} in round {round}", hosts());
            sleep(SLOW_HOST_TTL + 30 * SECOND).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn delay_of_a_host_does_not_block_other_hosts() {
        let throttle = HostThrottle::new(SECOND, 1);
        drop(throttle.acquire("slow").await);
        let started_at = Instant::now();
        drop(throttle.acquire("other").await);
        assert_eq!(started_at.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn with_several_requests_in_flight_the_delay_runs_from_start_to_start() {
        let throttle = Arc::new(HostThrottle::new(SECOND, 3));
        let started_at = Instant::now();
        let requests = (0..6).map(|_| {
            let throttle = Arc::clone(&throttle);
            tokio::spawn(async move {
                let _permit = throttle.acquire("host").await;
                let started = started_at.elapsed();
                sleep(2 * SECOND + SECOND / 2).await;
                started
            })
        });
        let mut starts = Vec::new();
        for request in requests.collect::<Vec<_>>() {
            starts.push(request.await.unwrap());
        }
        starts.sort();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{starts:?}");
        assert!(starts[2] < 3 * SECOND, "three requests are in flight at once: {starts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn delay_between_starts_holds_however_long_connecting_takes() {
        let throttle = Arc::new(HostThrottle::new(SECOND, 4));
        let begin = Instant::now();
        let requests = [9, 0, 12, 1, 31, 2].map(|tenths| {
            let throttle = Arc::clone(&throttle);
            tokio::spawn(async move {
                let permit = throttle.acquire("host").await;
                sleep(tenths * SECOND / 10).await;
                let started = permit.start().await.unwrap() - begin;
                sleep(SECOND / 10).await;
                started
            })
        });
        let mut starts = Vec::new();
        for request in requests {
            starts.push(request.await.unwrap());
        }
        starts.sort();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{starts:?}");
        assert!(starts[5] < 10 * SECOND, "{starts:?}");
        let last = throttle.host_delay("host").unwrap().cooldown;
        assert!(last >= SECOND * 8 / 10, "the delay runs from the last start: {last:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_is_connecting_needs_a_new_permit_after_a_cooldown() {
        let throttle = HostThrottle::new(SECOND, 2);
        let [first, second] = [throttle.acquire("host").await, throttle.acquire("host").await];
        first.start().await.unwrap();
        first.cool_down(7 * SECOND);
        let cooled = Instant::now();
        assert_eq!(second.start().await, Err(CoolingDown));
        assert_eq!(cooled.elapsed(), Duration::ZERO);
        drop(second);
        let second = throttle.acquire("host").await;
        assert!(second.start().await.unwrap() - cooled >= 7 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn cooldown_applies_to_requests_that_already_wait() {
        let throttle = Arc::new(HostThrottle::new(SECOND, 1));
        let permit = throttle.acquire("host").await;
        let waiting = tokio::spawn({
            let throttle = Arc::clone(&throttle);
            async move {
                drop(throttle.acquire("host").await);
                Instant::now()
            }
        });
        let started_at = Instant::now();
        permit.cool_down(7 * SECOND);
        drop(permit);
        assert!(waiting.await.unwrap() - started_at >= 7 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_down_raises_the_delay_and_never_lowers_it() {
        let throttle = HostThrottle::new(SECOND, 1);
        drop(throttle.acquire("host").await);
        let ended = Instant::now();
        throttle.slow_down("host", 3 * SECOND);
        throttle.slow_down("host", SECOND / 2);
        drop(throttle.acquire("host").await);
        assert!(ended.elapsed() >= 3 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_acquire_does_not_delay_the_next_one() {
        let throttle = HostThrottle::new(SECOND, 1);
        drop(throttle.acquire("host").await);
        let cancelled = tokio::time::timeout(SECOND / 2, throttle.acquire("host")).await;
        assert!(cancelled.is_err());
        let started_at = Instant::now();
        drop(throttle.acquire("host").await);
        assert!(started_at.elapsed() <= SECOND);
    }

    /// Simulates a request with this response time and returns the delay after it.
    async fn delay_after(throttle: &HostThrottle, response_time: Duration) -> Duration {
        let permit = throttle.acquire("host").await;
        sleep(response_time).await;
        permit.record_response_time(response_time);
        drop(permit);
        throttle.host_delay("host").map_or(Duration::ZERO, |host_delay| host_delay.cooldown)
    }

    #[tokio::test(start_paused = true)]
    async fn adaptive_delay_follows_the_response_times_down_to_the_configured_delay() {
        let throttle = HostThrottle::new(SECOND, 1).adaptive();
        assert_eq!(delay_after(&throttle, SECOND / 10).await, SECOND, "never below the delay");
        assert!(
            delay_after(&throttle, 8 * SECOND).await > 2 * SECOND,
            "the newest response time counts for a quarter"
        );
        for _ in 0..20 {
            delay_after(&throttle, 8 * SECOND).await;
        }
        let ended = Instant::now();
        assert_eq!(throttle.host_delay("host").unwrap().delay.as_secs_f64().round(), 8.0);
        drop(throttle.acquire("host").await);
        assert!(ended.elapsed() > 7 * SECOND, "{:?}", ended.elapsed());
        for _ in 0..20 {
            delay_after(&throttle, SECOND / 100).await;
        }
        assert_eq!(delay_after(&throttle, SECOND / 100).await, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn adaptive_delay_has_a_maximum() {
        let throttle = HostThrottle::new(SECOND, 1).adaptive();
        for _ in 0..3 {
            assert_eq!(delay_after(&throttle, 100 * SECOND).await, MAX_ADAPTIVE_DELAY);
        }
        assert_eq!(
            delay_after(&HostThrottle::new(2 * MAX_ADAPTIVE_DELAY, 1).adaptive(), SECOND).await,
            2 * MAX_ADAPTIVE_DELAY
        );
    }

    #[tokio::test(start_paused = true)]
    async fn slow_responses_change_nothing_without_a_delay_or_without_adaptive_delay() {
        assert_eq!(
            delay_after(&HostThrottle::new(Duration::ZERO, 1).adaptive(), 5 * SECOND).await,
            Duration::ZERO
        );
        assert_eq!(delay_after(&HostThrottle::new(SECOND, 1), 5 * SECOND).await, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn adaptive_delay_is_divided_by_the_requests_in_flight() {
        let throttle = HostThrottle::new(SECOND, 4).adaptive();
        delay_after(&throttle, 12 * SECOND).await;
        assert_eq!(throttle.host_delay("host").unwrap().delay, 3 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn cooldown_from_another_worker_is_waited_out() {
        let throttle = HostThrottle::new(SECOND, 1);
        assert_eq!(throttle.host_delay("host"), None, "the host received no request yet");
        throttle.cool_down("host", 5 * SECOND);
        throttle.cool_down("host", 2 * SECOND);
        assert_eq!(throttle.host_delay("host"), Some(HostDelay { delay: SECOND, cooldown: 5 * SECOND }));
        let started_at = Instant::now();
        drop(throttle.acquire("host").await);
        assert!(started_at.elapsed() >= 5 * SECOND);
        assert_eq!(throttle.host_delay("host"), Some(HostDelay { delay: SECOND, cooldown: SECOND }));
    }

    #[tokio::test(start_paused = true)]
    async fn host_without_delay_and_cooldown_has_no_host_delay() {
        let throttle = HostThrottle::new(Duration::ZERO, 1);
        drop(throttle.acquire("host").await);
        assert_eq!(throttle.host_delay("host"), None);
        assert!(throttle.slow_down("host", SECOND) && !throttle.slow_down("host", SECOND));
        assert_eq!(throttle.host_delay("host").map(|host_delay| host_delay.delay), Some(SECOND));
    }
}
