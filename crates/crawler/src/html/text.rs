//! Extracts the visible text and the title of a page, decoded.

use std::borrow::Cow;

use super::attributes::{Attributes, Name, VOID};
use super::charset::Charset;
use super::scanner::{self, Element, Markup, Sink};
use crate::media::Media;

/// The visible text of an HTML page, or the content of a text page.
///
/// Each block of an HTML page, such as a paragraph, a list item or a table cell, is a line. White space is one space, and there
/// are no empty lines. Only the lines of a `pre` are as in the page, but for the blanks at their ends and for repeated empty
/// lines. The result has at most three times the bytes of the page.
pub fn visible_text<'p>(content_type: Option<&str>, media: Media, body: &'p [u8]) -> Cow<'p, str> {
    let charset = Charset::new(content_type, body);
    match media {
        Media::Other => Cow::Borrowed(""),
        Media::Text => charset.encoding().decode(body).0,
        Media::Html => {
            let page = charset.utf8();
            let mut sink = TextSink::default();
            scanner::scan(&page, &mut sink);
            Cow::Owned(sink.lines.into_text())
        }
    }
}

/// Decodes a title or the text of a link, from UTF-8 with character references, and joins it into one line.
pub fn one_line(content: &[u8]) -> String {
    let text = decode(content);
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Decodes a run of text, from UTF-8 with character references.
pub(super) fn decode(run: &[u8]) -> Cow<'_, str> {
    htmlize::unescape(String::from_utf8_lossy(run))
}

#[cfg(feature = "net")]
/// Decodes the content of an element whose content is no markup. Only that of a `title` or `textarea` has character references.
pub(super) fn decode_raw<'r>(name: &[u8], content: &'r [u8]) -> Cow<'r, str> {
    match Name::new(name) {
        Name::TITLE | Name::TEXTAREA => decode(content),
        _ => String::from_utf8_lossy(content),
    }
}

/// Builds the text of a page from its runs and the limits of its blocks.
#[derive(Debug, Default)]
pub(super) struct TextLines {
    text: String,
    /// What separates the next word from the text before it.
    gap: Gap,
    /// Blanks after the last word of a line of a `pre`, which count only if a word follows.
    blanks: String,
    /// Whether the current block is a `pre` that has text already.
    is_in_pre: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    EmptyLine,
}

impl TextLines {
    /// Starts or ends a block.
    pub(super) fn end_block(&mut self) {
        self.gap = Gap::Line;
        self.blanks.clear();
        self.is_in_pre = false;
    }

    /// Appends a run of text, in which white space is one space.
    pub(super) fn push(&mut self, run: &str) {
        let mut words = run.split_whitespace();
        if run.starts_with(char::is_whitespace) {
            self.gap = self.gap.max(Gap::Space);
        }
        let Some(first) = words.next() else { return };
        self.push_word(first);
        for word in words {
            self.gap = Gap::Space;
            self.push_word(word);
        }
        if run.ends_with(char::is_whitespace) {
            self.gap = Gap::Space;
        }
    }

    /// Appends a run of text whose lines and blanks count.
    pub(super) fn push_preformatted(&mut self, run: &str) {
        for (index, line) in run.split('\n').enumerate() {
            if index > 0 {
                self.end_preformatted_line();
            }
            let words = line.trim_end();
            if words.is_empty() {
                self.blanks.push_str(line.trim_end_matches('\r'));
                continue;
            }
            let blanks = std::mem::take(&mut self.blanks);
            // Those at the start of a line are its indentation.
            self.push_word("");
            self.text.push_str(&blanks);
            self.text.push_str(words);
            self.blanks.push_str(&line[words.len()..]);
            self.is_in_pre = true;
        }
    }

    fn end_preformatted_line(&mut self) {
        self.blanks.clear();
        // Empty lines before the first line do not count.
        if self.is_in_pre {
            self.gap = if self.gap >= Gap::Line { Gap::EmptyLine } else { Gap::Line };
        }
    }

    fn push_word(&mut self, word: &str) {
        if !self.text.is_empty() {
            self.text.push_str(match self.gap {
                Gap::None => "",
                Gap::Space => " ",
                Gap::Line => "\n",
                Gap::EmptyLine => "\n\n",
            });
        }
        self.gap = Gap::None;
        self.text.push_str(word);
    }

    #[cfg(feature = "net")]
    /// The number of bytes so far.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Whether an element is a block, with text of its own lines: those of the HTML standard, and table cells.
pub(super) fn is_block(name: &[u8]) -> bool {
    match Name::new(name) {
        Name::LONG => {
            [&b"blockquote"[..], b"figcaption"].iter().any(|block| name.eq_ignore_ascii_case(block))
        }
        name => BLOCKS.contains(&name),
    }
}

#[rustfmt::skip]
const BLOCKS: [Name; 51] = Name::all([
    b"p", b"div", b"li", b"td", b"th", b"tr", b"br", b"h1", b"h2", b"h3", b"h4", b"h5", b"h6", b"pre", b"dt", b"dd",
    b"ul", b"ol", b"dl", b"table", b"thead", b"tbody", b"tfoot", b"caption", b"section", b"article", b"aside", b"nav",
    b"main", b"header", b"footer", b"figure", b"form", b"fieldset", b"legend", b"details", b"summary", b"dialog",
    b"address", b"hr", b"body", b"html", b"hgroup", b"menu", b"dir", b"center", b"option", b"optgroup", b"listing",
    b"noscript", b"search",
]);

/// Elements whose end tag may be left out. The end of a hidden one is not known without a tree.
#[rustfmt::skip]
const OPTIONAL_END: [Name; 16] = Name::all([
    b"p", b"li", b"dt", b"dd", b"td", b"th", b"tr", b"tbody", b"thead", b"tfoot", b"caption", b"colgroup", b"option",
    b"optgroup", b"rp", b"rt",
]);

/// Collects the text of a page in UTF-8.
#[derive(Default)]
struct TextSink<'p> {
    lines: TextLines,
    /// Number of open `pre` elements.
    pres: u32,
    /// The outermost element that has the attribute `hidden`, and how many elements of its name are open in it.
    hidden: Option<(&'p [u8], u32)>,
}

impl<'p> Sink<'p> for TextSink<'p> {
    const WANTS_MARKUP: bool = true;

