//! The number of requests in the summary is the number of lines in the server's access log.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use testweb::{Certificate, Hostile, Response, Site, Web};

use crate::common::{Crawl, linking_to, serve};
use crate::pipeline::{Pipeline, objects};
use crate::state::StateDir;

/// A site with a robots.txt, redirects, retries and failures of each kind.
fn site() -> Site {
    let busy = || Response::status(503).header("Retry-After", "0");
    Site::new()
        .response(
            "/robots.txt",
            Response::sequence(vec![busy(), Response::text("User-agent: *\nDisallow: /private")]),
        )
        .page(
            "/",
            linking_to(&["/a", "/moved", "/busy", "/broken", "/gone", "/private", "/reset", "/picture"]),
        )
        .page("/a", linking_to(&["/twin", "/large"]) + "one")
        .page("/twin", linking_to(&["/twin", "/large"]) + "one")
        .page("/large", "x".repeat(600_000))
        .redirect("/moved", "/moved/again")
        .redirect("/moved/again", "/target")
        .page("/target", "target")
        .response("/busy", Response::sequence(vec![busy(), Response::page("ready")]))
        .status("/broken", 500)
        .response("/reset", Response::hostile(Hostile::ResetImmediately))
        .response("/picture", Response::page("x").content_type("image/png"))
}

#[test]
fn classic_crawl_counts_every_request_in_the_access_log() {
    for concurrency in [1, 4] {
        let web = serve(site());
        let ended = Crawl::of(web.url("/")).with(&format!("--concurrency {concurrency}")).run().expect(0);
        assert_eq!(ended.summary().requests, web.log().len() as u64, "{}", ended.stdout);
        assert!(web.log().len() > 15, "{:?}", web.log().paths());
    }
}

#[test]
fn pipeline_counts_every_request_in_the_access_log() {
    let web = serve(site());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("summary.json");
    let crawl = Pipeline::bare(web.url("/")).with("--workers 2 --progress json --summary");
    let ended = crawl.with_one(file.display().to_string()).run().expect(0);
    let requests = web.log().len() as u64;
    assert!(requests > 15, "{:?}", web.log().paths());
    let summary: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let last = objects(&ended.stderr).pop().unwrap();
    assert_eq!((&summary["requests"], &last["requests"]), (&requests.into(), &requests.into()));
    assert_eq!(ended.summary().requests, requests);
}

#[test]
fn requests_over_http2_and_refused_ones_count() {
    let turns = vec![Response::refused(), Response::refused(), Response::page("at last")];
    let site = Site::seeded(9, 40).response("/refused", Response::sequence(turns));
    let web = Web::builder().site(site).https(Certificate::Good).start();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root.pem");
    fs::write(&root, web.ca_pem()).unwrap();
    let refused = web.https_url("/refused");
    let crawl = Pipeline::bare(web.https_url("/")).with(&refused).with("--scope host --ca-file");
    let ended = crawl.with_one(root.display().to_string()).run().expect(0);
    assert_eq!(ended.summary().requests, web.log().len() as u64);
}

#[test]
fn request_on_a_connection_that_the_server_has_closed_counts_when_it_is_sent_again() {
    let closing = |_: &testweb::Request| Response::hostile(Hostile::CloseIdleConnection);
    let paths: Vec<String> = (0..20).map(|n| format!("/{n}")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let web = serve(Site::new().page("/", linking_to(&links)).status("/robots.txt", 404).fallback(closing));
    let ended = Crawl::of(web.url("/")).depth(1).with("--concurrency 2").run().expect(0);
    let (counted, logged) = (ended.summary().requests, web.log().len() as u64);
    assert!((logged..=logged + 20).contains(&counted), "{counted} counted, {logged} in the log");
}

#[test]
fn requests_of_a_stopped_and_resumed_crawl_add_up() {
    let web = serve(Site::seeded(7, 120));
    let state_dir = StateDir::new();
    let mut first = state_dir.crawl(web.url("/")).with("--scope host --similarity 0 --concurrency 4").start();
    first.until("some requests", |_| web.hits() > 30);
    first.signal(Signal::INT);
    let first = first.wait().expect(130);
    assert_eq!(first.summary().requests, web.log().len() as u64);
    let last = state_dir.resume("").wait().expect(0);
    assert_eq!(last.summary().requests, web.log().len() as u64);
    let finished = state_dir.resume("").wait().expect(0);
    assert_eq!(finished.summary().requests, web.log().len() as u64);
}

#[test]
fn killed_process_loses_only_its_uncommitted_requests() {
    let web = serve(Site::seeded(7, 300));
    let state_dir = StateDir::new();
    let mut first = state_dir.crawl(web.url("/")).with("--scope host --similarity 0 --concurrency 4").start();
    first.until("some requests", |_| web.hits() > 100);
    first.signal(Signal::KILL);
    first.wait().expect(137);
    let requests = state_dir.resume("").wait().expect(0).summary().requests;
    let logged = web.log().len() as u64;
    assert!(requests <= logged && requests + 60 > logged, "{requests} counted, {logged} in the log");
}

#[test]
fn connection_is_reused_after_a_small_file_that_is_no_page() {
    let picture = || Response::status(200).content_type("image/png").body(vec![1; 2_000]);
    let paths: Vec<String> = (0..20).flat_map(|n| [format!("/page{n}"), format!("/picture{n}")]).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let index = linking_to(&links);
    let site = Site::new().status("/robots.txt", 404).fallback(move |request| match &*request.path {
        "/" => Response::page(index.clone()),
        path if path.starts_with("/picture") => match path.len() % 2 {
            0 => picture(),
            _ => picture().chunked(),
        },
        path => Response::page(path.to_owned()),
    });
    let web = serve(site);
    let connections = || web.log().iter().map(|hit| hit.connection).collect::<BTreeSet<u64>>().len();
    let classic = Crawl::of(web.url("/")).with("--concurrency 1").run().expect(0);
    assert_eq!((classic.pages().len(), classic.outcomes()["not a page"], connections()), (21, 20, 1));
    let pipeline =
        Pipeline::of(web.url("/")).with("--workers 1 --concurrency 1 --similarity 0").run().expect(0);
    assert_eq!((pipeline.outcomes()["page"], pipeline.outcomes()["not a page"], connections()), (21, 20, 2));
}
