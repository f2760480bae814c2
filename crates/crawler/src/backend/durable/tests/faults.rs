//! What cannot be read or written, and moves that break off.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use super::super::super::{Backend, BackendError};
use super::super::open::{FORMAT, open_with};
use super::super::seen_cache::CacheLimits;
use super::super::{Batch, FILE, OpenState, StateReader, Tables};
use super::{Life, ROOM, begin, found};
use crate::backend::local::storage::Storage;
use crate::modules::OutputWrite;

#[tokio::test]
async fn a_state_of_another_format_is_left_to_the_version_that_wrote_it() {
    let mut life = Life::new(7, ROOM);
    life.backend().admit(found(0..10)).await.unwrap();
    life.close();
    let path = life.path();
    life.open = None;
    let tables = Tables::open(&path, Batch::default).unwrap();
    let mut batch = Batch::default();
    batch.meta.insert("format", (FORMAT + 1).to_le_bytes().to_vec());
    tables.write(&batch).unwrap();
    drop(tables);
    let refused = [open_with(&path, begin(7), ROOM).err(), StateReader::open(&path).err()];
    for error in refused {
        let error = error.expect("it is refused").to_string();
        assert!(error.contains("has format 3") && error.contains("resume it with the version"), "{error}");
    }
}

#[tokio::test]
async fn what_a_death_left_and_was_damaged_since_is_refused_or_read_and_never_a_panic() {
    let life = Life::new(7, CacheLimits::default());
    for first in (0..2_000).step_by(100) {
        life.backend().admit(found(first..first + 100)).await.unwrap();
    }
    let whole = fs::read(life.path().join(FILE)).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(4096).filter(|at| whole[*at..at + 64] != [0; 64]) {
        let mut bytes = whole.clone();
        (0..16).for_each(|n| bytes[at + n * 37] ^= 1 << (n % 8));
        fs::write(place.path().join(FILE), &bytes).unwrap();
        match open_with(place.path(), begin(7), ROOM) {
            Ok(OpenState { backend, keeper, .. }) => {
                let _ = backend.take_unprioritized(100, Duration::ZERO).await;
                let _ = backend.admit(found(1_990..2_010)).await;
                drop(backend);
                let _ = keeper.close();
            }
            Err(error) => {
                assert!(error.to_string().contains("state"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

#[tokio::test]
async fn a_move_that_fails_half_way_leaves_the_last_commit_as_it_was() {
    let mut life = Life::new(7, ROOM);
    life.backend().admit(found(0..10)).await.unwrap();
    let trouble = BackendError("the disk is gone".into());
    {
        let mut state = life.backend().shared.state();
        state.counts.completed += 1;
        state.storage.fail(&trouble);
    }
    let refused = life.backend().admit(found(10..20)).await.unwrap_err();
    assert!(refused.to_string().contains("the disk is gone"), "{refused}");
    let (backend, keeper) = life.open.take().unwrap();
    drop(backend);
    assert!(keeper.close().unwrap_err().to_string().contains("the disk is gone"));
    life.open();
    let snapshot = life.backend().snapshot().await.unwrap();
    assert_eq!((snapshot.admitted, snapshot.completed), (10, 0));
}

#[tokio::test]
async fn a_move_that_panics_half_way_leaves_the_last_commit_as_it_was() {
    let mut life = Life::new(7, ROOM);
    life.backend().admit(found(0..10)).await.unwrap();
    let shared = Arc::clone(&life.backend().shared);
    let broken = std::thread::spawn(move || {
        let mut state = shared.state();
        state.counts.completed += 1;
        state.storage.record(1, vec![(0, OutputWrite::Append(b"half".to_vec()))]);
        panic!("half-way");
    });
    broken.join().unwrap_err();
    let refused = life.backend().admit(found(10..20)).await.unwrap_err();
    assert!(refused.to_string().contains("broke off half-way"), "{refused}");
    let (backend, keeper) = life.open.take().unwrap();
    drop(backend);
    assert!(keeper.close().unwrap_err().to_string().contains("nothing committed is lost"));
    life.open();
    let snapshot = life.backend().snapshot().await.unwrap();
    assert_eq!((snapshot.admitted, snapshot.completed), (10, 0));
}
