//! Changes of a crawl while it runs, in one process: the server's log shows their effect.

use std::cell::RefCell;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crawler::internal::backend::Budget;
use crawler::internal::backend::durable::StateReader;
use crawler::internal::live_settings::{ControlAction, ControlError, CrawlControl};
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport};
use crawler::internal::scope::Scope;
use crawler::{Crawler, Error};
use testweb::{Response, Site, Web};

use super::{assert_adds_up, crawl, site_with_port};

const DELAY: Duration = Duration::from_millis(50);

/// A running crawl.
struct Running {
    control: CrawlControl,
    thread: JoinHandle<Result<CrawlReport, Error>>,
}

impl Running {
    fn start(crawler: Crawler) -> Running {
        let control = CrawlControl::new();
        let crawler =
            crawler.control(control.clone()).configure_backend(|settings| settings.similarity = None);
        Running { control, thread: thread::spawn(|| crawler.run_blocking()) }
    }

    /// Applies a change. The crawl may have sent a request before it accepts changes.
    fn apply(&self, action: ControlAction) -> String {
        let applied = RefCell::new(None);
        wait_until("the crawl to accept changes", || {
            let result = self.control.apply(action.clone());
            let is_early =
                result.as_ref().is_err_and(|why| why.contains("it has not started yet; try again"));
            *applied.borrow_mut() = Some(result);
            !is_early
        });
        applied.into_inner().expect("it was applied").unwrap()
    }

    fn finish(self) -> CrawlReport {
        let report = self.thread.join().unwrap().unwrap();
        assert_adds_up(&report);
        report
    }
}

/// A site with this many pages, each with links to the next ones.
fn chain(pages: usize) -> Site {
    Site::new().fallback(move |request| {
        let number: usize = request.path.trim_start_matches('/').parse().unwrap_or(0);
        let links = (number + 1..pages.min(number + 9)).map(|next| format!("<a href=/{next}>x</a>"));
        Response::page(format!("page {number} {}", links.collect::<String>()))
    })
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < Duration::from_secs(60), "waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn wait_for_hits(web: &Web, hits: usize) {
    wait_until("requests", || web.hits() >= hits);
}

/// The requests that come in many delays.
fn hits_meanwhile(web: &Web) -> usize {
    // A request may have been on its way.
    thread::sleep(2 * DELAY);
    let before = web.hits();
    thread::sleep(8 * DELAY);
    web.hits() - before
}

fn delayed(web: &Web, host: &str) -> Crawler {
    crawl(web, host).workers(2).configure(|config| config.delay = DELAY)
}

#[test]
fn paused_crawl_sends_no_request_and_then_fetches_every_page() {
    let web = Web::builder().host("a.test", chain(30)).start();
    let started = Instant::now();
    // The maximum time does not run while the crawl is paused.
    let running = Running::start(delayed(&web, "a.test").max_time(Duration::from_secs(20)));
    wait_for_hits(&web, 5);
    assert!(running.apply(ControlAction::Pause).contains("paused"));
    assert!(running.apply(ControlAction::Pause).contains("already"));
    assert_eq!(hits_meanwhile(&web), 0);
    assert!(running.control.settings().is_paused);
    let paused = running.control.pause().total();
    assert!(paused >= 10 * DELAY, "{paused:?}");
    assert!(running.apply(ControlAction::Unpause).contains("continues"));
    let report = running.finish();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Finished, 30));
    let active = started.elapsed() - paused;
    assert!(report.elapsed <= active, "{:?} of {active:?}", report.elapsed);
    assert!(web.log().smallest_gap().unwrap() >= DELAY);
}

#[test]
fn time_of_a_pause_does_not_count_towards_the_maximum_time() {
    let web = Web::builder().host("a.test", chain(1_000)).start();
    let max_time = Duration::from_millis(600);
    let running = Running::start(delayed(&web, "a.test").max_time(max_time));
    wait_for_hits(&web, 2);
    running.apply(ControlAction::Pause);
    thread::sleep(2 * max_time);
    running.apply(ControlAction::Unpause);
    let hits = web.hits();
    let report = running.finish();
    assert_eq!(report.end, CrawlEnd::TimeLimit);
    assert!(web.hits() > hits, "it continued after the pause");
    assert!(report.elapsed < 2 * max_time, "{:?}", report.elapsed);
}

