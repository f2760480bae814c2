//! What is recorded of a URL when it is completed: its record for outputs and modules, and statistics.

use super::Worker;
use crate::backend::{Backend, Completion, Lease};
use crate::log;
use crate::outcome::Outcome;
use crate::sitemap;
use crate::statistics::recorder::{PageFacts, RequestFacts, UrlFacts};
use crate::task_kind::shown_url;
use crate::url_record::UrlRecord;

impl<R: Backend> Worker<R> {
    /// Adds what a URL that is no page writes to the outputs. Returns its record if a module wants it.
    pub(super) fn record(&self, completion: &mut Completion) -> Option<UrlRecord<'static>> {
        let Completion { lease, outcome, .. } = &*completion;
        let pipeline = &self.context.pipeline;
        let is_requeued = *outcome == Outcome::NotReached || lease.is_retried(outcome);
        if !pipeline.wants_urls() || lease.is_refetch || is_requeued {
            return None;
        }
        let is_page = *outcome == Outcome::Page;
        let is_wanted = pipeline.modules_want_urls();
        if is_page && !is_wanted {
            return None;
        }
        let record =
            UrlRecord::from_completion(completion, sitemap::outcome(&lease.url, outcome.clone()), None);
        if !is_page {
            pipeline.add_url(&record, &mut completion.writes);
        }
        is_wanted.then_some(record)
    }

    /// The crawl did not take the outcome of a URL, which waits again: it is to be requested again, its page is one too many,
    /// because the limit was lowered meanwhile, or its host gets no request for a while.
    pub(super) fn requeued(&self, lease: &Lease, outcome: &Outcome) {
        match outcome {
            Outcome::Page => {
                if !self.context.pipeline.retract_parts(lease) {
                    self.context.stop.stop();
                }
            }
            Outcome::NotReached => log::lease_returned(self.id, &lease.url),
            _ => self.fetcher.recorder().record_retry(),
        }
    }

    /// Records statistics of a URL that was completed.
    pub(super) fn record_completed(
        &self,
        lease: &Lease,
        host: &str,
        outcome: &Outcome,
        request: RequestFacts,
        page: Option<&PageFacts>,
    ) {
        let (url, depth) = (shown_url(&lease.url), lease.depth);
        let completed = UrlFacts { url, host, outcome, depth, request, page };
        self.fetcher.recorder().record_completion(&completed);
    }
}
