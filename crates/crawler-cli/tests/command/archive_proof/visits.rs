//! The archive of a crawl that visits its URLs again: what has not changed refers to what the archive has.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;
use testweb::{ChangingSite, Validator, Web};

use crate::archive_files::crawler;
use crate::archive_judges::valid;
use crate::archive_records::files;
use crate::common::{linking_to, serve};
use crate::recrawl::words;
use crate::resume::killed_after;
use crate::state::StateDir;

/// The paths of the site, the types of their records in three visits, and the profiles of those that are revisits.
const EXPECTED: [(&str, [&str; 3]); 8] = [
    ("/", ["response", "server-not-modified", "server-not-modified"]),
    ("/etag", ["response", "server-not-modified", "server-not-modified"]),
    ("/date", ["response", "server-not-modified", "server-not-modified"]),
    ("/none", ["response", "identical-payload-digest", "identical-payload-digest"]),
    ("/changed", ["response", "response", "server-not-modified"]),
    ("/sitemap.xml", ["response", "server-not-modified", "server-not-modified"]),
    ("/same/1", ["response", "server-not-modified", "server-not-modified"]),
    ("/same/2", ["identical-payload-digest", "server-not-modified", "server-not-modified"]),
];

/// A crawl of three visits, the second of which is killed twice, and its web.
pub fn archive_of_visits() -> (StateDir, Web) {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    let linked = EXPECTED.map(|(path, _)| path).into_iter().filter(|path| !path.contains('.'));
    site.page("/", linking_to(&linked.skip(1).collect::<Vec<_>>()), Validator::ETag);
    for (path, validator) in [
        ("/etag", Validator::WeakETag),
        ("/date", Validator::LastModified),
        ("/none", Validator::None),
        ("/changed", Validator::ETag),
    ] {
        site.page(path, words(&path[1..]), validator);
    }
    for path in ["/same/1", "/same/2"] {
        site.page(path, words("same"), Validator::ETag);
    }
    let web = serve(site.site());
    let listed = format!("<urlset><url><loc>{}</loc></url></urlset>", web.url("/etag"));
    site.page("/sitemap.xml", listed, Validator::ETag);
    let crawl = place
        .crawl(web.url("/"))
        .with("--sitemap")
        .with_one(web.url("/sitemap.xml"))
        .with("--scope host --similarity 0 --per-host 1 --warc-size 2KB --wacz");
    crawl.module("warc", &place.path("crawl.warc.gz")).run().expect(0);
    site.page("/changed", words("changed") + "and more", Validator::ETag);
    for requests in [3, 4] {
        killed_after(&web, requests, place.recrawl("--delay 100ms"));
    }
    place.recrawl("--delay 0s").wait().expect(0);
    place.recrawl("").wait().expect(0);
    (place, web)
}

/// The files of the archive.
pub fn files_of(place: &StateDir) -> Vec<PathBuf> {
    files(place.path("crawl.warc.gz").parent().unwrap(), "crawl", "warc.gz")
}

#[test]
fn archive_of_visits_has_each_once_and_refers_to_what_it_has() {
    let (place, web) = archive_of_visits();
    let files = files_of(&place);
    assert!(files.len() > 2, "{files:?}");
    let responses = valid(&files, &[]);
    for (path, expected) in EXPECTED {
        let is_it = |response: &&Value| response["url"] == web.url(path).as_str();
        let kind = |response: &Value| {
            let kind = if response["type"] == "revisit" { "profile" } else { "type" };
            response[kind].as_str().unwrap().to_owned()
        };
        let found: Vec<String> = responses.iter().filter(is_it).map(kind).collect();
        let same = |kinds: &[String]| kinds.iter().filter(|kind| *kind == "identical-payload-digest").count();
        if path.starts_with("/same") {
            // Either of the two may be the first.
            assert_eq!((found.len(), &found[1..]), (3, &expected.map(str::to_owned)[1..]), "{path}");
            assert!(same(&found) <= 1, "{found:?}");
        } else {
            assert_eq!(found, expected, "{path}");
        }
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    for archive in [names.join(" "), place.path("crawl.wacz").display().to_string()] {
        for (path, text) in [("/etag", words("etag")), ("/same/1", words("same")), ("/same/2", words("same"))]
        {
            let shown = crawler(&format!("show {} --archive {archive}", web.url(path))).expect(0);
            assert_eq!(shown.stdout, text, "{path}");
        }
    }
}

#[test]
fn recrawl_archives_what_was_fetched_before_there_was_an_archive() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    site.page("/", linking_to(&["/page", "/same"]), Validator::ETag);
    site.page("/page", words("page"), Validator::ETag);
    site.page("/same", words("page"), Validator::ETag);
    let web = serve(site.site());
    let rows = place.path("urls.jsonl");
    let crawl = place.crawl(web.url("/")).with("--scope host --similarity 0 --per-host 1");
    crawl.module("urls", &rows).run().expect(0);
    let archive = place.path("crawl.warc.gz");
    let with_archive = format!("--module urls={} --module warc={}", rows.display(), archive.display());
    place.recrawl(&with_archive).wait().expect(0);
    let types = |responses: &[Value], path: &str| -> Vec<String> {
        let of_path = responses.iter().filter(|response| response["url"] == web.url(path).as_str());
        of_path.map(|response| response["type"].as_str().unwrap().to_owned()).collect()
    };
    let responses = valid(&files_of(&place), &[]);
    assert_eq!(types(&responses, "/page").len(), 1, "{responses:?}");
    assert!(responses.iter().all(|response| response["status"] != 304), "{responses:?}");
    let hits = web.hits();
    place.recrawl("").wait().expect(0);
    assert!(web.log()[hits..].iter().filter(|hit| hit.status == Some(304)).count() >= 2, "once per URL");
    assert_eq!(types(&valid(&files_of(&place), &[]), "/").join(" "), "response revisit");
    // Another archive starts with the bodies, too.
    let second = place.path("second.warc.gz");
    place.recrawl(&format!("--module warc={}", second.display())).wait().expect(0);
    let responses = valid(&files(second.parent().unwrap(), "second", "warc.gz"), &[]);
    assert_eq!(types(&responses, "/").join(" "), "response");
}

