//! Tests of fingerprints.

use std::collections::HashSet;

use proptest::prelude::*;

use super::shingles::ShingleSink;
use super::*;
use crate::html::LinkHandler;

mod accuracy;
mod corpus;
mod manual;

const KEY: u128 = 0x0123_4567_89AB_CDEF_1122_3344_5566_7788;

fn page_url() -> Url {
    Url::parse("http://example.org/dir/page.html").expect("a URL")
}

/// A handler that ignores everything.
fn ignore() -> impl PageHandler {
    LinkHandler(|_: LinkKind, _: Result<&str, BadLink>| {})
}

/// Removes no query parameters.
fn nothing() -> StripQuery {
    StripQuery::default()
}

fn html(body: &str) -> Fingerprint {
    html_as(None, body.as_bytes())
}

fn html_as(content_type: Option<&str>, body: &[u8]) -> Fingerprint {
    Fingerprint::of_html(HashKey::new(KEY), &nothing(), &page_url(), content_type, body, &mut ignore())
}

fn text(body: &str) -> Fingerprint {
    Fingerprint::of_text(HashKey::new(KEY), None, body.as_bytes())
}

/// All shingles of an HTML page, and its fingerprint.
struct ExactPage {
    shingles: HashSet<u64>,
    fingerprint: Fingerprint,
}

impl ExactPage {
    fn new(body: &str) -> Self {
        let shingles = (HashSet::new(), MinHasher::new());
        let mut ignore = ignore();
        let hasher = ShingleHasher::new(HashKey::new(KEY), shingles);
        let mut handler = ShingleHandler::new(HashKey::new(KEY), hasher, &mut ignore);
        html::read(&page_url(), None, body.as_bytes(), &mut handler);
        let (shingles, minhasher) = handler.hasher.shingles;
        let fingerprint = Fingerprint {
            sketch: minhasher.sketch().map(Box::new),
            ..Fingerprint::exact(HashKey::new(KEY), body.as_bytes())
        };
        ExactPage { shingles, fingerprint }
    }

    fn dice(&self, other: &ExactPage) -> f64 {
        let shared = self.shingles.intersection(&other.shingles).count();
        2.0 * shared as f64 / (self.shingles.len() + other.shingles.len()) as f64
    }
}

impl ShingleSink for (HashSet<u64>, MinHasher) {
    fn add(&mut self, shingle: u64) {
        self.0.insert(shingle);
        self.1.add(shingle);
    }
}

/// This many different words.
fn words(count: usize) -> String {
    (0..count).map(|number| format!("word{number} ")).collect()
}

#[test]
fn handler_receives_the_same_links_as_without_a_fingerprint() {
    let body =
        b"<title>x</title><a href=b?q=\xE9>\xE9</a><base href=/c/><a href='&eacute;'><a href=mailto:x>";
    for content_type in [None, Some("text/html; charset=iso-8859-1"), Some("text/html; charset=utf-8")] {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        let owned = |kind, target: Result<&str, BadLink>| (kind, target.map(str::to_owned));
        let mut handler = LinkHandler(|kind, target: Result<&str, BadLink>| with.push(owned(kind, target)));
        let key = HashKey::new(KEY);
        Fingerprint::of_html(key, &nothing(), &page_url(), content_type, body, &mut handler);
        html::each_link(&page_url(), content_type, body, |kind, target| without.push(owned(kind, target)));
        assert_eq!(with, without);
        assert_eq!(with.len(), 3);
    }
}

/// The exact hash of an HTML page at this URL, with and without a sketch.
#[track_caller]
fn exact_at(url: &str, body: &str) -> u128 {
    let (key, url, body) = (HashKey::new(KEY), Url::parse(url).expect("a URL"), body.as_bytes());
    let exact = Fingerprint::exact_html(key, &nothing(), &url, None, body, &mut ignore()).exact;
    assert_eq!(Fingerprint::of_html(key, &nothing(), &url, None, body, &mut ignore()).exact, exact);
    exact
}

