//! Workers that join, leave, die and have throttles of their own.

mod blocked;
mod content;
mod delays;
mod many_workers;
mod prioritization;
mod recording_storage;
mod requisites;
mod waiting_hosts;

use std::time::Duration;

use tokio::time::{Instant, advance};

use self::recording_storage::{Recorded, RecordingStorage};
use super::super::budgets::BudgetReservation;
use super::super::memory_storage::MemoryStorage;
use super::super::storage::{Clock, Storage, TaskRef};
use super::super::{BackendConfig, HostLimits, LocalBackend};
use super::LocalState;
use crate::backend::{
    Backend, BudgetDecision, CompleteResult, Completion, DiscoveredUrl, DomainTransfer, HostClaim, HostDelay,
    Lease, TaskId, TransferResult, WorkerId, WorkerLoad,
};
use crate::domain::Domain;
use crate::outcome::Outcome;
use crate::prioritizer::{Priority, PriorityQueues};
use crate::similarity::HashKey;
use crate::stats::BodyBytes;

const FIRST: WorkerId = WorkerId(0);
const SECOND: WorkerId = WorkerId(1);
const SECOND_OF_TIME: Duration = Duration::from_secs(1);

/// No worker at first, and no common throttle.
fn config() -> BackendConfig {
    BackendConfig {
        visits: Default::default(),
        queue_size: 10_000,
        priority_queues: PriorityQueues::new(10).unwrap(),
        workers: 0,
        ttl: Duration::from_secs(3_600),
        domain_ttl: Duration::from_secs(300),
        keep_depths: false,
        keep_discovery: false,
        similarity: None,
        strip_query: Default::default(),
        keep_content: false,
        max_pages: 1_000,
        max_bytes: 1_000_000,
        max_page_bytes: 1_000,
        max_pages_per_host: u64::MAX,
        max_pages_per_site: u64::MAX,
        hosts: HostLimits {
            max_leases: 1,
            delay: SECOND_OF_TIME,
            workers_share_throttle: false,
            ..HostLimits::default()
        },
    }
}

fn state_with(config: BackendConfig) -> LocalState<MemoryStorage> {
    let storage = MemoryStorage::new(&config, HashKey::new(1));
    LocalState::new(config, Clock::starting_at(Duration::ZERO), storage)
}

fn state() -> LocalState<MemoryStorage> {
    state_with(config())
}

/// Admits URLs, and gives them a priority.
fn add_urls<S: Storage>(state: &mut LocalState<S>, urls: impl IntoIterator<Item = String>) {
    let discovered = |url| DiscoveredUrl { url, depth: 0, redirects: 0 };
    state.admit(&urls.into_iter().map(discovered).collect::<Vec<_>>()).unwrap();
    let unprioritized = state.take_unprioritized(10_000).unwrap();
    state.enqueue_prioritized(unprioritized.iter().map(|url| (url.task_id, Priority::MIDDLE)).collect());
}

fn urls_of(host: &str, count: usize) -> Vec<String> {
    (0..count).map(|page| format!("http://{host}/{page}")).collect()
}

fn page(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::Page, ..Completion::new(lease) }
}

/// A page, after which its host has a cooldown.
fn page_with_cooldown(lease: &Lease, cooldown: Duration) -> Completion {
    Completion { host_delay: Some(HostDelay { delay: SECOND_OF_TIME, cooldown }), ..page(lease) }
}

