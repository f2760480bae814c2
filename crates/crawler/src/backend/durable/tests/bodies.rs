//! Stored pages. Bodies of the same commit share a segment.

use crate::backend::local::state::NewPage;
use std::collections::BTreeSet;

use super::super::super::{Backend, ContentMatch};
use super::super::{Batch, Tables};
use super::{SMALL_CACHE, TTL, TestState, options, url};
use crate::backend::local::storage::{Body, Storage};
use crate::similarity::Fingerprint;

fn state() -> TestState {
    let mut options = options(7);
    options.config.keep_content = true;
    TestState::with_options(options, SMALL_CACHE)
}

fn text(number: usize) -> Vec<u8> {
    format!("{number} ").repeat(100 + number).into_bytes()
}

fn fingerprint(number: usize) -> Fingerprint {
    Fingerprint { exact: number as u128, ..Fingerprint::not_compared() }
}

/// Stores a page. It is committed with the next operation that waits for a commit.
async fn store(state: &TestState, number: usize, body: &[u8]) {
    let result =
        state.backend().store_content(&url(number), &fingerprint(number), body, false).await.unwrap();
    assert_eq!(result, ContentMatch::New);
}

async fn content(state: &TestState, number: usize) -> Option<Vec<u8>> {
    state.backend().load_content(&url(number)).await.unwrap()
}

/// Waits until everything is committed.
async fn wait_committed(state: &TestState) {
    let commit = state.backend().shared.state().storage.commit();
    state.backend().shared.uncommitted.notify_one();
    commit.wait().await.unwrap();
}

/// The segments on disk.
fn segments(state: &TestState) -> BTreeSet<u64> {
    let view = &state.backend().shared.state().storage.view;
    (0..1_000).filter(|segment| view.bodies(*segment).unwrap().is_some()).collect()
}

/// Stores two pages in one commit, the second half a TTL after the first.
async fn store_two_in_one_commit(state: &TestState) {
    {
        let mut state = state.backend().shared.state();
        for number in 0..2 {
            let (id, now) = (state.storage.id(&url(number)), state.clock.now() + TTL / 2 * number as u32);
            let (fingerprint, body) = (fingerprint(number), Body::Plain(text(number).into()));
            state.content.add(id, &url(number), &fingerprint, body.bytes().len() as u64, now);
            let (url, fingerprint) = (url(number), &fingerprint);
            let page = NewPage {
                url: &url,
                fingerprint,
                body_bytes: None,
                body: Some(&body),
                is_seed: false,
                similarity: None,
            };
            state.storage.store_page(id, &page, false, now).unwrap();
        }
    }
    wait_committed(state).await;
}

#[tokio::test]
async fn segment_is_removed_from_disk_with_its_last_page() {
    let mut state = state();
    store_two_in_one_commit(&state).await;
    let first = segments(&state);
    assert_eq!(first.len(), 1);
    state.crash();
    assert_eq!([content(&state, 0).await, content(&state, 1).await], [Some(text(0)), Some(text(1))]);
    // The first page has expired; the second expires half a TTL later.
    state.advance(TTL * 5 / 4);
    store(&state, 2, &text(2)).await;
    wait_committed(&state).await;
    state.reopen();
    assert_eq!([content(&state, 0).await, content(&state, 1).await], [None, Some(text(1))]);
    assert!(segments(&state).is_superset(&first) && segments(&state).len() == 2);
    state.advance(TTL / 2);
    store(&state, 3, &text(3)).await;
    wait_committed(&state).await;
    state.crash();
    assert!(segments(&state).is_disjoint(&first) && segments(&state).len() == 2);
    assert_eq!([content(&state, 1).await, content(&state, 2).await], [None, Some(text(2))]);
    assert_eq!(state.backend().snapshot().await.unwrap().stored_pages, 2);
}

#[tokio::test]
async fn page_delivered_again_replaces_the_stored_one() {
    let mut state = state();
    store(&state, 0, &text(0)).await;
    wait_committed(&state).await;
    let first = segments(&state);
    state.crash();
    // Before the removal of its old body is committed, and with other pages in the same commit.
    for body in [text(5), text(6)] {
        store(&state, 0, &body).await;
        assert_eq!(content(&state, 0).await, Some(body));
    }
    store(&state, 1, &text(1)).await;
    wait_committed(&state).await;
    assert!(segments(&state).is_disjoint(&first));
    let snapshot = state.backend().snapshot().await.unwrap();
    let stored = (snapshot.stored_pages, snapshot.stored_bytes);
    state.crash();
    let snapshot = state.backend().snapshot().await.unwrap();
    assert_eq!((snapshot.stored_pages, snapshot.stored_bytes), stored);
    assert_eq!(stored.0, 2);
    assert_eq!([content(&state, 0).await, content(&state, 1).await], [Some(text(6)), Some(text(1))]);
}

#[tokio::test]
async fn damaged_segment_is_an_error_not_a_panic() {
    let mut state = state();
    store(&state, 0, &text(0)).await;
    wait_committed(&state).await;
    let segment = *segments(&state).first().unwrap();
    let original = state.backend().shared.state().storage.view.bodies(segment).unwrap().unwrap();
    state.open = None;
    let garbled: Vec<u8> = original.iter().map(|byte| byte ^ 0x5A).collect();
    for damaged in [None, Some(Vec::new()), Some(original[..original.len() - 1].to_vec()), Some(garbled)] {
        let tables = Tables::open(&state.path(), Batch::default).unwrap();
        let mut batch = Batch { number: 1, ..Batch::default() };
        batch.bodies.insert(segment, damaged);
        tables.write(&batch).unwrap();
        drop(tables);
        state.open();
        let error = state.backend().load_content(&url(0)).await.unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{error}");
        // Other pages can still be stored.
        store(&state, 1, &text(1)).await;
        wait_committed(&state).await;
        let (backend, writer) = state.open.take().unwrap();
        drop(backend);
        writer.close().unwrap();
    }
}
