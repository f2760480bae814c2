//! Parses a download into a page: title, links and content fingerprint.

use std::time::SystemTime;

use url::Url;

use crate::fetch::http::Download;
use crate::html::{self, BadLink, LinkKind, PageHandler, text};
use crate::media::Media;
use crate::page::Page;
use crate::similarity::{Fingerprint, HashKey};
use crate::task::Depth;

/// A page, and what the worker needs to know about it.
pub struct ParsedPage {
    /// The page as modules get it.
    pub page: Page,
    /// Identifies duplicates and near-duplicates of its content.
    pub fingerprint: Fingerprint,
    /// Links that do not resolve to a URL that can be fetched.
    pub bad_links: Vec<BadLink>,
}

impl ParsedPage {
    /// Parses a download; HTML in one pass. The fingerprint has a similarity sketch only if
    /// `drop_near_duplicates` is set.
    pub fn new(
        key: HashKey,
        url: Url,
        depth: Depth,
        download: Download,
        drop_near_duplicates: bool,
    ) -> ParsedPage {
        let headers = download.header_list();
        let Download { status, content_type, media, body, truncated, .. } = download;
        let content_type = content_type.as_deref();
        let mut extract = PageExtract::default();
        let fingerprint = match (media, drop_near_duplicates) {
            (Media::Html, true) => Fingerprint::of_html(key, &url, content_type, &body, &mut extract),
            (Media::Text, true) => Fingerprint::of_text(key, content_type, &body),
            (Media::Html, false) => {
                html::read(&url, content_type, &body, &mut extract);
                Fingerprint::exact(key, &body)
            }
            (Media::Text, false) => Fingerprint::exact(key, &body),
        };
        let PageExtract { title, links, bad_links } = extract;
        let title = title.unwrap_or_default();
        let fetched = SystemTime::now();
        let page = Page { url, depth, status, headers, media, body, truncated, title, links, fetched };
        ParsedPage { page, fingerprint, bad_links }
    }
}

/// The title and links of a page.
#[derive(Default)]
struct PageExtract {
    /// The first title, as in browsers.
    title: Option<String>,
    links: Vec<String>,
    bad_links: Vec<BadLink>,
}

impl PageHandler for PageExtract {
    #[inline]
    fn text(&mut self, _: &[u8]) {}

    fn title(&mut self, content: &[u8]) {
        self.title.get_or_insert_with(|| text::title(content));
    }

    fn link(&mut self, _: LinkKind, target: Result<&str, BadLink>) {
        match target {
            Ok(url) => self.links.push(url.to_owned()),
            Err(bad_link) => self.bad_links.push(bad_link),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extract(page: &[u8]) -> PageExtract {
        let mut extract = PageExtract::default();
        html::read(&Url::parse("http://a/").unwrap(), Some("text/html"), page, &mut extract);
        extract
    }

    #[test]
    fn first_html_title_is_the_page_title() {
        let page =
            b"<svg><title>no</title></svg><title>Yes</title><title>nor this</title><a href=x><a href=tel:1>";
        let PageExtract { title, links, bad_links } = extract(page);
        assert_eq!(title.as_deref(), Some("Yes"));
        assert_eq!((links, bad_links), (vec!["http://a/x".to_owned()], vec![BadLink::Scheme]));
        assert_eq!(extract(b"<p>none").title, None);
    }
}
