//! Tests of rendered records, read back by the reader.

use std::io::Cursor;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::warc::http_message::ResponseHead;
use crate::warc::input::{ArchiveInput, Unseekable};
use crate::warc::reader::{ArchiveItem, WarcReader, WarcRecord};

fn exchange() -> Exchange {
    Exchange {
        url: "http://a.test/?q=1".into(),
        requested: UNIX_EPOCH + Duration::from_micros(1_793_858_828_250_999),
        address: Some([127, 0, 0, 1].into()),
        protocol: Protocol::Http1,
        request_head: b"GET /?q=1 HTTP/1.1\r\nHost: a.test\r\n\r\n".to_vec(),
        status: 200,
        response_head: b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n".to_vec(),
        payload: Bytes::from_static(b"<p>page"),
        truncated: None,
        previous_visit: None,
    }
}

fn rendered(encoding: Encoding, exchange: &Exchange, record: ResponseRecord) -> Vec<u8> {
    let mut out = Vec::new();
    push_exchange(encoding, &mut out, exchange, 0, &digest::hash(&[&exchange.payload]), record);
    out
}

fn read(bytes: Vec<u8>) -> Vec<WarcRecord> {
    let mut reader =
        WarcReader::new(ArchiveInput::new(Box::new(Unseekable(Cursor::new(bytes))), Default::default()))
            .unwrap();
    let mut records = Vec::new();
    while let Some(item) = reader.next(&|_| usize::MAX).unwrap() {
        match item {
            ArchiveItem::Record(record) => records.push(record),
            ArchiveItem::Damage(damage) => panic!("{damage:?}"),
        }
    }
    records
}

#[test]
fn exchange_is_a_response_and_its_request_with_digests_in_every_encoding() {
    for encoding in [Encoding::Plain, Encoding::Gzip, Encoding::Zstd] {
        let bytes = rendered(encoding, &exchange(), ResponseRecord::Whole);
        assert_eq!(bytes, rendered(encoding, &exchange(), ResponseRecord::Whole), "deterministic");
        let records = read(bytes);
        let [response, request] = &records[..] else { panic!("{records:?}") };
        let types = [response, request].map(|record| record.header.record_type());
        assert_eq!(types, [RecordType::Response, RecordType::Request]);
        for record in [response, request] {
            let get = |name| record.header.get(name).unwrap();
            assert_eq!((get("WARC-Target-URI"), get("WARC-IP-Address")), ("http://a.test/?q=1", "127.0.0.1"));
            assert_eq!(get("WARC-Date"), "2026-11-05T06:07:08.250Z");
            assert_eq!(digest::matches(get("WARC-Block-Digest"), &record.block), Some(true));
            assert_eq!(
                (record.header.get("WARC-Protocol"), record.header.get("WARC-Truncated")),
                (None, None)
            );
            let id = get("WARC-Record-ID");
            assert!(id.starts_with("<urn:uuid:") && id.len() == 47 && id.as_bytes()[24] == b'5', "{id}");
        }
        assert_eq!(request.header.get("WARC-Concurrent-To"), response.header.get("WARC-Record-ID"));
        assert_ne!(request.header.get("WARC-Record-ID"), response.header.get("WARC-Record-ID"));
        let head = ResponseHead::parse(&response.block).unwrap();
        assert_eq!(&response.block[head.body_start..], b"<p>page");
        assert_eq!(response.header.get("WARC-Payload-Digest"), Some(&*digest::sha1(b"<p>page")));
        assert_eq!(request.block, exchange().request_head);
    }
}

