//! The files of contrib/ for distributed crawls: the unit of systemd, and the series that alerts and dashboards select.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use testredis::{Fsync, Server as Redis};
use testweb::{Response, Site, Web};

use super::dashboard::{INTERVAL, server_of};
use super::fixture::Fixture;
use super::process::{Process, poll};
use super::selectors::queries;

#[test]
#[ignore = "needs redis-server: run by make test"]
fn distributed_crawl_has_every_series_that_contrib_selects() {
    let redis = Redis::builder().append_only(Fsync::EverySecond).max_memory("1gb").start();
    let fixture = Fixture { delay: super::fixture::LONG_DELAY, ..Fixture::with_redis(redis, 8, 12) };
    let ranks = Web::builder().site(Site::new().fallback(|_| Response::text(r#"{"response":[]}"#))).start();
    let mut dashboard = Process::start(fixture.crawler(&["dashboard", "--redis"]));
    let server = server_of(&mut dashboard);
    fixture.submit(&fixture.seed(), &["--max-time", "1h", "--pagerank-url", &ranks.url("")]);
    let roles = ["frontier", "worker"].map(|role| Process::start(fixture.crawler(&[role, "--redis"])));
    let missing = || -> Vec<String> {
        let metrics = server.get("/metrics").body;
        // The dashboard writes no files; the workers report the room for theirs.
        let exceptions = ["crawler_disk_"];
        queries().iter().flat_map(|query| query.missing(&metrics, &exceptions)).collect()
    };
    // The service is asked, and the members send heartbeats, soon after the start.
    let is_late =
        |what: &String| ["pagerank", "heartbeat", "label member"].iter().any(|late| what.contains(late));
    poll("a crawl with all its parts", INTERVAL, || !missing().iter().any(is_late));
    assert_eq!(missing(), Vec::<String>::new());
    roles.into_iter().for_each(|role| drop(role.wait_for_success()));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_of_the_systemd_unit_survives_sighup_and_ends_with_success() {
    let fixture = Fixture::new(1, 1);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd/crawler-worker@.service");
    let unit = fs::read_to_string(path).unwrap();
    let setting = |name: &str| -> Vec<&str> {
        let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("there is no {name}")).split(' ').collect()
    };
    assert_eq!(setting("Restart"), ["always"], "also if a signal ended it");
    let words = setting("ExecStart").into_iter().map(|word| word.replace("%i", "0"));
    let words: Vec<String> = words.collect();
    assert_eq!(words[0], "/usr/local/bin/crawler");
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let command: Command = fixture.crawler(&arguments);
    let mut worker = Process::start(command);
    worker.wait_for_output("a worker without a crawl", |log| log.contains("waiting for the crawl"));
    worker.signal(Signal::HUP);
    worker.wait_for_output("the signal in the log", |log| log.contains("SIGHUP"));
    worker.signal(Signal::TERM);
    let (status, output) = worker.wait();
    let status = status.unwrap_or_else(|| panic!("a signal killed it: {output}")).to_string();
    assert!(setting("SuccessExitStatus").contains(&&*status), "{status}: {output}");
}
