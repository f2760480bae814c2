//! The statistics of whole crawls, compared with the server's log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawler::Crawler;
use crawler::internal::backend::SnapshotInternals as _;
use crawler::internal::backend::WaitReason;
use crawler::internal::backend::durable::StateReader;
use crawler::internal::classic::ClassicReportInternals as _;
use crawler::internal::classic::{ClassicCrawl, ClassicInternals as _};
use crawler::internal::crawl_view::{CrawlPhase, CrawlView};
use crawler::internal::pipeline::CrawlReportInternals as _;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::scope::Scope;
use crawler::internal::statistics::{MAX_NAMES, OTHER, RobotsState, Statistics};
use testweb::{Certificate, Hostile, Log, Response, Site, Web};

/// How much later than the crawler the server sees a request, and how much earlier a response.
const TOLERANCE: Duration = Duration::from_millis(400);

/// A crawl of hosts on loopback, without delay.
fn crawl(web: &Web, host: &str) -> Crawler {
    Crawler::new(&web.url_of(host, "/")).unwrap().configure(|config| {
        config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
        config.requests.allow_private = true;
        config.delay = Duration::ZERO;
        config.robots_retry_pause = Duration::from_millis(10);
    })
}

/// The hosts of a log as the crawler names them, with their requests.
fn requests_by_host(log: &Log) -> BTreeMap<String, u64> {
    let mut hosts = BTreeMap::new();
    for hit in log.iter() {
        *hosts.entry(format!("{}:{}", hit.host, hit.port)).or_default() += 1;
    }
    hosts
}

fn requests(statistics: &Statistics) -> BTreeMap<String, u64> {
    let hosts =
        statistics.hosts.iter().map(|(host, host_statistics)| (host.to_owned(), host_statistics.requests));
    hosts.filter(|(_, requests)| *requests > 0).collect()
}

fn statuses(log: &Log) -> BTreeMap<u16, u64> {
    let mut statuses = BTreeMap::new();
    for status in log.iter().filter_map(|hit| hit.status) {
        *statuses.entry(status).or_default() += 1;
    }
    statuses
}

/// Collects the views of a crawl.
fn views(crawler: Crawler) -> (Crawler, Arc<Mutex<Vec<CrawlView>>>) {
    let views = Arc::new(Mutex::new(Vec::new()));
    let collected = Arc::clone(&views);
    (crawler.on_status(move |view| collected.lock().unwrap().push(view.clone())), views)
}

/// A site with all kinds of responses.
fn mixed_site() -> Site {
    let links = "<html lang=de-AT><title>Start</title><a href=/a>a</a><a href=/missing>m</a><a href=/broken>b</a>\
        <a href=/moved>r</a><a href=/text>t</a><a href=/image>i</a><a href=/private/x>p</a><a href=/large>l</a>";
    Site::new()
        .page("/", links)
        .robots("User-agent: *\nDisallow: /private/\n")
        .page("/a", "<html lang=EN><title>A</title><p>one page</p>")
        .status("/missing", 404)
        .status("/broken", 500)
        .redirect("/moved", "/target")
        .page("/target", "<html lang=en><p>another page, with another text</p>")
        .response("/text", Response::text("plain text"))
        .response("/image", Response::text(vec![0; 100]).content_type("Image/PNG"))
        .page("/large", format!("<html lang=fr>{}", "words of a large page ".repeat(2_000)))
}

