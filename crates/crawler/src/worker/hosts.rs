//! The leases a worker has in hand, host by host: so many of each host are served at a time, and hosts take turns.

use std::collections::{HashMap, VecDeque};

use crate::resources::Lease;

/// Leases that wait to be served.
pub(super) struct Hosts {
    /// How many leases of a host are served at a time.
    per_host: usize,
    /// A host is in here while it is being served or has leases waiting.
    hosts: HashMap<String, Host>,
    /// Hosts with a lease waiting that may be served, each once, in the order they became so.
    ready: VecDeque<String>,
    waiting: usize,
}

#[derive(Default)]
struct Host {
    waiting: VecDeque<Lease>,
    being_served: usize,
    ready: bool,
}

impl Hosts {
    pub(super) fn new(per_host: usize) -> Hosts {
        Hosts { per_host: per_host.max(1), hosts: HashMap::new(), ready: VecDeque::new(), waiting: 0 }
    }

    /// How many leases wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// A lease of a host has come.
    pub(super) fn add(&mut self, host: String, lease: Lease) {
        self.waiting += 1;
        self.hosts.entry(host.clone()).or_default().waiting.push_back(lease);
        self.line_up(host);
    }

    /// The next lease to serve, of the host that has been ready for longest.
    pub(super) fn next(&mut self) -> Option<(String, Lease)> {
        let name = self.ready.pop_front()?;
        let host = self.hosts.get_mut(&name)?;
        host.ready = false;
        let lease = host.waiting.pop_front()?;
        host.being_served += 1;
        self.waiting -= 1;
        // If it may have another served at the same time, that one is served after those of the others.
        self.line_up(name.clone());
        Some((name, lease))
    }

    /// One of a host's leases was served: the host is ready for its next, or done with.
    pub(super) fn served(&mut self, name: String) {
        let Some(host) = self.hosts.get_mut(&name) else { return };
        host.being_served -= 1;
        if host.being_served == 0 && host.waiting.is_empty() {
            self.hosts.remove(&name);
        } else {
            self.line_up(name);
        }
    }

    fn line_up(&mut self, name: String) {
        let Some(host) = self.hosts.get_mut(&name) else { return };
        if !host.ready && !host.waiting.is_empty() && host.being_served < self.per_host {
            host.ready = true;
            self.ready.push_back(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Ticket;
    use std::time::Duration;

    fn hosts(per_host: usize, urls: &[&str]) -> Hosts {
        let mut hosts = Hosts::new(per_host);
        for url in urls {
            let lease = Lease {
                ticket: Ticket(1),
                loan: 1,
                url: url.to_string(),
                depth: 0,
                redirects: 0,
                again: false,
                rest: Duration::ZERO,
            };
            hosts.add(url[..1].to_owned(), lease);
        }
        hosts
    }

    fn next(hosts: &mut Hosts) -> Option<String> {
        hosts.next().map(|(_, lease)| lease.url)
    }

    #[test]
    fn one_lease_of_a_host_is_served_at_a_time_and_hosts_take_turns() {
        let mut hosts = hosts(1, &["a/1", "a/2", "b/1", "a/3"]);
        assert_eq!(next(&mut hosts).as_deref(), Some("a/1"));
        assert_eq!(next(&mut hosts).as_deref(), Some("b/1"));
        assert_eq!((next(&mut hosts), hosts.waiting()), (None, 2));
        hosts.served("b".into());
        hosts.served("a".into());
        assert_eq!(next(&mut hosts).as_deref(), Some("a/2"));
        hosts.served("a".into());
        assert_eq!(next(&mut hosts).as_deref(), Some("a/3"));
        hosts.served("a".into());
        assert_eq!((hosts.waiting(), hosts.hosts.len(), next(&mut hosts)), (0, 0, None));
    }

    #[test]
    fn as_many_of_a_host_are_served_as_may_be_and_still_hosts_take_turns() {
        let mut hosts = hosts(2, &["a/1", "a/2", "a/3", "a/4", "b/1"]);
        let first: Vec<String> = std::iter::from_fn(|| next(&mut hosts)).collect();
        assert_eq!(first, ["a/1", "b/1", "a/2"]);
        hosts.served("a".into());
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("a/3"), None));
        hosts.served("a".into());
        hosts.served("a".into());
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("a/4"), None));
        hosts.served("b".into());
        hosts.served("a".into());
        assert_eq!(hosts.hosts.len(), 0);
    }
}
