use proptest::prelude::*;

use super::*;
use crate::html::MAX_LINKS;

/// Rewrites every URL to its path, without the directory.
fn rewritten(body: &str) -> String {
    let page = Url::parse("http://h.test/dir/page.html").unwrap();
    let bytes = rewrite(&page, Some("text/html; charset=utf-8"), body.as_bytes(), &mut |reference| {
        let url = reference.url.ok()?.strip_prefix("http://h.test/dir/")?;
        Some(format!(
            "new/{url}{}",
            reference.fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default()
        ))
    });
    String::from_utf8(bytes).unwrap()
}

#[test]
fn urls_are_replaced_and_the_rest_of_the_page_stays() {
    for (body, expected) in [
        ("<a href=x>x</a>", "<a href=\"new/x\">x</a>"),
        ("<a  class='c' href = 'x#y' >", "<a  class='c' href = \"new/x#y\" >"),
        ("<A HREF=\"x?a&amp;b\"/>", "<A HREF=\"new/x?a&amp;b\"/>"),
        (
            "<a href=mailto:x><a href='http://other.test/x'>",
            "<a href=mailto:x><a href='http://other.test/x'>",
        ),
        (
            "<img src=a.png srcset='a.png 1x, b.png 2x, http://o.test/ 3x'>",
            "<img src=\"new/a.png\" srcset=\"new/a.png 1x, new/b.png 2x, http://o.test/ 3x\">",
        ),
        ("<p style='background:url(a.png)'>x", "<p style=\"background:url(&quot;new/a.png&quot;)\">x"),
        ("<style>a{b:url(a.png)}</style>", "<style>a{b:url(\"new/a.png\")}</style>"),
        (
            "<style>a{b:c}</style><script src=a.js>'<a href=x>'</script>",
            "<style>a{b:c}</style><script src=\"new/a.js\">'<a href=x>'</script>",
        ),
        (
            "<meta http-equiv=refresh content=\"0; url='x'\">",
            "<meta http-equiv=refresh content=\"0; url='new/x'\">",
        ),
        (
            "<link rel=stylesheet href=a.css integrity=sha256-x crossorigin>",
            "<link rel=stylesheet href=\"new/a.css\" data-integrity=sha256-x data-crossorigin>",
        ),
        (
            "<script src=http://o.test/a.js integrity=sha256-x crossorigin></script>",
            "<script src=http://o.test/a.js integrity=sha256-x crossorigin></script>",
        ),
        ("<link rel=manifest href=a.json>", "<link rel=manifest href=\"\">"),
        (
            "<meta http-equiv=Content-Security-Policy content=\"default-src 'self'\">",
            "<meta http-equiv=Content-Security-Policy data-content=\"default-src 'self'\">",
        ),
        (
            "<svg><image xlink:href=a.svg /><use href='#x'/></svg>",
            "<svg><image xlink:href=\"new/a.svg\" /><use href=\"new/page.html#x\"/></svg>",
        ),
        (
            "<form action=x><link rel=canonical href=y>",
            "<form action=\"new/x\"><link rel=canonical href=\"new/y\">",
        ),
        (
            "<button formaction=x>x</button><input type=submit formaction='y?a'>",
            "<button formaction=\"new/x\">x</button><input type=submit formaction=\"new/y?a\">",
        ),
        (
            "<iframe srcdoc='<img src=a.png alt=&quot;x&quot;><a href=#y>&amp;amp;'></iframe>",
            "<iframe srcdoc=\"<img src=&quot;new/a.png&quot; alt=&quot;x&quot;><a href=&quot;new/page.html#y&quot;>&amp;amp;\"></iframe>",
        ),
        (
            "<base href=sub/><iframe srcdoc=\"<base href='/dir/'><p style='b:url(x)'>\"></iframe><iframe srcdoc='<b>'></iframe>",
            "<base href=\"\"><iframe srcdoc=\"<base href=&quot;&quot;><p style=&quot;b:url(&amp;quot;new/x&amp;quot;)&quot;>\"></iframe>\
             <iframe srcdoc='<b>'></iframe>",
        ),
        ("<!-- <a href=x> --><a href=x", "<!-- <a href=x> --><a href=x"),
        ("<img src=x\n>é", "\u{FEFF}<img src=\"new/x\"\n>é"),
    ] {
        assert_eq!(rewritten(body), expected, "{body}");
    }
}

#[test]
fn targets_are_those_of_the_base_url_which_is_removed() {
    assert_eq!(
        rewritten("<base href='/dir/sub/' target=x><a href=y>"),
        "<base href=\"\" target=x><a href=\"new/sub/y\">"
    );
}

