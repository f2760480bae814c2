//! Crawls a test web of many hosts with the pipeline, and compares the result with the web's pages and the
//! server's log.

mod backend_errors;
mod exchanges;
mod fairness;
mod fixtures;
mod hooked_backend;
mod live_changes;
mod politeness;
mod priorities;
mod requisites;
mod robots_failures;
mod robots_redirects;
mod slow_completions;
mod url_modules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crawler::Crawler;
use crawler::internal::backend::Budget;
use crawler::internal::page::Page;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport};
use crawler::internal::scope::Scope;
use testweb::{Hostile, Response, Site, Web};

/// A crawl whose hosts all resolve to loopback, without delay and robots.txt.
fn crawl(web: &Web, host: &str) -> Crawler {
    Crawler::new(&web.url_of(host, "/")).unwrap().configure(|config| {
        config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
        config.requests.allow_private = true;
        config.requests.obey_robots = false;
        config.delay = Duration::ZERO;
    })
}

/// The pages that the modules got: URL to depth and body.
type CrawledPages = Arc<Mutex<BTreeMap<String, (usize, Vec<u8>)>>>;

fn collect_into(pages: &CrawledPages) -> impl Fn(&Page) + Send + Sync + 'static {
    let pages = Arc::clone(pages);
    move |page: &Page| {
        let before =
            pages.lock().unwrap().insert(page.url.to_string(), (page.depth as usize, page.body.to_vec()));
        assert!(before.is_none(), "modules got {} twice", page.url);
    }
}

/// A site whose responses depend on path and port, so that its pages can link to other hosts of the same web.
fn site_with_port(answer: impl Fn(&str, &str) -> Response + Send + Sync + 'static) -> Site {
    Site::new().fallback(move |request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        answer(&request.path, port)
    })
}

fn assert_adds_up(report: &CrawlReport) {
    let CrawlReport { snapshot, .. } = report;
    assert_eq!(snapshot.outcomes.values().sum::<u64>() + snapshot.refetches, snapshot.completed);
    assert_eq!(snapshot.outcomes.get("page").copied().unwrap_or(0), snapshot.pages);
}

#[test]
fn every_page_of_many_hosts_is_crawled_with_any_number_of_workers() {
    for workers in [1, 4, 16] {
        let web = Web::builder().seeded_hosts(7, 20, 12).start();
        let pages = CrawledPages::default();
        let report = crawl(&web, "h0.test")
            .workers(workers)
            .scope(Scope::domains(
                &(0..20).map(|n| format!("http://h{n}.test/").parse().unwrap()).collect::<Vec<_>>(),
            ))
            .configure_backend(|settings| settings.similarity = None)
            .module(collect_into(&pages))
            .run_blocking()
            .unwrap();
        let truth = web.truth_from(&web.url_of("h0.test", "/"), 1_000);
        let urls =
            |pages: &BTreeMap<String, (usize, Vec<u8>)>| pages.keys().cloned().collect::<BTreeSet<_>>();
        let pages = pages.lock().unwrap();
        assert_eq!(urls(&pages), urls(&truth), "{workers} workers");
        assert!(pages.iter().all(|(url, (_, body))| *body == truth[url].1));
        assert_eq!(report.end, CrawlEnd::Finished);
        assert_eq!(report.snapshot.pending(), 0);
        assert_adds_up(&report);
        let requests: Vec<_> = web.log().iter().map(|hit| (hit.host.clone(), hit.path.clone())).collect();
        let distinct = requests.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(distinct, requests.len(), "each URL is requested once");
    }
}

#[test]
fn host_gets_one_request_at_a_time_and_no_faster_than_the_delay() {
    for workers in [1, 4, 16] {
        let web = Web::builder().seeded_hosts(3, 12, 6).start();
        let delay = Duration::from_millis(40);
        crawl(&web, "h0.test")
            .workers(workers)
            .configure(|config| config.delay = delay)
            .run_blocking()
            .unwrap();
        let log = web.log();
        assert!(log.len() > 40);
        assert!(log.smallest_gap().unwrap() >= delay, "{:?} with {workers} workers", log.smallest_gap());
        for host in (0..12).map(|n| format!("h{n}.test")) {
            assert!(log.for_host(&host).max_concurrent() <= 1, "{host}");
        }
    }
}

