//! Opens a durable state: begins one, or goes on where the last process ended, however it ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::super::{BackendError, HostDelay};
use super::checkpoint::Checkpoint;
use super::disk_storage::{DiskStorage, milliseconds_since_1970};
use super::records::{HostRow, PageRow, output_from_bytes};
use super::seen_cache::CacheLimits;
use super::{Batch, FILE, RecordedSettings, Tables, View, committer};
use crate::backend::local::state::LocalState;
use crate::backend::local::storage::Clock;
use crate::backend::local::{BackendConfig, LocalBackend, SharedState, secret};
use crate::config::MAX_RETRY_AFTER;
use crate::domain::Domain;
use crate::error::Error;
use crate::modules::OutputWrite;
use crate::similarity::HashKey;

/// What our rows look like; a state of another format is left to the version that wrote it.
pub(super) const FORMAT: u32 = 2;

/// How many rows are read at a time.
const CHUNK: usize = 1024;

/// What a crawl is begun with, or resumed under.
#[derive(Debug, Clone)]
pub struct StateOptions {
    /// Queues, storages and budgets.
    pub settings: BackendConfig,
    /// The pause every host gets: after a death, nobody is asked sooner.
    pub delay: Duration,
    /// The settings by name.
    pub terms: RecordedSettings,
    /// Anything that whoever resumes wants to find again.
    pub note: Vec<u8>,
}

/// A state that is open.
pub struct OpenState {
    /// The crawl's resources.
    pub backend: LocalBackend<DiskStorage>,
    /// Keeps them safe, and closes them.
    pub keeper: StateWriter,
    /// What was there.
    pub before: PriorState,
}

/// What was in a state when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorState {
    /// Nothing: the crawl begins.
    Nothing,
    /// A crawl that goes on.
    Begun {
        /// How long it took so far.
        elapsed: Duration,
    },
}

/// Writes what happens to a state, until it is closed.
pub struct StateWriter {
    shared: Arc<SharedState<DiskStorage>>,
    tables: Arc<Tables>,
    committer: Option<JoinHandle<Result<(), BackendError>>>,
    directory: PathBuf,
}

/// Opens the state in a directory, which is made if it does not exist.
pub fn open(directory: &Path, begin: StateOptions) -> Result<OpenState, Error> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::InvalidSetting(format!(
                "cannot make state directory '{}': {error}; name one in a directory you may write to",
                directory.display()
            )));
        }
        _ => {}
    }
    open_with(directory, begin, CacheLimits::default())
}

/// Opens the state in a directory, and remembers so many links in memory.
pub(super) fn open_with(
    directory: &Path,
    begin: StateOptions,
    room: CacheLimits,
) -> Result<OpenState, Error> {
    let mut is_new = false;
    let tables = Tables::open(directory, || {
        is_new = true;
        // Whoever finds the file knows what it was begun with.
        let mut batch = terms_of(&begin);
        batch.meta.insert("format", FORMAT.to_le_bytes().to_vec());
        batch.meta.insert("key", secret().to_le_bytes().to_vec());
        batch.meta.insert("progress", Checkpoint::default().to_bytes());
        batch
    })?;
    let view = tables.view()?;
    let (key, progress) = (key_of(&view, directory)?, progress_of(&view)?);
    let terms = view.meta("terms")?;
    if let Some(terms) = &terms {
        let terms: RecordedSettings = serde_json::from_slice(terms).map_err(|_| view.damaged())?;
        terms.check_resume(&begin.terms).map_err(Error::InvalidSetting)?;
    }
    let before = match is_new {
        true => PriorState::Nothing,
        false => PriorState::Begun { elapsed: progress.age() },
    };
    tables.write(&terms_of(&begin))?;
    let state = state_of(&begin, tables.view()?, key, progress, room)?;
    let backend = LocalBackend::over(state, key);
    let (shared, tables) = (Arc::clone(&backend.shared), Arc::new(tables));
    let committer = {
        let (shared, tables) = (Arc::clone(&shared), Arc::clone(&tables));
        let started = thread::Builder::new().name("committer".into());
        started.spawn(move || committer::run(&shared, &tables))
    };
    let committer =
        committer.map_err(|error| Error::InvalidSetting(format!("cannot start a thread: {error}")))?;
    let keeper = StateWriter { shared, tables, committer: Some(committer), directory: directory.to_owned() };
    Ok(OpenState { backend, keeper, before })
}

/// The terms and the note of a crawl that begins or goes on.
fn terms_of(begin: &StateOptions) -> Batch {
    let mut batch = Batch::default();
    batch.meta.insert("terms", serde_json::to_vec(&begin.terms).unwrap_or_default());
    batch.meta.insert("note", begin.note.clone());
    batch
}

/// What ids and fingerprints of this crawl are made with, if its rows can be read at all.
pub(super) fn key_of(view: &View, directory: &Path) -> Result<HashKey, BackendError> {
    let format = view.meta("format")?.and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    match format {
        Some(FORMAT) => {}
        Some(other) => {
            return Err(BackendError(format!(
                "the state in '{}' has format {other} and this version reads format {FORMAT}; resume it with the \
                 version that began it",
                directory.display()
            )));
        }
        None => return Err(view.damaged()),
    }
    let secret = view.meta("key")?.and_then(|bytes| bytes.try_into().ok()).map(u128::from_le_bytes);
    secret.map(HashKey::new).ok_or_else(|| view.damaged())
}

