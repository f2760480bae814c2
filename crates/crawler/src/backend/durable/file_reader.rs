//! Reads the tables of a state: the history of a URL, stored pages, counts.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::super::linking_pages::{FoundLinks, LinkSearch, LinkTargets};
use super::super::{BackendError, Snapshot, TaskId};
use super::Tables;
use super::disk_storage::DiskStorage;
use super::open::{read_checkpoint, read_hash_key};
use super::outputs::{RecordedOutput, recorded_outputs};
use super::records::{CompletedRow, PageRow, SeenRow};
use super::seen_cache::CacheLimits;
use super::state_reader::{StateStatus, UrlHistory, UrlStatus, lastmod_time};
use super::stored_view::{self, StoredView};
use crate::backend::local::decompress;
use crate::backend::local::storage::Storage;
use crate::crawl_view::CrawlPhase;
use crate::live_settings::LiveSettings;
use crate::outcome::Outcome;
use crate::similarity::PageBody;
use crate::task_kind::shown_url;
use crate::visit::VisitRecord;

/// Number of rows to read at a time.
const ROWS_PER_READ: usize = 4096;

/// Number of completed URLs to read at a time.
const COMPLETED_PER_READ: usize = 256;

/// Number of pages whose bodies are read together.
const PAGES_PER_READ: usize = 128;

/// How long a question may read URLs or search the bodies of pages, about: others wait meanwhile.
pub(super) const MAX_SEARCH_TIME: Duration = Duration::from_millis(100);

/// The tables of a state, to be read: of a state that no process runs, or of the crawl of this process.
pub(super) struct FileReader {
    pub(super) storage: DiskStorage,
    snapshot: Snapshot,
    active_time: Duration,
    /// Holds the lock, and keeps the file open.
    _tables: Arc<Tables>,
}

impl FileReader {
    /// Reads from the last commit.
    pub(super) fn new(tables: Arc<Tables>, directory: &Path) -> Result<FileReader, BackendError> {
        let view = tables.view()?;
        let (key, checkpoint) = (read_hash_key(&view, directory)?, read_checkpoint(&view)?);
        let stored_pages = usize::try_from(view.pages_len()?).unwrap_or(usize::MAX);
        let mut storage = DiskStorage::new(view, key, false, Duration::ZERO, CacheLimits::default());
        storage.resume(checkpoint.seen_written_up_to)?;
        let next_due = storage.first_due()?.map(|(at, _)| at);
        let snapshot = Snapshot {
            seen_urls: storage.seen_len(),
            stored_pages,
            scheduled: storage.scheduled_len(),
            next_due,
            ..checkpoint.snapshot()
        };
        Ok(FileReader { storage, snapshot, active_time: checkpoint.visit_time(), _tables: tables })
    }

    /// Counts and statistics, as of the last commit.
    pub(super) fn status(&self) -> Result<StateStatus, BackendError> {
        let (snapshot, elapsed) = (self.snapshot.clone(), self.active_time);
        let StoredView { limits, phase, statistics } = stored_view::read(&self.storage.view)?;
        let phase = match phase {
            CrawlPhase::Ended(end) => CrawlPhase::Ended(end),
            _ => CrawlPhase::Ended("the crawl was interrupted".into()),
        };
        let statistics = Arc::new(statistics);
        Ok(StateStatus {
            snapshot,
            elapsed,
            process: None,
            statistics,
            limits,
            phase,
            live: LiveSettings::default(),
        })
    }

    /// The metadata of the crawl.
    pub(super) fn metadata(&self) -> Result<Vec<u8>, BackendError> {
        Ok(self.storage.view.meta("metadata")?.unwrap_or_default())
    }

    /// The outputs of the crawl.
    pub(super) fn outputs(&self) -> Result<Vec<RecordedOutput>, BackendError> {
        recorded_outputs(&self.storage.view)
    }