#[test]
fn page_within_max_depth_is_crawled_even_if_first_found_at_a_greater_depth() {
    // The long path to /far is fast, the short one slow: /far is found at depth 3 first, and then at depth 2,
    // after its completion or while its request is in flight.
    for far_response_time in [0, 800] {
        crawl_page_first_found_at_a_greater_depth(Duration::from_millis(far_response_time));
    }
}

fn crawl_page_first_found_at_a_greater_depth(far_response_time: Duration) {
    let slow = Response::page("<a href=/far>far</a>").delay(Duration::from_millis(400));
    let site = Site::new()
        .page("/", "<a href=/1>1</a> <a href=/slow>slow</a>")
        .page("/1", "<a href=/2>2</a>")
        .page("/2", "<a href=/3>3</a> <a href=/far>far</a>")
        .page("/3", "three")
        .response("/slow", slow)
        .response("/far", Response::page("<a href=/beyond>beyond</a>").delay(far_response_time))
        .page("/beyond", "<a href=/never>never</a>")
        .page("/never", "too deep");
    let web = Web::builder().site(site).start();
    let pages = CrawledPages::default();
    let report = Crawler::new(&web.url("/"))
        .unwrap()
        .configure(|config| {
            config.requests.obey_robots = false;
            config.delay = Duration::ZERO;
            config.max_per_host = 4;
        })
        .max_depth(3)
        .configure_backend(|settings| settings.similarity = None)
        .module(collect_into(&pages))
        .run_blocking()
        .unwrap();
    let paths: BTreeSet<String> =
        pages.lock().unwrap().keys().map(|url| url.replace(&web.url(""), "")).collect();
    let expected = ["/", "/1", "/2", "/3", "/slow", "/far", "/beyond"].map(String::from);
    assert_eq!(paths, expected.into_iter().collect());
    assert_eq!(report.snapshot.refetches, 1);
    assert_adds_up(&report);
}

#[test]
fn page_is_not_truncated_while_other_pages_only_reserve_the_budget() {
    let links: String = (0..300).map(|n| format!("<a href=http://h{n}.test:PORT/>x</a>")).collect();
    let site = Site::new().fallback(move |request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        let page = if request.authority.starts_with("start") {
            links.replace("PORT", port)
        } else {
            "x".repeat(9_000)
        };
        Response::page(page).delay(Duration::from_millis(50))
    });
    let web = Web::builder().site(site).start();
    let settings =
        |settings: &mut crawler::internal::backend::local::BackendConfig| settings.similarity = None;
    let report = crawl(&web, "start.test")
        .workers(4)
        .configure_backend(settings)
        .max_bytes(10_000_000)
        .run_blocking()
        .unwrap();
    assert_eq!(
        (report.end, report.snapshot.pages),
        (CrawlEnd::Finished, 301),
        "{:?}",
        report.snapshot.outcomes
    );
}

#[test]
fn exhausted_budget_ends_the_crawl_without_waiting_for_host_delays() {
    let failing = Site::new().fallback(|_| Response::status(503).header("retry-after", "30"));
    let site = Site::new().fallback(|request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        Response::page(format!(
            "<a href=http://failing.test:{port}/>l</a> <a href=http://healthy.test:{port}/>w</a>"
        ))
        .delay(Duration::from_millis(100))
    });
    let web = Web::builder().host("failing.test", failing).site(site).start();
    let start = Instant::now();
    let report =
        crawl(&web, "start.test").max_pages(2).configure(|config| config.delay = Duration::from_secs(7));
    let report = report.configure_backend(|settings| settings.similarity = None).run_blocking().unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::LimitReached(Budget::Pages), 2));
    // The next request would be allowed after seven seconds.
    assert!(start.elapsed() < Duration::from_secs(7), "{:?}", start.elapsed());
}

