//! Tests of what becomes a revisit.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;

use super::*;
use crate::exchange::{Protocol, Truncation};

/// An exchange at this time.
pub(crate) fn exchange(url: &str, second: u64, payload: &'static [u8]) -> Exchange {
    Exchange {
        url: url.into(),
        requested: UNIX_EPOCH + Duration::from_secs(second),
        address: None,
        protocol: Protocol::Http1,
        request_head: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        status: 200,
        response_head: b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        payload: Bytes::from_static(payload),
        truncated: None,
        previous_visit: None,
    }
}

/// The type of the first record, and the URL and date that it refers to.
fn rendered(output: &dyn BuiltinOutput, exchange: &Exchange) -> (String, Option<(String, String)>) {
    let text = String::from_utf8(output.render_exchanges(std::slice::from_ref(exchange))).unwrap();
    let field = |name: &str| {
        let line = text.split("\r\n").find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_start_matches(": ").to_owned())
    };
    let refers_to = field("WARC-Refers-To-Target-URI").zip(field("WARC-Refers-To-Date"));
    (field("WARC-Type").unwrap(), refers_to)
}

fn whole() -> (String, Option<(String, String)>) {
    ("response".into(), None)
}

fn revisit(url: &str, date: &str) -> (String, Option<(String, String)>) {
    ("revisit".into(), Some((url.into(), date.into())))
}

#[test]
fn payload_is_a_revisit_only_of_a_record_that_is_in_the_archive_for_good() {
    let warc = Warc::output("a.warc").unwrap().output;
    let first = exchange("http://a.test/1", 1, b"same");
    let second = exchange("http://a.test/2", 2, b"same");
    assert_eq!(rendered(&*warc, &first), whole());
    assert_eq!(rendered(&*warc, &second), whole(), "the first may never be written");
    warc.exchanges_committed(&[first]);
    let expected = revisit("http://a.test/1", "1970-01-01T00:00:01.000Z");
    assert_eq!(rendered(&*warc, &second), expected);
    warc.exchanges_committed(&[second]);
    let third = exchange("http://a.test/3", 3, b"same");
    assert_eq!(rendered(&*warc, &third), expected, "a revisit refers to no revisit");
}

#[test]
fn truncated_empty_and_failed_payloads_are_never_revisits() {
    let warc = Warc::output("a.warc").unwrap().output;
    for (payload, status, truncated) in [
        (&b""[..], 200, None),
        (b"error", 404, None),
        (b"cut", 200, Some(Truncation::Length)),
        (b"", 304, None),
    ] {
        for second in 1..3 {
            let exchange = Exchange { status, truncated, ..exchange("http://a.test/", second, payload) };
            assert_eq!(rendered(&*warc, &exchange), whole(), "{status} {truncated:?}");
            warc.exchanges_committed(&[exchange]);
        }
    }
}

#[test]
fn unchanged_response_refers_to_the_previous_visit() {
    let warc = Warc::output("a.warc").unwrap().output;
    let previous_visit = Some(UNIX_EPOCH + Duration::from_secs(5));
    let unchanged = Exchange { status: 304, previous_visit, ..exchange("http://a.test/", 9, b"") };
    assert_eq!(rendered(&*warc, &unchanged), revisit("http://a.test/", "1970-01-01T00:00:05.000Z"));
    let changed = Exchange { previous_visit, ..exchange("http://a.test/", 9, b"new") };
    assert_eq!(rendered(&*warc, &changed), whole());
}

#[test]
fn payloads_of_files_are_known_after_a_resume() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a-00001.warc.gz");
    let before = Warc::output("a.warc.gz").unwrap().output;
    let cut = Exchange { truncated: Some(Truncation::Time), ..exchange("http://a.test/2", 2, b"cut") };
    fs::write(&file, before.render_exchanges(&[exchange("http://a.test/1", 1, b"same"), cut])).unwrap();
    let warc = Warc::output("a.warc").unwrap().output;
    warc.resume(&[file]);
    let again = exchange("http://b.test/", 3, b"same");
    assert_eq!(rendered(&*warc, &again), revisit("http://a.test/1", "1970-01-01T00:00:01.000Z"));
    assert_eq!(rendered(&*warc, &exchange("http://b.test/", 3, b"cut")), whole());
}

#[test]
fn file_needs_a_name_and_options_are_checked() {
    assert!(Warc::output("a.warc.gz").unwrap().output.keeps_requisites());
    assert!(!Warc::output("a.warc.gz,no-requisites").unwrap().output.keeps_requisites());
    for wrong in ["-", "dir/", "..", "a.warc,no-requisites=1", "a.warc,no-requisites,x"] {
        assert!(Warc::output(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn summary_names_what_is_not_archived() {
    let warc = Warc::output("a.warc").unwrap().output;
    warc.files_written(&["a-00001.warc".into()]);
    assert_eq!(warc.summary().unwrap(), "Archived 0 responses; the archive has 1 file, 0 bytes");
    for bodies in [0, 2] {
        warc.exchanges_dropped(DroppedExchanges { bodies, exchanges: 1 });
    }
    let summary = warc.summary().unwrap();
    let expected =
        "not archived, because too many URLs waited for their hosts: the bodies of 2 responses, 2 responses";
    assert!(summary.ends_with(expected), "{summary}");
}
