//! ReplayWeb.page opens the WACZ files that the command writes, in Chromium and without a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use serde_json::json;
use tempfile::TempDir;
use testweb::{Response, Site};

use super::crawler;
use crate::archive_proof::manual::serve_manual;
use crate::archive_proof::visits::archive_of_visits;
use crate::browser::Browser;
use crate::common::serve;
use crate::pipeline::Pipeline;
use crate::recrawl::words;
use crate::replay::archives::{gzipped, page, response, write};

/// How long a page may take to appear, and how often it is loaded anew: on a busy machine, the frame may be requested before the service
/// worker of ReplayWeb.page is active, and a user would reload the page, too.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_LOADS: usize = 3;

/// The text of everything that is shown: of the page, its components and its frames.
const SHOWN_TEXT: &str = "(function text(root) {
    let found = root.body ? root.body.innerText : '';
    for (const element of root.querySelectorAll('*')) {
        if (element.shadowRoot) found += text(element.shadowRoot);
        if (element.tagName === 'IFRAME' && element.contentDocument) found += text(element.contentDocument);
    }
    return found;
})(document)";

/// A page that shows a page of an archive.
const EMBEDDING: &str = "<!doctype html><title>archive</title><style>replay-web-page { display: block; height: 600px }</style>
    <script src=/ui.js></script><replay-web-page source=/site.wacz url=URL embed=replayonly></replay-web-page>";

/// The files of the npm package, which `make test` unpacks.
fn package() -> PathBuf {
    let directory = std::env::var("CRAWLER_TEST_REPLAYWEBPAGE").expect("make test sets it");
    PathBuf::from(directory)
}

/// A site with ReplayWeb.page and an archive.
fn viewer(archive: &Path, url: &str) -> Site {
    let script = |name: &str| {
        let text = fs::read(package().join(name)).unwrap();
        Response::text(text).content_type("text/javascript")
    };
    let archive = fs::read(archive).unwrap();
    let site = Site::new().page("/", EMBEDDING.replace("URL", url));
    let index = fs::read_to_string(package().join("index.html")).unwrap();
    let (component, worker) = (script("ui.js"), script("sw.js"));
    site.response("/ui.js", component.clone()).fallback(move |request| match request.path.split('?').next() {
        Some("/replay/sw.js") => worker.clone(),
        // The frame is requested here if the service worker, which answers otherwise, is not active yet.
        Some("/replay/") => Response::page(index.clone()),
        Some("/replay/ui.js") => component.clone(),
        Some("/site.wacz") => part_of(&archive, &request.headers),
        _ => Response::status(404),
    })
}

/// The range of a file that a request wants.
fn part_of(file: &[u8], headers: &[(String, String)]) -> Response {
    let range = headers.iter().find(|(name, _)| name == "range").map(|(_, value)| value.as_str());
    let range = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let (start, end) = match range {
        None => (0, file.len()),
        Some(("", last)) => (file.len().saturating_sub(last.parse().unwrap()), file.len()),
        Some((start, "")) => (start.parse().unwrap(), file.len()),
        Some((start, end)) => (start.parse().unwrap(), (end.parse::<usize>().unwrap() + 1).min(file.len())),
    };
    let response = Response::status(if range.is_some() { 206 } else { 200 });
    let content_range = format!("bytes {start}-{}/{}", end - 1, file.len());
    let response = response.content_type("application/octet-stream").header("Accept-Ranges", "bytes");
    let response = if range.is_some() { response.header("Content-Range", &content_range) } else { response };
    response.body(file[start..end].to_vec())
}

/// Opens a page of a WACZ file, waits until it shows a text, and returns a screenshot.
pub fn shown(archive: &Path, url: &str, text: &str) -> Vec<u8> {
    let web = serve(viewer(archive, url));
    let mut browser = Browser::start();
    let is_shown = format!("({SHOWN_TEXT}).includes({})", json!(text));
    for attempt in 1.. {
        browser.navigate(&web.url("/"));
        if browser.becomes_true(&is_shown, LOAD_TIMEOUT) {
            break;
        }
        let (shown, failures) = (browser.evaluate(SHOWN_TEXT), browser.failures());
        let requests: Vec<String> =
            web.log().iter().map(|hit| format!("{} {:?}", hit.path, hit.status)).collect();
        let state = format!("'{text}' is not in {shown}; failures: {failures:?}; requests: {requests:?}");
        assert!(attempt < MAX_LOADS, "{state}");
        eprintln!("attempt {attempt}: {state}");
    }
    let screenshot = browser.call("Page.captureScreenshot", json!({"format": "png"}));
    let data = screenshot["data"].as_str().unwrap();
    base64::engine::general_purpose::STANDARD.decode(data).unwrap()
}

#[test]
#[ignore = "needs Chromium and the npm package replaywebpage: run by make test"]
fn replay_web_page_shows_the_pages_of_a_wacz_file() {
    let directory = TempDir::new().unwrap();
    let html = "<title>Archived</title><link rel=stylesheet href=style.css><h1>An archived heading</h1><a href=two>two</a>";
    let style = "h1 { color: rgb(1, 2, 3); } h1::after { content: ' with style' }";
    let records = [
        page("http://a.test/", html),
        response("http://a.test/style.css", "HTTP/1.1 200 OK", "Content-Type: text/css\r\n", style),
        page("http://a.test/two", "<h1>The second page</h1>"),
    ];
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&records));
    let wacz = directory.path().join("site.wacz");
    crawler(&format!("wacz {archive} --output {}", wacz.display())).expect(0);
    let screenshot = shown(&wacz, "http://a.test/", "An archived heading");
    assert!(screenshot.starts_with(b"\x89PNG") && screenshot.len() > 2_000, "{} bytes", screenshot.len());
    shown(&wacz, "http://a.test/two", "The second page");
}

#[test]
#[ignore = "needs Chromium, postgresql-doc and the npm package replaywebpage: run by make test"]
fn replay_web_page_shows_the_crawl_of_a_documentation_site() {
    let directory = TempDir::new().unwrap();
    let web = serve_manual();
    Pipeline::of(web.url("/index.html"))
        .with("--scope host --max-pages 30 --wacz")
        .module("warc", &directory.path().join("manual.warc.gz"))
        .run()
        .expect(0);
    let url = web.url("/index.html");
    drop(web);
    let screenshot =
        shown(&directory.path().join("manual.wacz"), &url, "The PostgreSQL Global Development Group");
    // To look at it.
    if let Ok(path) = std::env::var("CRAWLER_TEST_SCREENSHOT") {
        fs::write(path, &screenshot).unwrap();
    }
    assert!(screenshot.len() > 10_000, "{} bytes", screenshot.len());
}

#[test]
#[ignore = "needs Chromium and the npm package replaywebpage: run by make test"]
fn replay_web_page_shows_pages_whose_last_response_was_not_modified() {
    let (place, web) = archive_of_visits();
    shown(&place.path("crawl.wacz"), &web.url("/etag"), words("etag").trim());
    shown(&place.path("crawl.wacz"), &web.url("/same/2"), words("same").trim());
}
