//! Crawls with a depth limit, killed: every page within the limit by its shortest path is fetched, whichever path is
//! found first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use crawler::internal::backend::durable::StateReader;
use testweb::{Response, Site, Web};

use super::process::CrawlCommand;
use super::{checks, crawl_and_kill, kills_and_random};

/// The smallest depth of every page, by URL.
type Depths = BTreeMap<String, usize>;

/// The response time on the short path, so that the crawl follows the long path first.
const SHORT_PATH_DELAY: Duration = Duration::from_millis(300);

/// Length of the chain of pages that both paths lead to.
const SHARED_PAGES: usize = 10;

/// The depth limit. Some of the shared pages are beyond it by both paths, some only by the long one.
const MAX_DEPTH: usize = 6;

/// Checks that exactly the pages within the limit were fetched, once, at their smallest depth.
fn assert_pages(directory: &Path, expected_pages: &Depths) {
    let urls = checks::urls(directory);
    let pages: BTreeSet<&String> = urls.iter().collect();
    assert_eq!(pages.len(), urls.len(), "a page was written twice");
    assert_eq!(pages, expected_pages.keys().collect());
    let mut state = StateReader::open(&directory.join("state")).unwrap();
    for (url, depth) in expected_pages {
        let history =
            state.history(&url.parse().unwrap()).unwrap().unwrap_or_else(|| panic!("{url} was not admitted"));
        assert_eq!(history.depth as usize, *depth, "{url}");
    }
    let report = checks::report(directory);
    let outcomes = report["outcomes"].as_object().unwrap();
    let sum: u64 = outcomes.values().map(|count| count.as_u64().unwrap()).sum();
    let refetches = report["refetches"].as_u64().unwrap();
    assert_eq!(report["admitted"], sum + refetches, "{report}");
    assert_eq!(report["completed"], sum + refetches, "{report}");
    assert_eq!(report["pages"], expected_pages.len(), "{report}");
    // A URL that was revisited has one row, too.
    assert_eq!(checks::rows(directory).len() as u64, sum);
}

#[test]
fn killed_crawl_with_a_depth_limit_fetches_every_page_within_it() {
    let (kills, mut random) = kills_and_random();
    let web = Web::builder().seeded_hosts(random.below(1_000), 14, 16).start();
    let (seed, depth) = (web.url_of("h0.test", "/"), 3);
    let expected_pages = web.truth_from(&seed, depth);
    assert!(expected_pages.len() < web.truth_from(&seed, 1_000).len(), "some pages are beyond the limit");
    let directory = tempfile::tempdir().unwrap();
    let command = CrawlCommand::new(&seed, directory.path()).set("max-depth", depth);
    crawl_and_kill(&command, expected_pages.len(), kills, &mut random);
    assert_pages(
        directory.path(),
        &expected_pages.iter().map(|(url, (depth, _))| (url.clone(), *depth)).collect(),
    );
    for (number, url) in (1..).zip(checks::urls(directory.path())) {
        let file = fs::read(directory.path().join(format!("pages/{number}"))).unwrap();
        assert!(file.ends_with(&expected_pages[&url].1), "{url} is incomplete");
    }
}

fn page(links: &[String]) -> Response {
    Response::page(links.iter().map(|to| format!("<a href={to}>on</a>\n")).collect::<String>())
}

/// `count` times a short and a long path to the same pages; and the pages within the limit.
fn two_paths(count: usize) -> (Web, Depths) {
    let start = Site::new().fallback(move |request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80").to_owned();
        let both =
            |n: usize| [format!("http://short{n}.test:{port}/"), format!("http://long{n}.test:{port}/1")];
        page(&(0..count).flat_map(both).collect::<Vec<_>>())
    });
    let mut builder = Web::builder().host("h0.test", start);
    for n in 0..count {
        let shared = move |authority: &str| {
            let port = authority.rsplit(':').next().unwrap_or("80");
            [format!("http://beyond{n}.test:{port}/0")]
        };
        let short =
            Site::new().fallback(move |request| page(&shared(&request.authority)).delay(SHORT_PATH_DELAY));
        let long = Site::new()
            .page("/1", "<a href=/2>on</a>")
            .page("/2", "<a href=/3>on</a>")
            .fallback(move |request| page(&shared(&request.authority)));
        let shared = (0..SHARED_PAGES).fold(Site::new(), |site, page| {
            site.page(&format!("/{page}"), format!("<a href=/{}>on</a>", page + 1))
        });
        builder = builder.host(&format!("short{n}.test"), short);
        builder = builder.host(&format!("long{n}.test"), long);
        builder = builder.host(&format!("beyond{n}.test"), shared);
    }
    let web = builder.start();
    let mut expected_pages = Depths::from([(web.url_of("h0.test", "/"), 0)]);
    for n in 0..count {
        expected_pages.insert(web.url_of(&format!("short{n}.test"), "/"), 1);
        expected_pages
            .extend((1..=3).map(|page| (web.url_of(&format!("long{n}.test"), &format!("/{page}")), page)));
        let shared = (0..=MAX_DEPTH - 2).map(|page| (format!("/{page}"), page + 2));
        expected_pages
            .extend(shared.map(|(path, depth)| (web.url_of(&format!("beyond{n}.test"), &path), depth)));
    }
    (web, expected_pages)
}

#[test]
fn pages_first_found_on_a_longer_path_are_revisited_on_the_shorter_one_across_kills() {
    let (kills, mut random) = kills_and_random();
    let (web, expected_pages) = two_paths(12);
    let directory = tempfile::tempdir().unwrap();
    let command = CrawlCommand::new(&web.url_of("h0.test", "/"), directory.path())
        .set("max-depth", MAX_DEPTH)
        .set("concurrency", 30);
    crawl_and_kill(&command, expected_pages.len(), kills, &mut random);
    assert_pages(directory.path(), &expected_pages);
    assert!(
        checks::report(directory.path())["refetches"].as_u64() > Some(0),
        "the longer path was never first"
    );
}
