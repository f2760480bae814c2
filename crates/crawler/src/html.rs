//! Extracts the links and the text of an HTML page. HTML is known only here.
//!
//! Links are extracted in three steps: [`scanner`] finds the raw attribute values, this file decodes them to text, and
//! [`url_resolver`] resolves them to absolute URLs.

use std::borrow::Cow;
use std::fmt;

use encoding_rs::Encoding;
use url::Url;

use charset::Charset;
use parts::{LinkDetail, PageParts, PartsSink, RawParts};
use scanner::{Element, Sink};
use start_tag::RequisiteKind;
use url_resolver::UrlResolver;

mod attributes;
pub mod charset;
pub mod css;
mod foreign;
pub mod head;
#[cfg(feature = "net")]
pub mod markdown;
pub mod normal_form;
pub mod parts;
mod raw_text;
mod references;
pub mod refresh;
pub mod rewrite;
pub mod scanner;
#[cfg(feature = "net")]
pub mod selector;
pub mod srcset;
pub mod start_tag;
pub mod text;
#[cfg(feature = "net")]
pub mod tree;
pub mod url_resolver;

pub use attributes::Attributes;

/// Maximum length of a normalized URL, in bytes. Many servers reject longer URLs, and longer ones are mostly crawler
/// traps.
pub const MAX_URL_BYTES: usize = 2_048;

/// Maximum length of a link target in the page, in bytes. White space and character references can make it longer than
/// the URL, but a longer target is not worth decoding.
pub const MAX_TARGET_BYTES: usize = 16 * 1024;

/// Maximum number of links of a page, so that one page cannot fill the queues.
pub const MAX_LINKS: usize = 100_000;

/// Maximum total length of a page's links as resolved URLs, and of their texts if those are wanted. A base URL of 2,000 bytes
/// would otherwise turn a page of 430 KB into 64 MB of URLs, and one of 50 MB into gigabytes. On documentation sites they take
/// up to 1.3 bytes per byte of the page.
fn max_link_bytes(page_bytes: usize) -> usize {
    let of_small_page = SMALL_PAGE_LINK_BYTES + 8 * page_bytes;
    of_small_page.min(64 * 1024 + 4 * page_bytes).min(MAX_LINK_BYTES)
}

/// What the links of a small page may take beyond a multiple of its size. A page of 2 KB with a hundred links below a base of a
/// hundred bytes needs it, and hostile ones cannot make a crawl write more than some ten times what it reads.
const SMALL_PAGE_LINK_BYTES: usize = 8 * 1024;

/// The most link bytes of a page of any size: 80 bytes for each of [`MAX_LINKS`].
const MAX_LINK_BYTES: usize = 8_000_000;

/// How many link bytes a target takes that is not a URL to fetch: resolving it took time, too.
fn failed_link_bytes(bad_link: BadLink, target: &str) -> usize {
    if bad_link == BadLink::TooLong { target.len().max(MAX_URL_BYTES) } else { target.len() }
}

/// Number of links to reserve memory for.
const COMMON_LINKS: usize = 128;

/// Each link counts with the length of the page's own URL beyond this one: a list of edges repeats it for each link.
const COMMON_URL_BYTES: usize = 64;

/// Maximum number of `meta` elements of a page that may be robots directives. Pages have a few.
const MAX_ROBOTS_METAS: usize = 1_000;

/// The kind of element a link comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// `<a href>`
    Anchor,
    /// `<a href rel=nofollow>`
    NofollowAnchor,
    /// `<area href>`
    Area,
    /// `<area href rel=nofollow>`
    NofollowArea,
    /// `<frame src>` or `<iframe src>`
    Frame,
    /// `<meta http-equiv=refresh>`
    Refresh,
}

impl LinkKind {
    /// Whether the link is marked with `rel=nofollow`.
    pub fn is_nofollow(self) -> bool {
        matches!(self, LinkKind::NofollowAnchor | LinkKind::NofollowArea)
    }

    /// The name of the kind: `a`, `area`, `frame` or `refresh`.
    pub fn name(self) -> &'static str {
        match self {
            LinkKind::Anchor | LinkKind::NofollowAnchor => "a",
            LinkKind::Area | LinkKind::NofollowArea => "area",
            LinkKind::Frame => "frame",
            LinkKind::Refresh => "refresh",
        }
    }
}

