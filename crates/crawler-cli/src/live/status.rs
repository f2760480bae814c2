//! What there is to say about a crawl at one moment, in the words of every display.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::{Snapshot, WaitReason, WaitingHost};
use crawler::internal::crawl_view::{CrawlPhase, CrawlView, Limits};
use crawler::internal::fetch::proxy_health::ProxyHealth;
use crawler::internal::fetch::robots::waits::RobotsWaits;
use crawler::internal::statistics::{HostStatistics, LatestUrl, RobotsState, Statistics};

use super::layout::Piece;
use super::remaining::{Budgets, History, Remaining};
use crate::format::{
    at_most, bytes, clock, counted, elapsed, limit, number, rate, remaining, share_of_bytes,
};
use crate::summary::Counts;

/// At most this many hosts that wait, and URLs that were fetched, are kept for a display.
const MAX_SHOWN: usize = 10;

/// A host whose responses take at least this long is slow.
const MIN_SLOW: Duration = Duration::from_secs(1);

/// A host is failing after this many failures in a row: a single URL that fails is requested twice.
const MIN_FAILURES: u32 = 3;

/// At most this many workers are shown one by one.
const MAX_WORKERS: usize = 8;

/// A crawl at one moment.
pub struct LiveStatus {
    pub counts: Counts,
    pub budgets: Budgets,
    pub elapsed: Duration,
    pub page_rate: Option<f64>,
    pub remaining: Option<Remaining>,
    /// Said before the counts: what the crawl does if it does not run as usual.
    pub phase: Option<&'static str>,
    /// When the next URL is visited again, if nothing else is left to do.
    pub next_visit: Option<Duration>,
    pub in_flight: Option<u64>,
    pub warnings: Vec<String>,
    /// The hosts that hold the crawl up.
    pub waiting: Vec<Waiting>,
    /// What was fetched last, the newest first.
    pub latest: Vec<Fetched>,
    /// The lengths of the queues, a line each.
    pub queues: Vec<(&'static str, String)>,
}

/// A host with URLs that wait, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub host: String,
    /// URLs that wait; 0 if that is not known.
    pub urls: u64,
    pub why: String,
}

/// How long it is until the next URL is visited again, if all others are completed.
pub fn next_visit(snapshot: &Snapshot) -> Option<Duration> {
    let due = snapshot.next_due().filter(|_| snapshot.pending() == 0 && snapshot.scheduled() > 0)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Duration::from_millis(due).saturating_sub(now))
}

/// A URL that was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub url: String,
    /// The outcome, unless it is a page.
    pub outcome: Option<String>,
    /// Its size and time.
    pub measures: String,
}

impl LiveStatus {
    /// What a view of a crawl says. The history gets its counts.
    pub fn new(view: &CrawlView, history: &mut History) -> LiveStatus {
        let CrawlView { snapshot, statistics, elapsed, limits, phase } = view;
        history.observe(view);
        let budgets = Budgets::from(limits);
        let is_running = *phase == CrawlPhase::Running;
        LiveStatus {
            counts: Counts::of_running(snapshot),
            budgets,
            elapsed: *elapsed,
            // The last seconds before a pause say nothing about now.
            page_rate: history.page_rate().filter(|_| *phase != CrawlPhase::Paused),
            remaining: history.remaining(&budgets).filter(|_| is_running),
            phase: match phase {
                CrawlPhase::Paused => Some("paused"),
                CrawlPhase::Stopping => Some("stopping"),
                CrawlPhase::Running | CrawlPhase::Ended(_) => None,
            },
            next_visit: next_visit(snapshot).filter(|_| is_running),
            in_flight: Some(statistics.in_flight),
            warnings: super::warnings::of(view),
            // A crawl that stops waits for none of them.
            waiting: match phase {
                CrawlPhase::Stopping => Vec::new(),
                _ => waiting_hosts(snapshot, statistics, limits),
            },
            latest: statistics.latest.iter().rev().take(MAX_SHOWN).map(fetched).collect(),
            queues: queues(snapshot),
        }
    }

    /// The crawl starts no more requests.
    pub fn set_stopping(&mut self) {
        let has_finished = self.counts.pending == 0;
        self.phase = Some(if has_finished { "finishing" } else { "stopping" });
        self.remaining = None;
        self.waiting.clear();
    }

    /// Adds a site that waits for its robots.txt, unless the hosts that wait include one.
    pub fn add_robots_wait(&mut self, waits: &RobotsWaits) {
        let Some(wait) = waits.current() else { return };
        let why = robots_cause(&wait.cause);
        if self.waiting.iter().any(|host| host.why == why) {
            return;
        }
        let others = match wait.sites - 1 {
            0 => String::new(),
            others => format!(", and {}", counted(others as u64, "other site")),
        };
        let host = wait.site.split_once("://").map_or(&*wait.site, |(_, host)| host).to_owned();
        self.waiting.insert(0, Waiting { host, urls: 0, why: why + &others });
    }

