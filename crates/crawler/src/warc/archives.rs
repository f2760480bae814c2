//! Opens archives: WARC files, the WARC files in WACZ files, and standard input.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use flate2::read::DeflateDecoder;
use ring::digest::{Context, SHA256};
use zip::{CompressionMethod, ZipArchive};

use super::input::{ArchiveInput, ArchiveSource, FileSection, Unseekable};
use super::reader::{Damage, WarcReader};
use crate::error::Error;

/// The name of standard input.
pub const STDIN: &str = "-";

/// The first bytes of a zip file.
const ZIP_MAGIC: &[u8] = b"PK\x03\x04";

/// How an ARC file starts, the format before WARC.
const ARC_START: &[u8] = b"filedesc://";

/// The ends of the names of WARC files in a WACZ file.
const WARC_NAMES: [&str; 3] = [".warc", ".warc.gz", ".warc.zst"];

/// How much of each file the [identity](Archives::identity) depends on.
const IDENTITY_BYTES: u64 = 4096;

/// The archives of a replay, in their order.
pub struct Archives {
    /// All of them; the WARC files of a WACZ file one by one.
    pub list: Vec<Archive>,
    /// The bytes of all of them, if none is standard input.
    pub total_bytes: Option<u64>,
    /// Depends on what the files contain, and not on their names.
    pub identity: u128,
}

/// An archive that can be opened.
pub struct Archive {
    /// Its name in messages.
    pub name: String,
    location: Location,
}

enum Location {
    Stdin,
    File { path: PathBuf, start: u64, length: u64, is_deflated: bool },
}

impl Archives {
    /// Finds the archives at these paths. Fails if one cannot be read, or cannot be an archive.
    pub fn find(paths: &[PathBuf]) -> Result<Archives, Error> {
        let mut archives = Archives { list: Vec::new(), total_bytes: Some(0), identity: 0 };
        let mut identity = Context::new(&SHA256);
        for path in paths {
            if path.as_os_str() == STDIN {
                if archives.list.iter().any(|archive| matches!(archive.location, Location::Stdin)) {
                    return Err(Error::InvalidSetting(
                        "standard input ('-') is named twice; name it once".into(),
                    ));
                }
                archives.list.push(Archive { name: "standard input".into(), location: Location::Stdin });
                archives.total_bytes = None;
                continue;
            }
            let unreadable = |error: io::Error| {
                Error::InvalidSetting(format!(
                    "cannot read archive '{}': {error}; name a WARC or WACZ file",
                    path.display()
                ))
            };
            let found = archives_in(path, &mut identity).map_err(unreadable)?;
            if let Some(total) = &mut archives.total_bytes {
                *total += found.iter().map(|archive| archive.length()).sum::<u64>();
            }
            archives.list.extend(found);
        }
        let identity = identity.finish();
        let (first, _) = identity.as_ref().split_first_chunk().expect("a hash of 32 bytes has 16");
        archives.identity = u128::from_le_bytes(*first);
        Ok(archives)
    }
}

impl Archive {
    /// The bytes that it takes in its file; 0 for standard input.
    pub fn length(&self) -> u64 {
        if let Location::File { length, .. } = self.location { length } else { 0 }
    }

    /// The name of the WARC file, without its directory. `None` for standard input.
    pub fn file_name(&self) -> Option<String> {
        let path = Path::new(&self.name).file_name().filter(|_| !matches!(self.location, Location::Stdin))?;
        Some(path.to_string_lossy().into_owned())
    }

    /// What is damaged, for messages.
    pub fn describe(&self, damage: &Damage) -> String {
        format!("{}: damaged record at byte {}: {}", self.name, damage.offset, damage.cause)
    }

    /// Opens the archive. The bytes that are read are added to the counter.
    pub fn open(&self, counter: Arc<AtomicU64>) -> io::Result<WarcReader> {
        let mut reader = WarcReader::new(ArchiveInput::new(self.bytes()?, counter))?;
        let first = reader.first_bytes()?;
        let refused = match () {
            () if first.starts_with(ARC_START) => {
                "it is an ARC file, which is not supported; convert it to WARC, with 'warcio recompress' for example"
            }
            () if first.starts_with(ZIP_MAGIC) => {
                "it is a zip or WACZ file, which can only be read by its name"
            }
            () => return Ok(reader),
        };
        Err(io::Error::new(io::ErrorKind::Unsupported, refused))
    }

    /// The bytes of the WARC file.
    pub fn bytes(&self) -> io::Result<Box<dyn ArchiveSource>> {
        Ok(match &self.location {
            Location::Stdin => Box::new(Unseekable(io::stdin())),
            Location::File { path, start, length, is_deflated } => {
                let section = FileSection::new(File::open(path)?, *start, *length)?;
                match is_deflated {
                    false => Box::new(section),
                    true => Box::new(Unseekable(DeflateDecoder::new(section))),
                }
            }
        })
    }
}

/// Whether a file is a zip file, as WACZ files are.
pub fn is_zip(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(ZIP_MAGIC.len() as u64).read_to_end(&mut start));
    read.is_ok() && start == ZIP_MAGIC
}

/// The archives in a file: itself, or those in a WACZ file.
fn archives_in(path: &Path, identity: &mut Context) -> io::Result<Vec<Archive>> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let name = path.display().to_string();
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "it is not a regular file ('-' is standard input)",
        ));
    }
    let length = metadata.len();
    let mut start = Vec::new();
    file.by_ref().take(IDENTITY_BYTES).read_to_end(&mut start)?;
    identity.update(&length.to_le_bytes());
    identity.update(&start);
    if !start.starts_with(ZIP_MAGIC) {
        let location = Location::File { path: path.to_owned(), start: 0, length, is_deflated: false };
        return Ok(vec![Archive { name, location }]);
    }
    file.seek(SeekFrom::Start(0))?;
    archives_in_zip(path, &name, file)
}

fn archives_in_zip(path: &Path, name: &str, file: File) -> io::Result<Vec<Archive>> {
    let invalid = |cause: String| io::Error::new(io::ErrorKind::InvalidData, cause);
    let damaged = |error: zip::result::ZipError| invalid(format!("its zip directory is damaged: {error}"));
    let mut zip = ZipArchive::new(file).map_err(damaged)?;
    let mut archives = Vec::new();
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index).map_err(damaged)?;
        let entry_name = entry.name().unwrap_or_default();
        if !WARC_NAMES.iter().any(|end| entry_name.to_ascii_lowercase().ends_with(end)) {
            continue;
        }
        let name = format!("{name}/{entry_name}");
        let is_deflated = match entry.compression() {
            _ if entry.encrypted() => return Err(invalid(format!("'{name}' is encrypted"))),
            CompressionMethod::Stored => false,
            CompressionMethod::DEFLATE => true,
            other => {
                return Err(invalid(format!(
                    "'{name}' is compressed with {other}; use stored or deflated entries"
                )));
            }
        };
        let start = entry.data_start().ok_or_else(|| invalid(format!("'{name}' has no data")))?;
        let location =
            Location::File { path: path.to_owned(), start, length: entry.compressed_size(), is_deflated };
        archives.push(Archive { name, location });
    }
    match archives.is_empty() {
        true => Err(invalid("it is a zip file without WARC files".into())),
        false => Ok(archives),
    }
}
