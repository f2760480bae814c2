//! A fetched page, as modules receive it.

use std::borrow::Cow;
use std::time::SystemTime;

use bytes::Bytes;
use url::Url;

use crate::fetch::robots::directives::RobotsDirectives;
use crate::media::Media;

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
    /// The response headers in their order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// HTML or text.
    pub media: Media,
    /// The body after content decoding, otherwise unchanged.
    pub body: Bytes,
    /// The title of an HTML page as plain text; empty if it has none.
    pub title: String,
    /// What the page asks of crawlers. The crawl follows the links of a `nofollow` page only if it ignores robots.txt.
    pub robots: RobotsDirectives,
    /// The links of the page as normalized URLs, in document order, with repetitions.
    pub links: Vec<String>,
    /// When it was fetched.
    pub fetched: SystemTime,
}

impl Page {
    /// The Content-Type header.
    pub fn content_type(&self) -> Option<&str> {
        self.header("content-type")
    }

    /// The first header with this name, which must be in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The visible text of an HTML page, or the whole of a text page, decoded from its charset.
    pub fn text(&self) -> Cow<'_, str> {
        crate::html::text::visible_text(self.content_type(), self.media, &self.body)
    }
}
