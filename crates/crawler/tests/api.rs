//! The public API, used as a stranger would: only what the crate root exports.

use crawler::internal::stop::StopHandleInternals as _;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawler::{
    Authentication, ClassicCrawl, CookieJar, CrawlEnd, Crawler, Error, Module, Outcome, OutcomeGroup, Output,
    OutputWrite, Page, Politeness, RequestSettings, Scope, StopHandle, StorageErrorKind, Target,
};
use testweb::{Response, Site, Web};

/// A site of `pages` pages, each linked from the start page.
fn site(pages: usize) -> Site {
    let links: String = (1..pages).map(|page| format!("<a href=/{page}>{page}</a> ")).collect();
    let start = Site::new().page("/", format!("<title>start</title>{links}"));
    (1..pages)
        .fold(start, |site, page| site.page(&format!("/{page}"), format!("<title>{page}</title>word{page}")))
}

/// Changes one of the settings of requests.
fn requests(change: impl FnOnce(&mut RequestSettings)) -> RequestSettings {
    let mut requests = RequestSettings::default();
    change(&mut requests);
    requests
}

/// Changes one of the settings of politeness.
fn politeness(change: impl FnOnce(&mut Politeness)) -> Politeness {
    let mut politeness = Politeness::default();
    change(&mut politeness);
    politeness
}

fn serve(site: Site) -> Web {
    Web::builder().site(site).start()
}

/// A crawl without delays. Short pages are similar, so near-duplicates are kept.
fn crawl(web: &Web) -> Crawler {
    Crawler::new(&web.url("/")).unwrap().delay(Duration::ZERO).near_duplicates(None).unwrap()
}

#[tokio::test]
async fn a_pipeline_crawl_can_be_awaited() {
    let web = serve(site(5));
    let (seen, count) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (in_module, in_callback) = (Arc::clone(&seen), Arc::clone(&count));
    let report = crawl(&web)
        .module(move |_: &Page| {
            in_module.fetch_add(1, Ordering::SeqCst);
        })
        .on_outcome(move |_, _| {
            in_callback.fetch_add(1, Ordering::SeqCst);
        })
        .run()
        .await
        .unwrap();
    assert_eq!((report.snapshot.pages, report.end), (5, CrawlEnd::Finished));
    assert_eq!((seen.load(Ordering::SeqCst), count.load(Ordering::SeqCst)), (5, 5));
}

#[test]
fn crawls_run_without_a_runtime() {
    let web = serve(site(4));
    assert_eq!(crawl(&web).run_blocking().unwrap().snapshot.pages, 4);
    let directory = tempfile::tempdir().unwrap();
    let classic = ClassicCrawl::new(&web.url("/"), directory.path(), 3).unwrap().delay(Duration::ZERO);
    assert_eq!(classic.run_blocking().unwrap().stats.pages, 4);
    assert!(directory.path().join("4").exists());
}

#[test]
fn query_parameters_are_removed_from_seeds_and_links() {
    let web =
        serve(Site::new().page("/", "<a href='/?sid=1'>x</a><a href='/a?utm_id=2'>x</a>").page("/a", "a"));
    let seed = web.url("/?sid=0");
    let crawl = Crawler::new(&seed).unwrap().delay(Duration::ZERO).near_duplicates(None).unwrap();
    let crawl = crawl.strip_query("tracking").unwrap().strip_query("s?d").unwrap();
    // The prefix is compared without the parameters, too.
    let crawl = crawl.scope(Scope::prefixes(&[seed.parse().unwrap()]));
    assert_eq!(crawl.run_blocking().unwrap().snapshot.pages, 2);
    let directory = tempfile::tempdir().unwrap();
    let classic = ClassicCrawl::new(&seed, directory.path(), 3).unwrap().delay(Duration::ZERO);
    let classic = classic.strip_query("*id").unwrap().run_blocking().unwrap();
    assert_eq!(classic.stats.pages, 2);
    assert_eq!(web.log().paths(), ["/robots.txt", "/", "/a", "/robots.txt", "/", "/a"]);
    assert!(matches!(Crawler::new(&seed).unwrap().strip_query("a=b"), Err(Error::InvalidSetting(_))));
}

