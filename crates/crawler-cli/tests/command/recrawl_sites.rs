//! `crawler recrawl` of sites that move their pages about, have careless sitemaps, or do not follow the rules of HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crawler::internal::modules::timestamp::rfc3339;
use serde_json::{Value, json};
use testweb::{ChangingSite, Response, Site, Validator, Web};

use crate::common::{counts, linking_to, run, serve};
use crate::pipeline::objects;
use crate::recrawl::{crawl, diff, outcomes, versions, words};
use crate::resume::killed_after;
use crate::state::StateDir;

/// How often each path was requested, from a request on.
fn times(web: &Web, from: usize) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for hit in &web.log()[from..] {
        *times.entry(hit.path.clone()).or_default() += 1;
    }
    times
}

/// A sitemap that names each of these paths, with the time of its last change.
fn sitemap(web: &Web, paths: &[&str], lastmod: &str) -> String {
    let entry = |path: &&str| format!("<url><loc>{}</loc><lastmod>{lastmod}</lastmod></url>", web.url(path));
    let entries: String = paths.iter().map(entry).collect();
    format!("<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{entries}</urlset>")
}

/// Now, in a later second than all before: the times of changes in sitemaps have seconds.
fn a_second_later() -> String {
    thread::sleep(Duration::from_millis(1_100));
    rfc3339(SystemTime::now())
}

#[test]
fn sitemap_that_has_not_changed_has_not_failed() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    site.page("/", words("seed"), Validator::ETag);
    site.page("/listed", words("listed"), Validator::ETag);
    site.page("/sitemap.xml", sitemap(&web, &["/listed"], "2001-02-03"), Validator::ETag);
    // It is no sitemap, and is read again at each visit.
    site.page("/empty.xml", "", Validator::ETag);
    let crawl = crawl(&web, &place).with("--sitemap").with_one(web.url("/sitemap.xml"));
    crawl.with("--sitemap").with_one(web.url("/empty.xml")).run().expect(0);
    place.recrawl("").wait().expect(0);
    assert_eq!(outcomes(&place), counts(&[("page", 0), ("unchanged", 3)]), "two pages and a sitemap");
    let summary: Value = serde_json::from_slice(&std::fs::read(place.path("summary")).unwrap()).unwrap();
    assert_eq!(summary["failed_sitemaps"], json!({web.url("/empty.xml"): "it is empty"}));
}

/// A server that sends the body with a 304 response, too, and so late that the next request comes first. Returns its port.
fn serve_late_bodies() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            thread::spawn(move || send_late_bodies(&client.unwrap()));
        }
    });
    port
}