    /// Warns of a proxy that cannot be used.
    pub fn add_proxy_outage(&mut self, health: &ProxyHealth) {
        if let Some(outage) = health.outage() {
            let time = elapsed(outage.duration());
            self.warnings.insert(0, format!("waiting for the proxy {} for {time}", outage.proxy()));
        }
    }

    /// How far the crawl is, the most important line.
    pub fn headline(&self) -> Vec<Piece> {
        let phase = self.phase.map(|phase| Piece::new(0, phase));
        let next_visit =
            self.next_visit.map(|time| Piece::new(1, format!("next visit in {}", elapsed(time))));
        let pages = match self.budgets.pages {
            Some(budget) => {
                Piece::new(0, format!("{} of {}", number(self.counts.pages), counted(budget, "page")))
                    .or(counted(self.counts.pages, "page"))
            }
            None => Piece::new(0, counted(self.counts.pages, "page")),
        };
        let size = match self.budgets.bytes {
            Some(budget) => Piece::new(4, share_of_bytes(self.counts.budgeted_bytes(), budget)),
            None => Piece::new(4, bytes(self.counts.bytes)),
        };
        let time = match self.budgets.time {
            Some(budget) => {
                Piece::new(3, format!("{} of {}", clock(self.elapsed), limit(budget))).or(clock(self.elapsed))
            }
            None => Piece::new(3, clock(self.elapsed)),
        };
        let rate = self.page_rate.map(|pages| Piece::new(1, rate(pages)));
        let remaining = self.remaining.map(|time| match time {
            Remaining::About(time) => Piece::new(2, remaining(time)),
            Remaining::AtMost(time) => Piece::new(5, at_most(time)),
        });
        let pieces = [phase, next_visit, Some(pages), Some(size), Some(time), rate, remaining];
        pieces.into_iter().flatten().collect()
    }

    /// What became of the other URLs.
    pub fn counts(&self) -> Vec<Piece> {
        let mut pieces = self.counts.pieces();
        if let Some(in_flight @ 1..) = self.in_flight {
            pieces.insert(1, Piece::new(2, format!("{} in flight", number(in_flight))));
        }
        pieces
    }
}

/// The hosts that wait, those first that wait for another reason than the delay of the crawl.
fn waiting_hosts(snapshot: &Snapshot, statistics: &Statistics, limits: &Limits) -> Vec<Waiting> {
    let mut hosts: Vec<&WaitingHost> = snapshot.waiting_hosts().iter().collect();
    hosts.sort_by_key(|waiting| match &wait_reason(waiting, statistics) {
        WaitReason::Busy | WaitReason::Paused => 2,
        WaitReason::SiteDelay(_) => 1,
        WaitReason::Delay(delay) => {
            let host = statistics.hosts.get(&waiting.host);
            let is_delay_of_crawl = *delay <= limits.delay && !is_slow(host, *delay, limits.delay);
            u8::from(is_delay_of_crawl && failing(host).is_none())
        }
        WaitReason::BackingOff { .. }
        | WaitReason::ServerDelay(_)
        | WaitReason::RobotsTxt(_)
        | WaitReason::Slow => 0,
    });
    let waiting = |host: &WaitingHost| Waiting {
        host: host.host.clone(),
        urls: host.waiting,
        why: why_waiting(host, statistics, limits.delay),
    };
    hosts.into_iter().map(waiting).collect()
}

/// Why the URLs of a host wait. The frontier knows a host's delay as of its last lease, so that the first Crawl-delay seems to be
/// a pause; the statistics know it as soon as robots.txt was read.
pub fn wait_reason(waiting: &WaitingHost, statistics: &Statistics) -> WaitReason {
    let host = statistics.hosts.get(&waiting.host).filter(|host| !robots_fails(host));
    let known = host.map(|host| host.delay_ms.max(host.crawl_delay_ms.unwrap_or_default()));
    match (&waiting.why, known.map(|delay| Duration::from_millis(delay.into()))) {
        (WaitReason::ServerDelay(pause), Some(delay)) if delay >= *pause => WaitReason::Delay(delay),
        (why, _) => why.clone(),
    }
}

fn robots_fails(host: &HostStatistics) -> bool {
    matches!(host.robots, RobotsState::Failing | RobotsState::Unavailable)
}

