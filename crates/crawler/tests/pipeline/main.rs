//! Whole crawls of the pipeline on a web of many hosts, held against the truth about it and the server's own log.

mod endings;
mod order;
mod parts;
mod polite;
mod polite_robots;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crawler::Crawler;
use crawler::internal::backend::Budget;
use crawler::internal::config::DnsOverride;
use crawler::internal::page::Page;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport};
use crawler::internal::scope::Scope;
use testweb::{Answer, Hostile, Site, Web};

/// A crawl of hosts that are all on loopback, without delay and without robots.txt.
fn crawl(web: &Web, host: &str) -> Crawler {
    Crawler::new(&web.url_of(host, "/")).unwrap().configure(|config| {
        config.dns_overrides = vec![DnsOverride { host: "*".into(), address: [127, 0, 0, 1].into() }];
        config.allow_private = true;
        config.obey_robots = false;
        config.delay = Duration::ZERO;
    })
}

/// What the crawl kept: URL to depth and body.
type Kept = Arc<Mutex<BTreeMap<String, (usize, Vec<u8>)>>>;

fn keep_in(kept: &Kept) -> impl Fn(&Page) + Send + Sync + 'static {
    let kept = Arc::clone(kept);
    move |page: &Page| {
        let before =
            kept.lock().unwrap().insert(page.url.to_string(), (page.depth as usize, page.body.to_vec()));
        assert!(before.is_none(), "{} was seen twice", page.url);
    }
}

/// A site of which each request says on which port it came, for pages that lead to other hosts of the same web.
fn site_of(answer: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Site {
    Site::new().otherwise(move |request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        answer(&request.path, port)
    })
}

fn assert_adds_up(report: &CrawlReport) {
    let CrawlReport { snapshot, .. } = report;
    assert_eq!(snapshot.outcomes.values().sum::<u64>() + snapshot.revisits, snapshot.completed);
    assert_eq!(snapshot.outcomes.get("kept").copied().unwrap_or(0), snapshot.pages);
}

#[test]
fn every_page_of_many_hosts_is_reached_with_any_number_of_workers() {
    for workers in [1, 4, 16] {
        let web = Web::builder().seeded_hosts(7, 20, 12).start();
        let kept = Kept::default();
        let report = crawl(&web, "h0.test")
            .workers(workers)
            .scope(Scope::domains(
                &(0..20).map(|n| format!("http://h{n}.test/").parse().unwrap()).collect::<Vec<_>>(),
            ))
            .configure_backend(|settings| settings.similarity = None)
            .module(keep_in(&kept))
            .run()
            .unwrap();
        let truth = web.truth_from(&web.url_of("h0.test", "/"), 1_000);
        let urls =
            |pages: &BTreeMap<String, (usize, Vec<u8>)>| pages.keys().cloned().collect::<BTreeSet<_>>();
        let kept = kept.lock().unwrap();
        assert_eq!(urls(&kept), urls(&truth), "{workers} workers");
        assert!(kept.iter().all(|(url, (_, body))| *body == truth[url].1));
        assert_eq!(report.end, CrawlEnd::Done);
        assert_eq!(report.snapshot.outstanding(), 0);
        assert_adds_up(&report);
        let asked: Vec<_> = web.log().iter().map(|hit| (hit.host.clone(), hit.path.clone())).collect();
        assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len(), "each URL is asked for once");
    }
}

#[test]
fn no_host_is_asked_by_two_or_faster_than_allowed() {
    for workers in [1, 4, 16] {
        let web = Web::builder().seeded_hosts(3, 12, 6).start();
        let delay = Duration::from_millis(40);
        crawl(&web, "h0.test").workers(workers).configure(|config| config.delay = delay).run().unwrap();
        let log = web.log();
        assert!(log.len() > 40);
        assert!(log.smallest_gap().unwrap() >= delay, "{:?} with {workers} workers", log.smallest_gap());
        for host in (0..12).map(|n| format!("h{n}.test")) {
            assert!(log.of_host(&host).most_at_once() <= 1, "{host}");
        }
    }
}

#[test]
fn a_page_within_the_depth_is_reached_also_when_first_met_by_a_longer_way() {
    // The long way to /far is quick, the short one slow: it is met at depth 3 first, and belongs to depth 2. It is met
    // nearer after its completion, or while it is in flight.
    for far_takes in [0, 800] {
        a_page_is_reached_that_was_first_met_by_a_longer_way(Duration::from_millis(far_takes));
    }
}

