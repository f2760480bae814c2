use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::*;
use crate::modules::output::files::{OutputFiles, Start};
use crate::modules::{OutputSpec, Target, example};

/// Makes a mirror from these writes, and returns its files.
fn mirror(output: Mirror, writes: Vec<OutputWrite>) -> BTreeMap<String, String> {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("mirror");
    let specs = [OutputSpec { output: Box::new(output), target: Target::Directory(target.clone()) }];
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    for (id, write) in (1..).zip(writes) {
        files.apply(id, None, &[(0, write)]).unwrap();
    }
    files.flush().unwrap();
    specs[0].finish().unwrap();
    let (mut found, mut directories) = (BTreeMap::new(), vec![target.clone()]);
    while let Some(directory) = directories.pop() {
        let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let (inner, files): (Vec<PathBuf>, Vec<PathBuf>) = paths.partition(|path| path.is_dir());
        directories.extend(inner);
        let name = |path: &Path| path.strip_prefix(&target).unwrap().to_str().unwrap().to_owned();
        found.extend(files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())));
    }
    found
}

fn page(url: &str, body: &str) -> OutputWrite {
    Mirror::default().render(&example::page(url, body.as_bytes(), &[]))
}

fn image(url: &str) -> OutputWrite {
    let head =
        RecordHead { url: url.into(), content_type: Some("image/png".into()), ..RecordHead::default() };
    OutputWrite::Append(head.write(b"image"))
}

fn alias(url: &str, target: &str) -> OutputWrite {
    let head = RecordHead { url: url.into(), leads_to: Some(target.into()), ..RecordHead::default() };
    OutputWrite::Append(head.write(b""))
}

#[test]
fn links_lead_from_file_to_file() {
    let files = mirror(
        Mirror::default(),
        vec![
            page("http://a.test/", "<a href=/docs/b#c>b</a> <a href=/moved>c</a> <a href=/none>d</a>"),
            page("http://a.test/docs/b", "<a href='..'>up</a> <img src=//b.test/x>"),
            alias("http://a.test/moved", "http://b.test/x"),
            page("http://b.test/x", "<a href='http://a.test/'>a</a>"),
        ],
    );
    let expected = [
        ("a.test/docs/b.html", "<a href=\"../index.html\">up</a> <img src=\"../../b.test/x.html\">"),
        (
            "a.test/index.html",
            "<a href=\"docs/b.html#c\">b</a> <a href=\"../b.test/x.html\">c</a> <a href=\"http://a.test/none\">d</a>",
        ),
        ("b.test/x.html", "<a href=\"../a.test/index.html\">a</a>"),
        (
            "mirror.jsonl",
            "{\"url\":\"http://a.test/docs/b\",\"file\":\"a.test/docs/b.html\"}\n\
             {\"url\":\"http://a.test/\",\"file\":\"a.test/index.html\"}\n\
             {\"url\":\"http://b.test/x\",\"file\":\"b.test/x.html\"}\n",
        ),
    ];
    let expected: BTreeMap<String, String> =
        expected.map(|(name, content)| (name.to_owned(), content.to_owned())).into();
    assert_eq!(files, expected);
}

#[test]
fn last_record_of_a_url_counts_unless_an_earlier_one_is_a_page() {
    let files = mirror(
        Mirror::default(),
        vec![
            alias("http://a.test/x", "http://a.test/y"),
            page("http://a.test/", "<a href=x>"),
            page("http://a.test/x", "first"),
            page("http://a.test/x", "second"),
            alias("http://a.test/x", "http://a.test/y"),
            image("http://a.test/x"),
        ],
    );
    assert_eq!(files["a.test/x.html"], "second");
    assert_eq!(files["a.test/index.html"], "<a href=\"x.html\">");
    assert_eq!(files.len(), 3);
}

#[test]
fn links_are_stripped_as_the_crawl_strips_them() {
    let mut output = Mirror::default();
    output.set_strip_query(&StripQuery::new(&["utm_*", "sid"]).unwrap());
    let link = "<a href='/x?utm_source=a&b=1&sid=2'>";
    let writes = ["http://a.test/", "http://a.test/x?b=1"];
    let writes = writes.map(|url| output.render(&example::page(url, link.as_bytes(), &[])));
    let files = mirror(output.clone(), writes.into());
    assert_eq!(files["a.test/index.html"], "<a href=\"x@b=1.html\">");
}

#[test]
fn redirects_and_duplicates_are_recorded_and_failures_are_not() {
    let mut record = UrlRecord {
        task_url: "http://a.test/x".into(),
        outcome: Outcome::NotReached,
        depth: 0,
        discovery: None,
        retries: 0,
        was_visited: false,
        queued: None,
        request: Default::default(),
        truncated: false,
        done: None,
        page: None,
    };
    let target = || "http://a.test/y".to_owned();
    for (outcome, is_recorded) in [
        (Outcome::Redirect { to: target() }, true),
        (Outcome::Duplicate { of: target(), links_followed: false }, true),
        (Outcome::NearDuplicate { of: target(), links_followed: false }, true),
        (Outcome::HttpStatus { code: 404, retry_after: None }, false),
        (Outcome::Page, false),
    ] {
        record.outcome = outcome;
        let bytes = Mirror::default().render_url(&record);
        assert_eq!(!bytes.is_empty(), is_recorded, "{}", record.outcome);
        assert!(
            !is_recorded
                || bytes.ends_with(b"{\"url\":\"http://a.test/x\",\"leads_to\":\"http://a.test/y\"}\n")
        );
    }
}
