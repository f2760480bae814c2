//! Enforces the delays between requests to a host, to a site and to an address. Only this module knows when a host may
//! receive the next request.

mod start_intervals;
mod time_setting;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use self::start_intervals::{NextStart, StartIntervals};
use self::time_setting::TimeSetting;
use crate::backend::HostDelay;
use crate::config::FetchConfig;
use crate::domain::Domain;
use crate::keyed_map::KeyedMap;

/// Maximum delay derived from slow responses: a host that always timing out must not stall its URLs forever.
const MAX_ADAPTIVE_DELAY: Duration = Duration::from_secs(30);

/// The newest response time has a weight of 1/4 in the moving average.
const SMOOTHING: u32 = 4;

/// Number of hosts from which hosts without a pending delay are forgotten.
const MIN_HOSTS_TO_FORGET: usize = 10_000;

/// How long a request that waits does not notice that a delay was changed.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// How long a host with a longer delay of its own is remembered after the delay has passed. Forgetting it is safe,
/// because the next robots.txt check applies the delay again. Without a limit, one domain with endless host names could
/// fill the memory.
const SLOW_HOST_TTL: Duration = Duration::from_secs(5 * 60);

/// The delays of recently used hosts. Threads with separate runtimes may share it.
#[derive(Debug)]
pub struct HostThrottle {
    delay: Arc<TimeSetting>,
    max_in_flight: usize,
    adaptive: bool,
    hosts: Mutex<ThrottledHosts>,
    sites: StartIntervals<Domain>,
    addresses: Arc<StartIntervals<IpAddr>>,
}

#[derive(Debug, Default)]
struct ThrottledHosts {
    by_name: KeyedMap<String, Arc<ThrottledHost>>,
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
    /// The delay of all hosts.
    delay: Arc<TimeSetting>,
}

#[derive(Debug)]
struct HostTiming {
    /// The delay that the host wants; zero if it wants none.
    own_delay: Duration,
    /// When the next permit may be granted.
    next: Instant,
    /// When the next request may be written. Earlier than `next` while a request that has its permit is connecting.
    next_start: Instant,
    /// Moving average of the response timing, each divided by the number of requests in flight; zero if the delay is
    /// not adaptive.
    response_time: Duration,
    /// The address of its last connection, if addresses have a delay.
    address: Option<Arc<NextStart>>,
    /// The host's site, if sites have a delay.
    site: Option<Arc<NextStart>>,
    /// When the last request started, and when the last one ended.
    last_start: Option<Instant>,
    last_end: Option<Instant>,
    /// Requests that have started and not ended.
    in_flight: usize,
}

/// How long before a request the last one to its host was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestGap {
    /// Since the end of the last request, and zero if it has not ended; if several may be in flight, since its start. `None` if
    /// there was none, or it is forgotten.
    pub time: Option<Duration>,
    /// Whether that is less than the delay that was promised.
    pub is_early: bool,
}

impl HostTiming {
    /// The delay between requests, adapted to the response timing, where all hosts have the delay `of_all`.
    fn effective_delay(&self, of_all: Duration) -> Duration {
        of_all.max(self.own_delay).max(self.response_time.min(MAX_ADAPTIVE_DELAY))
    }

    /// Waits as if the delay that runs now had been another one.
    fn change_delay(&mut self, before: Duration, after: Duration, now: Instant) {
        for next in [&mut self.next, &mut self.next_start] {
            if after > before {
                *next += after - before;
            } else if *next <= now + before {
                // A longer wait is a cooldown, which stays.
                *next = (*next).min(now + after);
            }
        }
    }

    /// Records that a request starts, and returns how long before the last one was, if at most this many may be in flight.
    fn start_request(&mut self, now: Instant, of_all: Duration, max_in_flight: usize) -> RequestGap {
        let last_start = self.last_start.replace(now);
        let last = match max_in_flight {
            1 if self.in_flight > 0 => Some(now),
            1 => self.last_end,
            _ => last_start,
        };
        let time = last.map(|last| now.saturating_duration_since(last));
        self.in_flight += 1;
        // The part of the delay that is added for slow responses is no guarantee.
        let is_early = time.is_some_and(|time| time < of_all.max(self.own_delay));
        RequestGap { time, is_early }
    }

