//! Makes a page of a download: what it says, where it points, and what it can be recognised by.

use std::time::SystemTime;

use url::Url;

use crate::fetch::http::Download;
use crate::html::{self, BadLink, LinkKind, PageHandler, text};
use crate::media::Media;
use crate::page::Page;
use crate::similarity::{Fingerprint, HashKey};
use crate::task::Depth;

/// A page, and what the crawl itself needs of it.
pub struct ParsedPage {
    /// What modules see.
    pub page: Page,
    /// What it can be recognised by.
    pub fingerprint: Fingerprint,
    /// Links that lead to no URL one could ask for.
    pub bad_links: Vec<BadLink>,
}

impl ParsedPage {
    /// Reads a download, in one pass where it is HTML. Where pages are not compared, they need no sketch.
    pub fn of(key: HashKey, url: Url, depth: Depth, download: Download, compare: bool) -> ParsedPage {
        let headers = download.header_list();
        let Download { status, content_type, media, body, .. } = download;
        let content_type = content_type.as_deref();
        let mut found = PageExtract::default();
        let fingerprint = match (media, compare) {
            (Media::Html, true) => Fingerprint::of_html(key, &url, content_type, &body, &mut found),
            (Media::Text, true) => Fingerprint::of_text(key, content_type, &body),
            (Media::Html, false) => {
                html::read(&url, content_type, &body, &mut found);
                Fingerprint::exact(key, &body)
            }
            (Media::Text, false) => Fingerprint::exact(key, &body),
        };
        let PageExtract { title, links, bad_links } = found;
        let title = title.unwrap_or_default();
        let page =
            Page { url, depth, status, headers, media, body, title, links, fetched: SystemTime::now() };
        ParsedPage { page, fingerprint, bad_links }
    }
}

/// What is found in a page besides its words.
#[derive(Default)]
struct PageExtract {
    /// The first one wins, as in browsers.
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
            Err(bad) => self.bad_links.push(bad),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &[u8]) -> PageExtract {
        let mut found = PageExtract::default();
        html::read(&Url::parse("http://a/").unwrap(), Some("text/html"), page, &mut found);
        found
    }

    #[test]
    fn the_title_is_the_first_one_of_the_page_itself() {
        let page =
            b"<svg><title>no</title></svg><title>Yes</title><title>nor this</title><a href=x><a href=tel:1>";
        let PageExtract { title, links, bad_links } = found(page);
        assert_eq!(title.as_deref(), Some("Yes"));
        assert_eq!((links, bad_links), (vec!["http://a/x".to_owned()], vec![BadLink::Scheme]));
        assert_eq!(found(b"<p>none").title, None);
    }
}
