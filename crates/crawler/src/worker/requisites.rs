//! What a worker does with the files that pages need: admits them, fetches them and passes them to the outputs that keep them.

use std::collections::HashSet;

use url::Url;

use super::Worker;
use super::parsed_page::{ParsedPage, stylesheet_requisites};
use crate::backend::{Backend, Completion, Lease, Outlinks};
use crate::domain::Domain;
use crate::fetch::http::Download;
use crate::fetch::redirect;
use crate::html::BadLink;
use crate::html::start_tag::RequisiteKind;
use crate::media;
use crate::outcome::Outcome;
use crate::page::PageRequisites;
use crate::scope::{RejectReason, Scope};
use crate::task::Depth;
use crate::task_kind::{REQUISITE_DEPTH, TaskKind};

/// How many stylesheets may lead to a requisite, each imported by the one before.
const MAX_STYLESHEETS: Depth = 10;

/// The most requisites of a stylesheet. The others are left out.
const MAX_OF_STYLESHEET: usize = 1_000;

impl<R: Backend> Worker<R> {
    /// Adds the requisites of a page that are followed as links are: in scope, and of a kind that can have an accepted type.
    pub(super) fn collect_accepted(&self, parsed: &ParsedPage, completion: &mut Completion) {
        let accepted = self.fetcher.accepted();
        let is_nofollow = self.fetcher.config().requests.obey_robots && parsed.page.robots.nofollow;
        let scope = self.scope();
        let mut checker = scope.checker();
        for (kind, url) in parsed.page.requisites.iter() {
            if !accepted.may_be(kind) || checker.check(url).is_err() {
                continue;
            }
            match is_nofollow {
                true => {
                    let label = RejectReason::Nofollow.label().into();
                    *completion.rejected_links.entry(label).or_default() += 1;
                }
                false => completion.outlinks.urls.push(url),
            }
        }
    }

    /// Adds the requisites of a page, or of a stylesheet, that are fetched for outputs that keep them. One that is followed as a link,
    /// too, is fetched twice: what comes back may be no page, and the pages may be exhausted.
    pub(super) fn collect_requisites(
        &self,
        url: &Url,
        requisites: &PageRequisites,
        completion: &mut Completion,
    ) {
        let (depth, max) = match completion.lease.kind() {
            TaskKind::Requisite => (completion.lease.depth + 1, MAX_OF_STYLESHEET),
            _ => (REQUISITE_DEPTH, usize::MAX),
        };
        if !self.context.pipeline.keeps_requisites() || depth > REQUISITE_DEPTH + MAX_STYLESHEETS {
            return;
        }
        let (domain, mut found, mut tasks) = (Domain::from_url(url), HashSet::new(), Vec::new());
        let scope = self.scope();
        for (kind, requisite) in requisites.iter() {
            if kind == RequisiteKind::Feed
                || !found.insert(requisite)
                || self.check_requisite(&scope, requisite, &domain).is_err()
            {
                continue;
            }
            match tasks.len() < max {
                true => tasks.push(TaskKind::Requisite.task_url_of(requisite)),
                false => {
                    let label = RejectReason::InvalidLink(BadLink::TooMany).label().into();
                    *completion.rejected_links.entry(label).or_default() += 1;
                }
            }
        }
        completion.requisites = Outlinks::new(tasks, depth);
    }

    /// Whether a requisite of a page in this domain is fetched.
    fn check_requisite(&self, scope: &Scope, url: &str, domain: &Domain) -> Result<(), RejectReason> {
        // The file itself is not followed, so what is included does not matter.
        self.fetcher.config().requests.save.check_excluded(url)?;
        scope.check_requisite(url, Some(domain))
    }

    /// Passes a requisite to the outputs that keep it. The requisites of a stylesheet are requisites, too.
    pub(super) fn process_requisite(
        &self,
        url: Url,
        lease: &Lease,
        download: Download,
        completion: &mut Completion,
    ) -> Outcome {
        let config = self.fetcher.config();
        let mut page = ParsedPage::unparsed(url, lease.depth, download, config).page;
        page.set_origin(lease.discovery.as_deref(), &completion.request);
        if !self.is_new_version(lease, 0, &mut page, completion) {
            return Outcome::Unchanged;
        }
        if media::is_stylesheet(page.content_type().as_deref(), page.url.path()) {
            page.requisites = stylesheet_requisites(&page, &config.strip_query);
            self.collect_requisites(&page.url, &page.requisites, completion);
        }
        if !lease.is_refetch {
            completion.writes = self.context.pipeline.render_requisite(&page);
        }
        Outcome::Requisite
    }

    /// Follows the redirect of a requisite.
    pub(super) fn redirect_requisite(
        &self,
        url: &Url,
        lease: &Lease,
        location: &str,
        requisites: &mut Outlinks,
    ) -> Outcome {
        let strip_query = &self.fetcher.config().strip_query;
        redirect::follow(url, lease.redirects, location, strip_query, |target, redirects| {
            self.check_requisite(&self.scope(), target, &Domain::from_url(url))?;
            let task = TaskKind::Requisite.task_url_of(target);
            *requisites = Outlinks { redirects, ..Outlinks::new([task], lease.depth) };
            Ok(())
        })
    }
}
