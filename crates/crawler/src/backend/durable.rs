//! The durable state of a crawl: one file, which is consistent after the process exits for any reason. Only this file
//! uses the storage engine; the modules below define what is stored and when.
//!
//! Only admissions and completions are written to disk. What happens between them (priority, owner, lease) is lost in a
//! crash and done again. Operations collect in a batch while the previous batch is being written (`committer.rs`), and
//! each operation waits until its batch is durable.

mod batch;
pub(crate) mod checkpoint;
pub(crate) mod committer;
mod discovery;
pub(crate) mod disk_storage;
mod file_reader;
mod lock;
mod open;
mod outputs;
mod panics;
mod recorded_settings;
pub(crate) mod records;
mod recrawl;
mod retry;
mod schedule;
mod scope_change;
mod seen_cache;
mod server;
mod socket;
mod state_query;
mod state_reader;
mod stored_urls;
mod stored_view;
mod task_id_queue;
mod visited_urls;

use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{
    AccessGuard, Database, DatabaseError, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, StorageError, TableDefinition,
};

pub(crate) use self::batch::Batch;
use self::lock::Lock;
pub use self::open::{CLOCK_INTERVAL, OpenState, PriorState, StateOptions, StateWriter, open, open_in_scope};
pub(crate) use self::open::{restore_host, restore_page};
pub use self::outputs::{OpenOutputs, RecordedOutput, StateOutputs};
use self::panics::{DropGuarded, catch_panic};
pub use self::recorded_settings::RecordedSettings;
pub use self::recrawl::Recrawl;
pub use self::scope_change::ResumedScope;
pub use self::server::StateServer;
pub use self::state_reader::{StateReader, StateStatus, UrlHistory, UrlStatus};
pub(crate) use self::state_reader::{admitted_form, admitted_forms, lastmod_time};
pub use self::visited_urls::{Change, VisitedUrl};
use super::BackendError;
use crate::error::{self, StorageErrorKind};

type Table<K> = TableDefinition<'static, K, &'static [u8]>;

/// Single values by name.
const META: Table<&str> = TableDefinition::new("meta");
/// Pending URLs by task id.
const TASKS: Table<u64> = TableDefinition::new("tasks");
/// Completed URLs by task id.
const COMPLETED: Table<u64> = TableDefinition::new("ends");
/// The seen set by URL id.
const SEEN: Table<u64> = TableDefinition::new("links");
/// Fingerprints of stored pages by URL id.
const PAGES: Table<u64> = TableDefinition::new("pages");
/// Page bodies by segment: all bodies of a commit share a row, which costs much less than a row for each.
const BODIES: Table<u64> = TableDefinition::new("bodies");
/// Writes to the outputs that may not be in the files yet, by their number.
const OUTPUT: Table<u64> = TableDefinition::new("output");
/// Delays and page counts of hosts.
const HOSTS: Table<&str> = TableDefinition::new("hosts");
/// Number of pages that link to each domain.
const DOMAINS: TableDefinition<&str, u32> = TableDefinition::new("domains");
/// When pages were last modified, by URL id: Unix time in seconds.
const LASTMODS: TableDefinition<u64, u32> = TableDefinition::new("lastmods");

/// When completed URLs are due again: Unix time in milliseconds, and the task.
const DUE: TableDefinition<(u64, u64), ()> = TableDefinition::new("due");

/// The name of the state file in its directory.
const STATE_FILE: &str = "crawl.state";

/// The name of the state file while it is being created, so that a crash leaves no file that cannot be opened.
const UNFINISHED_FILE: &str = "crawl.state.unfinished";

/// The names of all files in the directory of a state.
pub const STATE_FILES: [&str; 4] = [STATE_FILE, UNFINISHED_FILE, lock::LOCK_FILE, socket::SOCKET_FILE];

/// Maximum size of the storage engine's cache.
const CACHE_BYTES: usize = 48 << 20;

/// The tables of an open state.
pub(crate) struct Tables {
    database: DropGuarded<Database>,
    path: PathBuf,
    _lock: Lock,
}

/// The tables as of the last commit.
pub(crate) struct View {
    tables: DropGuarded<ReadTables>,
    path: Arc<Path>,
}

struct ReadTables {
    tasks: ReadOnlyTable<u64, &'static [u8]>,
    completed: ReadOnlyTable<u64, &'static [u8]>,
    seen: ReadOnlyTable<u64, &'static [u8]>,
    pages: ReadOnlyTable<u64, &'static [u8]>,
    bodies: ReadOnlyTable<u64, &'static [u8]>,
    output: ReadOnlyTable<u64, &'static [u8]>,
    hosts: ReadOnlyTable<&'static str, &'static [u8]>,
    domains: ReadOnlyTable<&'static str, u32>,
    lastmods: ReadOnlyTable<u64, u32>,
    due: ReadOnlyTable<(u64, u64), ()>,
    meta: ReadOnlyTable<&'static str, &'static [u8]>,
}

