//! `crawler index`: the lines, and that they are those of other indexers.

use std::fs;
use std::process::Command;

use tempfile::TempDir;
use testweb::Site;

use super::crawler;
use crate::archive_judges::python_program;
use crate::common::serve;
use crate::replay::archives::{gzip, gzipped, page, pages, record, response, write, zip};

const TYPE: (&str, &str) = ("Content-Type", "application/http; msgtype=response");

/// Records of every kind, with URLs that indexers could see differently.
fn records() -> Vec<Vec<u8>> {
    let ok = "HTTP/1.1 200 OK";
    let digest = ("WARC-Payload-Digest", "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    vec![
        record("warcinfo", "", &[("Content-Type", "application/warc-fields")], b"software: test\r\n"),
        record("request", "http://a.test/", &[], b"GET / HTTP/1.1\r\n\r\n"),
        page("http://a.test/", "<p>start"),
        page("<http://a.test/brackets>", "<p>brackets"),
        page("http://www.A.test:80/Upper/../x//y/?b=2&a=1&A=0#part", "<p>upper"),
        page("https://b.test:8443/%41%2f%25/\u{e9}\u{1F600}", "<p>escapes"),
        page("http://127.0.0.1:8080/?PHPSESSID=0123456789abcdef0123456789abcdef&q", "<p>session"),
        page("http://a.test/a b", "<p>a space"),
        page("http://a.test/?q={x}\"y\"\\z", "<p>quotes"),
        response("http://a.test/untyped", ok, "", "x"),
        response("http://a.test/typed", ok, "content-type: Text/HTML;charset=x\r\n", ""),
        response("http://a.test/http2", "HTTP/2 200", "content-type: a/b\r\n", "x"),
        response("http://a.test/moved", "HTTP/1.1 301 Moved", "Location: /\r\n", ""),
        record("revisit", "http://a.test/again", &[TYPE, digest], head),
        record("revisit", "http://a.test/again", &[TYPE, digest], b""),
        record("response", "http://a.test/digest", &[TYPE, digest], head),
        record("resource", "http://a.test/file", &[("Content-Type", "image/png")], b"\x89PNG"),
        record("resource", "urn:X-log", &[("Content-Type", "text/plain")], b"log"),
        record("metadata", "http://a.test/", &[("Content-Type", "application/warc-fields")], b"a: b\r\n"),
        record("metadata", "metadata://a.test/log", &[("Content-Type", "text/plain")], b"a: b\r\n"),
        record("response", "dns:a.test", &[("Content-Type", "text/dns")], b"20261105\n"),
        record("conversion", "http://a.test/", &[("Content-Type", "text/plain")], b"text"),
    ]
}

#[test]
fn index_says_where_each_record_is() {
    let directory = TempDir::new().unwrap();
    let records = records();
    let index_of = |name: &str, bytes: &[u8]| {
        let archive = write(directory.path(), name, bytes);
        let ended = crawler(&format!("index {archive}")).expect(0);
        assert!(ended.stderr.contains("indexed 18 captures of 22 records"), "{}", ended.stderr);
        ended.stdout
    };
    let members: Vec<Vec<u8>> = records.iter().map(|record| gzip(record)).collect();
    for (name, parts, trailer) in [("a.warc.gz", &members, 0), ("a.warc", &records, 4)] {
        let index = index_of(name, &parts.concat());
        let mut lines: Vec<&str> = index.lines().collect();
        let offset: usize = parts[..2].iter().map(Vec::len).sum();
        let start = "test,a)/ 20261105060708 {\"url\": \"http://a.test/\", \"mime\": \"text/html\", \"status\": \"200\", \
            \"digest\": \"sha1:";
        let length = parts[2].len() - trailer;
        let end = format!("\"length\": \"{length}\", \"offset\": \"{offset}\", \"filename\": \"{name}\"}}");
        assert!(
            lines.iter().any(|line| line.starts_with(start) && line.ends_with(&end)),
            "{start}…{end}: {index}"
        );
        let sorted = lines.clone();
        lines.sort_by_key(|line| line.as_bytes().to_vec());
        assert_eq!(lines, sorted);
    }
    let plain = index_of("b.warc", &records.concat());
    let wacz = index_of("b.wacz", &zip(&[("archive/b.warc", &records.concat())], true));
    assert_eq!(plain, wacz);
}

