//! Reads a state from outside its crawl: the history of a URL, stored pages, counts. If a process runs the crawl, that process
//! replies.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use url::Url;

use super::super::linking_pages::{FoundLinks, LinkTargets, LinkingPages};
use super::super::stored_url::StoredUrl;
use super::super::{Snapshot, WaitReason};
use super::file_reader::FileReader;
use super::lock;
use super::open::{check_is_directory, read_hash_key};
use super::outputs::RecordedOutput;
use super::socket::{self, QueryError};
use super::state_query::{StateQuery, StateReply};
use super::visited_urls::VisitedUrl;
use super::{Batch, Tables};
use crate::crawl_view::{CrawlPhase, CrawlView, Limits};
use crate::error::{Error, StorageError, StorageErrorKind};
use crate::html::normal_form;
use crate::live_settings::{ControlAction, ControlError, LiveSettings};
use crate::origin::{throttle_key, without_credentials};
use crate::scope::Scope;
use crate::seed_list::SeedIndex;
use crate::similarity::HashKey;
use crate::statistics::Statistics;
use crate::task::Depth;
use crate::task_kind::TaskKind;
use crate::visit::VisitRecord;

/// How often a state that is in use, without a process that listens, is tried again: the process may be starting or exiting,
/// or other readers use the state. Each attempt takes a second.
const ATTEMPTS: u32 = 20;

/// How long a reader that searches pages leaves the state to others, again and again. They try to lock it more often.
const SEARCH_PAUSE: Duration = Duration::from_millis(20);

/// It uses the state for `USE_PER_OPENING` times the time that opening takes, which is long for a large state, and at most for
/// `MAX_USE`.
const USE_PER_OPENING: u32 = 4;
const MAX_USE: Duration = Duration::from_secs(5);

/// A state, opened for reading. If a process runs the crawl, that process replies from its last commit.
pub struct StateReader(StateAccess);

enum StateAccess {
    /// No process uses the state in this directory. Others may use it at this time again.
    File(Box<FileReader>, PathBuf, Instant),
    /// A process runs the crawl in this directory.
    Process(PathBuf),
}

/// The history of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UrlHistory {
    /// The URL, normalized.
    pub url: String,
    /// Number of links from the nearest seed.
    pub depth: Depth,
    /// The pages on the path to a seed, starting with the one on which the URL was found. A sitemap has the fragment of its task.
    pub found_on: Vec<String>,
    /// The URL was found as the target of a redirect, not of a link.
    pub by_redirect: bool,
    /// The same for each URL of `found_on`.
    #[doc(hidden)]
    pub path_by_redirect: Vec<bool>,
    /// When the page was last modified, if a sitemap says so.
    pub lastmod: Option<SystemTime>,
    /// What is remembered of its visits.
    #[doc(hidden)]
    pub visits: Option<VisitRecord>,
    /// Whether the URL is pending, or its outcome.
    pub status: UrlStatus,
}

/// Whether a URL is pending, or its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UrlStatus {
    /// Admitted and not completed.
    Pending,
    /// Completed.
    Completed {
        /// The outcome as text.
        outcome: String,
        /// Whether the URL failed temporarily; see
        /// [`Outcome::is_temporary`](crate::Outcome::is_temporary).
        is_temporary: bool,
        /// When it was completed.
        at: SystemTime,
        /// The page number, if it was a page.
        page_number: Option<u64>,
    },
}

/// The counts of a crawl.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateStatus {
    /// Counts and queue lengths.
    pub snapshot: Snapshot,
    /// How long the crawl took so far.
    pub elapsed: Duration,
    /// The process that runs the crawl.
    pub process: Option<u32>,
    /// What its requests and URLs were like.
    pub statistics: Arc<Statistics>,
    /// Its limits.
    pub limits: Limits,
    /// Whether it runs.
    pub phase: CrawlPhase,
    /// What the process that runs it has changed.
    pub live: LiveSettings,
}

impl StateStatus {
    /// What an observer sees of a crawl that this process runs.
    pub(super) fn of_this_process(view: CrawlView, live: LiveSettings) -> StateStatus {
        let CrawlView { snapshot, statistics, elapsed, limits, phase } = view;
        let process = Some(std::process::id());
        StateStatus { snapshot, elapsed, process, statistics, limits, phase, live }
    }

    /// The same as an observer of the crawl sees it.
    pub fn view(&self) -> CrawlView {
        let StateStatus { snapshot, elapsed, statistics, limits, phase, .. } = self.clone();
        CrawlView { snapshot, statistics, elapsed, limits, phase }
    }
}

