//! `crawler recrawl` and `crawler diff`: what is known is visited again, at the price of conditional requests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use testweb::{ChangingSite, LoggedRequest, Validator, Web};

use crate::common::{Ended, counts, linking_to, run, serve};
use crate::pipeline::{Pipeline, adds_up, objects, objects_in};
use crate::resume::killed_after;
use crate::state::StateDir;

/// Forty words that no other name has.
pub fn words(name: &str) -> String {
    (0..40).map(|number| format!("{name}{number} ")).collect()
}

/// A page for each way in which one can change, and their links on the seed.
fn site() -> ChangingSite {
    use Validator::{ETag, LastModified, WeakETag};
    let site = ChangingSite::new();
    let pages = ["/etag", "/weak", "/date", "/none", "/changed", "/gone", "/moved"];
    site.page("/", linking_to(&pages) + &words("seed"), ETag);
    for (path, validator) in pages.into_iter().zip([ETag, WeakETag, LastModified, Validator::None]) {
        site.page(path, words(&path[1..]), validator);
    }
    for path in &pages[4..] {
        site.page(path, words(&path[1..]), ETag);
    }
    site
}

/// Changes it: one page is changed, one gone, one moved, and one is new.
fn change(site: &ChangingSite) {
    let links = ["/etag", "/weak", "/date", "/none", "/changed", "/gone", "/moved", "/new"];
    site.page("/", linking_to(&links) + &words("seed"), Validator::ETag);
    site.page("/changed", words("changed") + "with a few more words", Validator::ETag);
    site.page("/new", words("new"), Validator::ETag);
    site.status("/gone", 404);
    site.redirect("/moved", "/target");
    site.page("/target", words("target"), Validator::ETag);
}

pub fn crawl(web: &Web, place: &StateDir) -> Pipeline {
    let crawl =
        place.crawl(web.url("/")).module("jsonl", &place.path("pages")).module("urls", &place.path("urls"));
    crawl.with("--scope host --summary").with_one(place.path("summary").display().to_string())
}

pub fn outcomes(place: &StateDir) -> BTreeMap<String, u64> {
    let summary = std::fs::read(place.path("summary")).unwrap();
    adds_up(&serde_json::from_slice::<Value>(&summary).unwrap())
}

fn requests(place: &StateDir) -> u64 {
    let summary = std::fs::read(place.path("summary")).unwrap();
    serde_json::from_slice::<Value>(&summary).unwrap()["requests"].as_u64().unwrap()
}

fn is_conditional(hit: &LoggedRequest) -> bool {
    hit.headers.iter().any(|(name, _)| name == "if-none-match" || name == "if-modified-since")
}

/// The path, version and change of each page, in the order of paths.
pub fn versions(web: &Web, place: &StateDir) -> Vec<(String, u64, bool)> {
    let pages = objects_in(&place.path("pages"));
    let path = |page: &Value| page["url"].as_str().unwrap()[web.url("").len()..].to_owned();
    let mut versions: Vec<(String, u64, bool)> = pages
        .iter()
        .map(|page| (path(page), page["version"].as_u64().unwrap(), page["changed"].as_bool().unwrap()))
        .collect();
    versions.sort();
    versions
}

pub fn diff(place: &StateDir, options: &[&str]) -> Ended {
    let state = place.state();
    run(&[&["diff", &state], options].concat())
}

#[test]
fn second_visit_costs_only_what_changed() {
    let (site, place) = (site(), StateDir::new());
    let web = serve(site.site());
    crawl(&web, &place).run().expect(0);
    assert_eq!(outcomes(&place), counts(&[("page", 8)]));
    assert!(
        diff(&place, &[])
            .expect(2)
            .stderr
            .contains("there is only one; visit its URLs again with: crawler recrawl")
    );
    let first = web.hits();
    change(&site);
    place.recrawl("").wait().expect(0);
    let expected = [("page", 4), ("unchanged", 4), ("HTTP 404", 1), ("redirect", 1)];
    assert_eq!(outcomes(&place), counts(&expected));

    let hits = &web.log()[first..];
    assert_eq!(requests(&place), hits.len() as u64, "{hits:?}");
    let pages: Vec<&LoggedRequest> = hits.iter().filter(|hit| hit.path != "/robots.txt").collect();
    let paths: BTreeSet<&str> = pages.iter().map(|hit| hit.path.as_str()).collect();
    assert_eq!((pages.len(), paths.len()), (10, 10), "each URL is requested once");
    let conditional: BTreeSet<&str> =
        pages.iter().filter(|hit| is_conditional(hit)).map(|hit| hit.path.as_str()).collect();
    assert_eq!(conditional, ["/", "/changed", "/date", "/etag", "/gone", "/moved", "/weak"].into());
    let not_modified: BTreeSet<&str> =
        pages.iter().filter(|hit| hit.status == Some(304)).map(|hit| hit.path.as_str()).collect();
    assert_eq!(not_modified, ["/date", "/etag", "/weak"].into(), "they cost no body");

    let expected = [
        ("/", 1, false),
        ("/", 2, true),
        ("/changed", 1, false),
        ("/changed", 2, true),
        ("/date", 1, false),
        ("/etag", 1, false),
        ("/gone", 1, false),
        ("/moved", 1, false),
        ("/new", 1, false),
        ("/none", 1, false),
        ("/target", 1, false),
        ("/weak", 1, false),
    ];
    let expected = expected.map(|(path, version, changed)| (path.to_owned(), version, changed));
    assert_eq!(versions(&web, &place), expected);
    assert_eq!(objects_in(&place.path("urls")).len(), 8 + 10, "a row for each URL of each visit");
}

