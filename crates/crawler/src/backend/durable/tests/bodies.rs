//! Stored pages, which are stored together with those of the same commit.

use std::collections::BTreeSet;

use super::super::super::{Backend, ContentMatch};
use super::super::{Batch, Tables};
use super::{LIFETIME, Life, ROOM, begin, url};
use crate::backend::local::storage::{Body, Storage};
use crate::similarity::Fingerprint;

fn life() -> Life {
    let mut begin = begin(7);
    begin.settings.keep_content = true;
    Life::of(begin, ROOM)
}

fn text(number: usize) -> Vec<u8> {
    format!("{number} ").repeat(100 + number).into_bytes()
}

fn fingerprint(number: usize) -> Fingerprint {
    Fingerprint { exact: number as u128, sketch: None }
}

/// Stores a page; safe with the next move that is waited for.
async fn store(life: &Life, number: usize, body: &[u8]) {
    let remembered = life.backend().store_content(&url(number), &fingerprint(number), body).await.unwrap();
    assert_eq!(remembered, ContentMatch::New);
}

async fn content(life: &Life, number: usize) -> Option<Vec<u8>> {
    life.backend().load_content(&url(number)).await.unwrap()
}

/// Waits until all that was stored is safe.
async fn safe(life: &Life) {
    let commit = life.backend().shared.state().storage.commit();
    life.backend().shared.uncommitted.notify_one();
    commit.wait().await.unwrap();
}

/// The segments on disk.
fn segments(life: &Life) -> BTreeSet<u64> {
    let view = &life.backend().shared.state().storage.view;
    (0..1_000).filter(|segment| view.bodies(*segment).unwrap().is_some()).collect()
}

/// Stores two pages in one commit, the second half a lifetime after the first.
async fn store_two(life: &Life) {
    {
        let mut state = life.backend().shared.state();
        for number in 0..2 {
            let (id, now) =
                (state.storage.id(&url(number)), state.clock.now() + LIFETIME / 2 * number as u32);
            let (fingerprint, body) = (fingerprint(number), Body::Plain(text(number).into()));
            state.contents.add(id, &url(number), &fingerprint, body.bytes().len() as u64, now);
            state.storage.store_page(id, &url(number), &fingerprint, Some(body), now);
        }
    }
    safe(life).await;
}

#[tokio::test]
async fn pages_committed_together_are_removed_from_disk_with_the_last_of_them() {
    let mut life = life();
    store_two(&life).await;
    let first = segments(&life);
    assert_eq!(first.len(), 1);
    life.die();
    assert_eq!([content(&life, 0).await, content(&life, 1).await], [Some(text(0)), Some(text(1))]);
    // The first is over, and half a lifetime later the second.
    life.wait(LIFETIME * 5 / 4);
    store(&life, 2, &text(2)).await;
    safe(&life).await;
    life.close();
    assert_eq!([content(&life, 0).await, content(&life, 1).await], [None, Some(text(1))]);
    assert!(segments(&life).is_superset(&first) && segments(&life).len() == 2);
    life.wait(LIFETIME / 2);
    store(&life, 3, &text(3)).await;
    safe(&life).await;
    life.die();
    assert!(segments(&life).is_disjoint(&first) && segments(&life).len() == 2);
    assert_eq!([content(&life, 1).await, content(&life, 2).await], [None, Some(text(2))]);
    assert_eq!(life.backend().snapshot().await.unwrap().stored.0, 2);
}

#[tokio::test]
async fn a_page_delivered_again_takes_the_place_of_what_it_was() {
    let mut life = life();
    store(&life, 0, &text(0)).await;
    safe(&life).await;
    let first = segments(&life);
    life.die();
    // Before its old body is committed away, and with others in the same commit.
    for body in [text(5), text(6)] {
        store(&life, 0, &body).await;
        assert_eq!(content(&life, 0).await, Some(body));
    }
    store(&life, 1, &text(1)).await;
    safe(&life).await;
    assert!(segments(&life).is_disjoint(&first));
    let stored = life.backend().snapshot().await.unwrap().stored;
    life.die();
    assert_eq!(life.backend().snapshot().await.unwrap().stored, stored);
    assert_eq!(stored.0, 2);
    assert_eq!([content(&life, 0).await, content(&life, 1).await], [Some(text(6)), Some(text(1))]);
}

#[tokio::test]
async fn a_damaged_segment_is_an_error_and_never_a_panic() {
    let mut life = life();
    store(&life, 0, &text(0)).await;
    safe(&life).await;
    let segment = *segments(&life).first().unwrap();
    let whole = life.backend().shared.state().storage.view.bodies(segment).unwrap().unwrap();
    life.open = None;
    let garbled: Vec<u8> = whole.iter().map(|byte| byte ^ 0x5A).collect();
    for damaged in [None, Some(Vec::new()), Some(whole[..whole.len() - 1].to_vec()), Some(garbled)] {
        let tables = Tables::open(&life.path(), Batch::default).unwrap();
        let mut batch = Batch { number: 1, ..Batch::default() };
        batch.bodies.insert(segment, damaged);
        tables.write(&batch).unwrap();
        drop(tables);
        life.open();
        let error = life.backend().load_content(&url(0)).await.unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{error}");
        // Everything else goes on.
        store(&life, 1, &text(1)).await;
        safe(&life).await;
        let (backend, keeper) = life.open.take().unwrap();
        drop(backend);
        keeper.close().unwrap();
    }
}