#[test]
fn statuses_and_requests_per_host_equal_the_servers_log() {
    let web = Web::builder().host("a.test", mixed_site()).start();
    let crawler = crawl(&web, "a.test")
        .max_page_bytes(20_000)
        .scope(Scope::domains(&["http://a.test/".parse().unwrap()]));
    let (crawler, views) = views(crawler);
    let report = crawler.run_blocking().unwrap();
    let (log, statistics) = (web.log(), &**report.statistics());
    assert_eq!(statistics.statuses, statuses(&log));
    assert_eq!(requests(statistics), requests_by_host(&log));
    assert_eq!(statistics.statuses.values().sum::<u64>(), report.snapshot.requests);
    assert_eq!((statistics.robots_txt.fetched, statistics.robots_txt.disallowed), (1, 1));
    let languages =
        BTreeMap::from([("de", 1), ("en", 2), ("fr", 1)].map(|(name, count)| (name.to_owned(), count)));
    assert_eq!(statistics.languages, languages);
    assert_eq!(statistics.content_types["image/png"], 1);
    assert_eq!(statistics.content_types["text/plain"], 1);
    assert_eq!(statistics.depths, [1, report.snapshot.pages - 1]);
    assert_eq!((statistics.page_bytes.count, statistics.truncated), (report.snapshot.pages, 1));
    // The page that fails with 500 is requested again.
    assert_eq!(statistics.retries, 1);
    let stages = &statistics.stages;
    assert_eq!(stages.first_byte.count, report.snapshot.requests);
    assert!(stages.connect.count > 0 && stages.process.count >= report.snapshot.pages);
    assert_eq!(stages.modules.count, report.snapshot.pages);
    assert_eq!((statistics.in_flight, statistics.failures.total()), (0, 0));
    let (name, host) = statistics.hosts.iter().next().unwrap();
    assert_eq!(name, format!("a.test:{}", web.port()));
    assert_eq!((host.pages, host.failures, host.robots), (report.snapshot.pages, 2, RobotsState::Rules));
    let latest: BTreeMap<_, _> = statistics.latest.iter().map(|url| (url.url.as_str(), url)).collect();
    let start = latest[&*web.url_of("a.test", "/")];
    assert_eq!((start.title.as_deref(), start.status, &*start.outcome), (Some("Start"), Some(200), "page"));
    assert_eq!(latest.len() as u64, report.snapshot.completed);
    let views = views.lock().unwrap();
    let last = views.last().unwrap();
    assert_eq!(last.phase, CrawlPhase::Ended(report.end.to_string()));
    assert_eq!(last.statistics.statuses, statistics.statuses);
    assert_eq!(last.limits.max_pages, 10_000);
    assert_eq!(views[0].phase, CrawlPhase::Running);
}

#[test]
fn smallest_gaps_of_hosts_match_the_servers_log_and_are_not_below_the_delay() {
    let web = Web::builder().seeded_hosts(3, 4, 6).start();
    let delay = Duration::from_millis(60);
    let crawler = crawl(&web, "h0.test").workers(3).configure(|config| config.delay = delay);
    let report = crawler.run_blocking().unwrap();
    let log = web.log();
    assert_eq!(requests(report.statistics()), requests_by_host(&log));
    for (name, host) in report.statistics().hosts.iter() {
        let log = log.for_host(name.split(':').next().unwrap());
        let Some(logged) = log.smallest_gap() else {
            assert_eq!(host.smallest_gap_ms, None, "{name}");
            continue;
        };
        let measured = Duration::from_millis(host.smallest_gap_ms.unwrap().into());
        assert!(measured >= delay && logged >= delay, "{name}: {measured:?}, {logged:?}");
        // The server sees no smaller gap than the crawler measures, but one that may be larger on a busy machine.
        assert!(logged + Duration::from_millis(1) >= measured, "{name}: {measured:?}, {logged:?}");
        assert!(logged <= measured + TOLERANCE, "{name}: {measured:?}, {logged:?}");
        assert_eq!((host.early_requests, host.delay_ms), (0, 60), "{name}: {host:?}");
    }
}

#[test]
fn failed_requests_are_counted_by_kind_and_by_host() {
    let web =
        Web::builder().host("a.test", Site::new().response("/", Response::hostile(Hostile::NotHttp))).start();
    let crawler = crawl(&web, "a.test").configure(|config| config.requests.obey_robots = false);
    let report = crawler.run_blocking().unwrap();
    let host = report.statistics().hosts.iter().next().unwrap().1;
    let failures = &report.statistics().failures;
    assert!(failures.protocol + failures.connect > 0, "{failures:?}");
    assert_eq!((host.failures, u64::from(host.consecutive_failures)), (failures.total(), failures.total()));
    assert_eq!((host.pages, host.robots), (0, RobotsState::Ignored));
    assert!(host.last_failure.is_some());
    assert_eq!(requests(report.statistics()), requests_by_host(&web.log()));
}

