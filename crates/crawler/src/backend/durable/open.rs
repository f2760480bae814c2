//! Opens a durable state: creates one, or resumes from the last commit of the previous process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::super::BackendError;
use super::checkpoint::Checkpoint;
use super::disk_storage::DiskStorage;
use super::outputs::{OpenOutputs, StateOutputs};
use super::records::{HostRow, PageRow};
use super::scope_change::{ResumedScope, apply_scope};
use super::seen_cache::CacheLimits;
use super::{
    Batch, RecordedSettings, Recrawl, STATE_FILE, Tables, View, committer, recrawl, retry, schedule,
    stored_view,
};
use crate::backend::local::state::LocalState;
use crate::backend::local::storage::{Clock, Storage, unix_millis};
use crate::backend::local::{BackendConfig, LocalBackend, SharedState, secret};
use crate::domain::Domain;
use crate::error::{Error, StorageError, StorageErrorKind};
use crate::fetch::http::AddressKinds;
use crate::scope::Scope;
use crate::similarity::HashKey;
use crate::statistics::{Recorder, Statistics};

/// The format of the rows and values. A state of another format is refused and left unchanged.
pub(super) const FORMAT: u32 = 16;

/// How often the active crawl time of a crawl is written.
pub const CLOCK_INTERVAL: Duration = Duration::from_secs(5);

/// Number of rows to read at a time.
const ROWS_PER_READ: usize = 1024;

/// The options with which a crawl is started or resumed.
#[derive(Debug, Clone)]
pub struct StateOptions {
    /// Queue sizes, limits and lifetimes.
    pub config: BackendConfig,
    /// The cooldown of every host after a crash: the longest delay between two requests to a host, a site or an address.
    pub delay: Duration,
    /// The settings by name, to be compared when the crawl is resumed.
    pub recorded_settings: RecordedSettings,
    /// Opaque data of the caller, which can be read back.
    pub metadata: Vec<u8>,
    /// Whether URLs that failed temporarily are queued again.
    pub retry_failed: bool,
    /// Whether the known URLs are visited again, and which of them. A visit that has not ended is continued instead.
    pub recrawl: Option<Recrawl>,
    /// How often the active crawl time is written if nothing else changes. A crash loses at most this much of it.
    pub clock_interval: Duration,
}

/// An open state.
pub struct OpenState {
    /// The backend of the crawl.
    pub backend: LocalBackend<DiskStorage>,
    /// Commits the changes of the backend, and closes the state.
    pub writer: StateWriter,
    /// What the state contained.
    pub prior: PriorState,
    /// How many URLs were queued again.
    pub retried: u64,
    /// The statistics of earlier processes.
    pub statistics: Statistics,
}

/// What a state contained when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorState {
    /// Nothing: the crawl starts.
    Empty,
    /// A crawl, which is resumed.
    Existing {
        /// The active crawl time of its visit so far.
        elapsed: Duration,
    },
}

/// Writes changes to a state until it is closed.
pub struct StateWriter {
    pub(super) shared: Arc<SharedState<DiskStorage>>,
    pub(super) tables: Arc<Tables>,
    committer: Option<JoinHandle<Result<(), BackendError>>>,
    /// Records the commits.
    pub(crate) recorder: Recorder,
    pub(super) directory: PathBuf,
}

/// Opens the state in a directory. Creates the directory if it does not exist.
pub fn open(directory: &Path, options: StateOptions) -> Result<OpenState, Error> {
    let scope = Scope::anywhere();
    let scope = ResumedScope { scope: &scope, on_outcome: &|_, _| {} };
    open_in_scope(directory, options, &scope, |_| Ok(())).map(|(opened, ())| opened)
}

