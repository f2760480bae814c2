//! Pages of arbitrary bytes: every link is a URL in its normal form, with and without query parameters to remove. Hashing a
//! page for comparison with others does not change what is read from it. The time is linear in the size.
#![no_main]

use std::sync::LazyLock;

use crawler::internal::html::parts::{LinkDetail, PageParts};
use crawler::internal::html::{self, BadLink, LinkKind, PageHandler, text};
use crawler::internal::media::Media;
use crawler::internal::similarity::{Fingerprint, HashKey};
use crawler::internal::strip_query::StripQuery;
use libfuzzer_sys::fuzz_target;
use url::Url;

/// The first byte of the input selects the header, the rest is the page.
const CONTENT_TYPES: &[Option<&str>] = &[
    None,
    Some("text/html; charset=utf-8"),
    Some("text/html; charset=windows-1251"),
    Some("text/html; charset=shift_jis"),
    Some("text/html; charset=gb18030"),
    Some("text/html; charset=utf-16le"),
    Some("text/html; charset=iso-2022-jp"),
];

/// The length of the pages that must not take long.
const LONG_PAGE_BYTES: usize = 64 * 1024;

static STRIP_QUERY: LazyLock<StripQuery> =
    LazyLock::new(|| StripQuery::new(&["tracking", "a*", "?", "x[]"]).expect("valid patterns"));

fuzz_target!(|input: &[u8]| {
    let Some((&choice, body)) = input.split_first() else { return };
    let content_type = CONTENT_TYPES[usize::from(choice) % CONTENT_TYPES.len()];
    let page = Url::parse("https://example.org:8443/a/b.html?c").expect("a valid URL");
    let mut extract = Extract::default();
    html::read(&page, content_type, body, &mut extract);
    check_links(&extract);
    check_text(&extract, content_type, body);
    check_fingerprint(&extract, &page, content_type, body);
    if content_type.is_some_and(|text| text.ends_with("utf-8")) {
        let mut links = Extract::default();
        html::read_links(&page, content_type, body, &mut links);
        extract.text.clear();
        extract.link_texts.clear();
        extract.titles.truncate(1);
        assert_eq!(links, extract, "read without its text");
    }
    // One input in 256, because long pages are slow.
    if body.last() == Some(&0) {
        let long = body.repeat(LONG_PAGE_BYTES.div_ceil(body.len()));
        html::read(&page, content_type, &long, &mut Extract::default());
    }
});

/// What is read from a page.
#[derive(Clone, Debug, Default, PartialEq)]
struct Extract {
    text: Vec<Vec<u8>>,
    titles: Vec<String>,
    robots_metas: Vec<(String, String)>,
    links: Vec<(LinkKind, Result<String, BadLink>)>,
    link_texts: Vec<String>,
    links_to_itself: usize,
}

impl PageHandler for Extract {
    fn text(&mut self, run: &[u8]) {
        self.text.push(run.to_vec());
    }

    fn title(&mut self, content: &[u8]) {
        self.titles.push(text::one_line(content));
    }

    fn wants_title(&self) -> bool {
        true
    }

    fn robots_meta(&mut self, name: &str, content: &str) {
        self.robots_metas.push((name.to_owned(), content.to_owned()));
    }

    fn wanted_parts(&self) -> PageParts {
        PageParts { link_details: true, ..PageParts::default() }
    }

    fn link_detail(&mut self, detail: LinkDetail) {
        self.link_texts.push(detail.text);
    }

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        self.links.push((kind, target.map(str::to_owned)));
    }

    fn link_to_itself(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        self.links_to_itself += 1;
        self.link(kind, target);
    }
}

fn check_links(extract: &Extract) {
    for target in extract.links.iter().filter_map(|(_, target)| target.as_deref().ok()) {
        assert_normal_form(target);
        let stripped = STRIP_QUERY.strip(target);
        assert_normal_form(&stripped);
        assert_eq!(STRIP_QUERY.strip(&stripped), stripped, "{target}");
    }
}

fn assert_normal_form(url: &str) {
    assert_eq!(html::normalize(url).map(String::from).as_deref(), Ok(url));
}

fn check_text(extract: &Extract, content_type: Option<&str>, body: &[u8]) {
    for media in [Media::Html, Media::Text] {
        text::visible_text(content_type, media, body);
    }
    for line in extract.titles.iter().chain(&extract.link_texts) {
        assert!(!line.contains(['\n', '\r', '\t']), "{line:?}");
    }
    assert!(extract.link_texts.iter().all(|text| text.chars().count() <= 100));
    let links = extract.links.iter().filter(|(_, target)| target.is_ok());
    assert_eq!(extract.link_texts.len(), links.count());
}

fn check_fingerprint(extract: &Extract, page: &Url, content_type: Option<&str>, body: &[u8]) {
    let key = HashKey::new(1);
    let [mut sketched, mut hashed] = <[Extract; 2]>::default();
    let fingerprint = Fingerprint::of_html(key, &STRIP_QUERY, page, content_type, body, &mut sketched);
    let exact = Fingerprint::exact_html(key, &STRIP_QUERY, page, content_type, body, &mut hashed);
    let mut stripped = extract.clone();
    for target in stripped.links.iter_mut().filter_map(|(_, target)| target.as_mut().ok()) {
        *target = STRIP_QUERY.strip(target).into_owned();
    }
    assert_eq!([&sketched, &hashed], [&stripped, &stripped]);
    assert_eq!(fingerprint.exact, exact.exact);
    for fingerprint in [fingerprint, exact, Fingerprint::of_text(key, content_type, body)] {
        assert_eq!(Fingerprint::from_bytes(&fingerprint.to_bytes()), Some(fingerprint));
    }
}