impl Tables {
    /// Whether a directory has a state.
    pub(crate) fn exist(directory: &Path) -> bool {
        directory.join(STATE_FILE).exists()
    }

    /// Opens the state in a directory, or creates one that contains the batch `first`. Locks the directory until the
    /// tables are dropped.
    pub(crate) fn open(directory: &Path, first: impl FnOnce() -> Batch) -> Result<Tables, BackendError> {
        let lock = Lock::acquire(directory)?;
        let path = directory.join(STATE_FILE);
        if Tables::exist(directory) {
            let database = Tables::database(&path, directory)?;
            return Ok(Tables { database, path, _lock: lock });
        }
        // An incomplete file has another name, so that a crash leaves no file that cannot be opened.
        let unfinished = directory.join(UNFINISHED_FILE);
        let io_error = |error| storage_error(&path, StorageError::Io(error));
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
            _ => {}
        }
        let database = Tables::database(&unfinished, directory)?;
        let tables = Tables { database, path: path.clone(), _lock: lock };
        tables.write(&first())?;
        fs::rename(&unfinished, &path).map_err(io_error)?;
        // The new name must survive a power failure. Ignore the error of file systems that cannot sync a directory.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(tables)
    }

    fn database(path: &Path, directory: &Path) -> Result<DropGuarded<Database>, BackendError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        // The storage engine panics if a page of the file is damaged.
        match catch_panic(|| builder.create(path)) {
            Ok(Ok(database)) => Ok(DropGuarded::new(database)),
            Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => Err(lock::in_use(directory)),
            Ok(Err(DatabaseError::UpgradeRequired(version))) => {
                let message = format!(
                    "cannot open the state '{}': it has version {version} of the storage engine's format, which this \
                     version of the crawler cannot read; resume it with the version that started it",
                    path.display()
                );
                Err(BackendError::state(StorageErrorKind::Unsupported, message))
            }
            Ok(Err(DatabaseError::Storage(error))) => Err(storage_error(path, error)),
            Ok(Err(error)) => Err(damaged(path, &error)),
            Err(()) => Err(inconsistent(path)),
        }
    }

    /// The tables as of now.
    pub(crate) fn view(&self) -> Result<View, BackendError> {
        match catch_panic(|| self.try_view().map(DropGuarded::new)) {
            Ok(Ok(tables)) => Ok(View { tables, path: self.path.as_path().into() }),
            Ok(Err(error)) => Err(self.storage_error(error)),
            Err(()) => Err(inconsistent(&self.path)),
        }
    }

    fn try_view(&self) -> Result<ReadTables, redb::Error> {
        let read = self.database.get().begin_read()?;
        Ok(ReadTables {
            tasks: read.open_table(TASKS)?,
            completed: read.open_table(COMPLETED)?,
            seen: read.open_table(SEEN)?,
            pages: read.open_table(PAGES)?,
            bodies: read.open_table(BODIES)?,
            output: read.open_table(OUTPUT)?,
            hosts: read.open_table(HOSTS)?,
            domains: read.open_table(DOMAINS)?,
            lastmods: read.open_table(LASTMODS)?,
            due: read.open_table(DUE)?,
            meta: read.open_table(META)?,
        })
    }

    /// Writes a batch. It survives a power failure once this returns.
    pub(crate) fn write(&self, batch: &Batch) -> Result<(), BackendError> {
        match catch_panic(|| self.try_write(batch)) {
            Ok(written) => written.map_err(|error| self.storage_error(error)),
            Err(()) => Err(inconsistent(&self.path)),
        }
    }

    fn try_write(&self, batch: &Batch) -> Result<(), redb::Error> {
        let mut transaction = self.database.get().begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            // Opening a table writes to it, so open only tables that change. The first batch creates all of them.
            let is_first = batch.number == 0;
            let changes = [
                (TASKS, &batch.tasks),
                (COMPLETED, &batch.completed),
                (PAGES, &batch.pages),
                (BODIES, &batch.bodies),
            ];
            for (table, rows) in changes {
                if rows.is_empty() && !is_first {
                    continue;
                }
                let mut table = transaction.open_table(table)?;
                for (key, row) in rows {
                    match row {
                        Some(row) => drop(table.insert(key, row.as_slice())?),
                        None => drop(table.remove(key)?),
                    }
                }
            }
            if batch.seen.len() > 0 || is_first {
                let mut seen = transaction.open_table(SEEN)?;
                for (id, row) in batch.seen.sorted() {
                    seen.insert(id, row.to_bytes().as_slice())?;
                }
            }
            if !batch.output.is_empty() || batch.outputs_written.is_some() || is_first {
                let mut output = transaction.open_table(OUTPUT)?;
                for (sequence, row) in &batch.output {
                    output.insert(sequence, row.as_slice())?;
                }
                if let Some(written) = batch.outputs_written {
                    output.retain_in(..=written, |_, _| false)?;
                }
            }
            if !batch.hosts.is_empty() || is_first {
                let mut hosts = transaction.open_table(HOSTS)?;
                for (host, row) in &batch.hosts {
                    match row {
                        Some(row) => drop(hosts.insert(host.as_str(), row.as_slice())?),
                        None => drop(hosts.remove(host.as_str())?),
                    }
                }
            }
            if !batch.domains.is_empty() || is_first {
                let mut domains = transaction.open_table(DOMAINS)?;
                for (domain, pages) in &batch.domains {
                    domains.insert(domain.as_str(), pages)?;
                }
            }
            if !batch.lastmods.is_empty() || is_first {
                let mut lastmods = transaction.open_table(LASTMODS)?;
                for (id, lastmod) in &batch.lastmods {
                    lastmods.insert(id, lastmod)?;
                }
            }
            if !batch.due.is_empty() || batch.clears_due || is_first {
                let mut due = transaction.open_table(DUE)?;
                if batch.clears_due {
                    due.retain(|_, ()| false)?;
                }
                for (entry, is_added) in &batch.due {
                    match is_added {
                        true => drop(due.insert(entry, ())?),
                        false => drop(due.remove(entry)?),
                    }
                }
            }
            let mut meta = transaction.open_table(META)?;
            for (name, value) in &batch.meta {
                meta.insert(*name, value.as_slice())?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn storage_error(&self, error: redb::Error) -> BackendError {
        match error {
            redb::Error::Io(error) => storage_error(&self.path, StorageError::Io(error)),
            redb::Error::Corrupted(cause) => storage_error(&self.path, StorageError::Corrupted(cause)),
            error => damaged(&self.path, &error),
        }
    }
}

impl View {
    pub(crate) fn task(&self, task_id: u64) -> Result<Option<Vec<u8>>, BackendError> {
        self.row(|tables| tables.tasks.get(task_id))
    }

    pub(crate) fn completed(&self, task_id: u64) -> Result<Option<Vec<u8>>, BackendError> {
        self.row(|tables| tables.completed.get(task_id))
    }

    pub(crate) fn seen(&self, id: u64) -> Result<Option<Vec<u8>>, BackendError> {
        self.row(|tables| tables.seen.get(id))
    }

    pub(crate) fn page(&self, id: u64) -> Result<Option<Vec<u8>>, BackendError> {
        self.row(|tables| tables.pages.get(id))
    }

    pub(crate) fn bodies(&self, segment: u64) -> Result<Option<Vec<u8>>, BackendError> {
        self.row(|tables| tables.bodies.get(segment))
    }

    pub(crate) fn host(&self, host: &str) -> Result<Option<Vec<u8>>, BackendError> {
        self.row(|tables| tables.hosts.get(host))
    }

    pub(crate) fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        self.row(|tables| tables.meta.get(name))
    }

    pub(crate) fn seen_len(&self) -> Result<u64, BackendError> {
        self.read(|tables| tables.seen.len())
    }

    pub(crate) fn pages_len(&self) -> Result<u64, BackendError> {
        self.read(|tables| tables.pages.len())
    }

    pub(crate) fn lastmod(&self, id: u64) -> Result<Option<u32>, BackendError> {
        self.read(|tables| Ok(tables.lastmods.get(id)?.map(|lastmod| lastmod.value())))
    }

    pub(crate) fn lastmods_len(&self) -> Result<u64, BackendError> {
        self.read(|tables| tables.lastmods.len())
    }

    /// The first entries of the schedule.
    pub(crate) fn due(&self, max: usize) -> Result<Vec<(u64, u64)>, BackendError> {
        self.read(|tables| {
            let entries = tables.due.iter()?.take(max);
            entries.map(|entry| entry.map(|(due, _)| due.value())).collect()
        })
    }

    pub(crate) fn is_due(&self, due: (u64, u64)) -> Result<bool, BackendError> {
        self.read(|tables| Ok(tables.due.get(due)?.is_some()))
    }

    pub(crate) fn due_len(&self) -> Result<u64, BackendError> {
        self.read(|tables| tables.due.len())
    }

    pub(crate) fn tasks_len(&self) -> Result<u64, BackendError> {
        self.read(|tables| tables.tasks.len())
    }

    pub(crate) fn tasks_from(&self, task_id: u64, max: usize) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.rows(|tables| &tables.tasks, task_id, max)
    }

    pub(crate) fn completed_from(
        &self,
        task_id: u64,
        max: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.rows(|tables| &tables.completed, task_id, max)
    }

    pub(crate) fn pages_from(&self, id: u64, max: usize) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.rows(|tables| &tables.pages, id, max)
    }

    pub(crate) fn output_from(&self, sequence: u64, max: usize) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.rows(|tables| &tables.output, sequence, max)
    }

    pub(crate) fn hosts_after(&self, host: &str, max: usize) -> Result<Vec<(String, Vec<u8>)>, BackendError> {
        self.read(|tables| {
            let rows = tables.hosts.range::<&str>((Bound::Excluded(host), Bound::Unbounded))?.take(max);
            rows.map(|row| row.map(|(host, row)| (host.value().to_owned(), row.value().to_vec()))).collect()
        })
    }

    pub(crate) fn domains(&self) -> Result<Vec<(String, u32)>, BackendError> {
        self.read(|tables| {
            let rows = tables.domains.iter()?;
            rows.map(|row| row.map(|(domain, pages)| (domain.value().to_owned(), pages.value()))).collect()
        })
    }

    /// The error for a row that cannot be decoded.
    pub(crate) fn damaged(&self) -> BackendError {
        damaged(&self.path, &"a row cannot be decoded")
    }

    /// The error for counts that differ from the number of rows.
    pub(crate) fn wrong_counts(&self) -> BackendError {
        damaged(&self.path, &"its counts differ from its rows")
    }

    /// Reads from the tables, and turns a panic of the storage engine into an error.
    fn read<T>(&self, read: impl FnOnce(&ReadTables) -> Result<T, StorageError>) -> Result<T, BackendError> {
        match catch_panic(|| read(self.tables.get())) {
            Ok(read) => read.map_err(|error| storage_error(&self.path, error)),
            Err(()) => Err(inconsistent(&self.path)),
        }
    }

    fn row<'v>(
        &'v self,
        get: impl FnOnce(&'v ReadTables) -> Result<Option<AccessGuard<'v, &'static [u8]>>, StorageError>,
    ) -> Result<Option<Vec<u8>>, BackendError> {
        let tables = self.tables.get();
        self.read(|_| Ok(get(tables)?.map(|row| row.value().to_vec())))
    }

    fn rows(
        &self,
        table: impl FnOnce(&ReadTables) -> &ReadOnlyTable<u64, &'static [u8]>,
        first: u64,
        max: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.read(|tables| {
            let rows = table(tables).range(first..)?.take(max);
            rows.map(|row| row.map(|(key, row)| (key.value(), row.value().to_vec()))).collect()
        })
    }
}

