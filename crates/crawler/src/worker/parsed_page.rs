//! Parses a download into a page: title, links and content fingerprint.

use std::time::SystemTime;

use url::Url;

use crate::config::FetchConfig;
use crate::fetch::http::Download;
use crate::fetch::robots::directives::RobotsDirectives;
use crate::html::parts::{self, LinkDetail, PageParts};
use crate::html::start_tag::RequisiteKind;
use crate::html::{self, BadLink, LinkKind, PageHandler, text};
use crate::media::Media;
use crate::page::{NotRequested, Page, PageIds, PageRequisites};
use crate::similarity::{Fingerprint, HashKey, Threshold};
use crate::strip_query::{StripLinks, StripQuery};
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
    /// Requisites that cannot be fetched, other than those that are part of the page, as `data:` URLs are.
    pub bad_requisites: Vec<BadLink>,
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
        wanted: PageParts,
        config: &FetchConfig,
    ) -> ParsedPage {
        let product_token = config.product_token();
        let mut extract = PageExtract::new(download.robots_directives(product_token), product_token);
        extract.wanted = wanted;
        let Download { content_type, media, body, .. } = &download;
        let page = RawPage { url: &url, content_type: content_type.as_deref(), media: *media, body };
        let fingerprint = page.read(key, &config.strip_query, similarity, &mut extract);
        ParsedPage::with(url, depth, download, fingerprint, extract)
    }

    /// A file that is not parsed: it has no links, and is not compared.
    pub(crate) fn unparsed(url: Url, depth: Depth, download: Download, config: &FetchConfig) -> ParsedPage {
        let product_token = config.product_token();
        let extract = PageExtract::new(download.robots_directives(product_token), product_token);
        ParsedPage::with(url, depth, download, Fingerprint::not_compared(), extract)
    }

    fn with(
        url: Url,
        depth: Depth,
        download: Download,
        fingerprint: Fingerprint,
        extract: PageExtract,
    ) -> ParsedPage {
        let Download { status, media, body, truncated, headers, .. } = download;
        let PageExtract { title, links, bad_links, nofollow_links, bad_requisites, robots, .. } = extract;
        let PageExtract { link_details, bad_link_details, requisites, ids, .. } = extract;
        let (title, fetched) = (title.unwrap_or_default(), SystemTime::now());
        let not_requested = NotRequested { bad_links: bad_link_details, ..NotRequested::default() };
        let page = Page {
            url,
            depth,
            status,
            headers,
            media,
            body,
            truncated,
            title,
            robots,
            links,
            found_on: None,
            redirects: Vec::new(),
            requested: fetched,
            first_byte: fetched,
            fetched,
            lastmod: None,
            version: 1,
            changed: false,
            link_details,
            requisites,
            ids,
            not_requested,
        };
        ParsedPage { page, fingerprint, bad_links, nofollow_links, bad_requisites }
    }
}

/// The files that a stylesheet refers to.
pub(crate) fn stylesheet_requisites(page: &Page, strip_query: &StripQuery) -> PageRequisites {
    let mut extract = PageExtract::new(RobotsDirectives::default(), "");
    let content_type = page.content_type();
    let mut handler = StripLinks::new(strip_query, &mut extract);
    parts::read_stylesheet(&page.url, content_type.as_deref(), &page.body, &mut handler);
    extract.requisites
}

/// A page as it was downloaded.
struct RawPage<'p> {
    url: &'p Url,
    content_type: Option<&'p str>,
    media: Media,
    body: &'p [u8],
}

