//! `--module urls=FILE`: every URL of a crawl once, with its outcome, checked against the log of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde_json::Value;
use testweb::{Hostile, Request, Response, Site, Web};

use crate::common::{Running, linking_to, serve};
use crate::pipeline::{Pipeline, adds_up, objects, objects_in};
use crate::resume::{directories, killed_after};
use crate::state::StateDir;

/// The options with which robots.txt is obeyed.
const POLITE: &str = "--resolve *=127.0.0.1 --allow-private --scope host";

/// The rows by path, each of which must occur once.
#[track_caller]
pub fn by_path(web: &Web, rows: &[Value]) -> BTreeMap<String, Value> {
    let path = |row: &Value| row["url"].as_str().unwrap().replace(&web.url(""), "");
    let by_path: BTreeMap<String, Value> = rows.iter().map(|row| (path(row), row.clone())).collect();
    assert_eq!(by_path.len(), rows.len(), "a URL occurs twice");
    by_path
}

/// Checks that every URL that the server has seen has a row with the status of its last response.
#[track_caller]
pub fn agrees_with_log(web: &Web, rows: &BTreeMap<String, Value>) {
    for hit in web.log().iter().filter(|hit| hit.path != "/robots.txt") {
        let row = rows.get(&hit.path).unwrap_or_else(|| panic!("{} has no row", hit.path));
        if row["outcome"] == "excluded" {
            // Requested by a process that was killed before it could complete it.
            continue;
        }
        let last = web.log().iter().rfind(|other| other.path == hit.path).unwrap().status;
        assert_eq!(row["status"].as_u64().map(|status| status as u16), last, "{row}");
        assert!(row["requested"].is_string(), "{row}");
    }
    for row in rows.values() {
        let times: Vec<&str> = ["queued", "requested", "first_byte", "done"]
            .iter()
            .filter_map(|key| row[key].as_str())
            .collect();
        assert!(times.is_sorted(), "{row}");
        assert!(row["requested"].is_null() || times.len() >= 3, "{row}");
    }
}

/// Checks what the rows of [`every_outcome`] say beyond the outcomes.
#[track_caller]
pub fn has_details_of_every_outcome(web: &Web, rows: &BTreeMap<String, Value>) {
    let text = |path: &str, key: &str| rows[path][key].as_str().map(|text| text.replace(&web.url(""), ""));
    assert_eq!(rows["/"]["found_on"], Value::Null);
    // The page with the link, not the redirects between.
    for found in ["/gone", "/old", "/older", "/new"] {
        assert_eq!(text(found, "found_on").as_deref(), Some("/"));
        assert!(rows[found]["queued"].is_string(), "{}", rows[found]);
    }
    assert_eq!(text("/old", "redirect").as_deref(), Some("/older"));
    assert_eq!(text("/away", "redirect").as_deref(), Some("http://elsewhere.test/"));
    assert_eq!((&rows["/busy"]["retries"], &rows["/gone"]["retries"]), (&1.into(), &0.into()));
    let image = &rows["/image"];
    assert_eq!((&image["content_type"], &image["group"]), (&"image/png".into(), &"skipped".into()));
    assert_eq!(image["kind"], "page");
    assert_eq!((&rows["/a"]["bytes"], &rows["/a"]["depth"]), (&20.into(), &1.into()));
    assert_eq!((&rows["/private"]["status"], &rows["/private"]["requested"]), (&Value::Null, &Value::Null));
    assert!(text("/private", "reason").unwrap().contains("robots.txt disallows it"));
    assert!(text("/closed", "reason").unwrap().starts_with("connection failed: "), "{}", rows["/closed"]);
}

