//! Whole crawls with an output that archives requests and responses: it has each request of the server's log once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawler::internal::classic::ClassicReportInternals as _;
use crawler::internal::classic::{ClassicCrawl, ClassicInternals as _};
use crawler::internal::config::header;
use crawler::internal::exchange::Exchange;
use crawler::internal::modules::{BuiltinOutput, OutputSpec, OutputWrite, Target};
use crawler::internal::page::Page;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::{Crawler, StopHandle};
use testweb::{LoggedRequest, Response, Site, Web};

/// Writes a line for each exchange.
#[derive(Clone, Default)]
struct Lines {
    committed: Arc<AtomicUsize>,
    requests: Arc<Mutex<String>>,
}

impl BuiltinOutput for Lines {
    fn name(&self) -> &str {
        "lines"
    }

    fn render(&self, _: &Page) -> OutputWrite {
        OutputWrite::Append(Vec::new())
    }

    fn wants_exchanges(&self) -> bool {
        true
    }

    fn render_exchanges(&self, exchanges: &[Exchange]) -> Vec<u8> {
        let line = |exchange: &Exchange| {
            let Exchange { url, status, truncated, payload, .. } = exchange;
            let request = str::from_utf8(&exchange.request_head).unwrap();
            self.requests.lock().unwrap().push_str(request);
            assert!(exchange.response_head.starts_with(b"HTTP/1.1 "));
            assert!(*status != 200 || !payload.is_empty() || truncated.is_some(), "{url}");
            format!("{} {url} {status}\n", request.split(' ').next().unwrap())
        };
        exchanges.iter().map(line).collect::<String>().into_bytes()
    }

    fn exchanges_committed(&self, exchanges: &[Exchange]) {
        self.committed.fetch_add(exchanges.len(), Ordering::Relaxed);
    }
}

/// A site with everything that requests are sent for, and some that fail at first.
fn site() -> Site {
    let links: String = (0..30).map(|number| format!("<a href=/{number}>{number}</a> ")).collect();
    let busy = vec![Response::status(503), Response::page("at last, after some time")];
    let page = |request: &testweb::Request| Response::page(format!("<p>the page at {}", request.path));
    Site::new()
        .page(
            "/",
            format!("{links}<a href=/busy>a</a><a href=/gone>b</a><a href=/moved>c</a><a href=/image>d</a>"),
        )
        .robots("User-agent: *\nDisallow: /never\nSitemap: /sitemap.xml\n")
        .text("/sitemap.xml", "<urlset><url><loc>/listed</loc></url></urlset>")
        .status("/gone", 404)
        .redirect("/moved", "/target")
        .response("/image", Response::page("GIF89a").content_type("image/gif"))
        .response("/busy", Response::sequence(busy))
        .fallback(page)
}

fn config(crawler: Crawler) -> Crawler {
    crawler.configure(|config| {
        config.delay = Duration::ZERO;
        config.headers.push(header("X-Key", "secret").unwrap());
        config.requests.allow_private = true;
    })
}

/// The requests in the server's log, sorted.
fn requests(web: &Web) -> Vec<String> {
    let line = |hit: &LoggedRequest| {
        format!("{} {} {}", hit.method, web.url(&hit.path), hit.status.unwrap_or_default())
    };
    let mut lines: Vec<String> = web.log().iter().map(line).collect();
    lines.sort();
    lines
}

fn archived(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn check(web: &Web, output: &Lines, path: &Path) {
    let expected = requests(web);
    for part in ["/robots.txt 200", "/gone 404", "/moved 302", "/busy 503", "/busy 200", "/image 200"] {
        assert!(expected.iter().any(|line| line.ends_with(part)), "{part}: {expected:#?}");
    }
    assert_eq!(archived(path), expected);
    assert_eq!(output.committed.load(Ordering::Relaxed), expected.len());
    let requests = output.requests.lock().unwrap();
    assert!(!requests.contains("secret") && requests.contains("user-agent"), "{requests}");
    assert!(web.log().iter().any(|hit| hit.headers.iter().any(|(_, value)| value == "secret")));
}

#[test]
fn every_request_is_archived_once_in_memory_and_with_a_state() {
    for has_state in [false, true] {
        let (web, directory) = (Web::builder().site(site()).start(), tempfile::tempdir().unwrap());
        let (output, path) = (Lines::default(), directory.path().join("lines"));
        let mut crawler = config(Crawler::new(&web.url("/")).unwrap()).workers(2);
        crawler = crawler.builtin_output(output.clone(), Target::File(path.clone()));
        if has_state {
            crawler = crawler.state_dir(directory.path().join("state"));
        }
        crawler.run_blocking().unwrap();
        check(&web, &output, &path);
    }
}

#[test]
fn requests_of_a_crawl_that_was_stopped_and_resumed_are_archived_once() {
    let (web, directory) = (Web::builder().site(site()).start(), tempfile::tempdir().unwrap());
    let (output, path) = (Lines::default(), directory.path().join("lines"));
    for round in 0.. {
        let stop = StopHandle::new();
        let (outcomes, stopping) = (AtomicUsize::new(0), stop.clone());
        let crawler = config(Crawler::new(&web.url("/")).unwrap()).stop_handle(stop);
        let crawler = crawler.on_outcome(move |_, _| {
            if outcomes.fetch_add(1, Ordering::Relaxed) == 4 {
                stopping.stop();
            }
        });
        let crawler = crawler.builtin_output(output.clone(), Target::File(path.clone()));
        let report = crawler.state_dir(directory.path().join("state")).run_blocking().unwrap();
        if report.snapshot.pending() == 0 {
            assert!(round > 0, "it was resumed");
            break;
        }
    }
    // A process that is stopped does not send the requests of the URLs that have robots.txt already, and the next one asks again.
    let without_robots = |lines: Vec<String>| -> Vec<String> {
        lines.into_iter().filter(|line| !line.contains("/robots.txt")).collect()
    };
    assert_eq!(without_robots(archived(&path)), without_robots(requests(&web)));
}

#[tokio::test]
async fn classic_crawl_archives_every_request_once() {
    let (web, directory) = (Web::builder().site(site()).start(), tempfile::tempdir().unwrap());
    let (output, path) = (Lines::default(), directory.path().join("lines"));
    let pages: PathBuf = directory.path().join("pages");
    fs::create_dir(&pages).unwrap();
    let (archive, target) = (output.clone(), path.clone());
    let crawl = ClassicCrawl::new(&web.url("/"), &pages, 3).unwrap();
    let crawl = crawl.delay(Duration::ZERO).header("X-Key", "secret").unwrap();
    let crawl = crawl.archive(move || OutputSpec {
        output: Box::new(archive.clone()),
        target: Target::File(target.clone()),
    });
    let report = crawl.run().await.unwrap();
    assert_eq!(report.urls_failure(), None);
    check(&web, &output, &path);
}
