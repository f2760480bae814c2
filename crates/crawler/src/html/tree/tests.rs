//! Tests of the tree.

use std::time::Duration;

use super::*;
use crate::cpu_time::cpu_time;

/// The body as tags with texts, without attributes.
fn body(page: &str) -> String {
    let tree = Tree::parse(page.as_bytes());
    let mut shown = String::new();
    let mut step = tree.step(Step::Enter(tree.body()));
    while let Some(now) =
        step.filter(|step| *step != Step::Leave(tree.body()) && tree.first_child(tree.body()).is_some())
    {
        let (Step::Enter(node) | Step::Leave(node)) = now;
        match (tree.content(node), now) {
            (Content::Element { name, .. }, Step::Enter(_)) => {
                shown += &format!("<{}>", String::from_utf8_lossy(name))
            }
            (Content::Element { .. }, Step::Leave(_)) => shown += "/",
            (Content::Text(text) | Content::Raw(text), _) => shown += &String::from_utf8_lossy(text),
        }
        step = tree.step(now);
    }
    shown
}

#[test]
fn optional_tags_may_be_left_out() {
    for (page, expected) in [
        ("<p>a<p>b<div>c</div>d", "<p>a/<p>b/<div>c/d"),
        ("<ul><li>a<ul><li>b</ul><li>c</ul>", "<ul><li>a<ul><li>b///<li>c//"),
        ("<dl><dt>a<dd>b<p>c<dt>d</dl>", "<dl><dt>a/<dd>b<p>c//<dt>d//"),
        ("<table><tr><td>a<td>b<tr><th>c</table>x", "<table><tbody><tr><td>a/<td>b//<tr><th>c////x"),
        ("<table><thead><td>a<tbody><tr><td>b</table>", "<table><thead><tr><td>a///<tbody><tr><td>b////"),
        ("<select><option>a<option>b</select>c", "<select><option>a/<option>b//c"),
        ("<a>x<a>y", "<a>x/<a>y/"),
        ("a<br>b<img>c<hr/>", "a<br>/b<img>/c<hr>/"),
        ("<svg><path/><g>a</g></svg>b", "<svg><path>/<g>a//b"),
        ("<head><title>t</title><p>a</head>b", "<p>ab/"),
        ("<b>a</i>b</b>c", "<b>ab/c"),
        ("<div><table><td></div>a</table>b</div>c", "<div><table><tbody><tr><td>a////b/c"),
        ("<body>x<body>y</body></html> z", "xy z"),
        ("x<script>a<b></script>c", "x<script>a<b>/c"),
        ("", ""),
    ] {
        assert_eq!(body(page), expected, "{page}");
    }
}

#[test]
fn head_and_attributes_are_kept() {
    let page =
        b"<!doctype html><html lang=en><meta name=a content=b><script>x</script><body class=c id=d><p ID=e>";
    let tree = Tree::parse(page);
    assert_eq!(tree.attribute(tree.root(), "lang"), Some(&b"en"[..]));
    assert_eq!(tree.attribute(tree.body(), "class"), Some(&b"c"[..]));
    let in_head: Vec<_> =
        tree.nodes().filter(|node| tree.parent(*node) == Some(HEAD)).map(|node| tree.name(node)).collect();
    assert_eq!(in_head, [&b"meta"[..], b"script"]);
    let paragraph = tree.nodes().last().unwrap();
    assert_eq!(tree.attribute(paragraph, "id"), Some(&b"e"[..]));
    assert_eq!(tree.attribute(paragraph, "class"), None);
}

#[test]
fn text_of_an_element_has_a_line_per_block() {
    let tree = Tree::parse(b"<div>a <b>b</b><p>c &amp; d<pre>\n 1\n  2</pre><script>no</script></div>e");
    let div = tree.first_child(tree.body()).unwrap();
    assert_eq!(tree.text(div, 100), "a b\nc & d\n 1\n  2");
    assert_eq!(tree.text(div, 4), "a b\n");
    let script = tree.nodes().find(|node| tree.is(*node, "script")).unwrap();
    assert_eq!(tree.text(script, 100), "no");
    assert_eq!(Tree::parse(b"<p>").text(BODY, 10), "");
    let tree = Tree::parse(b"<pre>\n a\n  <code>b\n   c</code></pre>");
    let [pre, code] = ["pre", "code"].map(|name| tree.nodes().find(|node| tree.is(*node, name)).unwrap());
    assert_eq!(tree.text(pre, 100), " a\n  b\n   c");
    assert_eq!(tree.text(code, 100), "b\n   c");
    let tree = Tree::parse(
        b"<div hidden>a<b hidden>no<i>no</i></b><pre hidden>no</pre> b<p hidden>no<p>c<img hidden>d</div>",
    );
    assert_eq!(tree.text(tree.first_child(tree.body()).unwrap(), 100), "a\nb\ncd");
}

#[test]
fn every_page_takes_linear_time_and_bounded_memory() {
    for piece in [
        "<div>",
        "<b>",
        "<p>",
        "<li>",
        "<ul><li>",
        "<table>",
        "<tr>",
        "<td>",
        "<table><tr><td>",
        "</div>",
        "<a>",
        "<b x>",
        "x<br>",
        "<dd>",
        "<svg>",
        "<option>",
        "<blockquote>",
        "</p>",
        "<div></p>",
        "<body a>",
        "<p a a a a>",
        "<table><td></div><div>",
        "<title>",
        "<object><p>",
    ] {
        let page = piece.repeat(200_000 / piece.len());
        let taken = cpu_time(|| {
            let tree = Tree::parse(page.as_bytes());
            assert!(tree.nodes.len() <= MAX_NODES + MAX_DEPTH, "{piece}");
            tree.text(tree.body(), 1_000_000);
        });
        assert!(taken < Duration::from_secs(3), "{piece:?} took {taken:?}");
    }
    let attributes: String = (0..100_000).map(|index| format!(" a{index}")).collect();
    let page = format!("<p{attributes}>");
    assert_eq!(Tree::parse(page.as_bytes()).attributes.len(), MAX_ATTRIBUTES);
}
