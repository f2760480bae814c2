//! Extracts the links of a page in callback mode: `link:` words or HTML anchors.

use super::workers::FindLinks;
use crate::html::{LinkKind, each_link, normalize};
use memchr::memmem;
use std::borrow::Cow;
use url::Url;

/// What counts as a link on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkRule {
    /// A word that starts with `link:`, at the start of the text or after white space. Spaces and tabs after the colon
    /// are skipped. The target is everything up to the next white space (space, tab, line feed, vertical tab, form feed,
    /// carriage return). An empty target is not a link. Targets are opaque bytes: case-sensitive, of any length, not
    /// necessarily UTF-8, never processed as URLs.
    #[default]
    Words,
    /// The `href` of an HTML `a` element, resolved against the page's own link (and its `base` element, if it has one),
    /// normalized, without the fragment.
    ///
    /// These are not links, and give no edge: URLs with another scheme than http or https, such as `mailto:`; URLs with a
    /// user name or password; URLs of more than 2,048 bytes when normalized, or 16 KiB on the page; everything after
    /// 100,000 links on one page (`area`, `frame`, `iframe` and refreshes count), or after links that as URLs take more
    /// than 64 KiB and four times the size of the page. If a page's own link is not an absolute
    /// http or https URL, only its absolute links count.
    ///
    /// The start link is normalized too, so that it is recognized when it is found again. The encoding of a page comes
    /// from its byte order mark, or else its `meta` element, or else a guess. It matters for links that are not ASCII:
    /// as in browsers, the path becomes UTF-8 and the query stays in the page's encoding, both percent-encoded.
    Html,
}

const LINK_WORD: &[u8] = b"link:";

impl LinkRule {
    /// The scanner for pages that are bytes.
    pub(super) fn in_bytes(self) -> FindLinks {
        match self {
            LinkRule::Words => words,
            LinkRule::Html => |page, text, found| anchors(page, None, text, found),
        }
    }

    /// The scanner for pages that are text: they are UTF-8, whatever they declare.
    pub(super) fn in_text(self) -> FindLinks {
        match self {
            LinkRule::Words => words,
            LinkRule::Html => {
                |page, text, found| anchors(page, Some("text/html; charset=utf-8"), text, found)
            }
        }
    }

    /// The start link in the form in which a page would contain it, so that it is not fetched twice.
    pub(super) fn start(self, link: &[u8]) -> Cow<'_, [u8]> {
        match self {
            LinkRule::Words => Cow::Borrowed(link),
            LinkRule::Html => match str::from_utf8(link).map(normalize) {
                Ok(Ok(url)) => Cow::Owned(String::from(url).into_bytes()),
                _ => Cow::Borrowed(link),
            },
        }
    }
}

/// The `link:` rule.
fn words(_page: &[u8], text: &[u8], found: &mut dyn FnMut(&[u8])) {
    let finder = memmem::Finder::new(LINK_WORD);
    let mut at = 0;
    while let Some(distance) = finder.find(&text[at..]) {
        let word = at + distance;
        at = word + LINK_WORD.len();
        if word > 0 && !is_white_space(text[word - 1]) {
            continue;
        }
        let start = end_of(text, at, |byte| matches!(byte, b' ' | b'\t'));
        at = end_of(text, start, |byte| !is_white_space(byte));
        if start < at {
            found(&text[start..at]);
        }
    }
}

/// The HTML rule.
fn anchors(page: &[u8], content_type: Option<&str>, text: &[u8], found: &mut dyn FnMut(&[u8])) {
    let base = str::from_utf8(page).ok().and_then(|page| Url::parse(page).ok());
    let base = base.filter(|base| matches!(base.scheme(), "http" | "https")).unwrap_or_else(no_base);
    each_link(&base, content_type, text, |kind, target| {
        if let (LinkKind::Anchor | LinkKind::NofollowAnchor, Ok(target)) = (kind, target) {
            found(target.as_bytes());
        }
    });
}

/// A URL that nothing can be resolved against.
fn no_base() -> Url {
    Url::parse("about:blank").expect("a valid URL")
}

/// The end of the run of `within` bytes that begins at `start`.
fn end_of(text: &[u8], start: usize, within: impl Fn(u8) -> bool) -> usize {
    text[start..].iter().position(|&byte| !within(byte)).map_or(text.len(), |length| start + length)
}

/// Like `isspace` in the C locale, which includes the vertical tab, unlike `is_ascii_whitespace`.
fn is_white_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
