//! Finds the links of a page. HTML is known only here.
//!
//! Three steps: [`scanner`] finds the targets as they stand in the page, this file makes them text, and
//! [`join`] makes them absolute URLs.

use std::borrow::Cow;
use std::fmt;

use encoding_rs::Encoding;
use url::Url;

use charset::Charset;
use scanner::{Element, Sink};
use url_resolver::UrlResolver;

mod attributes;
pub mod charset;
mod raw_text;
pub mod refresh;
pub mod scanner;
pub mod text;
pub mod url_resolver;

pub use attributes::Attributes;

/// The longest URL, in bytes after normalising: servers refuse longer ones, and what grows beyond is usually
/// a trap.
pub const MAX_URL_BYTES: usize = 2_048;

/// The longest target as it stands in the page: white space and character references may make it longer than
/// the URL, but nothing longer than this is worth decoding.
pub const MAX_TARGET_BYTES: usize = 16 * 1024;

/// The number of links after which those of a page are ignored, so that one page cannot fill the queues.
pub const MAX_LINKS: usize = 100_000;

/// What kind of element a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// `<a href>`
    Anchor,
    /// `<area href>`
    Area,
    /// `<frame src>` or `<iframe src>`
    Frame,
    /// `<meta http-equiv=refresh>`
    Refresh,
}

/// Why a target is no URL that could be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BadLink {
    /// It is no URL at all.
    Malformed,
    /// Its scheme is neither http nor https.
    Scheme,
    /// It has a user name or password in it.
    Credentials,
    /// It is longer than [`MAX_URL_BYTES`], or [`MAX_TARGET_BYTES`] in the page.
    TooLong,
    /// It comes after the first [`MAX_LINKS`] of its page.
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

/// An absolute URL in its normal form, by the WHATWG rules and without fragment. Normalising its text again
/// gives the same.
pub fn normalize(text: &str) -> Result<Url, BadLink> {
    url_resolver::parse(None, None, text)
}

/// A target that stands outside of a page, such as a Location header, as [`normalize`] would have it.
pub fn resolve(base: &Url, target: &str) -> Result<Url, BadLink> {
    url_resolver::parse(Some(base), None, target)
}

/// Calls `found` for every link of an HTML page in document order, with the target as a normalised absolute
/// URL without fragment. The text is valid only during the call, because most links of a site are repeats and
/// need no copy.
///
/// `page` is the URL that the page was found at, `content_type` the header that it came with. Credentials in
/// `page` are not handed on to its links.
pub fn each_link(
    page: &Url,
    content_type: Option<&str>,
    body: &[u8],
    mut found: impl FnMut(LinkKind, Result<&str, BadLink>),
) {
    let charset = Charset::new(content_type, body);
    match charset.transcoded() {
        None => Targets::of(body).join(page, &|| charset.encoding(), &|| charset.encoding(), &mut found),
        Some(text) => Targets::of(text.as_bytes()).join(
            page,
            &|| encoding_rs::UTF_8,
            &|| charset.encoding(),
            &mut found,
        ),
    }
}

/// Receives what a page says and where it points.
pub trait PageHandler {
    /// A run of visible text, in document order: UTF-8, what is not valid in it standing for U+FFFD, with
    /// character references not yet decoded. Only markup stands between two runs.
    fn text(&mut self, run: &[u8]);

    /// The title, in the same form and at its place among the text.
    fn title(&mut self, content: &[u8]) {
        self.text(content);
    }

    /// A link, as [`each_link`] would tell it; all of them come after the text.
    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>);
}

/// A reader of nothing but links: a function that is told them.
pub struct LinkHandler<F>(pub F);

impl<F: FnMut(LinkKind, Result<&str, BadLink>)> PageHandler for LinkHandler<F> {
    #[inline]
    fn text(&mut self, _: &[u8]) {}

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        (self.0)(kind, target);
    }
}

/// Tells a reader the text and the links of an HTML page from one pass over it.
pub fn read(page: &Url, content_type: Option<&str>, body: &[u8], reader: &mut impl PageHandler) {
    let charset = Charset::new(content_type, body);
    let text = charset.utf8();
    let mut reading = Reading { targets: Targets::default(), reader };
    scanner::scan(&text, &mut reading);
    let Reading { targets, reader } = reading;
    targets.join(page, &|| encoding_rs::UTF_8, &|| charset.encoding(), &mut |kind, target| {
        reader.link(kind, target);
    });
}

