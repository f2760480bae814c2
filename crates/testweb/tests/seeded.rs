//! Tests of the truth about seeded sites, with an independent HTML parser and URL parser.

mod client;
mod walker;

use std::collections::HashSet;

use testweb::{Site, Truth, Web};
use walker::walk;

fn summary(truth: &Truth) -> Vec<(&String, usize)> {
    truth.iter().map(|(url, (depth, _))| (url, *depth)).collect()
}

#[test]
fn truth_is_what_an_independent_crawl_finds() {
    for seed in 0..12 {
        let web = Web::builder().site(Site::seeded(seed, 120)).start();
        let origin = web.url("");
        for depth in [0, 1, 3, 30] {
            let walked = walk(&web, &web.url("/"), depth, |url| url.as_str().starts_with(&origin));
            let truth = web.truth_from(&web.url("/"), depth);
            assert_eq!(summary(&walked), summary(&truth), "seed {seed}, depth {depth}");
            assert!(walked == truth, "bodies differ: seed {seed}");
        }
    }
}

#[test]
fn every_page_of_a_seeded_site_is_reachable_and_the_site_is_deep() {
    for seed in 0..50 {
        let web = Web::builder().site(Site::seeded(seed, 200)).start();
        let truth = web.truth("/", 200);
        assert_eq!(truth.len(), 200, "seed {seed}");
        assert!(truth.values().any(|(depth, _)| *depth >= 4), "seed {seed}");
        assert_eq!(truth["/"].0, 0);
        assert!(truth.keys().all(|path| path.starts_with('/') && !path.contains("hidden")));
        let bodies: HashSet<&Vec<u8>> = truth.values().map(|(_, body)| body).collect();
        assert_eq!(bodies.len(), 200);
        assert!(truth.values().all(|(_, body)| body.len() < 400_000));
    }
}

#[test]
fn same_seed_gives_the_same_site_and_another_seed_another() {
    let paths = |seed| {
        let web = Web::builder().site(Site::seeded(seed, 50)).start();
        web.truth("/", 50).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(paths(1), paths(1));
    assert_ne!(paths(1), paths(2));
}

#[test]
fn truth_can_start_at_any_page() {
    let web = Web::builder().site(Site::seeded(3, 100)).start();
    let inner = web.truth("/", 2).into_iter().find(|(_, (depth, _))| *depth == 2).unwrap().0;
    assert_eq!(web.truth(&inner, 0).into_keys().collect::<Vec<_>>(), [inner]);
    assert!(web.truth("/nowhere", 5).is_empty());
}

#[test]
fn seeded_hosts_are_all_reachable_from_the_first() {
    let web = Web::builder().seeded_hosts(7, 20, 15).start();
    let start = web.url_of("h0.test", "/");
    let truth = web.truth_from(&start, 100);
    assert_eq!(truth.len(), 20 * 15);
    let walked = walk(&web, &start, 100, |url| url.host_str().is_some_and(|host| host.ends_with(".test")));
    assert_eq!(summary(&walked), summary(&truth));
    assert!(walked == truth);
}

#[test]
fn print_view_is_a_near_duplicate_and_not_in_the_truth() {
    let web = Web::builder().site(Site::seeded(4, 60).with_print_views()).start();
    let origin = web.url("");
    let truth = web.truth_from(&web.url("/"), 60);
    let walked = walk(&web, &web.url("/"), 60, |url| url.as_str().starts_with(&origin));
    assert_eq!(truth.len(), 60);
    let (views, pages): (Truth, Truth) = walked.into_iter().partition(|(url, _)| url.ends_with("print=yes"));
    assert_eq!(summary(&pages), summary(&truth));
    assert!(views.len() > 30);
    for (url, (_, body)) in &views {
        let page = &truth[url.strip_suffix("print=yes").unwrap().trim_end_matches(['?', '&'])].1;
        assert!(body.starts_with(page) && body != page && body.len() < page.len() + 30);
    }
}
