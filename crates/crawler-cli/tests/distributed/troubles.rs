//! Redis away, slow, full or read-only, and a network that loses what it carries: everybody waits and says so, goes on by
//! itself when that is over, and nothing is lost, counted twice or asked too soon.
//!
//! `make chaos` has more of it: CRAWLER_OUTAGE says for how many seconds Redis cannot be reached, CRAWLER_DEAD_AFTER after
//! how many a process that is not heard of counts as dead, CRAWLER_LOSSES how many answers are lost.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use testredis::{Mode, Proxy};
use testweb::{Answer, Log, Site, Web};

use super::stage::{DELAY, Running, Stage, wait_for};

/// What a busy machine may take between the last look at the clock and the arrival of a request.
const BUSY: Duration = Duration::from_millis(250);

/// How long one may be silent whom a test by hand takes for dead.
const DEAD_AFTER: Duration = Duration::from_secs(2);

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
    assert!(!said.contains("declared dead") && !said.contains("started again"), "{said}");
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
    let mut stage = Stage::new(8, 12);
    let proxy = Proxy::before(&stage.redis);
    let controller = under_way(&mut stage, &proxy, &[]);
    proxy.set(Mode::Delay(Duration::from_millis(60)));
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

/// Roles by hand: a frontier, and workers each of which comes to Redis by an address of its own.
fn by_hand(stage: &Stage, seed: &str, workers: &[(&str, &str)]) -> (Running, Vec<Running>) {
    let options = stage.options();
    let mut submit = vec!["submit", seed, "--dead-after", "2s"];
    submit.extend(options.iter().map(String::as_str));
    stage.say(&submit);
    let frontier = Running::start(stage.crawler(&["frontier"]));
    let start = |(name, address): &(&str, &str)| {
        let mut worker = stage.crawler(&["worker", "--user-agent", name]);
        worker.env("CRAWLER_REDIS", address);
        Running::start(worker)
    };
    (frontier, workers.iter().map(start).collect())
}

fn asked_by(stage: &Stage, name: &str) -> Log {
    stage.web.log().only(|hit| hit.header("user-agent") == Some(name))
}

fn members(status: &Value) -> usize {
    status["members"].as_array().map_or(0, Vec::len)
}

#[test]
#[ignore = "needs redis-server"]
fn the_hosts_of_a_worker_that_is_cut_off_go_to_others_who_never_ask_at_the_same_time() {
    cut_off(Mode::BlackHole);
}

#[test]
#[ignore = "needs redis-server"]
fn nor_does_one_ask_whose_leave_to_do_so_comes_when_it_is_dead() {
    cut_off(Mode::Hold);
}

fn cut_off(how: Mode) {
    let stage = Stage::new(6, 100);
    let (proxy, direct) = (Proxy::before(&stage.redis), stage.redis.url());
    let workers = [("cut-off", proxy.url()), ("second", direct.clone()), ("third", direct)];
    let workers = workers.each_ref().map(|(name, address)| (*name, address.as_str()));
    let (frontier, mut workers) = by_hand(&stage, &stage.seed(), &workers);
    stage.until("some pages", |status| {
        status["pages"].as_u64() > Some(30) && members(status) == 4 && asked_by(&stage, "cut-off").len() > 5
    });
    proxy.set(how);
    let begun = Instant::now();
    let hosts: BTreeSet<String> = asked_by(&stage, "cut-off").iter().map(|hit| hit.host.clone()).collect();
    stage.until("its death", |status| members(status) == 3);
    let (died, until_then) = (begun.elapsed(), asked_by(&stage, "cut-off"));
    assert!(died >= DEAD_AFTER - BUSY, "it was taken for dead after {died:?}");
    let last = until_then.iter().map(|hit| hit.started).max().unwrap().saturating_duration_since(begun);
    assert!(last < DEAD_AFTER * 2 / 3 + BUSY, "it began a request {last:?} after it was cut off");
    let others = stage.web.log().only(|hit| hit.header("user-agent") != Some("cut-off"));
    let earlier = others.iter().filter(|hit| hosts.contains(&hit.host)).map(|hit| hit.started).min();
    assert!(earlier.is_none_or(|first| first > begun + DEAD_AFTER / 2), "a host had two owners");
    wait_for("others to ask its hosts", || {
        stage.web.log().iter().any(|hit| {
            hosts.contains(&hit.host) && hit.header("user-agent") != Some("cut-off") && hit.started > begun
        })
    });

    proxy.set(Mode::Pass);
    stage.until("its return", |status| members(status) == 4);
    let returned = asked_by(&stage, "cut-off").len();
    assert_eq!(returned, until_then.len(), "it asked hosts that others had");
    // What this one has goes to those who are left, among whom it is again.
    let second = workers.remove(1);
    second.signal(Signal::TERM);
    assert_eq!(second.end().0, Some(143));
    wait_for("its next request", || asked_by(&stage, "cut-off").len() > returned);
    let (status, said) = frontier.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("is declared dead: no heartbeat for"), "{said}");
    let said: Vec<(Option<i32>, String)> = workers.into_iter().map(Running::end).collect();
    assert!(said.iter().all(|(status, _)| *status == Some(0)), "{said:?}");
    assert_eq!(said[0].1.contains("waiting for Redis"), how == Mode::BlackHole, "{said:?}");
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn what_one_that_is_cut_off_has_in_flight_is_given_up_before_another_asks() {
    let mut stage = Stage::new(1, 1);
    let slow = Answer::page("<title>late</title>").after(Duration::from_millis(2_600));
    stage.web = Web::builder().host("slow.test", Site::new().answer("/", slow)).start();
    let (proxy, url) = (Proxy::before(&stage.redis), stage.web.url_of("slow.test", "/"));
    let (frontier, mut workers) = by_hand(&stage, &url, &[("cut-off", &proxy.url())]);
    wait_for("a request", || !stage.web.log().of_path("/").is_empty());
    proxy.set(Mode::BlackHole);
    let (begun, address) = (Instant::now(), stage.redis.url());
    let mut second = stage.crawler(&["worker", "--user-agent", "second"]);
    second.env("CRAWLER_REDIS", address);
    workers.push(Running::start(second));
    wait_for("another request", || stage.web.log().of_path("/").len() > 1);
    proxy.set(Mode::Pass);
    for role in workers.into_iter().chain([frontier]) {
        let (status, said) = role.end();
        assert_eq!(status, Some(0), "{said}");
    }
    let asked = stage.web.log().of_path("/");
    let names: Vec<_> = asked.iter().map(|hit| hit.header("user-agent").unwrap()).collect();
    assert_eq!(names, ["cut-off", "second"]);
    let given_up = asked[0].ended.unwrap().saturating_duration_since(begun);
    assert!(given_up < DEAD_AFTER, "it was given up after {given_up:?}");
    assert!(stage.web.log().smallest_gap().unwrap() >= DELAY);
    assert_eq!((stage.status()["pages"].as_u64(), stage.pages().len()), (Some(1), 1));
}