#[test]
fn tls_handshakes_are_timed_and_their_failures_counted() {
    for is_trusted in [true, false] {
        let web = Web::builder().site(Site::new().page("/", "x")).https(Certificate::Good).start();
        let crawler = Crawler::new(&web.https_url("/")).unwrap().configure(|config| {
            config.delay = Duration::ZERO;
            config.requests.obey_robots = false;
            config.requests.insecure = is_trusted;
        });
        let statistics = crawler.run_blocking().unwrap().statistics().clone();
        let (handshakes, failures) = (statistics.stages.tls.count, statistics.failures.tls);
        assert_eq!((handshakes > 0, failures > 0), (is_trusted, !is_trusted), "{statistics:?}");
    }
}

#[test]
fn a_web_of_endless_hosts_types_and_languages_leaves_statistics_bounded() {
    const HOSTS: usize = 1_500;
    let site = Site::new().fallback(|request| {
        let number = request.authority.split(['h', '.']).nth(1).unwrap_or_default().to_owned();
        let port = request.authority.rsplit(':').next().unwrap_or_default();
        let language: String =
            number.bytes().map(|digit| char::from(b'a' + digit.wrapping_sub(b'0') % 26)).collect();
        let links: String = match &*number {
            "0" => (1..HOSTS).map(|host| format!("<a href=http://h{host}.test:{port}/>h</a>")).collect(),
            _ => String::new(),
        };
        let page =
            Response::page(format!("<html lang={language}>{links}{number} is the number of this page"));
        page.content_type(&format!("text/html; charset=utf-8; n={number}"))
    });
    let web = (0..HOSTS)
        .fold(Web::builder(), |web, number| web.host(&format!("h{number}.test"), site.clone()))
        .start();
    let crawler = crawl(&web, "h0.test").configure(|config| config.requests.obey_robots = false);
    let crawler = crawler.near_duplicates(Some(0.0)).unwrap();
    let report = crawler.run_blocking().unwrap();
    let statistics = report.statistics();
    assert_eq!(report.snapshot.pages, HOSTS as u64);
    assert_eq!(statistics.languages.len(), MAX_NAMES + 1);
    assert!(statistics.languages[OTHER] > 0);
    assert_eq!(statistics.languages.values().sum::<u64>(), HOSTS as u64);
    assert_eq!(statistics.content_types.len(), 1, "{:?}", statistics.content_types);
    assert!((500..=1_000).contains(&statistics.hosts.len()), "{}", statistics.hosts.len());
    let bytes = serde_json::to_vec(&**statistics).unwrap().len();
    assert!(bytes < 1_000_000, "{bytes}");
}

#[test]
fn a_resumed_crawl_continues_the_statistics_of_its_state() {
    let web = Web::builder().seeded_hosts(5, 6, 10).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let hosts: Vec<_> = (0..6).map(|number| format!("http://h{number}.test/").parse().unwrap()).collect();
    let crawler =
        |pages| crawl(&web, "h0.test").scope(Scope::domains(&hosts)).max_pages(pages).state_dir(&state);
    let first = crawler(20).run_blocking().unwrap();
    let status = StateReader::open(&state).unwrap().status().unwrap();
    assert_eq!(status.phase, CrawlPhase::Ended(first.end.to_string()));
    assert_eq!((status.limits.max_pages, status.process), (20, None));
    assert_eq!(status.statistics.statuses, first.statistics().statuses);
    assert!(status.statistics.commits > 0 && status.statistics.latest.is_empty());
    let second = crawler(10_000).run_blocking().unwrap();
    let (log, statistics) = (web.log(), &**second.statistics());
    assert!(second.snapshot.pages > 20);
    assert_eq!(statistics.statuses, statuses(&log));
    assert_eq!(requests(statistics), requests_by_host(&log));
    assert_eq!(statistics.started_at, first.statistics().started_at);
    assert_eq!(statistics.stages.commit.count, statistics.commits);
    assert!(statistics.commits > first.statistics().commits);
    assert_eq!(statistics.series.samples().last().unwrap().pages, second.snapshot.pages);
}

