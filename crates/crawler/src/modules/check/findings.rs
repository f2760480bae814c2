//! Makes the report of a link check from its records, in a few passes over their file.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::BuildHasher;

use super::CheckOptions;
use super::anchors::{MissingAnchors, identifier};
use super::records::{CheckRecord, LinkEntry, PageRecord};
use super::report::{CheckCounts, Finding, IncomingLink, Report, UnlinkedOrigin};
use super::urls::{CheckedUrls, KeptUrl, Resolved, UrlState};
use super::verdict::{List, Verdict};
use crate::error::StorageError;
use crate::format::counted;
use crate::modules::output::finish::Records;

/// How many links to a URL are listed.
const MAX_REFERENCES: usize = 100;

/// How many bytes the listed links of all URLs take, beyond the first of each.
const MAX_REFERENCE_BYTES: usize = 64 << 20;

/// Why a link is not requested that is not a URL.
pub(super) const MALFORMED: &str = "not a URL";

/// Reads the records of a check. At most this many URLs of each list are kept.
pub(super) fn analyse(
    records: &Records,
    options: &CheckOptions,
    max_kept: usize,
) -> Result<Report, StorageError> {
    let mut urls = CheckedUrls::new(options.accept.clone(), max_kept);
    let mut truncated = 0_u64;
    CheckRecord::for_each(records, |record| match record {
        CheckRecord::Url(url) => urls.add(&url),
        CheckRecord::Page(page) => {
            urls.add_page(&page);
            truncated += u64::from(page.truncated);
        }
    })?;
    let missing =
        if options.fragments { MissingAnchors::find(records, &urls)? } else { MissingAnchors::default() };
    let mut findings = Findings::new(&urls, &missing, options);
    CheckRecord::for_each(records, |record| {
        if let CheckRecord::Page(page) = record {
            findings.add_page(&page);
        }
    })?;
    Ok(findings.into_report(truncated))
}

/// Collects the links to URLs that are not fine.
struct Findings<'u> {
    urls: &'u CheckedUrls,
    missing: &'u MissingAnchors,
    options: &'u CheckOptions,
    findings: HashMap<u64, OpenFinding>,
    /// How many findings are in each list.
    listed: [usize; 3],
    /// The keys of findings that are counted and not listed.
    unlisted: HashMap<u64, Verdict>,
    reference_bytes: usize,
    page_number: u64,
    /// URLs that the check did not reach.
    not_reached: HashSet<u64>,
}

/// A finding, and the last page that was found to link to it.
struct OpenFinding {
    finding: Finding,
    last_page: u64,
}

