//! Roles started by hand: before the crawl, after it, and with options of their own.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use super::fixture::{Fixture, LONG_DELAY, is_over, members};
use super::messages::{
    CRAWL_PURGED_WHILE_RUNNING, CRAWL_UNKNOWN, ID_IN_USE, STOPPED, WAITING_FOR_CRAWL, WAITING_FOR_PARTS,
    WAITING_FOR_REDIS,
};
use super::process::{Process, run, texts};

#[test]
#[ignore = "needs redis-server: run by make test"]
fn roles_wait_for_their_crawl_and_exit_when_it_finishes() {
    let fixture = Fixture::new(4, 6);
    let mut roles = [&["frontier"][..], &["worker"], &["worker", "--id", "7"]]
        .map(|arguments| Process::start(fixture.crawler(arguments)));
    for role in &mut roles {
        role.wait_for_output("it waits", |output| output.contains(WAITING_FOR_CRAWL));
    }
    let submitted = fixture.submit(&fixture.seed(), &[]);
    assert!(submitted.contains("started crawl 'crawl' with 1 URL\n"), "{submitted}");
    for role in roles {
        role.wait_for_success();
    }
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn submitting_to_a_finished_crawl_reopens_it_for_roles_that_stay() {
    let fixture = Fixture::new(4, 6);
    let frontier = Process::start(fixture.crawler(&["frontier", "--stay"]));
    let worker = Process::start(fixture.crawler(&["worker", "--stay"]));
    fixture.submit(&fixture.web.url_of("h1.test", "/"), &["--scope", "host"]);
    fixture.wait_for_status("the first end", is_over);
    let before = fixture.status()["pages"].as_u64().unwrap();
    let second = fixture.web.url_of("h2.test", "/");
    let output = fixture.run(&["submit", &second]);
    assert!(output.contains("restarted crawl 'crawl' and added 1 URL\n"), "{output}");
    fixture.wait_for_status("the second end", |status| {
        is_over(status) && status["pages"].as_u64() > Some(before)
    });
    assert!(fixture.pages().contains(&second));
    for role in [frontier, worker] {
        role.signal(Signal::TERM);
        let (status, output) = role.wait();
        assert_eq!(status, Some(143), "{output}");
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn options_of_a_role_override_those_of_the_crawl() {
    let fixture = Fixture::new(3, 4);
    fixture.submit(&fixture.seed(), &[]);
    let frontier = Process::start(fixture.crawler(&["frontier"]));
    let mut worker = fixture.crawler(&["worker", "--user-agent", "mine/1.0"]);
    worker.env("CRAWLER_MODULE", "jsonl=others.jsonl");
    Process::start(worker).wait_for_success();
    frontier.wait_for_success();
    assert!(fixture.directory.path().join("others.0.jsonl").exists());
    assert!(!fixture.directory.path().join("pages.0.jsonl").exists());
    assert!(fixture.web.log().iter().all(|hit| hit.header("user-agent") == Some("mine/1.0")));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn table_of_a_role_overrides_the_crawl_and_keys_for_all_commands_do_not() {
    let fixture = Fixture::new(3, 4);
    fixture.submit(&fixture.seed(), &["--user-agent", "saved/1.0"]);
    let file = "user-agent = 'all/1.0'\nmodule = 'words'\n[worker]\nmodule = 'jsonl=others.jsonl'\n";
    fs::write(fixture.directory.path().join("crawler.toml"), file).unwrap();
    let frontier = Process::start(fixture.crawler(&["frontier", "--config", "crawler.toml"]));
    Process::start(fixture.crawler(&["worker", "--config", "crawler.toml"])).wait_for_success();
    frontier.wait_for_success();
    assert!(fixture.directory.path().join("others.0.jsonl").exists());
    assert!(fixture.web.log().iter().all(|hit| hit.header("user-agent") == Some("saved/1.0")));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_waits_for_an_id_that_is_in_use() {
    let fixture = Fixture::slow(6, 10);
    fixture.submit(&fixture.gate_url(), &[]);
    let mut roles = fixture.hold_web_until_joined(2, || {
        vec![
            Process::start(fixture.crawler(&["frontier"])),
            Process::start(fixture.crawler(&["worker", "--id", "3"])),
        ]
    });
    let second = Process::start(fixture.crawler(&["worker", "--id", "3"]));
    roles.push(second);
    let outputs: Vec<String> = roles.into_iter().map(Process::wait_for_success).collect();
    let second = &outputs[2];
    assert!(ID_IN_USE.iter().all(|part| second.contains(part)), "{second}");
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn workers_join_and_leave_during_the_crawl() {
    let fixture = Fixture::slow(14, 15);
    fixture.submit(&fixture.seed(), &[]);
    let frontier = Process::start(fixture.crawler(&["frontier"]));
    let first = Process::start(fixture.crawler(&["worker"]));
    fixture.wait_for_pages(10);
    let second = Process::start(fixture.crawler(&["worker"]));
    fixture.wait_for_status("the second worker", |status| members(status) == 3);
    first.signal(Signal::TERM);
    let (status, output) = first.wait();
    assert_eq!(status, Some(143), "{output}");
    frontier.wait_for_success();
    second.wait_for_success();
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn stop_command_stops_the_crawl() {
    let fixture = Fixture::slow(10, 12);
    let controller = fixture.start_crawl(2, &[]);
    assert!(fixture.run(&["stop"]).contains("stopping crawl 'crawl'"));
    let output = controller.wait_for_success();
    assert!(output.contains(STOPPED), "{output}");
    assert!(fixture.run(&["stop"]).contains("is already finished"));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn purge_of_a_running_crawl_needs_force() {
    let fixture = Fixture::slow(10, 12);
    let controller = fixture.start_crawl(2, &[]);
    let output = run(fixture.crawler(&["purge"]));
    assert_eq!(output.status.code(), Some(1));
    let stderr = texts(&output).1;
    assert!(stderr.contains("processes are running"), "{stderr}");
    // The command stops the crawl, waits until the roles have left it, and deletes it. The controller sees only the deletion.
    controller.signal(Signal::STOP);
    assert!(fixture.run(&["purge", "--force"]).contains("purged crawl"));
    let keys: Vec<String> = fixture.redis.query("KEYS *");
    assert!(keys.iter().all(|key| key.ends_with(":purged")), "{keys:?}");
    controller.signal(Signal::CONT);
    let (status, output) = controller.wait();
    assert_eq!(status, Some(1), "{output}");
    assert!(output.contains(CRAWL_PURGED_WHILE_RUNNING) && !output.contains(CRAWL_UNKNOWN), "{output}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_that_waits_for_the_part_files_of_a_hung_one_leaves_nothing_in_a_crawl_that_is_purged() {
    let fixture = Fixture::slow(8, 12);
    fixture.submit(&fixture.seed(), &["--dead-after", "3s"]);
    let role = |arguments: &[&str]| Process::start(fixture.crawler(arguments));
    let (frontier, hung) = (role(&["frontier"]), role(&["worker", "--id", "0"]));
    fixture.wait_for_pages(5);
    hung.signal(Signal::STOP);
    fixture.wait_for_status("the hung worker to be removed", |status| members(status) == 1);
    let mut waiting = role(&["worker", "--id", "0", "--stay"]);
    waiting.wait_for_output("it waits", |output| output.contains(WAITING_FOR_PARTS));
    fixture.run(&["purge", "--force"]);
    waiting.wait_for_output("it notices the purge", |output| output.contains(WAITING_FOR_CRAWL));
    frontier.signal(Signal::KILL);
    hung.signal(Signal::CONT);
    hung.signal(Signal::KILL);
    // Later than any process that would join or write again.
    std::thread::sleep(Duration::from_secs(3));
    let keys: Vec<String> = fixture.redis.query("KEYS *");
    assert!(keys.iter().all(|key| key.ends_with(":purged")), "{keys:?}");
    drop((waiting, frontier, hung));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_command_with_other_settings_is_rejected_and_names_them() {
    let fixture = Fixture::new(3, 4);
    Process::start(fixture.crawl(1, &[])).wait_for_success();
    let (status, output) = Process::start(fixture.crawl(1, &["--queue-size", "7"])).wait();
    assert_eq!(status, Some(2), "{output}");
    assert!(
        output.contains("was started with another setting: --queue-size is 10,000 there and 7 here"),
        "{output}"
    );
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn passwords_are_neither_printed_nor_in_arguments() {
    let redis = testredis::Server::builder().password("s3cret-word").start();
    let fixture = Fixture { delay: LONG_DELAY, ..Fixture::with_redis(redis, 8, 10) };
    let mut controller = fixture.start_crawl(2, &[]);
    let worker = fixture.process_of("worker 1").unwrap();
    let arguments = std::fs::read(format!("/proc/{}/cmdline", worker.as_raw_nonzero())).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains("s3cret"));
    let status = fixture.run(&["status"]);
    fixture.kill("worker 1");
    fixture.redis.kill();
    controller.wait_for_output("it misses Redis", |output| output.contains(WAITING_FOR_REDIS));
    controller.signal(Signal::KILL);
    let (killed, output) = controller.wait();
    assert_eq!(killed, None, "{output}");
    assert!(output.contains("Redis at redis://127.0.0.1"), "{output}");
    assert!(!output.contains("s3cret") && !status.contains("s3cret"), "{output}{status}");
}
