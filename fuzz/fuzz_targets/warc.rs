//! Reading an archive from arbitrary bytes never panics and ends; a record before and one after the bytes are found, unless the bytes
//! are a record that claims them; nothing larger is kept than is wanted.
#![no_main]

use std::io::Cursor;
use std::sync::Arc;

use crawler::internal::warc::header::RecordHeader;
use crawler::internal::warc::http_message::{ResponseHead, without_chunks};
use crawler::internal::warc::input::{ArchiveInput, Unseekable};
use crawler::internal::warc::reader::{ArchiveItem, WarcReader};
use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;

const RECORD: &[u8] = b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a.test/\r\nContent-Length: 4\r\n\r\nbody\r\n\r\n";

const WANTED: usize = 100;

/// The number of records, of which the last one is [`RECORD`] or not.
fn read(archive: Vec<u8>) -> (usize, bool) {
    let length = archive.len();
    let input = ArchiveInput::new(Box::new(Unseekable(Cursor::new(archive))), Arc::default());
    let Ok(mut reader) = WarcReader::new(input) else { return (0, false) };
    let (mut records, mut items, mut is_last) = (0, 0, false);
    while let Ok(Some(item)) = reader.next(&|_| WANTED) {
        items += 1;
        assert!(items <= length + 1, "the reader does not advance");
        if let ArchiveItem::Record(record) = item {
            records += 1;
            is_last = record.block == b"body";
            assert!(record.block.len() <= WANTED);
            let _ = (record.header.date(), record.header.target_uri(), record.header.record_type());
        }
    }
    (records, is_last)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes all bytes")
}

fuzz_target!(|input: &[u8]| {
    read(input.to_vec());
    let member = gzip(RECORD);
    let (records, is_last) = read([&member[..], &gzip(input), &member].concat());
    assert!(records >= 2 && is_last, "a member damages no other one");
    // Bytes between two members can only hide the next one if they are a member themselves.
    let (records, is_last) = read([&member[..], input, &member].concat());
    assert!(records >= 1 && (is_last || input.windows(2).any(|magic| magic == [0x1F, 0x8B])));
    read([RECORD, input, RECORD].concat());
    if let Ok(header) = RecordHeader::parse(input) {
        let _ = (header.content_length(), header.date(), header.is_truncated());
    }
    if let Ok(head) = ResponseHead::parse(input) {
        assert!(head.body_start <= input.len());
    }
    if let Some(content) = without_chunks(input) {
        assert!(content.len() <= input.len());
    }
});
