//! What a worker does with the links of a page, and with redirects: checks them, and collects what is admitted.

use std::borrow::Cow;

use url::Url;

use super::Worker;
use super::parsed_page::ParsedPage;
use crate::backend::{Backend, Completion, Lease, Outlinks};
use crate::domain::Domain;
use crate::fetch::redirect;
use crate::html::BadLink;
use crate::origin::{origin_prefix, throttle_key};
use crate::outcome::Outcome;
use crate::prioritizer::SourceLink;
use crate::scope::RejectReason;
use crate::url_list::UrlList;

impl<R: Backend> Worker<R> {
    /// Sets the outlinks, the linked domains and the rejected links of a completion.
    pub(super) fn collect_links(
        &self,
        parsed: &mut ParsedPage,
        is_followed: bool,
        completion: &mut Completion,
    ) {
        let links = &parsed.page.links;
        let (mut outlinks, mut source_links) = (UrlList::with_capacity_of(links), Vec::new());
        let mut rejected: Vec<(RejectReason, u64)> = Vec::new();
        let mut reject = |why: RejectReason| match rejected.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, count)) => *count += 1,
            None => rejected.push((why, 1)),
        };
        let obeys_nofollow = self.fetcher.config().requests.obey_robots;
        let is_page_nofollow = obeys_nofollow && parsed.page.robots.nofollow;
        let mut nofollow_links = parsed.nofollow_links.iter().filter(|_| obeys_nofollow).peekable();
        let wants_source_links = self.context.wants_source_links;
        let scope = self.scope();
        let mut checker = scope.checker();
        let mut origins: Vec<&str> = Vec::new();
        let mut not_requested = Vec::new();
        for (index, url) in links.iter().enumerate() {
            let is_nofollow = is_page_nofollow || nofollow_links.next_if_eq(&&index).is_some();
            if !is_nofollow && origins.last().is_none_or(|origin| !url.starts_with(origin)) {
                origins.push(origin_prefix(url));
            }
            let checked = if is_nofollow { Err(RejectReason::Nofollow) } else { checker.check(url) };
            match self.link_task(&scope, url, checked, is_followed) {
                Ok(task) => {
                    outlinks.push(&task);
                    let detail = parsed.page.link_details.get(index).filter(|_| wants_source_links);
                    source_links
                        .extend(detail.map(|detail| SourceLink::new(detail.text.clone(), index as u32)));
                }
                Err(why) => {
                    reject(why);
                    if self.checks_links() {
                        not_requested.push((index, why));
                    }
                }
            }
        }
        for bad_link in &parsed.bad_links {
            reject(RejectReason::InvalidLink(*bad_link));
        }
        let depth = completion.lease.depth + 1;
        completion.outlinks = Outlinks { urls: outlinks, depth, redirects: 0, source_links, seen: 0 };
        completion.rejected_links =
            rejected.iter().map(|(why, count)| (why.label().into(), *count)).collect();
        completion.linked_domains = linked_domains(origins);
        let mut bad_links = parsed.bad_links.iter().chain(&parsed.bad_requisites);
        parsed.page.not_requested.is_incomplete = bad_links.any(|bad_link| *bad_link == BadLink::TooMany);
        parsed.page.not_requested.links = not_requested;
    }

    /// The target has the depth of the URL that redirected to it.
    pub(super) fn redirect(
        &self,
        url: &Url,
        lease: &Lease,
        location: &str,
        outlinks: &mut Outlinks,
    ) -> Outcome {
        let strip_query = &self.fetcher.config().strip_query;
        redirect::follow(url, lease.redirects, location, strip_query, |target, redirects| {
            let scope = self.scope();
            let checked = scope.check(target);
            let task = match lease.is_seed() {
                // The error says where to start instead.
                true => checked.map(|()| Cow::Borrowed(target))?,
                false => self.link_task(&scope, target, checked, true)?,
            };
            *outlinks = Outlinks { redirects, ..Outlinks::new([task], lease.depth) };
            Ok(())
        })
    }
}

/// The domains of origins, without repetitions.
fn linked_domains(mut origins: Vec<&str>) -> Vec<Domain> {
    origins.sort_unstable();
    origins.dedup();
    let hosts = origins.into_iter().map(throttle_key);
    let mut domains: Vec<Domain> = hosts.map(Domain::from_throttle_key).collect();
    domains.sort();
    domains.dedup();
    domains
}
