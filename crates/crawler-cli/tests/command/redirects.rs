//! Redirects: where they lead, how many are followed, and what depth their targets have.

use testweb::{Response, Site};

use crate::common::{Crawl, Ended, counts, linking_to, serve};
use crate::pipeline::Pipeline;

fn crawl(site: Site, depth: usize) -> Ended {
    Crawl::of(serve(site).url("/")).depth(depth).run()
}

fn paths(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
    expected.iter().map(|(path, depth)| ((*path).to_owned(), *depth)).collect()
}

#[test]
fn redirect_target_is_saved_under_its_own_url_with_the_depth_of_the_link() {
    for status in [301, 302, 303, 307, 308] {
        let site = Site::new()
            .page("/", linking_to(&["/old"]))
            .redirect_with(status, "/old", "new/#part")
            .page("/new/", linking_to(&["next"]))
            .page("/new/next", "x");
        let ended = crawl(site, 2).expect(0);
        assert_eq!(ended.paths(), paths(&[("/", 0), ("/new/", 1), ("/new/next", 2)]), "{status}");
        assert_eq!(ended.outcomes(), counts(&[("page", 3), ("redirect", 1)]));
    }
}

#[test]
fn ten_redirects_in_a_row_are_followed_and_eleven_are_not() {
    let site = Site::new()
        .page("/", linking_to(&["/ten", "/eleven"]))
        .redirect_chain("/ten", 10)
        .redirect_chain("/eleven", 11);
    let ended = crawl(site, 1).expect(0);
    assert_eq!(ended.paths(), paths(&[("/", 0), ("/ten/10", 1)]));
    assert_eq!(ended.outcomes(), counts(&[("page", 2), ("redirect", 20), ("too many redirects", 1)]));
}

#[test]
fn redirect_loop_ends() {
    let site = Site::new()
        .page("/", linking_to(&["/self", "/there"]))
        .redirect("/self", "/self#again")
        .redirect("/there", "/back")
        .redirect("/back", "/there");
    let web = serve(site);
    let ended = Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(ended.paths(), paths(&[("/", 0)]));
    assert_eq!(web.log().len(), 5, "{:?}", web.log().paths());
    let expected = counts(&[("page", 1), ("redirect", 2), ("redirect loop", 1)]);
    assert_eq!(ended.outcomes(), expected);
    assert!(
        ended.line_about("/self").ends_with("redirect loop: the URL redirects to itself"),
        "{}",
        ended.stderr
    );
    assert_eq!(Pipeline::of(web.url("/")).run().expect(0).outcomes(), expected);
}

#[test]
fn seed_in_a_redirect_loop_is_reported() {
    for (site, message) in [
        (Site::new().redirect("/", "/"), "redirect loop: the URL redirects to itself"),
        (Site::new().redirect("/", "/a").redirect("/a", "/"), ", which redirects back"),
    ] {
        let web = serve(site);
        for ended in [Crawl::of(web.url("/")).run().expect(1), Pipeline::of(web.url("/")).run().expect(1)] {
            assert!(ended.stderr.contains(message), "{}", ended.stderr);
        }
    }
}

#[test]
fn target_of_several_redirects_is_fetched_once() {
    let site = Site::new()
        .page("/", linking_to(&["/goal", "/a", "/b"]))
        .redirect("/a", "/goal")
        .redirect("/b", "/a")
        .page("/goal", linking_to(&["/a"]));
    let web = serve(site);
    let ended = Crawl::of(web.url("/")).with("--concurrency 4").run().expect(0);
    assert_eq!(ended.paths(), paths(&[("/", 0), ("/goal", 1)]));
    assert_eq!(web.log().for_path("/goal").len(), 1);
    assert_eq!(ended.outcomes(), counts(&[("page", 2), ("redirect", 2)]));
}

#[test]
fn redirect_can_lower_the_depth_of_a_page() {
    // The links of /first put /goal at depth 2; the redirect of /second, fetched after it, at depth 1.
    let site = Site::new()
        .page("/", linking_to(&["/first", "/second"]))
        .page("/first", linking_to(&["/goal"]))
        .redirect("/second", "/goal")
        .page("/goal", linking_to(&["/child"]))
        .page("/child", "x");
    let expected = paths(&[("/", 0), ("/first", 1), ("/goal", 1), ("/child", 2)]);
    let ended = crawl(site, 2).expect(0);
    assert_eq!(ended.paths(), expected);
    assert_eq!(ended.outcomes(), counts(&[("page", 4), ("redirect", 1)]));
}

#[test]
fn seed_can_redirect_within_the_site() {
    let site = Site::new().redirect("/", "/home").page("/home", linking_to(&["/", "/a"])).page("/a", "x");
    let ended = crawl(site, 1).expect(0);
    assert_eq!(ended.paths(), paths(&[("/home", 0), ("/a", 1)]));
}

