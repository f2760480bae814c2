//! A robots.txt that fails: the URLs of its host wait, other hosts are not delayed, and the wait outlives the process.

use std::time::{Duration, Instant};

use crawler::StopHandle;
use crawler::internal::pipeline::{CrawlerInternals as _, ResumeStatus};
use testweb::{Response, Site, Web};

use super::{crawl, site_with_port};

/// A front page with links to this many pages of a host without trouble and of one whose robots.txt gives these answers.
fn web(pages: usize, robots: Vec<Response>) -> Web {
    let start = site_with_port(move |path, port| match path {
        "/robots.txt" => Response::status(404),
        _ => Response::page(
            (0..pages)
                .flat_map(|n| {
                    ["good", "bad"].map(|host| format!("<a href=http://{host}.test:{port}/{n}>a</a>"))
                })
                .collect::<String>(),
        ),
    });
    let bad = Site::new()
        .response("/robots.txt", Response::sequence(robots))
        .fallback(|request| Response::page(request.path.clone()));
    Web::builder().site(start.clone()).host("start.test", start).host("bad.test", bad).start()
}

#[test]
fn urls_of_a_host_with_a_failing_robots_txt_wait_and_other_hosts_do_not() {
    let pause = Duration::from_millis(500);
    let web = web(5, vec![Response::status(503), Response::status(503), Response::status(404)]);
    let crawl = crawl(&web, "start.test").configure_backend(|settings| settings.similarity = None);
    let crawl =
        crawl.configure(|config| (config.requests.obey_robots, config.robots_retry_pause) = (true, pause));
    let report = crawl.run_blocking().unwrap();
    assert_eq!(report.snapshot.outcomes, [("page".to_owned(), 11)].into());
    let (good, bad) = (web.log().for_host("good.test"), web.log().for_host("bad.test"));
    assert_eq!(bad.for_path("/robots.txt").len(), 3);
    assert_eq!((good.len(), bad.len()), (6, 8));
    let last_good = good.iter().map(|hit| hit.started).max().unwrap();
    assert!(last_good < bad[2].started, "the good host did not wait");
}

#[test]
fn urls_of_a_host_whose_robots_txt_fails_for_good_get_an_outcome() {
    let web = web(20, vec![Response::status(500)]);
    let crawl = crawl(&web, "start.test").configure_backend(|settings| settings.similarity = None);
    let pause = Duration::from_millis(2);
    let crawl =
        crawl.configure(|config| (config.requests.obey_robots, config.robots_retry_pause) = (true, pause));
    let report = crawl.run_blocking().unwrap();
    assert_eq!(report.snapshot.outcomes["robots.txt unavailable"], 20);
    assert_eq!(web.log().for_host("bad.test").paths(), ["/robots.txt"; 9]);
}

#[test]
fn urls_of_a_host_wait_for_a_limited_time_whatever_the_server_requests() {
    let busy = Response::status(503).header("retry-after", "1");
    let web = web(3, vec![busy]);
    let crawl = crawl(&web, "start.test").configure_backend(|settings| settings.similarity = None);
    let crawl = crawl.configure(|config| {
        (config.requests.obey_robots, config.robots_max_wait) = (true, Duration::from_millis(2_500));
        config.robots_retry_pause = Duration::from_millis(2);
    });
    let report = crawl.run_blocking().unwrap();
    assert_eq!(report.snapshot.outcomes["robots.txt unavailable"], 3);
    let bad = web.log().for_host("bad.test");
    assert!(bad.paths().iter().all(|path| *path == "/robots.txt"), "{:?}", bad.paths());
    assert!((2..=3).contains(&bad.len()), "{:?}", bad.paths());
}

#[test]
fn pause_after_a_failed_robots_txt_outlives_the_process() {
    let pause = Duration::from_secs(2);
    let web = web(2, vec![Response::status(503), Response::status(404)]);
    let directory = tempfile::tempdir().unwrap();
    let durable = |stop: &StopHandle| {
        let crawl = crawl(&web, "start.test").stop_handle(stop.clone()).state_dir(directory.path());
        let crawl = crawl.configure_backend(|settings| settings.similarity = None);
        crawl.configure(|config| (config.requests.obey_robots, config.robots_retry_pause) = (true, pause))
    };
    let stop = StopHandle::new();
    let first = std::thread::scope(|scope| {
        let first = scope.spawn(|| durable(&stop).run_blocking().unwrap());
        let started = Instant::now();
        let has_failed = || web.log().for_host("bad.test").first().is_some_and(|hit| hit.ended.is_some());
        let is_ready = || has_failed() && web.log().for_host("good.test").len() == 3;
        while !is_ready() && started.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.stop();
        first.join().unwrap()
    });
    assert_eq!(first.snapshot.pending(), 2, "the URLs wait");
    let second = durable(&StopHandle::new()).run_blocking().unwrap();
    assert_eq!((second.resumed, second.snapshot.pages), (ResumeStatus::Resumed, 5));
    let robots = web.log().for_host("bad.test").for_path("/robots.txt");
    let gap = robots[1].started - robots[0].ended.unwrap();
    assert!(robots.len() == 2 && gap >= pause - Duration::from_millis(10), "{gap:?}");
}

#[test]
fn hosts_with_a_failing_robots_txt_do_not_take_all_leases_of_a_worker() {
    let start = site_with_port(|path, port| match path {
        "/robots.txt" => Response::status(404),
        _ => {
            let bad = (0..60).map(|host| format!("<a href=http://bad{host}.test:{port}/>a</a>"));
            let good = (0..5).map(|host| format!("<a href=http://good{host}.test:{port}/>a</a>"));
            Response::page(bad.chain(good).collect::<String>())
        }
    });
    let site = Site::new().fallback(|request| match request.path == "/robots.txt" {
        true if request.authority.starts_with("bad") => Response::status(503),
        true => Response::status(404),
        false => Response::page(request.authority.clone()),
    });
    let web = Web::builder().site(site).host("start.test", start).start();
    let crawl = crawl(&web, "start.test").configure_backend(|settings| settings.similarity = None);
    let crawl = crawl.configure_backend(|settings| settings.queue_size = 20).workers(1);
    let crawl = crawl.configure(|config| {
        (config.requests.obey_robots, config.robots_max_wait) = (true, Duration::from_secs(20));
        config.concurrency = 8;
    });
    let report = crawl.run_blocking().unwrap();
    assert_eq!(report.snapshot.outcomes["page"], 6);
    assert_eq!(report.snapshot.outcomes["robots.txt unavailable"], 60);
    let log = web.log();
    let first = log.iter().map(|hit| hit.started).min().unwrap();
    let is_page = |host: &str, path: &str| host.starts_with("good") && path == "/";
    let last_good =
        log.iter().filter(|hit| is_page(&hit.host, &hit.path)).map(|hit| hit.started).max().unwrap();
    assert!(last_good - first < Duration::from_secs(10), "{:?}", last_good - first);
}
