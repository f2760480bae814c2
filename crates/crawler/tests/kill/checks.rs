//! What must hold for a finished crawl, whatever happened to its processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crawler::internal::backend::durable::{StateReader, UrlStatus};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;
use testweb::{Log, LoggedRequest, Web};

use super::known_web::{CRAWL_DELAY, Kind, KnownWeb, RETRY_AFTER, kind};
use super::process::CrawlCommand;
use super::{Run, archive};

/// The delay that a host requests is read and committed within this time.
const STORED_WITHIN: Duration = Duration::from_millis(250);

/// The report of the last process.
pub fn report(directory: &Path) -> Value {
    serde_json::from_slice(&fs::read(directory.join("report")).unwrap()).unwrap()
}

/// Checks that the counts add up.
pub fn counts(directory: &Path, known_web: KnownWeb) {
    let report = report(directory);
    let outcomes = report["outcomes"].as_object().unwrap();
    let sum: u64 = outcomes.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(report["admitted"], sum, "{report}");
    assert_eq!(report["completed"], sum, "{report}");
    assert_eq!(report["pages"], known_web.hosts * known_web.pages, "{report}");
    assert_eq!(outcomes["page"], known_web.hosts * known_web.pages, "{report}");
    let print_views = (0..known_web.pages).filter(|page| known_web.print_views && page % 2 == 1).count();
    let dropped = outcomes.get("near-duplicate").map_or(0, |count| count.as_u64().unwrap());
    assert_eq!(dropped as usize, print_views * known_web.hosts, "{report}");
    assert_eq!(report["end"], "all URLs are done");
}

/// Checks that the state has every page, with the page number it has in the outputs.
pub fn state(directory: &Path, known_web: KnownWeb, web: &Web) {
    let mut state = StateReader::open(&directory.join("state")).unwrap();
    let numbers: BTreeMap<String, u64> = urls(directory).into_iter().zip(1..).collect();
    for url in known_web.expected_pages(&web.port().to_string()).keys() {
        let history =
            state.history(&url.parse().unwrap()).unwrap().unwrap_or_else(|| panic!("{url} was not admitted"));
        match history.status {
            UrlStatus::Completed { outcome, page_number, .. } => {
                assert_eq!((outcome.as_str(), page_number), ("page", numbers.get(url).copied()), "{url}");
            }
            UrlStatus::Pending => panic!("{url} is pending"),
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

/// Checks that every page is in every output, complete and once, with the same number everywhere.
pub fn outputs(directory: &Path, known_web: KnownWeb, web: &Web) {
    let port = web.port().to_string();
    let expected_pages = known_web.expected_pages(&port);
    let urls = urls(directory);
    assert_eq!(urls.len(), expected_pages.len());
    assert_eq!(urls.iter().collect::<BTreeSet<_>>(), expected_pages.keys().collect());
    let edges = fs::read_to_string(directory.join("edges")).unwrap();
    let mut expected = String::from("from,to\n");
    for url in &urls {
        let (host, page) = expected_pages[url];
        known_web.links(host, page, &port).iter().for_each(|to| expected += &format!("{url},{to}\n"));
    }
    assert!(edges == expected, "the edges are in the order of the pages");
    let pages = directory.join("pages");
    for (index, url) in urls.iter().enumerate() {
        let file = fs::read_to_string(pages.join((index + 1).to_string())).unwrap();
        let (host, page) = expected_pages[url];
        assert!(file.starts_with(&format!("{url}\n")), "file {} does not start with {url}", index + 1);
        assert!(
            file.ends_with(&known_web.body(host, page, false, &port)),
            "file {} is incomplete",
            index + 1
        );
    }
    let numbered = fs::read_dir(pages).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().parse::<u64>().is_ok()
    });
    assert_eq!(numbered.count(), urls.len());
    requested_rows(&rows(directory), web);
    archive::check(directory, known_web, web, &rows(directory));
    table(directory);
    graph(directory, known_web, web);
}

/// The rows of all URLs, after a check that each URL has one, and that they are those that were counted.
pub fn rows(directory: &Path) -> BTreeMap<String, Value> {
    let lines = fs::read_to_string(directory.join("urls")).unwrap();
    let mut rows = BTreeMap::new();
    let mut outcomes = BTreeMap::<String, u64>::new();
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        *outcomes.entry(row["outcome"].as_str().unwrap().to_owned()).or_default() += 1;
        let url = row["url"].as_str().unwrap().to_owned();
        assert!(row["queued"].is_string() && row["done"].is_string(), "{row}");
        assert!(rows.insert(url, row).is_none(), "a URL occurs twice: {line}");
    }
    assert_eq!(serde_json::to_value(outcomes).unwrap(), report(directory)["outcomes"]);
    rows
}