#[test]
fn maximum_time_can_be_set_and_removed() {
    let web = Web::builder().host("a.test", chain(25)).start();
    let running = Running::start(delayed(&web, "a.test").max_time(Duration::from_secs(1)));
    wait_for_hits(&web, 2);
    running.apply(ControlAction::SetMaxTime(None));
    assert_eq!(running.finish().end, CrawlEnd::Finished);
    let running = Running::start(delayed(&web, "a.test"));
    wait_for_hits(&web, 25 + 3);
    let done = running.apply(ControlAction::SetMaxTime(Some(Duration::from_millis(1))));
    assert!(done.ends_with("It has passed, so the crawl ends."), "{done}");
    assert_eq!(running.finish().end, CrawlEnd::TimeLimit);
}

#[test]
fn changed_delay_shows_in_the_gaps_of_known_hosts() {
    let web = Web::builder().host("a.test", chain(14)).start();
    let running = Running::start(delayed(&web, "a.test"));
    wait_for_hits(&web, 5);
    let raised = Duration::from_millis(300);
    running.apply(ControlAction::SetDelay(raised));
    // The request that was about to start may have the earlier delay.
    let before = web.hits() + 1;
    running.finish();
    let log = web.log();
    let later: Vec<_> = log.iter().skip(before).collect();
    assert!(later.len() > 3);
    for pair in later.windows(2) {
        let gap = pair[1].started.duration_since(pair[0].started);
        assert!(gap >= raised, "{gap:?}");
    }
}

#[test]
fn lowered_delay_ends_waits_that_have_begun() {
    let web = Web::builder().host("a.test", chain(10)).start();
    let crawler = crawl(&web, "a.test").configure(|config| config.delay = Duration::from_secs(3600));
    let running = Running::start(crawler);
    wait_for_hits(&web, 1);
    running.apply(ControlAction::SetDelay(DELAY));
    let report = running.finish();
    assert_eq!(report.snapshot.pages, 10);
    assert!(web.log().smallest_gap().unwrap() >= DELAY);
}

#[test]
fn crawl_delay_of_robots_txt_stays_where_it_is_longer() {
    for lowered in [Duration::from_millis(1), Duration::ZERO] {
        let site = chain(8).robots("User-agent: *\nCrawl-delay: 0.2");
        let web = Web::builder().host("a.test", site).start();
        let running =
            Running::start(delayed(&web, "a.test").configure(|config| config.requests.obey_robots = true));
        wait_for_hits(&web, 3);
        running.apply(ControlAction::SetDelay(lowered));
        assert_eq!(running.finish().snapshot.pages, 8);
        let gaps = web.log().filter(|hit| hit.path != "/robots.txt");
        assert!(gaps.smallest_gap().unwrap() >= Duration::from_millis(195), "{:?}", gaps.smallest_gap());
    }
}

#[test]
fn lowered_page_limit_is_never_exceeded() {
    for (limit, at) in [(12, 5), (3, 8)] {
        let slow = |request: &testweb::Request| {
            let links = (0..40).map(|n| format!("<a href=/{n}>x</a>")).collect::<String>();
            Response::page(format!("{} {links}", request.path)).delay(Duration::from_millis(40))
        };
        let web = Web::builder().host("a.test", Site::new().fallback(slow)).start();
        let crawler = crawl(&web, "a.test").configure(|config| config.max_per_host = 16);
        let running = Running::start(crawler);
        wait_for_hits(&web, at);
        let pages_then = running.apply(ControlAction::SetMaxPages(limit));
        let hits = web.hits() as u64;
        let report = running.finish();
        assert_eq!(report.end, CrawlEnd::LimitReached(Budget::Pages), "{pages_then}");
        let pages = report.snapshot.pages;
        assert!(pages <= limit.max(hits) && (limit < 10 || pages == limit), "{pages} of {limit}, {hits}");
    }
}

