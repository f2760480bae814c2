//! `crawler crawl`: finds every page, and each option has its effect.

use std::time::{Duration, Instant};

use serde_json::Value;
use testweb::{Certificate, Request, Response, Site, Web};

use crate::common::{Ended, counts, linking_to, serve};
use crate::pipeline::{Pipeline, adds_up, objects, objects_in, paths, urls};
use crate::state::StateDir;

/// Crawls with these options, and returns the pages and the exited crawl.
#[track_caller]
fn crawl(seed: impl Into<String>, options: &str) -> (Vec<Value>, Ended) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pages.jsonl");
    let ended = Pipeline::of(seed).module("jsonl", &file).with(options).run().expect(0);
    (objects_in(&file), ended)
}

/// The last progress object of a crawl with these options.
#[track_caller]
fn last_object(seed: impl Into<String>, options: &str) -> Value {
    let ended = Pipeline::of(seed).with("--progress json").with(options).run().expect(0);
    objects(&ended.stderr).pop().expect("a last object")
}

/// A site on every host, where each page links to pages of other hosts of the same port.
fn hosts_that_link(to: &'static [&'static str]) -> Web {
    serve(Site::new().fallback(move |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        let links: Vec<String> = to.iter().map(|link| link.replace("PORT", port)).collect();
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        Response::page(format!("{} {} {}", request.authority, request.path, linking_to(&links)))
    }))
}

#[test]
fn all_pages_of_many_hosts_are_crawled_with_any_number_of_workers() {
    for workers in [1, 5] {
        let web = Web::builder().seeded_hosts(21, 15, 12).start();
        let seed = web.url_of("h0.test", "/");
        // Other hosts do not respond, and their timeouts take time.
        let options = format!(r"--similarity 0 --include ^http://h\d+\.test: --workers {workers}");
        let (pages, ended) = crawl(&seed, &options);
        let truth = web.truth_from(&seed, 1_000);
        assert!(urls(&pages).iter().eq(truth.keys()), "{workers} workers");
        assert_eq!(ended.outcomes()["page"], truth.len() as u64);
        assert!(!ended.stdout.contains("Stopped"), "{}", ended.stdout);
    }
}

#[test]
fn several_seeds_and_repeated_ones_are_accepted() {
    let web = hosts_that_link(&[]);
    let [a, b] = ["a.test", "b.test"].map(|host| web.url_of(host, "/"));
    let (pages, ended) = crawl(&a, &format!("{b} {a}"));
    assert_eq!(urls(&pages), [a, b].into());
    assert_eq!(ended.outcomes(), counts(&[("page", 2)]));
}

#[test]
fn limits_stop_the_crawl_exactly_and_are_named() {
    let web = Web::builder().seeded_hosts(11, 10, 20).start();
    let seed = web.url_of("h0.test", "/");
    let (pages, ended) = crawl(&seed, "--max-pages 17 --workers 4");
    assert_eq!(pages.len(), 17);
    assert!(ended.stdout.contains("Stopped: 17 pages (--max-pages)"), "{}", ended.stdout);
    let object = last_object(&seed, "--max-bytes 30KB --workers 4");
    let [bytes, received] = ["bytes", "received"].map(|key| object[key].as_u64().unwrap());
    assert_eq!((bytes.max(received), &object["stopped_by"]), (30_000, &Value::from("max-bytes")));
    let (pages, ended) = crawl(&seed, "--max-pages-per-host 3 --scope domain");
    assert_eq!(pages.len(), 3);
    assert!(ended.outcomes()["host page limit"] > 0);
}

#[test]
fn max_time_stops_the_crawl() {
    let (web, started) = (serve(Site::seeded(3, 200)), Instant::now());
    let (pages, ended) = crawl(web.url("/"), "--max-time 3s --delay 900ms");
    assert!(started.elapsed() < Duration::from_secs(60) && (2..5).contains(&pages.len()));
    assert!(ended.stdout.contains("Stopped: 3 s (--max-time)"), "{}", ended.stdout);
    assert!(ended.outcomes()["not reached"] > 0);
}

