//! How a pipeline stops: exit status, signals, closed pipes, full disks.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testweb::{Request, Response, Site, Web};

use crate::common::{Running, counts, linking_to, serve};
use crate::pipeline::{Pipeline, adds_up, objects_in};

/// A front page with links to ten other hosts whose responses take this long.
fn slow_web(time: Duration) -> Web {
    serve(Site::new().fallback(move |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        if request.host() == "127.0.0.1" {
            let links: Vec<String> = (0..10).map(|n| format!("http://h{n}.test:{port}/")).collect();
            return Response::page(linking_to(&links.iter().map(String::as_str).collect::<Vec<_>>()));
        }
        Response::page(request.authority.clone()).delay(time)
    }))
}

/// Starts a crawl and waits until four requests are in flight.
fn with_four_in_flight(web: &Web, crawl: Pipeline) -> Running {
    let mut crawl = crawl.with("--workers 2 --concurrency 2 --timeout 2m").start();
    crawl.until("four requests", |_| web.hits() >= 5);
    crawl
}

#[test]
fn first_signal_lets_requests_in_flight_finish() {
    let directory = tempfile::tempdir().unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let web = slow_web(Duration::from_millis(700));
        let [lines, summary] = ["lines", "summary"].map(|name| directory.path().join(name));
        let crawl = Pipeline::of(web.url("/")).module("jsonl", &lines).with("--overwrite --summary");
        let crawl = with_four_in_flight(&web, crawl.with_one(summary.display().to_string()));
        crawl.signal(signal);
        let ended = crawl.wait().expect(code);
        assert_eq!(web.hits(), 5, "no new request is sent");
        assert_eq!(ended.outcomes(), counts(&[("page", 5), ("not reached", 6)]));
        assert!(ended.stderr.contains(" in flight; "), "{}", ended.stderr);
        assert!(ended.stdout.ends_with("\nStopped: on request\n"), "{}", ended.stdout);
        assert_eq!(objects_in(&lines).len(), 5);
        let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(summary).unwrap()).unwrap();
        adds_up(&summary);
        assert_eq!((&summary["stopped_by"], &summary["not_reached"]), (&"request".into(), &6.into()));
        assert_eq!(summary["requests"], web.hits());
    }
}

#[test]
fn second_signal_exits_at_once() {
    let web = slow_web(Duration::from_secs(60));
    let mut crawl = with_four_in_flight(&web, Pipeline::of(web.url("/")));
    crawl.signal(Signal::INT);
    crawl.until_message("press Ctrl-C again to stop now");
    let started = Instant::now();
    crawl.signal(Signal::TERM);
    crawl.wait().expect(143);
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn signal_does_not_wait_for_a_delay() {
    let web = serve(Site::seeded(5, 50));
    let mut crawl = Pipeline::of(web.url("/")).with("--delay 1h").start();
    crawl.until("the first response", |_| web.log().first().is_some_and(|hit| hit.ended.is_some()));
    let started = Instant::now();
    crawl.signal(Signal::INT);
    crawl.wait().expect(130);
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn crawl_without_pages_fails_and_names_the_reason() {
    let web = serve(Site::new().robots("User-agent: *\nDisallow: /forbidden").redirect("/moved", "/missing"));
    for (path, words) in [
        ("/missing", "/missing: HTTP 404"),
        ("/moved", "/missing: HTTP 404"),
        ("/forbidden", "robots.txt disallows it; use --ignore-robots if the site is yours"),
    ] {
        for option in ["", "-v", "-q", "--progress json"] {
            let ended = Pipeline::bare(web.url(path)).with(option).run().expect(1);
            let complaint = ended.stderr.lines().last().unwrap();
            assert!(complaint.starts_with("crawler: no pages crawled; http://127.0.0.1:"), "{complaint}");
            assert!(complaint.ends_with(words), "{complaint}");
        }
    }
}

#[test]
fn output_that_cannot_grow_is_reported_and_the_crawl_continues() {
    let web = serve(Site::seeded(6, 60));
    let directory = tempfile::tempdir().unwrap();
    // In blocks of 512 bytes: less than the pages need.
    let ended = Pipeline::of(web.url("/"))
        .with("--similarity 0 --scope host")
        .module("jsonl", &directory.path().join("lines"))
        .in_shell("ulimit -f 8 && exec \"$@\"")
        .run()
        .expect(3);
    assert!(ended.stderr.contains("crawler: cannot write all pages: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("lines"), "{}", ended.stderr);
    assert_eq!(ended.outcomes()["page"], 60, "{}", ended.stdout);
}

#[test]
fn unwritable_summary_file_is_reported() {
    let web = slow_web(Duration::from_millis(300));
    let directory = tempfile::tempdir().unwrap();
    let output_dir = directory.path().join("here");
    std::fs::create_dir(&output_dir).unwrap();
    let file = output_dir.join("summary").display().to_string();
    let mut crawl = Pipeline::of(web.url("/")).with("--summary").with_one(file).start();
    crawl.until("the first request", |_| web.hits() > 1);
    std::fs::remove_dir_all(&output_dir).unwrap();
    let ended = crawl.wait().expect(3);
    assert!(ended.messages().starts_with("crawler: cannot write the summary to '"), "{}", ended.stderr);
}

#[test]
fn closed_pipe_does_not_stop_a_crawl_that_has_another_module() {
    let web = serve(Site::seeded(15, 100));
    for options in ["-v --module words", "--module jsonl=- --module noop"] {
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
fn failed_print_is_an_error() {
    let web = serve(Site::new().page("/", "x"));
    for (options, code) in [("", 1), ("--module jsonl=-", 3)] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = Pipeline::of(web.url("/")).with(options).command().stdout(full).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{printed}");
        assert!(printed.contains("cannot write to standard output"), "{printed}");
    }
}

#[test]
fn exit_status_is_right_with_closed_streams() {
    let web = serve(Site::new());
    for (seed, code) in [(web.url("/missing"), 1), ("ftp://127.0.0.1/".into(), 2)] {
        let mut child =
            Pipeline::of(seed).command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}
