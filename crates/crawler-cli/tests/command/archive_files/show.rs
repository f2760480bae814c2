//! `crawler show URL --archive FILE…`: which capture of a URL is printed.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::crawler;
use crate::replay::archives::{gzip, gzipped, page, pages, record, response, text_of, write, zip};

/// A record that was captured at another time.
fn at(date: &str, record: Vec<u8>) -> Vec<u8> {
    let place = record.windows(10).position(|window| window == b"2026-11-05").unwrap();
    [&record[..place], date.as_bytes(), &record[place + 20..]].concat()
}

#[track_caller]
fn shown(url: &str, arguments: &str) -> String {
    crawler(&format!("show {url} --archive {arguments}")).expect(0).stdout
}

#[test]
fn newest_capture_is_printed_whatever_the_form_of_the_archive() {
    let directory = TempDir::new().unwrap();
    let html = "Content-Type: text/html\r\n";
    let ok = "HTTP/1.1 200 OK";
    let chunked = format!("{html}Transfer-Encoding: chunked\r\n");
    let encoded = format!("{html}Content-Encoding: gzip\r\n");
    let records = [
        at("2026-01-01T00:00:00Z", page("http://a.test/x", "first")),
        at("2026-03-01T00:00:00.5Z", page("http://a.test/x", "second")),
        at("2026-04-01T00:00:00Z", response("http://a.test/x", "HTTP/1.1 404 Not Found", html, "gone")),
        page("http://a.test/X", "upper case"),
        response("http://a.test/chunks", ok, &chunked, "3\r\nabc\r\n0\r\n\r\n"),
        response("http://a.test/gzip", ok, &encoded, gzip(b"decoded")),
        response("http://a.test/not-gzip", ok, &encoded, "stored decoded"),
        response("http://a.test/missing", "HTTP/1.1 404 Not Found", html, "no such page"),
        record("resource", "http://a.test/file", &[("Content-Type", "image/png")], b"PNG"),
    ];
    let (plain, compressed) = (records.concat(), gzipped(&records));
    let entries = [("archive/a.warc.gz", &compressed[..])];
    for (name, bytes) in [
        ("a.warc", plain.clone()),
        ("a.warc.gz", compressed.clone()),
        ("one-member.warc.gz", gzip(&plain)),
        ("stored.wacz", zip(&entries, false)),
        ("deflated.wacz", zip(&entries, true)),
    ] {
        let archive = write(directory.path(), name, &bytes);
        for (url, arguments, body) in [
            ("x", "", "second"),
            ("x", "--at 2026-02-01", "first"),
            ("x", "--at 20260301", "second"),
            ("X", "", "upper case"),
            ("chunks", "", "abc"),
            ("gzip", "", "decoded"),
            ("not-gzip", "", "stored decoded"),
            ("missing", "", "no such page"),
            ("file", "", "PNG"),
        ] {
            let url = format!("http://a.test/{url}");
            assert_eq!(shown(&url, &format!("{archive} {arguments}")), body, "{url} of {name} {arguments}");
        }
        // Another scheme is another URL, but archives take it for the same.
        assert_eq!(shown("https://www.a.test/gzip", &archive), "decoded");
        for (arguments, cause) in [
            (format!("http://a.test/none --archive {archive}"), "the archives have no capture of it"),
            (format!("http://a.test/x --archive {archive} --at 2025"), "no capture of it up to 2025 (--at)"),
        ] {
            let missing = crawler(&format!("show {arguments}")).expect(1);
            assert!(missing.stderr.contains(cause), "{}", missing.stderr);
        }
    }
}

#[test]
fn revisit_gives_the_content_that_it_refers_to() {
    let directory = TempDir::new().unwrap();
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    let refers = |uri: &'static str, date: &'static str| {
        [("WARC-Refers-To-Target-URI", uri), ("WARC-Refers-To-Date", date)]
    };
    let not_modified = b"HTTP/1.1 304 Not Modified\r\n\r\n";
    let originals = [
        at("2026-01-01T00:00:00Z", page("http://a.test/one", "the first version")),
        at("2026-02-01T00:00:00Z", page("http://a.test/one", "the second version")),
    ];
    let revisits = [
        record("revisit", "http://a.test/copy", &refers("http://a.test/one", "2026-01-01T00:00:00Z"), head),
        record(
            "revisit",
            "http://a.test/one",
            &refers("http://a.test/one", "2026-02-01T00:00:00Z"),
            not_modified,
        ),
        record("revisit", "http://a.test/lost", &refers("http://a.test/none", "2026-01-01T00:00:00Z"), head),
    ];
    let originals = write(directory.path(), "originals.warc.gz", &gzipped(&originals));
    let revisits = write(directory.path(), "revisits.warc.gz", &gzipped(&revisits));
    let both = format!("{originals} {revisits}");
    assert_eq!(shown("http://a.test/copy", &both), "the first version");
    assert_eq!(shown("http://a.test/one", &both), "the second version");
    for (url, archives) in [("http://a.test/lost", &both), ("http://a.test/copy", &revisits)] {
        let missing = crawler(&format!("show {url} --archive {archives}")).expect(1);
        assert!(missing.stderr.contains("which these archives do not have"), "{}", missing.stderr);
    }
}

