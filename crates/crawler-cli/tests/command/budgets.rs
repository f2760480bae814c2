//! Limits of pages and bytes: they are used up exactly, and a small one does not slow the crawl down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testweb::{Request, Response, Site, Web};

use crate::common::{Ended, serve};
use crate::pipeline::Pipeline;
use crate::state::StateDir;

/// A web of this many hosts with a page each, which its start page links to. A response takes a fixed time.
fn hosts(count: usize, page_bytes: usize, time: Duration) -> Web {
    let page = move |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        let body: String = match request.authority.starts_with("start.") {
            true => (0..count).map(|n| format!("<a href=http://h{n}.test:{port}/>x</a>")).collect(),
            false => "x".repeat(page_bytes),
        };
        Response::page(body).delay(time)
    };
    serve(Site::new().fallback(page))
}

/// The last object of a crawl that shows its progress as JSON.
fn summary(ended: &Ended) -> Value {
    let last = ended.stderr.lines().rfind(|line| line.starts_with('{')).expect("an object");
    serde_json::from_str(last).unwrap()
}

/// Crawls, and returns the summary.
fn crawl(web: &Web, options: &str) -> Value {
    let crawl = Pipeline::of(web.url_of("start.test", "/")).with("--similarity 0 --progress json");
    summary(&crawl.with(options).run().expect(0))
}

#[test]
fn crawl_of_small_pages_is_as_fast_with_a_small_byte_limit_as_with_a_large_one() {
    let web = hosts(600, 6_000, Duration::from_millis(100));
    let time = |options: &str| {
        let started = Instant::now();
        let summary = crawl(&web, options);
        assert_eq!((&summary["pages"], &summary["stopped_by"]), (&601.into(), &Value::Null), "{summary}");
        started.elapsed()
    };
    // Other processes slow some runs down: a pair of runs without them is enough.
    let mut ratios = Vec::new();
    while ratios.iter().all(|ratio| *ratio > 1.3) {
        assert!(ratios.len() < 8, "{ratios:?}");
        let (large, small) = (time("--workers 1 --max-bytes 10GB"), time("--workers 1 --max-bytes 5MB"));
        ratios.push(small.as_secs_f64() / large.as_secs_f64());
    }
}

#[test]
fn byte_limit_is_used_up_by_bytes_that_were_received_and_the_oldest_pages_are_completed() {
    let web = hosts(100, 40_000, Duration::from_millis(20));
    for options in ["--workers 1", "--workers 1 --max-pages-per-host 3", "--workers 4"] {
        let summary = crawl(&web, &format!("--max-bytes 1MB {options}"));
        assert_eq!((&summary["stopped_by"], &summary["received"]), (&"max-bytes".into(), &1_000_000.into()));
        let pages = summary["pages"].as_u64().unwrap();
        // 24 pages fit. Those that do not are a few, because no more requests are sent than pages fit.
        assert!((16..=25).contains(&pages), "{summary}");
        assert_eq!(summary["failed"]["total"], 0, "{summary}");
    }
}

#[test]
fn page_larger_than_the_rest_of_the_byte_limit_stays_pending_and_is_fetched_on_resume() {
    let site = Site::new().page("/", "<a href=/large>large</a>").page("/large", "x".repeat(300_000));
    let (web, state_dir) = (serve(site), StateDir::new());
    let crawl = state_dir.crawl(web.url("/")).with("--progress json --similarity 0 --max-bytes 200KB");
    let stopped = summary(&crawl.run().expect(0));
    assert_eq!((&stopped["received"], &stopped["not_reached"]), (&200_000.into(), &1.into()), "{stopped}");
    assert_eq!(web.hits(), 2);
    state_dir.resume("--progress json").wait().expect(0);
    assert_eq!(web.hits(), 2, "no request is sent without bytes left");
    let finished = summary(&state_dir.resume("--progress json --max-bytes 1MB").wait().expect(0));
    assert_eq!((&finished["received"], &finished["pages"]), (&500_000.into(), &2.into()), "{finished}");
}

#[test]
fn bytes_of_a_page_that_is_not_read_do_not_count() {
    let large = "x".repeat(100_000);
    let site = Site::new().page("/", "<a href=/large>l</a> <a href=/small>s</a>").page("/large", large);
    let web = serve(site.page("/small", "small"));
    let crawl = Pipeline::of(web.url("/")).with("--progress json --oversize drop --max-page-bytes 50KB");
    let summary = summary(&crawl.with("--max-bytes 40KB").run().expect(0));
    assert_eq!((&summary["pages"], &summary["stopped_by"]), (&2.into(), &Value::Null), "{summary}");
    assert!(summary["received"].as_u64().unwrap() < 1_000, "{summary}");
}

#[test]
fn state_that_cannot_be_written_any_more_ends_the_crawl_at_once_with_an_error() {
    let is_limited = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&is_limited);
    let web = serve(Site::new().fallback(move |_| {
        while !gate.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        Response::status(503).header("retry-after", "200")
    }));
    let state_dir = StateDir::new();
    let mut crawl = state_dir.crawl(web.url("/")).start();
    crawl.until("the first request", |_| web.hits() > 0);
    // From now on every write to a file fails, as on a full disk.
    crawl.limit_file_size(0);
    let started = Instant::now();
    is_limited.store(true, Ordering::Relaxed);
    let ended = crawl.wait().expect(1);
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert!(ended.stderr.contains("crawl.state"), "{}", ended.stderr);
}
