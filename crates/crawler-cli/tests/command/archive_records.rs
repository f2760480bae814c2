//! Reads the records of web archives that tests have made, and checks what holds for all of them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crawler::internal::warc::digest;
use crawler::internal::warc::header::{RecordHeader, RecordType};
use crawler::internal::warc::http_message::ResponseHead;
use crawler::internal::warc::input::{ArchiveInput, FileSection};
use crawler::internal::warc::reader::{ArchiveItem, WarcReader, WarcRecord};

/// A record.
#[derive(Debug)]
pub struct Record {
    pub header: RecordHeader,
    pub block: Vec<u8>,
    /// The number of its file.
    pub file: usize,
}

impl Record {
    pub fn get(&self, name: &str) -> &str {
        self.header.get(name).unwrap_or_default()
    }

    pub fn url(&self) -> &str {
        self.get("WARC-Target-URI")
    }

    pub fn is(&self, record_type: RecordType) -> bool {
        self.header.record_type() == record_type
    }

    /// The status of a response or revisit.
    pub fn status(&self) -> u16 {
        ResponseHead::parse(&self.block).unwrap().status
    }

    /// The body of a response.
    pub fn payload(&self) -> &[u8] {
        &self.block[ResponseHead::parse(&self.block).unwrap().body_start..]
    }
}

/// The files of an archive in a directory, `NAME-00001.EXTENSION` and so on. There are no others of that name.
pub fn files(directory: &Path, name: &str, extension: &str) -> Vec<PathBuf> {
    let path = |number: usize| directory.join(format!("{name}-{number:05}.{extension}"));
    let files: Vec<PathBuf> = (1..).map(path).take_while(|path| path.exists()).collect();
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let is_numbered = |file: &std::ffi::OsString| file.to_string_lossy().starts_with(&format!("{name}-0"));
    assert_eq!(entries.filter(is_numbered).count(), files.len(), "no file is missing");
    files
}

/// All records of an archive.
#[track_caller]
pub fn records(files: &[PathBuf]) -> Vec<Record> {
    let (mut all, mut ids) = (Vec::new(), BTreeSet::new());
    for (number, path) in files.iter().enumerate() {
        let records = records_of(path);
        assert!(records[0].header.record_type() == RecordType::Warcinfo, "{}", path.display());
        for record in records {
            let header = record.header;
            let record = Record { header, block: record.block, file: number };
            assert_eq!(digest::matches(record.get("WARC-Block-Digest"), &record.block), Some(true));
            assert!(ids.insert(record.get("WARC-Record-ID").to_owned()), "an ID occurs twice: {record:?}");
            if record.is(RecordType::Response) {
                let payload = record.payload();
                assert_eq!(digest::matches(record.get("WARC-Payload-Digest"), payload), Some(true));
            }
            all.push(record);
        }
    }
    for pair in all.windows(2).filter(|pair| pair[1].is(RecordType::Request)) {
        let [response, request] = pair else { unreachable!() };
        assert_eq!(request.get("WARC-Concurrent-To"), response.get("WARC-Record-ID"));
        assert_eq!((request.url(), request.get("WARC-Date")), (response.url(), response.get("WARC-Date")));
        assert_eq!(request.file, response.file);
    }
    let count = |record_type| all.iter().filter(|record| record.is(record_type)).count();
    assert_eq!(count(RecordType::Request), count(RecordType::Response) + count(RecordType::Revisit));
    for revisit in all.iter().filter(|record| record.is(RecordType::Revisit)) {
        let original = (revisit.get("WARC-Refers-To-Target-URI"), revisit.get("WARC-Refers-To-Date"));
        let is_original = |record: &&Record| {
            record.is(RecordType::Response) && (record.url(), record.get("WARC-Date")) == original
        };
        let original =
            all.iter().find(is_original).unwrap_or_else(|| panic!("{revisit:?} refers to nothing"));
        assert_eq!(original.get("WARC-Payload-Digest"), revisit.get("WARC-Payload-Digest"));
    }
    all
}

#[track_caller]
fn records_of(path: &Path) -> Vec<WarcRecord> {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let input = ArchiveInput::new(Box::new(FileSection::new(file, 0, length).unwrap()), Default::default());
    let mut reader = WarcReader::new(input).unwrap();
    let mut records = Vec::new();
    while let Some(item) = reader.next(&|_| usize::MAX).unwrap() {
        match item {
            ArchiveItem::Record(record) => records.push(record),
            ArchiveItem::Damage(damage) => panic!("{}: {damage:?}", path.display()),
        }
    }
    records
}

/// The responses and revisits.
pub fn responses(records: &[Record]) -> impl Iterator<Item = &Record> {
    records.iter().filter(|record| record.is(RecordType::Response) || record.is(RecordType::Revisit))
}