impl StateReader {
    /// Opens the state in a directory.
    pub fn open(directory: &Path) -> Result<StateReader, Error> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            // While the lock is waited for, the process replies at once.
            match socket::send(directory, &StateQuery::Status) {
                Ok(StateReply::Status(_)) => {
                    return Ok(StateReader(StateAccess::Process(directory.to_owned())));
                }
                Ok(other) => return Err(other.unexpected()),
                Err(QueryError::Failed(error)) => return Err(error),
                Err(QueryError::NoProcess) => {}
            }
            let started = Instant::now();
            match open(directory) {
                Ok(tables) => {
                    let reader = Box::new(FileReader::new(Arc::new(tables), directory)?);
                    let until = Instant::now() + (USE_PER_OPENING * started.elapsed()).min(MAX_USE);
                    return Ok(StateReader(StateAccess::File(reader, directory.to_owned(), until)));
                }
                Err(Error::State(error)) if error.kind() == StorageErrorKind::InUse => {
                    // It was suspended before it listened, or after.
                    if let Some(process) = lock::suspended_holder(directory) {
                        return Err(socket::suspended(directory, process));
                    }
                    if attempts >= ATTEMPTS {
                        return Err(Error::State(error));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the metadata of the state in a directory, without reading anything else. Fails if a process runs the crawl.
    #[doc(hidden)]
    pub fn metadata_in(directory: &Path) -> Result<Vec<u8>, Error> {
        let tables = open(directory)?;
        let view = tables.view()?;
        read_hash_key(&view, directory)?;
        Ok(view.meta("metadata")?.unwrap_or_default())
    }

    /// Whether there is a state in a directory.
    #[doc(hidden)]
    pub fn exists_in(directory: &Path) -> bool {
        Tables::exist(directory)
    }

    /// Returns the metadata of the crawl.
    #[doc(hidden)]
    pub fn metadata(&mut self) -> Result<Vec<u8>, Error> {
        match self.reply(StateQuery::Metadata)? {
            StateReply::Metadata(metadata) => Ok(metadata),
            other => Err(other.unexpected()),
        }
    }

    /// Returns the counts of the crawl.
    #[doc(hidden)]
    pub fn status(&mut self) -> Result<StateStatus, Error> {
        match self.reply(StateQuery::Status)? {
            StateReply::Status(status) => Ok(*status),
            other => Err(other.unexpected()),
        }
    }

    /// Changes the crawl, if a process runs it. Returns a sentence that says what was done, or why not.
    #[doc(hidden)]
    pub fn control(&mut self, action: ControlAction) -> Result<String, ControlError> {
        match self.reply(StateQuery::Control(action.clone())) {
            Ok(StateReply::NotRunning) => Err(ControlError::not_running(&action)),
            Ok(StateReply::Control(done)) => Ok(done?),
            Ok(other) => Err(format!("{:#}", other.unexpected()).into()),
            Err(error) => Err(format!("{error:#}").into()),
        }
    }

    /// Returns the outputs of the crawl.
    #[doc(hidden)]
    pub fn outputs(&mut self) -> Result<Vec<RecordedOutput>, Error> {
        match self.reply(StateQuery::Outputs)? {
            StateReply::Outputs(outputs) => Ok(outputs),
            other => Err(other.unexpected()),
        }
    }

    /// Extends the scope of the crawl by that of its seed lists.
    #[doc(hidden)]
    pub fn extend_scope(&mut self, scope: Scope) -> Result<Scope, Error> {
        match self.reply(StateQuery::SeedIndex)? {
            StateReply::SeedIndex(secret, index) => {
                Ok(scope.with_seed_index(SeedIndex::from_bytes(HashKey::new(secret), &index)))
            }
            other => Err(other.unexpected()),
        }
    }

    /// Returns the history of a URL; `None` if it was never admitted.
    pub fn history(&mut self, url: &Url) -> Result<Option<UrlHistory>, Error> {
        for form in admitted_forms(url) {
            match self.reply(StateQuery::History(form))? {
                StateReply::History(None) => {}
                StateReply::History(history) => return Ok(history),
                other => return Err(other.unexpected()),
            }
        }
        Ok(None)
    }

    /// Returns why a pending URL waits; `None` if no process runs the crawl, or it is not known.
    #[doc(hidden)]
    pub fn wait_reason(&mut self, url: &Url) -> Result<Option<WaitReason>, Error> {
        let host = throttle_key(&admitted_form(url)).to_owned();
        match self.reply(StateQuery::WaitReason(host))? {
            StateReply::WaitReason(why) => Ok(why),
            other => Err(other.unexpected()),
        }
    }

    /// Returns the stored pages that link to a URL. The crawl removes query parameters of these patterns from links. Stops
    /// reading at the deadline.
    #[doc(hidden)]
    pub fn linking_pages(
        &mut self,
        url: &Url,
        strip_query: &[String],
        deadline: Instant,
    ) -> Result<LinkingPages, Error> {
        let targets = LinkTargets::Url(admitted_form(url));
        Ok(self.found_links(&targets, strip_query, deadline)?.into_single())
    }

    /// Returns the stored pages that link to the URLs of these IDs, in the same way.
    #[doc(hidden)]
    pub fn pages_linking_to(
        &mut self,
        ids: Vec<u64>,
        strip_query: &[String],
        deadline: Instant,
    ) -> Result<FoundLinks, Error> {
        self.found_links(&LinkTargets::Ids(ids), strip_query, deadline)
    }

    fn found_links(
        &mut self,
        targets: &LinkTargets,
        strip_query: &[String],
        deadline: Instant,
    ) -> Result<FoundLinks, Error> {
        let (mut found, mut first) = (FoundLinks::default(), 0);
        loop {
            match self.reply(StateQuery::LinkingPages(targets.clone(), strip_query.to_vec(), first)) {
                Ok(StateReply::LinkingPages(more, next)) => {
                    found.add(more, targets);
                    let Some(next) = next else { return Ok(found) };
                    first = next;
                }
                Ok(other) => return Err(other.unexpected()),
                // The crawl has been started meanwhile, and does not reply yet.
                Err(_) if first > 0 => return Ok(FoundLinks { has_unread: true, ..found }),
                Err(error) => return Err(error),
            }
            if Instant::now() >= deadline {
                return Ok(FoundLinks { has_unread: true, ..found });
            }
            self.pause();
        }
    }

    /// Calls `each` with every completed URL.
    #[doc(hidden)]
    pub fn each_url(&mut self, mut each: impl FnMut(StoredUrl)) -> Result<(), Error> {
        let mut first = 0;
        loop {
            match self.reply(StateQuery::Urls(first))? {
                StateReply::Urls(urls, next) => {
                    urls.into_iter().for_each(&mut each);
                    let Some(next) = next else { return Ok(()) };
                    first = next;
                }
                other => return Err(other.unexpected()),
            }
            self.pause();
        }
    }

    /// Calls `each` with every URL that is or was a page, and what the visit of this number found.
    #[doc(hidden)]
    pub fn each_visited_url(&mut self, visit: u32, mut each: impl FnMut(VisitedUrl)) -> Result<(), Error> {
        let mut first = 0;
        loop {
            match self.reply(StateQuery::Visited(visit, first))? {
                StateReply::Visited(urls, next) => {
                    urls.into_iter().for_each(&mut each);
                    let Some(next) = next else { return Ok(()) };
                    first = next;
                }
                other => return Err(other.unexpected()),
            }
            self.pause();
        }
    }

    /// Lets others use the state for a moment, if it was used long enough.
    fn pause(&mut self) {
        if let StateAccess::File(_, directory, until) = &mut self.0
            && Instant::now() >= *until
        {
            self.0 = StateAccess::Process(std::mem::take(directory));
            thread::sleep(SEARCH_PAUSE);
        }
    }

    /// Returns a stored page.
    pub fn content(&mut self, url: &Url) -> Result<Option<Vec<u8>>, Error> {
        match self.reply(StateQuery::Content(admitted_form(url)))? {
            StateReply::Content(content) => Ok(content),
            other => Err(other.unexpected()),
        }
    }

    /// Returns the URLs of up to `max` stored pages.
    #[doc(hidden)]
    pub fn pages(&mut self, max: usize) -> Result<Vec<String>, Error> {
        match self.reply(StateQuery::Pages(max))? {
            StateReply::Pages(pages) => Ok(pages),
            other => Err(other.unexpected()),
        }
    }

    fn reply(&mut self, query: StateQuery) -> Result<StateReply, Error> {
        loop {
            let directory = match &mut self.0 {
                StateAccess::File(reader, ..) => return Ok(query.reply(reader)?),
                StateAccess::Process(directory) => directory.clone(),
            };
            match socket::send(&directory, &query) {
                Ok(reply) => return Ok(reply),
                // The crawl has ended, or has been killed, since the last reply.
                Err(QueryError::NoProcess) => *self = StateReader::open(&directory)?,
                Err(QueryError::Failed(error)) => return Err(error),
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

/// The forms of a URL under which it may be admitted, that of a page first.
pub(crate) fn admitted_forms(url: &Url) -> Vec<String> {
    TaskKind::task_urls_of(&admitted_form(url)).collect()
}

/// The time of a stored `lastmod`.
pub(crate) fn lastmod_time(seconds: u32) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.into())
}

/// The form of a URL under which links to it are admitted.
pub(crate) fn admitted_form(url: &Url) -> String {
    let mut url = without_credentials(url);
    // A URL without a normal form is never admitted.
    let _ = normal_form::normalize(&mut url);
    url.into()
}
