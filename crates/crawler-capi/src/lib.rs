//! libcrawl: the callback mode with a C ABI, declared in `include/crawl.h`. The only crate with unsafe code.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]

mod text;

use crawler::internal::callbacks::CallbackInternals as _;
use crawler::internal::callbacks::{CallbackCrawl, LinkRule};
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use text::{Page, with_c_string};

/// Fetches the page of a link. Returns a C string from `malloc`, or NULL.
pub type FetchFn = Option<unsafe extern "C" fn(link: *const c_char) -> *mut c_char>;
/// Receives an edge: the page's own link, and a link on the page.
pub type EdgeFn = Option<unsafe extern "C" fn(from: *const c_char, to: *const c_char)>;

const SUCCESS: c_int = 0;
const FAILURE: c_int = -1;

/// Crawls everything reachable from `start_url`. A word that starts with `link:` is a link.
///
/// # Safety
/// `start_url` is NULL or a C string that does not change during the call. The callbacks may be called from
/// several threads at once, and return normally. `fetch_fn` returns NULL or a new C string allocated with `malloc`,
/// which no other code accesses or frees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crawl(
    start_url: *const c_char,
    download_workers: c_int,
    parse_workers: c_int,
    work_queue_size: c_int,
    fetch_fn: FetchFn,
    edge_fn: EdgeFn,
) -> c_int {
    let sizes = [download_workers, parse_workers, work_queue_size];
    // SAFETY: the caller upholds the requirements of `run`, which are those of this function.
    unsafe { run(LinkRule::Words, start_url, sizes, fetch_fn, edge_fn) }
}

/// Like [`crawl`], but a link is the `href` of an HTML `a` element.
///
/// # Safety
/// As for [`crawl`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crawl_html(
    start_url: *const c_char,
    download_workers: c_int,
    parse_workers: c_int,
    work_queue_size: c_int,
    fetch_fn: FetchFn,
    edge_fn: EdgeFn,
) -> c_int {
    let sizes = [download_workers, parse_workers, work_queue_size];
    // SAFETY: the caller upholds the requirements of `run`, which are those of this function.
    unsafe { run(LinkRule::Html, start_url, sizes, fetch_fn, edge_fn) }
}

/// # Safety
/// As for [`crawl`]. `sizes` are the numbers of download workers and parse workers, and the queue size.
unsafe fn run(
    links: LinkRule,
    start_url: *const c_char,
    sizes: [c_int; 3],
    fetch_fn: FetchFn,
    edge_fn: EdgeFn,
) -> c_int {
    let (Some(fetch_fn), Some(edge_fn), false) = (fetch_fn, edge_fn, start_url.is_null()) else {
        return FAILURE;
    };
    // A negative size becomes zero, which the crawl rejects.
    let [download_workers, parse_workers, work_queue_size] =
        sizes.map(|size| usize::try_from(size).unwrap_or(0));
    let crawl = CallbackCrawl::default()
        .download_workers(download_workers)
        .parse_workers(parse_workers)
        .work_queue_size(work_queue_size)
        .links(links);
    // SAFETY: not NULL, and the caller guarantees a C string that outlives this call.
    let start = unsafe { text::bytes(start_url) };
    // SAFETY: the caller guarantees that `fetch_fn` meets the requirements of `Page::fetch`.
    let fetch = move |link: &[u8]| unsafe { Page::fetch(link, fetch_fn) };
    let edge = move |page: &Page, _: &[u8], to: &[u8]| {
        // SAFETY: the caller guarantees a function of this type; it gets two C strings.
        with_c_string(to, |to| unsafe { edge_fn(page.link(), to) });
    };
    match catch_unwind(AssertUnwindSafe(|| crawl.run_static(start, fetch, edge))) {
        Ok(Ok(_)) => SUCCESS,
        Ok(Err(_)) | Err(_) => FAILURE,
    }
}
