//! Politeness: concurrency limits, delays, cooldowns, slow hosts, and slow modules.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::StopHandle;
use crawler::internal::backend::local::LocalBackend;
use crawler::internal::backend::{Backend, DiscoveredUrl, WorkerId};
use crawler::internal::config::FetchConfig;
use crawler::internal::frontier;
use crawler::internal::page::Page;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::prioritizer::DepthPopularity;
use testweb::{Response, Site, Web};

use super::fixtures::{config, context, worker};
use super::{crawl, site_with_port};

/// A page that links to `/1` … `/count`, which all have this response time.
fn fan_out(count: usize, response_time: Duration) -> Site {
    let links: String = (1..=count).map(|n| format!("<a href=/{n}>{n}</a>")).collect();
    Site::new()
        .page("/", links)
        .fallback(move |request| Response::page(format!("page {}", request.path)).delay(response_time))
}

#[test]
fn requests_in_flight_per_host_reach_the_limit_and_do_not_exceed_it() {
    let web = Web::builder().site(fan_out(24, Duration::from_millis(60))).start();
    let report = crawl(&web, "one.test")
        .workers(2)
        .configure(|config| config.max_per_host = 3)
        .run_blocking()
        .unwrap();
    assert_eq!(report.snapshot.pages, 25);
    assert_eq!(web.log().max_concurrent(), 3);
}

#[test]
fn delay_separates_the_starts_of_concurrent_requests() {
    let web = Web::builder().site(fan_out(12, Duration::from_millis(100))).start();
    let delay = Duration::from_millis(40);
    let polite = crawl(&web, "one.test").configure(|config| {
        (config.max_per_host, config.delay, config.adaptive_delay) = (4, delay, false);
    });
    polite.run_blocking().unwrap();
    let log = web.log();
    assert!((2..=4).contains(&log.max_concurrent()), "{}", log.max_concurrent());
    // The server sees requests a little late, some more than others.
    let gap = log.smallest_start_gap().unwrap();
    assert!(gap >= delay - Duration::from_millis(10), "{gap:?}");
}

#[test]
fn adaptive_delay_is_longer_for_a_slow_host() {
    let response_time = Duration::from_millis(150);
    let smallest_gap = |is_adaptive: bool| {
        let web = Web::builder().site(Site::new().fallback(move |request| {
            let links = "<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a><a href=/4>4</a>";
            Response::page(format!("{links} {}", request.path)).delay(response_time)
        }));
        let web = web.start();
        let delay = Duration::from_millis(20);
        let crawl = crawl(&web, "one.test").configure(|config| config.delay = delay);
        let crawl = if is_adaptive { crawl } else { crawl.configure(|config| config.adaptive_delay = false) };
        assert_eq!(crawl.run_blocking().unwrap().snapshot.pages, 5);
        web.log().smallest_gap().unwrap()
    };
    assert!(smallest_gap(true) >= response_time, "by default");
    assert!(smallest_gap(false) < response_time);
}

#[test]
fn crawl_delay_and_retry_after_are_obeyed_and_do_not_hold_up_other_hosts() {
    let with_crawl_delay = fan_out(2, Duration::ZERO).robots("User-agent: *\nCrawl-delay: 0.7");
    let busy = Response::status(503).header("retry-after", "2");
    let overloaded = Site::new().response("/", Response::sequence(vec![busy, Response::page("recovered")]));
    let first_site = site_with_port(|path, port| match path {
        "/robots.txt" => Response::status(404),
        "/" => Response::page(format!(
            "<a href=http://crawl-delay.test:{port}/>1</a> <a href=http://busy.test:{port}/>2</a> <a href=/on>3</a>"
        )),
        _ => Response::page("on"),
    });
    let web = Web::builder()
        .site(first_site)
        .host("crawl-delay.test", with_crawl_delay)
        .host("busy.test", overloaded)
        .start();
    let report = crawl(&web, "start.test")
        .workers(1)
        .configure(|config| config.requests.obey_robots = true)
        .run_blocking()
        .unwrap();
    assert_eq!(report.snapshot.pages, 6);
    let log = web.log();
    let gap_of = |host: &str| log.for_host(host).smallest_gap().unwrap();
    assert!(gap_of("crawl-delay.test") >= Duration::from_millis(700), "{:?}", gap_of("crawl-delay.test"));
    let tries = log.for_host("busy.test").for_path("/");
    assert!(tries.smallest_gap().unwrap() >= Duration::from_secs(2), "{:?}", tries.smallest_gap());
    // The host without a delay gets its request before the two others get their next ones.
    let on = log.for_host("start.test").for_path("/on");
    let next = [tries[1].started, log.for_host("crawl-delay.test")[1].started];
    assert!(next.iter().all(|next| on[0].started < *next), "{log:?}");
}

