//! Decides which URLs are crawled first: priorities, the priority queues, and the random draw among the
//! queues.

mod depth_popularity;
mod draw;
pub mod pagerank;
mod popularity;
mod queues;
mod random;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::depth_popularity::DepthPopularity;
pub use self::draw::{draw, weight};
pub use self::pagerank::PageRank;
pub use self::popularity::Popularity;
pub use self::queues::PriorityQueues;
pub use self::random::Random;
use crate::backend::UnprioritizedUrl;
use crate::domain::Domain;
use crate::sitemap;
use crate::task::Depth;
use crate::task_kind::TaskKind;

/// The priority of a URL, from 0 (crawled first) to 100 (crawled last).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// Crawled first.
    pub const BEST: Priority = Priority(0);
    /// For URLs of unknown importance.
    pub(crate) const MIDDLE: Priority = Priority(50);
    /// Crawled last.
    pub const WORST: Priority = Priority(100);

    /// The priority with this number, which must be from 0 to 100.
    pub fn new(number: u8) -> Option<Priority> {
        (number <= Priority::WORST.0).then_some(Priority(number))
    }

    /// The priority with this number, or the worst one if the number is greater than 100.
    pub(crate) fn at_most_worst(number: u32) -> Priority {
        u8::try_from(number).ok().and_then(Priority::new).unwrap_or(Priority::WORST)
    }

    /// The number of this priority, from 0 to 100.
    pub fn number(self) -> u8 {
        self.0
    }

    /// All priorities, best first.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Priority> {
        (Priority::BEST.0..=Priority::WORST.0).map(Priority)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The link through which a URL was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SourceLink {
    /// Its text in one line, up to 100 characters. Empty for a link without text, such as an image.
    pub text: String,
    /// Its number among the links of its page, from 0.
    pub position: u32,
}

impl SourceLink {
    pub(crate) fn new(text: String, position: u32) -> SourceLink {
        SourceLink { text, position }
    }
}

/// What a prioritizer knows about a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The URL.
    pub url: Arc<str>,
    /// The domain it belongs to.
    pub domain: Domain,
    /// The number of links between it and the seed.
    pub depth: u32,
    /// How many of the pages crawled so far link to its domain.
    pub linking_pages: u32,
    /// The link through which it was found first, if the prioritizer
    /// [wants it](Prioritizer::wants_source_links). `None` for seeds and targets of redirects.
    pub source_link: Option<Arc<SourceLink>>,
}

/// Candidates that tests make.
pub trait CandidateInternals {
    /// A URL at a depth, with the number of pages that link to its domain.
    fn for_test(url: &str, depth: Depth, linking_pages: u32) -> Candidate;
}

#[doc(hidden)]
impl CandidateInternals for Candidate {
    fn for_test(url: &str, depth: Depth, linking_pages: u32) -> Candidate {
        Candidate {
            url: url.into(),
            domain: Domain::from_url_str(url),
            depth,
            linking_pages,
            source_link: None,
        }
    }
}

impl From<UnprioritizedUrl> for Candidate {
    fn from(url: UnprioritizedUrl) -> Candidate {
        let UnprioritizedUrl { url, domain, depth, linking_pages, source_link, .. } = url;
        Candidate { url, domain, depth, linking_pages, source_link }
    }
}

/// Counters of the requests to a service that a prioritizer uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServiceStats {
    /// Requests sent.
    pub requests: u64,
    /// Requests that failed.
    pub failures: u64,
    /// How many times a URL got the fallback priority.
    pub fallbacks: u64,
    /// Whether requests are sent, rather than suspended after failures.
    pub is_available: bool,
    /// The cause of the last failure.
    pub last_failure: Option<String>,
}

/// Future of [`Prioritizer::prioritize`]: one priority per candidate, in the order of the candidates.
pub type Priorities<'a> = Pin<Box<dyn Future<Output = Vec<Priority>> + Send + 'a>>;

/// Assigns priorities to URLs.
///
/// It gets URLs in batches, because an implementation may send network requests. It cannot fail: when a
/// service that it uses is unavailable, the crawl continues with fallback priorities.
///
/// ```
/// use crawler::{Candidate, Priorities, Prioritizer, Priority};
///
/// /// Crawls the documentation first.
/// struct DocsFirst;
///
/// impl Prioritizer for DocsFirst {
///     fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
///         let priority = |candidate: &Candidate| match candidate.url.contains("/docs/") {
///             true => Priority::BEST,
///             false => Priority::WORST,
///         };
///         Box::pin(async move { candidates.iter().map(priority).collect() })
///     }
/// }
/// ```
pub trait Prioritizer: Send + Sync {
    /// Returns one priority per candidate, in the order of the candidates. Several calls can run at a time.
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a>;

    /// The priority of a candidate, if it is known without waiting. [`prioritize`](Prioritizer::prioritize)
    /// gets only the other candidates, so a slow service does not delay these.
    fn known_priority(&self, _candidate: &Candidate) -> Option<Priority> {
        None
    }

    /// Whether candidates have their [source links](Candidate::source_link). They cost CPU time for each page,
    /// and memory for each waiting URL.
    fn wants_source_links(&self) -> bool {
        false
    }

    /// Takes the domains whose priorities have changed. Their waiting URLs are prioritized again. The crawl
    /// calls this twice per second.
    fn take_revised_domains(&self) -> Vec<Domain> {
        Vec::new()
    }
}

/// A shared prioritizer, which the program can use while the crawl does.
impl<T: Prioritizer + ?Sized> Prioritizer for Arc<T> {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        (**self).prioritize(candidates)
    }

    fn known_priority(&self, candidate: &Candidate) -> Option<Priority> {
        (**self).known_priority(candidate)
    }

    fn wants_source_links(&self) -> bool {
        (**self).wants_source_links()
    }

    fn take_revised_domains(&self) -> Vec<Domain> {
        (**self).take_revised_domains()
    }
}

/// The priority of a task, if it is known without waiting. A task that is no page needs no prioritizer: a requisite comes before
/// further pages, so that the pages so far are complete.
pub(crate) fn known_priority(prioritizer: &dyn Prioritizer, candidate: &Candidate) -> Option<Priority> {
    match TaskKind::from_task_url(&candidate.url) {
        TaskKind::Page => prioritizer.known_priority(candidate),
        TaskKind::Sitemap => Some(sitemap::priority(candidate.depth)),
        TaskKind::Requisite => Some(Priority::BEST),
        TaskKind::Probe => Some(Priority::WORST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_range_from_0_to_100() {
        assert_eq!(Priority::new(0), Some(Priority::BEST));
        assert_eq!(Priority::new(100), Some(Priority::WORST));
        assert_eq!(Priority::new(101), None);
        assert_eq!(Priority::all().count(), 101);
        assert!(Priority::BEST < Priority::MIDDLE && Priority::MIDDLE < Priority::WORST);
        for large in [101, 255, 256, 300, u32::MAX] {
            assert_eq!(Priority::at_most_worst(large), Priority::WORST);
        }
        assert_eq!(Priority::at_most_worst(7).number(), 7);
    }
}
