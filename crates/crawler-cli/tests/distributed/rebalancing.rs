//! Workers that join during a crawl: they get domains within seconds, even if all domains have an owner, and no host gets
//! requests from two workers at once or too early while it moves.

use std::collections::{BTreeSet, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testweb::{Log, LoggedRequest};

use super::fixture::{Fixture, members};
use super::process::{Process, wait_for};

/// The delay between two requests to a host: the crawl takes several times as long as a new worker needs to get domains.
const DELAY: Duration = Duration::from_millis(200);

fn fixture(hosts: usize, pages: usize) -> Fixture {
    Fixture { delay: DELAY, ..Fixture::new(hosts, pages) }
}

/// A worker with its own User-Agent.
fn worker(fixture: &Fixture, name: &str) -> Process {
    Process::start(fixture.crawler(&["worker", "--user-agent", name]))
}

fn is_by(hit: &LoggedRequest, name: &str) -> bool {
    hit.header("user-agent") == Some(name)
}

fn hosts(log: &Log) -> BTreeSet<String> {
    log.iter().map(|hit| hit.host.clone()).collect()
}

/// When a host got a request from another worker than its previous one.
fn changes_of_owner(log: &Log) -> Vec<Instant> {
    let by_host = hosts(log).into_iter().flat_map(|host| {
        let mut hits: Vec<(Instant, String)> = log
            .for_host(&host)
            .iter()
            .map(|hit| (hit.started, hit.header("user-agent").unwrap_or_default().to_owned()))
            .collect();
        hits.sort();
        let changes = hits.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0);
        changes.collect::<Vec<_>>()
    });
    by_host.collect()
}

/// From when on every host has got a request, and until when none has got its last one. A host with one page does not count.
fn all_hosts_active(log: &Log) -> (Instant, Instant) {
    let times = hosts(log)
        .into_iter()
        .map(|host| -> Vec<Instant> { log.for_host(&host).iter().map(|hit| hit.started).collect() });
    let times: Vec<Vec<Instant>> = times.filter(|times| times.len() > 5).collect();
    let first = times.iter().filter_map(|times| times.iter().min()).max().unwrap();
    let last = times.iter().filter_map(|times| times.iter().max()).min().unwrap();
    (*first, *last)
}

/// Asserts that the crawl is complete and that no host got two requests at once or one too early.
fn check(fixture: &Fixture) {
    fixture.check();
    let log = fixture.web.log();
    for host in hosts(&log) {
        assert!(log.for_host(&host).max_concurrent() <= 1, "{host}");
    }
}

/// Asserts that no page was fetched twice.
fn check_fetched_once(log: &Log) {
    let pages: Vec<(&str, &str)> = log
        .iter()
        .filter(|hit| hit.path != "/robots.txt")
        .map(|hit| (hit.host.as_str(), hit.path.as_str()))
        .collect();
    assert_eq!(pages.iter().collect::<BTreeSet<_>>().len(), pages.len(), "a page was fetched twice");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn new_worker_gets_domains_that_all_have_an_owner() {
    let fixture = fixture(12, 40);
    fixture.submit(&fixture.seed(), &[]);
    let frontier = Process::start(fixture.crawler(&["frontier"]));
    let first = worker(&fixture, "first");
    wait_for("requests to all hosts", || hosts(&fixture.web.log()).len() == 12);
    let second = worker(&fixture, "second");
    fixture.wait_for_status("the second worker", |status| members(status) == 3);
    let before = fixture.web.hits();
    for role in [frontier, first, second] {
        role.wait_for_success();
    }
    check(&fixture);
    let log = fixture.web.log();
    check_fetched_once(&log);
    // Had it waited for half of the remaining crawl, it would still have made a quarter of the requests. A share does not
    // depend on the speed of the machine.
    let (since, by_second) = (log.len() - before, log.filter(|hit| is_by(hit, "second")).len());
    assert!(6 * by_second > since, "it made {by_second} of {since} requests");
    // It gets half of the domains, and a few more move when one of the two has none left.
    let changes = changes_of_owner(&log).len();
    assert!((1..=12).contains(&changes), "domains changed owners {changes} times");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn workers_with_equal_load_keep_their_domains() {
    // The delay decides how fast both are, not the processor: a worker that is slower than the other has more load.
    let fixture = Fixture { delay: 4 * DELAY, ..fixture(12, 20) };
    fixture.submit(&fixture.gate_url(), &[]);
    let roles = fixture.hold_web_until_joined(3, || {
        let frontier = Process::start(fixture.crawler(&["frontier"]));
        vec![frontier, worker(&fixture, "first"), worker(&fixture, "second")]
    });
    for role in roles {
        role.wait_for_success();
    }
    check(&fixture);
    let log = fixture.web.log();
    check_fetched_once(&log);
    // At first, and at the end, one of them may have fewer domains with URLs than the other, and gets some.
    let (from, until) = all_hosts_active(&log);
    let start = log.iter().map(|hit| hit.started).min().unwrap();
    let settled = from + until.saturating_duration_since(from) / 4;
    let span = settled - start..until.saturating_duration_since(start);
    let changes: Vec<Duration> = changes_of_owner(&log).into_iter().map(|at| at - start).collect();
    let is_kept = !changes.iter().any(|at| span.contains(at));
    assert!(!span.is_empty() && is_kept, "domains changed owners at {changes:?}, in {span:?}");
    assert!(changes.len() <= 12, "domains changed owners {} times", changes.len());
}

/// Too slow for `make test`: `make chaos` runs it.
mod in_make_chaos {
    use super::*;

    #[test]
    #[ignore = "needs redis-server: run by make chaos"]
    fn workers_that_join_and_crash_during_transfers_lose_nothing() {
        let fixture = fixture(16, 70);
        fixture.submit(&fixture.seed(), &["--dead-after", "3s"]);
        let role = |arguments: &[&str]| Process::start(fixture.crawler(arguments));
        let mut frontier = role(&["frontier"]);
        let mut workers: VecDeque<Process> = VecDeque::from([role(&["worker", "--user-agent", "0"])]);
        wait_for("requests to all hosts", || hosts(&fixture.web.log()).len() == 16);
        for round in 1..=4 {
            let name = round.to_string();
            workers.push_back(role(&["worker", "--user-agent", &name]));
            match round % 2 {
                1 => wait_for("its first page", || fixture.web.log().iter().any(|hit| is_by(hit, &name))),
                // It is about to get domains.
                _ => thread::sleep(Duration::from_millis(1_000 + 300 * round)),
            }
            match round {
                1 | 4 => drop(workers.pop_front()),
                2 => drop(workers.pop_back()),
                _ => {
                    frontier.signal(Signal::KILL);
                    frontier.wait();
                    frontier = role(&["frontier"]);
                }
            }
            // Until the domains of the dead worker are reassigned.
            thread::sleep(Duration::from_millis(3_500));
        }
        frontier.wait_for_success();
        for worker in workers {
            worker.wait_for_success();
        }
        check(&fixture);
        let changes = changes_of_owner(&fixture.web.log()).len();
        assert!(changes > 8, "domains changed owners {changes} times");
    }
}
