//! Reads the completed URLs of a distributed crawl from Redis, some at a time. Records have no URLs: those of pages, and of URLs
//! whose outcome says more than its name, are looked up.

use std::collections::HashSet;
use std::time::{Duration, UNIX_EPOCH};

use super::super::BackendError;
use super::super::durable::records::PageRow;
use super::super::stored_url::{StoredUrl, has_failed};
use super::connection::Call;
use super::control::Shared;
use super::reader::RedisStateReader;
use super::records::{CompletedRecord, ReasonRow};
use super::restore::Rows;
use crate::outcome::Outcome;
use crate::task_kind::shown_url;

/// How many URLs are looked up together.
const URLS_PER_READ: usize = 1_000;

impl RedisStateReader {
    /// Calls `each` with every completed URL. A URL that was fetched again for its links has the outcome of the first time, which
    /// is the one that counts.
    pub async fn each_url(&self, mut each: impl FnMut(StoredUrl)) -> Result<(), BackendError> {
        let Shared { connection, keys, settings, .. } = &*self.control.shared;
        let rows = Rows { connection, keys };
        let (mut next, mut known) = (Some(0), HashSet::new());
        while let Some(first) = next {
            let mut records;
            (records, next) = rows.completed_from(first).await?;
            // Only URLs with links are fetched again, and only if depths are tracked.
            records.retain(|record| {
                !settings.keep_depths || !record.code.has_links() || known.insert(record.id)
            });
            for records in records.chunks(URLS_PER_READ) {
                self.stored_urls(records).await?.into_iter().for_each(&mut each);
            }
        }
        Ok(())
    }

    async fn stored_urls(&self, records: &[CompletedRecord]) -> Result<Vec<StoredUrl>, BackendError> {
        let key = &self.control.shared.key;
        let ids = |is_wanted: &dyn Fn(&CompletedRecord) -> bool, id: &dyn Fn(&CompletedRecord) -> u64| {
            records.iter().map(|record| is_wanted(record).then(|| id(record))).collect::<Vec<_>>()
        };
        let label = |record: &CompletedRecord| record.code.label();
        let is_page = |record: &CompletedRecord| label(record) == Outcome::Page.label();
        let is_found = |record: &CompletedRecord| record.from != record.id && has_failed(&label(record));
        let pages = self.rows("pages", &ids(&is_page, &|record| record.id)).await?;
        let reasons = self.rows("reasons", &ids(&|record| !is_page(record), &|record| record.id)).await?;
        let from_pages = self.rows("pages", &ids(&is_found, &|record| record.from)).await?;
        let from_reasons = self.rows("reasons", &ids(&is_found, &|record| record.from)).await?;
        let page_url = |row: &Option<Vec<u8>>| Some(PageRow::from_bytes(row.as_ref()?)?.url);
        let reason = |row: &Option<Vec<u8>>| ReasonRow::from_bytes(row.as_ref()?);
        let url_of = |index: usize, record: &CompletedRecord| {
            let (task_url, outcome) = match reason(&reasons[index]) {
                Some(ReasonRow { url, outcome }) => (Some(url), outcome),
                None => (page_url(&pages[index]), Outcome::text_of_label(&label(record)).into_owned()),
            };
            let from = page_url(&from_pages[index]).or_else(|| Some(reason(&from_reasons[index])?.url));
            StoredUrl {
                link_id: task_url.as_deref().map_or(record.id, |url| key.url_id(shown_url(url))),
                task_url,
                outcome,
                depth: record.depth,
                at: UNIX_EPOCH + Duration::from_secs(record.completed_at.into()),
                found_on: from.map(|from| shown_url(&from).to_owned()),
            }
        };
        Ok(records.iter().enumerate().map(|(index, record)| url_of(index, record)).collect())
    }

    /// The rows of a hash for these IDs, in their order.
    async fn rows(&self, name: &str, ids: &[Option<u64>]) -> Result<Vec<Option<Vec<u8>>>, BackendError> {
        let Shared { connection, keys, .. } = &*self.control.shared;
        let wanted: Vec<u64> = ids.iter().flatten().copied().collect();
        if wanted.is_empty() {
            return Ok(vec![None; ids.len()]);
        }
        let get = Call::new("HMGET", keys.of(name));
        let get = wanted.into_iter().fold(get, |get, id| get.arg(id.to_le_bytes().to_vec()));
        let mut found = connection.one::<Vec<Option<Vec<u8>>>>(get).await?.into_iter();
        Ok(ids.iter().map(|id| id.and_then(|_| found.next().flatten())).collect())
    }
}
