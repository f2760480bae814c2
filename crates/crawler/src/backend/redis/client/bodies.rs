//! Page bodies, which workers store on Redis themselves, and the exact comparison of a page with stored ones.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::Result;
use super::super::connection::Call;
use super::super::data::{COMPRESSED, PLAIN};
use super::RemoteBackend;
use crate::backend::BackendError;
use crate::backend::local::state::BorderCase;
use crate::backend::local::storage::Body;
use crate::similarity::{ExactComparison, Verdicts};

/// How long a worker waits for the body of a page that another one stores.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// How often it checks.
const BODY_POLL_INTERVAL: Duration = Duration::from_millis(5);

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

    pub(super) async fn store_body(&self, id: u64, body: &Body<'_>) -> Result<()> {
        let kind = if matches!(body, Body::Compressed(_)) { COMPRESSED } else { PLAIN };
        let (data, ttl) = (&self.shared.data, u64::try_from(self.config.ttl.as_millis()).unwrap_or(u64::MAX));
        let set = Call::new("SET", data.keys.body(id)).arg(([&[kind], body.bytes()].concat(), "PX", ttl));
        data.connection.one(set).await
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
