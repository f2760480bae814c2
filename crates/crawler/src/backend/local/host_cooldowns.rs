//! When the next request to each host is allowed, whichever worker sent the previous one.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::super::HostDelay;
use crate::origin::throttle_key;

/// Expired cooldowns are removed when there are this many.
const SWEEP_AT: usize = 10_000;

/// The hosts whose cooldown has not passed.
#[derive(Default)]
pub(crate) struct HostCooldowns {
    by_host: HashMap<String, Cooldown>,
    /// Applies to every host: after a restart, any host may have been fetched from a moment ago.
    all_hosts: Option<Instant>,
    sweep_at: usize,
}

#[derive(Clone, Copy)]
struct Cooldown {
    until: Instant,
    /// Whether the delay of all hosts is its reason, and how long the delay was then.
    delay: Option<Duration>,
}

impl HostCooldowns {
    pub(crate) fn set(&mut self, host: String, host_delay: HostDelay) {
        if host_delay.cooldown.is_zero() {
            return;
        }
        if self.by_host.len() >= self.sweep_at.max(SWEEP_AT) {
            let now = Instant::now();
            self.by_host.retain(|_, cooldown| cooldown.until > now);
            self.sweep_at = 2 * self.by_host.len();
        }
        let HostDelay { delay, cooldown } = host_delay;
        let new = Cooldown { until: Instant::now() + cooldown, delay: (cooldown <= delay).then_some(delay) };
        let cooldown = self.by_host.entry(host).or_insert(new);
        // Updates can arrive out of order, so keep the later deadline.
        if new.until > cooldown.until {
            *cooldown = new;
        }
    }

    /// Shortens the cooldowns of hosts that have the delay of all hosts, which was another one `before`.
    pub(crate) fn change_delay(&mut self, before: Duration, after: Duration) {
        let latest = Instant::now() + after;
        for cooldown in self.by_host.values_mut().filter(|cooldown| cooldown.delay == Some(before)) {
            *cooldown = Cooldown { until: cooldown.until.min(latest), delay: Some(after) };
        }
        if after < before {
            self.all_hosts = self.all_hosts.map(|until| until.min(latest));
        }
    }

    /// Sets a cooldown for all hosts, from now.
    pub(crate) fn set_for_all(&mut self, cooldown: Duration) {
        self.all_hosts = self.all_hosts.max(Some(Instant::now() + cooldown));
    }

    /// When the next request to a host is allowed; `None` if it is allowed now, or was until recently.
    pub(crate) fn until(&self, host: &str) -> Option<Instant> {
        if self.by_host.is_empty() {
            return self.all_hosts;
        }
        self.by_host.get(host).map(|cooldown| cooldown.until).max(self.all_hosts)
    }

    /// The remaining cooldown of the host of a URL.
    pub(crate) fn remaining(&self, url: &str) -> Duration {
        let until = self.until(throttle_key(url));
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn shorter_cooldown_that_arrives_later_does_not_replace_a_longer_one() {
        let second = Duration::from_secs(1);
        let mut cooldowns = HostCooldowns::default();
        let mut set =
            |seconds| cooldowns.set("host".into(), HostDelay { delay: second, cooldown: seconds * second });
        set(300);
        set(1);
        assert_eq!(cooldowns.remaining("http://host/"), 300 * second);
        cooldowns.set_for_all(9 * second);
        cooldowns.set_for_all(2 * second);
        assert_eq!(cooldowns.remaining("http://other/"), 9 * second);
        assert_eq!(cooldowns.remaining("http://host/"), 300 * second);
        tokio::time::advance(100 * second).await;
        assert_eq!(cooldowns.remaining("http://host/"), 200 * second);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_delay_shortens_the_waits_for_it_and_no_others() {
        let second = Duration::from_secs(1);
        let mut cooldowns = HostCooldowns::default();
        for (host, delay, cooldown) in
            [("delayed", 60, 50), ("asked-for-time", 60, 300), ("own-delay", 90, 80)]
        {
            cooldowns.set(host.into(), HostDelay { delay: delay * second, cooldown: cooldown * second });
        }
        cooldowns.change_delay(60 * second, 2 * second);
        let remaining = |host: &str| cooldowns.remaining(&format!("http://{host}/"));
        assert_eq!(remaining("delayed"), 2 * second);
        assert_eq!(remaining("asked-for-time"), 300 * second);
        assert_eq!(remaining("own-delay"), 80 * second);
    }
}
