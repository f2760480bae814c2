//! Reads a part for the merge.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::super::directory::{self, VersionId};
use super::super::index::{self, IndexReader, PartHeader};
use super::super::split;
use super::{MergeError, PageVersion};
use crate::modules::output::finish::RECORDS_SUFFIX;
use crate::modules::output::segments::SegmentRule;
use crate::modules::{BuiltinOutput, registry};

/// How many parts an error message lists at most.
const MAX_LISTED_PARTS: usize = 8;

/// An open part.
pub(super) struct PartSource {
    path: PathBuf,
    /// `None` if the part is still empty: its worker crashed before it wrote the header.
    header: Option<PartHeader>,
    /// The part file; `None` if the part is a directory.
    file: Option<File>,
    incomplete_bytes: u64,
}

impl PartSource {
    /// Opens a part and adds the page versions of its index to `versions`.
    pub(super) fn open(
        path: &Path,
        number: u32,
        versions: &mut Vec<PageVersion>,
    ) -> Result<PartSource, MergeError> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => PartSource::open_directory(path, number, versions),
            Ok(metadata) if metadata.is_file() => PartSource::open_file(path, number, versions),
            Ok(_) => Err(MergeError::Refused(format!(
                "cannot merge '{}': it is neither a file nor a directory; name the parts",
                path.display()
            ))),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(not_a_part(path, "it does not exist")),
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    fn open_file(
        path: &Path,
        number: u32,
        versions: &mut Vec<PageVersion>,
    ) -> Result<PartSource, MergeError> {
        // Read the index before the length of the part: what it names has already been written.
        let mut reader = match IndexReader::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let index = index::index_path(path);
                return Err(not_a_part(path, &format!("it has no index '{}'", index.display())));
            }
            opened => opened.map_err(|error| unreadable(&index::index_path(path), &error))?,
        };
        let header = reader.header().map_err(|cause| damaged(path, &cause))?;
        while header.is_some()
            && let Some(entry) = reader.entry().map_err(|cause| damaged(path, &cause))?
        {
            let index::PartIndexEntry { task_id, lease_id, offset, length } = entry;
            let tombstone = length.is_none();
            versions.push(PageVersion {
                task_id,
                lease_id,
                offset,
                length: length.unwrap_or(0),
                part: number,
                tombstone,
            });
        }
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let length = file.metadata().map_err(|error| unreadable(path, &error))?.len();
        let named = header.as_ref().map_or(0, |_| reader.end());
        match &header {
            None if length > 0 => {
                return Err(damaged(path, &format!("it has {length} bytes that its index does not name")));
            }
            // A part without pages may have a truncated header: its worker crashed while writing it.
            Some(header) if length < named && named > header.header_length => {
                return Err(damaged(path, &format!("it has {length} bytes, but its index names {named}")));
            }
            _ => {}
        }
        let index = fs::metadata(index::index_path(path)).map_or(0, |index| index.len());
        let incomplete_bytes = length.saturating_sub(named) + index.saturating_sub(reader.length());
        Ok(PartSource { path: path.to_owned(), header, file: Some(file), incomplete_bytes })
    }

    fn open_directory(
        path: &Path,
        number: u32,
        versions: &mut Vec<PageVersion>,
    ) -> Result<PartSource, MergeError> {
        let Some(header) = directory::read_header(path).map_err(|cause| damaged(path, &cause))? else {
            return Err(not_a_part(path, "it has no 'crawl.json'"));
        };
        let mut push = |VersionId { task_id, lease_id }, tombstone| {
            versions.push(PageVersion { task_id, lease_id, offset: 0, length: 0, part: number, tombstone });
        };
        let page_files = directory::page_files(path).map_err(|error| unreadable(path, &error))?;
        page_files.into_iter().for_each(|page| push(page, false));
        let mut is_damaged = false;
        let read = directory::for_each_tombstone(path, |line| match line {
            Some(page) => push(page, true),
            None => is_damaged = true,
        });
        read.map_err(|error| unreadable(path, &error))?;
        if is_damaged {
            return Err(damaged(path, "its file 'withdrawn' is damaged"));
        }
        let incomplete_bytes = directory::incomplete_bytes(path);
        Ok(PartSource { path: path.to_owned(), header: Some(header), file: None, incomplete_bytes })
    }

    /// Reads a page into the buffer, replacing its content.
    pub(super) fn read(&self, version: &PageVersion, page: &mut Vec<u8>) -> Result<(), MergeError> {
        let PageVersion { task_id, lease_id, offset, length, .. } = *version;
        match &self.file {
            Some(file) => self.read_at(file, offset, length, page),
            None => {
                let path = self.path.join(VersionId { task_id, lease_id }.file_name());
                page.clear();
                let read = File::open(&path).and_then(|mut file| file.read_to_end(page));
                read.map(drop).map_err(|error| unreadable(&path, &error))
            }
        }
    }

    fn read_at(
        &self,
        mut file: &File,
        from: u64,
        length: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        bytes.clear();
        let read =
            file.seek(SeekFrom::Start(from)).and_then(|_| file.by_ref().take(length).read_to_end(bytes));
        match read {
            Err(error) => Err(unreadable(&self.path, &error)),
            Ok(read) if (read as u64) < length => {
                let cause =
                    format!("it was truncated to less than {} bytes while it was read", from + length);
                Err(damaged(&self.path, &cause))
            }
            Ok(_) => Ok(()),
        }
    }

    /// Whether the part has a row per URL.
    pub(super) fn is_of_urls(&self) -> bool {
        let output = |header: &PartHeader| registry::output_of_format(&header.output, &self.path);
        let has_all = |output: &dyn BuiltinOutput| output.wants_urls() || output.wants_exchanges();
        self.header.as_ref().and_then(output).is_some_and(|spec| has_all(&*spec.output))
    }

    /// How the output is split into files, if it is.
    pub(super) fn segments(&self) -> Option<&SegmentRule> {
        self.header.as_ref()?.segments.as_ref()
    }

    /// How many bytes of incomplete pages the part has.
    pub(super) fn incomplete_bytes(&self) -> u64 {
        self.incomplete_bytes
    }
}

