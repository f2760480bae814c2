//! Tests of link and text extraction.

use std::time::Duration;

use super::*;
use crate::cpu_time::cpu_time;

const PAGE: &str = "http://example.org/dir/page.html";

fn links_of(page: &str, content_type: Option<&str>, body: &[u8]) -> Vec<Result<String, BadLink>> {
    let page = Url::parse(page).expect("a page URL");
    let mut links = Vec::new();
    each_link(&page, content_type, body, |_, target| links.push(target.map(str::to_owned)));
    links
}

fn links(body: &str) -> Vec<String> {
    let links = links_of(PAGE, Some("text/html; charset=utf-8"), body.as_bytes());
    links.into_iter().map(|link| link.unwrap_or_else(|bad| bad.to_string())).collect()
}

#[test]
fn normalize_removes_the_fragment() {
    let normal = |text| normalize(text).map(String::from);
    assert_eq!(normal(" HTTP://Example.ORG:80/a/../b c#d ").as_deref(), Ok("http://example.org/b%20c"));
    assert_eq!(normal("http://example.org").as_deref(), Ok("http://example.org/"));
    assert_eq!(normal("example.org"), Err(BadLink::Malformed));
    assert_eq!(normal("example.org:80"), Err(BadLink::Scheme));
    assert_eq!(normal("http://a:b@example.org/"), Err(BadLink::Credentials));
    assert_eq!(normal(&format!("http://example.org/{}", "x".repeat(3_000))), Err(BadLink::TooLong));
}

#[test]
fn targets_are_resolved_to_absolute_urls() {
    let body =
        "<a href='x.html#part'><a href='?a=1&amp;b=2'><a href=' ../ \n'><a href='a\nb'><a href=mailto:x@y>";
    assert_eq!(
        links(body),
        [
            "http://example.org/dir/x.html",
            "http://example.org/dir/page.html?a=1&b=2",
            "http://example.org/",
            "http://example.org/dir/ab",
            "neither http nor https",
        ]
    );
}

#[test]
fn first_base_applies_to_all_links_of_the_page() {
    let body = "<a href=x><base><base href='../up/'><base href=/other/><a href=y><meta http-equiv=refresh content=0;z>";
    assert_eq!(
        links(body),
        ["http://example.org/up/x", "http://example.org/up/y", "http://example.org/up/z"]
    );
}

#[test]
fn invalid_base_is_ignored() {
    for base in ["http://[", "data:text/html,x", "javascript:x", &"x".repeat(MAX_TARGET_BYTES + 1)] {
        assert_eq!(links(&format!("<base href='{base}'><a href=x>")), ["http://example.org/dir/x"]);
    }
    assert_eq!(links("<base href=mailto:x><a href=x><a href=/y>"), ["not a URL", "not a URL"]);
    assert_eq!(links("<base href=ftp://example.org/><a href=x>"), ["neither http nor https"]);
}

#[test]
fn links_do_not_inherit_credentials_and_a_base_with_credentials_is_rejected() {
    let found = links_of("http://user:secret@example.org/", None, b"<a href=x>");
    assert_eq!(found, [Ok("http://example.org/x".to_owned())]);
    let found =
        links_of(PAGE, None, b"<base href=http://user@example.org/><a href=x><a href=http://example.net/>");
    assert_eq!(found, [Err(BadLink::Credentials), Ok("http://example.net/".to_owned())]);
}

#[test]
fn refresh_with_a_target_is_a_link() {
    let body = "<meta http-equiv=refresh content='5; url=next&amp;1'><meta http-equiv=refresh content=5>";
    assert_eq!(links(body), ["http://example.org/dir/next&1"]);
}

#[test]
fn paths_are_encoded_in_utf_8_and_queries_in_the_page_encoding() {
    let text = "<a href='я?я#я'>";
    for (charset, query) in
        [("utf-8", "%D1%8F"), ("windows-1251", "%FF"), ("koi8-r", "%D1"), ("gbk", "%A7%F1")]
    {
        let encoding = Encoding::for_label(charset.as_bytes()).expect("a known encoding");
        let expected = [Ok(format!("http://example.org/dir/%D1%8F?{query}"))];
        let (body, ..) = encoding.encode(text);
        let header = format!("text/html; charset={charset}");
        assert_eq!(links_of(PAGE, Some(&header), &body), expected, "{charset} by header");
        let body = [format!("<meta charset={charset}>").as_bytes(), &body].concat();
        assert_eq!(links_of(PAGE, None, &body), expected, "{charset} by meta");
    }
}

