//! A page as modules see it: what was downloaded, and what was found in it.

use std::borrow::Cow;
use std::time::SystemTime;

use bytes::Bytes;
use url::Url;

use crate::media::Media;
use crate::task::Depth;

/// One kept page.
#[derive(Debug, Clone)]
pub struct Page {
    /// Where it was found, at the end of redirects: normalised, without credentials.
    pub url: Url,
    /// Hops from the nearest seed, as far as known when it was fetched.
    pub depth: Depth,
    /// The HTTP status, 200 for nearly every page.
    pub status: u16,
    /// The headers of the response, names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// HTML or text.
    pub media: Media,
    /// The bytes, content-decoded and otherwise unchanged.
    pub body: Bytes,
    /// The title of an HTML page, as plain text; empty if there is none.
    pub title: String,
    /// Where the page points: normalised URLs in the order of the page, repeats included.
    pub links: Vec<String>,
    /// When it was fetched.
    pub fetched: SystemTime,
}

impl Page {
    /// The Content-Type header, if there was one.
    pub fn content_type(&self) -> Option<&str> {
        self.header("content-type")
    }

    /// The first header of a name, which is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// What the page says to its reader: the visible text of HTML, or the text itself, decoded from its charset.
    pub fn text(&self) -> Cow<'_, str> {
        crate::html::text::visible_text(self.content_type(), self.media, &self.body)
    }
}