    fn end_request(&mut self) {
        self.last_end = Some(Instant::now());
        self.in_flight -= 1;
    }
}

/// Permission to send a host one request, once [`start`](ThrottlePermit::start) returns. If only one request may be in
/// flight, dropping the permit starts the delay.
#[derive(Debug)]
pub struct ThrottlePermit {
    host: Arc<ThrottledHost>,
    addresses: Arc<StartIntervals<IpAddr>>,
    max_in_flight: usize,
    adaptive: bool,
    /// Set when the request starts.
    gap: OnceLock<RequestGap>,
    _slot: OwnedSemaphorePermit,
}

/// The host got a cooldown after the permit was granted. A request needs a new permit.
#[derive(Debug, PartialEq, Eq)]
pub struct CoolingDown;

impl HostThrottle {
    /// The throttle for this configuration.
    pub fn from_config(config: &FetchConfig) -> HostThrottle {
        let throttle = HostThrottle::new(config.delay, config.max_per_host)
            .site_delay(config.site_delay)
            .address_delay(config.address_delay);
        if config.adaptive_delay { throttle.adaptive() } else { throttle }
    }

    /// A throttle with at least `delay` between requests to a host and at most `max_in_flight` of them in flight. If
    /// `max_in_flight` is 1, the delay runs from the end of a request to the start of the next, otherwise from start to
    /// start. A request starts when it is written, after connecting.
    pub fn new(delay: Duration, max_in_flight: usize) -> HostThrottle {
        let max_in_flight = max_in_flight.clamp(1, Semaphore::MAX_PERMITS);
        HostThrottle {
            delay: Arc::new(TimeSetting::new(delay)),
            max_in_flight,
            adaptive: false,
            hosts: Mutex::default(),
            sites: StartIntervals::new(Duration::ZERO),
            addresses: Arc::new(StartIntervals::new(Duration::ZERO)),
        }
    }

    /// Waits at least this long between the starts of two requests to a site, which is all hosts of a domain.
    pub fn site_delay(self, delay: Duration) -> HostThrottle {
        HostThrottle { sites: StartIntervals::new(delay), ..self }
    }

    /// Waits at least this long between the starts of two requests to an IP address.
    pub fn address_delay(self, delay: Duration) -> HostThrottle {
        HostThrottle { addresses: Arc::new(StartIntervals::new(delay)), ..self }
    }

    /// Adapts the delay to a host's response timing: it is at least their moving average, divided by the number of
    /// requests in flight, and never less than the configured delay. Without a delay nothing changes.
    pub fn adaptive(self) -> HostThrottle {
        HostThrottle { adaptive: true, ..self }
    }

    /// Changes the delay of all hosts and that of all sites, also for waits that have begun.
    pub fn set_delays(&self, delay: Duration, site_delay: Duration) {
        let (hosts, now) = (unpoisoned(&self.hosts), Instant::now());
        let before = self.delay.replace(delay);
        self.sites.set_interval(site_delay);
        for (name, host) in &hosts.by_name {
            let mut timing = host.timing();
            let (before, after) = (timing.effective_delay(before), timing.effective_delay(delay));
            timing.change_delay(before, after, now);
            // Without a delay it is not known when the last request to the site started: maybe just now.
            timing.site = self.sites.next_start_after(|| Domain::from_throttle_key(name), site_delay);
        }
    }

