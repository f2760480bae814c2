//! Archives with their indexes: which of them has a URL, and where.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use flate2::read::{DeflateDecoder, MultiGzDecoder};
use memchr::memmem;
use zip::{CompressionMethod, ZipArchive};

use crate::error::Error;
use crate::modules::warc::made_files::{INDEX_SUFFIX, index_path};
use crate::warc::archives::{Archive, Archives, is_zip};
use crate::warc::cdxj::IndexEntry;
use crate::warc::index::{IndexError, IndexReport, Indexer};
use crate::warc::input::FileSection;

/// The longest line of an index. The fields of a record's header are shorter.
const MAX_LINE: u64 = 1 << 20;

/// Archives and what is known of where their records are.
pub struct IndexedArchives {
    archives: Archives,
    /// The indexes, each with the archives that it may cover.
    indexes: Vec<(IndexFile, Vec<usize>)>,
}

enum IndexFile {
    /// A file.
    Plain(PathBuf),
    /// An entry of a WACZ file.
    Entry { path: PathBuf, start: u64, length: u64, is_deflated: bool, is_gzip: bool },
}

impl Deref for IndexedArchives {
    type Target = Archives;

    fn deref(&self) -> &Archives {
        &self.archives
    }
}

impl IndexedArchives {
    /// Finds archives and their indexes.
    pub fn open(paths: &[PathBuf]) -> Result<IndexedArchives, Error> {
        let mut all = IndexedArchives { archives: Archives::find(&[])?, indexes: Vec::new() };
        for path in paths {
            let found = Archives::find(std::slice::from_ref(path))?;
            let first = all.archives.list.len();
            let covered: Vec<usize> = (first..first + found.list.len()).collect();
            all.archives.list.extend(found.list);
            // An index that cannot be used is none: the archive is read instead.
            let indexes =
                if is_zip(path) { indexes_in_zip(path).unwrap_or_default() } else { indexes_next_to(path) };
            all.indexes.extend(indexes.into_iter().map(|index| (index, covered.clone())));
        }
        Ok(all)
    }

    /// Calls the function with each record whose URL has this key, and the index of its archive. Archives that no index covers are
    /// read.
    pub fn each(
        &self,
        key: &str,
        found: &mut dyn FnMut(usize, IndexEntry),
        on_damage: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let mut is_covered = vec![false; self.archives.list.len()];
        for (index, archives) in &self.indexes {
            let names: Vec<(usize, String)> = archives
                .iter()
                .filter(|archive| !is_covered[**archive])
                .filter_map(|archive| Some((*archive, self.archives.list[*archive].file_name()?)))
                .collect();
            // Entries of an index that turns out to be damaged are not used.
            let mut entries = Vec::new();
            let mut covers = vec![false; is_covered.len()];
            if read_index(index, key, &names, &mut covers, &mut entries).is_ok() {
                entries.into_iter().for_each(|(archive, entry)| found(archive, entry));
                is_covered.iter_mut().zip(covers).for_each(|(is_covered, covers)| *is_covered |= covers);
            }
        }
        let uncovered = self.archives.list.iter().enumerate().filter(|(archive, _)| !is_covered[*archive]);
        for (number, archive) in uncovered {
            scan(archive, key, &mut |entry| found(number, entry), on_damage)?;
        }
        Ok(())
    }
}

/// Reads all records of an archive.
fn scan(
    archive: &Archive,
    key: &str,
    found: &mut dyn FnMut(IndexEntry),
    on_damage: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let mut indexer =
        Indexer { kept: &|_| 0, on_damage, report: IndexReport::default(), needs_members: false };
    let read = indexer.read(archive, |entry, _| {
        if entry.key == key {
            found(entry);
        }
        Ok(())
    });
    read.map_err(|error| match error {
        IndexError::Archive(message) => Error::InvalidSetting(message),
        IndexError::Write(error) => Error::InvalidSetting(error.to_string()),
    })
}

/// Finds the entries with a key, and which archives the index has.
fn read_index(
    index: &IndexFile,
    key: &str,
    names: &[(usize, String)],
    covers: &mut [bool],
    entries: &mut Vec<(usize, IndexEntry)>,
) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(256 * 1024, index.open()?);
    let start = format!("{key} ");
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let named = |(archive, name): &&(usize, String)| {
            !covers[*archive] && memmem::find(&line, name.as_bytes()).is_some()
        };
        if let Some((archive, _)) = names.iter().find(named) {
            covers[*archive] = true;
        }
        if line.starts_with(start.as_bytes())
            && let Some(entry) = IndexEntry::parse(&String::from_utf8_lossy(&line))
        {
            let filename = Path::new(&entry.filename).file_name().and_then(OsStr::to_str);
            let archive = names.iter().find(|(_, name)| Some(name.as_str()) == filename);
            entries.extend(archive.map(|(archive, _)| (*archive, entry)));
        }
    }
}

impl IndexFile {
    fn open(&self) -> io::Result<Box<dyn Read>> {
        match self {
            IndexFile::Plain(path) => Ok(Box::new(File::open(path)?)),
            IndexFile::Entry { path, start, length, is_deflated, is_gzip } => {
                let section = FileSection::new(File::open(path)?, *start, *length)?;
                let entry: Box<dyn Read> = match is_deflated {
                    true => Box::new(DeflateDecoder::new(section)),
                    false => Box::new(section),
                };
                Ok(if *is_gzip { Box::new(MultiGzDecoder::new(entry)) } else { entry })
            }
        }
    }
}

/// Indexes next to a WARC file that are not older than it: `site.cdxj` of `site.warc.gz`, and of `site-00001.warc.gz`.
fn indexes_next_to(archive: &Path) -> Vec<IndexFile> {
    let modified = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let own = index_path(archive);
    let stem = own.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let is_number = |number: &str| number.len() >= 5 && number.bytes().all(|digit| digit.is_ascii_digit());
    let series = stem.rsplit_once('-').filter(|(_, number)| is_number(number));
    let mut paths = vec![own, archive.with_file_name(format!("{name}{INDEX_SUFFIX}"))];
    paths.extend(series.map(|(series, _)| archive.with_file_name(format!("{series}{INDEX_SUFFIX}"))));
    let is_new = |path: &PathBuf| modified(path).is_some_and(|time| Some(time) >= modified(archive));
    paths.into_iter().filter(is_new).map(IndexFile::Plain).collect()
}

/// The indexes of a WACZ file.
fn indexes_in_zip(path: &Path) -> io::Result<Vec<IndexFile>> {
    let mut zip = ZipArchive::new(BufReader::new(File::open(path)?))?;
    let mut indexes = Vec::new();
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index)?;
        let name = entry.name().unwrap_or_default().to_ascii_lowercase();
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        let is_index =
            name.starts_with("indexes/") && [".cdx", ".cdxj"].iter().any(|end| plain.ends_with(end));
        let is_deflated = match entry.compression() {
            CompressionMethod::Stored => false,
            CompressionMethod::DEFLATE => true,
            _ => continue,
        };
        if let Some(start) = entry.data_start().filter(|_| is_index && !entry.encrypted()) {
            let (length, is_gzip) = (entry.compressed_size(), plain.len() < name.len());
            indexes.push(IndexFile::Entry { path: path.to_owned(), start, length, is_deflated, is_gzip });
        }
    }
    Ok(indexes)
}
