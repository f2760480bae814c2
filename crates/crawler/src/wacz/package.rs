//! The zip file of a WACZ file: entries that are stored without compression, with their digests, and the list of them.

use std::io::{self, Read, Write};
use std::time::SystemTime;

use ring::digest::{Context, SHA256, digest};
use serde_json::{Value, json};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::modules::output::new_file::NewFile;
use crate::modules::timestamp::rfc3339;
use crate::warc::digest::sha256_text;
use crate::warc::index::IndexError;

/// The version of the format.
const WACZ_VERSION: &str = "1.1.1";

/// The bytes that are copied at a time.
const COPY_BYTES: usize = 256 * 1024;

/// Entries that may become as large as this have 64-bit lengths. Zip allows 4 GB without them.
const LARGE_FILE: u64 = 1 << 31;

/// A zip file that is being written.
pub struct Package {
    zip: ZipWriter<NewFile>,
    options: SimpleFileOptions,
    created: SystemTime,
    /// The list of entries.
    resources: Vec<Value>,
    /// The entry that is being written.
    entry: Option<ZipEntry>,
}

struct ZipEntry {
    path: String,
    hash: Context,
    length: u64,
}

impl Package {
    /// A package without entries, created at this time.
    pub fn new(file: NewFile, created: SystemTime) -> Package {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(zip_time(created).unwrap_or_default());
        Package { zip: ZipWriter::new(file), options, created, resources: Vec::new(), entry: None }
    }

    /// Starts an entry of about this many bytes.
    pub fn start(&mut self, path: &str, length: u64) -> io::Result<()> {
        let options = self.options.large_file(length >= LARGE_FILE);
        self.zip.start_file(path, options)?;
        self.entry = Some(ZipEntry { path: path.to_owned(), hash: Context::new(&SHA256), length: 0 });
        Ok(())
    }

    /// Ends the entry.
    pub fn end(&mut self) {
        let Some(ZipEntry { path, hash, length }) = self.entry.take() else { return };
        let name = format!("{}-{}", self.resources.len() + 1, resource_name(&path));
        let hash = sha256_text(hash.finish().as_ref());
        self.resources.push(json!({"name": name, "path": path, "hash": hash, "bytes": length}));
    }

    /// Adds an entry. `unreadable` makes an error of one of the source.
    pub fn copy(
        &mut self,
        path: &str,
        source: &mut dyn Read,
        length: u64,
        unreadable: impl Fn(io::Error) -> IndexError,
    ) -> Result<(), IndexError> {
        self.start(path, length)?;
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => self.write_all(&buffer[..read])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(error)),
            }
        }
        self.end();
        Ok(())
    }

    /// Adds the list of entries, and its digest.
    pub fn finish(mut self, title: &str, main_page: Option<(&str, &str)>) -> io::Result<NewFile> {
        let mut package = json!({
            "profile": "data-package",
            "title": title,
            "resources": self.resources,
            "created": to_the_second(self.created),
            "wacz_version": WACZ_VERSION,
            "software": concat!("crawler ", env!("CARGO_PKG_VERSION")),
        });
        if let Some((url, date)) = main_page {
            package["mainPageUrl"] = url.into();
            package["mainPageDate"] = date.into();
        }
        let package = serde_json::to_string_pretty(&package)?;
        let digest = json!({
            "path": "datapackage.json",
            "hash": sha256_text(digest(&SHA256, package.as_bytes()).as_ref()),
        });
        for (path, text) in [("datapackage.json", package), ("datapackage-digest.json", digest.to_string())] {
            self.zip.start_file(path, self.options)?;
            self.zip.write_all(text.as_bytes())?;
        }
        Ok(self.zip.finish()?)
    }
}

impl Write for Package {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.zip.write(bytes)?;
        if let Some(entry) = &mut self.entry {
            entry.hash.update(&bytes[..written]);
            entry.length += written as u64;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.zip.flush()
    }
}

/// A time in UTC, to the second.
pub fn to_the_second(time: SystemTime) -> String {
    let text = rfc3339(time);
    format!("{}Z", text.get(..19).unwrap_or(&text))
}

/// The name of a resource may have only these characters.
fn resource_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    name.chars()
        .map(|character| match character {
            'a'..='z' | '0'..='9' | '.' | '-' | '_' => character,
            _ => '-',
        })
        .collect()
}

fn zip_time(time: SystemTime) -> Option<DateTime> {
    let text = rfc3339(time);
    let part = |range: std::ops::Range<usize>| text.get(range)?.parse().ok();
    let year = text.get(..4)?.parse().ok()?;
    DateTime::from_date_and_time(year, part(5..7)?, part(8..10)?, part(11..13)?, part(14..16)?, part(17..19)?)
        .ok()
}