    /// Waits until a connection for a request may be opened. The request itself waits for [`ThrottlePermit::start`].
    pub async fn acquire(&self, host: &str) -> ThrottlePermit {
        let host = self.host(host);
        let slots = Arc::clone(&host.slots);
        let slot = slots.acquire_owned().await.expect("the semaphore is never closed");
        {
            let _guard = host.next_in_line.lock().await;
            host.wait().await;
            if self.max_in_flight > 1 {
                let mut timing = host.timing();
                timing.next = Instant::now() + host.effective_delay(&timing);
            }
        }
        ThrottlePermit {
            host,
            addresses: Arc::clone(&self.addresses),
            max_in_flight: self.max_in_flight,
            adaptive: self.adaptive,
            gap: OnceLock::new(),
            _slot: slot,
        }
    }

    /// Raises the host's delay. Returns false if the delay is not longer than the current one.
    pub fn slow_down(&self, host: &str, delay: Duration) -> bool {
        let host = self.host(host);
        let mut timing = host.timing();
        if delay <= timing.own_delay {
            return false;
        }
        let is_longer = delay > self.delay.get();
        // The current delay started when the last request ended.
        let before = host.effective_delay(&timing);
        timing.own_delay = delay;
        let after = host.effective_delay(&timing);
        timing.change_delay(before, after, Instant::now());
        is_longer
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
        let delay = host.effective_delay(&timing);
        (!delay.is_zero() || !cooldown.is_zero()).then_some(HostDelay { delay, cooldown })
    }

    /// The hosts with a remaining cooldown, and their delays.
    pub fn cooldowns(&self) -> Vec<(String, HostDelay)> {
        let (hosts, now) = (unpoisoned(&self.hosts), Instant::now());
        let cooling = hosts.by_name.iter().filter_map(|(name, host)| {
            let timing = host.timing();
            let cooldown = timing.next.saturating_duration_since(now);
            (!cooldown.is_zero())
                .then(|| (name.clone(), HostDelay { delay: host.effective_delay(&timing), cooldown }))
        });
        cooling.collect()
    }

    /// How long no request to the site may start.
    pub fn site_cooldown(&self, site: &Domain) -> Duration {
        self.sites.remaining(site)
    }

    /// The same for the site of a host, which need not be known if sites have no delay.
    pub fn site_cooldown_of(&self, host: &str) -> Duration {
        match self.sites.has_interval() {
            true => self.site_cooldown(&Domain::from_throttle_key(host)),
            false => Duration::ZERO,
        }
    }

    fn host(&self, host: &str) -> Arc<ThrottledHost> {
        let mut hosts = unpoisoned(&self.hosts);
        if let Some(host) = hosts.by_name.get(host) {
            return Arc::clone(host);
        }
        if hosts.by_name.len() >= hosts.next_cleanup.max(MIN_HOSTS_TO_FORGET) {
            let now = Instant::now();
            hosts.by_name.retain(|_, host| !host.can_be_forgotten(now));
            hosts.next_cleanup = 2 * hosts.by_name.len();
        }
        let now = Instant::now();
        let new = Arc::new(ThrottledHost {
            slots: Arc::new(Semaphore::new(self.max_in_flight)),
            next_in_line: tokio::sync::Mutex::default(),
            timing: Mutex::new(HostTiming {
                own_delay: Duration::ZERO,
                next: now,
                next_start: now,
                response_time: Duration::ZERO,
                address: None,
                site: self.sites.next_start(|| Domain::from_throttle_key(host)),
                last_start: None,
                last_end: None,
                in_flight: 0,
            }),
            delay: Arc::clone(&self.delay),
        });
        hosts.by_name.insert(host.to_owned(), Arc::clone(&new));
        new
    }
}

