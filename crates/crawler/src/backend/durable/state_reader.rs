//! Reads a state that no process is using: the history of a URL, and stored pages.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use url::Url;

use super::super::{BackendError, TaskId};
use super::disk_storage::DiskStorage;
use super::open::{check_is_directory, read_checkpoint, read_hash_key};
use super::records::{CompletedRow, PageRow, SeenRow};
use super::seen_cache::CacheLimits;
use super::{Batch, Tables};
use crate::backend::local::decompress;
use crate::backend::local::storage::Storage;
use crate::error::{Error, StorageError, StorageErrorKind};
use crate::html::normal_form;
use crate::origin::without_credentials;
use crate::outcome::Outcome;
use crate::task::Depth;

/// Number of rows to read at a time.
const ROWS_PER_READ: usize = 4096;

/// A state, opened for reading.
pub struct StateReader {
    storage: DiskStorage,
    /// Holds the lock, and keeps the file open.
    _tables: Tables,
}

/// The history of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UrlHistory {
    /// The URL, normalized.
    pub url: String,
    /// Number of links from the nearest seed.
    pub depth: Depth,
    /// The pages on the path to a seed, starting with the one on which the URL was found.
    pub found_on: Vec<String>,
    /// The URL was found as the target of a redirect, not of a link.
    pub by_redirect: bool,
    /// Whether the URL is pending, or its outcome.
    pub status: UrlStatus,
}

/// Whether a URL is pending, or its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlStatus {
    /// Admitted and not completed.
    Pending,
    /// Completed.
    Completed {
        /// The outcome as text.
        outcome: String,
        /// Whether the URL failed for a reason that may pass; see
        /// [`Outcome::is_temporary`](crate::Outcome::is_temporary).
        is_temporary: bool,
        /// When it was completed.
        at: SystemTime,
        /// The page number, if it was a page.
        page_number: Option<u64>,
    },
}

impl StateReader {
    /// Opens the state in a directory.
    pub fn open(directory: &Path) -> Result<StateReader, Error> {
        let tables = open(directory)?;
        let view = tables.view()?;
        let (key, checkpoint) = (read_hash_key(&view, directory)?, read_checkpoint(&view)?);
        let mut storage = DiskStorage::new(view, key, false, Duration::ZERO, CacheLimits::default());
        storage.resume(checkpoint.seen_written_up_to)?;
        Ok(StateReader { storage, _tables: tables })
    }

    /// Returns the metadata of the state in a directory, without reading anything else.
    #[doc(hidden)]
    pub fn metadata_in(directory: &Path) -> Result<Vec<u8>, Error> {
        let tables = open(directory)?;
        let view = tables.view()?;
        read_hash_key(&view, directory)?;
        Ok(view.meta("metadata")?.unwrap_or_default())
    }

    /// Returns the metadata of the crawl.
    #[doc(hidden)]
    pub fn metadata(&self) -> Result<Vec<u8>, Error> {
        Ok(self.storage.view.meta("metadata")?.unwrap_or_default())
    }

    /// Returns the history of a URL; `None` if it was never admitted.
    pub fn history(&mut self, url: &Url) -> Result<Option<UrlHistory>, Error> {
        let url = admitted_form(url);
        let id = self.storage.id(&url);
        let Some(SeenRow { task_id, .. }) = self.storage.find_seen(id)? else { return Ok(None) };
        let Some((mut row, is_completed)) = self.row(task_id)? else { return Ok(None) };
        // The last completion was a revisit. The page number is in an earlier one.
        if is_completed && row.page_number == 0 && row.outcome == Outcome::Page.to_string() {
            row.page_number = self.find_page_number(&url)?;
        }
        let completed_at = UNIX_EPOCH.checked_add(Duration::from_secs(row.completed_at));
        let status = match is_completed {
            false => UrlStatus::Pending,
            true => UrlStatus::Completed {
                outcome: row.outcome,
                is_temporary: row.is_temporary,
                at: completed_at.ok_or_else(|| self.storage.view.damaged())?,
                page_number: Some(row.page_number).filter(|page_number| *page_number > 0),
            },
        };
        let found_on = self.path_to_seed(task_id, row.from)?;
        Ok(Some(UrlHistory { url, depth: row.depth, found_on, by_redirect: row.redirects > 0, status }))
    }

    /// Returns a stored page.
    pub fn content(&self, url: &Url) -> Result<Option<Vec<u8>>, Error> {
        let body = self.storage.body(self.storage.id(&admitted_form(url)))?;
        body.map(decompress).transpose().map_err(Error::State)
    }

    /// Returns the URLs of up to `max` stored pages.
    #[doc(hidden)]
    pub fn pages(&self, max: usize) -> Result<Vec<String>, Error> {
        let rows = self.storage.view.pages_from(0, max)?.into_iter();
        let pages = rows.map(|(_, row)| PageRow::from_bytes(&row).map(|row| row.url));
        Ok(pages.collect::<Option<Vec<String>>>().ok_or_else(|| self.storage.view.damaged())?)
    }

    /// The row of a URL, and whether the URL is completed.
    fn row(&self, task_id: TaskId) -> Result<Option<(CompletedRow, bool)>, BackendError> {
        if let Some(completed) = self.storage.completed(task_id)? {
            return Ok(Some((completed, true)));
        }
        Ok(self.storage.task(task_id)?.map(|task| {
            let pending = CompletedRow {
                from: task.from,
                depth: task.depth,
                redirects: task.redirects,
                is_temporary: false,
                page_number: 0,
                completed_at: 0,
                url: task.url,
                outcome: String::new(),
            };
            (pending, false)
        }))
    }

    /// The URLs on the path from a URL to a seed.
    fn path_to_seed(&self, of: TaskId, mut from: TaskId) -> Result<Vec<String>, BackendError> {
        let (mut path, mut visited) = (Vec::new(), HashSet::from([of]));
        while visited.insert(from)
            && let Some((row, _)) = self.row(from)?
        {
            path.push(row.url);
            from = row.from;
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

/// Opens the tables of an existing state.
fn open(directory: &Path) -> Result<Tables, Error> {
    check_is_directory(directory)?;
    if !Tables::exist(directory) {
        let message = format!(
            "cannot open the state in '{}': there is none; give the state directory of a crawl",
            directory.display()
        );
        return Err(Error::State(StorageError::new(StorageErrorKind::NotFound, message)));
    }
    Ok(Tables::open(directory, Batch::default)?)
}

/// The form of a URL under which links to it are admitted.
pub(crate) fn admitted_form(url: &Url) -> String {
    let mut url = without_credentials(url);
    // A URL without a normal form is never admitted.
    let _ = normal_form::normalize(&mut url);
    url.into()
}
