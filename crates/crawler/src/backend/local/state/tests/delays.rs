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
    let config = config();
    let site_delay = SECOND_OF_TIME / 4;
    let hosts = HostLimits { workers_share_throttle: true, site_delay, ..config.hosts };
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
