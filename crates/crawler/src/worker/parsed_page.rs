//! Parses a download into a page: title, links and content fingerprint.

use std::time::SystemTime;

use url::Url;

use crate::config::FetchConfig;
use crate::fetch::http::Download;
use crate::fetch::robots::directives::RobotsDirectives;
use crate::html::{self, BadLink, LinkKind, PageHandler, text};
use crate::media::Media;
use crate::page::Page;
use crate::similarity::{Fingerprint, HashKey, Threshold};
use crate::strip_query::StripQuery;
use crate::task::Depth;
use crate::url_list::UrlList;

/// A page, and what the worker needs to know about it.
pub struct ParsedPage {
    /// The page as modules get it.
    pub page: Page,
    /// Identifies duplicates and near-duplicates of its content.
    pub fingerprint: Fingerprint,
    /// Links that do not resolve to a URL that can be fetched.
    pub bad_links: Vec<BadLink>,
    /// The indexes of the page's links that are marked with `rel=nofollow`, in ascending order.
    pub nofollow_links: Vec<usize>,
}

impl ParsedPage {
    /// Parses a download; HTML in one pass. The fingerprint has what pages are compared by under this
    /// threshold, or nothing if they are not compared. The configuration names the crawler to which
    /// robots directives are addressed, and the query parameters to remove from links.
    pub fn new(
        key: HashKey,
        url: Url,
        depth: Depth,
        download: Download,
        similarity: Option<Threshold>,
        config: &FetchConfig,
    ) -> ParsedPage {
        let product_token = config.product_token();
        let robots = download.robots_directives(product_token);
        let Download { status, content_type, media, body, truncated, headers, .. } = download;
        let content_type = content_type.as_deref();
        let mut extract = PageExtract::new(robots, product_token, &config.strip_query);
        let fingerprint = read_page(key, &url, content_type, media, &body, similarity, &mut extract);
        let PageExtract { title, links, bad_links, nofollow_links, robots, .. } = extract;
        let (title, fetched) = (title.unwrap_or_default(), SystemTime::now());
        let page =
            Page { url, depth, status, headers, media, body, truncated, title, robots, links, fetched };
        ParsedPage { page, fingerprint, bad_links, nofollow_links }
    }
}

/// Reads a page once: collects its title and links, and hashes what pages are compared by.
fn read_page(
    key: HashKey,
    url: &Url,
    content_type: Option<&str>,
    media: Media,
    body: &[u8],
    similarity: Option<Threshold>,
    extract: &mut PageExtract,
) -> Fingerprint {
    match (media, similarity) {
        (Media::Html, None) => {
            html::read_links(url, content_type, body, extract);
            Fingerprint::not_compared()
        }
        (Media::Text, None) => Fingerprint::not_compared(),
        (Media::Html, Some(threshold)) if threshold.is_exact() => {
            Fingerprint::exact_html(key, url, content_type, body, extract)
        }
        (Media::Text, Some(threshold)) if threshold.is_exact() => Fingerprint::exact(key, body),
        (Media::Html, Some(_)) => Fingerprint::of_html(key, url, content_type, body, extract),
        (Media::Text, Some(_)) => Fingerprint::of_text(key, content_type, body),
    }
}

/// The title, links and robots directives of a page.
struct PageExtract<'t> {
    product_token: &'t str,
    strip_query: &'t StripQuery,
    /// The first title, as in browsers.
    title: Option<String>,
    robots: RobotsDirectives,
    links: UrlList,
    bad_links: Vec<BadLink>,
    nofollow_links: Vec<usize>,
}

impl<'t> PageExtract<'t> {
    /// Nothing yet, beyond the robots directives of the headers.
    fn new(robots: RobotsDirectives, product_token: &'t str, strip_query: &'t StripQuery) -> PageExtract<'t> {
        PageExtract {
            product_token,
            strip_query,
            title: None,
            robots,
            links: UrlList::default(),
            bad_links: Vec::new(),
            nofollow_links: Vec::new(),
        }
    }
}

