//! Politeness, checked with the server's access log.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use testweb::{Certificate, Hostile, Log, Response, Site, Web};

use crate::common::{Crawl, Ended, linking_to, serve};
use crate::pipeline::Pipeline;

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// How late the server may log the start of a request on a busy machine.
const LATE: Duration = milliseconds(80);

#[track_caller]
fn check_gaps(log: &Log, least: Duration) {
    let gap = log.smallest_gap().expect("several requests");
    assert!(gap >= least, "{gap:?} between {:?}", log.paths());
    assert_eq!(log.max_concurrent(), 1);
}

#[test]
fn default_delay_is_one_second_after_the_end_of_a_request() {
    let slow = Response::page("x").delay(milliseconds(300));
    let web = serve(Site::new().page("/", linking_to(&["/missing", "/slow"])).response("/slow", slow));
    Crawl::of(web.url("/")).default_delay().run().expect(0);
    assert_eq!(web.log().paths(), ["/robots.txt", "/", "/missing", "/slow"]);
    check_gaps(&web.log(), Duration::from_secs(1));
}

#[test]
fn delay_also_applies_after_failures_retries_redirects_and_robots_txt() {
    let robots = Response::sequence(vec![Response::status(500), Response::status(404)]);
    let site = Site::new()
        .response("/robots.txt", robots)
        .page("/", linking_to(&["/500", "/reset", "/close", "/picture", "/big", "/from", "/last"]))
        .status("/500", 500)
        .response("/reset", Response::hostile(Hostile::ResetImmediately))
        .response("/close", Response::hostile(Hostile::CloseIdleConnection))
        .response("/picture", Response::page("x").content_type("image/png"))
        .response("/big", Response::page(vec![b'x'; 600_000]))
        .redirect("/from", "/to")
        .response("/to", Response::page("x").close())
        .page("/last", "x");
    let web = serve(site);
    Crawl::of(web.url("/")).delay("250ms").with("--max-page-bytes 500KB").run().expect(0);
    let log = web.log();
    let mut paths = log.paths();
    paths.sort_unstable();
    let expected = [
        "/",
        "/500",
        "/500",
        "/big",
        "/close",
        "/from",
        "/last",
        "/next",
        "/picture",
        "/reset",
        "/reset",
        "/robots.txt",
        "/robots.txt",
        "/to",
    ];
    assert_eq!(paths, expected);
    // The server notices late that the client has stopped reading a body.
    let (complete, cut): (Vec<_>, Vec<_>) = log.clone().into_iter().partition(|hit| hit.path != "/big");
    assert_eq!(cut.len(), 1);
    check_gaps(&complete.into_iter().collect(), milliseconds(250));
    assert!(log.smallest_start_gap() >= Some(milliseconds(250)));
}

#[test]
fn delay_runs_from_the_end_of_a_request_that_timed_out() {
    let site = Site::new()
        .page("/", linking_to(&["/silent", "/last"]))
        .response("/silent", Response::hostile(Hostile::Silence))
        .page("/last", "x");
    let web = serve(site);
    Crawl::of(web.url("/")).delay("250ms").with("--timeout 300ms --ignore-robots").run().expect(0);
    let log = web.log();
    assert_eq!(log.paths(), ["/", "/silent", "/silent", "/last"]);
    for pair in log[1..].windows(2) {
        assert!(pair[1].started - pair[0].started + LATE >= milliseconds(550));
    }
}

