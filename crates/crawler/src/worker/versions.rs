//! Finds out whether a page that is visited again has changed.

use hyper::HeaderMap;

use super::Worker;
use crate::backend::{Backend, Completion, Lease};
use crate::fetch::http::Validators;
use crate::page::Page;
use crate::task_kind::TaskKind;
use crate::visit::{PreviousVisit, ResponseFacts, VisitRecord, body_hash};

impl<R: Backend> Worker<R> {
    /// The validators of a response, if visits are remembered.
    pub(super) fn validators(&self, headers: &HeaderMap) -> Validators {
        match self.context.keeps_visits {
            true => Validators::from_headers(headers),
            false => Validators::default(),
        }
    }

    /// Whether a page or requisite is another one than at the last visit, or is fetched for the first time. Sets its version, and
    /// what is to be remembered of the response. `exact` is the hash of its fingerprint; 0 if it has none.
    pub(super) fn is_new_version(
        &self,
        lease: &Lease,
        exact: u128,
        page: &mut Page,
        completion: &mut Completion,
    ) -> bool {
        if !self.context.keeps_visits {
            return true;
        }
        let exact = if exact == 0 { self.context.backend.hash_key().hash(&page.body) } else { exact };
        let hash = body_hash(exact);
        // A page that was cut is received anew, because a later crawl may receive all of it.
        let validators = if page.truncated { Validators::default() } else { self.validators(&page.headers) };
        completion.response = ResponseFacts { hash, is_repeated: false, validators };
        let Some(previous) = lease.previous.as_deref().filter(|_| !lease.is_refetch) else { return true };
        let (record, is_same) = (&previous.record, previous.record.is_same_body(hash));
        completion.response.is_repeated = is_same && self.is_archived(record);
        page.version = record.version.saturating_add(1);
        page.changed = record.version > 0 && !is_same;
        !(is_same && record.is_current()) || is_former_duplicate(lease, previous)
    }

    /// Whether no archive lacks the response with the last body of a URL: it was requested since they were added to the crawl.
    pub(super) fn is_archived(&self, record: &VisitRecord) -> bool {
        let is_since = |added| record.fetched().is_some_and(|fetched| fetched >= added);
        self.context.pipeline.archived_since().is_none_or(is_since)
    }
}

/// Whether the URL is a page that was a duplicate, and is compared with the others again: the page that it was a duplicate of may be gone.
pub(super) fn is_former_duplicate(lease: &Lease, previous: &PreviousVisit) -> bool {
    lease.kind() == TaskKind::Page && previous.was_duplicate()
}