#[test]
fn same_payload_is_a_revisit_with_headers_and_without_payload() {
    let before = UNIX_EPOCH + Duration::from_millis(1_500);
    let reference = ResponseRecord::SamePayload("http://b.test/", before);
    let records = read(rendered(Encoding::Gzip, &exchange(), reference));
    let revisit = &records[0];
    assert_eq!(revisit.header.record_type(), RecordType::Revisit);
    let get = |name| revisit.header.get(name);
    assert_eq!(get("WARC-Profile"), Some(IDENTICAL_PAYLOAD));
    assert_eq!(get("WARC-Refers-To-Target-URI"), Some("http://b.test/"));
    assert_eq!(get("WARC-Refers-To-Date"), Some("1970-01-01T00:00:01.500Z"));
    assert_eq!(get("WARC-Payload-Digest"), Some(&*digest::sha1(b"<p>page")));
    assert_eq!(revisit.block, exchange().response_head);
    assert_eq!(digest::matches(get("WARC-Block-Digest").unwrap(), &revisit.block), Some(true));
    let unchanged = Exchange { status: 304, payload: Bytes::new(), ..exchange() };
    let records = read(rendered(Encoding::Gzip, &unchanged, ResponseRecord::NotModified(before)));
    let get = |name| records[0].header.get(name);
    assert_eq!(get("WARC-Profile"), Some(NOT_MODIFIED));
    assert_eq!(get("WARC-Refers-To-Target-URI"), Some("http://a.test/?q=1"));
    assert_eq!(get("WARC-Payload-Digest"), None);
}

#[test]
fn protocol_and_truncation_are_recorded() {
    let cut = Exchange {
        protocol: Protocol::Http2,
        truncated: Some(Truncation::Length),
        address: Some("::ffff:127.0.0.1".parse().unwrap()),
        ..exchange()
    };
    let records = read(rendered(Encoding::Plain, &cut, ResponseRecord::Whole));
    assert_eq!(records[0].header.get("WARC-Truncated"), Some("length"));
    assert_eq!(records[1].header.get("WARC-Truncated"), None);
    for record in records {
        assert_eq!(record.header.get("WARC-Protocol"), Some("h2"));
        assert_eq!(record.header.get("WARC-IP-Address"), Some("127.0.0.1"));
    }
}

#[test]
fn ids_differ_by_url_time_content_and_position() {
    let later = Exchange { requested: exchange().requested + Duration::from_nanos(1), ..exchange() };
    let other_url = Exchange { url: "http://a.test/?q=2".into(), ..exchange() };
    let other_payload = Exchange { payload: Bytes::from_static(b"other"), ..exchange() };
    let mut ids = Vec::new();
    for (exchange, position) in
        [(exchange(), 0), (exchange(), 1), (later, 0), (other_url, 0), (other_payload, 0)]
    {
        let (mut out, payload) = (Vec::new(), digest::hash(&[&exchange.payload]));
        push_exchange(Encoding::Plain, &mut out, &exchange, position, &payload, ResponseRecord::Whole);
        ids.push(read(out)[0].header.get("WARC-Record-ID").unwrap().to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5);
    assert_ne!(unique_id("a"), unique_id("a"));
}

#[test]
fn first_record_says_what_crawls() {
    let info = WarcCrawlInfo {
        operator: Some("me\r\ninjected: yes".into()),
        user_agent: "bot/1".into(),
        from: None,
        obeys_robots: true,
    };
    let records = read(warcinfo(Encoding::Gzip, "a-00001.warc.gz", &info.fields(), "<urn:uuid:0>"));
    let info = &records[0];
    assert_eq!(info.header.record_type(), RecordType::Warcinfo);
    assert_eq!(info.header.get("WARC-Filename"), Some("a-00001.warc.gz"));
    let block = String::from_utf8(info.block.clone()).unwrap();
    assert!(block.starts_with(concat!("software: crawler/", env!("CARGO_PKG_VERSION"), "\r\n")), "{block}");
    for line in [
        "format: WARC File Format 1.1",
        "robots: obey",
        "operator: me  injected: yes",
        "http-header-user-agent: bot/1",
        "isPartOf: <urn:uuid:0>",
    ] {
        assert!(block.contains(&format!("\r\n{line}\r\n")), "{line}: {block}");
    }
}