fn send_late_bodies(mut client: &TcpStream) {
    let (mut lines, mut late) = (BufReader::new(client).lines().map_while(Result::ok), String::new());
    loop {
        let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else { return };
        let links = if path == "/" { linking_to(&["/a", "/b", "/c", "/d"]) } else { String::new() };
        let html = links + &words(&format!("page{}", &path[1..]));
        let is_known = head.iter().any(|line| line.to_ascii_lowercase().starts_with("if-none-match:"));
        let status = if is_known { "304 Not Modified" } else { "200 OK" };
        let headers = format!("Content-Type: text/html\r\nETag: \"1\"\r\nContent-Length: {}", html.len());
        let response = format!("{late}HTTP/1.1 {status}\r\n{headers}\r\n\r\n");
        late = html;
        let response = if is_known { response } else { response + &std::mem::take(&mut late) };
        if client.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn body_of_a_304_response_is_not_the_response_to_the_next_request() {
    let (port, place) = (serve_late_bodies(), StateDir::new());
    let crawl =
        place.crawl(format!("http://127.0.0.1:{port}/")).with("--scope host --workers 1 --per-host 1");
    crawl.with("--summary").with_one(place.path("summary").display().to_string()).run().expect(0);
    assert_eq!(outcomes(&place), counts(&[("page", 5)]));
    place.recrawl("").wait().expect(0);
    assert_eq!(outcomes(&place), counts(&[("page", 0), ("unchanged", 5)]));
}

#[test]
fn pages_that_become_one_page_have_changed() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    let paths = ["/a", "/b", "/c"];
    site.page("/", linking_to(&paths) + &words("seed"), Validator::ETag);
    paths.iter().for_each(|path| site.page(path, words(&path[1..]), Validator::ETag));
    crawl(&web, &place).with("--workers 1 --per-host 1").run().expect(0);
    paths.iter().for_each(|path| site.page(path, words("maintenance"), Validator::ETag));
    place.recrawl("").wait().expect(0);
    assert_eq!(outcomes(&place), counts(&[("page", 1), ("duplicate", 2), ("unchanged", 1)]));
    let shown = diff(&place, &[]).expect(0).stdout;
    assert!(shown.ends_with("Visit 2: 3 changed · 1 unchanged\n"), "{shown}");
    // The text that one of the duplicates had is a page where it comes back.
    site.page("/a", words("c"), Validator::ETag);
    place.recrawl("").wait().expect(0);
    assert!(versions(&web, &place).contains(&("/a".into(), 3, true)));
}

#[test]
fn duplicate_whose_original_is_gone_becomes_a_page() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    site.page("/", linking_to(&["/a", "/b"]) + &words("seed"), Validator::ETag);
    ["/a", "/b"].iter().for_each(|path| site.page(path, words("same"), Validator::ETag));
    crawl(&web, &place).with("--workers 1 --per-host 1").run().expect(0);
    assert_eq!(outcomes(&place), counts(&[("page", 2), ("duplicate", 1)]));
    place.recrawl("").wait().expect(0);
    assert_eq!(outcomes(&place), counts(&[("page", 0), ("unchanged", 2), ("duplicate", 1)]));
    let delivered = versions(&web, &place);
    let (original, duplicate) = if delivered[1].0 == "/a" { ("/a", "/b") } else { ("/b", "/a") };
    site.status(original, 404);
    // The duplicate may be visited before its original.
    place.recrawl("").wait().expect(0);
    place.recrawl("").wait().expect(0);
    assert!(versions(&web, &place).contains(&(duplicate.into(), 1, false)), "{:?}", versions(&web, &place));
    let hits = web.hits();
    place.recrawl("").wait().expect(0);
    let is_not_modified =
        |path: &str| web.log()[hits..].iter().any(|hit| hit.path == path && hit.status == Some(304));
    assert!(is_not_modified(duplicate), "it is a page as others");
}

/// A page, a duplicate and a near-duplicate of it that are found there, and a seed. The page is sent late from when `is_late` is set.
fn site_with_duplicates(is_late: &Arc<AtomicBool>) -> Site {
    let is_late = Arc::clone(is_late);
    let text = linking_to(&["/original", "/near"]) + &linking_to(&["/copy"]) + &words("same").repeat(3);
    Site::new().page("/", linking_to(&["/original"]) + &words("seed")).fallback(move |request| match request
        .path
        .as_str()
    {
        "/original" if is_late.load(Ordering::Relaxed) => {
            Response::page(text.clone()).delay(Duration::from_secs(2))
        }
        "/original" | "/copy" => Response::page(text.clone()),
        "/near" => Response::page(text.clone() + "and one word"),
        _ => Response::status(404),
    })
}

#[test]
fn duplicates_that_are_visited_before_their_original_are_the_duplicates_that_they_were() {
    let (is_late, place) = (Arc::default(), StateDir::new());
    let web = serve(site_with_duplicates(&is_late));
    crawl(&web, &place).with("--workers 1 --similarity 0.9").run().expect(0);
    let expected = |pages: u64, unchanged: &[(&str, u64)]| {
        let duplicates = [("page", pages), ("duplicate", 1), ("near-duplicate", 1)];
        counts(&[&duplicates, unchanged].concat())
    };
    assert_eq!(outcomes(&place), expected(2, &[]));
    let delivered = versions(&web, &place);
    is_late.store(true, Ordering::Relaxed);
    place.recrawl("--max-pages 1").wait().expect(0);
    assert_eq!(outcomes(&place), expected(0, &[("unchanged", 2)]));
    assert_eq!(versions(&web, &place), delivered, "outputs get no page again");
    assert_eq!(diff(&place, &["--exit-code"]).expect(0).stdout, "Visit 2: 4 unchanged\n");
    let why = run(&["why", &web.url("/copy"), "--state", &place.state()]).expect(0).stdout;
    assert!(why.contains("visited 2 times, changed 0 times"), "{why}");
}

