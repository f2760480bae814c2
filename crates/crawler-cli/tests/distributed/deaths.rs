//! Processes killed with SIGKILL: the others go on, and nothing is lost.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::stage::{Running, Stage, is_over};

/// Long enough for processes on a busy machine, short enough for a test.
const DEAD_AFTER: &str = "3s";

fn killed(stage: &Stage, roles: &[&str]) {
    let controller = Running::start(stage.crawl(3, &["--dead-after", DEAD_AFTER]));
    stage.until("some pages", |status| {
        status["pages"].as_u64() > Some(30) && status["members"].as_array().is_some_and(|all| all.len() == 4)
    });
    for role in roles {
        stage.kill(role);
    }
    let (status, said) = controller.end();
    assert_eq!(status, Some(0), "{said}");
    for role in roles {
        let role = if *role == "frontier" { "the frontier" } else { role };
        assert!(said.contains(&format!("{role} exited (signal: 9 (SIGKILL)); restarting it")), "{said}");
    }
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn a_worker_that_is_killed_is_replaced_and_nothing_is_lost() {
    killed(&Stage::new(12, 15), &["worker 1"]);
}

#[test]
#[ignore = "needs redis-server"]
fn the_frontier_is_replaced_too() {
    killed(&Stage::new(12, 15), &["frontier"]);
}

#[test]
#[ignore = "needs redis-server"]
fn all_of_them_at_once_are_replaced() {
    killed(&Stage::new(12, 15), &["worker 0", "worker 1", "worker 2", "frontier"]);
}

#[test]
#[ignore = "needs redis-server"]
fn the_end_does_not_wait_for_one_that_was_killed_on_this_machine() {
    let stage = Stage::new(12, 15);
    let controller = Running::start(stage.crawl(2, &["--dead-after", "60s"]));
    stage.until("some pages", |status| {
        status["pages"].as_u64() > Some(30) && stage.process_of("worker 1").is_some()
    });
    // So that it does not go by itself.
    let worker = stage.process_of("worker 1").unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    stage.say(&["stop"]);
    kill_process(worker, Signal::KILL).unwrap();
    let killed = Instant::now();
    let (_, said) = controller.end();
    assert!(killed.elapsed() < Duration::from_secs(30), "{:?}: {said}", killed.elapsed());
    assert!(stage.status()["members"].as_array().unwrap().is_empty(), "{:?}", stage.status());
}

#[test]
#[ignore = "needs redis-server"]
fn without_its_controller_the_crawl_goes_on_to_its_end() {
    let stage = Stage::new(12, 15);
    let controller = Running::start(stage.crawl(3, &["--dead-after", DEAD_AFTER]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(30));
    kill_process(controller.pid(), Signal::KILL).unwrap();
    stage.until("the end", |status| is_over(status) && status["members"].as_array().unwrap().is_empty());
    drop(controller);
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn a_second_controller_takes_over_what_the_first_one_left() {
    let stage = Stage::new(12, 15);
    let first = Running::start(stage.crawl(3, &["--dead-after", DEAD_AFTER]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(30));
    kill_process(first.pid(), Signal::KILL).unwrap();
    stage.kill("worker 2");
    let (status, said) = Running::start(stage.crawl(3, &["--dead-after", DEAD_AFTER])).end();
    assert_eq!(status, Some(0), "{said}");
    drop(first);
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn what_a_worker_had_that_does_not_come_back_goes_to_the_others() {
    let stage = Stage::new(12, 15);
    let seed = stage.seed();
    let mut submit = vec!["submit", seed.as_str(), "--dead-after", DEAD_AFTER];
    let options = stage.options();
    submit.extend(options.iter().map(String::as_str));
    stage.say(&submit);
    let frontier = Running::start(stage.crawler(&["frontier"]));
    let workers: Vec<Running> = (0..3).map(|_| Running::start(stage.crawler(&["worker"]))).collect();
    stage.until("some pages", |status| {
        status["pages"].as_u64() > Some(30) && status["members"].as_array().is_some_and(|all| all.len() == 4)
    });
    kill_process(workers[0].pid(), Signal::KILL).unwrap();
    let (status, said) = frontier.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("is declared dead: no heartbeat for"), "{said}");
    drop(workers);
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn one_that_was_only_asleep_finds_its_place_taken_and_goes_on_as_another() {
    let stage = Stage::new(12, 15);
    let controller = Running::start(stage.crawl(3, &["--dead-after", "2s"]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(30));
    let sleeper = stage.process_of("worker 1").unwrap();
    kill_process(sleeper, Signal::STOP).unwrap();
    thread::sleep(Duration::from_secs(4));
    kill_process(sleeper, Signal::CONT).unwrap();
    let (status, said) = controller.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("worker 1") && said.contains("is declared dead: no heartbeat for"), "{said}");
    stage.check();
}
