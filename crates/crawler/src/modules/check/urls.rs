//! What the records of a link check say about each URL.
//!
//! About 20 bytes are kept for each URL, and more for those that are not fine, up to [`MAX_KEPT`] in each list of the report.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::StatusCodes;
use super::records::{PageRecord, UrlEntry};
use super::report::CheckCounts;
use super::verdict::Verdict;
use crate::config::MAX_REDIRECTS;

/// How many URLs of each [list](super::verdict::List) are kept with their details. Those beyond are counted.
pub(super) const MAX_KEPT: usize = 100_000;

/// How many start URLs the report names.
const MAX_SEEDS: usize = 10;

/// The most sitemaps that are named because they could not be read.
const MAX_FAILED_SITEMAPS: usize = 100;

/// What is known of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlState {
    /// Requested, and not as a page.
    Fine,
    /// Requested as a page.
    Crawled,
    /// A page whose identifiers are known.
    Page,
    /// Not fine, or a redirect: the index of what is kept about it.
    Kept(u32),
    /// Not fine, and nothing more is kept.
    Dropped { verdict: Verdict, crawled: bool },
    /// A redirect of which only the target's hash is kept: its index.
    DroppedRedirect(u32),
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
    /// The fragment of this target, undecoded.
    pub(super) fragment: Option<String>,
    pub(super) found_on: Option<String>,
}

/// A redirect that is not kept.
struct DroppedRedirect {
    to: u64,
    is_permanent: bool,
    crawled: bool,
    has_fragment: bool,
}

/// A redirect, as far as it is kept.
struct Redirect<'u> {
    target: Option<&'u str>,
    hash: u64,
    is_permanent: bool,
    /// The fragment of the target; empty if it is not kept.
    fragment: Option<&'u str>,
}

/// Where the redirects of a URL lead.
pub(super) struct Resolved<'u> {
    /// The last URL whose state is known.
    pub(super) hash: u64,
    pub(super) state: Option<UrlState>,
    /// What is wrong with the last URL.
    pub(super) verdict: Verdict,
    /// The last target, unless it is not kept.
    pub(super) target: Option<&'u str>,
    /// The fragment that redirects gave instead of that of the link; empty if it is not kept.
    pub(super) fragment: Option<&'u str>,
    pub(super) is_redirected: bool,
    /// Whether all redirects on the way are permanent.
    pub(super) is_permanent: bool,
    /// Whether the last URL redirects, too.
    pub(super) is_endless: bool,
}

impl Resolved<'_> {
    /// The last target with the fragment that redirects gave, unless it is not kept.
    pub(super) fn location(&self) -> Option<String> {
        let (target, fragment) = (self.target?, self.fragment.unwrap_or_default());
        Some(if fragment.is_empty() { target.to_owned() } else { format!("{target}#{fragment}") })
    }
}

/// The URLs of a check.
pub(super) struct CheckedUrls {
    pub(super) hasher: RandomState,
    accepted: StatusCodes,
    pub(super) max_kept: usize,
    pub(super) states: HashMap<u64, UrlState>,
    /// In no order if some were replaced: only those that a state refers to count.
    pub(super) kept: Vec<KeptUrl>,
    /// The places in `kept` that no state refers to any more.
    unused: Vec<u32>,
    /// How many are kept of each list.
    kept_counts: [usize; 3],
    dropped_redirects: Vec<DroppedRedirect>,
    pub(super) seeds: Vec<String>,
    pub(super) sitemaps: HashSet<u64>,
    /// Sitemaps that could not be read, and why; the first hundred of them.
    pub(super) failed_sitemaps: BTreeMap<String, String>,
    /// Where URLs were found first.
    pub(super) sources: HashSet<u64>,
    counts: CheckCounts,
}

impl CheckedUrls {
    /// No URLs yet. These statuses are fine, and at most this many URLs of each list are kept.
    pub(super) fn new(accepted: StatusCodes, max_kept: usize) -> CheckedUrls {
        CheckedUrls {
            hasher: RandomState::new(),
            accepted,
            max_kept,
            states: HashMap::new(),
            kept: Vec::new(),
            unused: Vec::new(),
            kept_counts: [0; 3],
            dropped_redirects: Vec::new(),
            seeds: Vec::new(),
            sitemaps: HashSet::new(),
            failed_sitemaps: BTreeMap::new(),
            sources: HashSet::new(),
            counts: CheckCounts::default(),
        }
    }

