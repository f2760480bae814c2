//! `crawler wacz`: what is in the file, and what its readers make of it.

use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

use super::crawler;
use crate::archive_judges::python_program;
use crate::pipeline::objects;
use crate::replay::archives::{gzip, gzipped, page, pages, record, response, write};

/// The entries of a WACZ file, which are stored: found by their names.
fn entry(file: &[u8], name: &str) -> Vec<u8> {
    let find = |needle: &[u8]| file.windows(needle.len()).position(|window| window == needle);
    // The local header: 30 bytes, the name, further fields, the content.
    let start = find(name.as_bytes()).unwrap_or_else(|| panic!("no entry {name}")) - 30;
    let number = |at: usize, length: usize| {
        file[start + at..start + at + length].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    assert_eq!((number(0, 4), number(8, 2)), (0x0403_4B50, 0), "{name} is stored");
    let content = start + 30 + number(26, 2) + number(28, 2);
    file[content..content + number(22, 4)].to_vec()
}

#[test]
fn wacz_has_the_archives_and_the_titles_of_their_pages() {
    let directory = TempDir::new().unwrap();
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    let html = "Content-Type: text/html\r\nContent-Encoding: gzip\r\n";
    let records = [
        page("http://a.test/", "<title>Start &amp; \u{e9}nd</title>"),
        response("http://a.test/gzip", "HTTP/1.1 200 OK", html, gzip(b"<title>Compressed</title>")),
        response(
            "http://a.test/missing",
            "HTTP/1.1 404 Not Found",
            "Content-Type: text/html\r\n",
            "<title>No",
        ),
        response("http://a.test/x.png", "HTTP/1.1 200 OK", "Content-Type: image/png\r\n", "x"),
        page("http://a.test/untitled", "<p>no title"),
        record("revisit", "http://a.test/again", &[], head),
        // Readers would show it as an empty page, instead of the page to which it refers.
        record("revisit", "http://a.test/", &[], b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    ];
    let (first, second) = (gzipped(&records), pages(0..3).concat());
    let archives = [write(directory.path(), "a.warc.gz", &first), write(directory.path(), "b.warc", &second)];
    let wacz = directory.path().join("site.wacz");
    let ended = crawler(&format!("wacz {} -o {}", archives.join(" "), wacz.display())).expect(0);
    assert_eq!(ended.stdout, "indexed 9 captures of 10 records with 7 pages\n");
    let file = fs::read(&wacz).unwrap();
    assert!(entry(&file, "archive/a.warc.gz") == first && entry(&file, "archive/b.warc") == second);
    let list = objects(&String::from_utf8(entry(&file, "pages/pages.jsonl")).unwrap());
    assert_eq!(list[0]["format"], "json-pages-1.0");
    let listed: Vec<(&str, Option<&str>)> =
        list[1..].iter().map(|page| (page["url"].as_str().unwrap(), page["title"].as_str())).collect();
    let expected = [
        ("http://a.test/", Some("Start & \u{e9}nd")),
        ("http://a.test/gzip", Some("Compressed")),
        ("http://a.test/untitled", None),
        ("http://a.test/again", None),
        ("http://a.test/0", Some("Page 0")),
        ("http://a.test/1", Some("Page 1")),
        ("http://a.test/2", Some("Page 2")),
    ];
    assert_eq!(listed, expected);
    assert_eq!(list[1]["ts"], "2026-11-05T06:07:08Z");
    let package: Value = serde_json::from_slice(&entry(&file, "datapackage.json")).unwrap();
    assert_eq!((&package["wacz_version"], &package["title"]), (&"1.1.1".into(), &"site".into()));
    assert_eq!(package["mainPageUrl"], "http://a.test/");
    assert_eq!(package["resources"].as_array().unwrap().len(), 5);
    let mut index = String::new();
    GzDecoder::new(&entry(&file, "indexes/index.cdx.gz")[..]).read_to_string(&mut index).unwrap();
    assert!(index.lines().count() == 9 && !index.contains("304"), "{index}");
    let summary = String::from_utf8(entry(&file, "indexes/index.idx")).unwrap();
    assert!(summary.starts_with("!meta 0 {"), "{summary}");
    assert!(summary.contains("\ntest,a)/ 20261105060708 {"), "{summary}");
    let read =
        |arguments: &str| crawler(&format!("replay {arguments} --module jsonl=- --quiet")).expect(0).stdout;
    assert_eq!(read(&format!("{} --threads 1", wacz.display())).lines().count(), 6);
}

#[test]
fn what_readers_could_not_open_is_refused() {
    let directory = TempDir::new().unwrap();
    let wacz = directory.path().join("site.wacz");
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&pages(0..2)));
    fs::create_dir(directory.path().join("other")).unwrap();
    let same_name = write(&directory.path().join("other"), "a.warc.gz", &gzipped(&pages(2..4)));
    let other_name = write(directory.path(), "a.gz", &gzipped(&pages(0..2)));
    let shared = write(directory.path(), "shared.warc.gz", &gzip(&pages(0..2).concat()));
    for (archives, cause) in [
        (format!("{archive} {same_name}"), "another archive has the same name"),
        (other_name, "expect names that end in .warc or .warc.gz"),
        (shared, "do not have compressed members of their own"),
    ] {
        let refused = crawler(&format!("wacz {archives} -o {}", wacz.display())).expect(1);
        assert!(refused.stderr.contains(cause), "{}", refused.stderr);
        assert!(!wacz.exists());
    }
}

#[test]
#[ignore = "needs the Python package wacz: run by make test"]
fn wacz_is_valid_for_its_validator() {
    let directory = TempDir::new().unwrap();
    let first = write(directory.path(), "Some Name.warc.gz", &gzipped(&pages(0..3_000)));
    let second = write(directory.path(), "b.warc", &pages(3_000..3_010).concat());
    let wacz = directory.path().join("site.wacz").display().to_string();
    let mut command = crate::common::binary();
    command.args(["wacz", &first, &second, "--output", &wacz]);
    assert!(command.status().unwrap().success());
    let said = python_program("wacz", &["validate", "-f", &wacz]);
    assert!(said.contains("Validation succeeded"), "{said}");
}