/// Describes an error of the storage engine and the remedy.
fn storage_error(path: &Path, error: StorageError) -> BackendError {
    let name = path.display();
    let StorageError::Io(error) = error else { return damaged(path, &error) };
    let (what, source, remedy) = match error.kind() {
        io::ErrorKind::UnexpectedEof => return damaged(path, &"it is truncated"),
        io::ErrorKind::InvalidData => {
            let message = format!(
                "cannot open '{name}': it is not the state of a crawl ({error}); choose another directory"
            );
            return BackendError::state(StorageErrorKind::Damaged, message);
        }
        kind @ io::ErrorKind::StorageFull => (
            format!("cannot write the state '{name}'"),
            io::Error::new(kind, "the disk is full"),
            "free some space, then resume (nothing committed is lost)",
        ),
        _ => (
            format!("cannot access the state '{name}'"),
            error,
            "fix that, then resume (nothing committed is lost)",
        ),
    };
    BackendError::State(error::StorageError::with_source(StorageErrorKind::Io, what, source, remedy))
}

fn damaged(path: &Path, cause: &dyn std::fmt::Display) -> BackendError {
    let message = format!(
        "cannot read the state '{}': it is damaged: {cause}; restore a copy, or start a new crawl in another directory",
        path.display()
    );
    BackendError::state(StorageErrorKind::Damaged, message)
}

/// The error for a file whose pages are inconsistent.
fn inconsistent(path: &Path) -> BackendError {
    damaged(path, &"its pages are inconsistent")
}

#[cfg(test)]
mod tests;