    /// The secret of the hashes, and the index of the seeds of lists.
    pub(super) fn seed_index(&self) -> Result<(u128, Vec<u8>), BackendError> {
        let view = &self.storage.view;
        let secret =
            view.meta("hash_key")?.and_then(|bytes| Some(u128::from_le_bytes(bytes.try_into().ok()?)));
        let index = view.meta("seed_index")?.unwrap_or_default();
        Ok((secret.ok_or_else(|| view.damaged())?, index))
    }

    /// Passes completed URLs on, in the order of their tasks, from this task on, until `add` has enough of them or the time is up. A URL
    /// that was fetched again for its links has the outcome of the first time, which is the one that counts. Returns the next task to
    /// read, if there may be more.
    pub(super) fn read_completed(
        &self,
        mut first: u64,
        mut add: impl FnMut(u64, CompletedRow) -> Result<bool, BackendError>,
    ) -> Result<Option<u64>, BackendError> {
        let (view, started) = (&self.storage.view, Instant::now());
        loop {
            let rows = view.completed_from(first, COMPLETED_PER_READ)?;
            let Some((last, _)) = rows.last() else { return Ok(None) };
            let (next, mut has_enough) = (last.checked_add(1), false);
            for (task_id, row) in rows {
                let row = CompletedRow::from_bytes(&row).ok_or_else(|| view.damaged())?;
                if !row.is_refetch {
                    has_enough = add(task_id, row)?;
                }
            }
            match next {
                Some(next) if started.elapsed() < MAX_SEARCH_TIME && !has_enough => first = next,
                next => return Ok(next),
            }
        }
    }

    /// The history of a URL in its admitted form; `None` if it was never admitted.
    pub(super) fn history(&mut self, url: String) -> Result<Option<UrlHistory>, BackendError> {
        let id = self.storage.id(&url);
        let Some(SeenRow { task_id, .. }) = self.storage.find_seen(id)? else { return Ok(None) };
        let Some((mut row, is_completed)) = self.row(task_id)? else { return Ok(None) };
        // The last completion was a refetch. The page number is in an earlier one.
        if is_completed && row.page_number == 0 && row.outcome == Outcome::Page.to_string() {
            row.page_number = self.find_page_number(&url)?;
        }
        // A URL that is visited again keeps what is remembered of its visits while it is pending.
        let visits = self.storage.completed(task_id)?.filter(|row| !row.is_refetch).map(|row| row.visits);
        let completed_at = UNIX_EPOCH.checked_add(Duration::from_millis(row.completed_at));
        let status = match is_completed {
            false => UrlStatus::Pending,
            true => UrlStatus::Completed {
                outcome: row.outcome,
                is_temporary: row.is_temporary,
                at: completed_at.ok_or_else(|| self.storage.view.damaged())?,
                page_number: Some(row.page_number).filter(|page_number| *page_number > 0),
            },
        };
        let path = self.path_to_seed(task_id, row.from)?;
        let (found_on, path_by_redirect) = path.into_iter().map(|row| (row.url, row.redirects > 0)).unzip();
        let lastmod = self.storage.lastmod_of(id)?.map(lastmod_time);
        let (url, by_redirect) = (shown_url(&url).to_owned(), row.redirects > 0);
        let depth = row.depth;
        Ok(Some(UrlHistory { url, depth, found_on, by_redirect, path_by_redirect, lastmod, visits, status }))
    }

    /// A stored page, by its URL in the admitted form.
    pub(super) fn content(&self, url: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let body = self.storage.body(self.storage.id(url))?;
        body.map(decompress).transpose().map_err(BackendError::State)
    }

    /// The URLs of up to `max` stored pages.
    pub(super) fn pages(&self, max: usize) -> Result<Vec<String>, BackendError> {
        let rows = self.storage.view.pages_from(0, max)?.into_iter();
        let pages = rows.map(|(_, row)| PageRow::from_bytes(&row).map(|row| row.url));
        pages.collect::<Option<Vec<String>>>().ok_or_else(|| self.storage.view.damaged())
    }

