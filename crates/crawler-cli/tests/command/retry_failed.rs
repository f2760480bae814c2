//! `crawler resume --retry-failed`: URLs that failed temporarily are fetched again, and counted once.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use testweb::{Hostile, Request, Response, Site, Web};

use crate::common::{counts, linking_to, run, serve};
use crate::pipeline::{Pipeline, adds_up, objects_in, urls};
use crate::resume::killed_after;
use crate::state::StateDir;

/// A site whose pages fail until it has recovered: some with 503, some by closing the connection. `/gone` is never there.
fn recovering(pages: usize) -> (Web, Arc<AtomicBool>) {
    let recovered = Arc::new(AtomicBool::new(false));
    let links: Vec<String> = (0..pages).map(|page| format!("/{page}")).chain(["/gone".into()]).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let is_up = Arc::clone(&recovered);
    let site =
        Site::new().page("/", linking_to(&links)).status("/gone", 404).fallback(move |request: &Request| {
            let number: usize = request.path[1..].parse().unwrap_or(0);
            match (number % 3, is_up.load(Ordering::SeqCst)) {
                (_, true) | (2, _) => Response::page(format!("the page {number}")),
                (0, _) => Response::status(503),
                _ => Response::hostile(Hostile::CloseImmediately),
            }
        });
    (serve(site), recovered)
}

fn crawl(web: &Web, place: &StateDir) -> Pipeline {
    let options = "--similarity 0 --concurrency 2 --max-host-failures 1000000 --module";
    let lines = place.path("lines").display().to_string();
    place
        .crawl(web.url("/"))
        .with(options)
        .with_one(format!("jsonl={lines}"))
        .with("--summary")
        .with_one(summary_path(place))
}

fn summary_path(place: &StateDir) -> String {
    place.path("summary").display().to_string()
}

fn summary(place: &StateDir) -> Value {
    serde_json::from_slice(&fs::read(summary_path(place)).unwrap()).unwrap()
}

#[test]
fn failed_urls_are_fetched_again_and_each_has_one_outcome() {
    let ((web, recovered), place) = (recovering(12), StateDir::new());
    let first = crawl(&web, &place).run().expect(0);
    let expected = [("page", 5), ("HTTP 404", 1), ("HTTP 503", 4), ("connection", 4)];
    assert_eq!(adds_up(&summary(&place)), counts(&expected));
    let hint = format!(
        "8 URLs failed temporarily; to fetch them again: crawler resume {} --retry-failed\n",
        place.state()
    );
    assert!(first.stderr.contains(&hint), "{}", first.stderr);

    let hits = web.hits();
    let finished = place.resume("").wait().expect(0);
    assert!(
        finished.stderr.contains("is already finished (5 pages)") && web.hits() == hits,
        "{}",
        finished.stderr
    );
    // Still down: they fail again, and are counted once.
    let still_down = place.resume("--retry-failed").wait().expect(0);
    assert!(
        still_down.stderr.contains("resuming: 5 pages so far, 8 URLs pending\n"),
        "{}",
        still_down.stderr
    );
    assert_eq!(adds_up(&summary(&place)), counts(&expected));
    let again: BTreeSet<String> = web.log()[hits..].iter().map(|hit| hit.path.clone()).collect();
    let failed: BTreeSet<String> =
        (0..12).filter(|page| page % 3 < 2).map(|page| format!("/{page}")).collect();
    assert_eq!(again, failed, "only the failed URLs are requested");

    recovered.store(true, Ordering::SeqCst);
    let hits = web.hits();
    place.resume("--retry-failed").wait().expect(0);
    assert_eq!(adds_up(&summary(&place)), counts(&[("page", 13), ("HTTP 404", 1)]));
    assert_eq!(
        (&summary(&place)["failed_temporarily"], &summary(&place)["state"]),
        (&0.into(), &"finished".into())
    );
    assert_eq!(web.hits(), hits + 8, "only the failed URLs are requested");
    assert_eq!(urls(&objects_in(&place.path("lines"))).len(), 13, "each page is in the output once");
    let why = run(&["why", &web.url("/3"), "--state", &place.state()]).expect(0).stdout;
    assert!(why.contains("outcome: page ") && why.contains("reached: found on"), "{why}");
    let none = place.resume("--retry-failed").wait().expect(0);
    assert!(none.stderr.contains("no URL failed temporarily, so none is fetched again\n"), "{}", none.stderr);
}

#[test]
fn killed_retry_loses_nothing_and_repeats_nothing() {
    let ((web, recovered), place) = (recovering(150), StateDir::new());
    crawl(&web, &place).run().expect(0);
    assert_eq!(adds_up(&summary(&place))["page"], 51);
    recovered.store(true, Ordering::SeqCst);
    let hits = web.hits();
    for requests in [0, 1, 30] {
        let slow = format!("--retry-failed --delay 5ms --summary {}", summary_path(&place));
        killed_after(&web, requests, place.resume(&slow));
    }
    place.resume("--delay 0").wait().expect(0);
    assert_eq!(adds_up(&summary(&place)), counts(&[("page", 151), ("HTTP 404", 1)]));
    assert_eq!(urls(&objects_in(&place.path("lines"))).len(), 151, "each page is in the output once");
    let later = web.log()[hits..].iter().map(|hit| hit.path.clone()).collect::<Vec<_>>();
    let once: BTreeSet<&String> = later.iter().collect();
    assert_eq!(once.len(), 100, "exactly the failed URLs are requested");
    assert!(later.len() <= 100 + 3 * 8, "only URLs in progress are requested again: {}", later.len());
}

#[test]
fn hosts_that_were_given_up_are_requested_again() {
    let (up, place) = (Arc::new(AtomicBool::new(false)), StateDir::new());
    let is_up = Arc::clone(&up);
    let links: Vec<String> = (0..10).map(|page| format!("http://down.test/{page}")).collect();
    let web = Web::builder()
        .host(
            "down.test",
            Site::new().fallback(move |request: &Request| match is_up.load(Ordering::SeqCst) {
                true => Response::page(format!("the page {}", request.path)),
                false => Response::hostile(Hostile::CloseImmediately),
            }),
        )
        .start();
    let links: Vec<String> =
        links.iter().map(|link| link.replace("http://down.test", &web.url_of("down.test", ""))).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let hub = serve(Site::new().page("/", linking_to(&links)));
    place.crawl(hub.url("/")).with("--similarity 0 --max-host-failures 2").run().expect(0);
    up.store(true, Ordering::SeqCst);
    let ended = place.resume("--retry-failed").wait().expect(0);
    assert_eq!(ended.outcomes(), counts(&[("page", 11)]), "{}", ended.stdout);
    assert!(!ended.stdout.contains("unreachable"), "{}", ended.stdout);
}
