//! Redis down, slow, full or read-only, and a network that loses replies: all processes wait and print that they do,
//! continue when it is over, and nothing is lost, counted twice or requested too early.
//!
//! `make chaos` runs longer outages: CRAWLER_OUTAGE is the seconds for which Redis cannot be reached, CRAWLER_DEAD_AFTER the
//! seconds without a heartbeat after which a process is declared dead, CRAWLER_LOSSES the number of lost replies.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testredis::{Mode, Proxy};
use testweb::{Log, Response, Site, Web};

use super::fixture::{Fixture, members};
use super::messages::{
    DECLARED_DEAD, REDIS_REPLIES_AGAIN, RESTARTED, WAITING_FOR_CRAWL, WAITING_FOR_REDIS, all_print,
    line_starts, prints,
};
use super::process::{Process, wait_for};

/// The heartbeat timeout where a worker is cut off. A third of it is the time in which a request that a worker was still
/// allowed to start must reach the web, on a busy machine too.
const DEAD_AFTER: Duration = Duration::from_secs(4);

const WORKERS: usize = 3;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs())
}

/// A controller with three workers in the middle of a crawl, all of which reach Redis through a proxy.
fn start_crawl(fixture: &Fixture, proxy: &Proxy, more: &[&str]) -> Process {
    fixture.start_crawl_through(&proxy.url(), WORKERS, more)
}

/// Waits until the controller, the frontier and all workers have printed that they wait for Redis, with this cause.
fn wait_until_all_wait(controller: &mut Process, cause: &str) {
    controller.wait_for_output(&format!("all to wait because of {cause}"), |output| {
        all_print(output, &line_starts(WORKERS), WAITING_FOR_REDIS, cause)
    });
}

/// Asserts that the crawl is complete, and that no process was declared dead or restarted. Returns the output.
fn check_continues(fixture: &Fixture, controller: Process) -> String {
    let output = controller.wait_for_success();
    assert!(!output.contains(DECLARED_DEAD) && !output.contains(RESTARTED), "{output}");
    fixture.check();
    output
}