#[test]
fn damaged_records_are_left_out_and_shared_members_are_refused() {
    let directory = TempDir::new().unwrap();
    let mut members: Vec<Vec<u8>> = pages(0..5).iter().map(|record| gzip(record)).collect();
    let middle = members[2].len() / 2;
    members[2][middle] ^= 0xFF;
    let undated =
        String::from_utf8(page("http://a.test/undated", "x")).unwrap().replace("WARC-Date", "X-Date");
    members.push(gzip(undated.as_bytes()));
    let archive = write(directory.path(), "a.warc.gz", &members.concat());
    let index = directory.path().join("a.cdxj");
    let ended = crawler(&format!("index {archive} -o {}", index.display())).expect(5);
    assert!(ended.stderr.contains("a.warc.gz: damaged record at byte "), "{}", ended.stderr);
    assert!(ended.stderr.contains("its header has no valid WARC-Date"), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(&index).unwrap().lines().count(), 4);
    let shared = write(directory.path(), "b.warc.gz", &gzip(&pages(0..5).concat()));
    let refused = crawler(&format!("index {shared} -o {} --overwrite", index.display())).expect(1);
    assert!(refused.stderr.contains("do not have compressed members of their own"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&index).unwrap().lines().count(), 4, "the earlier index stays");
    let names = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 3, "nothing else stays");
}

#[test]
fn index_replaces_no_file_unasked() {
    let directory = TempDir::new().unwrap();
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&pages(0..3)));
    let index = write(directory.path(), "a.cdxj", b"precious");
    let refused = crawler(&format!("index {archive} -o {index}")).expect(2);
    assert!(refused.stderr.contains("it already has 8 bytes") && refused.stderr.contains("--overwrite"));
    assert_eq!(fs::read(&index).unwrap(), b"precious");
    crawler(&format!("index {archive} -o {index} --overwrite --quiet")).expect(0);
    assert_eq!(fs::read_to_string(&index).unwrap().lines().count(), 3);
    for (arguments, cause) in [
        (format!("index {archive} -o {archive} --overwrite"), "is one of the archives"),
        ("index -".into(), "cannot use standard input"),
        ("index /nowhere/a.warc".into(), "cannot read archive '/nowhere/a.warc'"),
        ("index".into(), "missing <ARCHIVE>"),
        (format!("wacz {archive}"), "missing --output <FILE>"),
        (format!("wacz {archive} -o -"), "cannot write a WACZ file to standard output"),
    ] {
        let refused = crawler(&arguments).expect(2);
        assert!(refused.stderr.contains(cause), "{arguments}: {}", refused.stderr);
    }
}

#[test]
fn index_that_cannot_be_written_leaves_the_archive() {
    let directory = TempDir::new().unwrap();
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&pages(0..3)));
    let missing = directory.path().join("missing/a.cdxj");
    let refused = crawler(&format!("index {archive} -o {}", missing.display())).expect(2);
    assert!(refused.stderr.contains("cannot write to output file"), "{}", refused.stderr);
    assert!(!fs::read(&archive).unwrap().is_empty());
}

#[test]
#[ignore = "needs wget and the Python packages warcio and cdxj-indexer: run by make test"]
fn index_is_that_of_cdxj_indexer() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let records = records();
    write(directory.path(), "own.warc.gz", &gzipped(&records));
    write(directory.path(), "own.warc", &records.concat());
    let web = serve(Site::seeded(5, 60));
    for options in [&["--warc-file=wget"][..], &["--warc-file=plain", "--no-warc-compression"]] {
        let mut wget = Command::new("wget");
        wget.args(["--quiet", "--recursive", "--level=inf", "--execute=robots=off"]).args(options);
        // It fails where a link is broken.
        wget.arg(web.url("/")).current_dir(directory.path()).env_remove("http_proxy").status().unwrap();
    }
    python_program(
        "python",
        &["-c", crate::replay::programs::WRITE, &directory.path().display().to_string()],
    );
    let archives = ["own.warc.gz", "own.warc", "wget.warc.gz", "plain.warc", "1.0.warc.gz", "1.1.warc"];
    for names in archives.map(|name| vec![name]).into_iter().chain([archives.to_vec()]) {
        let paths: Vec<String> = names.iter().map(|name| path(name)).collect();
        let mut arguments = vec!["--sort"];
        arguments.extend(paths.iter().map(String::as_str));
        let theirs = python_program("cdxj-indexer", &arguments);
        let ours = crawler(&format!("index {}", paths.join(" "))).expect(0).stdout;
        let (theirs, ours): (Vec<&str>, Vec<&str>) = (theirs.lines().collect(), ours.lines().collect());
        assert!(ours.len() >= 18, "{names:?}: {} lines", ours.len());
        for (their, our) in theirs.iter().zip(&ours) {
            assert_eq!(our, their, "{names:?}");
        }
        assert_eq!(ours.len(), theirs.len(), "{names:?}");
    }
}
