//! Finds out whether a page that is visited again has changed.

use hyper::HeaderMap;

use super::Worker;
use crate::backend::{Backend, Completion, Lease};
use crate::fetch::http::Validators;
use crate::page::Page;
use crate::task_kind::TaskKind;
use crate::visit::{PreviousVisit, ResponseFacts};

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
        // 0 stands for no hash.
        let hash = ((exact >> 64) as u64 ^ exact as u64).max(1);
        // A page that was cut is received anew, because a later crawl may receive all of it.
        let validators = if page.truncated { Validators::default() } else { self.validators(&page.headers) };
        completion.response = ResponseFacts { hash, validators };
        let Some(previous) = lease.previous.as_deref().filter(|_| !lease.is_refetch) else { return true };
        let (record, is_same) = (&previous.record, previous.record.is_same_body(hash));
        page.version = record.version.saturating_add(1);
        page.changed = record.version > 0 && !is_same;
        !(is_same && record.is_current()) || is_former_duplicate(lease, previous)
    }
}

/// Whether the URL is a page that was a duplicate, and is compared with the others again: the page that it was a duplicate of may be gone.
pub(super) fn is_former_duplicate(lease: &Lease, previous: &PreviousVisit) -> bool {
    lease.kind() == TaskKind::Page && previous.was_duplicate()
}
