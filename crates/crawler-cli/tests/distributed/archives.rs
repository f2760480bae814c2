//! Web archives of distributed crawls whose workers are killed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use testweb::{Response, Site, Web};

use super::archive_judges::{are_accepted, valid_collected};
use super::archive_records::{files, records};
use super::fixture::Fixture;
use super::process::Process;

/// Merges the parts of the archive, which keeps all rules. Returns its files and responses, and what the command says.
fn collected(fixture: &Fixture) -> (Vec<PathBuf>, Vec<Value>, String) {
    let merged = fixture.run(&["collect", "--of", "site.warc.gz", "--wacz"]);
    let files = files(fixture.directory.path(), "site", "warc.gz");
    // Each response has its request, and each revisit the body that it refers to.
    records(&files);
    let responses = valid_collected(&files);
    (files, responses, merged)
}

/// How often each URL was archived with each status.
fn archived(responses: &[Value]) -> BTreeMap<(String, u64), u32> {
    let mut archived = BTreeMap::new();
    for response in responses {
        let key = (response["url"].as_str().unwrap().to_owned(), response["status"].as_u64().unwrap());
        *archived.entry(key).or_default() += 1;
    }
    archived
}

#[test]
#[ignore = "needs redis-server, and the Python packages warcio, fastwarc, cdxj-indexer and wacz: run by make test"]
fn collected_archive_has_each_url_once_after_kills_and_a_restart_of_redis() {
    let fixture = Fixture::slow(12, 15);
    let options = ["--dead-after", "3s", "--module", "warc=site.warc.gz", "--warc-size", "20KB"];
    let controller = fixture.start_crawl(3, &options);
    for role in ["worker 0", "worker 1", "frontier"] {
        fixture.kill(role);
    }
    fixture.redis.kill();
    fixture.redis.restart();
    controller.wait_for_success();
    let (files, responses, merged) = collected(&fixture);
    assert!(merged.contains("URLs from 3 part files"), "{merged}");
    assert!(files.len() > 1);
    are_accepted(&files, &responses);
    let names = files.iter().map(|file| file.to_str().unwrap());
    let index = fixture.run(&["index"].into_iter().chain(names).collect::<Vec<_>>());
    assert_eq!(std::fs::read_to_string(fixture.directory.path().join("site.cdxj")).unwrap(), index);
    let archived = archived(&responses);
    for page in fixture.pages() {
        assert_eq!(archived.get(&(page.clone(), 200)), Some(&1), "{page}");
    }
}

/// A start page with links to pages of a host without trouble and of one whose robots.txt fails twice. Two of the pages are equal.
fn web_with_a_failing_robots_txt() -> Web {
    let start = Site::new().robots("User-agent: *\n").fallback(|request| {
        let origin = request.origin();
        let port = origin.rsplit(':').next().unwrap_or("80").to_owned();
        let hosts = ["good", "bad"];
        let links = (0..6).flat_map(|n| {
            let port = &port;
            hosts.map(|host| format!("<a href=http://{host}.test:{port}/{n}>{n}</a>"))
        });
        Response::page(links.collect::<String>())
    });
    let fallback = |request: &testweb::Request| match request.path.as_str() {
        "/4" | "/5" => Response::page("the same page twice"),
        path => Response::page(format!("page {} {path}", request.authority)),
    };
    let robots = [503, 503, 404].map(Response::status);
    let bad = Site::new().response("/robots.txt", Response::sequence(robots.into())).fallback(fallback);
    let good = Site::new().robots("User-agent: *\n").fallback(fallback);
    Web::builder().host("h0.test", start).host("good.test", good).host("bad.test", bad).start()
}

#[test]
#[ignore = "needs redis-server, and the Python packages warcio, fastwarc, cdxj-indexer and wacz: run by make test"]
fn collected_archive_has_each_robots_txt_that_failed() {
    let mut fixture = Fixture::new(1, 1);
    fixture.web = web_with_a_failing_robots_txt();
    Process::start(fixture.crawl(2, &["--module", "warc=site.warc.gz"])).wait_for_success();
    let (files, responses, merged) = collected(&fixture);
    are_accepted(&files, &responses);
    // No worker was killed, so the archive has every request.
    let mut requested = BTreeMap::new();
    for host in ["h0.test", "good.test", "bad.test"] {
        for hit in fixture.web.log().for_host(host).iter() {
            let key = (fixture.web.url_of(host, &hit.path), u64::from(hit.status.unwrap()));
            *requested.entry(key).or_default() += 1;
        }
    }
    assert_eq!(requested[&(fixture.web.url_of("bad.test", "/robots.txt"), 503)], 2);
    assert_eq!(archived(&responses), requested);
    assert_eq!(merged, "merged 13 URLs from 2 part files\n", "nothing is left out");
}
