//! The order of fetches: priorities and PageRank outages; and that no URL is fetched twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::config::FetchConfig;
use crawler::internal::pipeline::CrawlEnd;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::prioritizer::pagerank::PageRankConfig;
use crawler::internal::prioritizer::{Candidate, PageRank, Priorities, Prioritizer, Priority, Random};
use crawler::internal::scope::Scope;
use testweb::{Hostile, LoggedRequest, Request, Response, Site, Web};
use url::Url;

use super::{assert_adds_up, crawl, site_with_port};

/// `p0.test` has priority 5, `p1.test` 15, … `p9.test` 95.
struct ByName;

impl Prioritizer for ByName {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        let priority = |candidate: &Candidate| {
            let digit = candidate.domain.as_str().chars().nth(1).and_then(|digit| digit.to_digit(10));
            Priority::new(digit.unwrap_or(0) as u8 * 10 + 5).unwrap()
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
            .pagerank(pagerank)
            .configure_backend(|settings| settings.similarity = None)
            .run_blocking()
            .unwrap();
        let truth = web.truth_from(&web.url_of("h0.test", "/"), 1_000).len();
        assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Finished, truth as u64), "{outage:?}");
        assert!(service.hits() > 0);
        assert_adds_up(&report);
    }
}

/// The response of a PageRank service about these domains.
fn rank_response(domains: &[String], rank: impl Fn(&str) -> u8) -> Response {
    let entry = |domain: &String| {
        format!(r#"{{"status_code":200,"page_rank_integer":{},"domain":"{domain}"}}"#, rank(domain))
    };
    let entries = domains.iter().map(entry).collect::<Vec<_>>().join(",");
    Response::status(200).content_type("application/json").body(format!(r#"{{"response":[{entries}]}}"#))
}

/// A PageRank service that gives every domain rank 5, with a response time that depends on the domains.
fn rank_service(response_time: impl Fn(&[String]) -> Duration + Send + Sync + 'static) -> Web {
    let answer = move |request: &Request| {
        let domains = requested_domains(&request.path);
        rank_response(&domains, |_| 5).delay(response_time(&domains))
    };
    Web::builder().site(Site::new().fallback(answer)).start()
}

/// The domains of a request to the service.
fn requested_domains(path: &str) -> Vec<String> {
    let url = Url::parse("http://service/").unwrap().join(path).unwrap();
    url.query_pairs().map(|(_, domain)| domain.into_owned()).collect()
}

fn pagerank(service: &Web) -> PageRank {
    let mut settings = PageRankConfig::new(service.url("").parse().unwrap());
    settings.timeout = Duration::from_secs(60);
    PageRank::new(&FetchConfig::default(), settings, Random::seeded(1)).unwrap()
}

/// A page that links to the roots of these hosts of the same web.
fn links_to(hosts: impl Iterator<Item = String>, port: &str) -> Response {
    Response::page(hosts.map(|host| format!("<a href=http://{host}:{port}/>{host}</a>")).collect::<String>())
}

#[test]
fn slow_service_ranks_600_domains_in_two_rounds_at_most() {
    const HOSTS: usize = 600;
    let service = rank_service(|_| Duration::from_secs(2));
    let start = site_with_port(|_, port| links_to((0..HOSTS).map(|n| format!("h{n}.test")), port));
    let other = site_with_port(|_, _| Response::text("leaf"));
    let web = Web::builder().host("127.0.0.1", start).site(other).start();
    let report = crawl(&web, "127.0.0.1")
        .pagerank(pagerank(&service))
        .configure_backend(|settings| settings.similarity = None)
        .run_blocking()
        .unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Finished, HOSTS as u64 + 1));
    let stats = report.snapshot.prioritizer_service().unwrap().clone();
    assert_eq!((stats.failures, stats.is_available), (0, true));
    assert_eq!(stats.fallbacks, 1, "the address of the seed has no rank");
    let log = service.log();
    assert_eq!(log.iter().map(|hit| requested_domains(&hit.path).len()).sum::<usize>(), HOSTS);
    let first_round_ended = log.iter().map(|hit| hit.ended.unwrap()).min().unwrap();
    let (first, second) = log.iter().partition::<Vec<_>, _>(|hit| hit.started < first_round_ended);
    let second_round_ended = second.iter().map(|hit| hit.ended.unwrap()).min();
    assert!(second.iter().all(|hit| Some(hit.started) < second_round_ended), "{} requests", log.len());
    assert!(first.len() > 1 && log.max_concurrent() <= 8, "{} at a time", log.max_concurrent());
}

#[test]
fn slow_service_does_not_hold_up_urls_of_ranked_domains() {
    // Only slow.test, which is found together with many pages of ranked domains, takes long.
    let service = rank_service(|domains| match domains.contains(&"slow.test".into()) {
        true => Duration::from_secs(3),
        false => Duration::ZERO,
    });
    let site = site_with_port(|path, port| match path {
        "/" => {
            let links: String = (0..50).map(|n| format!("<a href=/{n}>{n}</a>")).collect();
            Response::page(format!("<a href=http://slow.test:{port}/leaf>slow</a>{links}"))
        }
        _ => Response::text("leaf"),
    });
    let web = Web::builder().site(site).start();
    let report = crawl(&web, "fast.test")
        .pagerank(pagerank(&service))
        .configure_backend(|settings| settings.similarity = None)
        .run_blocking()
        .unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Finished, 52));
    let slow = service.log().filter(|hit| hit.path.contains("slow.test"))[0].ended.unwrap();
    let fast = web.log().for_host("fast.test");
    assert_eq!(fast.len(), 51);
    assert!(fast.iter().all(|hit| hit.started < slow), "pages of a ranked domain waited for the service");
}

