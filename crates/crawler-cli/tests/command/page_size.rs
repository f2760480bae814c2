//! The size of pages: truncated or dropped at the limit, and what counts against the limit of bytes.

use std::fs;

use serde_json::Value;
use testweb::{Response, Site, Web};

use crate::common::{counts, linking_to, serve};
use crate::pipeline::{Pipeline, objects_in, paths};

/// A start page of 1.3 MB with a link at its beginning, one before the limit of 500 KB, one across it and one behind.
fn large_start_page() -> (Web, String) {
    let mut page = "<title>Large</title><a href=/first>1</a>".to_owned();
    page += &"<p>text</p>".repeat((499_000 - page.len()) / 11);
    page += "<a href=/second>2</a>";
    page += &" ".repeat(500_000 - page.len() - "<a href=/third".len());
    page += "<a href=/third-and-more>3</a>";
    page += &"<p>more</p>".repeat(800_000 / 11);
    page += "<a href=/last>4</a>";
    let site = Site::new().page("/", page.clone()).fallback(|request| Response::page(request.path.clone()));
    (serve(site), page)
}

/// Runs a crawl into a file of JSON lines. Returns the pages, and the summary.
fn crawl(web: &Web, options: &str) -> (Vec<Value>, Value) {
    let (pages, _, summary) = crawl_with_urls(web, options);
    (pages, summary)
}

/// The same, also with the rows of all URLs.
fn crawl_with_urls(web: &Web, options: &str) -> (Vec<Value>, Vec<Value>, Value) {
    let directory = tempfile::tempdir().unwrap();
    let [pages, urls, summary] =
        ["pages.jsonl", "urls.jsonl", "summary.json"].map(|name| directory.path().join(name));
    let crawl = Pipeline::of(web.url("/")).module("jsonl", &pages).module("urls", &urls).with(options);
    crawl.with("--summary").with_one(summary.display().to_string()).run();
    (objects_in(&pages), objects_in(&urls), serde_json::from_slice(&fs::read(summary).unwrap()).unwrap())
}

#[test]
fn page_is_truncated_at_the_limit_and_its_links_up_to_there_are_followed() {
    let (web, _) = large_start_page();
    let state = tempfile::tempdir().unwrap();
    for options in [String::new(), format!("--state {}", state.path().join("state").display())] {
        let (pages, urls, summary) = crawl_with_urls(&web, &options);
        assert_eq!(paths(&web, &pages), ["/", "/first", "/second"]);
        let start = pages.iter().find(|page| page["title"] == "Large").unwrap();
        assert_eq!((&start["bytes"], &start["truncated"]), (&500_000.into(), &true.into()));
        assert!(pages.iter().filter(|page| page["truncated"] == true).count() == 1);
        let truncated = urls.iter().filter(|url| url["truncated"] == true);
        assert_eq!(truncated.map(|url| &url["url"]).collect::<Vec<_>>(), [&start["url"]]);
        assert_eq!(summary["truncated"], 1);
        assert!(summary["bytes"].as_u64().unwrap() < 501_000, "{summary}");
    }
}

#[test]
fn encoded_page_is_truncated_to_the_same_bytes() {
    let (_, page) = large_start_page();
    for encode in [Response::gzip, Response::deflate, Response::raw_deflate, Response::zstd] {
        let web = serve(
            Site::new().response("/", encode(Response::page(page.clone()))).fallback(|_| Response::page("x")),
        );
        let directory = tempfile::tempdir().unwrap();
        let saved = directory.path().join("pages");
        Pipeline::of(web.url("/")).with("--max-depth 0").module("pages", &saved).run().expect(0);
        let file = fs::read(saved.join("1")).unwrap();
        assert!(file.ends_with(&page.as_bytes()[..500_000]) && file.len() < 500_100);
    }
}

#[test]
fn oversize_drop_skips_the_page() {
    let (web, _) = large_start_page();
    let ended = Pipeline::of(web.url("/")).with("--oversize drop").run();
    assert_eq!(ended.outcomes(), counts(&[("page", 0), ("too large", 1)]));
}

#[test]
fn page_is_not_truncated_because_the_byte_limit_of_the_crawl_ends_within_it() {
    let (web, _) = large_start_page();
    let (pages, summary) = crawl(&web, "--max-bytes 400KB");
    assert!(pages.is_empty(), "{pages:?}");
    assert_eq!((&summary["stopped_by"], &summary["not_reached"]), (&"max-bytes".into(), &1.into()));
}

#[test]
fn summary_has_received_and_decoded_bytes() {
    let page = format!("{}{}", linking_to(&["/missing"]), "text ".repeat(20_000));
    let missing = Response::status(404).body("z".repeat(5_000));
    let web =
        serve(Site::new().response("/", Response::page(page.clone()).gzip()).response("/missing", missing));
    let (_, summary) = crawl(&web, "");
    assert_eq!(summary["bytes"], page.len());
    let received = summary["received"].as_u64().unwrap();
    assert!((5_100..10_000).contains(&received), "{summary}");
    let ended = Pipeline::of(web.url("/")).run().expect(0);
    assert!(ended.stdout.contains(" KB received · "), "{}", ended.stdout);
}

#[test]
fn byte_limit_applies_to_received_bytes() {
    // A skippable frame of 100 KB that decodes to nothing, before a small page.
    let links: Vec<String> = (0..40).map(|n| format!("/{n}")).collect();
    let links = linking_to(&links.iter().map(String::as_str).collect::<Vec<_>>());
    let site = Site::new().fallback(move |request| {
        let mut frame = b"\x50\x2a\x4d\x18".to_vec();
        frame.extend(100_000u32.to_le_bytes());
        frame.extend([0; 100_000]);
        let page = format!("{} {links}", request.path);
        // A frame with one block, the last one, which is not compressed.
        frame.extend(b"\x28\xb5\x2f\xfd\0\x58");
        frame.extend(&((page.len() as u32) << 3 | 1).to_le_bytes()[..3]);
        frame.extend(page.as_bytes());
        Response::page("").encoded("zstd", frame)
    });
    let web = serve(site);
    let (pages, summary) = crawl(&web, "--max-bytes 1MB --similarity 0 --max-page-bytes 200KB");
    assert_eq!(summary["stopped_by"], "max-bytes", "{summary}");
    let received = summary["received"].as_u64().unwrap();
    assert!((800_000..=1_000_000).contains(&received), "{summary}");
    assert!(summary["bytes"].as_u64().unwrap() < 1_000_000);
    assert!((8..=9).contains(&pages.len()), "{}", pages.len());
}
