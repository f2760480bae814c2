//! The durable state of a crawl: one file, which any end of the process leaves whole. Only this file knows the storage
//! engine; the files below it know what is kept and when.
//!
//! Nothing but an admission and a completion touches the disk. What waits between them (priority, owner, loan) is
//! forgotten by a death, and done anew. Moves gather in a batch while the one before is being written
//! (`committer.rs`), and whoever made a move waits until its batch is safe.

mod batch;
pub(crate) mod checkpoint;
pub(crate) mod committer;
pub(crate) mod disk_storage;
mod lock;
mod open;
mod panics;
mod recorded_settings;
pub(crate) mod records;
mod seen_cache;
mod state_reader;
mod task_id_queue;

use std::fs::{self, File};
use std::io;
use std::ops::{Bound, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{
    AccessGuard, Database, DatabaseError, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, StorageError, TableDefinition,
};

pub(crate) use self::batch::Batch;
use self::lock::Lock;
pub use self::open::{OpenState, PriorState, StateOptions, StateWriter, open};
use self::panics::{DropGuarded, catch_panic};
pub use self::recorded_settings::RecordedSettings;
pub(crate) use self::state_reader::admitted_form;
pub use self::state_reader::{StateReader, UrlHistory, UrlStatus};
use super::BackendError;

type Rows<K> = TableDefinition<'static, K, &'static [u8]>;

/// What there is once.
const META: Rows<&str> = TableDefinition::new("meta");
/// Outstanding URLs by ticket.
const TASKS: Rows<u64> = TableDefinition::new("tasks");
/// Completed URLs by ticket.
const ENDS: Rows<u64> = TableDefinition::new("ends");
/// Link storage by the URL's id.
const LINKS: Rows<u64> = TableDefinition::new("links");
/// What recognises kept pages, by the URL's id.
const PAGES: Rows<u64> = TableDefinition::new("pages");
/// Content storage: the bodies of each commit together, which costs a fraction of a row for each.
const BODIES: Rows<u64> = TableDefinition::new("bodies");
/// Additions to the outputs that may not be in the files yet, by document number.
const OUTPUT: Rows<u64> = TableDefinition::new("output");
/// What is known of hosts.
const HOSTS: Rows<&str> = TableDefinition::new("hosts");
/// How many pages link to each domain.
const DOMAINS: TableDefinition<&str, u32> = TableDefinition::new("domains");

/// The file in the state's directory.
const FILE: &str = "crawl.state";

/// Its name until it is one that can be opened: whatever dies before that leaves nothing that is in the way.
const UNFINISHED: &str = "crawl.state.unfinished";

/// How much of the file is kept in memory at most.
const CACHE_BYTES: usize = 48 << 20;

/// The tables of a state, open.
pub(crate) struct Tables {
    database: DropGuarded<Database>,
    path: PathBuf,
    _lock: Lock,
}

/// The tables as the last commit left them.
pub(crate) struct View {
    tables: DropGuarded<ReadTables>,
    path: Arc<Path>,
}

struct ReadTables {
    tasks: ReadOnlyTable<u64, &'static [u8]>,
    ends: ReadOnlyTable<u64, &'static [u8]>,
    links: ReadOnlyTable<u64, &'static [u8]>,
    pages: ReadOnlyTable<u64, &'static [u8]>,
    bodies: ReadOnlyTable<u64, &'static [u8]>,
    output: ReadOnlyTable<u64, &'static [u8]>,
    hosts: ReadOnlyTable<&'static str, &'static [u8]>,
    domains: ReadOnlyTable<&'static str, u32>,
    meta: ReadOnlyTable<&'static str, &'static [u8]>,
}

impl Tables {
    /// Whether a directory has a state.
    pub(crate) fn exist(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    /// Opens the state in a directory; where there is none, one that holds the batch is begun. The directory is locked
    /// until the end.
    pub(crate) fn open(directory: &Path, first: impl FnOnce() -> Batch) -> Result<Tables, BackendError> {
        let lock = Lock::take(directory)?;
        let path = directory.join(FILE);
        if Tables::exist(directory) {
            let database = Tables::database(&path, directory)?;
            return Ok(Tables { database, path, _lock: lock });
        }
        // A file that is not whole yet has another name, so that no death leaves something that cannot be opened.
        let unfinished = directory.join(UNFINISHED);
        let begin = |error| trouble(&path, StorageError::Io(error));
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(begin(error)),
            _ => {}
        }
        let database = Tables::database(&unfinished, directory)?;
        let tables = Tables { database, path: path.clone(), _lock: lock };
        tables.write(&first())?;
        fs::rename(&unfinished, &path).map_err(begin)?;
        // The name itself is to outlive a loss of power; where a directory cannot be synced there is no more to do.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(tables)
    }

    fn database(path: &Path, directory: &Path) -> Result<DropGuarded<Database>, BackendError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        // The engine's own checks end in a panic where a page of the file is not what it should be.
        match catch_panic(|| builder.create(path)) {
            Ok(Ok(database)) => Ok(DropGuarded::new(database)),
            Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => Err(lock::in_use(directory)),
            Ok(Err(DatabaseError::UpgradeRequired(version))) => Err(BackendError(format!(
                "the state '{}' is in format {version} of its storage engine, which this version cannot read; resume it \
                 with the version that began it",
                path.display()
            ))),
            Ok(Err(DatabaseError::Storage(error))) => Err(trouble(path, error)),
            Ok(Err(error)) => Err(damaged(path, &error)),
            Err(()) => Err(contradicts(path)),
        }
    }

    /// The tables as they are now.
    pub(crate) fn view(&self) -> Result<View, BackendError> {
        match catch_panic(|| self.try_view().map(DropGuarded::new)) {
            Ok(Ok(tables)) => Ok(View { tables, path: self.path.as_path().into() }),
            Ok(Err(error)) => Err(self.trouble(error)),
            Err(()) => Err(contradicts(&self.path)),
        }
    }

    fn try_view(&self) -> Result<ReadTables, redb::Error> {
        let read = self.database.get().begin_read()?;
        Ok(ReadTables {
            tasks: read.open_table(TASKS)?,
            ends: read.open_table(ENDS)?,
            links: read.open_table(LINKS)?,
            pages: read.open_table(PAGES)?,
            bodies: read.open_table(BODIES)?,
            output: read.open_table(OUTPUT)?,
            hosts: read.open_table(HOSTS)?,
            domains: read.open_table(DOMAINS)?,
            meta: read.open_table(META)?,
        })
    }

    /// Writes a batch, safe from a loss of power when it returns.
    pub(crate) fn write(&self, batch: &Batch) -> Result<(), BackendError> {
        match catch_panic(|| self.try_write(batch)) {
            Ok(written) => written.map_err(|error| self.trouble(error)),
            Err(()) => Err(contradicts(&self.path)),
        }
    }

    fn try_write(&self, batch: &Batch) -> Result<(), redb::Error> {
        let mut transaction = self.database.get().begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            // A table that is opened is written, so only those are that change; a first batch makes them all.
            let is_first = batch.number == 0;
            let changes = [(TASKS, &batch.tasks), (PAGES, &batch.pages), (BODIES, &batch.bodies)];
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
            if !batch.ends.is_empty() || is_first {
                let mut ends = transaction.open_table(ENDS)?;
                for (task_id, row) in &batch.ends {
                    ends.insert(task_id, row.as_slice())?;
                }
            }
            if !batch.forgotten.is_empty() || batch.links.len() > 0 || is_first {
                let mut links = transaction.open_table(LINKS)?;
                for id in &batch.forgotten {
                    links.remove(id)?;
                }
                for (id, link) in batch.links.sorted() {
                    links.insert(id, link.to_bytes().as_slice())?;
                }
            }
            if !batch.output.is_empty() || batch.written.is_some() || is_first {
                let mut output = transaction.open_table(OUTPUT)?;
                for (document, row) in &batch.output {
                    output.insert(document, row.as_slice())?;
                }
                if let Some(written) = batch.written {
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
            let mut meta = transaction.open_table(META)?;
            for (name, value) in &batch.meta {
                meta.insert(*name, value.as_slice())?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn trouble(&self, error: redb::Error) -> BackendError {
        match error {
            redb::Error::Io(error) => trouble(&self.path, StorageError::Io(error)),
            redb::Error::Corrupted(what) => trouble(&self.path, StorageError::Corrupted(what)),
            error => damaged(&self.path, &error),
        }
    }
}

impl View {
    pub(crate) fn task(&self, task_id: u64) -> Result<Option<Vec<u8>>, BackendError> {
        self.row(|tables| tables.tasks.get(task_id))
    }

    pub(crate) fn end(&self, task_id: u64) -> Result<Option<Vec<u8>>, BackendError> {
        self.row(|tables| tables.ends.get(task_id))
    }

    pub(crate) fn link(&self, id: u64) -> Result<Option<Vec<u8>>, BackendError> {
        self.row(|tables| tables.links.get(id))
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

    pub(crate) fn links_len(&self) -> Result<u64, BackendError> {
        self.read(|tables| tables.links.len())
    }

    pub(crate) fn tasks_len(&self) -> Result<u64, BackendError> {
        self.read(|tables| tables.tasks.len())
    }

    pub(crate) fn tasks_from(&self, task_id: u64, max: usize) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.rows(|tables| &tables.tasks, task_id..=u64::MAX, max)
    }

    pub(crate) fn ends_from(&self, task_id: u64, max: usize) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.rows(|tables| &tables.ends, task_id..=u64::MAX, max)
    }

    pub(crate) fn links_in(
        &self,
        ids: RangeInclusive<u64>,
        max: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.rows(|tables| &tables.links, ids, max)
    }

    pub(crate) fn pages_from(&self, id: u64, max: usize) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.rows(|tables| &tables.pages, id..=u64::MAX, max)
    }

    pub(crate) fn output_from(&self, document: u64, max: usize) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.rows(|tables| &tables.output, document..=u64::MAX, max)
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

    /// What cannot be read back.
    pub(crate) fn damaged(&self) -> BackendError {
        damaged(&self.path, &"a row of it makes no sense")
    }

    /// What was counted is not what is there.
    pub(crate) fn miscounted(&self) -> BackendError {
        damaged(&self.path, &"its counts are not those of its rows")
    }

    /// Reads, whatever the engine makes of a damaged file.
    fn read<T>(&self, read: impl FnOnce(&ReadTables) -> Result<T, StorageError>) -> Result<T, BackendError> {
        match catch_panic(|| read(self.tables.get())) {
            Ok(read) => read.map_err(|error| trouble(&self.path, error)),
            Err(()) => Err(contradicts(&self.path)),
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
        keys: RangeInclusive<u64>,
        max: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, BackendError> {
        self.read(|tables| {
            let rows = table(tables).range(keys)?.take(max);
            rows.map(|row| row.map(|(key, row)| (key.value(), row.value().to_vec()))).collect()
        })
    }
}

/// What went wrong with the state's file, and what to do.
fn trouble(path: &Path, error: StorageError) -> BackendError {
    let name = path.display();
    match error {
        StorageError::Io(error) if error.kind() == io::ErrorKind::StorageFull => BackendError(format!(
            "cannot write the state '{name}': the disk is full; make room and resume: nothing committed is lost"
        )),
        StorageError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            damaged(path, &"it is shorter than it was")
        }
        StorageError::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            BackendError(format!("'{name}' is not the state of a crawl ({error}); name another directory"))
        }
        StorageError::Io(error) => BackendError(format!(
            "cannot use the state '{name}': {error}; see to the file, then resume: nothing committed is lost"
        )),
        error => damaged(path, &error),
    }
}

fn damaged(path: &Path, what: &dyn std::fmt::Display) -> BackendError {
    BackendError(format!(
        "the state '{}' is damaged: {what}; put back a copy of it, or begin a new crawl in another directory",
        path.display()
    ))
}

/// Pages of the file do not fit each other.
fn contradicts(path: &Path) -> BackendError {
    damaged(path, &"its pages contradict each other")
}

#[cfg(test)]
mod tests;
