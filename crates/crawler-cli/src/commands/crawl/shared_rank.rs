//! A PageRank prioritizer of which somebody else keeps the count.

use std::sync::Arc;

use crawler::internal::prioritizer::{Candidate, PageRank, Priorities, Prioritizer};

/// Prioritizes as the PageRank does that it shares.
pub struct SharedRank(pub Arc<PageRank>);

impl Prioritizer for SharedRank {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        self.0.prioritize(candidates)
    }

    fn name(&self) -> String {
        self.0.name()
    }
}