#[test]
fn removed_query_parameters_do_not_distinguish_link_targets() {
    let (key, strip_query) = (HashKey::new(KEY), StripQuery::new(&["sid"]).unwrap());
    let [one, two] = ["http://a.test/b?sid=4", "http://a.test/c?sid=5"].map(|url| Url::parse(url).unwrap());
    let body = |sid: u32| format!("{}<a href='/x?id=1&amp;sid={sid}'><a href=/y?sid={sid}>", words(20));
    let (first, second) = (body(1), body(2));
    let sketch = |strip_query: &StripQuery, url: &Url, body: &str| {
        Fingerprint::of_html(key, strip_query, url, None, body.as_bytes(), &mut ignore()).sketch
    };
    assert_eq!(sketch(&strip_query, &one, &first), sketch(&strip_query, &two, &second));
    assert_ne!(sketch(&nothing(), &one, &first), sketch(&nothing(), &two, &second));
    let page = |url: &'static str| PageBody {
        url,
        content_type: ContentType::new(Media::Html, None),
        body: if url.ends_with('4') { first.as_bytes() } else { second.as_bytes() },
    };
    let almost_equal = Threshold::new(0.99).unwrap();
    for (strip_query, is_near_duplicate) in [(&strip_query, true), (&nothing(), false)] {
        let comparison = ExactComparison::new(key, strip_query, page("http://a.test/b?sid=4"));
        assert_eq!(
            comparison
                .is_near_duplicate(&comparison.shingles_of(&page("http://a.test/c?sid=5")), almost_equal),
            is_near_duplicate
        );
    }
    // Equal bodies with a link whose targets differ in a removed parameter only.
    let exact = |strip_query: &StripQuery, url: &str| {
        let (url, body) = (Url::parse(url).unwrap(), b"<base href=''><a href=#x>");
        Fingerprint::exact_html(key, strip_query, &url, None, body, &mut ignore()).exact
    };
    let [one, two] = ["http://a.test/b?sid=4", "http://a.test/b?sid=6"];
    assert_eq!(exact(&strip_query, one), exact(&strip_query, two));
    assert_ne!(exact(&nothing(), one), exact(&nothing(), two));
}

#[test]
fn pages_with_equal_bodies_are_duplicates_only_if_their_links_have_the_same_targets() {
    let are_duplicates = |one: &str, two: &str, body: &str| exact_at(one, body) == exact_at(two, body);
    let (a, b) = ("http://a.test/a/index.html", "http://a.test/b/index.html");
    for relative in
        ["<a href=sub.html>", "<a href='?page=2'>", "<a href=/x><a href=./>", "<base href=x/><a href=#y>"]
    {
        assert!(!are_duplicates(a, b, relative), "{relative}");
    }
    for absolute in
        ["none", "<a href=/x>", "<a href=http://b.test/x>", "<base href=/x/><a href=y>", "<a href=mailto:x>"]
    {
        assert!(are_duplicates(a, b, absolute), "{absolute}");
    }
    for own in ["<a href=#top>", "<a href=''>", "<a href=' #top'><a href=/x>"] {
        assert!(are_duplicates(a, b, own), "{own}");
    }
    let home = "<a href=#top><a href=index.html><a href=x.html>";
    assert!(are_duplicates("http://a.test/", "http://a.test/index.html", home));
    assert!(!are_duplicates("http://a.test/", "http://b.test/", home), "other hosts have other targets");
    assert_ne!(exact_at(a, "<a href=x><a href=y>"), exact_at(a, "<a href=y><a href=x>"));
}

#[test]
fn exact_comparison_reads_pages_as_the_fingerprint_does() {
    let key = HashKey::new(KEY);
    let body = format!("<title>T\u{e9}</title><base href=/d/>{}<a href=x?\u{e9}><a href=#y>", words(40));
    let latin: Vec<u8> = body.chars().map(|character| character as u8).collect();
    let wide: Vec<u8> = body.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let url = page_url();
    let cases = [
        (body.as_bytes(), None),
        (&latin, Some("text/html; charset=iso-8859-1")),
        (&wide, Some("x; charset=utf-16le")),
    ];
    for (body, content_type) in cases {
        for (media, fingerprint) in [
            (Media::Html, Fingerprint::of_html(key, &nothing(), &url, content_type, body, &mut ignore())),
            (Media::Text, Fingerprint::of_text(key, content_type, body)),
        ] {
            let decoded = Fingerprint::from_bytes(&fingerprint.to_bytes()).expect("a fingerprint");
            assert_eq!(decoded, fingerprint);
            assert_eq!(decoded.content_type.media, media);
            let page = PageBody { url: url.as_str(), content_type: decoded.content_type, body };
            let shingles = page.shingles(key, &nothing());
            let mut hasher = MinHasher::new();
            shingles.iter().for_each(|shingle| hasher.add(shingle));
            assert_eq!(hasher.sketch().map(Box::new), fingerprint.sketch, "{media:?}, {content_type:?}");
            assert!(
                ExactComparison::new(key, &nothing(), page)
                    .is_near_duplicate(&shingles, Threshold::new(0.999).expect("a threshold"))
            );
        }
    }
}

