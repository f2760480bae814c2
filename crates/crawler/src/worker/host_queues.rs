//! A worker's leases, queued per host: a limited number of each host is fetched at a time, and hosts take
//! turns.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::backend::Lease;
use crate::domain::Domain;
use crate::keyed_map::{KeyedMap, KeyedSet};

/// The leases of a worker, by host.
pub(super) struct HostQueues {
    /// The most concurrent fetches of a host.
    max_per_host: usize,
    /// Hosts with leases that wait, are being fetched or are being completed.
    hosts: KeyedMap<Arc<str>, HostLeases>,
    /// How many entries of `hosts` each domain has.
    domains: KeyedMap<Domain, usize>,
    /// Domains of which no new fetch starts.
    paused: KeyedSet<Domain>,
    /// Hosts with a waiting lease whose fetch can start, each once, in the order in which they became ready.
    ready: VecDeque<Arc<str>>,
    waiting: usize,
}

struct HostLeases {
    name: Arc<str>,
    domain: Domain,
    waiting: VecDeque<Lease>,
    fetching: usize,
    completing: usize,
    ready: bool,
}

impl HostLeases {
    fn is_idle(&self) -> bool {
        self.fetching + self.completing == 0
    }
}

impl HostQueues {
    pub(super) fn new(max_per_host: usize) -> HostQueues {
        HostQueues {
            max_per_host: max_per_host.max(1),
            hosts: KeyedMap::default(),
            domains: KeyedMap::default(),
            paused: KeyedSet::default(),
            ready: VecDeque::new(),
            waiting: 0,
        }
    }

    /// The number of waiting leases.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Queues a lease of a host.
    pub(super) fn add(&mut self, name: &str, lease: Lease) {
        self.waiting += 1;
        match self.hosts.get_mut(name) {
            Some(host) => host.waiting.push_back(lease),
            None => {
                let domain = Domain::from_throttle_key(name);
                *self.domains.entry(domain.clone()).or_default() += 1;
                let (name, waiting): (Arc<str>, _) = (name.into(), VecDeque::from([lease]));
                let host = HostLeases {
                    name: Arc::clone(&name),
                    domain,
                    waiting,
                    fetching: 0,
                    completing: 0,
                    ready: false,
                };
                self.hosts.insert(name, host);
            }
        }
        self.mark_ready(name);
    }

    /// The next lease to fetch: one of the host that has been ready for longest.
    pub(super) fn next(&mut self) -> Option<(Arc<str>, Lease)> {
        loop {
            let name = self.ready.pop_front()?;
            let Some(host) = self.hosts.get_mut(&name) else { continue };
            host.ready = false;
            if self.paused.contains(&host.domain) {
                continue;
            }
            let Some(lease) = host.waiting.pop_front() else { continue };
            host.fetching += 1;
            self.waiting -= 1;
            // A further concurrent fetch of this host comes after those of the other ready hosts.
            self.mark_ready(&name);
            return Some((name, lease));
        }
    }

    /// A lease of the host was fetched and is being completed. The host's next fetch can start.
    pub(super) fn fetched(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.fetching -= 1;
        host.completing += 1;
        self.mark_ready(name);
    }

