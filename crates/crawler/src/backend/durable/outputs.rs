//! What a state stores about the outputs of its crawl: which there are, how far they are written, and what is to be
//! written.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::records::writes_from_bytes;
use super::{Batch, Tables, View, retry};
use crate::backend::BackendError;
use crate::error::{Error, StorageError};
use crate::modules::output::files::OpenTarget;
use crate::modules::output::finish::records_path;
use crate::modules::output::segments::SegmentRule;
use crate::modules::output::{OutputPosition, OutputSpec, Target, Writes};
use crate::modules::registry;
use crate::similarity::HashKey;
use crate::url_record::UrlRecord;
use crate::visit::unix_micros;

/// Number of rows to read at a time.
const ROWS_PER_READ: usize = 1024;

/// An output that belongs to a crawl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedOutput {
    /// The name of the output.
    pub name: String,
    /// Its format, the name with options.
    pub format: String,
    /// Its file or directory, as an absolute path.
    #[serde(with = "path_bytes")]
    pub path: PathBuf,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether it is made from a records file at the end.
    pub has_records: bool,
    /// The bytes at the start of the file that is written during the crawl.
    pub header: Vec<u8>,
    /// The first page that is in it: it was added to the crawl before that page.
    pub first_page: u64,
    /// When it was added: Unix time in microseconds.
    pub added_at: u64,
    /// How it is split into files, if it is.
    pub segments: Option<SegmentRule>,
}

impl RecordedOutput {
    /// An output that is added to a crawl before a page.
    pub fn new(spec: &OutputSpec, first_page: u64) -> RecordedOutput {
        let OutputSpec { output, target } = spec;
        RecordedOutput {
            name: output.name().to_owned(),
            format: output.format(),
            path: std::path::absolute(target.path()).unwrap_or_else(|_| target.path().to_owned()),
            is_directory: matches!(target, Target::Directory(_)),
            has_records: output.finisher().is_some(),
            header: spec.header().into_owned(),
            first_page,
            added_at: unix_micros(SystemTime::now()),
            segments: output.segments(),
        }
    }

    /// What is opened for it.
    pub(crate) fn open_target(&self) -> OpenTarget<'_> {
        OpenTarget { target: self.written(), header: (&*self.header).into(), segments: self.segments.clone() }
    }

    /// When it was added, if it is an archive. It has nothing that was requested before.
    pub fn archived_since(&self) -> Option<SystemTime> {
        self.segments.as_ref().map(|_| UNIX_EPOCH + Duration::from_micros(self.added_at))
    }

    /// Whether it has the same format and path.
    pub fn is_same(&self, other: &RecordedOutput) -> bool {
        self.format == other.format && self.path == other.path && self.is_directory == other.is_directory
    }

    /// The file or directory that is written during the crawl.
    pub fn written(&self) -> Target {
        match (self.has_records, self.is_directory) {
            (true, _) => Target::File(records_path(&self.path)),
            (false, true) => Target::Directory(self.path.clone()),
            (false, false) => Target::File(self.path.clone()),
        }
    }

    /// Makes the output from its records file, if it has one and this program knows the format.
    pub fn finish(&self) -> Result<(), StorageError> {
        match registry::output_of_format(&self.format, &self.path) {
            Some(spec) if self.has_records => spec.finish(),
            _ => Ok(()),
        }
    }

    /// Removes the records file that it was [made](RecordedOutput::finish) from.
    pub fn remove_records(&self) -> Result<(), StorageError> {
        match registry::output_of_format(&self.format, &self.path) {
            Some(spec) if self.has_records => spec.remove_records(),
            _ => Ok(()),
        }
    }

    /// What is recorded as the length of an output that has no page yet.
    pub fn length_without_pages(&self) -> u64 {
        if let Target::Directory(_) = self.written() { self.first_page - 1 } else { 0 }
    }
}

/// The outputs of a state that is being opened.
pub struct StateOutputs<'t> {
    pub(super) tables: &'t Tables,
    pub(super) key: HashKey,
    /// The position of the outputs after everything that the crawl has for them.
    pub position: OutputPosition,
}

/// The outputs of a state after they were opened.
pub trait OpenOutputs {
    /// Whether there is an output that has a row for every URL, or a module that gets every URL.
    fn wants_urls(&self) -> bool;

