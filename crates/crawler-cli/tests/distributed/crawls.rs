//! Whole crawls with a controller.

use std::fs;

use rustix::process::{Signal, kill_process_group};
use serde_json::Value;
use testweb::{Answer, Site, Web};

use super::stage::{Running, Stage, finished, texts};

#[test]
#[ignore = "needs redis-server"]
fn a_shared_crawl_finds_what_there_is_counts_it_once_and_asks_politely() {
    let stage = Stage::new(12, 15);
    let (status, said) = Running::start(stage.crawl(3, &[])).end();
    assert_eq!(status, Some(0), "{said}");
    assert!(!said.contains("Stopped"), "{said}");
    assert!(said.contains("crawler collect"), "{said}");
    stage.check();
    let summary = fs::read(stage.directory.path().join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["pages"], stage.status()["pages"]);
    assert_eq!(summary["requests"], stage.web.hits(), "the access log has every request");
    assert_eq!(stage.status()["requests"], summary["requests"]);
    assert_eq!(stage.status()["members"], Value::Array(Vec::new()));
}

#[test]
#[ignore = "needs redis-server"]
fn processes_that_exit_because_the_crawl_is_over_are_not_restarted() {
    let stage = Stage::new(1, 2);
    for number in 0..10 {
        let name = format!("crawl-{number}");
        let (status, said) = Running::start(stage.crawl(3, &["--crawl", &name, "--overwrite"])).end();
        assert_eq!(status, Some(0), "{said}");
        assert!(!said.contains("exited") && !said.contains("restarting"), "{said}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_finished_crawl_says_so_and_does_nothing() {
    let stage = Stage::new(3, 4);
    assert_eq!(Running::start(stage.crawl(2, &[])).end().0, Some(0));
    let hits = stage.web.hits();
    let (status, said) = Running::start(stage.crawl(2, &[])).end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("is already finished") && said.contains("nothing to do"), "{said}");
    assert_eq!(stage.web.hits(), hits);
}

#[test]
#[ignore = "needs redis-server"]
fn a_budget_is_exact_and_a_crawl_goes_on_when_it_is_raised() {
    let stage = Stage::new(10, 10);
    let (status, said) = Running::start(stage.crawl(3, &["--max-pages", "37"])).end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("Stopped: 37 pages (--max-pages)"), "{said}");
    assert_eq!(stage.pages().len(), 37);
    let (status, said) = Running::start(stage.crawl(2, &[])).end();
    assert_eq!(status, Some(0), "{said}");
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn a_budget_of_bytes_costs_no_page_that_would_have_fitted() {
    let stage = Stage::new(10, 10);
    let spent = stage.crawl_within(3, "150KB", &[]);
    let (status, said) = Running::start(spent).end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("Stopped: 150.0 KB (--max-bytes)") && !said.contains("too large"), "{said}");
    let (status, said) = Running::start(stage.crawl(2, &[])).end();
    assert_eq!(status, Some(0), "{said}");
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn one_that_is_interrupted_ends_soon_and_goes_on_later() {
    let stage = Stage::new(10, 12);
    let controller = Running::start(stage.crawl(3, &[]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(20));
    controller.signal(Signal::INT);
    let (status, said) = controller.end();
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("to resume: run the same command again"), "{said}");
    let (status, said) = Running::start(stage.crawl(3, &[])).end();
    assert_eq!(status, Some(0), "{said}");
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn two_crawls_share_a_redis_and_one_is_removed_without_the_other() {
    let stage = Stage::new(4, 5);
    let first = Running::start(stage.crawl(2, &["--crawl", "first"]));
    let mut second = stage.crawl(2, &["--crawl", "second"]);
    fs::create_dir(stage.directory.path().join("second")).unwrap();
    second.current_dir(stage.directory.path().join("second"));
    let second = Running::start(second);
    assert_eq!((first.end().0, second.end().0), (Some(0), Some(0)));
    stage.say(&["purge", "--crawl", "first"]);
    let output = finished(stage.crawler(&["status", "--crawl", "first"]));
    assert_eq!(output.status.code(), Some(1), "{:?}", texts(&output));
    assert!(texts(&output).1.contains("there is no crawl 'first'"), "{:?}", texts(&output));
    assert!(stage.say(&["status", "--crawl", "second"]).contains("Crawl 'second': finished"));
    stage.say(&["purge", "--crawl", "second"]);
    assert_eq!(stage.redis.ask::<i64>("DBSIZE"), 0);
}

#[test]
#[ignore = "needs redis-server"]
fn what_the_controller_has_in_its_environment_does_not_reach_its_workers() {
    let stage = Stage::new(3, 4);
    let mut crawl = stage.crawl(2, &[]);
    crawl.env("CRAWLER_MAX_PAGES", "2").env("CRAWLER_MODULE", "jsonl=others.jsonl");
    let (status, said) = Running::start(crawl).end();
    assert_eq!(status, Some(0), "{said}");
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn ctrl_c_at_a_terminal_which_reaches_everybody_starts_nobody_again() {
    let stage = Stage::new(10, 12);
    let controller = Running::start(stage.crawl(3, &[]));
    stage.until("some pages", |status| status["pages"].as_u64() > Some(20));
    kill_process_group(controller.pid(), Signal::INT).unwrap();
    let (status, said) = controller.end();
    assert_eq!(status, Some(130), "{said}");
    assert!(!said.contains("restarting it"), "{said}");
    assert_eq!(stage.status()["state"], "stopped");
}

#[test]
#[ignore = "needs redis-server"]
fn a_name_that_no_crawl_can_have_is_a_bad_argument() {
    let stage = Stage::new(1, 1);
    for name in ["", "a b", "{x}"] {
        let (status, said) = Running::start(stage.crawl(1, &["--crawl", name])).end();
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("cannot be the name of a crawl"), "{said}");
    }
    assert_eq!(stage.redis.ask::<i64>("DBSIZE"), 0);
}

#[test]
#[ignore = "needs redis-server"]
fn a_part_that_cannot_grow_ends_the_crawl_and_nothing_is_lost() {
    let stage = Stage::new(6, 12);
    let crawl = stage.crawl(2, &[]);
    let words = crawl.get_args().map(|word| word.to_str().unwrap().to_owned());
    let mut limited = stage.crawler(&[]);
    let program = limited.get_program().to_owned();
    limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""]).arg(program).args(words);
    limited.current_dir(stage.directory.path()).env("CRAWLER_REDIS", &stage.address);
    let (status, said) = Running::start(limited).end();
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("cannot write") && said.contains("no page is lost"), "{said}");
    let (status, said) = Running::start(stage.crawl(2, &[])).end();
    assert_eq!(status, Some(0), "{said}");
    stage.check();
}

#[test]
#[ignore = "needs redis-server"]
fn a_robots_txt_that_leads_to_another_domain_is_not_followed_there() {
    let elsewhere = Answer::redirect(301, "http://other.test/robots-of-all.txt");
    let mut stage = Stage::new(1, 1);
    let site = Site::new().answer("/robots.txt", elsewhere).answer("/", Answer::page("<title>here</title>"));
    stage.web = Web::builder().host("h0.test", site).start();
    let (status, said) = Running::start(stage.crawl(1, &[])).end();
    assert_eq!(status, Some(0), "{said}");
    let log = stage.web.log();
    assert_eq!(log.of_host("h0.test").paths(), ["/robots.txt", "/"]);
    assert!(log.of_host("other.test").is_empty(), "it may be another worker's to ask");
}
