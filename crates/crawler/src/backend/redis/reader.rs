//! Reads what a distributed crawl has stored on Redis, without taking part in it: outcomes of URLs, and stored pages.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant, UNIX_EPOCH};

use url::Url;

use super::super::durable::records::{PageRow, TaskRow};
use super::super::durable::{UrlHistory, UrlStatus, admitted_form, admitted_forms, lastmod_time};
use super::super::linking_pages::{FoundLinks, LinkSearch, LinkTargets, LinkingPages};
use super::super::stored_url::{StoredUrl, has_failed};
use super::Result;
use super::control::{DistributedCrawl, OpenedCrawl};
use super::data::CrawlData;
use super::messages::decode;
use super::records::{CompletedRecord, ReasonRow};
use crate::outcome::{Outcome, label_is_temporary};
use crate::scope::Scope;
use crate::seed_list::SeedIndex;
use crate::similarity::{HashKey, PageBody};
use crate::task::Depth;
use crate::task_kind::shown_url;

/// The longest path to a seed that is followed.
const MAX_PATH: usize = 1_000;

/// Stands for a page on the path to a seed whose URL is not stored, because its body is not, or not any more.
const NOT_STORED: &str = "a URL that is not stored any more";

/// How many bodies are read together, and how many completed URLs.
const PAGES_PER_READ: usize = 64;
const URLS_PER_READ: usize = 1_000;

/// What is known about a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownUrl {
    depth: Depth,
    by_redirect: bool,
    /// The ID of the URL of the page on which it was found. A seed has its own.
    from: u64,
    status: UrlStatus,
}

impl DistributedCrawl {
    /// Extends the scope of the crawl by that of its seed lists.
    pub async fn extend_scope(&self, scope: Scope) -> Result<Scope> {
        let index = self.seed_index().await?;
        Ok(scope.with_seed_index(SeedIndex::from_bytes(self.hash_key(), &index)))
    }

    /// A stored page.
    pub async fn content(&self, url: &Url) -> Result<Option<Vec<u8>>> {
        let OpenedCrawl { data, key, .. } = &*self.shared;
        data.body(key.url_id(&admitted_form(url))).await
    }

    /// The outcome of a URL and how it was discovered; `None` if it was never admitted. Reads the records of all URLs: an
    /// index would take more memory than the records.
    pub async fn why(&self, url: &Url) -> Result<Option<UrlHistory>> {
        let OpenedCrawl { data, key, .. } = &*self.shared;
        let (forms, url) = (admitted_forms(url), admitted_form(url));
        let known = known_urls(data, *key).await?;
        let mut ids = forms.iter().map(|form| key.url_id(form));
        let Some((id, KnownUrl { depth, by_redirect, from, mut status })) =
            ids.find_map(|id| Some((id, known.get(&id)?.clone())))
        else {
            return Ok(None);
        };
        if let UrlStatus::Completed { outcome, .. } = &mut status
            && let Some(reason) = data.reason(id).await?
        {
            *outcome = reason.outcome;
        }
        let lastmod = data.row::<u32>("lastmods", id).await?.map(lastmod_time);
        let (mut found_on, mut path_by_redirect) = (Vec::new(), Vec::new());
        let (mut visited, mut next) = (HashSet::from([id]), from);
        while visited.insert(next)
            && found_on.len() < MAX_PATH
            && let Some(page) = known.get(&next)
        {
            let row: Option<Vec<u8>> = data.row("pages", next).await?;
            let url = match row.and_then(|row| Some(PageRow::from_bytes(&row)?.url)) {
                Some(url) => Some(url),
                None => data.reason(next).await?.map(|reason| reason.url),
            };
            found_on.push(url.unwrap_or_else(|| NOT_STORED.to_owned()));
            path_by_redirect.push(page.by_redirect);
            next = page.from;
        }
        let visits = None;
        Ok(Some(UrlHistory { url, depth, found_on, by_redirect, path_by_redirect, lastmod, visits, status }))
    }