#[test]
fn differences_between_two_visits_are_listed() {
    let (site, place) = (site(), StateDir::new());
    let web = serve(site.site());
    crawl(&web, &place).with("--workers 1").run().expect(0);
    change(&site);
    place.recrawl("").wait().expect(0);
    let shown = diff(&place, &[]).expect(0).stdout.replace(&web.url(""), "http://site");
    // The estimates of two crawls differ by a few percent.
    let shown: Vec<String> = shown
        .lines()
        .map(|line| match line.split_once("% similar") {
            Some((percent, rest)) if percent.len() == 6 => format!("   .. % similar{rest}"),
            _ => line.to_owned(),
        })
        .collect();
    insta::assert_snapshot!("diff", shown.join("\n"));
    let objects = objects(&diff(&place, &["--format", "json", "--exit-code"]).expect(1).stdout);
    let (numbers, changes) = objects.split_last().unwrap();
    assert_eq!(
        *numbers,
        serde_json::json!({"visit": 2, "new": 2, "changed": 2, "gone": 1, "moved": 1, "failed": 0, "unchanged": 4, "not_visited": 0})
    );
    let moved = changes.iter().find(|change| change["change"] == "moved").unwrap();
    assert_eq!((&moved["url"], &moved["to"]), (&web.url("/moved").into(), &web.url("/target").into()));
    let changed = changes.iter().find(|change| change["url"] == web.url("/changed").as_str()).unwrap();
    assert!((80..100).contains(&changed["similarity"].as_u64().unwrap()), "{changed}");

    // Nothing has changed since.
    place.recrawl("").wait().expect(0);
    let shown = diff(&place, &["--exit-code"]).expect(0).stdout;
    assert_eq!(shown, "Visit 3: 8 unchanged\n");
}

#[test]
fn commands_that_read_the_state_know_its_visits() {
    let (site, place) = (site(), StateDir::new());
    let web = serve(site.site());
    crawl(&web, &place).run().expect(0);
    change(&site);
    place.recrawl("").wait().expect(0);
    let state = place.state();
    let ask = |command: &str, path: &str| run(&[command, &web.url(path), "--state", &state]).expect(0).stdout;
    assert!(ask("show", "/changed").contains("a few more words"), "the latest version");
    let why = ask("why", "/changed");
    assert!(why.contains("visited 2 times, changed 1 time; version 2"), "{why}");
    let why = ask("why", "/etag");
    assert!(why.contains("visited 2 times, changed 0 times; version 1"), "{why}");
    let status = run(&["status", &state]).expect(0).stdout;
    assert!(status.contains("Unchanged") && status.contains("visit 2"), "{status}");
    run(&["report", &state, "--format", "markdown", "-o", "-"]).expect(0);
}

#[test]
fn page_that_moved_without_a_redirect_is_no_duplicate_of_what_is_gone() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    site.page("/", linking_to(&["/a"]) + &words("seed"), Validator::ETag);
    site.page("/a", words("text"), Validator::ETag);
    crawl(&web, &place).with("--workers 1").run().expect(0);
    // The page at /a is another one, and its old text is at /b.
    site.page("/a", words("another") + &linking_to(&["/b"]), Validator::ETag);
    site.page("/b", words("text"), Validator::ETag);
    place.recrawl("").wait().expect(0);
    assert_eq!(outcomes(&place), counts(&[("page", 2), ("unchanged", 1)]));
    // It is gone at /b, and then back at /a.
    site.status("/b", 410);
    place.recrawl("").wait().expect(0);
    site.page("/a", words("text") + &linking_to(&["/b"]), Validator::ETag);
    place.recrawl("").wait().expect(0);
    let versions = versions(&web, &place);
    assert!(versions.contains(&("/a".into(), 3, true)), "{versions:?}");
}

