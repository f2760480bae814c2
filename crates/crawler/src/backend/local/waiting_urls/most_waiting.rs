//! The hosts of which the most URLs wait, and why they wait, for displays.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::super::{MAX_WAITING_HOSTS, WaitReason, WaitingHost};
use super::super::host_cooldowns::HostCooldowns;
use super::WaitingUrls;
use super::domain_entry::DomainEntry;
use super::host::HostUrls;

/// The time between two searches, at least. All hosts are looked at under the lock of the state.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// A search that takes long comes less often, so that searches take at most this part of the time.
const SEARCH_PART: u32 = 200;

/// The hosts that the last search has found.
#[derive(Default)]
pub(super) struct FoundHosts {
    names: Vec<Arc<str>>,
    /// Until then they are not searched again.
    until: Option<Instant>,
}

/// A pause that is this much longer than the delay has another reason.
const LONG_PAUSE: Duration = Duration::from_secs(2);

impl<Q: Default> WaitingUrls<Q> {
    /// The hosts of which the most URLs wait, those with the most first. Which hosts these are may be a second old or more.
    pub(in super::super) fn most_waiting(&mut self, cooldowns: &HostCooldowns) -> Vec<WaitingHost> {
        let now = Instant::now();
        if self.found.until.is_none_or(|until| until <= now) {
            let started = std::time::Instant::now();
            let names = self.search_most_waiting();
            let interval = SEARCH_INTERVAL.max(SEARCH_PART * started.elapsed());
            self.found = FoundHosts { names, until: Some(now + interval) };
        }
        let waiting_host = |name: &Arc<str>| {
            let host = self.hosts.get(name).filter(|host| host.has_urls())?;
            Some(WaitingHost {
                host: name.to_string(),
                waiting: host.waiting() as u64,
                leased: u32::try_from(host.leased).unwrap_or(u32::MAX),
                why: self.why_waiting(name, host, cooldowns),
            })
        };
        let mut most: Vec<WaitingHost> = self.found.names.iter().filter_map(waiting_host).collect();
        most.sort_by_key(|host| Reverse(host.waiting));
        most
    }

    /// Why the URLs of a host wait; `None` if none waits in its queues, and no delay or back-off of the host is the reason.
    pub(in super::super) fn reason_of(&self, name: &str, cooldowns: &HostCooldowns) -> Option<WaitReason> {
        let host = self.hosts.get(name)?;
        let why = self.why_waiting(name, host, cooldowns);
        (host.has_urls() || why != WaitReason::Busy).then_some(why)
    }

    fn search_most_waiting(&self) -> Vec<Arc<str>> {
        let mut most = BinaryHeap::with_capacity(MAX_WAITING_HOSTS + 1);
        for (name, host) in self.hosts.iter().filter(|(_, host)| host.has_urls()) {
            most.push(Reverse((host.waiting(), name)));
            if most.len() > MAX_WAITING_HOSTS {
                most.pop();
            }
        }
        most.into_iter().map(|Reverse((_, name))| Arc::clone(name)).collect()
    }

    fn why_waiting(&self, name: &str, host: &HostUrls<Q>, cooldowns: &HostCooldowns) -> WaitReason {
        let (now, delay) = (Instant::now(), host.delay.max(self.limits.delay));
        let left = |until: Instant| until.saturating_duration_since(now);
        let backs_off_for = host.health.cooldown_until().map(left).unwrap_or_default();
        let cooldown = cooldowns.until(name).map(left).unwrap_or_default();
        match () {
            () if host.is_blocked => WaitReason::Busy,
            () if !backs_off_for.is_zero()
                && let Some(cause) = host.health.cause() =>
            {
                WaitReason::BackingOff { for_: backs_off_for, cause: cause.to_string() }
            }
            () if cooldown > delay + LONG_PAUSE => WaitReason::ServerDelay(cooldown),
            () if !delay.is_zero() && (!cooldown.is_zero() || host.leased > 0) => WaitReason::Delay(delay),
            () if host.leased > 0 && host.is_full(&self.limits) => WaitReason::Slow,
            () if !cooldown.is_zero() => WaitReason::ServerDelay(cooldown),
            () if self.waits_for_site(host, now) => WaitReason::SiteDelay(self.limits.site_delay),
            () => WaitReason::Busy,
        }
    }

    /// Whether the URLs of a host wait for those of other hosts of its site.
    fn waits_for_site(&self, host: &HostUrls<Q>, now: Instant) -> bool {
        let site_delay = self.limits.site_delay;
        // A URL of the site is not leased at the very moment at which one may be.
        let is_delayed = |site: &DomainEntry| {
            site.next_lease() + site_delay > now || site.leased >= self.max_site_leases()
        };
        !site_delay.is_zero() && self.domains.get(&host.domain).is_some_and(is_delayed)
    }
}