    fn element(&mut self, _: Element, _: &Attributes<'p>) {}

    fn text(&mut self, run: &'p [u8]) {
        if self.hidden.is_some() || run.is_empty() {
            return;
        }
        match self.pres {
            0 => self.lines.push(&decode(run)),
            _ => self.lines.push_preformatted(&decode(run)),
        }
    }

    fn markup(&mut self, markup: Markup<'p>) {
        let (name, is_start) = match markup {
            Markup::Start { name, .. } => (name, true),
            Markup::End(name) => (name, false),
            Markup::Raw { .. } => return,
        };
        if let Some((hidden, open)) = &mut self.hidden {
            if name.eq_ignore_ascii_case(hidden) {
                *open = if is_start { *open + 1 } else { *open - 1 };
                if *open == 0 {
                    self.hidden = None;
                }
            }
            return;
        }
        if is_block(name) {
            self.lines.end_block();
        }
        if Name::new(name) == Name::PRE {
            self.pres = if is_start { self.pres + 1 } else { self.pres.saturating_sub(1) };
        }
        if let Markup::Start { attributes, is_empty: false, .. } = markup
            && attributes.value(Name::HIDDEN).is_some()
            && !OPTIONAL_END.contains(&Name::new(name))
            && !VOID.contains(&Name::new(name))
        {
            self.hidden = Some((name, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_time::cpu_time;
    use std::time::Duration;

    fn text(page: &str) -> String {
        visible_text(Some("text/html; charset=utf-8"), Media::Html, page.as_bytes()).into_owned()
    }

    #[test]
    fn each_block_is_a_line() {
        let page = "<title>No</title><h1> One </h1>\n\n<p>two\n three<b>fou</b>r<br>five&nbsp;&nbsp;&amp; six<ul><li>a<li>b</ul>\
            <table><tr><td>x<td>y</table>last<script>no()</script><style>no</style><!-- no --><template>no</template>";
        assert_eq!(text(page), "One\ntwo threefour\nfive & six\na\nb\nx\ny\nlast");
        assert_eq!(text("<p> \n <p>\t</p><div><blockquote>a</BLOCKQUOTE></div> b"), "a\nb");
        assert_eq!(text(" a <i> b </i> c "), "a b c");
        assert_eq!(text(""), "");
    }

    #[test]
    fn lines_of_pre_are_kept() {
        let page = "<p>before<pre>\n\n  if x:  \n\t<b>y</b> = 1\r\n\n\n\n  z\n\n</pre> after  it";
        assert_eq!(text(page), "before\n  if x:\n\ty = 1\n\n  z\nafter it");
        assert_eq!(text("<pre>a</pre><pre>b\n</pre>"), "a\nb");
        assert_eq!(text("<pre>a <i>  b</i>\n<i> </i>c"), "a   b\n c");
    }

    #[test]
    fn hidden_elements_are_left_out() {
        let page = "a<div hidden>no<div>no</div>no<p>no</div>b<span hidden>no</span>c<p hidden>kept<p>d<input hidden>e";
        assert_eq!(text(page), "a\nbc\nkept\nde");
        for name in
            ["embed", "area", "base", "col", "link", "meta", "param", "track", "wbr", "rt", "colgroup"]
        {
            assert_eq!(text(&format!("a<{name} hidden='true'>b")), "ab");
        }
        assert_eq!(text("<noscript>without scripts</noscript>"), "without scripts");
    }

    #[test]
    fn text_of_a_text_page_is_unchanged() {
        assert_eq!(visible_text(None, Media::Text, b"<p> stays"), "<p> stays");
    }

    #[test]
    fn text_is_decoded_from_its_charset() {
        let text =
            |content_type, body: &[u8]| visible_text(Some(content_type), Media::Html, body).into_owned();
        assert_eq!(text("text/html; charset=iso-8859-1", b"<p>caf\xE9"), "café");
        assert_eq!(text("text/html; charset=utf-16le", b"<\0p\0>\0h\0i\0"), "hi");
        assert_eq!(text("text/html; charset=utf-8", b"<p>\xFF&#128512;"), "\u{fffd}😀");
    }

    #[test]
    fn every_page_takes_linear_time_and_memory() {
        for piece in [
            "<p>",
            "<pre>",
            "<pre> ",
            "<pre>\n",
            "\n ",
            "<div hidden>",
            "</pre> x",
            "&amp;",
            "\u{ff}",
            "<pre>a \n\n",
            "<b>x ",
        ] {
            let page = piece.repeat(500_000 / piece.len());
            let taken = cpu_time(|| assert!(text(&page).len() <= 3 * page.len()));
            assert!(taken < Duration::from_secs(2), "{piece:?} took {taken:?}");
        }
    }

    #[test]
    fn title_is_one_line() {
        assert_eq!(one_line(b"\n A &lt;fine&gt;\n title "), "A <fine> title");
        assert_eq!(one_line(b"caf\xC3\xA9 \xFF"), "caf\u{e9} \u{fffd}");
        assert_eq!(one_line(b""), "");
    }
}
