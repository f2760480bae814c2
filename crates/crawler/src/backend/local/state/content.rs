//! The stored pages of a crawl, with which new pages are compared.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::super::{BackendError, ContentMatch};
use super::super::content_index::{IndexLookup, decompress};
use super::super::storage::{Body, Storage};
use super::LocalState;
use crate::error::StorageError;
use crate::similarity::{
    ContentType, ExactComparison, Fingerprint, PageBody, ShingleCache, Threshold, Undecided, Verdicts,
    VersionSimilarity,
};
use crate::visit::body_hash;

/// A page to store.
pub(crate) struct NewPage<'a> {
    pub(crate) url: &'a str,
    pub(crate) fingerprint: &'a Fingerprint,
    /// The size of the body as it is stored; `None` if bodies are not stored.
    pub(crate) body_bytes: Option<u64>,
    /// `None` if bodies are not stored, or stored by another process.
    pub(crate) body: Option<&'a Body<'a>>,
    /// A seed is stored whatever it is a duplicate of.
    pub(crate) is_seed: bool,
    /// How similar it is to its earlier version, if the two were compared.
    pub(crate) similarity: Option<VersionSimilarity>,
}

/// The result of storing a page.
#[derive(Serialize, Deserialize)]
pub(crate) enum StoreResult {
    Done(ContentMatch),
    /// The page must be compared with these pages first.
    Undecided(Vec<BorderCase>),
}

/// A stored page whose similarity to a new page is too close to the threshold for an estimate.
#[derive(Serialize, Deserialize)]
pub(crate) struct BorderCase {
    pub(crate) page: Undecided,
    pub(crate) url: String,
    pub(crate) content_type: Option<ContentType>,
    /// `None` if the body is not stored here.
    #[serde(skip)]
    pub(crate) body: Option<Body<'static>>,
}

impl BorderCase {
    /// Whether a new page is a near-duplicate of this one. Without its body or shingles, the estimate decides.
    pub(crate) fn compare(
        self,
        comparison: &ExactComparison,
        threshold: Option<Threshold>,
        known: &ShingleCache,
    ) -> Result<bool, StorageError> {
        let BorderCase { page, url, content_type, body } = self;
        let (Some(threshold), Some(content_type)) = (threshold, content_type) else {
            return Ok(page.is_similar);
        };
        let shingles = match (known.get(page.url), body) {
            (Some(shingles), _) => shingles,
            (None, None) => return Ok(page.is_similar),
            (None, Some(body)) => {
                let body = decompress(body)?;
                let shingles = comparison.shingles_of(&PageBody { url: &url, content_type, body: &body });
                let shingles = Arc::new(shingles);
                known.add(page.url, Arc::clone(&shingles));
                shingles
            }
        };
        Ok(comparison.is_near_duplicate(&shingles, threshold))
    }
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
                IndexLookup::Match(duplicate) if !self.may_have_moved(id, fingerprint, &duplicate)? => {
                    return Ok(StoreResult::Done(duplicate));
                }
                IndexLookup::Match(_) => {}
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

    /// Whether a page may be where the original of its duplicate moved: the original is to be visited again, and may be gone or another
    /// page. A page that was a duplicate at the last visit, too, and has not changed stays one until its original is known to be gone.
    fn may_have_moved(
        &mut self,
        id: u64,
        fingerprint: &Fingerprint,
        duplicate: &ContentMatch,
    ) -> Result<bool, BackendError> {
        let original = match duplicate {
            ContentMatch::New => return Ok(false),
            ContentMatch::Duplicate(of) | ContentMatch::NearDuplicate(of) => self.storage.id(of),
        };
        Ok(self.storage.is_to_be_visited_again(original)?
            && !self.storage.is_unchanged_duplicate(id, body_hash(fingerprint.exact))?)
    }

    /// The stored page of a URL, if that is an earlier version than the one with this fingerprint.
    pub(crate) fn earlier_version(
        &self,
        url: &str,
        fingerprint: &Fingerprint,
    ) -> Result<Option<(ContentType, Body<'static>)>, BackendError> {
        let id = self.storage.id(url);
        if self.content.is_stored(id) { self.storage.earlier_version(id, fingerprint) } else { Ok(None) }
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
