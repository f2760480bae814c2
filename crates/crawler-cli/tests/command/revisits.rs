//! `--revisit-after` while a crawl runs: URLs come back when they are due, until the crawl is stopped.

use rustix::process::Signal;
use testweb::{ChangingSite, Validator, Web};

use crate::common::{Running, linking_to, run, serve};
use crate::pipeline::Pipeline;
use crate::recrawl::{versions, words};
use crate::state::StateDir;

/// A seed that changes when the test says so, and a page that never does.
fn site() -> ChangingSite {
    let site = ChangingSite::new();
    site.page("/", linking_to(&["/same"]) + &words("first"), Validator::ETag);
    site.page("/same", words("same"), Validator::LastModified);
    site
}

fn hits(web: &Web, path: &str) -> usize {
    web.log().iter().filter(|hit| hit.path == path).count()
}

/// Waits until a URL was requested so often.
fn until_visited(crawl: &mut Running, web: &Web, path: &str, times: usize) {
    crawl.until(&format!("{times} visits of {path}"), |_| hits(web, path) >= times);
}

fn crawl(place: &StateDir, crawl: Pipeline) -> Pipeline {
    crawl.module("jsonl", &place.path("pages")).with("--revisit-after 300ms --scope host --workers 1")
}

/// Crawls until both URLs were visited three times and the seed has changed once.
fn crawl_for_a_while(web: &Web, site: &ChangingSite, mut crawl: Running) -> Running {
    until_visited(&mut crawl, web, "/", 2);
    site.page("/", linking_to(&["/same", "/new"]) + &words("second"), Validator::ETag);
    site.page("/new", words("new"), Validator::None);
    let before = hits(web, "/");
    until_visited(&mut crawl, web, "/", before + 2);
    until_visited(&mut crawl, web, "/same", 3);
    until_visited(&mut crawl, web, "/new", 3);
    crawl
}

fn expected() -> Vec<(String, u64, bool)> {
    let expected = [("/", 1, false), ("/", 2, true), ("/new", 1, false), ("/same", 1, false)];
    expected.map(|(path, version, changed)| (path.to_owned(), version, changed)).into()
}

#[test]
fn urls_come_back_when_they_are_due_until_the_crawl_is_stopped() {
    let (site, place) = (site(), StateDir::new());
    let web = serve(site.site());
    let crawl = crawl_for_a_while(&web, &site, crawl(&place, Pipeline::of(web.url("/"))).start());
    crawl.signal(Signal::INT);
    let ended = crawl.wait().expect(130);
    assert!(ended.stdout.contains("Unchanged"), "{}", ended.stdout);
    assert_eq!(versions(&web, &place), expected());
    let not_modified = web.log().iter().filter(|hit| hit.status == Some(304)).count();
    assert!(not_modified >= 3, "{not_modified}");
}

#[test]
fn crawl_that_was_killed_continues_with_its_schedule() {
    let (site, place) = (site(), StateDir::new());
    let web = serve(site.site());
    let crawl = crawl_for_a_while(&web, &site, crawl(&place, place.crawl(web.url("/"))).start());
    crawl.signal(Signal::KILL);
    crawl.wait();
    let mut resumed = place.resume("");
    let before = hits(&web, "/same");
    until_visited(&mut resumed, &web, "/same", before + 2);
    resumed.signal(Signal::INT);
    resumed.wait().expect(130);
    assert_eq!(versions(&web, &place), expected(), "each version once");
    let status = run(&["status", &place.state()]).expect(0).stdout;
    assert!(status.contains("stopped") && status.contains("To resume: crawler resume"), "{status}");
}

#[test]
fn recrawl_of_a_continuous_crawl_that_was_stopped_visits_what_it_knows() {
    for (signal, status) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let (site, place) = (site(), StateDir::new());
        let web = serve(site.site());
        let mut crawl = place.crawl(web.url("/")).with("--revisit-after auto --scope host").start();
        until_visited(&mut crawl, &web, "/same", 1);
        let state = place.state();
        crawl.until("a status that says when the next URL is due", |_| {
            run(&["status", &state]).stdout.contains("next visit in ")
        });
        crawl.signal(signal);
        assert_eq!(crawl.status(), status);
        let ended = place.recrawl("").wait().expect(0);
        assert!(ended.stdout.contains("Unchanged"), "{}", ended.stdout);
        assert_eq!((hits(&web, "/"), hits(&web, "/same")), (2, 2), "{signal:?}");
        let shown = run(&["diff", &state]).expect(0).stdout;
        assert_eq!(shown, "Visit 2: 2 unchanged\n", "{signal:?}");
    }
}

#[test]
fn crawl_waits_until_the_next_url_is_due_and_ends_at_a_limit() {
    let (site, place) = (site(), StateDir::new());
    let web = serve(site.site());
    let crawl = place.crawl(web.url("/")).with("--revisit-after 1h --scope host --max-time 8s");
    let mut crawl = crawl.start();
    let state = place.state();
    crawl.until("a status that says when the next URL is due", |_| {
        let status = run(&["status", &state]);
        status.stdout.contains("next visit in 59 m") && status.stdout.contains("running")
    });
    let ended = crawl.wait().expect(0);
    assert!(ended.stdout.contains("Stopped: 8 s (--max-time)"), "{}", ended.stdout);
    assert_eq!((hits(&web, "/"), hits(&web, "/same")), (1, 1), "nothing is due");
}

#[test]
fn distributed_crawl_visits_each_url_once() {
    let refused =
        run(&["crawl", "http://a.test/", "--revisit-after", "1h", "--redis", "redis://127.0.0.1:1/"]);
    assert!(refused.expect(2).stderr.contains("cannot use --revisit-after with --redis"));
}
