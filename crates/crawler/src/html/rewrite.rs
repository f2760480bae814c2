//! Rewrites the URLs in a page, so that a saved copy of it leads to other saved files. Everything else stays as it is.

use std::borrow::Cow;
use std::ops::Range;

use url::Url;

use super::attributes::Attributes;
use super::charset::Charset;
use super::scanner::{self, Element, Markup, Sink};
use super::start_tag::{ReferenceKind, RequisiteKind, StartTag};
use super::url_resolver::UrlResolver;
use super::{
    BadLink, LinkKind, MAX_TARGET_BYTES, PageContext, Targets, attribute_text, css, refresh, srcset,
};

/// A URL in a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// A link, a requisite, or another target.
    pub kind: ReferenceKind,
    /// The URL, normalised and without its fragment.
    pub url: Result<&'a str, BadLink>,
    /// The fragment, as spelled in the page.
    pub fragment: Option<&'a str>,
}

/// A page in which `replacement` has replaced URLs: it returns what is written in place of a URL, which is resolved relative to
/// the saved page, or `None` to leave the URL as it is.
///
/// - The page no longer has a base URL.
/// - `integrity`, `crossorigin` and Content-Security-Policy have no effect any more.
/// - A page that is not ASCII becomes UTF-8 with a byte order mark, since a saved page has no Content-Type.
pub fn rewrite(
    page: &Url,
    content_type: Option<&str>,
    body: &[u8],
    replacement: &mut dyn FnMut(&Reference) -> Option<String>,
) -> Vec<u8> {
    let charset = Charset::new(content_type, body);
    let text = charset.utf8();
    let mut values = Values::default();
    scanner::scan(&text, &mut values);
    let (decoding, encoding) = (|| encoding_rs::UTF_8, || charset.encoding());
    let context = PageContext { page, page_bytes: body.len(), decoding: &decoding, encoding: &encoding };
    let targets = Targets { base: values.base, ..Targets::default() };
    let base = targets.base_url(page, &decoding);
    let resolver = UrlResolver::new(&base);
    let mut rewriter = Rewriter { resolver, context: &context, resolved: String::new(), replacement };
    let start = text.as_ptr() as usize;
    let position = |value: &[u8]| {
        let at = value.as_ptr() as usize - start;
        at..at + value.len()
    };
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (kind, value) in values.found {
        if let Some(new) = rewriter.value(kind, value) {
            let mut range = position(value);
            if let Some(b'"' | b'\'') = text.get(range.end)
                && !matches!(kind, ReferenceKind::Restriction | ReferenceKind::StyleElement)
            {
                range = range.start - 1..range.end + 1;
            }
            edits.push((range, new));
        }
    }
    edits.sort_by_key(|(range, _)| range.start);
    apply(&text, &edits)
}

/// The text with the edits, and with a byte order mark unless it is ASCII.
fn apply(text: &[u8], edits: &[(Range<usize>, String)]) -> Vec<u8> {
    const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
    let mut rewritten = Vec::with_capacity(text.len() + text.len() / 8);
    if !text.is_ascii() && !text.starts_with(BYTE_ORDER_MARK) {
        rewritten.extend_from_slice(BYTE_ORDER_MARK);
    }
    let mut copied = 0;
    for (range, new) in edits {
        rewritten.extend_from_slice(&text[copied..range.start]);
        rewritten.extend_from_slice(new.as_bytes());
        copied = range.end;
    }
    rewritten.extend_from_slice(&text[copied..]);
    rewritten
}

struct Rewriter<'a, 'r> {
    resolver: UrlResolver<'a>,
    context: &'a PageContext<'a>,
    resolved: String,
    replacement: &'r mut dyn FnMut(&Reference) -> Option<String>,
}

