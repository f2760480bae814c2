//! Finds the stored pages that link to a URL.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::html;
use crate::media::Media;
use crate::similarity::PageBody;
use crate::strip_query::StripQuery;

/// How many pages are named.
const MAX_NAMED: usize = 5;

/// The stored pages that link to a URL, as far as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkingPages {
    /// How many of the pages that were read link to it.
    pub count: u64,
    /// Some of them.
    pub urls: Vec<String>,
    /// How many stored pages were read.
    pub read: u64,
    /// Whether there are more that were not read, because that takes too long.
    pub has_unread: bool,
}

impl LinkingPages {
    /// Adds the pages of another part of the store.
    pub(crate) fn add(&mut self, more: LinkingPages) {
        let LinkingPages { count, urls, read, has_unread } = more;
        (self.count, self.read) = (self.count + count, self.read + read);
        self.urls.extend(urls);
        self.urls.truncate(MAX_NAMED);
        self.has_unread = has_unread;
    }

    /// Adds a page, which links to the URL if it is so.
    fn add_page(&mut self, url: &str, has_link: bool) {
        self.read += 1;
        if has_link {
            self.count += 1;
            if self.urls.len() < MAX_NAMED {
                self.urls.push(url.to_owned());
            }
        }
    }
}

/// Looks for links to a URL.
pub(crate) struct LinkSearch {
    url: String,
    strip_query: StripQuery,
    pub(crate) found: LinkingPages,
}

impl LinkSearch {
    /// A search for links to a URL in its admitted form. The crawl removes these query parameters from links.
    pub(crate) fn new(url: String, strip_query: &[String]) -> LinkSearch {
        // The patterns are those of the crawl, which has compiled them.
        let strip_query = StripQuery::new(strip_query).unwrap_or_default();
        LinkSearch { url, strip_query, found: LinkingPages::default() }
    }

    /// Reads a stored page. Links of a page to itself do not count.
    pub(crate) fn read(&mut self, page: &PageBody) {
        let has_link =
            page.url != self.url && page.content_type.media == Media::Html && self.finds_link(page);
        self.found.add_page(page.url, has_link);
    }

    fn finds_link(&self, page: &PageBody) -> bool {
        let Ok(url) = Url::parse(page.url) else { return false };
        let mut is_found = false;
        html::each_link(&url, page.content_type.header().as_deref(), page.body, |_, target| {
            is_found = is_found || target.is_ok_and(|target| self.strip_query.strip(target) == self.url);
        });
        is_found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::similarity::ContentType;

    #[test]
    fn relative_and_stripped_links_are_found_and_those_of_the_page_itself_do_not_count() {
        let mut search = LinkSearch::new("http://a.test/x?a=1".into(), &["sid".into()]);
        let page = |url, body| PageBody { url, content_type: ContentType::new(Media::Html, None), body };
        for (url, body) in [
            ("http://a.test/1", &b"<a href='x?a=1&amp;sid=7'>x</a><a href=/x?a=1>again</a>"[..]),
            ("http://a.test/x?a=1", b"<a href='?a=1'>itself</a>"),
            ("http://b.test/", b"<a href=http://A.test:80/./x?a=1#part>x</a>"),
            ("http://b.test/none", b"<a href=/x?a=1>x</a>"),
        ] {
            search.read(&page(url, body));
        }
        let text = PageBody {
            content_type: ContentType::new(Media::Text, None),
            ..page("http://a.test/t", b"<a href=/x?a=1>")
        };
        search.read(&text);
        assert_eq!((search.found.count, search.found.read), (2, 5));
        assert_eq!(search.found.urls, ["http://a.test/1", "http://b.test/"]);
    }
}
