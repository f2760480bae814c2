//! What a worker does with sitemaps: admits those that a robots.txt names, and the URLs of those that it reads.

use std::collections::BTreeMap;

use url::Url;

use super::Worker;
use crate::backend::{Backend, Completion, Lease, Outlinks};
use crate::fetch::redirect;
use crate::format::counted;
use crate::outcome::Outcome;
use crate::scope::RejectReason;
use crate::sitemap::reader::Contents;
use crate::sitemap::{self, LISTED_DEPTH, MAX_INDEXES};
use crate::task_kind::TaskKind;
use crate::url_list::UrlList;

impl<R: Backend> Worker<R> {
    /// Adds the sitemaps that the robots.txt of a page's origin names to the page's completion, unless they are admitted. They
    /// may be on another host. The URL of the page is parsed if it is not given.
    pub(super) fn collect_robots_sitemaps(
        &self,
        url: Option<&Url>,
        lease: &Lease,
        completion: &mut Completion,
    ) {
        if !self.context.uses_sitemaps || lease.kind() != TaskKind::Page {
            return;
        }
        let parsed = if url.is_none() { Url::parse(&lease.url).ok() } else { None };
        let Some(url) = url.or(parsed.as_ref()) else { return };
        let named = self.fetcher.robots().sitemaps(url);
        let tasks = named.iter().filter_map(|sitemap| sitemap::task_url_of(url, sitemap).ok());
        let scope = self.scope();
        let allowed = tasks.filter(|task| scope.check_address(task).is_ok());
        completion.sitemaps = Outlinks::new(allowed, 0);
        if completion.sitemaps.urls.is_empty() && !named.is_empty() {
            // None can be admitted, now or with the next page.
            self.robots_sitemaps_admitted(lease);
        }
    }

    /// Records that the sitemaps of an origin are admitted.
    pub(super) fn robots_sitemaps_admitted(&self, lease: &Lease) {
        if let Ok(url) = Url::parse(&lease.url) {
            self.fetcher.robots().set_sitemaps_admitted(&url);
        }
    }

    /// Follows the redirect of a sitemap, which may lead to another host.
    pub(super) fn redirect_sitemap(
        &self,
        url: &Url,
        lease: &Lease,
        location: &str,
        sitemaps: &mut Outlinks,
    ) -> Outcome {
        let strip_query = &self.fetcher.config().strip_query;
        redirect::follow(url, lease.redirects, location, strip_query, |target, redirects| {
            self.scope().check_address(target)?;
            let task = TaskKind::Sitemap.task_url_of(target);
            *sitemaps = Outlinks { redirects, ..Outlinks::new([task], lease.depth) };
            Ok(())
        })
    }

    /// Sets what a sitemap adds to the crawl: pages in scope, when they were last modified, and further sitemaps.
    pub(super) fn process_sitemap(
        &self,
        lease: &Lease,
        contents: Contents,
        completion: &mut Completion,
    ) -> Outcome {
        let listed = contents.listed();
        let Contents { mut urls, lastmods, mut sitemaps, bad_links, mut problem, .. } = contents;
        let mut rejected = BTreeMap::<&'static str, u64>::new();
        let mut reject = |why: RejectReason| *rejected.entry(why.label()).or_default() += 1;
        bad_links.into_iter().for_each(|bad_link| reject(RejectReason::InvalidLink(bad_link)));
        let strip_query = &self.fetcher.config().strip_query;
        if !strip_query.patterns().is_empty() {
            urls = urls.iter().map(|url| strip_query.strip(url)).collect();
        }
        let (scope, key) = (self.scope(), self.context.backend.hash_key());
        let mut lastmods = lastmods.into_iter().peekable();
        urls.retain(|index, url| {
            let lastmod = lastmods.next_if(|(of, _)| *of as usize == index);
            let checked = scope.check(url);
            match checked {
                Ok(()) => completion.lastmods.extend(lastmod.map(|(_, lastmod)| (key.url_id(url), lastmod))),
                Err(why) => reject(why),
            }
            checked.is_ok()
        });
        let indexes = lease.depth + 1;
        if indexes > MAX_INDEXES && !sitemaps.is_empty() {
            problem.get_or_insert_with(|| {
                format!("more than {MAX_INDEXES} sitemap indexes led to its sitemaps")
            });
            sitemaps = UrlList::default();
        }
        let children = sitemaps.iter().filter(|url| match scope.check_address(url) {
            Ok(()) => true,
            Err(why) => {
                reject(why);
                false
            }
        });
        let children = children.map(|url| TaskKind::Sitemap.task_url_of(url));
        completion.sitemaps = Outlinks::new(children, indexes);
        completion.outlinks = Outlinks { urls, ..Outlinks::new([""; 0], LISTED_DEPTH) };
        completion.rejected_links = rejected.into_iter().map(|(why, count)| (why.into(), count)).collect();
        let is_used = !completion.outlinks.urls.is_empty() || !completion.sitemaps.urls.is_empty();
        match problem {
            None => Outcome::Sitemap { urls: listed as u64 },
            Some(mut cause) => {
                if is_used {
                    cause += &match listed {
                        1 => "; the URL before that is used".into(),
                        _ => format!("; the {} before that are used", counted(listed as u64, "URL")),
                    };
                }
                Outcome::SitemapFailed { cause, is_temporary: false }
            }
        }
    }
}
