//! Finds the stored pages that link to a URL, or to each of many.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use url::Url;

use crate::html;
use crate::media::Media;
use crate::similarity::{HashKey, PageBody};
use crate::strip_query::StripQuery;

/// How many pages with links to a single URL are named.
const MAX_NAMED: usize = 5;

/// How many pages with links to each of many URLs are named, and how long their URLs are together, in bytes.
const MAX_NAMED_EACH: usize = 100;
const MAX_NAMED_BYTES: usize = 16 << 20;

/// The stored pages that link to a URL, as far as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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

/// The stored pages that link to some URLs, as far as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundLinks {
    /// How many of the pages that were read link to a URL, and some of them, by the ID of the URL.
    pub pages: HashMap<u64, (u64, Vec<String>)>,
    /// How many stored pages were read.
    pub read: u64,
    /// Whether there are more that were not read, because that takes too long.
    pub has_unread: bool,
    /// The length of all URLs of `pages`.
    pub(crate) named_bytes: usize,
}

/// The URLs to which links are searched.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum LinkTargets {
    /// One URL in its admitted form.
    Url(String),
    /// Many, by their IDs.
    Ids(Vec<u64>),
}

impl FoundLinks {
    /// Adds the pages of another part of the store.
    pub(crate) fn add(&mut self, more: FoundLinks, targets: &LinkTargets) {
        for (id, (count, urls)) in more.pages {
            self.pages.entry(id).or_default().0 += count;
            urls.into_iter().for_each(|url| self.name(id, url, targets.max_named()));
        }
        self.read += more.read;
        self.has_unread = more.has_unread;
    }

    /// Adds a page that links to one of many URLs.
    pub fn add_link(&mut self, id: u64, page: &str) {
        self.add_page(id, page, MAX_NAMED_EACH);
    }

    fn add_page(&mut self, id: u64, page: &str, max_named: usize) {
        self.pages.entry(id).or_default().0 += 1;
        self.name(id, page.to_owned(), max_named);
    }

    /// Names a page that links to a URL, unless that are too many.
    fn name(&mut self, id: u64, url: String, max_named: usize) {
        let (_, urls) = self.pages.entry(id).or_default();
        if urls.len() < max_named && self.named_bytes + url.len() <= MAX_NAMED_BYTES {
            self.named_bytes += url.len();
            urls.push(url);
        }
    }

    /// The pages that link to the only URL.
    pub(crate) fn into_single(self) -> LinkingPages {
        let FoundLinks { pages, read, has_unread, .. } = self;
        let (count, urls) = pages.into_values().next().unwrap_or_default();
        LinkingPages { count, urls, read, has_unread }
    }
}

impl LinkTargets {
    fn max_named(&self) -> usize {
        match self {
            LinkTargets::Url(_) => MAX_NAMED,
            LinkTargets::Ids(_) => MAX_NAMED_EACH,
        }
    }
}

/// Looks for links to URLs.
pub(crate) struct LinkSearch {
    key: HashKey,
    ids: HashSet<u64>,
    max_named: usize,
    strip_query: StripQuery,
    pub(crate) found: FoundLinks,
}

impl LinkSearch {
    /// A search for links to these URLs. The crawl removes these query parameters from links, and its URLs have IDs by this key.
    pub(crate) fn new(key: HashKey, targets: &LinkTargets, strip_query: &[String]) -> LinkSearch {
        // The patterns are those of the crawl, which has compiled them.
        let strip_query = StripQuery::new(strip_query).unwrap_or_default();
        let ids = match targets {
            LinkTargets::Url(url) => HashSet::from([key.url_id(url)]),
            LinkTargets::Ids(ids) => ids.iter().copied().collect(),
        };
        LinkSearch { key, ids, max_named: targets.max_named(), strip_query, found: FoundLinks::default() }
    }

    /// Reads a stored page. Links of a page to itself do not count.
    pub(crate) fn read(&mut self, page: &PageBody) {
        self.found.read += 1;
        if page.content_type.media == Media::Html {
            for id in self.linked_ids(page) {
                self.found.add_page(id, page.url, self.max_named);
            }
        }
    }

    /// Which of the URLs a page links to.
    fn linked_ids(&self, page: &PageBody) -> HashSet<u64> {
        let mut linked = HashSet::new();
        let Ok(url) = Url::parse(page.url) else { return linked };
        html::each_link(&url, page.content_type.header().as_deref(), page.body, |_, target| {
            let id = target.map(|target| self.key.url_id(&self.strip_query.strip(target)));
            linked.extend(id.ok().filter(|id| self.ids.contains(id)));
        });
        linked.remove(&self.key.url_id(page.url));
        linked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::similarity::ContentType;

    const PAGES: [(&str, &[u8]); 4] = [
        ("http://a.test/1", b"<a href='x?a=1&amp;sid=7'>x</a><a href=/x?a=1>again</a>"),
        ("http://a.test/x?a=1", b"<a href='?a=1'>itself</a>"),
        ("http://b.test/", b"<a href=http://A.test:80/./x?a=1#part>x</a><a href=y>y</a>"),
        ("http://b.test/none", b"<a href=/x?a=1>x</a>"),
    ];

    fn page<'p>(url: &'p str, body: &'p [u8]) -> PageBody<'p> {
        PageBody { url, content_type: ContentType::new(Media::Html, None), body }
    }

    #[test]
    fn relative_and_stripped_links_are_found_and_those_of_the_page_itself_do_not_count() {
        let target = LinkTargets::Url("http://a.test/x?a=1".into());
        let mut search = LinkSearch::new(HashKey::new(1), &target, &["sid".into()]);
        PAGES.iter().for_each(|(url, body)| search.read(&page(url, body)));
        let text = PageBody {
            content_type: ContentType::new(Media::Text, None),
            ..page("http://a.test/t", b"<a href=/x?a=1>")
        };
        search.read(&text);
        let found = search.found.into_single();
        assert_eq!((found.count, found.read), (2, 5));
        assert_eq!(found.urls, ["http://a.test/1", "http://b.test/"]);
    }

    #[test]
    fn links_to_many_urls_are_found_in_one_pass_and_parts_are_added() {
        let key = HashKey::new(1);
        let ids = ["http://a.test/x?a=1", "http://b.test/y", "http://b.test/z"].map(|url| key.url_id(url));
        let targets = LinkTargets::Ids(ids.to_vec());
        let mut sum = FoundLinks::default();
        for (url, body) in PAGES {
            let mut search = LinkSearch::new(key, &targets, &["sid".into()]);
            search.read(&page(url, body));
            sum.add(search.found, &targets);
        }
        let pages = |id| sum.pages.get(&id).map(|(count, urls)| (*count, urls.join(" ")));
        assert_eq!(pages(ids[0]), Some((2, "http://a.test/1 http://b.test/".into())));
        assert_eq!(pages(ids[1]), Some((1, "http://b.test/".into())));
        assert_eq!((pages(ids[2]), sum.read), (None, 4));
    }

    #[test]
    fn names_are_limited_and_counts_are_not() {
        let targets = LinkTargets::Ids(vec![7]);
        let mut sum = FoundLinks::default();
        for _ in 0..30 {
            let pages = HashMap::from([(7, (10, vec!["http://a.test/".to_owned(); 10]))]);
            sum.add(FoundLinks { pages, ..FoundLinks::default() }, &targets);
        }
        assert_eq!((sum.pages[&7].0, sum.pages[&7].1.len()), (300, MAX_NAMED_EACH));
    }
}
