//! Delays that change while URLs wait for them.

use super::*;
use crate::live_settings::LiveLimits;

const HOSTS: usize = 200;

fn set_delays(state: &mut LocalState<MemoryStorage>, delay: Duration, site_delay: Duration) {
    state.set_limits(&LiveLimits {
        is_paused: false,
        max_pages: 1_000,
        max_bytes: 1_000_000,
        delay,
        site_delay,
        blocked: None,
    });
}

/// Many hosts of one site, with one URL each.
fn site() -> LocalState<MemoryStorage> {
    site_of(true)
}

fn site_of(workers_share_throttle: bool) -> LocalState<MemoryStorage> {
    let config = config();
    let site_delay = SECOND_OF_TIME / 4;
    let hosts = HostLimits { workers_share_throttle, site_delay, ..config.hosts };
    let mut state = state_with(BackendConfig { hosts, workers: 1, ..config });
    add_urls(&mut state, (0..HOSTS).map(|number| format!("http://h{number}.site.test/")));
    state
}

/// Leases URLs for this many seconds.
async fn lease_for(state: &mut LocalState<MemoryStorage>, seconds: u32) -> Vec<Lease> {
    let mut leases = Vec::new();
    for _ in 0..10 * seconds {
        leases.extend(state.lease(FIRST, HOSTS).unwrap());
        advance(SECOND_OF_TIME / 10).await;
    }
    leases
}

#[tokio::test(start_paused = true)]
async fn all_urls_of_a_site_with_too_many_leases_are_leased_when_its_delay_is_removed() {
    let mut state = site();
    let leases = lease_for(&mut state, 30).await;
    assert_eq!(leases.len(), 64, "no more URLs of a site are leased at a time");
    set_delays(&mut state, Duration::ZERO, Duration::ZERO);
    let rest = state.lease(FIRST, HOSTS).unwrap();
    assert_eq!(leases.len() + rest.len(), HOSTS);
    for lease in leases.iter().chain(&rest) {
        state.complete(page(lease)).unwrap();
    }
    assert_eq!(state.counters.completed as usize, HOSTS);
}

#[tokio::test(start_paused = true)]
async fn a_site_without_a_delay_gets_one_and_all_its_urls_are_leased() {
    let mut state = site();
    set_delays(&mut state, Duration::ZERO, Duration::ZERO);
    let first = state.lease(FIRST, 150).unwrap();
    set_delays(&mut state, SECOND_OF_TIME, SECOND_OF_TIME / 4);
    assert!(lease_for(&mut state, 5).await.is_empty(), "more than 64 are leased");
    for lease in &first {
        state.complete(page(lease)).unwrap();
    }
    assert_eq!(first.len() + lease_for(&mut state, 30).await.len(), HOSTS);
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_delay_leave_one_timer_for_each_site() {
    let mut state = site();
    assert_eq!(state.lease(FIRST, HOSTS).unwrap().len(), 1);
    for seconds in 1..50 {
        set_delays(&mut state, seconds * SECOND_OF_TIME, seconds * SECOND_OF_TIME);
    }
    assert!(state.lease(FIRST, HOSTS).unwrap().is_empty());
    assert_eq!(state.waiting.timers(), 1);
}

fn disallowed(lease: &Lease) -> Completion {
    Completion { outcome: Outcome::RobotsDisallowed, ..Completion::new(lease) }
}

#[tokio::test(start_paused = true)]
async fn url_without_a_request_takes_no_turn_of_its_site() {
    for workers_share_throttle in [true, false] {
        let mut state = site_of(workers_share_throttle);
        for _ in 0..HOSTS / 2 {
            let leases = state.lease(FIRST, HOSTS).unwrap();
            assert_eq!(leases.len(), 1);
            state.complete(disallowed(&leases[0])).unwrap();
        }
        let leases = state.lease(FIRST, HOSTS).unwrap();
        state.complete(page(&leases[0])).unwrap();
        assert!(state.lease(FIRST, HOSTS).unwrap().is_empty(), "a request was sent");
        advance(SECOND_OF_TIME / 4).await;
        assert_eq!(state.lease(FIRST, HOSTS).unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn url_without_a_request_takes_no_turn_of_other_leases() {
    for workers_share_throttle in [true, false] {
        let mut state = site_of(workers_share_throttle);
        let first = state.lease(FIRST, HOSTS).unwrap();
        advance(SECOND_OF_TIME / 4).await;
        let second = state.lease(FIRST, HOSTS).unwrap();
        state.complete(disallowed(&first[0])).unwrap();
        assert!(state.lease(FIRST, HOSTS).unwrap().is_empty(), "the second one may have sent a request");
        state.complete(disallowed(&second[0])).unwrap();
        let third = state.lease(FIRST, HOSTS).unwrap();
        assert_eq!(third.len(), 1);
        // The request for robots.txt was one, too.
        state.complete(Completion { site_cooldown: SECOND_OF_TIME / 5, ..disallowed(&third[0]) }).unwrap();
        advance(SECOND_OF_TIME / 6).await;
        assert!(state.lease(FIRST, HOSTS).unwrap().is_empty());
        advance(SECOND_OF_TIME / 5).await;
        assert_eq!(state.lease(FIRST, HOSTS).unwrap().len(), 1);
    }
}