#[test]
#[ignore = "needs redis-server"]
fn who_is_asked_to_end_does_not_wait_for_a_redis_that_is_away() {
    ends_without_redis(Mode::Refuse);
}

#[test]
#[ignore = "needs redis-server"]
fn nor_for_one_that_does_not_answer() {
    ends_without_redis(Mode::BlackHole);
}

fn ends_without_redis(mode: Mode) {
    let mut stage = Stage::new(8, 14);
    let proxy = Proxy::before(&stage.redis);
    let controller = under_way(&mut stage, &proxy, &["--dead-after", "2s"]);
    proxy.set(mode);
    sleep(Duration::from_millis(500));
    let asked = Instant::now();
    controller.signal(Signal::TERM);
    let (status, said) = controller.end();
    assert_eq!(status, Some(143), "{said}");
    assert!(asked.elapsed() < Duration::from_secs(14), "it took {:?}: {said}", asked.elapsed());
    assert!(said.contains("crawler: cannot reach Redis at redis://127.0.0.1:"), "{said}");
    assert!(said.contains("worker 1: cannot reach Redis at "), "its children are asked too: {said}");
    assert!(!said.contains("answers again"), "{said}");
    let (status, said) = Running::start(stage.crawl(3, &["--dead-after", "2s"])).end();
    assert_eq!(status, Some(0), "{said}");
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn one_that_waits_for_its_crawl_waits_for_redis_too() {
    let stage = Stage::new(2, 3);
    let proxy = Proxy::before(&stage.redis);
    let (url, seed) = (proxy.url(), stage.seed());
    let mut roles = [&["frontier"][..], &["worker"]].map(|arguments| {
        let mut command = stage.crawler(arguments);
        command.env("CRAWLER_REDIS", &url);
        Running::start(command)
    });
    wait_for("both", || proxy.connections() >= 2);
    sleep(Duration::from_millis(700));
    proxy.set(Mode::Refuse);
    // Longer than at its first try.
    sleep(Duration::from_millis(6_500));
    assert!(roles.iter_mut().all(|role| role.child.try_wait().unwrap().is_none()));
    proxy.set(Mode::Pass);
    let options = stage.options();
    let submit: Vec<&str> = ["submit", &seed].into_iter().chain(options.iter().map(String::as_str)).collect();
    stage.say(&submit);
    for role in roles {
        let (status, said) = role.end();
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains("waiting for Redis at ") && said.contains("answers again after"), "{said}");
    }
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn what_was_sent_to_nobody_is_given_to_others() {
    let stage = Stage::new(6, 8);
    let (seed, options) = (stage.seed(), stage.options());
    let mut submit = vec!["submit", seed.as_str(), "--dead-after", "2s"];
    submit.extend(options.iter().map(String::as_str));
    stage.say(&submit);
    // As a worker leaves it that was taken for dead, and only then is heard to ask for more.
    stage.redis.ask::<u64>("HSET crawler:{crawl:p0}:lengths 0 0");
    stage.redis.ask::<()>("XGROUP CREATE crawler:{crawl:p0}:queue:0 worker 0 MKSTREAM");
    let roles = [&["frontier"][..], &["worker", "--id", "1"]].map(|it| Running::start(stage.crawler(it)));
    let said = roles.map(Running::end);
    assert!(said.iter().all(|(status, _)| *status == Some(0)), "{said:?}");
    assert!(said[0].1.contains("worker 0 has URLs but no process; reassigning its URLs"), "{said:?}");
    stage.check();
}
