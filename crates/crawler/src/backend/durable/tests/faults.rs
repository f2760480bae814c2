//! Files that cannot be read or written, and operations that fail half-way.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use super::super::super::{Backend, BackendError};
use super::super::open::FORMAT;
use super::super::seen_cache::CacheLimits;
use super::super::{Batch, OpenState, STATE_FILE, StateReader, Tables};
use super::{SMALL_CACHE, TestState, discovered, open_anywhere, options};
use crate::backend::local::storage::Storage;
use crate::error::StorageErrorKind;
use crate::modules::OutputWrite;

#[tokio::test]
async fn state_of_another_format_is_refused() {
    let mut state = TestState::new(7, SMALL_CACHE);
    state.backend().admit(discovered(0..10)).await.unwrap();
    state.reopen();
    let path = state.path();
    state.open = None;
    for format in [FORMAT - 1, FORMAT + 1] {
        let tables = Tables::open(&path, Batch::default).unwrap();
        let mut batch = Batch::default();
        batch.meta.insert("format", format.to_le_bytes().to_vec());
        tables.write(&batch).unwrap();
        drop(tables);
        let refused = [open_anywhere(&path, options(7), SMALL_CACHE).err(), StateReader::open(&path).err()];
        for error in refused {
            let error = error.expect("it is refused").to_string();
            let expected = format!(
                "it has format {format}, and this version reads format {FORMAT}; resume it with the version"
            );
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[tokio::test]
async fn damaged_file_after_a_crash_is_refused_or_read_without_a_panic() {
    let state = TestState::new(7, CacheLimits::default());
    for first in (0..2_000).step_by(100) {
        state.backend().admit(discovered(first..first + 100)).await.unwrap();
    }
    let original = fs::read(state.path().join(STATE_FILE)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for at in (0..original.len()).step_by(4096).filter(|at| original[*at..at + 64] != [0; 64]) {
        let mut bytes = original.clone();
        (0..16).for_each(|n| bytes[at + n * 37] ^= 1 << (n % 8));
        fs::write(directory.path().join(STATE_FILE), &bytes).unwrap();
        match open_anywhere(directory.path(), options(7), SMALL_CACHE) {
            Ok(OpenState { backend, writer, .. }) => {
                let _ = backend.take_unprioritized(100, Duration::ZERO).await;
                let _ = backend.admit(discovered(1_990..2_010)).await;
                drop(backend);
                let _ = writer.close();
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
async fn operation_that_fails_half_way_leaves_the_last_commit_unchanged() {
    let mut state = TestState::new(7, SMALL_CACHE);
    state.backend().admit(discovered(0..10)).await.unwrap();
    let error = BackendError::state(StorageErrorKind::Io, "the disk is gone");
    {
        let mut state = state.backend().shared.state();
        state.counters.completed += 1;
        state.storage.fail(&error);
    }
    let refused = state.backend().admit(discovered(10..20)).await.unwrap_err();
    assert!(refused.to_string().contains("the disk is gone"), "{refused}");
    let (backend, writer) = state.open.take().unwrap();
    drop(backend);
    assert!(writer.close().unwrap_err().to_string().contains("the disk is gone"));
    state.open();
    let snapshot = state.backend().snapshot().await.unwrap();
    assert_eq!((snapshot.admitted, snapshot.completed), (10, 0));
}

#[tokio::test]
async fn operation_that_panics_half_way_leaves_the_last_commit_unchanged() {
    let mut state = TestState::new(7, SMALL_CACHE);
    state.backend().admit(discovered(0..10)).await.unwrap();
    let shared = Arc::clone(&state.backend().shared);
    let broken = std::thread::spawn(move || {
        let mut state = shared.state();
        state.counters.completed += 1;
        state.storage.record_writes(1, Some(1), vec![(0, OutputWrite::Append(b"half".to_vec()))]);
        panic!("half-way");
    });
    broken.join().unwrap_err();
    let refused = state.backend().admit(discovered(10..20)).await.unwrap_err();
    assert!(refused.to_string().contains("panicked half-way"), "{refused}");
    let (backend, writer) = state.open.take().unwrap();
    drop(backend);
    assert!(writer.close().unwrap_err().to_string().contains("nothing committed is lost"));
    state.open();
    let snapshot = state.backend().snapshot().await.unwrap();
    assert_eq!((snapshot.admitted, snapshot.completed), (10, 0));
}
