//! The number of memory allocations per page and per link of a pipeline crawl.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crawler::internal::pipeline::CrawlerInternals;
use crawler::{Crawler, RequestSettings};
use testweb::{Request, Response, Site, Web};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The server runs on a thread of its own, whose allocations do not count.
    static IS_SERVER: Cell<bool> = const { Cell::new(false) };
}

struct CountingAllocator;

fn count() {
    if !IS_SERVER.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: all calls are passed on to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Whether pages are compared and stored.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    Ignored,
    ComparedAndStored,
}

/// The allocations of a crawl of this many pages. Each page links to `links` pages of the site, all of which exist; page n
/// links to page n + 1 too, and to `unfetched` pages to which no other page links. No page is similar to another.
fn allocations(pages: usize, links: usize, unfetched: usize, content: Content) -> u64 {
    let page = move |request: &Request| {
        IS_SERVER.set(true);
        let number: usize = request.path[1..].parse().unwrap_or(0);
        let known = (0..links).map(|link| (number * 31 + link * 7) % pages).chain([(number + 1) % pages]);
        let new = (0..unfetched).map(|link| pages + number * unfetched + link);
        let html: String =
            known.chain(new).map(|target| format!("<a href={target}>page {target}</a>\n")).collect();
        // Many more words than links, which pages have in common.
        let text: String = (0..400).map(|word| format!("{} ", number * 400 + word)).collect();
        Response::page(format!("<title>{number}</title>{html}{text}"))
    };
    let web = Web::builder().host("a.test", Site::new().fallback(page)).start();
    let crawl = Crawler::new(&web.url_of("a.test", "/0")).unwrap();
    let mut requests = RequestSettings::default();
    requests.dns_overrides.push(("*".into(), [127, 0, 0, 1].into()));
    requests.obey_robots = false;
    let mut crawl = crawl.delay(Duration::ZERO).requests(requests).max_pages(pages as u64);
    if content == Content::Ignored {
        crawl = crawl.near_duplicates(None).unwrap().configure_backend(|config| config.keep_content = false);
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let report = crawl.run_blocking().unwrap();
    assert_eq!(report.snapshot.pages, pages as u64);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

/// The most allocations of a page, its body and its new links apart, each of which takes one: its URL.
const MAX_PER_PAGE: f64 = 40.0;

/// The buffer that a body is received in, and the handles that share it.
const PER_BODY: f64 = 3.0;

#[test]
fn a_page_takes_at_most_40_allocations_a_new_link_one_and_a_known_one_none() {
    for content in [Content::Ignored, Content::ComparedAndStored] {
        // The difference of two crawls leaves out what a crawl allocates once.
        let per_page = |new_links: usize| {
            let unfetched = new_links - 1;
            let few = allocations(200, 10, unfetched, content);
            (allocations(600, 10, unfetched, content) - few) as f64 / 400.0
        };
        for new_links in [1, 41] {
            let allocations = per_page(new_links);
            let max = MAX_PER_PAGE + PER_BODY + new_links as f64;
            println!("{allocations:.1} allocations per page with {new_links} new links, at most {max}");
            assert!(allocations <= max, "{allocations:.1} allocations per page with {new_links} new links");
        }
        let few = allocations(200, 10, 0, content);
        let per_link = (allocations(200, 110, 0, content).saturating_sub(few)) as f64 / (200.0 * 100.0);
        println!("{per_link:.3} allocations per known link");
        assert!(per_link < 0.1, "{per_link:.2} allocations per known link");
    }
}