/// Opens the state in a directory, with the outputs of the crawl, and completes pending URLs that the scope leaves out. If the
/// settings or the outputs are refused, neither these nor the settings of the state change.
pub fn open_in_scope<T: OpenOutputs>(
    directory: &Path,
    options: StateOptions,
    scope: &ResumedScope,
    open_outputs: impl FnOnce(&StateOutputs) -> Result<T, Error>,
) -> Result<(OpenState, T), Error> {
    check_is_directory(directory)?;
    match fs::create_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            let what = format!("cannot create the state directory '{}'", directory.display());
            let remedy = "choose one whose parent exists and is writable";
            let error = StorageError::with_source(StorageErrorKind::Unusable, what, error, remedy);
            return Err(Error::State(error));
        }
        _ => {}
    }
    open_with(directory, options, scope, open_outputs, CacheLimits::default())
}

/// Opens the state in a directory, with the given limits of the cache of seen URLs.
pub(super) fn open_with<T: OpenOutputs>(
    directory: &Path,
    mut options: StateOptions,
    scope: &ResumedScope,
    open_outputs: impl FnOnce(&StateOutputs) -> Result<T, Error>,
    cache_limits: CacheLimits,
) -> Result<(OpenState, T), Error> {
    let mut is_new = false;
    let tables = Tables::open(directory, || {
        is_new = true;
        // Part of the first batch, so that every state file has its settings.
        let mut batch = settings_batch(&options, scope);
        batch.meta.insert("format", FORMAT.to_le_bytes().to_vec());
        batch.meta.insert("hash_key", secret().to_le_bytes().to_vec());
        batch.meta.insert("checkpoint", Checkpoint::default().to_bytes());
        batch
    })?;
    let view = tables.view()?;
    let key = read_hash_key(&view, directory)?;
    if let Some(stored) = view.meta("settings")? {
        let checked = options.recorded_settings.check_resume(&stored).ok_or_else(|| view.damaged())?;
        checked
            .map_err(|message| Error::State(StorageError::new(StorageErrorKind::SettingsDiffer, message)))?;
    }
    let position = read_checkpoint(&view)?.output_position();
    drop(view);
    let outputs = open_outputs(&StateOutputs { tables: &tables, key, position }).inspect_err(|_| {
        if is_new {
            remove_unused(directory);
        }
    })?;
    let is_retrying = options.retry_failed || retry::is_begun(&tables.view()?)?;
    let retried = if is_retrying { retry::retry_failed(&tables, key)? } else { 0 };
    if options.recrawl.is_some() {
        recrawl::complete_outputs(&tables, &outputs)?;
    }
    recrawl::start(&tables, key, scope, options.recrawl.as_ref())?;
    apply_scope(&tables, scope, key, &outputs)?;
    let visits = &mut options.config.visits;
    visits.lastmod_makes_due |= visits.revisit_after.is_none() && recrawl::is_auto(&tables.view()?)?;
    schedule::apply_rule(&tables, options.config.visits.revisit_after)?;
    let checkpoint = read_checkpoint(&tables.view()?)?;
    let statistics = stored_view::read(&tables.view()?)?.statistics;
    let prior = match is_new {
        true => PriorState::Empty,
        false => PriorState::Existing { elapsed: checkpoint.visit_time() },
    };
    tables.write(&settings_batch(&options, scope))?;
    let clock_interval = options.clock_interval;
    let state = restore_state(&options, tables.view()?, key, checkpoint, cache_limits)?;
    let backend = LocalBackend::from_state(state, key);
    let (shared, tables) = (Arc::clone(&backend.shared), Arc::new(tables));
    let recorder = Recorder::default();
    let committer = {
        let (shared, tables, recorder) = (Arc::clone(&shared), Arc::clone(&tables), recorder.clone());
        let started = thread::Builder::new().name("committer".into());
        started.spawn(move || committer::run(&shared, &tables, &recorder, clock_interval))
    };
    let committer =
        committer.map_err(|source| Error::System { action: "start the committer thread", source })?;
    let (committer, directory) = (Some(committer), directory.to_owned());
    let writer = StateWriter { shared, tables, committer, recorder, directory };
    Ok((OpenState { backend, writer, prior, retried, statistics }, outputs))
}

