//! Tests of the HTML links of callback mode: which elements count, normalization, and decoding.

use crawler::internal::callbacks::{CallbackCrawl, LinkRule};
use std::sync::Mutex;

/// The edges of one HTML page, and the links fetched. All other pages are broken.
fn html_crawl(start: &str, page: &str) -> (Vec<String>, Vec<String>) {
    let (edges, fetches) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let fetch = |link: &str| {
        fetches.lock().unwrap().push(link.to_owned());
        (fetches.lock().unwrap().len() == 1).then(|| page.to_owned())
    };
    let edge = |_: &str, to: &str| edges.lock().unwrap().push(to.to_owned());
    CallbackCrawl::default().links(LinkRule::Html).run_str(start, fetch, edge).unwrap();
    (edges.into_inner().unwrap(), fetches.into_inner().unwrap())
}

#[test]
fn html_links_are_the_anchors_resolved_against_their_page() {
    let page = r##"link:x <a href=b>B</a> <A HREF="/c?d&amp;e#f">C</A> <a href='//other.test'>O</a> <a href="#top">T</a>
        <!-- <a href=no> --> <area href=no> <iframe src=no></iframe> <a name=no> <a href="mailto:no@example.test">M</a>
        <a href="http://user:password@example.test/">U</a> <a href=b>again</a>"##;
    let (edges, fetches) = html_crawl("http://Example.test/a/", page);
    let expected = [
        "http://example.test/a/b",
        "http://example.test/c?d&e",
        "http://other.test/",
        "http://example.test/a/",
        "http://example.test/a/b",
    ];
    assert_eq!(edges, expected);
    // The start URL is normalized like the link to it, and not fetched again.
    assert_eq!(
        fetches,
        [
            "http://example.test/a/",
            "http://example.test/a/b",
            "http://example.test/c?d&e",
            "http://other.test/"
        ]
    );
}

#[test]
fn html_page_without_a_url_has_only_absolute_links() {
    let page = "<a href=b>B</a> <a href=#c>C</a> <a href=http://example.test>E</a>";
    for start in ["index.html", "file:///index.html", "", "http://"] {
        assert_eq!(html_crawl(start, page).0, ["http://example.test/"], "{start}");
    }
}

#[test]
fn meta_element_does_not_apply_to_decoded_text() {
    let page = "<meta charset=windows-1252><a href='/caf\u{e9}?q=\u{e9}'>C</a>";
    assert_eq!(html_crawl("http://example.test/", page).0, ["http://example.test/caf%C3%A9?q=%C3%A9"]);
}

#[test]
fn bytes_are_decoded_with_the_charset_of_the_meta_element() {
    let page = b"<meta charset=windows-1252><a href='/caf\xe9?q=\xe9'>C</a>".as_slice();
    let edges = Mutex::new(Vec::new());
    let fetch = |link: &[u8]| (link == b"http://example.test/").then_some(page);
    let edge = |_: &[u8], to: &[u8]| edges.lock().unwrap().push(String::from_utf8(to.to_vec()).unwrap());
    CallbackCrawl::default().links(LinkRule::Html).run(b"http://example.test/", fetch, edge).unwrap();
    assert_eq!(edges.into_inner().unwrap(), ["http://example.test/caf%C3%A9?q=%E9"]);
}

#[test]
fn html_links_have_the_documented_limits() {
    let link =
        |length: usize| format!("http://example.test/{}", "x".repeat(length - "http://example.test/".len()));
    let page = format!(
        "<a href={}>longest</a> <a href={}>too long</a> <a href='{}{}'>padded</a> <a href='{}{}'>padded too much</a>
         <a href=http://user@example.test/>user name</a>",
        link(2_048),
        link(2_049),
        " ".repeat(16 * 1024 - 2_047),
        link(2_047),
        " ".repeat(16 * 1024 - 2_046),
        link(2_047),
    );
    assert_eq!(html_crawl("start", &page).0, [link(2_048), link(2_047)]);
    // Links of every kind count towards the limit, and only anchors are edges.
    let page = "<area href=/><a href=/>".repeat(60_000);
    assert_eq!(html_crawl("http://example.test/", &page).0.len(), 50_000);
}
