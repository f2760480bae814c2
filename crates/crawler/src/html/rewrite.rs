//! Rewrites the URLs in a page, so that a saved copy of it leads to other saved files. Everything else stays as it is.

use std::borrow::Cow;
use std::ops::Range;

use url::Url;

use super::charset::Charset;
use super::references::{MAX_NESTED_DOCUMENTS, RawReference, References};
use super::start_tag::{ReferenceKind, RequisiteKind};
use super::url_resolver::UrlResolver;
use super::{
    BadLink, LinkKind, MAX_TARGET_BYTES, PageContext, attribute_text, css, max_link_bytes, refresh, srcset,
};

/// A URL in a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// A link, a requisite, or another target.
    pub kind: ReferenceKind,
    /// The URL as the page has it, decoded.
    pub target: &'a str,
    /// The URL, normalized and without its fragment.
    pub url: Result<&'a str, BadLink>,
    /// The fragment, as spelled in the page.
    pub fragment: Option<&'a str>,
}

/// A page in which `replacement` has replaced URLs: it returns what is written in place of a URL, which is resolved relative to
/// the saved page, or `None` to leave the URL as it is.
///
/// - The page no longer has a base URL, nor a manifest, which browsers load from servers only.
/// - A Content-Security-Policy has no effect any more, nor do `integrity` and `crossorigin` of elements whose file is saved.
/// - At most 100,000 URLs are replaced in the page, and in each document of a `srcdoc`. What is written in their place has a total length
///   that depends on that of the page, without the escapes of quotes in `srcdoc`.
/// - A page that is not ASCII becomes UTF-8 with a byte order mark, since a saved page has no Content-Type.
pub fn rewrite(
    page: &Url,
    content_type: Option<&str>,
    body: &[u8],
    replacement: &mut dyn FnMut(&Reference) -> Option<String>,
) -> Vec<u8> {
    let charset = Charset::new(content_type, body);
    let text = charset.utf8();
    let (decoding, encoding) = (|| encoding_rs::UTF_8, || charset.encoding());
    let context = PageContext { page, page_bytes: body.len(), decoding: &decoding, encoding: &encoding };
    let references = References::scan(&text);
    let base = references.targets().base_url(page, &decoding);
    let mut rewriter = Rewriter::new(&base, &context, replacement);
    let edits = rewriter.edits(&text, references);
    apply(&text, &edits)
}

/// A stylesheet in which `replacement` has replaced URLs, as in [`rewrite`].
pub fn rewrite_css(
    stylesheet: &Url,
    content_type: Option<&str>,
    body: &[u8],
    replacement: &mut dyn FnMut(&Reference) -> Option<String>,
) -> Vec<u8> {
    let text = css::decode(content_type, body);
    let utf_8 = || encoding_rs::UTF_8;
    let context =
        PageContext { page: stylesheet, page_bytes: body.len(), decoding: &utf_8, encoding: &utf_8 };
    let mut rewriter = Rewriter::new(stylesheet, &context, replacement);
    apply(rewriter.css(&text).as_bytes(), &[])
}

/// The text with the edits, and with a byte order mark unless it is ASCII.
fn apply(text: &[u8], edits: &[Edit]) -> Vec<u8> {
    const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
    let mut rewritten = Vec::with_capacity(text.len() + text.len() / 8);
    let is_ascii = text.is_ascii() && edits.iter().all(|(_, new)| new.is_ascii());
    if !is_ascii && !text.starts_with(BYTE_ORDER_MARK) {
        rewritten.extend_from_slice(BYTE_ORDER_MARK);
    }
    apply_to(&mut rewritten, text, edits);
    rewritten
}

/// Appends the text with the edits.
fn apply_to(rewritten: &mut Vec<u8>, text: &[u8], edits: &[Edit]) {
    let mut copied = 0;
    for (range, new) in edits {
        rewritten.extend_from_slice(&text[copied..range.start]);
        rewritten.extend_from_slice(new.as_bytes());
        copied = range.end;
    }
    rewritten.extend_from_slice(&text[copied..]);
}

/// A part of the text, and what is written in its place.
type Edit = (Range<usize>, String);

struct Rewriter<'a, 'r> {
    base: &'a Url,
    resolver: UrlResolver<'a>,
    context: &'a PageContext<'a>,
    resolved: String,
    replacement: &'r mut dyn FnMut(&Reference) -> Option<String>,
    /// How many bytes may still be written in place of URLs: a short target can become a long one, in many places.
    max_bytes: usize,
    /// How many documents the text is in, with itself.
    nesting: usize,
}

