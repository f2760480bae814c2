//! What hosts are spared: delays, rests, slow answers, and modules that take their time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::StopHandle;
use crawler::internal::backend::local::LocalBackend;
use crawler::internal::backend::{Backend, DiscoveredUrl, WorkerId};
use crawler::internal::config::FetchConfig;
use crawler::internal::frontier;
use crawler::internal::page::Page;
use crawler::internal::prioritizer::{DepthPopularity, Random};
use testweb::{Answer, Site, Web};

use super::parts::{orders, settings, worker};
use super::{crawl, site_of};

/// A page that links to `/1` … `/count`, which all take so long.
fn fan(count: usize, takes: Duration) -> Site {
    let links: String = (1..=count).map(|n| format!("<a href=/{n}>{n}</a>")).collect();
    Site::new()
        .page("/", links)
        .otherwise(move |request| Answer::page(format!("page {}", request.path)).after(takes))
}

#[test]
fn as_many_requests_to_a_host_are_in_flight_as_allowed_and_no_more() {
    let web = Web::builder().site(fan(24, Duration::from_millis(60))).start();
    let report =
        crawl(&web, "one.test").workers(2).configure(|config| config.max_per_host = 3).run().unwrap();
    assert_eq!(report.snapshot.pages, 25);
    assert_eq!(web.log().most_at_once(), 3);
}

#[test]
fn with_several_requests_in_flight_the_delay_separates_their_starts() {
    let web = Web::builder().site(fan(12, Duration::from_millis(100))).start();
    let delay = Duration::from_millis(40);
    let polite = crawl(&web, "one.test").configure(|config| {
        (config.max_per_host, config.delay, config.adaptive_delay) = (4, delay, false);
    });
    polite.run().unwrap();
    let log = web.log();
    assert!((2..=4).contains(&log.most_at_once()), "{}", log.most_at_once());
    // The server sees a start a little later than it was made, by more or by less.
    let gap = log.smallest_start_gap().unwrap();
    assert!(gap >= delay - Duration::from_millis(10), "{gap:?}");
}

#[test]
fn a_host_that_answers_slowly_is_left_alone_for_longer() {
    let slow = Duration::from_millis(150);
    let smallest_gap = |adapt: bool| {
        let web = Web::builder().site(Site::new().otherwise(move |request| {
            let links = "<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a><a href=/4>4</a>";
            Answer::page(format!("{links} {}", request.path)).after(slow)
        }));
        let web = web.start();
        let delay = Duration::from_millis(20);
        let crawl = crawl(&web, "one.test").configure(|config| config.delay = delay);
        let crawl = if adapt { crawl } else { crawl.configure(|config| config.adaptive_delay = false) };
        assert_eq!(crawl.run().unwrap().snapshot.pages, 5);
        web.log().smallest_gap().unwrap()
    };
    assert!(smallest_gap(true) >= slow, "by default");
    assert!(smallest_gap(false) < slow);
}

#[test]
fn a_crawl_delay_and_a_retry_after_are_kept_and_hold_up_nobody_else() {
    let asks_for_patience = fan(2, Duration::ZERO).robots("User-agent: *\nCrawl-delay: 0.7");
    let busy = Answer::status(503).header("retry-after", "2");
    let overloaded = Site::new().answer("/", Answer::in_turn(vec![busy, Answer::page("recovered")]));
    let start = site_of(|path, port| match path {
        "/robots.txt" => Answer::status(404),
        "/" => Answer::page(format!(
            "<a href=http://patient.test:{port}/>1</a> <a href=http://busy.test:{port}/>2</a> <a href=/on>3</a>"
        )),
        _ => Answer::page("on"),
    });
    let web = Web::builder()
        .site(start)
        .host("patient.test", asks_for_patience)
        .host("busy.test", overloaded)
        .start();
    let report =
        crawl(&web, "start.test").workers(1).configure(|config| config.obey_robots = true).run().unwrap();
    assert_eq!(report.snapshot.pages, 6);
    let log = web.log();
    let gap_of = |host: &str| log.of_host(host).smallest_gap().unwrap();
    assert!(gap_of("patient.test") >= Duration::from_millis(700), "{:?}", gap_of("patient.test"));
    let tries = log.of_host("busy.test").of_path("/");
    assert!(tries.smallest_gap().unwrap() >= Duration::from_secs(2), "{:?}", tries.smallest_gap());
    // The page of the host that wants no rest is asked for before the two others are asked again.
    let on = log.of_host("start.test").of_path("/on");
    let again = [tries[1].started, log.of_host("patient.test")[1].started];
    assert!(again.iter().all(|again| on[0].started < *again), "{log:?}");
}