#[test]
fn budgets_can_be_raised_and_a_used_up_one_ends_the_crawl() {
    let web = Web::builder().host("a.test", chain(30)).start();
    let running = Running::start(delayed(&web, "a.test").max_pages(10));
    wait_for_hits(&web, 3);
    running.apply(ControlAction::SetMaxPages(1_000));
    assert_eq!(running.finish().snapshot.pages, 30);
    let running = Running::start(delayed(&web, "a.test"));
    wait_for_hits(&web, 33);
    let done = running.apply(ControlAction::SetMaxBytes(1));
    assert!(done.contains("used up"), "{done}");
    let report = running.finish();
    assert_eq!(report.end, CrawlEnd::LimitReached(Budget::Bytes));
}

#[test]
fn blocked_host_gets_no_further_request_and_its_urls_are_rejected() {
    let links = |port: &str, hosts: [&str; 2]| -> String {
        let links = hosts
            .iter()
            .flat_map(|host| (0..20).map(move |n| format!("<a href=http://{host}:{port}/{n}>x</a>")));
        links.collect()
    };
    let site = || {
        site_with_port(move |path, port| {
            Response::page(format!("{path} {}", links(port, ["a.test", "b.test"])))
        })
    };
    let web = Web::builder().host("a.test", site()).host("b.test", site()).start();
    let seeds = ["a.test", "b.test"].map(|host| web.url_of(host, "/").parse().unwrap());
    let running = Running::start(delayed(&web, "a.test").scope(Scope::hosts(&seeds)));
    wait_until("requests of b.test", || web.log().for_host("b.test").len() > 2);
    running.apply(ControlAction::BlockHost(format!("b.test:{}", web.port())));
    let before = web.log().for_host("b.test").len();
    let report = running.finish();
    // One was in flight.
    assert!(web.log().for_host("b.test").len() <= before + 1, "{before}");
    assert_eq!(report.end, CrawlEnd::Finished);
    assert_eq!(web.log().for_host("a.test").len(), 21);
    let rejected = report.snapshot.outcomes.get("blocked").copied().unwrap_or(0);
    assert!(rejected >= 15, "{:?}", report.snapshot.outcomes);
    assert!(report.snapshot.links_rejected.contains_key("blocked"));
}

/// Two hosts of a site. The first page of `www` links to its other ones, and to many pages of `other`.
fn site_of_two_hosts() -> Web {
    let site = || {
        site_with_port(|path, port| {
            let link = |(host, number)| format!("<a href=http://{host}.site.test:{port}/p/{number}>x</a>");
            let links = (0..4).map(|number| ("www", number)).chain((0..MANY).map(|number| ("other", number)));
            let links = if path == "/" { links.map(link).collect() } else { String::new() };
            Response::page(format!("{path} {links}"))
        })
    };
    Web::builder().host("www.site.test", site()).host("other.site.test", site()).start()
}

/// With a delay of half a second for each of them, a crawl would take hours.
const MANY: usize = 10_000;
const LONG_DELAY: Duration = Duration::from_secs(2);

fn site_crawl(web: &Web) -> Crawler {
    delayed(web, "www.site.test").max_pages(1_000_000).configure(|config| config.delay = LONG_DELAY)
}

/// Checks a crawl in which the other host was blocked: its URLs have waited for no delay, and held up none of this host.
fn check_blocked_site(web: &Web, report: &CrawlReport, time: Duration) {
    assert_eq!(report.end, CrawlEnd::Finished);
    let outcomes = &report.snapshot.outcomes;
    assert!(outcomes["blocked"] > MANY as u64 - 20, "{outcomes:?}");
    assert_eq!(web.log().for_host("www.site.test").len(), 5);
    assert!(web.log().for_host("www.site.test").smallest_gap().unwrap() >= LONG_DELAY);
    assert!(time < Duration::from_secs(120), "{time:?}");
}

#[test]
fn many_urls_of_a_blocked_host_wait_for_no_delay_and_hold_up_no_others() {
    for has_state in [false, true] {
        let (web, directory) = (site_of_two_hosts(), tempfile::tempdir().unwrap());
        let mut crawler = site_crawl(&web);
        if has_state {
            crawler = crawler.state_dir(directory.path().join("state"));
        }
        let running = Running::start(crawler);
        wait_until("a request of the other host", || !web.log().for_host("other.site.test").is_empty());
        let started = Instant::now();
        running.apply(ControlAction::BlockHost(format!("other.site.test:{}", web.port())));
        let requests = web.log().for_host("other.site.test").len();
        let report = running.finish();
        check_blocked_site(&web, &report, started.elapsed());
        assert!(web.log().for_host("other.site.test").len() <= requests + 1, "one was in flight");
    }
}