/// Collects the targets of a page while its text goes to the reader.
struct Reading<'r, 'p, R> {
    targets: Targets<'p>,
    reader: &'r mut R,
}

impl<'p, R: PageHandler> Sink<'p> for Reading<'_, 'p, R> {
    #[inline]
    fn element(&mut self, element: Element, attributes: &Attributes<'p>) {
        self.targets.element(element, attributes);
    }

    #[inline]
    fn text(&mut self, run: &'p [u8]) {
        self.reader.text(run);
    }

    fn title(&mut self, content: &'p [u8]) {
        self.reader.title(content);
    }
}

/// The targets of a page as they stand in it.
#[derive(Debug, Default)]
pub struct Targets<'p> {
    /// The `href` of the first `base` that has one.
    pub base: Option<&'p [u8]>,
    /// The links in document order, at most [`MAX_LINKS`]; of a refresh the whole `content`.
    pub links: Vec<(LinkKind, &'p [u8])>,
    /// How many links there are beyond those, which are not looked at.
    pub beyond: usize,
}

impl<'p> Targets<'p> {
    /// The targets of a page in an encoding that agrees with ASCII.
    pub fn of(page: &'p [u8]) -> Self {
        let mut targets = Targets::default();
        scanner::scan(page, &mut targets);
        targets
    }

    fn join(
        &self,
        page: &Url,
        decoding: &dyn Fn() -> &'static Encoding,
        encoding: &dyn Fn() -> &'static Encoding,
        found: &mut impl FnMut(LinkKind, Result<&str, BadLink>),
    ) {
        let base = self.base_url(page, decoding);
        let joiner = UrlResolver::new(&base);
        let mut joined = String::with_capacity(256);
        for &(kind, raw) in &self.links {
            if raw.len() > MAX_TARGET_BYTES {
                found(kind, Err(BadLink::TooLong));
                continue;
            }
            let text = attribute_text(raw, decoding);
            let target = match kind {
                LinkKind::Refresh => refresh::target(&text),
                _ => Some(&*text),
            };
            if let Some(target) = target {
                let result = joiner.join(target, encoding, &mut joined);
                found(kind, result.map(|()| joined.as_str()));
            }
        }
        for _ in 0..self.beyond {
            // Of what kind they are was not kept; nearly all links are anchors.
            found(LinkKind::Anchor, Err(BadLink::TooMany));
        }
    }

    /// What the targets are relative to.
    fn base_url<'u>(&self, page: &'u Url, decoding: &dyn Fn() -> &'static Encoding) -> Cow<'u, Url> {
        let mut page = Cow::Borrowed(page);
        if !page.username().is_empty() || page.password().is_some() {
            let page = page.to_mut();
            // These fail only for URLs that cannot have credentials.
            let _ = page.set_username("");
            let _ = page.set_password(None);
        }
        let href = self.base.filter(|raw| raw.len() <= MAX_TARGET_BYTES);
        let base = href.and_then(|raw| page.join(&attribute_text(raw, decoding)).ok());
        // The standard forbids these two, which could not be the base of anything.
        match base.filter(|base| !matches!(base.scheme(), "data" | "javascript")) {
            Some(base) => Cow::Owned(base),
            None => page,
        }
    }
}

impl<'p> Sink<'p> for Targets<'p> {
    #[inline]
    fn element(&mut self, element: Element, attributes: &Attributes<'p>) {
        let link = match element {
            Element::Anchor => attributes.href.map(|href| (LinkKind::Anchor, href)),
            Element::Area => attributes.href.map(|href| (LinkKind::Area, href)),
            Element::Frame => attributes.src.map(|src| (LinkKind::Frame, src)),
            Element::Meta => refresh_content(attributes).map(|content| (LinkKind::Refresh, content)),
            Element::Base => {
                self.base = self.base.or(attributes.href);
                None
            }
        };
        match link {
            Some(link) if self.links.len() < MAX_LINKS => self.links.push(link),
            Some(_) => self.beyond += 1,
            None => {}
        }
    }
}

fn refresh_content<'p>(attributes: &Attributes<'p>) -> Option<&'p [u8]> {
    let header = attribute_text(attributes.http_equiv?, &|| encoding_rs::UTF_8);
    attributes.content.filter(|_| header.eq_ignore_ascii_case("refresh"))
}

/// The value of an attribute as text: line ends and NULs made uniform and character references decoded as the
/// HTML standard says. `encoding` is asked only for a value that is not ASCII.
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
