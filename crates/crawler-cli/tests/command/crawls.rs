//! What a crawl finds: every reachable page, once, at its smallest depth, byte for byte.

use std::collections::BTreeMap;
use std::time::Duration;

use testweb::{Hostile, Response, Site, Web};

use crate::common::{Crawl, Ended, counts, linking_to, serve};

/// Crawls a seeded site and compares the pages with the expected ones.
fn crawl_and_compare(web: &Web, path: &str, depth: usize, concurrency: usize) {
    let about = format!("from {path}, depth {depth}, concurrency {concurrency}");
    let before = web.hits();
    let crawl = Crawl::of(web.url(path)).depth(depth).with(&format!("--concurrency {concurrency} -q"));
    let ended = crawl.run().expect(0);

    let found: BTreeMap<String, (usize, Vec<u8>)> =
        ended.pages().into_iter().map(|page| (page.url, (page.depth, page.body))).collect();
    let truth = web.truth_from(&web.url(path), depth);
    let depths = |pages: &BTreeMap<String, (usize, Vec<u8>)>| -> Vec<(String, usize)> {
        pages.iter().map(|(url, (depth, _))| (url.clone(), *depth)).collect()
    };
    assert_eq!(depths(&found), depths(&truth), "{about}");
    assert!(found == truth, "bodies differ {about}");
    assert_eq!(ended.pages().len(), truth.len(), "each page has one file {about}");

    let log = web.log();
    let mut requested: Vec<&str> = log[before..].iter().map(|hit| hit.path.as_str()).collect();
    assert!(!requested.iter().any(|path| path.contains("/hidden/")), "{about}");
    assert!(log.iter().all(|hit| hit.method == "GET"));
    let requests = requested.len();
    requested.sort_unstable();
    requested.dedup();
    assert_eq!(requested.len(), requests, "each URL is requested once {about}");
}

#[test]
fn every_reachable_page_is_saved_once_at_its_smallest_depth() {
    for seed in 0..4 {
        let web = serve(Site::seeded(seed, 150));
        for depth in 0..=5 {
            crawl_and_compare(&web, "/", depth, [1, 4, 16][depth % 3]);
        }
    }
}

#[test]
fn concurrency_changes_neither_pages_nor_depths() {
    let web = serve(Site::seeded(21, 300));
    for concurrency in [1, 4, 16] {
        crawl_and_compare(&web, "/", 300, concurrency);
    }
}

#[test]
fn crawl_can_start_at_any_page() {
    let web = serve(Site::seeded(5, 200));
    let inner: Vec<String> = web.truth("/", 3).into_keys().collect();
    for path in inner.iter().step_by(inner.len() / 5) {
        crawl_and_compare(&web, path, 4, 4);
    }
}

#[test]
fn depth_is_the_fewest_hops_even_if_the_shortest_path_is_slow() {
    let slow = Duration::from_millis(300);
    let site = Site::new()
        .page("/", linking_to(&["/slow", "/a"]))
        .response("/slow", Response::page(linking_to(&["/goal"])).delay(slow))
        .page("/a", linking_to(&["/b"]))
        .page("/b", linking_to(&["/goal"]))
        .page("/goal", linking_to(&["/", "/beyond"]))
        .page("/beyond", "");
    let ended = Crawl::of(serve(site).url("/")).depth(3).with("--concurrency 16").run();
    let mut paths = ended.paths();
    paths.sort();
    let expected = [("/", 0), ("/a", 1), ("/b", 2), ("/beyond", 3), ("/goal", 2), ("/slow", 1)];
    assert_eq!(paths, expected.map(|(path, depth)| (path.to_owned(), depth)));
}

#[test]
fn depth_zero_is_the_seed_alone() {
    let web = serve(Site::new().page("/", linking_to(&["/a", "/b"])).page("/a", "a").page("/b", "b"));
    let ended = Crawl::of(web.url("/")).depth(0).run().expect(0);
    assert_eq!(ended.paths(), [("/".to_owned(), 0)]);
    assert_eq!(web.log().paths(), ["/robots.txt", "/"]);
}

