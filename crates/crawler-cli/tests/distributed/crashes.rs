//! Processes killed with SIGKILL: the others continue, and nothing is lost.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::fixture::{Fixture, is_over, members};
use super::messages::{DECLARED_DEAD, HANGS, RESTARTED, prints};
use super::process::{Process, wait_for};

/// Long enough for the heartbeats of processes on a busy machine, short enough for a test.
const DEAD_AFTER: &str = "3s";

fn kill_and_check(roles: &[&str]) {
    let fixture = Fixture::slow(12, 15);
    let controller = fixture.start_crawl(3, &["--dead-after", DEAD_AFTER]);
    for role in roles {
        fixture.kill(role);
    }
    let output = controller.wait_for_success();
    for role in roles {
        let role = if *role == "frontier" { "the frontier" } else { role };
        assert!(output.contains(&format!("{role} exited (signal: 9 (SIGKILL)); {RESTARTED}")), "{output}");
    }
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn killed_worker_is_restarted_and_nothing_is_lost() {
    kill_and_check(&["worker 1"]);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn killed_frontier_is_restarted_and_nothing_is_lost() {
    kill_and_check(&["frontier"]);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn frontier_of_a_controller_is_back_within_two_seconds() {
    let fixture = Fixture::slow(12, 30);
    let controller = fixture.start_crawl(2, &[]);
    // Other processes slow some restarts down: one without them is enough.
    let mut times = Vec::new();
    while times.iter().all(|time| *time > Duration::from_secs(2)) {
        assert!(times.len() < 4, "{times:?}");
        let before = fixture.process_of("frontier").unwrap();
        kill_process(before, Signal::KILL).unwrap();
        let killed = Instant::now();
        wait_for("the frontier", || fixture.process_of("frontier").is_some_and(|now| now != before));
        let hits = fixture.web.hits();
        wait_for("the next request", || fixture.web.hits() > hits);
        times.push(killed.elapsed());
    }
    controller.wait_for_success();
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn all_roles_killed_at_once_are_restarted_and_nothing_is_lost() {
    kill_and_check(&["worker 0", "worker 1", "worker 2", "frontier"]);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn stopping_does_not_wait_for_a_worker_killed_on_this_machine() {
    let fixture = Fixture::slow(12, 15);
    let controller = fixture.start_crawl(2, &["--dead-after", "120s"]);
    let worker = fixture.process_of("worker 1").unwrap();
    // A stopped process cannot leave the crawl by itself.
    kill_process(worker, Signal::STOP).unwrap();
    fixture.run(&["stop"]);
    kill_process(worker, Signal::KILL).unwrap();
    let killed = Instant::now();
    controller.wait_for_success();
    assert!(killed.elapsed() < Duration::from_secs(90), "the controller took {:?}", killed.elapsed());
    assert_eq!(members(&fixture.status()), 0, "{:?}", fixture.status());
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_finishes_without_its_controller() {
    let fixture = Fixture::slow(12, 15);
    let controller = fixture.start_crawl(3, &["--dead-after", DEAD_AFTER]);
    controller.signal(Signal::KILL);
    fixture.wait_for_status("the end", |status| is_over(status) && members(status) == 0);
    drop(controller);
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn second_controller_takes_over_after_the_first_is_killed() {
    let fixture = Fixture::slow(12, 15);
    let first = fixture.start_crawl(3, &["--dead-after", DEAD_AFTER]);
    first.signal(Signal::KILL);
    fixture.kill("worker 2");
    Process::start(fixture.crawl_again(3, &["--dead-after", DEAD_AFTER])).wait_for_success();
    drop(first);
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn urls_of_a_dead_worker_are_reassigned() {
    let fixture = Fixture::slow(12, 15);
    fixture.submit(&fixture.gate_url(), &["--dead-after", DEAD_AFTER]);
    let mut roles = fixture.hold_web_until_joined(4, || {
        let roles = ["frontier", "worker", "worker", "worker"];
        roles.map(|role| Process::start(fixture.crawler(&[role]))).into()
    });
    fixture.wait_for_pages(20);
    roles[1].signal(Signal::KILL);
    let output = roles.remove(0).wait_for_success();
    assert!(output.contains(DECLARED_DEAD), "{output}");
    drop(roles);
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_that_was_suspended_finds_itself_declared_dead_and_joins_again() {
    let fixture = Fixture::slow(12, 25);
    fixture.submit(&fixture.gate_url(), &["--dead-after", "2s"]);
    // No controller replaces it.
    let mut roles = fixture.hold_web_until_joined(4, || {
        let roles = ["frontier", "worker", "worker", "worker"];
        roles.map(|role| Process::start(fixture.crawler(&[role]))).into()
    });
    fixture.wait_for_pages(20);
    let suspended = fixture.process_of("worker 1").unwrap();
    kill_process(suspended, Signal::STOP).unwrap();
    roles[0].wait_for_output("worker 1 to be declared dead", |output| {
        output.lines().any(|line| line.contains("worker 1 ") && line.contains(DECLARED_DEAD))
    });
    kill_process(suspended, Signal::CONT).unwrap();
    for role in roles {
        role.wait_for_success();
    }
    fixture.check();
}

fn hang_and_check(role: &str, name: &str) {
    let fixture = Fixture::slow(12, 15);
    let controller = fixture.start_crawl(1, &["--dead-after", "2s"]);
    kill_process(fixture.process_of(role).unwrap(), Signal::STOP).unwrap();
    let output = controller.wait_for_success();
    assert!(prints(&output, "crawler: ", name, HANGS), "{output}");
    assert!(output.contains(&format!("{name} exited (signal: 9 (SIGKILL)); {RESTARTED}")), "{output}");
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn controller_replaces_its_only_worker_when_it_hangs() {
    hang_and_check("worker 0", "worker 0");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn controller_replaces_its_frontier_when_it_hangs() {
    hang_and_check("frontier", "the frontier");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_takes_another_number_while_hung_processes_have_the_part_files_of_the_first_ones() {
    let fixture = Fixture::slow(8, 12);
    fixture.submit(&fixture.seed(), &["--dead-after", DEAD_AFTER]);
    let role = |arguments: &[&str]| Process::start(fixture.crawler(arguments));
    let (frontier, hung) = (role(&["frontier"]), [role(&["worker"]), role(&["worker"])]);
    fixture.wait_for_status("both workers to join", |status| members(status) == 3);
    fixture.wait_for_pages(5);
    hung.iter().for_each(|hung| hung.signal(Signal::STOP));
    fixture.wait_for_status("the hung workers to be removed", |status| members(status) == 1);
    let mut next = role(&["worker"]);
    next.wait_for_output("another number", |output| output.contains("running as worker 2"));
    fixture.wait_for_status("the other numbers to be free", |status| members(status) == 2);
    frontier.wait_for_success();
    next.wait_for_success();
    for hung in hung {
        hung.signal(Signal::KILL);
        hung.signal(Signal::CONT);
        hung.wait();
    }
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_that_waits_for_the_number_of_a_dead_one_is_idle_and_can_be_stopped() {
    let fixture = Fixture::slow(8, 12);
    fixture.submit(&fixture.seed(), &["--dead-after", DEAD_AFTER]);
    let role = |arguments: &[&str]| Process::start(fixture.crawler(arguments));
    let (frontier, first) = (role(&["frontier"]), role(&["worker"]));
    fixture.wait_for_pages(5);
    for killed in [frontier, first] {
        killed.signal(Signal::KILL);
        killed.wait();
    }
    // What a frontier stores that is killed while it requeues the URLs of a dead worker.
    let heartbeats = "crawler:{crawl:members}:heartbeats";
    let heartbeat: String = fixture.redis.query(&format!("HGET {heartbeats} 0"));
    fixture.redis.query::<i64>(&format!("HSET {heartbeats} 0 -{heartbeat}"));
    let mut next = role(&["worker", "--id", "0"]);
    next.wait_for_output("the dead worker", |output| {
        output.contains("declared dead; waiting for the frontier")
    });
    next.signal(Signal::TERM);
    next.wait();
    // The frontier frees the number.
    let (frontier, next) = (role(&["frontier"]), role(&["worker", "--id", "0"]));
    frontier.wait_for_success();
    next.wait_for_success();
    fixture.check();
}