#[tokio::test]
async fn blocking_inside_a_runtime_is_an_error_and_not_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(Crawler::new("http://127.0.0.1:1/").unwrap().run_blocking(), Err(Error::InsideRuntime)));
    let classic = ClassicCrawl::new("http://127.0.0.1:1/", directory.path(), 0).unwrap();
    assert!(matches!(classic.run_blocking(), Err(Error::InsideRuntime)));
}

#[tokio::test]
async fn a_classic_crawl_can_be_awaited_on_any_runtime() {
    let web = serve(site(3));
    let directory = tempfile::tempdir().unwrap();
    let crawl = ClassicCrawl::new(&web.url("/"), directory.path(), 1).unwrap().delay(Duration::ZERO);
    // Only a future that is Send can be spawned.
    let report = tokio::spawn(crawl.run()).await.unwrap().unwrap();
    assert_eq!((report.stats.pages, report.stopped), (3, false));
}

#[tokio::test]
async fn a_stream_yields_every_page_and_then_the_report() {
    let web = serve(site(30));
    let mut pages = crawl(&web).pages().unwrap();
    let mut titles = Vec::new();
    while let Some(page) = pages.next().await {
        titles.push(page.title);
    }
    let report = pages.report().await.unwrap();
    assert_eq!((titles.len(), report.snapshot.pages, report.end), (30, 30, CrawlEnd::Finished));
    titles.sort();
    titles.dedup();
    assert_eq!(titles.len(), 30);
}

#[tokio::test]
async fn a_slow_consumer_holds_back_the_crawl() {
    let web = serve(site(2_000));
    let mut pages = crawl(&web).concurrency(4).workers(1).pages().unwrap();
    pages.next().await.unwrap();
    // The crawl continues until everything between the server and the consumer is full, and no further.
    let mut requests = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = web.log().len();
        if now == requests {
            break;
        }
        requests = now;
    }
    assert!(requests < 200, "{requests} requests for one page taken");
    drop(pages);
}

#[tokio::test]
async fn dropping_a_stream_or_a_future_stops_the_crawl() {
    let web = serve(site(20_000));
    let mut pages = crawl(&web).max_pages(u64::MAX).max_page_bytes(10_000_000).pages().unwrap();
    pages.next().await.unwrap();
    drop(pages);
    let stop = StopHandle::new();
    let crawl = crawl(&web).max_pages(u64::MAX).max_page_bytes(10_000_000).stop_handle(stop.clone()).run();
    assert!(tokio::time::timeout(Duration::from_millis(300), crawl).await.is_err());
    assert!(stop.is_stop_requested());
    // Both crawls stop soon: then the server's log no longer grows.
    let mut requests = web.log().len();
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = web.log().len();
        if now == requests {
            return;
        }
        requests = now;
    }
    panic!("the crawl still sends requests");
}

#[tokio::test]
async fn a_header_goes_to_the_origins_of_the_seeds_and_nowhere_else() {
    let other = serve(Site::new().page("/", "other"));
    let web = serve(
        Site::new()
            .page("/", format!("<a href=/b>b</a> <a href={}>other</a>", other.url("/")))
            .page("/b", "b"),
    );
    let crawl = crawl(&web).requests(requests(|requests| requests.allow_private = true));
    let report = crawl.header("X-Token", "secret").unwrap().run().await.unwrap();
    assert_eq!(report.snapshot.pages, 3);
    let sent =
        |web: &Web| web.log().iter().map(|hit| hit.header("x-token").map(str::to_owned)).collect::<Vec<_>>();
    assert!(sent(&web).iter().all(|token| token.as_deref() == Some("secret")), "{:?}", sent(&web));
    assert!(!sent(&other).is_empty() && sent(&other).iter().all(Option::is_none), "{:?}", sent(&other));
}

