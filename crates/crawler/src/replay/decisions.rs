//! Decides in the order of the archives which URLs are used: each once, and no near-duplicate of an earlier page.

use std::collections::HashMap;
use std::time::Duration;

use super::url_of_record::RecordedUrl;
use crate::backend::ContentMatch;
use crate::backend::local::UNLIMITED_TTL;
use crate::backend::local::content_index::{ContentIndex, IndexLookup};
use crate::outcome::Outcome;
use crate::similarity::{Fingerprint, HashKey, Threshold};

/// What was decided about a URL.
pub enum UrlDecision {
    /// It is used: the number of its writes, and of its page if it is one.
    Use { sequence: u64, page: Option<u64> },
    /// An earlier record has it.
    Repeated,
    /// It would be a page more than the replay may have.
    LimitReached,
}

/// The URLs and pages so far.
pub struct Decisions {
    key: HashKey,
    /// The hashes of the URLs so far, each with whether it was a page.
    seen: HashMap<u64, bool>,
    /// The fingerprints of the pages. Bodies are not kept: archives may have more than fits into memory.
    content: Option<ContentIndex>,
    sequence: u64,
    pages: u64,
    max_pages: u64,
}

impl Decisions {
    /// No URL yet.
    pub fn new(key: HashKey, similarity: Option<Threshold>, max_pages: u64) -> Decisions {
        let content = similarity.map(|threshold| ContentIndex::new(Some(threshold), UNLIMITED_TTL));
        Decisions { key, seen: HashMap::new(), content, sequence: 0, pages: 0, max_pages }
    }

    /// Decides about the next URL, and changes its outcome if it is a duplicate. The first page of a URL is used. A URL that failed
    /// may be a page later.
    pub fn decide(&mut self, url: &mut RecordedUrl) -> UrlDecision {
        let id = self.key.url_id(url.url.as_str());
        let is_page = url.page.is_some();
        match self.seen.get(&id) {
            Some(true) => return UrlDecision::Repeated,
            Some(false) if !is_page => return UrlDecision::Repeated,
            _ => {}
        }
        if let Some(parsed) = &url.page
            && let Some(duplicate) = self.duplicate(id, url.url.as_str(), &parsed.fingerprint)
        {
            (url.outcome, url.page) = (duplicate, None);
        }
        if url.page.is_some() {
            if self.pages == self.max_pages {
                return UrlDecision::LimitReached;
            }
            self.pages += 1;
        }
        self.seen.insert(id, is_page);
        self.sequence += 1;
        let page = url.page.is_some().then_some(self.pages);
        UrlDecision::Use { sequence: self.sequence, page }
    }

    /// The outcome of a page that has the content of an earlier one. Otherwise its fingerprint is added.
    fn duplicate(&mut self, id: u64, url: &str, fingerprint: &Fingerprint) -> Option<Outcome> {
        let (content, now, links_followed) = (self.content.as_mut()?, Duration::ZERO, false);
        match content.find(id, fingerprint, now, None) {
            IndexLookup::Match(ContentMatch::Duplicate(of)) => {
                Some(Outcome::Duplicate { of, links_followed })
            }
            IndexLookup::Match(ContentMatch::NearDuplicate(of)) => {
                Some(Outcome::NearDuplicate { of, links_followed })
            }
            _ => {
                // The page itself may still exceed the limit. Then nothing follows it.
                content.add(id, url, fingerprint, 0, now);
                None
            }
        }
    }
}
