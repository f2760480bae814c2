//! A part that is read.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::super::directory::{self, Name};
use super::super::index::{self, IndexReader, PartHeader};
use super::super::split;
use super::{Delivery, MergeError};

/// So many of the parts there are is a user reminded of.
const PARTS_NAMED: usize = 8;

/// One part, opened.
pub(super) struct Source {
    path: PathBuf,
    /// Nothing where the part has nothing in it yet: its worker died before it could say whose it is.
    header: Option<PartHeader>,
    /// The file, unless it is a directory.
    file: Option<File>,
    torn: u64,
}

impl Source {
    /// Opens a part and adds what its index names.
    pub(super) fn open(path: &Path, number: u32, to: &mut Vec<Delivery>) -> Result<Source, MergeError> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Source::open_directory(path, number, to),
            Ok(found) if found.is_file() => Source::open_file(path, number, to),
            Ok(_) => Err(MergeError::Refused(format!(
                "'{}' is neither a file nor a directory; name the parts",
                path.display()
            ))),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(no_part(path, "it is not there")),
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    fn open_file(path: &Path, number: u32, to: &mut Vec<Delivery>) -> Result<Source, MergeError> {
        // The index is read first: what it names has been written before.
        let mut reader = match IndexReader::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let index = index::path_of(path);
                return Err(no_part(path, &format!("it has no index '{}' beside it", index.display())));
            }
            opened => opened.map_err(|error| unreadable(&index::path_of(path), &error))?,
        };
        let header = reader.header().map_err(damaged)?;
        while header.is_some()
            && let Some(line) = reader.page().map_err(damaged)?
        {
            let index::IndexEntry { task_id, lease_id, offset, length } = line;
            let withdrawn = length.is_none();
            to.push(Delivery {
                task_id,
                lease_id,
                offset,
                length: length.unwrap_or(0),
                part: number,
                withdrawn,
            });
        }
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let length = file.metadata().map_err(|error| unreadable(path, &error))?.len();
        let named = header.as_ref().map_or(0, |_| reader.end());
        match &header {
            None if length > 0 => {
                return Err(damaged(format!(
                    "the index of '{}' says nothing of the {length} bytes in it",
                    path.display()
                )));
            }
            // As far as the head, its worker may have died while writing it.
            Some(header) if length < named && named > header.head => {
                return Err(damaged(format!(
                    "part '{}' has {length} bytes where its index names {named}",
                    path.display()
                )));
            }
            _ => {}
        }
        let index = fs::metadata(index::path_of(path)).map_or(0, |index| index.len());
        let torn = length.saturating_sub(named) + index.saturating_sub(reader.length());
        Ok(Source { path: path.to_owned(), header, file: Some(file), torn })
    }

    fn open_directory(path: &Path, number: u32, to: &mut Vec<Delivery>) -> Result<Source, MergeError> {
        let Some(header) = directory::identity(path).map_err(damaged)? else {
            return Err(no_part(path, "it has no 'crawl.json' that says of which crawl it is"));
        };
        let mut push = |Name { task_id, lease_id }, withdrawn| {
            to.push(Delivery { task_id, lease_id, offset: 0, length: 0, part: number, withdrawn });
        };
        let names = directory::names(path).map_err(|error| unreadable(path, &error))?;
        names.into_iter().for_each(|name| push(name, false));
        let mut is_whole = true;
        let read = directory::withdrawn(path, |line| match line {
            Some(name) => push(name, true),
            None => is_whole = false,
        });
        read.map_err(|error| unreadable(path, &error))?;
        if !is_whole {
            return Err(damaged(format!("the file 'withdrawn' of part '{}' is damaged", path.display())));
        }
        let torn = directory::torn(path);
        Ok(Source { path: path.to_owned(), header: Some(header), file: None, torn })
    }

    /// Reads a page, in place of what is in the buffer.
    pub(super) fn read(&self, delivery: &Delivery, page: &mut Vec<u8>) -> Result<(), MergeError> {
        let Delivery { task_id, lease_id, offset, length, .. } = *delivery;
        match &self.file {
            Some(file) => self.read_at(file, offset, length, page),
            None => {
                let path = self.path.join(Name { task_id, lease_id }.text());
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
            Ok(read) if (read as u64) < length => Err(damaged(format!(
                "part '{}' became shorter while it was read: it ends before {} bytes",
                self.path.display(),
                from + length
            ))),
            Ok(_) => Ok(()),
        }
    }

    /// How many bytes the part has that nothing names.
    pub(super) fn torn(&self) -> u64 {
        self.torn
    }
}

