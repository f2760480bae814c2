//! The leases a worker has in hand, host by host: so many of each host are served at a time, and hosts take turns.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::backend::Lease;
use crate::domain::Domain;

/// Leases that wait to be served.
pub(super) struct HostQueues {
    /// How many leases of a host are served at a time.
    per_host: usize,
    /// A host is in here while it has leases that wait, are being served, or are being brought to their end.
    hosts: HashMap<String, Host>,
    /// How many hosts each domain has in there.
    domains: HashMap<Domain, usize>,
    /// Domains of which nothing more is served for the time being.
    held_back: HashSet<Domain>,
    /// Hosts with a lease waiting that may be served, each once, in the order they became so.
    ready: VecDeque<String>,
    waiting: usize,
}

struct Host {
    domain: Domain,
    waiting: VecDeque<Lease>,
    being_served: usize,
    being_ended: usize,
    ready: bool,
}

impl Host {
    fn is_at_rest(&self) -> bool {
        self.being_served + self.being_ended == 0
    }
}

impl HostQueues {
    pub(super) fn new(per_host: usize) -> HostQueues {
        HostQueues {
            per_host: per_host.max(1),
            hosts: HashMap::new(),
            domains: HashMap::new(),
            held_back: HashSet::new(),
            ready: VecDeque::new(),
            waiting: 0,
        }
    }

    /// How many leases wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Of how many domains there are leases.
    pub(super) fn domains(&self) -> usize {
        self.domains.len()
    }

    /// A lease of a host has come.
    pub(super) fn add(&mut self, name: String, lease: Lease) {
        self.waiting += 1;
        let domains = &mut self.domains;
        let host = self.hosts.entry(name.clone()).or_insert_with_key(|name| {
            let domain = Domain::from_throttle_key(name);
            *domains.entry(domain.clone()).or_default() += 1;
            Host { domain, waiting: VecDeque::new(), being_served: 0, being_ended: 0, ready: false }
        });
        host.waiting.push_back(lease);
        self.line_up(&name);
    }

    /// The next lease to serve, of the host that has been ready for longest.
    pub(super) fn next(&mut self) -> Option<(String, Lease)> {
        loop {
            let name = self.ready.pop_front()?;
            let Some(host) = self.hosts.get_mut(&name) else { continue };
            host.ready = false;
            if self.held_back.contains(&host.domain) {
                continue;
            }
            let Some(lease) = host.waiting.pop_front() else { continue };
            host.being_served += 1;
            self.waiting -= 1;
            // If it may have another served at the same time, that one is served after those of the others.
            self.line_up(&name);
            return Some((name, lease));
        }
    }

    /// One of a host's leases was served, and is brought to its end: the host is ready for its next.
    pub(super) fn served(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.being_served -= 1;
        host.being_ended += 1;
        self.line_up(name);
    }

    /// One of a host's leases has ended; the host may be done with.
    pub(super) fn ended(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.being_ended -= 1;
        self.forget_if_done(name);
    }

    /// The domains, and how many leases each has.
    pub(super) fn by_domain(&self) -> Vec<(Domain, usize)> {
        let mut leases: HashMap<&Domain, usize> = HashMap::new();
        for host in self.hosts.values() {
            *leases.entry(&host.domain).or_default() +=
                host.waiting.len() + host.being_served + host.being_ended;
        }
        leases.into_iter().map(|(domain, leases)| (domain.clone(), leases)).collect()
    }

    /// Nothing more of a domain is served until it is released.
    pub(super) fn hold_back(&mut self, domain: Domain) {
        self.held_back.insert(domain);
    }

    /// A domain is served again.
    pub(super) fn release(&mut self, domain: &Domain) {
        self.held_back.remove(domain);
        for name in self.of(domain) {
            self.line_up(&name);
        }
    }