/// Why a link target cannot be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "net", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum BadLink {
    /// It is not a valid URL.
    Malformed,
    /// Its scheme is neither http nor https.
    Scheme,
    /// It contains a user name or password.
    Credentials,
    /// It is longer than [`MAX_URL_BYTES`], or longer than [`MAX_TARGET_BYTES`] in the page.
    TooLong,
    /// It comes after the first [`MAX_LINKS`] of its page, or the links before it take too many bytes as URLs.
    TooMany,
}

impl fmt::Display for BadLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadLink::Malformed => "not a URL",
            BadLink::Scheme => "neither http nor https",
            BadLink::Credentials => "a user name or password in the URL",
            BadLink::TooLong => "URL too long",
            BadLink::TooMany => "too many links on the page",
        })
    }
}

impl std::error::Error for BadLink {}

/// Parses an absolute URL by the WHATWG URL standard and brings it into its [normal form](normal_form::normalize).
pub fn normalize(text: &str) -> Result<Url, BadLink> {
    url_resolver::parse(None, None, text)
}

/// Resolves and normalizes a target that is not from a page, such as a Location header.
pub fn resolve(base: &Url, target: &str) -> Result<Url, BadLink> {
    url_resolver::parse(Some(base), None, target)
}

/// A measure of the time that [`resolve`] takes for international names of hosts: at most some 30,000, which is tens of microseconds.
#[cfg(feature = "net")]
pub(crate) fn idna_cost(base: &Url, target: &str) -> usize {
    url_resolver::idna_cost(base, target)
}

/// Calls `on_link` for every link of an HTML page in document order, with the target as a normalized absolute URL
/// without fragment. The text is borrowed for the call only, because most links of a site are repeats that need no
/// copy.
///
/// `page` is the URL of the page, `content_type` its Content-Type header. Links do not inherit credentials in `page`.
pub fn each_link(
    page: &Url,
    content_type: Option<&str>,
    body: &[u8],
    on_link: impl FnMut(LinkKind, Result<&str, BadLink>),
) {
    read_links(page, content_type, body, &mut LinkHandler(on_link));
}

/// Passes the title, the robots `meta` elements and the links of an HTML page to a handler, but not the text. The page is
/// not decoded as a whole, and mostly its encoding need not be known.
pub fn read_links(page: &Url, content_type: Option<&str>, body: &[u8], handler: &mut impl PageHandler) {
    let charset = Charset::new(content_type, body);
    let encoding = || charset.encoding();
    let context = PageContext { page, page_bytes: body.len(), decoding: &encoding, encoding: &encoding };
    match charset.transcoded() {
        None => Targets::scan(body).pass_to(handler, None, &context),
        Some(text) => {
            let context = PageContext { decoding: &|| encoding_rs::UTF_8, ..context };
            Targets::scan(text.as_bytes()).pass_to(handler, None, &context);
        }
    }
}

/// What decides how the values of a page are decoded and resolved.
struct PageContext<'a> {
    /// The URL of the page.
    page: &'a Url,
    page_bytes: usize,
    /// The encoding of the bytes that were scanned.
    decoding: &'a dyn Fn() -> &'static Encoding,
    /// The encoding of the page, in which the queries of its links are encoded.
    encoding: &'a dyn Fn() -> &'static Encoding,
}

/// Receives the text and the links of a page.
pub trait PageHandler {
    /// A run of visible text between two tags or comments, in document order: UTF-8, where invalid bytes mean U+FFFD,
    /// with undecoded character references.
    fn text(&mut self, run: &[u8]);

    /// The title, in the same form and in document order with the text.
    fn title(&mut self, content: &[u8]) {
        self.text(content);
    }

    /// Whether [`read_links`] passes the title.
    fn wants_title(&self) -> bool {
        false
    }

    /// The name and the content of a `meta` element that may contain robots directives, after the text.
    fn robots_meta(&mut self, _name: &str, _content: &str) {}

    /// The number of links that follow, as far as it is known.
    fn expect_links(&mut self, _: usize) {}

