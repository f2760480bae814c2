//! Makes one output of its parts: each page once, in the order of tickets, as one process would have written it.
//!
//! Parts may be larger than memory, and there may be more of them than one machine had: only their indexes are held.
//! A part that a worker is still writing to is taken as far as its index names pages.

mod sink;
mod source;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use self::source::parts_of;

use self::sink::Sink;
use self::source::Source;
use super::index;

/// Where the collected output goes.
pub enum Destination<'w> {
    /// To a file, or to a directory if the parts are directories.
    Path(&'w Path),
    /// To a stream; only for parts that are files.
    Stream(&'w mut dyn Write),
}

/// What was collected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// How many pages.
    pub pages: u64,
    /// From how many parts.
    pub parts: usize,
    /// How many deliveries of a page were left out because a later one counts.
    pub repeated: u64,
    /// How many pages were left out because they had been withdrawn.
    pub withdrawn: u64,
    /// How many bytes were left out that no index names.
    pub torn: u64,
}

/// Why nothing could be collected.
#[derive(Debug)]
pub enum MergeError {
    /// What was asked for cannot be done; nothing was written.
    Refused(String),
    /// A part is damaged, or cannot be read.
    Unreadable(String),
    /// The output could not be written.
    NotWritten(io::Error),
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeError::Refused(why) | MergeError::Unreadable(why) => f.write_str(why),
            MergeError::NotWritten(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MergeError {}

/// A page, or the withdrawal of one, as it was written on one loan.
#[derive(Debug, Clone, Copy)]
struct Delivery {
    task_id: u64,
    lease_id: u64,
    offset: u64,
    length: u64,
    part: u32,
    withdrawn: bool,
}

/// Collects the parts of one output of one crawl. What is there is replaced only if `overwrite` says so.
pub fn collect(parts: &[PathBuf], to: Destination, overwrite: bool) -> Result<MergeReport, MergeError> {
    let parts = without_indexes(parts)?;
    refuse_repeated(&parts)?;
    if let Destination::Path(output) = to {
        refuse_a_part(&parts, output)?;
    }
    let mut deliveries = Vec::new();
    let mut sources = Vec::with_capacity(parts.len());
    for (number, path) in (0..).zip(&parts) {
        sources.push(Source::open(path, number, &mut deliveries)?);
    }
    source::refuse_mixed(&sources)?;
    let mut collected = MergeReport {
        parts: sources.len(),
        torn: sources.iter().map(Source::torn).sum(),
        ..MergeReport::default()
    };
    keep_what_counts(&mut deliveries, &mut collected);
    let head = source::head(&sources)?;
    let mut sink = Sink::open(to, source::are_directories(&sources), overwrite)?;
    sink.head(&head).map_err(MergeError::NotWritten)?;
    write(&sources, &deliveries, sink)?;
    Ok(collected)
}

/// Leaves one delivery of each page, in the order of tickets, and counts the others.
fn keep_what_counts(deliveries: &mut Vec<Delivery>, collected: &mut MergeReport) {
    // The largest loan of each ticket comes first.
    deliveries.sort_unstable_by_key(|it| (it.task_id, std::cmp::Reverse(it.lease_id), it.part, it.offset));
    for of_ticket in deliveries.chunk_by(|one, other| one.task_id == other.task_id) {
        let pages = of_ticket.iter().filter(|it| !it.withdrawn).count() as u64;
        collected.repeated += pages.saturating_sub(1);
        // What never had a page is withdrawn for safety's sake, and no loss.
        let counted = if of_ticket[0].withdrawn { &mut collected.withdrawn } else { &mut collected.pages };
        *counted += pages.min(1);
    }
    deliveries.dedup_by_key(|it| it.task_id);
    deliveries.retain(|it| !it.withdrawn);
}

fn write(sources: &[Source], deliveries: &[Delivery], mut sink: Sink) -> Result<(), MergeError> {
    let mut page = Vec::new();
    for delivery in deliveries {
        sources[delivery.part as usize].read(delivery, &mut page)?;
        sink.page(&page).map_err(MergeError::NotWritten)?;
    }
    sink.finish().map_err(MergeError::NotWritten)
}

/// The parts without the indexes that stand beside them, as `pages.*` names them too.
fn without_indexes(parts: &[PathBuf]) -> Result<Vec<PathBuf>, MergeError> {
    let indexes: BTreeSet<PathBuf> = parts.iter().map(|part| index::path_of(part)).collect();
    let parts: Vec<PathBuf> = parts.iter().filter(|part| !indexes.contains(*part)).cloned().collect();
    if parts.is_empty() {
        return Err(MergeError::Refused("there is nothing to collect; name the parts".into()));
    }
    Ok(parts)
}

fn refuse_repeated(parts: &[PathBuf]) -> Result<(), MergeError> {
    let mut met = BTreeSet::new();
    // Of one that is not there it is told later what is wrong.
    for (part, real) in parts.iter().filter_map(|part| Some((part, fs::canonicalize(part).ok()?))) {
        if !met.insert(real) {
            return Err(MergeError::Refused(format!(
                "part '{}' is named twice; name each part once",
                part.display()
            )));
        }
    }
    Ok(())
}

fn refuse_a_part(parts: &[PathBuf], output: &Path) -> Result<(), MergeError> {
    let Ok(output_itself) = fs::canonicalize(output) else { return Ok(()) };
    let is_output = |path: &Path| fs::canonicalize(path).is_ok_and(|path| path == output_itself);
    if parts.iter().any(|part| is_output(part) || is_output(&index::path_of(part))) {
        return Err(MergeError::Refused(format!(
            "output '{}' is one of the parts or its index; name another output",
            output.display()
        )));
    }
    Ok(())
}
