//! A fetched page, as modules receive it.

use std::borrow::Cow;
use std::time::SystemTime;

use bytes::Bytes;
use hyper::HeaderMap;
use url::Url;

use crate::fetch::robots::directives::RobotsDirectives;
use crate::html::parts::LinkDetail;
use crate::html::start_tag::RequisiteKind;
use crate::html::{BadLink, head};
use crate::media::Media;
use crate::scope::RejectReason;
use crate::url_list::UrlList;
use crate::url_record::{Discovery, RequestRecord};

/// A fetched page, as [modules](crate::Module) and [streams](crate::Crawler::pages) receive it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Page {
    /// The URL it was fetched from, after redirects: normalized, without credentials.
    pub url: Url,
    /// The number of links between the nearest seed and this page, as known when it was fetched.
    pub depth: u32,
    /// The HTTP status code.
    pub status: u16,
    pub(crate) headers: HeaderMap,
    /// The kind of content: HTML, text, or another accepted type.
    pub media: Media,
    /// The body after content decoding, otherwise unchanged.
    pub body: Bytes,
    /// Whether the page was larger than the [maximum size](crate::Crawler::max_page_bytes), and `body` is its start.
    pub truncated: bool,
    /// The title of an HTML page as plain text; empty if it has none.
    pub title: String,
    /// The directives of the page for crawlers. The crawl follows the links of a `nofollow` page only if it ignores robots.txt.
    pub robots: RobotsDirectives,
    /// The links of the page as normalized URLs, in document order, with repetitions.
    pub links: UrlList,
    /// The URL of the page, sitemap or robots.txt on which it was found first; if redirects led to it, on which the first of
    /// them was found. `None` for a seed.
    pub found_on: Option<String>,
    /// The URLs that redirected to it, first to last.
    pub redirects: Vec<String>,
    /// When it was requested.
    pub requested: SystemTime,
    /// When its response started.
    pub first_byte: SystemTime,
    /// When it was fetched: its response was complete.
    pub fetched: SystemTime,
    /// When it was last modified, if a sitemap that was read before says so.
    pub lastmod: Option<SystemTime>,
    /// The number of its version: 1 when modules get it first, and one more each time they get it again.
    pub version: u32,
    /// Whether it differs from the version before; false for the first version, and for a page that was gone and returned
    /// unchanged.
    pub changed: bool,
    /// The details of the links, in the same order. Empty unless a module or output
    /// [wants](crate::modules::BuiltinOutput::wants) them.
    pub(crate) link_details: Vec<LinkDetail>,
    /// The files that a browser loads to show the page, if they are wanted.
    pub(crate) requisites: PageRequisites,
    /// The names of places in the page, if they are wanted.
    pub(crate) ids: PageIds,
    /// The links that are not requested, if an output checks links.
    pub(crate) not_requested: NotRequested,
}

/// Links and requisites that are not requested: the index of each, and why, in ascending order.
#[derive(Debug, Clone, Default)]
pub struct NotRequested {
    /// Of the links.
    pub links: Vec<(usize, RejectReason)>,
    /// Of the requisites.
    pub requisites: Vec<(usize, RejectReason)>,
    /// Links that do not resolve to a URL: why, the start of each target without what may be a password, and what else the page
    /// says about it.
    pub bad_links: Vec<(BadLink, String, LinkDetail)>,
    /// Whether the page has more links than are read.
    pub is_incomplete: bool,
}

/// The files that a browser loads to show a page, as normalized URLs in document order, with repetitions.
#[derive(Debug, Clone, Default)]
pub struct PageRequisites {
    urls: UrlList,
    kinds: Vec<RequisiteKind>,
    /// The labels of those that have one, by ascending index.
    labels: Vec<(usize, String)>,
}

impl PageRequisites {
    pub(crate) fn push(&mut self, kind: RequisiteKind, url: &str) {
        self.urls.push(url);
        self.kinds.push(kind);
    }

    /// Gives the last one a label.
    pub(crate) fn label_last(&mut self, label: &str) {
        self.labels.push((self.kinds.len().saturating_sub(1), label.to_owned()));
    }

    /// The label of one that has one: the `aria-label`, `alt` or `title` of its element, if link details are wanted.
    pub fn label(&self, index: usize) -> Option<&str> {
        let found = self.labels.binary_search_by_key(&index, |(labelled, _)| *labelled).ok()?;
        Some(&self.labels[found].1)
    }

    /// The URLs, and what they are needed for.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (RequisiteKind, &str)> {
        self.kinds.iter().copied().zip(self.urls.iter())
    }
}

/// The names of places in a page, to which links can lead: `id` attributes and the names of anchors, in document order.
#[derive(Debug, Clone, Default)]
pub struct PageIds {
    pub(crate) names: UrlList,
    /// Whether names are missing: they are too long, or too many.
    pub is_incomplete: bool,
}

impl PageIds {
    /// The names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter()
    }
}

impl Page {
    /// Sets how the page was found, and when it was fetched.
    pub(crate) fn set_origin(&mut self, discovery: Option<&Discovery>, request: &RequestRecord) {
        if let Some(Discovery { found_on, redirects }) = discovery {
            self.found_on.clone_from(found_on);
            self.redirects.clone_from(redirects);
        }
        self.fetched = request.done.unwrap_or(self.fetched);
        self.first_byte = request.first_byte.unwrap_or(self.fetched);
        self.requested = request.requested.unwrap_or(self.first_byte);
    }

    /// The Content-Type header.
    pub(crate) fn content_type(&self) -> Option<Cow<'_, str>> {
        self.header("content-type")
    }

    /// The language that the page declares, otherwise the one of its Content-Language header, if that is one.
    pub(crate) fn language(&self) -> Option<String> {
        let header = || self.header("content-language");
        declared_language(self.media, self.content_type().as_deref(), header, &self.body)
    }

    /// The first response header with this name.
    pub fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()))
    }

    /// The response headers, with names in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
    }

    /// The visible text of an HTML page, or the whole of a text page, decoded from its charset.
    pub fn text(&self) -> Cow<'_, str> {
        crate::html::text::visible_text(self.content_type().as_deref(), self.media, &self.body)
    }
}

/// The language that a page declares, otherwise the one of its Content-Language header, if that is one.
pub(crate) fn declared_language<'h>(
    media: Media,
    content_type: Option<&str>,
    header: impl FnOnce() -> Option<Cow<'h, str>>,
    body: &[u8],
) -> Option<String> {
    let declared = match media {
        Media::Html => head::language(content_type, body),
        _ => None,
    };
    let language = declared.or_else(|| Some(header()?.trim().to_owned()))?;
    (!language.is_empty() && !language.contains(',')).then_some(language)
}