/// Removes a state with which nothing was crawled yet. Without it, the user can correct the settings and start again. It is
/// removed while it is locked; if that fails, an empty state is left, which is harmless.
fn remove_unused(directory: &Path) {
    let _ = fs::remove_file(directory.join(STATE_FILE));
}

/// Fails if there is something other than a directory at the path of a state.
pub(super) fn check_is_directory(directory: &Path) -> Result<(), Error> {
    if directory.exists() && !directory.is_dir() {
        let message = format!(
            "cannot use the state directory '{}': it is not a directory; choose another path",
            directory.display()
        );
        return Err(Error::State(StorageError::new(StorageErrorKind::Unusable, message)));
    }
    Ok(())
}

/// A batch with the settings, the scope and the metadata of a crawl.
fn settings_batch(options: &StateOptions, ResumedScope { scope, .. }: &ResumedScope) -> Batch {
    let mut batch = Batch::default();
    batch.meta.insert("settings", options.recorded_settings.to_bytes());
    batch.meta.insert("scope", scope.settings().into_bytes());
    batch.meta.insert("metadata", options.metadata.clone());
    // A process that runs the crawl says when its visit has ended.
    recrawl::set_ended(&mut batch, false);
    batch
}

/// Checks the format, and returns the key of the crawl's URL ids and fingerprints.
pub(super) fn read_hash_key(view: &View, directory: &Path) -> Result<HashKey, BackendError> {
    let format = view.meta("format")?.and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    match format {
        Some(FORMAT) => {}
        Some(other) => {
            let message = format!(
                "cannot open the state in '{}': it has format {other}, and this version reads format {FORMAT}; resume it with \
                 the version that started it",
                directory.display()
            );
            return Err(BackendError::state(StorageErrorKind::Unsupported, message));
        }
        None => return Err(view.damaged()),
    }
    let secret = view.meta("hash_key")?.and_then(|bytes| bytes.try_into().ok()).map(u128::from_le_bytes);
    secret.map(HashKey::new).ok_or_else(|| view.damaged())
}

pub(super) fn read_checkpoint(view: &View) -> Result<Checkpoint, BackendError> {
    let checkpoint = view.meta("checkpoint")?.and_then(|bytes| Checkpoint::from_bytes(&bytes));
    let checkpoint = checkpoint.ok_or_else(|| view.damaged())?;
    // With a row too few a URL would be lost, with a count too high the crawl would never finish.
    if checkpoint.pending() != Some(view.tasks_len()?) {
        return Err(view.wrong_counts());
    }
    Ok(checkpoint)
}

/// The state as the previous process left it, with empty queues.
fn restore_state(
    options: &StateOptions,
    view: View,
    key: HashKey,
    checkpoint: Checkpoint,
    cache_limits: CacheLimits,
) -> Result<LocalState<DiskStorage>, BackendError> {
    let StateOptions { config, delay: default_delay, .. } = options;
    let is_resumed = checkpoint.last_task_id() > 0;
    let clock = match checkpoint.pending() {
        Some(0) if is_resumed => Clock::stopped_at(checkpoint.active_time()),
        _ => Clock::starting_at(checkpoint.active_time()),
    };
    let mut storage = DiskStorage::new(view, key, config.keep_depths, *default_delay, cache_limits);
    storage.resume(checkpoint.seen_written_up_to)?;
    let mut state = LocalState::new(config.clone(), clock, storage);
    restore_requisites(&mut state, checkpoint.requisites())?;
    checkpoint.restore_into(&mut state);
    state.storage.committed_traffic = state.traffic();
    let mut first = 0;
    loop {
        let rows = state.storage.view.pages_from(first, ROWS_PER_READ)?;
        let Some((last, _)) = rows.last() else { break };
        first = last.checked_add(1).ok_or_else(|| state.storage.view.damaged())?;
        for (id, row) in rows {
            let row = PageRow::from_bytes(&row).ok_or_else(|| state.storage.view.damaged())?;
            if let Some(location) = row.body {
                state.storage.restore_body(location)?;
            }
            restore_page(&mut state, id, row);
        }
    }
    state.content.finish_restore(usize::MAX);
    for (domain, pages) in state.storage.view.domains()? {
        state.popularity.resume(&Domain::named(&domain), pages);
    }
    restore_hosts(&mut state, *default_delay)?;
    if is_resumed {
        state.cooldowns.set_for_all(*default_delay);
    }
    Ok(state)
}

