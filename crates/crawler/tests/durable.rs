//! Crawls whose state is on disk: stopped, resumed, refused, damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crawler::internal::backend::durable::UrlStatus;
use crawler::internal::config::DnsOverride;
use crawler::internal::page::Page;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport, ResumeStatus};
use crawler::internal::scope::Scope;
use crawler::{Crawler, StateReader, StopHandle};
use testweb::{Site, Web};

/// A crawl of hosts that are all on loopback, without delay and without robots.txt, with its state in a directory.
fn crawl(web: &Web, state: &Path) -> Crawler {
    let hosts: Vec<_> = (0..20).map(|number| format!("http://h{number}.test/").parse().unwrap()).collect();
    Crawler::new(&web.url_of("h0.test", "/"))
        .unwrap()
        .configure(|config| {
            config.dns_overrides = vec![DnsOverride { host: "*".into(), address: [127, 0, 0, 1].into() }];
            config.allow_private = true;
            config.obey_robots = false;
            config.delay = Duration::ZERO;
        })
        .scope(Scope::domains(&hosts))
        .configure_backend(|settings| settings.similarity = None)
        .state_dir(state)
}

fn output(directory: &Path, name: &str) -> String {
    format!("{name}={}", directory.join(name).display())
}

/// Runs a crawl and stops it after so many pages.
fn run_until(crawler: Crawler, pages: usize) -> CrawlReport {
    let stop = StopHandle::new();
    let (counted, stopping) = (Mutex::new(0), stop.clone());
    let crawler = crawler.stop_handle(stop).on_outcome(move |_, _| {
        let mut counted = counted.lock().unwrap();
        *counted += 1;
        if *counted == pages {
            stopping.stop();
        }
    });
    crawler.run_blocking().unwrap()
}

#[test]
fn a_crawl_stopped_again_and_again_ends_as_one_that_was_not() {
    let web = Web::builder().seeded_hosts(7, 20, 12).start();
    let truth = web.truth_from(&web.url_of("h0.test", "/"), 1_000);
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let begin = || {
        let crawler = crawl(&web, &state);
        let names = ["jsonl", "edges", "pages"].map(|name| output(directory.path(), name));
        names.iter().fold(crawler, |crawler, name| crawler.module_from_spec(name).unwrap())
    };
    let mut runs = 0;
    let last = loop {
        let report = run_until(begin(), 25);
        // One that was stopped just when nothing was left is found finished.
        let is_finished = runs > 0 && report.resumed == ResumeStatus::AlreadyFinished;
        assert!(
            is_finished
                || report.resumed == if runs == 0 { ResumeStatus::New } else { ResumeStatus::Resumed }
        );
        runs += 1;
        if report.end == CrawlEnd::Finished {
            break report;
        }
        assert_eq!(report.end, CrawlEnd::Stopped);
        assert!(runs < 50);
    };
    assert!(runs > 5, "{runs}");
    assert_eq!(last.snapshot.pages as usize, truth.len());
    assert_eq!(last.snapshot.outstanding(), 0);
    let lines = fs::read_to_string(directory.path().join("jsonl")).unwrap();
    let urls: Vec<String> = lines
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["url"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(urls.len(), truth.len());
    assert_eq!(urls.iter().collect::<BTreeSet<_>>(), truth.keys().collect());
    for (index, url) in urls.iter().enumerate() {
        let page = fs::read(directory.path().join("pages").join((index + 1).to_string())).unwrap();
        assert!(page.starts_with(format!("{url}\n").as_bytes()) && page.ends_with(&truth[url].1));
    }
    let asked: BTreeMap<_, usize> = web.log().iter().fold(BTreeMap::new(), |mut asked, hit| {
        *asked.entry((hit.host.clone(), hit.path.clone())).or_default() += 1;
        asked
    });
    assert!(asked.values().all(|times| *times == 1), "what was finished is not asked for again");

    let is_revisit = begin().run_blocking().unwrap();
    assert_eq!((is_revisit.end, is_revisit.resumed), (CrawlEnd::Finished, ResumeStatus::AlreadyFinished));
    assert_eq!(is_revisit.snapshot.pages, last.snapshot.pages);
    assert_eq!(web.log().len(), asked.len(), "a finished crawl does nothing");
}

#[test]
fn budgets_go_on_where_they_were_and_may_be_raised() {
    let web = Web::builder().seeded_hosts(7, 20, 12).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let report = crawl(&web, &state).max_pages(10).run_blocking().unwrap();
    assert_eq!(
        (report.snapshot.pages, report.end.to_string().as_str()),
        (10, "the budget of pages is spent")
    );
    let asked = web.log().len();
    let report = crawl(&web, &state).max_pages(10).run_blocking().unwrap();
    assert_eq!((report.snapshot.pages, web.log().len()), (10, asked), "nothing is left of it");
    let report = crawl(&web, &state).max_pages(30).run_blocking().unwrap();
    assert_eq!((report.snapshot.pages, report.resumed), (30, ResumeStatus::Resumed));
    let lowered = crawl(&web, &state).max_pages(29).run_blocking().unwrap_err().to_string();
    assert!(lowered.contains("--max-pages was 30 and is 29 now"), "{lowered}");
    let changed = crawl(&web, &state).max_pages(30).max_depth(2).run_blocking().unwrap_err().to_string();
    assert!(changed.contains("--max-depth was 'none'"), "{changed}");
}

#[test]
fn a_url_tells_what_became_of_it_and_a_page_is_shown() {
    let site = Site::new()
        .page("/", "<a href=/one>1</a> <a href=/gone>2</a>")
        .page("/one", "<a href=/two>3</a> first words of the first page")
        .page("/two", "the second page says something else");
    let web = Web::builder().site(site).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let url = |path: &str| web.url_of("h0.test", path).parse().unwrap();
    crawl(&web, &state).max_pages(2).metadata(*b"a note").run_blocking().unwrap();
    let mut stored = StateReader::open(&state).unwrap();
    assert_eq!(stored.metadata().unwrap(), b"a note");
    let why = stored.history(&url("/one")).unwrap().unwrap();
    assert_eq!((why.depth, why.found_on), (1, vec![String::from(url("/"))]));
    assert!(matches!(why.fate, UrlStatus::Ended { outcome, document: Some(_), .. } if outcome == "page"));
    let shown = stored.content(&url("/one")).unwrap().unwrap();
    assert!(String::from_utf8(shown).unwrap().contains("first words"));
    let why = stored.history(&url("/two")).unwrap().unwrap();
    assert_eq!((why.depth, why.fate), (2, UrlStatus::Waiting));
    assert_eq!(why.found_on, [String::from(url("/one")), String::from(url("/"))]);
    assert_eq!(stored.content(&url("/two")).unwrap(), None);
    assert_eq!(stored.history(&url("/never")).unwrap(), None);
    let second = StateReader::open(&state).err().unwrap().to_string();
    assert!(second.contains("another process is at work"), "{second}");
}

/// What came of a crawl whose state was damaged; it must come to an end, and not by a panic.
fn end_of(crawler: Crawler) -> Result<CrawlReport, String> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || drop(tell.send(crawler.run_blocking().map_err(|error| error.to_string()))));
    told.recv_timeout(Duration::from_secs(60)).expect("neither a panic nor a crawl without end")
}

