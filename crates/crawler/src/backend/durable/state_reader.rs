//! Looks into a state that no process is at work on: what became of a URL, and the pages that are stored.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use url::Url;

use super::super::{BackendError, TaskId};
use super::disk_storage::DiskStorage;
use super::open::{key_of, progress_of};
use super::records::{CompletedRow, PageRow};
use super::seen_cache::CacheLimits;
use super::{Batch, Tables};
use crate::backend::local::decompress;
use crate::backend::local::storage::Storage;
use crate::error::Error;
use crate::origin::without_credentials;
use crate::outcome::Outcome;
use crate::task::Depth;

/// How many rows are read at a time.
const CHUNK: usize = 4096;

/// A state, to be looked at.
pub struct StateReader {
    disk: DiskStorage,
    /// Keeps other processes out, and the file open.
    _tables: Tables,
}

/// What became of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlHistory {
    /// The URL, normalised.
    pub url: String,
    /// Hops from the nearest seed.
    pub depth: Depth,
    /// What it was found on, what that was found on, and so on to a seed.
    pub found_on: Vec<String>,
    /// A redirect of what it was found on led to it, not a link.
    pub by_redirect: bool,
    /// Where it is or how it ended.
    pub fate: UrlStatus,
}

/// Where a URL is, or how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlStatus {
    /// Admitted, and not visited yet.
    Waiting,
    /// Completed.
    Ended {
        /// How, in words.
        outcome: String,
        /// When.
        at: SystemTime,
        /// The number of a page that was kept.
        document: Option<u64>,
    },
}

impl StateReader {
    /// Opens the state in a directory.
    pub fn open(directory: &Path) -> Result<StateReader, Error> {
        let tables = open(directory)?;
        let view = tables.view()?;
        let (key, progress) = (key_of(&view, directory)?, progress_of(&view)?);
        let mut disk =
            DiskStorage::new(view, key, Duration::MAX, false, Duration::ZERO, CacheLimits::default());
        disk.resume(progress.links_up_to)?;
        Ok(StateReader { disk, _tables: tables })
    }

    /// What was noted in the state of a directory, without a look at the rest of it.
    pub fn metadata_in(directory: &Path) -> Result<Vec<u8>, Error> {
        let tables = open(directory)?;
        let view = tables.view()?;
        key_of(&view, directory)?;
        Ok(view.meta("note")?.unwrap_or_default())
    }

    /// What was noted for whoever resumes.
    pub fn metadata(&self) -> Result<Vec<u8>, Error> {
        Ok(self.disk.view.meta("note")?.unwrap_or_default())
    }

    /// What became of a URL; `None` if it was never admitted.
    pub fn history(&mut self, url: &Url) -> Result<Option<UrlHistory>, Error> {
        let url = admitted_form(url);
        let id = self.disk.id(&url);
        let task_id = match self.disk.find(id)? {
            Some(link) => Some(link.task_id),
            // It may have been forgotten since; its end is kept.
            None => self.find_end(&url, |_| true)?.map(|(task_id, _)| task_id),
        };
        let Some(task_id) = task_id else { return Ok(None) };
        let Some((mut row, is_over)) = self.row(task_id)? else { return Ok(None) };
        // Visited again for its links only: the page is the one that was kept before.
        if is_over && row.document == 0 && row.outcome == Outcome::Page.to_string() {
            let kept = self.find_end(&url, |end| end.document > 0)?;
            row.document = kept.map_or(0, |(_, end)| end.document);
        }
        let ended = UNIX_EPOCH.checked_add(Duration::from_secs(row.time));
        let fate = match is_over {
            false => UrlStatus::Waiting,
            true => UrlStatus::Ended {
                outcome: row.outcome,
                at: ended.ok_or_else(|| self.disk.view.damaged())?,
                document: Some(row.document).filter(|document| *document > 0),
            },
        };
        let found_on = self.path_to_seed(task_id, row.from)?;
        Ok(Some(UrlHistory { url, depth: row.depth, found_on, by_redirect: row.redirects > 0, fate }))
    }

    /// A stored page.
    pub fn content(&self, url: &Url) -> Result<Option<Vec<u8>>, Error> {
        let body = self.disk.body(self.disk.id(&admitted_form(url)))?;
        Ok(body.map(decompress).transpose()?)
    }

    /// The URLs of the pages that can be recognised, up to so many.
    pub fn pages(&self, max: usize) -> Result<Vec<String>, Error> {
        let rows = self.disk.view.pages_from(0, max)?.into_iter();
        let pages = rows.map(|(_, row)| PageRow::from_bytes(&row).map(|row| row.url));
        Ok(pages.collect::<Option<Vec<String>>>().ok_or_else(|| self.disk.view.damaged())?)
    }

    /// A URL's row, whether it is completed or not, and which.
    fn row(&self, task_id: TaskId) -> Result<Option<(CompletedRow, bool)>, BackendError> {
        if let Some(end) = self.disk.ended(task_id)? {
            return Ok(Some((end, true)));
        }
        Ok(self.disk.task(task_id)?.map(|task| {
            let waiting = CompletedRow {
                from: task.from,
                depth: task.depth,
                generation: task.generation,
                redirects: task.redirects,
                document: 0,
                time: 0,
                url: task.url,
                outcome: String::new(),
            };
            (waiting, false)
        }))
    }

    /// The URLs that led to one, the nearest first.
    fn path_to_seed(&self, of: TaskId, mut from: TaskId) -> Result<Vec<String>, BackendError> {
        let (mut way, mut seen) = (Vec::new(), HashSet::from([of]));
        while seen.insert(from)
            && let Some((row, _)) = self.row(from)?
        {
            way.push(row.url);
            from = row.from;
        }
        Ok(way)
    }

    /// The last end of a URL that is wanted.
    fn find_end(
        &self,
        url: &str,
        wanted: impl Fn(&CompletedRow) -> bool,
    ) -> Result<Option<(TaskId, CompletedRow)>, BackendError> {
        let (mut first, mut found) = (0, None);
        loop {
            let rows = self.disk.view.ends_from(first, CHUNK)?;
            let Some((last, _)) = rows.last() else { return Ok(found) };
            first = last.checked_add(1).ok_or_else(|| self.disk.view.damaged())?;
            let ends = rows
                .into_iter()
                .filter_map(|(task_id, row)| Some((task_id, CompletedRow::from_bytes(&row)?)));
            let matching = ends.filter(|(_, end)| end.url == url && wanted(end));
            found = matching.last().map(|(task_id, end)| (TaskId(task_id), end)).or(found);
        }
    }
}

/// Opens the tables of a state that exists.
fn open(directory: &Path) -> Result<Tables, Error> {
    if !Tables::exist(directory) {
        return Err(Error::InvalidSetting(format!(
            "there is no crawl's state in '{}'; name the directory that was given as --state",
            directory.display()
        )));
    }
    Ok(Tables::open(directory, Batch::default)?)
}

/// A URL as links to it were admitted.
pub(crate) fn admitted_form(url: &Url) -> String {
    let mut url = without_credentials(url);
    url.set_fragment(None);
    url.into()
}