#[test]
fn redirect_out_of_scope_is_counted_and_not_followed() {
    let elsewhere = serve(Site::new().page("/", "x"));
    let site = Site::new()
        .page("/", linking_to(&["/out", "/scheme", "/script", "/nowhere"]))
        .redirect("/out", &elsewhere.url("/"))
        .redirect("/scheme", "ftp://127.0.0.1/")
        .redirect("/script", "javascript:alert(1)")
        .response("/nowhere", Response::status(302));
    let ended = crawl(site, 1).expect(0);
    assert!(elsewhere.log().is_empty());
    let expected = counts(&[("page", 1), ("redirect out of scope", 3), ("invalid response", 1)]);
    assert_eq!(ended.outcomes(), expected);
    assert!(
        ended.line_about("/out").ends_with(&format!("redirect out of scope: {}", elsewhere.url("/"))),
        "{}",
        ended.stderr
    );
    assert!(ended.line_about("/nowhere").ends_with("redirect without a Location header"));
}

#[test]
fn seed_that_redirects_out_of_scope_names_a_remedy() {
    let elsewhere = serve(Site::new().page("/", "x"));
    let ended = crawl(Site::new().redirect("/", &elsewhere.url("/';x")), 1).expect(1);
    assert!(elsewhere.log().is_empty());
    assert!(ended.pages().is_empty());
    let remedy = format!("; start there: crawler '{}' …\n", elsewhere.url("/%27;x"));
    assert!(ended.stderr.ends_with(&remedy), "{}", ended.stderr);
    assert!(!ended.stderr.contains("--internal"), "no prefix contains two servers: {}", ended.stderr);

    let web = serve(Site::new().redirect("/docs/", "/manual/"));
    let within = Crawl::of(web.url("/docs/")).with_one("--internal").with_one(web.url("/docs/"));
    let ended = within.run().expect(1);
    assert!(ended.stderr.contains("start there, or set --internal to a prefix"), "{}", ended.stderr);

    let ended = crawl(Site::new().redirect("/", "ftp://127.0.0.1/"), 1).expect(1);
    assert!(!ended.stderr.contains("start there"), "{}", ended.stderr);
}

#[test]
fn seed_of_a_pipeline_that_redirects_out_of_scope_names_a_remedy() {
    let elsewhere = serve(Site::new().page("/", "x"));
    let web = serve(Site::new().redirect("/moved", &elsewhere.url("/';x")).page("/here", "x"));
    let remedy = format!("; start there: crawler crawl '{}' …", elsewhere.url("/%27;x"));
    let ended = Pipeline::of(web.url("/moved")).with("--scope host").run().expect(1);
    assert!(ended.stderr.trim_end().ends_with(&remedy), "{}", ended.stderr);
    let ended =
        Pipeline::of(web.url("/moved")).with_one(web.url("/here")).with("--scope host").run().expect(0);
    assert!(ended.stderr.trim_end().ends_with(&remedy), "{}", ended.stderr);
    assert!(elsewhere.log().is_empty());
}

#[test]
fn malformed_target_is_named_in_every_mode() {
    let site = Site::new().page("/", linking_to(&["/bad"])).redirect("/bad", "http://[bad");
    let web = serve(site);
    let ended = Crawl::of(web.url("/")).run().expect(0);
    let reason = "redirect out of scope: http://[bad (malformed)";
    assert!(ended.line_about("/bad").ends_with(reason), "{}", ended.stderr);
    let ended = Pipeline::of(web.url("/")).with("-v").run().expect(0);
    assert!(ended.stdout.contains(&format!("/bad ({reason})")), "{}", ended.stdout);
}

#[test]
fn each_redirect_hop_is_checked_against_robots_txt_and_scope() {
    let site = Site::new()
        .robots("User-agent: *\nDisallow: /docs/private/\n")
        .page("/docs/", linking_to(&["a", "b", "c"]))
        .redirect("/docs/a", "/docs/private/x")
        .redirect("/docs/b", "/documents/x")
        .redirect("/docs/c", "/docs/d")
        .page("/docs/d", "x")
        .page("/docs/private/x", "x")
        .page("/documents/x", "x");
    let web = serve(site);
    let ended =
        Crawl::of(web.url("/docs/")).with_one("--internal").with_one(web.url("/docs")).run().expect(0);
    assert_eq!(ended.paths(), paths(&[("/docs/", 0), ("/docs/d", 1)]));
    let log = web.log();
    assert_eq!(log.paths(), ["/robots.txt", "/docs/", "/docs/a", "/docs/b", "/docs/c", "/docs/d"]);
}
