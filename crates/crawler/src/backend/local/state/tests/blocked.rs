//! URLs that are blocked while they wait: they are leased at once, to be completed without a request.

use std::collections::HashMap;

use super::*;
use crate::backend::NoRequest;
use crate::live_settings::{ControlAction, LiveLimits, LiveSettings};

const BLOCKED: &str = "b.site.test";
const OTHER: &str = "www.site.test";

/// Two hosts of a site, in which 64 requests may be leased at a time.
fn state_of_a_site() -> LocalState<MemoryStorage> {
    let hosts = HostLimits { site_delay: SECOND_OF_TIME, ..config().hosts };
    let mut state = state_with(BackendConfig { hosts, ..config() });
    state.add_worker(FIRST);
    add_urls(&mut state, urls_of(BLOCKED, 3_000).into_iter().chain(urls_of(OTHER, 5)));
    state
}

fn block(state: &mut LocalState<MemoryStorage>, action: ControlAction) {
    let (settings, _) = LiveSettings::default().with(&action).unwrap();
    let BackendConfig { max_pages, max_bytes, hosts, .. } = &state.config;
    let limits = LiveLimits {
        is_paused: false,
        max_pages: *max_pages,
        max_bytes: *max_bytes,
        delay: hosts.delay,
        site_delay: hosts.site_delay,
        blocked: settings.blocked().unwrap(),
    };
    state.set_limits(&limits);
}

/// Leases URLs until there are none, and completes those that are blocked. Returns how many were, and the others.
fn complete_blocked(state: &mut LocalState<MemoryStorage>) -> (usize, Vec<Lease>) {
    let (mut blocked, mut others) = (0, Vec::new());
    loop {
        let leases = state.lease(FIRST, 32).unwrap();
        if leases.is_empty() {
            return (blocked, others);
        }
        for lease in leases {
            let Some(no_request) = &lease.no_request else {
                others.push(lease);
                continue;
            };
            assert_eq!(*no_request, NoRequest::Blocked);
            blocked += 1;
            let outcome = no_request.outcome();
            state.complete(Completion { outcome, ..Completion::new(&lease) }).unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn urls_of_a_blocked_host_are_leased_at_once_and_do_not_delay_the_other_hosts_of_the_site() {
    let mut state = state_of_a_site();
    block(&mut state, ControlAction::BlockHost(BLOCKED.into()));
    let leases = state.lease(FIRST, 600).unwrap();
    let mut by_host: HashMap<&str, usize> = HashMap::new();
    hosts(&leases).into_iter().for_each(|host| *by_host.entry(host).or_default() += 1);
    assert_eq!(by_host, HashMap::from([(BLOCKED, 512), (OTHER, 1)]), "a bounded number, and no other waits");
    for lease in leases.iter().filter(|lease| lease.no_request.is_some()) {
        let outcome = lease.no_request.as_ref().unwrap().outcome();
        state.complete(Completion { outcome, ..Completion::new(lease) }).unwrap();
    }
    assert_eq!(complete_blocked(&mut state), (3_000 - 512, Vec::new()), "no time has passed");
    let first = leases.iter().find(|lease| lease.no_request.is_none()).unwrap();
    state.complete(page_with_cooldown(first, SECOND_OF_TIME)).unwrap();
    advance(SECOND_OF_TIME).await;
    assert_eq!(hosts(&state.lease(FIRST, 10).unwrap()), [OTHER]);
    let snapshot = state.snapshot();
    assert_eq!((snapshot.outcomes["blocked"], snapshot.outcomes["page"]), (3_000, 1));
    assert_eq!(snapshot.priority_queues.iter().sum::<usize>(), 3);
}

#[tokio::test(start_paused = true)]
async fn host_with_a_cooldown_is_blocked_and_its_leases_of_a_dead_worker_are_completed_by_another() {
    let mut state = state_of_a_site();
    state
        .set_host_delay(BLOCKED, HostDelay { delay: SECOND_OF_TIME, cooldown: 3_600 * SECOND_OF_TIME })
        .unwrap();
    let other = state.lease(FIRST, 10).unwrap();
    assert_eq!(hosts(&other), [OTHER]);
    block(&mut state, ControlAction::BlockHost(BLOCKED.into()));
    assert_eq!(state.lease(FIRST, 100).unwrap().len(), 100);
    state.remove_worker(FIRST);
    let (blocked, others) = complete_blocked(&mut state);
    assert_eq!(
        (blocked, others.len()),
        (3_000, 0),
        "the site has a cooldown, since the dead worker may have sent a request"
    );
    // A new run blocks nothing.
    block(&mut state, ControlAction::Unpause);
    add_urls(&mut state, ["http://b.site.test/new".into()]);
    advance(3_600 * SECOND_OF_TIME).await;
    let leases = state.lease(FIRST, 1_000).unwrap();
    assert!(leases.iter().all(|lease| lease.no_request.is_none()));
}

#[tokio::test(start_paused = true)]
async fn urls_of_a_blocked_pattern_are_leased_in_their_hosts_turn_and_cost_no_delay() {
    let mut state = state_of_a_site();
    block(&mut state, ControlAction::BlockPattern("//b[.].*/[0-9]*[1-9]$".into()));
    let (mut blocked, mut pages) = (0, 0);
    for _ in 0..1_000 {
        let (count, leases) = complete_blocked(&mut state);
        (blocked, pages) = (blocked + count, pages + leases.len());
        for lease in &leases {
            state.complete(page(lease)).unwrap();
        }
        advance(SECOND_OF_TIME).await;
    }
    assert_eq!((blocked, pages), (2_700, 305));
}
