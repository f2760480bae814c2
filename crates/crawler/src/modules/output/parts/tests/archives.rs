//! Tests of the merged archive: it has every exchange that counts, and every body to which one refers.

use super::*;
use crate::exchange::Exchange;
use crate::modules::registry::{self, RegisteredModule};
use crate::modules::warc::tests::exchange;
use crate::warc::header::{RecordHeader, RecordType};
use crate::warc::input::{ArchiveInput, FileSection};
use crate::warc::reader::{ArchiveItem, WarcReader};

/// A worker that archives in a directory.
struct Archiver {
    specs: Vec<OutputSpec>,
    parts: Parts,
}

impl Archiver {
    fn new(directory: &Path, worker: u16, name: &str) -> Archiver {
        let spec = registry::parse(&format!("warc={}", directory.join(name).display())).unwrap();
        let RegisteredModule::Output(spec) = spec else { panic!("an output") };
        let parts = Parts::open(std::slice::from_ref(&spec), worker, &crawl("example"), false).unwrap();
        Archiver { specs: vec![spec], parts }
    }

    fn render(&self, exchange: &Exchange) -> Vec<(usize, OutputWrite)> {
        let records = self.specs[0].output.render_exchanges(std::slice::from_ref(exchange));
        vec![(0, OutputWrite::Append(records))]
    }

    /// Writes the exchange of a task's URL under this lease.
    fn add(&mut self, task_id: u64, lease_id: u64, exchange: &Exchange) {
        let writes = self.render(exchange);
        self.parts.add(task_id, lease_id, &writes).unwrap();
        self.specs[0].output.exchanges_committed(std::slice::from_ref(exchange));
    }
}

/// Merges the parts of an archive. Returns the types, URLs and seconds of its responses, in order, and the report.
fn merged(directory: &Path, name: &str, workers: &[u16]) -> (Vec<(String, String, u64)>, MergeReport) {
    let end = name.strip_prefix("a").unwrap();
    let parts: Vec<PathBuf> =
        workers.iter().map(|worker| directory.join(format!("a.{worker}{end}"))).collect();
    let report = merge(&parts, Destination::Path(&directory.join(name)), false).unwrap();
    let headers = headers(&directory.join(format!("a-00001{end}")));
    let seconds = |header: &RecordHeader| {
        header.date().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
    };
    let found = headers.iter().map(|header| {
        let kind = header.get("WARC-Type").unwrap().to_owned();
        (kind, header.target_uri().unwrap().to_owned(), seconds(header))
    });
    (found.collect(), report)
}

/// The headers of the responses and revisits of an archive, each of which refers to a response in it.
fn headers(file: &Path) -> Vec<RecordHeader> {
    let file = fs::File::open(file).unwrap();
    let length = file.metadata().unwrap().len();
    let section = FileSection::new(file, 0, length).unwrap();
    let mut reader = WarcReader::new(ArchiveInput::new(Box::new(section), Default::default())).unwrap();
    let mut headers = Vec::new();
    while let Some(item) = reader.next(&|_| 0).unwrap() {
        let ArchiveItem::Record(record) = item else { panic!("damage") };
        if matches!(record.header.record_type(), RecordType::Response | RecordType::Revisit) {
            headers.push(record.header);
        }
    }
    for revisit in headers.iter().filter(|header| header.record_type() == RecordType::Revisit) {
        let has_body = headers.iter().any(|header| {
            header.record_type() == RecordType::Response
                && header.target_uri() == revisit.refers_to_target_uri()
                && header.date() == revisit.refers_to_date()
        });
        assert!(has_body, "{revisit:?} refers to no body");
    }
    headers
}

fn records(expected: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    let record = |(kind, path, second): &(&str, &str, u64)| {
        (kind.to_string(), format!("http://a.test/{path}"), *second)
    };
    expected.iter().map(record).collect()
}

#[test]
fn replaced_body_is_kept_while_a_record_refers_to_it() {
    for name in ["a.warc", "a.warc.gz", "a.warc.zst"] {
        let directory = tempfile::tempdir().unwrap();
        let mut worker = Archiver::new(directory.path(), 1, name);
        worker.add(1, 10, &exchange("http://a.test/1", 1, b"same"));
        worker.add(2, 11, &exchange("http://a.test/2", 2, b"other"));
        worker.add(5, 12, &exchange("http://a.test/5", 3, b"third"));
        // Redis lost the completions, and the same worker fetches two of the URLs again. Another one has the third body now.
        worker.add(1, 20, &exchange("http://a.test/1", 4, b"same"));
        worker.add(2, 21, &exchange("http://a.test/2", 5, b"changed"));
        worker.add(3, 22, &exchange("http://a.test/3", 6, b"third"));
        drop(worker);
        let mut other = Archiver::new(directory.path(), 2, name);
        other.add(5, 23, &exchange("http://a.test/5", 7, b"gone"));
        drop(other);
        let (found, report) = merged(directory.path(), name, &[1, 2]);
        let expected = [
            ("response", "1", 1),
            ("revisit", "1", 4),
            ("response", "2", 5),
            ("revisit", "3", 6),
            ("response", "5", 3),
            ("response", "5", 7),
        ];
        assert_eq!(found, records(&expected), "{name}: nothing refers to the replaced body of 2");
        assert_eq!((report.pages, report.superseded), (4, 1), "{name}");
    }
}

#[test]
fn exchanges_of_returned_leases_are_no_versions_of_their_url() {
    let directory = tempfile::tempdir().unwrap();
    let mut worker = Archiver::new(directory.path(), 1, "a.warc.gz");
    let robots = |second| exchange("http://a.test/robots.txt", second, b"");
    for (lease_id, second) in [(10, 1), (11, 2)] {
        let writes = worker.render(&robots(second));
        worker.parts.add_returned(1, lease_id, &writes, |_| true).unwrap();
    }
    worker.add(1, 12, &exchange("http://a.test/1", 3, b"page"));
    drop(worker);
    let (found, report) = merged(directory.path(), "a.warc.gz", &[1]);
    let expected = [("response", "1", 3), ("response", "robots.txt", 1), ("response", "robots.txt", 2)];
    assert_eq!(found, records(&expected));
    assert_eq!((report.pages, report.superseded, report.retracted), (1, 0, 0));
}
