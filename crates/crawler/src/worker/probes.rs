//! What a worker does with links that are checked and not crawled: those that the scope leaves out, and the files that pages need.

use std::borrow::Cow;

use url::Url;

use super::Worker;
use super::parsed_page::ParsedPage;
use crate::backend::{Backend, Completion, Lease, Outlinks};
use crate::fetch::fetcher::FetchResult;
use crate::fetch::redirect;
use crate::outcome::Outcome;
use crate::prioritizer::SourceLink;
use crate::scope::{RejectReason, Scope};
use crate::task_kind::TaskKind;

impl<R: Backend> Worker<R> {
    /// Whether links are requested that are not crawled, because an output reports which links are broken.
    pub(super) fn checks_links(&self) -> bool {
        self.context.pipeline.checks_links()
    }

    /// The task of a link that was checked against the scope. If links are checked, one that is not followed is requested all the
    /// same, unless it is excluded.
    pub(super) fn link_task<'u>(
        &self,
        scope: &Scope,
        url: &'u str,
        checked: Result<(), RejectReason>,
        is_followed: bool,
    ) -> Result<Cow<'u, str>, RejectReason> {
        use RejectReason::{Excluded, External, Nofollow};
        match checked {
            Ok(()) if is_followed => Ok(url.into()),
            Ok(()) | Err(External | Excluded | Nofollow) if self.checks_links() => {
                scope.check_file(url)?;
                Ok(TaskKind::Probe.task_url_of(url).into())
            }
            Ok(()) => Err(External),
            Err(why) => Err(why),
        }
    }

    /// Adds the files that a page needs to the links that are requested, if links are checked.
    pub(super) fn collect_requisite_probes(&self, parsed: &mut ParsedPage, completion: &mut Completion) {
        if !self.checks_links() {
            return;
        }
        let (page, outlinks, scope) = (&mut parsed.page, &mut completion.outlinks, self.scope());
        for (index, (_, url)) in page.requisites.iter().enumerate() {
            match scope.check_file(url) {
                Ok(()) => {
                    outlinks.urls.push(&TaskKind::Probe.task_url_of(url));
                    if self.context.wants_source_links {
                        outlinks.source_links.push(SourceLink::new(String::new(), index as u32));
                    }
                }
                Err(why) => page.not_requested.requisites.push((index, why)),
            }
        }
    }

    /// The outcome of a link that was requested and is not crawled. Its redirect is followed as a link of this kind.
    pub(super) fn probed(
        &self,
        url: &Url,
        lease: &Lease,
        result: FetchResult,
        outlinks: &mut Outlinks,
    ) -> Outcome {
        let FetchResult::Redirect(location) = result else { return Outcome::Checked };
        let strip_query = &self.fetcher.config().strip_query;
        redirect::follow(url, lease.redirects, &location, strip_query, |target, redirects| {
            self.scope().check_file(target)?;
            let task = TaskKind::Probe.task_url_of(target);
            *outlinks = Outlinks { redirects, ..Outlinks::new([task], lease.depth) };
            Ok(())
        })
    }
}