impl ThrottlePermit {
    /// Waits until the request may be written to a connection to this address, and returns the time of its start. The wait
    /// is mostly at most the longest of the delays: connections are opened in the same rhythm, but take different times.
    /// If the host got a longer cooldown meanwhile, the request cannot start with this permit.
    pub async fn start(&self, address: Option<IpAddr>) -> Result<Instant, CoolingDown> {
        let address = address.and_then(|address| self.addresses.next_start(|| address));
        self.host.timing().address.clone_from(&address);
        loop {
            let next_start = {
                let (mut timing, now) = (self.host.timing(), Instant::now());
                let delay = self.host.effective_delay(&timing);
                if timing.next_start > now + delay {
                    return Err(CoolingDown);
                }
                let site = timing.site.clone();
                let intervals = [site.as_deref(), address.as_deref()];
                // All are locked together, so that none is claimed by a request that another one holds up.
                let mut intervals = intervals.map(|interval| interval.map(NextStart::lock));
                let shared = intervals.iter().flatten().map(|interval| interval.next_start()).max();
                let next_start = shared.map_or(timing.next_start, |shared| shared.max(timing.next_start));
                if next_start <= now {
                    if self.max_in_flight > 1 {
                        timing.next_start = now + delay;
                        timing.next = timing.next.max(timing.next_start);
                    }
                    intervals.iter_mut().flatten().for_each(|interval| interval.start(now));
                    let of_all = self.host.delay.get();
                    self.gap.get_or_init(|| timing.start_request(now, of_all, self.max_in_flight));
                    return Ok(now);
                }
                next_start
            };
            sleep_a_while(next_start).await;
        }
    }

    /// Sends the host no request for at least this long from now.
    pub fn cool_down(&self, time: Duration) {
        self.host.cool_down(time);
    }

    /// How long before the start of the request the last one was; nothing if it has not started.
    pub fn gap(&self) -> RequestGap {
        self.gap.get().copied().unwrap_or_default()
    }

    /// The delay between requests to the host.
    pub fn delay(&self) -> Duration {
        self.host.effective_delay(&self.host.timing())
    }

    /// Records how long the response, or the failure, took.
    pub fn record_response_time(&self, time: Duration) {
        let mut timing = self.host.timing();
        let has_delay = !self.host.delay.get().max(timing.own_delay).is_zero();
        if self.adaptive && has_delay {
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
        if self.gap.get().is_some() {
            self.host.timing().end_request();
        }
        if self.max_in_flight == 1 {
            let delay = self.host.effective_delay(&self.host.timing());
            self.host.cool_down(delay);
        }
    }
}

impl ThrottledHost {
    fn timing(&self) -> MutexGuard<'_, HostTiming> {
        unpoisoned(&self.timing)
    }

    fn effective_delay(&self, timing: &HostTiming) -> Duration {
        timing.effective_delay(self.delay.get())
    }

    /// Waits until the next request may connect. Until then, the request holds up no other host of its site.
    async fn wait(&self) {
        loop {
            // Read again after each sleep, because a Retry-After may have moved it.
            loop {
                let next = self.timing().next;
                if next <= Instant::now() {
                    break;
                }
                sleep_a_while(next).await;
            }
            let (site, address) = {
                let timing = self.timing();
                (timing.site.clone(), timing.address.clone())
            };
            let site = NextStart::turn(site.as_deref()).await;
            let address = NextStart::turn(address.as_deref()).await;
            if self.timing().next <= Instant::now() {
                [site, address].into_iter().flatten().for_each(|turn| turn.take());
                return;
            }
        }
    }

    /// Whether forgetting the host cannot make a request come too early: no request uses or waits for it, its delay has
    /// passed, and if it has a longer delay than other hosts, it has been idle for long.
    fn can_be_forgotten(self: &Arc<ThrottledHost>, now: Instant) -> bool {
        let timing = self.timing();
        let ttl = if timing.own_delay > self.delay.get() { SLOW_HOST_TTL } else { Duration::ZERO };
        Arc::strong_count(self) == 1 && timing.next + ttl <= now
    }

    fn cool_down(&self, time: Duration) {
        let (mut timing, until) = (self.timing(), Instant::now() + time);
        timing.next = timing.next.max(until);
        timing.next_start = timing.next_start.max(until);
    }
}

/// Sleeps until a time, but not for long: delays may be changed meanwhile.
async fn sleep_a_while(until: Instant) {
    sleep_until(until.min(Instant::now() + MAX_SLEEP)).await;
}

/// Locks a mutex and ignores poisoning: no code here panics while it holds a lock, and the state would stay valid.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