#[test]
fn only_urls_that_are_due_are_visited() {
    let (site, place) = (site(), StateDir::new());
    let web = serve(site.site());
    crawl(&web, &place).run().expect(0);
    let hits = web.hits();
    for revisit_after in ["1h", "auto"] {
        let ended = place.recrawl(&format!("--revisit-after {revisit_after}")).wait().expect(0);
        assert_eq!(web.hits(), hits, "{revisit_after}: {}", ended.stderr);
        assert!(ended.stderr.contains("nothing is due"), "{}", ended.stderr);
    }
    place.recrawl("--revisit-after 1ms").wait().expect(0);
    assert!(web.hits() >= hits + 8);
}

#[test]
fn limits_of_a_visit_start_at_zero_and_what_is_excluded_stays_out() {
    let (site, place) = (site(), StateDir::new());
    let web = serve(site.site());
    crawl(&web, &place).with("--max-pages 8").run().expect(0);
    for path in ["/etag", "/date", "/none"] {
        site.page(path, words(&format!("other{}", &path[1..])), Validator::None);
    }
    let hits = web.hits();
    place.recrawl("--exclude /none --similarity 0.9").wait().expect(0);
    assert_eq!(outcomes(&place), counts(&[("page", 2), ("unchanged", 5)]));
    assert!(!web.log()[hits..].iter().any(|hit| hit.path == "/none"));
}

#[test]
fn visit_that_is_killed_is_continued_and_each_url_is_visited_once() {
    for command in ["recrawl", "resume"] {
        let (site, place) = (ChangingSite::new(), StateDir::new());
        let web = serve(site.site());
        let paths: Vec<String> = (0..60).map(|number| format!("/{number}")).collect();
        let links: Vec<&str> = paths.iter().map(String::as_str).collect();
        site.page("/", linking_to(&links), Validator::ETag);
        paths.iter().for_each(|path| site.page(path, words(&path[1..]), Validator::ETag));
        crawl(&web, &place).with("--concurrency 2 --workers 1").run().expect(0);
        paths
            .iter()
            .step_by(2)
            .for_each(|path| site.page(path, words(&format!("x{}", &path[1..])), Validator::ETag));
        let first = web.hits();
        for requests in [1, 8, 20] {
            killed_after(&web, requests, place.recrawl(""));
        }
        assert!(diff(&place, &[]).expect(0).stdout.contains("not visited"));
        match command {
            "resume" => place.resume("").wait().expect(0),
            _ => place.recrawl("").wait().expect(0),
        };
        assert_eq!(outcomes(&place), counts(&[("page", 30), ("unchanged", 31)]));
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for hit in web.log()[first..].iter().filter(|hit| hit.path != "/robots.txt") {
            *times.entry(hit.path.clone()).or_default() += 1;
        }
        // What was in flight when the process was killed is requested again.
        assert_eq!(times.len(), 61);
        assert!(times.values().filter(|times| **times > 1).count() <= 24, "{times:?}");
        let versions = versions(&web, &place);
        assert_eq!(versions.len(), 61 + 30, "{command}: each version is in the output once");
        assert_eq!(versions.iter().filter(|(_, version, _)| *version == 2).count(), 30);
        assert_eq!(versions.iter().collect::<BTreeSet<_>>().len(), versions.len());
        let shown = diff(&place, &[]).expect(0).stdout;
        assert!(shown.ends_with("Visit 2: 30 changed · 31 unchanged\n"), "{shown}");
    }
}

