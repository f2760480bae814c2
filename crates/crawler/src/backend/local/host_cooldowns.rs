//! When hosts may be asked again, whoever asked them last.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::super::HostDelay;
use crate::origin::throttle_key;

/// So many hosts that may be asked by now are forgotten at a time.
const SWEEP_AT: usize = 10_000;

/// The hosts that have to be left alone for a while.
#[derive(Default)]
pub(crate) struct HostCooldowns {
    until: HashMap<String, Instant>,
    /// Whoever is asked, it is not before this: somebody may have been asked until a moment ago.
    everybody: Option<Instant>,
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
        // What was learnt first may be told last: the longer rest is the one that is owed.
        let until = Instant::now() + host_delay.cooldown;
        self.until.entry(host).and_modify(|before| *before = until.max(*before)).or_insert(until);
    }

    /// Leaves all hosts alone for a while from now.
    pub(crate) fn set_for_all(&mut self, rest: Duration) {
        self.everybody = self.everybody.max(Some(Instant::now() + rest));
    }

    /// How long the host of a URL must still be left alone.
    pub(crate) fn of(&self, url: &str) -> Duration {
        if self.until.is_empty() && self.everybody.is_none() {
            return Duration::ZERO;
        }
        let until = self.until.get(throttle_key(url)).copied().max(self.everybody);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_shorter_rest_that_is_told_later_does_not_cut_a_longer_one_short() {
        let second = Duration::from_secs(1);
        let mut rests = HostCooldowns::default();
        let mut note =
            |seconds| rests.set("host".into(), HostDelay { delay: second, cooldown: seconds * second });
        note(300);
        note(1);
        assert_eq!(rests.of("http://host/"), 300 * second);
        rests.set_for_all(9 * second);
        rests.set_for_all(2 * second);
        assert_eq!(rests.of("http://other/"), 9 * second);
        assert_eq!(rests.of("http://host/"), 300 * second);
        tokio::time::advance(100 * second).await;
        assert_eq!(rests.of("http://host/"), 200 * second);
    }
}