fn a_page_is_reached_that_was_first_met_by_a_longer_way(far_takes: Duration) {
    let slow = Answer::page("<a href=/far>far</a>").after(Duration::from_millis(400));
    let site = Site::new()
        .page("/", "<a href=/1>1</a> <a href=/slow>slow</a>")
        .page("/1", "<a href=/2>2</a>")
        .page("/2", "<a href=/3>3</a> <a href=/far>far</a>")
        .page("/3", "three")
        .answer("/slow", slow)
        .answer("/far", Answer::page("<a href=/beyond>beyond</a>").after(far_takes))
        .page("/beyond", "<a href=/never>never</a>")
        .page("/never", "too deep");
    let web = Web::builder().site(site).start();
    let kept = Kept::default();
    let report = Crawler::new(&web.url("/"))
        .unwrap()
        .configure(|config| {
            config.obey_robots = false;
            config.delay = Duration::ZERO;
            config.max_per_host = 4;
        })
        .max_depth(3)
        .configure_backend(|settings| settings.similarity = None)
        .module(keep_in(&kept))
        .run()
        .unwrap();
    let paths: BTreeSet<String> =
        kept.lock().unwrap().keys().map(|url| url.replace(&web.url(""), "")).collect();
    let expected = ["/", "/1", "/2", "/3", "/slow", "/far", "/beyond"].map(String::from);
    assert_eq!(paths, expected.into_iter().collect());
    assert_eq!(report.snapshot.revisits, 1);
    assert_adds_up(&report);
}

#[test]
fn no_page_is_cut_while_others_only_reserve_the_budget() {
    let links: String = (0..300).map(|n| format!("<a href=http://h{n}.test:PORT/>x</a>")).collect();
    let site = Site::new().otherwise(move |request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        let page = if request.authority.starts_with("start") {
            links.replace("PORT", port)
        } else {
            "x".repeat(9_000)
        };
        Answer::page(page).after(Duration::from_millis(50))
    });
    let web = Web::builder().site(site).start();
    let settings =
        |settings: &mut crawler::internal::backend::local::BackendConfig| settings.similarity = None;
    let report =
        crawl(&web, "start.test").workers(4).configure_backend(settings).max_bytes(10_000_000).run().unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Done, 301), "{:?}", report.snapshot.outcomes);
}

#[test]
fn a_spent_budget_ends_the_crawl_without_waiting_for_anybodys_turn() {
    let limping = Site::new().otherwise(|_| Answer::status(503).header("retry-after", "30"));
    let site = Site::new().otherwise(|request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        Answer::page(format!(
            "<a href=http://limping.test:{port}/>l</a> <a href=http://well.test:{port}/>w</a>"
        ))
        .after(Duration::from_millis(100))
    });
    let web = Web::builder().host("limping.test", limping).site(site).start();
    let begun = Instant::now();
    let report =
        crawl(&web, "start.test").max_pages(2).configure(|config| config.delay = Duration::from_secs(7));
    let report = report.configure_backend(|settings| settings.similarity = None).run().unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Spent(Budget::Pages), 2));
    // Somebody's turn would come after seven.
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
}

#[test]
fn budgets_are_hit_exactly_and_end_the_crawl_cleanly() {
    for workers in [1, 4] {
        let web = Web::builder().seeded_hosts(11, 10, 20).start();
        let report = crawl(&web, "h0.test").workers(workers).max_pages(17).run().unwrap();
        assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Spent(Budget::Pages), 17));
        let report = crawl(&web, "h0.test").workers(workers).max_bytes(30_000).run().unwrap();
        assert_eq!(report.end, CrawlEnd::Spent(Budget::Bytes));
        assert_eq!(report.snapshot.bytes, 30_000, "the last page was cut by what was left");
        assert_adds_up(&report);
    }
}

#[test]
fn the_bodies_of_error_answers_count_against_the_budget_of_bytes() {
    let links: String = (0..50).map(|n| format!("<a href=/{n}>{n}</a>")).collect();
    let site = Site::new().page("/", links).otherwise(|_| Answer::status(404).body(vec![b'x'; 1_000]));
    let web = Web::builder().site(site).start();
    let report = crawl(&web, "one.test").workers(1).max_bytes(10_000).run().unwrap();
    assert_eq!(report.snapshot.pages, 1);
    // One that does not fit into what is left is not read.
    assert!((9_000..=10_000).contains(&report.snapshot.bytes), "{}", report.snapshot.bytes);
}