impl RawPage<'_> {
    /// Reads the page once: collects its title and links, and hashes what pages are compared by.
    fn read(
        &self,
        key: HashKey,
        strip_query: &StripQuery,
        similarity: Option<Threshold>,
        extract: &mut PageExtract,
    ) -> Fingerprint {
        let RawPage { url, content_type, media, body } = *self;
        match (media, similarity) {
            (Media::Other, None) => Fingerprint { exact: 0, ..Fingerprint::of_other(key, &[]) },
            (Media::Other, Some(_)) => Fingerprint::of_other(key, body),
            (Media::Html, None) => {
                let read = if extract.wanted.any() { html::read } else { html::read_links };
                read(url, content_type, body, &mut StripLinks::new(strip_query, extract));
                Fingerprint::not_compared()
            }
            (Media::Text, None) => Fingerprint::not_compared(),
            (Media::Html, Some(threshold)) if threshold.is_exact() => {
                Fingerprint::exact_html(key, strip_query, url, content_type, body, extract)
            }
            (Media::Text, Some(threshold)) if threshold.is_exact() => Fingerprint::exact(key, body),
            (Media::Html, Some(_)) => {
                Fingerprint::of_html(key, strip_query, url, content_type, body, extract)
            }
            (Media::Text, Some(_)) => Fingerprint::of_text(key, content_type, body),
        }
    }
}

/// The title, links and robots directives of a page.
struct PageExtract<'t> {
    product_token: &'t str,
    /// The first title, as in browsers.
    title: Option<String>,
    robots: RobotsDirectives,
    links: UrlList,
    bad_links: Vec<BadLink>,
    nofollow_links: Vec<usize>,
    wanted: PageParts,
    link_details: Vec<LinkDetail>,
    bad_link_details: Vec<(BadLink, String, LinkDetail)>,
    requisites: PageRequisites,
    bad_requisites: Vec<BadLink>,
    ids: PageIds,
}

impl<'t> PageExtract<'t> {
    /// Nothing yet, beyond the robots directives of the headers.
    fn new(robots: RobotsDirectives, product_token: &'t str) -> PageExtract<'t> {
        PageExtract {
            product_token,
            title: None,
            robots,
            links: UrlList::default(),
            bad_links: Vec::new(),
            nofollow_links: Vec::new(),
            wanted: PageParts::default(),
            link_details: Vec::new(),
            bad_link_details: Vec::new(),
            requisites: PageRequisites::default(),
            bad_requisites: Vec::new(),
            ids: PageIds::default(),
        }
    }
}

impl PageHandler for PageExtract<'_> {
    #[inline]
    fn text(&mut self, _: &[u8]) {}

