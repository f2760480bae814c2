//! Web archives of whole crawls: what they have, how they are split, and what is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use crawler::internal::warc::header::RecordType;
use testweb::{Response, Site, Web};

use crate::archive_records::{Record, files, records, responses};
use crate::common::{Crawl, run, serve};
use crate::pipeline::{Pipeline, objects_in, urls};

/// A site with a page, its image and stylesheet, a redirect, a dead link, two equal pages, and a robots.txt.
fn site() -> Site {
    let links = "<link rel=stylesheet href=/s.css><img src=/i.png><a href=/moved></a><a href=/gone></a><a href=/same/1></a>\
                 <a href=/same/2></a>";
    Site::new()
        .page("/", links)
        .response("/s.css", Response::text("b { color: red }").content_type("text/css"))
        .response("/i.png", Response::text("not really").content_type("image/png"))
        .response("/moved", Response::redirect(302, "/target"))
        .page("/target", "<p>the target")
        .page("/same/1", "<p>equal pages")
        .page("/same/2", "<p>equal pages")
        .robots("User-agent: *\nDisallow: /secret")
}

fn crawl(web: &Web, directory: &Path, name: &str) -> Pipeline {
    Pipeline::bare(web.url("/"))
        .with("--resolve *=127.0.0.1 --allow-private --scope host")
        .module("warc", &directory.join(name))
}

/// The paths of all responses with their types and statuses.
fn archived(web: &Web, records: &[Record]) -> BTreeMap<String, (String, u16)> {
    let path = |record: &Record| record.url().replace(&web.url(""), "");
    let mut found = BTreeMap::new();
    for record in responses(records) {
        let value = (record.get("WARC-Type").to_owned(), record.status());
        assert!(found.insert(path(record), value).is_none(), "{} occurs twice", record.url());
    }
    found
}

#[test]
fn archive_has_every_response_and_what_pages_need_in_every_encoding() {
    let web = Web::builder().site(site()).start();
    for extension in ["warc.gz", "warc.zst", "warc"] {
        let directory = tempfile::tempdir().unwrap();
        let pages = directory.path().join("pages.jsonl");
        let name = format!("site.{extension}");
        let crawl = crawl(&web, directory.path(), &name).module("jsonl", &pages);
        let ended = crawl.with("--contact https://me.test/ --per-host 1").run().expect(0);
        let files = files(directory.path(), "site", extension);
        let kilobytes = fs::metadata(&files[0]).expect("the archive").len() as f64 / 1e3;
        let summary = format!(
            "Archived 9 responses, 1 of them a duplicate stored without its body; the archive has 1 file, {kilobytes:.1} KB\n"
        );
        assert!(ended.stdout.contains(&summary), "{}", ended.stdout);
        let records = records(&files);
        let whole = |status| ("response".to_owned(), status);
        let mut found = archived(&web, &records);
        let same = [found.remove("/same/1").unwrap(), found.remove("/same/2").unwrap()];
        let kinds: BTreeSet<&str> = same.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, BTreeSet::from(["response", "revisit"]), "{same:?}");
        let expected = [
            ("/", 200),
            ("/gone", 404),
            ("/i.png", 200),
            ("/moved", 302),
            ("/robots.txt", 200),
            ("/s.css", 200),
            ("/target", 200),
        ];
        let expected: BTreeMap<String, (String, u16)> =
            expected.into_iter().map(|(path, status)| (path.to_owned(), whole(status))).collect();
        assert_eq!(found, expected);
        let info = String::from_utf8_lossy(&records[0].block).into_owned();
        assert!(
            info.contains("operator: https://me.test/\r\n") && info.contains("robots: obey\r\n"),
            "{info}"
        );
        let replayed = directory.path().join("replayed.jsonl");
        let module = format!("jsonl={}", replayed.display());
        let archive = files[0].display().to_string();
        run(&["replay", &archive, "--similarity", "1", "--module", &module]).expect(0);
        assert_eq!(urls(&objects_in(&replayed)), urls(&objects_in(&pages)), "the same pages");
    }
}

