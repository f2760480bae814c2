//! Failed URLs that are queued again: a crash between two commits leaves each of them failed or pending.

use super::super::open::read_hash_key;
use super::super::retry::retry_some;
use super::super::{Batch, Tables};
use super::*;

/// A finished crawl of 10 URLs, of which 5 failed temporarily.
async fn finished() -> TestState {
    let mut state = TestState::new(7, SMALL_CACHE);
    let seeds = (0..10).map(|number| DiscoveredUrl { url: url(number), depth: 0, redirects: 0 });
    state.backend().admit(seeds.collect()).await.unwrap();
    for lease in state.leases().await {
        let outcome = match number_of(&lease.url) % 4 {
            0 => Outcome::HostUnreachable { cause: "timeout".into() },
            1 => Outcome::HttpStatus { code: 404, retry_after: None },
            2 => Outcome::HttpStatus { code: 503, retry_after: Some(Duration::from_secs(9_999)) },
            _ => Outcome::Page,
        };
        state.backend().complete(vec![Completion { outcome, ..Completion::new(&lease) }]).await.unwrap();
    }
    state.reopen();
    state
}

fn counts(state: &TestState) -> (u64, BTreeMap<String, u64>) {
    let snapshot = state.backend().shared.state().snapshot();
    (snapshot.pending(), snapshot.outcomes)
}

fn outcomes(expected: &[(&str, u64)]) -> BTreeMap<String, u64> {
    expected.iter().map(|(label, count)| ((*label).to_owned(), *count)).collect()
}

#[tokio::test]
async fn failed_url_is_pending_again_and_its_outcome_is_not_counted() {
    let mut state = finished().await;
    let before = outcomes(&[("page", 2), ("HTTP 404", 3), ("HTTP 503", 2), ("host unreachable", 3)]);
    assert_eq!(counts(&state), (0, before));
    state.options.retry_failed = true;
    state.reopen();
    assert_eq!(counts(&state), (5, outcomes(&[("page", 2), ("HTTP 404", 3)])));
    let again: BTreeSet<usize> = state.leases().await.iter().map(|lease| number_of(&lease.url)).collect();
    assert_eq!(again, BTreeSet::from([0, 2, 4, 6, 8]));
    state.reopen();
    assert_eq!(counts(&state), (5, outcomes(&[("page", 2), ("HTTP 404", 3)])), "none is counted twice");
}

#[tokio::test]
async fn crash_between_two_commits_leaves_every_url_failed_or_pending() {
    for commits in 0..=5 {
        let mut state = finished().await;
        state.open = None;
        {
            let tables = Tables::open(&state.path(), Batch::default).unwrap();
            let key = read_hash_key(&tables.view().unwrap(), &state.path()).unwrap();
            let mut first = 0;
            for _ in 0..commits {
                first = retry_some(&tables, key, first, 2).unwrap().unwrap().0;
            }
        }
        state.open();
        let (pending, failed) = counts(&state);
        let failed: u64 =
            ["HTTP 503", "host unreachable"].iter().filter_map(|label| failed.get(*label)).sum();
        assert_eq!(pending + failed, 5, "after {commits} commits");
        state.options.retry_failed = true;
        state.reopen();
        assert_eq!(counts(&state), (5, outcomes(&[("page", 2), ("HTTP 404", 3)])));
        assert_eq!(state.leases().await.len(), 5);
    }
}
