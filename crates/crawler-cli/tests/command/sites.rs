//! Delays and limits of sites, which are all hosts of a registrable domain, checked with the server's access log.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use testweb::{Log, Request, Response, Site, Web};

use crate::common::{linking_to, serve};
use crate::pipeline::{Pipeline, adds_up, objects};
use crate::state::StateDir;

/// The delay of a site, a quarter of the delay of a host.
const SITE_DELAY: Duration = Duration::from_millis(50);

/// How late the server may log the start of a request on a busy machine.
const LATE: Duration = Duration::from_millis(80);

/// A front page that links to a page of each of these hosts. Each host has two pages and a robots.txt.
fn web_of(hosts: Vec<String>) -> Web {
    serve(Site::new().fallback(move |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        let page = |links: &[String]| {
            let links: Vec<&str> = links.iter().map(String::as_str).collect();
            Response::page(format!("{} {} {}", request.authority, request.path, linking_to(&links)))
        };
        match request.path.as_str() {
            "/start" => page(&hosts.iter().map(|host| format!("http://{host}:{port}/")).collect::<Vec<_>>()),
            "/" => page(&["/second".to_owned()]),
            "/second" => page(&[]),
            _ => Response::status(404),
        }
    }))
}

/// Hosts of one site, and as many sites of one host.
fn hosts(count: usize) -> Vec<String> {
    let of_site = (0..count).map(|number| format!("w{number}.wild.test"));
    of_site.chain((0..count).map(|number| format!("other{number}.test"))).collect()
}

fn of_site(log: &Log) -> Log {
    log.filter(|hit| hit.host.ends_with(".wild.test"))
}

#[track_caller]
fn check_site_delay(log: &Log) {
    let site = of_site(log);
    let earliness = site.earliness(SITE_DELAY);
    assert!(earliness <= LATE, "a request to the site was {earliness:?} early, of {}", site.len());
}

/// A crawl that fetches robots.txt.
fn crawl(web: &Web) -> Pipeline {
    Pipeline::bare(web.url_of("start.test", "/start")).with("--resolve *=127.0.0.1 --allow-private")
}

#[test]
fn requests_to_the_hosts_of_a_site_are_a_quarter_of_the_delay_apart_and_other_sites_are_not_slowed() {
    let web = web_of(hosts(16));
    let ended = crawl(&web).with("--delay 200ms --similarity 0 --workers 3").run().expect(0);
    assert_eq!(ended.outcomes()["page"], 65);
    let log = web.log();
    check_site_delay(&log);
    assert_eq!(of_site(&log).len(), 48, "robots.txt and two pages of each host");
    let last = |log: Log| log.last().map(|hit| hit.started).unwrap();
    let others = last(log.filter(|hit| hit.host.starts_with("other")));
    assert!(others + 10 * SITE_DELAY < last(of_site(&log)), "the other sites were slowed");
}

#[test]
fn site_delay_can_be_set_and_turned_off() {
    let web = web_of(hosts(16));
    let started = Instant::now();
    crawl(&web).with("--delay 10ms --site-delay 50ms --similarity 0").run().expect(0);
    check_site_delay(&web.log());
    assert!(started.elapsed() >= 40 * SITE_DELAY);
    let web = web_of(hosts(16));
    crawl(&web).with("--delay 200ms --site-delay 0 --similarity 0").run().expect(0);
    assert!(of_site(&web.log()).earliness(SITE_DELAY) > 10 * SITE_DELAY);
}

#[test]
fn site_delay_holds_across_a_kill() {
    let (web, state_dir) = (web_of(hosts(6)), StateDir::new());
    // Longer than a process takes to start, and than the delay of a host.
    let crawl = crawl(&web).with("--delay 20ms --site-delay 400ms --similarity 0 --workers 2 --state");
    let mut running = crawl.with_one(state_dir.state()).start();
    let requests = || of_site(&web.log()).len();
    for _ in 0..2 {
        let before = requests();
        running.until("some requests", |_| requests() >= before + 4);
        running.signal(Signal::KILL);
        assert_eq!(running.status(), None);
        running = state_dir.resume("");
    }
    running.wait().expect(0);
    let earliness = of_site(&web.log()).earliness(Duration::from_millis(400));
    assert!(requests() >= 18 && earliness <= LATE, "a request was {earliness:?} early, of {}", requests());
}

#[test]
fn requests_to_an_address_are_the_address_delay_apart() {
    let web = web_of(hosts(6));
    crawl(&web).with("--address-delay 50ms --similarity 0").run().expect(0);
    let earliness = web.log().earliness(SITE_DELAY);
    assert!(earliness <= LATE, "a request was {earliness:?} early");
}

#[test]
fn pages_of_a_site_are_limited_exactly_and_the_limit_can_be_raised() {
    let (web, state_dir) = (web_of(hosts(10)), StateDir::new());
    let pages = |progress: &str| adds_up(&objects(progress).pop().unwrap());
    let crawl = crawl(&web)
        .with("--delay 0 --similarity 0 --workers 4 --max-pages-per-site 7 --progress json --state")
        .with_one(state_dir.state());
    let outcomes = pages(&crawl.with("--max-pages 20").run().expect(0).stderr);
    assert_eq!(outcomes["page"], 20);
    // The site has pages left when the crawl is resumed.
    let outcomes = pages(&state_dir.resume("--max-pages 100 --progress json").wait().expect(0).stderr);
    assert_eq!(outcomes["page"], 1 + 7 + 20);
    assert!(outcomes["site page limit"] > 0);
    let responses = of_site(&web.log()).filter(|hit| hit.path != "/robots.txt").len();
    assert_eq!(responses, 7);
}
