//! `crawler show` and `crawler why`: what a state tells about one URL.

use std::fs;

use testweb::{Answer, Site};

use crate::common::{Ended, binary, linking_to, run, serve};
use crate::state::Place;

#[track_caller]
fn why(place: &Place, url: &str, code: i32) -> String {
    let ended = run(&["why", url, "--state", &place.state()]).expect(code);
    assert_eq!(ended.stderr, "");
    ended.stdout
}

fn show(place: &Place, url: &str) -> Ended {
    run(&["show", url, "--state", &place.state()])
}

/// What `why` says at the end of its second line is when.
fn without_time(told: &str) -> String {
    told.lines().map(|line| format!("{}\n", line.split(" on 20").next().unwrap())).collect()
}

#[test]
fn a_stored_page_is_shown_byte_for_byte() {
    // What stands at the beginning decides that it is a page.
    let mut body = b"<p>Zo\xEB says, at some length, what there is to say about binary data.\r\n".repeat(100);
    body.extend((0..=255).cycle().take(70_000));
    let answer = Answer::page(body.clone()).content_type("text/html; charset=latin1");
    let web = serve(Site::new().page("/", linking_to(&["/a%20b?x=1"])).answer("/a%20b?x=1", answer));
    let place = Place::new();
    place.crawl(web.url("/")).run();
    for spelling in ["/a b?x=1", "/a%20b?x=1#part", "/x/../a%20b?x=1"] {
        let output = binary().args(["show", &web.url(spelling), "--state", &place.state()]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == body && output.stderr.is_empty());
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status =
        binary().args(["show", &web.url("/"), "--state", &place.state()]).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_page_that_is_not_stored_has_a_reason() {
    let long = "the same words again and again in a page that is long enough to be compared with others, which takes \
                some twenty words at the least, and a few more for good measure";
    let site = Site::new()
        .page("/", linking_to(&["/gone", "/twin", "/moved", "/later"]) + long)
        .page("/twin", linking_to(&["/gone", "/twin", "/moved", "/later"]) + long)
        .redirect("/moved", "/")
        .page("/later", "x");
    let web = serve(site);
    let place = Place::new();
    place.crawl(web.url("/")).with("--scope host --exclude never$ --max-depth 1").run().expect(0);
    let url = |path: &str| web.url(path);
    for (url, words) in [
        (url("/gone"), "HTTP status 404"),
        (url("/twin"), "duplicate of "),
        (url("/moved"), "redirected to "),
        (
            url("/nobody"),
            "no page that was kept links to it, unless one at depth 1, where links are not followed (--max-depth 1)",
        ),
        (url("/never"), "excluded by a pattern (--include, --exclude)"),
        ("http://other.test/".into(), "external: the crawl stays in 127.0.0.1:"),
    ] {
        let ended = show(&place, &url).expect(1);
        assert!(ended.stderr.starts_with(&format!("crawler: {url} is not stored: ")), "{}", ended.stderr);
        assert!(ended.stderr.contains(words) && ended.stdout.is_empty(), "{words}: {}", ended.stderr);
    }
    let place = Place::new();
    place.crawl(web.url("/")).with("--no-content").run().expect(0);
    let ended = show(&place, &web.url("/")).expect(1);
    assert!(ended.stderr.contains("the crawl stores no pages (--no-content)"), "{}", ended.stderr);
}

#[test]
fn a_page_is_stored_for_a_while_only() {
    let site = Site::new()
        .page("/", linking_to(&["/slow"]))
        .answer("/slow", Answer::page("y").after(std::time::Duration::from_millis(1500)));
    let web = serve(site);
    let place = Place::new();
    place.crawl(web.url("/")).with("--ttl 300ms").run().expect(0);
    let ended = show(&place, &web.url("/")).expect(1);
    assert!(ended.stderr.contains("and stored for as long as --ttl says (300ms)"), "{}", ended.stderr);
    assert!(why(&place, &web.url("/"), 0).contains("  kept as page 1 on 20"));
}

#[test]
fn the_story_of_a_url_is_told() {
    let site = Site::new()
        .page("/", linking_to(&["/one", "/gone"]))
        .page("/one", linking_to(&["/two"]) + "first")
        .redirect("/two", "/three")
        .page("/three", linking_to(&["/four"]) + "third")
        .page("/four", "fourth");
    let web = serve(site);
    let place = Place::new();
    let (lines, pages) = (place.path("lines"), place.path("pages"));
    let crawl = place.crawl(web.url("/")).with("--max-pages 3 --workers 1 --concurrency 1");
    crawl.module("jsonl", &lines).module("pages", &pages).run().expect(0);
    let url = |path: &str| web.url(path);
    let told = why(&place, &url("/three"), 0);
    assert!(told.lines().nth(1).unwrap().ends_with(" UTC"), "{told}");
    assert_eq!(
        without_time(&told),
        format!(
            "{}\n  kept as page 3\n  in line 3 of {}\n  in the file {}\n  2 hops from a seed\n  redirected to by {}\n  \
             found on {}\n  found on {}\n",
            url("/three"),
            lines.display(),
            pages.join("3").display(),
            url("/two"),
            url("/one"),
            url("/")
        )
    );
    assert!(why(&place, &url("/"), 0).ends_with("\n  a seed\n"));
    let two = without_time(&why(&place, &url("/two"), 0));
    assert!(two.contains(&format!("  redirected to {}\n", url("/three"))), "{two}");
    let four = why(&place, &url("/four"), 0);
    let expected = format!(
        "{}\n  waiting to be visited\n  3 hops from a seed\n  found on {}\n",
        url("/four"),
        url("/three")
    );
    assert!(four.starts_with(&expected), "{four}");
    let never = why(&place, &url("/never"), 1);
    assert_eq!(never, format!("{}\n  never admitted: no page that was kept links to it\n", url("/never")));
}

#[test]
fn a_url_that_was_never_admitted_has_a_reason_where_one_can_be_told() {
    let web = serve(Site::new().page("/docs/", "x"));
    let place = Place::new();
    let crawl =
        crate::pipeline::Pipeline::bare(web.url("/docs/")).with("--ignore-robots --scope host --state");
    crawl.with_one(place.state()).with("--include /docs/ --exclude pdf$").run().expect(0);
    let host = web.url("");
    for (url, words) in [
        ("ftp://127.0.0.1/x".into(), "neither http nor https"),
        ("mailto:me@a.test".into(), "neither http nor https"),
        (format!("{}/docs/x", host.replace("//", "//me:pw@")), "with credentials"),
        (format!("{host}/docs/x.pdf"), "excluded by a pattern"),
        (format!("{host}/blog"), "excluded by a pattern"),
        (format!("{host}/docs/x/x/x/x/x"), "repeating path segments, as only traps have"),
        (format!("{host}/docs/{}", "y".repeat(3000)), "too long, more than 2048 bytes"),
        ("http://a.test/docs/".into(), "external"),
        (format!("{host}/docs/other"), "no page that was kept links to it\n"),
    ] {
        let told = why(&place, &url, 1);
        assert!(told.contains("\n  never admitted: ") && told.contains(words), "{words} is not in {told}");
        assert!(!told.contains("me:pw"), "{told}");
    }
    let place = Place::new();
    let crawl = crate::pipeline::Pipeline::bare(web.url("/docs/")).with("--ignore-robots --state");
    crawl.with_one(place.state()).run().expect(0);
    assert!(why(&place, "http://10.0.0.1/", 1).contains("private address (--allow-private)"));
}

#[test]
fn a_long_way_is_shortened() {
    let site = (0..30).fold(Site::new(), |site, n| {
        site.page(&format!("/{n}"), format!("page {n} {}", linking_to(&[&format!("/{}", n + 1)])))
    });
    let web = serve(site);
    let place = Place::new();
    place.crawl(web.url("/0")).run().expect(0);
    let told = why(&place, &web.url("/20"), 0);
    assert!(told.contains("  20 hops from a seed\n") && told.contains("\n  … 14 more …\n"), "{told}");
    assert_eq!(told.lines().count(), 10, "{told}");
    assert!(told.ends_with(&format!("  found on {}\n", web.url("/0"))), "{told}");
}

#[test]
fn bad_questions_are_refused() {
    for command in ["show", "why"] {
        for (arguments, words) in [
            (&[command, "--state", "x"][..], "<URL>"),
            (&[command, "http://a.test/"], "--state"),
            (&[command, "a.test", "--state", "x"], "give an absolute URL"),
            (&[command, "http://a.test/", "--state", "/nowhere"], "cannot open the state in '/nowhere': there is none"),
        ] {
            let ended = run(arguments).expect(2);
            assert!(ended.stderr.contains(words), "{}", ended.stderr);
        }
        assert!(run(&[command, "--help"]).expect(0).stdout.contains("--state <DIR>"));
    }
}
