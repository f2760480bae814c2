//! The decisions of the frontier, as the web sees them: better URLs first, no URL held up by hosts that do not respond, and
//! small budgets that do not slow the crawl down.

use std::time::{Duration, Instant};

use testweb::{Hostile, Request, Response, Site, Web};

use super::fixture::Fixture;
use super::process::{Process, wait_for};

/// A web whose host `start.test` links to these hosts.
fn fixture(hosts: Vec<String>, respond: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Fixture {
    let site = Site::new().fallback(move |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        match request.authority.starts_with("start.") {
            true => Response::page(
                hosts.iter().map(|host| format!("<a href=http://{host}:{port}/>x</a>")).collect::<String>(),
            ),
            false => respond(request),
        }
    });
    Fixture { web: Web::builder().site(site).start(), delay: Duration::ZERO, ..Fixture::new(1, 1) }
}

fn own_page(request: &Request) -> Response {
    Response::page(format!("{} {}", request.authority, request.path))
}

/// A controller with two workers, without robots.txt.
fn crawl(fixture: &Fixture, more: &[&str]) -> Process {
    crawl_obeying_robots(fixture, &[&["--ignore-robots"], more].concat())
}

fn crawl_obeying_robots(fixture: &Fixture, more: &[&str]) -> Process {
    let start = fixture.web.url_of("start.test", "/");
    let mut crawl = fixture.crawler(&["crawl", &start, "--redis", &fixture.redis_url, "--workers", "2"]);
    let delay = format!("{}ms", fixture.delay.as_millis());
    crawl.args(["--delay", &delay, "--similarity", "0", "--allow-private", "--resolve", "*=127.0.0.1"]);
    crawl.args(more);
    Process::start(crawl)
}