    /// What a URL adds to these outputs. These modules get it.
    fn render_url(&self, record: &UrlRecord) -> Writes;

    /// Writes what is recorded under this number, and for this page.
    fn write(&self, sequence: u64, page: Option<u64>, writes: Writes) -> Result<(), Error>;

    /// Brings the outputs to the state that they have at the end of a crawl. Returns false if that fails. More can be written later.
    fn complete(&self) -> bool;
}

/// No outputs.
impl OpenOutputs for () {
    fn wants_urls(&self) -> bool {
        false
    }

    fn render_url(&self, _: &UrlRecord) -> Writes {
        Vec::new()
    }

    fn write(&self, _: u64, _: Option<u64>, _: Writes) -> Result<(), Error> {
        Ok(())
    }

    fn complete(&self) -> bool {
        true
    }
}

impl StateOutputs<'_> {
    /// How far the outputs are written, and the length of each output. `None` if they were never opened.
    pub fn outputs_written(&self) -> Result<Option<(OutputPosition, Vec<u64>)>, Error> {
        let view = self.tables.view()?;
        let written = view.meta("outputs_written")?;
        let written = written.map(|written| serde_json::from_slice(&written)).transpose();
        written.map_err(|_| Error::from(view.damaged()))
    }

    /// The outputs of the crawl, in the order of the recorded lengths.
    pub fn outputs(&self) -> Result<Vec<RecordedOutput>, Error> {
        Ok(recorded_outputs(&self.tables.view()?)?)
    }

    /// Records the outputs of the crawl, and that they are written up to this position and have these lengths. If the process
    /// dies before it records more, the next process may truncate them to these lengths. What is to be written to them up to
    /// there is deleted.
    pub fn record_outputs(
        &self,
        outputs: &[RecordedOutput],
        written: OutputPosition,
        lengths: &[u64],
    ) -> Result<(), Error> {
        let mut batch = Batch { number: 1, ..Batch::default() };
        batch.meta.insert("outputs", serde_json::to_vec(outputs).unwrap_or_default());
        batch.set_outputs_written(written, lengths);
        Ok(self.tables.write(&batch)?)
    }

    /// The IDs of the URLs that failed temporarily.
    pub fn failed_urls(&self) -> Result<HashSet<u64>, Error> {
        Ok(retry::failed_urls(self.tables, self.key)?)
    }

    /// The ID of a URL.
    pub fn url_id(&self, url: &str) -> u64 {
        self.key.url_id(url)
    }

    /// Records that the outputs have everything and these lengths, and that failed URLs are to be queued again. Every process
    /// that opens the state does so until it is done.
    pub fn start_retry(&self, lengths: &[u64]) -> Result<(), Error> {
        let mut batch = Batch { number: 1, ..Batch::default() };
        batch.set_outputs_written(self.position, lengths);
        retry::set_begun(&mut batch, true);
        Ok(self.tables.write(&batch)?)
    }

    /// Whether a process has recorded that failed URLs are to be queued again.
    pub fn is_retrying(&self) -> Result<bool, Error> {
        Ok(retry::is_begun(&self.tables.view()?)?)
    }

    /// Calls `apply` with what is to be written after a position: its number, its page if it is one, and the writes.
    pub fn replay(
        &self,
        written: OutputPosition,
        mut apply: impl FnMut(u64, Option<u64>, Writes) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let view = self.tables.view()?;
        let mut first = written.sequence.saturating_add(1);
        loop {
            let rows = view.output_from(first, ROWS_PER_READ)?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            first = last.checked_add(1).ok_or_else(|| view.damaged())?;
            for (sequence, row) in rows {
                let (page, writes) = writes_from_bytes(&row).ok_or_else(|| view.damaged())?;
                apply(sequence, page, writes)?;
            }
        }
    }
}

/// The outputs of a crawl.
pub(super) fn recorded_outputs(view: &View) -> Result<Vec<RecordedOutput>, BackendError> {
    let Some(outputs) = view.meta("outputs")? else { return Ok(Vec::new()) };
    serde_json::from_slice(&outputs).map_err(|_| view.damaged())
}

/// Serializes a path as its bytes, which need not be UTF-8.
mod path_bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(OsString::from_vec(Vec::deserialize(deserializer)?).into())
    }
}