#[test]
fn urls_that_still_wait_are_ranked_again_when_the_service_is_back() {
    const HOSTS: usize = 300;
    let hosts = || (0..HOSTS).flat_map(|n| [format!("low{n}.test"), format!("high{n}.test")]);
    let start = site_with_port(move |_, port| links_to(hosts(), port));
    let pages = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&pages);
    let other = Site::new().fallback(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Response::text("leaf").delay(Duration::from_millis(15))
    });
    let web = Web::builder().host("127.0.0.1", start).site(other).start();
    // The service is back when some pages have been crawled with the fallback priority.
    let rank = |domain: &str| if domain.starts_with("high") { 10 } else { 0 };
    let answer = move |request: &Request| match pages.load(Ordering::Relaxed) {
        0..10 => Response::status(500),
        _ => rank_response(&requested_domains(&request.path), rank),
    };
    let service = Web::builder().site(Site::new().fallback(answer)).start();
    let mut settings = PageRankConfig::new(service.url("").parse().unwrap());
    settings.retry_delay = Duration::from_millis(10);
    settings.cooldown = Duration::from_millis(300);
    let pagerank = PageRank::new(&FetchConfig::default(), settings, Random::seeded(1)).unwrap();
    // One request at a time, so that most URLs still wait.
    let report = crawl(&web, "127.0.0.1")
        .workers(1)
        .concurrency(1)
        .pagerank(pagerank)
        .configure_backend(|settings| settings.similarity = None)
        .run_blocking()
        .unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Finished, 2 * HOSTS as u64 + 1));
    let fallbacks = report.snapshot.prioritizer_service().unwrap().clone().fallbacks;
    assert_eq!(fallbacks, 2 * HOSTS as u64 + 1, "all got the fallback first");
    let back = service.log().filter(|hit| hit.status == Some(200))[0].ended.unwrap();
    let ranked = back + Duration::from_secs(1);
    let after = web.log().filter(|hit| hit.started > ranked);
    let is_high = |hit: &&LoggedRequest| hit.host.starts_with("high");
    let left = after.iter().filter(is_high).count();
    assert!(left >= 20, "{left} pages were left; the test is too short");
    let high = after[..left].iter().filter(is_high).count();
    assert!(high * 10 > left * 8, "of the next {left} pages, {high} have the best rank");
}

/// What a prioritizer got for a URL: its path, and text and position of the link.
type SeenLinks = Arc<Mutex<BTreeMap<String, Option<(String, u32)>>>>;

/// Records what it gets for URLs.
struct RecordingPrioritizer {
    seen: SeenLinks,
    wants_source_links: bool,
}

impl Prioritizer for RecordingPrioritizer {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        for Candidate { url, source_link, .. } in candidates {
            let link = source_link.as_ref().map(|link| (link.text.clone(), link.position));
            let path = Url::parse(url).unwrap().path().to_owned();
            self.seen.lock().unwrap().insert(path, link);
        }
        Box::pin(async { vec![Priority::BEST; candidates.len()] })
    }

    fn wants_source_links(&self) -> bool {
        self.wants_source_links
    }
}

