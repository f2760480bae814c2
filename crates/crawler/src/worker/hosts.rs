//! The leases a worker has in hand, host by host: one of each host is served at a time.

use std::collections::{HashMap, VecDeque};

use url::Url;

use crate::origin::Origin;
use crate::resources::Lease;

/// Leases in hand.
#[derive(Default)]
pub(super) struct Hosts {
    /// A host is in here while it is being served or has leases waiting.
    waiting: HashMap<String, VecDeque<Lease>>,
    /// Hosts with a lease waiting and none being served, in the order they became so.
    ready: VecDeque<String>,
    in_hand: usize,
}

impl Hosts {
    /// How many leases there are, served and waiting.
    pub(super) fn in_hand(&self) -> usize {
        self.in_hand
    }

    pub(super) fn add(&mut self, leases: Vec<Lease>) {
        self.in_hand += leases.len();
        for lease in leases {
            let host =
                Url::parse(&lease.url).map_or_else(|_| String::new(), |url| Origin::of(&url).paced_host());
            match self.waiting.get_mut(&host) {
                Some(waiting) => waiting.push_back(lease),
                None => {
                    self.waiting.insert(host.clone(), VecDeque::from([lease]));
                    self.ready.push_back(host);
                }
            }
        }
    }

    /// The next lease to serve, of a host that is not being served.
    pub(super) fn next(&mut self) -> Option<(String, Lease)> {
        let host = self.ready.pop_front()?;
        let lease = self.waiting.get_mut(&host)?.pop_front()?;
        Some((host, lease))
    }

    /// A host's lease was served: the host is ready for its next, or done with.
    pub(super) fn served(&mut self, host: &str) {
        self.in_hand -= 1;
        match self.waiting.get(host) {
            Some(waiting) if !waiting.is_empty() => self.ready.push_back(host.to_owned()),
            _ => drop(self.waiting.remove(host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Ticket;
    use std::time::Duration;

    fn lease(url: &str) -> Lease {
        Lease {
            ticket: Ticket(1),
            loan: 1,
            url: url.into(),
            depth: 0,
            redirects: 0,
            again: false,
            rest: Duration::ZERO,
        }
    }

    #[test]
    fn one_lease_of_a_host_is_served_at_a_time_and_hosts_take_turns() {
        let mut hosts = Hosts::default();
        hosts.add(["http://a/1", "http://a/2", "http://b/1", "https://a/3"].map(lease).to_vec());
        let next = |hosts: &mut Hosts| hosts.next().map(|(_, lease)| lease.url);
        assert_eq!(next(&mut hosts).as_deref(), Some("http://a/1"));
        assert_eq!(next(&mut hosts).as_deref(), Some("http://b/1"));
        assert_eq!(next(&mut hosts), None, "http and https of a host are one host");
        hosts.served("b");
        hosts.served("a");
        assert_eq!(next(&mut hosts).as_deref(), Some("http://a/2"));
        hosts.served("a");
        assert_eq!(next(&mut hosts).as_deref(), Some("https://a/3"));
        hosts.served("a");
        assert_eq!((hosts.in_hand(), hosts.waiting.len()), (0, 0));
    }
}
