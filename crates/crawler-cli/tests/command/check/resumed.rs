//! `crawler check` with a state: interrupted, killed, and resumed with other options.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use super::*;

#[test]
fn incomplete_check_says_so_and_is_completed_by_the_same_command() {
    let web = serve(
        &[("/", "<a href=/a>x</a><img src=/i>"), ("/a", "<a href=/b>x</a>"), ("/b", "<a href=/gone>x</a>")],
        missing,
    );
    let directory = tempfile::tempdir().unwrap();
    let state = format!("--state {}", directory.path().join("state").display());
    let ended = check(&web, &format!("{state} --max-pages 1 --workers 1"));
    assert!(ended.stdout.contains("\nNot complete: "), "{}", ended.stdout);
    assert!(ended.stderr.contains("Stopped: 1 page (--max-pages)"), "{}", ended.stderr);
    let report = report(&web, &state, 1);
    assert_eq!(found(&web, &report, "broken"), ["/gone: HTTP 404 Not Found", "/i: HTTP 404 Not Found"]);
    assert_eq!((&report["complete"], &report["counts"]["pages"]), (&true.into(), &3.into()));
    // Nothing was requested twice.
    let gets = requests(&web, "a.test");
    assert_eq!(gets.iter().filter(|request| *request == "GET /").count(), 1, "{gets:?}");
}

/// Continues the check in a state directory.
fn resume(state: &Path, options: &str) -> Ended {
    let mut command = binary();
    command.arg("resume").arg(state).args(options.split_whitespace());
    Running::start(command, "/nowhere".into(), None).wait()
}

#[test]
fn failures_that_a_resumed_check_finds_fixed_are_fine() {
    let is_up = Arc::new(AtomicBool::new(false));
    let fixed = Arc::clone(&is_up);
    let recovering = move |request: &testweb::Request| match request.path.as_str() {
        "/robots.txt" => Response::status(404),
        _ if fixed.load(Ordering::SeqCst) => Response::page("x"),
        _ => Response::hostile(Hostile::CloseImmediately),
    };
    let others = recovering.clone();
    let html = "<a href=/p>x</a><img src=/i><a href=http://b.test:PORT/>x</a>";
    let site = Site::new().fallback(move |request| match request.path.as_str() {
        "/" => Response::page(html.replace("PORT", request.authority.rsplit(':').next().unwrap())),
        _ => recovering(request),
    });
    let web = Web::builder().host("a.test", site).host("b.test", Site::new().fallback(others)).start();
    let directory = tempfile::tempdir().unwrap();
    let (state, graph) = (directory.path().join("state"), directory.path().join("graph"));
    let first = report(&web, &format!("--state {} --module graphml={}", state.display(), graph.display()), 1);
    assert_eq!(first["counts"]["broken"], 3, "{first}");
    let node = || {
        let graph = fs::read_to_string(&graph).unwrap();
        graph.lines().find(|line| line.contains("<node") && line.contains("/p\"")).unwrap().to_owned()
    };
    assert!(!node().contains(">page<"), "{}", node());

    is_up.store(true, Ordering::SeqCst);
    let again = resume(&state, "--retry-failed").expect(0);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&again["counts"]["broken"], &again["counts"]["pages"]), (&0.into(), &2.into()), "{again}");
    assert_eq!((&again["complete"], &again["counts"]["urls"]), (&true.into(), &4.into()), "{again}");
    assert!(node().contains(">page<"), "{}", node());
}

#[test]
fn statuses_are_no_longer_accepted_when_a_resumed_check_says_so() {
    let web = serve(&[("/", "<a href=/gone>x</a><a href=http://b.test/>x</a>")], missing);
    let directory = tempfile::tempdir().unwrap();
    let state = format!("--state {}", directory.path().join("state").display());
    assert_eq!(report(&web, &format!("{state} --accept 404"), 0)["counts"]["broken"], 0);
    let hits = web.hits();
    let report = report(&web, &state, 1);
    assert_eq!(found(&web, &report, "broken"), ["/gone: HTTP 404 Not Found", "b.test/: HTTP 404 Not Found"]);
    assert_eq!(web.hits(), hits);
}

#[test]
fn check_that_is_resumed_with_other_modules_keeps_its_report_and_prints_none() {
    let web = serve(&[("/", "<a href=/a>x</a><a href=/gone>x</a>"), ("/a", "x")], missing);
    let directory = tempfile::tempdir().unwrap();
    let (state, urls) = (directory.path().join("state"), directory.path().join("urls.csv"));
    check(&web, &format!("--state {} --format json --max-pages 1 --workers 1", state.display()));
    let ended = resume(&state, &format!("--module urls={} --max-pages 10", urls.display())).expect(0);
    assert!(!ended.stdout.contains("linked_from"), "{}", ended.stdout);
    assert!(ended.stdout.contains("Pages "), "{}", ended.stdout);
    let report = fs::read_to_string(state.join("report")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap_or_else(|_| panic!("{report}"));
    assert_eq!((&report["version"], &report["counts"]["pages"]), (&1.into(), &1.into()));
    assert!(fs::read_to_string(&urls).unwrap().contains("/gone"));
}

#[test]
fn check_that_was_killed_is_completed_with_every_link() {
    let pages = (0..40).map(|page| format!("/{page}"));
    let html =
        |page: usize| format!("<a href=/{}>next</a><a href=/gone/{page}>x</a><a href=/gone>x</a>", page + 1);
    let site = pages.enumerate().fold(Site::new(), |site, (page, path)| site.page(&path, html(page)));
    let web = Web::builder().host("a.test", site.page("/", html(0)).page("/40", "the end")).start();
    let directory = tempfile::tempdir().unwrap();
    let state = format!("--delay 5ms --state {}", directory.path().join("state").display());
    let running = start(&web, &state);
    let started = std::time::Instant::now();
    while web.hits() < 30 {
        assert!(started.elapsed() < Duration::from_secs(60), "{} requests", web.hits());
        std::thread::sleep(Duration::from_millis(2));
    }
    running.signal(Signal::KILL);
    assert_eq!(running.status(), None);
    let report = report(&web, &state, 1);
    assert_eq!(report["complete"], true, "{}", report["gaps"]);
    assert_eq!((&report["counts"]["pages"], &report["counts"]["links"]), (&41.into(), &120.into()));
    assert_eq!(report["counts"]["broken"], 41);
    let gone = report["broken"].as_array().unwrap().iter().find(|gone| gone["pages"] == 40);
    assert_eq!(links(&web, gone.expect("every page links to /gone")).len(), 40);
}
