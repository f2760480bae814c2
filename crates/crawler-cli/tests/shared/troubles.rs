//! Redis away, slow, full or read-only, and a network that loses what it carries: everybody waits and says so, goes on by
//! itself when that is over, and nothing is lost, counted twice or asked too soon.
//!
//! `make chaos` has more of it: CRAWLER_OUTAGE says for how many seconds Redis cannot be reached, CRAWLER_DEAD_AFTER after
//! how many a process that is not heard of counts as dead, CRAWLER_LOSSES how many answers are lost.

use std::thread::sleep;
use std::time::{Duration, Instant};

use testredis::{Mode, Proxy};

use super::stage::{Running, Stage, wait_for};

/// What a busy machine may take between the last look at the clock and the arrival of a request.
const BUSY: Duration = Duration::from_millis(250);

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// A controller with three workers that come to Redis through a proxy, in the middle of its crawl.
fn under_way(stage: &mut Stage, proxy: &Proxy, more: &[&str]) -> Running {
    // The test itself looks at Redis directly.
    let direct = std::mem::replace(&mut stage.address, proxy.url());
    let controller = Running::start(stage.crawl(3, more));
    stage.address = direct;
    stage.until("some pages", |status| {
        status["pages"].as_u64() > Some(30) && status["members"].as_array().is_some_and(|all| all.len() == 4)
    });
    controller
}

/// The crawl ended well, and everybody who was there at its beginning was there at its end.
fn went_on(stage: &Stage, controller: Running) -> String {
    let (status, said) = controller.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(!said.contains("is dead") && !said.contains("started again"), "{said}");
    stage.check();
    said
}

/// The controller, the frontier and the workers said that they wait, why, and that it was over.
fn told(said: &str, why: &str) {
    for role in ["", "the frontier: ", "worker 0: ", "worker 1: ", "worker 2: "] {
        let lines = || said.lines().filter(|line| line.starts_with(&format!("crawler: {role}")));
        let waits =
            lines().any(|line| line.contains(&format!("{role}waiting for Redis at ")) && line.contains(why));
        assert!(waits, "{role:?} did not say that it waits because of {why}: {said}");
        let is_over = lines()
            .any(|line| line.contains(&format!("{role}Redis at ")) && line.contains("answers again after"));
        assert!(is_over, "{role:?} did not say that it is over: {said}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_restart_of_redis_is_waited_for() {
    let mut stage = Stage::new(12, 40);
    let proxy = Proxy::before(&stage.redis);
    let controller = under_way(&mut stage, &proxy, &[]);
    stage.redis.kill();
    // Long enough for everybody to want something, and to say that it is not there.
    sleep(Duration::from_secs(3));
    stage.redis.restart();
    told(&went_on(&stage, controller), "connection");
}

#[test]
#[ignore = "needs redis-server"]
fn nobody_is_taken_for_dead_and_nobody_asks_while_redis_cannot_be_reached() {
    let dead_after = Duration::from_secs(variable("CRAWLER_DEAD_AFTER", 2));
    let outage = Duration::from_secs(variable("CRAWLER_OUTAGE", 6));
    let mut stage = Stage::new(12, 40);
    let proxy = Proxy::before(&stage.redis);
    let dead_after_text = format!("{}s", dead_after.as_secs());
    let controller = under_way(&mut stage, &proxy, &["--dead-after", &dead_after_text]);
    proxy.set(Mode::BlackHole);
    let begun = Instant::now();
    sleep(outage);
    let before = stage.web.log();
    proxy.set(Mode::Pass);
    let last = before.iter().map(|hit| hit.started).max().unwrap().saturating_duration_since(begun);
    assert!(last < dead_after * 2 / 3 + BUSY, "a request began {last:?} after Redis had gone");
    told(&went_on(&stage, controller), "no answer");
}

#[test]
#[ignore = "needs redis-server"]
fn counts_stay_exact_on_a_slow_network() {
    let mut stage = Stage::new(6, 7);
    let proxy = Proxy::before(&stage.redis);
    proxy.set(Mode::Delay(Duration::from_millis(60)));
    let controller = under_way(&mut stage, &proxy, &[]);
    went_on(&stage, controller);
}

/// Loses answers again and again until the crawl is over; tells how many.
fn lossy(stage: &mut Stage, most: u64, lose: impl Fn(&Proxy, u64)) -> u64 {
    let proxy = Proxy::before(&stage.redis);
    let mut controller = under_way(stage, &proxy, &[]);
    let mut lost = 0;
    while lost < most && controller.child.try_wait().unwrap().is_none() {
        if !proxy.is_armed() {
            lose(&proxy, lost);
            lost += 1;
        }
        sleep(Duration::from_millis(7));
    }
    went_on(stage, controller);
    lost
}

#[test]
#[ignore = "needs redis-server"]
fn counts_stay_exact_when_answers_are_cut_in_the_middle() {
    let most = variable("CRAWLER_LOSSES", 60);
    // In the midst of the first line, of a number, of a long answer.
    let lost = lossy(&mut Stage::new(12, 25), most, |proxy, lost| {
        proxy.cut_next_answer_after(1 + lost as usize * 37 % 300)
    });
    assert!(lost > 20, "only {lost} were lost");
}

#[test]
#[ignore = "needs redis-server"]
fn counts_stay_exact_when_what_was_asked_was_done_and_the_answer_is_lost() {
    let most = variable("CRAWLER_LOSSES", 60);
    let lost = lossy(&mut Stage::new(12, 25), most, |proxy, _| proxy.swallow_next_answer());
    assert!(lost > 20, "only {lost} were lost");
}

#[test]
#[ignore = "needs redis-server"]
fn full_memory_is_waited_for_and_nothing_is_lost() {
    let mut stage = Stage::new(12, 40);
    let proxy = Proxy::before(&stage.redis);
    let controller = under_way(&mut stage, &proxy, &["--dead-after", "3s"]);
    let used: u64 = stage.redis.info("used_memory").parse().unwrap();
    // It is reached in the middle of whatever happens then.
    stage.redis.ask::<String>(&format!("CONFIG SET maxmemory {}", used + 20_000));
    wait_for("a full memory", || stage.redis.ask::<String>("INFO errorstats").contains("errorstat_OOM"));
    sleep(Duration::from_secs(3));
    stage.redis.ask::<String>("CONFIG SET maxmemory 0");
    let said = went_on(&stage, controller);
    assert!(said.contains("waiting for Redis at ") && said.contains("OOM"), "{said}");
    assert!(said.contains("answers again after"), "{said}");
}

#[test]
#[ignore = "needs redis-server"]
fn a_server_that_is_read_only_for_a_while_is_waited_for() {
    let mut stage = Stage::new(12, 40);
    let proxy = Proxy::before(&stage.redis);
    let controller = under_way(&mut stage, &proxy, &["--dead-after", "3s"]);
    // A primary that is not there: what the server has stays.
    stage.redis.ask::<String>("REPLICAOF 127.0.0.1 1");
    sleep(Duration::from_secs(4));
    stage.redis.ask::<String>("REPLICAOF NO ONE");
    let said = went_on(&stage, controller);
    assert!(said.contains("waiting for Redis at ") && said.contains("READONLY"), "{said}");
}
