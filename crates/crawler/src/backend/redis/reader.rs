//! Reads what a distributed crawl has stored on Redis, without taking part in it: outcomes of URLs, and stored pages.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant, UNIX_EPOCH};

use url::Url;

use super::super::durable::records::{PageRow, TaskRow};
use super::super::durable::{UrlHistory, UrlStatus, admitted_form, admitted_forms, lastmod_time};
use super::super::linking_pages::{FoundLinks, LinkSearch, LinkTargets, LinkingPages};
use super::super::{BackendError, Snapshot};
use super::RedisCrawl;
use super::client::{load_bodies, load_body};
use super::connection::Call;
use super::control::{CrawlControl, Shared};
use super::records::{CompletedRecord, ReasonRow};
use super::restore::Rows;
use crate::backend::local::BackendConfig;
use crate::outcome::Outcome;
use crate::scope::Scope;
use crate::seed_list::SeedIndex;
use crate::similarity::PageBody;
use crate::task::Depth;

/// The longest path to a seed that is followed.
const MAX_PATH: usize = 1_000;

/// Stands for a page on the path to a seed whose URL is not stored, because its body is not, or not any more.
const NOT_STORED: &str = "a URL that is not stored any more";

/// How many bodies are read together.
const PAGES_PER_READ: usize = 64;

/// A distributed crawl, to be read.
pub struct RedisStateReader {
    pub(super) control: CrawlControl,
}

/// What is known about a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownUrl {
    depth: Depth,
    by_redirect: bool,
    /// The ID of the URL of the page on which it was found. A seed has its own.
    from: u64,
    status: UrlStatus,
}

impl RedisStateReader {
    /// Opens a crawl that exists.
    pub async fn open(place: RedisCrawl) -> Result<RedisStateReader, BackendError> {
        Ok(RedisStateReader { control: CrawlControl::attach(place).await? })
    }

    /// The settings with which the crawl was started. The number of workers is not known.
    pub fn settings(&self) -> &BackendConfig {
        self.control.settings()
    }