#[test]
fn zero_delay_does_not_wait() {
    let web = serve(Site::seeded(2, 100));
    let started = Instant::now();
    Crawl::of(web.url("/")).run().expect(0);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// A front page and twelve slow pages that it links to.
fn slow_web(time: Duration) -> Web {
    let paths: Vec<String> = (0..12).map(|n| format!("/{n}")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    serve(Site::new().page("/", linking_to(&links)).fallback(move |_| Response::page("x").delay(time)))
}

#[test]
fn concurrency_is_reached_and_not_exceeded() {
    for concurrency in [1, 3, 12] {
        let web = slow_web(milliseconds(100));
        let crawl =
            Crawl::of(web.url("/")).with("--ignore-robots").with(&format!("--concurrency {concurrency}"));
        crawl.run().expect(0);
        assert_eq!(web.log().max_concurrent(), concurrency);
    }
}

#[test]
fn delay_separates_the_starts_of_concurrent_requests() {
    let web = slow_web(milliseconds(500));
    Crawl::of(web.url("/")).delay("200ms").with("--concurrency 4 --ignore-robots").run().expect(0);
    let log = web.log();
    let gap = log.smallest_start_gap().unwrap();
    assert!(gap + LATE >= milliseconds(200), "{gap:?}");
    let (first, last) = (log.first().unwrap(), log.last().unwrap());
    assert!(last.started - first.started + LATE >= milliseconds(12 * 200));
    assert!((2..=4).contains(&log.max_concurrent()), "{}", log.max_concurrent());
}

/// Forwards connections to a port, one of them only after some time. Returns its own port.
fn relay_to(port: u16, slow_connection: usize, time: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own_port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            thread::spawn(move || {
                if number == slow_connection {
                    thread::sleep(time);
                }
                let (client, server) = (client.unwrap(), TcpStream::connect(("127.0.0.1", port)).unwrap());
                let (mut from_client, mut to_server) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                let upstream = thread::spawn(move || {
                    let _ = io::copy(&mut from_client, &mut to_server);
                    let _ = to_server.shutdown(Shutdown::Write);
                });
                let _ = io::copy(&mut &server, &mut &client);
                let _ = client.shutdown(Shutdown::Both);
                let _ = upstream.join();
            });
        }
    });
    own_port
}

#[test]
fn delay_separates_the_starts_of_requests_whose_handshakes_take_different_times() {
    let paths: Vec<String> = (0..5).map(|n| format!("/{n}")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let site = Site::new().page("/", linking_to(&links));
    // Slow responses, so that each request needs a connection of its own.
    let site = site.fallback(|_| Response::page("x").delay(Duration::from_secs(3)));
    let web = Web::builder().site(site).https(Certificate::Good).http1_only().start();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root.pem");
    std::fs::write(&root, web.ca_pem()).unwrap();
    let port = relay_to(web.https_port(), 1, milliseconds(700));
    let crawl = Crawl::of(format!("https://127.0.0.1:{port}/")).delay("500ms");
    let crawl = crawl.with("--concurrency 5 --ignore-robots --ca-file").with_one(root.display().to_string());
    assert_eq!(crawl.run().expect(0).pages().len(), 6);
    let gap = web.log().smallest_start_gap().unwrap();
    assert!(gap + LATE >= milliseconds(500), "{gap:?}");
}

/// A web with a TLS host whose second connection opens late, and which asks the first request after that of the front page
/// for a pause. The front page links to two pages of this host, and to three of another host, at the port in its query.
/// Returns the port of the TLS host.
fn web_with_a_pause_while_connecting(retry_after: &'static str) -> (Web, u16) {
    let requests = AtomicUsize::new(0);
    let busy = Site::new().fallback(move |request| match requests.fetch_add(1, Ordering::Relaxed) {
        0 => {
            let port = request.path.split('?').next_back().unwrap_or_default();
            let other = |n| format!("http://other.test:{port}/{n}");
            Response::page(linking_to(&["/a", "/b", &other(1), &other(2), &other(3)]))
        }
        1 => Response::status(429).header("Retry-After", retry_after),
        _ => Response::page(request.path.clone()),
    });
    let other = Site::new().fallback(|request| Response::page(request.path.clone()));
    let web = Web::builder().host("busy.test", busy).host("other.test", other);
    let web = web.https(Certificate::Good).http1_only().start();
    let port = relay_to(web.https_port(), 1, milliseconds(700));
    (web, port)
}

/// Crawls the web with two requests in flight to a host.
fn crawl_with_a_pause_while_connecting(web: &Web, port: u16, options: &str) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root.pem");
    std::fs::write(&root, web.ca_pem()).unwrap();
    let crawl = Pipeline::of(format!("https://busy.test:{port}/?{}", web.port())).with(options);
    let crawl = crawl.with("--per-host 2 --similarity 0 --workers 1 --ca-file");
    crawl.with_one(root.display().to_string()).run().expect(0)
}

#[test]
fn request_that_meets_a_pause_while_connecting_takes_nothing_from_other_hosts() {
    let (web, port) = web_with_a_pause_while_connecting("40");
    let started = Instant::now();
    // The pages of the other host need all of the budget.
    let ended = crawl_with_a_pause_while_connecting(&web, port, "--max-pages 4");
    assert!(ended.stdout.contains("Stopped: 4 pages"), "{}", ended.stdout);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let log = web.log();
    assert_eq!((log.for_host("busy.test").len(), log.for_host("other.test").len()), (2, 3));
}