    pub(super) fn hash(&self, url: &str) -> u64 {
        self.hasher.hash_one(url)
    }

    /// A URL may have been requested twice: as a page, and only to find out whether it exists. What a request of the page showed
    /// counts, since servers may reply to HEAD requests as they like. Otherwise the later request counts: a resumed crawl may
    /// repeat those that failed.
    pub(super) fn add(&mut self, entry: &UrlEntry) {
        let verdict = self.accepted.apply(entry.verdict, entry.status);
        if let Some(found_on) = &entry.found_on {
            self.sources.insert(self.hash(found_on));
        }
        let is_seed = entry.found_on.is_none() && entry.crawled;
        if is_seed && self.seeds.len() < MAX_SEEDS && !self.seeds.iter().any(|seed| *seed == entry.url) {
            self.seeds.push(entry.url.to_string());
        }
        let hash = self.hash(&entry.url);
        if verdict == Verdict::Sitemap {
            self.sitemaps.insert(hash);
            self.failed_sitemaps.remove(&*entry.url);
            if !entry.reason.is_empty() && self.failed_sitemaps.len() < MAX_FAILED_SITEMAPS {
                self.failed_sitemaps.insert(entry.url.to_string(), entry.reason.to_string());
            }
            return;
        }
        match self.states.get(&hash) {
            // The entry of the page itself.
            Some(UrlState::Page) => return,
            Some(old) if (verdict.is_conclusive(), entry.crawled) < self.rank(*old) => return,
            _ => self.release(hash),
        }
        let state = match verdict {
            Verdict::Fine if entry.crawled => UrlState::Crawled,
            Verdict::Fine => UrlState::Fine,
            verdict => self.keep(entry, verdict),
        };
        self.states.insert(hash, state);
    }

    /// The result with the higher rank counts: whether it is conclusive, and whether the URL was requested as a page.
    fn rank(&self, state: UrlState) -> (bool, bool) {
        let crawled = match state {
            UrlState::Fine => false,
            UrlState::Crawled | UrlState::Page => true,
            UrlState::Kept(index) => self.kept[index as usize].crawled,
            UrlState::Dropped { crawled, .. } => crawled,
            UrlState::DroppedRedirect(index) => self.dropped_redirects[index as usize].crawled,
        };
        (self.verdict(state).is_conclusive(), crawled)
    }

    fn verdict(&self, state: UrlState) -> Verdict {
        match state {
            UrlState::Fine | UrlState::Crawled | UrlState::Page => Verdict::Fine,
            UrlState::Kept(index) => self.kept[index as usize].verdict,
            UrlState::Dropped { verdict, .. } => verdict,
            UrlState::DroppedRedirect(_) => Verdict::Redirect,
        }
    }

    /// Makes room for what replaces the state of a URL.
    fn release(&mut self, hash: u64) {
        if let Some(UrlState::Kept(index)) = self.states.get(&hash) {
            self.kept_counts[self.kept[*index as usize].verdict.list() as usize] -= 1;
            self.unused.push(*index);
        }
    }

    /// Keeps a URL that is not fine, if there is room.
    fn keep(&mut self, entry: &UrlEntry, verdict: Verdict) -> UrlState {
        let to = entry.to.as_ref().map(|to| (to.to_string(), self.hash(to)));
        let count = &mut self.kept_counts[verdict.list() as usize];
        if *count >= self.max_kept {
            return match (verdict, to) {
                (Verdict::Redirect, Some((_, to))) => {
                    self.dropped_redirects.push(DroppedRedirect {
                        to,
                        is_permanent: is_permanent(entry.status),
                        crawled: entry.crawled,
                        has_fragment: entry.fragment.is_some(),
                    });
                    UrlState::DroppedRedirect(self.dropped_redirects.len() as u32 - 1)
                }
                _ => UrlState::Dropped { verdict, crawled: entry.crawled },
            };
        }
        *count += 1;
        let kept = KeptUrl {
            url: entry.url.to_string(),
            verdict,
            crawled: entry.crawled,
            status: entry.status,
            reason: entry.reason.to_string(),
            to,
            fragment: entry.fragment.as_ref().map(Cow::to_string),
            found_on: entry.found_on.as_ref().map(Cow::to_string),
        };
        match self.unused.pop() {
            Some(index) => {
                self.kept[index as usize] = kept;
                UrlState::Kept(index)
            }
            None => {
                self.kept.push(kept);
                UrlState::Kept(self.kept.len() as u32 - 1)
            }
        }
    }

