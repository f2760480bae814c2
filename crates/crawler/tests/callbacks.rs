//! Tests of the guarantees of callback mode, with its Rust API.

mod callback_helpers;

use callback_helpers::{Event, page_of_links, pools};
use crawler::internal::callbacks::CallbackInternals as _;
use crawler::internal::callbacks::{CallbackCrawl, LinkRule, StartError};
use std::collections::{BTreeMap, HashMap};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

/// The links that the `link:` rule finds on a page.
fn links_of(page: &[u8]) -> Vec<Vec<u8>> {
    let found = Mutex::new(Vec::new());
    let fetch = |link: &[u8]| (link == b"start").then_some(page);
    CallbackCrawl::default().run(b"start", fetch, |_, to| found.lock().unwrap().push(to.to_vec())).unwrap();
    found.into_inner().unwrap()
}

#[test]
fn report_counts_pages_broken_links_and_edges() {
    let pages =
        HashMap::from([("home", "link:news link:gone link:news"), ("news", "link:home"), ("empty", "")]);
    let report = pools(2, 2, 1).run_str("home", |link| pages.get(link), |_, _| ()).unwrap();
    assert_eq!((report.pages, report.broken, report.edges), (2, 1, 4));
    let report = pools(2, 2, 1).run_str("empty", |link| pages.get(link), |_, _| ()).unwrap();
    assert_eq!((report.pages, report.broken, report.edges), (1, 0, 0));
    let report = pools(2, 2, 1).run_str("gone", |link| pages.get(link), |_, _| ()).unwrap();
    assert_eq!((report.pages, report.broken, report.edges), (0, 1, 0));
}

#[test]
fn size_of_zero_is_rejected_by_name_before_any_callback() {
    let cases =
        [("download_workers", (0, 1, 1)), ("parse_workers", (1, 0, 1)), ("work_queue_size", (1, 1, 0))];
    for (name, (downloaders, parsers, queue)) in cases {
        let called = AtomicBool::new(false);
        let fetch = |_: &[u8]| {
            called.store(true, SeqCst);
            None::<Vec<u8>>
        };
        let error = pools(downloaders, parsers, queue).run(b"start", fetch, |_, _| ()).unwrap_err();
        assert!(matches!(error, StartError::Zero { what, .. } if what == name), "{error:?}");
        assert_eq!(error.to_string(), format!("{name} is 0; it must be at least 1"));
        assert!(!called.into_inner());
    }
}

#[test]
fn link_is_a_word_that_starts_with_link_and_a_colon() {
    let cases: [(&[u8], &[&[u8]]); 11] = [
        (b"link:a text link:b\nlink:c", &[b"a", b"b", b"c"]),
        (b"link: a link:\t\tb", &[b"a", b"b"]),
        (b"invalidlink:x Link:x (link:x", &[]),
        (b"a\tlink:b\x0blink:c\x0clink:d\rlink:e", &[b"b", b"c", b"d", b"e"]),
        (b"link:\nx link:\r\nx", &[]),
        (b"link:", &[]),
        (b"link:   ", &[]),
        (b"link:link:x link: link:y", &[b"link:x", b"link:y"]),
        (b"link:a\0b", &[b"a\0b"]),
        (b"link:\xff\xfe\xa0 link:\xe2\x80\xa8", &[b"\xff\xfe\xa0", b"\xe2\x80\xa8"]),
        (b"", &[]),
    ];
    for (page, links) in cases {
        assert_eq!(links_of(page), links, "{:?}", String::from_utf8_lossy(page));
    }
}

#[test]
fn edges_are_in_document_order_with_repeats_and_self_links() {
    let page = "link:b link:a link:b link:home link:c link:a";
    let edges = Mutex::new(Vec::new());
    let fetch = |link: &str| (link == "home").then_some(page);
    pools(3, 3, 1)
        .run_str("home", fetch, |from, to| edges.lock().unwrap().push(format!("{from}>{to}")))
        .unwrap();
    assert_eq!(edges.into_inner().unwrap(), ["home>b", "home>a", "home>b", "home>home", "home>c", "home>a"]);
}

#[test]
fn edge_is_reported_before_its_target_is_fetched() {
    let reported: Vec<_> = (0..500).map(|_| AtomicBool::new(false)).collect();
    let fetch = |link: &str| match link.parse::<usize>() {
        Ok(number) => {
            assert!(reported[number].load(SeqCst));
            None
        }
        Err(_) => Some(page_of_links("", 0..reported.len())),
    };
    let report = pools(8, 1, 3)
        .run_str("start", fetch, |_, to| reported[to.parse::<usize>().unwrap()].store(true, SeqCst))
        .unwrap();
    assert_eq!(report.broken, 500);
}

#[test]
fn callbacks_of_all_workers_can_run_concurrently() {
    const DOWNLOADERS: usize = 4;
    const PARSERS: usize = 3;
    let barrier = Barrier::new(DOWNLOADERS + PARSERS);
    let (parsers_have_pages, pages) = (Event::default(), AtomicUsize::new(0));
    let fetch = |link: &str| match link.split('-').next().unwrap() {
        "start" => Some(page_of_links("parser-", 0..PARSERS)),
        // The other parsers must have their pages before the links of this page keep all downloaders busy.
        "parser" if link == "parser-0" => {
            parsers_have_pages.wait();
            Some(page_of_links("downloader-", 0..DOWNLOADERS) + "link:meet")
        }
        "parser" => {
            if pages.fetch_add(1, SeqCst) + 1 == PARSERS - 1 {
                parsers_have_pages.set();
            }
            Some("link:meet".to_owned())
        }
        "downloader" => {
            barrier.wait();
            None
        }
        _ => None,
    };
    let edge = |_: &str, to: &str| {
        if to == "meet" {
            barrier.wait();
        }
    };
    pools(DOWNLOADERS, PARSERS, 100).run_str("start", fetch, edge).unwrap();
}

