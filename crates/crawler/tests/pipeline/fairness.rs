//! What is fetched first, and what hosts that do not respond cost others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crawler::StopHandle;
use crawler::internal::backend::Budget;
use crawler::internal::config::FetchConfig;
use crawler::internal::pipeline::CrawlEnd;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::prioritizer::pagerank::PageRankConfig;
use crawler::internal::prioritizer::{Candidate, PageRank, Priorities, Prioritizer, Priority, Random};
use testweb::{Hostile, Request, Response, Site, Web};
use url::Url;

use super::{assert_adds_up, crawl, site_with_port};

/// A page with a link to the start page of each host.
fn links_to<'a>(hosts: impl IntoIterator<Item = &'a String>, port: &str) -> Response {
    Response::page(
        hosts.into_iter().map(|host| format!("<a href=http://{host}:{port}/>x</a>")).collect::<String>(),
    )
}

/// A web whose host `start.test` links to these hosts.
fn web_of(hosts: Vec<String>, answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Web {
    let start = site_with_port(move |_, port| links_to(&hosts, port));
    Web::builder().host("start.test", start).site(Site::new().fallback(answer)).start()
}

/// A page that no other page is similar to.
fn own_page(request: &Request) -> Response {
    Response::page(format!("{} {}", request.authority, request.path))
}

/// A rank service: domains that start with `best` have rank 10, all others rank 0.
fn rank_service() -> Web {
    let answer = |request: &Request| {
        let url = Url::parse("http://service/").unwrap().join(&request.path).unwrap();
        let entries: Vec<String> = url
            .query_pairs()
            .map(|(_, domain)| {
                let rank = if domain.starts_with("best") { 10 } else { 0 };
                format!(r#"{{"status_code":200,"error":"","page_rank_integer":{rank},"rank":"1","domain":"{domain}"}}"#)
            })
            .collect();
        let body = format!(r#"{{"status_code":200,"response":[{}]}}"#, entries.join(","));
        Response::status(200).content_type("application/json").body(body)
    };
    Web::builder().site(Site::new().fallback(answer)).start()
}

fn page_rank(service: &Web) -> PageRank {
    let settings = PageRankConfig::new(service.url("").parse().unwrap());
    PageRank::new(&FetchConfig::default(), settings, Random::seeded(1)).unwrap()
}

/// `count` hosts of each rank, in turns.
fn ranked_hosts(count: usize) -> Vec<String> {
    (0..count).flat_map(|number| [format!("worst{number}.test"), format!("best{number}.test")]).collect()
}

/// Whether each request to a ranked host was to one of the best, in order.
fn requests_to_best(web: &Web) -> Vec<bool> {
    let log = web.log();
    let ranked = log.iter().filter(|hit| hit.host != "start.test");
    ranked.map(|hit| hit.host.starts_with("best")).collect()
}

#[test]
fn best_of_two_priorities_is_fetched_first() {
    let (service, web) = (rank_service(), web_of(ranked_hosts(300), own_page));
    crawl(&web, "start.test").pagerank(page_rank(&service)).max_pages(200).run_blocking().unwrap();
    let best = requests_to_best(&web)[..40].iter().filter(|is_best| **is_best).count();
    assert!(best >= 34, "{best} of the first 40");
}

#[test]
fn priorities_decide_what_a_crawl_with_a_page_limit_fetches() {
    for pages in [400, 2_000] {
        // Pages take a while, so that the load of the machine does not decide whether they or the ranks are there first.
        let page = |request: &Request| own_page(request).delay(Duration::from_millis(50));
        let (service, web) = (rank_service(), web_of(ranked_hosts(2_000), page));
        let report = crawl(&web, "start.test")
            .pagerank(page_rank(&service))
            .max_pages(pages as u64)
            .configure_backend(|settings| settings.similarity = None)
            .run_blocking()
            .unwrap();
        assert_eq!(report.end, CrawlEnd::LimitReached(Budget::Pages));
        let best = requests_to_best(&web).into_iter().filter(|is_best| *is_best).count();
        println!("{best} of {pages} pages are of the best");
        assert!(best * 100 >= pages * 80, "{best} of {pages}");
    }
}

/// Prefers URLs whose path starts with `/best`.
struct ByPath;

impl Prioritizer for ByPath {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        let is_best = |candidate: &Candidate| candidate.url.contains("/best");
        let priority = move |candidate| if is_best(candidate) { Priority::BEST } else { Priority::WORST };
        Box::pin(async move { candidates.iter().map(priority).collect() })
    }
}

#[test]
fn best_links_of_a_page_are_fetched_first_although_they_are_last_on_it() {
    let links = (0..3_000).map(|number| match number {
        2_970.. => format!("<a href=/best/{number}>x</a>"),
        _ => format!("<a href=/other/{number}>x</a>"),
    });
    let site = Site::new().page("/", links.collect::<String>()).fallback(own_page);
    let web = Web::builder().site(site).start();
    crawl(&web, "one.test")
        .prioritizer(ByPath)
        .configure_backend(|settings| settings.similarity = None)
        .run_blocking()
        .unwrap();
    let log = web.log();
    assert_eq!(log.len(), 3_001);
    let positions = log.iter().enumerate().filter(|(_, hit)| hit.path.starts_with("/best"));
    let positions: Vec<usize> = positions.map(|(position, _)| position).collect();
    assert!(positions[15] <= 1_000, "{positions:?}");
}

/// A web whose start page links to hanging hosts first, and then to the good ones.
fn hanging_hosts_first(hanging: usize, good: usize) -> Web {
    let hanging = (0..hanging).map(|number| format!("hanging{number}.test"));
    let good = (0..good).map(|number| format!("good{number}.test"));
    web_of(hanging.chain(good).collect(), |request| match request.authority.starts_with("hanging") {
        true => Response::hostile(Hostile::Silence),
        false => own_page(request),
    })
}

/// How long after the start page the last page of a good host was requested.
fn time_to_good_hosts(web: &Web, count: usize) -> Duration {
    let log = web.log();
    let start = log.iter().map(|hit| hit.started).min().unwrap();
    let good: BTreeMap<_, _> = log
        .iter()
        .filter(|hit| hit.host.starts_with("good"))
        .map(|hit| (hit.host.clone(), hit.started))
        .collect();
    assert_eq!(good.len(), count);
    good.values().max().unwrap().duration_since(start)
}

#[test]
fn full_worker_holds_up_its_own_domains_only() {
    let web = hanging_hosts_first(40, 400);
    crawl(&web, "start.test")
        .workers(2)
        .max_time(Duration::from_secs(5))
        .configure_backend(|settings| settings.queue_size = 10)
        .run_blocking()
        .unwrap();
    let time = time_to_good_hosts(&web, 400);
    assert!(time < Duration::from_secs(5), "{time:?}");
}

#[test]
fn hosts_that_do_not_respond_cannot_starve_others() {
    let web = hanging_hosts_first(300, 200);
    let started = Instant::now();
    let report =
        crawl(&web, "start.test").workers(1).max_time(Duration::from_secs(8)).run_blocking().unwrap();
    let time = time_to_good_hosts(&web, 200);
    assert!(time < Duration::from_secs(8), "{time:?}");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_adds_up(&report);
}

#[test]
#[ignore = "needs an idle machine: run by make soak"]
fn a_thousand_hosts_that_do_not_respond_cannot_starve_others_in_make_soak() {
    let (web, stop) = (hanging_hosts_first(1_000, 200), StopHandle::new());
    // As many workers as the command has on a machine with two cores.
    let crawler = crawl(&web, "start.test").workers(2).max_time(Duration::from_secs(20));
    let crawler = crawler.stop_handle(stop.clone());
    let crawling = std::thread::spawn(move || crawler.run_blocking().unwrap());
    let has_good = || web.log().iter().filter(|hit| hit.host.starts_with("good")).count() == 200;
    while !has_good() && !crawling.is_finished() {
        std::thread::sleep(Duration::from_millis(50));
    }
    stop.abort();
    let report = crawling.join().unwrap();
    let time = time_to_good_hosts(&web, 200);
    assert!(time < Duration::from_secs(20), "{time:?}");
    println!("200 pages behind 1,000 hosts that do not respond: {time:.1?}");
    assert_adds_up(&report);
}

#[test]
fn overloaded_host_gets_a_pause_before_the_second_try() {
    let overloaded = Response::sequence(vec![Response::status(503), Response::page("page")]);
    let web = Web::builder().site(Site::new().response("/", overloaded)).start();
    let report = crawl(&web, "one.test").run_blocking().unwrap();
    let log = web.log();
    assert_eq!((report.snapshot.pages, log.len()), (1, 2));
    assert!(log.smallest_gap().unwrap() >= Duration::from_millis(240), "{:?}", log.smallest_gap());
}

#[test]
fn host_that_fails_again_and_again_is_given_up() {
    let site = site_with_port(|path, port| match path {
        "/" => Response::page(
            (0..50).map(|n| format!("<a href=http://dead.test:{port}/{n}>x</a>")).collect::<String>(),
        ),
        _ => Response::hostile(Hostile::Silence),
    });
    let web = Web::builder().site(site).start();
    let report = crawl(&web, "start.test")
        .configure(|config| config.timeout = Duration::from_millis(100))
        .run_blocking()
        .unwrap();
    assert_eq!(report.end, CrawlEnd::Finished);
    let requests = web.log().for_host("dead.test");
    assert_eq!((requests.len(), requests.max_concurrent()), (6, 1));
    let outcomes = &report.snapshot.outcomes;
    assert_eq!((outcomes["timeout"], outcomes["host unreachable"]), (3, 47), "{outcomes:?}");
    let unreachable = &report.snapshot.unreachable_hosts;
    assert!(unreachable.keys().all(|host| host.starts_with("dead.test")) && unreachable.len() == 1);
    assert_adds_up(&report);
}

#[test]
fn urls_do_not_fail_while_the_network_is_down() {
    const HOSTS: usize = 12;
    const PAGES: usize = 20;
    // Without kept-alive connections, each request needs the network.
    let web = web_of((0..HOSTS).map(|number| format!("h{number}.test")).collect(), |request| {
        let links: String = (0..PAGES).map(|number| format!("<a href=/{number}>x</a>")).collect();
        Response::page(format!("{links} {} {}", request.authority, request.path)).close()
    });
    let directory = tempfile::tempdir().unwrap();
    let addresses = directory.path().join("addresses");
    // Nothing listens at the address of a network that is down.
    let set_network = |address: &str| {
        let hosts = (0..HOSTS).map(|number| format!("h{number}.test={address}\n")).collect::<String>();
        std::fs::write(&addresses, format!("start.test=127.0.0.1\n{hosts}")).unwrap();
    };
    set_network("127.0.0.1");
    let seconds_down: Arc<Mutex<Vec<u64>>> = Arc::default();
    let seen = Arc::clone(&seconds_down);
    let crawler = crawl(&web, "start.test")
        .configure(|config| {
            config.requests.dns_overrides.clear();
            config.dns_file = Some(addresses.clone());
            config.delay = Duration::from_millis(20);
        })
        .configure_backend(|settings| settings.similarity = None)
        .on_progress(move |snapshot| seen.lock().unwrap().extend(snapshot.network_down));
    let crawling = std::thread::spawn(move || crawler.run_blocking().unwrap());
    while web.hits() < 3 * HOSTS {
        std::thread::sleep(Duration::from_millis(5));
    }
    set_network("127.0.0.77");
    while seconds_down.lock().unwrap().is_empty() {
        assert!(!crawling.is_finished(), "the crawl ended without its network");
        std::thread::sleep(Duration::from_millis(20));
    }
    set_network("127.0.0.1");
    let report = crawling.join().unwrap();
    assert_eq!(report.end, CrawlEnd::Finished);
    let outcomes = &report.snapshot.outcomes;
    assert_eq!(outcomes.keys().collect::<Vec<_>>(), ["page"], "{outcomes:?}");
    assert_eq!(report.snapshot.pages as usize, 1 + HOSTS * (PAGES + 1));
}

#[test]
fn crawl_of_dead_hosts_ends_when_its_network_timeout_is_over() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = Site::new().page(
        "/",
        (0..8).map(|number| format!("<a href=http://d{number}.test:{closed}/>x</a>")).collect::<String>(),
    );
    let web = Web::builder().site(start).start();
    let stopped = crawl(&web, "start.test")
        .configure(|config| config.network_timeout = Duration::from_millis(300))
        .run_blocking()
        .unwrap();
    assert_eq!(stopped.end, CrawlEnd::Finished);
    assert_eq!(stopped.snapshot.outcomes["connection"], 8, "{:?}", stopped.snapshot.outcomes);
}
