//! Finds the replaced versions of an archive that other versions refer to.
//!
//! A worker refers only to bodies of URLs whose completion was stored. If Redis loses its last writes, such a URL is fetched again, and
//! the version with the body is replaced.

use std::collections::HashMap;
use std::io::Cursor;
use std::time::SystemTime;

use super::source::PartSource;
use super::{MergeError, PageVersion, in_order};
use crate::warc::header::RecordType;
use crate::warc::input::{ArchiveInput, Unseekable};
use crate::warc::reader::{ArchiveItem, WarcReader};

/// The URL and the date of a record.
type RecordKey = (String, SystemTime);

/// The records of a version.
#[derive(Default)]
struct VersionRecords {
    /// Those with a body.
    responses: Vec<RecordKey>,
    /// Those to which it refers.
    referred: Vec<RecordKey>,
}

/// Adds the replaced versions to which those that are kept refer, also through others. Returns how many there are.
pub(super) fn add_referred(
    sources: &[PartSource],
    versions: &mut Vec<PageVersion>,
    replaced: Vec<PageVersion>,
) -> Result<u64, MergeError> {
    let records = replaced.iter().map(|version| read(sources, version));
    let records = records.collect::<Result<Vec<VersionRecords>, _>>()?;
    let mut by_response = HashMap::new();
    for (index, records) in records.iter().enumerate() {
        by_response.extend(records.responses.iter().map(|response| (response, index)));
    }
    let (mut is_referred, mut unread) = (vec![false; replaced.len()], Vec::new());
    let mut note = |referred: &[RecordKey], unread: &mut Vec<usize>| {
        for index in referred.iter().filter_map(|key| by_response.get(key).copied()) {
            if !std::mem::replace(&mut is_referred[index], true) {
                unread.push(index);
            }
        }
    };
    for version in &*versions {
        note(&read(sources, version)?.referred, &mut unread);
    }
    while let Some(index) = unread.pop() {
        note(&records[index].referred, &mut unread);
    }
    let before = versions.len();
    versions.extend(replaced.into_iter().zip(is_referred).filter_map(|(it, is_kept)| is_kept.then_some(it)));
    let added = versions.len() - before;
    in_order(versions);
    Ok(added as u64)
}

/// The records of a version. What is damaged has none.
fn read(sources: &[PartSource], version: &PageVersion) -> Result<VersionRecords, MergeError> {
    let (mut bytes, mut records) = (Vec::new(), VersionRecords::default());
    sources[version.part as usize].read(version, &mut bytes)?;
    let input = ArchiveInput::new(Box::new(Unseekable(Cursor::new(bytes))), Default::default());
    // Bytes in memory can always be read.
    let Ok(mut reader) = WarcReader::new(input) else { return Ok(records) };
    while let Ok(Some(item)) = reader.next(&|_| 0) {
        let ArchiveItem::Record(record) = item else { continue };
        let header = &record.header;
        match header.record_type() {
            RecordType::Response => {
                let key = header.target_uri().zip(header.date());
                records.responses.extend(key.map(|(url, date)| (url.to_owned(), date)));
            }
            RecordType::Revisit => {
                let key = header.refers_to_target_uri().zip(header.refers_to_date());
                records.referred.extend(key.map(|(url, date)| (url.to_owned(), date)));
            }
            _ => {}
        }
    }
    Ok(records)
}
