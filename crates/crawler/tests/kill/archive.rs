//! Checks the web archive of a finished crawl: every record, and every request that counted once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use crawler::internal::warc::digest;
use crawler::internal::warc::header::{RecordHeader, RecordType};
use crawler::internal::warc::http_message::ResponseHead;
use crawler::internal::warc::input::{ArchiveInput, FileSection};
use crawler::internal::warc::reader::{ArchiveItem, WarcReader, WarcRecord};
use serde_json::Value;
use testweb::Web;

use super::known_web::KnownWeb;

/// A response or revisit of the archive.
#[derive(Debug)]
struct Archived {
    url: String,
    date: String,
    status: u16,
    payload_digest: String,
    /// `None` if it is a revisit.
    payload: Option<Vec<u8>>,
    refers_to: Option<(String, String)>,
}

/// Checks the archive against the rows of all URLs and the log of the server.
pub fn check(directory: &Path, known_web: KnownWeb, web: &Web, rows: &BTreeMap<String, Value>) {
    let archived = read(directory);
    check_revisits(&archived);
    let mut by_url: BTreeMap<&str, Vec<&Archived>> = BTreeMap::new();
    archived.iter().for_each(|response| by_url.entry(&response.url).or_default().push(response));
    let mut hits: BTreeMap<(String, u16), usize> = BTreeMap::new();
    for hit in web.log().iter() {
        let url = format!("{}{}", web.url_of(&hit.host, ""), hit.path);
        *hits.entry((url, hit.status.unwrap_or(0))).or_default() += 1;
    }
    for (url, responses) in &by_url {
        for status in responses.iter().map(|response| response.status).collect::<BTreeSet<_>>() {
            let count = responses.iter().filter(|response| response.status == status).count();
            let sent = hits.get(&(url.to_string(), status)).copied().unwrap_or(0);
            assert!(
                count <= sent,
                "{url} is archived {count} times with {status}, and was sent {sent} times"
            );
        }
    }
    for (url, row) in rows {
        let Some(status) = row["status"].as_u64() else { continue };
        let responses = by_url.get(url.as_str()).unwrap_or_else(|| panic!("{url} is not archived: {row}"));
        let last = responses.iter().filter(|response| u64::from(response.status) == status).count();
        assert_eq!(last, 1, "{url}: {responses:?}");
        assert!(
            responses.iter().all(|it| u64::from(it.status) == status || it.status == 503),
            "{responses:?}"
        );
    }
    for (url, (host, page)) in known_web.expected_pages(&web.port().to_string()) {
        let body = known_web.body(host, page, false, &web.port().to_string());
        let is_page = |response: &&&Archived| response.payload.as_deref() == Some(body.as_bytes());
        assert!(by_url[url.as_str()].iter().any(|response| is_page(&response)), "{url} has another body");
    }
    for host in (0..known_web.hosts).map(|host| format!("h{host}.test")) {
        assert!(
            by_url.contains_key(&*format!("{}/robots.txt", web.url_of(&host, ""))),
            "robots.txt of {host}"
        );
    }
}

/// Checks that every revisit refers to a response of the archive with the same payload.
fn check_revisits(archived: &[Archived]) {
    for revisit in archived.iter().filter(|it| it.payload.is_none()) {
        let (url, date) = revisit.refers_to.as_ref().unwrap();
        let is_original = |it: &Archived| {
            it.payload.is_some()
                && (&it.url, &it.date, &it.payload_digest) == (url, date, &revisit.payload_digest)
        };
        assert!(archived.iter().any(is_original), "{revisit:?} refers to nothing");
    }
}

/// The files of the archive, without a gap.
fn files(directory: &Path) -> Vec<PathBuf> {
    let path = |number: u32| directory.join(format!("archive-{number:05}.warc.gz"));
    let files: Vec<PathBuf> = (1..).map(path).take_while(|path| path.exists()).collect();
    let count = std::fs::read_dir(directory).unwrap();
    let count = count.filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().starts_with("archive-"));
    assert_eq!(count.count(), files.len(), "the files have no gap");
    files
}

/// Reads all responses and revisits, and checks every record.
fn read(directory: &Path) -> Vec<Archived> {
    let (mut archived, mut ids) = (Vec::new(), BTreeSet::new());
    let files = files(directory);
    assert!(files.len() > 1 || std::fs::metadata(&files[0]).unwrap().len() < 20_000);
    for file in files {
        let open = File::open(&file).unwrap();
        let length = open.metadata().unwrap().len();
        let input =
            ArchiveInput::new(Box::new(FileSection::new(open, 0, length).unwrap()), Default::default());
        let mut reader = WarcReader::new(input).unwrap();
        let mut last: Option<String> = None;
        let mut is_first = true;
        while let Some(item) = reader.next(&|_| usize::MAX).unwrap() {
            let record = match item {
                ArchiveItem::Record(record) => record,
                ArchiveItem::Damage(damage) => panic!("{}: {damage:?}", file.display()),
            };
            assert!(record.is_verified);
            let get = |name: &str| field(&record.header, name);
            assert_eq!(digest::matches(&get("WARC-Block-Digest"), &record.block), Some(true), "{record:?}");
            let id = get("WARC-Record-ID");
            assert!(ids.insert(id.clone()), "{id} occurs twice");
            let record_type = record.header.record_type();
            assert_eq!(is_first, record_type == RecordType::Warcinfo, "{record:?}");
            is_first = false;
            match record_type {
                RecordType::Warcinfo => {}
                RecordType::Request => assert_eq!(Some(get("WARC-Concurrent-To")), last.take()),
                RecordType::Response | RecordType::Revisit => {
                    assert_eq!(last.replace(id), None, "a response without its request");
                    archived.push(archived_response(&record));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(last, None, "{} ends without a request", file.display());
    }
    archived
}

fn archived_response(record: &WarcRecord) -> Archived {
    let head = ResponseHead::parse(&record.block).unwrap();
    let header = &record.header;
    let is_whole = header.record_type() == RecordType::Response;
    let payload = is_whole.then(|| record.block[head.body_start..].to_vec());
    let payload_digest = field(header, "WARC-Payload-Digest");
    if let Some(payload) = &payload {
        assert_eq!(digest::matches(&payload_digest, payload), Some(true));
    }
    let refers_to = (!is_whole)
        .then(|| (field(header, "WARC-Refers-To-Target-URI"), field(header, "WARC-Refers-To-Date")));
    Archived {
        url: field(header, "WARC-Target-URI"),
        date: field(header, "WARC-Date"),
        status: head.status,
        payload_digest,
        payload,
        refers_to,
    }
}

fn field(header: &RecordHeader, name: &str) -> String {
    header.get(name).unwrap_or_else(|| panic!("{name} is missing: {header:?}")).to_owned()
}
