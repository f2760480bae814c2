//! The dashboard and the metrics of distributed crawls.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use testredis::{Mode, Proxy};
use testweb::{Request, Response, Site, Web};

use super::fixture::Fixture;
use super::process::{Process, poll};
use super::terminal::Terminal;
use crate::http::Server;

/// How often the server is asked.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// The server that a process has announced.
pub fn server_of(process: &mut Process) -> Server {
    let is_announced = |output: &str| output.contains(": http://127.0.0.1:") && output.ends_with('\n');
    process.wait_for_output("the address", is_announced);
    Server::announced(&process.output())
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn dashboard_shows_all_workers_of_a_crawl_and_its_end() {
    let fixture = Fixture::slow(8, 12);
    let crawl = fixture.start_crawl(3, &["--dashboard"]);
    let mut dashboard = Process::start(fixture.crawler(&["dashboard", "--redis"]));
    let server = server_of(&mut dashboard);
    poll("all workers", INTERVAL, || {
        let status = server.status();
        let workers = status["workers"].as_array().unwrap();
        workers.len() == 3
            && workers.iter().all(|worker| worker["state"] == "alive" && worker["location"].is_string())
            && status["frontier"]["leader"]["state"] == "alive"
            && status["redis"]["rtt_ms"].as_f64() > Some(0.0)
    });
    let status = server.status();
    assert_eq!(
        (&status["mode"], &status["phase"], &status["can_act"]),
        (&"redis".into(), &"running".into(), &true.into())
    );
    poll("requests of the workers", INTERVAL, || {
        let metrics = server.get("/metrics").body;
        let has = |name: &str| metrics.lines().any(|line| line.starts_with(name) && !line.ends_with(" 0"));
        has("crawler_responses_total{class=\"2xx\"}")
            && has("crawler_members{state=\"alive\"} 4")
            && has("crawler_redis_up")
    });
    let seed = fixture.seed();
    poll("an answer about the seed", INTERVAL, || {
        server.get(&format!("/api/why?url={seed}")).body.contains("outcome: page")
    });
    assert_eq!(server.act(&json!({"action": "block-host", "value": "blocked.test"})).status, 200);
    poll("the blocked host", INTERVAL, || server.status()["blocked"] == json!(["blocked.test"]));
    crawl.wait_for_success();
    poll("the end", INTERVAL, || {
        let status = server.status();
        status["phase"] == "ended"
            && status["can_act"] == false
            && status["totals"]["pages"].as_u64() > Some(20)
    });
    assert!(dashboard.is_running(), "it runs until it is stopped");
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_is_stopping_until_its_last_requests_are_completed() {
    let site = Site::new().fallback(|request: &Request| match request.path.as_str() {
        "/" => Response::page((0..9).map(|page| format!("<a href=/{page}>x</a>")).collect::<String>()),
        _ => Response::page(request.path.clone()).delay(Duration::from_secs(10)),
    });
    let fixture = Fixture { web: Web::builder().site(site).start(), ..Fixture::new(1, 1) };
    let mut dashboard = Process::start(fixture.crawler(&["dashboard", "--redis"]));
    let server = server_of(&mut dashboard);
    let seed = fixture.web.url_of("a.test", "/");
    let mut crawl = fixture.crawler(&["crawl", &seed, "--redis", &fixture.redis_url, "--workers", "1"]);
    crawl.args(fixture.options()).args(["--ignore-robots", "--max-pages", "100000"]);
    let mut terminal = Terminal::run(&crawl, 80, 30);
    poll("requests in flight", INTERVAL, || fixture.web.hits() > 1);
    terminal.until("the lines", |screen| screen.has("pages/s"));
    fixture.run(&["stop"]);
    poll("the phase", INTERVAL, || server.status()["phase"] == "stopping");
    assert!(server.get("/metrics").body.contains("\ncrawler_phase{phase=\"stopping\"} 1\n"));
    assert_eq!(server.get("/readyz").body, "stopping\n");
    let status = fixture.run(&["status"]);
    assert!(status.starts_with("Crawl 'crawl': stopping\n"), "{status}");
    terminal.until("the phase", |screen| screen.has("stopping"));
    let (status, screen) = terminal.wait();
    assert_eq!(status, Some(0), "{}", screen.text());
    poll("the end", INTERVAL, || server.status()["phase"] == "ended");
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("\ncrawler_ended{reason=\"request\"} 1\n"), "{metrics}");
    assert_eq!(server.status()["totals"]["pages"], fixture.status()["pages"]);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_is_ready_while_a_frontier_and_a_worker_run_it() {
    let fixture = Fixture::slow(4, 40);
    let mut dashboard = Process::start(fixture.crawler(&["dashboard", "--redis"]));
    let server = server_of(&mut dashboard);
    let ready = |what: &str| poll(what, INTERVAL, || server.get("/readyz").body == format!("{what}\n"));
    fixture.submit(&fixture.seed(), &["--dead-after", "2s"]);
    ready("no process of the crawl is running");
    let frontier = Process::start(fixture.crawler(&["frontier"]));
    ready("no worker is running");
    let worker = Process::start(fixture.crawler(&["worker"]));
    ready("ok");
    frontier.signal(Signal::KILL);
    ready("no frontier is running");
    assert_eq!(server.get("/healthz").status, 200, "a restart would not help");
    let frontier = Process::start(fixture.crawler(&["frontier"]));
    ready("ok");
    worker.signal(Signal::KILL);
    ready("no worker is running");
    drop(frontier);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_is_ready_unless_redis_cannot_be_reached() {
    let fixture = Fixture::slow(8, 12);
    let proxy = Proxy::for_server(&fixture.redis);
    let role = |arguments: &[&str]| {
        let mut command = fixture.crawler(arguments);
        command.env("CRAWLER_REDIS", proxy.url());
        Process::start(command)
    };
    let mut frontier = role(&["frontier", "--redis", "--metrics", "127.0.0.1:0"]);
    let mut worker = role(&["worker", "--redis", "--metrics", "127.0.0.1:0"]);
    let (frontier_server, server) = (server_of(&mut frontier), server_of(&mut worker));
    assert_eq!(
        (server.get("/healthz").status, server.get("/readyz").status),
        (200, 503),
        "the crawl has not started"
    );
    fixture.submit(&fixture.seed(), &[]);
    for server in [server, frontier_server] {
        poll("readiness", INTERVAL, || server.get("/readyz").status == 200);
    }
    poll("requests", INTERVAL, || {
        let metrics = server.get("/metrics").body;
        metrics.lines().any(|line| line.starts_with("crawler_requests_total ") && !line.ends_with(" 0"))
    });
    assert!(!server.get("/metrics").body.contains("crawler_pages_total"), "those of its own requests only");
    assert!(frontier_server.get("/metrics").body.contains("crawler_urls_pending"));
    proxy.set_mode(Mode::Refuse);
    poll("an outage", INTERVAL, || server.get("/readyz").status == 503);
    assert_eq!(server.get("/healthz").status, 200, "a restart would not help");
    proxy.set_mode(Mode::Pass);
    poll("the end of the outage", INTERVAL, || server.get("/readyz").status == 200);
    let (worker, frontier) = (worker.wait_for_success(), frontier.wait_for_success());
    assert!(!worker.contains("panicked") && !frontier.contains("panicked"));
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn dashboard_waits_for_its_crawl_and_for_the_next_one_after_a_purge() {
    let fixture = Fixture::new(3, 4);
    let mut dashboard = Process::start(fixture.crawler(&["dashboard", "--redis"]));
    let server = server_of(&mut dashboard);
    assert!(dashboard.output().contains("waiting for the crawl 'crawl' to start"), "{}", dashboard.output());
    let is_waiting = || {
        let (status, metrics) = (server.status(), server.get("/metrics").body);
        let series: Vec<&str> = metrics.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!((server.get("/healthz").status, server.get("/readyz").status), (200, 503));
        status["phase"] == "waiting"
            && status["warnings"][0].as_str().is_some_and(|first| first.starts_with("there is no crawl"))
            && series.len() == 2
            && series[0].starts_with("crawler_build_info{")
            && series[1] == "crawler_redis_up 1"
    };
    assert!(is_waiting(), "{}{}", server.status(), server.get("/metrics").body);
    for _ in 0..2 {
        // The outputs are those of the crawl before.
        fixture.submit(&fixture.seed(), &["--overwrite"]);
        let roles = ["frontier", "worker"].map(|role| Process::start(fixture.crawler(&[role, "--redis"])));
        poll("the end of the crawl", INTERVAL, || server.status()["phase"] == "ended");
        assert!(server.get("/metrics").body.contains("\ncrawler_phase{phase=\"ended\"} 1\n"));
        roles.into_iter().for_each(|role| drop(role.wait_for_success()));
        fixture.run(&["purge"]);
        poll("the next crawl to be waited for", INTERVAL, is_waiting);
    }
    assert!(dashboard.is_running());
}