#[test]
fn many_urls_of_a_blocked_pattern_wait_for_no_delay() {
    let web = site_of_two_hosts();
    let running = Running::start(site_crawl(&web));
    wait_until("a request of the other host", || !web.log().for_host("other.site.test").is_empty());
    let started = Instant::now();
    running.apply(ControlAction::BlockPattern("//other[.].*/p/".into()));
    let report = running.finish();
    check_blocked_site(&web, &report, started.elapsed());
}

#[test]
fn request_that_waits_for_a_blocked_host_ends_at_once_also_in_a_paused_crawl() {
    for is_paused in [false, true] {
        let web = Web::builder().host("a.test", chain(10)).start();
        let crawler = crawl(&web, "a.test").configure(|config| config.delay = Duration::from_secs(3600));
        let running = Running::start(crawler);
        wait_for_hits(&web, 1);
        if is_paused {
            running.apply(ControlAction::Pause);
        }
        running.apply(ControlAction::BlockHost(format!("a.test:{}", web.port())));
        let report = running.finish();
        assert_eq!((report.end, web.hits()), (CrawlEnd::Finished, 1));
        assert_eq!(report.snapshot.outcomes["blocked"], 8, "{:?}", report.snapshot.outcomes);
    }
}

#[test]
fn blocked_pattern_applies_to_seeds_and_waiting_urls() {
    let web = Web::builder().host("a.test", chain(40)).start();
    let seeds = (0..20).map(|n| web.url_of("a.test", &format!("/{n}")).parse().unwrap());
    let crawler = Crawler::from_seeds(seeds).unwrap().workers(2).configure(|config| {
        config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
        config.requests.allow_private = true;
        config.requests.obey_robots = false;
        config.delay = DELAY;
    });
    let running = Running::start(crawler);
    wait_for_hits(&web, 3);
    running.apply(ControlAction::BlockPattern(r"/\d+$".into()));
    let before = web.hits();
    let report = running.finish();
    assert!(web.hits() <= before + 1, "one was in flight");
    assert_eq!(report.end, CrawlEnd::Finished);
    assert_eq!(report.snapshot.pending(), 0);
}

#[test]
fn added_seed_is_fetched_and_its_links_are_in_scope() {
    let web = Web::builder().host("a.test", chain(20)).host("b.test", chain(5)).start();
    let seed = web.url_of("a.test", "/").parse().unwrap();
    let running = Running::start(delayed(&web, "a.test").scope(Scope::hosts(&[seed])));
    wait_for_hits(&web, 2);
    let added = web.url_of("b.test", "/");
    assert!(running.apply(ControlAction::AddSeed(added.clone())).contains("Added the seed"));
    let again = running.apply(ControlAction::AddSeed(added));
    assert!(again.contains("found before"), "{again}");
    let report = running.finish();
    assert_eq!(report.snapshot.pages, 25);
    assert_eq!(web.log().for_host("b.test").len(), 5);
}

#[test]
fn added_seed_may_have_a_private_address_and_gets_the_headers_of_seeds() {
    let web = Web::builder().host("127.0.0.1", chain(30)).host("localhost", chain(3)).start();
    let seed = web.url_of("127.0.0.1", "/");
    let scope = Scope::hosts(&[seed.parse().unwrap()]);
    let crawler = Crawler::new(&seed).unwrap().scope(scope).header("x-key", "secret").unwrap();
    let crawler = crawler.configure(|config| {
        config.delay = DELAY;
        config.requests.obey_robots = false;
    });
    let running = Running::start(crawler);
    wait_for_hits(&web, 2);
    running.apply(ControlAction::AddSeed(web.url_of("localhost", "/")));
    assert_eq!(running.finish().snapshot.pages, 33);
    assert!(web.log().iter().all(|hit| hit.header("x-key") == Some("secret")));
}

