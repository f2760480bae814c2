//! Every link extracted from a page of arbitrary bytes is a URL in its normal form. The links of a page with SVG, MathML
//! and templates are those that html5ever finds.
#![no_main]

#[path = "../../crates/crawler/tests/html5ever/oracle.rs"]
#[allow(dead_code)]
mod oracle;

use crawler::internal::html;
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

fuzz_target!(|input: &[u8]| {
    let Some((&choice, body)) = input.split_first() else { return };
    let content_type = CONTENT_TYPES[usize::from(choice) % CONTENT_TYPES.len()];
    let page = Url::parse("https://example.org:8443/a/b.html?c").expect("a valid URL");
    html::each_link(&page, content_type, body, |_, target| {
        let Ok(target) = target else { return };
        assert_eq!(html::normalize(target).map(String::from).as_deref(), Ok(target));
    });
    oracle::assert_same_if_balanced(&oracle::nested_document(body));
});
