//! Finds the captures of a URL in archives, through their indexes where there are any, and reads their bodies.
//!
//! An index is a CDXJ file next to a WARC file, or in a WACZ file. An archive without one, or with an older one, is read.

mod indexes;

use std::io;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

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

/// How many revisits are followed from one to the next. Those of this crawler refer to a capture with a body, or to a duplicate of one.
const MAX_REFERENCES: usize = 16;

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
        let record = match read(&archives.list[capture.archive], &capture.entry, None) {
            // An older capture would be another version of the page.
            Ok(record) if record.header.record_type() == RecordType::Revisit => {
                let content = referred(&archives, &record.header, &capture.entry, on_damage)?;
                return Ok(content.map_err(NoCapture::Unreadable));
            }
            record => record,
        };
        match record.and_then(|record| body(record, &capture.entry)) {
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

/// The captures with this key, the best first. Of equal ones, the last one in the archives was captured last.
fn captures_of<R: Ord>(
    archives: &IndexedArchives,
    key: &str,
    is_wanted: &dyn Fn(&IndexEntry) -> bool,
    rank: &dyn Fn(&IndexEntry) -> R,
    on_damage: &mut dyn FnMut(&str),
) -> Result<Vec<Capture>, Error> {
    let mut captures: Vec<Capture> = Vec::new();
    let sort = |captures: &mut Vec<Capture>| {
        captures.sort_by_key(|it| std::cmp::Reverse((rank(&it.entry), it.archive, it.entry.offset)));
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

/// The content of the capture that a revisit refers to, which may be a revisit itself. An inner error says why there is none.
fn referred(
    archives: &IndexedArchives,
    revisit: &RecordHeader,
    shown: &IndexEntry,
    on_damage: &mut dyn FnMut(&str),
) -> Result<Result<CapturedPage, String>, Error> {
    let mut reference = RevisitReference::new(revisit, shown);
    for _ in 0..MAX_REFERENCES {
        let Some((record, entry)) = original(archives, &reference, shown, on_damage)? else { break };
        if record.header.record_type() != RecordType::Revisit {
            return Ok(body(record, shown));
        }
        reference = RevisitReference::new(&record.header, &entry);
    }
    let of = reference.date.map_or_else(String::new, |date| format!(" of {}", timestamp(date)));
    Ok(Err(format!(
        "its capture refers to one of {}{of}, which these archives do not have; name all archives of the crawl",
        reference.url
    )))
}

/// The record that a revisit refers to by URL and time, or another one with the same payload.
fn original(
    archives: &IndexedArchives,
    reference: &RevisitReference,
    shown: &IndexEntry,
    on_damage: &mut dyn FnMut(&str),
) -> Result<Option<(WarcRecord, IndexEntry)>, Error> {
    let time = reference.date.map(timestamp);
    let may_be_named =
        |entry: &IndexEntry| entry.url == reference.url && Some(&entry.timestamp) == time.as_ref();
    let has_payload = |entry: &IndexEntry| {
        let is_same = reference.digest.is_some() && entry.digest == reference.digest;
        is_same && !entry.is_revisit() && is_page(entry) == is_page(shown)
    };
    let rank = |entry: &IndexEntry| (may_be_named(entry), has_payload(entry), entry.timestamp.clone());
    let is_wanted = |entry: &IndexEntry| may_be_named(entry) || has_payload(entry);
    for Capture { archive, entry } in
        captures_of(archives, &surt(&reference.url), &is_wanted, &rank, on_damage)?
    {
        let archive = &archives.list[archive];
        let named = reference.date.filter(|_| may_be_named(&entry));
        // An index has no fractions of seconds, so it may have several captures of that time.
        if let Some(date) = named
            && let Ok(record) = read(archive, &entry, Some(date))
        {
            return Ok(Some((record, entry)));
        }
        if has_payload(&entry)
            && let Ok(record) = read(archive, &entry, None)
        {
            return Ok(Some((record, entry)));
        }
    }
    Ok(None)
}

/// The record that a revisit refers to.
struct RevisitReference {
    url: String,
    date: Option<SystemTime>,
    digest: Option<String>,
}

impl RevisitReference {
    fn new(header: &RecordHeader, entry: &IndexEntry) -> RevisitReference {
        RevisitReference {
            url: header.refers_to_target_uri().unwrap_or(&entry.url).to_owned(),
            date: header.refers_to_date(),
            digest: header.get("WARC-Payload-Digest").map(str::to_owned),
        }
    }
}

/// Whether two dates are of the same capture. Some writers leave out the fraction in one of them.
fn is_same_time(one: SystemTime, other: SystemTime) -> bool {
    let [one_fraction, other_fraction] =
        [one, other].map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos());
    one == other || (one_fraction == 0 || other_fraction == 0) && timestamp(one) == timestamp(other)
}

/// Reads the record of a capture, at this time if it is given. An error says why it cannot be read.
fn read(archive: &Archive, entry: &IndexEntry, date: Option<SystemTime>) -> Result<WarcRecord, String> {
    let unreadable = |error: io::Error| format!("cannot read archive '{}': {error}", archive.name);
    let mut reader = archive.open(Default::default()).map_err(unreadable)?;
    match reader.seek_to(entry.offset) {
        // A deflated WACZ file is read from its start.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        result => result.map_err(unreadable)?,
    }
    let is_it = |header: &RecordHeader| {
        let is_of_time = header.date().is_some_and(|found| {
            timestamp(found) == entry.timestamp && date.is_none_or(|date| is_same_time(found, date))
        });
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
