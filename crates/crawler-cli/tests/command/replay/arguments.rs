//! The options of `crawler replay`, and what it refuses.

use std::fs;

use tempfile::TempDir;

use super::archives::{gzip, page, pages, response, text_of, write, zip};
use super::{by_url, replay, replay_stdin};
use crate::pipeline::objects;

#[test]
fn options_choose_pages() {
    let directory = TempDir::new().unwrap();
    let mut records = pages(0..30);
    records.push(page("http://a.test/copy", text_of(3) + "<p>nearly"));
    records.push(response(
        "http://a.test/pdf",
        "HTTP/1.1 200 OK",
        "Content-Type: application/pdf\r\n",
        "%PDF-1.4",
    ));
    records.push(page("http://a.test/large", format!("<title>Large</title>{}", "word ".repeat(10_000))));
    let archive = write(directory.path(), "a.warc", &records.concat());
    let found = |options: &str| {
        let ended = replay(&format!("{archive} --module jsonl=-,fields=url,truncated {options}")).expect(0);
        by_url(objects(&ended.stdout))
    };
    assert_eq!(found("").len(), 31);
    assert_eq!(found("--similarity 0").len(), 32);
    assert_eq!(found("--accept application/pdf").len(), 32);
    assert_eq!(found("--include /1[0-9]$").len(), 10);
    assert_eq!(found("--exclude /1[0-9]$").len(), 21);
    assert_eq!(found("--max-pages 7").len(), 7);
    assert_eq!(found("--max-page-bytes 1000 --include large")["http://a.test/large"]["truncated"], true);
    assert_eq!(found("--max-page-bytes 1000 --oversize drop").len(), 30);
    let limited = replay(&format!("{archive} --max-pages 7")).expect(0);
    assert!(limited.stdout.contains("Stopped: 7 pages (--max-pages)"), "{}", limited.stdout);
}

#[test]
fn outputs_are_not_overwritten_unless_asked() {
    let directory = TempDir::new().unwrap();
    let archive = write(directory.path(), "a.warc", &pages(0..5).concat());
    let output = directory.path().join("pages.jsonl");
    let arguments = format!("{archive} --module jsonl={}", output.display());
    replay(&arguments).expect(0);
    let first = fs::read(&output).unwrap();
    let refused = replay(&arguments).expect(2);
    assert!(refused.stderr.contains("--overwrite"), "{}", refused.stderr);
    assert_eq!(fs::read(&output).unwrap(), first);
    replay(&format!("{arguments} --overwrite")).expect(0);
    assert_eq!(fs::read(&output).unwrap(), first);
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let directory = TempDir::new().unwrap();
    let archive = write(directory.path(), "a.warc", &pages(0..1).concat());
    let empty_zip = write(directory.path(), "a.zip", &zip(&[("index.html", b"<p>")], false));
    let truncated_zip = write(directory.path(), "truncated.wacz", b"PK\x03\x04truncated");
    let directory_name = directory.path().display().to_string();
    for (arguments, message) in [
        (format!("{archive}.missing"), "cannot read archive"),
        (directory_name, "cannot read archive"),
        (empty_zip, "without WARC files"),
        (truncated_zip, "its zip directory is damaged"),
        ("- -".to_owned(), "is named twice"),
        (format!("{archive} --module check=report.txt"), "use 'crawler check'"),
        (format!("{archive} --module jsonl=- --module edges=-"), "both write to standard output"),
        (format!("{archive} --similarity 2"), "--similarity"),
        (format!("{archive} --include ("), "--include"),
        (String::new(), "ARCHIVE"),
    ] {
        let refused = replay(&arguments).expect(2);
        assert!(refused.stderr.contains(message), "{arguments}: {}", refused.stderr);
    }
    let arc = write(
        directory.path(),
        "a.arc.gz",
        &gzip(b"filedesc://a.arc 0.0.0.0 20260101000000 text/plain 20\n"),
    );
    let refused = replay(&format!("{arc} {archive}")).expect(5);
    assert!(
        refused.stderr.contains("it is an ARC file") && refused.stdout.contains("Pages              1"),
        "{}",
        refused.stderr
    );
    let (status, _, stderr) = replay_stdin(&zip(&[("a.warc", b"")], false), "");
    assert!(status == 1 && stderr.contains("which can only be read by its name"), "{status}: {stderr}");
    let nothing = write(directory.path(), "nothing.warc", b"");
    assert!(replay(&nothing).expect(1).stderr.contains("no pages found"));
}
