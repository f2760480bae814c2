//! Reads whole, damaged and hostile archives.

use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::input::{ArchiveSource, Unseekable};
use super::*;

/// An archive in memory that can seek.
struct Seekable(Cursor<Vec<u8>>);

impl Read for Seekable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl ArchiveSource for Seekable {
    fn length(&self) -> Option<u64> {
        Some(self.0.get_ref().len() as u64)
    }

    fn seek_to(&mut self, offset: u64) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(offset)).map(drop)
    }
}

fn record(number: usize) -> Vec<u8> {
    let body = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>page {number}: {}",
        "text ".repeat(number * 7)
    );
    let mut record = format!(
        "WARC/1.{}\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/{number}\r\nContent-Length: {}\r\n\r\n{body}",
        number % 2,
        body.len()
    );
    record += "\r\n\r\n";
    record.into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn records() -> Vec<Vec<u8>> {
    (0..5).map(record).collect()
}

/// The URIs of the records that are found, and the damage.
fn read(bytes: &[u8], is_seekable: bool) -> (Vec<String>, Vec<Damage>) {
    let cursor = Cursor::new(bytes.to_vec());
    let source: Box<dyn ArchiveSource> =
        if is_seekable { Box::new(Seekable(cursor)) } else { Box::new(Unseekable(cursor)) };
    let mut reader = WarcReader::new(ArchiveInput::new(source, Arc::default())).unwrap();
    let (mut uris, mut damage) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next(&|_| 1_000).unwrap() {
        match item {
            ArchiveItem::Record(record) => {
                uris.push(record.header.target_uri().unwrap_or_default().to_owned());
                assert!(record.block.len() <= 1_000);
            }
            ArchiveItem::Damage(found) => damage.push(found),
        }
        assert!(uris.len() + damage.len() < 1_000, "the reader does not advance");
    }
    (uris, damage)
}

fn uri(number: usize) -> String {
    format!("http://a.test/{number}")
}

#[test]
fn archives_are_read_however_they_are_compressed() {
    let plain = records().concat();
    let by_record: Vec<u8> = records().iter().flat_map(|record| gzip(record)).collect();
    let in_blocks: Vec<u8> = plain.chunks(100).flat_map(gzip).collect();
    let zstd: Vec<u8> =
        records().iter().flat_map(|record| zstd::encode_all(&record[..], 3).unwrap()).collect();
    let skippable = [&b"\x50\x2A\x4D\x18\x03\0\0\0abc"[..], &zstd].concat();
    let lone_newlines =
        String::from_utf8(plain.clone()).unwrap().replace("\r\n\r\nWARC/", "\nWARC/").into_bytes();
    for archive in [&plain, &by_record, &gzip(&plain), &in_blocks, &zstd, &lone_newlines] {
        for is_seekable in [true, false] {
            let (uris, damage) = read(archive, is_seekable);
            assert_eq!((uris, damage), ((0..5).map(uri).collect(), Vec::new()));
        }
    }
    // A skippable frame is allowed after the first frame only, but not at the start.
    let (first, _) = zstd.split_at(zstd::encode_all(&record(0)[..], 3).unwrap().len());
    assert_eq!(read(&[first, &skippable].concat(), true).0.len(), 6);
    assert_eq!(read(b"", true), (Vec::new(), Vec::new()));
    assert_eq!(read(b"\r\n\r\n", true), (Vec::new(), Vec::new()));
}

#[test]
fn zstd_dictionary_at_the_start_is_used() {
    let samples: Vec<Vec<u8>> = (0..50).map(|number| record(number % 9)).collect();
    let dictionary = zstd_dictionary(&samples);
    let frame = [&b"\x5D\x2A\x4D\x18"[..], &(dictionary.len() as u32).to_le_bytes(), &dictionary].concat();
    let mut archive = frame;
    for record in records() {
        let mut encoder = zstd::stream::Encoder::with_dictionary(Vec::new(), 3, &dictionary).unwrap();
        encoder.write_all(&record).unwrap();
        archive.extend(encoder.finish().unwrap());
    }
    assert_eq!(read(&archive, true), ((0..5).map(uri).collect(), Vec::new()));
    assert_eq!(read(&archive, false).0.len(), 5);
}

/// A dictionary of raw content, which any bytes are.
fn zstd_dictionary(samples: &[Vec<u8>]) -> Vec<u8> {
    samples.concat().into_iter().take(2_000).collect()
}

