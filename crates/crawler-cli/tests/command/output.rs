//! The output of a classic crawl.

use std::time::{Duration, Instant};

use testweb::{Response, Site, Web};

use crate::common::{Crawl, Ended, binary, linking_to, names, serve, without_times};

/// A site with every kind of outcome and link.
fn site() -> Site {
    Site::new()
        .robots("User-agent: *\nDisallow: /private")
        .page(
            "/",
            linking_to(&["/a", "#top", "/gone", "/private", "http://elsewhere.invalid/", "mailto:me@a.test"]),
        )
        .page("/a", linking_to(&["/", "/moved", "/picture", "/deep"]))
        .redirect("/moved", "/notes")
        .text("/notes", "no links")
        .response("/picture", Response::page("x").content_type("image/png"))
        .page("/deep", linking_to(&["/deeper"]))
}

fn crawl(option: &str) -> (Web, Ended) {
    let web = serve(site());
    let ended = Crawl::of(web.url("/")).depth(2).with(option).run().expect(0);
    (web, ended)
}

#[test]
fn summary_accounts_for_every_url_and_link() {
    let (web, ended) = crawl("");
    insta::assert_snapshot!("summary", without_times(&ended.stdout, &web));
}

#[test]
fn failures_are_printed_as_they_happen() {
    let (web, ended) = crawl("");
    insta::assert_snapshot!("failures", without_times(&ended.messages(), &web));
}

#[test]
fn verbose_prints_every_event_in_order() {
    let (web, ended) = crawl("-v");
    insta::assert_snapshot!("events", without_times(&ended.stdout, &web));
    assert_eq!(ended.messages(), "");
}

#[test]
fn quiet_prints_only_errors() {
    let (_, ended) = crawl("-q");
    assert_eq!(ended.stdout, "");
    let printed: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(printed.len(), 1, "{printed:?}");
    assert!(ended.line_about("/gone").ends_with("HTTP 404"));

    let clean = serve(Site::new().page("/", linking_to(&["/a"])).page("/a", "x"));
    let ended = Crawl::of(clean.url("/")).with("--quiet").run().expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
}

#[test]
fn control_characters_from_servers_are_escaped() {
    // The control characters that a header can contain: a tab, and those beyond ASCII.
    let odd = Response::page("x").content_type("image/png;\t\u{9b}2J \u{202e}gnp");
    let coded = Response::page("x").header("Content-Encoding", "\u{9b}2J");
    let site = Site::new()
        .page("/", linking_to(&["/odd", "/coded"]))
        .response("/odd", odd)
        .response("/coded", coded);
    let web = serve(site);
    for option in ["", "-v", "-q"] {
        let ended = Crawl::of(web.url("/")).with(option).run().expect(0);
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        let is_skipped_printed = printed.contains(r"image/png;\u{9}\u{9b}2J \u{202e}gnp");
        assert_eq!(is_skipped_printed, option != "-q", "{printed}");
        assert!(printed.contains(r"\u{9b}2j"), "{printed}");
    }
}

#[test]
fn seed_without_a_page_fails_and_names_the_reason() {
    for option in ["", "-v", "-q"] {
        let web = serve(Site::new());
        let ended = Crawl::of(web.url("/missing")).with(option).run().expect(1);
        assert!(ended.stderr.contains("crawler: cannot crawl the seed: HTTP 404"), "{}", ended.stderr);
        assert_eq!(ended.stderr.matches("HTTP 404").count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn slow_crawl_prints_progress_without_a_terminal() {
    let slow = Response::page("x").delay(Duration::from_secs(6));
    let web = serve(Site::new().page("/", linking_to(&["/a"])).response("/a", slow));
    let ended = Crawl::of(web.url("/")).with("--timeout 1m").run().expect(0);
    // Printed while the crawl waited for the response.
    let line = "1 page · 20 bytes · 0:05 · 0.2 pages/s; 1 pending · 1 in flight · 3 requests\n";
    assert_eq!(ended.messages(), line);
}

#[test]
fn demo_crawls_within_ten_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let output = binary()
        .arg("demo")
        .env("TMPDIR", directory.path())
        .env("CRAWLER_INTERNAL", "http://elsewhere.invalid/")
        .output()
        .unwrap();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("Serving a small site at http://127.0.0.1:"), "{printed}");
    assert!(printed.contains("The Lighthouse Almanac"), "{printed}");
    let made = names(directory.path());
    assert_eq!(made.len(), 1);
    assert!(names(&directory.path().join(&made[0])).len() > 10);
}
