//! What is stored about hosts, across restarts and crashes.

use std::time::Duration;

use super::super::super::{Backend, Completion, HostDelay};
use super::{SMALL_CACHE, TestState, discovered, options};
use crate::backend::local::storage::Storage;
use crate::outcome::Outcome;
use crate::stats::BodyBytes;

const DELAY: Duration = Duration::from_secs(1);

fn state(max_pages_per_host: u64) -> TestState {
    let mut options = options(7);
    options.delay = DELAY;
    options.config.max_pages_per_host = max_pages_per_host;
    options.config.max_pages_per_site = max_pages_per_host;
    TestState::with_options(options, SMALL_CACHE)
}

/// The hosts that have a row.
fn rows(state: &TestState) -> Vec<String> {
    let state = state.backend().shared.state();
    state.storage.view.hosts_after("", usize::MAX).unwrap().into_iter().map(|(host, _)| host).collect()
}

async fn set_delay(state: &TestState, host: &str, delay: Duration, cooldown: Duration) {
    state.backend().set_host_delay(host, HostDelay { delay, cooldown }).await.unwrap();
}

#[tokio::test]
async fn only_hosts_with_more_than_the_default_delay_have_rows() {
    let state = state(u64::MAX);
    for number in 0..10 {
        set_delay(&state, &format!("ordinary{number}.test"), DELAY, DELAY).await;
    }
    assert!(rows(&state).is_empty());
    set_delay(&state, "patient.test", DELAY * 5, DELAY * 5).await;
    set_delay(&state, "busy.test", DELAY, DELAY * 3 / 2).await;
    set_delay(&state, "closed.test", DELAY, DELAY * 60).await;
    assert_eq!(rows(&state), ["busy.test", "closed.test", "patient.test"]);
    tokio::time::sleep(DELAY).await;
    // The cooldown of the first is over. A shorter cooldown that arrives later does not replace a longer one.
    for host in ["busy.test", "closed.test"] {
        set_delay(&state, host, DELAY, DELAY).await;
    }
    set_delay(&state, "patient.test", DELAY * 5, DELAY * 5).await;
    assert_eq!(rows(&state), ["closed.test", "patient.test"]);
}

#[tokio::test]
async fn thousands_of_hosts_are_restored_after_a_crash() {
    let mut state = state(u64::MAX);
    // The last operation waits for the commit of all.
    for number in 0..3_000 {
        let host_delay = HostDelay { delay: DELAY * 30, cooldown: DELAY * 30 };
        state
            .backend()
            .shared
            .state()
            .storage
            .set_host_delay(&format!("host{number}.test"), host_delay)
            .unwrap();
    }
    set_delay(&state, "last.test", DELAY * 30, DELAY * 30).await;
    state.crash();
    assert_eq!(rows(&state).len(), 3_001);
    let cooldown =
        |host: &str| state.backend().shared.state().cooldowns.remaining(&format!("http://{host}.test/"));
    for number in 0..3_000 {
        assert!(cooldown(&format!("host{number}")) > DELAY * 20, "{number}");
    }
    assert!(cooldown("other") <= DELAY, "other hosts get the default delay");
}

#[tokio::test]
async fn limited_pages_of_a_host_and_a_site_are_counted_across_a_crash_whatever_their_delay() {
    let mut state = state(2);
    state.backend().admit(discovered(0..1)).await.unwrap();
    for lease in state.leases().await {
        state.backend().reserve(&lease, BodyBytes::default()).await.unwrap();
        let mut completion = Completion::new(&lease);
        completion.outcome = Outcome::Page;
        completion.host_delay = Some(HostDelay { delay: DELAY, cooldown: DELAY * 60 });
        state.backend().complete(vec![completion]).await.unwrap();
    }
    set_delay(&state, "h0.test", DELAY, DELAY).await;
    state.crash();
    assert_eq!(rows(&state), ["*.h0.test", "h0.test"]);
    let pages = state.backend().shared.state().budgets.pages_of_groups("http://h0.test/");
    assert_eq!(pages, [("h0.test".to_owned(), 1), ("*.h0.test".to_owned(), 1)]);
}