    pub(super) fn add_page(&mut self, page: &PageRecord) {
        self.counts.pages += 1;
        self.counts.links += page.links.len() as u64;
        let hash = self.hash(&page.url);
        self.release(hash);
        // Links to anchors in the part that was not read are not known to be broken.
        let has_all_ids = page.ids.is_some() && !page.truncated;
        self.states.insert(hash, if has_all_ids { UrlState::Page } else { UrlState::Crawled });
    }

    /// The counts of pages, links, and URLs that were requested.
    pub(super) fn counts(&self) -> CheckCounts {
        let is_requested = |state: &&UrlState| match state {
            UrlState::Kept(index) if self.kept[*index as usize].status.is_some() => true,
            state => self.verdict(**state).is_conclusive(),
        };
        CheckCounts { urls: self.states.values().filter(is_requested).count() as u64, ..self.counts }
    }

    /// The hashes of the targets of all redirects.
    pub(super) fn redirect_targets(&self) -> HashSet<u64> {
        self.states.values().filter_map(|state| self.redirect(*state)).map(|redirect| redirect.hash).collect()
    }

    fn redirect(&self, state: UrlState) -> Option<Redirect<'_>> {
        match state {
            UrlState::Kept(index) => {
                let kept = &self.kept[index as usize];
                let (to, hash) = kept.to.as_ref().filter(|_| kept.verdict == Verdict::Redirect)?;
                Some(Redirect {
                    target: Some(to),
                    hash: *hash,
                    is_permanent: is_permanent(kept.status),
                    fragment: kept.fragment.as_deref(),
                })
            }
            UrlState::DroppedRedirect(index) => {
                let DroppedRedirect { to, is_permanent, has_fragment, .. } =
                    self.dropped_redirects[index as usize];
                Some(Redirect { target: None, hash: to, is_permanent, fragment: has_fragment.then_some("") })
            }
            _ => None,
        }
    }

    /// A URL and those that its redirects lead to.
    pub(super) fn chain(&self, hash: u64) -> Vec<u64> {
        let next = |hash: &u64| self.redirect(*self.states.get(hash)?).map(|redirect| redirect.hash);
        std::iter::successors(Some(hash), next).take(MAX_REDIRECTS as usize + 1).collect()
    }

    /// Whether the check started from a URL, a sitemap lists it, or such a URL redirects to it.
    pub(super) fn is_start(&self, kept: &KeptUrl) -> bool {
        kept.found_on.as_ref().is_none_or(|url| self.sitemaps.contains(&self.hash(url)))
    }

    /// Follows the redirects of a URL.
    pub(super) fn resolve(&self, mut hash: u64) -> Resolved<'_> {
        let (mut target, mut fragment, mut is_redirected, mut is_permanent) = (None, None, false, true);
        let mut state = self.states.get(&hash).copied();
        for _ in 0..=MAX_REDIRECTS {
            let Some(redirect) = state.and_then(|state| self.redirect(state)) else { break };
            (target, hash, is_redirected) = (redirect.target, redirect.hash, true);
            (fragment, is_permanent) = (redirect.fragment.or(fragment), is_permanent & redirect.is_permanent);
            state = self.states.get(&hash).copied();
        }
        if let (Some(UrlState::Kept(index)), true) = (state, is_redirected) {
            target = Some(&self.kept[index as usize].url);
        }
        let verdict = state.map_or(Verdict::NotReached, |state| self.verdict(state));
        let is_endless = verdict == Verdict::Redirect;
        let verdict = if is_endless { Verdict::BadRedirect } else { verdict };
        Resolved { hash, state, verdict, target, fragment, is_redirected, is_permanent, is_endless }
    }
}

fn is_permanent(status: Option<u16>) -> bool {
    matches!(status, Some(301 | 308))
}
