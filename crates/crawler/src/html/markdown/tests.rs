//! Tests of the conversion to Markdown.

use std::time::Duration;

use super::*;
use crate::cpu_time::cpu_time;

fn markdown(page: &str) -> String {
    main_content(page.as_bytes(), &Url::parse("http://a.test/x/").unwrap())
}

#[test]
fn blocks_and_inline_marks_are_converted() {
    let page = "<h1>One <em>two</em><a class=headerlink href=#one>¶</a></h1><p>Some <b> bold </b>text, <code>a`b</code> and\n \
        <a href='../y?q=(1)' title=t>a <i>link</i></a>.<br>Next <img src=z.png alt='An image'><hr><blockquote><p>q<p>r</blockquote>\
        <pre class=language-sql>\nSELECT *\n  FROM a; -- ```\n</pre>tail &lt;b&gt; *x* snake_case _y_";
    assert_eq!(
        markdown(page),
        "# One *two*\n\nSome **bold** text, ``a`b`` and [a *link*](<http://a.test/y?q=(1)>).\\\nNext ![An image](http://a.test/x/z.png)\n\n\
         ---\n\n> q\n>\n> r\n\n````sql\nSELECT *\n  FROM a; -- ```\n````\n\ntail \\<b> \\*x\\* snake_case \\_y\\_\n"
    );
}

#[test]
fn lists_are_nested_and_tight_if_their_items_are_short() {
    assert_eq!(
        markdown("<ul><li>a<ul><li>b<li><p>c</ul><li>d</ul>after"),
        "- a\n  - b\n  - c\n- d\n\nafter\n"
    );
    assert_eq!(
        markdown("<ol start=9><li><p>a<p>b<li>c<pre>x\ny</pre></ol>"),
        "9. a\n\n   b\n\n10. c\n\n    ```\n    x\n    y\n    ```\n"
    );
    assert_eq!(
        markdown("<dl><dt><code>f()</code><dd><p>Does f.<dt>g<dd>Does g."),
        "- `f()`\n\n  Does f.\n\n- g\n\n  Does g.\n"
    );
    assert_eq!(
        markdown("<blockquote>a</blockquote><blockquote>b<ul><li>c</ul></blockquote>"),
        "> a\n\n> b\n>\n> - c\n"
    );
    assert_eq!(markdown("<ul><li><li>a<li><ul><li>b</ul></ul>"), "- a\n- - b\n");
}

#[test]
fn tables_with_data_are_tables_and_others_are_not() {
    let page = "<table><caption>Sizes</caption><tr><th>Name<th>Size<tr><td>a|b<td><p>1<p>2<tr><td><code>c|d</code></table>";
    assert_eq!(markdown(page), "Sizes\n\n| Name | Size |\n| --- | --- |\n| a\\|b | 1<br>2 |\n| `c\\|d` |\n");
    assert_eq!(markdown("<table><tr><td>a<td>b</table>"), "|  |  |\n| --- | --- |\n| a | b |\n");
    assert_eq!(markdown("<table><tr><td><h2>a</h2><td><pre>b</pre></table>"), "## a\n\n```\nb\n```\n");
}

#[test]
fn main_content_is_found() {
    for page in [
        "<nav>no</nav><header>no</header><main>yes<nav>no</nav></main><footer>no</footer>",
        "<div>no</div><div role=main>yes</div>",
        "no<article>yes</article>",
        "<header>no</header><div>yes</div><aside>no</aside><div role=navigation>no</div><footer>no</footer><script>no</script>",
        "<p>yes<p hidden>no",
        "<header>yes</header>",
    ] {
        assert_eq!(markdown(page), "yes\n", "{page}");
    }
    assert_eq!(markdown("<article>a</article><article>b</article>"), "a\n\nb\n");
    assert_eq!(markdown(""), "");
}

