//! Makes the report of a link check from its records, in a few passes over their file.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use super::CheckOptions;
use super::anchors::{MissingAnchors, identifier};
use super::records::{LinkEntry, PageRecord, Record};
use super::report::{Counts, Finding, Origin, Reference, Report};
use super::urls::{MAX_KEPT, Resolved, UrlState, Urls};
use super::verdict::Verdict;
use crate::error::StorageError;
use crate::format::counted;
use crate::modules::output::finish::Records;

/// How many links to a URL are listed.
const MAX_REFERENCES: usize = 100;

/// How many bytes the listed links of all URLs take, beyond the first of each.
const MAX_REFERENCE_BYTES: usize = 64 << 20;

/// Why a link is not requested that is not a URL.
pub(super) const MALFORMED: &str = "not a URL";

/// Reads the records of a check.
pub(super) fn analyse(records: &Records, options: &CheckOptions) -> Result<Report, StorageError> {
    let mut urls = Urls { accepted: options.accept.clone(), ..Urls::default() };
    let mut truncated = 0_u64;
    Record::for_each(records, |record| match record {
        Record::Url(url) => urls.add(&url),
        Record::Page(page) => {
            urls.add_page(&page);
            truncated += u64::from(page.truncated);
        }
    })?;
    let missing =
        if options.fragments { MissingAnchors::find(records, &urls)? } else { MissingAnchors::default() };
    let mut findings = Findings::new(&urls, &missing, options);
    Record::for_each(records, |record| {
        if let Record::Page(page) = record {
            findings.add_page(&page);
        }
    })?;
    Ok(findings.into_report(truncated))
}

/// Collects the links to URLs that are not fine.
struct Findings<'u> {
    urls: &'u Urls,
    missing: &'u MissingAnchors,
    options: &'u CheckOptions,
    findings: HashMap<u64, OpenFinding>,
    /// The hashes of findings that are not kept, by whether they are broken.
    unlisted: HashMap<u64, Verdict>,
    reference_bytes: usize,
    page_number: u64,
    /// URLs that are linked to and have no outcome.
    without_outcome: HashSet<u64>,
}

/// A finding, and the last page that was found to link to it.
struct OpenFinding {
    finding: Finding,
    last_page: u64,
}

