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
    until: HashMap<String, Instant>,
    /// Applies to every host: after a restart, any host may have been fetched from a moment ago.
    all_hosts: Option<Instant>,
    sweep_at: usize,
}

impl HostCooldowns {
    pub(crate) fn set(&mut self, host: String, host_delay: HostDelay) {
        if host_delay.cooldown.is_zero() {
            return;
        }
        if self.until.len() >= self.sweep_at.max(SWEEP_AT) {
            let now = Instant::now();
            self.until.retain(|_, until| *until > now);
            self.sweep_at = 2 * self.until.len();
        }
        // Updates can arrive out of order, so keep the later deadline.
        let until = Instant::now() + host_delay.cooldown;
        self.until.entry(host).and_modify(|before| *before = until.max(*before)).or_insert(until);
    }

    /// Sets a cooldown for all hosts, from now.
    pub(crate) fn set_for_all(&mut self, cooldown: Duration) {
        self.all_hosts = self.all_hosts.max(Some(Instant::now() + cooldown));
    }

    /// When the next request to a host is allowed; `None` if it is allowed now, or was not so long ago.
    pub(crate) fn until(&self, host: &str) -> Option<Instant> {
        if self.until.is_empty() {
            return self.all_hosts;
        }
        self.until.get(host).copied().max(self.all_hosts)
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
}
