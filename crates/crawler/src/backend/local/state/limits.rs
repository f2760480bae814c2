//! Limits that change while the crawl runs.

use std::time::Duration;

use super::super::super::Lease;
use super::super::storage::Storage;
use super::LocalState;
use crate::live_settings::LiveLimits;
use crate::stats::BodyBytes;

impl<S: Storage> LocalState<S> {
    pub(crate) fn set_limits(&mut self, limits: &LiveLimits) {
        let &LiveLimits { is_paused, max_pages, max_bytes, delay, site_delay, ref blocked } = limits;
        self.clock.set_paused(is_paused);
        self.budgets.set_limits(max_pages, max_bytes);
        self.waiting.set_blocked(blocked.clone(), &self.cooldowns);
        let hosts = &mut self.config.hosts;
        (self.config.max_pages, self.config.max_bytes) = (max_pages, max_bytes);
        if (hosts.delay, hosts.site_delay) == (delay, site_delay) {
            return;
        }
        self.cooldowns.change_delay(hosts.delay, delay);
        (hosts.delay, hosts.site_delay) = (delay, site_delay);
        self.waiting.set_delays(delay, site_delay, &self.cooldowns);
    }

    /// Ends the lease of a URL that has to wait for its host, or of a page that the crawl may not have any more, because its limit
    /// was lowered meanwhile. The URL waits as if it had not been fetched.
    pub(super) fn requeue_url(&mut self, lease: &Lease, bytes: BodyBytes, site_cooldown: Duration) {
        if let Some(active) = self.end_lease(lease.task_id) {
            self.budgets.commit(&lease.url, active.reservation, false, bytes);
            self.requeue_ended(active, site_cooldown);
        }
    }
}