#[test]
fn largest_depth_is_accepted() {
    let web = serve(Site::seeded(3, 40));
    assert_eq!(Crawl::of(web.url("/")).depth(u32::MAX).run().expect(0).pages().len(), 40);
}

#[test]
fn one_connection_carries_pages_failures_and_redirects() {
    let site = Site::new()
        .page("/", linking_to(&["/a", "/missing", "/from", "/chunked"]))
        .page("/a", "x")
        .redirect("/from", "/to")
        .page("/to", "x")
        .response("/chunked", Response::page("x").chunked().gzip());
    let web = serve(site);
    Crawl::of(web.url("/")).run().expect(0);
    let log = web.log();
    assert_eq!(log.len(), 7);
    assert!(log.iter().all(|hit| hit.connection == log[0].connection));
}

#[test]
fn server_can_have_an_ipv6_address() {
    // Skipped on a machine without IPv6.
    let site = Site::new().page("/", linking_to(&["/a"])).page("/a", "x");
    let Ok(web) = Web::builder().address(std::net::Ipv6Addr::LOCALHOST.into()).site(site).try_start() else {
        return;
    };
    let ended = Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/a"]);
    assert!(ended.pages()[0].url.starts_with("http://[::1]:"));
}

#[test]
fn sequential_crawl_numbers_pages_in_the_order_of_discovery() {
    let site = Site::new()
        .page("/", linking_to(&["/c", "/a", "/b"]))
        .page("/a", linking_to(&["/d"]))
        .page("/b", "")
        .page("/c", linking_to(&["/e", "/a"]))
        .page("/d", "")
        .page("/e", "");
    let ended = Crawl::of(serve(site).url("/")).run().expect(0);
    let order: Vec<String> = ended.paths().into_iter().map(|(path, _)| path).collect();
    assert_eq!(order, ["/", "/c", "/a", "/b", "/e", "/d"]);
}

/// The paths that a crawl of this front page saves. All other paths are pages without links.
fn saved_from(html: &str) -> (Vec<String>, Ended) {
    let site =
        Site::new().page("/", html.to_owned()).status("/robots.txt", 404).fallback(|_| Response::page("x"));
    let ended = Crawl::of(serve(site).url("/")).depth(1).run().expect(0);
    (ended.sorted_paths(), ended)
}

#[test]
fn fragments_are_ignored_and_index_pages_are_distinct() {
    let (saved, ended) = saved_from(&linking_to(&[
        "#top",
        "/#x",
        "/letters/",
        "/letters/#a",
        "/letters/index.html",
        "/letters/index.html#b",
        "/letters",
    ]));
    assert_eq!(saved, ["/", "/letters", "/letters/", "/letters/index.html"]);
    assert_eq!(ended.summary().link_counts, counts(&[("new", 3), ("seen", 4)]));
}

#[test]
fn urls_are_normalized() {
    let (saved, ended) = saved_from(&linking_to(&[
        "/a/../b",
        "/./b",
        "b",
        "  /b\n",
        "\\b",
        "/%62",
        "/B",
        "/b?",
        "/b?x=1&amp;y",
        "/b?x=1&y",
        "/sp ace",
        "/sp%20ace",
        "/é",
        "/%C3%A9",
    ]));
    assert_eq!(saved, ["/", "/%C3%A9", "/B", "/b", "/b?x=1&y", "/sp%20ace"]);
    assert_eq!(ended.outcomes(), counts(&[("page", 6)]));
}