    /// Those of the domains of which nothing is being served or ended, and what waits of each, in the order of its loans.
    pub(super) fn at_rest<'a>(&self, domains: impl Iterator<Item = &'a Domain>) -> Vec<(Domain, Vec<Lease>)> {
        let mut at_rest: HashMap<&Domain, Option<Vec<&Lease>>> =
            domains.map(|domain| (domain, Some(Vec::new()))).collect();
        for host in self.hosts.values() {
            let Some(leases) = at_rest.get_mut(&host.domain) else { continue };
            match leases {
                Some(leases) if host.is_at_rest() => leases.extend(&host.waiting),
                leases => *leases = None,
            }
        }
        let at_rest = at_rest.into_iter().filter_map(|(domain, leases)| {
            let mut leases = leases?;
            leases.sort_by_key(|lease| lease.lease_id);
            Some((domain.clone(), leases.into_iter().cloned().collect()))
        });
        at_rest.collect()
    }

    /// Leases of a domain are somebody else's now.
    pub(super) fn let_go(&mut self, domain: &Domain, leases: &[Lease]) {
        let gone: HashSet<u64> = leases.iter().map(|lease| lease.lease_id).collect();
        for name in self.of(domain) {
            let Some(host) = self.hosts.get_mut(&name) else { continue };
            let before = host.waiting.len();
            host.waiting.retain(|lease| !gone.contains(&lease.lease_id));
            self.waiting -= before - host.waiting.len();
            self.forget_if_done(&name);
        }
    }

    fn of(&self, domain: &Domain) -> Vec<String> {
        let hosts = self.hosts.iter().filter(|(_, host)| host.domain == *domain);
        hosts.map(|(name, _)| name.clone()).collect()
    }

    fn forget_if_done(&mut self, name: &str) {
        let Some(host) = self.hosts.get(name) else { return };
        if !host.is_at_rest() || !host.waiting.is_empty() {
            return;
        }
        if let Some(Host { domain, .. }) = self.hosts.remove(name)
            && let Some(hosts) = self.domains.get_mut(&domain)
        {
            *hosts -= 1;
            if *hosts == 0 {
                self.domains.remove(&domain);
            }
        }
    }

    fn line_up(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        let may_be_served = !host.waiting.is_empty() && host.being_served < self.per_host;
        if !host.ready && may_be_served && !self.held_back.contains(&host.domain) {
            host.ready = true;
            self.ready.push_back(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::TaskId;
    use std::time::Duration;

    fn hosts(per_host: usize, urls: &[&str]) -> HostQueues {
        let mut hosts = HostQueues::new(per_host);
        for (url, number) in urls.iter().zip(1..) {
            let lease = Lease {
                task_id: TaskId(number),
                lease_id: number,
                url: url.to_string(),
                depth: 0,
                redirects: 0,
                is_revisit: false,
                cooldown: Duration::ZERO,
            };
            hosts.add(url[..1].to_owned(), lease);
        }
        hosts
    }

    fn next(hosts: &mut HostQueues) -> Option<String> {
        hosts.next().map(|(_, lease)| lease.url)
    }

    fn done(hosts: &mut HostQueues, host: &str) {
        hosts.served(host);
        hosts.ended(host);
    }

    #[test]
    fn one_lease_of_a_host_is_served_at_a_time_and_hosts_take_turns() {
        let mut hosts = hosts(1, &["a/1", "a/2", "b/1", "a/3"]);
        assert_eq!(next(&mut hosts).as_deref(), Some("a/1"));
        assert_eq!(next(&mut hosts).as_deref(), Some("b/1"));
        assert_eq!((next(&mut hosts), hosts.waiting()), (None, 2));
        done(&mut hosts, "b");
        done(&mut hosts, "a");
        assert_eq!(next(&mut hosts).as_deref(), Some("a/2"));
        done(&mut hosts, "a");
        assert_eq!(next(&mut hosts).as_deref(), Some("a/3"));
        done(&mut hosts, "a");
        assert_eq!((hosts.waiting(), hosts.hosts.len(), next(&mut hosts)), (0, 0, None));
    }

    #[test]
    fn as_many_of_a_host_are_served_as_may_be_and_still_hosts_take_turns() {
        let mut hosts = hosts(2, &["a/1", "a/2", "a/3", "a/4", "b/1"]);
        let first: Vec<String> = std::iter::from_fn(|| next(&mut hosts)).collect();
        assert_eq!(first, ["a/1", "b/1", "a/2"]);
        done(&mut hosts, "a");
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("a/3"), None));
        done(&mut hosts, "a");
        done(&mut hosts, "a");
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("a/4"), None));
        done(&mut hosts, "b");
        done(&mut hosts, "a");
        assert_eq!(hosts.hosts.len(), 0);
    }

    #[test]
    fn of_a_domain_that_is_held_back_nothing_more_is_served_and_all_is_let_go_at_once() {
        let mut hosts = hosts(1, &["a/1", "a/2", "b/1", "a/3", "b/2"]);
        let domain = Domain::from_throttle_key("a");
        assert_eq!((next(&mut hosts).as_deref(), hosts.domains()), (Some("a/1"), 2));
        hosts.hold_back(domain.clone());
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("b/1"), None));
        assert!(hosts.at_rest([&domain].into_iter()).is_empty());
        hosts.served("a");
        assert!(hosts.at_rest([&domain].into_iter()).is_empty(), "its completion is under way");
        hosts.ended("a");
        assert_eq!(next(&mut hosts), None);
        let at_rest = hosts.at_rest([&domain].into_iter());
        let leases = &at_rest[0].1;
        assert_eq!(leases.iter().map(|lease| &*lease.url).collect::<Vec<_>>(), ["a/2", "a/3"]);
        hosts.let_go(&domain, leases);
        hosts.release(&domain);
        assert_eq!((hosts.waiting(), hosts.domains(), next(&mut hosts)), (1, 1, None));
        done(&mut hosts, "b");
        assert_eq!(next(&mut hosts).as_deref(), Some("b/2"));
    }

    #[test]
    fn a_domain_that_is_released_is_served_again_with_what_has_come_meanwhile() {
        let mut hosts = hosts(1, &["a/1"]);
        let domain = Domain::from_throttle_key("a");
        hosts.hold_back(domain.clone());
        let come = Lease { url: "a/2".into(), ..hosts.at_rest([&domain].into_iter())[0].1[0].clone() };
        hosts.add("a".into(), come);
        assert_eq!(next(&mut hosts), None);
        hosts.release(&domain);
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("a/1"), None));
        done(&mut hosts, "a");
        assert_eq!(next(&mut hosts).as_deref(), Some("a/2"));
    }
}