/// Why the URLs of a host wait, in a crawl with this delay.
pub fn why_waiting(waiting: &WaitingHost, statistics: &Statistics, delay_of_crawl: Duration) -> String {
    let host = statistics.hosts.get(&waiting.host);
    let time = |time: Duration| limit(Duration::from_secs(time.as_secs().max(1)));
    match &wait_reason(waiting, statistics) {
        WaitReason::Delay(_) | WaitReason::Slow if let Some(cause) = failing(host) => {
            format!("failing: {cause}")
        }
        WaitReason::Delay(delay) if is_slow(host, *delay, delay_of_crawl) => slow(host),
        WaitReason::Delay(delay) => format!("delay {}{}", limit(*delay), delay_cause(*delay, host)),
        WaitReason::SiteDelay(delay) => format!("delay of the site {}", limit(*delay)),
        WaitReason::BackingOff { for_, cause } => {
            format!("backing off, next try in {}: {cause}", time(*for_))
        }
        // The pause of an earlier process may be all that is known of the robots.txt here.
        WaitReason::ServerDelay(_)
            if let Some(host) = host
                && robots_fails(host) =>
        {
            robots_cause(host.last_failure.as_deref().unwrap_or("it could not be fetched"))
        }
        WaitReason::ServerDelay(for_) => format!("waits {}, as the server requested", time(*for_)),
        WaitReason::Slow => slow(host),
        WaitReason::RobotsTxt(cause) => robots_cause(cause),
        WaitReason::Paused => "paused".into(),
        WaitReason::Busy => "the workers are busy".into(),
    }
}

/// The last failure of a host whose latest requests all failed.
fn failing(host: Option<&HostStatistics>) -> Option<&str> {
    let host = host.filter(|host| host.consecutive_failures >= MIN_FAILURES)?;
    host.last_failure.as_deref()
}

/// The mean time of a host's responses.
fn mean_latency(host: Option<&HostStatistics>) -> Duration {
    Duration::from_millis(host.and_then(HostStatistics::mean_latency_ms).unwrap_or_default())
}

/// Whether the time of the responses holds up a host, and not the delay between them. A delay that is not configured has
/// adapted to the time of the responses.
fn is_slow(host: Option<&HostStatistics>, delay: Duration, delay_of_crawl: Duration) -> bool {
    let has_adapted = delay > delay_of_crawl && delay_cause(delay, host).is_empty();
    let latency = mean_latency(host);
    latency >= MIN_SLOW && (latency > delay || has_adapted)
}

fn slow(host: Option<&HostStatistics>) -> String {
    let latency = mean_latency(host);
    match latency >= MIN_SLOW {
        true => format!("slow: {} per response", elapsed(latency)),
        // The first slow response has not ended.
        false => "slow".into(),
    }
}

fn robots_cause(cause: &str) -> String {
    format!("robots.txt fails ({cause})")
}

/// Whose delay it is, if robots.txt asks for it.
fn delay_cause(delay: Duration, host: Option<&HostStatistics>) -> &'static str {
    let of_robots = host.and_then(|host| host.crawl_delay_ms);
    match of_robots.is_some_and(|of_robots| of_robots > 0 && u128::from(of_robots) == delay.as_millis()) {
        true => " (robots.txt)",
        false => "",
    }
}

fn fetched(latest: &LatestUrl) -> Fetched {
    let time = Duration::from_millis(latest.ms.into());
    let time = if latest.ms < 1_000 { limit(time) } else { elapsed(time) };
    let is_page = latest.outcome == "page";
    Fetched {
        url: latest.url.clone(),
        outcome: (!is_page).then(|| latest.outcome.clone()),
        measures: if is_page { format!("{} · {time}", bytes(latest.bytes)) } else { time },
    }
}

/// The lengths of the queues, and the loads of the workers.
fn queues(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let (url_queue, overflow) = (snapshot.url_queue, snapshot.overflow);
    let prioritized = snapshot.priority_queues.iter().sum::<usize>();
    let leased = snapshot.workers.iter().map(|worker| worker.leased).sum::<usize>();
    let lengths =
        [("new", url_queue), ("overflow", overflow), ("prioritized", prioritized), ("leased", leased)];
    let lengths = lengths.map(|(name, length)| format!("{name} {}", number(length as u64)));
    let loads = snapshot.workers.iter().take(MAX_WORKERS).map(|worker| worker.leased.to_string());
    let mut loads = loads.collect::<Vec<_>>().join(" ");
    if snapshot.workers.len() > MAX_WORKERS {
        loads += " …";
    }
    let hosts = counted(snapshot.active_hosts as u64, "active host");
    vec![
        ("Queues", lengths.join(" · ")),
        ("Workers", format!("{} · leased to each: {loads} · {hosts}", number(snapshot.workers.len() as u64))),
    ]
}

#[cfg(test)]
mod tests;
