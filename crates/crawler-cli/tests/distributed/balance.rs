//! Workers that come in mid-crawl: they take part within seconds, also where all hosts have their owners, and no host is
//! asked by two or too soon while it goes from one to another.

use std::collections::{BTreeSet, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testweb::{Hit, Log};

use super::stage::{Running, Stage, wait_for};

/// A worker that is added asks its first host within so long: usually half of it, but machines that test are busy.
const SECONDS: Duration = Duration::from_secs(8);

/// What every host is given between two requests: with more of it, a crawl of few pages takes long enough.
const DELAY: Duration = Duration::from_millis(150);

fn submit(stage: &Stage, partitions: &str) {
    let (seed, mut options) = (stage.seed(), stage.options());
    let delay = options.iter().position(|option| option == "--delay").unwrap() + 1;
    options[delay] = format!("{DELAY:?}");
    let mut arguments = vec!["submit", seed.as_str(), "--partitions", partitions];
    arguments.extend(options.iter().map(String::as_str));
    stage.say(&arguments);
}

/// A worker that can be told from others by the requests it makes.
fn worker(stage: &Stage, name: &str) -> Running {
    Running::start(stage.crawler(&["worker", "--user-agent", name]))
}

fn is_by(hit: &Hit, name: &str) -> bool {
    hit.header("user-agent") == Some(name)
}

fn hosts(log: &Log) -> BTreeSet<String> {
    log.iter().map(|hit| hit.host.clone()).collect()
}

/// How often any host was asked by another worker than before.
fn changes(log: &Log) -> usize {
    let by_host = hosts(log).into_iter().map(|host| {
        let mut hits: Vec<(Instant, String)> = log
            .of_host(&host)
            .iter()
            .map(|hit| (hit.started, hit.header("user-agent").unwrap_or_default().to_owned()))
            .collect();
        hits.sort();
        hits.windows(2).filter(|pair| pair[0].1 != pair[1].1).count()
    });
    by_host.sum()
}

/// Everything was visited and counted once, and no host asked by two at a time or too soon.
fn check(stage: &Stage) {
    stage.check();
    let log = stage.web.log();
    let gap = log.smallest_gap().unwrap();
    assert!(gap >= DELAY, "a host was asked {gap:?} after its last answer");
    for host in hosts(&log) {
        assert!(log.of_host(&host).most_at_once() <= 1, "{host}");
    }
}

/// Each page was asked for once.
fn check_asked_once(log: &Log) {
    let pages: Vec<(&str, &str)> = log
        .iter()
        .filter(|hit| hit.path != "/robots.txt")
        .map(|hit| (hit.host.as_str(), hit.path.as_str()))
        .collect();
    assert_eq!(pages.iter().collect::<BTreeSet<_>>().len(), pages.len(), "a page was asked for twice");
}

#[test]
#[ignore = "needs redis-server"]
fn a_worker_that_is_added_takes_part_within_seconds_on_hosts_that_all_have_their_owner() {
    takes_part("1");
}

#[test]
#[ignore = "needs redis-server"]
fn the_same_where_urls_are_divided_into_many_partitions() {
    takes_part("16");
}

fn takes_part(partitions: &str) {
    let stage = Stage::new(12, 40);
    submit(&stage, partitions);
    let frontier = Running::start(stage.crawler(&["frontier"]));
    let first = worker(&stage, "first");
    wait_for("pages of all hosts", || hosts(&stage.web.log()).len() == 12);
    let second = worker(&stage, "second");
    stage.until("the second worker", |status| status["members"].as_array().is_some_and(|all| all.len() == 3));
    let there = Instant::now();
    let asks = || stage.web.log().iter().any(|hit| is_by(hit, "second"));
    while !asks() {
        assert!(there.elapsed() < SECONDS, "it does not take part: {}", stage.status());
        thread::sleep(Duration::from_millis(20));
    }
    let before = stage.web.log().len();
    for role in [frontier, first, second] {
        let (status, said) = role.end();
        assert_eq!(status, Some(0), "{said}");
    }
    check(&stage);
    let log = stage.web.log();
    check_asked_once(&log);
    let since = log.len() - before;
    let by_second = log.only(|hit| is_by(hit, "second")).len();
    assert!(4 * by_second > since, "it made {by_second} of {since} requests");
    // Half of the hosts went to it, and few more when one of the two had nothing left.
    assert!((1..=12).contains(&changes(&log)), "hosts changed hands {} times", changes(&log));
}

#[test]
#[ignore = "needs redis-server"]
fn workers_that_have_about_as_much_to_do_keep_their_hosts() {
    let stage = Stage::new(12, 20);
    submit(&stage, "1");
    let frontier = Running::start(stage.crawler(&["frontier"]));
    let workers = ["first", "second"].map(|name| worker(&stage, name));
    for role in workers.into_iter().chain([frontier]) {
        let (status, said) = role.end();
        assert_eq!(status, Some(0), "{said}");
    }
    check(&stage);
    let log = stage.web.log();
    check_asked_once(&log);
    assert!(changes(&log) <= 3, "hosts changed hands {} times", changes(&log));
}

/// It takes its time: `make chaos` runs it.
mod in_make_chaos {
    use super::*;

    #[test]
    #[ignore = "needs redis-server"]
    fn workers_that_come_and_are_killed_while_hosts_go_from_one_to_another_lose_nothing() {
        let stage = Stage::new(16, 70);
        submit(&stage, "1");
        let role = |arguments: &[&str]| {
            let mut command = stage.crawler(arguments);
            command.args(["--dead-after", "3s"]);
            Running::start(command)
        };
        let mut frontier = role(&["frontier"]);
        let mut workers: VecDeque<Running> = VecDeque::from([role(&["worker", "--user-agent", "0"])]);
        wait_for("pages of all hosts", || hosts(&stage.web.log()).len() == 16);
        for round in 1..=4 {
            let name = round.to_string();
            workers.push_back(role(&["worker", "--user-agent", &name]));
            match round % 2 {
                1 => wait_for("its first page", || stage.web.log().iter().any(|hit| is_by(hit, &name))),
                // It is about to be given something.
                _ => thread::sleep(Duration::from_millis(1_000 + 300 * round)),
            }
            match round {
                1 | 4 => drop(workers.pop_front()),
                2 => drop(workers.pop_back()),
                _ => {
                    frontier.signal(Signal::KILL);
                    frontier.end();
                    frontier = role(&["frontier"]);
                }
            }
            // Until what the dead one had is others'.
            thread::sleep(Duration::from_millis(3_500));
        }
        let (status, said) = frontier.end();
        assert_eq!(status, Some(0), "{said}");
        for worker in workers {
            let (status, said) = worker.end();
            assert_eq!(status, Some(0), "{said}");
        }
        check(&stage);
        let changes = changes(&stage.web.log());
        assert!(changes > 8, "hosts changed hands {changes} times");
    }
}