#[test]
fn a_program_can_log_in_and_keep_the_cookies() {
    let web = serve(Site::new().fallback(|request| {
        let is_member = request.header("cookie").is_some_and(|cookie| cookie.contains("session=1"));
        match (request.path.as_str(), is_member) {
            ("/", true) => Response::page("<a href=/in>in</a>").header("Set-Cookie", "seen=2; Max-Age=9999"),
            ("/in", true) if request.header("authorization") == Some("Bearer s3cr") => Response::page("in"),
            _ => Response::status(403),
        }
    }));
    let jar = CookieJar::from_netscape("127.0.0.1\tFALSE\t/\tFALSE\t0\told\t0\n").unwrap();
    jar.add(&web.url("/").parse().unwrap(), "session=1").unwrap();
    let login = || {
        requests(|requests| {
            requests.cookies = Some(jar.clone());
            requests.authentication = Some(Authentication::Bearer("s3cr".into()));
            requests.obey_robots = false;
        })
    };
    assert_eq!(crawl(&web).requests(login()).run_blocking().unwrap().snapshot.pages, 2);
    let last = web.log().for_path("/in");
    assert_eq!(last[0].header("cookie"), Some("old=0; seen=2; session=1"));
    assert!(jar.to_netscape().contains("\tseen\t2\n") && !format!("{:?}", login()).contains("s3cr"));
    let directory = tempfile::tempdir().unwrap();
    let classic = ClassicCrawl::new(&web.url("/"), directory.path(), 3).unwrap().delay(Duration::ZERO);
    assert_eq!(classic.requests(login()).run_blocking().unwrap().stats.pages, 2);
}

#[test]
fn settings_do_not_reset_each_other() {
    // Two hosts respond slowly. Only several requests in flight fetch from both at once.
    const DELAY: Duration = Duration::from_secs(2);
    let slow = |_: usize| Site::new().response("/", Response::page("x").delay(DELAY));
    let (one, two) = (serve(slow(1)), serve(slow(2)));
    let seeds = [one.url("/"), two.url("/")].map(|url| url.parse().unwrap());
    let crawl = Crawler::from_seeds(seeds).unwrap().workers(1).near_duplicates(None).unwrap();
    let crawl = crawl.requests(requests(|requests| requests.obey_robots = false));
    let report =
        crawl.delay(Duration::ZERO).user_agent("test/1.0").timeout(Duration::from_secs(30)).run_blocking();
    assert_eq!(report.unwrap().snapshot.pages, 2);
    let start = |web: &Web| web.log().iter().map(|hit| hit.started).min().unwrap();
    let apart = start(&one).max(start(&two)) - start(&one).min(start(&two));
    assert!(apart < DELAY, "the second request waited {apart:?} for the first");
}

/// Writes the title of each page.
struct Titles;

impl Output for Titles {
    fn name(&self) -> &str {
        "titles"
    }

    fn header(&self) -> &[u8] {
        b"titles\n"
    }

    fn render(&self, page: &Page) -> OutputWrite {
        OutputWrite::Append(format!("{}\n", page.title).into_bytes())
    }
}

struct Failing;

impl Module for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn process_page(&self, _: &Page) -> Result<(), String> {
        Err("it always fails".into())
    }
}

#[test]
fn outputs_and_modules_of_ones_own_take_part() {
    let (web, directory) = (serve(site(3)), tempfile::tempdir().unwrap());
    let file = directory.path().join("titles.txt");
    let report =
        crawl(&web).output(Titles, Target::File(file.clone())).module(Failing).run_blocking().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("titles\nstart\n") && text.lines().count() == 4, "{text}");
    assert_eq!(report.module_failures.failures["failing"], 3);
    let again = crawl(&web).output(Titles, Target::File(file)).run_blocking();
    assert!(matches!(again, Err(Error::Output(_))), "{again:?}");
}