#[test]
fn bad_actions_change_nothing() {
    let web = Web::builder().host("a.test", chain(12)).start();
    let control = CrawlControl::new();
    let error = control.apply(ControlAction::Pause).unwrap_err();
    assert_eq!(error, "cannot pause the crawl: it has not started yet; try again");
    let running = Running::start(delayed(&web, "a.test"));
    wait_for_hits(&web, 2);
    for action in [
        ControlAction::BlockPattern("(".into()),
        ControlAction::BlockPattern("(a{1000}){1000}".into()),
        ControlAction::BlockPattern("x".repeat(100_000)),
        ControlAction::BlockHost("http://a.test/".into()),
        ControlAction::BlockHost("*".into()),
        ControlAction::BlockHost("x".repeat(5_000)),
        ControlAction::BlockPattern(".*".into()),
        ControlAction::AddSeed("ftp://a.test/".into()),
        ControlAction::AddSeed("http://me:secret@b.test/".into()),
        ControlAction::SetDelay(Duration::from_secs(365 * 24 * 3600)),
        ControlAction::SetMaxPages(0),
    ] {
        let error = running.control.apply(action).unwrap_err();
        assert!(error.starts_with("cannot ") && error.contains("; ") && !error.contains("secret"), "{error}");
    }
    assert_eq!(running.control.settings(), Default::default());
    let control = running.control.clone();
    assert_eq!(running.finish().snapshot.pages, 12);
    let error = control.apply(ControlAction::Pause).unwrap_err();
    assert_eq!(error, "cannot pause the crawl: it has ended; start it again");
}

#[test]
fn stopped_crawl_finishes_its_requests() {
    let web = Web::builder().host("a.test", chain(1_000)).start();
    let running = Running::start(delayed(&web, "a.test"));
    wait_for_hits(&web, 3);
    running.apply(ControlAction::Pause);
    running.apply(ControlAction::Stop);
    let report = running.finish();
    assert_eq!(report.end, CrawlEnd::Stopped);
    assert_eq!(report.snapshot.pages, web.hits() as u64);
}

/// Changes the crawl of another process, as far as the reader of its state knows.
fn apply(directory: &Path, action: ControlAction) -> Result<String, ControlError> {
    StateReader::open(directory).unwrap().control(action)
}

#[test]
fn crawl_with_a_state_is_changed_through_its_socket_and_resumes_with_its_own_settings() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let web = Web::builder().host("a.test", chain(20)).host("b.test", chain(5)).start();
    let durable = || {
        let scope = Scope::hosts(&[web.url_of("a.test", "/").parse().unwrap()]);
        delayed(&web, "a.test").scope(scope).state_dir(&state)
    };
    let running = Running::start(durable());
    wait_for_hits(&web, 3);
    let paused = apply(&state, ControlAction::Pause).unwrap();
    assert!(paused.contains("resumed later is not paused."), "{paused}");
    assert_eq!(hits_meanwhile(&web), 0);
    let before = StateReader::open(&state).unwrap().status().unwrap().elapsed;
    thread::sleep(4 * DELAY);
    let after = StateReader::open(&state).unwrap().status().unwrap().elapsed;
    assert!(after < before + DELAY, "the time of a paused crawl stands still: {before:?} {after:?}");
    assert!(apply(&state, ControlAction::BlockPattern("x".repeat(20_000))).is_err());
    assert!(apply(&state, ControlAction::AddSeed("ftp://a.test/".into())).is_err());
    let added = apply(&state, ControlAction::AddSeed(web.url_of("b.test", "/"))).unwrap();
    assert!(added.starts_with("Added the seed") && !added.contains("resumed"), "{added}");
    apply(&state, ControlAction::Stop).unwrap();
    let report = running.finish();
    assert_eq!(report.end, CrawlEnd::Stopped);
    let error = apply(&state, ControlAction::Pause).unwrap_err();
    assert_eq!(error, ControlError::NotRunning("cannot pause the crawl: no process runs it".into()));
    // It is not paused any more, and the seed is in its scope.
    let report = Running::start(durable()).finish();
    assert_eq!((report.end, report.snapshot.pages), (CrawlEnd::Finished, 25));
}
