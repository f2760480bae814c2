//! The hosts of which the most URLs wait, and why they wait, for displays.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tokio::time::Instant;

use super::super::super::{MAX_WAITING_HOSTS, WaitReason, WaitingHost};
use super::super::host_cooldowns::HostCooldowns;
use super::WaitingUrls;
use super::host::Host;

/// How many hosts are looked at: this runs under the lock of the state. Of more hosts, these are an arbitrary choice.
const MAX_SEARCHED: usize = 10_000;

/// A pause that is this much longer than the delay has another reason.
const LONG_PAUSE: Duration = Duration::from_secs(2);

impl<Q: Default> WaitingUrls<Q> {
    /// The hosts of which the most URLs wait, those with the most first.
    pub(in super::super) fn most_waiting(&self, cooldowns: &HostCooldowns) -> Vec<WaitingHost> {
        let mut most = BinaryHeap::with_capacity(MAX_WAITING_HOSTS + 1);
        for (name, host) in self.hosts.iter().take(MAX_SEARCHED).filter(|(_, host)| host.has_urls()) {
            most.push(Reverse((host.waiting(), name)));
            if most.len() > MAX_WAITING_HOSTS {
                most.pop();
            }
        }
        let waiting_host = |Reverse((waiting, name)): Reverse<(usize, &std::sync::Arc<str>)>| {
            let host = &self.hosts[name];
            WaitingHost {
                host: name.to_string(),
                waiting: waiting as u64,
                leased: u32::try_from(host.leased).unwrap_or(u32::MAX),
                why: self.why_waiting(name, host, cooldowns),
            }
        };
        most.into_sorted_vec().into_iter().map(waiting_host).collect()
    }

    fn why_waiting(&self, name: &str, host: &Host<Q>, cooldowns: &HostCooldowns) -> WaitReason {
        let (now, delay) = (Instant::now(), host.delay.max(self.limits.delay));
        let left = |until: Instant| until.saturating_duration_since(now);
        let rests_for = host.health.rests_until().map(left).unwrap_or_default();
        let cooldown = cooldowns.until(name).map(left).unwrap_or_default();
        match () {
            () if host.is_blocked => WaitReason::Busy,
            () if !rests_for.is_zero()
                && let Some(cause) = host.health.cause() =>
            {
                WaitReason::Resting { for_: rests_for, cause: cause.to_string() }
            }
            () if cooldown > delay + LONG_PAUSE => {
                WaitReason::Resting { for_: cooldown, cause: "the host asked for a pause".into() }
            }
            () if !delay.is_zero() && (!cooldown.is_zero() || host.leased > 0) => WaitReason::Delay(delay),
            () if host.leased > 0 && host.is_full(&self.limits) => WaitReason::Slow,
            () => WaitReason::Busy,
        }
    }
}