#[test]
fn undeclared_charset_is_detected_from_the_complete_page() {
    let text = "<p>Все счастливые семьи похожи друг на друга<a href='семьи'>";
    let (body, ..) = encoding_rs::WINDOWS_1251.encode(text);
    assert_eq!(links_of(PAGE, None, &body), links_of(PAGE, None, text.as_bytes()));
}

#[test]
fn pages_in_utf_16_and_iso_2022_jp_are_decoded() {
    let text = "<a href='日本?日本'>";
    let little: Vec<u8> = "\u{FEFF}"
        .chars()
        .chain(text.chars())
        .collect::<String>()
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let big: Vec<u8> = little.chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    let utf_8 = [Ok("http://example.org/dir/%E6%97%A5%E6%9C%AC?%E6%97%A5%E6%9C%AC".to_owned())];
    assert_eq!(links_of(PAGE, Some("text/html; charset=utf-8"), &little), utf_8);
    assert_eq!(links_of(PAGE, None, &big), utf_8);
    assert_eq!(links_of(PAGE, Some("text/html; charset=utf-16le"), &little[2..]), utf_8);
    let (body, ..) = encoding_rs::ISO_2022_JP.encode(text);
    let found = links_of(PAGE, Some("text/html; charset=iso-2022-jp"), &body);
    assert_eq!(found, [Ok("http://example.org/dir/%E6%97%A5%E6%9C%AC?%1B$BF|K\\%1B(B".to_owned())]);
}

#[test]
fn shift_jis_characters_that_end_in_a_backslash_do_not_break_a_path() {
    let (body, ..) = encoding_rs::SHIFT_JIS.encode("<a href='/表/x'>");
    let found = links_of(PAGE, Some("text/html; charset=shift_jis"), &body);
    assert_eq!(found, [Ok("http://example.org/%E8%A1%A8/x".to_owned())]);
}

#[test]
fn wrong_charset_declaration_loses_no_link() {
    let expected = Ok("http://example.org/dir/ok".to_owned());
    for header in
        ["text/html; charset=utf-8", "text/html; charset=shift_jis", "text/html; charset=gb18030", "nonsense"]
    {
        let found = links_of(PAGE, Some(header), b"<a href='\xE9\xFF\x81'><a href=ok>");
        assert_eq!(found.get(1), Some(&expected), "{header}");
    }
}

#[test]
fn link_of_100_kb_is_rejected_and_the_others_are_found() {
    for filler in ["x", "&amp;", "../", "é", "%2e/", " ", "//"] {
        let long = filler.repeat(100_000 / filler.len());
        let body = format!("<a href='{long}'><a href=ok>");
        assert_eq!(links(&body), ["URL too long", "http://example.org/dir/ok"], "{filler}");
    }
}

#[test]
fn unusual_links_are_resolved_in_linear_time() {
    for target in ["é", "a&amp;b", "\\x", "%2e%2e/x", "//x:1", "mailto:x", "&#0;"] {
        let body = format!("<a href='{target}'>").repeat(20_000);
        let taken = cpu_time(|| assert_eq!(links_of(PAGE, None, body.as_bytes()).len(), 20_000));
        assert!(taken < Duration::from_secs(10), "{target} took {taken:?}");
    }
    for host in [
        "é".repeat(7_000),
        "%C3%A9".repeat(2_500),
        "éà.".repeat(3_000),
        format!("xn--{}", "a9".repeat(7_000)),
    ] {
        for start in ["http://", "//", "\\\\", "ht\ntp:/\t/", "https:", "http://user@"] {
            let body = format!("<a href='{start}{host}.test/'>").repeat(300);
            let taken = cpu_time(|| assert_eq!(links(&body).len(), 300));
            assert!(taken < Duration::from_secs(2), "{start}{host:.20} took {taken:?}");
        }
    }
    let colons = format!("{}/{}", "a".repeat(8_000), ":".repeat(8_300));
    let body = format!("<a href='{colons}'>").repeat(500);
    let taken = cpu_time(|| assert_eq!(links(&body).len(), 500));
    assert!(taken < Duration::from_millis(500), "{taken:?}");
}