    /// Counts and queue lengths.
    pub async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        self.control.snapshot().await
    }

    /// Extends the scope of the crawl by that of its seed lists.
    pub async fn extend_scope(&self, scope: Scope) -> Result<Scope, BackendError> {
        let index = self.control.seed_index().await?;
        Ok(scope.with_seed_index(SeedIndex::from_bytes(self.control.hash_key(), &index)))
    }

    /// A stored page.
    pub async fn content(&self, url: &Url) -> Result<Option<Vec<u8>>, BackendError> {
        let Shared { connection, keys, key, .. } = &*self.control.shared;
        load_body(connection, keys, key.url_id(&admitted_form(url))).await
    }

    /// The outcome of a URL and how it was discovered; `None` if it was never admitted. Reads the records of all URLs: an
    /// index would take more memory than the records.
    pub async fn why(&self, url: &Url) -> Result<Option<UrlHistory>, BackendError> {
        let Shared { connection, keys, key, .. } = &*self.control.shared;
        let (forms, url) = (admitted_forms(url), admitted_form(url));
        let known = known_urls(&Rows { connection, keys }, *key).await?;
        let mut ids = forms.iter().map(|form| key.url_id(form));
        let Some((id, KnownUrl { depth, by_redirect, from, mut status })) =
            ids.find_map(|id| Some((id, known.get(&id)?.clone())))
        else {
            return Ok(None);
        };
        if let UrlStatus::Completed { outcome, .. } = &mut status
            && let Some(reason) = self.reason(id).await?
        {
            *outcome = reason.outcome;
        }
        let get = Call::new("HGET", keys.of("lastmods")).arg(id.to_le_bytes().to_vec());
        let lastmod = connection.one::<Option<u32>>(get).await?.map(lastmod_time);
        let (mut found_on, mut path_by_redirect) = (Vec::new(), Vec::new());
        let (mut visited, mut next) = (HashSet::from([id]), from);
        while visited.insert(next)
            && found_on.len() < MAX_PATH
            && let Some(page) = known.get(&next)
        {
            let get = Call::new("HGET", keys.of("pages")).arg(next.to_le_bytes().to_vec());
            let row: Option<Vec<u8>> = connection.one(get).await?;
            let url = match row.and_then(|row| Some(PageRow::from_bytes(&row)?.url)) {
                Some(url) => Some(url),
                None => self.reason(next).await?.map(|reason| reason.url),
            };
            found_on.push(url.unwrap_or_else(|| NOT_STORED.to_owned()));
            path_by_redirect.push(page.by_redirect);
            next = page.from;
        }
        let visits = None;
        Ok(Some(UrlHistory { url, depth, found_on, by_redirect, path_by_redirect, lastmod, visits, status }))
    }

    /// What the record of a completed URL does not tell.
    async fn reason(&self, id: u64) -> Result<Option<ReasonRow>, BackendError> {
        let Shared { connection, keys, .. } = &*self.control.shared;
        let get = Call::new("HGET", keys.of("reasons")).arg(id.to_le_bytes().to_vec());
        let row: Option<Vec<u8>> = connection.one(get).await?;
        Ok(row.and_then(|row| ReasonRow::from_bytes(&row)))
    }

    /// The stored pages that link to a URL. The crawl removes query parameters of these patterns from links. Stops reading
    /// at the deadline.
    pub async fn linking_pages(
        &self,
        url: &Url,
        strip_query: &[String],
        deadline: Instant,
    ) -> Result<LinkingPages, BackendError> {
        let targets = LinkTargets::Url(admitted_form(url));
        Ok(self.found_links(&targets, strip_query, deadline).await?.into_single())
    }

    /// The stored pages that link to the URLs of these IDs, in the same way.
    pub async fn pages_linking_to(
        &self,
        ids: Vec<u64>,
        strip_query: &[String],
        deadline: Instant,
    ) -> Result<FoundLinks, BackendError> {
        self.found_links(&LinkTargets::Ids(ids), strip_query, deadline).await
    }

    async fn found_links(
        &self,
        targets: &LinkTargets,
        strip_query: &[String],
        deadline: Instant,
    ) -> Result<FoundLinks, BackendError> {
        let Shared { connection, keys, key, .. } = &*self.control.shared;
        let rows = Rows { connection, keys };
        let mut search = LinkSearch::new(*key, targets, strip_query);
        // A row may be read twice while the hash changes.
        let (mut cursor, mut known) = (0, HashSet::new());
        loop {
            let (next, pages) = rows.some("pages", cursor).await?;
            let pages = pages.into_iter().filter_map(|(id, row)| {
                let id = u64::from_le_bytes(id.try_into().ok()?);
                Some((id, PageRow::from_bytes(&row)?))
            });
            let pages: Vec<(u64, PageRow)> = pages.filter(|(id, _)| known.insert(*id)).collect();
            for pages in pages.chunks(PAGES_PER_READ) {
                if Instant::now() >= deadline {
                    search.found.has_unread = true;
                    return Ok(search.found);
                }
                let ids: Vec<u64> = pages.iter().map(|(id, _)| *id).collect();
                let bodies = load_bodies(connection, keys, &ids).await?;
                for ((_, page), body) in pages.iter().zip(bodies) {
                    let Some(body) = body else { continue };
                    let content_type = page.fingerprint.content_type;
                    search.read(&PageBody { url: &page.url, content_type, body: &body });
                }
            }
            match next {
                0 => return Ok(search.found),
                next => cursor = next,
            }
        }
    }
}

/// Everything that is known about URLs, by their IDs.
async fn known_urls(
    rows: &Rows<'_>,
    key: crate::similarity::HashKey,
) -> Result<HashMap<u64, KnownUrl>, BackendError> {
    let mut known = HashMap::<u64, KnownUrl>::new();
    rows.completed(|record| {
        let mut page_number = (record.page_number > 0).then_some(u64::from(record.page_number));
        // A revisit has the page number of the first visit.
        if let Some(KnownUrl { status: UrlStatus::Completed { page_number: first, .. }, .. }) =
            known.get(&record.id)
        {
            page_number = page_number.or(*first);
        }
        known.insert(record.id, completed(&record, page_number));
    })
    .await?;
    rows.each("tasks", |_, row| {
        let row = TaskRow::from_bytes(&row)?;
        let pending = KnownUrl {
            depth: row.depth,
            by_redirect: row.redirects > 0,
            from: row.from.0,
            status: UrlStatus::Pending,
        };
        // A URL that is revisited was completed before.
        known.entry(key.url_id(&row.url)).or_insert(pending);
        Some(())
    })
    .await?;
    Ok(known)
}

fn completed(record: &CompletedRecord, page_number: Option<u64>) -> KnownUrl {
    let label = record.code.label();
    KnownUrl {
        depth: record.depth,
        by_redirect: record.code.by_redirect(),
        from: record.from,
        status: UrlStatus::Completed {
            is_temporary: Outcome::label_is_temporary(&label),
            outcome: Outcome::text_of_label(&label).into_owned(),
            at: UNIX_EPOCH + Duration::from_secs(record.completed_at.into()),
            page_number,
        },
    }
}