#[test]
fn time_of_a_change_that_is_in_the_future_makes_no_page_due() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    site.page("/", words("seed"), Validator::ETag);
    site.page("/a", words("a"), Validator::ETag);
    site.page("/sitemap.xml", sitemap(&web, &["/a"], "2099-01-01"), Validator::ETag);
    crawl(&web, &place).with("--sitemap").with_one(web.url("/sitemap.xml")).run().expect(0);
    let first = web.hits();
    place.recrawl("--revisit-after auto").wait().expect(0);
    assert_eq!(times(&web, first), counts(&[("/sitemap.xml", 1)]));
}

#[test]
fn visit_starts_when_the_outputs_of_the_last_one_are_completed_after_a_failure() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    site.page("/", linking_to(&["/a"]) + &words("seed"), Validator::ETag);
    site.page("/a", words("a"), Validator::ETag);
    let (graph, marker) = (place.path("graph"), place.path("marker"));
    // Another program writes to the output during the first crawl.
    let (graph_file, marker) = (graph.display(), marker.display());
    let script = format!("[ -e {marker} ] || {{ touch {marker}; echo x > {graph_file}; }}; cat > {marker}");
    let first =
        crawl(&web, &place).module("graphml", &graph).with("--module").with_one(format!("exec={script}"));
    let failed = first.run().expect(3);
    assert!(failed.stderr.contains("another program has written to it"), "{}", failed.stderr);
    let hits = web.hits();
    place.recrawl("").wait().expect(0);
    assert_eq!(times(&web, hits), counts(&[("/", 1), ("/a", 1)]));
    assert_eq!(outcomes(&place), counts(&[("page", 0), ("unchanged", 2)]));
    assert!(std::fs::read_to_string(&graph).unwrap().contains("/a"), "the output is complete");
}

#[test]
fn page_that_was_cut_is_completed_by_a_visit_with_a_larger_limit() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    let long = words("start") + &words("filling").repeat(300) + "the end";
    site.page("/", long.clone(), Validator::ETag);
    crawl(&web, &place).with("--max-page-bytes 1KB --oversize truncate").run().expect(0);
    place.recrawl("--max-page-bytes 1MB").wait().expect(0);
    assert_eq!(versions(&web, &place).last(), Some(&("/".into(), 2, true)));
    place.recrawl("").wait().expect(0);
    assert_eq!(web.log().last().unwrap().status, Some(304), "all of it was received");
}

#[test]
fn pages_that_exchange_their_texts_are_versions_of_both() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    site.page("/", linking_to(&["/a", "/b"]) + &words("seed"), Validator::ETag);
    site.page("/a", words("one"), Validator::ETag);
    site.page("/b", words("two"), Validator::ETag);
    crawl(&web, &place).with("--workers 1 --per-host 1").run().expect(0);
    site.page("/a", words("two"), Validator::ETag);
    site.page("/b", words("one"), Validator::ETag);
    place.recrawl("").wait().expect(0);
    assert_eq!(outcomes(&place), counts(&[("page", 2), ("unchanged", 1)]));
}

