//! Crawls with a state on disk: stopped, resumed, refused, damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crawler::internal::backend::durable::{StateReader, UrlStatus};
use crawler::internal::page::Page;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::pipeline::{CrawlEnd, CrawlReport, ResumeStatus};
use crawler::internal::scope::Scope;
use crawler::internal::strip_query::StripQuery;
use crawler::{Crawler, StopHandle};
use testweb::{Site, Web};

/// A crawl of hosts on loopback, without delay and without robots.txt, with its state in a directory.
fn crawl(web: &Web, state: &Path) -> Crawler {
    let hosts: Vec<_> = (0..20).map(|number| format!("http://h{number}.test/").parse().unwrap()).collect();
    Crawler::new(&web.url_of("h0.test", "/"))
        .unwrap()
        .configure(|config| {
            config.requests.dns_overrides = vec![("*".into(), [127, 0, 0, 1].into())];
            config.requests.allow_private = true;
            config.requests.obey_robots = false;
            config.delay = Duration::ZERO;
        })
        .scope(Scope::domains(&hosts))
        .configure_backend(|config| config.similarity = None)
        .state_dir(state)
}

fn output(directory: &Path, name: &str) -> String {
    format!("{name}={}", directory.join(name).display())
}

/// Runs a crawl and stops it after a number of outcomes.
fn run_and_stop_after(crawler: Crawler, pages: usize) -> CrawlReport {
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
fn crawl_stopped_many_times_has_the_same_result_as_one_run() {
    let web = Web::builder().seeded_hosts(7, 20, 12).start();
    let expected = web.truth_from(&web.url_of("h0.test", "/"), 1_000);
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let crawler = || {
        let crawler = crawl(&web, &state);
        let names = ["jsonl", "edges", "pages"].map(|name| output(directory.path(), name));
        names.iter().fold(crawler, |crawler, name| crawler.module_from_spec(name).unwrap())
    };
    let mut runs = 0;
    let last = loop {
        let report = run_and_stop_after(crawler(), 25);
        // A crawl that was stopped when nothing was left is already finished.
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
    assert_eq!(last.snapshot.pages as usize, expected.len());
    assert_eq!(last.snapshot.pending(), 0);
    let lines = fs::read_to_string(directory.path().join("jsonl")).unwrap();
    let urls: Vec<String> = lines
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["url"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(urls.len(), expected.len());
    assert_eq!(urls.iter().collect::<BTreeSet<_>>(), expected.keys().collect());
    for (index, url) in urls.iter().enumerate() {
        let page = fs::read(directory.path().join("pages").join((index + 1).to_string())).unwrap();
        assert!(page.starts_with(format!("{url}\n").as_bytes()) && page.ends_with(&expected[url].1));
    }
    let requests: BTreeMap<_, usize> = web.log().iter().fold(BTreeMap::new(), |mut requests, hit| {
        *requests.entry((hit.host.clone(), hit.path.clone())).or_default() += 1;
        requests
    });
    assert!(requests.values().all(|times| *times == 1), "completed URLs are not fetched again");

    let finished = crawler().run_blocking().unwrap();
    assert_eq!((finished.end, finished.resumed), (CrawlEnd::Finished, ResumeStatus::AlreadyFinished));
    assert_eq!(finished.snapshot.pages, last.snapshot.pages);
    assert_eq!(web.log().len(), requests.len(), "a finished crawl sends no requests");
}

#[test]
fn budgets_continue_after_a_resume_and_can_change() {
    let web = Web::builder().seeded_hosts(7, 20, 12).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let report = crawl(&web, &state).max_pages(10).run_blocking().unwrap();
    assert_eq!(
        (report.snapshot.pages, report.end.to_string().as_str()),
        (10, "the limit of pages is reached")
    );
    let requests = web.log().len();
    let report = crawl(&web, &state).max_pages(10).run_blocking().unwrap();
    assert_eq!((report.snapshot.pages, web.log().len()), (10, requests), "the budget is used up");
    let report = crawl(&web, &state).max_pages(30).run_blocking().unwrap();
    assert_eq!((report.snapshot.pages, report.resumed), (30, ResumeStatus::Resumed));
    let requests = web.log().len();
    let lowered = crawl(&web, &state).max_pages(29).run_blocking().unwrap();
    assert_eq!((lowered.snapshot.pages, web.log().len()), (30, requests), "a lower budget is used up");
    let changed = crawl(&web, &state).max_pages(30).max_depth(2).run_blocking().unwrap_err().to_string();
    assert!(changed.contains("max-depth was 'none'"), "{changed}");
}

#[test]
fn state_reader_returns_the_history_and_the_content_of_a_url() {
    let site = Site::new()
        .page("/", "<a href=/one>1</a> <a href=/gone>2</a>")
        .page("/one", "<a href=/two>3</a> first words of the first page")
        .page("/two", "the second page says something else");
    let web = Web::builder().site(site).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let url = |path: &str| web.url_of("h0.test", path).parse().unwrap();
    crawl(&web, &state).max_pages(2).metadata(*b"metadata").run_blocking().unwrap();
    let mut stored = StateReader::open(&state).unwrap();
    assert_eq!(stored.metadata().unwrap(), b"metadata");
    let history = stored.history(&url("/one")).unwrap().unwrap();
    assert_eq!((history.depth, history.found_on), (1, vec![String::from(url("/"))]));
    assert!(
        matches!(history.status, UrlStatus::Completed { outcome, page_number: Some(_), .. } if outcome == "page")
    );
    let content = stored.content(&url("/one")).unwrap().unwrap();
    assert!(String::from_utf8(content).unwrap().contains("first words"));
    let history = stored.history(&url("/two")).unwrap().unwrap();
    assert_eq!((history.depth, history.status), (2, UrlStatus::Pending));
    assert_eq!(history.found_on, [String::from(url("/one")), String::from(url("/"))]);
    assert_eq!(stored.content(&url("/two")).unwrap(), None);
    assert_eq!(stored.history(&url("/never")).unwrap(), None);
    let second = StateReader::open(&state).err().unwrap().to_string();
    assert!(second.contains("another process is using it"), "{second}");
}

/// Runs a crawl whose state may be damaged. It must finish or fail, without a panic.
fn run_to_end(crawler: Crawler) -> Result<CrawlReport, String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || drop(sender.send(crawler.run_blocking().map_err(|error| error.to_string()))));
    receiver.recv_timeout(Duration::from_secs(60)).expect("the crawl finishes without a panic")
}

#[test]
fn damaged_state_is_refused_and_not_truncated() {
    let web = Web::builder().seeded_hosts(7, 5, 12).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    crawl(&web, &state).max_pages(20).run_blocking().unwrap();
    let file = state.join("crawl.state");
    let original = fs::read(&file).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).unwrap();
        let read = StateReader::open(&state).and_then(|mut stored| {
            stored.pages(10)?;
            stored.history(&web.url_of("h0.test", "/").parse().unwrap())
        });
        if let Err(error) = read {
            assert!(error.to_string().contains("state"), "{what}: {error}");
        }
        fs::write(&file, bytes).unwrap();
        // It must not panic, and must not truncate a file that it refuses.
        if let Err(error) = run_to_end(crawl(&web, &state).max_pages(30)) {
            assert!(error.contains("state"), "{what}: {error}");
            assert!(fs::metadata(&file).unwrap().len() >= bytes.len() as u64, "{what}");
            return true;
        }
        false
    };
    for cut in [0, 1, 100, 5_000, original.len() / 2, original.len() - 1] {
        assert!(refused(&original[..cut], &format!("cut at {cut}")), "cut at {cut} of {}", original.len());
    }
    assert!(refused(b"not a state at all, but some text that is long enough to be one", "text"));
    let used: Vec<usize> =
        (0..original.len()).step_by(4096).filter(|at| original[*at..*at + 64] != [0; 64]).collect();
    assert!(used.len() > 20, "{}", used.len());
    for (round, at) in used.iter().enumerate() {
        let mut bytes = original.clone();
        match round % 3 {
            0 => bytes[*at..at + 512].fill(0xA5),
            1 => bytes[*at..at + 64].fill(0),
            _ => (0..16).for_each(|n| bytes[at + n * 37] ^= 1 << (n % 8)),
        }
        refused(&bytes, &format!("damaged at {at}"));
    }
    assert!(!refused(&original, "whole"), "the restored file works");
}