#[test]
fn a_slow_host_and_a_dead_one_do_not_hold_up_the_others() {
    let links: String = (0..300).map(|n| format!("<a href=http://slow.test:{{}}/{n}>s</a>")).collect();
    let slow = Site::new().otherwise(|_| Answer::page("slow").after(Duration::from_millis(200)));
    let dead = Site::new().otherwise(|_| Answer::hostile(Hostile::Silence));
    let quick = Site::seeded(5, 60);
    // Ports are the same for all hosts of a web; a first page that knows it leads to the three.
    let web = Web::builder()
        .host("slow.test", slow)
        .host("dead.test", dead)
        .host("quick.test", quick)
        .site(Site::new().otherwise(move |request| {
            let port = request.authority.rsplit(':').next().unwrap_or("80").to_owned();
            let dead: String =
                (0..50).map(|n| format!("<a href=http://dead.test:{port}/{n}>d</a>")).collect();
            let quick = format!("<a href=http://quick.test:{port}/>q</a>");
            Answer::page(links.replace("{}", &port) + &dead + &quick)
        }))
        .start();
    let begun = Instant::now();
    let truth = web.truth_from(&web.url_of("quick.test", "/"), 1_000).len();
    let seen: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let times = Arc::clone(&seen);
    crawl(&web, "start.test")
        .workers(1)
        .configure(|config| config.timeout = Duration::from_millis(500))
        .configure_backend(|settings| settings.similarity = None)
        .max_time(Duration::from_secs(8))
        .module(move |page: &Page| {
            if page.url.host_str() == Some("quick.test") {
                times.lock().unwrap().push(begun.elapsed());
            }
        })
        .run()
        .unwrap();
    let times = seen.lock().unwrap();
    assert_eq!(times.len(), truth);
    assert!(times.iter().max().unwrap() < &Duration::from_secs(5), "{:?}", times.iter().max());
}

#[test]
fn tiny_queues_lose_nothing() {
    let many: String =
        (0..10_000).map(|n| format!("<a href=http://h{}.test:PORT/{n}>x</a>", n % 100)).collect();
    let site = site_of(move |path, port| match path {
        "/" => Answer::page(many.replace("PORT", port)),
        path => Answer::page(format!("page {path}")),
    });
    let web = Web::builder().site(site).without_log().start();
    let report = crawl(&web, "start.test")
        .workers(3)
        .max_pages(20_000)
        .configure_backend(|settings| {
            settings.queue_size = 1;
            settings.similarity = None;
        })
        .run()
        .unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Done, 10_001));
}

#[test]
fn no_host_gives_more_pages_than_a_host_may_and_none_fewer() {
    for workers in [1, 8] {
        let web = Web::builder().seeded_hosts(13, 10, 20).start();
        let kept = Kept::default();
        let report = crawl(&web, "h0.test")
            .workers(workers)
            .configure_backend(|settings| {
                settings.similarity = None;
                settings.max_pages_per_host = 7;
            })
            .module(keep_in(&kept))
            .run()
            .unwrap();
        let mut of_hosts: BTreeMap<String, usize> = BTreeMap::new();
        for url in kept.lock().unwrap().keys() {
            *of_hosts.entry(url.split('/').nth(2).unwrap().to_owned()).or_default() += 1;
        }
        assert!(of_hosts.len() > 5, "{of_hosts:?}");
        assert!(of_hosts.values().all(|pages| *pages == 7), "{of_hosts:?} with {workers} workers");
        assert!(report.snapshot.outcomes["beyond its host's pages"] > 0);
        assert_adds_up(&report);
    }
}

#[test]
fn the_last_page_of_a_budget_may_need_a_second_try_while_others_wait_for_it() {
    let site = site_of(|_, port| {
        Answer::page(format!("<a href=http://ill.test:{port}/>1</a> <a href=http://well.test:{port}/>2</a>"))
    });
    let ill = Site::new().answer("/", Answer::in_turn(vec![Answer::status(503), Answer::page("well again")]));
    let web = Web::builder().site(site).host("ill.test", ill).start();
    let report = crawl(&web, "start.test")
        .workers(1)
        .configure(|config| config.concurrency = 1)
        .max_pages(2)
        .max_time(Duration::from_secs(10))
        .run()
        .unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Spent(Budget::Pages), 2));
}

