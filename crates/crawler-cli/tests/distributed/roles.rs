//! Roles that are started by hand: before the crawl, after it, with settings of their own.

use super::stage::{Running, Stage, finished, is_over, texts};

fn submit(stage: &Stage, more: &[&str]) -> String {
    let (seed, options) = (stage.seed(), stage.options());
    let mut arguments = vec!["submit", seed.as_str()];
    arguments.extend(options.iter().map(String::as_str));
    arguments.extend(more);
    stage.say(&arguments)
}

#[test]
#[ignore = "needs redis-server"]
fn roles_wait_for_their_crawl_say_so_and_end_with_it() {
    let stage = Stage::new(4, 6);
    let roles: Vec<Running> = [&["frontier"][..], &["worker"], &["worker", "--id", "7"]]
        .map(|arguments| Running::start(stage.crawler(arguments)))
        .into_iter()
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(submit(&stage, &[]).contains("started crawl 'crawl' with 1 URL: 1 new, 0 seen"));
    for role in roles {
        let (status, said) = role.end();
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains("waiting for the crawl 'crawl' to start"), "{said}");
    }
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn what_is_submitted_to_a_finished_crawl_opens_it_again_for_roles_that_stay() {
    let stage = Stage::new(4, 6);
    let frontier = Running::start(stage.crawler(&["frontier", "--stay"]));
    let worker = Running::start(stage.crawler(&["worker", "--stay"]));
    let seed = stage.web.url_of("h1.test", "/");
    let options = stage.options();
    let mut first = vec!["submit", seed.as_str(), "--scope", "host"];
    first.extend(options.iter().map(String::as_str));
    stage.say(&first);
    stage.until("the first end", is_over);
    let before = stage.status()["pages"].as_u64().unwrap();
    let second = stage.web.url_of("h2.test", "/");
    let said = stage.say(&["submit", &second]);
    assert!(said.contains("restarted crawl 'crawl' with 1 URL: 1 new"), "{said}");
    stage.until("the second end", |status| is_over(status) && status["pages"].as_u64() > Some(before));
    assert!(stage.pages().contains(&second));
    for role in [frontier, worker] {
        role.signal(rustix::process::Signal::TERM);
        let (status, said) = role.end();
        assert_eq!(status, Some(143), "{said}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_role_takes_settings_from_redis_and_its_own_win() {
    let stage = Stage::new(3, 4);
    submit(&stage, &[]);
    let frontier = Running::start(stage.crawler(&["frontier"]));
    let mut worker = stage.crawler(&["worker", "--user-agent", "mine/1.0"]);
    worker.env("CRAWLER_MODULE", "jsonl=others.jsonl");
    let (status, said) = Running::start(worker).end();
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(frontier.end().0, Some(0));
    assert!(stage.directory.path().join("others.0.jsonl").exists());
    assert!(!stage.directory.path().join("pages.0.jsonl").exists());
    assert!(stage.web.log().iter().all(|hit| hit.header("user-agent") == Some("mine/1.0")));
}

#[test]
#[ignore = "needs redis-server"]
fn an_id_in_use_is_waited_for() {
    let stage = Stage::new(6, 10);
    submit(&stage, &[]);
    let frontier = Running::start(stage.crawler(&["frontier"]));
    let first = Running::start(stage.crawler(&["worker", "--id", "3"]));
    stage.until("worker 3", |status| status["members"].as_array().is_some_and(|all| all.len() == 2));
    let second = Running::start(stage.crawler(&["worker", "--id", "3"]));
    let (status, said) = second.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("worker 3 is already running (pid") && said.contains("waiting for it to exit"),
        "{said}"
    );
    assert_eq!((first.end().0, frontier.end().0), (Some(0), Some(0)));
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn workers_come_and_go_while_the_crawl_is_under_way() {
    let stage = Stage::new(14, 15);
    submit(&stage, &[]);
    let frontier = Running::start(stage.crawler(&["frontier"]));
    let first = Running::start(stage.crawler(&["worker"]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(10));
    let second = Running::start(stage.crawler(&["worker"]));
    stage.until("the second worker", |status| status["members"].as_array().is_some_and(|all| all.len() == 3));
    first.signal(rustix::process::Signal::TERM);
    let (status, said) = first.end();
    assert_eq!(status, Some(143), "{said}");
    assert_eq!((frontier.end().0, second.end().0), (Some(0), Some(0)));
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_is_stopped_from_outside() {
    let stage = Stage::new(10, 12);
    let controller = Running::start(stage.crawl(2, &[]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(10));
    assert!(stage.say(&["stop"]).contains("stopping crawl 'crawl'"));
    let (_, said) = controller.end();
    assert!(said.contains("Stopped: on request"), "{said}");
    assert!(stage.say(&["stop"]).contains("is already over"));
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_is_not_removed_under_the_hands_of_those_who_work_on_it() {
    let stage = Stage::new(10, 12);
    let controller = Running::start(stage.crawl(2, &[]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(10));
    let output = finished(stage.crawler(&["purge"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("processes are running"), "{:?}", texts(&output));
    assert!(stage.say(&["purge", "--force"]).contains("purged crawl"));
    controller.end();
    assert_eq!(stage.redis.ask::<i64>("DBSIZE"), 0);
}

#[test]
#[ignore = "needs redis-server"]
fn another_command_with_other_settings_is_refused_and_says_which() {
    let stage = Stage::new(3, 4);
    assert_eq!(Running::start(stage.crawl(1, &[])).end().0, Some(0));
    let (status, said) = Running::start(stage.crawl(1, &["--queue-size", "7"])).end();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("--queue-size is 10000 there and 7 here"), "{said}");
}

#[test]
#[ignore = "needs redis-server"]
fn passwords_are_nowhere_to_be_seen() {
    let redis = testredis::Server::builder().password("s3cret-word").start();
    let stage = Stage::on(redis, 8, 10);
    let controller = Running::start(stage.crawl(2, &[]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(5));
    let worker = stage.process_of("worker 1").unwrap();
    let arguments = std::fs::read(format!("/proc/{}/cmdline", worker.as_raw_nonzero())).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains("s3cret"));
    let status = stage.say(&["status"]);
    stage.kill("worker 1");
    stage.redis.kill();
    std::thread::sleep(std::time::Duration::from_secs(2));
    controller.signal(rustix::process::Signal::KILL);
    let (_, said) = controller.end();
    assert!(said.contains("Redis at redis://127.0.0.1"), "{said}");
    assert!(!said.contains("s3cret") && !status.contains("s3cret"), "{said}{status}");
}
