//! Tests of selectors.

use std::time::Duration;

use super::*;
use crate::cpu_time::cpu_time;

/// The texts of the elements that a selector matches.
fn texts(page: &str, selector: &str) -> Vec<String> {
    let tree = Tree::parse(page.as_bytes());
    let finder = Finder::new(&tree);
    finder.find(&Selector::parse(selector).unwrap()).map(|node| tree.text(node, 1000)).collect()
}

#[test]
fn common_selectors_match() {
    let page = "<html><title>T</title><body><h1 id=top class='a big'>One</h1><div class=x><p>two<p lang=de-AT>three<a href=/y>four</a></div>\
        <ul><li>1<li>2<li>3</ul><table><tr><th>k<td data-n='5 6'>v</table><p>last";
    for (selector, expected) in [
        ("title", &["T"][..]),
        ("H1", &["One"]),
        ("#top.big", &["One"]),
        (".a, .x > p:first-child", &["One", "two"]),
        ("div p ~ p", &["threefour"]),
        ("h1 + div a[href]", &["four"]),
        ("[lang|=de]", &["threefour"]),
        ("[data-n~='6'], [data-n^='5'], [data-n$='6'], [data-n*=' ']", &["v"]),
        ("li:nth-child(2n+1)", &["1", "3"]),
        ("li:last-child, li:nth-of-type(2)", &["2", "3"]),
        ("li:not(:first-child):not(:last-child)", &["2"]),
        ("p:has(> a)", &["threefour"]),
        ("table > tbody > tr > td", &["v"]),
        ("body > p:only-of-type", &["last"]),
        (":is(h1, th)", &["One", "k"]),
        ("h2", &[]),
    ] {
        assert_eq!(texts(page, selector), expected, "{selector}");
    }
}

#[test]
fn error_names_the_cause_and_the_place() {
    for (selector, error) in [
        ("", "a selector is missing, at character 1"),
        ("p >", "it starts or ends with a combinator, at character 4"),
        ("p:hover-me", "'hover-me' is not supported, at character 3"),
        ("p::text", "'text' is not supported, at character 3"),
        ("p[=", "the part in brackets is not an attribute selector, at character 3"),
    ] {
        assert_eq!(Selector::parse(selector).unwrap_err(), error, "{selector}");
    }
    for selector in ["p.", "p[", "a, , b", "p)", "p]", "1p", "p{", "p\u{0}[", "!", "p@href"] {
        assert!(Selector::parse(selector).is_err(), "{selector}");
    }
}

#[test]
fn steps_are_bounded() {
    for (piece, selector) in [
        ("<p>", "x ~ p"),
        ("<div>", "x div div"),
        ("<b>", ":has(x)"),
        ("<p a=b></p>", "p:has(~ x)"),
        ("<p a='b b b b b'>", "[a~=c]"),
    ] {
        let page = piece.repeat(50_000 / piece.len());
        let tree = Tree::parse(page.as_bytes());
        let finder = Finder { tree: &tree, steps: Cell::new(2_000) };
        let selector_list = Selector::parse(selector).unwrap();
        let taken = cpu_time(|| assert_eq!(finder.find(&selector_list).count(), 0, "{selector}"));
        assert!(
            finder.steps.get() == 0 && taken < Duration::from_secs(2),
            "{piece} {selector} took {taken:?}"
        );
    }
}
