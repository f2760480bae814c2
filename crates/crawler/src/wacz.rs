//! Writes WACZ files, the format of ReplayWeb.page: a zip file of WARC files with their index, a list of their pages and digests of
//! everything.
//!
//! Nothing is kept in memory but a part of the index: the archives are read twice, once for the index and the pages, and once to
//! copy them.

mod package;
mod pages;

use std::collections::BTreeSet;
use std::io::{self, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use flate2::Compression;
use flate2::write::GzEncoder;
use memchr::memchr_iter;
use ring::digest::{SHA256, digest};
use serde_json::json;

use self::package::Package;
use self::pages::PageFinder;
use crate::modules::output::Target;
use crate::modules::output::new_file::{NewFile, ensure_replaceable};
use crate::warc::archives::Archives;
use crate::warc::digest::sha256_text;
use crate::warc::header::RecordHeader;
use crate::warc::index::{ArchiveFileError, IndexError, IndexReport, Indexer, directory_of};
use crate::warc::sorted_lines::{SortedLines, unnamed_file};

/// The lines of the index that are compressed together, as other writers do.
const LINES_PER_BLOCK: usize = 1024;

/// The ends of names that programs recognise as WARC files. They do not read zstd.
const NAMES: [&str; 2] = [".warc", ".warc.gz"];

/// The name of the compressed index in the file.
const INDEX: &str = "index.cdx.gz";

/// What a WACZ file has.
#[derive(Debug, Clone, Copy)]
pub struct WaczReport {
    /// Its index.
    pub index: IndexReport,
    /// The pages in its list.
    pub pages: u64,
}

/// Writes a WACZ file of archives. It appears under its name when it is complete. `on_damage` gets a message about each damaged
/// record, which is copied and not in the index.
pub fn write_wacz(
    archives: &Archives,
    target: &Path,
    overwrite: bool,
    on_damage: &mut dyn FnMut(&str),
) -> Result<WaczReport, ArchiveFileError> {
    check_names(archives)?;
    ensure_replaceable(&Target::File(target.to_owned()), overwrite).map_err(ArchiveFileError::Output)?;
    let file = NewFile::create(target).map_err(ArchiveFileError::Output)?;
    let title = target.file_stem().unwrap_or_default().to_string_lossy();
    let written = write(archives, file, directory_of(target), &title, on_damage);
    let (report, file) = written.map_err(|error| error.of_file(target))?;
    file.finish().map_err(ArchiveFileError::Output)?;
    Ok(report)
}

/// Rejects archives that would have the same name in the file, or one that readers do not recognise.
fn check_names(archives: &Archives) -> Result<(), ArchiveFileError> {
    let mut names = BTreeSet::new();
    for archive in &archives.list {
        let refused = |cause: &str| {
            Err(ArchiveFileError::Archive(format!("cannot put '{}' into a WACZ file: {cause}", archive.name)))
        };
        let Some(name) = archive.file_name() else { return refused("only files have a name; name a file") };
        if !NAMES.iter().any(|end| name.to_ascii_lowercase().ends_with(end)) {
            return refused(
                "readers of WACZ files expect names that end in .warc or .warc.gz; rename it, or write it anew without zstd",
            );
        }
        if !names.insert(name) {
            return refused("another archive has the same name; rename one of them");
        }
    }
    Ok(())
}

fn write(
    archives: &Archives,
    file: NewFile,
    directory: &Path,
    title: &str,
    on_damage: &mut dyn FnMut(&str),
) -> Result<(WaczReport, NewFile), IndexError> {
    let finder = PageFinder::new();
    let kept = |header: &RecordHeader| finder.kept(header);
    let mut lines = SortedLines::new(directory);
    let mut list = BufWriter::new(unnamed_file(directory)?);
    writeln!(list, "{}", json!({"format": "json-pages-1.0", "id": "pages", "title": "Pages"}))?;
    let (mut pages, mut main_page) = (0, None);
    let mut indexer = Indexer { kept: &kept, needs_members: true, on_damage, report: IndexReport::default() };
    let mut left_out = 0;
    for archive in &archives.list {
        indexer.read(archive, |entry, record| {
            if entry.is_not_modified() {
                // Readers would show an empty page. They find the page that has not changed instead.
                left_out += 1;
                return Ok(());
            }
            lines.push(entry.line().into_bytes())?;
            if let Some(page) = finder.page(&entry, record) {
                pages += 1;
                writeln!(list, "{}", page.line(pages))?;
                main_page.get_or_insert(page);
            }
            Ok(())
        })?;
    }
    let IndexReport { entries, .. } = indexer.report;
    let index = IndexReport { entries: entries - left_out, ..indexer.report };
    let report = WaczReport { index, pages };
    let mut package = Package::new(file, SystemTime::now());
    for archive in &archives.list {
        let name = format!("archive/{}", archive.file_name().unwrap_or_default());
        let unreadable = |error: io::Error| {
            IndexError::Archive(format!("cannot read archive '{}': {error}", archive.name))
        };
        let mut bytes = archive.bytes().map_err(unreadable)?;
        package.copy(&name, &mut bytes, archive.length(), unreadable)?;
    }
    write_index(&mut package, lines)?;
    let mut list = list.into_inner().map_err(io::IntoInnerError::into_error)?;
    let length = list.seek(SeekFrom::End(0))?;
    list.seek(SeekFrom::Start(0))?;
    package.copy("pages/pages.jsonl", &mut BufReader::new(list), length, IndexError::Write)?;
    let file =
        package.finish(title, main_page.as_ref().map(|page| (page.url.as_str(), page.date.as_str())))?;
    Ok((report, file))
}

/// Writes the index in blocks that are compressed each, and the index of these: the key of the first line of each, and where it is.
fn write_index(package: &mut Package, lines: SortedLines) -> Result<(), IndexError> {
    let mut summary = format!("!meta 0 {}\n", json!({"format": "cdxj-gzip-1.0", "filename": INDEX}));
    package.start(&format!("indexes/{INDEX}"), 0)?;
    let (mut block, mut count, mut offset) = (Vec::new(), 0, 0);
    let mut write_block = |block: &mut Vec<u8>| -> io::Result<()> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(block)?;
        let compressed = encoder.finish()?;
        // The key and the timestamp.
        let end = memchr_iter(b' ', block).nth(1).map_or(0, |space| space + 1);
        let first = &block[..end];
        let place = json!({
            "offset": offset,
            "length": compressed.len(),
            "digest": sha256_text(digest(&SHA256, &compressed).as_ref()),
        });
        summary += &format!("{}{place}\n", String::from_utf8_lossy(first));
        offset += compressed.len() as u64;
        block.clear();
        package.write_all(&compressed)
    };
    lines.finish(|line| {
        block.extend_from_slice(line);
        count += 1;
        if count % LINES_PER_BLOCK == 0 { write_block(&mut block) } else { Ok(()) }
    })?;
    if !block.is_empty() {
        write_block(&mut block)?;
    }
    package.end();
    let length = summary.len() as u64;
    package.copy("indexes/index.idx", &mut summary.as_bytes(), length, IndexError::Write)
}