    /// Those of the stored pages that link to these URLs, from the page of this ID on, and the ID of the next page to read.
    pub(super) fn linking_pages(
        &self,
        targets: &LinkTargets,
        strip_query: &[String],
        mut first: u64,
    ) -> Result<(FoundLinks, Option<u64>), BackendError> {
        let mut search = LinkSearch::new(self.storage.key, targets, strip_query);
        let started = Instant::now();
        loop {
            let rows = self.storage.view.pages_from(first, PAGES_PER_READ)?;
            let Some((last, _)) = rows.last() else { return Ok((search.found, None)) };
            let next = last.checked_add(1);
            self.search_pages(rows, &mut search)?;
            match next {
                Some(next) if started.elapsed() < MAX_SEARCH_TIME => first = next,
                next => return Ok((search.found, next)),
            }
        }
    }

    /// Searches the bodies of these pages. Each segment of bodies is read once.
    fn search_pages(&self, rows: Vec<(u64, Vec<u8>)>, search: &mut LinkSearch) -> Result<(), BackendError> {
        let view = &self.storage.view;
        let mut pages = Vec::with_capacity(rows.len());
        for (_, row) in rows {
            let page = PageRow::from_bytes(&row).ok_or_else(|| view.damaged())?;
            pages.extend(page.body.map(|location| (location, page)));
        }
        pages.sort_unstable_by_key(|(location, _)| (location.segment, location.offset));
        let mut segment = (u64::MAX, Vec::new());
        for (location, page) in pages {
            if segment.0 != location.segment {
                // The page may have been removed since its row was read.
                let Some(bodies) = view.bodies(location.segment)? else { continue };
                segment = (location.segment, bodies);
            }
            let body = location.read(&segment.1).ok_or_else(|| view.damaged())?;
            let body = decompress(body).map_err(BackendError::State)?;
            search.read(&PageBody {
                url: &page.url,
                content_type: page.fingerprint.content_type,
                body: &body,
            });
        }
        Ok(())
    }

    /// The row of a URL, and whether the URL is completed.
    fn row(&self, task_id: TaskId) -> Result<Option<(CompletedRow, bool)>, BackendError> {
        // A URL that is visited again is pending, and has the row of its last visit.
        if let Some(task) = self.storage.task(task_id)? {
            let pending = CompletedRow {
                from: task.from,
                depth: task.depth,
                redirects: task.redirects,
                is_temporary: false,
                is_refetch: false,
                page_number: 0,
                completed_at: 0,
                url: task.url,
                outcome: String::new(),
                visits: VisitRecord::default(),
            };
            return Ok(Some((pending, false)));
        }
        Ok(self.storage.completed(task_id)?.map(|completed| (completed, true)))
    }

    /// The rows of the URLs on the path from a URL to a seed.
    fn path_to_seed(&self, of: TaskId, mut from: TaskId) -> Result<Vec<CompletedRow>, BackendError> {
        let (mut path, mut visited) = (Vec::new(), HashSet::from([of]));
        while visited.insert(from)
            && let Some((row, _)) = self.row(from)?
        {
            from = row.from;
            path.push(row);
        }
        Ok(path)
    }

    /// The page number of a URL; 0 if it was never a page.
    fn find_page_number(&self, url: &str) -> Result<u64, BackendError> {
        let mut first = 0;
        loop {
            let rows = self.storage.view.completed_from(first, ROWS_PER_READ)?;
            let Some((last, _)) = rows.last() else { return Ok(0) };
            first = last.checked_add(1).ok_or_else(|| self.storage.view.damaged())?;
            let mut rows = rows.into_iter().filter_map(|(_, row)| CompletedRow::from_bytes(&row));
            if let Some(page) = rows.find(|row| row.url == url && row.page_number > 0) {
                return Ok(page.page_number);
            }
        }
    }
}
