//! What must hold of a crawl that came to its end, whatever happened to its processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crawler::StateReader;
use crawler::internal::backend::durable::UrlStatus;
use serde_json::Value;
use testweb::{Hit, Log, Web};

use super::Life;
use super::process::Orders;
use super::world::{CRAWL_DELAY, Kind, RETRY_AFTER, World, kind};

/// A host that wants more time than others is known to want it by then: its answer was read and that was committed.
const NOTED_AFTER: Duration = Duration::from_millis(250);

/// What the last process reported.
pub fn report(directory: &Path) -> Value {
    serde_json::from_slice(&fs::read(directory.join("report")).unwrap()).unwrap()
}

/// The counts add up.
pub fn counts(directory: &Path, world: World) {
    let report = report(directory);
    let outcomes = report["outcomes"].as_object().unwrap();
    let sum: u64 = outcomes.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(report["admitted"], sum, "{report}");
    assert_eq!(report["completed"], sum, "{report}");
    assert_eq!(report["pages"], world.hosts * world.pages, "{report}");
    assert_eq!(outcomes["page"], world.hosts * world.pages, "{report}");
    let print_views = (0..world.pages).filter(|page| world.print_views && page % 2 == 1).count();
    let dropped = outcomes.get("near-duplicate").map_or(0, |count| count.as_u64().unwrap());
    assert_eq!(dropped as usize, print_views * world.hosts, "{report}");
    assert_eq!(report["end"], "nothing was left to do");
}

/// The state says of every page that it was kept, under the number that it has in the outputs.
pub fn state(directory: &Path, world: World, web: &Web) {
    let mut stored = StateReader::open(&directory.join("state")).unwrap();
    let numbers: BTreeMap<String, u64> = urls(directory).into_iter().zip(1..).collect();
    for url in world.truth(&web.port().to_string()).keys() {
        let why =
            stored.history(&url.parse().unwrap()).unwrap().unwrap_or_else(|| panic!("{url} is not known"));
        match why.fate {
            UrlStatus::Ended { outcome, document, .. } => {
                assert_eq!((outcome.as_str(), document), ("page", numbers.get(url).copied()), "{url}");
            }
            UrlStatus::Waiting => panic!("{url} still waits"),
        }
    }
}

/// The URLs of the JSON lines, in order.
pub fn urls(directory: &Path) -> Vec<String> {
    let lines = fs::read_to_string(directory.join("jsonl")).unwrap();
    assert!(lines.ends_with('\n'));
    let url = |line: &str| serde_json::from_str::<Value>(line).unwrap()["url"].as_str().unwrap().to_owned();
    lines.lines().map(url).collect()
}

/// Every page is in every output, once and whole, under the same number everywhere.
pub fn outputs(directory: &Path, world: World, web: &Web) {
    let port = web.port().to_string();
    let truth = world.truth(&port);
    let urls = urls(directory);
    assert_eq!(urls.len(), truth.len());
    assert_eq!(urls.iter().collect::<BTreeSet<_>>(), truth.keys().collect());
    let edges = fs::read_to_string(directory.join("edges")).unwrap();
    let mut expected = String::from("from,to\n");
    for url in &urls {
        let (host, page) = truth[url];
        world.links(host, page, &port).iter().for_each(|to| expected += &format!("{url},{to}\n"));
    }
    assert!(edges == expected, "the edges are those of the pages, in their order");
    let pages = directory.join("pages");
    for (index, url) in urls.iter().enumerate() {
        let file = fs::read_to_string(pages.join((index + 1).to_string())).unwrap();
        let (host, page) = truth[url];
        assert!(file.starts_with(&format!("{url}\n")), "file {} begins otherwise than {url}", index + 1);
        assert!(file.ends_with(&world.body(host, page, false, &port)), "file {} is not whole", index + 1);
    }
    let numbered = fs::read_dir(pages).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().parse::<u64>().is_ok()
    });
    assert_eq!(numbered.count(), urls.len());
}

/// No host was asked too soon, nor for much that it had answered.
pub fn log(log: &Log, lives: &[Life], orders: &Orders) {
    let delay = Duration::from_millis(orders.0["delay"].as_u64().unwrap());
    let mut hosts: BTreeMap<&str, Vec<&Hit>> = BTreeMap::new();
    log.iter().for_each(|hit| hosts.entry(&hit.host).or_default().push(hit));
    let mut repeats = 0;
    for (name, hits) in hosts {
        let host: usize = name[1..name.len() - 5].parse().unwrap();
        for pair in hits.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            let gap = after.started.saturating_duration_since(end_of(before, lives));
            let wanted = owed(before, kind(host), lives).max(delay);
            assert!(gap >= wanted, "{name}: {} {gap:?} after {}, not {wanted:?}", after.path, before.path);
        }
        let answered = |hit: &&&Hit| hit.status != Some(503) && hit.path != "/robots.txt";
        let paths: Vec<&str> = hits.iter().filter(answered).map(|hit| hit.path.as_str()).collect();
        repeats += paths.len() - paths.iter().collect::<BTreeSet<_>>().len();
    }
    let killed = lives.iter().filter(|life| life.killed.is_some()).count();
    println!("{killed} kills, {} requests, {repeats} repeats", log.len());
    assert!(repeats <= killed * orders.in_flight(), "{repeats} repeats after {killed} kills");
}

/// When a request was over: with its answer, or with the process that made it.
fn end_of(hit: &Hit, lives: &[Life]) -> Instant {
    // What the server read after the kill was sent before it.
    let next = lives.iter().map(|life| life.started).find(|started| *started > hit.started);
    match (hit.ended, next) {
        (Some(ended), Some(next)) => ended.min(next),
        (ended, next) => ended.or(next).expect("all that were asked have answered"),
    }
}

/// The rest that a host had to get after a request.
fn owed(hit: &Hit, kind: Kind, lives: &[Life]) -> Duration {
    let wants = match kind {
        Kind::CrawlDelay => CRAWL_DELAY,
        Kind::Busy if hit.status == Some(503) => RETRY_AFTER,
        _ => return Duration::ZERO,
    };
    let told_just_now = hit.path == "/robots.txt" || hit.status == Some(503);
    let ended = end_of(hit, lives);
    let died_before_noting = lives
        .iter()
        .filter_map(|life| life.killed)
        .any(|killed| hit.started <= killed && killed <= ended + NOTED_AFTER);
    if told_just_now && died_before_noting { Duration::ZERO } else { wants }
}
