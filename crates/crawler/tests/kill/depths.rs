//! Crawls with a limit to their depth, killed: what is within it by the shortest way is kept, whichever way is met first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use crawler::StateReader;
use testweb::{Answer, Site, Web};

use super::process::Orders;
use super::{checks, crawl_and_kill, kills_and_random};

/// Every page by URL, with the fewest hops to it.
type Depths = BTreeMap<String, usize>;

/// So long the short way takes to its end, which the long way has reached by then.
const SHORT_WAY_TAKES: Duration = Duration::from_millis(300);

/// How far the pages go that both ways lead to.
const PAGES_BEYOND: usize = 10;

/// The limit, which some of these are beyond by either way, and some by the long one alone.
const MAX_DEPTH: usize = 6;

/// Just the pages within the limit are kept, each once, and as near as they are.
fn assert_kept(directory: &Path, truth: &Depths) {
    let urls = checks::urls(directory);
    let kept: BTreeSet<&String> = urls.iter().collect();
    assert_eq!(kept.len(), urls.len(), "a page is there twice");
    assert_eq!(kept, truth.keys().collect());
    let mut stored = StateReader::open(&directory.join("state")).unwrap();
    for (url, depth) in truth {
        let why =
            stored.history(&url.parse().unwrap()).unwrap().unwrap_or_else(|| panic!("{url} is not known"));
        assert_eq!(why.depth as usize, *depth, "{url}");
    }
    let report = checks::report(directory);
    let outcomes = report["outcomes"].as_object().unwrap();
    let sum: u64 = outcomes.values().map(|count| count.as_u64().unwrap()).sum();
    let revisits = report["revisits"].as_u64().unwrap();
    assert_eq!(report["admitted"], sum + revisits, "{report}");
    assert_eq!(report["completed"], sum + revisits, "{report}");
    assert_eq!(report["pages"], truth.len(), "{report}");
}

#[test]
fn a_crawl_with_a_depth_limit_keeps_what_is_within_it_however_often_it_is_killed() {
    let (kills, mut random) = kills_and_random();
    let web = Web::builder().seeded_hosts(random.below(1_000), 14, 16).start();
    let (seed, depth) = (web.url_of("h0.test", "/"), 3);
    let truth = web.truth_from(&seed, depth);
    assert!(truth.len() < web.truth_from(&seed, 1_000).len(), "the limit leaves something out");
    let directory = tempfile::tempdir().unwrap();
    let orders = Orders::new(&seed, directory.path()).set("max-depth", depth);
    crawl_and_kill(&orders, truth.len(), kills, &mut random);
    assert_kept(directory.path(), &truth.iter().map(|(url, (depth, _))| (url.clone(), *depth)).collect());
    for (number, url) in (1..).zip(checks::urls(directory.path())) {
        let file = fs::read(directory.path().join(format!("pages/{number}"))).unwrap();
        assert!(file.ends_with(&truth[&url].1), "{url} is not whole");
    }
}

fn page(links: &[String]) -> Answer {
    Answer::page(links.iter().map(|to| format!("<a href={to}>on</a>\n")).collect::<String>())
}

/// A short way and a long one to the same pages, so many times; and what is within the limit.
fn two_ways(times: usize) -> (Web, Depths) {
    let at_first = Site::new().otherwise(move |request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80").to_owned();
        let both =
            |n: usize| [format!("http://short{n}.test:{port}/"), format!("http://long{n}.test:{port}/1")];
        page(&(0..times).flat_map(both).collect::<Vec<_>>())
    });
    let mut builder = Web::builder().host("h0.test", at_first);
    for n in 0..times {
        let beyond = move |authority: &str| {
            let port = authority.rsplit(':').next().unwrap_or("80");
            [format!("http://beyond{n}.test:{port}/0")]
        };
        let short =
            Site::new().otherwise(move |request| page(&beyond(&request.authority)).after(SHORT_WAY_TAKES));
        let long = Site::new()
            .page("/1", "<a href=/2>on</a>")
            .page("/2", "<a href=/3>on</a>")
            .otherwise(move |request| page(&beyond(&request.authority)));
        let beyond = (0..PAGES_BEYOND).fold(Site::new(), |site, page| {
            site.page(&format!("/{page}"), format!("<a href=/{}>on</a>", page + 1))
        });
        builder = builder.host(&format!("short{n}.test"), short);
        builder = builder.host(&format!("long{n}.test"), long);
        builder = builder.host(&format!("beyond{n}.test"), beyond);
    }
    let web = builder.start();
    let mut truth = Depths::from([(web.url_of("h0.test", "/"), 0)]);
    for n in 0..times {
        truth.insert(web.url_of(&format!("short{n}.test"), "/"), 1);
        truth.extend((1..=3).map(|page| (web.url_of(&format!("long{n}.test"), &format!("/{page}")), page)));
        let beyond = (0..=MAX_DEPTH - 2).map(|page| (format!("/{page}"), page + 2));
        truth.extend(beyond.map(|(path, depth)| (web.url_of(&format!("beyond{n}.test"), &path), depth)));
    }
    (web, truth)
}

#[test]
fn pages_first_met_by_a_longer_way_are_gone_on_from_by_the_shorter_one_across_kills() {
    let (kills, mut random) = kills_and_random();
    let (web, truth) = two_ways(12);
    let directory = tempfile::tempdir().unwrap();
    let orders = Orders::new(&web.url_of("h0.test", "/"), directory.path())
        .set("max-depth", MAX_DEPTH)
        .set("concurrency", 30);
    crawl_and_kill(&orders, truth.len(), kills, &mut random);
    assert_kept(directory.path(), &truth);
    assert!(
        checks::report(directory.path())["revisits"].as_u64() > Some(0),
        "the longer way was never first"
    );
}