pub(super) fn progress_of(view: &View) -> Result<Checkpoint, BackendError> {
    let progress = view.meta("progress")?.and_then(|bytes| Checkpoint::from_bytes(&bytes));
    let progress = progress.ok_or_else(|| view.damaged())?;
    // A URL more or less would be lost, or waited for in vain.
    if progress.outstanding() != Some(view.tasks_len()?) {
        return Err(view.miscounted());
    }
    Ok(progress)
}

/// The queues empty, everything else as the last process left it.
fn state_of(
    begin: &StateOptions,
    view: View,
    key: HashKey,
    progress: Checkpoint,
    room: CacheLimits,
) -> Result<LocalState<DiskStorage>, BackendError> {
    let StateOptions { settings, delay: everybody, .. } = begin;
    let clock = Clock::resumed(progress.age());
    let mut disk = DiskStorage::new(view, key, settings.ttl, settings.keep_depths, *everybody, room);
    let was_begun = progress.last_ticket() > 0;
    disk.resume(progress.links_up_to)?;
    let mut state = LocalState::new(settings.clone(), clock, disk);
    progress.resume(&mut state);
    state.storage.committed_requests = state.counts.requests.total();
    let mut first = 0;
    loop {
        let rows = state.storage.view.pages_from(first, CHUNK)?;
        let Some((last, _)) = rows.last() else { break };
        first = last.checked_add(1).ok_or_else(|| state.storage.view.damaged())?;
        for (id, row) in rows {
            let row = PageRow::from_bytes(&row).ok_or_else(|| state.storage.view.damaged())?;
            let stored = Duration::from_millis(row.stored);
            let bytes = row.body.map_or(0, |place| u64::from(place.length));
            state.contents.restore(id, &row.url, row.fingerprint, bytes, stored);
            if let Some(place) = row.body {
                state.storage.restore_body(place)?;
            }
        }
    }
    state.contents.restored();
    for (domain, pages) in state.storage.view.domains()? {
        state.popularity.resume(&Domain::named(&domain), pages);
    }
    resume_hosts(&mut state, *everybody)?;
    if was_begun {
        state.rests.set_for_all(*everybody);
    }
    Ok(state)
}

/// Takes back what is known of hosts, given the pause that everybody gets.
fn resume_hosts(state: &mut LocalState<DiskStorage>, everybody: Duration) -> Result<(), BackendError> {
    let now = milliseconds_since_1970();
    let mut after = String::new();
    loop {
        let rows = state.storage.view.hosts_after(&after, CHUNK)?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        after.clone_from(last);
        for (host, row) in rows {
            let row = HostRow::from_bytes(&row).ok_or_else(|| state.storage.view.damaged())?;
            if row.pages > 0 {
                state.budgets.restore_host(host.clone(), row.pages);
            }
            // A request may have been in flight when the last process ended, so the whole delay runs from now. No host
            // is owed more than the longest rest: the clock may have been set back since.
            let (owed, delay) = (row.until.saturating_sub(now), Duration::from_millis(row.delay));
            let rest = Duration::from_millis(owed).max(delay).min(MAX_RETRY_AFTER.max(everybody));
            // What everybody gets is noted once for all.
            if rest > everybody {
                state.rests.set(host, HostDelay { delay, cooldown: rest });
            }
        }
    }
}

impl StateWriter {
    /// How far the outputs were written: the last page and the length of each; `None` if they were never opened.
    pub fn outputs_written(&self) -> Result<Option<(u64, Vec<u64>)>, Error> {
        let written = self.view()?.meta("written")?;
        let written = written.map(|written| serde_json::from_slice(&written)).transpose();
        written.map_err(|_| Error::from(self.damaged()))
    }

    /// Notes that the outputs, this many, are this crawl's own from now on, and that nothing is in them yet: a process
    /// that dies before it has noted more leaves files that the next may cut.
    pub fn claim_outputs(&self, count: usize) -> Result<(), Error> {
        let mut batch = Batch::default();
        let written: (u64, Vec<u64>) = (0, vec![0; count]);
        batch.meta.insert("written", serde_json::to_vec(&written).unwrap_or_default());
        Ok(self.tables.write(&batch)?)
    }

    /// Goes through what pages after `document` add to the outputs.
    pub fn replay(
        &self,
        document: u64,
        mut apply: impl FnMut(u64, Vec<(usize, OutputWrite)>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let view = self.view()?;
        let mut first = document.saturating_add(1);
        loop {
            let rows = view.output_from(first, CHUNK)?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            first = last.checked_add(1).ok_or_else(|| view.damaged())?;
            for (document, row) in rows {
                apply(document, output_from_bytes(&row).ok_or_else(|| view.damaged())?)?;
            }
        }
    }

    fn view(&self) -> Result<View, BackendError> {
        self.tables.view()
    }

    fn damaged(&self) -> BackendError {
        super::damaged(&self.directory.join(FILE), &"a row of it makes no sense")
    }

    /// Writes what is left and closes the state.
    pub fn close(mut self) -> Result<(), Error> {
        Ok(self.finish()?)
    }

    /// Removes a state that was begun for nothing.
    pub fn discard(mut self) {
        let _ = self.finish();
        // While it is still ours: as soon as it is not, another process may begin a crawl there. Whatever cannot be
        // removed is an empty state, and harmless.
        let _ = fs::remove_file(self.directory.join(FILE));
    }

    fn finish(&mut self) -> Result<(), BackendError> {
        let Some(committer) = self.committer.take() else { return Ok(()) };
        self.shared.state().storage.closing = true;
        self.shared.uncommitted.notify_one();
        match committer.join() {
            Ok(finished) => finished,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for StateWriter {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl From<BackendError> for Error {
    fn from(trouble: BackendError) -> Error {
        Error::State(trouble.0)
    }
}