#[test]
fn archive_without_requisites_has_pages_alone() {
    let web = Web::builder().site(site()).start();
    let directory = tempfile::tempdir().unwrap();
    let ended = crawl(&web, directory.path(), "site,no-requisites").run().expect(0);
    assert!(ended.stdout.contains("Archived 7 responses"), "{}", ended.stdout);
    let records = records(&files(directory.path(), "site", "warc.gz"));
    assert!(!archived(&web, &records).contains_key("/s.css"));
}

#[test]
fn file_that_a_page_shows_and_links_is_archived_whole_each_time() {
    let site = Site::new()
        .page("/", "<img src=/i.png><a href=/i.png></a><a href=/a.pdf></a>")
        .response("/i.png", Response::text("an image").content_type("image/png"))
        .response("/a.pdf", Response::text("a document").content_type("application/pdf"));
    let web = Web::builder().site(site).start();
    let directory = tempfile::tempdir().unwrap();
    crawl(&web, directory.path(), "site").with("--ignore-robots --per-host 1").run().expect(0);
    crawl(&web, directory.path(), "pages,no-requisites").with("--ignore-robots").run().expect(0);
    let captures = |name: &str, path: &str| -> Vec<(String, String, usize)> {
        let records = records(&files(directory.path(), name, "warc.gz"));
        let found = responses(&records).filter(|record| record.url() == web.url(path));
        let facts = |record: &Record| {
            let [kind, truncated] = ["WARC-Type", "WARC-Truncated"].map(|field| record.get(field).to_owned());
            (kind, truncated, record.payload().len())
        };
        found.map(facts).collect()
    };
    let capture = |kind: &str, truncated: &str, bytes| (kind.to_owned(), truncated.to_owned(), bytes);
    // What replays the archive may show either.
    assert_eq!(captures("site", "/i.png"), [capture("response", "", 8), capture("revisit", "", 0)]);
    assert_eq!(captures("site", "/a.pdf"), [capture("response", "unspecified", 0)]);
    assert_eq!(captures("pages", "/i.png"), [capture("response", "unspecified", 0)]);
}

#[test]
fn archive_is_split_by_size_and_replaced_only_on_request() {
    let web = Web::builder().site(Site::seeded(3, 30)).start();
    let directory = tempfile::tempdir().unwrap();
    let split = || crawl(&web, directory.path(), "site.warc.gz").with("--warc-size 5KB --ignore-robots");
    split().run().expect(0);
    let before = files(directory.path(), "site", "warc.gz");
    assert!(before.len() > 2, "{before:?}");
    for (number, file) in before.iter().enumerate() {
        let bytes = file.metadata().unwrap().len();
        assert!(bytes >= 5_000 || number + 1 == before.len(), "file {number} has {bytes} bytes");
    }
    let urls = |found: &[Record]| -> Vec<String> {
        responses(found).map(|record| record.url().to_owned()).collect()
    };
    let first = urls(&records(&before));
    let refused = split().run().expect(2);
    assert!(
        refused.stderr.contains("site-00001.warc.gz': it already has")
            && refused.stderr.contains("--overwrite"),
        "{}",
        refused.stderr
    );
    assert_eq!(urls(&records(&files(directory.path(), "site", "warc.gz"))), first);
    crawl(&web, directory.path(), "site.warc.gz")
        .with("--overwrite --ignore-robots --max-depth 0")
        .run()
        .expect(0);
    let after = files(directory.path(), "site", "warc.gz");
    assert_eq!(
        (after.len(), urls(&records(&after)).len()),
        (1, 1),
        "the files of the earlier crawl are gone"
    );
}

#[test]
fn secrets_are_archived_only_on_request() {
    for (option, is_kept) in [("", false), ("--warc-secrets", true)] {
        let web = Web::builder().site(site()).start();
        let directory = tempfile::tempdir().unwrap();
        let crawl =
            crawl(&web, directory.path(), "site.warc").with("--cookie id=sesame --max-depth 0").with(option);
        crawl
            .with("--header")
            .with_one("X-Key: sesame")
            .environment("CRAWLER_AUTH", "me:sesame")
            .run()
            .expect(0);
        let records = records(&files(directory.path(), "site", "warc"));
        let requests = records.iter().filter(|record| record.is(RecordType::Request));
        let kept =
            requests.filter(|record| String::from_utf8_lossy(&record.block).contains("sesame")).count();
        assert_eq!(kept > 0, is_kept);
    }
}

