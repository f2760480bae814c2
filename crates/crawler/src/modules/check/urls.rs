//! What the records of a link check say about each URL.
//!
//! About 20 bytes are kept for each URL, and more for those that are not fine, up to [`MAX_KEPT`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::StatusCodes;
use super::records::{PageRecord, UrlEntry};
use super::report::Counts;
use super::verdict::Verdict;
use crate::config::MAX_REDIRECTS;

/// How many URLs that are not fine, or redirect, are kept. Those beyond are counted.
pub(super) const MAX_KEPT: usize = 100_000;

/// How many start URLs the report names.
const MAX_SEEDS: usize = 10;

/// What is known of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlState {
    /// Requested, and not as a page.
    Fine,
    /// Requested as a page.
    Crawled,
    /// A page whose identifiers are known.
    Page,
    /// Not fine, and not kept.
    Dropped,
    /// Not fine, or a redirect: the index of what is kept about it.
    Kept(u32),
}

/// A URL that is not fine, or redirects.
pub(super) struct KeptUrl {
    pub(super) url: String,
    pub(super) verdict: Verdict,
    pub(super) crawled: bool,
    pub(super) status: Option<u16>,
    pub(super) reason: String,
    /// The target of a redirect, and its hash.
    pub(super) to: Option<(String, u64)>,
    pub(super) found_on: Option<String>,
}

/// Where the redirects of a URL lead.
pub(super) struct Resolved<'u> {
    /// The last URL whose state is known.
    pub(super) hash: u64,
    pub(super) state: Option<UrlState>,
    /// The last target.
    pub(super) target: Option<&'u str>,
    /// Whether all redirects on the way are permanent.
    pub(super) is_permanent: bool,
}

/// The URLs of a check.
#[derive(Default)]
pub(super) struct Urls {
    pub(super) hasher: RandomState,
    pub(super) accepted: StatusCodes,
    pub(super) states: HashMap<u64, UrlState>,
    pub(super) kept: Vec<KeptUrl>,
    pub(super) seeds: Vec<String>,
    pub(super) sitemaps: HashSet<u64>,
    /// Where URLs were found first.
    pub(super) sources: HashSet<u64>,
    pub(super) counts: Counts,
}

impl Urls {
    pub(super) fn hash(&self, url: &str) -> u64 {
        self.hasher.hash_one(url)
    }

    /// A URL may have been requested twice: as a page, and only to find out whether it exists. What a request of the page showed
    /// counts, since servers may reply to HEAD requests as they like.
    pub(super) fn add(&mut self, entry: &UrlEntry) {
        let verdict = self.accepted.apply(entry.verdict, entry.status);
        if let Some(found_on) = &entry.found_on {
            self.sources.insert(self.hash(found_on));
        }
        if entry.found_on.is_none() && entry.crawled && self.seeds.len() < MAX_SEEDS {
            self.seeds.push(entry.url.to_string());
        }
        let hash = self.hash(&entry.url);
        if verdict == Verdict::Sitemap {
            self.sitemaps.insert(hash);
            return;
        }
        let is_better = |old: &UrlState| match old {
            UrlState::Page => false,
            UrlState::Crawled => false,
            UrlState::Fine | UrlState::Dropped => entry.crawled && verdict.is_conclusive(),
            UrlState::Kept(index) => {
                let old = &self.kept[*index as usize];
                (verdict.is_conclusive(), entry.crawled) > (old.verdict.is_conclusive(), old.crawled)
            }
        };
        match self.states.get(&hash) {
            Some(old) if !is_better(old) => return,
            Some(_) => {}
            None => self.counts.urls += 1,
        }
        let state = match verdict {
            Verdict::Fine if entry.crawled => UrlState::Crawled,
            Verdict::Fine => UrlState::Fine,
            _ if self.kept.len() >= MAX_KEPT => UrlState::Dropped,
            _ => {
                self.kept.push(KeptUrl {
                    url: entry.url.to_string(),
                    verdict,
                    crawled: entry.crawled,
                    status: entry.status,
                    reason: entry.reason.to_string(),
                    to: entry.to.as_ref().map(|to| (to.to_string(), self.hash(to))),
                    found_on: entry.found_on.as_ref().map(Cow::to_string),
                });
                UrlState::Kept(self.kept.len() as u32 - 1)
            }
        };
        self.states.insert(hash, state);
    }

    pub(super) fn add_page(&mut self, page: &PageRecord) {
        self.counts.pages += 1;
        self.counts.links += page.links.len() as u64;
        let hash = self.hash(&page.url);
        // Links to anchors in the part that was not read are not known to be broken.
        let has_all_ids = page.ids.is_some() && !page.truncated;
        if self.states.insert(hash, if has_all_ids { UrlState::Page } else { UrlState::Crawled }).is_none() {
            self.counts.urls += 1;
        }
    }

    /// Follows the redirects of a URL.
    pub(super) fn resolve(&self, mut hash: u64) -> Resolved<'_> {
        let (mut target, mut is_permanent) = (None, true);
        for _ in 0..=MAX_REDIRECTS {
            let state = self.states.get(&hash).copied();
            let Some(UrlState::Kept(index)) = state else {
                return Resolved { hash, state, target, is_permanent };
            };
            let kept = &self.kept[index as usize];
            let (Verdict::Redirect, Some((to, to_hash))) = (kept.verdict, &kept.to) else {
                return Resolved { hash, state, target, is_permanent };
            };
            is_permanent &= matches!(kept.status, Some(301 | 308));
            (target, hash) = (Some(to.as_str()), *to_hash);
        }
        Resolved { hash, state: self.states.get(&hash).copied(), target, is_permanent: false }
    }
}