#[test]
fn existing_output_file_refuses_the_crawl_before_it_starts() {
    let web = Web::builder().seeded_hosts(7, 5, 12).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    fs::write(directory.path().join("jsonl"), "something dear\n").unwrap();
    let crawler =
        || crawl(&web, &state).module_from_spec(&output(directory.path(), "jsonl")).unwrap().max_pages(5);
    assert!(crawler().run_blocking().unwrap_err().to_string().contains("already has"));
    fs::remove_file(directory.path().join("jsonl")).unwrap();
    assert_eq!(crawler().run_blocking().unwrap().resumed, ResumeStatus::New);
    // An output that is shorter than recorded is refused.
    fs::write(directory.path().join("jsonl"), "").unwrap();
    let cut = crawler().max_pages(6).run_blocking().unwrap_err().to_string();
    assert!(cut.contains("restore the file"), "{cut}");
}

#[test]
fn resume_is_refused_if_the_page_directory_was_moved_away() {
    let web = Web::builder().seeded_hosts(7, 5, 12).start();
    let directory = tempfile::tempdir().unwrap();
    let (pages, moved) = (directory.path().join("pages"), directory.path().join("moved"));
    let run = |max_pages| {
        let crawler = crawl(&web, &directory.path().join("state")).max_pages(max_pages);
        crawler.module_from_spec(&output(directory.path(), "pages")).unwrap().run_blocking()
    };
    run(5).unwrap();
    fs::rename(&pages, &moved).unwrap();
    let refused = run(10).unwrap_err().to_string();
    assert!(refused.contains("it does not exist, but the crawl had written 1 to 5"), "{refused}");
    fs::rename(&moved, &pages).unwrap();
    run(10).unwrap();
    assert_eq!(fs::read_dir(&pages).unwrap().count(), 10);
}