fn hosts(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.url.split('/').nth(2).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn worker_of_any_number_can_join_leave_and_come_back() {
    let mut state = state();
    add_urls(&mut state, urls_of("a.test", 3));
    state.remove_worker(WorkerId(7));
    state.add_worker(WorkerId(u16::MAX));
    assert_eq!(state.snapshot().workers.len(), 1 << 16);
    let lease = state.lease(WorkerId(9), 5).unwrap().remove(0);
    assert_eq!(
        state.snapshot().workers[9],
        WorkerLoad { domains: 1, leased: 1 },
        "a worker that was not added works"
    );
    state.remove_worker(WorkerId(9));
    assert_eq!(state.complete(page(&lease)).unwrap(), CompleteResult::StaleLease);
    assert_eq!(state.snapshot().workers[9], WorkerLoad::default());
    advance(SECOND_OF_TIME).await;
    state.add_worker(WorkerId(9));
    let lease = state.lease(WorkerId(9), 5).unwrap().remove(0);
    assert_eq!(&*lease.url, "http://a.test/0");
    assert!(matches!(state.complete(page(&lease)).unwrap(), CompleteResult::Applied { .. }));
}

#[tokio::test(start_paused = true)]
async fn worker_that_joined_later_is_woken() {
    let backend = LocalBackend::new(config());
    let (leases, ()) = tokio::join!(backend.lease(WorkerId(40), 1, 60 * SECOND_OF_TIME), async {
        advance(SECOND_OF_TIME).await;
        let url = DiscoveredUrl { url: "http://a.test/".into(), depth: 0, redirects: 0 };
        backend.admit(vec![url]).await.unwrap();
        let task_id = backend.take_unprioritized(1, Duration::ZERO).await.unwrap()[0].task_id;
        backend.enqueue_prioritized(vec![(task_id, Priority::MIDDLE)]).await.unwrap();
    });
    assert_eq!(hosts(&leases.unwrap()), ["a.test"]);
    let claim = backend.claim_host(WorkerId(3), "www.a.test").await.unwrap();
    assert_eq!(claim, HostClaim::LeaseLost, "this worker has not joined");
    backend.lease(WorkerId(3), 1, Duration::ZERO).await.unwrap();
    let claim = backend.claim_host(WorkerId(3), "www.a.test").await.unwrap();
    assert_eq!(claim, HostClaim::OwnedBy(WorkerId(40)));
}

#[tokio::test(start_paused = true)]
async fn claimed_host_belongs_to_the_worker_and_has_the_cooldowns_of_host_and_site() {
    let mut state = state();
    state.add_worker(FIRST);
    state.add_worker(SECOND);
    let granted = |cooldown| HostClaim::Granted { cooldown };
    assert_eq!(state.claim_host(FIRST, "www.a.test"), granted(Duration::ZERO));
    assert_eq!(state.claim_host(SECOND, "mail.a.test"), HostClaim::OwnedBy(FIRST));
    add_urls(&mut state, urls_of("a.test", 1));
    assert!(state.lease(SECOND, 1).unwrap().is_empty());
    let lease = state.lease(FIRST, 1).unwrap().remove(0);
    let done = page_with_cooldown(&lease, 2 * SECOND_OF_TIME);
    state.complete(Completion { site_cooldown: SECOND_OF_TIME, ..done }).unwrap();
    assert_eq!(state.claim_host(FIRST, "a.test"), granted(2 * SECOND_OF_TIME));
    assert_eq!(state.claim_host(FIRST, "www.a.test"), granted(SECOND_OF_TIME));
    advance(299 * SECOND_OF_TIME).await;
    assert_eq!(state.claim_host(SECOND, "a.test"), HostClaim::OwnedBy(FIRST), "a claim is a use");
    advance(SECOND_OF_TIME).await;
    assert_eq!(state.claim_host(SECOND, "a.test"), granted(Duration::ZERO), "ownership has expired");
    state.remove_worker(SECOND);
    assert_eq!(state.claim_host(FIRST, "a.test"), granted(SECOND_OF_TIME), "it may have just sent a request");
    assert_eq!(state.claim_host(SECOND, "b.test"), HostClaim::LeaseLost);
}

#[tokio::test(start_paused = true)]
async fn no_url_of_a_site_is_leased_before_the_site_cooldown_ends() {
    let mut state = state();
    add_urls(&mut state, ["http://a.test/", "http://www.a.test/", "http://b.test/"].map(String::from));
    let leases = state.lease(FIRST, 2).unwrap();
    assert_eq!(hosts(&leases), ["a.test", "b.test"]);
    state.complete(Completion { site_cooldown: 3 * SECOND_OF_TIME, ..page(&leases[0]) }).unwrap();
    state.remove_worker(FIRST);
    advance(2 * SECOND_OF_TIME).await;
    assert_eq!(hosts(&state.lease(SECOND, 9).unwrap()), ["b.test"]);
    advance(Duration::from_millis(996)).await;
    let leases = state.lease(SECOND, 9).unwrap();
    assert_eq!((hosts(&leases), leases[0].cooldown), (vec!["www.a.test"], Duration::from_millis(4)));
}

#[tokio::test(start_paused = true)]
async fn hosts_of_a_removed_worker_wait_for_their_whole_delay() {
    let mut state = state();
    add_urls(&mut state, ["http://a.test/", "http://www.a.test/", "http://slow.test/"].map(String::from));
    let leases = state.lease(FIRST, 9).unwrap();
    assert_eq!(leases.len(), 3);
    let long = HostDelay { delay: 10 * SECOND_OF_TIME, cooldown: Duration::ZERO };
    state.set_host_delay("slow.test", long).unwrap();
    state.complete(page_with_cooldown(&leases[0], SECOND_OF_TIME)).unwrap();
    advance(5 * SECOND_OF_TIME).await;
    state.remove_worker(FIRST);
    state.add_worker(SECOND);
    let mut leased = Vec::new();
    for tenth in 0..110 {
        for lease in state.lease(SECOND, 9).unwrap() {
            leased.push((hosts(&[lease]).join(""), tenth));
        }
        advance(SECOND_OF_TIME / 10).await;
    }
    assert_eq!(leased, [("www.a.test".to_owned(), 10), ("slow.test".to_owned(), 100)]);
}

#[tokio::test(start_paused = true)]
async fn workers_that_share_a_throttle_keep_their_domains_without_a_cooldown() {
    let hosts = HostLimits { workers_share_throttle: true, ..config().hosts };
    let mut state = state_with(BackendConfig { workers: 1, hosts, ..config() });
    add_urls(&mut state, (0..12).flat_map(|number| urls_of(&format!("d{number}.test"), 5)));
    assert_eq!(state.lease(FIRST, 12).unwrap().len(), 12);
    state.add_worker(SECOND);
    for _ in 0..5 {
        assert!(state.lease(SECOND, 9).unwrap().is_empty());
        advance(SECOND_OF_TIME).await;
    }
    state.remove_worker(FIRST);
    assert_eq!(state.lease(SECOND, 12).unwrap().len(), 12);
}

/// Four domains of the first worker, with this many leases of each of them.
fn four_domains_of_the_first_worker(max_leases: usize) -> (LocalState<MemoryStorage>, Vec<Lease>) {
    let hosts = HostLimits { max_leases, ..config().hosts };
    let mut state = state_with(BackendConfig { hosts, ..config() });
    add_urls(&mut state, (0..4).flat_map(|number| urls_of(&format!("d{number}.test"), 20)));
    let leases = state.lease(FIRST, 4 * max_leases).unwrap();
    assert_eq!(leases.len(), 4 * max_leases);
    (state, leases)
}

#[tokio::test(start_paused = true)]
async fn domain_without_a_lease_moves_at_once_with_its_cooldown() {
    let (mut state, leases) = four_domains_of_the_first_worker(1);
    for lease in &leases {
        state.complete(page_with_cooldown(lease, SECOND_OF_TIME)).unwrap();
    }
    assert!(state.lease(SECOND, 4).unwrap().is_empty());
    assert!(state.next_timer().unwrap() <= Instant::now(), "domains are to be moved");
    state.run_timers();
    advance(Duration::from_millis(997)).await;
    let leases = [state.lease(FIRST, 4).unwrap(), state.lease(SECOND, 4).unwrap()];
    assert_eq!(leases.each_ref().map(Vec::len), [2, 2]);
    assert!(leases.concat().iter().all(|lease| lease.cooldown == Duration::from_millis(3)));
}

#[tokio::test(start_paused = true)]
async fn domain_with_a_lease_moves_when_the_lease_ends() {
    let (mut state, mut leases) = four_domains_of_the_first_worker(2);
    assert!(state.lease(SECOND, 4).unwrap().is_empty());
    state.run_timers();
    for lease in leases.extract_if(.., |lease| lease.url.ends_with("/0")) {
        state.complete(page(&lease)).unwrap();
    }
    assert!(state.lease(SECOND, 4).unwrap().is_empty(), "all domains have a lease");
    leases.extend(state.lease(FIRST, 4).unwrap());
    assert_eq!(leases.len(), 4 + 2, "of two domains, no more URLs are leased");
    state.work();
    for lease in &leases {
        state.complete(page(lease)).unwrap();
    }
    assert!(state.work().workers.contains(&SECOND));
    assert_eq!([FIRST, SECOND].map(|worker| state.lease(worker, 9).unwrap().len()), [4, 4]);
}

#[tokio::test(start_paused = true)]
async fn move_is_cancelled_when_the_new_owner_is_removed_or_the_owner_claims_the_domain() {
    let (mut state, leases) = four_domains_of_the_first_worker(1);
    state.lease(SECOND, 4).unwrap();
    state.run_timers();
    state.remove_worker(SECOND);
    for lease in &leases {
        state.complete(page(lease)).unwrap();
    }
    let leases = state.lease(FIRST, 4).unwrap();
    assert_eq!(leases.len(), 4);
    state.lease(SECOND, 4).unwrap();
    advance(SECOND_OF_TIME).await;
    state.run_timers();
    for host in hosts(&leases) {
        assert!(matches!(state.claim_host(FIRST, host), HostClaim::Granted { .. }));
    }
    for lease in &leases {
        state.complete(page(lease)).unwrap();
    }
    assert_eq!(state.lease(FIRST, 4).unwrap().len(), 4);
    state.lease(SECOND, 4).unwrap();
    advance(SECOND_OF_TIME).await;
    state.run_timers();
    assert!(state.lease(SECOND, 4).unwrap().is_empty(), "a claimed domain does not move");
}

#[tokio::test(start_paused = true)]
async fn domain_that_moves_from_a_removed_worker_has_a_cooldown() {
    let (mut state, _) = four_domains_of_the_first_worker(1);
    state.lease(SECOND, 4).unwrap();
    state.run_timers();
    state.remove_worker(FIRST);
    assert!(state.lease(SECOND, 4).unwrap().is_empty());
    advance(SECOND_OF_TIME).await;
    assert_eq!(state.lease(SECOND, 4).unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn domain_is_transferred_with_all_its_leases_and_cooldowns_or_not_at_all() {
    let hosts = HostLimits { max_leases: 2, ..config().hosts };
    let backend = LocalBackend::new(BackendConfig { workers: 2, hosts, ..config() });
    add_urls(&mut backend.shared.state(), urls_of("a.test", 4));
    let leases = backend.lease(FIRST, 2, Duration::ZERO).await.unwrap();
    let (domain, second) = (Domain::from_url_str("http://a.test/"), SECOND_OF_TIME);
    let cooldown = |key: &str, cooldown| (key.to_owned(), HostDelay { delay: second, cooldown });
    let transfer = async |from, to, leases: &[Lease]| {
        let cooldowns = vec![cooldown("a.test", second), cooldown("*.a.test", 2 * second)];
        let transfer = DomainTransfer { domain: domain.clone(), to, leases: leases.to_vec(), cooldowns };
        backend.transfer_domains(from, vec![transfer]).await.unwrap()[0]
    };
    assert_eq!(transfer(SECOND, FIRST, &leases).await, TransferResult::Declined, "another worker owns it");
    assert_eq!(transfer(FIRST, WorkerId(5), &leases).await, TransferResult::Declined, "there is none");
    assert_eq!(transfer(FIRST, SECOND, &leases[1..]).await, TransferResult::RetryLater);
    assert_eq!(transfer(FIRST, SECOND, &leases).await, TransferResult::Moved);
    let late = backend.complete(vec![page(&leases[0])]).await.unwrap();
    assert_eq!(late, [CompleteResult::StaleLease]);
    advance(2 * second - Duration::from_millis(6)).await;
    assert!(backend.lease(SECOND, 4, Duration::ZERO).await.unwrap().is_empty());
    advance(Duration::from_millis(6)).await;
    assert!(backend.lease(FIRST, 4, Duration::ZERO).await.unwrap().is_empty());
    let again = backend.lease(SECOND, 4, Duration::ZERO).await.unwrap();
    assert_eq!(again.iter().map(|lease| &*lease.url).collect::<Vec<_>>(), urls_of("a.test", 2));
}

#[tokio::test(start_paused = true)]
async fn restored_lease_is_the_workers_and_counts_against_the_budgets() {
    let limits = BackendConfig { max_pages: 2, max_pages_per_host: 1, ..config() };
    let mut state = state_with(limits);
    (state.counters.admitted, state.counters.last_task_id) = (1, 1);
    let task = || {
        let (task_id, url) = (TaskId(1), "http://a.test/0");
        TaskRef::new(task_id, url).to_task()
    };
    let reservation = BudgetReservation::from_parts(70, (500, 30, true));
    assert_eq!(reservation.parts(), (500, 30, true));
    state.restore_lease(task(), SECOND, 70, Some(reservation));
    state.restore_lease(task(), SECOND, 70, Some(reservation));
    state.set_next_lease_id(60);
    let snapshot = state.snapshot();
    assert_eq!(snapshot.workers[1], WorkerLoad { domains: 1, leased: 1 });
    assert_eq!((snapshot.active_hosts, snapshot.owned_domains), (1, 1));
    add_urls(&mut state, ["http://a.test/1", "http://b.test/"].map(String::from));
    let first = state.lease(FIRST, 9).unwrap();
    assert_eq!((hosts(&first), first[0].lease_id), (vec!["b.test"], 71));
    let restored =
        Lease { task_id: TaskId(1), lease_id: 70, url: "http://a.test/0".into(), ..first[0].clone() };
    assert_eq!(state.reserve(&first[0], BodyBytes::default()), BudgetDecision::Granted(1_000));
    assert_eq!(state.claim_host(FIRST, "a.test"), HostClaim::OwnedBy(SECOND));
    let done = state.complete(page(&restored)).unwrap();
    assert_eq!(done, CompleteResult::Applied { id: Some(1), sequence: None, new: 0, exhausted: None });
    let lease = state.lease(SECOND, 9).unwrap().remove(0);
    assert_eq!(
        state.reserve(&lease, BodyBytes::default()),
        BudgetDecision::RetryLater,
        "both pages are taken"
    );
    state.release(&first[0], BodyBytes::default());
    assert_eq!(state.reserve(&lease, BodyBytes::default()), BudgetDecision::HostExhausted);
}

#[tokio::test(start_paused = true)]
async fn later_restored_lease_decides_who_owns_the_domain() {
    let mut state = state();
    for (number, worker) in [(1, FIRST), (2, SECOND)] {
        let url = &*format!("http://a.test/{number}");
        let task = TaskRef::new(TaskId(number), url);
        state.restore_lease(task.to_task(), worker, number, None);
    }
    assert_eq!(state.claim_host(FIRST, "a.test"), HostClaim::OwnedBy(SECOND));
    state.remove_worker(FIRST);
    state.remove_worker(SECOND);
    advance(SECOND_OF_TIME).await;
    assert_eq!(hosts(&state.lease(FIRST, 2).unwrap()), ["a.test"], "one at a time");
}

#[tokio::test(start_paused = true)]
async fn storage_learns_of_leases_and_reservations() {
    let memory = MemoryStorage::new(&config(), HashKey::new(1));
    let storage = RecordingStorage { memory, recorded: Vec::new() };
    let mut state = LocalState::new(config(), Clock::starting_at(Duration::ZERO), storage);
    add_urls(&mut state, ["a", "b", "c"].map(|host| format!("http://{host}.test/")));
    let leases = state.lease(SECOND, 3).unwrap();
    for lease in &leases {
        state.reserve(lease, BodyBytes::default());
    }
    state.reserve(&leases[0], BodyBytes::unencoded(400));
    state.release(&leases[1], BodyBytes::unencoded(20));
    state.release(&leases[1], BodyBytes::default());
    state.complete(page(&leases[0])).unwrap();
    let timeout = Outcome::Timeout { doing: "connecting", limit: SECOND_OF_TIME };
    let timeout = Completion { outcome: timeout, ..page(&leases[1]) };
    assert_eq!(state.complete(timeout).unwrap(), CompleteResult::Requeued { sequence: None });
    state.remove_worker(SECOND);
    let id = |index: usize| leases[index].task_id;
    let leased = leases.iter().map(|lease| Recorded::Lease(lease.task_id, lease.lease_id, SECOND));
    let mut expected: Vec<Recorded> = leased.collect();
    expected.extend([0, 1, 2].map(|index| Recorded::Reservation(id(index), Some((1_000, 0, true)))));
    expected.extend([
        Recorded::Reservation(id(0), Some((1_000, 400, true))),
        Recorded::Reservation(id(1), None),
        Recorded::End(id(0)),
        Recorded::End(id(1)),
        Recorded::End(id(2)),
    ]);
    assert_eq!(state.storage.recorded, expected);
}

#[tokio::test(start_paused = true)]
async fn domain_whose_leases_do_not_end_stays_with_its_owner() {
    let (mut state, leases) = four_domains_of_the_first_worker(1);
    assert!(state.lease(SECOND, 4).unwrap().is_empty());
    state.run_timers();
    // Two of the domains are about to move.
    assert!(state.lease(FIRST, 4).unwrap().is_empty());
    advance(6 * SECOND_OF_TIME).await;
    state.run_timers();
    for lease in &leases {
        state.complete(page(lease)).unwrap();
    }
    assert_eq!(state.lease(FIRST, 4).unwrap().len(), 4);
}

#[tokio::test]
async fn urls_of_a_prioritizer_that_was_stopped_are_prioritized_again() {
    let mut state = state();
    let discovered = |url| DiscoveredUrl { url, depth: 0, redirects: 0 };
    state.admit(&urls_of("a.test", 3).into_iter().map(discovered).collect::<Vec<_>>()).unwrap();
    assert_eq!(state.take_unprioritized(9).unwrap().len(), 3);
    assert!(state.take_unprioritized(9).unwrap().is_empty());
    state.restart_prioritizer();
    let again = state.take_unprioritized(9).unwrap();
    assert_eq!(again.iter().map(|url| url.task_id.0).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn postponed_urls_are_leased_again_in_their_order() {
    let hosts = HostLimits { max_leases: 5, ..config().hosts };
    let mut state = state_with(BackendConfig { hosts, ..config() });
    add_urls(&mut state, urls_of("a.test", 8));
    let leases = state.lease(FIRST, 5).unwrap();
    // They end in any order.
    for index in [1, 0, 2, 4, 3] {
        let postponed = Completion { outcome: Outcome::NotReached, ..Completion::new(&leases[index]) };
        assert!(matches!(state.complete(postponed).unwrap(), CompleteResult::Requeued { .. }));
    }
    let mut order = Vec::new();
    while let Some(lease) = state.lease(FIRST, 1).unwrap().pop() {
        order.push(lease.url.to_string());
        state.complete(page(&lease)).unwrap();
    }
    assert_eq!(order, urls_of("a.test", 8));
}
