//! The payloads that an archive has, by their digests, so that the same payload is not stored again. Bounded: the oldest are forgotten.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::digest::{self, Hash};
use super::header::{RecordHeader, RecordType};
use super::input::{ArchiveInput, FileSection};
use super::reader::{ArchiveItem, WarcReader};

/// The memory for the payloads: some 300,000 of them.
const MAX_BYTES: usize = 64 << 20;

/// What a payload takes beyond its URL: its entry in the map, which may be half empty, and its place in the order.
const ENTRY_BYTES: usize = 160;

/// The first bytes of a response that are read back: its status line.
const STATUS_BYTES: usize = 16;

/// Where a payload is: the URL and the time of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// The URL.
    pub url: Box<str>,
    /// The time.
    pub date: SystemTime,
}

/// The payloads of an archive.
#[derive(Debug, Default)]
pub struct Payloads {
    records: HashMap<Hash, Archived>,
    /// Oldest first.
    order: VecDeque<Hash>,
    bytes: usize,
}

impl Payloads {
    /// The record with a payload, if there is one.
    pub fn get(&self, payload: &Hash) -> Option<&Archived> {
        self.records.get(payload)
    }

    /// Adds the payload of a record. The first record of a payload is kept.
    pub fn add(&mut self, payload: Hash, record: Archived) {
        if self.records.contains_key(&payload) {
            return;
        }
        self.bytes += ENTRY_BYTES + record.url.len();
        self.records.insert(payload, record);
        self.order.push_back(payload);
        while self.bytes > MAX_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            let forgotten = self.records.remove(&oldest);
            self.bytes -= ENTRY_BYTES + forgotten.map_or(0, |record| record.url.len());
        }
    }

    /// Adds the payloads of the responses in a file. What is damaged is left out.
    pub fn read_file(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let input = ArchiveInput::new(Box::new(FileSection::new(file, 0, length)?), Default::default());
        let mut reader = WarcReader::new(input)?;
        let wanted = |header: &RecordHeader| match header.record_type() {
            RecordType::Response => STATUS_BYTES,
            _ => 0,
        };
        while let Some(item) = reader.next(&wanted)? {
            let ArchiveItem::Record(record) = item else { continue };
            let header = &record.header;
            let is_whole = header.record_type() == RecordType::Response && !header.is_truncated();
            if !is_whole || !is_success(&record.block) {
                continue;
            }
            let payload = header.get("WARC-Payload-Digest").and_then(digest::parse);
            if let (Some(payload), Some(url), Some(date)) = (payload, header.target_uri(), header.date()) {
                self.add(payload, Archived { url: url.into(), date });
            }
        }
        Ok(())
    }
}

/// Whether a block starts with the status line of a response with status 200.
fn is_success(block: &[u8]) -> bool {
    block.starts_with(b"HTTP/")
        && block.split(|byte| *byte == b' ').nth(1).is_some_and(|code| code.starts_with(b"200"))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn hash_of(number: u64) -> Hash {
        digest::hash(&[&number.to_le_bytes()])
    }

    #[test]
    fn first_record_of_a_payload_is_kept_and_the_oldest_are_forgotten() {
        let mut payloads = Payloads::default();
        let record = |url: &str| Archived { url: url.into(), date: UNIX_EPOCH };
        payloads.add(hash_of(0), record("http://a.test/"));
        payloads.add(hash_of(0), record("http://b.test/"));
        assert_eq!(payloads.get(&hash_of(0)), Some(&record("http://a.test/")));
        let url = format!("http://a.test/{}", "x".repeat(100_000));
        let fit = (MAX_BYTES / (ENTRY_BYTES + url.len())) as u64;
        for number in 1..=fit + 10 {
            payloads.add(hash_of(number), record(&url));
        }
        assert!(payloads.bytes <= MAX_BYTES, "{}", payloads.bytes);
        assert_eq!(payloads.get(&hash_of(0)), None);
        assert_eq!(payloads.get(&hash_of(10)), None);
        assert!(payloads.get(&hash_of(11)).is_some() && payloads.get(&hash_of(fit + 10)).is_some());
        assert_eq!(payloads.records.len(), payloads.order.len());
    }

    #[test]
    fn only_status_200_is_a_success() {
        for (block, expected) in [
            (&b"HTTP/1.1 200 OK"[..], true),
            (b"HTTP/1.1 200", true),
            (b"HTTP/1.1 206 OK", false),
            (b"HTTP/1.1", false),
            (b"", false),
        ] {
            assert_eq!(is_success(block), expected);
        }
    }
}