#[test]
fn resumed_crawl_continues_the_archive_and_knows_its_payloads() {
    let equal = "<p>equal pages <a href=/2>next</a>";
    let web = Web::builder().site(Site::new().page("/", equal).page("/2", equal)).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state").display().to_string();
    let crawl =
        crawl(&web, directory.path(), "site").with("--warc-size 100 --ignore-robots --max-pages 1 --state");
    crawl.with_one(&state).run().expect(0);
    let before = records(&files(directory.path(), "site", "warc.gz"));
    assert!(!archived(&web, &before).contains_key("/2"));
    run(&["resume", &state, "--max-pages", "100"]).expect(0);
    let records = records(&files(directory.path(), "site", "warc.gz"));
    let found = archived(&web, &records);
    assert_eq!(found["/2"], ("revisit".into(), 200), "{found:?}");
    assert_eq!(found["/"], ("response".into(), 200), "{found:?}");
    let why = run(&["why", &web.url("/"), "--state", &state]).expect(0);
    assert!(why.stdout.contains("output: a response in the archive"), "{}", why.stdout);
}

#[test]
fn archive_can_be_added_when_a_crawl_is_resumed() {
    let web = Web::builder().site(Site::seeded(5, 20)).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state").display().to_string();
    let crawl = Pipeline::of(web.url("/"))
        .with("--max-pages 5 --similarity 1 --max-page-bytes 10MB --state")
        .with_one(&state);
    crawl.run().expect(0);
    let module = format!("warc={}", directory.path().join("site.warc.gz").display());
    let before = web.log().len();
    run(&["resume", &state, "--max-pages", "100", "--module", &module]).expect(0);
    let records = records(&files(directory.path(), "site", "warc.gz"));
    assert_eq!(responses(&records).count(), web.log().len() - before, "all requests since then");
    // It is completed and left alone when it is removed.
    run(&["resume", &state, "--max-pages", "200", "--module", "noop"]).expect(0);
    assert_eq!(
        crate::archive_records::records(&files(directory.path(), "site", "warc.gz")).len(),
        records.len()
    );
}

#[test]
fn classic_crawl_archives_its_requests() {
    let web = Web::builder().site(site()).start();
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("site").display().to_string();
    let ended = Crawl::of(web.url("/")).depth(5).with("--warc").with_one(&archive).run().expect(0);
    assert!(ended.stdout.contains("Archived 7 responses"), "{}", ended.stdout);
    let records = records(&files(directory.path(), "site", "warc.gz"));
    let found = archived(&web, &records);
    assert_eq!(found.len(), web.log().len(), "each request once");
    assert_eq!(found["/robots.txt"], ("response".into(), 200));
}

#[test]
fn response_for_a_url_that_is_not_reached_is_archived() {
    let directory = tempfile::tempdir().unwrap();
    let late = Response::page("late").delay(Duration::from_secs(60));
    let web = serve(Site::new().robots("User-agent: *\n").response("/", late));
    // The time limit ends the request for the page.
    crawl(&web, directory.path(), "site").with("--max-time 6s").run();
    assert_eq!(web.log().paths(), ["/robots.txt", "/"]);
    let records = records(&files(directory.path(), "site", "warc.gz"));
    let paths: Vec<&str> = responses(&records).map(|response| response.url()).collect();
    assert_eq!(paths, [web.url("/robots.txt")]);
}

#[test]
fn replay_writes_no_archive() {
    let refused = run(&["replay", "x.warc.gz", "--module", "warc=y.warc.gz"]).expect(2);
    assert!(refused.stderr.contains("it archives requests, and a replay sends none"), "{}", refused.stderr);
}