impl<'u> Findings<'u> {
    fn new(urls: &'u CheckedUrls, missing: &'u MissingAnchors, options: &'u CheckOptions) -> Findings<'u> {
        Findings {
            urls,
            missing,
            options,
            findings: HashMap::new(),
            listed: [0; 3],
            unlisted: HashMap::new(),
            reference_bytes: 0,
            page_number: 0,
            not_reached: HashSet::new(),
        }
    }

    fn add_page(&mut self, page: &PageRecord) {
        self.page_number += 1;
        for link in &page.links {
            if let Some((key, finding)) = self.finding_of(link) {
                self.add_reference(key, finding, page, link);
            }
        }
    }

    /// What is wrong with a link, and a key for all links with which the same is wrong.
    fn finding_of(&mut self, link: &LinkEntry) -> Option<(u64, Finding)> {
        let hash = self.urls.hash(&link.url);
        let finding = |verdict, reason: String| Finding {
            url: link.url.to_string(),
            verdict,
            status: None,
            reason,
            target: None,
            pages: 0,
            links: 0,
            references: Vec::new(),
            origin: None,
        };
        let resolved = self.urls.resolve(hash);
        let Resolved { state, verdict, is_redirected, .. } = resolved;
        let target = resolved.location();
        if verdict == Verdict::NotReached && (is_redirected || link.rejected.is_empty()) {
            self.not_reached.insert(resolved.hash);
        }
        match state {
            None if !link.rejected.is_empty() && !is_redirected => {
                let verdict =
                    if link.rejected == MALFORMED { Verdict::Malformed } else { Verdict::NotChecked };
                Some((hash, finding(verdict, link.rejected.to_string())))
            }
            None => Some((hash, Finding { target, ..finding(Verdict::NotReached, "no result".into()) })),
            Some(UrlState::Kept(index)) => {
                let kept = &self.urls.kept[index as usize];
                let reason =
                    if resolved.is_endless { "too many redirects".into() } else { kept.reason.clone() };
                Some((hash, Finding { status: kept.status, target, ..finding(verdict, reason) }))
            }
            Some(UrlState::Dropped { .. } | UrlState::DroppedRedirect(_)) => {
                let reason = format!("{verdict}; there are too many to keep more about it");
                Some((hash, Finding { target, ..finding(verdict, reason) }))
            }
            Some(UrlState::Page) if self.missing.contain(self.urls, link) => {
                // The fragment of a redirect is in the target.
                let own = if resolved.fragment.is_some() { "" } else { &*link.fragment };
                let key = self.urls.hasher.hash_one((hash, own));
                let url = if own.is_empty() { link.url.to_string() } else { format!("{}#{own}", link.url) };
                let id = identifier(resolved.fragment.unwrap_or(own)).unwrap_or_default();
                let reason = format!("the page has no element with the identifier {id:?}");
                Some((key, Finding { url, target, ..finding(Verdict::Anchor, reason) }))
            }
            Some(_) if is_redirected && resolved.is_permanent => {
                Some((hash, Finding { target, ..finding(Verdict::Redirect, String::new()) }))
            }
            Some(_) => None,
        }
    }

    /// The finding with a key, if it is listed. Otherwise it is counted.
    fn open(&mut self, key: u64, finding: Finding) -> Option<&mut OpenFinding> {
        let list = finding.verdict.list();
        let is_hidden = list == List::Redirected && !self.options.redirects;
        match self.findings.entry(key) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if is_hidden || self.listed[list as usize] >= self.urls.max_kept => {
                self.unlisted.insert(key, finding.verdict);
                None
            }
            Entry::Vacant(new) => {
                self.listed[list as usize] += 1;
                Some(new.insert(OpenFinding { finding, last_page: 0 }))
            }
        }
    }

    fn add_reference(&mut self, key: u64, finding: Finding, page: &PageRecord, link: &LinkEntry) {
        let (page_number, mut reference_bytes) = (self.page_number, self.reference_bytes);
        let Some(OpenFinding { finding, last_page }) = self.open(key, finding) else { return };
        finding.links += 1;
        finding.pages += u64::from(*last_page != page_number);
        *last_page = page_number;
        let has_room = finding.references.len() < MAX_REFERENCES && reference_bytes < MAX_REFERENCE_BYTES;
        if finding.references.is_empty() || has_room {
            reference_bytes += page.url.len() + link.element.len() + link.text.len();
            finding.references.push(IncomingLink {
                page: page.url.to_string(),
                element: link.element.to_string(),
                text: link.text.to_string(),
            });
        }
        self.reference_bytes = reference_bytes;
    }

    /// Adds what no page links to: start URLs, and those that a sitemap lists. Only the first URL of a chain of redirects is
    /// added, and one URL of a loop.
    fn add_unlinked(&mut self) {
        let (urls, targets) = (self.urls, self.urls.redirect_targets());
        let mut in_loops = HashSet::new();
        for are_targets in [false, true] {
            for (index, kept) in urls.kept.iter().enumerate() {
                let hash = urls.hash(&kept.url);
                let is_current = urls.states.get(&hash) == Some(&UrlState::Kept(index as u32));
                if !is_current || targets.contains(&hash) != are_targets || self.is_known(hash) {
                    continue;
                }
                let Resolved { verdict, is_endless, .. } = urls.resolve(hash);
                let chain = if is_endless { urls.chain(hash) } else { Vec::new() };
                let is_first_of_loop = || {
                    let is_reported = |url: &u64| self.is_known(*url) || in_loops.contains(url);
                    is_endless && urls.is_start(kept) && !chain.iter().any(is_reported)
                };
                if verdict == Verdict::Fine || are_targets && !is_first_of_loop() {
                    continue;
                }
                in_loops.extend(chain);
                self.add_start(kept);
            }
        }
        self.count_dropped(&targets, in_loops);
    }