impl Rewriter<'_, '_> {
    /// What is written in place of a value, with quotes if it is that of an attribute.
    fn value(&mut self, kind: ReferenceKind, raw: &[u8]) -> Option<String> {
        let text = || attribute_text(raw, self.context.decoding);
        match kind {
            ReferenceKind::Restriction => Some(format!("data-{}", String::from_utf8_lossy(raw))),
            ReferenceKind::Base => Some(quoted("")),
            ReferenceKind::StyleElement => match self.css(&String::from_utf8_lossy(raw)) {
                Cow::Borrowed(_) => None,
                Cow::Owned(css) => Some(css),
            },
            ReferenceKind::Style => match self.css(&text()) {
                Cow::Borrowed(_) => None,
                Cow::Owned(css) => Some(quoted(&css)),
            },
            ReferenceKind::Srcset => self.srcset(&text()).map(|srcset| quoted(&srcset)),
            ReferenceKind::Link(LinkKind::Refresh) => {
                let text = text();
                let target = refresh::target(&text)?;
                let start = target.as_ptr() as usize - text.as_ptr() as usize;
                let new = self.target(kind, target)?;
                Some(quoted(&[&text[..start], &new, &text[start + target.len()..]].concat()))
            }
            ReferenceKind::Link(_) | ReferenceKind::Other | ReferenceKind::Requisite(_) => {
                let text = text();
                self.target(kind, &text).map(|new| quoted(&new))
            }
        }
    }

    fn css<'c>(&mut self, css: &'c str) -> Cow<'c, str> {
        css::replace(css, |url| self.target(ReferenceKind::Requisite(url.kind), &url.target))
    }

    fn srcset(&mut self, srcset: &str) -> Option<String> {
        let (mut rewritten, mut copied) = (String::new(), 0);
        srcset::each_url(srcset, |range| {
            let kind = ReferenceKind::Requisite(RequisiteKind::Image);
            if let Some(new) = self.target(kind, &srcset[range.clone()]) {
                rewritten.push_str(&srcset[copied..range.start]);
                rewritten.push_str(&new.replace(' ', "%20").replace(',', "%2C"));
                copied = range.end;
            }
        });
        rewritten.push_str(&srcset[copied..]);
        (copied > 0).then_some(rewritten)
    }

    fn target(&mut self, kind: ReferenceKind, target: &str) -> Option<String> {
        let url = match target.len() > MAX_TARGET_BYTES {
            true => Err(BadLink::TooLong),
            false => self.resolver.resolve(target, self.context.encoding, &mut self.resolved),
        };
        let fragment = target.split_once('#').map(|(_, fragment)| fragment.trim_end_matches(|c| c <= ' '));
        (self.replacement)(&Reference { kind, url: url.map(|()| self.resolved.as_str()), fragment })
    }
}

/// A text as the value of an attribute, in quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('&', "&amp;").replace('"', "&quot;"))
}

/// The values of a page that refer to other files, undecoded.
#[derive(Default)]
struct Values<'p> {
    base: Option<&'p [u8]>,
    found: Vec<(ReferenceKind, &'p [u8])>,
}

impl<'p> Sink<'p> for Values<'p> {
    const WANTS_MARKUP: bool = true;

    fn element(&mut self, element: Element, attributes: &Attributes<'p>) {
        if element == Element::Base {
            self.base = self.base.or(attributes.href);
        }
    }

    fn markup(&mut self, markup: Markup<'p>) {
        if let Some(tag) = StartTag::parse(&markup) {
            tag.each_reference(|kind, value| self.found.push((kind, value)));
        }
        let style = StartTag::style(&markup);
        self.found.extend(style.map(|content| (ReferenceKind::StyleElement, content)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn page_in_another_encoding_becomes_utf_8() {
        let page = Url::parse("http://h.test/").unwrap();
        let body = b"<meta charset=iso-8859-1><a href='?\xE9'>\xE9</a>";
        let mut urls = Vec::new();
        let rewritten = rewrite(&page, None, body, &mut |reference| {
            urls.push(reference.url.unwrap().to_owned());
            Some("é".into())
        });
        assert_eq!(urls, ["http://h.test/?%E9"], "the server expects the encoding of the page");
        assert_eq!(
            String::from_utf8(rewritten).unwrap(),
            "\u{FEFF}<meta charset=iso-8859-1><a href=\"é\">é</a>"
        );
    }
}
