//! https: certificate verification, HTTP/2 and HTTP/1.1, keep-alive.

use std::collections::HashSet;
use std::fs;

use testweb::{Certificate, Protocol, Response, Site, Web};

use crate::common::{Crawl, Ended, linking_to};
use crate::pipeline::Pipeline;

/// Crawls an https URL, trusting the root certificate of the web.
fn crawl_trusting(web: &Web, seed: String, options: &str) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root.pem");
    fs::write(&root, web.ca_pem()).unwrap();
    Crawl::of(seed).with("--ca-file").with_one(root.display().to_string()).with(options).run()
}

fn connections(web: &Web) -> HashSet<u64> {
    web.log().iter().map(|hit| hit.connection).collect()
}

#[test]
fn http2_crawl_shares_one_connection() {
    let web = Web::builder().site(Site::seeded(9, 80)).https(Certificate::Good).start();
    for concurrency in [1, 16] {
        let before = connections(&web).len();
        let ended =
            crawl_trusting(&web, web.https_url("/"), &format!("--concurrency {concurrency}")).expect(0);
        let truth = web.truth_from(&web.https_url("/"), 99);
        let found = ended.pages().into_iter().map(|page| (page.url, (page.depth, page.body)));
        assert!(found.collect::<testweb::Truth>() == truth, "concurrency {concurrency}");
        assert!(web.log().iter().all(|hit| hit.protocol == Protocol::H2));
        assert_eq!(connections(&web).len() - before, 1);
    }
}

