//! Simulated workers with throttles of their own: who gets which domain, and how soon hosts receive requests.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::{Instant, advance};

use super::super::super::memory_storage::MemoryStorage;
use super::super::super::{BackendConfig, HostLimits};
use super::super::LocalState;
use super::{Completion, HostClaim, HostDelay, Lease, WorkerId, add_urls, config, page, state_with};
use crate::domain::Domain;
use crate::origin::throttle_key;

const DELAY: Duration = Duration::from_millis(1_000);
const SITE_DELAY: Duration = Duration::from_millis(250);
const TICK: Duration = Duration::from_millis(10);

/// How many leases a worker has at most.
const CAPACITY: usize = 20;

/// A request that a worker sends at `start`.
struct Request {
    lease: Lease,
    start: Instant,
    end: Instant,
}

/// The throttle and the requests of one process.
#[derive(Default)]
struct SimulatedWorker {
    requests: Vec<Request>,
    next_of_host: HashMap<String, Instant>,
    next_of_site: HashMap<Domain, Instant>,
}

/// A request as its host sees it.
#[derive(Debug)]
struct Sent {
    host: String,
    start: Instant,
    /// When the worker died, if it did.
    end: Instant,
    is_lost: bool,
}

struct Simulation {
    state: LocalState<MemoryStorage>,
    workers: BTreeMap<WorkerId, SimulatedWorker>,
    /// The requests of all workers.
    sent: HashMap<Domain, Vec<Sent>>,
    leases: usize,
}

impl Simulation {
    /// Domains with two hosts each.
    fn new(domains: usize, urls_per_host: usize) -> Simulation {
        let hosts = HostLimits { delay: DELAY, site_delay: SITE_DELAY, ..config().hosts };
        let mut state = state_with(BackendConfig { hosts, ..config() });
        let pages = (0..urls_per_host).flat_map(|page| {
            (0..domains).flat_map(move |number| {
                ["", "www."].map(|prefix| format!("http://{prefix}d{number}.test/{page}"))
            })
        });
        add_urls(&mut state, pages);
        Simulation { state, workers: BTreeMap::new(), sent: HashMap::new(), leases: 0 }
    }

    fn add(&mut self, worker: u16) {
        self.state.add_worker(WorkerId(worker));
        self.workers.entry(WorkerId(worker)).or_default();
    }

    /// A worker dies. A request that was sent may reach its host as late as now.
    fn kill(&mut self, worker: u16) {
        let Some(dead) = self.workers.remove(&WorkerId(worker)) else { return };
        let now = Instant::now();
        for Request { lease, start, .. } in dead.requests {
            if start <= now {
                self.record(&lease, start, now, true);
            }
        }
        self.state.remove_worker(WorkerId(worker));
    }

    fn record(&mut self, lease: &Lease, start: Instant, end: Instant, is_lost: bool) {
        let sent = Sent { host: throttle_key(&lease.url).to_owned(), start, end, is_lost };
        self.sent.entry(Domain::from_url_str(&lease.url)).or_default().push(sent);
    }

    /// Checks the delays between all requests.
    fn check_delays(&mut self) {
        for sent in self.sent.values_mut() {
            sent.sort_by_key(|request| request.start);
            for (index, earlier) in sent.iter().enumerate() {
                for later in &sent[index + 1..] {
                    if later.host == earlier.host {
                        assert!(later.start >= earlier.end + DELAY, "{earlier:?} {later:?}");
                    }
                    assert!(later.start >= earlier.start + SITE_DELAY, "{earlier:?} {later:?}");
                    if earlier.is_lost && later.start > earlier.end {
                        assert!(later.start >= earlier.end + SITE_DELAY, "{earlier:?} {later:?}");
                    }
                }
            }
        }
    }

    /// Runs for some time. Returns the domains that each worker gets URLs of in that time.
    async fn run(&mut self, time: Duration) -> Vec<BTreeSet<Domain>> {
        let mut domains: BTreeMap<WorkerId, BTreeSet<Domain>> =
            self.workers.keys().map(|id| (*id, BTreeSet::new())).collect();
        let end = Instant::now() + time;
        while Instant::now() < end {
            let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
            for id in ids {
                self.finish_requests(id);
                for lease in self.lease(id) {
                    domains.entry(id).or_default().insert(Domain::from_url_str(&lease.url));
                    self.send(id, lease);
                }
            }
            advance(TICK).await;
        }
        domains.into_values().collect()
    }

