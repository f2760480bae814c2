//! Events of a classic crawl, for progress displays and logs.

use crate::html::BadLink;
use crate::modules::page_pipeline::OutcomeCallback;
use crate::outcome::Outcome;
use crate::scope::RejectReason;
use crate::stats::Stats;

/// Something that happened to a URL. URLs are normalized; text that comes from the web may contain any character.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A page was downloaded.
    Fetched {
        /// Its size in decoded bytes.
        bytes: usize,
    },
    /// A page was written to a file.
    Saved {
        /// The number of the file.
        id: u64,
    },
    /// The links of a page are about to be extracted.
    Scanning,
    /// A link was found. The URL is its target.
    Found,
    /// The link is new and will be fetched.
    Added,
    /// The link was seen before.
    Duplicate,
    /// The link is not followed.
    Ignored {
        /// The reason.
        reason: RejectReason,
    },
    /// A link has no usable target. The URL is that of its page.
    BadLink {
        /// The reason.
        reason: BadLink,
    },
    /// The URL ended with another outcome than a page.
    Ended {
        /// The outcome.
        outcome: &'a Outcome,
    },
}

/// Watches a classic crawl. The crawl's own loop calls these methods, so a slow observer slows down the crawl.
pub trait Observer {
    /// Called for each event.
    fn on_event(&self, event: Event<'_>, depth: u32, url: &str);

    /// Called before a URL is fetched.
    fn on_fetch_start(&self, _url: &str, _depth: u32) {}

    /// Called after a URL has its outcome.
    fn on_progress(&self, _stats: &Stats, _url: &str) {}

    /// Whether events of single links are wanted. A crawl has far more links than pages.
    fn wants_links(&self) -> bool {
        false
    }
}

/// An observer that passes on the outcome of each URL.
pub(crate) struct OutcomeObserver(pub(crate) OutcomeCallback);

impl Observer for OutcomeObserver {
    fn on_event(&self, event: Event<'_>, _: u32, url: &str) {
        match event {
            Event::Saved { .. } => (self.0)(url, &Outcome::Page),
            Event::Ended { outcome } => (self.0)(url, outcome),
            _ => {}
        }
    }
}