    /// The parts that it wants, which cost time. [`read_links`] passes none.
    fn wanted_parts(&self) -> PageParts {
        PageParts::default()
    }

    /// The details of the next link, if they are wanted and the link has a target.
    fn link_detail(&mut self, _detail: LinkDetail) {}

    /// The details of a link that does not resolve to a URL, if details are wanted, with the start of its target, without
    /// what may be a password.
    fn bad_link_detail(&mut self, _bad_link: BadLink, _target: &str, _detail: LinkDetail) {}

    /// A file that the page needs, if they are wanted. They follow after the links.
    fn requisite(&mut self, _kind: RequisiteKind, _target: Result<&str, BadLink>) {}

    /// The label of the requisite before, if it has one and link details are wanted.
    fn requisite_label(&mut self, _label: &str) {}

    /// The name of a place in the page, if they are wanted; `None` if there are names that are too long, or too many.
    fn id(&mut self, _id: Option<&str>) {}

    /// A link, as in [`each_link`]. All links follow after the text and the robots directives.
    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>);

    /// A link to a place in the page itself, such as `#top`. Its target is the URL of the page.
    fn link_to_itself(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        self.link(kind, target);
    }
}

impl<H: PageHandler + ?Sized> PageHandler for &mut H {
    #[inline]
    fn text(&mut self, run: &[u8]) {
        (**self).text(run);
    }

    fn title(&mut self, content: &[u8]) {
        (**self).title(content);
    }

    fn wants_title(&self) -> bool {
        (**self).wants_title()
    }

    fn robots_meta(&mut self, name: &str, content: &str) {
        (**self).robots_meta(name, content);
    }

    fn expect_links(&mut self, count: usize) {
        (**self).expect_links(count);
    }

    fn wanted_parts(&self) -> PageParts {
        (**self).wanted_parts()
    }

    fn link_detail(&mut self, detail: LinkDetail) {
        (**self).link_detail(detail);
    }

    fn bad_link_detail(&mut self, bad_link: BadLink, target: &str, detail: LinkDetail) {
        (**self).bad_link_detail(bad_link, target, detail);
    }

    fn requisite(&mut self, kind: RequisiteKind, target: Result<&str, BadLink>) {
        (**self).requisite(kind, target);
    }

    fn requisite_label(&mut self, label: &str) {
        (**self).requisite_label(label);
    }

    fn id(&mut self, id: Option<&str>) {
        (**self).id(id);
    }

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        (**self).link(kind, target);
    }

    fn link_to_itself(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        (**self).link_to_itself(kind, target);
    }
}

/// A handler that ignores the text and calls a function with each link.
pub struct LinkHandler<F>(pub F);

impl<F: FnMut(LinkKind, Result<&str, BadLink>)> PageHandler for LinkHandler<F> {
    #[inline]
    fn text(&mut self, _: &[u8]) {}

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        (self.0)(kind, target);
    }
}

/// Passes the text and the links of an HTML page to a handler, scanning the page once.
pub fn read(page: &Url, content_type: Option<&str>, body: &[u8], handler: &mut impl PageHandler) {
    let charset = Charset::new(content_type, body);
    let text = charset.utf8();
    let wanted = handler.wanted_parts();
    let mut sink = PageSink { targets: Targets::new(), handler };
    let (PageSink { targets, handler }, parts) = if wanted.any() {
        let mut sink = PartsSink::new(sink, wanted);
        scanner::scan(&text, &mut sink);
        (sink.page, Some(sink.parts))
    } else {
        scanner::scan(&text, &mut sink);
        (sink, None)
    };
    let (decoding, encoding) = (|| encoding_rs::UTF_8, || charset.encoding());
    let context = PageContext { page, page_bytes: body.len(), decoding: &decoding, encoding: &encoding };
    targets.pass_to(handler, parts.as_ref(), &context);
}

/// Collects the link targets of a page and passes its text to the handler.
struct PageSink<'h, 'p, H> {
    targets: Targets<'p>,
    handler: &'h mut H,
}

impl<'p, H: PageHandler> Sink<'p> for PageSink<'_, 'p, H> {
    #[inline]
    fn element(&mut self, element: Element, attributes: &Attributes<'p>) {
        self.targets.element(element, attributes);
    }