/// A name of a host whose conversion by IDNA takes long: these characters are all different.
fn distinct_chars(count: u32) -> String {
    (0..count).map(|n| char::from_u32(0x4E00 + n * 37 % 20_000).unwrap()).collect()
}

#[test]
fn hosts_that_dns_cannot_have_are_no_links_and_their_conversion_takes_little_time() {
    let fits = "x".repeat(63);
    let long_name = format!("{}.test", [&fits[..]; 4].join("."));
    for host in [format!("{fits}x.test"), long_name, distinct_chars(60), distinct_chars(500)] {
        let found = links(&format!("<a href='http://{host}/'><a href='//{host}'><a href=ok>"));
        assert_eq!(found, ["URL too long", "URL too long", "http://example.org/dir/ok"], "{host}");
        let found = links(&format!("<base href='http://{host}/'><a href=ok>"));
        assert_eq!(found, ["http://example.org/dir/ok"], "{host}");
    }
    assert_eq!(links(&format!("<a href='http://{fits}.test/'>")), [format!("http://{fits}.test/")]);
    for chars in [126, 500] {
        let body = format!("<a href='http://{}.test/'>", distinct_chars(chars)).repeat(1_000);
        let taken = cpu_time(|| assert_eq!(links(&body).len(), 1_000));
        assert!(taken < Duration::from_secs(1), "{chars} characters took {taken:?}");
    }
}

/// Records all calls.
#[derive(Default)]
struct Recorder(Vec<String>);

impl PageHandler for Recorder {
    fn text(&mut self, run: &[u8]) {
        self.0.push(format!("text {}", run.escape_ascii()));
    }

    fn title(&mut self, content: &[u8]) {
        self.0.push(format!("title {}", content.escape_ascii()));
    }

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        self.0.push(format!("{kind:?} {target:?}"));
    }
}

#[test]
fn handler_receives_the_text_as_utf_8_and_then_the_links() {
    let page = Url::parse(PAGE).expect("a page URL");
    let mut recorder = Recorder::default();
    let body = b"caf\xE9<title>a &amp; b</title><a href='?\xE9'>x</a><a href=mailto:y>";
    read(&page, Some("text/html; charset=iso-8859-1"), body, &mut recorder);
    recorder.0.retain(|call| call != "text ");
    assert_eq!(
        recorder.0,
        [
            r"text caf\xc3\xa9",
            "title a &amp; b",
            "text x",
            "Anchor Ok(\"http://example.org/dir/page.html?%E9\")",
            "Anchor Err(Scheme)",
        ]
    );
}

/// Records the texts of links.
#[derive(Default)]
struct LinkTextRecorder {
    texts: Vec<String>,
    links: usize,
    bytes: usize,
}

impl PageHandler for LinkTextRecorder {
    fn text(&mut self, _: &[u8]) {}

    fn wanted_parts(&self) -> PageParts {
        PageParts { link_details: true, ..PageParts::default() }
    }

    fn link_detail(&mut self, detail: LinkDetail) {
        self.bytes += detail.text.len();
        self.texts.push(detail.text);
    }

    fn link(&mut self, _: LinkKind, target: Result<&str, BadLink>) {
        if let Ok(url) = target {
            (self.links, self.bytes) = (self.links + 1, self.bytes + url.len());
            assert_eq!(self.links, self.texts.len(), "a text comes before its link");
        }
    }
}

fn link_texts(body: &str) -> LinkTextRecorder {
    let mut recorder = LinkTextRecorder::default();
    read(&Url::parse(PAGE).unwrap(), Some("text/html; charset=utf-8"), body.as_bytes(), &mut recorder);
    recorder
}

#[test]
fn text_of_a_link_is_one_decoded_line() {
    for (body, texts) in [
        ("before <a href=x> one <b>two</b>\n\t&lt;3&#x41; </a> after", &["one two <3A"][..]),
        ("<a href=x>a</a>b<a href=y>c</a>d", &["a", "c"]),
        ("<a href=x>not closed<a href=y>closed</a></a> no", &["not closed", "closed"]),
        ("<a href=x>a<a>no link</a>", &["a"]),
        ("<a href=x>a<script>no()</script><!-- no -->b<template>no</a></template>c</a>", &["a b c"]),
        ("<map><area href=x></map>no<iframe src=y>no</iframe>no", &["", ""]),
        ("<svg><a href=x><text>drawn</text></a></svg>", &["drawn"]),
        ("<a href=x></a><a href=mailto:x>no</a><a href=y>yes</a>", &["", "yes"]),
        ("<a href=x>a", &["a"]),
    ] {
        assert_eq!(link_texts(body).texts, texts, "{body}");
    }
    let long =
        link_texts(&format!("<a href=x>{}</a><a href=y>{}</a>", "ä".repeat(101), "x ".repeat(5_000))).texts;
    assert_eq!(long, ["ä".repeat(100), format!("{}x", "x ".repeat(49))]);
}

