//! A report in Chromium: it loads nothing, texts from the web stay text, it fits a phone, and its tables can be sorted and
//! filtered by keyboard.

use serde_json::{Value, json};
use testweb::{Request, Response, Site, Web};

use crate::browser::Browser;
use crate::common::{run, serve};
use crate::state::StateDir;

/// Missing pages, the names of which are hostile or very long.
const MISSING: u64 = 40;

/// A page with links to pages that are missing.
fn broken_site() -> Web {
    let link = |number: u64| match number % 4 {
        0 => format!("<a href='/gone/{number}?<img src=x onerror=window.attacked=1>'>a</a>"),
        1 => format!("<a href='/gone/{number}/{}'>b</a>", "x".repeat(1_500)),
        2 => format!("<a href='/gone/{number}?\u{202e}</script><script>window.attacked=1</script>'>c</a>"),
        _ => format!("<a href='/error/{number}'>d</a>"),
    };
    let links: String = (0..MISSING).map(link).collect();
    serve(Site::new().page("/", format!("<title>first</title>{links}<a href=/page>page</a>")).fallback(
        |request: &Request| match request.path.split('/').nth(1) {
            Some("gone") => Response::status(404),
            Some("error") => Response::status(410),
            _ => Response::page("<a href=/error/3>again</a>"),
        },
    ))
}

/// Crawls the site, writes the report, and opens it.
fn open(browser: &mut Browser, state: &StateDir, web: &Web) {
    state.crawl(web.url("/")).with("--delay 0").run().expect(0);
    let report = state.path("report.html");
    run(&["report", &state.state(), "--output", report.to_str().unwrap()]).expect(0);
    let (requests, failures) = browser.open(&report);
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The texts of a column of the table of failed URLs.
fn column(browser: &mut Browser, index: usize) -> Vec<String> {
    let cells = format!(
        "[...document.querySelectorAll('#failed-table tbody tr')].map(row => row.cells[{index}].textContent)"
    );
    let Value::Array(cells) = browser.evaluate(&cells) else { panic!("no table") };
    cells.iter().map(|cell| cell.as_str().unwrap().to_owned()).collect()
}

/// Presses Tab until this expression is true.
#[track_caller]
fn tab_to(browser: &mut Browser, expression: &str) {
    for _ in 0..300 {
        if browser.evaluate(expression) == true {
            return;
        }
        browser.press("Tab");
    }
    panic!("{expression}");
}

#[test]
#[ignore = "needs chromium: run by make test"]
fn report_needs_nothing_else_keeps_texts_as_text_and_fits_every_screen() {
    let (web, state, mut browser) = (broken_site(), StateDir::new(), Browser::start());
    open(&mut browser, &state, &web);
    assert_eq!(browser.evaluate("window.attacked === undefined && document.images.length === 0"), true);
    assert_eq!(browser.evaluate("document.scripts.length"), 1);
    let links = "[...document.links].filter(link => !link.hash || link.protocol !== 'file:')\
        .filter(link => !/^https?:$/.test(link.protocol) || link.rel !== 'noopener noreferrer').length";
    assert_eq!(browser.evaluate(links), 0);
    for width in [360, 768, 1440] {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700});
        browser.call("Emulation.setDeviceMetricsOverride", size);
        let overflow =
            browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(overflow, 0, "{width}");
    }
    let unnamed = "[...document.querySelectorAll('svg[role=img]')]\
        .filter(picture => !picture.querySelector(':scope > title').textContent).length";
    assert_eq!(browser.evaluate(unnamed), 0);
    assert_ne!(browser.evaluate("document.querySelectorAll('svg[role=img]').length"), 0);
}

#[test]
#[ignore = "needs chromium: run by make test"]
fn table_of_failed_urls_is_sorted_and_filtered_by_keyboard() {
    let (web, state, mut browser) = (broken_site(), StateDir::new(), Browser::start());
    open(&mut browser, &state, &web);
    browser.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
    let status = "document.querySelector('#failed output').textContent";
    assert_eq!(browser.evaluate(status), "40 failed URLs, the first 25 are shown");

    tab_to(&mut browser, "document.activeElement.matches('#failed input')");
    browser.call("Input.insertText", json!({"text": "/ERROR/ 410"}));
    browser.until(&format!("{status} === '10 failed URLs of 40'"));
    assert!(column(&mut browser, 0).iter().all(|url| url.contains("/error/")));

    let head = "document.querySelector('#failed-table thead').rows[0].cells[0]";
    tab_to(&mut browser, &format!("document.activeElement === {head}.firstChild"));
    let numbers = |urls: Vec<String>| -> Vec<u64> {
        urls.iter().map(|url| url.rsplit('/').next().unwrap().parse().unwrap()).collect()
    };
    for (direction, is_descending) in [("ascending", false), ("descending", true)] {
        browser.press("Enter");
        browser.until(&format!("{head}.getAttribute('aria-sort') === '{direction}'"));
        let mut sorted = numbers(column(&mut browser, 0));
        if is_descending {
            sorted.reverse();
        }
        assert!(sorted.len() == 10 && sorted.is_sorted(), "{direction}: {sorted:?}");
    }
}

#[test]
#[ignore = "needs chromium: run by make test"]
fn tables_are_complete_without_scripts() {
    let (web, state, mut browser) = (broken_site(), StateDir::new(), Browser::start());
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    open(&mut browser, &state, &web);
    assert_eq!(column(&mut browser, 0).len() as u64, MISSING);
    assert_eq!(browser.evaluate("document.querySelectorAll('main input, main button').length"), 0);
}

#[test]
#[ignore = "needs chromium: run by make test"]
fn nothing_is_cut_off_on_paper() {
    let (web, state, mut browser) = (broken_site(), StateDir::new(), Browser::start());
    open(&mut browser, &state, &web);
    browser.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
    // A4 without the margins of the report, in CSS pixels.
    let size = json!({"width": 703, "height": 1017, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", size);
    let long = "for (const row of document.querySelectorAll('#host-table tbody tr')) \
        for (const cell of row.querySelectorAll('td.n')) cell.textContent = '627.7 KB'";
    browser.evaluate(long);
    let lines = "window.lines = cell => { const range = document.createRange(); range.selectNodeContents(cell); \
        return range.getClientRects().length; }; 0";
    browser.evaluate(lines);
    let cut = "[...document.querySelectorAll('td.n')].filter(cell => cell.scrollWidth > cell.clientWidth + 1 \
        || lines(cell) > 1).map(cell => cell.textContent)";
    assert_eq!(browser.evaluate(cut), json!([]));
    let beyond = "[...document.querySelectorAll('main *')]\
        .filter(element => element.getBoundingClientRect().right > innerWidth - 0.5).length";
    assert_eq!(browser.evaluate(beyond), 0);
    let dates = "[...document.querySelectorAll('#failed-table tbody tr')].filter(row => lines(row.cells[5]) > 3).length";
    assert_eq!(browser.evaluate(dates), 0, "a date is not broken");
}
