//! The result of a link check, as all its formats show it.

use std::fmt;

use super::verdict::Verdict;
use crate::format::counted;

/// What a link check found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Report {
    /// The URLs that the check started from, the first few.
    pub(super) seeds: Vec<String>,
    pub(super) counts: CheckCounts,
    /// Why the check is not complete. Empty if it is.
    pub(super) gaps: Vec<String>,
    /// Broken links, by URL.
    pub(super) broken: Vec<Finding>,
    /// Links that redirect permanently, if they are reported.
    pub(super) redirected: Vec<Finding>,
    /// Links that were not checked.
    pub(super) not_checked: Vec<Finding>,
}

/// How many there are of each, listed or not. URLs with different fragments count as one, except those of broken anchors.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct CheckCounts {
    /// Pages whose links were checked.
    pub(super) pages: u64,
    /// Links on these pages, with repetitions.
    pub(super) links: u64,
    /// URLs that were requested.
    pub(super) urls: u64,
    /// URLs, and anchors of pages, that are broken.
    pub(super) broken: u64,
    /// URLs that redirect permanently to one that is fine.
    pub(super) redirected: u64,
    /// URLs that were not checked.
    pub(super) not_checked: u64,
    /// Anchors in pages that were requested and not read.
    pub(super) anchors_not_checked: u64,
}

/// A URL that is not fine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    /// The URL as it is linked, with its fragment if that is what is broken.
    pub(super) url: String,
    pub(super) verdict: Verdict,
    /// The HTTP status.
    pub(super) status: Option<u16>,
    pub(super) reason: String,
    /// Where redirects lead.
    pub(super) target: Option<String>,
    /// The number of pages that link to the URL.
    pub(super) pages: u64,
    /// The number of links to the URL.
    pub(super) links: u64,
    /// The first of these links.
    pub(super) references: Vec<IncomingLink>,
    /// Where a URL comes from that no page links to.
    pub(super) origin: Option<UnlinkedOrigin>,
}

/// A link to a URL that is not fine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IncomingLink {
    /// The page that has the link.
    pub(super) page: String,
    /// The kind of element.
    pub(super) element: String,
    pub(super) text: String,
}

/// Where a URL comes from that no page links to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnlinkedOrigin {
    /// The check started there.
    Seed,
    /// A sitemap or another URL, which led to it.
    FoundOn(String),
}

impl Finding {
    /// What is wrong, with the redirects that led there.
    pub(super) fn words(&self) -> String {
        match &self.target {
            Some(target) if self.verdict == Verdict::Redirect => format!("moved permanently to {target}"),
            None if self.verdict == Verdict::Redirect => "moved permanently".into(),
            Some(target) => format!("redirects to {target}: {}", self.reason),
            None => self.reason.clone(),
        }
    }

    /// How many links are not listed.
    pub(super) fn unlisted(&self) -> u64 {
        self.links.saturating_sub(self.references.len() as u64)
    }

    /// Who links to it, in words.
    pub(super) fn linked_from(&self) -> String {
        match &self.origin {
            Some(UnlinkedOrigin::Seed) => "the check starts from it".into(),
            Some(UnlinkedOrigin::FoundOn(url)) => format!("found in {url}"),
            None if self.links == self.pages => format!("linked from {}", counted(self.pages, "page")),
            None => format!("linked from {}, {}", counted(self.pages, "page"), counted(self.links, "link")),
        }
    }
}

impl IncomingLink {
    /// The link, in words: its text, or its element if it has none.
    pub(super) fn label(&self) -> String {
        match (self.text.as_str(), self.element.as_str()) {
            ("", element) => format!("<{element}>"),
            (text, "a") => format!("\"{text}\""),
            (text, element) => format!("<{element}> \"{text}\""),
        }
    }
}

/// The counts in one line.
impl fmt::Display for CheckCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckCounts { pages, links, urls, broken, redirected, not_checked, anchors_not_checked } = *self;
        write!(
            f,
            "{}, {}, {} checked: ",
            counted(pages, "page"),
            counted(links, "link"),
            counted(urls, "URL")
        )?;
        match broken {
            0 => f.write_str("none broken")?,
            _ => write!(f, "{} broken", crate::format::number(broken))?,
        }
        for (count, what) in [(redirected, "moved permanently"), (not_checked, "not checked")] {
            if count > 0 {
                write!(f, " · {} {what}", crate::format::number(count))?;
            }
        }
        if anchors_not_checked > 0 {
            write!(f, " · {} not checked", counted(anchors_not_checked, "anchor"))?;
        }
        Ok(())
    }
}