#[test]
fn texts_and_links_of_a_page_take_a_bounded_number_of_bytes() {
    let (links, text) = (20_000, "&nGt;".repeat(100));
    let body =
        format!("<base href=/{}/>", "x".repeat(1_000)) + &format!("<a href=x>{text}</a>").repeat(links);
    let recorder = link_texts(&body[..500_000]);
    assert!(recorder.links > 500 && recorder.bytes <= max_link_bytes(500_000), "{}", recorder.bytes);
}

#[test]
fn links_of_a_page_take_a_bounded_number_of_bytes() {
    let base = format!("http://host/{}/", "x".repeat(1_900));
    let links = 33_000;
    let body = format!("<base href={base}>{}", "<a href=a></a>".repeat(links));
    let (mut bytes, mut resolved, mut too_many) = (0, 0, 0);
    each_link(&Url::parse("http://host/").unwrap(), None, body.as_bytes(), |_, target| match target {
        Ok(url) => (bytes, resolved) = (bytes + url.len(), resolved + 1),
        Err(bad_link) => too_many += usize::from(bad_link == BadLink::TooMany),
    });
    assert!(resolved > 500 && bytes < 5 * body.len(), "{resolved} links of {bytes} bytes");
    assert_eq!(resolved + too_many, links, "every link is counted");
}

#[test]
fn robots_meta_elements_are_passed_on_before_the_links() {
    #[derive(Default)]
    struct Metas(Vec<(String, String)>, usize);
    impl PageHandler for Metas {
        fn text(&mut self, _: &[u8]) {}
        fn robots_meta(&mut self, name: &str, content: &str) {
            assert_eq!(self.1, 0, "before the links");
            self.0.push((name.to_owned(), content.to_owned()));
        }
        fn link(&mut self, _: LinkKind, _: Result<&str, BadLink>) {
            self.1 += 1;
        }
    }
    let page = "<a href=x><META Content='NoIndex' NAME=ro&#98;ots><meta name=description content=text>\
        <meta property=robots content=none><meta name=robots content=nofollow><template><meta name=t content=none></template>";
    let url = Url::parse("http://a.test/").unwrap();
    let expected =
        [("robots", "NoIndex"), ("robots", "nofollow")].map(|(name, content)| (name.into(), content.into()));
    for charset in ["text/html", "text/html; charset=windows-1252"] {
        let (mut all, mut links) = (Metas::default(), Metas::default());
        read(&url, Some(charset), page.as_bytes(), &mut all);
        read_links(&url, Some(charset), page.as_bytes(), &mut links);
        assert_eq!((&all.0[..], all.1), (&expected[..], 1));
        assert_eq!((&links.0[..], links.1), (&expected[..], 1));
    }
}

#[test]
fn links_that_are_too_long_use_up_the_time_of_a_page() {
    // Neither the base nor the links are in normal form, so each takes long to resolve.
    let body = format!("<base href='/{}/'>{}", "%".repeat(16_000), "<a href=x>".repeat(40_000));
    let (mut too_long, mut too_many) = (0, 0);
    each_link(&Url::parse("http://host/").unwrap(), None, body.as_bytes(), |_, target| match target {
        Ok(url) => panic!("{url} is too long"),
        Err(BadLink::TooLong) => too_long += 1,
        Err(_) => too_many += 1,
    });
    assert!(too_long < 2_000, "{too_long} links were resolved");
    assert_eq!(too_long + too_many, 40_000);
}

#[test]
fn ordinary_page_with_a_long_url_keeps_its_links() {
    let page = Url::parse(&format!("http://host/search?{}", "facet=1&".repeat(120))).unwrap();
    let links: String =
        (0..100).map(|link| format!("<a href=http://host/items/{link:040}>item</a>")).collect();
    let body = links + &"text ".repeat(1_000);
    let mut resolved = 0;
    each_link(&page, None, body.as_bytes(), |_, target| resolved += usize::from(target.is_ok()));
    assert_eq!(resolved, 100);
}