/// A site with a URL of each outcome.
pub fn every_outcome() -> Web {
    let links = [
        "/a",
        "/old",
        "/loop",
        "/gone",
        "/busy",
        "/image",
        "/private",
        "/copy",
        "/away",
        "/closed",
        "/plain?x=1,2",
    ];
    serve(
        Site::new()
            .robots("User-agent: *\nDisallow: /private\nSitemap: /sitemap.xml")
            .response("/sitemap.xml", Response::text("<urlset><url><loc>/listed</loc></url></urlset>"))
            .page("/", linking_to(&links))
            .page("/a", "a page like no other")
            .page("/copy", "a page like no other")
            .page("/listed", "listed in a sitemap")
            .text("/plain?x=1,2", "plain text with a comma, in its URL")
            .redirect("/old", "/older")
            .redirect("/older", "/new")
            .page("/new", "where the redirects lead")
            .redirect("/loop", "/loop")
            .redirect("/away", "http://elsewhere.test/")
            .status("/gone", 404)
            .status("/busy", 503)
            .response("/image", Response::text("not text").content_type("image/png"))
            .response("/closed", Response::hostile(Hostile::CloseImmediately)),
    )
}

#[test]
fn every_url_has_one_row_that_agrees_with_the_log() {
    let (web, directory) = (every_outcome(), tempfile::tempdir().unwrap());
    let path = directory.path().join("urls.jsonl");
    let summary = directory.path().join("summary");
    let crawl = Pipeline::bare(web.url("/")).with(POLITE).with("--workers 1 --summary");
    crawl.with_one(summary.display().to_string()).module("urls", &path).run().expect(0);
    let rows = by_path(&web, &objects_in(&path));
    agrees_with_log(&web, &rows);
    let outcomes: BTreeMap<&str, &str> =
        rows.iter().map(|(path, row)| (path.as_str(), row["outcome"].as_str().unwrap())).collect();
    let expected = [
        ("/", "page"),
        ("/a", "page"),
        ("/away", "redirect out of scope"),
        ("/busy", "HTTP 503"),
        ("/closed", "connection"),
        ("/copy", "duplicate"),
        ("/gone", "HTTP 404"),
        ("/image", "not a page"),
        ("/listed", "page"),
        ("/loop", "redirect loop"),
        ("/new", "page"),
        ("/old", "redirect"),
        ("/older", "redirect"),
        ("/plain?x=1,2", "page"),
        ("/private", "robots.txt"),
        ("/sitemap.xml", "sitemap"),
    ];
    // Which of two identical pages is fetched first is not known.
    let expected = expected.map(|(path, outcome)| match (path, outcomes["/a"]) {
        ("/a", "duplicate") => (path, "duplicate"),
        ("/copy", "duplicate") => (path, "page"),
        _ => (path, outcome),
    });
    assert_eq!(outcomes, BTreeMap::from(expected));
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!(summary["admitted"], rows.len(), "{summary}");

    has_details_of_every_outcome(&web, &rows);
    assert_eq!(rows["/listed"]["found_on"], web.url("/sitemap.xml"));
    assert_eq!(rows["/sitemap.xml"]["found_on"], web.url("/robots.txt"));
    assert_eq!(rows["/sitemap.xml"]["kind"], "sitemap");
}

#[test]
#[ignore = "needs python3: run by make test"]
fn csv_has_the_rows_of_json_lines() {
    let (web, directory) = (every_outcome(), tempfile::tempdir().unwrap());
    let [csv, lines] = ["urls.csv", "urls.jsonl"].map(|name| directory.path().join(name));
    let crawl = Pipeline::bare(web.url("/")).with(POLITE).module("urls", &csv).module("urls", &lines);
    crawl.run().expect(0);
    let script = "import csv, json, sys\nfor row in csv.DictReader(open(sys.argv[1], newline='')): print(json.dumps(row))";
    let parsed = Command::new("python3").args(["-c", script]).arg(&csv).output().unwrap();
    assert!(parsed.status.success(), "{parsed:?}");
    let as_text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (parsed, rows) = (objects(&String::from_utf8(parsed.stdout).unwrap()), objects_in(&lines));
    assert_eq!(parsed.len(), rows.len());
    for (parsed, row) in parsed.iter().zip(&rows) {
        assert_eq!(parsed.as_object().unwrap().len(), row.as_object().unwrap().len());
        for (key, value) in row.as_object().unwrap() {
            assert_eq!(parsed[key], as_text(value), "{key} of {row}");
        }
    }
}

