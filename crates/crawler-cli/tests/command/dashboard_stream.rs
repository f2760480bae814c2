//! The stream of the page in Chromium: how it starts, when it ends, and which tabs have one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use testweb::{Request, Response, Site};

use crate::browser::Browser;
use crate::common::serve;
use crate::dashboard_page::{crawl, free_port, large_site, line, open, page, start};
use crate::http::Server;

#[test]
#[ignore = "needs chromium: run by make test"]
fn charts_go_on_where_the_history_ends_and_numbers_are_those_of_the_terminal() {
    let mut browser = Browser::start();
    // Thirteen pages a second. The last sample is of the moment of the status, and its time has no fraction.
    let history: Vec<_> = (0..=60_u64).map(|at| json!([at, 13 * at, 13 * at, 1_000 * at, 0, 5])).collect();
    let status = json!({
        "version": 1, "name": "test", "mode": "redis", "phase": "ended", "elapsed": 60.97, "history": history,
        "rates": {"pages": 12.9, "requests": 9.94}, "redis": {"version": "7.2.4", "rtt_ms": 0.21},
        "totals": {"pages": 780, "requests": 780, "bytes": 60_000, "failed": 0, "pending": 5, "admitted": 785},
        "outcomes": [{"group": "Pages", "count": 780, "reasons": []}, {"group": "Not reached", "count": 5, "reasons": []}],
        "hosts": [{"host": "a.test", "requests": 1, "delay": 1.507, "waiting": 1, "why": "delay 1.507 s"}],
    });
    let event = format!("retry: 60000\nevent: status\ndata: {status}\n\n");
    let site = Site::new()
        .response("/", Response::page(page::INDEX))
        .response("/style.css", Response::text(page::STYLE).content_type("text/css"))
        .response("/script.js", Response::text(page::SCRIPT).content_type("text/javascript"))
        .response("/events", Response::text(event).content_type("text/event-stream"));
    let web = serve(site);
    open(&mut browser, web.port());
    let line = line(&mut browser);
    let heights: Vec<&str> = line.split(['M', 'L']).filter_map(|point| point.split(' ').nth(1)).collect();
    assert!(heights.len() > 20 && heights.iter().all(|height| *height == heights[0]), "{line}");
    let text_of = |browser: &mut Browser, selector: &str| {
        let texts = format!("[...document.querySelectorAll('{selector}')].map(found => found.textContent)");
        browser.evaluate(&texts).to_string()
    };
    let values = text_of(&mut browser, ".chart .value");
    assert!(values.starts_with(r#"["13","9.9","#), "{values}");
    assert!(text_of(&mut browser, "#redis dd").contains("0.21 ms"));
    let outcomes = text_of(&mut browser, "#outcomes li bdi");
    assert_eq!(outcomes, r#"["Pages","Not reached"]"#);
    let host = text_of(&mut browser, "#hosts tbody tr");
    assert_eq!(host.matches("1.507 s").count(), 2, "{host}");
}

#[test]
#[ignore = "needs chromium: run by make test"]
fn stream_that_ends_is_opened_again_at_once() {
    let mut browser = Browser::start();
    let status = json!({"version": 1, "mode": "pipeline", "phase": "running"});
    let events = format!("retry: 600000\nevent: status\ndata: {status}\n\nevent: reconnect\ndata: {{}}\n\n");
    let rest = format!("retry: 600000\nevent: status\ndata: {status}\n\n");
    let opened = AtomicU32::new(0);
    let site = Site::new()
        .response("/", Response::page(page::INDEX))
        .response("/style.css", Response::text(page::STYLE).content_type("text/css"))
        .response("/script.js", Response::text(page::SCRIPT).content_type("text/javascript"))
        .fallback(move |_: &Request| match opened.fetch_add(1, Ordering::Relaxed) {
            0 => Response::text(events.clone()).content_type("text/event-stream"),
            _ => {
                Response::text(rest.clone()).content_type("text/event-stream").delay(Duration::from_secs(600))
            }
        });
    let web = serve(site);
    open(&mut browser, web.port());
    browser.until("performance.getEntriesByName(new URL('events', location)).length > 0");
    let started = Instant::now();
    while web.log().iter().filter(|hit| hit.path == "/events").count() < 2 {
        assert!(started.elapsed() < Duration::from_secs(60), "the page does not connect again");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(browser.evaluate("document.querySelector('#connection').textContent"), "", "no notice");
}

#[test]
#[ignore = "needs chromium: run by make test"]
fn hidden_page_gives_its_connection_to_one_in_front_and_connects_again() {
    let (web, port, mut browser) = (large_site(), free_port(), Browser::start());
    let _crawl = start(crawl(&web, port));
    open(&mut browser, port);
    let places = || {
        let viewers: Vec<_> = (0..16).map(|_| Server { port }.events()).collect();
        viewers.iter().filter(|events| events.head.contains(" 200 ")).count()
    };
    // Places that were taken for a moment are free again when the server has sent the next message.
    let until_free = |wanted: usize| {
        let started = Instant::now();
        while places() != wanted {
            assert!(started.elapsed() < Duration::from_secs(60), "not {wanted} free places");
            thread::sleep(Duration::from_millis(1_500));
        }
    };
    until_free(15);
    let hide = |is_hidden: bool| {
        let hidden = format!("{{get: () => {is_hidden}, configurable: true}}");
        format!(
            "Object.defineProperty(document, 'hidden', {hidden}); document.dispatchEvent(new Event('visibilitychange'))"
        )
    };
    browser.evaluate(&hide(true));
    assert_eq!(browser.evaluate("document.body.dataset.connection"), "live", "a single page stays connected");
    browser.evaluate("new BroadcastChannel('crawler-dashboard').postMessage('front')");
    until_free(16);
    browser.evaluate(&hide(false));
    until_free(15);
    browser.until("document.body.dataset.connection === 'live'");
}