#[test]
fn end_of_an_svg_ends_any_number_of_unclosed_elements_in_it() {
    let paths = "<path d=M0>".repeat(80);
    let body =
        format!("<svg>{paths}</svg><iframe src=/a></iframe><script>w('<a href=/no>')</script><a href=/b>");
    let mut links = Vec::new();
    each_link(&Url::parse("http://h/").unwrap(), None, body.as_bytes(), |_, target| {
        links.push(target.unwrap().to_owned());
    });
    assert_eq!(links, ["http://h/a", "http://h/b"]);
}

/// Records the parts of a page.
#[derive(Default)]
struct PartsRecorder {
    wanted: PageParts,
    details: Vec<(String, String, Option<String>)>,
    requisites: Vec<(&'static str, Result<String, BadLink>)>,
    ids: Vec<Option<String>>,
}

impl PageHandler for PartsRecorder {
    fn text(&mut self, _: &[u8]) {}

    fn link(&mut self, _: LinkKind, _: Result<&str, BadLink>) {}

    fn wanted_parts(&self) -> PageParts {
        self.wanted
    }

    fn link_detail(&mut self, detail: LinkDetail) {
        self.details.push((format!("{} {}", detail.kind.name(), detail.rel), detail.text, detail.fragment));
    }

    fn requisite(&mut self, kind: RequisiteKind, target: Result<&str, BadLink>) {
        self.requisites.push((kind.name(), target.map(str::to_owned)));
    }