#[test]
fn budgets_are_used_up_exactly_and_end_the_crawl() {
    for workers in [1, 4] {
        let web = Web::builder().seeded_hosts(11, 10, 20).start();
        let report = crawl(&web, "h0.test").workers(workers).max_pages(17).run_blocking().unwrap();
        assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::LimitReached(Budget::Pages), 17));
        let report = crawl(&web, "h0.test").workers(workers).max_bytes(30_000).run_blocking().unwrap();
        assert_eq!(report.end, CrawlEnd::LimitReached(Budget::Bytes));
        let bytes = report.snapshot.bytes.max(report.snapshot.received);
        assert_eq!(bytes, 30_000, "the page that does not fit uses up the rest of the budget");
        assert_adds_up(&report);
    }
}

#[test]
fn bodies_of_error_responses_count_against_the_byte_budget() {
    let links: String = (0..50).map(|n| format!("<a href=/{n}>{n}</a>")).collect();
    let site = Site::new().page("/", links).fallback(|_| Response::status(404).body(vec![b'x'; 1_000]));
    let web = Web::builder().site(site).start();
    let report = crawl(&web, "one.test").workers(1).max_bytes(10_000).run_blocking().unwrap();
    assert_eq!(report.snapshot.pages, 1);
    // A body larger than the rest of the budget is not read.
    assert!((9_000..=10_000).contains(&report.snapshot.received), "{}", report.snapshot.received);
}

#[test]
fn slow_host_and_unresponsive_host_do_not_hold_up_others() {
    let links: String = (0..300).map(|n| format!("<a href=http://slow.test:{{}}/{n}>s</a>")).collect();
    let slow = Site::new().fallback(|_| Response::page("slow").delay(Duration::from_millis(200)));
    let dead = Site::new().fallback(|_| Response::hostile(Hostile::Silence));
    let quick = Site::seeded(5, 60);
    // All hosts of a web have the same port, which the first page puts into its links to the three hosts.
    let web = Web::builder()
        .host("slow.test", slow)
        .host("unresponsive.test", dead)
        .host("quick.test", quick)
        .site(Site::new().fallback(move |request| {
            let port = request.authority.rsplit(':').next().unwrap_or("80").to_owned();
            let dead: String =
                (0..50).map(|n| format!("<a href=http://unresponsive.test:{port}/{n}>d</a>")).collect();
            let quick = format!("<a href=http://quick.test:{port}/>q</a>");
            Response::page(links.replace("{}", &port) + &dead + &quick)
        }))
        .start();
    let start = Instant::now();
    let truth = web.truth_from(&web.url_of("quick.test", "/"), 1_000).len();
    let finished: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let times = Arc::clone(&finished);
    crawl(&web, "start.test")
        .workers(1)
        .configure(|config| config.timeout = Duration::from_millis(500))
        .configure_backend(|settings| settings.similarity = None)
        .max_time(Duration::from_secs(8))
        .module(move |page: &Page| {
            if page.url.host_str() == Some("quick.test") {
                times.lock().unwrap().push(start.elapsed());
            }
        })
        .run_blocking()
        .unwrap();
    let times = finished.lock().unwrap();
    assert_eq!(times.len(), truth);
    assert!(times.iter().max().unwrap() < &Duration::from_secs(5), "{:?}", times.iter().max());
}

#[test]
fn no_url_is_lost_with_queues_of_size_one() {
    let many: String =
        (0..10_000).map(|n| format!("<a href=http://h{}.test:PORT/{n}>x</a>", n % 100)).collect();
    let site = site_with_port(move |path, port| match path {
        "/" => Response::page(many.replace("PORT", port)),
        path => Response::page(format!("page {path}")),
    });
    let web = Web::builder().site(site).without_log().start();
    let report = crawl(&web, "start.test")
        .workers(3)
        .max_pages(20_000)
        .configure_backend(|settings| {
            settings.queue_size = 1;
            settings.similarity = None;
        })
        .run_blocking()
        .unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Finished, 10_001));
}

