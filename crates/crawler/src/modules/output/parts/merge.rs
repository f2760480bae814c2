//! Merges the parts of an output: each page once, in the order of task ids, as one process would have written it.
//!
//! Only the indexes are held in memory, so the parts may be larger than memory. A part that a worker is still writing
//! to is merged up to the last page in its index.

mod new_segments;
mod referred;
mod sink;
mod source;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use self::new_segments::end_merge;
pub use self::source::parts_of;

use self::sink::MergeSink;
use self::source::PartSource;
use super::{RETURNED, TASK_ID_BITS, index};

/// Where the merged output is written.
pub enum Destination<'w> {
    /// A file, or a directory if the parts are directories.
    Path(&'w Path),
    /// A stream. Only for parts that are files.
    Stream(&'w mut dyn Write),
}

/// What was merged, and what was left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// Whether the output has a row per URL. Then `pages` are URLs.
    pub is_of_urls: bool,
    /// Whether the output is a web archive, of which an index can be made.
    pub is_archive: bool,
    /// How many pages were merged. What tasks wrote beside their results does not count.
    pub pages: u64,
    /// How many parts they come from.
    pub parts: usize,
    /// How many versions of pages were left out because another version counts. Of an archive, those are not left out to which another
    /// one refers.
    pub superseded: u64,
    /// How many pages were left out because a tombstone retracts them.
    pub retracted: u64,
    /// How many bytes of incomplete pages were left out.
    pub incomplete_bytes: u64,
}

