//! Stored bodies.

use super::*;
use crate::similarity::Fingerprint;

#[tokio::test]
async fn bodies_in_memory_are_compressed_when_they_take_much_of_it_and_all_can_be_loaded() {
    let backend = LocalBackend::new(BackendConfig { keep_content: true, ..config() });
    let (bytes, url) = (MemoryStorage::MAX_PLAIN_BYTES / 4, |number: u8| format!("http://a.test/{number}"));
    for number in 0..8 {
        let body = vec![number; bytes as usize];
        backend.store_content(&url(number), &Fingerprint::not_compared(), &body, false).await.unwrap();
    }
    let stored = backend.snapshot().await.unwrap().stored_bytes;
    assert!((4 * bytes..5 * bytes).contains(&stored), "{stored} bytes");
    for number in 0..8 {
        let body = backend.load_content(&url(number)).await.unwrap();
        assert!(body.is_some_and(|body| body == vec![number; bytes as usize]), "page {number}");
    }
}
