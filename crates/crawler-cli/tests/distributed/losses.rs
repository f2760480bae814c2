//! A Redis that does not know the crawl any more: for a moment, because it lost everything, or because the crawl was purged.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crawler::internal::backend::redis::{RedisBackend, RedisCrawl};

use super::stage::{Running, Stage};

/// A controller with two workers, in the middle of its crawl.
fn under_way(stage: &Stage, dead_after: &str) -> Running {
    let controller = Running::start(stage.crawl(2, &["--dead-after", dead_after]));
    stage.until("some pages", |status| {
        status["pages"].as_u64() > Some(30) && status["members"].as_array().is_some_and(|all| all.len() == 3)
    });
    controller
}

/// Gives the crew's keys other names, all at once.
fn rename(stage: &Stage, from: &str, to: &str) {
    let rename = "for _, name in ipairs({ 'crawl', 'members' }) do redis.call('RENAME', ARGV[1] .. name, ARGV[2] .. name) end";
    stage.redis.cli::<()>(&["EVAL", rename, "0", from, to]);
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_that_redis_does_not_know_for_a_moment_goes_on() {
    let stage = Stage::new(10, 20);
    let controller = under_way(&stage, "4s");
    rename(&stage, "crawler:{crawl:crew}:", "elsewhere:");
    sleep(Duration::from_millis(1_200));
    rename(&stage, "elsewhere:", "crawler:{crawl:crew}:");
    let (status, said) = controller.end();
    assert_eq!(status, Some(0), "{said}");
    for role in ["", "the frontier: ", "worker 0: ", "worker 1: "] {
        let says = |what: &str| {
            said.lines().any(|line| line.starts_with(&format!("crawler: {role}")) && line.contains(what))
        };
        assert!(
            says("no longer has the crawl 'crawl'; checking again for 4s"),
            "{role}: {said}"
        );
        assert!(says("the crawl 'crawl' is back"), "{role}: {said}");
    }
    assert!(!said.contains("declared dead") && !said.contains("started again"), "{said}");
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_of_which_redis_has_nothing_for_a_moment_goes_on_with_all_that_it_had() {
    let stage = Stage::new(10, 40);
    let controller = under_way(&stage, "8s");
    // Another data set is there, where loans are unknown and what is ended is refused.
    stage.redis.ask::<String>("SWAPDB 0 1");
    sleep(Duration::from_millis(2_500));
    stage.redis.ask::<String>("SWAPDB 0 1");
    let (status, said) = controller.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("the crawl 'crawl' is back"), "{said}");
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_that_redis_has_lost_is_given_up_with_a_message_that_says_what_helps() {
    let stage = Stage::new(10, 20);
    let controller = under_way(&stage, "2s");
    stage.redis.ask::<String>("FLUSHALL");
    let lost = Instant::now();
    let (status, said) = controller.end();
    assert!(lost.elapsed() < Duration::from_secs(12), "{:?}: {said}", lost.elapsed());
    assert_eq!(status, Some(1), "{said}");
    let message = said.lines().rfind(|line| line.starts_with("crawler: Redis at "));
    assert!(message.is_some_and(|line| line.contains("has lost the crawl 'crawl'")), "{said}");
    assert!(message.is_some_and(|line| line.contains("run 'crawler purge'")), "{said}");
}

#[test]
#[ignore = "needs redis-server"]
fn a_purge_is_believed_at_once_by_all_who_are_at_work() {
    let stage = Stage::new(10, 20);
    let controller = under_way(&stage, "60s");
    let place = RedisCrawl::new(stage.address.parse().unwrap(), "crawl");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(RedisBackend::purge(&place)).unwrap() > 10);
    let purged = Instant::now();
    let (status, said) = controller.end();
    assert!(purged.elapsed() < Duration::from_secs(12), "{:?}: {said}", purged.elapsed());
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("the crawl 'crawl' is gone: it was purged while it was running"), "{said}");
    assert!(!said.contains("no longer has"), "{said}");
    // The word that was left expires by itself.
    assert!(stage.redis.ask::<i64>("TTL crawler:{crawl:crew}:purged") > 0);
}