#[test]
fn scope_limits_the_crawled_urls() {
    let links: &[&str] = &[
        "/docs/a",
        "/docsets",
        "http://www.one.test:PORT/docs/",
        "http://mail.one.test:PORT/",
        "http://two.test:PORT/",
    ];
    let web = hosts_that_link(links);
    let seed = web.url_of("www.one.test", "/docs/");
    for (scope, hosts, kept) in [
        ("prefix", &["www.one.test"][..], 2),
        ("host", &["www.one.test"], 3),
        // Each host has /docs/a and /docsets of its own.
        ("domain", &["mail.one.test", "www.one.test"], 6),
        ("any", &["mail.one.test", "two.test", "www.one.test"], 9),
    ] {
        let (pages, _) = crawl(&seed, &format!("--similarity 0 --scope {scope}"));
        let mut found: Vec<&str> = pages
            .iter()
            .map(|page| page["url"].as_str().unwrap().split(['/', ':']).nth(3).unwrap())
            .collect();
        found.sort();
        found.dedup();
        assert_eq!((found.as_slice(), pages.len()), (hosts, kept), "{scope}");
    }
    assert_eq!(crawl(&seed, "--similarity 0").0.len(), 9, "any is the default");
}

#[test]
fn patterns_and_depth_limit_the_crawl() {
    let site = || {
        Site::new()
            .page("/", linking_to(&["/docs/1", "/docs/2.pdf", "/blog/1"]))
            .page("/docs/1", linking_to(&["/docs/3"]) + "one")
            .page("/docs/2.pdf", "two")
            .page("/docs/3", linking_to(&["/docs/4"]) + "three")
            .page("/docs/4", "four")
            .page("/blog/1", "blog")
    };
    let web = serve(site());
    for (options, expected) in [
        ("--include /docs/", &["/", "/docs/1", "/docs/2.pdf", "/docs/3", "/docs/4"][..]),
        (
            "--include /docs/ --include /blog --exclude pdf$ --exclude /4$",
            &["/", "/blog/1", "/docs/1", "/docs/3"],
        ),
        ("--max-depth 0", &["/"]),
        ("--max-depth 2 --exclude blog", &["/", "/docs/1", "/docs/2.pdf", "/docs/3"]),
    ] {
        let (pages, ended) = crawl(web.url("/"), options);
        assert_eq!(paths(&web, &pages), expected, "{options}");
        let excluded = ended.summary().link_counts.contains_key("excluded");
        assert_eq!(excluded, options.contains("clude"), "{options}");
    }
}

#[test]
fn similarity_threshold_decides_which_near_duplicates_are_skipped() {
    let site = Site::seeded(9, 20)
        .with_print_views()
        .page("/twins", linking_to(&["/twin", "/other"]))
        .page("/twin", "the same")
        .page("/other", "the same");
    let web = serve(site);
    let seeds = web.url("/twins");
    let outcome = |similarity: &str, kind: &str| {
        let (_, ended) = crawl(web.url("/"), &format!("{seeds} --scope host --similarity {similarity}"));
        ended.outcomes().get(kind).copied().unwrap_or(0)
    };
    assert!(outcome("0.9", "near-duplicate") > 5);
    assert_eq!((outcome("1", "near-duplicate"), outcome("1", "duplicate")), (0, 1));
    assert_eq!((outcome("0", "near-duplicate"), outcome("0", "duplicate")), (0, 0));
}

#[test]
fn delay_applies_per_host_and_hosts_do_not_wait_for_each_other() {
    let web = Web::builder().seeded_hosts(3, 10, 4).start();
    let started = Instant::now();
    crawl(web.url_of("h0.test", "/"), "--delay 100ms --workers 3 --concurrency 16 --max-host-failures 1");
    let log = web.log();
    assert!(log.smallest_gap().unwrap() >= Duration::from_millis(100), "{:?}", log.smallest_gap());
    assert!(log.len() > 40);
    assert!(started.elapsed() < Duration::from_millis(100) * log.len() as u32 / 2, "{:?}", started.elapsed());
}

