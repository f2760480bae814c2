//! Hosts and URLs that were blocked while the crawl ran. No request is sent for them, so they wait for no delay.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::host_cooldowns::HostCooldowns;
use super::WaitingUrls;
use crate::scope::Blocked;

impl<Q: Default> WaitingUrls<Q> {
    /// Changes what is blocked. The waiting URLs of blocked hosts can be leased at once, by which they are completed.
    pub(in super::super) fn set_blocked(&mut self, blocked: Option<Arc<Blocked>>, cooldowns: &HostCooldowns) {
        let before = std::mem::replace(&mut self.blocked, blocked);
        let now = self.blocked.clone();
        let names = [&before, &now].into_iter().flatten().flat_map(|blocked| blocked.hosts());
        for name in names {
            let is_blocked = self.is_host_blocked(name);
            let Some((name, _)) = self.hosts.get_key_value(name) else { continue };
            let name = Arc::clone(name);
            if let Some(host) = self.hosts.get_mut(&name)
                && host.is_blocked != is_blocked
            {
                host.is_blocked = is_blocked;
                self.offer(&name, cooldowns);
            }
        }
    }

    /// Whether a host is blocked, by its throttle key.
    pub(super) fn is_host_blocked(&self, host: &str) -> bool {
        self.blocked.as_ref().is_some_and(|blocked| blocked.contains_host(host))
    }

    /// The number of the queue of blocked hosts.
    pub(super) fn blocked_queue(&self) -> u8 {
        self.queues.count() as u8 + 1
    }

    /// Makes the URLs of a blocked host leasable now, whatever their priorities are.
    pub(super) fn offer_blocked(&mut self, name: &Arc<str>) {
        let queue = self.blocked_queue();
        let Some(host) = self.hosts.get_mut(name) else { return };
        let domain = host.domain.clone();
        if let Some(entry) = self.domains.get_mut(&domain)
            && !host.listed.contains(queue)
        {
            host.listed.insert(queue);
            entry.ready(queue).push_back(Arc::clone(name));
        }
        self.list_domain(&domain, Instant::now());
    }
}