#[test]
fn text_that_looks_like_markdown_is_escaped() {
    for (text, expected) in [
        ("# a", "\\# a"),
        ("1. a", "1\\. a"),
        ("- a", "\\- a"),
        ("-a 5", "-a 5"),
        ("[a](b)", "\\[a\\](b)"),
        ("&amp;lt;", "\\&lt;"),
        ("a &amp; b &lt; c", "a & b < c"),
        ("~~a~~ a~b", "\\~\\~a\\~\\~ a~b"),
        ("---", "\\---"),
        ("=====", "\\====="),
    ] {
        assert_eq!(markdown(&format!("<p>{text}")).trim_end(), expected, "{text}");
    }
    assert_eq!(
        markdown("<a href='javascript:x()'>a</a> <a href=#b>c</a> <a href=d></a>"),
        "a [c](http://a.test/x/#b)\n"
    );
}

#[test]
fn parts_of_a_text_do_not_become_markup_together() {
    for (html, expected) in [
        ("&lt;<span>script&gt;</span>", "\\<script>"),
        ("&lt;<!---->script&gt;x &lt; y", "\\<script>x < y"),
        ("&amp;<span>lt;</span>", "\\&lt;"),
        ("~<i></i>~a~<i></i>~ ~ b", "\\~\\~a\\~\\~ \\~ b"),
        ("now!<a href=y>see</a>", "now\\![see](http://a.test/x/y)"),
        ("\\!<a href=y>see</a> !<img src=z>", "\\\\\\![see](http://a.test/x/y) !![](http://a.test/x/z)"),
        ("<code>a</code><code>b</code> <code>c</code>", "`a` `b` `c`"),
        ("<b>a</b><b>b</b> <b>c</b><strong>d</strong>", "**ab** **cd**"),
        (
            "<i>a</i><b>b</b><s>c</s><s>d!</s><s><a href=y>e</a></s>",
            "*a***b**~~cd\\![e](http://a.test/x/y)~~",
        ),
        ("<b><code>a</code></b><b><code>b</code></b>c", "**`a` `b`**c"),
    ] {
        assert_eq!(markdown(&format!("<p>{html}")).trim_end(), expected, "{html}");
    }
}

#[test]
fn destinations_contain_no_markup() {
    for (href, expected) in [
        ("mailto:x> <script>alert`1`</script>", "mailto:x%3E%20%3Cscript%3Ealert%601%60%3C/script%3E"),
        ("mailto:a b", "mailto:a%20b"),
        ("?a=`b`|c\\", "http://a.test/x/?a=%60b%60%7Cc%5C"),
        ("(y)", "<http://a.test/x/(y)>"),
    ] {
        assert_eq!(markdown(&format!("<a href='{href}'>a</a>")), format!("[a]({expected})\n"));
    }
}

#[test]
fn every_page_takes_bounded_time_and_memory() {
    for piece in [
        "<div>",
        "<b>",
        "<ul><li>",
        "<ul><li>x",
        "<blockquote>x",
        "<table><tr><td>",
        "<td>",
        "<pre>`",
        "<a href=x>x</a>",
        "<b><i>x",
        "*",
        "<br>x",
        "<li>x",
        "<ol><li><p>x<p>y",
        "<dl><dd>",
        "<table><tr><td>x<td>y",
        "<code>`",
        "<h1>",
        "<img>",
        "<td>|",
        "<p><a>",
    ] {
        let page = piece.repeat(100_000 / piece.len());
        let taken =
            cpu_time(|| assert!(markdown(&page).len() <= 3 * max_result_bytes(page.len()), "{piece}"));
        assert!(taken < Duration::from_secs(5), "{piece:?} took {taken:?}");
    }
    let page = format!("<div class='{}'>{}", "a ".repeat(100_000), "<pre>x</pre>".repeat(5_000));
    let taken = cpu_time(|| assert_eq!(markdown(&page).matches("x").count(), 5_000));
    assert!(taken < Duration::from_secs(5), "a long class took {taken:?}");
}