    /// The stored pages that link to a URL. The crawl removes query parameters of these patterns from links. Stops reading
    /// at the deadline.
    pub async fn linking_pages(
        &self,
        url: &Url,
        strip_query: &[String],
        deadline: Instant,
    ) -> Result<LinkingPages> {
        let targets = LinkTargets::Url(admitted_form(url));
        Ok(self.found_links(&targets, strip_query, deadline).await?.into_single())
    }

    /// The stored pages that link to the URLs of these IDs, in the same way.
    pub async fn pages_linking_to(
        &self,
        ids: Vec<u64>,
        strip_query: &[String],
        deadline: Instant,
    ) -> Result<FoundLinks> {
        self.found_links(&LinkTargets::Ids(ids), strip_query, deadline).await
    }

    async fn found_links(
        &self,
        targets: &LinkTargets,
        strip_query: &[String],
        deadline: Instant,
    ) -> Result<FoundLinks> {
        let OpenedCrawl { data, key, .. } = &*self.shared;
        let mut search = LinkSearch::new(*key, targets, strip_query);
        // A row may be read twice while the hash changes.
        let (mut cursor, mut known) = (0, HashSet::new());
        loop {
            let (next, pages) = data.some("pages", cursor).await?;
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
                let bodies = data.bodies(&ids).await?;
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

    /// Calls `each` with every completed URL. A URL that was fetched again for its links has the outcome of the first time, which
    /// is the one that counts.
    pub async fn each_url(&self, mut each: impl FnMut(StoredUrl)) -> Result<()> {
        let OpenedCrawl { data, settings, .. } = &*self.shared;
        let (mut next, mut known) = (Some(0), HashSet::new());
        while let Some(first) = next {
            let mut records;
            (records, next) = data.completed_from(first).await?;
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

    async fn stored_urls(&self, records: &[CompletedRecord]) -> Result<Vec<StoredUrl>> {
        let OpenedCrawl { data, key, .. } = &*self.shared;
        let label = |record: &CompletedRecord| record.code.label();
        let is_page = |record: &CompletedRecord| label(record) == Outcome::Page.label();
        let is_found = |record: &CompletedRecord| record.from != record.id && has_failed(&label(record));
        let own =
            |of_pages| records.iter().map(move |record| (is_page(record) == of_pages).then_some(record.id));
        let from = || records.iter().map(|record| is_found(record).then_some(record.from));
        let (pages, reasons) =
            (data.rows("pages", own(true)).await?, data.rows("reasons", own(false)).await?);
        let (from_pages, from_reasons) =
            (data.rows("pages", from()).await?, data.rows("reasons", from()).await?);
        let page_url = |row: &Option<Vec<u8>>| Some(PageRow::from_bytes(row.as_ref()?)?.url);
        let reason = |row: &Option<Vec<u8>>| decode::<ReasonRow>(row.as_ref()?);
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
}

/// Everything that is known about URLs, by their IDs.
async fn known_urls(data: &CrawlData, key: HashKey) -> Result<HashMap<u64, KnownUrl>> {
    let mut known = HashMap::<u64, KnownUrl>::new();
    data.completed(|record| {
        let mut page_number = Some(record.page_number).filter(|number| *number > 0);
        // A refetch has the page number of the first fetch.
        if let Some(KnownUrl { status: UrlStatus::Completed { page_number: first, .. }, .. }) =
            known.get(&record.id)
        {
            page_number = page_number.or(*first);
        }
        known.insert(record.id, completed(&record, page_number));
    })
    .await?;
    data.each("tasks", |_, row| {
        let row = TaskRow::from_bytes(&row)?;
        let pending = KnownUrl {
            depth: row.depth,
            by_redirect: row.redirects > 0,
            from: row.from.0,
            status: UrlStatus::Pending,
        };
        // A URL that is fetched again was completed before.
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
            is_temporary: label_is_temporary(&label),
            outcome: Outcome::text_of_label(&label).into_owned(),
            at: UNIX_EPOCH + Duration::from_secs(record.completed_at.into()),
            page_number,
        },
    }
}
