//! A task: one URL to visit, how far it is from the seed, and how many redirects led to it.

use url::Url;

/// Hops from the seed; the seed's own depth is 0.
pub type Depth = u32;

/// One URL to visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The normalised URL: no fragment, no credentials.
    pub url: Url,
    /// The fewest hops from the seed known when the task was handed out.
    pub depth: Depth,
    /// How many redirects in a row led here; 0 for a link or a seed.
    pub redirects: u8,
}
