//! The delay of a site over Redis: it holds while domains move between workers, and when workers are killed.

use std::collections::BTreeSet;
use std::time::Duration;

use testweb::{Log, Request, Response, Site, Web};

use super::fixture::{Fixture, members};
use super::process::{Process, wait_for};

/// The delay of a site, a quarter of the delay of a host.
const SITE_DELAY: Duration = Duration::from_millis(300);

/// How late the server may log the start of a request on a busy machine. Less than the delay, so that one request without it is noticed.
const LATE: Duration = Duration::from_millis(250);

const SITES: usize = 4;
const HOSTS: usize = 4;

/// A web of some sites with some hosts each, where each page links to all pages of all hosts.
fn fixture(pages: usize) -> Fixture {
    let site = Site::new().fallback(move |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        let urls = (0..SITES * HOSTS * pages).map(|number| {
            let (site, host, page) = (number % SITES, number / SITES % HOSTS, number / SITES / HOSTS);
            format!("http://w{host}.site{site}.test:{port}/{page}")
        });
        let links: String = urls.map(|url| format!("<a href={url}>{url}</a> ")).collect();
        match request.path.as_str() {
            "/robots.txt" => Response::status(404),
            path => Response::page(format!("{} {path} {links}", request.authority)),
        }
    });
    let mut fixture = Fixture::new(1, 1);
    fixture.web = Web::builder().site(site).start();
    fixture.delay = 4 * SITE_DELAY;
    fixture
}

/// Checks that all pages are there, and that no site got a request too early.
fn check(fixture: &Fixture, pages: usize) {
    let log = fixture.web.log();
    for site in 0..SITES {
        let of_site: Log = log.filter(|hit| hit.host.ends_with(&format!("site{site}.test")));
        assert!(of_site.len() >= HOSTS * (pages + 1), "{} requests to site {site}", of_site.len());
        let earliness = of_site.earliness(SITE_DELAY);
        assert!(earliness <= LATE, "a request to site {site} was {earliness:?} early");
    }
    assert_eq!(fixture.pages().len(), SITES * HOSTS * pages);
}

fn seed(fixture: &Fixture) -> String {
    fixture.web.url_of("w0.site0.test", "/0")
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn site_delay_holds_while_domains_move() {
    let fixture = fixture(20);
    fixture.submit(&seed(&fixture), &[]);
    let worker = |name: &str| Process::start(fixture.crawler(&["worker", "--user-agent", name]));
    let frontier = Process::start(fixture.crawler(&["frontier"]));
    let first = worker("first");
    wait_for("requests to all sites", || fixture.web.hits() > SITES * HOSTS);
    let second = worker("second");
    for role in [frontier, first, second] {
        role.wait_for_success();
    }
    check(&fixture, 20);
    let log = fixture.web.log();
    let workers: BTreeSet<_> = log.iter().map(|hit| hit.header("user-agent").map(str::to_owned)).collect();
    assert_eq!(workers.len(), 2, "no domain has moved");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn site_delay_holds_when_a_worker_is_killed() {
    let fixture = fixture(6);
    let mut command = fixture.crawler(&["crawl", &seed(&fixture), "--redis", &fixture.redis_url]);
    command.args(fixture.options()).args(["--workers", "2", "--dead-after", "3s"]);
    let controller = Process::start(command);
    wait_for("some requests", || fixture.web.hits() > SITES * HOSTS);
    fixture.wait_for_status("all members", |status| members(status) >= 3);
    fixture.kill("worker 1");
    let before = fixture.web.hits();
    wait_for("more requests", || fixture.web.hits() > before + SITES * HOSTS / 2);
    fixture.kill("worker 0");
    controller.wait_for_success();
    check(&fixture, 6);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn pages_of_a_site_are_limited_exactly_over_all_its_hosts() {
    let mut fixture = fixture(6);
    fixture.delay = Duration::from_millis(20);
    let mut command = fixture.crawler(&["crawl", &seed(&fixture), "--redis", &fixture.redis_url]);
    command.args(fixture.options()).args(["--workers", "3", "--max-pages-per-site", "7"]);
    Process::start(command).wait_for_success();
    let pages = fixture.pages();
    for site in 0..SITES {
        let of_site = pages.iter().filter(|url| url.contains(&format!(".site{site}.test:"))).count();
        assert_eq!(of_site, 7, "site {site}: {pages:?}");
    }
    assert!(fixture.status()["skipped"]["by_reason"]["site page limit"].as_u64() > Some(0));
}