#[test]
fn hosts_that_want_to_rest_take_nothing_from_the_others_meanwhile() {
    let busy = || {
        let busy = Answer::status(503).header("retry-after", "3");
        Site::new().answer("/", Answer::in_turn(vec![busy, Answer::page("recovered")]))
    };
    let start = site_of(|path, port| match path {
        "/" => {
            let busy: String = (0..8).map(|n| format!("<a href=http://b{n}.test:{port}/>b</a>")).collect();
            let others: String =
                (0..20).map(|n| format!("<a href=http://o{n}.test:{port}/x>o</a>")).collect();
            Answer::page(busy + &others)
        }
        path => Answer::page(format!("other {path}")),
    });
    let web =
        (0..8).fold(Web::builder().site(start), |web, n| web.host(&format!("b{n}.test"), busy())).start();
    let report = crawl(&web, "start.test")
        .workers(1)
        .configure(|config| config.concurrency = 2)
        .configure_backend(|settings| settings.similarity = None)
        .run()
        .unwrap();
    assert_eq!(report.snapshot.pages, 29);
    // All others are asked before any of those that rest is asked again.
    let log = web.log();
    let others = log.of_path("/x");
    let last = others.iter().map(|hit| hit.started).max().unwrap();
    let again = (0..8).map(|n| log.of_host(&format!("b{n}.test"))[1].started).min().unwrap();
    assert!(others.len() == 20 && last < again, "{log:?}");
}

#[test]
fn what_a_host_is_owed_outlives_a_worker_that_died_before_its_first_page() {
    let site = Site::new().robots("User-agent: *\nCrawl-delay: 1").page("/", "page");
    let web = Web::builder().site(site).start();
    let seed: url::Url = web.url("/").parse().unwrap();
    let backend = Arc::new(LocalBackend::new(settings()));
    let stop = StopHandle::new();
    let orders = orders(&backend, &stop);
    let worker =
        |id| worker(id, &seed, FetchConfig { delay: Duration::ZERO, ..FetchConfig::default() }, &orders);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        backend.admit(vec![DiscoveredUrl { url: seed.to_string(), depth: 0, redirects: 0 }]).await.unwrap();
        let (random, prioritize) = (Random::seeded(1), DepthPopularity);
        let frontier = frontier::run(&*backend, &prioritize, random, &stop);
        let lives = async {
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
            over = frontier => assert!(over.unwrap()),
            () = lives => unreachable!("a worker works until it is told to stop"),
        }
    });
    let log = web.log();
    assert_eq!(log.paths(), ["/robots.txt", "/robots.txt", "/"]);
    assert!(log.smallest_gap().unwrap() >= Duration::from_millis(990), "{:?}", log.smallest_gap());
}

#[test]
fn a_module_that_takes_its_time_holds_up_no_other_host() {
    let link = |n: usize, port: &str| format!("<a href=http://h{n}.test:{port}/>x</a>");
    let site = site_of(move |path, port| match path {
        "/" => Answer::page((0..20).map(|n| link(n, port)).collect::<String>()),
        _ => Answer::status(404),
    });
    let web = Web::builder().site(site).start();
    let begun = Instant::now();
    let nap = Duration::from_secs(1);
    let report = crawl(&web, "start.test")
        .workers(1)
        .configure_backend(|settings| settings.similarity = None)
        .module(move |_: &Page| std::thread::sleep(nap))
        .run()
        .unwrap();
    assert_eq!(report.snapshot.pages, 21);
    // One after the other they would take 21 naps.
    assert!(begun.elapsed() < 10 * nap, "{:?}", begun.elapsed());
    let log = web.log();
    let asked: Vec<Instant> = log.iter().skip(1).map(|hit| hit.started).collect();
    assert!(*asked.last().unwrap() - asked[0] < nap, "all hosts are asked while modules see the first pages");
}
