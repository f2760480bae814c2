//! URLs of the same page: one request for all of them, in every mode.

use std::collections::BTreeSet;

use testweb::{Request, Response, Site, Web};

use crate::common::{Crawl, linking_to, run, serve};
use crate::pipeline::Pipeline;
use crate::state::StateDir;

/// The paths that the server was asked for, each of which it must be asked for once, without robots.txt.
#[track_caller]
fn requested_once(web: &Web) -> Vec<String> {
    let log = web.log();
    let paths: Vec<&str> = log.paths().into_iter().filter(|path| *path != "/robots.txt").collect();
    let unique: BTreeSet<&str> = paths.iter().copied().collect();
    assert_eq!(paths.len(), unique.len(), "{paths:?}");
    unique.into_iter().map(str::to_owned).collect()
}

/// The port that a request was sent to.
fn port_of(request: &Request) -> &str {
    request.authority.rsplit(':').next().unwrap_or_default()
}

#[test]
fn equivalent_urls_are_fetched_once() {
    let links = [
        "/~user/a-b.html",
        "/%7Euser/a-b.html",
        "/%7euser/a%2db.html?",
        "/%7Euser/x/%2e%2E/a-b.html#part",
        "/x/../%7euser/./a-b.html",
        "/c%2fd?e%3df",
        "/c%2Fd?e%3Df",
        "/c%2Fd?%65%3Df",
        "?",
        "/?",
    ];
    let site = || {
        let page = Response::page("x");
        Site::new().page("/", linking_to(&links)).fallback(move |_| page.clone())
    };
    let expected = ["/", "/c%2Fd?e%3Df", "/~user/a-b.html"];
    let web = serve(site());
    Crawl::of(web.url("/?")).run().expect(0);
    assert_eq!(requested_once(&web), expected);
    let web = serve(site());
    Pipeline::of(web.url("/%2e/?#x")).with("--scope host --similarity 0").run().expect(0);
    assert_eq!(requested_once(&web), expected);
}

#[test]
fn host_with_dots_at_its_end_is_the_same_host() {
    let site = Site::new().robots("User-agent: *\nDisallow: /secret\n").fallback(|request| {
        let port = port_of(request);
        let to = |dots: &str, path: &str| format!("http://h.test{dots}:{port}{path}");
        Response::page(linking_to(&[
            &to("", "/"),
            &to(".", "/"),
            &to("..", "/"),
            &to(".", "/1"),
            &to("..", "/2"),
            &to("..", "/secret"),
        ]))
    });
    let web = Web::builder().host("h.test", site).start();
    let crawl = Pipeline::bare(format!("http://h.test..:{}/", web.port()))
        .with("--resolve *=127.0.0.1 --scope host --similarity 0 --delay 100ms --workers 4");
    crawl.run().expect(0);
    assert_eq!(requested_once(&web), ["/", "/1", "/2"]);
    let log = web.log();
    assert_eq!(log.for_host("h.test").paths(), log.paths(), "the Host header has no dots");
    assert_eq!(log.paths().iter().filter(|path| **path == "/robots.txt").count(), 1);
    assert_eq!(log.max_concurrent(), 1);
    let gap = log.smallest_gap().expect("several requests");
    assert!(gap.as_millis() >= 100, "{gap:?}");
}

#[test]
fn page_limit_of_a_host_counts_all_spellings_of_its_name() {
    let site = Site::new().fallback(|request| {
        let port = port_of(request);
        let link = |number: usize| format!("http://h.test{}:{port}/{number}", ".".repeat(number % 3));
        let links: Vec<String> = (0..12).map(link).collect();
        Response::page(linking_to(&links.iter().map(String::as_str).collect::<Vec<_>>()))
    });
    let web = Web::builder().host("h.test", site).start();
    let seed = format!("http://h.test:{}/", web.port());
    Pipeline::of(seed).with("--similarity 0 --max-pages-per-host 5").run().expect(0);
    assert_eq!(requested_once(&web).len(), 5);
}

#[test]
fn pages_whose_links_differ_in_removed_parameters_only_are_near_duplicates() {
    let page = |session: usize| {
        let links: String = (0..40).map(|n| format!("<a href='/{n}?sid={session}'></a>")).collect();
        format!("some words that both pages have {links}")
    };
    let site = Site::new().page("/", linking_to(&["/one", "/two"])).page("/one", page(1));
    let web = serve(site.page("/two", page(2)).fallback(|request| Response::page(request.path.clone())));
    let ended = Pipeline::of(web.url("/")).with("--max-depth 1 --strip-query sid").run().expect(0);
    assert_eq!(ended.outcomes()["near-duplicate"], 1, "{}", ended.stdout);
    let ended = Pipeline::of(web.url("/")).with("--max-depth 1").run().expect(0);
    assert!(!ended.outcomes().contains_key("near-duplicate"), "{}", ended.stdout);
}