impl PageHandler for PageExtract<'_> {
    #[inline]
    fn text(&mut self, _: &[u8]) {}

    fn title(&mut self, content: &[u8]) {
        self.title.get_or_insert_with(|| text::title(content));
    }

    fn wants_title(&self) -> bool {
        true
    }

    fn robots_meta(&mut self, name: &str, content: &str) {
        self.robots.add_meta(name, content, self.product_token);
    }

    fn expect_links(&mut self, count: usize) {
        self.links.reserve(count);
    }

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        match target {
            Ok(url) => {
                if kind.is_nofollow() {
                    self.nofollow_links.push(self.links.len());
                }
                self.links.push(&self.strip_query.strip(url));
            }
            Err(bad_link) => self.bad_links.push(bad_link),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extract<'c>(page: &[u8], strip_query: &'c StripQuery) -> PageExtract<'c> {
        extract_as("text/html", page, strip_query)
    }

    /// What is found in a page, whether its text is read or not.
    fn extract_as<'c>(content_type: &str, page: &[u8], strip_query: &'c StripQuery) -> PageExtract<'c> {
        let [mut with_text, mut without] =
            [(); 2].map(|()| PageExtract::new(RobotsDirectives::default(), "mybot", strip_query));
        let url = Url::parse("http://a/").unwrap();
        html::read(&url, Some(content_type), page, &mut with_text);
        html::read_links(&url, Some(content_type), page, &mut without);
        assert_eq!((&with_text.title, &with_text.links), (&without.title, &without.links));
        assert_eq!(with_text.robots, without.robots);
        without
    }

    #[test]
    fn title_is_decoded_from_the_encoding_of_the_page() {
        let strip_nothing = StripQuery::default();
        for (content_type, page) in [
            ("text/html; charset=windows-1251", &b"<title>\xCF\xF0&amp;</title>"[..]),
            ("text/html", b"<meta charset=windows-1251><title>\xCF\xF0&amp;</title><a href=x>\xCF"),
            ("text/html; charset=utf-8", "<title>Пр&amp;</title>".as_bytes()),
            ("text/html; charset=utf-16be", b"\0<\0t\0i\0t\0l\0e\0>\x04\x1F\x04\x40\0&"),
        ] {
            let title = extract_as(content_type, page, &strip_nothing).title;
            assert_eq!(title.as_deref(), Some("Пр&"), "{content_type}");
        }
    }

    #[test]
    fn links_have_no_parameters_that_are_to_be_removed() {
        let strip_query = StripQuery::new(&["tracking"]).unwrap();
        let links = extract(b"<a href='x?utm_source=y&amp;z=1'><a href=w?>", &strip_query).links;
        assert_eq!(links.iter().collect::<Vec<_>>(), ["http://a/x?z=1", "http://a/w"]);
    }

    #[test]
    fn body_is_hashed_only_if_pages_are_compared() {
        let (key, url) = (HashKey::new(1), Url::parse("http://a/").unwrap());
        let fingerprint = |media, similarity| {
            let strip_nothing = StripQuery::default();
            let mut extract = PageExtract::new(RobotsDirectives::default(), "mybot", &strip_nothing);
            let body = b"<a href=x>some text";
            let fingerprint = read_page(key, &url, None, media, body, similarity, &mut extract);
            assert_eq!(extract.links.len(), usize::from(media == Media::Html));
            fingerprint
        };
        for media in [Media::Html, Media::Text] {
            assert_eq!(fingerprint(media, None), Fingerprint::not_compared());
            for similarity in [0.9, 1.0] {
                assert_ne!(fingerprint(media, Threshold::new(similarity)).exact, 0);
            }
        }
    }

    #[test]
    fn first_html_title_is_the_page_title() {
        let page =
            b"<svg><title>no</title></svg><title>Yes</title><title>nor this</title><a href=x><a href=tel:1>";
        let strip_nothing = StripQuery::default();
        let PageExtract { title, links, bad_links, .. } = extract(page, &strip_nothing);
        assert_eq!(title.as_deref(), Some("Yes"));
        assert_eq!((links, bad_links), (["http://a/x"].iter().collect(), vec![BadLink::Scheme]));
        assert_eq!(extract(b"<p>none", &strip_nothing).title, None);
    }

    #[test]
    fn nofollow_is_read_from_meta_elements_and_from_links() {
        let page = b"<meta name=Robots content='NOINDEX'><meta name=otherbot content=none>\
            <a href=a><a href=b rel='me NoFollow'><a href=tel:1 rel=nofollow><area href=c rel=nofollow><a href=d rel=nofollows>";
        let strip_nothing = StripQuery::default();
        let PageExtract { robots, links, nofollow_links, .. } = extract(page, &strip_nothing);
        assert_eq!(robots.names().collect::<Vec<_>>(), ["noindex"]);
        assert_eq!((links.len(), nofollow_links), (4, vec![1, 2]));
        let own = extract(b"<meta name=mybot content=nofollow>", &strip_nothing).robots;
        assert!(own.nofollow && !own.noindex);
    }
}