/// A rank service: domains that start with `best` have rank 10, all others rank 0.
fn rank_service() -> Web {
    let respond = |request: &Request| {
        let query = request.path.split_once('?').map_or("", |(_, query)| query);
        let domains = query.split('&').filter_map(|pair| Some(pair.split_once('=')?.1));
        let entries = domains.map(|domain| {
            let rank = if domain.starts_with("best") { 10 } else { 0 };
            format!(r#"{{"status_code":200,"page_rank_integer":{rank},"domain":"{domain}"}}"#)
        });
        let body = format!(r#"{{"response":[{}]}}"#, entries.collect::<Vec<_>>().join(","));
        Response::status(200).content_type("application/json").body(body)
    };
    Web::builder().site(Site::new().fallback(respond)).start()
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn priorities_decide_what_a_crawl_with_a_page_limit_fetches() {
    let hosts = (0..2_000).flat_map(|number| [format!("worst{number}.test"), format!("best{number}.test")]);
    let (fixture, service) = (fixture(hosts.collect(), own_page), rank_service());
    // With few requests at a time, the service ranks URLs faster than they are fetched.
    let limits = ["--max-pages", "400", "--concurrency", "8", "--pagerank-url", &service.url("")];
    crawl(&fixture, &limits).wait_for_success();
    let log = fixture.web.log();
    let is_best: Vec<bool> =
        log.iter().filter(|hit| hit.host != "start.test").map(|hit| hit.host.starts_with("best")).collect();
    let best = |requests: &[bool]| requests.iter().filter(|is_best| **is_best).count();
    assert!(best(&is_best[..40]) >= 34, "{} of the first 40", best(&is_best[..40]));
    assert!(best(&is_best) * 100 >= is_best.len() * 80, "{} of {}", best(&is_best), is_best.len());
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn hosts_that_do_not_respond_cannot_starve_others() {
    for (hanging, good, queue_size, limit) in [(300, 200, "10000", 8), (40, 400, "10", 5)] {
        let hosts = (0..hanging).map(|number| format!("hanging{number}.test"));
        let hosts = hosts.chain((0..good).map(|number| format!("good{number}.test"))).collect();
        let fixture = fixture(hosts, |request| match request.authority.starts_with("hanging") {
            true => Response::hostile(Hostile::Silence),
            false => own_page(request),
        });
        let crawl = crawl(&fixture, &["--queue-size", queue_size]);
        wait_for("the start page", || fixture.web.hits() > 0);
        let started = Instant::now();
        let good_hits = || fixture.web.log().iter().filter(|hit| hit.host.starts_with("good")).count();
        wait_for("all good hosts", || good_hits() == good);
        let elapsed = started.elapsed();
        assert!(elapsed < Duration::from_secs(limit), "{good} good hosts behind {hanging}: {elapsed:?}");
        crawl.signal(rustix::process::Signal::KILL);
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn crawl_of_small_pages_is_as_fast_with_a_small_byte_limit_as_with_a_large_one() {
    let hosts: Vec<String> = (0..600).map(|number| format!("h{number}.test")).collect();
    let fixture = fixture(hosts, |request| {
        Response::page(request.authority.clone() + &"x".repeat(6_000)).delay(Duration::from_millis(100))
    });
    let time = |name: &str, max_bytes: &str| {
        let started = Instant::now();
        let output = crawl(&fixture, &["--crawl", name, "--max-bytes", max_bytes]).wait_for_success();
        assert!(!output.contains("Stopped"), "{output}");
        started.elapsed()
    };
    // Other processes slow some runs down: a pair of runs without them is enough.
    let mut ratios = Vec::new();
    while ratios.iter().all(|ratio| *ratio > 1.3) {
        assert!(ratios.len() < 5, "{ratios:?}");
        let round = ratios.len();
        let large = time(&format!("large{round}"), "10GB");
        ratios.push(time(&format!("small{round}"), "5MB").as_secs_f64() / large.as_secs_f64());
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn urls_that_wait_for_a_failing_robots_txt_do_not_hold_the_last_pages_of_a_limit() {
    let stuck = (0..6).map(|number| format!("stuck{number}.test"));
    let hosts = stuck.chain((0..200).map(|number| format!("good{number}.test"))).collect();
    let fixture = fixture(hosts, |request| match (request.authority.starts_with("stuck"), &*request.path) {
        (true, _) => Response::status(503),
        (false, "/robots.txt") => Response::status(404),
        // The other URLs are leased meanwhile.
        (false, _) => own_page(request).delay(Duration::from_millis(100)),
    });
    let limits = ["--max-pages", "60", "--concurrency", "8"];
    let crawl = crawl_obeying_robots(&fixture, &limits);
    wait_for("the start page", || fixture.web.hits() > 0);
    let started = Instant::now();
    let output = crawl.wait_for_success();
    let elapsed = started.elapsed();
    assert!(output.contains("60 pages (--max-pages)"), "{output}");
    // The URLs of the stuck hosts wait for minutes.
    assert!(elapsed < Duration::from_secs(40), "{elapsed:?}: {output}");
    assert!(fixture.web.log().iter().any(|hit| hit.host.starts_with("stuck")), "{output}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn disallowed_urls_do_not_delay_the_requests_of_their_site() {
    // Each page links to forty pages that robots.txt disallows, and then to the next one.
    let site = Site::new().robots("User-agent: *\nDisallow: /no").fallback(|request| {
        let number: usize = request.path[1..].parse().unwrap_or(0);
        let disallowed = (0..40).map(|link| format!("<a href=/no/{number}/{link}>no</a>"));
        let next = (number < 5).then(|| format!("<a href=/{}>next</a>", number + 1));
        Response::page(disallowed.chain(next).collect::<String>())
    });
    let web = Web::builder().site(site).start();
    let fixture = Fixture { web, delay: Duration::from_millis(250), ..Fixture::new(1, 1) };
    let crawl = crawl_obeying_robots(&fixture, &[]);
    wait_for("the start page", || fixture.web.log().len() > 1);
    let started = Instant::now();
    crawl.wait_for_success();
    let (elapsed, log) = (started.elapsed(), fixture.web.log());
    assert_eq!(log.len(), 7, "{:?}", log.paths());
    assert!(log.smallest_gap().unwrap() >= fixture.delay, "{:?}", log.smallest_gap());
    // With a turn of the site for each of them, they would take 15 s.
    assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn links_of_small_pages_with_a_long_base_do_not_swell_redis() {
    let site = Site::new().fallback(|request| {
        let number: usize = request.path[1..].parse().unwrap_or(0);
        let next = format!("<a href=/{}>next</a>", number + 1);
        let links: String = (0..20).map(|link| format!("<a href={link}>")).collect();
        Response::page(format!("<base href=/{number}-{}/>{next}{links}", "x".repeat(1_900)))
    });
    let fixture = Fixture { web: Web::builder().site(site).start(), ..Fixture::new(1, 1) };
    let fixture = Fixture { delay: Duration::ZERO, ..fixture };
    let used_memory = || fixture.redis.info("used_memory").parse::<u64>().unwrap();
    let before = used_memory();
    crawl(&fixture, &["--max-pages", "300", "--no-content", "--module", "jsonl=pages.jsonl"])
        .wait_for_success();
    let (read, grown) = (300 * 2_200, used_memory() - before);
    assert!(grown < 15 * read, "{grown} bytes for {read} bytes read");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn best_links_of_a_page_are_fetched_first_although_they_are_last_on_it() {
    let worst = (0..2_970).map(|number| format!("worst{number}.test"));
    let hosts = worst.chain((0..30).map(|number| format!("best{number}.test")));
    let (fixture, service) = (fixture(hosts.collect(), own_page), rank_service());
    let limits = ["--max-pages", "1100", "--concurrency", "8", "--pagerank-url", &service.url("")];
    crawl(&fixture, &limits).wait_for_success();
    let log = fixture.web.log();
    let positions = log.iter().enumerate().filter(|(_, hit)| hit.host.starts_with("best"));
    let positions: Vec<usize> = positions.map(|(position, _)| position).collect();
    assert!(positions.len() > 15 && positions[15] <= 1_000, "{positions:?}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn host_that_fails_again_and_again_is_given_up() {
    let site = Site::new().fallback(|request: &Request| match request.path.as_str() {
        "/" => {
            let authority = request.authority.replace("start.", "dead.");
            Response::page(
                (0..50).map(|n| format!("<a href=http://{authority}/{n}>x</a>")).collect::<String>(),
            )
        }
        _ => Response::hostile(Hostile::Silence),
    });
    let web = Web::builder().site(site).start();
    let fixture = Fixture { web, delay: Duration::ZERO, ..Fixture::new(1, 1) };
    let output = crawl(&fixture, &["--timeout", "100ms"]).wait_for_success();
    let requests = fixture.web.log().for_host("dead.test");
    assert_eq!((requests.len(), requests.max_concurrent()), (6, 1), "{output}");
    let failed = &fixture.status()["failed"]["by_reason"];
    assert_eq!((&failed["timeout"], &failed["host unreachable"]), (&3.into(), &47.into()), "{failed}");
    assert!(output.contains("dead.test"), "the summary names it: {output}");
}
