//! Changes of a distributed crawl while it runs: its processes apply them in place, none of them leaves or restarts.

use std::thread;
use std::time::Duration;

use crawler::internal::backend::redis::RedisCrawl;
use crawler::internal::distributed::SharedCrawl;
use crawler::internal::distributed::remote::RemoteCrawl;
use crawler::internal::live_settings::{ControlAction, ControlError};
use serde_json::Value;
use testweb::{Request, Response, Site, Web};

use super::fixture::{Fixture, is_over};
use super::messages::{DECLARED_DEAD, RESTARTED};
use super::process::{Process, wait_for};

/// A change reaches all processes within one heartbeat, which is at most a second.
const HEARTBEATS: Duration = Duration::from_millis(1_500);

/// Changes the crawl of a fixture.
fn apply(fixture: &Fixture, action: ControlAction) -> Result<String, ControlError> {
    let shared = SharedCrawl::new(RedisCrawl::new(fixture.redis_url.parse().unwrap(), "crawl"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { RemoteCrawl::attach(&shared).await.unwrap().control(action).await })
}

/// A site with this many pages, each with links to the next ones.
fn chain(pages: usize) -> Site {
    Site::new().robots("User-agent: *\nDisallow: /no").fallback(move |request: &Request| {
        let number: usize = request.path.trim_start_matches('/').parse().unwrap_or(0);
        let links = (number + 1..pages.min(number + 9)).map(|next| format!("<a href=/{next}>x</a>"));
        Response::page(format!("page {number} of {} {}", request.authority, links.collect::<String>()))
    })
}

/// A web of hosts with chains of pages.
fn chains(hosts: &[(&str, usize)]) -> Fixture {
    let web = hosts.iter().fold(Web::builder(), |web, (host, pages)| web.host(host, chain(*pages)));
    Fixture { web: web.start(), delay: Duration::from_millis(100), ..Fixture::new(1, 1) }
}

/// A controller that crawls from the first page of a host.
fn crawl(fixture: &Fixture, host: &str, more: &[&str]) -> Process {
    let mut crawl = fixture.crawler(&["crawl", &fixture.web.url_of(host, "/0"), "--redis"]);
    crawl.arg(&fixture.redis_url).args(fixture.options()).args(["--scope", "host"]).args(more);
    Process::start(crawl)
}

/// The processes of the crawl.
fn processes(fixture: &Fixture) -> Vec<(String, i64)> {
    let status = fixture.status();
    let members = status["members"].as_array().unwrap().iter();
    members.map(|member| (member["role"].to_string(), member["pid"].as_i64().unwrap())).collect()
}

/// How many URLs were skipped because their host is blocked. Their worker knows of the block.
fn blocked(status: &Value) -> u64 {
    status["skipped"]["by_reason"]["blocked"].as_u64().unwrap_or_default()
}

/// Waits until no request has come for several heartbeats and delays.
fn wait_until_silent(fixture: &Fixture) -> usize {
    let mut hits = 0;
    wait_for("a crawl without requests", || {
        let before = std::mem::replace(&mut hits, fixture.web.hits());
        thread::sleep(HEARTBEATS);
        before == hits && fixture.web.hits() == hits
    });
    hits
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn submitted_seeds_extend_the_scope_of_running_processes() {
    for scope in ["host", "prefix"] {
        let fixture = chains(&[("a.test", 40), ("b.test", 6), ("c.test", 1)]);
        let list = fixture.directory.path().join("seeds.txt");
        std::fs::write(&list, fixture.web.url_of("c.test", "/")).unwrap();
        let mut crawl = fixture.crawler(&["crawl", &fixture.web.url_of("a.test", "/"), "--redis"]);
        crawl.arg(&fixture.redis_url).args(fixture.options()).args(["--scope", scope, "--workers", "1"]);
        let crawl = Process::start(crawl);
        fixture.wait_for_pages(3);
        let before = processes(&fixture);
        let output = fixture.submit(&fixture.web.url_of("b.test", "/"), &[]);
        assert!(output.contains("added 1 URL"), "{output}");
        fixture.run(&["submit", "--seeds", list.to_str().unwrap()]);
        fixture.wait_for_status("the pages of b.test and c.test", |_| {
            let log = fixture.web.log();
            log.for_host("b.test").len() == 7 && log.for_host("c.test").len() == 2
        });
        assert_eq!(processes(&fixture), before, "no process left");
        let output = crawl.wait_for_success();
        assert!(!output.contains(RESTARTED), "{output}");
        let log = fixture.web.log();
        for host in ["a.test", "b.test", "c.test"] {
            assert_eq!(log.for_host(host).for_path("/robots.txt").len(), 1, "{scope}: {host}");
        }
        let pages = fixture.pages();
        assert_eq!(pages.len(), fixture.status()["pages"].as_u64().unwrap() as usize);
        assert!(pages.contains(&fixture.web.url_of("b.test", "/5")), "{pages:?}");
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn pause_outlives_a_killed_frontier_and_holds_for_workers_that_join() {
    let fixture = Fixture::slow(8, 12);
    let controller = fixture.start_crawl(2, &["--dead-after", "5s", "--max-time", "100s"]);
    fixture.wait_for_pages(4);
    assert!(apply(&fixture, ControlAction::Pause).unwrap().contains("paused"));
    let hits = wait_until_silent(&fixture);
    fixture.kill("frontier");
    let third = Process::start(fixture.crawler(&["worker"]));
    fixture.wait_for_status("another frontier and a third worker", |status| {
        let members = status["members"].as_array().unwrap();
        let is_alive =
            |role: &str| members.iter().any(|member| member["role"] == role && member["dead"] == false);
        is_alive("frontier") && is_alive("worker 2")
    });
    thread::sleep(2 * HEARTBEATS);
    assert_eq!(fixture.web.hits(), hits, "a paused crawl sends no request");
    let elapsed = |fixture: &Fixture| fixture.status()["elapsed_seconds"].as_f64().unwrap();
    let before = elapsed(&fixture);
    thread::sleep(2 * HEARTBEATS);
    assert!(elapsed(&fixture) - before < 1.0, "the time of a paused crawl stands still");
    assert!(apply(&fixture, ControlAction::Unpause).unwrap().contains("continues"));
    let output = controller.wait_for_success();
    assert!(!output.contains(DECLARED_DEAD), "{output}");
    third.wait_for_success();
    fixture.check();
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn delay_and_budgets_change_while_the_crawl_runs() {
    let fixture = chains(&[("a.test", 60)]);
    let controller = crawl(&fixture, "a.test", &["--workers", "1", "--max-pages", "5"]);
    fixture.wait_for_pages(1);
    apply(&fixture, ControlAction::SetMaxPages(1_000)).unwrap();
    fixture.wait_for_pages(8);
    let raised = Duration::from_millis(700);
    apply(&fixture, ControlAction::SetDelay(raised)).unwrap();
    let latest_gaps = |count: usize| {
        let log = fixture.web.log();
        let latest: Vec<_> = log.iter().skip(log.len().saturating_sub(count + 1)).collect();
        latest.windows(2).map(|pair| pair[1].started - pair[0].started).collect::<Vec<_>>()
    };
    wait_for("the raised delay", || latest_gaps(1)[0] >= raised);
    let before = fixture.web.hits();
    wait_for("slow requests", || fixture.web.hits() > before + 3);
    assert!(latest_gaps(fixture.web.hits() - before).iter().all(|gap| *gap >= raised));
    apply(&fixture, ControlAction::SetDelay(fixture.delay)).unwrap();
    let used = fixture.status()["pages"].as_u64().unwrap();
    apply(&fixture, ControlAction::SetMaxPages(used + 4)).unwrap();
    controller.wait_for_success();
    let status = fixture.status();
    let pages = status["pages"].as_u64().unwrap();
    assert!(status["state"] == "stopped" && pages <= used + 20, "{status}");
    let error = apply(&fixture, ControlAction::Pause).unwrap_err();
    assert_eq!(error, ControlError::NotRunning("cannot pause the crawl: no process runs it".into()));
    let (status, output) = Process::start(fixture.crawler(&["pause", "--redis", &fixture.redis_url])).wait();
    assert_eq!(status, Some(1), "{output}");
    let resume = "crawler: cannot pause the crawl: no process runs it; to resume it: crawler crawl URL --redis <URL> --crawl crawl";
    assert_eq!(output.trim_end(), resume);
    assert!(apply(&fixture, ControlAction::AddSeed("http://b.test/".into())).is_err());

    // A new run has the limits of its command again.
    crawl(&fixture, "a.test", &["--workers", "1", "--max-pages", "1000"]).wait_for_success();
    assert_eq!(fixture.status()["pages"], 60);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn hosts_are_blocked_and_seeds_added_while_the_crawl_runs() {
    let fixture = chains(&[("a.test", 50), ("b.test", 40), ("c.test", 6)]);
    let b = fixture.web.url_of("b.test", "/0");
    let controller = crawl(&fixture, "a.test", &[&b, "--workers", "2"]);
    wait_for("requests of b.test", || fixture.web.log().for_host("b.test").len() > 4);
    let before = processes(&fixture);
    let host = format!("b.test:{}", fixture.web.port());
    apply(&fixture, ControlAction::BlockHost(host)).unwrap();
    let added = apply(&fixture, ControlAction::AddSeed(fixture.web.url_of("c.test", "/"))).unwrap();
    assert!(added.starts_with("Added the seed"), "{added}");
    for action in [
        ControlAction::AddSeed(b),
        ControlAction::AddSeed("http://me:secret@c.test/".into()),
        ControlAction::BlockPattern("(".into()),
        ControlAction::SetDelay(Duration::from_secs(1 << 30)),
    ] {
        let error = apply(&fixture, action).unwrap_err();
        let ControlError::Failed(error) = error else { panic!("{error:?}") };
        assert!(error.starts_with("cannot ") && !error.contains("secret"), "{error}");
    }
    fixture.wait_for_status("blocked URLs", |status| blocked(status) > 0);
    let requests = fixture.web.log().for_host("b.test").len();
    assert_eq!(processes(&fixture), before, "no process left");
    controller.wait_for_success();
    let log = fixture.web.log();
    // One was in flight.
    assert!(log.for_host("b.test").len() <= requests + 1, "{requests}");
    assert_eq!(log.for_host("c.test").len(), 7, "robots.txt and six pages");
    let status = fixture.status();
    assert!(is_over(&status) && status["pending"] == 0, "{status}");
    let count = |value: &Value| value.as_u64().unwrap();
    assert_eq!(count(&status["pages"]) + count(&status["skipped"]["total"]), count(&status["admitted"]));
}

/// Two hosts of a site. The first page of `www` links to its other ones, and to many pages of `other`.
fn site_of_two_hosts(many: usize) -> Site {
    Site::new().robots("User-agent: *\nDisallow: /no").fallback(move |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        let link = |(host, number)| format!("<a href=http://{host}.site.test:{port}/p/{number}>x</a>");
        let links = (0..20).map(|number| ("www", number)).chain((0..many).map(|number| ("other", number)));
        let links = if request.path == "/" { links.map(link).collect() } else { String::new() };
        Response::page(format!("{} {} {links}", request.authority, request.path))
    })
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn many_urls_of_a_blocked_host_wait_for_no_delay_and_the_block_outlives_the_frontier() {
    // With a quarter of a second for each of them, the crawl would take half an hour.
    let many = 8_000;
    let web = Web::builder().site(site_of_two_hosts(many)).start();
    let fixture = Fixture { web, delay: Duration::from_secs(1), ..Fixture::new(1, 1) };
    let mut command = fixture.crawler(&["crawl", &fixture.web.url_of("www.site.test", "/"), "--redis"]);
    command.arg(&fixture.redis_url).args(fixture.options()).args(["--workers", "2", "--max-pages", "100000"]);
    let controller = Process::start(command);
    wait_for("pages of the other host", || fixture.web.log().for_host("other.site.test").len() > 2);
    let host = format!("other.site.test:{}", fixture.web.port());
    apply(&fixture, ControlAction::BlockHost(host)).unwrap();
    fixture.kill("frontier");
    fixture.wait_for_status("blocked URLs", |status| blocked(status) > 0);
    let requests = fixture.web.log().for_host("other.site.test").len();
    controller.wait_for_success();
    assert!(fixture.web.log().for_host("other.site.test").len() <= requests + 1, "one was in flight");
    // A worker that the site moves to, when it waits for URLs, requests robots.txt again.
    let log = fixture.web.log().for_host("www.site.test");
    assert_eq!(log.filter(|hit| hit.path != "/robots.txt").len(), 21, "all pages, each once");
    assert!((1..=2).contains(&log.for_path("/robots.txt").len()));
    let status = fixture.status();
    assert!(is_over(&status) && status["pending"] == 0, "{status}");
    assert!(blocked(&status) as usize + requests > many, "{status}");
    let url = fixture.web.url_of("other.site.test", &format!("/p/{}", many - 1));
    let why = fixture.run(&["why", &url, "--redis", &fixture.redis_url]);
    assert!(why.contains("outcome: blocked while the crawl ran"), "{why}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn pages_in_flight_beyond_a_lowered_limit_are_in_no_output_until_the_limit_is_raised() {
    // All are in flight when the limit is lowered.
    let hosts = 12;
    let slow = |request: &Request| {
        Response::page(format!("a page of {}", request.authority)).delay(Duration::from_secs(5))
    };
    let names: Vec<String> = (0..hosts).map(|host| format!("h{host}.test")).collect();
    let web = names.iter().fold(Web::builder(), |web, name| web.host(name, Site::new().fallback(slow)));
    let fixture = Fixture { web: web.start(), ..Fixture::new(1, 1) };
    let seeds: Vec<String> = names[1..].iter().map(|name| fixture.web.url_of(name, "/0")).collect();
    let options: Vec<&str> = seeds.iter().map(String::as_str).chain(["--ignore-robots"]).collect();
    let with = |max_pages| [&options[..], &["--workers", "2", "--max-pages", max_pages]].concat();
    let controller = crawl(&fixture, "h0.test", &with("100"));
    wait_for("requests to all hosts", || fixture.web.hits() == hosts);
    let lowered = fixture.run(&["change", "--redis", &fixture.redis_url, "--set-max-pages", "3"]);
    assert_eq!(lowered, "The maximum number of pages is 3.\n");
    controller.wait_for_success();
    let status = fixture.status();
    assert_eq!((&status["pages"], &status["state"]), (&3.into(), &"stopped".into()), "{status}");
    assert_eq!(fixture.pages().len(), 3, "the part files have only what counts");

    crawl(&fixture, "h0.test", &with("100")).wait_for_success();
    assert_eq!(fixture.status()["pages"], hosts);
    assert_eq!(fixture.pages().len(), hosts, "each page once");
}