#[test]
fn hosts_in_cooldown_take_no_permits_from_other_hosts() {
    let busy = || {
        let busy = Response::status(503).header("retry-after", "3");
        Site::new().response("/", Response::sequence(vec![busy, Response::page("recovered")]))
    };
    let first_site = site_with_port(|path, port| match path {
        "/" => {
            let busy: String = (0..8).map(|n| format!("<a href=http://b{n}.test:{port}/>b</a>")).collect();
            let others: String =
                (0..20).map(|n| format!("<a href=http://o{n}.test:{port}/x>o</a>")).collect();
            Response::page(busy + &others)
        }
        path => Response::page(format!("other {path}")),
    });
    let web = (0..8)
        .fold(Web::builder().site(first_site), |web, n| web.host(&format!("b{n}.test"), busy()))
        .start();
    let report = crawl(&web, "start.test")
        .workers(1)
        .configure(|config| config.concurrency = 2)
        .configure_backend(|settings| settings.similarity = None)
        .run_blocking()
        .unwrap();
    assert_eq!(report.snapshot.pages, 29);
    // All other hosts get their requests before any host in cooldown gets its next one.
    let log = web.log();
    let others = log.for_path("/x");
    let last = others.iter().map(|hit| hit.started).max().unwrap();
    let next = (0..8).map(|n| log.for_host(&format!("b{n}.test"))[1].started).min().unwrap();
    assert!(others.len() == 20 && last < next, "{log:?}");
}

#[test]
fn host_delay_outlives_a_worker_that_dies_before_its_first_page() {
    let site = Site::new().robots("User-agent: *\nCrawl-delay: 1").page("/", "page");
    let web = Web::builder().site(site).start();
    let seed: url::Url = web.url("/").parse().unwrap();
    let backend = Arc::new(LocalBackend::new(config()));
    let stop = StopHandle::new();
    let context = context(&backend, &stop);
    let worker = |id| {
        worker(
            id,
            std::slice::from_ref(&seed),
            FetchConfig { delay: Duration::ZERO, ..FetchConfig::default() },
            &context,
        )
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        backend.admit(vec![DiscoveredUrl { url: seed.to_string(), depth: 0, redirects: 0 }]).await.unwrap();
        let frontier = frontier::run(&*backend, &DepthPopularity, &stop);
        let workers = async {
            let first = tokio::spawn(worker(0).run());
            while web.log().first().is_none_or(|hit| hit.ended.is_none()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            first.abort();
            assert!(first.await.unwrap_err().is_cancelled());
            backend.remove_worker(WorkerId(0)).await.unwrap();
            worker(1).run().await.unwrap();
        };
        tokio::select! {
            finished = frontier => assert!(finished.unwrap()),
            () = workers => unreachable!("a worker runs until it is stopped"),
        }
    });
    let log = web.log();
    assert_eq!(log.paths(), ["/robots.txt", "/robots.txt", "/"]);
    assert!(log.smallest_gap().unwrap() >= Duration::from_millis(990), "{:?}", log.smallest_gap());
}

#[test]
fn slow_module_does_not_hold_up_other_hosts() {
    let link = |n: usize, port: &str| format!("<a href=http://h{n}.test:{port}/>x</a>");
    let site = site_with_port(move |path, port| match path {
        "/" => Response::page((0..20).map(|n| link(n, port)).collect::<String>()),
        _ => Response::status(404),
    });
    let web = Web::builder().site(site).start();
    let start = Instant::now();
    let module_time = Duration::from_secs(1);
    let report = crawl(&web, "start.test")
        .workers(1)
        .configure_backend(|settings| settings.similarity = None)
        .module(move |_: &Page| std::thread::sleep(module_time))
        .run_blocking()
        .unwrap();
    assert_eq!(report.snapshot.pages, 21);
    // One after the other, the modules would take 21 times as long as one.
    assert!(start.elapsed() < 10 * module_time, "{:?}", start.elapsed());
    let log = web.log();
    let starts: Vec<Instant> = log.iter().skip(1).map(|hit| hit.started).collect();
    assert!(
        *starts.last().unwrap() - starts[0] < module_time,
        "all hosts get requests while modules process the first pages"
    );
}

#[test]
fn disallowed_urls_do_not_delay_the_requests_of_their_site() {
    // Each page links to forty pages that robots.txt disallows, and then to the next one.
    let site = Site::new().robots("User-agent: *\nDisallow: /no").fallback(|request| {
        let number: usize = request.path[1..].parse().unwrap_or(0);
        let disallowed = (0..40).map(|link| format!("<a href=/no/{number}/{link}>no</a>"));
        let next = (number < 5).then(|| format!("<a href=/{}>next</a>", number + 1));
        Response::page(disallowed.chain(next).collect::<String>())
    });
    let web = Web::builder().site(site).start();
    // The defaults are four times as long.
    let (delay, site_delay) = (Duration::from_millis(250), Duration::from_millis(62));
    let polite = crawl(&web, "one.test").configure_backend(|settings| settings.similarity = None);
    let polite = polite.configure(|config| {
        (config.requests.obey_robots, config.delay, config.site_delay) = (true, delay, site_delay);
    });
    let started = Instant::now();
    let report = polite.run_blocking().unwrap();
    let elapsed = started.elapsed();
    assert_eq!((report.snapshot.pages, report.snapshot.outcomes["robots.txt"]), (6, 6 * 40));
    assert!(web.log().smallest_gap().unwrap() >= delay, "{:?}", web.log().smallest_gap());
    // With a turn of the site for each of them, they would take 15 s.
    assert!(elapsed < Duration::from_secs(7), "{elapsed:?}");
}