    fn lease(&mut self, id: WorkerId) -> Vec<Lease> {
        let room = CAPACITY - self.workers[&id].requests.len();
        self.state.lease(id, room).unwrap()
    }

    /// Sends a request as soon as the lease and the worker's own throttle allow it.
    fn send(&mut self, id: WorkerId, lease: Lease) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let (host, site) = (throttle_key(&lease.url).to_owned(), Domain::from_url_str(&lease.url));
        let own = worker.next_of_host.get(&host).max(worker.next_of_site.get(&site)).copied();
        let start = (Instant::now() + lease.cooldown).max(own.unwrap_or_else(Instant::now));
        self.leases += 1;
        // Between 1 and 600 ms.
        let end = start + Duration::from_millis((self.leases as u64 * 7_919) % 600 + 1);
        worker.next_of_host.insert(host, end + DELAY);
        worker.next_of_site.insert(site, start + SITE_DELAY);
        worker.requests.push(Request { lease, start, end });
    }

    /// Completes the requests that have ended.
    fn finish_requests(&mut self, id: WorkerId) {
        let (now, Some(worker)) = (Instant::now(), self.workers.get_mut(&id)) else { return };
        let ended: Vec<Request> = worker.requests.extract_if(.., |request| request.end <= now).collect();
        for Request { lease, start, end } in ended {
            let next_of_site = self.workers[&id].next_of_site[&Domain::from_url_str(&lease.url)];
            self.record(&lease, start, end, false);
            let cooldown = (end + DELAY).saturating_duration_since(now);
            let completion = Completion {
                host_delay: Some(HostDelay { delay: DELAY, cooldown }),
                site_cooldown: next_of_site.saturating_duration_since(now),
                ..page(&lease)
            };
            self.state.complete(completion).unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn domains_spread_over_workers_that_join_later() {
    let mut crawl = Simulation::new(12, 25);
    crawl.add(0);
    let domains = crawl.run(5 * DELAY).await;
    assert_eq!(domains[0].len(), 12);
    crawl.add(1);
    crawl.add(2);
    crawl.run(5 * DELAY).await;
    let domains = crawl.run(5 * DELAY).await;
    assert_eq!(domains.iter().map(BTreeSet::len).collect::<Vec<_>>(), [4, 4, 4]);
    assert_eq!(domains.iter().flatten().collect::<BTreeSet<_>>().len(), 12);
    crawl.kill(1);
    crawl.run(5 * DELAY).await;
    let domains = crawl.run(5 * DELAY).await;
    assert_eq!(domains.iter().map(BTreeSet::len).collect::<Vec<_>>(), [6, 6]);
    crawl.run(60 * DELAY).await;
    assert_eq!(crawl.state.counters.completed, 12 * 2 * 25);
    crawl.check_delays();
}

#[tokio::test(start_paused = true)]
async fn domain_that_another_worker_wants_to_claim_stays_with_its_owner() {
    for is_claimed in [false, true] {
        let mut crawl = Simulation::new(2, 40);
        crawl.add(0);
        let domains = crawl.run(3 * DELAY).await;
        crawl.add(1);
        for domain in domains[0].iter().filter(|_| is_claimed) {
            let claim = crawl.state.claim_host(WorkerId(1), domain.as_str());
            assert_eq!(claim, HostClaim::OwnedBy(WorkerId(0)));
        }
        crawl.run(5 * DELAY).await;
        let domains = crawl.run(5 * DELAY).await;
        assert_eq!(domains.get(1).is_none_or(BTreeSet::is_empty), is_claimed, "{domains:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Each step adds or kills a worker.
    #[test]
    fn hosts_and_sites_have_their_delays_whichever_workers_come_and_go(
        steps in prop::collection::vec((0..4u16, any::<bool>(), 1..400u64), 1..30),
        domains in 1..8usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut crawl = Simulation::new(domains, 10);
            for (worker, is_added, ticks) in steps {
                if is_added { crawl.add(worker) } else { crawl.kill(worker) }
                crawl.run(ticks as u32 * TICK).await;
            }
            crawl.add(0);
            crawl.run(120 * DELAY).await;
            assert_eq!(crawl.state.counters.completed, domains as u64 * 20, "no URL is lost");
            crawl.check_delays();
        });
    }
}