#[test]
fn page_is_no_duplicate_of_a_url_that_has_moved_there_and_is_visited_later() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    // The old place is deep in the site, so that the new one is visited first.
    site.page("/", linking_to(&["/1"]) + &words("seed"), Validator::ETag);
    site.page("/1", linking_to(&["/2"]) + &words("first"), Validator::ETag);
    site.page("/2", linking_to(&["/old"]) + &words("second"), Validator::ETag);
    site.page("/old", words("text"), Validator::ETag);
    crawl(&web, &place).with("--workers 1 --per-host 1").run().expect(0);
    site.page("/", linking_to(&["/1", "/place"]) + &words("seed"), Validator::ETag);
    site.page("/place", words("text"), Validator::ETag);
    site.redirect("/old", "/place");
    place.recrawl("").wait().expect(0);
    assert!(versions(&web, &place).contains(&("/place".into(), 1, false)));
    let shown = diff(&place, &[]).expect(0).stdout;
    assert!(shown.ends_with("Visit 2: 1 new · 1 changed · 1 moved · 2 unchanged\n"), "{shown}");
}

#[test]
fn similarity_of_versions_does_not_depend_on_how_pages_are_compared() {
    for similarity in ["0", "0.9", "1"] {
        let (site, place) = (ChangingSite::new(), StateDir::new());
        let web = serve(site.site());
        site.page("/", words("seed"), Validator::ETag);
        // Too short for an estimate.
        site.page("/short", "one two three four five", Validator::ETag);
        let short = crawl(&web, &place).with_one(web.url("/short"));
        short.with("--similarity").with_one(similarity).run().expect(0);
        site.page("/", words("seed") + "and four more words", Validator::ETag);
        site.page("/short", "one two three four six", Validator::ETag);
        place.recrawl("").wait().expect(0);
        let shown = objects(&diff(&place, &["--format", "json"]).expect(0).stdout);
        let of = |path: &str| {
            let change = shown.iter().find(|change| change["url"] == web.url(path).as_str()).unwrap();
            change["similarity"].as_u64()
        };
        // 39 pairs of words were there before, and are among 43 now; 3 of 4 are the same.
        assert_eq!((of("/"), of("/short")), (Some(95), Some(75)), "--similarity {similarity}");
    }
}

#[test]
fn sitemap_that_names_a_url_twice_makes_it_due_once() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    site.page("/", words("seed"), Validator::ETag);
    site.page("/a", words("a"), Validator::ETag);
    site.page("/sitemap.xml", sitemap(&web, &["/a"], "2001-02-03"), Validator::ETag);
    crawl(&web, &place).with("--sitemap").with_one(web.url("/sitemap.xml")).run().expect(0);
    site.page("/sitemap.xml", sitemap(&web, &["/a", "/a", "/a"], &a_second_later()), Validator::ETag);
    let first = web.hits();
    place.recrawl("--revisit-after auto").wait().expect(0);
    assert_eq!(times(&web, first), counts(&[("/a", 1), ("/sitemap.xml", 1)]));
    place.recrawl("").wait().expect(0);
}

#[test]
fn resumed_visit_still_uses_the_times_in_sitemaps() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    site.page("/", words("seed"), Validator::ETag);
    let crawl = ["a", "b"].iter().fold(crawl(&web, &place), |crawl, name| {
        site.page(&format!("/{name}"), words(name), Validator::ETag);
        let listed = sitemap(&web, &[&format!("/{name}")], "2001-02-03");
        site.page(&format!("/{name}.xml"), listed, Validator::ETag);
        crawl.with("--sitemap").with_one(web.url(&format!("/{name}.xml")))
    });
    crawl.with("--workers 1 --per-host 1").run().expect(0);
    let now = a_second_later();
    for name in ["a", "b"] {
        site.page(&format!("/{name}.xml"), sitemap(&web, &[&format!("/{name}")], &now), Validator::ETag);
    }
    // Killed while the second sitemap waits for the delay.
    killed_after(&web, 1, place.recrawl("--revisit-after auto --delay 3s"));
    let first = web.hits();
    place.resume("--delay 0").wait().expect(0);
    let times = times(&web, first);
    assert_eq!((times.get("/a"), times.get("/b")), (Some(&1), Some(&1)), "{times:?}");
}
