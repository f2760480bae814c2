//! Which URL goes first: priorities, the queues they are filed in, and how one of the queues is drawn.

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

pub use self::depth_popularity::DepthPopularity;
pub use self::draw::{draw, weight};
pub use self::pagerank::PageRank;
pub use self::popularity::Popularity;
pub use self::queues::PriorityQueues;
pub use self::random::Random;
use crate::domain::Domain;
use crate::task::Depth;

/// How soon a URL is wanted: 0 first, 100 last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// The first.
    pub const BEST: Priority = Priority(0);
    /// In the middle: for what nothing is known about.
    pub const MIDDLE: Priority = Priority(50);
    /// The last.
    pub const WORST: Priority = Priority(100);

    /// The priority of this number, if it is one from 0 to 100.
    pub fn new(number: u8) -> Option<Priority> {
        (number <= Priority::WORST.0).then_some(Priority(number))
    }

    /// The priority of this number, the worst one if it is larger than any.
    pub fn at_most_worst(number: u32) -> Priority {
        u8::try_from(number).ok().and_then(Priority::new).unwrap_or(Priority::WORST)
    }

    /// Its number, 0 to 100.
    pub fn number(self) -> u8 {
        self.0
    }

    /// All of them, best first.
    pub fn all() -> impl Iterator<Item = Priority> {
        (Priority::BEST.0..=Priority::WORST.0).map(Priority)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is known of a URL at the moment it is filed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The domain it belongs to.
    pub domain: Domain,
    /// How many hops it is from the seed.
    pub depth: Depth,
    /// How many distinct pages seen so far link to its domain; [`Popularity`] counts them.
    pub linking_pages: u32,
}

/// Priorities on their way: one for each candidate, in the candidates' order.
pub type Priorities<'a> = Pin<Box<dyn Future<Output = Vec<Priority>> + Send + 'a>>;

/// A way to tell how soon URLs are wanted.
///
/// It takes many at once, because some ways cost a request over the network. And it always has an answer: a
/// crawl goes on, in whatever order, when something that helps to order it is out of reach.
pub trait Prioritizer: Send + Sync {
    /// One priority for each candidate, in their order.
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a>;

    /// What it is called where crawls are compared: one that is resumed goes by the same priorities.
    fn name(&self) -> String {
        "of its own".to_owned()
    }
}

/// A shared prioritizer, whose statistics can be read while the crawl uses it.
impl<T: Prioritizer + ?Sized> Prioritizer for Arc<T> {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        (**self).prioritize(candidates)
    }

    fn name(&self) -> String {
        (**self).name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_go_from_0_to_100() {
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