#[test]
fn a_damaged_state_is_refused_and_left_as_it_is() {
    let web = Web::builder().seeded_hosts(7, 5, 12).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    crawl(&web, &state).max_pages(20).run_blocking().unwrap();
    let file = state.join("crawl.state");
    let whole = fs::read(&file).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).unwrap();
        let looked_at = StateReader::open(&state).and_then(|mut stored| {
            stored.pages(10)?;
            stored.history(&web.url_of("h0.test", "/").parse().unwrap())
        });
        if let Err(error) = looked_at {
            assert!(error.to_string().contains("state"), "{what}: {error}");
        }
        fs::write(&file, bytes).unwrap();
        // Whatever it finds, it must not panic; and what it refuses it leaves alone.
        if let Err(error) = end_of(crawl(&web, &state).max_pages(30)) {
            assert!(error.contains("state"), "{what}: {error}");
            assert!(fs::metadata(&file).unwrap().len() >= bytes.len() as u64, "{what}");
            return true;
        }
        false
    };
    for cut in [0, 1, 100, 5_000, whole.len() / 2, whole.len() - 1] {
        assert!(refused(&whole[..cut], &format!("cut at {cut}")), "cut at {cut} of {}", whole.len());
    }
    assert!(refused(b"not a state at all, but some text that is long enough to be one", "text"));
    let used: Vec<usize> =
        (0..whole.len()).step_by(4096).filter(|at| whole[*at..*at + 64] != [0; 64]).collect();
    assert!(used.len() > 20, "{}", used.len());
    for (round, at) in used.iter().enumerate() {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes[*at..at + 512].fill(0xA5),
            1 => bytes[*at..at + 64].fill(0),
            _ => (0..16).for_each(|n| bytes[at + n * 37] ^= 1 << (n % 8)),
        }
        refused(&bytes, &format!("damaged at {at}"));
    }
    assert!(!refused(&whole, "whole"), "put back, it works");
}

#[test]
fn outputs_in_the_way_refuse_the_crawl_before_it_begins() {
    let web = Web::builder().seeded_hosts(7, 5, 12).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    fs::write(directory.path().join("jsonl"), "something dear\n").unwrap();
    let begin =
        || crawl(&web, &state).module_from_spec(&output(directory.path(), "jsonl")).unwrap().max_pages(5);
    assert!(begin().run_blocking().unwrap_err().to_string().contains("exists and holds"));
    fs::remove_file(directory.path().join("jsonl")).unwrap();
    assert_eq!(begin().run_blocking().unwrap().resumed, ResumeStatus::New);
    // A file that lost what was written to it is not gone on with.
    fs::write(directory.path().join("jsonl"), "").unwrap();
    let cut = begin().max_pages(6).run_blocking().unwrap_err().to_string();
    assert!(cut.contains("put the whole file back"), "{cut}");
}