#[test]
fn concurrency_limits_the_requests_in_flight() {
    let links: &[&str] =
        &["http://a.test:PORT/", "http://b.test:PORT/", "http://c.test:PORT/", "http://d.test:PORT/"];
    for (concurrency, most) in [(1, 1), (2, 2)] {
        let web = serve(Site::new().fallback(move |request: &Request| {
            let port = request.authority.rsplit(':').next().unwrap_or("80");
            let links: Vec<String> = links.iter().map(|link| link.replace("PORT", port)).collect();
            let page = format!(
                "{} {}",
                request.authority,
                links.iter().map(|l| format!("<a href={l}>x</a>")).collect::<String>()
            );
            Response::page(page).delay(Duration::from_millis(100))
        }));
        crawl(web.url("/"), &format!("--workers 1 --concurrency {concurrency}"));
        assert_eq!(web.log().max_concurrent(), most);
    }
}

#[test]
fn queue_options_set_number_and_size_of_the_queues() {
    let links: String = (0..500).map(|n| format!("<a href=http://h{}.test:PORT/{n}>x</a>", n % 50)).collect();
    let web = serve(Site::new().fallback(move |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        let page = if request.path == "/" { links.replace("PORT", port) } else { request.path.clone() };
        Response::page(page)
    }));
    let object = last_object(web.url("/"), "--queue-size 1 --priority-queues 3 --workers 2 --similarity 0");
    assert_eq!((&object["pages"], &object["state"]), (&Value::from(501), &Value::from("finished")));
    assert_eq!(object["queues"]["priority_queues"].as_array().unwrap().len(), 3);
    assert_eq!(object["workers"].as_array().unwrap().len(), 2);
    adds_up(&object);
}

#[test]
fn no_url_is_fetched_twice_after_the_ttl() {
    let back = Response::page(linking_to(&["/"])).delay(Duration::from_millis(300));
    let web = serve(Site::new().page("/", linking_to(&["/back"]) + "home").response("/back", back));
    let state_dir = StateDir::new();
    for (index, state) in [String::new(), format!("--state {}", state_dir.state())].iter().enumerate() {
        let object = last_object(web.url("/"), &format!("--ttl 100ms --max-pages 3 {state}"));
        assert_eq!((&object["pages"], &object["state"]), (&Value::from(2), &Value::from("finished")));
        assert_eq!(web.log().for_path("/").len(), index + 1);
    }
}

#[test]
fn domain_ownership_expires_after_its_ttl() {
    let links: String = (0..5).map(|n| format!("<a href=http://d{n}.test:PORT/>x</a>")).collect();
    let web = serve(Site::new().fallback(move |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        let page = Response::page(request.authority.clone() + &links.replace("PORT", port));
        if request.host() == "d4.test" { page.delay(Duration::from_millis(700)) } else { page }
    }));
    let owned = |options: &str| last_object(web.url("/"), options)["owned_domains"].as_u64().unwrap();
    assert_eq!(owned("--similarity 0"), 6);
    assert!(owned("--similarity 0 --domain-ttl 200ms") <= 2);
}

#[test]
fn no_content_stores_no_page_bodies() {
    let web = serve(Site::seeded(4, 5));
    let stored = |options: &str| last_object(web.url("/"), options)["stored_bytes"].as_u64().unwrap();
    assert!(stored("") > 0);
    assert_eq!(stored("--no-content"), 0);
}

