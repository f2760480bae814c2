//! `crawler show` and `crawler why`: the stored page, the outcome and the discovery path of a URL.

use std::fs;

use testweb::{Response, Site};

use crate::common::{Ended, binary, linking_to, run, serve};
use crate::state::StateDir;

#[track_caller]
fn why(state_dir: &StateDir, url: &str, code: i32) -> String {
    let ended = run(&["why", url, "--state", &state_dir.state()]).expect(code);
    assert_eq!(ended.stderr, "");
    ended.stdout
}

fn show(state_dir: &StateDir, url: &str) -> Ended {
    run(&["show", url, "--state", &state_dir.state()])
}

/// The output of `why` without the time at the end of its second line.
fn without_time(printed: &str) -> String {
    printed.lines().map(|line| format!("{}\n", line.split(", 20").next().unwrap())).collect()
}

#[test]
fn show_prints_a_stored_page_byte_for_byte() {
    // The first bytes decide that it is a page.
    let mut body = b"<p>Zo\xEB says, at some length, what there is to say about binary data.\r\n".repeat(100);
    body.extend((0..=255).cycle().take(70_000));
    let response = Response::page(body.clone()).content_type("text/html; charset=latin1");
    let web = serve(Site::new().page("/", linking_to(&["/a%20b?x=1"])).response("/a%20b?x=1", response));
    let state_dir = StateDir::new();
    state_dir.crawl(web.url("/")).run();
    for spelling in ["/a b?x=1", "/a%20b?x=1#part", "/x/../a%20b?x=1"] {
        let output =
            binary().args(["show", &web.url(spelling), "--state", &state_dir.state()]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == body && output.stderr.is_empty());
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status =
        binary().args(["show", &web.url("/"), "--state", &state_dir.state()]).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn show_names_the_reason_why_a_page_is_not_stored() {
    let long = "the same words again and again in a page that is long enough to be compared with others, which takes \
                some twenty words at the least, and a few more for good measure";
    let site = Site::new()
        .page("/", linking_to(&["/gone", "/twin", "/moved", "/later"]) + long)
        .page("/twin", linking_to(&["/gone", "/twin", "/moved", "/later"]) + long)
        .redirect("/moved", "/")
        .page("/later", "x");
    let web = serve(site);
    let state_dir = StateDir::new();
    state_dir.crawl(web.url("/")).with("--scope host --exclude never$ --max-depth 1").run().expect(0);
    let url = |path: &str| web.url(path);
    for (url, words) in [
        (url("/gone"), "HTTP 404"),
        (url("/twin"), "duplicate of "),
        (url("/moved"), "redirect to "),
        (
            url("/nobody"),
            "no crawled page has a link to it that is followed, except possibly pages at depth 1, whose links are not followed (--max-depth 1)",
        ),
        (url("/never"), "excluded (--include, --exclude)"),
        ("http://other.test/".into(), "out of scope: the crawl is limited to 127.0.0.1:"),
    ] {
        let ended = show(&state_dir, &url).expect(1);
        assert!(ended.stderr.starts_with(&format!("crawler: cannot show {url}: ")), "{}", ended.stderr);
        assert!(ended.stderr.contains(words) && ended.stdout.is_empty(), "{words}: {}", ended.stderr);
    }
    let state_dir = StateDir::new();
    state_dir.crawl(web.url("/")).with("--no-content").run().expect(0);
    let ended = show(&state_dir, &web.url("/")).expect(1);
    assert!(ended.stderr.contains("the crawl does not store page bodies (--no-content)"), "{}", ended.stderr);
}

#[test]
fn stored_page_expires_after_the_ttl() {
    let site = Site::new()
        .page("/", linking_to(&["/slow"]))
        .response("/slow", Response::page("y").delay(std::time::Duration::from_millis(1500)));
    let web = serve(site);
    let state_dir = StateDir::new();
    state_dir.crawl(web.url("/")).with("--ttl 300ms").run().expect(0);
    let ended = show(&state_dir, &web.url("/")).expect(1);
    assert!(ended.stderr.contains(", --ttl 300ms)"), "{}", ended.stderr);
    assert!(why(&state_dir, &web.url("/"), 0).contains("  outcome: page 1, 20"));
}

#[test]
fn why_shows_outcome_outputs_and_discovery_path() {
    let site = Site::new()
        .page("/", linking_to(&["/one", "/gone"]))
        .page("/one", linking_to(&["/two"]) + "first")
        .redirect("/two", "/three")
        .page("/three", linking_to(&["/four"]) + "third")
        .page("/four", "fourth");
    let web = serve(site);
    let state_dir = StateDir::new();
    let (lines, pages) = (state_dir.path("lines"), state_dir.path("pages"));
    let crawl = state_dir.crawl(web.url("/")).with("--max-pages 3 --workers 1 --concurrency 1");
    crawl.module("jsonl", &lines).module("pages", &pages).run().expect(0);
    let url = |path: &str| web.url(path);
    let printed = why(&state_dir, &url("/three"), 0);
    assert!(printed.lines().nth(1).unwrap().ends_with(" UTC"), "{printed}");
    assert_eq!(
        without_time(&printed),
        format!(
            "{}\n  outcome: page 3\n  output: line 3 of {}\n  output: file {}\n  depth: 2 links from a seed\n  reached: \
             redirected to by {},\n    which was found on {},\n    which was found on {}, a seed\n  linked from: none of 3 \
             stored pages\n",
            url("/three"),
            lines.display(),
            pages.join("3").display(),
            url("/two"),
            url("/one"),
            url("/")
        )
    );
    let seed = why(&state_dir, &url("/"), 0);
    assert!(seed.ends_with("\n  reached: it is a seed\n  linked from: none of 3 stored pages\n"), "{seed}");
    let two = without_time(&why(&state_dir, &url("/two"), 0));
    assert!(two.contains(&format!("  outcome: redirect to {}\n", url("/three"))), "{two}");
    let four = why(&state_dir, &url("/four"), 0);
    let expected = format!(
        "{}\n  outcome: pending\n  depth: 3 links from a seed\n  reached: found on {},\n    which was redirected to by {},\n",
        url("/four"),
        url("/three"),
        url("/two")
    );
    assert!(four.starts_with(&expected), "{four}");
    assert!(
        four.ends_with(&format!("  linked from: 1 of 3 stored pages\n    {}\n", url("/three"))),
        "{four}"
    );
    let never = why(&state_dir, &url("/never"), 1);
    assert_eq!(
        never,
        format!(
            "{}\n  outcome: never admitted, no crawled page has a link to it that is followed\n  linked from: none of 3 \
             stored pages\n",
            url("/never")
        )
    );
}

#[test]
fn temporary_failure_is_distinguished_from_a_final_one() {
    let web = serve(Site::new().page("/", linking_to(&["/busy", "/gone"])).status("/busy", 503));
    let state_dir = StateDir::new();
    let summary = state_dir.path("summary.json");
    state_dir.crawl(web.url("/")).with("--summary").with_one(summary.to_str().unwrap()).run().expect(0);
    let busy = without_time(&why(&state_dir, &web.url("/busy"), 0));
    let expected = "  outcome: HTTP 503\n  temporary failure: a later request may succeed\n";
    assert!(busy.contains(expected), "{busy}");
    let stderr = show(&state_dir, &web.url("/busy")).expect(1).stderr;
    assert!(stderr.ends_with("its outcome is: HTTP 503; a later crawl may get it\n"), "{stderr}");
    for (path, outcome) in [("/gone", "HTTP 404"), ("/", "page 1")] {
        let printed = without_time(&why(&state_dir, &web.url(path), 0));
        assert!(printed.contains(&format!("  outcome: {outcome}\n")), "{printed}");
        assert!(!printed.contains("temporary"), "{printed}");
    }
    let summary: serde_json::Value = serde_json::from_str(&fs::read_to_string(summary).unwrap()).unwrap();
    assert_eq!((&summary["failed"]["total"], &summary["failed_temporarily"]), (&2.into(), &1.into()));
}

#[test]
fn why_names_the_reason_why_a_url_was_never_admitted() {
    let web = serve(Site::new().page("/docs/", "x"));
    let state_dir = StateDir::new();
    let crawl =
        crate::pipeline::Pipeline::bare(web.url("/docs/")).with("--ignore-robots --scope host --state");
    crawl.with_one(state_dir.state()).with("--include /docs/ --exclude pdf$").run().expect(0);
    let host = web.url("");
    for (url, words) in [
        ("ftp://127.0.0.1/x".into(), "not http or https"),
        ("mailto:me@a.test".into(), "not http or https"),
        (format!("{}/docs/x", host.replace("//", "//me:pw@")), "with credentials"),
        (format!("{host}/docs/x.pdf"), "excluded"),
        (format!("{host}/blog"), "excluded"),
        (format!("{host}/docs/x/x/x/x/x"), "repeated path segments, as in a crawler trap"),
        (format!("{host}/docs/{}", "y".repeat(3000)), "URL too long, more than 2048 bytes"),
        ("http://a.test/docs/".into(), "out of scope"),
        (format!("{host}/docs/other"), "no crawled page has a link to it that is followed\n"),
    ] {
        let printed = why(&state_dir, &url, 1);
        assert!(
            printed.contains("\n  outcome: never admitted, ") && printed.contains(words),
            "{words} is not in {printed}"
        );
        assert!(!printed.contains("me:pw"), "{printed}");
    }
    let state_dir = StateDir::new();
    let crawl = crate::pipeline::Pipeline::bare(web.url("/docs/")).with("--ignore-robots --state");
    crawl.with_one(state_dir.state()).run().expect(0);
    assert!(why(&state_dir, "http://10.0.0.1/", 1).contains("private address (--allow-private)"));
}

#[test]
fn long_discovery_path_is_shortened() {
    let site = (0..30).fold(Site::new(), |site, n| {
        site.page(&format!("/{n}"), format!("page {n} {}", linking_to(&[&format!("/{}", n + 1)])))
    });
    let web = serve(site);
    let state_dir = StateDir::new();
    state_dir.crawl(web.url("/0")).run().expect(0);
    let printed = why(&state_dir, &web.url("/20"), 0);
    assert!(
        printed.contains("  depth: 20 links from a seed\n") && printed.contains("\n    … 14 more …\n"),
        "{printed}"
    );
    assert_eq!(printed.lines().count(), 12, "{printed}");
    assert!(printed.contains(&format!("\n    which was found on {}, a seed\n", web.url("/0"))), "{printed}");
}

#[test]
fn why_separates_how_a_url_was_reached_from_who_links_to_it() {
    let number = |n: usize| format!("/p/{n}");
    let links: Vec<String> = (0..300).map(number).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).chain(["/popular?sid=1"]).collect();
    let site = Site::new().page("/", linking_to(&links)).page("/popular", linking_to(&["/popular#top"]));
    // Every third page has a link to it, in other words each.
    let site = (0..300).fold(site, |site, n| {
        let link = ["../popular", "http://elsewhere.test/", "/p/0"][n % 3];
        site.page(&number(n), format!("page {n} {}", linking_to(&[link])))
    });
    let web = serve(site);
    let state_dir = StateDir::new();
    state_dir.crawl(web.url("/")).with("--scope host --similarity 0 --strip-query sid").run().expect(0);
    let printed = why(&state_dir, &web.url("/popular"), 0);
    assert!(printed.contains(&format!("\n  reached: found on {}, a seed\n", web.url("/"))), "{printed}");
    assert!(printed.contains("\n  linked from: 101 of 302 stored pages\n"), "{printed}");
    assert!(printed.ends_with("\n    … and 96 more\n"), "{printed}");
    assert_eq!(printed.matches("\n    http://").count(), 5, "{printed}");
    // Also for a URL that was never admitted.
    let printed = why(&state_dir, "http://elsewhere.test/", 1);
    assert!(printed.contains("out of scope") && printed.contains("\n  linked from: 100 of 302"), "{printed}");

    let state_dir = StateDir::new();
    state_dir.crawl(web.url("/")).with("--scope host --no-content").run().expect(0);
    let printed = why(&state_dir, &web.url("/popular"), 0);
    let words = "  linked from: not known, because the crawl does not store page bodies (--no-content)\n";
    assert!(printed.ends_with(words), "{printed}");
}

#[test]
fn invalid_arguments_are_rejected() {
    for command in ["show", "why"] {
        for (arguments, words) in [
            (&[command, "--state", "x"][..], "<URL>"),
            (&[command, "http://a.test/"], "--state"),
            (&[command, "a.test", "--state", "x"], "did you mean https://a.test/?"),
            (
                &[command, "http://a.test/", "--state", "/nowhere"],
                "cannot open the state in '/nowhere': there is none",
            ),
        ] {
            let ended = run(arguments).expect(2);
            assert!(ended.stderr.contains(words), "{}", ended.stderr);
        }
        assert!(run(&[command, "--help"]).expect(0).stdout.contains("--state <DIR>"));
    }
}