#[test]
fn page_limit_per_host_is_reached_exactly() {
    for workers in [1, 8] {
        let web = Web::builder().seeded_hosts(13, 10, 20).start();
        let pages = CrawledPages::default();
        let report = crawl(&web, "h0.test")
            .workers(workers)
            .configure_backend(|settings| {
                settings.similarity = None;
                settings.max_pages_per_host = 7;
            })
            .module(collect_into(&pages))
            .run_blocking()
            .unwrap();
        let mut pages_per_host: BTreeMap<String, usize> = BTreeMap::new();
        for url in pages.lock().unwrap().keys() {
            *pages_per_host.entry(url.split('/').nth(2).unwrap().to_owned()).or_default() += 1;
        }
        assert!(pages_per_host.len() > 5, "{pages_per_host:?}");
        assert!(
            pages_per_host.values().all(|pages| *pages == 7),
            "{pages_per_host:?} with {workers} workers"
        );
        assert!(report.snapshot.outcomes["host page limit"] > 0);
        assert_adds_up(&report);
    }
}

#[test]
fn last_page_of_a_budget_can_be_retried_while_others_wait() {
    let site = site_with_port(|_, port| {
        Response::page(format!(
            "<a href=http://flaky.test:{port}/>1</a> <a href=http://healthy.test:{port}/>2</a>"
        ))
    });
    let flaky = Site::new()
        .response("/", Response::sequence(vec![Response::status(503), Response::page("recovered")]));
    let healthy = Site::new().page("/", "a page of its own");
    let web = Web::builder().site(site).host("flaky.test", flaky).host("healthy.test", healthy).start();
    let report = crawl(&web, "start.test")
        .workers(1)
        .configure(|config| config.concurrency = 1)
        .max_pages(2)
        .max_time(Duration::from_secs(10))
        .run_blocking()
        .unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::LimitReached(Budget::Pages), 2));
}

#[test]
fn links_to_private_addresses_and_invalid_links_are_rejected_and_counted() {
    let page = "<a href=http://10.0.0.1/>1</a> <a href=http://127.0.0.1:1/>2</a> <a href=http://[::1]/>3</a> \
        <a href=http://169.254.169.254/latest>4</a> <a href=http://2130706433/>5</a> <a href=/here>6</a> \
        <a href=http://me:secret@a.test/>7</a> <a href=ftp://a.test/>8</a> <a href=/elsewhere>9</a>";
    let site =
        Site::new().page("/", page).page("/here", "here").redirect("/elsewhere", "http://192.168.0.1/router");
    let web = Web::builder().site(site).start();
    let outcomes: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&outcomes);
    let report = Crawler::new(&web.url("/"))
        .unwrap()
        .configure(|config| {
            config.requests.obey_robots = false;
            config.delay = Duration::ZERO;
        })
        .on_outcome(move |_, outcome| sink.lock().unwrap().push(outcome.to_string()))
        .run_blocking()
        .unwrap();
    assert_eq!(report.snapshot.pages, 2, "the seed's own server may have a private address");
    assert_eq!(report.snapshot.admitted, 3, "{:?}", report.snapshot.outcomes);
    let rejected = [("not http or https", 1), ("private address", 5), ("with credentials", 1)];
    assert_eq!(report.snapshot.links_rejected, rejected.map(|(why, links)| (why.to_owned(), links)).into());
    let outcomes = outcomes.lock().unwrap();
    assert!(outcomes.contains(&"redirect out of scope: http://192.168.0.1/router (private address)".into()));
    assert_adds_up(&report);
}