#[test]
fn panics_of_a_module_are_counted_and_the_crawl_continues() {
    let web = Web::builder().seeded_hosts(7, 5, 12).start();
    let directory = tempfile::tempdir().unwrap();
    let panicking = |page: &Page| assert!(!page.url.path().ends_with('/'), "no page but a directory");
    let crawler = crawl(&web, &directory.path().join("state")).max_pages(20).module(panicking);
    let report =
        crawler.module_from_spec(&output(directory.path(), "edges")).unwrap().run_blocking().unwrap();
    assert_eq!((report.snapshot.pages, report.output_failure.is_none()), (20, true));
    assert!(report.module_failures.failures["function"] > 0, "{:?}", report.module_failures);
    let message = report.module_failures.last_failure.unwrap();
    assert!(
        message.starts_with("function: panicked at ") && message.ends_with("no page but a directory"),
        "{message}"
    );
}

#[test]
fn settings_can_change_on_resume_except_those_that_would_falsify_the_state() {
    type Change = Box<dyn Fn(Crawler) -> Crawler>;
    let web = Web::builder().seeded_hosts(7, 5, 12).start();
    let changes: [(Option<&str>, Change); 8] = [
        (None, Box::new(|crawler| crawler.module_from_spec("words=5").unwrap())),
        (None, Box::new(|crawler| crawler.scope(Scope::anywhere().with_filters(&[], &["x"]).unwrap()))),
        (None, Box::new(|crawler| crawler.configure(|config| config.adaptive_delay = false))),
        (None, Box::new(|crawler| crawler.max_pages(2).max_time(Duration::from_secs(9)))),
        (None, Box::new(|crawler| crawler.store_content(false).workers(1).header("X-Run", "2").unwrap())),
        (Some("max-depth was 'none'"), Box::new(|crawler| crawler.max_depth(3))),
        (Some("similarity was '0.9'"), Box::new(|crawler| crawler.near_duplicates(Some(0.5)).unwrap())),
        (
            Some("strip-query was ''"),
            Box::new(|crawler| {
                crawler.configure(|config| config.strip_query = StripQuery::new(&["sid"]).unwrap())
            }),
        ),
    ];
    for (refusal, change) in changes {
        let directory = tempfile::tempdir().unwrap();
        let crawler = || crawl(&web, directory.path()).near_duplicates(Some(0.9)).unwrap().max_pages(3);
        crawler().run_blocking().unwrap();
        let resumed = change(crawler()).run_blocking().map_err(|error| error.to_string());
        match (refusal, resumed) {
            (None, resumed) => assert_eq!(resumed.unwrap().snapshot.pages, 3),
            (Some(words), resumed) => {
                let refused = resumed.unwrap_err();
                assert!(refused.starts_with(&format!("cannot resume: {words}")), "{refused}");
                assert!(refused.contains("it cannot change, because "), "{refused}");
            }
        }
        crawler().run_blocking().expect("the recorded settings are accepted");
    }
}

#[test]
fn modules_get_every_page_and_near_duplicates_are_found_after_a_resume() {
    let web = Web::builder().host("h0.test", Site::seeded(9, 30).with_print_views()).start();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let crawler = || {
        let seen = Arc::clone(&seen);
        crawl(&web, &state)
            .configure_backend(|config| {
                config.similarity = crawler::internal::similarity::Threshold::new(0.9)
            })
            .module(move |page: &Page| {
                seen.lock().unwrap().insert(page.url.to_string());
            })
    };
    let mut last = run_and_stop_after(crawler(), 10);
    for _ in 0..20 {
        if last.end == CrawlEnd::Finished {
            break;
        }
        last = run_and_stop_after(crawler(), 10);
    }
    assert_eq!(last.end, CrawlEnd::Finished);
    assert_eq!(seen.lock().unwrap().len() as u64, last.snapshot.pages);
    assert!(last.snapshot.outcomes["near-duplicate"] > 10, "{:?}", last.snapshot.outcomes);
}