#[test]
fn queue_fills_up_to_its_size() {
    const DOWNLOADERS: usize = 2;
    const QUEUE: usize = 5;
    // The links being fetched, the links in the queue, and the one that the parser waits to queue.
    const AHEAD: usize = DOWNLOADERS + QUEUE + 1;
    let (full, counted, edges) = (Event::default(), Event::default(), AtomicUsize::new(0));
    let fetch = |link: &str| {
        if link == "start" {
            return Some(page_of_links("", 0..1_000));
        }
        full.wait();
        if link == "0" {
            // Long enough for a faulty parser to queue one link too many and report the next edge.
            thread::sleep(Duration::from_millis(100));
            let ahead = edges.load(SeqCst);
            counted.set();
            assert_eq!(ahead, AHEAD);
        }
        counted.wait();
        None
    };
    let edge = |_: &str, _: &str| {
        if edges.fetch_add(1, SeqCst) + 1 == AHEAD {
            full.set();
        }
    };
    let report = pools(DOWNLOADERS, 1, QUEUE).run_str("start", fetch, edge).unwrap();
    assert_eq!((report.broken, report.edges), (1_000, 1_000));
}

#[test]
fn queue_of_one_handles_twenty_thousand_links_of_one_page() {
    let fetch = |link: &str| Some(if link == "start" { page_of_links("", 0..20_000) } else { String::new() });
    for workers in [1, 4] {
        let report = pools(workers, workers, 1).run_str("start", fetch, |_, _| ()).unwrap();
        assert_eq!((report.pages, report.edges), (20_001, 20_000));
    }
}

#[test]
fn crawls_of_chains_cliques_and_single_pages_finish_with_any_pool_sizes() {
    let chain = |link: &str| {
        let number: usize = link.parse().unwrap();
        Some(page_of_links("", number + 1..(number + 2).min(1_000)))
    };
    let clique = |_: &str| Some(page_of_links("", 0..60));
    let single = |_: &str| Some("no links".to_owned());
    for (downloaders, parsers, queue) in [(1, 1, 1), (2, 7, 1), (7, 2, 3), (32, 32, 1)] {
        let crawl = pools(downloaders, parsers, queue);
        let report = crawl.run_str("0", chain, |_, _| ()).unwrap();
        assert_eq!((report.pages, report.edges), (1_000, 999));
        let report = crawl.run_str("0", clique, |_, _| ()).unwrap();
        assert_eq!((report.pages, report.edges), (60, 3_600));
        let report = crawl.run_str("0", single, |_, _| ()).unwrap();
        assert_eq!((report.pages, report.edges), (1, 0));
    }
}

#[test]
fn crawl_inside_a_callback_is_independent() {
    let clique = |_: &str| Some(page_of_links("", 0..5));
    let inner = AtomicUsize::new(0);
    let crawl_inside = || {
        let report = pools(1, 2, 1).run_str("0", clique, |_, _| ()).unwrap();
        assert_eq!((report.pages, report.edges), (5, 25));
        inner.fetch_add(1, SeqCst);
    };
    let fetch = |link: &str| {
        crawl_inside();
        clique(link)
    };
    let report = pools(2, 2, 1).run_str("0", fetch, |_, _| crawl_inside()).unwrap();
    assert_eq!((report.pages, report.edges, inner.into_inner()), (5, 25, 30));
}

#[test]
fn links_are_compared_byte_by_byte() {
    let edges = Mutex::new(BTreeMap::new());
    let fetch =
        |link: &[u8]| (link == b"start").then_some(b"link:A link:a link:\xff link:a/ link:a".as_slice());
    let edge = |_: &[u8], to: &[u8]| *edges.lock().unwrap().entry(to.to_vec()).or_insert(0) += 1;
    let report = pools(2, 2, 2).links(LinkRule::Words).run(b"start", fetch, edge).unwrap();
    assert_eq!((report.broken, report.edges), (4, 5));
    assert_eq!(edges.into_inner().unwrap()[b"a".as_slice()], 2);
}

#[test]
fn static_callbacks_give_the_same_crawl() {
    let edges = Arc::new(AtomicUsize::new(0));
    let counter = edges.clone();
    let count = move |page: &String, from: &[u8], _: &[u8]| {
        assert!(page.starts_with("link:0\n") && from.len() <= 2);
        counter.fetch_add(1, SeqCst);
    };
    let report = pools(3, 2, 1).run_static(b"0", |_| Some(page_of_links("", 0..30)), count).unwrap();
    assert_eq!((report.pages, report.edges, edges.load(SeqCst)), (30, 900, 900));
    // The threads have ended, so the callbacks are dropped.
    assert_eq!(Arc::strong_count(&edges), 1);
    let panic = catch_unwind(|| {
        pools(3, 2, 1).run_static(b"0", |_| -> Option<&str> { panic!("test panic") }, |_, _, _| ())
    });
    assert!(panic.is_err());
}
