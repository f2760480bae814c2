//! Finds the captures of a URL in archives, through their indexes where there are any, and reads their bodies.
//!
//! An index is a CDXJ file next to a WARC file, or in a WACZ file. An archive without one, or with an older one, is read.

mod indexes;

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use hyper::header::CONTENT_ENCODING;

use self::indexes::IndexedArchives;
use crate::error::Error;
use crate::fetch::http::{decode::Decoder, headers};
use crate::warc::archives::Archive;
use crate::warc::cdxj::{IndexEntry, timestamp};
use crate::warc::header::{RecordHeader, RecordType};
use crate::warc::http_message::{MAX_HEAD_BYTES, ResponseHead};
use crate::warc::reader::{ArchiveItem, WarcRecord};
use crate::warc::surt::surt;

/// The most bytes of a body. Pages are smaller; larger files are cut off.
pub const MAX_BODY_BYTES: usize = 100 << 20;

/// How many captures of a URL are considered. If none of them can be read, the archives are damaged.
const MAX_CAPTURES: usize = 1_000;

/// A capture of a URL.
#[derive(Debug, Clone)]
struct Capture {
    /// The index of its archive.
    archive: usize,
    entry: IndexEntry,
}

/// The content of a capture.
#[derive(Debug)]
pub struct CapturedPage {
    /// Its URL, which may differ from the one that was looked for in case, scheme or `www.`.
    pub url: String,
    /// When it was captured, in 14 digits.
    pub timestamp: String,
    /// The body, decoded.
    pub body: Bytes,
    /// Whether the archive has only the start of it, or it is longer than [`MAX_BODY_BYTES`].
    pub is_incomplete: bool,
}

/// Why there is no content.
#[derive(Debug)]
pub enum NoCapture {
    /// The archives have no capture of the URL.
    NotFound,
    /// None of the captures can be read. A complete sentence without its subject.
    Unreadable(String),
}

/// Finds the newest capture of a URL, or the newest that is not later than a timestamp of up to 14 digits. Captures of a page come
/// before those of errors and redirects. `on_damage` gets a message about each damaged record, if the archives must be read.
pub fn find_page(
    paths: &[PathBuf],
    url: &str,
    not_after: Option<&str>,
    on_damage: &mut dyn FnMut(&str),
) -> Result<Result<CapturedPage, NoCapture>, Error> {
    let archives = IndexedArchives::open(paths)?;
    let latest = not_after.map(|time| format!("{time:9<14}"));
    let is_wanted =
        |entry: &IndexEntry| latest.as_ref().is_none_or(|latest| entry.timestamp.as_str() <= latest.as_str());
    let rank = |entry: &IndexEntry| (entry.url == url, is_page(entry), entry.timestamp.clone());
    let captures = captures_of(&archives, &surt(url), &is_wanted, &rank, on_damage)?;
    let mut failure = NoCapture::NotFound;
    for capture in captures {
        match content(&archives, &capture, on_damage)? {
            Ok(page) => return Ok(Ok(page)),
            Err(cause) if matches!(failure, NoCapture::NotFound) => failure = NoCapture::Unreadable(cause),
            Err(_) => {}
        }
    }
    Ok(Err(failure))
}

/// Whether a capture is one of a page: not of an error or a redirect. A revisit may stand for a page that has not changed.
fn is_page(entry: &IndexEntry) -> bool {
    match entry.status.as_deref() {
        None => true,
        Some(status) => status.starts_with('2') || status == "304" && entry.is_revisit(),
    }
}

/// The captures with this key, the best first.
fn captures_of<R: Ord>(
    archives: &IndexedArchives,
    key: &str,
    is_wanted: &dyn Fn(&IndexEntry) -> bool,
    rank: &dyn Fn(&IndexEntry) -> R,
    on_damage: &mut dyn FnMut(&str),
) -> Result<Vec<Capture>, Error> {
    let mut captures: Vec<Capture> = Vec::new();
    let sort = |captures: &mut Vec<Capture>| {
        captures.sort_by_key(|capture| std::cmp::Reverse(rank(&capture.entry)));
        captures.truncate(MAX_CAPTURES);
    };
    archives.each(
        key,
        &mut |archive, entry| {
            if is_wanted(&entry) {
                captures.push(Capture { archive, entry });
            }
            if captures.len() >= 2 * MAX_CAPTURES {
                sort(&mut captures);
            }
        },
        on_damage,
    )?;
    sort(&mut captures);
    Ok(captures)
}