/// Restores the queue of requisites. Most crawls have none, and need not read the rows of all pending URLs.
fn restore_requisites(state: &mut LocalState<DiskStorage>, count: u64) -> Result<(), BackendError> {
    let LocalState { storage, requisites, budgets, .. } = state;
    requisites.len = usize::try_from(count).unwrap_or(usize::MAX);
    budgets.restore_requisites(count);
    storage.move_requisites(requisites.len, &mut requisites.urls)
}

/// Restores the fingerprint of a stored page.
pub(crate) fn restore_page<S: Storage>(state: &mut LocalState<S>, id: u64, row: PageRow) {
    let stored_at = Duration::from_millis(row.stored_at);
    let bytes = row.body.map_or(0, |location| u64::from(location.length));
    state.content.restore(id, &row.url, row.fingerprint, bytes, stored_at);
}

/// Restores the page counts of hosts and sites, and the cooldowns and address kinds of hosts.
fn restore_hosts(state: &mut LocalState<DiskStorage>, default_delay: Duration) -> Result<(), BackendError> {
    let now = unix_millis();
    let mut after = String::new();
    loop {
        let rows = state.storage.view.hosts_after(&after, ROWS_PER_READ)?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        after.clone_from(last);
        for (host, row) in rows {
            let row = HostRow::from_bytes(&row).ok_or_else(|| state.storage.view.damaged())?;
            restore_host(state, host, row, default_delay, now);
        }
    }
}

/// Restores the page count of a host or site, and the cooldown and address kinds of a host.
pub(crate) fn restore_host<S: Storage>(
    state: &mut LocalState<S>,
    host: String,
    row: HostRow,
    default_delay: Duration,
    now: u64,
) {
    if row.pages > 0 {
        state.budgets.restore_group(host.clone(), row.pages);
    }
    if row.address_kinds != 0 {
        state.address_kinds.insert(host.clone(), AddressKinds::from_bits(row.address_kinds));
    }
    let host_delay = row.cooldown_after_restart(default_delay, now);
    // The default delay is set for all hosts at once.
    if host_delay.cooldown > default_delay {
        state.restore_host_delay(&host, host_delay);
    }
}

impl StateWriter {
    /// The index of the listed seeds. `None` until all seeds are admitted.
    pub fn seed_index(&self) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.tables.view()?.meta("seed_index")?)
    }

    /// Records that all seeds are admitted, and the index of those from lists.
    pub fn record_seed_index(&self, index: &[u8]) -> Result<(), Error> {
        let mut batch = Batch::default();
        batch.meta.insert("seed_index", index.to_vec());
        Ok(self.tables.write(&batch)?)
    }

    /// Records that the visit has ended: no URL is pending, or a limit is reached, and the outputs are complete.
    pub fn record_visit_end(&self) -> Result<(), Error> {
        let mut batch = Batch::default();
        recrawl::set_ended(&mut batch, true);
        Ok(self.tables.write(&batch)?)
    }

    /// Removes the state if the crawl failed before it admitted a URL.
    pub fn remove_if_unused(&self) {
        if self.shared.state().counters.last_task_id == 0 {
            remove_unused(&self.directory);
        }
    }

    /// Commits the rest and closes the state.
    pub fn close(mut self) -> Result<(), Error> {
        Ok(self.finish()?)
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