#[test]
fn request_that_meets_a_pause_while_connecting_is_sent_after_it() {
    let (web, port) = web_with_a_pause_while_connecting("2");
    crawl_with_a_pause_while_connecting(&web, port, "");
    let log = web.log();
    let (busy, other) = (log.for_host("busy.test"), log.for_host("other.test"));
    assert_eq!((busy.len(), other.len()), (4, 3));
    let (paused, next) = (busy[1].ended.unwrap(), busy[2].started);
    assert!(next - paused >= Duration::from_secs(2), "{:?}", next - paused);
    assert!(other.iter().all(|hit| hit.started < next));
}

#[test]
fn longer_of_crawl_delay_and_delay_wins() {
    for (robots, delay, least) in [("0.7", "100ms", 700), ("0.1", "400ms", 400)] {
        let robots = format!("User-agent: *\nCrawl-delay: {robots}\n");
        let web = serve(
            Site::new().robots(robots).page("/", linking_to(&["/a", "/b"])).page("/a", "x").page("/b", "x"),
        );
        Crawl::of(web.url("/")).delay(delay).run().expect(0);
        assert_eq!(web.log().len(), 4);
        check_gaps(&web.log(), milliseconds(least));
    }
}

/// Crawls a page whose first response has this status and Retry-After. The log starts with its first request.
fn log_of_retry(status: u16, retry_after: &str, concurrency: usize) -> Log {
    let busy = Response::status(status).header("Retry-After", retry_after);
    let site = Site::new()
        .page("/", linking_to(&["/busy", "/a", "/b"]))
        .response("/busy", Response::sequence(vec![busy, Response::page("at last")]))
        .response("/a", Response::page("x"))
        .response("/b", Response::page("x"));
    let web = serve(site);
    let crawl = Crawl::of(web.url("/")).with("--ignore-robots").with(&format!("--concurrency {concurrency}"));
    let ended = crawl.run().expect(0);
    assert_eq!(ended.body_of("/busy"), b"at last");
    assert_eq!(web.log().for_path("/busy").len(), 2);
    web.log().filter(|hit| hit.path != "/")
}

#[test]
fn retry_after_in_seconds_delays_every_request_to_the_server() {
    for status in [429, 503] {
        let log = log_of_retry(status, "1", 1);
        let gap = log[1].started - log[0].ended.unwrap();
        assert!(gap >= Duration::from_secs(1), "{status}: {gap:?}");
    }
}

#[test]
fn retry_after_date_is_waited_for() {
    let until = SystemTime::now() + Duration::from_secs(2);
    let log = log_of_retry(503, &httpdate::fmt_http_date(until), 1);
    let gap = log[1].started - log[0].ended.unwrap();
    // The date has no fraction of a second.
    let waited_until = SystemTime::now() - log[1].started.elapsed();
    assert!(waited_until + LATE >= until - Duration::from_secs(1), "{gap:?}");
    assert!(gap >= milliseconds(500), "{gap:?}");
}

#[test]
fn retry_after_delays_requests_that_have_not_started() {
    let log = log_of_retry(503, "1", 3);
    let busy = log.for_path("/busy");
    let gap = busy[1].started - busy[0].ended.unwrap();
    assert!(gap >= Duration::from_secs(1), "{gap:?}");
}

#[test]
fn retry_after_of_robots_txt_is_waited_for() {
    let busy = Response::status(503).header("Retry-After", "1");
    let robots = Response::sequence(vec![busy, Response::status(404)]);
    let web = serve(Site::new().response("/robots.txt", robots).page("/", "x"));
    Crawl::of(web.url("/")).run().expect(0);
    let log = web.log();
    assert!(log[1].started - log[0].ended.unwrap() >= Duration::from_secs(1));
}

#[test]
fn invalid_retry_after_is_ignored() {
    for nonsense in ["soon", "-1", "", "1.5", "99999999999999999999999"] {
        let log = log_of_retry(503, nonsense, 1);
        assert!(log.last().unwrap().started - log[0].started < Duration::from_secs(5), "{nonsense}");
    }
}

#[test]
fn page_with_a_too_long_retry_after_is_given_up_at_once() {
    let busy = Response::status(503).header("Retry-After", "301");
    let web = serve(Site::new().page("/", linking_to(&["/busy"])).response("/busy", busy));
    let started = Instant::now();
    let ended = Crawl::of(web.url("/")).run().expect(0);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(web.log().for_path("/busy").len(), 1);
    assert!(ended.line_about("/busy").ends_with("HTTP 503"));
}
