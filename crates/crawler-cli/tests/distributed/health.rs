//! The health and metrics of roles: without a crawl, after its end, and while Redis or the network is away.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use testredis::{Mode, Proxy, ReservedPort};
use testweb::{Request, Response, Site, Web};

use super::dashboard::{INTERVAL, server_of};
use super::fixture::{Fixture, is_over};
use super::process::{Process, poll};
use crate::http::Server;

/// Any running crawl is stuck for this check: its last report was before now.
const STUCK_AT_ONCE: &str = "/healthz?stuck-after=0";

/// A time without reports that the tests wait for, and what a check with it requests.
const OUTAGE: Duration = Duration::from_secs(3);
const STUCK_IN_OUTAGE: &str = "/healthz?stuck-after=2s";

/// The value of a metric, by all of its line before the value.
fn metric(server: Server, series: &str) -> Option<f64> {
    let metrics = server.get("/metrics").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

/// The names of the families of which there are series.
fn families(server: Server) -> Vec<String> {
    let metrics = server.get("/metrics").body;
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    types.map(str::to_owned).collect()
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn roles_that_stay_are_healthy_before_and_after_their_crawl() {
    let fixture = Fixture::slow(4, 6);
    let mut roles = ["frontier", "worker"].map(|role| {
        Process::start(fixture.crawler(&[role, "--redis", "--stay", "--metrics", "127.0.0.1:0"]))
    });
    let servers = roles.each_mut().map(server_of);
    for server in servers {
        assert_eq!(server.get(STUCK_AT_ONCE).status, 200);
        poll("a check of Redis", INTERVAL, || metric(server, "crawler_redis_up") == Some(1.0));
        assert_eq!(families(server), ["crawler_build_info", "crawler_redis_up"], "there is no crawl");
        assert_eq!(server.get("/readyz").body, "there is no crawl yet\n");
    }
    for _ in 0..2 {
        // The outputs are those of the crawl before.
        fixture.submit(&fixture.seed(), &["--overwrite"]);
        for server in servers {
            poll("the crawl", INTERVAL, || metric(server, "crawler_phase{phase=\"running\"}") == Some(1.0));
        }
        fixture.wait_for_status("the end", is_over);
        for server in servers {
            poll("health after the end", INTERVAL, || server.get(STUCK_AT_ONCE).status == 200);
            assert_eq!(metric(server, "crawler_phase{phase=\"running\"}"), Some(0.0));
            poll("the result", INTERVAL, || metric(server, "crawler_phase{phase=\"ended\"}") == Some(1.0));
            assert_eq!(server.get("/readyz").body, "ended\n");
        }
        fixture.run(&["purge"]);
        for server in servers {
            poll("the next crawl to be waited for", INTERVAL, || {
                server.get("/readyz").body == "there is no crawl yet\n"
            });
            poll("no metrics of a crawl", INTERVAL, || {
                families(server) == ["crawler_build_info", "crawler_redis_up"]
            });
        }
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn roles_are_healthy_and_report_while_redis_is_away() {
    let fixture = Fixture::slow(8, 12);
    let proxy = Proxy::for_server(&fixture.redis);
    let mut processes = ["frontier", "worker"].map(|role| {
        let mut command = fixture.crawler(&[role, "--redis", "--metrics", "127.0.0.1:0"]);
        command.env("CRAWLER_REDIS", proxy.url());
        Process::start(command)
    });
    let servers = processes.each_mut().map(server_of);
    fixture.submit(&fixture.seed(), &[]);
    let mut command = fixture.crawler(&["dashboard", "--redis"]);
    command.env("CRAWLER_REDIS", proxy.url());
    let mut dashboard = Process::start(command);
    let whole = server_of(&mut dashboard);
    let members = "crawler_heartbeat_age_seconds{member=\"worker-0\"}";
    poll("heartbeats", INTERVAL, || metric(whole, members).is_some());
    for server in servers {
        poll("readiness", INTERVAL, || server.get("/readyz").status == 200);
        assert_eq!(server.get(STUCK_AT_ONCE).status, 503, "the time of the request counts");
    }
    let free = "crawler_disk_free_bytes";
    poll("the room for its part files", INTERVAL, || metric(servers[1], free) > Some(0.0));
    assert_eq!(metric(servers[0], free), None, "the frontier writes no files");
    assert_eq!(servers[0].get("/healthz?stuck-after=soon").status, 400);

    proxy.set_mode(Mode::Refuse);
    for server in servers.into_iter().chain([whole]) {
        poll("an outage", INTERVAL, || metric(server, "crawler_redis_up") == Some(0.0));
        assert_eq!(server.get("/readyz").status, 503);
    }
    assert_eq!(metric(whole, members), None, "not known now");
    proxy.set_mode(Mode::Hold);
    for server in servers.into_iter().chain([whole]) {
        // The first scrape may have to wait for a reply that does not come.
        metric(server, "crawler_redis_up");
        let started = Instant::now();
        assert_eq!(metric(server, "crawler_redis_up"), Some(0.0));
        assert!(started.elapsed() < Duration::from_millis(1_500), "an outage holds up no further scrape");
    }
    proxy.set_mode(Mode::Refuse);
    let started = metric(servers[1], "crawler_active_seconds_total");
    thread::sleep(OUTAGE);
    for server in servers {
        poll("health in the outage", INTERVAL, || server.get(STUCK_IN_OUTAGE).status == 200);
    }
    poll("reports in the outage", INTERVAL, || metric(servers[1], "crawler_active_seconds_total") > started);

    proxy.set_mode(Mode::Pass);
    for server in servers.into_iter().chain([whole]) {
        poll("the end of the outage", INTERVAL, || metric(server, "crawler_redis_up") == Some(1.0));
    }
    processes.into_iter().for_each(|process| drop(process.wait_for_success()));
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn urls_do_not_fail_while_the_network_of_all_workers_is_down() {
    const HOSTS: usize = 20;
    const PAGES: usize = 10;
    // Without kept-alive connections, each request needs the network.
    let site = Site::new().fallback(|request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        let hosts = (0..HOSTS).map(|host| format!("<a href=http://h{host}.test:{port}/>x</a>"));
        let pages = (0..PAGES).map(|page| format!("<a href=/{page}>x</a>"));
        let links: String =
            if request.authority.starts_with("start.") { hosts.collect() } else { pages.collect() };
        Response::page(format!("{} {} {links}", request.authority, request.path)).close()
    });
    let fixture = Fixture { web: Web::builder().site(site).start(), ..Fixture::new(1, 1) };
    // Nothing listens at the address of a network that is down.
    let set_network = |address: &str| {
        let hosts = (0..HOSTS).map(|host| format!("h{host}.test={address}\n")).collect::<String>();
        let new = fixture.directory.path().join("new");
        fs::write(&new, format!("start.test=127.0.0.1\n{hosts}")).unwrap();
        fs::rename(new, fixture.directory.path().join("addresses")).unwrap();
    };
    set_network("127.0.0.1");
    let seed = fixture.web.url_of("start.test", "/");
    let mut crawl = fixture.crawler(&["crawl", &seed, "--redis", &fixture.redis_url, "--workers", "2"]);
    crawl.args(["--resolve-file", "addresses", "--allow-private", "--ignore-robots", "--similarity", "0"]);
    let mut crawl = Process::start({
        crawl.args(["--delay", "200ms", "--summary", "summary.json"]);
        crawl
    });
    let mut dashboard = Process::start(fixture.crawler(&["dashboard", "--redis"]));
    let server = server_of(&mut dashboard);
    poll("requests to all hosts", INTERVAL, || fixture.web.hits() > 2 * HOSTS);
    set_network("127.0.0.77");
    poll("a network that is down", INTERVAL, || server.get("/readyz").body == "the network is down\n");
    let is_down = |text: &str| text.contains("the network has been down for");
    let is_shown = || {
        server.status()["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|warning| is_down(warning.as_str().unwrap()))
    };
    poll("the warning on the dashboard", INTERVAL, is_shown);
    poll("the network in the status", INTERVAL, || is_down(&fixture.run(&["status"])));
    poll("the metric", INTERVAL, || metric(server, "crawler_network_down_seconds") > Some(0.0));
    crawl.wait_for_output("the notices of the workers", |output| {
        output.matches("the network of this machine is down").count() == 2
    });
    set_network("127.0.0.1");
    let output = crawl.wait_for_success();
    assert!(output.contains("requests continue: the network was down for "), "{output}");
    let status = fixture.status();
    let expected = 1 + HOSTS * (PAGES + 1);
    assert_eq!((&status["pages"], &status["failed"]["total"]), (&expected.into(), &0.into()), "{status}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn worker_reports_that_its_network_is_down() {
    let fixture = Fixture::new(1, 1);
    let mut worker = Process::start(fixture.crawler(&["worker", "--redis", "--metrics", "127.0.0.1:0"]));
    let _frontier = Process::start(fixture.crawler(&["frontier", "--redis"]));
    let server = server_of(&mut worker);
    let closed = ReservedPort::new();
    let dead: Vec<String> = (0..9).map(|host| format!("http://d{host}.test:{}/", closed.number())).collect();
    let mut options: Vec<&str> = dead[1..].iter().map(String::as_str).collect();
    options.extend(["--ignore-robots", "--network-timeout", "10m"]);
    fixture.submit(&dead[0], &options);
    poll("a network that is down", INTERVAL, || metric(server, "crawler_network_down_seconds") > Some(0.0));
    assert_eq!(server.get("/readyz").body, "the network is down\n");
    assert_eq!(server.get("/healthz").status, 200, "a restart would not help");
}
