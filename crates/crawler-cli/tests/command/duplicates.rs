//! Duplicates and near-duplicates: which pages are dropped, and which links are followed.

use std::collections::BTreeSet;

use testweb::{Site, Web};

use crate::common::{Ended, counts, linking_to, serve};
use crate::pipeline::Pipeline;
use crate::state::StateDir;

/// Enough different words that a link more or less does not change the similarity much.
fn text() -> String {
    (0..300).map(|word| format!("word{word} ")).collect()
}

/// The paths that the server was asked for.
fn requested(web: &Web) -> BTreeSet<String> {
    web.log().paths().into_iter().map(str::to_owned).collect()
}

/// Crawls in memory and with a state, each time on a new web, and checks the paths requested.
fn crawl_each_way(site: impl Fn() -> Site, seeds: &[&str], options: &str, check: impl Fn(&Web, Ended)) {
    for with_state in [false, true] {
        let (web, place) = (serve(site()), StateDir::new());
        let crawl = match with_state {
            false => Pipeline::of(web.url(seeds[0])),
            true => place.crawl(web.url(seeds[0])),
        };
        let crawl = seeds[1..].iter().fold(crawl, |crawl, seed| crawl.with_one(web.url(seed)));
        check(&web, crawl.with("--scope host").with(options).run().expect(0));
    }
}

#[test]
fn seed_is_never_dropped_as_a_duplicate() {
    let copy = || linking_to(&["/c"]) + &text();
    let site = || {
        Site::new()
            .page("/a", copy())
            .page("/b", copy())
            .page("/similar", copy() + "more")
            .redirect("/moved", "/home")
            .page("/home", copy())
            .page("/c", copy())
    };
    for similarity in ["0.9", "1"] {
        let options = format!("--similarity {similarity}");
        crawl_each_way(site, &["/a", "/b", "/similar", "/moved"], &options, |_, ended| {
            assert_eq!(ended.outcomes(), counts(&[("page", 4), ("redirect", 1), ("duplicate", 1)]));
        });
    }
}

#[test]
fn equal_pages_with_relative_links_are_crawled_below_each_of_them() {
    let index = "<a href=sub.html>x</a><a href=#top>up</a>";
    let site = || {
        Site::new()
            .page("/", linking_to(&["/a/index.html", "/b/index.html", "/x/", "/y/"]))
            .page("/a/index.html", index.to_owned() + &text())
            .page("/b/index.html", index.to_owned() + &text())
            .page("/a/sub.html", "below a")
            .page("/b/sub.html", "below b")
            .page("/x/", linking_to(&["/z", "#top"]))
            .page("/y/", linking_to(&["/z", "#top"]))
            .page("/z", "the end")
    };
    crawl_each_way(site, &["/"], "--similarity 1", |web, ended| {
        let requested = requested(web);
        assert!(requested.contains("/a/sub.html") && requested.contains("/b/sub.html"), "{requested:?}");
        assert_eq!(ended.outcomes(), counts(&[("page", 7), ("duplicate", 1)]), "/x/ and /y/ are equal");
    });
}

#[test]
fn links_of_duplicates_are_followed_on_request() {
    let site = || {
        Site::new()
            .page("/", linking_to(&["/one"]))
            .page("/one", linking_to(&["/two"]) + &text())
            .page("/two", linking_to(&["/two", "/three"]) + &text())
            .page("/three", "the end")
    };
    crawl_each_way(site, &["/"], "", |web, ended| {
        assert!(!requested(web).contains("/three"));
        assert_eq!(ended.outcomes(), counts(&[("page", 2), ("near-duplicate", 1)]));
    });
    crawl_each_way(site, &["/"], "--follow-duplicates -v", |web, ended| {
        assert!(requested(web).contains("/three"));
        assert_eq!(ended.outcomes(), counts(&[("page", 3), ("near-duplicate", 1)]));
        let outcome = format!("near-duplicate of {} (links followed)", web.url("/one"));
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains(&outcome), "{}", ended.stderr);
    });
}