/// Whether the parts are directories.
pub(super) fn are_directories(sources: &[PartSource]) -> bool {
    sources.iter().any(|source| source.file.is_none())
}

/// The header of the output, which all parts start with.
pub(super) fn output_header(sources: &[PartSource]) -> Result<Vec<u8>, MergeError> {
    let mut headers: Vec<(&PartSource, Vec<u8>)> = Vec::new();
    for source in sources {
        let (Some(file), Some(header)) = (&source.file, &source.header) else { continue };
        let mut bytes = Vec::new();
        // A part with a truncated header has no pages.
        if file.metadata().is_ok_and(|metadata| metadata.len() >= header.header_length) {
            source.read_at(file, 0, header.header_length, &mut bytes)?;
            headers.push((source, bytes));
        }
    }
    if let Some(pair) = headers.windows(2).find(|pair| pair[0].1 != pair[1].1) {
        let (one, other) = (pair[0].0.path.display(), pair[1].0.path.display());
        return Err(MergeError::Refused(format!(
            "cannot merge: parts '{one}' and '{other}' have different headers; name parts of one output"
        )));
    }
    Ok(headers.pop().map_or_else(|| directory_header(sources), |(_, header)| header))
}

/// The header of an output that is a directory, which its parts do not contain.
fn directory_header(sources: &[PartSource]) -> Vec<u8> {
    let format = sources.iter().find_map(|source| Some(&source.header.as_ref()?.output));
    let spec = format.and_then(|format| registry::output_of_format(format, Path::new("")));
    spec.filter(|_| are_directories(sources)).map(|spec| spec.output.extension().into()).unwrap_or_default()
}