#[test]
fn unchanged_page_gives_the_version_that_the_server_compared() {
    let directory = TempDir::new().unwrap();
    let refers = |uri: &'static str, date: &'static str| {
        [("WARC-Refers-To-Target-URI", uri), ("WARC-Refers-To-Date", date)]
    };
    let (head, not_modified) = (b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n");
    let unchanged =
        |uri: &'static str, of: &'static str| record("revisit", uri, &refers(uri, of), not_modified);
    let [one, copy, lost] = ["http://a.test/one", "http://a.test/copy", "http://a.test/lost"];
    let records = [
        // Two versions within a second.
        at("2026-01-01T00:00:00.25Z", page(one, "the first version")),
        at("2026-01-01T00:00:00.75Z", page(one, "the second version")),
        at("2026-01-02T00:00:00Z", unchanged(one, "2026-01-01T00:00:00.25Z")),
        at("2026-01-03T00:00:00Z", unchanged(one, "2026-01-01T00:00:00.75Z")),
        // The compared capture is a duplicate of another page, and not the older one at its URL.
        at("2026-01-01T00:00:00Z", page(copy, "older, at the same URL")),
        at("2026-01-02T00:00:00.5Z", record("revisit", copy, &refers(one, "2026-01-01T00:00:00.75Z"), head)),
        at("2026-01-03T00:00:00Z", unchanged(copy, "2026-01-02T00:00:00.5Z")),
        at("2026-01-01T00:00:00Z", page(lost, "older, and another version")),
        at("2026-01-03T00:00:00Z", unchanged(lost, "2026-01-02T00:00:00Z")),
    ];
    for (name, bytes) in [("a.warc.gz", gzipped(&records)), ("one-member.warc.gz", gzip(&records.concat()))] {
        let archive = write(directory.path(), name, &bytes);
        assert_eq!(shown(one, &archive), "the second version", "{name}");
        assert_eq!(shown(one, &format!("{archive} --at 2026-01-02")), "the first version", "{name}");
        assert_eq!(shown(copy, &archive), "the second version", "{name}");
        let missing = crawler(&format!("show {lost} --archive {archive}")).expect(1);
        assert!(missing.stderr.contains("name all archives of the crawl"), "{}", missing.stderr);
        assert_eq!(missing.stdout, "", "another version is not the page");
    }
}

#[test]
fn index_next_to_an_archive_is_used_unless_it_is_older() {
    let directory = TempDir::new().unwrap();
    let archive = write(directory.path(), "site-00001.warc.gz", &gzipped(&pages(0..50)));
    let index = directory.path().join("site.cdxj");
    crawler(&format!("index {archive} -o {}", index.display())).expect(0);
    let url = "http://a.test/7";
    assert_eq!(shown(url, &archive), text_of(7));
    let lines = fs::read_to_string(&index).unwrap();
    // Without the line, the page is not found: the archive is not read.
    let without: String = lines.split_inclusive('\n').filter(|line| !line.contains("/7\"")).collect();
    fs::write(&index, without).unwrap();
    crawler(&format!("show {url} --archive {archive}")).expect(1);
    let old = SystemTime::now() - Duration::from_secs(1_000);
    File::options().write(true).open(&index).unwrap().set_modified(old).unwrap();
    assert_eq!(shown(url, &archive), text_of(7));
    // An index that points elsewhere is noticed.
    let moved = lines.replace("\"offset\": \"0\"", "\"offset\": \"77\"");
    fs::write(&index, moved).unwrap();
    let damaged = crawler(&format!("show http://a.test/0 --archive {archive}")).expect(1);
    assert!(damaged.stderr.contains("cannot show http://a.test/0: "), "{}", damaged.stderr);
}

#[test]
fn arguments_of_show_are_checked() {
    for (arguments, cause) in [
        ("http://a.test/", "missing --state <DIR>, --redis <URL> or --archive <FILE>"),
        ("http://a.test/ --archive /nowhere.warc", "cannot read archive '/nowhere.warc'"),
        ("http://a.test/ --archive a.warc --state x", "--state"),
        ("http://a.test/ --archive a.warc --at yesterday", "a date in UTC, like 2026-11-05"),
    ] {
        let refused = crawler(&format!("show {arguments}")).expect(2);
        assert!(refused.stderr.contains(cause), "{arguments}: {}", refused.stderr);
    }
}