fn rows_of(web: &Web, path: &Path) -> BTreeMap<String, Value> {
    by_path(web, &objects_in(path))
}

pub fn outcomes(rows: &BTreeMap<String, Value>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in rows.values() {
        *counts.entry(row["outcome"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn urls_that_were_not_reached_have_rows_until_the_crawl_is_resumed() {
    let (web, place) = (serve(directories(&["x"], 30)), StateDir::new());
    let path = place.path("urls.jsonl");
    let crawl = |pages: usize| {
        let crawl = place.crawl(web.url("/")).with("--similarity 0 --delay 1ms --max-pages");
        crawl.with_one(pages.to_string()).module("urls", &path).run().expect(0)
    };
    for (pages, unreached) in [(5, 26), (12, 19), (12, 19)] {
        crawl(pages);
        let rows = rows_of(&web, &path);
        let expected = BTreeMap::from([("page".into(), pages), ("not reached".into(), unreached)]);
        assert_eq!(outcomes(&rows), expected);
        agrees_with_log(&web, &rows);
        let waiting = rows.values().find(|row| row["outcome"] == "not reached").unwrap();
        assert_eq!((&waiting["found_on"], &waiting["done"]), (&web.url("/").into(), &Value::Null));
        assert!(waiting["queued"].is_string(), "{waiting}");
    }
    crawl(100);
    assert_eq!(outcomes(&rows_of(&web, &path)), BTreeMap::from([("page".into(), 31)]));
    // In memory, too.
    let path = place.path("in_memory.csv");
    let crawl = Pipeline::of(web.url("/")).with("--similarity 0 --max-pages 5").module("urls", &path);
    crawl.run().expect(0);
    let rows = fs::read_to_string(path).unwrap();
    assert_eq!(rows.lines().filter(|row| row.contains(",page,page,page,")).count(), 5);
    assert_eq!(rows.lines().filter(|row| row.contains(",page,not reached,not reached,")).count(), 26);
}

#[test]
fn urls_that_a_resumed_crawl_leaves_out_have_rows() {
    let (web, place) = (serve(directories(&["keep", "drop"], 12)), StateDir::new());
    let path = place.path("urls.jsonl");
    let crawl = place.crawl(web.url("/")).with("--delay 20ms --similarity 0 --workers 1");
    killed_after(&web, 6, crawl.module("urls", &path).start());
    place.resume("--exclude /drop/").wait().expect(0);
    let rows = rows_of(&web, &path);
    agrees_with_log(&web, &rows);
    assert_eq!(rows.len(), 25);
    let excluded: Vec<&Value> = rows.values().filter(|row| row["outcome"] == "excluded").collect();
    assert!(!excluded.is_empty());
    for row in excluded {
        assert_eq!((&row["group"], &row["found_on"]), (&"skipped".into(), &web.url("/").into()), "{row}");
        assert!(row["requested"].is_null() && row["queued"].is_string() && row["done"].is_string(), "{row}");
    }
}

#[test]
fn urls_that_a_resumed_crawl_leaves_out_are_printed() {
    let (web, place) = (serve(directories(&["keep", "drop"], 12)), StateDir::new());
    let crawl = place.crawl(web.url("/")).with("--similarity 0 --max-pages 3 --module urls=-");
    crawl.run().expect(0);
    let ended = place.resume("--max-pages 100 --exclude /drop/").wait().expect(0);
    let rows = objects(&ended.stdout);
    let excluded = rows.iter().filter(|row| row["outcome"] == "excluded").count();
    assert!(excluded >= 10, "{}", ended.stdout);
    assert_eq!(rows.len(), 25 - 3, "each URL that was pending");
}

/// A site whose pages fail until it has recovered.
fn recovering(pages: usize) -> (Web, Arc<AtomicBool>) {
    let recovered = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&recovered);
    let links: Vec<String> = (0..pages).map(|page| format!("/{page}")).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let site = Site::new().page("/", linking_to(&links)).fallback(move |request: &Request| {
        let number: usize = request.path[1..].parse().unwrap_or(0);
        match number.is_multiple_of(2) || is_up.load(Ordering::SeqCst) {
            true => Response::page(format!("the page {number}")),
            false => Response::status(503),
        }
    });
    (serve(site), recovered)
}

#[test]
fn url_that_is_fetched_again_has_only_its_last_row_also_after_kills() {
    let ((web, recovered), place) = (recovering(80), StateDir::new());
    let [csv, lines] = ["urls.csv", "urls.jsonl"].map(|name| place.path(name));
    let crawl = place.crawl(web.url("/")).with("--similarity 0 --max-host-failures 1000000");
    crawl.module("urls", &lines).module("urls", &csv).run().expect(0);
    let failed = BTreeMap::from([("page".into(), 41), ("HTTP 503".into(), 40)]);
    assert_eq!(outcomes(&rows_of(&web, &lines)), failed);
    place.resume("--retry-failed").wait().expect(0);
    assert_eq!(outcomes(&rows_of(&web, &lines)), failed, "they fail again");
    recovered.store(true, Ordering::SeqCst);
    for requests in [0, 1, 20] {
        killed_after(&web, requests, place.resume("--retry-failed --delay 5ms"));
    }
    place.resume("--delay 0").wait().expect(0);
    let rows = rows_of(&web, &lines);
    agrees_with_log(&web, &rows);
    assert_eq!(outcomes(&rows), BTreeMap::from([("page".into(), 81)]));
    let csv = fs::read_to_string(csv).unwrap();
    let urls: BTreeSet<&str> = csv.lines().filter_map(|row| row.split(',').next()).collect();
    assert_eq!((urls.len(), csv.lines().count()), (82, 82), "a header and each URL");
    assert!(!csv.contains(",503,"), "{csv}");
}

#[test]
fn rows_are_printed_as_urls_are_completed_and_a_closed_pipe_stops_the_crawl() {
    let web = every_outcome();
    let ended = Pipeline::bare(web.url("/")).with(POLITE).with("--module urls=-").run().expect(0);
    let rows = by_path(&web, &objects(&ended.stdout));
    agrees_with_log(&web, &rows);
    assert_eq!(rows.len(), 16);

    let endless = serve(Site::new().fallback(|request: &Request| {
        let next: usize = request.path[1..].parse().unwrap_or(0) + 1;
        Response::page(linking_to(&[&format!("/{next}")]))
    }));
    let crawl = Pipeline::of(endless.url("/")).with("--similarity 0 --module urls=-");
    let mut child = crawl.command().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"outcome\":\"page\""), "{line}");
    assert!(child.wait().unwrap().code().is_some());
}

#[test]
fn stopped_crawl_has_a_row_for_every_admitted_url() {
    let (web, place) = (serve(directories(&["x"], 40)), StateDir::new());
    let (path, summary) = (place.path("urls.jsonl"), place.path("summary"));
    let crawl = place.crawl(web.url("/")).with("--similarity 0 --delay 20ms --summary");
    let mut crawl: Running = crawl.with_one(summary.display().to_string()).module("urls", &path).start();
    crawl.until("some requests", |_| web.hits() >= 5);
    crawl.signal(Signal::INT);
    crawl.wait().expect(130);
    let rows = rows_of(&web, &path);
    agrees_with_log(&web, &rows);
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!(summary["admitted"], rows.len());
    let pages = adds_up(&summary)["page"] as usize;
    let expected = BTreeMap::from([("page".into(), pages), ("not reached".into(), 41 - pages)]);
    assert_eq!(outcomes(&rows), expected);
}
