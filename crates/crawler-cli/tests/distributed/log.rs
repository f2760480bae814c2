//! The log of a distributed crawl: all processes write to one file, which is rotated, and to one standard error.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::fixture::Fixture;
use super::process::{Process, poll, run, texts};

/// How often files are checked.
const INTERVAL: Duration = Duration::from_millis(20);

/// The events in the lines of a log.
fn events(text: &str) -> Vec<Value> {
    let event = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(event).collect()
}

fn count(events: &[Value], event: &str) -> usize {
    events.iter().filter(|value| value["event"] == event).count()
}

fn pids(events: &[Value]) -> BTreeSet<u64> {
    events.iter().map(|event| event["pid"].as_u64().unwrap()).collect()
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn all_processes_log_to_one_file_that_is_rotated_and_no_line_is_lost() {
    let fixture = Fixture::slow(9, 12);
    let log = fixture.directory.path().join("log");
    let options = ["--log", "log", "--log-format", "json", "--log-level", "debug"];
    let crawl = Process::start(fixture.crawl(3, &options));
    let read = |path| events(&fs::read_to_string(path).unwrap_or_default());
    // The controller, the frontier and three workers.
    poll("responses of all workers", INTERVAL, || {
        let responses: Vec<Value> =
            read(&log).into_iter().filter(|event| event["event"] == "response").collect();
        pids(&responses).len() == 3
    });
    let old = fixture.directory.path().join("log.1");
    fs::rename(&log, &old).unwrap();
    crawl.signal(Signal::HUP);
    poll("the new file", INTERVAL, || {
        read(&log)
            .iter()
            .filter(|event| event["event"] == "response")
            .map(|event| event["pid"].as_u64())
            .collect::<BTreeSet<_>>()
            .len()
            == 3
    });
    crawl.wait_for_success();
    fixture.check();
    let (before, after) = (read(&old), read(&log));
    assert_eq!((pids(&before).len(), pids(&after).len()), (5, 5));
    let all = [before, after].concat();
    // A request fails that could not be sent, too.
    let ended = count(&all, "response") + count(&all, "request failed");
    let sent = count(&all, "request sent");
    assert!(
        sent == fixture.web.hits() && ended >= sent,
        "{sent} of {} requests, {ended}",
        fixture.web.hits()
    );
    assert_eq!((count(&all, "joined the crawl"), count(&all, "left the crawl")), (4, 4));
    assert_eq!((count(&all, "crawl ended"), count(&all, "signal received")), (1, 5));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn killed_worker_and_outages_of_redis_are_logged() {
    let fixture = Fixture::slow(6, 12);
    let options = ["--log", "log", "--log-format", "json", "--dead-after", "2s"];
    let crawl = fixture.start_crawl(2, &options);
    fixture.kill("worker 1");
    let log = fixture.directory.path().join("log");
    let has = |start: &str, end: &str| {
        events(&fs::read_to_string(&log).unwrap()).iter().any(|event| {
            let text = event["event"].as_str().unwrap();
            event["target"] == "notice" && text.starts_with(start) && text.contains(end)
        })
    };
    poll("the restart", INTERVAL, || has("worker 1 exited", "restarting it"));
    fixture.redis.stop();
    poll("the outage", INTERVAL, || has("waiting for Redis at ", "s now: "));
    fixture.redis.restart();
    poll("the end of the outage", INTERVAL, || has("Redis at ", "replies again after"));
    crawl.wait_for_success();
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn standard_error_of_a_distributed_crawl_has_the_log_alone() {
    let fixture = Fixture::new(3, 4);
    let output = run(fixture.crawl(2, &["--log", "-", "--log-format", "json"]));
    let (_, stderr) = texts(&output);
    assert!(output.status.success(), "{stderr}");
    let events = events(&stderr);
    assert_eq!((count(&events, "joined the crawl"), count(&events, "crawl ended")), (3, 1), "{stderr}");
}
