//! How a classic crawl stops early: signals and closed pipes.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testweb::{Response, Site, Web};

use crate::common::{Crawl, Running, counts, linking_to, names, read_page, serve};

/// A front page with forty links whose responses take this long.
fn slow_web(time: Duration) -> Web {
    let paths: Vec<String> = (0..40).map(|n| format!("/{n}")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let page = move |request: &testweb::Request| Response::page(request.path.clone()).delay(time);
    serve(Site::new().page("/", linking_to(&links)).status("/robots.txt", 404).fallback(page))
}

/// Starts a crawl and waits until four requests are in flight.
fn with_four_in_flight(web: &Web) -> Running {
    let mut crawl = Crawl::of(web.url("/")).with("--concurrency 4 --timeout 2m").start();
    crawl.until("four requests", |_| web.hits() >= 6);
    crawl
}

#[test]
fn first_signal_lets_requests_in_flight_finish() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let web = slow_web(Duration::from_millis(700));
        let crawl = with_four_in_flight(&web);
        crawl.signal(signal);
        let ended = crawl.wait().expect(code);
        assert_eq!(web.hits(), 6, "no new request is sent");
        assert_eq!(ended.outcomes(), counts(&[("page", 5), ("not reached", 36)]));
        assert!(ended.stderr.contains("finishing 4 requests in flight; "), "{}", ended.stderr);
        for page in &ended.pages()[1..] {
            assert!(page.url.ends_with(std::str::from_utf8(&page.body).unwrap()), "{page:?}");
        }
        assert_eq!(names(&ended.directory).len(), 5);
    }
}

#[test]
fn second_signal_exits_at_once() {
    let web = slow_web(Duration::from_secs(60));
    let mut crawl = with_four_in_flight(&web);
    crawl.signal(Signal::INT);
    crawl.until_message("press Ctrl-C again to stop now");
    let started = Instant::now();
    crawl.signal(Signal::INT);
    let ended = crawl.wait().expect(130);
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(ended.pages().len(), 1);
    assert_eq!(names(&ended.directory).len(), 1);
}

#[test]
fn signal_does_not_wait_for_a_delay() {
    let web = slow_web(Duration::ZERO);
    let crawl = Crawl::of(web.url("/")).delay("1h").with("--ignore-robots").start();
    stops_soon(crawl, |directory| directory.join("1").exists());
}

#[test]
fn signal_waits_for_neither_crawl_delay_nor_retry_after() {
    let robots = "User-agent: *\nCrawl-delay: 9999\n";
    let web = serve(Site::new().robots(robots).page("/", "x"));
    let crawl = Crawl::of(web.url("/")).start();
    stops_soon(crawl, |_| web.log().first().is_some_and(|hit| hit.ended.is_some()));

    let busy = Response::status(503).header("Retry-After", "200");
    let web = serve(Site::new().status("/robots.txt", 404).response("/", busy));
    let crawl = Crawl::of(web.url("/")).start();
    stops_soon(crawl, |_| web.log().get(1).is_some_and(|hit| hit.ended.is_some()));
}

/// Interrupts a crawl that waits for a long time.
fn stops_soon(mut crawl: Running, waits: impl Fn(&std::path::Path) -> bool) {
    crawl.until("the wait", waits);
    let started = Instant::now();
    crawl.signal(Signal::INT);
    let ended = crawl.wait().expect(130);
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(ended.stdout.contains("\nRequests "));
}

#[test]
fn killed_crawl_leaves_complete_files_and_overwrite_starts_over() {
    let web = serve(Site::seeded(14, 400));
    let truth = web.truth_from(&web.url("/"), 99);
    let directory = tempfile::tempdir().unwrap();
    for moment in [5, 60, 200] {
        let crawl =
            Crawl::of(web.url("/")).into_directory(directory.path()).with("--overwrite --concurrency 4");
        let mut running = crawl.start();
        // There are fewer pages than before until the old ones have been removed.
        running.until("some pages", |directory| web.hits() > moment && names(directory).len() > moment / 2);
        running.signal(Signal::KILL);
        assert_eq!(running.wait().code(), 137);
        let numbered = names(directory.path()).into_iter().filter(|name| *name != ".page.unfinished");
        for name in numbered {
            let page = read_page(&directory.path().join(name));
            assert!(truth[&page.url] == (page.depth, page.body), "{}", page.url);
        }
    }
    let ended = Crawl::of(web.url("/")).into_directory(directory.path()).with("--overwrite").run().expect(0);
    assert_eq!(ended.pages().len(), truth.len());
    assert_eq!(names(directory.path()).len(), truth.len(), "nothing unfinished is left");
}

#[test]
fn closed_pipe_does_not_stop_the_crawl() {
    let web = serve(Site::seeded(15, 200));
    let directory = tempfile::tempdir().unwrap();
    let crawl = Crawl::of(web.url("/")).into_directory(directory.path()).with("-v");
    let mut child = crawl.command().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("Fetched: "), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(names(directory.path()).len(), 200);
}

#[test]
fn exit_status_is_right_with_closed_streams() {
    let web = serve(Site::new());
    let missing = Crawl::of(web.url("/missing"));
    for (crawl, code) in [(missing, 1), (Crawl::of("ftp://127.0.0.1/"), 2)] {
        let mut child = crawl.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

#[test]
fn unprintable_summary_is_an_error_and_the_pages_stay() {
    let web = serve(Site::new().page("/", "x"));
    let directory = tempfile::tempdir().unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        Crawl::of(web.url("/")).into_directory(directory.path()).command().stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("\ncrawler: cannot write to standard output: "), "{printed}");
    assert_eq!(names(directory.path()).len(), 1);
}