    fn id(&mut self, id: Option<&str>) {
        self.ids.push(id.map(str::to_owned));
    }
}

fn parts(wanted: PageParts, body: &str) -> PartsRecorder {
    let mut recorder = PartsRecorder { wanted, ..PartsRecorder::default() };
    read(&Url::parse(PAGE).unwrap(), Some("text/html; charset=utf-8"), body.as_bytes(), &mut recorder);
    recorder
}

const ALL_PARTS: PageParts = PageParts { link_details: true, requisites: true, ids: true };

#[test]
fn links_have_their_kind_relation_text_and_fragment() {
    let body = "<a href='x#a%20b ' rel='me  nofollow'>one</a><area href=y><iframe src='z#'></iframe>\
                <meta http-equiv=refresh content='0;url=w#top'><a href='tel:1#no'>no</a>";
    let expected = [
        ("a me  nofollow", "one", Some("a%20b")),
        ("area ", "", None),
        ("frame ", "", Some("")),
        ("refresh ", "", Some("top")),
    ];
    let expected =
        expected.map(|(kind, text, fragment)| (kind.into(), text.into(), fragment.map(Into::into)));
    assert_eq!(parts(ALL_PARTS, body).details, expected);
    assert!(parts(PageParts { requisites: true, ..PageParts::default() }, body).details.is_empty());
}

#[test]
fn requisites_are_resolved_with_their_kind() {
    let body = "<base href=/b/><link rel='icon' href=i.ico><link rel=stylesheet href=s.css><style>@import 'm.css'; \
                p{background:url(#x) url(bg.png)}</style><img src='p.png' srcset='p2.png 2x, data:image/png,x 3x' alt=x>\
                <p style='background:url(&quot;q.png&quot;)'><script src=//other.test/x.js></script><img src=''>\
                <video src=v.mp4 poster=v.png></video><template><img src=no></template><img src='http://u:p@h/'>";
    let expected = [
        ("icon", "b/i.ico"),
        ("stylesheet", "b/s.css"),
        ("stylesheet", "b/m.css"),
        ("image", "b/bg.png"),
        ("image", "b/p.png"),
        ("image", "b/p2.png"),
        ("image", "b/q.png"),
        ("media", "b/v.mp4"),
        ("image", "b/v.png"),
    ];
    let mut found = parts(ALL_PARTS, body).requisites;
    let bad: Vec<_> = found.extract_if(.., |(_, target)| target.is_err()).collect();
    assert_eq!(bad, [("image", Err(BadLink::Scheme)), ("image", Err(BadLink::Credentials))]);
    let script = ("script", Ok("http://other.test/x.js".to_owned()));
    assert!(found.extract_if(.., |requisite| *requisite == script).count() == 1);
    assert_eq!(found, expected.map(|(kind, path)| (kind, Ok(format!("http://example.org/{path}")))));
    assert!(parts(PageParts { ids: true, ..PageParts::default() }, body).requisites.is_empty());
}

#[test]
fn requisites_of_the_document_of_an_iframe_are_those_of_its_page() {
    let body = "<base href=/b/><iframe srcdoc='<img src=i.png srcset=j.png><style>p{b:url(k.png)}</style>\
                <iframe srcdoc=&quot;<base href=/c/><img src=l.png>&quot;></iframe>'></iframe>";
    let expected = ["b/i.png", "b/j.png", "b/k.png", "c/l.png"];
    let expected = expected.map(|path| ("image", Ok(format!("http://example.org/{path}"))));
    assert_eq!(parts(ALL_PARTS, body).requisites, expected);
}

#[test]
fn ids_are_those_that_links_can_lead_to() {
    let body =
        "<h1 id=top>x</h1><a name='&auml;'>x</a><a name=n id=i><input name=no><p id><svg><g id=s></svg>";
    let ids: Vec<String> = parts(ALL_PARTS, body).ids.into_iter().flatten().collect();
    assert_eq!(ids, ["top", "ä", "i", "n", "s"]);
    assert!(parts(PageParts { requisites: true, ..PageParts::default() }, body).ids.is_empty());
}

#[test]
fn parts_of_a_page_are_bounded() {
    let many = parts(ALL_PARTS, &"<img src=a><p id=b>".repeat(MAX_LINKS + 10));
    let found = many.requisites.iter().filter(|(_, target)| target.is_ok()).count();
    assert!((10_000..=MAX_LINKS).contains(&found), "{found}");
    assert_eq!(many.requisites.last(), Some(&("image", Err(BadLink::TooMany))));
    assert_eq!((many.ids.len(), many.ids.last()), (MAX_LINKS + 1, Some(&None)));
    let long_base = format!("<base href=/{}/>", "x".repeat(1_900));
    for body in
        ["<img src=a>", "<img srcset='a,b 1x, c'>", "<p style='x:url(a)'>", "<style>x{y:url(a)}</style>"]
    {
        let body = long_base.clone() + &body.repeat(400_000 / body.len());
        let (mut bytes, taken) = (0, cpu_time(|| drop(parts(ALL_PARTS, &body))));
        for (_, target) in parts(ALL_PARTS, &body).requisites {
            bytes += target.map_or(0, |url| url.len());
        }
        assert!(bytes > 100_000 && bytes <= max_link_bytes(body.len()), "{bytes}");
        assert!(taken < Duration::from_secs(5), "{taken:?}");
    }
    let garbage = format!("<img srcset='{}'>", ", ,(x".repeat(80_000));
    assert!(parts(ALL_PARTS, &garbage).requisites.len() <= MAX_LINKS + 1);
    let srcset = format!("<img srcset='{}'>", "/a     ,".repeat(MAX_LINKS + 2));
    let requisites = parts(ALL_PARTS, &srcset).requisites;
    assert_eq!(requisites.iter().filter(|(_, target)| target.is_ok()).count(), MAX_LINKS);
    assert_eq!(requisites.len(), MAX_LINKS + 2);
}

#[test]
fn links_of_a_small_page_take_few_bytes_and_ordinary_ones_are_kept() {
    let links_of = |page: &str, body: &str| {
        let (mut bytes, mut lost) = (0, 0);
        each_link(&Url::parse(page).unwrap(), None, body.as_bytes(), |_, target| match target {
            Ok(url) => bytes += url.len(),
            Err(_) => lost += 1,
        });
        (bytes, lost)
    };
    let relative = |count: usize| -> String { (0..count).map(|n| format!("<a href={n}>x</a>")).collect() };
    let hostile = format!("<base href=/{}/>{}", "x".repeat(1_900), relative(200));
    let (bytes, lost) = links_of("http://host/", &hostile);
    assert!(lost > 100 && bytes < 12 * hostile.len(), "{bytes} bytes for {}", hostile.len());
    let page = format!("http://host/{}/", "d".repeat(90));
    assert_eq!(links_of(&page, &relative(120)).1, 0, "an index page of 2 KB");
    assert_eq!(links_of(&page, &relative(180)).1, 0, "a page of 3 KB");
}