#[test]
fn a_directory_of_pages_that_was_moved_away_is_not_gone_on_with() {
    let web = Web::builder().seeded_hosts(7, 5, 12).start();
    let directory = tempfile::tempdir().unwrap();
    let (pages, moved) = (directory.path().join("pages"), directory.path().join("moved"));
    let begin = |most| {
        let crawler = crawl(&web, &directory.path().join("state")).max_pages(most);
        crawler.module_from_spec(&output(directory.path(), "pages")).unwrap().run_blocking()
    };
    begin(5).unwrap();
    fs::rename(&pages, &moved).unwrap();
    let refused = begin(10).unwrap_err().to_string();
    assert!(refused.contains("is not there where the crawl had written 1 to 5"), "{refused}");
    fs::rename(&moved, &pages).unwrap();
    begin(10).unwrap();
    assert_eq!(fs::read_dir(&pages).unwrap().count(), 10);
}

#[test]
fn a_module_that_panics_is_counted_and_the_crawl_goes_on() {
    let web = Web::builder().seeded_hosts(7, 5, 12).start();
    let directory = tempfile::tempdir().unwrap();
    let clumsy = |page: &Page| assert!(!page.url.path().ends_with('/'), "no page but a directory");
    let crawler = crawl(&web, &directory.path().join("state")).max_pages(20).module(clumsy);
    let report =
        crawler.module_from_spec(&output(directory.path(), "edges")).unwrap().run_blocking().unwrap();
    assert_eq!((report.snapshot.pages, report.output_failure), (20, None));
    assert!(report.module_failures.failures["function"] > 0, "{:?}", report.module_failures);
    let said = report.module_failures.last_failure.unwrap();
    assert!(
        said.starts_with("function: panicked at ") && said.ends_with("no page but a directory"),
        "{said}"
    );
}

#[test]
fn what_a_crawl_is_told_is_compared_as_a_whole() {
    type Told = Box<dyn Fn(Crawler) -> Crawler>;
    let web = Web::builder().seeded_hosts(7, 5, 12).start();
    let prefixes = |second: &str| {
        let urls = ["http://h0.test/", second].map(|url| url.parse().unwrap());
        Scope::prefixes(&urls)
    };
    let named =
        |spec: &'static str| -> Told { Box::new(move |crawler| crawler.module_from_spec(spec).unwrap()) };
    let scope = |scope: Scope| -> Told { Box::new(move |crawler| crawler.scope(scope.clone())) };
    let adapt = |adapt| -> Told {
        Box::new(move |crawler| crawler.configure(|config| config.adaptive_delay = adapt))
    };
    let time = |time| -> Told { Box::new(move |crawler| crawler.max_time(Duration::from_millis(time))) };
    let changes = [
        ("--module", named("exec=cat > /dev/null"), named("exec=cat >/dev/null")),
        ("--module", named("words=5"), named("words=50")),
        ("the bounds of the scope", scope(prefixes("http://h1.test/a")), scope(prefixes("http://h1.test/b"))),
        ("adapting to slow hosts", adapt(true), adapt(false)),
        ("--max-time", time(60_900), time(60_100)),
    ];
    for (name, before, after) in changes {
        let directory = tempfile::tempdir().unwrap();
        let begin = || crawl(&web, directory.path()).max_pages(3);
        before(begin()).run_blocking().unwrap();
        let refused = after(begin()).run_blocking().unwrap_err().to_string();
        assert!(refused.starts_with(name), "{refused}");
        before(begin()).run_blocking().expect("the same again is accepted");
    }
}

#[test]
fn modules_see_every_page_and_near_duplicates_are_known_after_a_resume() {
    let web = Web::builder().host("h0.test", Site::seeded(9, 30).with_print_views()).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let begin = || {
        let seen = Arc::clone(&seen);
        crawl(&web, &state)
            .configure_backend(|settings| {
                settings.similarity = crawler::internal::similarity::Threshold::new(0.9)
            })
            .module(move |page: &Page| {
                seen.lock().unwrap().insert(page.url.to_string());
            })
    };
    let mut last = run_until(begin(), 10);
    for _ in 0..20 {
        if last.end == CrawlEnd::Finished {
            break;
        }
        last = run_until(begin(), 10);
    }
    assert_eq!(last.end, CrawlEnd::Finished);
    assert_eq!(seen.lock().unwrap().len() as u64, last.snapshot.pages);
    assert!(last.snapshot.outcomes["near-duplicate"] > 10, "{:?}", last.snapshot.outcomes);
}