#[test]
fn only_links_that_a_reader_could_follow_are_followed() {
    let (saved, _) = saved_from(
        "<!doctype html><title><a href=/no-title></title><base href=/base/>
        <meta http-equiv=refresh content='5; url=/refresh'>
        <a href=anchor>1</a> <A HREF='/upper'>2</A> <a title='>' href = /unquoted>3</a>
        <map><area href=/area></map> <iframe src=/iframe></iframe> <frameset><frame src=/frame></frameset>
        <noscript><a href=/noscript></a></noscript> <a href='&#47;entity&amp;x'>4</a>
        <!-- <a href=/no-comment> --> <script>'<a href=/no-script>'</script> <style><a href=/no-style></style>
        <textarea><a href=/no-textarea></textarea> <img src=/no-image> <link href=/no-link>
        <a data-href=/no-data> <a href=/once href=/no-twice> <base href=/no-base/> <a href='mailto:a@b.c'>",
    );
    let expected = [
        "/",
        "/area",
        "/base/anchor",
        "/entity&x",
        "/frame",
        "/iframe",
        "/noscript",
        "/once",
        "/refresh",
        "/unquoted",
        "/upper",
    ];
    assert_eq!(saved, expected);
}

#[test]
fn query_encoding_follows_the_charset_of_header_or_page() {
    let latin = b"<meta charset=latin1><a href='/q?\xE9'>x</a>".to_vec();
    let wide: Vec<u8> = "\u{FEFF}<a href='/wide'>x</a>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let site = Site::new()
        .page("/", linking_to(&["/latin", "/wide.html"]))
        .response("/latin", Response::page(latin.clone()).content_type("text/html"))
        .response("/wide.html", Response::page(wide.clone()).content_type("text/html"))
        .page("/q?%E9", "x")
        .page("/wide", "x");
    let ended = Crawl::of(serve(site).url("/")).run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/latin", "/q?%E9", "/wide", "/wide.html"]);
    assert_eq!(
        (ended.body_of("/latin"), ended.body_of("/wide.html")),
        (latin, wide),
        "no charset conversion"
    );
}

#[test]
fn plain_text_is_saved_and_has_no_links() {
    let site = Site::new()
        .page("/", linking_to(&["/plain", "/markdown"]))
        .text("/plain", linking_to(&["/from-plain"]))
        .response("/markdown", Response::text(linking_to(&["/from-markdown"])).content_type("text/markdown"));
    let web = serve(site);
    let ended = Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/markdown", "/plain"]);
    assert_eq!(web.log().len(), 4, "{:?}", web.log().paths());
}

#[test]
fn other_media_types_are_not_downloaded() {
    let labelled =
        ["image/png", "application/pdf", "application/octet-stream", "video/mp4", "application/json"];
    let endless = |site: Site, (n, kind): (usize, &&str)| {
        site.response(&format!("/{n}"), Response::page(vec![b'x'; 30_000_000]).content_type(kind))
    };
    let site = Site::new().page("/", linking_to(&["/0", "/1", "/2", "/3", "/4", "/good"])).page("/good", "x");
    let web = serve(labelled.iter().enumerate().fold(site, endless));
    let ended = Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(ended.outcomes(), counts(&[("page", 2), ("not a page", 5)]));
    assert!(ended.line_about("/0").ends_with("not a page: image/png"), "{}", ended.stderr);
    assert!(ended.peak_rss < 60 << 20, "nothing of 30 MB was read: {}", ended.peak_rss);
}

#[test]
fn missing_or_wrong_content_type_is_sniffed() {
    let site = Site::new()
        .page("/", linking_to(&["/html/", "/text", "/binary", "/mislabelled", "/download"]))
        .response("/html/", Response::hostile(Hostile::NoContentTypeHtml))
        .page("/html/next", "x")
        .response("/text", Response::text("just <a href=/no> words").without_content_type())
        .response("/binary", Response::hostile(Hostile::NoContentTypeBinary))
        .response("/mislabelled", Response::hostile(Hostile::BinaryAsHtml))
        .response("/download", Response::hostile(Hostile::HtmlAsBinary));
    let ended = Crawl::of(serve(site).url("/")).run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/html/", "/html/next", "/text"]);
    assert_eq!(ended.outcomes(), counts(&[("page", 4), ("not a page", 3)]));
}