#[test]
fn harmful_links_are_dropped_and_counted() {
    let page = "<a href=http://10.0.0.1/>1</a> <a href=http://127.0.0.1:1/>2</a> <a href=http://[::1]/>3</a> \
        <a href=http://169.254.169.254/latest>4</a> <a href=http://2130706433/>5</a> <a href=/here>6</a> \
        <a href=http://me:secret@a.test/>7</a> <a href=ftp://a.test/>8</a> <a href=/elsewhere>9</a>";
    let site =
        Site::new().page("/", page).page("/here", "here").redirect("/elsewhere", "http://192.168.0.1/router");
    let web = Web::builder().site(site).start();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let tell = Arc::clone(&told);
    let report = Crawler::new(&web.url("/"))
        .unwrap()
        .configure(|config| {
            config.obey_robots = false;
            config.delay = Duration::ZERO;
        })
        .on_outcome(move |_, outcome| tell.lock().unwrap().push(outcome.to_string()))
        .run()
        .unwrap();
    assert_eq!(report.snapshot.pages, 2, "the seed's own server is where it is");
    assert_eq!(report.snapshot.admitted, 3, "{:?}", report.snapshot.outcomes);
    let refused = [("neither http nor https", 1), ("private address", 5), ("with credentials", 1)];
    assert_eq!(report.snapshot.links_refused, refused.map(|(why, links)| (why.to_owned(), links)).into());
    let told = told.lock().unwrap();
    assert!(told.contains(&"redirected out of bounds: http://192.168.0.1/router is private address".into()));
    assert_adds_up(&report);
}

#[test]
fn links_beyond_the_most_of_a_page_are_counted_and_not_followed() {
    let page = "<a href=x>".repeat(100_000) + "<a href=y><a href=z>";
    let web = Web::builder().site(Site::new().page("/", page).page("/x", "x")).start();
    let report = crawl(&web, "one.test").configure(|config| config.max_page_bytes = 2_000_000).run().unwrap();
    assert_eq!(report.snapshot.links_refused, [("too many links on a page".to_owned(), 2)].into());
    assert_eq!((report.snapshot.links_new, report.snapshot.links_known), (1, 99_999));
}

#[test]
fn a_page_like_another_is_dropped_and_named() {
    let web = Web::builder().site(Site::seeded(9, 30).with_print_views()).start();
    let outcomes: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&outcomes);
    let report = crawl(&web, "one.test")
        .on_outcome(move |url, outcome| told.lock().unwrap().push(format!("{url}: {outcome}")))
        .run()
        .unwrap();
    let dropped = report.snapshot.outcomes.get("near duplicate").copied().unwrap_or(0);
    assert!(dropped > 10, "{:?}", report.snapshot.outcomes);
    let outcomes = outcomes.lock().unwrap();
    assert!(outcomes.iter().any(|line| line.contains("near duplicate of http://one.test")), "{outcomes:?}");
}

#[test]
fn a_time_budget_is_kept_although_hosts_hang_and_modules_sleep() {
    let hanging = Site::new().otherwise(|_| Answer::hostile(Hostile::Silence));
    let site = Site::new().otherwise(|request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        Answer::page(format!(
            "<a href=http://hanging.test:{port}/>h</a> <a href=http://other.test:{port}/>o</a>"
        ))
    });
    let web = Web::builder().host("hanging.test", hanging).site(site).start();
    let begun = Instant::now();
    let report = crawl(&web, "start.test")
        .configure_backend(|settings| settings.similarity = None)
        .max_time(Duration::from_secs(2))
        .module(|page: &Page| {
            if page.url.host_str() == Some("other.test") {
                std::thread::sleep(Duration::from_secs(60));
            }
        })
        .run()
        .unwrap();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::TimeUp, 1), "{:?}", report.snapshot.outcomes);
    assert_eq!(report.snapshot.outstanding(), 2, "what was given up stays to be done");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn a_program_that_never_reads_does_not_hold_up_the_end() {
    let site = Site::new().otherwise(|request| {
        let links: String =
            (0..5).map(|n| format!("<a href={}/{n}>x</a>", request.path.trim_end_matches('/'))).collect();
        Answer::page(links + &"padding ".repeat(20_000))
    });
    let web = Web::builder().site(site).start();
    let begun = Instant::now();
    let report = crawl(&web, "one.test")
        .configure_backend(|settings| settings.similarity = None)
        .configure(|config| config.max_per_host = 8)
        .max_time(Duration::from_secs(1))
        .module_from_spec("exec=sleep 1000")
        .unwrap()
        .run()
        .unwrap();
    assert_eq!(report.end, CrawlEnd::TimeUp);
    // Two seconds for the pages in hand, five for the program, and one for it to die.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_adds_up(&report);
}
