//! A Redis that no longer has the crawl: for a moment, because it lost its data, or because the crawl was purged.

use std::time::{Duration, Instant};

use crawler::internal::backend::redis::{DistributedCrawl, RedisCrawl};

use rustix::process::{Pid, test_kill_process};

use super::fixture::Fixture;
use super::messages::{
    CRAWL_FOUND_AGAIN, CRAWL_LOST, CRAWL_LOST_REMEDY, CRAWL_PURGED_WHILE_RUNNING, CRAWL_UNKNOWN,
    DECLARED_DEAD, RESTARTED, line_starts,
};
use super::process::{Process, poll, wait_for};

/// No process gives up this soon after the crawl is lost, on a busy machine either.
const PATIENT: &str = "30s";

/// Renames the keys of the crawl's members and state atomically.
fn rename_keys(fixture: &Fixture, from: &str, to: &str) {
    let rename = "for _, name in ipairs({ 'crawl', 'members' }) do redis.call('RENAME', ARGV[1] .. name, ARGV[2] .. name) end";
    fixture.redis.query_args::<()>(&["EVAL", rename, "0", from, to]);
}

/// Whether the controller and each of its two workers and its frontier have printed this.
fn all_contain(output: &str, what: &str) -> bool {
    let contains =
        |start: &String| output.lines().any(|line| line.starts_with(start.as_str()) && line.contains(what));
    line_starts(2).iter().all(contains)
}

fn wait_until_unknown(controller: &mut Process) {
    controller
        .wait_for_output("all processes to miss the crawl", |output| all_contain(output, CRAWL_UNKNOWN));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_whose_keys_are_missing_for_a_moment_continues() {
    let fixture = Fixture::slow(10, 20);
    let mut controller = fixture.start_crawl(2, &["--dead-after", PATIENT]);
    rename_keys(&fixture, "crawler:{crawl:members}:", "elsewhere:");
    wait_until_unknown(&mut controller);
    rename_keys(&fixture, "elsewhere:", "crawler:{crawl:members}:");
    let output = controller.wait_for_success();
    assert!(all_contain(&output, &format!("{CRAWL_UNKNOWN}{PATIENT}")), "{output}");
    assert!(all_contain(&output, CRAWL_FOUND_AGAIN), "{output}");
    assert!(!output.contains(DECLARED_DEAD) && !output.contains(RESTARTED), "{output}");
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_whose_redis_is_empty_for_a_moment_continues_with_all_its_data() {
    let fixture = Fixture::slow(10, 20);
    let mut controller = fixture.start_crawl(2, &["--dead-after", PATIENT]);
    // An empty database: leases are unknown there, and completions are rejected.
    fixture.redis.query::<String>("SWAPDB 0 1");
    wait_until_unknown(&mut controller);
    // Requests in flight finish meanwhile, and their workers report them to the empty database.
    let messages = || fixture.redis.query::<usize>("XLEN crawler:{crawl:frontier}:urls");
    poll("messages of both workers", Duration::from_millis(20), || messages() >= 2);
    fixture.redis.query::<String>("SWAPDB 0 1");
    let output = controller.wait_for_success();
    assert!(output.contains(CRAWL_FOUND_AGAIN), "{output}");
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_that_redis_has_lost_is_given_up_with_a_remedy() {
    let fixture = Fixture::slow(10, 20);
    let controller = fixture.start_crawl(2, &["--dead-after", "2s"]);
    fixture.redis.query::<String>("FLUSHALL");
    let (status, output) = controller.wait();
    assert_eq!(status, Some(1), "{output}");
    let message = output.lines().rfind(|line| line.starts_with("crawler: Redis at "));
    assert!(message.is_some_and(|line| line.contains(CRAWL_LOST)), "{output}");
    assert!(message.is_some_and(|line| line.contains(CRAWL_LOST_REMEDY)), "{output}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn purge_ends_all_processes_at_once() {
    let fixture = Fixture::slow(10, 20);
    let controller = fixture.start_crawl(2, &["--dead-after", "120s"]);
    let crawl = RedisCrawl::new(fixture.redis_url.parse().unwrap(), "crawl");
    let roles = ["frontier", "worker 0", "worker 1"];
    let processes = roles.map(|role| fixture.process_of(role).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(DistributedCrawl::purge(&crawl)).unwrap() > 10);
    let purged = Instant::now();
    let (status, output) = controller.wait();
    // Processes that did not recognise the purge would look for the crawl for two minutes.
    assert!(purged.elapsed() < Duration::from_secs(90), "{:?}: {output}", purged.elapsed());
    assert_eq!(status, Some(1), "{output}");
    assert!(output.contains(CRAWL_PURGED_WHILE_RUNNING), "{output}");
    assert!(!output.contains(CRAWL_UNKNOWN), "{output}");
    // Requests in flight hold up no process: no frontier would complete them.
    let has_exited = |process: &Pid| test_kill_process(*process).is_err();
    wait_for("all processes to exit", || processes.iter().all(has_exited));
    // The marker of the purge expires by itself.
    assert!(fixture.redis.query::<i64>("TTL crawler:{crawl:members}:purged") > 0);
}