#[test]
fn many_requests_are_in_flight_on_one_http2_connection() {
    let paths: Vec<String> = (0..32).map(|n| format!("/{n}")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let slow = |_: &testweb::Request| Response::page("x").delay(std::time::Duration::from_millis(200));
    let site = Site::new().page("/", linking_to(&links)).status("/robots.txt", 404).fallback(slow);
    let web = Web::builder().site(site).https(Certificate::Good).start();
    crawl_trusting(&web, web.https_url("/"), "--concurrency 16").expect(0);
    assert_eq!(web.log().max_concurrent(), 16);
    assert_eq!(connections(&web).len(), 1);
}

#[test]
fn refused_http2_stream_is_sent_again_and_is_no_retry() {
    let refused =
        vec![Response::refused(), Response::refused(), Response::status(503), Response::page("at last")];
    let site = Site::new().page("/", linking_to(&["/busy"])).response("/busy", Response::sequence(refused));
    let web = Web::builder().site(site).https(Certificate::Good).start();
    let ended = crawl_trusting(&web, web.https_url("/"), "").expect(0);
    assert_eq!(ended.pages().len(), 2, "{}", ended.stderr);
    assert_eq!(web.log().for_path("/busy").len(), 4);
}

#[test]
fn silent_http2_connection_is_given_up() {
    let silent =
        vec![Response::page("x").delay(std::time::Duration::from_secs(30)), Response::page("at last")];
    let site = Site::new().page("/", linking_to(&["/slow"])).response("/slow", Response::sequence(silent));
    let web = Web::builder().site(site).https(Certificate::Good).start();
    let ended = crawl_trusting(&web, web.https_url("/"), "--timeout 1s").expect(0);
    assert_eq!(ended.pages().len(), 2);
    assert_eq!(connections(&web).len(), 2, "the silent one is not reused");
}

#[test]
fn server_without_http2_is_crawled_over_kept_http1_connections() {
    let web = Web::builder().site(Site::seeded(10, 60)).https(Certificate::Good).http1_only().start();
    let ended = crawl_trusting(&web, web.https_url("/"), "").expect(0);
    assert_eq!(ended.pages().len(), 60);
    assert!(web.log().iter().all(|hit| hit.protocol == Protocol::H1));
    // One for all, except after pictures, whose bodies are not read to the end.
    assert!(connections(&web).len() < web.log().len() / 3, "{}", connections(&web).len());
    let ended = crawl_trusting(&web, web.https_url("/"), "--concurrency 16").expect(0);
    assert_eq!(ended.pages().len(), 60);
}

#[test]
fn http2_is_not_used_if_it_is_not_wanted_nor_after_a_resume() {
    let web = Web::builder().site(Site::seeded(10, 20)).https(Certificate::Good).start();
    let ended = crawl_trusting(&web, web.https_url("/"), "--http1").expect(0);
    assert_eq!(ended.pages().len(), 20);
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state").display().to_string();
    let crawl = Pipeline::of(web.https_url("/")).with("--insecure --http1 --max-pages 1 --state");
    crawl.with_one(&state).run().expect(0);
    let before = web.log().len();
    let mut command = crate::common::binary();
    command.args(["resume", &state, "--max-pages", "9"]);
    crate::common::Running::start(command, "/nowhere".into(), None).wait().expect(0);
    assert!(web.log().len() > before);
    assert!(web.log().iter().all(|hit| hit.protocol == Protocol::H1));
}

#[test]
fn server_that_closes_after_each_response_is_crawled_completely() {
    let close = |_: &testweb::Request| Response::page("x").close();
    let close_idle = |_: &testweb::Request| Response::hostile(testweb::Hostile::CloseIdleConnection);
    let paths: Vec<String> = (0..20).map(|n| format!("/{n}")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let site = || Site::new().page("/", linking_to(&links)).status("/robots.txt", 404);
    for site in [site().fallback(close), site().fallback(close_idle)] {
        let web = Web::builder().site(site).https(Certificate::Good).http1_only().start();
        for seed in [web.https_url("/"), web.url("/")] {
            let ended = crawl_trusting(&web, seed, "--concurrency 2").expect(0);
            assert!(ended.pages().len() >= 21, "{}", ended.stderr);
        }
    }
}

#[test]
fn invalid_certificates_are_rejected() {
    let bad = [
        (
            Certificate::UnknownIssuer,
            "the certificate is signed by an unknown authority, 'testweb unknown root'",
        ),
        (Certificate::Expired, "the certificate has expired on 2020-01-01"),
        (Certificate::WrongName, "the certificate is for another name: wrong.example"),
        (Certificate::SelfSigned, "the certificate is self-signed"),
    ];
    for (certificate, reason) in bad {
        let web = Web::builder().site(Site::new().page("/", "x")).https(certificate).start();
        for options in ["", "--ignore-robots"] {
            let ended = crawl_trusting(&web, web.https_url("/"), options).expect(1);
            assert_eq!(ended.outcomes()["TLS"], 1, "{}", ended.stderr);
            assert!(ended.stderr.contains(reason), "{certificate:?}: {}", ended.stderr);
            assert!(ended.pages().is_empty() && web.log().is_empty());
        }
    }
}

#[test]
fn private_root_certificate_is_trusted_only_with_ca_file() {
    let web = Web::builder().site(Site::new().page("/", "x")).https(Certificate::Good).start();
    let ended = Crawl::of(web.https_url("/")).with("--ignore-robots").run().expect(1);
    assert_eq!(ended.outcomes()["TLS"], 1);
}

#[test]
fn resolved_host_name_is_used_for_certificate_and_host_header() {
    let site = Site::new().page("/", linking_to(&["/a"])).page("/a", "x");
    let web = Web::builder().host("deep.in.site.test", site).https(Certificate::Good).start();
    let seed = web.https_url_of("deep.in.site.test", "/");
    let ended = crawl_trusting(&web, seed, "--resolve *.site.test=127.0.0.1").expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/a"]);
}

#[test]
fn http_and_https_are_different_origins() {
    let https = Web::builder().site(Site::new().page("/", "x")).https(Certificate::Good).start();
    let link = https.https_url("/");
    let web = crate::common::serve(Site::new().page("/", linking_to(&[&link])));
    let ended = Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(ended.summary().link_counts["out of scope"], 1);
    assert!(https.log().is_empty());
}

#[test]
fn server_without_tls_is_reported_as_a_tls_failure() {
    let web = crate::common::serve(Site::new().page("/", "x"));
    let seed = web.url("/").replace("http:", "https:");
    for options in ["", "--ignore-robots"] {
        let ended = Crawl::of(seed.clone()).with(options).run().expect(1);
        assert_eq!(ended.outcomes()["TLS"], 1, "{}", ended.stderr);
        let message = format!("the server does not speak TLS; try {}\n", web.url("/"));
        assert!(ended.stderr.ends_with(&message), "{}", ended.stderr);
        assert_eq!(ended.stderr.matches("does not speak TLS").count(), 1, "{}", ended.stderr);
        let ended = Pipeline::bare(seed.clone()).with(options).run().expect(1);
        assert!(ended.stderr.ends_with(&message), "{}", ended.stderr);
    }
}