#[test]
fn page_with_fewer_than_16_shingles_has_no_sketch() {
    assert_eq!(text(&words(16)).sketch, None);
    assert!(text(&words(17)).sketch.is_some());
    assert_eq!(text(&"again and ".repeat(1000)).sketch, None);
    let links: String = (0..8).map(|number| format!("<a href={number}>")).collect();
    assert!(html(&(words(9) + &links)).sketch.is_some(), "link targets count");
    assert_eq!(html(&(words(8) + &links)).sketch, None);
}

#[test]
fn markup_and_invisible_content_do_not_change_the_sketch() {
    let page = format!("<title>The Title</title><body><p>{}<a href='/x'>on</a>", words(100));
    let other = format!(
        "<!doctype html><TITLE>THE title</TITLE><script>var x = 1;</script><style>p {{}}</style>
        <div class=y><!-- hidden -->{}<template>not here</template><a id=z href='http://example.org/x#y'>ON</a></div>",
        words(100).to_uppercase()
    );
    let (page, other) = (html(&page), html(&other));
    assert_eq!(page.sketch, other.sketch);
    assert_ne!(page.exact, other.exact);
}

#[test]
fn title_text_and_link_targets_change_the_sketch() {
    let page = |title: &str, text: &str, target: &str| {
        html(&format!("<title>{title}</title>{}{text}<a href={target}></a>", words(20))).sketch
    };
    let sketch = page("one", "two", "three");
    assert_ne!(page("other", "two", "three"), sketch);
    assert_ne!(page("one", "other", "three"), sketch);
    assert_ne!(page("one", "two", "other"), sketch);
}

#[test]
fn encoding_does_not_change_the_sketch() {
    let body = format!("<p>Ein Café in Zürich {}", words(30));
    let latin: Vec<u8> = body.chars().map(|character| character as u8).collect();
    let wide: Vec<u8> = body.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let sketch = html_as(Some("text/html; charset=utf-8"), body.as_bytes()).sketch;
    assert_eq!(html_as(Some("text/html; charset=iso-8859-1"), &latin).sketch, sketch);
    assert_eq!(html_as(Some("text/html; charset=utf-16le"), &wide).sketch, sketch);
}

#[test]
fn text_page_has_the_sketch_of_an_html_page_with_the_same_text() {
    let body = format!("a < b {}", words(30));
    assert_eq!(text(&body).sketch, html(&body.replace('<', "&lt;")).sketch);
    assert_ne!(
        text(&(body.clone() + "<p>")).sketch,
        html(&(body + "<p>")).sketch,
        "markup in a text page is text"
    );
}

#[test]
fn threshold_must_be_more_than_zero_and_at_most_one() {
    for bad in [0.0, -0.5, 1.01, f64::NAN, f64::INFINITY] {
        assert_eq!(Threshold::new(bad), None, "{bad}");
    }
    for dice in [f64::MIN_POSITIVE, 0.1, 0.5, 0.9, 0.999, 1.0] {
        let threshold = Threshold::new(dice).expect("a threshold");
        assert!(threshold.band_count() <= MAX_BANDS);
        assert_eq!(threshold.is_exact(), dice == 1.0);
    }
}

#[test]
fn debug_output_hides_the_key() {
    assert_eq!(format!("{:?}", HashKey::new(KEY)), "HashKey(…)");
}

proptest! {
    #[test]
    fn any_page_is_similar_to_itself_and_can_be_encoded(
        body in "([a-z]{1,9}[ <>&;é]){0,200}", at in 0.01..0.999,
    ) {
        for page in [html(&body), text(&body)] {
            prop_assert_eq!(Fingerprint::from_bytes(&page.to_bytes()), Some(page.clone()));
            let threshold = Threshold::new(at).expect("a threshold");
            if let Some(sketch) = &page.sketch {
                prop_assert_ne!(threshold.estimate(sketch, sketch), Estimate::Different);
                prop_assert_eq!(sketch.similarity(sketch), 1.0);
            }
        }
    }

    #[test]
    fn any_bytes_have_a_fingerprint(body: Vec<u8>) {
        let page = html_as(None, &body);
        let text = Fingerprint::of_text(HashKey::new(KEY), None, &body);
        prop_assert_eq!(text.exact, Fingerprint::exact(HashKey::new(KEY), &body).exact);
        let changed = [&body[..], b"\0"].concat();
        prop_assert_ne!(page.exact, html_as(None, &changed).exact);
        if let Some(other) = Fingerprint::from_bytes(&body) {
            prop_assert_eq!(other.to_bytes(), body);
        }
    }
}