#[test]
fn bad_settings_are_errors_that_can_be_matched() {
    assert!(matches!(Crawler::new("no URL"), Err(Error::InvalidSetting(_))));
    assert!(matches!(Crawler::new("ftp://a.test/"), Err(Error::InvalidSetting(_))));
    let crawl = || Crawler::new("http://127.0.0.1:1/").unwrap();
    assert!(matches!(crawl().module_from_spec("nothing=x"), Err(Error::Module(_))));
    assert!(matches!(crawl().header("a b", "x"), Err(Error::InvalidSetting(_))));
    let bad_token =
        self::requests(|requests| requests.authentication = Some(Authentication::Bearer("a b".into())));
    assert!(matches!(crawl().requests(bad_token).run_blocking(), Err(Error::InvalidSetting(_))));
    assert!(matches!(CookieJar::from_netscape("no cookie"), Err(Error::InvalidSetting(_))));
    assert!(matches!(crawl().near_duplicates(Some(1.5)), Err(Error::InvalidSetting(_))));
    let mut requests = RequestSettings::default();
    assert!(matches!(requests.trust_certificates(b"no PEM"), Err(Error::InvalidSetting(_))));
    let prefix = "http://127.0.0.1:1/docs/".parse().unwrap();
    let outside =
        ClassicCrawl::new("http://127.0.0.1:1/", ".", 1).unwrap().internal_prefix(&prefix).unwrap_err();
    assert!(matches!(outside, Error::SeedOutOfScope { .. }), "{outside}");
    assert!(matches!(Scope::anywhere().with_filters(&["("], &[]), Err(Error::InvalidSetting(_))));
}

type Setter = fn(Crawler) -> Crawler;

#[test]
fn zero_is_rejected_where_a_crawl_needs_more() {
    let none = Duration::ZERO;
    let settings: [(&str, Setter); 12] = [
        ("max_pages", |crawl| crawl.max_pages(0)),
        ("max_pages_per_host", |crawl| crawl.politeness(politeness(|host| host.max_pages_per_host = 0))),
        ("max_pages_per_site", |crawl| crawl.politeness(politeness(|site| site.max_pages_per_site = 0))),
        ("max_host_failures", |crawl| crawl.politeness(politeness(|host| host.max_host_failures = 0))),
        ("max_bytes", |crawl| crawl.max_bytes(0)),
        ("max_page_bytes", |crawl| crawl.max_page_bytes(0)),
        ("max_time", |crawl| crawl.max_time(Duration::ZERO)),
        ("workers", |crawl| crawl.workers(0)),
        ("concurrency", |crawl| crawl.concurrency(0)),
        ("concurrency_per_host", |crawl| crawl.politeness(politeness(|host| host.concurrency_per_host = 0))),
        ("timeout", |crawl| crawl.timeout(Duration::ZERO)),
        ("connect_timeout", |crawl| {
            crawl.requests(requests(|requests| requests.connect_timeout = Duration::ZERO))
        }),
    ];
    let web = serve(site(1));
    for (name, set) in settings {
        let error = set(crawl(&web)).run_blocking().unwrap_err();
        assert!(
            matches!(&error, Error::InvalidSetting(message) if message.starts_with(&format!("{name} is 0")))
        );
        assert!(matches!(set(crawl(&web)).pages(), Err(Error::InvalidSetting(_))), "{name}");
    }
    let directory = tempfile::tempdir().unwrap();
    let classic = || ClassicCrawl::new(&web.url("/"), directory.path(), 1).unwrap();
    for classic in [classic().concurrency(0), classic().max_page_bytes(0), classic().timeout(none)] {
        assert!(matches!(classic.run_blocking(), Err(Error::InvalidSetting(_))));
    }
    assert_eq!(web.log().len(), 0);
    // Depth 0 is the seeds alone, and a delay of 0 is none.
    assert_eq!(crawl(&web).max_depth(0).delay(none).run_blocking().unwrap().snapshot.pages, 1);
}

/// The kind of an error of an output or a state.
fn kind(error: &Error) -> StorageErrorKind {
    match error {
        Error::Output(error) | Error::State(error) => error.kind(),
        other => panic!("{other:?}"),
    }
}