    #[inline]
    fn text(&mut self, run: &'p [u8]) {
        self.handler.text(run);
    }

    fn title(&mut self, content: &'p [u8]) {
        self.handler.title(content);
    }
}

/// The link targets of a page, undecoded.
#[derive(Debug, Default)]
pub struct Targets<'p> {
    /// The `href` of the first `base` that has one.
    pub base: Option<&'p [u8]>,
    /// The links in document order, at most [`MAX_LINKS`]; for a refresh the complete `content`.
    pub links: Vec<(LinkKind, &'p [u8])>,
    /// Number of links after the first [`MAX_LINKS`].
    pub excess: usize,
    /// The content of the first `title`.
    pub title: Option<&'p [u8]>,
    /// `name` and `content` of `meta` elements that may contain robots directives.
    pub robots_metas: Vec<(&'p [u8], &'p [u8])>,
}

impl<'p> Targets<'p> {
    /// No targets yet, with room for the links of a common page.
    fn new() -> Self {
        Targets { links: Vec::with_capacity(COMMON_LINKS), ..Targets::default() }
    }

    /// Scans a page in an ASCII-compatible encoding.
    pub fn scan(page: &'p [u8]) -> Self {
        let mut targets = Targets::new();
        scanner::scan(page, &mut targets);
        targets
    }

    fn pass_to(&self, handler: &mut impl PageHandler, parts: Option<&RawParts>, context: &PageContext) {
        let PageContext { page, page_bytes, decoding, encoding } = *context;
        if let Some(title) = self.title.filter(|_| handler.wants_title()) {
            match title.is_ascii() {
                true => handler.title(title),
                false => handler.title(decoding().decode_without_bom_handling(title).0.as_bytes()),
            }
        }
        for &(name, content) in &self.robots_metas {
            handler.robots_meta(&attribute_text(name, decoding), &attribute_text(content, decoding));
        }
        handler.expect_links(self.links.len());
        let mut max_bytes = max_link_bytes(page_bytes);
        let base = self.base_url(page, decoding);
        let resolver = UrlResolver::new(&base);
        let mut resolved = String::with_capacity(256);
        let mut details = parts.filter(|_| handler.wanted_parts().link_details).map(RawParts::link_details);
        for (index, &(kind, raw)) in self.links.iter().enumerate() {
            if max_bytes == 0 || raw.len() > MAX_TARGET_BYTES {
                handler.link(kind, Err(if max_bytes == 0 { BadLink::TooMany } else { BadLink::TooLong }));
                continue;
            }
            let text = attribute_text(raw, decoding);
            let target = match kind {
                LinkKind::Refresh => refresh::target(&text),
                _ => Some(&*text),
            };
            if let Some(target) = target {
                let mut result = resolver.resolve(target, encoding, &mut resolved);
                match result {
                    Ok(()) => {
                        let bytes = resolved.len() + page.as_str().len().saturating_sub(COMMON_URL_BYTES);
                        result = if bytes <= max_bytes { Ok(()) } else { Err(BadLink::TooMany) };
                        max_bytes = max_bytes.saturating_sub(bytes);
                    }
                    Err(bad_link) => {
                        max_bytes = max_bytes.saturating_sub(failed_link_bytes(bad_link, target))
                    }
                }
                if let Some(details) = &mut details {
                    match result {
                        Ok(()) => {
                            handler.link_detail(details.detail(index, kind, target, context, &mut max_bytes));
                        }
                        Err(BadLink::Scheme | BadLink::TooMany) => {}
                        Err(bad_link) => {
                            let start = parts::start_of(target, &mut max_bytes);
                            let detail = details.detail(index, kind, "", context, &mut max_bytes);
                            handler.bad_link_detail(bad_link, &start, detail);
                        }
                    }
                }
                let result = result.map(|()| resolved.as_str());
                match self.base.is_none() && matches!(target.trim_ascii().as_bytes(), [] | [b'#', ..]) {
                    true => handler.link_to_itself(kind, result),
                    false => handler.link(kind, result),
                }
            }
        }
        for _ in 0..self.excess {
            // Their kind is not stored; nearly all links are anchors.
            handler.link(LinkKind::Anchor, Err(BadLink::TooMany));
        }
        if let Some(parts) = parts {
            parts.pass_to(handler, &resolver, context);
        }
    }

