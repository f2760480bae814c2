//! The seen set and stored pages as time passes, with TTLs of every length, and the active crawl time.

use std::time::Duration;

use super::super::super::{Backend, ContentMatch, WorkerId};
use super::super::StateOptions;
use super::super::seen_cache::CacheLimits;
use super::{SMALL_CACHE, TTL, TestState, disallowed, discovered, options, url};
use crate::backend::local::LocalBackend;
use crate::backend::local::storage::Storage;
use crate::prioritizer::Priority;
use crate::similarity::{Fingerprint, Threshold};

/// No commit takes this long, on a busy machine either.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn active_time_survives_a_crash_if_nothing_else_was_written() {
    let options = StateOptions { clock_interval: Duration::from_millis(20), ..options(7) };
    let mut state = TestState::with_options(options, SMALL_CACHE);
    state.backend().admit(discovered(0..1)).await.unwrap();
    state.advance(TTL);
    let commits =
        |state: &TestState| state.backend().shared.state().storage.committed.borrow().clone().unwrap();
    let (at, before) = (state.now(), commits(&state));
    // The next commit may have started before.
    while commits(&state) < before + 2 {
        assert!(state.now() < at + TIMEOUT, "no commit writes the time");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    state.crash();
    assert!(state.now() >= at, "{:?} after {at:?}", state.now());
}

/// Completes all pending URLs.
async fn complete_all(backend: &impl Backend) {
    while backend.pending().await.unwrap() > 0 {
        let unprioritized = backend.take_unprioritized(100, Duration::ZERO).await.unwrap();
        let prioritized = unprioritized.into_iter().map(|url| (url.task_id, Priority::WORST));
        backend.enqueue_prioritized(prioritized.collect()).await.unwrap();
        let leases = backend.lease(WorkerId(0), 100, Duration::ZERO).await.unwrap();
        backend.complete(leases.iter().map(disallowed).collect()).await.unwrap();
    }
}

#[tokio::test]
async fn thousands_of_urls_stay_seen_however_much_time_passes() {
    // All rows are written when the state is closed.
    let mut state = TestState::new(100, CacheLimits { half: 100, write_at: 100 });
    state.backend().admit(discovered(0..5_000)).await.unwrap();
    complete_all(state.backend()).await;
    for round in 0..3 {
        if round % 2 == 0 {
            state.reopen()
        } else {
            state.crash()
        }
        state.advance(TTL * 100);
        let admitted = state.backend().admit(discovered(0..5_000)).await.unwrap();
        assert_eq!((admitted.new, admitted.seen), (0, 5_000));
        assert_eq!(state.backend().snapshot().await.unwrap().seen_urls, 5_000);
    }
    let admitted = state.backend().admit(discovered(4_999..5_001)).await.unwrap();
    assert_eq!((admitted.new, admitted.seen), (1, 1));
}

/// Completes URLs and stores a page, then finds all of them again after a pause.
async fn find_again<S: Storage>(backend: &LocalBackend<S>, ttl: Duration) {
    let fingerprint = Fingerprint { exact: 5, ..Fingerprint::not_compared() };
    backend.admit(discovered(0..10)).await.unwrap();
    complete_all(backend).await;
    assert_eq!(
        backend.store_content(&url(0), &fingerprint, b"body", false).await.unwrap(),
        ContentMatch::New
    );
    tokio::time::sleep(Duration::from_millis(60)).await;
    let is_long = ttl > Duration::from_secs(60);
    let admitted = backend.admit(discovered(0..10)).await.unwrap();
    assert_eq!((admitted.new, admitted.seen), (0, 10), "{ttl:?}");
    let content = backend.load_content(&url(0)).await.unwrap();
    assert_eq!(content.as_deref(), is_long.then_some(b"body".as_slice()), "{ttl:?}");
    let result = backend.store_content(&url(1), &fingerprint, b"body", false).await.unwrap();
    assert_eq!(result == ContentMatch::New, !is_long, "{ttl:?}");
    complete_all(backend).await;
    assert_eq!(backend.snapshot().await.unwrap().stored_pages, 1, "{ttl:?}");
}

#[tokio::test]
async fn shortest_and_longest_ttls_work_in_memory_and_on_disk() {
    for ttl in [Duration::from_nanos(1), Duration::from_millis(1), Duration::MAX] {
        let mut options = options(7);
        (options.config.ttl, options.config.domain_ttl) = (ttl, ttl);
        options.config.keep_content = true;
        options.config.similarity = Threshold::new(0.9);
        find_again(&LocalBackend::new(options.config.clone()), ttl).await;
        let mut state = TestState::with_options(options, SMALL_CACHE);
        find_again(state.backend(), ttl).await;
        state.crash();
        let snapshot = state.backend().snapshot().await.unwrap();
        assert_eq!((snapshot.pending(), snapshot.stored_pages), (0, 1));
    }
}