#[test]
fn prioritizer_sees_the_url_and_the_link_that_led_to_it() {
    let long = "ä ".repeat(300);
    let home = format!(
        "<a href=/a>  First\n <b>link</b> &amp; more </a><a href=mailto:x>no link</a><a href=http://other.test/>outside</a>\
         <a href=/a>again</a><a href=/moved></a><a href=/long>{long}</a><a href=/b>b</a>"
    );
    let site = Site::new()
        .page("/", home)
        .page("/b", "<a href=/>home</a> <a href=/c>c</a>")
        .redirect("/moved", "/target")
        .fallback(|request| Response::text(request.path.clone()));
    let link = |text: &str, position| Some((text.to_owned(), position));
    let long = format!("{}ä", "ä ".repeat(49));
    let expected: BTreeMap<String, _> = [
        ("/", None),
        ("/a", link("First link & more", 0)),
        ("/moved", link("", 3)),
        ("/target", None),
        ("/long", link(&long, 4)),
        ("/b", link("b", 5)),
        ("/c", link("c", 1)),
    ]
    .map(|(path, link)| (path.to_owned(), link))
    .into();
    // With a queue of one URL, the others wait in the overflow. With a state, that is on disk, and a crawl that was
    // stopped after each page reads it back.
    for (queue_size, with_state) in [(1_000, false), (1, false), (1, true)] {
        let (web, state) = (Web::builder().site(site.clone()).start(), tempfile::tempdir().unwrap());
        let seen = SeenLinks::default();
        let run = |max_pages| {
            let wants_source_links = true;
            let crawler = crawl(&web, "one.test")
                .scope(Scope::hosts(&[web.url_of("one.test", "/").parse().unwrap()]))
                .prioritizer(RecordingPrioritizer { seen: Arc::clone(&seen), wants_source_links })
                .max_pages(max_pages)
                .configure_backend(|settings| settings.queue_size = queue_size);
            let crawler = if with_state { crawler.state_dir(state.path().join("state")) } else { crawler };
            crawler.run_blocking().unwrap()
        };
        // With a state, what a run learns must come from there: earlier runs admitted the URLs.
        let mut all = BTreeMap::new();
        for max_pages in if with_state { 1..100 } else { 99..100 } {
            let report = run(max_pages);
            all.append(&mut seen.lock().unwrap());
            if report.end == CrawlEnd::Finished {
                break;
            }
        }
        assert_eq!(all, expected, "queue size {queue_size}, state {with_state}");
    }
}

#[test]
fn links_are_not_collected_for_a_prioritizer_that_does_not_want_them() {
    let web = Web::builder().site(Site::new().page("/", "<a href=/a>text</a>").page("/a", "a")).start();
    let seen = SeenLinks::default();
    let prioritizer = RecordingPrioritizer { seen: Arc::clone(&seen), wants_source_links: false };
    crawl(&web, "one.test").prioritizer(prioritizer).run_blocking().unwrap();
    assert_eq!(*seen.lock().unwrap(), BTreeMap::from([("/".to_owned(), None), ("/a".to_owned(), None)]));
}

#[test]
fn url_is_fetched_once_however_short_the_ttl_is() {
    // The pages take longer than the TTL, and each of them links to all.
    let links: String = (0..8).map(|number| format!("<a href=/{number}>{number}</a> ")).collect();
    let site = Site::new().fallback(move |request| {
        Response::page(format!("{links} {}", request.path)).delay(Duration::from_millis(60))
    });
    for keeps_depths in [false, true] {
        let web = Web::builder().site(site.clone()).start();
        let crawl = crawl(&web, "one.test")
            .configure(|config| config.max_per_host = 2)
            .configure_backend(|settings| settings.ttl = Duration::from_millis(20));
        let crawl = if keeps_depths { crawl.max_depth(20) } else { crawl };
        assert_eq!(crawl.run_blocking().unwrap().end, CrawlEnd::Finished);
        for path in (0..8).map(|number| format!("/{number}")).chain(["/".into()]) {
            assert_eq!(web.log().for_path(&path).len(), 1, "{path}");
        }
    }
}
