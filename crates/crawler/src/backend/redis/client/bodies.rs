//! Page bodies, which workers store on Redis themselves, and the exact comparison of a page with stored ones.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{RedisWrite, ToRedisArgs};
use tokio::time::{Instant, sleep};

use super::super::Result;
use super::super::connection::Call;
use super::super::data::{COMPRESSED, PLAIN};
use super::RemoteBackend;
use crate::backend::BackendError;
use crate::backend::local::body_to_store;
use crate::backend::local::memory_storage::MemoryStorage;
use crate::backend::local::state::BorderCase;
use crate::backend::local::storage::{Body, Storage};
use crate::similarity::{ExactComparison, Verdicts};

/// How long a worker waits for the body of a page that another one stores.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// How often it checks.
const BODY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How many bytes of bodies each worker stores as they are: to compress them takes more time than to send them.
const MAX_PLAIN_BYTES: u64 = MemoryStorage::MAX_PLAIN_BYTES;

/// A body as a value on Redis.
struct StoredBody<'b>(&'b Body<'b>);

impl ToRedisArgs for StoredBody<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let kind = if matches!(self.0, Body::Compressed(_)) { COMPRESSED } else { PLAIN };
        let (mut value, bytes) = (out.writer_for_next_arg(), self.0.bytes());
        // It is memory, which takes everything.
        let _ = value.write_all(&[kind]).and_then(|()| value.write_all(bytes));
    }
}

impl RemoteBackend {
    /// Loads the body of a page that is stored. The worker that stores it may not have done so yet.
    async fn body_of_stored_page(&self, id: u64) -> Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + BODY_TIMEOUT;
        loop {
            match self.shared.data.body(id).await? {
                None if self.config.keep_content && Instant::now() < deadline => {
                    sleep(BODY_POLL_INTERVAL).await
                }
                body => return Ok(body),
            }
        }
    }

    /// A body as it is stored.
    pub(super) fn to_store<'b>(&self, body: &'b [u8]) -> Body<'b> {
        body_to_store(body, self.stored_bytes.load(Ordering::Relaxed), MAX_PLAIN_BYTES)
    }

    /// Lets the body of a page be stored before the page completes. Waits while too many bodies wait.
    pub(super) async fn store_body(&self, id: u64, body: &Body<'_>) -> Result<()> {
        let ttl = u64::try_from(self.config.ttl.as_millis()).unwrap_or(u64::MAX);
        let set = Call::new("SET", self.shared.data.keys.body(id)).arg((StoredBody(body), "PX", ttl));
        let bytes = body.bytes().len();
        self.stored_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        loop {
            let mut stored = std::pin::pin!(self.shared.bodies_stored.notified());
            stored.as_mut().enable();
            {
                let mut exchange = self.shared.working()?;
                if exchange.has_room_for_body() {
                    exchange.body_bytes += bytes;
                    exchange.bodies.push(set);
                    break;
                }
            }
            stored.await;
        }
        self.shared.to_send.notify_one();
        Ok(())
    }

    /// Compares a page with border cases, up to the first near-duplicate.
    pub(super) async fn compare(
        &self,
        comparison: &ExactComparison<'_>,
        pages: Vec<BorderCase>,
        verdicts: &mut Verdicts,
    ) -> Result<()> {
        for mut border_case in pages {
            let id = border_case.page.url;
            if self.shingles.get(id).is_none() {
                border_case.body = self.body_of_stored_page(id).await?.map(|body| Body::Plain(body.into()));
            }
            let compared = border_case.compare(comparison, self.config.similarity, &self.shingles);
            let is_near_duplicate = compared.map_err(BackendError::Redis)?;
            verdicts.add(id, is_near_duplicate);
            if is_near_duplicate {
                break;
            }
        }
        Ok(())
    }
}
