//! How a crawl of many hosts ends: exit status, signals, readers who go away, disks that are full.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testweb::{Answer, Request, Site, Web};

use crate::common::{Running, counts, linking_to, serve};
use crate::pipeline::{Pipeline, adds_up, objects_in};

/// A front page with links to ten other hosts, each of which takes this long.
fn slow_web(time: Duration) -> Web {
    serve(Site::new().otherwise(move |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        if request.host() == "127.0.0.1" {
            let links: Vec<String> = (0..10).map(|n| format!("http://h{n}.test:{port}/")).collect();
            return Answer::page(linking_to(&links.iter().map(String::as_str).collect::<Vec<_>>()));
        }
        Answer::page(request.authority.clone()).after(time)
    }))
}

/// Starts a crawl with four in flight, and waits until they are.
fn with_four_in_flight(web: &Web, crawl: Pipeline) -> Running {
    let mut crawl = crawl.with("--workers 2 --concurrency 2 --timeout 2m").start();
    crawl.until("four requests", |_| web.hits() >= 5);
    crawl
}

#[test]
fn the_first_signal_lets_what_is_in_flight_finish() {
    let directory = tempfile::tempdir().unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let web = slow_web(Duration::from_millis(700));
        let [lines, summary] = ["lines", "summary"].map(|name| directory.path().join(name));
        let crawl = Pipeline::of(web.url("/")).module("jsonl", &lines).with("--overwrite --summary");
        let crawl = with_four_in_flight(&web, crawl.with_one(summary.display().to_string()));
        crawl.signal(signal);
        let ended = crawl.wait().expect(code);
        assert_eq!(web.hits(), 5, "nothing new is begun");
        assert_eq!(ended.outcomes(), counts(&[("kept", 5), ("not reached before the end", 6)]));
        assert!(ended.stderr.contains("finishing what is in flight"), "{}", ended.stderr);
        assert!(ended.stdout.contains("ended because it was told to stop"), "{}", ended.stdout);
        assert_eq!(objects_in(&lines).len(), 5);
        let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(summary).unwrap()).unwrap();
        adds_up(&summary);
        assert_eq!((&summary["end"], summary["outstanding"].as_u64()), (&"stopped".into(), Some(6)));
    }
}

#[test]
fn the_second_signal_ends_at_once() {
    let web = slow_web(Duration::from_secs(60));
    let mut crawl = with_four_in_flight(&web, Pipeline::of(web.url("/")));
    crawl.signal(Signal::INT);
    crawl.until_it_says("finishing");
    let begun = Instant::now();
    crawl.signal(Signal::TERM);
    crawl.wait().expect(143);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_signal_does_not_wait_for_a_delay() {
    let web = serve(Site::seeded(5, 50));
    let mut crawl = Pipeline::of(web.url("/")).with("--delay 1h").start();
    crawl.until("the first answer", |_| web.log().first().is_some_and(|hit| hit.ended.is_some()));
    let begun = Instant::now();
    crawl.signal(Signal::INT);
    crawl.wait().expect(130);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_crawl_that_keeps_nothing_is_an_error_that_says_why() {
    let web = serve(Site::new().robots("User-agent: *\nDisallow: /forbidden").redirect("/moved", "/missing"));
    for (path, words) in [
        ("/missing", "/missing: HTTP status 404"),
        ("/moved", "/missing: HTTP status 404"),
        ("/forbidden", "disallowed by robots.txt; give --ignore-robots if the site is yours"),
    ] {
        for option in ["", "-v", "-q", "--progress json"] {
            let ended = Pipeline::bare(web.url(path)).with(option).run().expect(1);
            let complaint = ended.stderr.lines().last().unwrap();
            assert!(complaint.starts_with("crawler: no page was kept; http://127.0.0.1:"), "{complaint}");
            assert!(complaint.ends_with(words), "{complaint}");
        }
    }
}

#[test]
fn a_file_that_cannot_grow_is_told_and_the_crawl_goes_on() {
    let web = serve(Site::seeded(6, 60));
    let directory = tempfile::tempdir().unwrap();
    // Blocks of 512 bytes: less than the pages take.
    let ended = Pipeline::of(web.url("/"))
        .with("--similarity 0 --scope host")
        .module("jsonl", &directory.path().join("lines"))
        .in_shell("ulimit -f 8 && exec \"$@\"")
        .run()
        .expect(3);
    assert!(ended.stderr.contains("crawler: not everything could be written: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("lines"), "{}", ended.stderr);
    assert_eq!(ended.outcomes()["kept"], 60);
}

#[test]
fn a_summary_file_that_cannot_be_written_is_told() {
    let web = slow_web(Duration::from_millis(300));
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("here");
    std::fs::create_dir(&place).unwrap();
    let file = place.join("summary").display().to_string();
    let mut crawl = Pipeline::of(web.url("/")).with("--summary").with_one(file).start();
    crawl.until("the first request", |_| web.hits() > 1);
    std::fs::remove_dir_all(&place).unwrap();
    let ended = crawl.wait().expect(3);
    assert!(ended.stderr.starts_with("crawler: cannot write the summary to '"), "{}", ended.stderr);
}

#[test]
fn a_reader_who_goes_away_does_not_break_the_crawl() {
    let web = serve(Site::seeded(15, 100));
    for options in ["-v", "--module jsonl=-"] {
        let before = web.hits();
        let crawl = Pipeline::of(web.url("/")).with("--scope host").with(options);
        let mut child = crawl.command().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("127.0.0.1"), "{line}");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{options}");
        assert!(web.hits() - before >= 100);
    }
}

#[test]
fn what_cannot_be_printed_is_an_error() {
    let web = serve(Site::new().page("/", "x"));
    for (options, code) in [("", 1), ("--module jsonl=-", 3)] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = Pipeline::of(web.url("/")).with(options).command().stdout(full).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains("cannot write to standard output"), "{told}");
    }
}

#[test]
fn the_exit_status_is_right_also_when_nobody_listens() {
    let web = serve(Site::new());
    for (seed, code) in [(web.url("/missing"), 1), ("ftp://127.0.0.1/".into(), 2)] {
        let mut child =
            Pipeline::of(seed).command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}
