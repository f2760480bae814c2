//! The order of fetches: priorities, PageRank outages, and refetching after the TTL.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawler::StopHandle;
use crawler::internal::config::FetchConfig;
use crawler::internal::pipeline::CrawlEnd;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::prioritizer::pagerank::PageRankConfig;
use crawler::internal::prioritizer::{Candidate, PageRank, Priorities, Prioritizer, Priority, Random};
use testweb::{Hostile, Response, Site, Web};

use super::{assert_adds_up, crawl, site_with_port};

/// `p0.test` has priority 5, `p1.test` 15, … `p9.test` 95.
struct ByName;

impl Prioritizer for ByName {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        let priority = |candidate: &Candidate| {
            let digit = candidate.domain.as_str().chars().nth(1).and_then(|digit| digit.to_digit(10));
            Priority::at_most_worst(digit.unwrap_or(0) * 10 + 5)
        };
        Box::pin(async move { candidates.iter().map(priority).collect() })
    }
}

#[test]
fn urls_of_bad_priority_are_fetched_while_better_ones_keep_coming() {
    // Every page links to three more pages of its host, endlessly.
    let endless = || {
        Site::new().fallback(|request| {
            let path = request.path.trim_end_matches('/');
            let links: String =
                (0..3).map(|n| format!("<a href=/x{}{n}>x</a>", path.replace("/x", ""))).collect();
            Response::page(format!("{links} {path}"))
        })
    };
    let start = site_with_port(|_, port| {
        Response::page(
            (0..10).map(|n| format!("<a href=http://p{n}.test:{port}/>{n}</a>")).collect::<String>(),
        )
    });
    let mut web = Web::builder().site(start);
    for n in 0..10 {
        web = web.host(&format!("p{n}.test"), endless());
    }
    let web = web.start();
    let report = crawl(&web, "start.test")
        .workers(1)
        .prioritizer(ByName)
        .max_pages(2_000)
        // The hosts compete for one request at a time.
        .concurrency(1)
        .configure_backend(|settings| {
            settings.queue_size = 100;
            settings.similarity = None;
        })
        .run_blocking()
        .unwrap();
    assert_eq!(
        (report.end, report.snapshot.pages),
        (CrawlEnd::LimitReached(crawler::internal::backend::Budget::Pages), 2_000)
    );
    let log = web.log();
    let fetches: Vec<usize> = (0..10).map(|n| log.for_host(&format!("p{n}.test")).len()).collect();
    // Of 2,000 draws, the last queue gets 21 on average, the first 410.
    assert!(fetches.iter().all(|fetches| *fetches >= 3), "{fetches:?}");
    assert!(fetches[0] > 3 * fetches[9], "{fetches:?}");
}

#[test]
fn crawl_continues_while_the_pagerank_service_is_down() {
    let outages = [Response::status(500), Response::text("garbage"), Response::hostile(Hostile::Silence)];
    for outage in outages {
        let service = {
            let outage = outage.clone();
            Web::builder().site(Site::new().fallback(move |_| outage.clone())).start()
        };
        let mut settings = PageRankConfig::new(service.url("").parse().unwrap());
        settings.retry_delay = Duration::from_millis(20);
        settings.timeout = Duration::from_millis(200);
        settings.cooldown = Duration::from_millis(500);
        let pagerank = PageRank::new(&FetchConfig::default(), settings, Random::seeded(1)).unwrap();
        let web = Web::builder().seeded_hosts(17, 10, 5).start();
        let report = crawl(&web, "h0.test")
            .prioritizer(pagerank)
            .configure_backend(|settings| settings.similarity = None)
            .run_blocking()
            .unwrap();
        let truth = web.truth_from(&web.url_of("h0.test", "/"), 1_000).len();
        assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Finished, truth as u64), "{outage:?}");
        assert!(service.hits() > 0);
        assert_adds_up(&report);
    }
}

#[test]
fn url_is_fetched_again_after_its_ttl_but_never_while_it_is_outstanding() {
    // /slow is outstanding for longer than the TTL, and other pages keep linking to it.
    let response_time = Duration::from_millis(900);
    let site = Site::new()
        .page("/", "<a href=/slow>slow</a> <a href=/1>1</a>")
        .response("/slow", Response::page("slow").delay(response_time))
        .fallback(|request| {
            let number: u32 = request.path[1..].parse().unwrap_or(0);
            let next = match number {
                1..=6 => format!("<a href=/{}>next</a> <a href=/slow>slow</a>", number + 1),
                _ => "<a href=/1>first</a>".to_owned(),
            };
            Response::page(next + &request.path).delay(Duration::from_millis(120))
        });
    for (ttl, times) in [(Duration::from_millis(400), 2), (Duration::from_secs(3600), 1)] {
        let stop = StopHandle::new();
        let web = Web::builder().site(site.clone()).start();
        let pages: Arc<Mutex<Vec<String>>> = Arc::default();
        let (sink, second_fetch) = (Arc::clone(&pages), stop.clone());
        let report = crawl(&web, "one.test")
            .workers(1)
            .configure(|config| config.max_per_host = 2)
            .configure_backend(|settings| settings.ttl = ttl)
            .max_time(Duration::from_secs(60))
            .stop_handle(stop)
            .module(move |page: &crawler::Page| {
                let mut pages = sink.lock().unwrap();
                pages.push(page.url.path().to_owned());
                if pages.iter().filter(|page| *page == "/1").count() == 2 {
                    second_fetch.stop();
                }
            })
            .run_blocking()
            .unwrap();
        let pages = pages.lock().unwrap();
        let count = |path: &str| pages.iter().filter(|page| *page == path).count();
        assert_eq!(count("/1"), times, "{ttl:?}: {pages:?}");
        let log = web.log().for_path("/slow");
        let slow: Vec<_> = log.iter().collect();
        let overlap = slow.windows(2).any(|pair| pair[0].ended.is_none_or(|ended| pair[1].started < ended));
        assert!(!slow.is_empty() && !overlap, "{ttl:?}: {slow:?}");
        assert_eq!(report.end, if times == 1 { CrawlEnd::Finished } else { CrawlEnd::Stopped });
    }
}