/// Rejects parts of different crawls or outputs.
pub(super) fn ensure_same_output(sources: &[PartSource]) -> Result<(), MergeError> {
    let header = |source: &PartSource| Some((source.path.clone(), source.header.clone()?));
    let headers: Vec<(PathBuf, PartHeader)> = sources.iter().filter_map(header).collect();
    for pair in headers.windows(2) {
        let [(one, its), (other, others)] = pair else { continue };
        let (its, others) = if !its.is_same_crawl(others) {
            (its.describe_crawl(), others.describe_crawl())
        } else if (&its.output, its.header_length) != (&others.output, others.header_length) {
            (format!("module '{}'", its.output), format!("module '{}'", others.output))
        } else {
            continue;
        };
        let (one, other) = (one.display(), other.display());
        return Err(MergeError::Refused(format!(
            "cannot merge: part '{one}' belongs to {its} and part '{other}' to {others}; merge them separately"
        )));
    }
    let is_directory = |source: &&PartSource| source.file.is_none();
    let (directory, file) = (sources.iter().find(is_directory), sources.iter().find(|it| !is_directory(it)));
    if let (Some(directory), Some(file)) = (directory, file) {
        let (directory, file) = (directory.path.display(), file.path.display());
        return Err(MergeError::Refused(format!(
            "cannot merge: part '{directory}' is a directory and part '{file}' is a file; merge them separately"
        )));
    }
    Ok(())
}

/// The error for a path that is not a part. It lists the parts of an output of that name.
fn not_a_part(path: &Path, cause: &str) -> MergeError {
    let parts = parts_of(path);
    let listed: Vec<String> =
        parts.iter().take(MAX_LISTED_PARTS).map(|part| part.display().to_string()).collect();
    let remedy = match parts.len() {
        0 => "name parts that workers have written, with their indexes next to them".into(),
        count if count > MAX_LISTED_PARTS => {
            format!("its parts are {} and {} more", listed.join(", "), count - MAX_LISTED_PARTS)
        }
        _ => format!("its parts are {}", listed.join(", ")),
    };
    MergeError::Refused(format!("cannot merge '{}': {cause}; {remedy}", path.display()))
}

/// The parts of an output, in the order of the workers: the files in its directory that are named like its parts and
/// have an index.
pub fn parts_of(output: &Path) -> Vec<PathBuf> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(parent.unwrap_or(Path::new("."))) else { return Vec::new() };
    let Some(file_name) = output.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let (stem, extension) = split(output);
    let mut parts = Vec::new();
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let path = output.with_file_name(&name);
        let suffix = extension.as_ref().map_or_else(String::new, |it| format!(".{}", it.to_string_lossy()));
        let of_file = |name: &str| worker_in(name, &stem.to_string_lossy(), &suffix);
        let of_directory = |name: &str| worker_in(name, file_name, "");
        let of_records = |name: &str| of_file(name).or_else(|| of_directory(name));
        let is_file = || index::index_path(&path).is_file() && path.is_file();
        let worker = match name.strip_suffix(RECORDS_SUFFIX).and_then(of_records) {
            Some(worker) => Some(worker).filter(|_| is_file()),
            None => of_file(&name)
                .filter(|_| is_file())
                .or_else(|| of_directory(&name).filter(|_| directory::is_part(&path))),
        };
        parts.extend(worker.map(|worker| (worker, path)));
    }
    parts.sort();
    parts.into_iter().map(|(_, path)| path).collect()
}

/// The worker's number in the name of a part.
fn worker_in(name: &str, stem: &str, suffix: &str) -> Option<u16> {
    name.strip_prefix(stem)?.strip_suffix(suffix)?.strip_prefix('.')?.parse().ok()
}

fn damaged(path: &Path, cause: &str) -> MergeError {
    MergeError::Unreadable(format!(
        "cannot merge part '{}': {cause}; restore the part and its index, or leave the part out",
        path.display()
    ))
}

fn unreadable(path: &Path, error: &std::io::Error) -> MergeError {
    MergeError::Unreadable(format!(
        "cannot read '{}': {error}; make the file readable, or leave the part out",
        path.display()
    ))
}
