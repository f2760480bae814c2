//! Collects what a report says while a crawl runs that stores nothing: its URLs, and the links of its pages.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crawler::internal::backend::linking_pages::FoundLinks;
use crawler::internal::crawl_view::CrawlView;
use crawler::internal::modules::BuiltinModule;
use crawler::internal::page::Page;
use crawler::internal::similarity::HashKey;
use crawler::internal::url_record::UrlRecord;

use super::collect::{Collector, LinkSearchResult};
use super::content::UrlFindings;

/// How much memory the links of pages take, in bytes. The links of further pages are not kept.
const MAX_LINK_BYTES: usize = 64 << 20;

/// What is collected while a crawl runs. Clones share it.
#[derive(Clone)]
pub struct LiveCollector {
    key: HashKey,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    urls: Collector,
    links: PageLinks,
    /// The last status of the crawl.
    view: Option<CrawlView>,
}

/// The links of pages, as IDs of URLs.
#[derive(Default)]
struct PageLinks {
    /// The URLs of the pages, and where their links are.
    pages: Vec<(Box<str>, Range<usize>)>,
    ids: Vec<u64>,
    /// The size of the URLs of the pages.
    url_bytes: usize,
    /// How many pages are left out.
    left_out: u64,
}

impl LiveCollector {
    /// Nothing yet.
    pub fn new() -> LiveCollector {
        let random = || u128::from(RandomState::new().hash_one(0));
        LiveCollector { key: HashKey::new(random() << 64 | random()), shared: Arc::default() }
    }

    /// Adds a URL that is being completed.
    pub fn add_url(&self, record: &UrlRecord) {
        let id = self.key.url_id(record.url());
        self.lock().urls.add_record(record, id);
    }

    /// Keeps the status of the crawl.
    pub fn observe(&self, view: &CrawlView) {
        self.lock().view = Some(view.clone());
    }

    /// Takes what was collected, and the last status; `None` if the crawl did not start. The links of pages count if they
    /// `has_links`.
    pub fn take(&self, has_links: bool) -> Option<(CrawlView, UrlFindings)> {
        let Shared { urls, links, view } = std::mem::take(&mut *self.lock());
        let ids = urls.failed_ids().into_iter().collect();
        Some((view?, urls.finish(has_links.then(|| links.search(&ids)))))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BuiltinModule for LiveCollector {
    fn name(&self) -> &str {
        "report"
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        let url = page.url.as_str();
        let own = self.key.url_id(url);
        let mut ids: Vec<u64> = page.links.iter().map(|link| self.key.url_id(link)).collect();
        ids.retain(|id| *id != own);
        ids.sort_unstable();
        ids.dedup();
        self.lock().links.add(url, &ids);
        Ok(())
    }

    fn is_blocking(&self) -> bool {
        false
    }

    /// The report is no reason to continue a crawl whose pages are not read.
    fn wants_pages(&self) -> bool {
        false
    }

    fn wants_urls(&self) -> bool {
        true
    }

    fn process_url(&self, record: &UrlRecord) -> Result<(), String> {
        self.add_url(record);
        Ok(())
    }
}

impl PageLinks {
    fn add(&mut self, url: &str, ids: &[u64]) {
        let first = self.ids.len();
        let size = 8 * (first + ids.len()) + self.url_bytes + 32 * self.pages.len() + url.len();
        if size > MAX_LINK_BYTES {
            self.left_out += 1;
            return;
        }
        self.url_bytes += url.len();
        self.ids.extend_from_slice(ids);
        self.pages.push((url.into(), first..self.ids.len()));
    }

    /// The pages that link to these URLs.
    fn search(&self, wanted: &HashSet<u64>) -> LinkSearchResult {
        let mut found = FoundLinks::default();
        for (url, links) in &self.pages {
            for id in self.ids[links.clone()].iter().filter(|id| wanted.contains(id)) {
                found.add_link(*id, url);
            }
        }
        let read = self.pages.len() as u64;
        (found.read, found.has_unread) = (read, self.left_out > 0);
        LinkSearchResult { found, pages: read + self.left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_pages_beyond_the_limit_are_left_out() {
        let (mut links, ids) = (PageLinks::default(), vec![7; 1 << 20]);
        for number in 0..20 {
            links.add(&format!("http://a.test/{number}"), &ids[number..]);
        }
        let result = links.search(&HashSet::from([7]));
        assert!(links.ids.len() * 8 <= MAX_LINK_BYTES);
        assert_eq!((result.pages, result.found.has_unread), (20, true));
        assert_eq!(result.found.read + links.left_out, 20);
    }
}