impl<'a, 'r> Rewriter<'a, 'r> {
    fn new(
        base: &'a Url,
        context: &'a PageContext<'a>,
        replacement: &'r mut dyn FnMut(&Reference) -> Option<String>,
    ) -> Self {
        let (resolver, max_bytes) = (UrlResolver::new(base), max_link_bytes(context.page_bytes));
        Rewriter { base, resolver, context, resolved: String::new(), replacement, max_bytes, nesting: 1 }
    }

    /// What is replaced in a document, in its order.
    fn edits(&mut self, text: &[u8], references: References) -> Vec<Edit> {
        let start = text.as_ptr() as usize;
        let position = |value: &[u8]| {
            let at = value.as_ptr() as usize - start;
            at..at + value.len()
        };
        let mut edits: Vec<Edit> = Vec::new();
        let mut remote = None;
        for RawReference { tag, kind, value, .. } in references.found {
            if kind == ReferenceKind::Restriction && remote == Some(tag) {
                continue;
            }
            let new = self.value(kind, value);
            if let ReferenceKind::Requisite(_) = kind {
                remote = new.as_ref().is_none_or(|new| new.contains("://")).then_some(tag);
            }
            if let Some(new) = new {
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
        edits
    }

    /// The document of an `iframe`, which has the base URL of its page. `None` if it stays as it is.
    fn document(&mut self, html: &str) -> Option<String> {
        if self.nesting == MAX_NESTED_DOCUMENTS {
            return None;
        }
        let references = References::scan(html.as_bytes());
        let base = references.targets().base_url(self.base, self.context.decoding);
        let mut nested = Rewriter {
            max_bytes: self.max_bytes,
            nesting: self.nesting + 1,
            ..Rewriter::new(&base, self.context, self.replacement)
        };
        let edits = nested.edits(html.as_bytes(), references);
        self.max_bytes = nested.max_bytes;
        let mut rewritten = Vec::with_capacity(html.len());
        apply_to(&mut rewritten, html.as_bytes(), &edits);
        (!edits.is_empty()).then(|| String::from_utf8_lossy(&rewritten).into_owned())
    }

    /// What is written in place of a value, with quotes if it is that of an attribute.
    fn value(&mut self, kind: ReferenceKind, raw: &[u8]) -> Option<String> {
        let text = || attribute_text(raw, self.context.decoding);
        match kind {
            ReferenceKind::Restriction => Some(format!("data-{}", String::from_utf8_lossy(raw))),
            ReferenceKind::Base | ReferenceKind::Requisite(RequisiteKind::Manifest) => Some(quoted("")),
            ReferenceKind::StyleElement => match self.css(&String::from_utf8_lossy(raw)) {
                Cow::Borrowed(_) => None,
                Cow::Owned(css) => Some(css),
            },
            ReferenceKind::Style => match self.css(&text()) {
                Cow::Borrowed(_) => None,
                Cow::Owned(css) => Some(quoted(&css)),
            },
            ReferenceKind::Srcdoc => self.document(&text()).map(|document| quoted(&document)),
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
        css::replace(css, |url| {
            // A place in the page, whatever its base URL is.
            let is_fragment = url.target.trim_ascii_start().starts_with('#');
            (!is_fragment).then(|| self.target(ReferenceKind::Requisite(url.kind), &url.target)).flatten()
        })
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
        if self.max_bytes == 0 {
            return None;
        }
        let url = match target.len() > MAX_TARGET_BYTES {
            true => Err(BadLink::TooLong),
            false => self.resolver.resolve(target, self.context.encoding, &mut self.resolved),
        };
        let fragment = target.split_once('#').map(|(_, fragment)| fragment.trim_end_matches(|c| c <= ' '));
        let new = (self.replacement)(&Reference {
            kind,
            target,
            url: url.map(|()| self.resolved.as_str()),
            fragment,
        })?;
        let fits = new.len() <= self.max_bytes;
        self.max_bytes = if fits { self.max_bytes - new.len() } else { 0 };
        fits.then_some(new)
    }
}

/// A text as the value of an attribute, in quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('&', "&amp;").replace('"', "&quot;"))
}

#[cfg(test)]
mod tests;