#[test]
fn links_beyond_the_maximum_per_page_are_counted_and_not_followed() {
    let page = "<a href=x>link</a>".repeat(100_000) + "<a href=y><a href=z>";
    let web = Web::builder().site(Site::new().page("/", page).page("/x", "x")).start();
    let report =
        crawl(&web, "one.test").configure(|config| config.max_page_bytes = 4_000_000).run_blocking().unwrap();
    assert_eq!(report.snapshot.links_rejected, [("too many links".to_owned(), 2)].into());
    assert_eq!((report.snapshot.links_new, report.snapshot.links_seen), (1, 99_999));
}

#[test]
fn near_duplicate_page_is_dropped_and_its_original_is_named() {
    let web = Web::builder().site(Site::seeded(9, 30).with_print_views()).start();
    let outcomes: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&outcomes);
    let report = crawl(&web, "one.test")
        .on_outcome(move |url, outcome| sink.lock().unwrap().push(format!("{url}: {outcome}")))
        .run_blocking()
        .unwrap();
    let dropped = report.snapshot.outcomes.get("near-duplicate").copied().unwrap_or(0);
    assert!(dropped > 10, "{:?}", report.snapshot.outcomes);
    let outcomes = outcomes.lock().unwrap();
    assert!(outcomes.iter().any(|line| line.contains("near-duplicate of http://one.test")), "{outcomes:?}");
}

#[test]
fn time_limit_holds_although_hosts_hang_and_modules_sleep() {
    let hanging = Site::new().fallback(|_| Response::hostile(Hostile::Silence));
    let site = Site::new().fallback(|request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        Response::page(format!(
            "<a href=http://hanging.test:{port}/>h</a> <a href=http://other.test:{port}/>o</a>"
        ))
    });
    let web = Web::builder().host("hanging.test", hanging).site(site).start();
    let start = Instant::now();
    let report = crawl(&web, "start.test")
        .configure_backend(|settings| settings.similarity = None)
        .max_time(Duration::from_secs(2))
        .module(|page: &Page| {
            if page.url.host_str() == Some("other.test") {
                std::thread::sleep(Duration::from_secs(60));
            }
        })
        .run_blocking()
        .unwrap();
    assert_eq!(
        (report.end, report.snapshot.pages),
        (CrawlEnd::TimeLimit, 1),
        "{:?}",
        report.snapshot.outcomes
    );
    assert_eq!(report.snapshot.pending(), 2, "aborted URLs stay pending");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn program_that_never_reads_its_input_does_not_hold_up_the_end() {
    let site = Site::new().fallback(|request| {
        let links: String =
            (0..5).map(|n| format!("<a href={}/{n}>x</a>", request.path.trim_end_matches('/'))).collect();
        Response::page(links + &"padding ".repeat(20_000))
    });
    let web = Web::builder().site(site).start();
    let start = Instant::now();
    let report = crawl(&web, "one.test")
        .configure_backend(|settings| settings.similarity = None)
        .configure(|config| config.max_per_host = 8)
        .max_time(Duration::from_secs(1))
        .module_from_spec("exec=sleep 1000")
        .unwrap()
        .run_blocking()
        .unwrap();
    assert_eq!(report.end, CrawlEnd::TimeLimit);
    // Two seconds for the modules, five for the program to exit, and one to kill it.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_adds_up(&report);
}

#[test]
fn pages_older_than_the_ttl_are_removed_and_no_url_is_fetched_again() {
    let slow =
        |link: &str| Response::page(format!("{link} <a href={link}>x</a>")).delay(Duration::from_millis(30));
    let site = Site::new().response("/", slow("/a")).response("/a", slow("/"));
    let web = Web::builder().host("a.test", site).start();
    let crawl = crawl(&web, "a.test").near_duplicates(None).unwrap().max_pages(5);
    let crawl = crawl.configure_backend(|settings| settings.ttl = Duration::from_millis(1));
    let report = crawl.run_blocking().unwrap();
    assert_eq!((report.snapshot.pages, report.end), (2, CrawlEnd::Finished));
    assert_eq!(report.snapshot.stored_pages, 1);
}
