//! The archives of crawls, checked by an own strict validator and by programs of others: no single one notices everything.

mod defects;
pub mod manual;
mod pywb;
mod tools;
pub mod visits;

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testweb::{Certificate, Hostile, Response, Site, Web};

use crate::archive_files::crawler;
use crate::archive_judges::valid;
use crate::archive_records::files;
use crate::common::{linking_to, serve};
use crate::pipeline::{Pipeline, objects, objects_in, urls};

/// The only response of a path.
#[track_caller]
fn of_path<'r>(responses: &'r [Value], path: &str) -> &'r Value {
    let is_it = |response: &&Value| response["url"].as_str().unwrap().ends_with(path);
    let found: Vec<&Value> = responses.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{path}: {found:?}");
    found[0]
}

/// A site with every kind of response.
fn site_of_all_kinds() -> Site {
    let long = "<p>some words ".repeat(1_000);
    let image: Vec<u8> = [b"\x89PNG\r\n\x1a\n".to_vec(), (0..=255).cycle().take(3_000).collect()].concat();
    let paths = [
        "/gzip",
        "/deflate",
        "/zstd",
        "/chunked",
        "/gzip-chunked",
        "/until-close",
        "/moved",
        "/missing",
        "/error",
        "/empty",
        "/no-content",
        "/large",
        "/first",
        "/second",
        "/short",
        "/query?b=2&a=1",
        "/caf\u{e9}",
        "/secret",
    ];
    let start = linking_to(&paths) + "<img src=/image.png><link rel=stylesheet href=/style.css>";
    Site::new()
        .robots("User-agent: *\nDisallow: /private\n")
        .page("/", start)
        .response("/gzip", Response::page(format!("<title>gzip</title>{long}")).gzip())
        .response("/deflate", Response::page(format!("<title>deflate</title>{long}")).deflate())
        .response("/zstd", Response::page(format!("<title>zstd</title>{long}")).zstd())
        .response("/chunked", Response::page(format!("<title>chunked</title>{long}")).chunked())
        .response("/gzip-chunked", Response::page(format!("<title>both</title>{long}")).gzip().chunked())
        .response("/until-close", Response::page("<title>until close</title>").until_close())
        .redirect("/moved", "/target")
        .page("/target", "<title>target</title>")
        .status("/missing", 404)
        .status("/error", 500)
        .response("/empty", Response::page(""))
        .response("/no-content", Response::status(204).body(""))
        .page("/large", "<p>a large page ".repeat(100_000))
        .page("/first", "<title>equal</title>the same page twice")
        .page("/second", "<title>equal</title>the same page twice")
        .response("/short", Response::hostile(Hostile::ShortBody))
        .page("/query?b=2&a=1", "<title>query</title>")
        .page("/caf%C3%A9", "<title>caf\u{e9}</title>")
        .response(
            "/secret",
            Response::page("<title>secret</title>").header("Set-Cookie", "session=hidden-cookie"),
        )
        .response("/image.png", Response::page(image).content_type("image/png"))
        .response("/style.css", Response::text("p { color: red }").content_type("text/css"))
}

#[test]
fn archive_of_every_kind_of_response_keeps_all_rules() {
    let directory = TempDir::new().unwrap();
    let web = serve(site_of_all_kinds());
    let pages = directory.path().join("pages.jsonl");
    for (stem, end) in [("crawl", ".warc.gz"), ("plain", ".warc")] {
        let archive = directory.path().join(format!("{stem}{end}"));
        let before = web.hits();
        Pipeline::bare(web.url("/"))
            .with("--scope host --max-page-bytes 200KB --auth user:hidden-password --header X-Key:hidden-key --warc-size 5KB")
            .with("--accept-cookies --contact https://operator.test/ --overwrite --similarity 0")
            .module("warc", &archive)
            .module("jsonl", &pages)
            .run()
            .expect(0);
        let files = files(directory.path(), stem, end.trim_start_matches('.'));
        assert!(files.len() > 2, "{files:?}");
        let credentials = "dXNlcjpoaWRkZW4tcGFzc3dvcmQ=";
        let responses = valid(&files, &["hidden-password", credentials, "hidden-key"]);
        // A request that got no response is not in the archive: none here.
        assert_eq!(responses.len(), web.hits() - before);
        for (path, status) in [
            ("/robots.txt", 200),
            ("/moved", 302),
            ("/missing", 404),
            ("/no-content", 204),
            ("/chunked", 200),
            ("/image.png", 200),
        ] {
            assert_eq!(of_path(&responses, path)["status"], status, "{path}");
        }
        assert!(of_path(&responses, "/gzip")["headers"].to_string().contains("content-encoding"));
        assert_eq!(of_path(&responses, "/image.png")["bytes"], 3_008);
        assert_eq!(of_path(&responses, "/large")["truncated"], "length");
        assert_eq!(of_path(&responses, "/caf%C3%A9")["status"], 200);
        let repeated: Vec<&Value> =
            responses.iter().filter(|response| response["type"] == "revisit").collect();
        assert_eq!(repeated.len(), 1, "{repeated:?}");
        assert_eq!(repeated[0]["profile"], "identical-payload-digest");
        // What was crawled is what is replayed.
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let replayed =
            crawler(&format!("replay {} --module jsonl=- --quiet --similarity 0", names.join(" "))).expect(0);
        let crawled = urls(&objects_in(&pages));
        let replayed = urls(&objects(&replayed.stdout));
        let missing: Vec<&String> = crawled.difference(&replayed).collect();
        assert!(missing.iter().all(|url| url.ends_with("/first") || url.ends_with("/second")), "{missing:?}");
        let index = fs::read_to_string(directory.path().join(format!("{stem}.cdxj"))).unwrap();
        assert_eq!(index.lines().count(), responses.len());
        assert_eq!(index, crawler(&format!("index {}", names.join(" "))).expect(0).stdout);
        assert!(
            crawler(&format!("show {} --archive {}", web.url("/gzip"), names.join(" ")))
                .stdout
                .contains("<title>gzip")
        );
        for url in ["/first", "/second"] {
            let shown = crawler(&format!("show {} --archive {}", web.url(url), names.join(" "))).expect(0);
            assert!(shown.stdout.ends_with("the same page twice"), "{url}");
        }
    }
}

