//! `crawler replay`: modules and outputs on the pages of web archives.

pub mod archives;
mod arguments;
mod damage;
pub mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testweb::Site;

use self::archives::{fetched, gzip, gzipped, page, pages, record, response, text_of, write, zip};
use crate::common::{Ended, Running, binary, executable, serve};
use crate::pipeline::{Pipeline, objects, objects_in, urls};

/// Runs `crawler replay` with arguments that are separated by spaces.
pub fn replay(arguments: &str) -> Ended {
    start(arguments).wait()
}

pub fn start(arguments: &str) -> Running {
    let mut command = binary();
    command.arg("replay").args(arguments.split_whitespace());
    Running::start(command, PathBuf::from("/nowhere"), None)
}

/// Runs `crawler replay` with an archive as its standard input.
fn replay_stdin(archive: &[u8], arguments: &str) -> (i32, String, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), archive).unwrap();
    let mut cat = Command::new("cat").arg(file.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut command = binary();
    command.args(["replay", "-"]).args(arguments.split_whitespace()).stdin(cat.stdout.take().unwrap());
    let output = command.output().unwrap();
    cat.wait().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The pages by URL.
fn by_url(pages: Vec<Value>) -> BTreeMap<String, Value> {
    pages.into_iter().map(|page| (page["url"].as_str().unwrap().to_owned(), page)).collect()
}

/// The outcome of each URL.
fn outcomes(rows: &Path) -> BTreeMap<String, String> {
    let rows = by_url(objects_in(rows));
    rows.into_iter().map(|(url, row)| (url, row["outcome"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn records_become_pages_as_responses_do_in_a_crawl() {
    let directory = TempDir::new().unwrap();
    let html = |word: &str| text_of(word.len() * 1000 + usize::from(word.as_bytes()[0]));
    let html_type = "Content-Type: text/html\r\n";
    let chunks = format!("5\r\n<p>ab\r\n{:x}\r\n{}\r\n0\r\n\r\n", html("chunks").len(), html("chunks"));
    let encoded = |encoding: &str| format!("{html_type}Content-Encoding: {encoding}\r\n");
    let ok = "HTTP/1.1 200 OK";
    let chunked = format!("{html_type}Transfer-Encoding: chunked\r\n");
    let records = [
        record("warcinfo", "", &[], b"software: test\r\n"),
        record("request", "http://a.test/page", &[], b"GET / HTTP/1.1\r\n\r\n"),
        page("http://a.test/page", html("page")),
        record("metadata", "http://a.test/page", &[], b"hops: L\r\n"),
        page("<http://a.test/brackets#part>", html("brackets")),
        page("http://user:secret@A.test:80/x/../upper", html("upper")),
        response("http://a.test/http2", "HTTP/2 200", html_type, html("http2")),
        response("http://a.test/chunks", ok, &chunked, chunks),
        response("http://a.test/no-chunks", ok, &chunked, html("no-chunks")),
        response("http://a.test/gzip", ok, &encoded("gzip"), gzip(html("gzip").as_bytes())),
        response("http://a.test/brotli", ok, &encoded("br"), b"\x0b\x02\x80hello\x03"),
        response("http://a.test/decoded", ok, &encoded("gzip"), html("decoded")),
        response("http://a.test/corrupt", ok, &encoded("gzip"), b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff\xff"),
        response("http://a.test/untyped", ok, "", html("untyped")),
        response("http://a.test/text", ok, "Content-Type: text/plain\r\n", "plain words"),
        response("http://a.test/moved", "HTTP/1.1 301 Moved", "Location: /page#x\r\n", ""),
        response("http://a.test/missing", "HTTP/1.1 404 Not Found", html_type, html("missing")),
        response("http://a.test/empty", "HTTP/1.1 204 No Content", "", ""),
        response("http://a.test/pdf", ok, "Content-Type: application/pdf\r\n", "%PDF-1.4"),
        response("http://a.test/style.css", ok, "Content-Type: text/css\r\n", "a { color: red }"),
        response("http://a.test/robots.txt", ok, "Content-Type: text/plain\r\n", "User-agent: *"),
        record("response", "http://a.test/no-http", &[], b"<p>no head"),
        record(
            "resource",
            "http://a.test/resource",
            &[("Content-Type", "text/html")],
            html("resource").as_bytes(),
        ),
        record("resource", "urn:x-log", &[("Content-Type", "text/plain")], b"log"),
        record(
            "response",
            "dns:a.test",
            &[("Content-Type", "text/dns")],
            b"20261105\na.test. 1 IN A 127.0.0.1\n",
        ),
        record(
            "revisit",
            "http://a.test/again",
            &[("WARC-Refers-To-Target-URI", "http://a.test/page")],
            b"HTTP/1.1 200 OK\r\n\r\n",
        ),
        record("revisit", "http://a.test/page", &[], b"HTTP/1.1 200 OK\r\n\r\n"),
        page("http://a.test/page", "<p>captured once more"),
        page("http://a.test/copy", html("page")),
        record("conversion", "http://a.test/page", &[], b"page"),
        record("continuation", "http://a.test/page", &[], b"rest"),
        record("else", "http://a.test/page", &[], b""),
    ];
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&records));
    let rows = directory.path().join("urls.jsonl");
    let arguments = format!(
        "{archive} --module jsonl=-,fields=url,title,depth,fetched,links,text,status --module urls={}",
        rows.display()
    );
    let ended = replay(&arguments).expect(0);
    let found = by_url(objects(&ended.stdout));
    let expected = [
        "page",
        "brackets",
        "upper",
        "http2",
        "chunks",
        "no-chunks",
        "gzip",
        "brotli",
        "decoded",
        "untyped",
        "text",
        "resource",
    ];
    let expected: BTreeSet<String> = expected.iter().map(|name| format!("http://a.test/{name}")).collect();
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), expected);
    let page = &found["http://a.test/page"];
    assert_eq!((&page["fetched"], &page["depth"]), (&json!("2026-11-05T06:07:08.000Z"), &json!(0)));
    assert!(found["http://a.test/chunks"]["text"].as_str().unwrap().starts_with("ab"), "{found:?}");
    assert_eq!(found["http://a.test/brotli"]["text"], "hello");
    let outcomes = outcomes(&rows);
    for (name, outcome) in [
        ("page", "page"),
        ("moved", "redirect"),
        ("missing", "HTTP 404"),
        ("empty", "not a page"),
        ("pdf", "not a page"),
        ("style.css", "not a page"),
        ("corrupt", "invalid response"),
        ("no-http", "invalid response"),
        ("again", "duplicate"),
    ] {
        assert_eq!(outcomes[&format!("http://a.test/{name}")], outcome, "{name}");
    }
    assert!(
        ["duplicate", "near-duplicate"].contains(&outcomes["http://a.test/copy"].as_str()),
        "{outcomes:?}"
    );
    assert_eq!(outcomes.len(), expected.len() + 9);
    let rows = by_url(objects_in(&rows));
    assert_eq!(rows["http://a.test/moved"]["redirect"], "http://a.test/page");
    assert_eq!(rows["http://a.test/missing"]["done"], "2026-11-05T06:07:08.000Z");
    for part in ["Records           32   not used: ", "not http or https 2", "repeated URL 1", "revisit 1"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

#[test]
fn all_forms_of_an_archive_give_the_same_outputs() {
    let directory = TempDir::new().unwrap();
    let records = pages(0..60);
    let (plain, compressed) = (records.concat(), gzipped(&records));
    let entries = [("datapackage.json", &b"{}"[..]), ("archive/a.warc.gz", &compressed[..])];
    let expected = directory.path().join("expected.jsonl");
    let first = write(directory.path(), "plain.warc", &plain);
    replay(&format!("{first} --module jsonl={}", expected.display())).expect(0);
    let expected = fs::read_to_string(expected).unwrap();
    assert_eq!(objects(&expected).len(), 60);
    let order: Vec<String> =
        objects(&expected).iter().map(|page| page["url"].as_str().unwrap().to_owned()).collect();
    assert_eq!(order, (0..60).map(|number| format!("http://a.test/{number}")).collect::<Vec<_>>());
    for (name, bytes) in [
        ("members.warc.gz", compressed.clone()),
        ("one-member.warc.gz", gzip(&plain)),
        ("stored.wacz", zip(&entries, false)),
        ("deflated.wacz", zip(&entries, true)),
    ] {
        let archive = write(directory.path(), name, &bytes);
        for threads in [1, 4] {
            let output = directory.path().join(format!("{name}.{threads}.jsonl"));
            replay(&format!("{archive} --threads {threads} --module jsonl={}", output.display())).expect(0);
            assert_eq!(fs::read_to_string(output).unwrap(), expected, "{name} with {threads} threads");
        }
    }
    for bytes in [plain, compressed] {
        let (status, stdout, stderr) = replay_stdin(&bytes, "--threads 1 --module jsonl=-");
        assert_eq!((status, stdout.as_str()), (0, expected.as_str()), "{stderr}");
    }
}

#[test]
fn several_archives_are_read_at_once_in_a_fixed_order() {
    let directory = TempDir::new().unwrap();
    let archives: Vec<String> = (0..12)
        .map(|number| {
            let records = pages(number * 100..number * 100 + 10 + number * 5);
            write(directory.path(), &format!("{number}.warc.gz"), &gzipped(&records))
        })
        .collect();
    let mut outputs = BTreeSet::new();
    for (run, threads) in [1, 2, 5, 5].into_iter().enumerate() {
        let path = |name: &str| directory.path().join(format!("{run}.{name}"));
        let (lines, edges, markdown) = (path("jsonl"), path("csv"), path("pages"));
        let outputs_of_run = format!(
            "--module jsonl={} --module edges={} --module markdown={}",
            lines.display(),
            edges.display(),
            markdown.display()
        );
        let ended = replay(&format!("{} --threads {threads} {outputs_of_run}", archives.join(" "))).expect(0);
        assert!(ended.stdout.contains("Archives          12"), "{}", ended.stdout);
        assert_eq!(urls(&objects_in(&lines)).len(), (0..12).map(|number| 10 + number * 5).sum::<usize>());
        let last = fs::read_to_string(markdown.join("100.md")).unwrap();
        outputs.insert((fs::read_to_string(lines).unwrap(), fs::read_to_string(edges).unwrap(), last));
    }
    assert_eq!(outputs.len(), 1, "the outputs depend on the threads");
}

#[test]
fn outputs_equal_those_of_a_crawl_of_the_same_site() {
    let directory = TempDir::new().unwrap();
    let web = serve(Site::seeded(7, 60));
    let path = |name: &str| directory.path().join(name);
    let fields = "url,status,title,language,canonical,content_type,bytes,truncated,robots,links,text";
    let modules = |prefix: &str| {
        let file = |name: &str| path(&format!("{prefix}.{name}")).display().to_string();
        format!(
            "--similarity 0 --module jsonl={},fields={fields} --module edges={} --module extract={},title=title,links[]=a@href \
             --module parquet={},fields=url,title --module urls={} --module words=5",
            file("jsonl"),
            file("edges"),
            file("extract"),
            file("parquet"),
            file("urls.jsonl")
        )
    };
    let crawled = Pipeline::of(web.url("/")).with("--scope host").with(&modules("crawl")).run().expect(0);
    let mut outcomes_of_crawl = outcomes(&path("crawl.urls.jsonl"));
    for outcome in outcomes_of_crawl.values_mut().filter(|outcome| *outcome == "redirect out of scope") {
        // An archive has no scope.
        *outcome = "redirect".into();
    }
    let records: Vec<Vec<u8>> = outcomes_of_crawl.keys().map(|url| fetched(url)).collect();
    assert!(records.len() > 60);
    let archive = write(directory.path(), "site.warc.gz", &gzipped(&records));
    let replayed = replay(&format!("{archive} {}", modules("replay"))).expect(0);
    let sorted = |name: &str| {
        let mut lines: Vec<String> =
            fs::read_to_string(path(name)).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for name in ["jsonl", "edges", "extract"] {
        assert_eq!(sorted(&format!("replay.{name}")), sorted(&format!("crawl.{name}")), "{name}");
    }
    assert_eq!(outcomes(&path("replay.urls.jsonl")), outcomes_of_crawl);
    assert!(path("replay.parquet").is_file() && !path("replay.parquet.records").exists());
    let words = |ended: &Ended| ended.stdout.lines().filter(|line| line.contains("words")).count();
    assert_eq!(words(&replayed), words(&crawled));
}

#[test]
fn mirror_has_pages_and_their_files() {
    let directory = TempDir::new().unwrap();
    let ok = "HTTP/1.1 200 OK";
    let records = [
        page("http://a.test/", "<link rel=stylesheet href=style.css><img src=i.png><a href=/two?x=1>two</a>"),
        page("http://a.test/two?x=1", "<p>two"),
        response("http://a.test/style.css", ok, "Content-Type: text/css\r\n", "a { background: url(i.png) }"),
        response("http://a.test/i.png", ok, "Content-Type: image/png\r\n", b"\x89PNG\r\n\x1a\nimage"),
    ];
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&records));
    let mirror = directory.path().join("mirror");
    let ended = replay(&format!("{archive} --module mirror={}", mirror.display())).expect(0);
    assert!(ended.stdout.contains("Requisites         2"), "{}", ended.stdout);
    let start = fs::read_to_string(mirror.join("a.test/index.html")).unwrap();
    assert!(start.contains("style.css") && !start.contains("/two?x=1"), "{start}");
    assert!(mirror.join("a.test/i.png").is_file() && mirror.join("a.test/style.css").is_file());
}

#[test]
fn program_gets_each_page_once() {
    let directory = TempDir::new().unwrap();
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&pages(0..50)));
    let lines = directory.path().join("lines");
    let mut command = binary();
    command
        .args(["replay", &archive, "--threads", "1", "--module"])
        .arg(format!("exec=cat > {}", lines.display()));
    Running::start(command, PathBuf::from("/nowhere"), None).wait().expect(0);
    assert_eq!(urls(&objects_in(&lines)).len(), 50);
}

#[test]
fn interrupted_replay_leaves_whole_pages() {
    let directory = TempDir::new().unwrap();
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&pages(0..2_000)));
    let output = directory.path().join("pages.jsonl");
    let lines = directory.path().join("lines");
    let mut command = binary();
    // The program reads slowly, so that the replay does not end before the signal.
    let program = format!("exec=while read -r line; do echo x >> {}; sleep 0.01; done", lines.display());
    command
        .args(["replay", &archive, "--module"])
        .arg(program)
        .arg("--module")
        .arg(format!("jsonl={}", output.display()));
    let mut running = Running::start(command, PathBuf::from("/nowhere"), None);
    running.until("the first page", |_| lines.is_file());
    running.signal(rustix::process::Signal::INT);
    let ended = running.wait().expect(130);
    assert!(ended.stderr.contains("stopping; "), "{}", ended.stderr);
    let text = fs::read_to_string(&output).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    assert!(urls(&objects(&text)).len() < 2_000);
}

#[test]
fn replay_stops_while_it_waits_for_standard_input() {
    let directory = TempDir::new().unwrap();
    let output = directory.path().join("pages.jsonl");
    let mut command = binary();
    command.args(["replay", "-", "--module", &format!("jsonl={}", output.display())]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More than is buffered, so that some of it is written before the rest.
    stdin.write_all(&pages(0..500).concat()).unwrap();
    while fs::metadata(&output).map_or(0, |file| file.len()) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
    assert!(!urls(&objects_in(&output)).is_empty());
}

#[test]
fn reader_of_standard_output_may_close_it() {
    let directory = TempDir::new().unwrap();
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&pages(0..3_000)));
    let mut command = Command::new("sh");
    command.args(["-c", "\"$@\" | head -n 1; echo done", "sh", &executable(), "replay", &archive]);
    command.args(["--module", "jsonl=-", "--quiet"]);
    let ended = Running::start(command, PathBuf::from("/nowhere"), None).wait().expect(0);
    assert_eq!((ended.stdout.lines().count(), ended.stderr.as_str()), (2, ""));
}
