//! Extracts the visible text and the title of a page, decoded.

use std::borrow::Cow;

use encoding_rs::Encoding;

use super::attributes::Attributes;
use super::charset::Charset;
use super::scanner::{self, Element, Sink};
use crate::media::Media;

/// The visible text of an HTML page, with a space in place of markup, or the content of a text page.
pub fn visible_text<'p>(content_type: Option<&str>, media: Media, body: &'p [u8]) -> Cow<'p, str> {
    let charset = Charset::new(content_type, body);
    match media {
        Media::Text => charset.encoding().decode(body).0,
        Media::Html => match charset.transcoded() {
            Some(text) => Cow::Owned(TextSink::scan(text.as_bytes(), encoding_rs::UTF_8).text),
            None => Cow::Owned(TextSink::scan(body, charset.encoding()).text),
        },
    }
}

/// Decodes a title or the text of a link, from UTF-8 with character references, and joins it into one line.
pub fn one_line(content: &[u8]) -> String {
    let text = htmlize::unescape(String::from_utf8_lossy(content));
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

struct TextSink {
    encoding: &'static Encoding,
    text: String,
}

impl TextSink {
    fn scan(page: &[u8], encoding: &'static Encoding) -> TextSink {
        let mut sink = TextSink { encoding, text: String::new() };
        scanner::scan(page, &mut sink);
        sink
    }

    fn decode<'r>(&self, run: &'r [u8]) -> Cow<'r, str> {
        htmlize::unescape(self.encoding.decode_without_bom_handling(run).0)
    }
}

impl<'p> Sink<'p> for TextSink {
    fn element(&mut self, _: Element, _: &Attributes<'p>) {}

    fn text(&mut self, run: &'p [u8]) {
        let run = self.decode(run);
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(&run);
    }

    fn title(&mut self, _: &'p [u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_what_a_browser_shows() {
        let page = b"<title>No</title><p>One&nbsp;&amp; <b>two</b><script>no()</script><!-- no --><p>three";
        let text = visible_text(Some("text/html"), Media::Html, page);
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["One", "&", "two", "three"]);
        assert_eq!(visible_text(None, Media::Text, b"<p> stays"), "<p> stays");
    }

    #[test]
    fn text_is_decoded_from_its_charset() {
        let text =
            |content_type, body: &[u8]| visible_text(Some(content_type), Media::Html, body).trim().to_owned();
        assert_eq!(text("text/html; charset=iso-8859-1", b"<p>caf\xE9"), "café");
        assert_eq!(text("text/html; charset=utf-16le", b"<\0p\0>\0h\0i\0"), "hi");
    }

    #[test]
    fn title_is_one_line() {
        assert_eq!(one_line(b"\n A &lt;fine&gt;\n title "), "A <fine> title");
        assert_eq!(one_line(b"caf\xC3\xA9 \xFF"), "caf\u{e9} \u{fffd}");
        assert_eq!(one_line(b""), "");
    }
}
