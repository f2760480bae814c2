//! Prioritizes by depth and by the number of pages that link to the domain, without an external service.

use super::{Candidate, Priorities, Prioritizer, Priority};

/// The effect of one level of depth, and of one doubling of the pages that link to the domain.
const STEP: u32 = 5;

/// The most levels and the most doublings that count: depth and popularity have the same weight, and together
/// span the range.
const STEPS: u32 = 10;

/// The default prioritizer: lower depth and more linking pages are better.
///
/// A seed has priority 0. Every other URL starts at 50. Each level of depth adds 5, up to ten levels. The
/// first page that links to its domain subtracts 5, and each doubling of their number another 5, up to ten
/// times (512 pages):
///
/// | linking pages | depth 1 | depth 2 | depth 5 | depth 10 and more |
/// |---|---|---|---|---|
/// | 0 | 55 | 60 | 75 | 100 |
/// | 1 | 50 | 55 | 70 | 95 |
/// | 8 to 15 | 35 | 40 | 55 | 80 |
/// | 512 and more | 5 | 10 | 25 | 50 |
///
/// Greater depth is never better, and more linking pages are never worse. Pages of the domain itself count
/// too.
#[derive(Debug, Clone, Copy, Default)]
pub struct DepthPopularity;

impl DepthPopularity {
    /// The priority of one URL.
    #[doc(hidden)]
    pub fn priority(candidate: &Candidate) -> Priority {
        if candidate.depth == 0 {
            return Priority::BEST;
        }
        let levels = candidate.depth.min(STEPS);
        // The bit length of a number is 1 for 1, and one more whenever the number doubles.
        let doublings = (u32::BITS - candidate.linking_pages.leading_zeros()).min(STEPS);
        Priority::at_most_worst(STEP * (STEPS + levels - doublings))
    }
}

impl Prioritizer for DepthPopularity {
    fn prioritize<'a>(&'a self, candidates: &'a [Candidate]) -> Priorities<'a> {
        Box::pin(async { candidates.iter().map(DepthPopularity::priority).collect() })
    }

    fn known_priority(&self, candidate: &Candidate) -> Option<Priority> {
        Some(DepthPopularity::priority(candidate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prioritizer::CandidateInternals as _;
    use proptest::prelude::*;

    fn candidate(depth: u32, linking_pages: u32) -> Candidate {
        Candidate::for_test("http://example.org/", depth, linking_pages)
    }

    fn number(depth: u32, linking_pages: u32) -> u8 {
        DepthPopularity::priority(&candidate(depth, linking_pages)).number()
    }

    #[test]
    fn documented_table_is_correct() {
        let rows: [(&[u32], [u8; 4]); 4] = [
            (&[0], [55, 60, 75, 100]),
            (&[1], [50, 55, 70, 95]),
            (&[8, 15], [35, 40, 55, 80]),
            (&[512, u32::MAX], [5, 10, 25, 50]),
        ];
        for (pages, expected) in rows {
            for pages in pages {
                assert_eq!([1, 2, 5, 10].map(|depth| number(depth, *pages)), expected, "{pages} pages");
                assert_eq!(number(u32::MAX, *pages), expected[3]);
            }
        }
        assert_eq!(number(0, 0), 0);
    }

    #[tokio::test]
    async fn priorities_are_in_the_order_of_the_candidates() {
        let candidates = [candidate(10, 0), candidate(0, 5), candidate(1, 1)];
        let numbers = DepthPopularity.prioritize(&candidates).await.into_iter().map(Priority::number);
        assert_eq!(numbers.collect::<Vec<_>>(), [100, 0, 50]);
    }

    proptest! {
        #[test]
        fn greater_depth_is_never_better_and_more_linking_pages_are_never_worse(
            depth in 0..30u32,
            more_depth in 0..30u32,
            pages in prop_oneof![0..40u32, any::<u32>()],
            more_pages in prop_oneof![0..40u32, any::<u32>()],
        ) {
            prop_assert!(number(depth + more_depth, pages) >= number(depth, pages));
            prop_assert!(number(depth, pages.saturating_add(more_pages)) <= number(depth, pages));
        }
    }
}
