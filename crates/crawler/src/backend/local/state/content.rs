//! The stored pages of a crawl, with which new pages are compared.

use super::super::super::{BackendError, ContentMatch};
use super::super::content_index::IndexLookup;
use super::super::storage::{Body, Storage};
use super::LocalState;
use crate::similarity::{ContentType, Fingerprint, Undecided, Verdicts};

/// A page to store.
pub(crate) struct NewPage<'a> {
    pub(crate) url: &'a str,
    pub(crate) fingerprint: &'a Fingerprint,
    /// The size of the body as it is stored; `None` if bodies are not stored.
    pub(crate) body_bytes: Option<u64>,
    /// `None` if bodies are not stored, or by somebody else.
    pub(crate) body: Option<&'a Body<'a>>,
    /// A seed is stored whatever it is a duplicate of.
    pub(crate) is_seed: bool,
}

/// The result of storing a page.
pub(crate) enum StoreResult {
    Done(ContentMatch),
    /// The page must be compared with these pages first.
    Undecided(Vec<BorderCase>),
}

/// A stored page whose similarity to a new page is too close to the threshold for an estimate.
pub(crate) struct BorderCase {
    pub(crate) page: Undecided,
    pub(crate) url: String,
    pub(crate) content_type: Option<ContentType>,
    /// `None` if the body is not stored here.
    pub(crate) body: Option<Body<'static>>,
}

impl<S: Storage> LocalState<S> {
    /// Stores a page, unless it is a duplicate. The caller has compressed the body, and compares border cases, so that
    /// no operation waits for that.
    pub(crate) fn store_content(
        &mut self,
        page: &NewPage,
        verdicts: &Verdicts,
    ) -> Result<StoreResult, BackendError> {
        let NewPage { url, fingerprint, body_bytes, is_seed, .. } = *page;
        let now = self.clock.now();
        for expired in self.content.expire(now) {
            self.storage.remove_page(expired)?;
        }
        let id = self.storage.id(url);
        if !is_seed {
            // Without bodies, nothing can be compared exactly.
            match self.content.find(id, fingerprint, now, body_bytes.and(Some(verdicts))) {
                IndexLookup::New => {}
                IndexLookup::Match(duplicate) => return Ok(StoreResult::Done(duplicate)),
                IndexLookup::Undecided(pages) => {
                    let pages = pages.into_iter().map(|page| self.border_case(page));
                    return Ok(StoreResult::Undecided(pages.collect::<Result<_, _>>()?));
                }
            }
        }
        // If pages are neither compared nor stored there is nothing to add.
        if self.config.similarity.is_some() || body_bytes.is_some() {
            let has_earlier = self.content.is_stored(id);
            self.content.add(id, url, fingerprint, body_bytes.unwrap_or(0), now);
            self.storage.store_page(id, page, has_earlier, now)?;
        }
        Ok(StoreResult::Done(ContentMatch::New))
    }

    /// Removes the stored page of a URL that is gone: the same page at another URL is no duplicate of it.
    pub(super) fn remove_content(&mut self, id: u64) -> Result<(), BackendError> {
        if self.content.remove(id) { self.storage.remove_page(id) } else { Ok(()) }
    }

    fn border_case(&self, page: Undecided) -> Result<BorderCase, BackendError> {
        Ok(BorderCase {
            url: self.content.url(page.url).to_owned(),
            content_type: self.content.content_type(page.url),
            body: self.storage.body(page.url)?,
            page,
        })
    }

    pub(crate) fn load_content(&self, url: &str) -> Result<Option<Body<'static>>, BackendError> {
        let id = self.storage.id(url);
        if self.content.contains(id, self.clock.now()) { self.storage.body(id) } else { Ok(None) }
    }
}