#[test]
fn page_that_redirects_to_itself_with_a_removed_parameter_is_found() {
    let site = || {
        Site::new()
            .page("/", linking_to(&["/self", "/loop"]))
            .redirect("/self", "/self?utm_source=redir")
            .page("/self?utm_source=redir", "found")
            .redirect("/loop", "/loop?utm_source=1")
            .redirect("/loop?utm_source=1", "/loop?utm_source=2")
    };
    let expected = ["/", "/loop", "/loop?utm_source=1", "/self", "/self?utm_source=redir"];
    let web = serve(site());
    Crawl::of(web.url("/")).with("--strip-query tracking").run().expect(0);
    assert_eq!(requested_once(&web), expected);
    let web = serve(site());
    let ended = Pipeline::of(web.url("/")).with("--strip-query tracking --similarity 0").run().expect(0);
    assert_eq!(requested_once(&web), expected);
    assert_eq!(ended.outcomes()["page"], 2, "{}", ended.stdout);
}

#[test]
fn parameters_are_removed_from_links_redirects_and_seeds() {
    let site = || {
        Site::new()
            .page(
                "/",
                linking_to(&[
                    "/?utm_medium=x",
                    "/a?utm_source=1&id=7",
                    "/a?id=7&fbclid=2",
                    "/from",
                    "/a?sid=9&id=7",
                ]),
            )
            .page("/a?id=7", "a")
            .redirect("/from", "/to?gclid=3&sid=4")
            .page("/to", "to")
    };
    let options = "--strip-query tracking --strip-query s?d";
    let expected = ["/", "/a?id=7", "/from", "/to"];
    let web = serve(site());
    Crawl::of(web.url("/?utm_campaign=y")).with(options).run().expect(0);
    assert_eq!(requested_once(&web), expected);
    let web = serve(site());
    Pipeline::of(web.url("/?utm_campaign=y"))
        .with(options)
        .with("--scope prefix --similarity 0")
        .run()
        .expect(0);
    assert_eq!(requested_once(&web), expected);
    let web = serve(site());
    Crawl::of(web.url("/")).run().expect(0);
    assert!(web.log().paths().contains(&"/a?utm_source=1&id=7"), "off by default");
}

#[test]
fn removed_parameters_are_part_of_the_state() {
    let site = Site::new()
        .page("/", linking_to(&["/a?sid=1", "/b?sid=2"]))
        .page("/a", linking_to(&["/b?sid=3", "/?sid=4"]))
        .page("/b", linking_to(&["/c?sid=5", "/a?sid=6"]))
        .page("/c", "c");
    let web = serve(site);
    let place = StateDir::new();
    place.crawl(web.url("/")).with("--strip-query sid --similarity 0 --max-pages 2").run().expect(0);
    place.resume("--max-pages 100").wait().expect(0);
    assert_eq!(requested_once(&web), ["/", "/a", "/b", "/c"]);
    let ended = run(&["why", &web.url("/c?sid=77"), "--state", &place.state()]).expect(0);
    assert!(ended.stdout.contains("outcome: page"), "{}", ended.stdout);
    let other =
        place.crawl(web.url("/")).with("--strip-query other --similarity 0 --max-pages 200").run().expect(2);
    assert!(other.stderr.contains("strip-query"), "{}", other.stderr);
}

#[test]
fn links_that_only_a_browser_finds_are_followed() {
    let page = format!(
        "<svg><base href=/no/><title>icon<path></svg><p><a href=svg>x</a><math><template></math><p><a href=math>x</a>{}\
         <meta charset=windows-1251><a href='\u{44f}?\u{44f}'>x</a>",
        " ".repeat(2_000)
    );
    let body: Vec<u8> = page.chars().map(|c| if c == '\u{44f}' { 0xFF } else { c as u8 }).collect();
    let site = Site::new()
        .response("/", Response::page(body).content_type("text/html"))
        .fallback(|_| Response::page("x"));
    let web = serve(site);
    Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(requested_once(&web), ["/", "/%D1%8F?%FF", "/math", "/svg"]);
}

#[test]
fn three_slashes_before_a_host_are_as_good_as_two() {
    let site = Site::new().fallback(|request| {
        let host = &request.authority;
        Response::page(linking_to(&[&format!("///{host}/x"), &format!("\\/\\{host}/y")]))
    });
    let web = serve(site);
    Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(requested_once(&web), ["/", "/x", "/y"]);
}