#[test]
fn truncated_archive_has_all_records_before_its_end() {
    let (plain, parts) = (records().concat(), records());
    let (compressed, members): (Vec<u8>, Vec<Vec<u8>>) =
        (parts.iter().flat_map(|part| gzip(part)).collect(), parts.iter().map(|part| gzip(part)).collect());
    for (archive, parts, trailer) in [(&plain, &parts, 4), (&compressed, &members, 0)] {
        let ends: Vec<usize> = parts
            .iter()
            .scan(0, |end, part| {
                *end += part.len();
                Some(*end)
            })
            .collect();
        for length in 0..archive.len() {
            let complete = ends.iter().filter(|end| **end - trailer <= length).count();
            for is_seekable in [true, false] {
                let (uris, damage) = read(&archive[..length], is_seekable);
                assert_eq!(uris, (0..complete).map(uri).collect::<Vec<_>>(), "{length} bytes, {is_seekable}");
                let start = complete.checked_sub(1).map_or(0, |last| ends[last]);
                assert_eq!(damage.len(), usize::from(length > start), "{length} bytes: {damage:?}");
            }
        }
    }
    let whole = gzip(&plain);
    let mut most = 0;
    for length in 0..whole.len() {
        let (uris, _) = read(&whole[..length], true);
        assert!(uris.len() >= most || uris.len() + 1 == most, "{length} bytes");
        most = most.max(uris.len());
    }
}

#[test]
fn changed_byte_damages_no_other_record() {
    let members: Vec<Vec<u8>> = records().iter().map(|record| gzip(record)).collect();
    for parts in [records(), members] {
        let archive = parts.concat();
        let mut start = 0;
        for (number, part) in parts.iter().enumerate() {
            for position in start..start + part.len() {
                for (change, is_seekable) in [(0x01, true), (0x80, false)] {
                    let mut changed = archive.clone();
                    changed[position] ^= change;
                    // The first bytes say how the whole file is compressed.
                    if position < 4 {
                        continue;
                    }
                    let (uris, _) = read(&changed, is_seekable);
                    let others: Vec<String> = (0..5).filter(|other| *other != number).map(uri).collect();
                    let mut found: Vec<String> =
                        uris.into_iter().filter(|found| others.contains(found)).collect();
                    // The change may give a record the name of its neighbour.
                    found.dedup();
                    assert_eq!(found, others, "byte {position} of record {number} ^ {change}");
                }
            }
            start += part.len();
        }
    }
}

#[test]
fn removed_and_added_bytes_are_reported_once() {
    let parts = records();
    let garbage = b"garbage WARC/ and WARC/1.0\r\nmore\x1F\x8B\x08 of it".to_vec();
    let plain = [&parts[0], &garbage, &parts[1], &parts[2][..40].to_vec(), &parts[3], &parts[4]]
        .map(|part| &part[..])
        .concat();
    let (uris, damage) = read(&plain, true);
    assert_eq!(uris, [0, 1, 3, 4].map(uri));
    assert_eq!(damage.len(), 2, "{damage:?}");
    assert_eq!(damage[0].offset, parts[0].len() as u64);
    let members: Vec<Vec<u8>> = parts.iter().map(|part| gzip(part)).collect();
    let compressed =
        [&members[0], &garbage, &members[1], &members[2][..40].to_vec(), &members[3], &members[4]]
            .map(|part| &part[..])
            .concat();
    let (uris, damage) = read(&compressed, false);
    assert_eq!(uris, [0, 1, 3, 4].map(uri));
    assert_eq!(damage.len(), 2, "{damage:?}");
    assert_eq!(damage[0].offset, members[0].len() as u64);
}

#[test]
fn wrong_lengths_cost_one_record() {
    let mut parts = records();
    for length in ["0", "1", "41", "300", "99999", "18446744073709551615", "99999999999999999999", "x", ""] {
        let text = String::from_utf8(record(2)).unwrap();
        let (before, rest) = text.split_once("Content-Length: ").unwrap();
        let (_, after) = rest.split_once("\r\n").unwrap();
        parts[2] = format!("{before}Content-Length: {length}\r\n{after}").into_bytes();
        let members: Vec<u8> = parts.iter().flat_map(|part| gzip(part)).collect();
        for archive in [parts.concat(), members] {
            let (uris, damage) = read(&archive, true);
            assert_eq!((uris, damage.len()), ([0, 1, 3, 4].map(uri).to_vec(), 1), "{length}: {damage:?}");
        }
    }
}

#[test]
fn hostile_archives_take_little_memory() {
    let bomb = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {}\r\nContent-Length: 8000000\r\n\r\n",
        uri(0)
    );
    let bomb = gzip(&[bomb.as_bytes(), &vec![0; 8_000_000], b"\r\n\r\n"].concat());
    let archive = [bomb, gzip(&record(1))].concat();
    assert_eq!(read(&archive, false), ((0..2).map(uri).collect(), Vec::new()));
    let long_header = format!("WARC/1.0\r\nWARC-Type: {}\r\n\r\n", "x".repeat(10_000_000));
    let many_fields = format!("WARC/1.0\r\n{}\r\n", "WARC-A: b\r\n".repeat(10_000));
    let no_end = "WARC/1.0\r\nWARC-A: b\r\n".repeat(100);
    for start in [long_header, many_fields, no_end] {
        let archive = [start.as_bytes(), &record(1)].concat();
        for archive in [archive.clone(), gzip(&archive)] {
            let (uris, damage) = read(&archive, true);
            assert!(!damage.is_empty());
            assert_eq!(uris.last(), Some(&uri(1)));
        }
    }
}