/// Whether the parts make a directory.
pub(super) fn are_directories(sources: &[Source]) -> bool {
    sources.iter().any(|source| source.file.is_none())
}

/// What the output begins with.
pub(super) fn head(sources: &[Source]) -> Result<Vec<u8>, MergeError> {
    let mut heads: Vec<(&Source, Vec<u8>)> = Vec::new();
    for source in sources {
        let (Some(file), Some(header)) = (&source.file, &source.header) else { continue };
        let mut head = Vec::new();
        // A part without its whole head has no page either.
        if file.metadata().is_ok_and(|found| found.len() >= header.head) {
            source.read_at(file, 0, header.head, &mut head)?;
            heads.push((source, head));
        }
    }
    if let Some(pair) = heads.windows(2).find(|pair| pair[0].1 != pair[1].1) {
        let (one, other) = (pair[0].0.path.display(), pair[1].0.path.display());
        return Err(MergeError::Refused(format!(
            "parts '{one}' and '{other}' do not begin alike; name parts of one output"
        )));
    }
    Ok(heads.pop().map(|(_, head)| head).unwrap_or_default())
}

/// Refuses parts that do not belong together.
pub(super) fn refuse_mixed(sources: &[Source]) -> Result<(), MergeError> {
    let known = |source: &Source| Some((source.path.clone(), source.header.clone()?));
    let known: Vec<(PathBuf, PartHeader)> = sources.iter().filter_map(known).collect();
    for pair in known.windows(2) {
        let [(one, its), (other, others)] = pair else { continue };
        let (its, others) = if !its.is_of_crawl_of(others) {
            (its.crawl_in_words(), others.crawl_in_words())
        } else if (&its.output, its.head) != (&others.output, others.head) {
            (format!("module '{}'", its.output), format!("module '{}'", others.output))
        } else {
            continue;
        };
        let (one, other) = (one.display(), other.display());
        return Err(MergeError::Refused(format!(
            "part '{one}' is of {its} and part '{other}' of {others}; collect them one by one"
        )));
    }
    let is_directory = |source: &&Source| source.file.is_none();
    let (directory, file) = (sources.iter().find(is_directory), sources.iter().find(|it| !is_directory(it)));
    if let (Some(directory), Some(file)) = (directory, file) {
        let (directory, file) = (directory.path.display(), file.path.display());
        return Err(MergeError::Refused(format!(
            "part '{directory}' is a directory and part '{file}' is a file; collect them one by one"
        )));
    }
    Ok(())
}

/// Says that something is no part, and which parts there are in its place.
fn no_part(path: &Path, why: &str) -> MergeError {
    let parts = parts_of(path);
    let named: Vec<String> = parts.iter().take(PARTS_NAMED).map(|part| part.display().to_string()).collect();
    let remedy = match parts.len() {
        0 => "name parts that workers have written, each with its index beside it".into(),
        count if count > PARTS_NAMED => {
            format!("its parts are {} and {} more", named.join(", "), count - PARTS_NAMED)
        }
        _ => format!("its parts are {}", named.join(", ")),
    };
    MergeError::Refused(format!("'{}' is no part: {why}; {remedy}", path.display()))
}

/// The parts that workers have written of an output, in the order of the workers: what stands beside it, with an index,
/// and is named as its parts are.
pub fn parts_of(output: &Path) -> Vec<PathBuf> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(parent.unwrap_or(Path::new("."))) else { return Vec::new() };
    let Some(whole) = output.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let (stem, extension) = split(output);
    let mut parts = Vec::new();
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let path = output.with_file_name(&name);
        let suffix = extension.as_ref().map_or_else(String::new, |it| format!(".{}", it.to_string_lossy()));
        let of_file = worker_in(&name, &stem.to_string_lossy(), &suffix)
            .filter(|_| index::path_of(&path).is_file() && path.is_file());
        let of_directory = worker_in(&name, whole, "").filter(|_| directory::is_part(&path));
        parts.extend(of_file.or(of_directory).map(|worker| (worker, path)));
    }
    parts.sort();
    parts.into_iter().map(|(_, path)| path).collect()
}

/// The number of the worker in a part's name.
fn worker_in(name: &str, stem: &str, suffix: &str) -> Option<u16> {
    name.strip_prefix(stem)?.strip_suffix(suffix)?.strip_prefix('.')?.parse().ok()
}

fn damaged(what: String) -> MergeError {
    MergeError::Unreadable(format!("{what}; bring the part and its index again, or leave the part out"))
}

fn unreadable(path: &Path, error: &std::io::Error) -> MergeError {
    MergeError::Unreadable(format!("cannot read '{}': {error}; see to the file", path.display()))
}