/// The content of a capture, or that of the earlier one that it refers to. An inner error says why there is none.
fn content(
    archives: &IndexedArchives,
    capture: &Capture,
    on_damage: &mut dyn FnMut(&str),
) -> Result<Result<CapturedPage, String>, Error> {
    let record = match read(&archives.list[capture.archive], &capture.entry) {
        Ok(record) => record,
        Err(cause) => return Ok(Err(cause)),
    };
    if record.header.record_type() != RecordType::Revisit {
        return Ok(body(record, &capture.entry));
    }
    let reference = Reference::new(&record.header, &capture.entry);
    let rank = |entry: &IndexEntry| {
        let is_named = entry.url == reference.url && Some(&entry.timestamp) == reference.timestamp.as_ref();
        (is_named, reference.digest.is_some() && entry.digest == reference.digest, entry.timestamp.clone())
    };
    let is_wanted = |entry: &IndexEntry| {
        let is_same = entry.digest == reference.digest || reference.digest.is_none();
        !entry.is_revisit() && is_page(entry) == is_page(&capture.entry) && is_same
    };
    for original in captures_of(archives, &surt(&reference.url), &is_wanted, &rank, on_damage)? {
        if let Ok(record) = read(&archives.list[original.archive], &original.entry)
            && let Ok(page) = body(record, &capture.entry)
        {
            return Ok(Ok(page));
        }
    }
    let of = reference.timestamp.map_or_else(String::new, |timestamp| format!(" of {timestamp}"));
    Ok(Err(format!(
        "its capture refers to one of {}{of}, which these archives do not have; name all archives of the crawl",
        reference.url
    )))
}

/// The record that a revisit refers to.
struct Reference {
    url: String,
    timestamp: Option<String>,
    digest: Option<String>,
}

impl Reference {
    fn new(header: &RecordHeader, entry: &IndexEntry) -> Reference {
        Reference {
            url: header.refers_to_target_uri().unwrap_or(&entry.url).to_owned(),
            timestamp: header.refers_to_date().map(timestamp),
            digest: header.get("WARC-Payload-Digest").map(str::to_owned),
        }
    }
}

/// Reads the record of a capture. An error says why it cannot be read.
fn read(archive: &Archive, entry: &IndexEntry) -> Result<WarcRecord, String> {
    let unreadable = |error: io::Error| format!("cannot read archive '{}': {error}", archive.name);
    let mut reader = archive.open(Default::default()).map_err(unreadable)?;
    match reader.seek_to(entry.offset) {
        // A deflated WACZ file is read from its start.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        result => result.map_err(unreadable)?,
    }
    let is_it = |header: &RecordHeader| {
        let is_of_time = header.date().map(timestamp).as_deref() == Some(entry.timestamp.as_str());
        let is_capture =
            matches!(header.record_type(), RecordType::Response | RecordType::Resource | RecordType::Revisit);
        is_capture
            && is_of_time
            && header.target_uri().is_some_and(|uri| uri.replace(' ', "%20") == entry.url)
    };
    let wanted = |header: &RecordHeader| if is_it(header) { MAX_BODY_BYTES + MAX_HEAD_BYTES } else { 0 };
    while let Some(item) = reader.next(&wanted).map_err(unreadable)? {
        match item {
            ArchiveItem::Record(record) if is_it(&record.header) => return Ok(record),
            ArchiveItem::Damage(damage) if damage.offset == entry.offset => {
                return Err(archive.describe(&damage));
            }
            // Archives whose records share a member have it after others.
            _ => {}
        }
    }
    Err(format!(
        "the record is no longer at byte {} of '{}'; make its index anew",
        entry.offset, archive.name
    ))
}

/// The body in a record, decoded. An error says why there is none.
fn body(record: WarcRecord, entry: &IndexEntry) -> Result<CapturedPage, String> {
    let is_cut = record.is_cut() || record.header.is_truncated();
    let page = |body: Bytes, is_incomplete| CapturedPage {
        url: entry.url.clone(),
        timestamp: entry.timestamp.clone(),
        body,
        is_incomplete,
    };
    if record.header.record_type() == RecordType::Resource {
        return Ok(page(record.block.into(), is_cut));
    }
    let head = ResponseHead::parse(&record.block)?;
    let stored = head.body_of(record.block);
    let encoding = headers::list(&head.headers, CONTENT_ENCODING);
    let decoder = Decoder::new(encoding.as_deref(), MAX_BODY_BYTES, stored.len());
    let Ok(mut decoder) = decoder else {
        return Ok(page(stored, is_cut));
    };
    let decoded = decoder.feed(stored.clone());
    Ok(match decoded {
        Ok(()) if is_cut => page(decoder.into_partial(), true),
        Ok(()) => match decoder.finish() {
            Ok(body) => page(body, false),
            Err(_) => page(stored, is_cut),
        },
        Err(crate::fetch::http::decode::DecodeError::TooLarge) => page(decoder.into_partial(), true),
        // Some writers store the body decoded, and keep the header that says otherwise.
        Err(_) => page(stored, is_cut),
    })
}