/// The system's error behind an error, whose text only `{:#}` repeats.
fn system_error(error: &Error) -> io::ErrorKind {
    let source = std::error::Error::source(error).unwrap();
    let (cause, plain, full) = (source.to_string(), error.to_string(), format!("{error:#}"));
    assert!(!plain.contains(&cause) && full.contains(&format!(": {cause}; ")), "{full}");
    assert_eq!(full.replace(&format!(": {cause}"), ""), plain);
    source.downcast_ref::<io::Error>().unwrap().kind()
}

#[test]
fn errors_of_a_state_can_be_matched_and_have_a_source() {
    let (web, directory) = (serve(site(2)), tempfile::tempdir().unwrap());
    let run = |state: &Path| crawl(&web).state_dir(state).run_blocking();
    let missing = run(&directory.path().join("no/state")).unwrap_err();
    assert!(matches!(missing, Error::State(_)), "{missing:?}");
    assert_eq!(
        (kind(&missing), system_error(&missing)),
        (StorageErrorKind::Unusable, io::ErrorKind::NotFound)
    );
    let file = directory.path().join("crawl.state");
    std::fs::write(&file, "not a state").unwrap();
    assert_eq!(kind(&run(&file).unwrap_err()), StorageErrorKind::Unusable);
    assert_eq!(kind(&run(directory.path()).unwrap_err()), StorageErrorKind::Damaged);
    let state = directory.path().join("state");
    run(&state).unwrap();
    let changed = crawl(&web).state_dir(&state).max_depth(7).run_blocking().unwrap_err();
    assert_eq!(kind(&changed), StorageErrorKind::SettingsDiffer);
}

#[test]
fn errors_of_an_output_can_be_matched_and_have_a_source() {
    let (web, directory) = (serve(site(2)), tempfile::tempdir().unwrap());
    let run =
        |file: &str| crawl(&web).output(Titles, Target::File(directory.path().join(file))).run_blocking();
    let missing = run("no/titles").unwrap_err();
    assert!(matches!(missing, Error::Output(_)), "{missing:?}");
    assert_eq!(
        (kind(&missing), system_error(&missing)),
        (StorageErrorKind::Unusable, io::ErrorKind::NotFound)
    );
    run("titles").unwrap();
    assert_eq!(kind(&run("titles").unwrap_err()), StorageErrorKind::AlreadyExists);
    let file = Target::File(directory.path().join("both"));
    let twice = crawl(&web).output(Titles, file.clone()).output(Titles, file).run_blocking().unwrap_err();
    assert_eq!(kind(&twice), StorageErrorKind::InUse);
    let classic = |path: &Path| ClassicCrawl::new(&web.url("/"), path, 1).unwrap().run_blocking();
    let missing = classic(&directory.path().join("no/pages")).unwrap_err();
    assert_eq!(
        (kind(&missing), system_error(&missing)),
        (StorageErrorKind::Unusable, io::ErrorKind::NotFound)
    );
    std::fs::write(directory.path().join("1"), "a page").unwrap();
    assert_eq!(kind(&classic(directory.path()).unwrap_err()), StorageErrorKind::AlreadyExists);
}

#[test]
fn resume_reports_an_output_that_was_changed() {
    let (web, directory) = (serve(site(3)), tempfile::tempdir().unwrap());
    let run = || {
        let file = Target::File(directory.path().join("titles"));
        crawl(&web).state_dir(directory.path().join("state")).output(Titles, file).run_blocking()
    };
    run().unwrap();
    std::fs::write(directory.path().join("titles"), "").unwrap();
    let changed = run().unwrap_err();
    assert!(
        matches!(changed, Error::Output(_)) && kind(&changed) == StorageErrorKind::Damaged,
        "{changed:?}"
    );
}