#[test]
fn documents_in_documents_are_rewritten_to_a_bounded_depth() {
    let escape = |html: &str| html.replace('&', "&amp;").replace('"', "&quot;");
    let mut page = "<a href=x>".to_owned();
    for _ in 0..MAX_NESTED_DOCUMENTS {
        page = format!("<img src=y><iframe srcdoc=\"{}\"></iframe>", escape(&page));
    }
    let rewritten = rewritten(&page);
    assert_eq!(rewritten.matches("new/y").count(), MAX_NESTED_DOCUMENTS);
    assert!(!rewritten.contains("new/x"), "{rewritten}");
}

#[test]
fn urls_of_a_stylesheet_are_replaced() {
    let url = Url::parse("http://h.test/css/main.css").unwrap();
    let css =
        b"@charset \"iso-8859-1\"; @import 'a.css'; a{b:url( ../c.png ) url(#d) url(data:,x)} /* \xE9 */";
    let rewritten = rewrite_css(&url, None, css, &mut |reference| {
        reference.url.ok().map(|url| url.replace("http://h.test/", "new/"))
    });
    assert_eq!(
        String::from_utf8(rewritten).unwrap(),
        "\u{FEFF}@charset \"iso-8859-1\"; @import \"new/css/a.css\"; a{b:url( \"new/c.png\" ) url(#d) url(data:,x)} /* é */"
    );
}

#[test]
fn page_with_many_links_does_not_grow_without_limit() {
    let page = Url::parse("http://h.test/").unwrap();
    let link = "<a href=x>";
    let body = link.repeat(MAX_LINKS + 1);
    let replaced = |new: &str| {
        let mut calls = 0;
        let rewritten = rewrite(&page, None, body.as_bytes(), &mut |_| {
            calls += 1;
            Some(new.to_owned())
        });
        (calls, rewritten.len())
    };
    let growth = "\"new\"".len() - "x".len();
    assert_eq!(replaced("new"), (MAX_LINKS, body.len() + MAX_LINKS * growth));
    let (calls, length) = replaced(&"y".repeat(2_000));
    assert!(calls < MAX_LINKS && length <= 6 * body.len() + 64 * 1024, "{calls} calls, {length} bytes");
}

#[test]
fn page_in_another_encoding_becomes_utf_8() {
    let page = Url::parse("http://h.test/").unwrap();
    let body = b"<meta charset=iso-8859-1><a href='?\xE9'>\xE9</a>";
    let mut urls = Vec::new();
    let rewritten = rewrite(&page, None, body, &mut |reference| {
        urls.push(reference.url.unwrap().to_owned());
        Some("é".into())
    });
    assert_eq!(urls, ["http://h.test/?%E9"], "the server expects the encoding of the page");
    assert_eq!(String::from_utf8(rewritten).unwrap(), "\u{FEFF}<meta charset=iso-8859-1><a href=\"é\">é</a>");
}

/// Pieces of pages that are hard to tell apart: quotes, comments, raw text, references, unfinished tags.
fn pages() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<a href=",
        "<img src=",
        "<img srcset=",
        "<p style=",
        "<link rel=stylesheet href=",
        "<base href=",
        "<meta http-equiv=refresh content='0;url=",
        "<script src=",
        "<style>",
        "</style>",
        "<script>",
        "</script>",
        "<!--",
        "-->",
        "<svg><image href=",
        "</svg>",
        "<template>",
        "</template>",
        "<iframe src=",
        "<textarea>",
        "</textarea>",
        "'",
        "\"",
        ">",
        " ",
        "\n",
        "=",
        "/",
        "<",
        "x",
        "x y",
        "&amp;",
        "&quot;",
        "&#39",
        "é",
        "url(",
        "url('",
        ")",
        "'a b'",
        "\"a'b\"",
        "@import 'x'",
        "a.png 2x, b.png",
        "integrity=x",
        "crossorigin",
        "\\",
        "#f",
        "http://o.test/",
        "data:,x",
        "?q=1",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn rewritten_page_has_the_new_urls_and_no_other(page in pages()) {
        let url = Url::parse("http://h.test/dir/").unwrap();
        let content_type = Some("text/html; charset=utf-8");
        let mut replaced = Vec::new();
        let first = rewrite(&url, content_type, page.as_bytes(), &mut |reference| {
            reference.url.ok()?;
            let new = format!("new/{}{}", replaced.len(), ["", "&x=1", "'", "é"][replaced.len() % 4]);
            replaced.push(new.clone());
            Some(new)
        });
        let mut found = Vec::new();
        let second = rewrite(&url, content_type, &first, &mut |reference| {
            if reference.url.is_ok() {
                found.push(reference.target.to_owned());
            }
            None
        });
        prop_assert_eq!(found, replaced);
        prop_assert_eq!(String::from_utf8(second), String::from_utf8(first));
    }
}