#[test]
fn every_output_gets_the_pages_that_changed_and_keeps_the_others() {
    let (site, place) = (site(), StateDir::new());
    let web = serve(site.site());
    let outputs = ["mirror", "graphml", "parquet", "check", "edges", "markdown", "csv"];
    let crawl = outputs.iter().fold(crawl(&web, &place), |crawl, name| crawl.module(name, &place.path(name)));
    crawl.module("pages", &place.path("numbered")).run().expect(0);
    let read = |path: &str| std::fs::read_to_string(place.path(path)).unwrap();
    let mirrored = |name: &str| {
        let files = objects_in(&place.path("mirror/mirror.jsonl"));
        let file = files.iter().find(|file| file["url"] == web.url(name).as_str()).unwrap();
        read(&format!("mirror/{}", file["file"].as_str().unwrap()))
    };
    let edges = read("edges");
    assert!(mirrored("/changed").contains("changed39"));
    change(&site);
    place.recrawl("").wait().expect(0);
    assert!(mirrored("/changed").contains("a few more words"), "the latest version");
    assert!(mirrored("/etag").contains("etag39") && mirrored("/new").contains("new39"));
    assert!(read("edges").starts_with(&edges) && read("edges").contains("/new"));
    assert!(read("graphml").matches("<node ").count() >= 9, "{}", read("graphml"));
    assert_eq!(read("csv").lines().count(), 1 + 8 + 4);
    assert!(read("check").contains("/gone"), "{}", read("check"));
    let pages = std::fs::read_dir(place.path("numbered")).unwrap().count();
    assert_eq!(pages, 8 + 4, "pages are numbered on");
}

#[test]
fn mirror_has_no_page_that_became_a_duplicate_or_moved() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    let paths = ["/a", "/b", "/moved", "/left"];
    site.page("/", linking_to(&paths) + &words("seed"), Validator::ETag);
    paths.iter().for_each(|path| site.page(path, words(&path[1..]), Validator::ETag));
    crawl(&web, &place).module("mirror", &place.path("mirror")).run().expect(0);
    site.page("/b", words("a"), Validator::ETag);
    site.redirect("/moved", "/target");
    site.page("/target", words("target"), Validator::ETag);
    site.redirect("/left", "http://elsewhere.test/");
    place.recrawl("").wait().expect(0);
    assert_eq!(outcomes(&place)["duplicate"], 1);
    let listed: Vec<String> = objects_in(&place.path("mirror/mirror.jsonl"))
        .iter()
        .map(|file| file["url"].as_str().unwrap()[web.url("").len()..].to_owned())
        .collect();
    assert_eq!(listed.iter().map(String::as_str).collect::<BTreeSet<_>>(), ["/", "/a", "/target"].into());
    let directory = std::fs::read_dir(place.path("mirror")).unwrap().find_map(|entry| {
        let entry = entry.unwrap();
        entry.file_type().unwrap().is_dir().then(|| entry.path())
    });
    let seed = std::fs::read_to_string(directory.unwrap().join("index.html")).unwrap();
    let links: Vec<&str> = seed.split("href=").skip(1).map(|link| link.split('>').next().unwrap()).collect();
    let expected = ["a.html".to_owned(), "a.html".into(), "target.html".into(), web.url("/left")];
    assert_eq!(links.iter().map(|link| link.trim_matches('"')).collect::<Vec<_>>(), expected);
}

#[test]
fn sitemap_that_names_a_later_change_makes_a_page_due() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let web = serve(site.site());
    let sitemap = |time: &str| {
        let entry = |path: &str, lastmod: &str| format!("<url><loc>{}</loc>{lastmod}</url>", web.url(path));
        let changed = entry("/changed", &format!("<lastmod>{time}</lastmod>"));
        format!(
            "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{changed}{}</urlset>",
            entry("/same", "")
        )
    };
    site.page("/", words("seed"), Validator::ETag);
    site.page("/same", words("same"), Validator::ETag);
    site.page("/changed", words("changed"), Validator::ETag);
    site.page("/sitemap.xml", sitemap("2001-02-03"), Validator::ETag);
    crawl(&web, &place).with("--sitemap").with_one(web.url("/sitemap.xml")).run().expect(0);
    let first = web.hits();
    place.recrawl("--revisit-after auto").wait().expect(0);
    let asked =
        |from: usize| -> BTreeSet<String> { web.log()[from..].iter().map(|hit| hit.path.clone()).collect() };
    assert!(
        !asked(first).contains("/changed") && asked(first).contains("/sitemap.xml"),
        "{:?}",
        asked(first)
    );
    // The time of a change has seconds, so the next second is after the last visit.
    let second = web.hits();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    site.page("/changed", words("changed") + "again", Validator::ETag);
    let now = crawler::internal::modules::timestamp::rfc3339(std::time::SystemTime::now());
    site.page("/sitemap.xml", sitemap(&now), Validator::ETag);
    place.recrawl("--revisit-after auto").wait().expect(0);
    assert_eq!(
        asked(second).iter().filter(|path| *path != "/robots.txt").collect::<Vec<_>>(),
        ["/changed", "/sitemap.xml"]
    );
    assert!(versions(&web, &place).contains(&("/changed".into(), 2, true)));
}