#[test]
fn report_has_the_outcome_of_each_seed() {
    let web = serve(Site::new().page("/", "start").redirect("/moved", "/gone").redirect("/home", "/"));
    let dead = "http://127.0.0.1:1/".to_owned();
    let seeds = [web.url("/"), web.url("/moved"), web.url("/home"), web.url("/gone"), dead.clone()];
    let crawl = Crawler::from_seeds(seeds.iter().map(|seed| seed.parse().unwrap())).unwrap();
    let report = crawl.delay(Duration::ZERO).requests(requests(|requests| requests.obey_robots = false));
    let report = report.run_blocking().unwrap();
    let (urls, outcomes): (Vec<String>, Vec<Outcome>) =
        report.seeds.into_iter().map(|(url, outcome)| (url.to_string(), outcome)).unzip();
    assert_eq!(urls, seeds);
    assert_eq!([&outcomes[0], &outcomes[2]], [&Outcome::Page, &Outcome::Page]);
    for gone in [&outcomes[1], &outcomes[3]] {
        assert!(matches!(gone, Outcome::HttpStatus { code: 404, .. }), "{gone:?}");
    }
    assert_eq!(outcomes[4].group(), OutcomeGroup::Failed);
    // A crawl whose only seed is dead finishes, without a page.
    let report = Crawler::new(&dead).unwrap().delay(Duration::ZERO).run_blocking().unwrap();
    assert!(matches!(&report.seeds[..], [(_, outcome)] if outcome.group() == OutcomeGroup::Failed));
}

#[test]
fn seeds_that_a_limit_cut_off_were_not_reached_and_a_resumed_crawl_reports_the_rest() {
    let web = serve(Site::new().page("/1", "one").page("/2", "two").page("/3", "three"));
    let directory = tempfile::tempdir().unwrap();
    let run = |pages| {
        let seeds = ["/1", "/2", "/3"].map(|path| web.url(path).parse().unwrap());
        let crawl = Crawler::from_seeds(seeds).unwrap().delay(Duration::ZERO).near_duplicates(None).unwrap();
        let report = crawl.max_pages(pages).state_dir(directory.path()).run_blocking().unwrap();
        report.seeds.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>()
    };
    let first = run(1);
    let count = |outcome| first.iter().filter(|other| **other == outcome).count();
    assert_eq!((count(Outcome::Page), count(Outcome::NotReached)), (1, 2), "{first:?}");
    assert_eq!(run(10), [Outcome::Page, Outcome::Page]);
    assert_eq!(run(10), []);
}

#[test]
fn classic_crawl_reports_the_outcome_of_each_url() {
    let web = serve(Site::new().page("/", "<a href=/a>a</a> <a href=/gone>gone</a>").page("/a", "a"));
    let (directory, outcomes) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&outcomes);
    let crawl = ClassicCrawl::new(&web.url("/"), directory.path(), 3).unwrap().delay(Duration::ZERO);
    let crawl =
        crawl.on_outcome(move |url, outcome| seen.lock().unwrap().push((url.to_owned(), outcome.group())));
    crawl.run_blocking().unwrap();
    let expected = [("/", OutcomeGroup::Page), ("/a", OutcomeGroup::Page), ("/gone", OutcomeGroup::Failed)];
    assert_eq!(*outcomes.lock().unwrap(), expected.map(|(path, group)| (web.url(path), group)));
}

#[test]
fn content_is_stored_unless_turned_off() {
    let (web, directory) = (serve(site(3)), tempfile::tempdir().unwrap());
    for store in [true, false] {
        let state = directory.path().join(store.to_string());
        let report = crawl(&web).store_content(store).state_dir(&state).run_blocking().unwrap();
        assert_eq!((report.snapshot.pages, report.snapshot.stored_bytes > 0), (3, store));
    }
}

#[test]
fn messages_of_the_library_name_no_command_line_options() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("1"), "a page of an earlier crawl").unwrap();
    let web = serve(site(1));
    let not_empty =
        ClassicCrawl::new(&web.url("/"), directory.path(), 1).unwrap().run_blocking().unwrap_err();
    let state = directory.path().join("state");
    let resume = |depth| crawl(&web).state_dir(&state).max_depth(depth).run_blocking();
    resume(1).unwrap();
    let changed = resume(2).unwrap_err();
    for error in [not_empty, changed] {
        assert!(!error.to_string().contains("--"), "{error}");
    }
}
