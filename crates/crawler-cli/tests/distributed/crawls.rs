//! Complete crawls with a controller.

use std::fs;
use std::time::Duration;

use rustix::process::{Signal, kill_process_group};
use serde_json::Value;
use testweb::{Response, Site, Web};

use super::fixture::Fixture;
use super::messages::RESTARTED;
use super::process::{Process, run, texts};

#[test]
#[ignore = "needs redis-server: run by make test"]
fn distributed_crawl_finds_every_page_counts_it_once_and_is_polite() {
    let fixture = Fixture::new(12, 15);
    let output = Process::start(fixture.crawl(3, &[])).wait_for_success();
    assert!(!output.contains("Stopped"), "{output}");
    assert!(output.contains("crawler collect"), "{output}");
    fixture.check();
    let summary = fs::read(fixture.directory.path().join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["pages"], fixture.status()["pages"]);
    assert_eq!(summary["requests"], fixture.web.hits(), "the access log has every request");
    assert_eq!(fixture.status()["requests"], summary["requests"]);
    assert_eq!(fixture.status()["members"], Value::Array(Vec::new()));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn processes_that_exit_because_the_crawl_is_over_are_not_restarted() {
    let fixture = Fixture::new(1, 2);
    for number in 0..10 {
        let name = format!("crawl-{number}");
        let output = Process::start(fixture.crawl(3, &["--crawl", &name, "--overwrite"])).wait_for_success();
        assert!(!output.contains("exited") && !output.contains("restarting"), "{output}");
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn health_of_the_pagerank_service_is_in_the_status_and_in_the_summary() {
    let service = Web::builder().site(Site::new().fallback(|_| Response::status(500))).start();
    let fixture = Fixture::slow(6, 12);
    let crawl = fixture.start_crawl(2, &["--pagerank-url", &service.url("")]);
    fixture.wait_for_status("the service's health", |status| status["pagerank"]["available"] == false);
    let health = "PageRank service unavailable: ";
    let status = fixture.run(&["status"]);
    assert!(status.contains("running\n") && status.contains(health), "{status}");
    fixture.run(&["stop"]);
    let output = crawl.wait_for_success();
    assert!(output.contains(health), "{output}");
    let status = fixture.run(&["status"]);
    assert!(status.contains(health), "{status}");
    let summary = fs::read(fixture.directory.path().join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["pagerank"]["last_failure"], "HTTP 500");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn finished_crawl_reports_that_and_sends_no_request() {
    let fixture = Fixture::new(3, 4);
    Process::start(fixture.crawl(2, &[])).wait_for_success();
    let hits = fixture.web.hits();
    let output = Process::start(fixture.crawl(2, &[])).wait_for_success();
    assert!(output.contains("is already finished") && output.contains("nothing to do"), "{output}");
    assert_eq!(fixture.web.hits(), hits);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn page_limit_is_exact_and_the_crawl_continues_when_it_is_raised() {
    let fixture = Fixture::new(10, 10);
    let output = Process::start(fixture.crawl(3, &["--max-pages", "37"])).wait_for_success();
    assert!(output.contains("Stopped: 37 pages (--max-pages)"), "{output}");
    assert_eq!(fixture.pages().len(), 37);
    Process::start(fixture.crawl(2, &[])).wait_for_success();
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn byte_limit_rejects_no_page_that_fits() {
    let fixture = Fixture::new(10, 10);
    let limited = fixture.crawl_with_max_bytes(3, "150KB", &[]);
    let output = Process::start(limited).wait_for_success();
    assert!(output.contains("Stopped: 150.0 KB (--max-bytes)") && !output.contains("too large"), "{output}");
    Process::start(fixture.crawl(2, &[])).wait_for_success();
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn interrupted_crawl_stops_and_can_be_resumed() {
    let fixture = Fixture::slow(10, 12);
    let controller = fixture.start_crawl(3, &[]);
    controller.signal(Signal::INT);
    let (status, output) = controller.wait();
    assert_eq!(status, Some(130), "{output}");
    assert!(output.contains("to resume: run the same command again"), "{output}");
    Process::start(fixture.crawl_again(3, &[])).wait_for_success();
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn purge_removes_one_of_two_crawls_in_a_redis() {
    let fixture = Fixture::new(4, 5);
    let first = Process::start(fixture.crawl(2, &["--crawl", "first"]));
    let mut second = fixture.crawl(2, &["--crawl", "second"]);
    fs::create_dir(fixture.directory.path().join("second")).unwrap();
    second.current_dir(fixture.directory.path().join("second"));
    let second = Process::start(second);
    first.wait_for_success();
    second.wait_for_success();
    fixture.run(&["purge", "--crawl", "first"]);
    let output = run(fixture.crawler(&["status", "--crawl", "first"]));
    assert_eq!(output.status.code(), Some(1), "{:?}", texts(&output));
    assert!(texts(&output).1.contains("there is no crawl 'first'"), "{:?}", texts(&output));
    assert!(fixture.run(&["status", "--crawl", "second"]).contains("Crawl 'second': finished"));
    fixture.run(&["purge", "--crawl", "second"]);
    assert_eq!(fixture.redis.query::<i64>("DBSIZE"), 0);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn workers_do_not_inherit_options_from_the_controllers_environment() {
    let fixture = Fixture::new(3, 4);
    let file = fixture.directory.path().join("crawler.toml");
    fs::write(&file, "user-agent = 'all/1.0'\n[worker]\nuser-agent = 'worker/1.0'\nid = 7\n").unwrap();
    let mut crawl = fixture.crawl(2, &[]);
    // All but the user agent are overridden on the command line of the controller, or do not apply to it.
    crawl.env("CRAWLER_MODULE", "jsonl=others.jsonl").env("CRAWLER_STAY", "true").env("CRAWLER_ID", "5");
    crawl.env("CRAWLER_STATE", "state").env("CRAWLER_CONFIG", &file);
    Process::start(crawl).wait_for_success();
    fixture.check();
    assert!(!fixture.directory.path().join("state").exists());
    assert!(fixture.web.log().iter().all(|hit| hit.header("user-agent") == Some("all/1.0")));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn ctrl_c_reaches_all_processes_and_none_is_restarted() {
    let fixture = Fixture::slow(10, 12);
    let controller = fixture.start_crawl(3, &[]);
    kill_process_group(controller.pid(), Signal::INT).unwrap();
    let (status, output) = controller.wait();
    assert_eq!(status, Some(130), "{output}");
    assert!(!output.contains(RESTARTED), "{output}");
    assert_eq!(fixture.status()["state"], "stopped");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn invalid_crawl_name_is_a_usage_error() {
    let fixture = Fixture::new(1, 1);
    for name in ["", "a b", "{x}"] {
        let (status, output) = Process::start(fixture.crawl(1, &["--crawl", name])).wait();
        assert_eq!(status, Some(2), "{output}");
        assert!(output.contains("cannot be the name of a crawl"), "{output}");
    }
    assert_eq!(fixture.redis.query::<i64>("DBSIZE"), 0);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn output_file_that_cannot_grow_stops_the_crawl_and_nothing_is_lost() {
    let fixture = Fixture::new(6, 12);
    let crawl = fixture.crawl(2, &[]);
    let words = crawl.get_args().map(|word| word.to_str().unwrap().to_owned());
    let mut limited = fixture.crawler(&[]);
    let program = limited.get_program().to_owned();
    limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""]).arg(program).args(words);
    limited.current_dir(fixture.directory.path()).env("CRAWLER_REDIS", &fixture.redis_url);
    let (status, output) = Process::start(limited).wait();
    assert_eq!(status, Some(3), "{output}");
    assert!(output.contains("cannot write") && output.contains("no page is lost"), "{output}");
    Process::start(fixture.crawl(2, &[])).wait_for_success();
    fixture.check();
}

/// Hosts `h0.test`, `h1.test` … whose robots.txt redirect to that of `other.test`, which has pages that link to each other.
fn web_with_robots_txt_elsewhere(hosts: usize, pages: usize, padding: &str) -> Web {
    let here = || {
        Site::new().fallback(move |request| match request.path.as_str() {
            "/robots.txt" => {
                let origin = request.origin();
                let port = origin.rsplit(':').next().unwrap_or("80");
                Response::redirect(301, &format!("http://other.test:{port}/robots.txt"))
            }
            "/" => Response::page("<a href=/no>no</a><a href=/yes>yes</a><a href=/1>1</a><a href=/2>2</a>"),
            path => Response::page(path.to_owned()),
        })
    };
    let robots = format!("User-agent: *\nDisallow: /no\n{padding}");
    let other = Site::new().robots(robots).fallback(move |_| {
        Response::page((0..pages).map(|n| format!("<a href=/{n}>{n}</a>")).collect::<String>())
    });
    let web = Web::builder().host("other.test", other);
    (0..hosts).fold(web, |web, n| web.host(&format!("h{n}.test"), here())).start()
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn robots_txt_redirect_to_another_domain_is_followed_and_obeyed() {
    let mut fixture = Fixture::new(1, 1);
    fixture.web = web_with_robots_txt_elsewhere(1, 0, "");
    Process::start(fixture.crawl(1, &[])).wait_for_success();
    let log = fixture.web.log();
    let here = log.for_host("h0.test");
    let mut here = here.paths();
    here.sort_unstable();
    assert_eq!(here, ["/", "/1", "/2", "/robots.txt", "/yes"]);
    assert_eq!(log.for_host("other.test").paths(), ["/robots.txt"]);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn robots_txt_redirect_to_a_domain_of_another_worker_is_followed_by_that_worker() {
    // The first file is too long to be stored for the other worker.
    let padding = "# padding\n".repeat(7_000);
    for (per_host, pages, padding) in [("1", 30, padding.as_str()), ("3", 20, "")] {
        let mut fixture = Fixture { delay: Duration::from_millis(100), ..Fixture::new(1, 1) };
        let hosts = 6;
        fixture.web = web_with_robots_txt_elsewhere(hosts, pages, padding);
        let other = fixture.web.url_of("other.test", "/0");
        let mut crawl =
            fixture.crawler(&["crawl", &other, "--workers", "2", "--per-host", per_host, "--redis"]);
        crawl.arg(&fixture.redis_url).args(fixture.options());
        let crawl = Process::start(crawl);
        fixture.wait_for_pages(2);
        let seeds: Vec<String> = (0..hosts)
            .flat_map(|n| ["/", "/1", "/2"].map(|path| fixture.web.url_of(&format!("h{n}.test"), path)))
            .collect();
        fixture.submit(&seeds[0], &seeds[1..].iter().map(String::as_str).collect::<Vec<_>>());
        crawl.wait_for_success();
        let log = fixture.web.log();
        let robots_txt = (0..hosts).map(|n| {
            let here = log.for_host(&format!("h{n}.test"));
            assert_eq!(
                (here.for_path("/yes").len(), here.for_path("/no").len()),
                (1, 0),
                "{:?}",
                here.paths()
            );
            let robots_txt = here.for_path("/robots.txt").len();
            assert!(robots_txt <= 3, "the host moved {robots_txt} times: {:?}", here.paths());
            robots_txt
        });
        let (robots_txt, other) = (robots_txt.sum::<usize>(), log.for_host("other.test"));
        assert!(other.len() > pages);
        if per_host == "1" {
            assert!(robots_txt > hosts, "a host was transferred to the worker of other.test");
            // With several requests in flight, a busy server can read two requests closer together than they were sent.
            assert!(other.smallest_gap().unwrap() >= fixture.delay, "{:?}", other.smallest_gap());
        }
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn delay_separates_the_starts_of_concurrent_requests() {
    let delay = Duration::from_millis(200);
    let links: String = (0..8).map(|n| format!("<a href=/{n}>{n}</a>")).collect();
    let slow =
        |request: &testweb::Request| Response::page(request.path.clone()).delay(Duration::from_millis(500));
    let site = Site::new().page("/", links).fallback(slow);
    let fixture = Fixture { web: Web::builder().host("h0.test", site).start(), delay, ..Fixture::new(1, 1) };
    Process::start(fixture.crawl(2, &["--per-host", "3", "--ignore-robots"])).wait_for_success();
    let log = fixture.web.log();
    assert_eq!(log.len(), 9);
    assert!((2..=3).contains(&log.max_concurrent()), "{}", log.max_concurrent());
    // The server of a busy machine sees some requests later than others.
    let gap = log.smallest_start_gap().unwrap();
    assert!(gap + Duration::from_millis(80) >= delay, "{gap:?}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_at_its_page_limit_sends_no_request() {
    let fixture = Fixture::new(4, 6);
    let crawl = || Process::start(fixture.crawl(2, &["--max-pages", "9"])).wait_for_success();
    crawl();
    let hits = fixture.web.hits();
    crawl();
    assert_eq!(fixture.web.hits(), hits);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn seeds_are_not_dropped_and_links_of_duplicates_are_followed_on_request() {
    let text: String = (0..300).map(|word| format!("word{word} ")).collect();
    let link = |to: &str| format!("<a href={to}>x</a>");
    let site = Site::new()
        .page("/one", link("/two") + &text)
        .page("/seed", link("/two") + &text)
        .page("/two", link("/two") + &link("/three") + &text)
        .page("/three", "the end");
    let fixture = Fixture { web: Web::builder().host("h0.test", site).start(), ..Fixture::new(1, 1) };
    let [one, seed] = ["/one", "/seed"].map(|path| fixture.web.url_of("h0.test", path));
    for (name, more, outcomes) in
        [("dropped", &[][..], (2, 1)), ("followed", &["--follow-duplicates"], (3, 1))]
    {
        let mut crawl =
            fixture.crawler(&["crawl", &one, &seed, "--redis", &fixture.redis_url, "--workers", "2"]);
        crawl.args(["--crawl", name, "--delay", "0", "--allow-private", "--resolve", "*=127.0.0.1"]);
        crawl.args(["--summary", "summary.json"]).args(more);
        Process::start(crawl).wait_for_success();
        let summary = fs::read(fixture.directory.path().join("summary.json")).unwrap();
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        let near_duplicates = &summary["skipped"]["by_reason"]["near-duplicate"];
        assert_eq!((&summary["pages"], near_duplicates), (&outcomes.0.into(), &outcomes.1.into()), "{name}");
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn later_worker_does_not_follow_a_public_seed_to_a_private_address() {
    let fixture = Fixture::new(1, 1);
    let file = fixture.directory.path().join("addresses");
    let url = fixture.web.url_of("h0.test", "/");
    let crawl = |max_time: &str| {
        let mut command = fixture.crawler(&["crawl", &url, "--redis", &fixture.redis_url, "--workers", "1"]);
        command.args(["--delay", "4s", "--ignore-robots", "--connect-timeout", "100ms"]);
        command.args(["--max-time", max_time]);
        command.arg("--resolve-file").arg(&file);
        Process::start(command).wait().1
    };
    fs::write(&file, "h0.test=1.1.1.1").unwrap();
    // The retry waits for the delay, so that the crawl stops before it.
    let stopped = crawl("900ms");
    assert!(stopped.contains("Not reached"), "{stopped}");
    fs::write(&file, "h0.test=127.0.0.1").unwrap();
    let resumed = crawl("50s");
    assert!(resumed.contains("private address 1"), "{resumed}");
    assert_eq!(fixture.web.hits(), 0);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn query_parameters_are_removed_by_all_processes() {
    let site = Site::new()
        .page("/", "<a href='/a?utm_source=1'>a</a><a href='/a?sid=2'>a</a>")
        .page("/a", "<a href='/?sid=3'>up</a><a href=/from>b</a>")
        .redirect("/from", "/b?gclid=4")
        .page("/b", "b");
    let fixture = Fixture { web: Web::builder().host("a.test", site).start(), ..Fixture::new(1, 1) };
    let seed = fixture.web.url_of("a.test", "/?sid=0");
    let options = fixture.options();
    let mut crawl = fixture.crawler(&["crawl", &seed, "--redis", "--workers", "2", "--ignore-robots"]);
    crawl.args(&options).args(["--strip-query", "tracking", "--strip-query", "sid"]);
    Process::start(crawl).wait_for_success();
    let requested = ["/", "/a", "/from", "/b"];
    assert_eq!(fixture.web.log().paths(), requested);
    let submitted = run(fixture.crawler(&["submit", &fixture.web.url_of("a.test", "/b?sid=9")]));
    assert!(texts(&submitted).0.contains("restarted crawl"), "{:?}", texts(&submitted));
    let roles = ["frontier", "worker"].map(|role| Process::start(fixture.crawler(&[role])));
    roles.into_iter().for_each(|role| drop(role.wait_for_success()));
    assert_eq!(fixture.web.log().paths(), requested, "the seed was seen before");
}