#[test]
fn unchanged_page_refers_to_the_record_that_has_its_body() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    site.page("/", words("seed"), Validator::ETag);
    let web = serve(site.site());
    let archive = place.path("crawl.warc.gz");
    place.crawl(web.url("/")).module("warc", &archive).run().expect(0);
    // The same body with another ETag, which the archive does not store again.
    site.page("/", words("seed"), Validator::ETag);
    place.recrawl("").wait().expect(0);
    place.recrawl("").wait().expect(0);
    let responses = valid(&files_of(&place), &[]);
    let of_seed: Vec<&Value> =
        responses.iter().filter(|response| response["url"] == web.url("/").as_str()).collect();
    let kinds: Vec<&str> =
        of_seed.iter().map(|response| response["profile"].as_str().unwrap_or("response")).collect();
    assert_eq!(kinds, ["response", "identical-payload-digest", "server-not-modified"]);
    assert_eq!(of_seed[2]["refers_to_date"], of_seed[0]["date"], "{of_seed:?}");
}

#[test]
fn archive_of_a_continuous_crawl_that_was_killed_keeps_all_rules() {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    site.page("/", linking_to(&["/none", "/date", "/changed"]), Validator::ETag);
    site.page("/none", words("none"), Validator::None);
    site.page("/date", words("date"), Validator::LastModified);
    site.page("/changed", words("changed"), Validator::ETag);
    let web = serve(site.site());
    let crawl = place.crawl(web.url("/")).with("--scope host --revisit-after 200ms --warc-size 3KB");
    killed_after(&web, 15, crawl.module("warc", &place.path("crawl.warc.gz")).start());
    site.page("/changed", words("changed") + "and more", Validator::ETag);
    killed_after(&web, 15, place.resume(""));
    let (before, mut last) = (web.hits(), place.resume(""));
    last.until("some requests", |_| web.hits() >= before + 15);
    last.signal(Signal::INT);
    last.wait().expect(130);
    let responses = valid(&files_of(&place), &[]);
    let kinds = |path: &str| {
        let of_path = responses.iter().filter(|response| response["url"] == web.url(path).as_str());
        of_path.map(|response| response["profile"].as_str().unwrap_or("response")).collect::<Vec<_>>()
    };
    for (path, versions, later) in [
        ("/", 1, "server-not-modified"),
        ("/none", 1, "identical-payload-digest"),
        ("/date", 1, "server-not-modified"),
        ("/changed", 2, "server-not-modified"),
    ] {
        let kinds = kinds(path);
        assert_eq!(kinds.iter().filter(|kind| **kind == "response").count(), versions, "{path}: {kinds:?}");
        assert!(kinds.len() > versions + 2, "{path}: {kinds:?}");
        assert!(kinds.iter().all(|kind| *kind == "response" || *kind == later), "{path}: {kinds:?}");
    }
    // What was in flight when the process was killed was requested again.
    assert!(responses.len() <= web.hits(), "{} of {}", responses.len(), web.hits());
}