#[test]
fn statistics_of_a_classic_crawl_equal_the_servers_log() {
    let web = Web::builder().site(mixed_site()).start();
    let directory = tempfile::tempdir().unwrap();
    let views = Arc::new(Mutex::new(Vec::new()));
    let collected = Arc::clone(&views);
    let crawl = ClassicCrawl::new(&web.url("/"), directory.path(), 3).unwrap().configure(|config| {
        config.delay = Duration::from_millis(20);
        config.requests.allow_private = true;
    });
    let crawl = crawl.on_status(move |view| collected.lock().unwrap().push(view.clone()));
    let report = crawl.run_blocking().unwrap();
    let (log, statistics) = (web.log(), &**report.statistics());
    assert_eq!(statistics.statuses, statuses(&log));
    assert_eq!(requests(statistics), requests_by_host(&log));
    assert_eq!(statistics.depths.iter().sum::<u64>(), report.stats.pages);
    assert_eq!((statistics.robots_txt.fetched, statistics.robots_txt.disallowed), (1, 1));
    assert_eq!((statistics.retries, statistics.content_types["image/png"]), (1, 1));
    let host = statistics.hosts.iter().next().unwrap().1;
    assert!(host.smallest_gap_ms.unwrap() >= 20);
    let views: Vec<CrawlView> = std::mem::take(&mut views.lock().unwrap());
    assert_eq!(views[0].phase, CrawlPhase::Running);
    let last = views.last().unwrap();
    assert!(matches!(last.phase, CrawlPhase::Ended(_)));
    assert_eq!((last.snapshot.pages, last.snapshot.requests), (report.stats.pages, log.len() as u64));
    assert_eq!(last.limits.max_depth, Some(3));
}

#[test]
fn hosts_that_hold_the_crawl_up_are_named_with_the_reason() {
    let links: String = (0..200).map(|number| format!("<a href=/{number}>n</a>")).collect();
    let page = move |_: &testweb::Request| Response::page(links.clone());
    let failing =
        Site::new().page("/", "<a href=/a>a</a><a href=/b>b</a><a href=/c>c</a>").fallback(|request| {
            match &*request.path {
                "/robots.txt" => Response::status(404),
                _ => Response::hostile(Hostile::CloseImmediately),
            }
        });
    let asking = Site::new()
        .status("/robots.txt", 404)
        .fallback(|_: &testweb::Request| Response::status(429).header("Retry-After", "60"));
    let web = Web::builder()
        .host("slow.test", Site::new().fallback(page.clone()))
        .host("robots.test", Site::new().fallback(page).response("/robots.txt", Response::status(503)))
        .host("failing.test", failing)
        .host("asking.test", asking)
        .start();
    let seeds = ["slow.test", "robots.test", "failing.test", "asking.test"]
        .map(|host| web.url_of(host, "/").parse().unwrap());
    let more = ["robots.test", "asking.test"].map(|host| web.url_of(host, "/more").parse().unwrap());
    let seeds_with_more = seeds.clone().into_iter().chain(more);
    let crawler =
        Crawler::from_seeds(seeds_with_more).unwrap().scope(Scope::domains(&seeds)).configure(|config| {
            config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
            config.requests.allow_private = true;
            config.delay = Duration::from_millis(200);
        });
    let (crawler, views) = views(crawler.concurrency(8).max_time(Duration::from_millis(4_300)));
    crawler.run_blocking().unwrap();
    let views = views.lock().unwrap();
    let reasons = |host: &str| -> Vec<WaitReason> {
        let hosts = views.iter().flat_map(|view| view.snapshot.waiting_hosts());
        hosts.filter(|waiting| waiting.host.starts_with(host)).map(|waiting| waiting.why.clone()).collect()
    };
    let slow = reasons("slow.test");
    assert!(slow.contains(&WaitReason::Delay(Duration::from_millis(200))), "{slow:?}");
    let failing = reasons("failing.test");
    assert!(failing.iter().any(|why| matches!(why, WaitReason::BackingOff { .. })), "{failing:?}");
    let asking = reasons("asking.test");
    let is_pause = |why: &WaitReason| matches!(why, WaitReason::ServerDelay(time) if time.as_secs() > 50);
    assert!(asking.iter().any(is_pause), "{asking:?}");
    for view in views.iter() {
        let hosts = view.snapshot.waiting_hosts();
        assert!(hosts.is_sorted_by_key(|host| std::cmp::Reverse(host.waiting)), "{hosts:?}");
    }
}
