//! What is forgotten in time, for lifetimes of every length, and time itself.

use std::time::{Duration, Instant};

use super::super::super::{Backend, Completion, ContentMatch, WorkerId};
use super::super::seen_cache::CacheLimits;
use super::{LIFETIME, Life, ROOM, begin, found, url};
use crate::backend::local::LocalBackend;
use crate::backend::local::storage::Storage;
use crate::prioritizer::Priority;
use crate::similarity::{Fingerprint, Threshold};

#[tokio::test]
async fn time_that_passes_without_anything_to_write_outlives_a_death() {
    let mut life = Life::new(7, ROOM);
    life.backend().admit(found(0..1)).await.unwrap();
    // It is noted every five seconds.
    tokio::time::sleep(Duration::from_secs(7)).await;
    let began = life.now();
    life.die();
    assert!(life.now() > Duration::from_secs(4), "{:?} of {began:?}", life.now());
}

/// Completes everything there is.
async fn complete_all(backend: &impl Backend) {
    while backend.outstanding().await.unwrap() > 0 {
        let incoming = backend.take_unprioritized(100, Duration::ZERO).await.unwrap();
        let filed = incoming.into_iter().map(|incoming| (incoming.task_id, Priority::WORST));
        backend.enqueue_prioritized(filed.collect()).await.unwrap();
        backend.route(vec![Priority::WORST; 100], Duration::ZERO).await.unwrap();
        let leases = backend.lease(WorkerId(0), 100, Duration::ZERO).await.unwrap();
        backend.complete(leases.iter().map(Completion::new).collect()).await.unwrap();
    }
}

#[tokio::test]
async fn thousands_that_nobody_met_for_a_lifetime_are_forgotten_little_by_little() {
    // All that is written when the state is closed, and met by nobody since.
    let mut life = Life::new(100, CacheLimits { half: 100, write_at: 100 });
    life.backend().admit(found(0..5_000)).await.unwrap();
    complete_all(life.backend()).await;
    life.close();
    assert_eq!(life.backend().snapshot().await.unwrap().known, 5_000);
    life.wait(LIFETIME * 2);
    let begun = Instant::now();
    assert_eq!(life.backend().admit(found(4_999..5_001)).await.unwrap().new, 2);
    loop {
        let known = life.backend().snapshot().await.unwrap().known;
        if known == 2 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{known}");
        // Meanwhile the crawl goes on.
        assert_eq!(life.backend().admit(found(4_999..5_001)).await.unwrap().seen, 2);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    life.close();
    assert_eq!(life.backend().snapshot().await.unwrap().known, 2, "and so they are on disk");
    life.die();
    assert_eq!(life.backend().admit(found(4_990..5_001)).await.unwrap().new, 9);
}

/// A page is stored and a URL completed, then all is met again.
async fn meet_again<S: Storage>(backend: &LocalBackend<S>, ttl: Duration) {
    let fingerprint = Fingerprint { exact: 5, sketch: None };
    backend.admit(found(0..10)).await.unwrap();
    complete_all(backend).await;
    assert_eq!(backend.store_content(&url(0), &fingerprint, b"body").await.unwrap(), ContentMatch::New);
    tokio::time::sleep(Duration::from_millis(60)).await;
    let is_long = ttl > Duration::from_secs(60);
    let admitted = backend.admit(found(0..10)).await.unwrap();
    assert_eq!((admitted.new, admitted.seen), if is_long { (0, 10) } else { (10, 0) }, "{ttl:?}");
    let content = backend.load_content(&url(0)).await.unwrap();
    assert_eq!(content.as_deref(), is_long.then_some(b"body".as_slice()), "{ttl:?}");
    let remembered = backend.store_content(&url(1), &fingerprint, b"body").await.unwrap();
    assert_eq!(remembered == ContentMatch::New, !is_long, "{ttl:?}");
    complete_all(backend).await;
    assert_eq!(backend.snapshot().await.unwrap().stored.0, 1, "{ttl:?}");
}

#[tokio::test]
async fn the_shortest_and_the_longest_lifetimes_are_kept_in_memory_and_on_disk() {
    for ttl in [Duration::from_nanos(1), Duration::from_millis(1), Duration::MAX] {
        let mut begin = begin(7);
        (begin.settings.ttl, begin.settings.domain_ttl) = (ttl, ttl);
        begin.settings.keep_content = true;
        begin.settings.similarity = Threshold::new(0.9);
        meet_again(&LocalBackend::new(begin.settings.clone()), ttl).await;
        let mut life = Life::of(begin, ROOM);
        meet_again(life.backend(), ttl).await;
        life.die();
        let snapshot = life.backend().snapshot().await.unwrap();
        assert_eq!((snapshot.outstanding(), snapshot.stored.0), (0, 1));
    }
}