/// Checks that every URL that was requested has a row, with the status of its last response.
fn requested_rows(rows: &BTreeMap<String, Value>, web: &Web) {
    let mut last = BTreeMap::new();
    for hit in web.log().iter().filter(|hit| hit.path != "/robots.txt" && hit.status.is_some()) {
        last.insert(format!("{}{}", web.url_of(&hit.host, ""), hit.path), hit.status);
    }
    for (url, status) in last {
        let row = rows.get(&url).unwrap_or_else(|| panic!("{url} has no row"));
        assert_eq!(row["status"].as_u64().map(|status| status as u16), status, "{row}");
        let is_seed = url == web.url_of("h0.test", "/");
        assert_eq!(row["found_on"].is_null(), is_seed, "{row}");
        assert!(row["found_on"].as_str().is_none_or(|page| rows[page]["outcome"] == "page"), "{row}");
    }
}

/// Checks that the table has every page once, in the order of the pages.
pub fn table(directory: &Path) {
    let table = SerializedFileReader::new(fs::File::open(directory.join("parquet")).unwrap()).unwrap();
    let rows = table.get_row_iter(None).unwrap().map(Result::unwrap);
    let pages: Vec<String> = rows.map(|row| row.get_string(0).unwrap().clone()).collect();
    assert!(pages == urls(directory), "the rows are in the order of the pages");
}

/// Checks that the graph has every URL and every link and redirect once.
pub fn graph(directory: &Path, known_web: KnownWeb, web: &Web) {
    let port = web.port().to_string();
    let graph = fs::read_to_string(directory.join("graphml")).unwrap();
    let (mut nodes, mut edges) = (BTreeSet::new(), BTreeSet::new());
    for (url, (host, page)) in known_web.expected_pages(&port) {
        for to in known_web.links(host, page, &port) {
            let redirect =
                to.split_once("/go/").map(|(origin, page)| (to.clone(), format!("{origin}/p{page}")));
            nodes.insert(to.clone());
            edges.insert((url.clone(), to));
            edges.extend(redirect);
        }
        nodes.insert(url);
    }
    let nodes = nodes.iter().map(|url| format!("<node id=\"{url}\""));
    let edges = edges.iter().map(|(from, to)| format!("<edge source=\"{from}\" target=\"{to}\""));
    let expected: BTreeSet<String> = nodes.chain(edges).collect();
    let is_element = |line: &&str| line.starts_with("<node ") || line.starts_with("<edge ");
    let start = |line: &str| line.split('>').next().unwrap().to_owned();
    let elements: Vec<String> = graph.lines().filter(is_element).map(start).collect();
    assert_eq!(elements.len(), expected.len(), "a node or an edge is there twice");
    assert_eq!(elements.into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(graph.ends_with("</graphml>\n"));
}

/// Checks that no host got a request too early, and few requests were repeated.
pub fn log(log: &Log, runs: &[Run], command: &CrawlCommand) {
    let delay = Duration::from_millis(command.0["delay"].as_u64().unwrap());
    let mut hosts: BTreeMap<&str, Vec<&LoggedRequest>> = BTreeMap::new();
    log.iter().for_each(|hit| hosts.entry(&hit.host).or_default().push(hit));
    let mut repeats = 0;
    for (name, hits) in hosts {
        let host: usize = name[1..name.len() - 5].parse().unwrap();
        for pair in hits.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            let gap = after.started.saturating_duration_since(end_of_request(before, runs));
            let required = required_delay(before, kind(host), runs).max(delay);
            assert!(
                gap >= required,
                "{name}: {} came {gap:?} after {}, not {required:?}",
                after.path,
                before.path
            );
        }
        let has_response = |hit: &&&LoggedRequest| hit.status != Some(503) && hit.path != "/robots.txt";
        let paths: Vec<&str> = hits.iter().filter(has_response).map(|hit| hit.path.as_str()).collect();
        repeats += paths.len() - paths.iter().collect::<BTreeSet<_>>().len();
    }
    let killed = runs.iter().filter(|run| run.killed.is_some()).count();
    println!("{killed} kills, {} requests, {repeats} repeats", log.len());
    assert!(repeats <= killed * command.in_flight(), "{repeats} repeats after {killed} kills");
}

/// When a request ended: with its response, or with the process that sent it.
fn end_of_request(hit: &LoggedRequest, runs: &[Run]) -> Instant {
    // A request that the server read after a kill was sent before it.
    let next = runs.iter().map(|run| run.started).find(|started| *started > hit.started);
    match (hit.ended, next) {
        (Some(ended), Some(next)) => ended.min(next),
        (ended, next) => ended.or(next).expect("every request of the last process has a response"),
    }
}

/// The delay that a host requested after a request.
fn required_delay(hit: &LoggedRequest, kind: Kind, runs: &[Run]) -> Duration {
    let delay = match kind {
        Kind::CrawlDelay => CRAWL_DELAY,
        Kind::Busy if hit.status == Some(503) => RETRY_AFTER,
        _ => return Duration::ZERO,
    };
    let is_just_learned = hit.path == "/robots.txt" || hit.status == Some(503);
    let ended = end_of_request(hit, runs);
    let died_before_storing = runs
        .iter()
        .filter_map(|run| run.killed)
        .any(|killed| hit.started <= killed && killed <= ended + STORED_WITHIN);
    if is_just_learned && died_before_storing { Duration::ZERO } else { delay }
}