impl<'u> Findings<'u> {
    fn new(urls: &'u Urls, missing: &'u MissingAnchors, options: &'u CheckOptions) -> Findings<'u> {
        Findings {
            urls,
            missing,
            options,
            findings: HashMap::new(),
            unlisted: HashMap::new(),
            reference_bytes: 0,
            page_number: 0,
            without_outcome: HashSet::new(),
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
        let Resolved { hash: last, state, target, is_permanent } = self.urls.resolve(hash);
        let target = target.map(str::to_owned);
        match state {
            Some(UrlState::Kept(index)) => {
                let kept = &self.urls.kept[index as usize];
                let is_endless = kept.verdict == Verdict::Redirect;
                let verdict = if is_endless { Verdict::BadRedirect } else { kept.verdict };
                let reason = if is_endless { "too many redirects".into() } else { kept.reason.clone() };
                Some((hash, Finding { status: kept.status, target, ..finding(verdict, reason) }))
            }
            None if !link.rejected.is_empty() && target.is_none() => {
                let verdict =
                    if link.rejected == MALFORMED { Verdict::Malformed } else { Verdict::NotChecked };
                Some((hash, finding(verdict, link.rejected.to_string())))
            }
            None => {
                self.without_outcome.insert(last);
                Some((hash, Finding { target, ..finding(Verdict::NotReached, "no result".into()) }))
            }
            Some(UrlState::Page) if self.missing.contain(self.urls, link) => {
                let key = self.urls.hasher.hash_one((hash, &*link.fragment));
                let url = format!("{}#{}", link.url, link.fragment);
                let id = identifier(&link.fragment).unwrap_or_default();
                let reason = format!("the page has no element with the identifier {id:?}");
                Some((key, Finding { url, target, ..finding(Verdict::Anchor, reason) }))
            }
            Some(_) if target.is_some() && is_permanent => {
                Some((hash, Finding { target, ..finding(Verdict::Redirect, String::new()) }))
            }
            Some(_) => None,
        }
    }

    fn add_reference(&mut self, key: u64, finding: Finding, page: &PageRecord, link: &LinkEntry) {
        let is_listed = finding.verdict != Verdict::Redirect || self.options.redirects;
        let is_full = self.findings.len() >= MAX_KEPT;
        if !is_listed || is_full && !self.findings.contains_key(&key) {
            self.unlisted.insert(key, finding.verdict);
            return;
        }
        let OpenFinding { finding, last_page } =
            self.findings.entry(key).or_insert(OpenFinding { finding, last_page: 0 });
        finding.links += 1;
        finding.pages += u64::from(*last_page != self.page_number);
        *last_page = self.page_number;
        let bytes = page.url.len() + link.element.len() + link.text.len();
        let has_room =
            finding.references.len() < MAX_REFERENCES && self.reference_bytes < MAX_REFERENCE_BYTES;
        if finding.references.is_empty() || has_room {
            self.reference_bytes += bytes;
            finding.references.push(Reference {
                page: page.url.to_string(),
                element: link.element.to_string(),
                text: link.text.to_string(),
            });
        }
    }

    /// Adds what no page links to: start URLs, and those that a sitemap lists.
    fn add_unlinked(&mut self) {
        let targets: HashSet<u64> =
            self.urls.kept.iter().filter_map(|url| url.to.as_ref()).map(|to| to.1).collect();
        for (index, kept) in self.urls.kept.iter().enumerate() {
            let hash = self.urls.hash(&kept.url);
            let is_current = self.urls.states.get(&hash) == Some(&UrlState::Kept(index as u32));
            let is_known = self.findings.contains_key(&hash) || targets.contains(&hash);
            let resolved = self.urls.resolve(hash);
            let verdict = match resolved.state {
                Some(UrlState::Kept(last)) => self.urls.kept[last as usize].verdict,
                _ => Verdict::Fine,
            };
            if !is_current || is_known || verdict == Verdict::Fine {
                continue;
            }
            let link = LinkEntry { url: kept.url.as_str().into(), ..LinkEntry::default() };
            let Some((key, mut finding)) = self.finding_of(&link) else { continue };
            finding.origin = Some(match &kept.found_on {
                Some(url) => Origin::FoundOn(url.clone()),
                None => Origin::Seed,
            });
            self.findings.insert(key, OpenFinding { finding, last_page: 0 });
        }
    }

    fn into_report(mut self, truncated: u64) -> Report {
        self.add_unlinked();
        let mut report =
            Report { seeds: self.urls.seeds.clone(), counts: self.urls.counts, ..Report::default() };
        for verdict in self.unlisted.values() {
            *count_of(&mut report.counts, *verdict) += 1;
        }
        let mut not_reached = self.without_outcome.len() as u64;
        for OpenFinding { mut finding, .. } in self.findings.into_values() {
            finding.references.sort_unstable();
            *count_of(&mut report.counts, finding.verdict) += 1;
            not_reached += u64::from(finding.verdict == Verdict::NotReached && finding.reason != "no result");
            let list = match finding.verdict {
                Verdict::Redirect => &mut report.redirected,
                verdict if verdict.is_broken() => &mut report.broken,
                _ => &mut report.not_checked,
            };
            list.push(finding);
        }
        for list in [&mut report.broken, &mut report.redirected, &mut report.not_checked] {
            list.sort_unstable_by(|a, b| a.url.cmp(&b.url));
        }
        if not_reached > 0 {
            report.gaps.push(format!("{} not reached", counted(not_reached, "URL")));
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

fn count_of(counts: &mut Counts, verdict: Verdict) -> &mut u64 {
    match verdict {
        Verdict::Redirect => &mut counts.redirected,
        verdict if verdict.is_broken() => &mut counts.broken,
        _ => &mut counts.not_checked,
    }
}
