//! Page bodies, which workers store on Redis themselves, and the exact comparison of a page with stored ones.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::connection::{Call, Connection};
use super::super::keys::CrawlKeys;
use super::super::messages::BorderPage;
use super::RemoteBackend;
use crate::backend::BackendError;
use crate::backend::local::decompress;
use crate::backend::local::storage::Body;
use crate::similarity::{ContentType, ExactComparison, PageBody, ShingleSet};

/// How long a worker waits for the body of a page that another one stores.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// How often it checks.
const BODY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The first byte of a stored body.
const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;

impl RemoteBackend {
    /// Loads a stored body.
    pub(super) async fn body(&self, id: u64) -> Result<Option<Vec<u8>>, BackendError> {
        load_body(&self.shared.connection, &self.shared.keys, id).await
    }

    /// Loads the body of a page that is stored. The worker that stores it may not have done so yet.
    async fn body_of_stored_page(&self, id: u64) -> Result<Option<Vec<u8>>, BackendError> {
        let deadline = Instant::now() + BODY_TIMEOUT;
        loop {
            match self.body(id).await? {
                None if self.config.keep_content && Instant::now() < deadline => {
                    sleep(BODY_POLL_INTERVAL).await
                }
                body => return Ok(body),
            }
        }
    }

    pub(super) async fn store_body(&self, id: u64, body: &Body<'_>) -> Result<(), BackendError> {
        let kind = if matches!(body, Body::Compressed(_)) { COMPRESSED } else { PLAIN };
        let set = Call::new("SET", self.shared.keys.body(id)).arg([&[kind], body.bytes()].concat());
        let ttl = u64::try_from(self.config.ttl.as_millis()).unwrap_or(u64::MAX);
        self.shared.connection.one(set.arg("PX").arg(ttl)).await
    }

    /// Compares a page with border cases, up to the first near-duplicate. Adds the verdicts.
    pub(super) async fn compare(
        &self,
        comparison: &ExactComparison<'_>,
        border_pages: Vec<BorderPage>,
        verdicts: &mut Vec<(u64, bool)>,
    ) -> Result<(), BackendError> {
        for border_page in border_pages {
            let shingles = self.shingles_of(comparison, &border_page).await?;
            let is_near_duplicate = match (self.config.similarity, shingles) {
                (Some(threshold), Some(shingles)) => comparison.is_near_duplicate(&shingles, threshold),
                _ => border_page.is_similar,
            };
            verdicts.push((border_page.id, is_near_duplicate));
            if is_near_duplicate {
                break;
            }
        }
        Ok(())
    }

    /// The shingles of a stored page; `None` if its body is not stored.
    async fn shingles_of(
        &self,
        comparison: &ExactComparison<'_>,
        page: &BorderPage,
    ) -> Result<Option<Arc<ShingleSet>>, BackendError> {
        if let Some(shingles) = self.shingles.get(page.id) {
            return Ok(Some(shingles));
        }
        let body = self.body_of_stored_page(page.id).await?;
        let (Some(content_type), Some(body)) = (ContentType::from_bytes(&page.content_type), body) else {
            return Ok(None);
        };
        let shingles = comparison.shingles_of(&PageBody { url: &page.url, content_type, body: &body });
        let shingles = Arc::new(shingles);
        self.shingles.add(page.id, Arc::clone(&shingles));
        Ok(Some(shingles))
    }
}

/// Loads the body of a page, by the ID of its URL.
pub(in super::super) async fn load_body(
    connection: &Connection,
    keys: &CrawlKeys,
    id: u64,
) -> Result<Option<Vec<u8>>, BackendError> {
    Ok(load_bodies(connection, keys, &[id]).await?.pop().flatten())
}

/// Loads the bodies of pages, by the IDs of their URLs.
pub(in super::super) async fn load_bodies(
    connection: &Connection,
    keys: &CrawlKeys,
    ids: &[u64],
) -> Result<Vec<Option<Vec<u8>>>, BackendError> {
    let calls = ids.iter().map(|id| Call::new("GET", keys.body(*id)));
    connection.all(calls.collect()).await?.into_iter().map(stored_body).collect()
}

fn stored_body(body: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, BackendError> {
    let body = match body.as_deref().and_then(<[u8]>::split_first) {
        Some((&PLAIN, bytes)) => Body::Plain(bytes.to_vec().into()),
        Some((&COMPRESSED, bytes)) => Body::Compressed(bytes.into()),
        _ => return Ok(None),
    };
    decompress(body).map(Some).map_err(BackendError::Redis)
}