#[test]
fn archive_of_an_http2_site_keeps_all_rules() {
    let directory = TempDir::new().unwrap();
    let web = Web::builder().site(Site::seeded(9, 30)).https(Certificate::Good).start();
    let authority = directory.path().join("ca.pem");
    fs::write(&authority, web.ca_pem()).unwrap();
    for (name, options, protocol) in [("both", "", json!("h2")), ("first", "--http1", Value::Null)] {
        let before = web.hits();
        Pipeline::of(web.https_url("/"))
            .with(&format!("--scope host {options} --ca-file {}", authority.display()))
            .module("warc", &directory.path().join(format!("{name}.warc.gz")))
            .run()
            .expect(0);
        let responses = valid(&files(directory.path(), name, "warc.gz"), &[]);
        assert_eq!(responses.len(), web.hits() - before);
        assert!(responses.iter().all(|response| response["protocol"] == protocol), "{responses:?}");
    }
}

#[test]
fn responses_to_head_requests_are_archived_without_a_body() {
    let directory = TempDir::new().unwrap();
    let other = serve(Site::new().page("/a", "<p>another site"));
    let web = serve(Site::new().page("/", format!("<a href={}>a</a>", other.url("/a"))));
    Pipeline::of(web.url("/"))
        .with("--scope host")
        .module("warc", &directory.path().join("crawl.warc.gz"))
        .module("check", &directory.path().join("links.txt"))
        .run()
        .expect(0);
    let methods: Vec<String> = other.log().iter().map(|hit| format!("{} {}", hit.method, hit.path)).collect();
    assert!(methods.contains(&"HEAD /a".to_owned()), "{methods:?}");
    let responses = valid(&files(directory.path(), "crawl", "warc.gz"), &[]);
    assert_eq!(responses.len(), web.hits() + other.hits());
    let head = of_path(&responses, "/a");
    assert_eq!((&head["status"], &head["bytes"], &head["truncated"]), (&json!(200), &json!(0), &Value::Null));
}

#[test]
fn killed_and_resumed_crawl_leaves_an_archive_without_tears_holes_or_repetitions() {
    let directory = TempDir::new().unwrap();
    let web = serve(Site::seeded(11, 120));
    let (archive, rows) = (directory.path().join("crawl.warc.gz"), directory.path().join("urls.jsonl"));
    let crawl = || {
        Pipeline::of(web.url("/"))
            .with(&format!(
                "--scope host --similarity 0 --warc-size 20KB --state {}",
                directory.path().join("state").display()
            ))
            .module("warc", &archive)
            .module("urls", &rows)
    };
    for kill in 0..4 {
        let goal = web.hits() + 20 + kill * 7;
        let mut running = crawl().start();
        running.until("some requests", |_| web.hits() >= goal);
        running.signal(Signal::KILL);
        running.wait();
    }
    let ended = crawl().run().expect(0);
    assert!(ended.stdout.contains("Archived"), "{}", ended.stdout);
    let files = files(directory.path(), "crawl", "warc.gz");
    let responses = valid(&files, &[]);
    let mut archived: Vec<String> =
        responses.iter().map(|response| response["url"].as_str().unwrap().to_owned()).collect();
    archived.retain(|url| !url.ends_with("/robots.txt"));
    archived.sort();
    let mut expected: Vec<String> = objects_in(&rows)
        .iter()
        .filter(|row| !row["status"].is_null())
        .map(|row| row["url"].as_str().unwrap().to_owned())
        .collect();
    expected.sort();
    assert!(expected.len() > 100, "{}", expected.len());
    assert_eq!(archived, expected);
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let index = fs::read_to_string(directory.path().join("crawl.cdxj")).unwrap();
    assert_eq!(index, crawler(&format!("index {}", names.join(" "))).expect(0).stdout);
}
