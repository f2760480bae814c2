//! Requisites, which wait in a queue of their own.

use super::*;
use crate::backend::{Budget, Outlinks};

const REQUISITE: &str = "http://a.test/x.png#requisite";

/// One page is allowed, and URLs of a site are leased a second apart.
fn one_page() -> BackendConfig {
    let hosts = HostLimits { site_delay: SECOND_OF_TIME, max_leases: 3, ..config().hosts };
    BackendConfig { max_pages: 1, workers: 1, hosts, ..config() }
}

/// Gives all URLs the best priority.
fn prioritize(state: &mut LocalState<MemoryStorage>) {
    let unprioritized = state.take_unprioritized(usize::MAX).unwrap();
    state.enqueue_prioritized(unprioritized.iter().map(|url| (url.task_id, Priority::BEST)).collect());
}

fn admit(state: &mut LocalState<MemoryStorage>, urls: Vec<String>) {
    let discovered = |url| DiscoveredUrl { url, depth: 0, redirects: 0 };
    state.admit(&urls.into_iter().map(discovered).collect::<Vec<_>>()).unwrap();
    prioritize(state);
}

/// A page with requisites.
fn page_with<U: AsRef<str>>(lease: &Lease, requisites: &[U]) -> Completion {
    Completion { requisites: Outlinks::new(requisites, 1), ..page(lease) }
}

fn requisite(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::Requisite, ..Completion::new(lease) }
}

fn exhausted(result: CompleteResult) -> Option<Budget> {
    let CompleteResult::Applied { exhausted, .. } = result else { panic!("{result:?}") };
    exhausted
}

#[tokio::test(start_paused = true)]
async fn pages_that_wait_do_not_hold_up_requisites_at_the_limit() {
    let mut state = state_with(one_page());
    admit(&mut state, urls_of("a.test", 100));
    let first = state.lease(FIRST, 1).unwrap().remove(0);
    assert_eq!(exhausted(state.complete(page_with(&first, &[REQUISITE])).unwrap()), None);
    prioritize(&mut state);
    advance(SECOND_OF_TIME).await;
    let leases = state.lease(FIRST, 10).unwrap();
    assert_eq!(leases.iter().map(|lease| &*lease.url).collect::<Vec<_>>(), [REQUISITE]);
    assert_eq!(exhausted(state.complete(requisite(&leases[0])).unwrap()), Some(Budget::Pages));
    let snapshot = state.snapshot();
    assert_eq!((snapshot.pending(), snapshot.priority_queues.iter().sum::<usize>()), (99, 99));
}

#[tokio::test(start_paused = true)]
async fn hosts_without_number_do_not_hold_up_requisites_at_the_limit() {
    let mut state = state_with(BackendConfig { queue_size: usize::MAX, ..one_page() });
    let hosts = 100_010;
    admit(&mut state, (0..hosts).map(|host| format!("http://h{host}.test/")).collect());
    assert!(!state.work().prioritizer);
    let first = state.lease(FIRST, 1).unwrap().remove(0);
    let count = 25_000;
    let requisites: Vec<String> =
        (0..count).map(|number| format!("http://r{number}.test/#requisite")).collect();
    state.complete(page_with(&first, &requisites)).unwrap();
    prioritize(&mut state);
    let active = state.snapshot().active_hosts;
    assert!(active < hosts + 15_000, "{active} hosts take memory");
    let mut fetched = 0;
    loop {
        let leases = state.lease(FIRST, 1_000).unwrap();
        fetched += leases.len();
        let Some((last, others)) = leases.split_last() else { panic!("{fetched} are leased") };
        others
            .iter()
            .for_each(|lease| assert_eq!(exhausted(state.complete(requisite(lease)).unwrap()), None));
        if exhausted(state.complete(requisite(last)).unwrap()) == Some(Budget::Pages) {
            break;
        }
    }
    assert_eq!(fetched, count);
}

#[tokio::test(start_paused = true)]
async fn page_that_was_given_back_does_not_hold_up_requisites() {
    let mut state = state_with(one_page());
    admit(&mut state, urls_of("a.test", 5));
    let first = state.lease(FIRST, 1).unwrap().remove(0);
    advance(SECOND_OF_TIME).await;
    let second = state.lease(FIRST, 1).unwrap().remove(0);
    state.complete(page_with(&first, &[REQUISITE])).unwrap();
    prioritize(&mut state);
    advance(SECOND_OF_TIME).await;
    assert_eq!(&*state.lease(FIRST, 1).unwrap()[0].url, REQUISITE);
    state.add_worker(SECOND);
    state.remove_worker(FIRST);
    advance(10 * SECOND_OF_TIME).await;
    let again = state.lease(SECOND, 10).unwrap();
    assert_eq!(again.iter().map(|lease| &*lease.url).collect::<Vec<_>>(), [REQUISITE]);
    assert_eq!(state.complete(page(&second)).unwrap(), CompleteResult::StaleLease);
}

#[tokio::test(start_paused = true)]
async fn page_in_flight_at_the_limit_waits_again() {
    let mut state = state_with(one_page());
    admit(&mut state, urls_of("a.test", 2));
    let first = state.lease(FIRST, 1).unwrap().remove(0);
    advance(SECOND_OF_TIME).await;
    let second = state.lease(FIRST, 1).unwrap().remove(0);
    state.complete(page_with(&first, &[REQUISITE])).unwrap();
    assert_eq!(state.reserve(&second, BodyBytes::default()), BudgetDecision::LeaseLost);
    assert_eq!(state.snapshot().priority_queues.iter().sum::<usize>(), 1);
}

#[tokio::test(start_paused = true)]
async fn other_priorities_leave_requisites_in_their_queue() {
    let mut state = state_with(one_page());
    admit(&mut state, urls_of("a.test", 3));
    let first = state.lease(FIRST, 1).unwrap().remove(0);
    state.complete(page_with(&first, &[REQUISITE])).unwrap();
    prioritize(&mut state);
    assert_eq!(state.reprioritize(&[Domain::named("a.test")]).unwrap(), 2);
    prioritize(&mut state);
    advance(SECOND_OF_TIME).await;
    assert_eq!(&*state.lease(FIRST, 10).unwrap()[0].url, REQUISITE);
}

#[tokio::test(start_paused = true)]
async fn requisites_of_stylesheets_are_limited_by_the_pages_of_the_crawl() {
    let mut state = state_with(BackendConfig { workers: 1, ..config() });
    admit(&mut state, urls_of("a.test", 1));
    let first = state.lease(FIRST, 1).unwrap().remove(0);
    state.complete(page_with(&first, &["http://b.test/a.css#requisite"])).unwrap();
    prioritize(&mut state);
    let stylesheet = state.lease(FIRST, 1).unwrap().remove(0);
    let imported: Vec<String> =
        (0..5_000).map(|number| format!("http://b.test/{number}#requisite")).collect();
    state.complete(Completion { requisites: Outlinks::new(imported, 2), ..requisite(&stylesheet) }).unwrap();
    let snapshot = state.snapshot();
    assert_eq!((snapshot.admitted, &snapshot.links_rejected["too many links"]), (2 + 2_000, &3_000));
}