    /// A lease of the host was not fetched, and is the host's next one again.
    pub(super) fn put_back(&mut self, name: &str, lease: Lease) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.fetching -= 1;
        host.waiting.push_front(lease);
        self.waiting += 1;
        self.mark_ready(name);
    }

    /// A lease of the host was completed.
    pub(super) fn completed(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.completing -= 1;
        self.remove_if_empty(name);
    }

    /// Starts no new fetch of a domain until it is resumed.
    pub(super) fn pause(&mut self, domain: Domain) {
        self.paused.insert(domain);
    }

    /// Lets fetches of a domain start again.
    pub(super) fn resume(&mut self, domain: &Domain) {
        self.paused.remove(domain);
        for name in self.hosts_of(domain) {
            self.mark_ready(&name);
        }
    }

    /// Those of the domains without leases being fetched or completed, each with its waiting leases in the
    /// order of their lease IDs.
    pub(super) fn idle_domains<'a>(
        &self,
        domains: impl Iterator<Item = &'a Domain>,
    ) -> Vec<(Domain, Vec<Lease>)> {
        let mut idle: HashMap<&Domain, Option<Vec<&Lease>>> =
            domains.map(|domain| (domain, Some(Vec::new()))).collect();
        for host in self.hosts.values() {
            let Some(leases) = idle.get_mut(&host.domain) else { continue };
            match leases {
                Some(leases) if host.is_idle() => leases.extend(&host.waiting),
                leases => *leases = None,
            }
        }
        let idle = idle.into_iter().filter_map(|(domain, leases)| {
            let mut leases = leases?;
            leases.sort_by_key(|lease| lease.lease_id);
            Some((domain.clone(), leases.into_iter().cloned().collect()))
        });
        idle.collect()
    }

    /// Removes leases of a domain that another worker has now.
    pub(super) fn remove(&mut self, domain: &Domain, leases: &[Lease]) {
        let removed: HashSet<u64> = leases.iter().map(|lease| lease.lease_id).collect();
        for name in self.hosts_of(domain) {
            let Some(host) = self.hosts.get_mut(&name) else { continue };
            let before = host.waiting.len();
            host.waiting.retain(|lease| !removed.contains(&lease.lease_id));
            self.waiting -= before - host.waiting.len();
            self.remove_if_empty(&name);
        }
    }

    fn hosts_of(&self, domain: &Domain) -> Vec<Arc<str>> {
        let hosts = self.hosts.iter().filter(|(_, host)| host.domain == *domain);
        hosts.map(|(name, _)| name.clone()).collect()
    }

    fn remove_if_empty(&mut self, name: &str) {
        let Some(host) = self.hosts.get(name) else { return };
        if !host.is_idle() || !host.waiting.is_empty() {
            return;
        }
        if let Some(HostLeases { domain, .. }) = self.hosts.remove(name)
            && let Some(hosts) = self.domains.get_mut(&domain)
        {
            *hosts -= 1;
            if *hosts == 0 {
                self.domains.remove(&domain);
            }
        }
    }

    fn mark_ready(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        let can_start = !host.waiting.is_empty() && host.fetching < self.max_per_host;
        if !host.ready && can_start && !self.paused.contains(&host.domain) {
            host.ready = true;
            self.ready.push_back(Arc::clone(&host.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::TaskId;

    fn hosts(max_per_host: usize, urls: &[&str]) -> HostQueues {
        let mut hosts = HostQueues::new(max_per_host);
        for (url, number) in urls.iter().zip(1..) {
            let lease =
                Lease { task_id: TaskId(number), lease_id: number, url: (*url).into(), ..Lease::default() };
            hosts.add(&url[..1], lease);
        }
        hosts
    }

    fn next(hosts: &mut HostQueues) -> Option<String> {
        hosts.next().map(|(_, lease)| lease.url.to_string())
    }

    fn finish(hosts: &mut HostQueues, host: &str) {
        hosts.fetched(host);
        hosts.completed(host);
    }

    #[test]
    fn one_lease_of_a_host_is_fetched_at_a_time_and_hosts_take_turns() {
        let mut hosts = hosts(1, &["a/1", "a/2", "b/1", "a/3"]);
        assert_eq!(next(&mut hosts).as_deref(), Some("a/1"));
        assert_eq!(next(&mut hosts).as_deref(), Some("b/1"));
        assert_eq!((next(&mut hosts), hosts.waiting()), (None, 2));
        finish(&mut hosts, "b");
        finish(&mut hosts, "a");
        assert_eq!(next(&mut hosts).as_deref(), Some("a/2"));
        finish(&mut hosts, "a");
        assert_eq!(next(&mut hosts).as_deref(), Some("a/3"));
        finish(&mut hosts, "a");
        assert_eq!((hosts.waiting(), hosts.hosts.len(), next(&mut hosts)), (0, 0, None));
    }

    #[test]
    fn hosts_take_turns_when_each_has_several_concurrent_fetches() {
        let mut hosts = hosts(2, &["a/1", "a/2", "a/3", "a/4", "b/1"]);
        let first: Vec<String> = std::iter::from_fn(|| next(&mut hosts)).collect();
        assert_eq!(first, ["a/1", "b/1", "a/2"]);
        finish(&mut hosts, "a");
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("a/3"), None));
        finish(&mut hosts, "a");
        finish(&mut hosts, "a");
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("a/4"), None));
        finish(&mut hosts, "b");
        finish(&mut hosts, "a");
        assert_eq!(hosts.hosts.len(), 0);
    }

    #[test]
    fn paused_domain_becomes_idle_and_all_its_leases_are_removed() {
        let mut hosts = hosts(1, &["a/1", "a/2", "b/1", "a/3", "b/2"]);
        let domain = Domain::from_throttle_key("a");
        assert_eq!((next(&mut hosts).as_deref(), hosts.domains.len()), (Some("a/1"), 2));
        hosts.pause(domain.clone());
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("b/1"), None));
        assert!(hosts.idle_domains([&domain].into_iter()).is_empty());
        hosts.fetched("a");
        assert!(hosts.idle_domains([&domain].into_iter()).is_empty(), "it is being completed");
        hosts.completed("a");
        assert_eq!(next(&mut hosts), None);
        let idle = hosts.idle_domains([&domain].into_iter());
        let leases = &idle[0].1;
        assert_eq!(leases.iter().map(|lease| &*lease.url).collect::<Vec<_>>(), ["a/2", "a/3"]);
        hosts.remove(&domain, leases);
        hosts.resume(&domain);
        assert_eq!((hosts.waiting(), hosts.domains.len(), next(&mut hosts)), (1, 1, None));
        finish(&mut hosts, "b");
        assert_eq!(next(&mut hosts).as_deref(), Some("b/2"));
    }

    #[test]
    fn lease_that_is_put_back_is_the_next_one_and_its_domain_is_idle() {
        let mut hosts = hosts(1, &["a/1", "a/2"]);
        let domain = Domain::from_throttle_key("a");
        let (name, lease) = hosts.next().unwrap();
        hosts.put_back(&name, lease);
        assert_eq!((hosts.waiting(), hosts.idle_domains([&domain].into_iter())[0].1.len()), (2, 2));
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("a/1"), None));
    }

    #[test]
    fn resumed_domain_includes_leases_added_while_it_was_paused() {
        let mut hosts = hosts(1, &["a/1"]);
        let domain = Domain::from_throttle_key("a");
        hosts.pause(domain.clone());
        let added = Lease { url: "a/2".into(), ..hosts.idle_domains([&domain].into_iter())[0].1[0].clone() };
        hosts.add("a", added);
        assert_eq!(next(&mut hosts), None);
        hosts.resume(&domain);
        assert_eq!((next(&mut hosts).as_deref(), next(&mut hosts)), (Some("a/1"), None));
        finish(&mut hosts, "a");
        assert_eq!(next(&mut hosts).as_deref(), Some("a/2"));
    }
}