/// The same, and that every process has printed that Redis replies again.
fn check_all_continue(fixture: &Fixture, controller: Process) {
    let output = check_continues(fixture, controller);
    for start in line_starts(WORKERS) {
        assert!(prints(&output, &start, "Redis at ", REDIS_REPLIES_AGAIN), "{start:?}: {output}");
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_waits_while_redis_restarts() {
    let fixture = Fixture::slow(12, 20);
    let proxy = Proxy::for_server(&fixture.redis);
    let mut controller = start_crawl(&fixture, &proxy, &[]);
    fixture.redis.kill();
    wait_until_all_wait(&mut controller, "connection");
    fixture.redis.restart();
    check_all_continue(&fixture, controller);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn redis_outage_pauses_requests_and_declares_no_process_dead() {
    let dead_after = Duration::from_secs(variable("CRAWLER_DEAD_AFTER", DEAD_AFTER.as_secs()));
    let outage = Duration::from_secs(variable("CRAWLER_OUTAGE", 2 * DEAD_AFTER.as_secs()));
    let fixture = Fixture::slow(12, 40);
    let proxy = Proxy::for_server(&fixture.redis);
    let mut controller = start_crawl(&fixture, &proxy, &["--dead-after", &seconds(dead_after)]);
    proxy.set_mode(Mode::BlackHole);
    let start = Instant::now();
    wait_until_all_wait(&mut controller, "no reply");
    sleep(outage.saturating_sub(start.elapsed()));
    let log = fixture.web.log();
    proxy.set_mode(Mode::Pass);
    // After that time another worker could own the host.
    let last = log.iter().map(|hit| hit.started).max().unwrap().saturating_duration_since(start);
    assert!(last < dead_after, "a request started {last:?} after Redis was gone");
    check_all_continue(&fixture, controller);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn counts_are_exact_on_a_slow_network() {
    let fixture = Fixture::slow(8, 12);
    let proxy = Proxy::for_server(&fixture.redis);
    let controller = start_crawl(&fixture, &proxy, &[]);
    proxy.set_mode(Mode::Delay(Duration::from_millis(60)));
    check_continues(&fixture, controller);
}

/// Loses replies, at most this many, until the crawl has ended.
fn crawl_with_losses(lose: impl Fn(&Proxy, u64)) {
    let max = variable("CRAWLER_LOSSES", 60);
    let fixture = Fixture::slow(12, 25);
    let proxy = Proxy::for_server(&fixture.redis);
    let mut controller = start_crawl(&fixture, &proxy, &[]);
    let mut lost = 0;
    while lost < max && controller.is_running() {
        if !proxy.is_armed() {
            lose(&proxy, lost);
            lost += 1;
        }
        sleep(Duration::from_millis(7));
    }
    check_continues(&fixture, controller);
    assert!(lost > 20, "only {lost} replies were lost");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn counts_are_exact_when_replies_are_truncated() {
    // In the first line, in a number, or in a long reply.
    crawl_with_losses(|proxy, lost| proxy.truncate_next_reply(1 + lost as usize * 37 % 300));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn counts_are_exact_when_replies_are_lost_after_the_command_was_executed() {
    crawl_with_losses(|proxy, _| proxy.drop_next_reply());
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_waits_while_memory_is_full_and_no_process_is_declared_dead() {
    let dead_after = Duration::from_secs(3);
    let fixture = Fixture::slow(12, 25);
    let proxy = Proxy::for_server(&fixture.redis);
    let mut controller = start_crawl(&fixture, &proxy, &["--dead-after", &seconds(dead_after)]);
    let used: u64 = fixture.redis.info("used_memory").parse().unwrap();
    // The limit is reached during some operation.
    fixture.redis.query::<String>(&format!("CONFIG SET maxmemory {}", used + 20_000));
    controller.wait_for_output("a notice", |output| {
        output.lines().any(|line| line.contains(WAITING_FOR_REDIS) && line.contains("OOM"))
    });
    // Heartbeats must get through, or the frontier would declare the workers dead.
    sleep(2 * dead_after);
    fixture.redis.query::<String>("CONFIG SET maxmemory 0");
    let output = check_continues(&fixture, controller);
    assert!(output.contains(REDIS_REPLIES_AGAIN), "{output}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_waits_while_redis_is_read_only() {
    let dead_after = Duration::from_secs(3);
    let fixture = Fixture::slow(12, 20);
    let proxy = Proxy::for_server(&fixture.redis);
    let mut controller = start_crawl(&fixture, &proxy, &["--dead-after", &seconds(dead_after)]);
    // A replica of a primary that does not exist keeps its data.
    fixture.redis.query::<String>("REPLICAOF 127.0.0.1 1");
    let start = Instant::now();
    controller.wait_for_output("a notice", |output| {
        output.lines().any(|line| line.contains(WAITING_FOR_REDIS) && line.contains("READONLY"))
    });
    // No process is declared dead, although none could send a heartbeat for longer than the timeout.
    sleep((2 * dead_after).saturating_sub(start.elapsed()));
    fixture.redis.query::<String>("REPLICAOF NO ONE");
    check_continues(&fixture, controller);
}

/// A worker with its own address of Redis and its own User-Agent.
fn worker(fixture: &Fixture, name: &str, redis_url: &str) -> Process {
    let mut worker = fixture.crawler(&["worker", "--user-agent", name]);
    worker.env("CRAWLER_REDIS", redis_url);
    Process::start(worker)
}

fn requests_by(fixture: &Fixture, name: &str) -> Log {
    fixture.web.log().filter(|hit| hit.header("user-agent") == Some(name))
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn hosts_of_a_cut_off_worker_move_to_others_and_never_have_two_owners() {
    cut_off_worker(Mode::BlackHole);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn cut_off_worker_ignores_replies_that_arrive_after_it_was_declared_dead() {
    cut_off_worker(Mode::Hold);
}

fn cut_off_worker(mode: Mode) {
    let fixture = Fixture::slow(6, 80);
    let proxy = Proxy::for_server(&fixture.redis);
    fixture.submit(&fixture.gate_url(), &["--dead-after", &seconds(DEAD_AFTER)]);
    let mut roles = fixture.hold_web_until_joined(4, || {
        let direct = fixture.redis.url();
        vec![
            Process::start(fixture.crawler(&["frontier"])),
            worker(&fixture, "cut-off", &proxy.url()),
            worker(&fixture, "second", &direct),
            worker(&fixture, "third", &direct),
        ]
    });
    wait_for("requests of the worker", || requests_by(&fixture, "cut-off").len() > 5);
    proxy.set_mode(mode);
    let cut_off = Instant::now();
    let hosts: BTreeSet<String> =
        requests_by(&fixture, "cut-off").iter().map(|hit| hit.host.clone()).collect();
    roles[0].wait_for_output("the worker is declared dead", |output| output.contains(DECLARED_DEAD));
    // The frontier prints how long it got no heartbeat, by the clock of Redis.
    let output = roles[0].output();
    let silence = output.split(DECLARED_DEAD).nth(1).and_then(|rest| rest.split(' ').next());
    let silence: f64 = silence.unwrap().parse().unwrap();
    assert!(silence >= DEAD_AFTER.as_secs_f64(), "it was declared dead after {silence} s");
    wait_for("others to get its hosts", || {
        fixture.web.log().iter().any(|hit| {
            hosts.contains(&hit.host) && hit.header("user-agent") != Some("cut-off") && hit.started > cut_off
        })
    });
    let log = fixture.web.log();
    let (by_it, by_others): (Vec<_>, Vec<_>) = log
        .iter()
        .filter(|hit| hosts.contains(&hit.host))
        .partition(|hit| hit.header("user-agent") == Some("cut-off"));
    let last = by_it.iter().map(|hit| hit.started).max().unwrap();
    let first = by_others.iter().map(|hit| hit.started).filter(|started| *started > cut_off).min().unwrap();
    assert!(last < first, "a host had two owners");
    assert_eq!(
        requests_by(&fixture, "cut-off").len(),
        by_it.len(),
        "it sent requests after it was declared dead"
    );

    proxy.set_mode(Mode::Pass);
    let passed = Instant::now();
    fixture.wait_for_status("its return", |status| members(status) == 4);
    check_owners_change_once(&fixture.web.log().filter(|hit| hit.started > passed), "cut-off");
    let returned = requests_by(&fixture, "cut-off").len();
    // The domains of this one go to the remaining workers, and the cut-off one is among them again.
    roles[2].signal(Signal::TERM);
    let (status, output) = roles.remove(2).wait();
    assert_eq!(status, Some(143), "{output}");
    wait_for("its next request", || requests_by(&fixture, "cut-off").len() > returned);
    let outputs: Vec<String> = roles.into_iter().map(Process::wait_for_success).collect();
    // Held replies may arrive before the worker says that it waits.
    assert!(outputs[1].contains(WAITING_FOR_REDIS) || mode == Mode::Hold, "{outputs:?}");
    fixture.check();
}

/// Asserts that once a worker sends a request to a host, no other worker does any more: it owns the host. A worker that acts
/// on an old lease sends a request to a host that another worker is fetching from.
fn check_owners_change_once(log: &Log, name: &str) {
    let hosts: BTreeSet<&str> = log.iter().map(|hit| hit.host.as_str()).collect();
    for host in hosts {
        let mut hits: Vec<(Instant, bool)> = log
            .for_host(host)
            .iter()
            .map(|hit| (hit.started, hit.header("user-agent") == Some(name)))
            .collect();
        hits.sort();
        let of_others = hits.iter().skip_while(|(_, is_its)| !is_its).filter(|(_, is_its)| !is_its).count();
        assert_eq!(of_others, 0, "{host} had two owners");
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn cut_off_worker_aborts_its_requests_before_another_worker_sends_them() {
    let mut fixture = Fixture::new(1, 1);
    let page = || Response::page("<title>late</title>");
    // No process waits for the first response: it is aborted, or the test fails.
    let responses = Response::sequence(vec![page().delay(Duration::from_secs(200)), page()]);
    fixture.web = Web::builder().host("slow.test", Site::new().response("/", responses)).start();
    let (proxy, url) = (Proxy::for_server(&fixture.redis), fixture.web.url_of("slow.test", "/"));
    fixture.submit(&url, &["--dead-after", &seconds(DEAD_AFTER)]);
    let mut roles =
        vec![Process::start(fixture.crawler(&["frontier"])), worker(&fixture, "cut-off", &proxy.url())];
    wait_for("a request", || !fixture.web.log().for_path("/").is_empty());
    proxy.set_mode(Mode::BlackHole);
    roles.push(worker(&fixture, "second", &fixture.redis.url()));
    wait_for("another request", || fixture.web.log().for_path("/").len() > 1);
    proxy.set_mode(Mode::Pass);
    for role in roles {
        role.wait_for_success();
    }
    let requests = fixture.web.log().for_path("/");
    let names: Vec<_> = requests.iter().map(|hit| hit.header("user-agent").unwrap()).collect();
    assert_eq!(names, ["cut-off", "second"]);
    let aborted = requests[0].ended.unwrap();
    assert!(requests[1].started - aborted >= fixture.delay, "the second request came too early");
    assert!(fixture.web.log().smallest_gap().unwrap() >= fixture.delay);
    assert_eq!((fixture.status()["pages"].as_u64(), fixture.pages().len()), (Some(1), 1));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn terminated_crawl_does_not_wait_for_a_redis_that_is_down() {
    terminate_without_redis(Mode::Refuse);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn terminated_crawl_does_not_wait_for_a_redis_that_hangs() {
    terminate_without_redis(Mode::BlackHole);
}

fn terminate_without_redis(mode: Mode) {
    let fixture = Fixture::slow(8, 14);
    let proxy = Proxy::for_server(&fixture.redis);
    let controller = start_crawl(&fixture, &proxy, &["--dead-after", "2s"]);
    proxy.set_mode(mode);
    sleep(Duration::from_millis(500));
    // Without a limit on that, it would wait for Redis indefinitely.
    controller.signal(Signal::TERM);
    let (status, output) = controller.wait();
    assert_eq!(status, Some(143), "{output}");
    assert!(output.contains("crawler: cannot reach Redis at redis://127.0.0.1:"), "{output}");
    assert!(output.contains("worker 1: cannot reach Redis at "), "its children exit too: {output}");
    assert!(!output.contains(REDIS_REPLIES_AGAIN), "{output}");
    Process::start(fixture.crawl_again(3, &["--dead-after", "2s"])).wait_for_success();
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn role_that_waits_for_its_crawl_waits_for_redis_too() {
    let fixture = Fixture::new(2, 3);
    let proxy = Proxy::for_server(&fixture.redis);
    let redis_url = proxy.url();
    let mut roles = ["frontier", "worker"].map(|role| {
        let mut command = fixture.crawler(&[role]);
        command.env("CRAWLER_REDIS", &redis_url);
        Process::start(command)
    });
    for role in &mut roles {
        role.wait_for_output("it waits for its crawl", |output| output.contains(WAITING_FOR_CRAWL));
    }
    proxy.set_mode(Mode::Refuse);
    let start = Instant::now();
    for role in &mut roles {
        role.wait_for_output("it waits for Redis", |output| output.contains(WAITING_FOR_REDIS));
    }
    // At its start, a process gives up after five seconds.
    sleep(Duration::from_millis(6_500).saturating_sub(start.elapsed()));
    assert!(roles.iter_mut().all(Process::is_running));
    proxy.set_mode(Mode::Pass);
    fixture.submit(&fixture.seed(), &[]);
    for role in roles {
        let output = role.wait_for_success();
        assert!(output.contains(REDIS_REPLIES_AGAIN), "{output}");
    }
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn urls_of_a_worker_that_left_without_a_frontier_are_reassigned() {
    let fixture = Fixture::slow(6, 8);
    fixture.submit(&fixture.seed(), &["--dead-after", "2s"]);
    let roles = [&["frontier"][..], &["worker", "--id", "0"]].map(|it| Process::start(fixture.crawler(it)));
    fixture.wait_for_pages(3);
    // No process takes the leases of the worker back.
    for (role, signal) in roles.into_iter().zip([Signal::KILL, Signal::TERM]) {
        role.signal(signal);
        role.wait();
    }
    let roles = [&["frontier"][..], &["worker", "--id", "1"]].map(|it| Process::start(fixture.crawler(it)));
    roles.into_iter().for_each(|role| drop(role.wait_for_success()));
    fixture.check();
}
