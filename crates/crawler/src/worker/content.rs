//! Makes a page of a download: what it says, where it points, and what it can be recognised by.

use std::time::SystemTime;

use url::Url;

use super::download::Download;
use super::links::{self, BadLink, text};
use super::similarity::{Fingerprint, Key};
use crate::media::Media;
use crate::page::Page;
use crate::task::Depth;

/// A page, and what the crawl itself needs of it.
pub struct Content {
    /// What modules see.
    pub page: Page,
    /// What it can be recognised by.
    pub fingerprint: Fingerprint,
    /// Links that lead to no URL one could ask for.
    pub bad_links: Vec<BadLink>,
}

impl Content {
    /// Reads a download, in one pass where it is HTML. Where pages are not compared, they need no sketch.
    pub fn of(key: Key, url: Url, depth: Depth, download: Download, compare: bool) -> Content {
        let headers = download.header_list();
        let Download { status, content_type, media, body, .. } = download;
        let (mut links, mut bad_links) = (Vec::new(), Vec::new());
        let mut found = |target: Result<&str, BadLink>| match target {
            Ok(url) => links.push(url.to_owned()),
            Err(bad) => bad_links.push(bad),
        };
        let content_type = content_type.as_deref();
        let fingerprint = match (media, compare) {
            (Media::Html, true) => {
                Fingerprint::of_html(key, &url, content_type, &body, |_, target| found(target))
            }
            (Media::Text, true) => Fingerprint::of_text(key, content_type, &body),
            (Media::Html, false) => {
                links::each_link(&url, content_type, &body, |_, target| found(target));
                Fingerprint::exact(key, &body)
            }
            (Media::Text, false) => Fingerprint::exact(key, &body),
        };
        let title = if media == Media::Html { text::title(content_type, &body) } else { String::new() };
        let page =
            Page { url, depth, status, headers, media, body, title, links, fetched: SystemTime::now() };
        Content { page, fingerprint, bad_links }
    }
}