/// Why the parts could not be merged.
#[derive(Debug)]
pub enum MergeError {
    /// The parts or the output cannot be used; nothing was written.
    Refused(String),
    /// A part is damaged or cannot be read.
    Unreadable(String),
    /// The output cannot be written.
    NotWritten(io::Error),
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeError::Refused(cause) | MergeError::Unreadable(cause) => f.write_str(cause),
            MergeError::NotWritten(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for MergeError {}

/// One version of a page, or a tombstone, written under one lease.
#[derive(Debug, Clone, Copy)]
struct PageVersion {
    task_id: u64,
    lease_id: u64,
    offset: u64,
    length: u64,
    part: u32,
    tombstone: bool,
}

/// Merges the parts of one output of one crawl. An existing output is replaced only if `overwrite` is set.
pub fn merge(
    parts: &[PathBuf],
    destination: Destination,
    overwrite: bool,
) -> Result<MergeReport, MergeError> {
    merge_with_files(parts, destination, overwrite, &[])
}

/// The same for parts from whose output, if it is an archive, the caller makes these files. They are replaced as the output is: only
/// if `overwrite` is set, or if a killed process had begun to. [`end_merge`] says that they are made.
pub fn merge_with_files(
    parts: &[PathBuf],
    destination: Destination,
    overwrite: bool,
    made: &[PathBuf],
) -> Result<MergeReport, MergeError> {
    let parts = without_indexes(parts)?;
    ensure_distinct(&parts)?;
    if let Destination::Path(output) = destination {
        ensure_not_a_part(&parts, output)?;
    }
    let mut versions = Vec::new();
    let mut sources = Vec::with_capacity(parts.len());
    for (number, path) in (0..).zip(&parts) {
        sources.push(PartSource::open(path, number, &mut versions)?);
    }
    source::ensure_same_output(&sources)?;
    let mut report = MergeReport {
        is_of_urls: sources.iter().any(PartSource::is_of_urls),
        is_archive: sources.iter().any(|source| source.segments().is_some()),
        parts: sources.len(),
        incomplete_bytes: sources.iter().map(PartSource::incomplete_bytes).sum(),
        ..MergeReport::default()
    };
    let replaced = keep_latest_versions(&mut versions, &mut report);
    if report.is_archive && !replaced.is_empty() {
        let kept = referred::add_referred(&sources, &mut versions, replaced)?;
        report.superseded = report.superseded.saturating_sub(kept);
    }
    let header = source::output_header(&sources)?;
    let sink = match sources.iter().find_map(PartSource::segments) {
        Some(rule) => MergeSink::open_segments(destination, rule, overwrite, made)?,
        None => MergeSink::open(destination, &header, source::are_directories(&sources), overwrite)?,
    };
    write(&sources, &versions, sink)?;
    Ok(report)
}

impl PageVersion {
    /// Versions with the same key replace each other.
    fn key(&self) -> (u64, Option<u64>) {
        let is_returned = self.task_id >> TASK_ID_BITS == RETURNED;
        (self.task_id, is_returned.then_some(self.lease_id))
    }

    /// Whether it is what a task wrote beside its result: failed tries, and requests of leases that were returned.
    fn is_beside_result(&self) -> bool {
        self.task_id >> TASK_ID_BITS > 0
    }
}

/// Keeps one version of each page, in the order of task ids, and counts the others. Returns those that other versions replaced.
fn keep_latest_versions(versions: &mut Vec<PageVersion>, report: &mut MergeReport) -> Vec<PageVersion> {
    // The largest lease id of each task comes first, with its tombstone before its page: the crawl did not take that page.
    versions.sort_unstable_by_key(|it| {
        (it.task_id, std::cmp::Reverse(it.lease_id), !it.tombstone, it.part, it.offset)
    });
    let mut replaced = Vec::new();
    for of_task in versions.chunk_by(|one, other| one.key() == other.key()) {
        let pages = of_task.iter().filter(|it| !it.tombstone).count() as u64;
        report.superseded += pages.saturating_sub(1);
        replaced.extend(of_task[1..].iter().filter(|it| !it.tombstone));
        // A tombstone is written as a precaution. It counts only if there was a page to retract.
        let count = if of_task[0].tombstone { &mut report.retracted } else { &mut report.pages };
        *count += if of_task[0].is_beside_result() { 0 } else { pages.min(1) };
    }
    versions.dedup_by_key(|it| it.key());
    versions.retain(|it| !it.tombstone);
    in_order(versions);
    replaced
}

/// Puts versions into the order in which they are written.
fn in_order(versions: &mut [PageVersion]) {
    versions.sort_by_key(|it| (it.task_id, it.lease_id));
}

fn write(sources: &[PartSource], versions: &[PageVersion], mut sink: MergeSink) -> Result<(), MergeError> {
    let mut page = Vec::new();
    for version in versions {
        sources[version.part as usize].read(version, &mut page)?;
        sink.page(&page).map_err(MergeError::NotWritten)?;
    }
    sink.finish().map_err(MergeError::NotWritten)
}

/// The parts without their indexes, which a pattern like `pages.*` matches too.
fn without_indexes(parts: &[PathBuf]) -> Result<Vec<PathBuf>, MergeError> {
    let indexes: BTreeSet<PathBuf> = parts.iter().map(|part| index::index_path(part)).collect();
    let parts: Vec<PathBuf> = parts.iter().filter(|part| !indexes.contains(*part)).cloned().collect();
    if parts.is_empty() {
        return Err(MergeError::Refused("cannot merge: no part is given; name the parts".into()));
    }
    Ok(parts)
}

fn ensure_distinct(parts: &[PathBuf]) -> Result<(), MergeError> {
    let mut seen = BTreeSet::new();
    // A part that does not exist is reported later.
    for (part, real_path) in parts.iter().filter_map(|part| Some((part, fs::canonicalize(part).ok()?))) {
        if !seen.insert(real_path) {
            return Err(MergeError::Refused(format!(
                "cannot merge: part '{}' is named twice; name each part once",
                part.display()
            )));
        }
    }
    Ok(())
}

fn ensure_not_a_part(parts: &[PathBuf], output: &Path) -> Result<(), MergeError> {
    let Ok(real_output) = fs::canonicalize(output) else { return Ok(()) };
    let is_output = |path: &Path| fs::canonicalize(path).is_ok_and(|path| path == real_output);
    if parts.iter().any(|part| is_output(part) || is_output(&index::index_path(part))) {
        return Err(MergeError::Refused(format!(
            "cannot write to output '{}': it is one of the parts or the index of one; name another output",
            output.display()
        )));
    }
    Ok(())
}
