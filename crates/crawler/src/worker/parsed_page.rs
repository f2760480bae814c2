//! Parses a download into a page: title, links and content fingerprint.

use std::time::SystemTime;

use url::Url;

use crate::fetch::http::Download;
use crate::html::{self, BadLink, LinkKind, PageHandler, text};
use crate::media::Media;
use crate::page::Page;
use crate::similarity::{Fingerprint, HashKey};
use crate::strip_query::StripQuery;
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
        strip_query: &StripQuery,
    ) -> ParsedPage {
        let headers = download.header_list();
        let Download { status, content_type, media, body, .. } = download;
        let content_type = content_type.as_deref();
        let mut extract = PageExtract::new(strip_query);
        let fingerprint = match (media, drop_near_duplicates) {
            (Media::Html, true) => Fingerprint::of_html(key, &url, content_type, &body, &mut extract),
            (Media::Text, true) => Fingerprint::of_text(key, content_type, &body),
            (Media::Html, false) => {
                html::read(&url, content_type, &body, &mut extract);
                Fingerprint::exact(key, &body)
            }
            (Media::Text, false) => Fingerprint::exact(key, &body),
        };
        let PageExtract { title, links, bad_links, .. } = extract;
        let title = title.unwrap_or_default();
        let page =
            Page { url, depth, status, headers, media, body, title, links, fetched: SystemTime::now() };
        ParsedPage { page, fingerprint, bad_links }
    }
}

/// The title and links of a page.
struct PageExtract<'c> {
    strip_query: &'c StripQuery,
    /// The first title, as in browsers.
    title: Option<String>,
    links: Vec<String>,
    bad_links: Vec<BadLink>,
}

impl PageExtract<'_> {
    fn new(strip_query: &StripQuery) -> PageExtract<'_> {
        PageExtract { strip_query, title: None, links: Vec::new(), bad_links: Vec::new() }
    }
}

impl PageHandler for PageExtract<'_> {
    #[inline]
    fn text(&mut self, _: &[u8]) {}

    fn title(&mut self, content: &[u8]) {
        self.title.get_or_insert_with(|| text::title(content));
    }

    fn link(&mut self, _: LinkKind, target: Result<&str, BadLink>) {
        match target {
            Ok(url) => self.links.push(self.strip_query.strip(url).into_owned()),
            Err(bad_link) => self.bad_links.push(bad_link),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extract(page: &[u8], strip_query: &StripQuery) -> (Option<String>, Vec<String>, Vec<BadLink>) {
        let mut extract = PageExtract::new(strip_query);
        html::read(&Url::parse("http://a/").unwrap(), Some("text/html"), page, &mut extract);
        (extract.title, extract.links, extract.bad_links)
    }

    #[test]
    fn links_have_no_parameters_that_are_to_be_removed() {
        let strip_query = StripQuery::new(&["tracking"]).unwrap();
        let (_, links, _) = extract(b"<a href='x?utm_source=y&amp;z=1'><a href=w?>", &strip_query);
        assert_eq!(links, ["http://a/x?z=1", "http://a/w"]);
    }

    #[test]
    fn first_html_title_is_the_page_title() {
        let page =
            b"<svg><title>no</title></svg><title>Yes</title><title>nor this</title><a href=x><a href=tel:1>";
        let (title, links, bad_links) = extract(page, &StripQuery::default());
        assert_eq!(title.as_deref(), Some("Yes"));
        assert_eq!((links, bad_links), (vec!["http://a/x".to_owned()], vec![BadLink::Scheme]));
        assert_eq!(extract(b"<p>none", &StripQuery::default()).0, None);
    }
}
