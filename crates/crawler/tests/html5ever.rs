//! Compares the links, text and titles that the scanner finds with those of html5ever.

#[path = "html5ever/comparison.rs"]
mod comparison;
#[path = "html5ever/documents.rs"]
mod documents;

use comparison::{assert_same, assert_same_if_guessed_right};
use documents::{PIECES, nested_document};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6_000))]

    #[test]
    fn pages_of_random_pieces_are_scanned_as_by_html5ever(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
        assert_same(&pieces.concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, max_global_rejects: 30_000, ..ProptestConfig::default() })]

    #[test]
    fn svg_math_and_templates_are_scanned_as_by_html5ever(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        prop_assume!(assert_same_if_guessed_right(&nested_document(&bytes)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn damaged_documents_are_scanned_as_by_html5ever(
        damages in prop::collection::vec((0.0..1.0f64, 0..12usize, prop::sample::select(PIECES)), 1..6),
    ) {
        // What an end tag in an SVG closes depends on the elements around the SVG, which the scanner does not know.
        let mut page: String =
            DOCUMENT.split_inclusive('\n').filter(|line| !line.contains("<svg") && !line.contains("<math")).collect();
        for (position, removed, inserted) in damages {
            let boundary = |at: usize| (at..=page.len()).find(|&at| page.is_char_boundary(at)).unwrap_or(page.len());
            let start = boundary((position * page.len() as f64) as usize);
            let end = boundary((start + removed).min(page.len()));
            page.replace_range(start..end, inserted);
        }
        assert_same(&page);
    }
}

#[test]
fn every_pair_of_pieces_is_scanned_as_by_html5ever() {
    for first in PIECES {
        for second in PIECES {
            assert_same(&format!("{first}{second}<a href=end></a>"));
        }
    }
}

/// All texts of `length` pieces. If one of the pieces is empty, this includes shorter texts.
fn every_text(pieces: &[&str], length: u32) -> impl Iterator<Item = String> {
    (0..pieces.len().pow(length)).map(move |number| {
        (0..length).map(|position| pieces[number / pieces.len().pow(position) % pieces.len()]).collect()
    })
}

#[test]
fn scripts_end_as_in_html5ever() {
    let pieces = ["", "<!--", "-", "->", ">", "<script>", "<script ", "</script>", "</script/x"];
    for text in every_text(&pieces, 4) {
        assert_same(&format!("<script>{text}<a href=1></script><a href=2></script><a href=3>"));
    }
}

#[test]
fn comments_end_as_in_html5ever() {
    for text in every_text(&["", "-", "--", "!", ">", "<!--"], 5) {
        assert_same(&format!("<!{text}<a href=1>--><a href=2>"));
    }
}

#[test]
fn every_prefix_of_a_document_is_scanned_as_by_html5ever() {
    for (end, _) in DOCUMENT.char_indices() {
        assert_same(&DOCUMENT[..end]);
    }
}

#[test]
fn character_references_in_attributes_are_decoded_as_by_html5ever() {
    // Names with and without a required semicolon, each followed by text that may change its meaning.
    let names = "amp AMP lt gt quot copy reg not notin para sect shy times yen Auml auml ccedil divide frac12 sup1 \
                 hellip mdash nbsp ensp zwj NotEqualTilde CounterClockwiseContourIntegral fjlig bne";
    for name in names.split_whitespace() {
        for after in ["", ";", "=", "x", "1", " ", ";;", "&", "&amp;", "-"] {
            assert_same(&format!(
                "<a href='?&{name}{after}'><a href=\"&{name}{after}{name};\"><a href=&{name}{after}>"
            ));
        }
    }
    for number in
        (0..300).chain([0xD7FF, 0xD800, 0xDFFF, 0xFDD0, 0xFFFE, 0xFFFF, 0x1F600, 0x10FFFF, 0x110000])
    {
        assert_same(&format!("<a href='&#{number};'><a href='&#x{number:x}g'><a href='&#X{number:X}'>"));
    }
}

#[test]
fn elements_without_end_tag_in_svg_and_math_hide_no_links() {
    for root in ["svg", "math"] {
        for name in
            ["title", "script", "style", "textarea", "template", "xmp", "iframe", "noframes", "plaintext"]
        {
            let page =
                format!("<{root}><{name}>x<a href=1>y</{root}><p><a href=2>z</p><title>t</title><a href=3>");
            assert_same(&page);
        }
        for tag in ["base href", "area href", "frame src", "iframe src"] {
            assert_same(&format!("<{root}><{tag}=1></{root}><{tag}=2><{tag}=3>"));
        }
    }
}

#[test]
fn requisites_are_found_in_svg_as_by_html5ever() {
    for element in ["image", "use", "feImage", "script", "img", "a", "g"] {
        for attribute in ["href", "xlink:href", "src", "HREF", "style", "id", "name"] {
            assert_same(&format!(
                "<svg><{element} {attribute}=1/></svg><{element} {attribute}=2></{element}><svg><desc><{element} {attribute}=3>"
            ));
        }
    }
}

#[test]
fn requisites_of_links_depend_on_their_relation() {
    for rel in [
        "stylesheet",
        "alternate\nstylesheet",
        "shortcut ICON",
        "preload",
        "manifest",
        "canonical",
        "",
        "icons",
    ] {
        for attributes in ["href=1", "href", "as=font href='1'", "imagesrcset='1 2x' href=2"] {
            assert_same(&format!(
                "<link rel='{rel}' {attributes}><template><link rel='{rel}' {attributes}></template>"
            ));
        }
    }
}

#[test]
fn svg_without_end_tag_ends_with_the_element_around_it() {
    for around in ["div", "span", "li", "button", "td"] {
        let table = if around == "td" { "<table><tr>" } else { "" };
        assert_same(&format!(
            "{table}<{around} href=0><svg><g></{around}><script>'<a href=1>'</script><base href=2><a href=3>"
        ));
    }
}

#[test]
fn end_tag_closes_no_element_around_an_integration_point() {
    for (root, point) in [("math", "mi"), ("math", "mtext"), ("svg", "desc"), ("svg", "foreignObject")] {
        for around in ["g", "span", "div"] {
            for inside in ["", "<x>", "<svg><g>"] {
                assert_same(&format!(
                    "<{around}><{root}><{point}>{inside}</{around}></g></svg></x></{point}><template/><a href=1></{root}>"
                ));
            }
        }
    }
}

#[test]
fn end_tag_in_an_integration_point_closes_no_special_element() {
    for special in ["ul", "div", "p", "blockquote"] {
        for other in ["g", "span", "x", "ol"] {
            for inside in ["", "<svg>"] {
                assert_same(&format!(
                    "<svg><desc><{other}><{special}>{inside}</{other}></svg></{special}></desc><title/><a href=1></title><a href=2>"
                ));
            }
        }
    }
}

#[test]
fn frames_are_found_as_by_html5ever() {
    let pieces = [
        "<frameset>",
        "</frameset>",
        "<frame src=1>",
        "<frame src=2 />",
        "<noframes><a href=3>x</noframes>",
        " ",
    ];
    for text in every_text(&pieces, 4) {
        assert_same(&format!(
            "<frameset cols=*>{text}<frame src=4></frameset><noframes><a href=5></noframes>"
        ));
    }
}

const DOCUMENT: &str = include_str!("html5ever/document.html");
