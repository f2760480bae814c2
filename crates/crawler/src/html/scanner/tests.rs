//! Tests of the scanner.

use std::time::Duration;

use super::super::{LinkKind, MAX_LINKS, Targets};
use super::*;
use crate::cpu_time::cpu_time;

/// The link targets of a page.
fn targets(page: &str) -> Vec<String> {
    let targets = Targets::scan(page.as_bytes());
    targets.links.iter().map(|(_, raw)| String::from_utf8_lossy(raw).into_owned()).collect()
}

#[test]
fn links_are_found_in_document_order_with_their_kind() {
    let page = "<a href=1><area href=2><iframe src=3></iframe><frame src=4><meta http-equiv=refresh content=5>\
                <a><area><frame><meta http-equiv=refresh><meta name=refresh content=6><link href=7>";
    let kinds: Vec<_> = Targets::scan(page.as_bytes()).links;
    let expected = [
        (LinkKind::Anchor, b"1"),
        (LinkKind::Area, b"2"),
        (LinkKind::Frame, b"3"),
        (LinkKind::Frame, b"4"),
        (LinkKind::Refresh, b"5"),
    ];
    assert_eq!(kinds, expected.map(|(kind, raw)| (kind, raw.as_slice())));
}

#[test]
fn no_links_are_found_in_raw_text_comments_and_attributes() {
    for (start, end) in [
        ("<!--", "-->"),
        ("<!-- > --", "--!>"),
        ("<script>", "</script>"),
        ("<script><!-- <script> </script>", "--></script>"),
        ("<STYLE>", "</Style >"),
        ("<textarea>", "</textarea/>"),
        ("<title>", "</title x='>'>"),
        ("<xmp>", "</xmp>"),
        ("<noembed>", "</noembed>"),
        ("<noframes>", "</noframes>"),
        ("<iframe>", "</iframe>"),
        ("<template>", "</template>"),
        ("<template><template></template>", "</template>"),
        ("<svg><![CDATA[", "]]></svg>"),
        ("<p title='", "'>"),
        ("<p title=\"", "\">"),
    ] {
        assert_eq!(targets(&format!("{start}<a href=no>{end}<a href=yes>")), ["yes"], "{start}");
    }
    assert_eq!(targets("<a href=yes><plaintext><a href=no></plaintext><a href=no>"), ["yes"]);
}

#[test]
fn links_in_noscript_are_found() {
    assert_eq!(targets("<noscript><a href=yes></noscript>"), ["yes"]);
}

#[test]
fn self_closing_tags_are_empty_only_in_svg() {
    assert_eq!(targets("<svg><title/><style/><script/><a href=yes></svg>"), ["yes"]);
    assert_eq!(targets("<svg/><title/><a href=no></title><a href=yes>"), ["yes"]);
}

#[test]
fn element_without_end_tag_in_svg_or_math_hides_no_links() {
    for root in ["svg", "math"] {
        for name in ["title", "script", "style", "textarea", "template", "iframe", "plaintext"] {
            let page = format!("<{root}><{name}></{root}><p><a href=yes><script><a href=no></script>");
            assert_eq!(targets(&page), ["yes"], "{root} {name}");
        }
    }
}

/// By the HTML standard. html5ever closes the element.
#[test]
fn end_tag_in_svg_or_math_closes_no_element_around_an_integration_point() {
    for (root, point) in [("math", "mi"), ("math", "annotation-xml"), ("svg", "desc"), ("svg", "title")] {
        for around in ["g", "span", "div"] {
            let page = format!("<{around}><{root}><{point}></{around}></{point}><template/><a href=yes>");
            assert_eq!(targets(&page), ["yes"], "{page}");
        }
    }
}

#[test]
fn base_and_frames_of_svg_are_none() {
    let page =
        b"<svg><base href=no><iframe src=no><area href=no></svg><base href=yes><iframe src=frame></iframe>";
    let targets = Targets::scan(page);
    assert_eq!(targets.base, Some(b"yes".as_slice()));
    assert_eq!(targets.links, [(LinkKind::Frame, b"frame".as_slice())]);
}

#[test]
fn tag_truncated_by_the_end_of_the_page_is_ignored() {
    for page in
        ["<a href=x", "<a href=x ", "<a href='x>", "<a href=\"x'>", "<a href=x /", "<a href", "<a href="]
    {
        assert_eq!(targets(page), [""; 0], "{page}");
    }
}

#[test]
fn text_and_title_are_passed_to_the_sink() {
    #[derive(Default)]
    struct TextAndTitle(String, String);
    impl<'p> Sink<'p> for TextAndTitle {
        fn element(&mut self, _: Element, _: &Attributes<'p>) {}
        fn text(&mut self, run: &'p [u8]) {
            self.0.push_str(std::str::from_utf8(run).expect("complete characters"));
        }
        fn title(&mut self, content: &'p [u8]) {
            self.1.push_str(std::str::from_utf8(content).expect("complete characters"));
        }
    }
    let page = "<title>A <b> &amp; C</title>one <b>tw</b>o<!-- no --><script>no</script> 3 < 4</ no>\
                <template>no<title>no</title></template><svg><title>no</title><![CDATA[ five]]></svg> é<";
    let mut sink = TextAndTitle::default();
    scan(page.as_bytes(), &mut sink);
    assert_eq!((sink.0.as_str(), sink.1.as_str()), ("one two 3 < 4 five é<", "A <b> &amp; C"));
}

#[test]
fn every_page_is_scanned_in_linear_time() {
    #[rustfmt::skip]
    let pieces = [
        "<", "<a ", "<a href=", "<a href='", "<a href=x>", "</", "</a ", "<!", "<!--", "<!-->", "<!--->",
        "--!", "<!-- -", "<?", "<![CDATA[", "<svg><![CDATA[", "]]", "<script>", "</script", "<script><!--",
        "<script><!--<script>", "<!--<script", "<title>", "</title", "<title></title ", "<textarea>",
        "<template>", "<svg>", "<svg/>", "<svg><g>", "<svg></g>", "<svg><desc><b>", "<svg><desc></x>", "<math><mi></p>", "<plaintext", "<div>", "<b><i>", "&amp;", "&", "<a href=&amp;>",
        "<a b='' ", "<a a a=", "\0", "<\0", ">", "'", "<base href=x>", "<meta charset=>",
        "<meta http-equiv=&#114;efresh content='0;", "<iframe src=x>", "<x-", "<p -", "=", "<p =",
    ];
    for piece in pieces {
        let page = piece.repeat(500_000 / piece.len());
        let taken = cpu_time(|| drop(Targets::scan(page.as_bytes())));
        // In an unoptimised build a linear scan takes milliseconds and a quadratic one minutes.
        assert!(taken < Duration::from_secs(2), "{piece:?} took {taken:?}");
    }
}

#[test]
fn links_after_the_first_100_000_are_only_counted() {
    let page = "<a href=x>".repeat(MAX_LINKS + 5) + "<base href=/late/>";
    let targets = Targets::scan(page.as_bytes());
    assert_eq!((targets.links.len(), targets.excess), (MAX_LINKS, 5));
    assert_eq!(targets.base, Some(b"/late/".as_slice()));
}

#[test]
fn links_in_deeply_nested_elements_are_found() {
    assert_eq!(targets(&("<div>".repeat(100_000) + "<a href=deep>")), ["deep"]);
    assert_eq!(targets(&("<svg>".repeat(100_000) + "<title/><a href=deep>")), ["deep"]);
    let templates = "<template>".repeat(100_000) + &"</template>".repeat(100_000);
    assert_eq!(targets(&(templates + "<a href=deep>")), ["deep"]);
}