#[test]
fn pagerank_service_gets_its_key_and_its_outage_only_costs_ranks() {
    let ranks = serve(Site::new().fallback(|_| {
        let rank = r#"{"status_code":200,"domain":"one.test","page_rank_integer":7,"page_rank_decimal":7.1,"rank":"1"}"#;
        Response::status(200).content_type("application/json").body(format!(r#"{{"response":[{rank}]}}"#))
    }));
    let web = hosts_that_link(&[]);
    let run = |service: &str| {
        Pipeline::of(web.url_of("one.test", "/"))
            .with("--pagerank-url")
            .with_one(service)
            .environment("CRAWLER_PAGERANK_KEY", "open sesame")
            .run()
            .expect(0)
    };
    let ended = run(&ranks.url(""));
    let log = ranks.log();
    assert_eq!(log[0].path, "/api/v1.0/getPageRank?domains%5B%5D=one.test");
    assert_eq!(log[0].header("api-opr"), Some("open sesame"));
    assert!(
        ended.stdout.contains("PageRank service available: 1 request, 0 failed, 0 URLs without a rank\n"),
        "{}",
        ended.stdout
    );

    let broken = serve(Site::new().fallback(|_| Response::status(500)));
    let ended = run(&broken.url(""));
    let printed =
        "PageRank service unavailable: 3 requests, 3 failed, 1 URL without a rank (last: HTTP 500)\n";
    assert!(ended.stdout.contains(printed), "{}", ended.stdout);
    assert!(!ended.stdout.contains("sesame"));
}

#[test]
fn health_of_the_pagerank_service_is_shown_while_the_crawl_runs() {
    let broken = serve(Site::new().fallback(|_| Response::status(500)));
    let slow = Response::page("slow").delay(Duration::from_secs(2));
    let web = serve(Site::new().page("/", linking_to(&["/slow"])).response("/slow", slow));
    let ended = Pipeline::of(web.url_of("one.test", "/"))
        .with("--progress json --pagerank-url")
        .with_one(broken.url(""))
        .run()
        .expect(0);
    let running = objects(&ended.stderr).into_iter().find(|object| object["state"] == "running").unwrap();
    assert_eq!(running["pagerank"]["available"], false, "{running}");
    assert_eq!(running["pagerank"]["last_failure"], "HTTP 500");
}

#[test]
fn links_to_private_addresses_are_followed_only_with_allow_private() {
    let inside = serve(Site::new().page("/", "secret"));
    let web = serve(Site::new().page("/", linking_to(&[&inside.url("/"), &inside.url_of("localhost", "/")])));
    let ended = Pipeline::bare(web.url("/")).with("--ignore-robots").run().expect(0);
    // An address is rejected as a link, a name when it resolves to such an address.
    assert_eq!(ended.outcomes(), counts(&[("page", 1), ("private address", 1)]));
    assert_eq!(ended.summary().link_counts["private address"], 1);
    assert_eq!(inside.hits(), 0);
    let ended = Pipeline::bare(web.url("/")).with("--ignore-robots --allow-private").run().expect(0);
    assert_eq!(ended.outcomes()["page"] + ended.outcomes()["duplicate"], 3);
}

#[test]
fn fetch_options_work_as_in_the_classic_mode() {
    let site = Site::new()
        .robots("User-agent: *\nDisallow: /hidden")
        .page("/", linking_to(&["/hidden", "/large", "/slow"]))
        .page("/hidden", "x")
        .page("/large", "x".repeat(3000))
        .response("/slow", Response::page("y").delay(Duration::from_secs(3)));
    let web = Web::builder().site(site).https(Certificate::Good).start();
    let directory = tempfile::tempdir().unwrap();
    let certificate = directory.path().join("ca.pem");
    std::fs::write(&certificate, web.ca_pem()).unwrap();
    let seed = web.https_url("/").replace("https://", "https://me:secret@");
    let ended = Pipeline::bare(seed)
        .with("--max-page-bytes 2KB --oversize drop --timeout 300ms --contact https://a.test/bot --ca-file")
        .with_one(certificate.display().to_string())
        .run()
        .expect(0);
    let expected = [("page", 1), ("robots.txt", 1), ("too large", 1), ("timeout", 1)];
    assert_eq!(ended.outcomes(), counts(&expected));
    let first = &web.log().for_path("/")[0];
    assert!(first.header("user-agent").unwrap().ends_with(" (+https://a.test/bot)"));
    assert!(first.header("authorization").is_some());
}
