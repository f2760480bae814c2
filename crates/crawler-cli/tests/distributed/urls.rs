//! `--module urls=FILE` over Redis: after a worker is killed and the parts are collected, each URL has one row.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::fixture::Fixture;

#[test]
#[ignore = "needs redis-server: run by make test"]
fn every_url_has_one_row_after_a_worker_and_the_frontier_were_killed() {
    let fixture = Fixture::slow(10, 12);
    let modules = ["--dead-after", "3s", "--module", "urls=urls.csv", "--module", "urls=rows"];
    let controller = fixture.start_crawl(3, &modules);
    fixture.kill("worker 1");
    fixture.kill("frontier");
    controller.wait_for_success();
    for output in ["rows", "urls.csv"] {
        let merged = fixture.run(&["collect", "--of", output]);
        assert!(merged.contains(" URLs from "), "{merged}");
    }
    let rows = fs::read_to_string(fixture.directory.path().join("rows")).unwrap();
    let mut outcomes = BTreeMap::<String, u64>::new();
    let mut by_url = BTreeMap::new();
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        *outcomes.entry(row["outcome"].as_str().unwrap().to_owned()).or_default() += 1;
        assert!(row["queued"].is_string() && row["done"].is_string(), "{row}");
        assert!(by_url.insert(row["url"].as_str().unwrap().to_owned(), row).is_none(), "twice: {line}");
    }
    let status = fixture.status();
    assert_eq!(outcomes["page"], status["pages"].as_u64().unwrap(), "{status}");
    assert_eq!(by_url.len() as u64, status["admitted"].as_u64().unwrap(), "{status}");
    let csv = fs::read_to_string(fixture.directory.path().join("urls.csv")).unwrap();
    assert_eq!(csv.lines().count(), by_url.len() + 1);
    for hit in fixture.web.log().iter().filter(|hit| hit.path != "/robots.txt") {
        let url = fixture.web.url_of(&hit.host, &hit.path);
        let row = by_url.get(&url).unwrap_or_else(|| panic!("{url} has no row"));
        assert_eq!(row["found_on"].is_null(), url == fixture.gate_url() || url == fixture.seed(), "{row}");
        if let Some(page) = row["found_on"].as_str() {
            assert_eq!(by_url[page]["outcome"], "page", "{row}");
        }
    }
    // The seed was reached by a redirect of the URL that the crawl started from.
    assert_eq!(by_url[&fixture.gate_url()]["redirect"], fixture.seed());
}
