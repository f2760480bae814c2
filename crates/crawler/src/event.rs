//! What a crawl tells while it runs.

use crate::html::BadLink;
use crate::outcome::Outcome;
use crate::scope::RejectReason;
use crate::stats::Stats;
use crate::task::Depth;

/// One thing that happened, to a URL at a depth. URLs are normalised; texts from the web may hold any character.
#[derive(Debug)]
pub enum Event<'a> {
    /// A page was downloaded.
    Fetched {
        /// How many bytes, decoded.
        bytes: usize,
    },
    /// A page was written as document `id`.
    Saved {
        /// Its number.
        id: u64,
    },
    /// A page's links are about to be found.
    Scanning,
    /// A link was found (the URL is its target).
    DiscoveredUrl,
    /// The link is new and will be visited.
    Added,
    /// The link is known already.
    Duplicate,
    /// The link is not followed.
    Ignored {
        /// Why.
        why: RejectReason,
    },
    /// A link was found that has no URL to be told, or none that may be (the URL is that of its page).
    BadLink {
        /// What is wrong with it.
        why: BadLink,
    },
    /// The URL ended otherwise than kept.
    Ended {
        /// How.
        outcome: &'a Outcome,
    },
}

/// Somebody who watches a crawl.
pub trait Observer {
    /// Something happened. Called from the crawl's own loop: what takes long here holds up the crawl.
    fn on_event(&self, event: Event<'_>, depth: Depth, url: &str);

    /// A URL is about to be visited.
    fn on_fetch_start(&self, _url: &str, _depth: Depth) {}

    /// A URL has ended; these are the counts now.
    fn on_progress(&self, _stats: &Stats, _url: &str) {}

    /// Whether the events of single links are wanted; a crawl has far more links than pages.
    fn wants_links(&self) -> bool {
        false
    }
}

/// An observer that looks away.
#[derive(Debug, Clone, Copy)]
pub struct NoopObserver;

impl Observer for NoopObserver {
    fn on_event(&self, _: Event<'_>, _: Depth, _: &str) {}
}