    fn title(&mut self, content: &[u8]) {
        self.title.get_or_insert_with(|| text::one_line(content));
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

    fn wanted_parts(&self) -> PageParts {
        self.wanted
    }

    fn bad_link_detail(&mut self, bad_link: BadLink, target: &str, detail: LinkDetail) {
        self.bad_link_details.push((bad_link, target.to_owned(), detail));
    }

    fn link_detail(&mut self, detail: LinkDetail) {
        self.link_details.push(detail);
    }

    fn requisite(&mut self, kind: RequisiteKind, target: Result<&str, BadLink>) {
        match target {
            Ok(url) => self.requisites.push(kind, url),
            Err(BadLink::Scheme) => {}
            Err(bad_link) => self.bad_requisites.push(bad_link),
        }
    }

    fn requisite_label(&mut self, label: &str) {
        self.requisites.label_last(label);
    }

    fn id(&mut self, id: Option<&str>) {
        match id {
            Some(id) => self.ids.names.push(id),
            None => self.ids.is_incomplete = true,
        }
    }

    fn link(&mut self, kind: LinkKind, target: Result<&str, BadLink>) {
        match target {
            Ok(url) => {
                if kind.is_nofollow() {
                    self.nofollow_links.push(self.links.len());
                }
                self.links.push(url);
            }
            Err(bad_link) => self.bad_links.push(bad_link),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a page, whether its text is read or not.
    fn read(
        page: &[u8],
        content_type: &str,
        strip_query: &StripQuery,
        similarity: Option<Threshold>,
    ) -> PageExtract<'static> {
        let url = Url::parse("http://a/").unwrap();
        let page = RawPage { url: &url, content_type: Some(content_type), media: Media::Html, body: page };
        let [without_text, with_text] = [similarity, similarity.or(Threshold::new(0.9))].map(|similarity| {
            let mut extract = PageExtract::new(RobotsDirectives::default(), "mybot");
            page.read(HashKey::new(1), strip_query, similarity, &mut extract);
            extract
        });
        assert_eq!((&with_text.title, &with_text.links), (&without_text.title, &without_text.links));
        assert_eq!(with_text.robots, without_text.robots);
        without_text
    }

    #[test]
    fn title_is_decoded_from_the_encoding_of_the_page() {
        for (content_type, page) in [
            ("text/html; charset=windows-1251", &b"<title>\xCF\xF0&amp;</title>"[..]),
            ("text/html", b"<meta charset=windows-1251><title>\xCF\xF0&amp;</title><a href=x>\xCF"),
            ("text/html; charset=utf-8", "<title>Пр&amp;</title>".as_bytes()),
            ("text/html; charset=utf-16be", b"\0<\0t\0i\0t\0l\0e\0>\x04\x1F\x04\x40\0&"),
        ] {
            let title = read(page, content_type, &StripQuery::default(), None).title;
            assert_eq!(title.as_deref(), Some("Пр&"), "{content_type}");
        }
    }

    fn extract(page: &[u8]) -> PageExtract<'static> {
        read(page, "text/html", &StripQuery::default(), None)
    }

    #[test]
    fn links_have_no_parameters_that_are_to_be_removed() {
        let strip_query = StripQuery::new(&["tracking"]).unwrap();
        for similarity in [None, Threshold::new(0.9), Threshold::new(1.0)] {
            let page = b"<a href='x?utm_source=y&amp;z=1'><a href=w?>";
            let page = read(page, "text/html", &strip_query, similarity);
            assert_eq!(page.links.iter().collect::<Vec<_>>(), ["http://a/x?z=1", "http://a/w"]);
        }
    }

    #[test]
    fn body_is_hashed_only_if_pages_are_compared() {
        let (key, url) = (HashKey::new(1), Url::parse("http://a/").unwrap());
        let fingerprint = |media, similarity| {
            let mut extract = PageExtract::new(RobotsDirectives::default(), "mybot");
            let page = RawPage { url: &url, content_type: None, media, body: b"<a href=x>some text" };
            let fingerprint = page.read(key, &StripQuery::default(), similarity, &mut extract);
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
        let PageExtract { title, links, bad_links, .. } = extract(page);
        assert_eq!(title.as_deref(), Some("Yes"));
        assert_eq!((links, bad_links), (["http://a/x"].iter().collect(), vec![BadLink::Scheme]));
        assert_eq!(extract(b"<p>none").title, None);
    }

    #[test]
    fn each_link_has_its_text_if_texts_are_wanted() {
        let page = b"<a href=a> One <b>two</b>\n&amp; </a> <a href=tel:1>no</a><a href=b><img></a><iframe src=c></iframe>\
            <a href=d>not closed<a href=e>last";
        let (url, strip_nothing) = (Url::parse("http://a/").unwrap(), StripQuery::default());
        let page = RawPage { url: &url, content_type: None, media: Media::Html, body: page };
        for similarity in [None, Threshold::new(0.9), Threshold::new(1.0)] {
            for link_details in [false, true] {
                let mut extract = PageExtract::new(RobotsDirectives::default(), "mybot");
                extract.wanted.link_details = link_details;
                page.read(HashKey::new(1), &strip_nothing, similarity, &mut extract);
                assert_eq!(extract.links.len(), 5);
                let expected = ["One two &", "", "", "not closed", "last"];
                let texts: Vec<&str> = extract.link_details.iter().map(|detail| &*detail.text).collect();
                assert_eq!(texts, if link_details { &expected[..] } else { &[] });
            }
        }
    }

    #[test]
    fn nofollow_is_read_from_meta_elements_and_from_links() {
        let page = b"<meta name=Robots content='NOINDEX'><meta name=otherbot content=none>\
            <a href=a><a href=b rel='me NoFollow'><a href=tel:1 rel=nofollow><area href=c rel=nofollow><a href=d rel=nofollows>";
        let PageExtract { robots, links, nofollow_links, .. } = extract(page);
        assert_eq!(robots.names().collect::<Vec<_>>(), ["noindex"]);
        assert_eq!((links.len(), nofollow_links), (4, vec![1, 2]));
        let own = extract(b"<meta name=mybot content=nofollow>").robots;
        assert!(own.nofollow && !own.noindex);
    }
}