    /// Adds a URL that no page links to.
    fn add_start(&mut self, kept: &KeptUrl) {
        let link = LinkEntry { url: kept.url.as_str().into(), ..LinkEntry::default() };
        let Some((key, mut finding)) = self.finding_of(&link) else { return };
        finding.origin = Some(match &kept.found_on {
            Some(url) => UnlinkedOrigin::FoundOn(url.clone()),
            None => UnlinkedOrigin::Seed,
        });
        self.open(key, finding);
    }

    /// Counts the URLs that no page links to and of which no details are kept.
    fn count_dropped(&mut self, targets: &HashSet<u64>, mut in_loops: HashSet<u64>) {
        let is_dropped =
            |state: &UrlState| matches!(state, UrlState::Dropped { .. } | UrlState::DroppedRedirect(_));
        for (hash, _) in self.urls.states.iter().filter(|(_, state)| is_dropped(state)) {
            let Resolved { hash: last, verdict, is_endless, .. } = self.urls.resolve(*hash);
            let is_counted = if is_endless { in_loops.contains(hash) } else { targets.contains(hash) };
            if is_counted || verdict == Verdict::Fine || self.is_known(*hash) {
                continue;
            }
            if is_endless {
                in_loops.extend(self.urls.chain(*hash));
            }
            if verdict == Verdict::NotReached {
                self.not_reached.insert(last);
            }
            self.unlisted.insert(*hash, verdict);
        }
    }

    fn is_known(&self, key: u64) -> bool {
        self.findings.contains_key(&key) || self.unlisted.contains_key(&key)
    }

    fn into_report(mut self, truncated: u64) -> Report {
        self.add_unlinked();
        let counts = CheckCounts { anchors_not_checked: self.missing.not_checked, ..self.urls.counts() };
        let mut report = Report { seeds: self.urls.seeds.clone(), counts, ..Report::default() };
        for verdict in self.unlisted.values() {
            *count_of(&mut report.counts, *verdict) += 1;
        }
        let unlisted_broken = report.counts.broken;
        for OpenFinding { mut finding, .. } in self.findings.into_values() {
            finding.references.sort_unstable();
            *count_of(&mut report.counts, finding.verdict) += 1;
            let list = match finding.verdict.list() {
                List::Broken => &mut report.broken,
                List::Redirected => &mut report.redirected,
                List::NotChecked => &mut report.not_checked,
            };
            list.push(finding);
        }
        for list in [&mut report.broken, &mut report.redirected, &mut report.not_checked] {
            list.sort_unstable_by(|a, b| a.url.cmp(&b.url));
        }
        if !self.not_reached.is_empty() {
            let not_reached = counted(self.not_reached.len() as u64, "URL");
            report.gaps.push(format!("{not_reached} not reached"));
        }
        if report.counts.pages == 0 && report.counts.urls == 0 {
            report.gaps.push("nothing was requested".to_owned());
        }
        for (sitemap, reason) in &self.urls.failed_sitemaps {
            report.gaps.push(format!("{sitemap}: {reason}"));
        }
        if unlisted_broken > 0 {
            report.gaps.push(format!("{} not listed", counted(unlisted_broken, "broken URL")));
        }
        let is_known =
            |source: &&u64| self.urls.states.contains_key(source) || self.urls.sitemaps.contains(source);
        let unknown = self.urls.sources.iter().filter(|source| !is_known(source)).count() as u64;
        if unknown > 0 {
            report.gaps.push(format!("{} fetched before the check began", counted(unknown, "page")));
        }
        if truncated > 0 {
            let (pages, were) = (counted(truncated, "page"), if truncated == 1 { "was" } else { "were" });
            report
                .gaps
                .push(format!("{pages} {were} too large, or had too many links, to be read to the end"));
        }
        report
    }
}

fn count_of(counts: &mut CheckCounts, verdict: Verdict) -> &mut u64 {
    match verdict.list() {
        List::Broken => &mut counts.broken,
        List::Redirected => &mut counts.redirected,
        List::NotChecked => &mut counts.not_checked,
    }
}