    /// The base URL of the targets.
    fn base_url<'u>(&self, page: &'u Url, decoding: &dyn Fn() -> &'static Encoding) -> Cow<'u, Url> {
        let mut page = Cow::Borrowed(page);
        if !page.username().is_empty() || page.password().is_some() {
            let page = page.to_mut();
            // These fail only on URLs that cannot have credentials.
            let _ = page.set_username("");
            let _ = page.set_password(None);
        }
        let href = self.base.filter(|raw| raw.len() <= MAX_TARGET_BYTES);
        let base = href.and_then(|raw| url_resolver::parse_base(&page, &attribute_text(raw, decoding)));
        base.map_or(page, Cow::Owned)
    }
}

impl<'p> Sink<'p> for Targets<'p> {
    #[inline]
    fn element(&mut self, element: Element, attributes: &Attributes<'p>) {
        let link = match element {
            Element::Anchor => attributes.href.map(|href| match is_nofollow(attributes) {
                false => (LinkKind::Anchor, href),
                true => (LinkKind::NofollowAnchor, href),
            }),
            Element::Area => attributes.href.map(|href| match is_nofollow(attributes) {
                false => (LinkKind::Area, href),
                true => (LinkKind::NofollowArea, href),
            }),
            Element::Frame => attributes.src.map(|src| (LinkKind::Frame, src)),
            Element::Meta => {
                if self.robots_metas.len() < MAX_ROBOTS_METAS {
                    self.robots_metas.extend(robots_meta(attributes));
                }
                refresh_content(attributes).map(|content| (LinkKind::Refresh, content))
            }
            Element::Base => {
                self.base = self.base.or(attributes.href);
                None
            }
        };
        match link {
            Some(link) if self.links.len() < MAX_LINKS => self.links.push(link),
            Some(_) => self.excess += 1,
            None => {}
        }
    }

    fn title(&mut self, content: &'p [u8]) {
        self.title.get_or_insert(content);
    }
}

fn refresh_content<'p>(attributes: &Attributes<'p>) -> Option<&'p [u8]> {
    let header = attribute_text(attributes.http_equiv?, &|| encoding_rs::UTF_8);
    attributes.content.filter(|_| header.eq_ignore_ascii_case("refresh"))
}

/// `name` and `content` of a `meta` element, if they may be robots directives: all that restrict a crawler start with "no".
fn robots_meta<'p>(attributes: &Attributes<'p>) -> Option<(&'p [u8], &'p [u8])> {
    let (name, content) = (attributes.name?, attributes.content?);
    let is_short = name.len() <= MAX_TARGET_BYTES && content.len() <= MAX_TARGET_BYTES;
    // A character reference may stand for a letter.
    let may_restrict = |pair: &[u8]| pair.eq_ignore_ascii_case(b"no") || pair[0] == b'&';
    (is_short && content.windows(2).any(may_restrict)).then_some((name, content))
}

fn is_nofollow(attributes: &Attributes) -> bool {
    attributes.rel.is_some_and(|rel| {
        let rel = attribute_text(&rel[..rel.len().min(MAX_TARGET_BYTES)], &|| encoding_rs::UTF_8);
        rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("nofollow"))
    })
}

/// Decodes the value of an attribute by the HTML standard: encoding, line ends, NULs and character references.
/// `encoding` is called only for a value that is not ASCII.
pub fn attribute_text<'p>(raw: &'p [u8], encoding: &dyn Fn() -> &'static Encoding) -> Cow<'p, str> {
    let mut text = match std::str::from_utf8(raw) {
        Ok(text) if raw.is_ascii() => Cow::Borrowed(text),
        _ => encoding().decode_without_bom_handling(raw).0,
    };
    if memchr::memchr3(b'&', b'\r', b'\0', text.as_bytes()).is_none() {
        return text;
    }
    if text.contains(['\r', '\0']) {
        text = Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "\u{FFFD}"));
    }
    htmlize::unescape_attribute(text)
}

#[cfg(test)]
mod tests;
